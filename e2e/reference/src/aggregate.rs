// SPDX-License-Identifier: Apache-2.0
//! Reference model of the ACK and NAK aggregation of one group at one node: the rules that the BPF programs must follow.
//!
//! The kernel implements the same rules with a minimum tree in constant steps (`bpf/c/node/aggregate.h`). Here each rule
//! is written out with the number of its protocol decision; a differential test compares the two implementations.
//! PSNs are unwrapped to 64 bits. They are plain numbers, because the arithmetic is a subject of the comparison, and a PSN on the
//! wire has fewer than 24 bits in the model.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use canopy_units::Monotonic;

/// Constants of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Params {
    /// Unwrapped start PSN; at least the size of the PSN space.
    pub start: u64,
    /// W, packets: how far feedback may lie below the minimum, and data from the newest PSN; less than a quarter of the PSN
    /// space.
    pub window: u64,
    /// Minimum interval between repeated upstream ACKs.
    pub reack: Duration,
    /// Identical NAKs are merged for this long.
    pub nak_merge: Duration,
    /// Bits of a PSN: 24 on the wire, fewer for model checking.
    pub psn_bits: u32,
    /// The node may have lost the state of the session: it does not know whether it has acknowledged the first packet.
    pub lost: bool,
}

/// Reason of a NAK.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Nak {
    /// PSN sequence error (syndrome 0x60).
    Sequence,
    /// Receiver not ready, with the IBTA timer code 0..=31; 0 is the longest.
    Rnr(u8),
}

impl Nak {
    /// AETH syndrome.
    pub fn syndrome(self) -> u8 {
        match self {
            Self::Sequence => 0x60,
            Self::Rnr(timer) => 0x20 | timer,
        }
    }

    /// Priority among NAKs of branches at the same PSN, the lowest rank first: RNR before sequence errors, longer timers before
    /// shorter (3.7).
    fn rank(self) -> u8 {
        match self {
            Self::Rnr(0) => 0,
            Self::Rnr(timer) => 32 - timer,
            Self::Sequence => 62,
        }
    }
}

/// How a branch joins the group (3.9).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Entry {
    /// No receiver behind the branch was a member before: it starts at the next message boundary, a receiver once its queue pair
    /// has proved to be fresh (3.13). Otherwise it holds an unknown part of the data, and no feedback is sent upstream until the
    /// branch is confirmed.
    pub at_boundary: bool,
    /// A receiver rather than a child node.
    pub receiver: bool,
    /// Epoch of the group that added the branch, or that moved receivers behind it.
    pub since: u32,
    /// Where a receiver that joined late started, at a node that has lost its state (3.13).
    pub start: Start,
    /// A late receiver that may have started at this node before it lost its state: it never starts, and nothing is acknowledged
    /// until it has been removed.
    pub lost: bool,
}

/// Where a late receiver started; zero for all others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Start {
    /// How many PSNs its own are behind those of the group, 24 bits.
    pub shift: u32,
    /// Messages that the group had completed before, 24 bits.
    pub msn_base: u32,
}

/// An input of the aggregation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Input {
    /// A data packet is forwarded downstream.
    Data {
        /// PSN on the wire.
        psn: u32,
        /// FIRST or ONLY: the packet starts a message.
        begins: bool,
    },
    /// A branch acknowledges everything up to `psn`.
    Ack {
        /// Which branch.
        branch: u32,
        /// Epoch of a child node; ignored for a receiver.
        epoch: u32,
        /// BTH PSN, the acknowledged one.
        psn: u32,
        /// AETH MSN.
        msn: u32,
        /// AETH credit count, 0..=31.
        credits: u8,
    },
    /// A branch expects `psn` next and reports why it does not have it.
    Nak {
        /// Which branch.
        branch: u32,
        /// Epoch of a child node; ignored for a receiver.
        epoch: u32,
        /// BTH PSN, the expected one.
        psn: u32,
        /// AETH MSN.
        msn: u32,
        /// The reason.
        nak: Nak,
    },
    /// A receiver's queue pair is in error at `psn` (3.7).
    Fatal {
        /// Which branch.
        branch: u32,
        /// Epoch of a child node, which never sends one.
        epoch: u32,
        /// BTH PSN, of the packet that it refused.
        psn: u32,
        /// AETH syndrome, 0x61..=0x64.
        syndrome: u8,
    },
    /// A branch joins, or receivers moved behind an existing branch (`since` grew).
    Join(u32, Entry),
    /// A branch leaves.
    Leave(u32),
    /// Periodic poll: a node that has only pending branches must not block the group.
    PendingOnly,
    /// The node's program of this epoch is active: upstream feedback carries this epoch.
    Adopt(u32),
    /// Shortly after a program was adopted: the parent may have dropped earlier feedback as ahead of its own program.
    Repeat,
}

/// Feedback sent upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Feedback {
    /// AETH syndrome: credits of an ACK, or a NAK code.
    pub syndrome: u8,
    /// BTH PSN.
    pub psn: u32,
    /// AETH MSN, 24 bits.
    pub msn: u32,
}

/// Why an input changed nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// Feedback of an unknown branch, or of one that has not started (I3).
    Inactive,
    /// The PSN is outside the window, or no data was sent yet (3.3).
    Window,
    /// A NAK below the PSN that its branch has acknowledged since (3.4).
    Ghost,
    /// Feedback that a child node sent before receivers moved behind it (3.9).
    EpochOld,
    /// Feedback of a child node whose program is newer than this node's (3.9).
    EpochAhead,
    /// A fatal NAK of a child node, which keeps those of its receivers (3.11).
    Malformed,
}

/// Counters of received and sent packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Counters {
    /// ACKs accepted.
    pub acks_in: u64,
    /// ACKs sent upstream.
    pub acks_out: u64,
    /// NAKs accepted.
    pub naks_in: u64,
    /// NAKs sent upstream.
    pub naks_out: u64,
    /// Data packets forwarded downstream.
    pub data_packets: u64,
    /// Those of them that raised the highest PSN.
    pub fresh_packets: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Branch {
    /// Once confirmed, the branch holds everything below this PSN.
    next_psn: u64,
    confirmed: bool,
    nak: Option<Nak>,
    nak_received: Monotonic,
    msn: u64,
    credits: u8,
    join_point: Entry,
    /// A late receiver counts PSNs from the group's start PSN, with which its QP was configured: so many behind the group.
    shift: u64,
    /// MSN of the group when a late branch started to count messages.
    msn_base: u64,
    /// Syndrome and PSN of the first fatal NAK (3.11).
    fatal: Option<(u8, u64)>,
    completed_min: u64,
}

/// One group at one node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Aggregation {
    params: Params,
    /// Epoch of the active program.
    epoch: u32,
    /// Highest data PSN sent downstream + 1; 0: no data was sent yet.
    high: u64,
    position: u64,
    /// Minimum last sent upstream; 0: send it as soon as it is known.
    reported: u64,
    /// PSN, reason and time of the NAK last sent upstream.
    reported_nak: Option<(u64, Nak, Monotonic)>,
    last_nak_psn: u64,
    reacked: Monotonic,
    /// PSN and time of the last retransmission's start.
    go_back: (u64, Monotonic),
    branches: BTreeMap<u32, Branch>,
    pending: BTreeMap<u32, Entry>,
    /// Late receivers whose queue pair has not proved to be fresh (3.13).
    probing: BTreeMap<u32, Entry>,
    /// Branches that started last, and their start PSN: retransmissions below it are not sent to them.
    late: BTreeSet<u32>,
    late_from: u64,
    /// An ACK was sent upstream.
    has_acked: bool,
    /// MSN last sent upstream: sent while only pending branches exist, and the base of those that start then.
    reported_msn: u64,
    /// `counters.data_packets` at the last [`Input::PendingOnly`].
    data_packets_polled: u64,
    /// ACKs and NAKs sent and data packets forwarded when a repetition was last due.
    repeat_checked_at: u64,
    counters: Counters,
}

/// MSNs are 24 bits and start one turn above zero, so that nothing underflows.
const TURN: u64 = 1 << 24;
/// Bits of an epoch in feedback between nodes; epochs are compared in these bits only.
pub const EPOCH_BITS: u32 = 14;

/// The 64-bit number nearest to `base` whose low `bits` are those of `low`.
fn unwrap(base: u64, low: u32, bits: u32) -> u64 {
    let d = (low.wrapping_sub(base as u32) << (32 - bits)) as i32 >> (32 - bits);
    base.wrapping_add_signed(d.into())
}

/// Epoch `a` is `b` or later.
fn not_before(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) << (32 - EPOCH_BITS)) as i32 >= 0
}

impl Aggregation {
    /// No data, no branches, the program of `epoch` active. A node that lost its state starts like this too.
    pub fn new(params: Params, epoch: u32) -> Self {
        Self {
            params,
            epoch,
            high: 0,
            position: 0,
            reported: 0,
            reported_nak: None,
            last_nak_psn: 0,
            reacked: Monotonic::START,
            go_back: (0, Monotonic::START),
            branches: BTreeMap::new(),
            pending: BTreeMap::new(),
            probing: BTreeMap::new(),
            late: BTreeSet::new(),
            late_from: 0,
            has_acked: false,
            reported_msn: TURN,
            data_packets_polled: 0,
            repeat_checked_at: 0,
            counters: Counters::default(),
        }
    }

    /// The lowest next PSN of all branches; `None` without branches, before data, or while a branch is unconfirmed.
    pub fn minimum(&self) -> Option<u64> {
        (self.high != 0 && self.all_confirmed()).then(|| self.base()).flatten()
    }

    /// Epoch of the active program, which this node's feedback carries.
    pub fn epoch(&self) -> u32 {
        self.epoch
    }

    /// Highest data PSN sent down + 1; `None` before data.
    pub fn high(&self) -> Option<u64> {
        (self.high != 0).then_some(self.high)
    }

    /// Active branches.
    pub fn active(&self) -> impl Iterator<Item = u32> {
        self.branches.keys().copied()
    }

    /// Branches that wait for the start of a message.
    pub fn pending(&self) -> impl Iterator<Item = u32> {
        self.pending.keys().copied()
    }

    /// Epoch that added the branch, active, pending or probed, or that moved receivers behind it; `None` if it is none of them.
    pub fn since(&self, branch: u32) -> Option<u32> {
        let active = self.branches.get(&branch).map(|b| &b.join_point);
        let waits = self.pending.get(&branch).or_else(|| self.probing.get(&branch));
        waits.or(active).map(|join_point| join_point.since)
    }

    /// Where a receiver started at a message at this node; `None` for all others.
    pub fn start(&self, branch: u32) -> Option<Start> {
        let late = self.branches.get(&branch).filter(|b| b.join_point.at_boundary && b.join_point.receiver)?;
        Some(Start { shift: late.shift as u32 & 0xFF_FFFF, msn_base: late.msn_base as u32 & 0xFF_FFFF })
    }

    /// Branches that get a copy of the last data packet, each with the offset to subtract from the PSN of its copy.
    pub fn copies(&self) -> impl Iterator<Item = (u32, u64)> {
        let before = self.position <= self.late_from;
        let included = move |(slot, _): &(&u32, &Branch)| !(before && self.late.contains(slot));
        self.branches.iter().filter(included).map(|(slot, b)| (*slot, b.shift))
    }

    /// Next PSN of `branch`; `None` if the branch is unknown or unconfirmed.
    pub fn next(&self, branch: u32) -> Option<u64> {
        self.branches.get(&branch).filter(|b| b.confirmed && self.high != 0).map(|b| b.next_psn)
    }

    /// Syndrome and PSN of the fatal NAK of `branch`.
    pub fn fatal(&self, branch: u32) -> Option<(u8, u64)> {
        self.branches.get(&branch)?.fatal
    }

    /// PSNs by which feedback of `branch` raised a known minimum, since it joined: all other branches had acknowledged them.
    pub fn completed_min(&self, branch: u32) -> u64 {
        self.branches.get(&branch).map_or(0, |b| b.completed_min)
    }

    /// Late receivers whose queue pair is probed: it proves to be fresh with a NAK of the start PSN, or an ACK of the one before.
    pub fn probing(&self) -> impl Iterator<Item = u32> {
        self.probing.keys().copied()
    }

    /// Whether the branch may have started before the node lost its state.
    pub fn is_lost(&self, branch: u32) -> bool {
        self.probing.get(&branch).is_some_and(|entry| entry.lost)
    }

    /// Counters since the start.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Clears counters, and times beyond their order, so that states with the same future compare equal. For model checking
    /// with intervals of zero or infinity.
    pub fn canonical(mut self) -> Self {
        (self.counters, self.data_packets_polled, self.repeat_checked_at) = (Counters::default(), 0, 0);
        self.reacked = Monotonic::START;
        let received = self.branches.values().map(|b| b.nak_received);
        let mut times: Vec<Monotonic> = received.chain([Monotonic::START, self.go_back.1]).collect();
        times.sort_unstable();
        times.dedup();
        let rank = |t: Monotonic| Monotonic::from_nanos(times.binary_search(&t).map_or(0, |r| r as u64));
        self.go_back.1 = rank(self.go_back.1);
        self.branches.values_mut().for_each(|b| (b.nak_received, b.completed_min) = (rank(b.nak_received), 0));
        if let Some((_, _, when)) = &mut self.reported_nak {
            *when = Monotonic::START;
        }
        self
    }

    /// Processes one input at `now` (increasing, after [`Monotonic::START`]); returns the feedback to send upstream.
    ///
    /// # Errors
    /// The reason why the input changed nothing.
    pub fn handle(&mut self, input: Input, now: Monotonic) -> Result<Option<Feedback>, Refusal> {
        match input {
            Input::Data { psn, begins } => self.data(psn, begins, now).map(|()| None),
            Input::Ack { branch, epoch, psn, msn, credits } => self.ack(branch, epoch, (psn, msn), credits, now),
            Input::Nak { branch, epoch, psn, msn, nak } => self.nak(branch, epoch, (psn, msn), nak, now),
            Input::Fatal { branch, epoch, psn, syndrome } => {
                self.fatal_nak(branch, epoch, psn, syndrome).map(|()| None)
            }
            Input::Join(branch, join_point) => {
                self.join(branch, join_point);
                Ok(None)
            }
            // 3.9: the minimum is recomputed and sent at once; without branches there is no ACK.
            Input::Leave(branch) => {
                self.branches.remove(&branch);
                self.pending.remove(&branch);
                self.probing.remove(&branch);
                self.late.remove(&branch);
                Ok(self.advance(now))
            }
            Input::PendingOnly => Ok(self.acknowledge_pending_only()),
            Input::Adopt(epoch) => {
                self.epoch = epoch;
                Ok(None)
            }
            Input::Repeat => Ok(self.repeat(now)),
        }
    }

    /// 3.9: sends the last ACK or NAK upstream once more. Does nothing before the first one, and while feedback or data passes
    /// between two calls.
    fn repeat(&mut self, now: Monotonic) -> Option<Feedback> {
        let passed = |c: &Counters| c.acks_out + c.naks_out + c.data_packets;
        let recent = std::mem::replace(&mut self.repeat_checked_at, passed(&self.counters)) != passed(&self.counters);
        if recent || self.reported == 0 || self.high == 0 || !self.all_confirmed() {
            return None;
        }
        let repeated = match self.lowest() {
            None if !self.waits() => return None,
            None => {
                self.count_ack();
                self.feedback(31, self.reported - 1)
            }
            Some((minimum, Branch { nak: Some(nak), nak_received, .. })) if !self.was_resent(minimum, nak_received) => {
                self.send_nak(nak, now)
            }
            Some(_) => self.send_ack(),
        };
        self.repeat_checked_at = passed(&self.counters);
        Some(repeated)
    }

    /// 3.9: all branches are late and wait for the start of a message. They do not need data forwarded meanwhile: without an
    /// ACK for it, the current message, and so the wait, would never end. Repeated after more data, because an ACK may be lost.
    fn acknowledge_pending_only(&mut self) -> Option<Feedback> {
        let polled = std::mem::replace(&mut self.data_packets_polled, self.counters.data_packets);
        let forwarded = polled != self.counters.data_packets;
        if !self.branches.is_empty() || !self.waits() || !forwarded || self.high == 0 || !self.all_confirmed() {
            return None;
        }
        self.reported = self.high;
        self.count_ack();
        Some(self.feedback(31, self.high - 1))
    }

    /// A branch waits for a message, or for its queue pair to prove that it is fresh.
    fn waits(&self) -> bool {
        !self.pending.is_empty() || !self.probing.is_empty()
    }

    /// 3.13: whether an answer to a probe proves that the queue pair is fresh. `None`: the branch is not probed.
    fn probed(&mut self, branch: u32, psn: u32, fresh: u64) -> Option<Result<(), Refusal>> {
        let join_point = *self.probing.get(&branch)?;
        let mask = u64::MAX >> (64 - self.params.psn_bits);
        if join_point.lost || (u64::from(psn) ^ fresh) & mask != 0 {
            return Some(Err(Refusal::Inactive));
        }
        self.probing.remove(&branch);
        self.pending.insert(branch, join_point);
        Some(Ok(()))
    }

    fn base(&self) -> Option<u64> {
        self.branches.values().map(|b| b.next_psn).min()
    }

    fn all_confirmed(&self) -> bool {
        self.branches.values().all(|b| b.confirmed) && !self.probing.values().any(|entry| entry.lost)
    }

    /// 3.9: the branch starts at a message boundary; or at once, and nothing is acknowledged until it is confirmed.
    fn join(&mut self, branch: u32, join_point: Entry) {
        if self.branches.get(&branch).is_some_and(|b| join_point.at_boundary || b.join_point.since == join_point.since)
        {
            return;
        }
        let waits = self.pending.get(&branch).or_else(|| self.probing.get(&branch));
        if join_point.at_boundary && waits.is_some_and(|entry| entry.since == join_point.since) {
            return;
        }
        if join_point.at_boundary && join_point.receiver {
            self.pending.remove(&branch);
            // Also what was acknowledged before is not repeated: the lost receiver may not hold it.
            if join_point.lost {
                self.reported = 0;
            }
            self.probing.insert(branch, join_point);
            return;
        }
        // A node without data may have lost its state: a child node that is not confirmed may lack any packet.
        if join_point.at_boundary && self.high != 0 {
            self.pending.insert(branch, join_point);
            return;
        }
        // It holds an unknown part of the data.
        let fresh = Branch {
            next_psn: 0,
            confirmed: false,
            nak: None,
            nak_received: Monotonic::START,
            msn: TURN,
            credits: 31,
            join_point,
            shift: join_point.start.shift.into(),
            msn_base: join_point.start.msn_base.into(),
            fatal: None,
            // The slot still has what the branch completed before receivers moved behind it.
            completed_min: self.completed_min(branch),
        };
        self.branches.insert(branch, fresh);
        self.pending.remove(&branch);
        self.probing.remove(&branch);
        self.late.remove(&branch);
        self.reported = 0;
    }

    fn data(&mut self, psn: u32, begins: bool, now: Monotonic) -> Result<(), Refusal> {
        let p = self.params;
        if self.high == 0 {
            let v = unwrap(p.start, psn, p.psn_bits);
            (self.high, self.position) = (v, v);
        }
        let v = unwrap(self.high, psn, p.psn_bits);
        if v > self.high + p.window || v + p.window < self.high {
            return Err(Refusal::Window);
        }
        if v < self.position {
            self.go_back = (v, now);
            // 3.6: the retransmission is forwarded downstream.
            if v <= self.last_nak_psn {
                self.reported_nak = None;
            }
        }
        self.position = v + 1;
        // A node without active branches also starts with a retransmitted message, unless it acknowledged that message: if the
        // first copy was lost, no other message may follow.
        // One boundary at a time: every branch must have passed the last one, because `late_from` is a single PSN.
        let passed = self.reported >= self.late_from;
        // Not while a branch is unconfirmed: a node that has lost its state does not know yet what is new.
        let at_new = v >= self.high && passed && !self.lacks_first();
        let at_message = self.all_confirmed() && (at_new || self.branches.is_empty() && v >= self.reported);
        if begins && !self.pending.is_empty() && (at_message || self.starts_with_first(v)) {
            self.start_pending(v);
        }
        if v >= self.high {
            self.high = v + 1;
            self.counters.fresh_packets += 1;
        }
        self.counters.data_packets += 1;
        Ok(())
    }

    /// 3.13: before the session's first packet no branch is confirmed, and a source that waited for late receivers sends it for them
    /// too: they start with it, also where it comes again because a link lost it. Not where this node has acknowledged it, or may have.
    fn starts_with_first(&self, v: u64) -> bool {
        let start = self.params.start;
        let is_new = !self.params.lost && !self.has_acked && self.last_nak_psn <= start;
        v == start && is_new && self.late_from <= start
    }

    /// A branch lacks the session's first packet: it comes again, and pending branches wait for it. Not where this node has acknowledged
    /// something: one that comes into the tree of a long session takes its packets for older than the first.
    fn lacks_first(&self) -> bool {
        !self.params.lost && !self.has_acked && self.base().is_some_and(|base| base <= self.params.start)
    }

    /// Activates the pending branches at `next_psn`; they do not need earlier data.
    fn start_pending(&mut self, next_psn: u64) {
        let msn = self.branches.values().map(|b| b.msn).min().unwrap_or(self.reported_msn);
        self.late = self.pending.keys().copied().collect();
        self.late_from = next_psn;
        for (branch, join_point) in std::mem::take(&mut self.pending) {
            let shift = if join_point.receiver { next_psn.wrapping_sub(self.params.start) } else { 0 };
            let late = Branch {
                next_psn,
                confirmed: true,
                nak: None,
                nak_received: Monotonic::START,
                msn,
                credits: 31,
                join_point,
                shift,
                msn_base: msn & 0xFF_FFFF,
                fatal: None,
                completed_min: 0,
            };
            self.branches.insert(branch, late);
        }
    }

    /// 3.3: accepts a PSN, unwrapped near the newest, within [minimum - W, high], or [high - W, high] without a minimum, once
    /// data was sent. 3.9: only with since <= epoch <= own epoch, because a child with a newer program may have stopped counting
    /// a receiver that no other branch of this node counts yet.
    fn accept(&self, branch: u32, epoch: u32, psn: u32, held_more: u64) -> Result<u64, Refusal> {
        let b = self.branches.get(&branch).ok_or(Refusal::Inactive)?;
        if self.high == 0 {
            return Err(Refusal::Window);
        }
        let base = self.minimum().unwrap_or(self.high);
        if !b.join_point.receiver && !not_before(epoch, b.join_point.since) {
            return Err(Refusal::EpochOld);
        }
        if !b.join_point.receiver && !not_before(self.epoch, epoch) {
            return Err(Refusal::EpochAhead);
        }
        let next_psn = unwrap(self.high, psn.wrapping_add(b.shift as u32), self.params.psn_bits) + held_more;
        if next_psn <= self.high && next_psn + self.params.window >= base { Ok(next_psn) } else { Err(Refusal::Window) }
    }

    fn ack(
        &mut self,
        branch: u32,
        epoch: u32,
        (psn, msn): (u32, u32),
        credits: u8,
        now: Monotonic,
    ) -> Result<Option<Feedback>, Refusal> {
        if let Some(probed) = self.probed(branch, psn, self.params.start - 1) {
            return probed.map(|()| None);
        }
        let next_psn = self.accept(branch, epoch, psn, 1)?;
        let Some(b) = self.branches.get(&branch).copied() else { return Err(Refusal::Inactive) };
        self.counters.acks_in += 1;
        if next_psn > b.next_psn || !b.confirmed {
            let msn = unwrap(b.msn, msn.wrapping_add(b.msn_base as u32), 24);
            self.confirm(branch, Branch { next_psn, confirmed: true, nak: None, msn, credits, ..b });
            return Ok(self.advance(now));
        }
        // 3.5: repeated, because the upstream ACK may have been lost.
        if self.reported != 0 && now.since(self.reacked) >= self.params.reack {
            self.reacked = now;
            return Ok(Some(self.send_ack()));
        }
        Ok(None)
    }

    fn nak(
        &mut self,
        branch: u32,
        epoch: u32,
        (psn, msn): (u32, u32),
        nak: Nak,
        now: Monotonic,
    ) -> Result<Option<Feedback>, Refusal> {
        if nak == Nak::Sequence
            && let Some(probed) = self.probed(branch, psn, self.params.start)
        {
            return probed.map(|()| None);
        }
        let next_psn = self.accept(branch, epoch, psn, 0)?;
        let Some(b) = self.branches.get(&branch).copied() else { return Err(Refusal::Inactive) };
        if b.confirmed && next_psn < b.next_psn {
            return Err(Refusal::Ghost);
        }
        self.counters.naks_in += 1;
        // 3.4: a NAK acknowledges everything before it.
        let msn = unwrap(b.msn, msn.wrapping_add(b.msn_base as u32), 24);
        let confirmed = Branch { next_psn, confirmed: true, nak: Some(nak), nak_received: now, msn, ..b };
        self.confirm(branch, confirmed);
        if let Some(feedback) = self.advance(now) {
            return Ok(Some(feedback));
        }
        if self.reported == 0 {
            return Ok(None);
        }
        let Some((minimum, at)) = self.lowest() else { return Ok(None) };
        let merged = match (nak, at.nak) {
            // 3.7: an RNR NAK waits until its PSN is the minimum.
            (Nak::Rnr(_), Some(Nak::Sequence) | None) => return Ok(None),
            (_, Some(lowest)) => lowest,
            // 3.6: the lowest branch has no NAK; its next PSN is the ePSN.
            (Nak::Sequence, None) => Nak::Sequence,
        };
        if let Some((psn, last, when)) = self.reported_nak
            && (psn, last) == (minimum, merged)
            && now.since(when) < self.params.nak_merge
        {
            return Ok(None);
        }
        Ok(Some(self.send_nak(merged, now)))
    }

    /// Stores what feedback of `branch` makes of it, and counts the PSNs by which that raises the minimum, if it was known.
    fn confirm(&mut self, branch: u32, mut confirmed: Branch) {
        let before = self.minimum();
        self.branches.insert(branch, confirmed);
        if let Some((before, after)) = before.zip(self.minimum()) {
            confirmed.completed_min += after - before;
            self.branches.insert(branch, confirmed);
        }
    }

    /// 3.7: never merged; 3.11: checked like other feedback, and kept.
    fn fatal_nak(&mut self, branch: u32, epoch: u32, psn: u32, syndrome: u8) -> Result<(), Refusal> {
        let at = self.accept(branch, epoch, psn, 0)?;
        let Some(b) = self.branches.get_mut(&branch) else { return Err(Refusal::Inactive) };
        if !b.join_point.receiver {
            return Err(Refusal::Malformed);
        }
        if b.confirmed && at < b.next_psn {
            return Err(Refusal::Ghost);
        }
        b.fatal.get_or_insert((syndrome, at));
        Ok(())
    }

    /// The branch with the lowest next PSN; among equals, the one whose NAK has priority.
    fn lowest(&self) -> Option<(u64, Branch)> {
        self.branches.values().min_by_key(|b| (b.next_psn, b.nak.map_or(63, Nak::rank))).map(|b| (b.next_psn, *b))
    }

    /// Sends an ACK when the minimum rose (3.5), or a NAK that was held until its PSN became the minimum (3.6); nothing while a
    /// branch is unconfirmed (3.9).
    fn advance(&mut self, now: Monotonic) -> Option<Feedback> {
        if self.high == 0 || !self.all_confirmed() {
            return None;
        }
        let (minimum, at) = self.lowest().filter(|(m, _)| *m > self.reported)?;
        self.reported = minimum;
        match at.nak {
            Some(Nak::Sequence) if self.was_resent(minimum, at.nak_received) => Some(self.send_ack()),
            Some(nak) => Some(self.send_nak(nak, now)),
            None => Some(self.send_ack()),
        }
    }

    /// Whether `minimum` was retransmitted downstream after its NAK was received at `nak_received`.
    fn was_resent(&self, minimum: u64, nak_received: Monotonic) -> bool {
        let (from, when) = self.go_back;
        when > nak_received && from <= minimum && self.position > minimum
    }

    /// 3.2: the minimum MSN in serial-number order, and the minimum of credits.
    fn feedback(&mut self, syndrome: u8, psn: u64) -> Feedback {
        let msn = self.branches.values().map(|b| b.msn).min().unwrap_or(self.reported_msn);
        self.reported_msn = msn;
        let mask = u64::MAX >> (64 - self.params.psn_bits);
        Feedback { syndrome, psn: (psn & mask) as u32, msn: msn as u32 & 0xFF_FFFF }
    }

    fn count_ack(&mut self) {
        self.counters.acks_out += 1;
        self.has_acked = true;
    }

    fn send_ack(&mut self) -> Feedback {
        self.count_ack();
        let credits = self.branches.values().map(|b| b.credits).min().unwrap_or(31);
        self.feedback(credits, self.base().unwrap_or(1) - 1)
    }

    fn send_nak(&mut self, nak: Nak, now: Monotonic) -> Feedback {
        self.counters.naks_out += 1;
        let next_psn = self.base().unwrap_or(0);
        self.reported_nak = Some((next_psn, nak, now));
        self.last_nak_psn = next_psn;
        self.feedback(nak.syndrome(), next_psn)
    }
}

#[cfg(test)]
mod tests;
