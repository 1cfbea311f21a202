// SPDX-License-Identifier: Apache-2.0
//! The reverse path of one group at one node, as a machine to read: what the BPF programs must do, rule by rule.
//!
//! The kernel does the same with a minimum tree in constant steps (`agent/bpf/include/aggregate.h`); here every rule is written
//! down plainly, with the number of the protocol decision that it carries out. A differential test holds the two together.
//! PSNs are unwrapped to 64 bits.

use std::collections::{BTreeMap, BTreeSet};

/// Constants of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Params {
    /// Unwrapped start PSN, at least one turn of the PSN space.
    pub start: u64,
    /// W: how far below the minimum feedback may lie, and data from the newest, packets, less than a quarter turn.
    pub window: u64,
    /// Shortest distance between repeated upstream ACKs, ns.
    pub reack_ns: u64,
    /// Identical NAKs are merged for this long, ns.
    pub nak_merge_ns: u64,
    /// Bits of a PSN: 24 on the wire, fewer for model checking.
    pub psn_bits: u32,
}

/// Why a branch does not go on.
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

    /// Lower speaks first among branches at one PSN: RNR before sequence errors, longer timers before shorter (3.7).
    fn rank(self) -> u8 {
        match self {
            Self::Rnr(0) => 0,
            Self::Rnr(timer) => 32 - timer,
            Self::Sequence => 62,
        }
    }
}

/// How a branch comes into the group (3.9).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Entry {
    /// Nobody behind it was in the group before: it starts at the next message boundary. Otherwise it holds an unknown
    /// part of what was sent, and nothing is said upstream until it was heard.
    pub at_boundary: bool,
    /// A receiver rather than a child node.
    pub receiver: bool,
    /// The group's epoch that brought it in, or that moved receivers behind it.
    pub since: u32,
}

/// What arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Input {
    /// A data packet passes down.
    Data {
        /// PSN on the wire.
        psn: u32,
        /// FIRST or ONLY: a message begins.
        begins: bool,
    },
    /// A branch acknowledges everything up to `psn`.
    Ack {
        /// Which branch.
        branch: u32,
        /// A child node's epoch; of no meaning for a receiver.
        epoch: u32,
        /// BTH PSN, the acknowledged one.
        psn: u32,
        /// AETH MSN.
        msn: u32,
        /// AETH credit count, 0..=31.
        credits: u8,
    },
    /// A branch expects `psn` next and says why it does not have it.
    Nak {
        /// Which branch.
        branch: u32,
        /// A child node's epoch; of no meaning for a receiver.
        epoch: u32,
        /// BTH PSN, the expected one.
        psn: u32,
        /// AETH MSN.
        msn: u32,
        /// Why.
        nak: Nak,
    },
    /// A branch joins, or receivers moved behind one that is there (`since` grew).
    Join(u32, Entry),
    /// A branch leaves.
    Leave(u32),
    /// Time passes: a node where nobody counts yet must hold nobody up.
    Vacant,
    /// The node's program of this epoch is in force: feedback goes upstream in its name.
    Adopt(u32),
    /// Shortly after a program was adopted: the parent may have dropped what was sent upstream as ahead of its own program.
    Repeat,
}

/// What goes upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Speech {
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
    /// Feedback of a branch that has not started, or is none (I3).
    Inactive,
    /// PSN outside the window, or nothing was sent yet (3.3).
    Window,
    /// A NAK below what its branch has acknowledged since (3.4).
    Ghost,
    /// Feedback that a child node sent before receivers moved behind it (3.9).
    EpochOld,
    /// Feedback of a child node whose program is newer than this node's (3.9).
    EpochAhead,
}

/// What was heard and said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Counters {
    /// ACKs taken in.
    pub acks_in: u64,
    /// ACKs said.
    pub acks_out: u64,
    /// NAKs taken in.
    pub naks_in: u64,
    /// NAKs said.
    pub naks_out: u64,
    /// Data packets passed down.
    pub data_packets: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Branch {
    /// Everything below is held, once it was heard.
    next: u64,
    heard: bool,
    nak: Option<Nak>,
    nak_heard: u64,
    msn: u64,
    credits: u8,
    entry: Entry,
    /// A receiver that came late counts PSNs from the group's start, as its QP was told: this far behind.
    shift: u64,
    /// What others had completed when a late branch began to count its messages.
    msn_base: u64,
}

/// One group at one node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Aggregation {
    params: Params,
    /// Epoch of the program in force.
    epoch: u32,
    /// 0: nothing was sent yet.
    high: u64,
    position: u64,
    /// 0: say the minimum as soon as it is known.
    told: u64,
    told_nak: Option<(u64, Nak, u64)>,
    last_nak_next: u64,
    repeated: u64,
    go_back: (u64, u64),
    branches: BTreeMap<u32, Branch>,
    pending: BTreeMap<u32, Entry>,
    /// Branches that started last, and where: what is sent again from below is none of theirs.
    late: BTreeSet<u32>,
    late_from: u64,
    /// Messages completed, as last said: what a node says while nobody counts, and those who then begin count from.
    msn_told: u64,
    /// Packets that had passed when it was last looked whether nobody counts.
    vacant_at: u64,
    counters: Counters,
}

/// MSNs are 24 bits and start one turn above zero, so that nothing underflows.
const TURN: u64 = 1 << 24;
/// Epochs are compared in the bits that feedback between nodes carries.
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
    /// Nothing sent, nobody joined, the program of `epoch` in force. A node that lost its state starts like this too.
    pub fn new(params: Params, epoch: u32) -> Self {
        Self {
            params,
            epoch,
            high: 0,
            position: 0,
            told: 0,
            told_nak: None,
            last_nak_next: 0,
            repeated: 0,
            go_back: (0, 0),
            branches: BTreeMap::new(),
            pending: BTreeMap::new(),
            late: BTreeSet::new(),
            late_from: 0,
            msn_told: TURN,
            vacant_at: 0,
            counters: Counters::default(),
        }
    }

    /// The lowest `next`; `None` without branches, before data, or while one of them was not heard.
    pub fn minimum(&self) -> Option<u64> {
        (self.high != 0 && self.all_heard()).then(|| self.base()).flatten()
    }

    /// Epoch of the program in force: what this node's feedback carries.
    pub fn epoch(&self) -> u32 {
        self.epoch
    }

    /// Highest data PSN sent down + 1; `None` before data.
    pub fn high(&self) -> Option<u64> {
        (self.high != 0).then_some(self.high)
    }

    /// Branches that count.
    pub fn active(&self) -> impl Iterator<Item = u32> {
        self.branches.keys().copied()
    }

    /// Branches that the last data packet goes to, each with what is subtracted from the PSN of its copy.
    pub fn copies(&self) -> impl Iterator<Item = (u32, u64)> {
        let before = self.position <= self.late_from;
        let mine = move |(slot, _): &(&u32, &Branch)| !(before && self.late.contains(slot));
        self.branches.iter().filter(mine).map(|(slot, b)| (*slot, b.shift))
    }

    /// What `branch` is known to hold everything below; `None` when it is none, or was not heard.
    pub fn next(&self, branch: u32) -> Option<u64> {
        self.branches.get(&branch).filter(|b| b.heard && self.high != 0).map(|b| b.next)
    }

    /// What was heard and said since the start.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Forgets what has no influence on what follows, so that equal situations are equal values: counters, and times
    /// beyond their order. For model checking with rates of "always" or "never".
    pub fn canonical(mut self) -> Self {
        (self.counters, self.vacant_at) = (Counters::default(), 0);
        self.repeated = 0;
        let mut times: Vec<u64> = self.branches.values().map(|b| b.nak_heard).chain([0, self.go_back.1]).collect();
        times.sort_unstable();
        times.dedup();
        let rank = |t: u64| times.binary_search(&t).map_or(0, |r| r as u64);
        self.go_back.1 = rank(self.go_back.1);
        self.branches.values_mut().for_each(|b| b.nak_heard = rank(b.nak_heard));
        if let Some((_, _, when)) = &mut self.told_nak {
            *when = 0;
        }
        self
    }

    /// Takes one input at `now` (ns, growing, not 0); returns what goes upstream.
    ///
    /// # Errors
    /// Why nothing changed.
    pub fn handle(&mut self, input: Input, now: u64) -> Result<Option<Speech>, Refusal> {
        match input {
            Input::Data { psn, begins } => self.data(psn, begins, now).map(|()| None),
            Input::Ack { branch, epoch, psn, msn, credits } => self.ack(branch, epoch, (psn, msn), credits, now),
            Input::Nak { branch, epoch, psn, msn, nak } => self.nak(branch, epoch, (psn, msn), nak, now),
            Input::Join(branch, entry) => {
                self.join(branch, entry);
                Ok(None)
            }
            // 3.9: the minimum is recomputed and told at once; of no branches there is no ACK.
            Input::Leave(branch) => {
                self.branches.remove(&branch);
                self.pending.remove(&branch);
                self.late.remove(&branch);
                Ok(self.advance(now))
            }
            Input::Vacant => Ok(self.vacant()),
            Input::Adopt(epoch) => {
                self.epoch = epoch;
                Ok(None)
            }
            Input::Repeat => Ok(self.repeat(now)),
        }
    }

    /// 3.9: sends the last ACK or NAK upstream once more. Does nothing before the first one.
    fn repeat(&mut self, now: u64) -> Option<Speech> {
        if self.told == 0 || self.high == 0 || !self.all_heard() {
            return None;
        }
        let Some((minimum, at)) = self.lowest() else {
            if self.pending.is_empty() {
                return None;
            }
            self.counters.acks_out += 1;
            return Some(self.speech(31, self.told - 1));
        };
        match at.nak {
            Some(nak) if !self.was_resent(minimum, at.nak_heard) => Some(self.say_nak(nak, now)),
            _ => Some(self.say_ack()),
        }
    }

    /// 3.9: late branches wait for a message to begin, and nobody else is here. What passed meanwhile is none of theirs: it is
    /// acknowledged, or the message under way, and so the wait, would never end. Again after more data: an ACK may be lost.
    fn vacant(&mut self) -> Option<Speech> {
        let passed = std::mem::replace(&mut self.vacant_at, self.counters.data_packets) != self.counters.data_packets;
        if !self.branches.is_empty() || self.pending.is_empty() || !passed || self.high == 0 {
            return None;
        }
        self.told = self.high;
        self.counters.acks_out += 1;
        Some(self.speech(31, self.high - 1))
    }

    fn base(&self) -> Option<u64> {
        self.branches.values().map(|b| b.next).min()
    }

    fn all_heard(&self) -> bool {
        self.branches.values().all(|b| b.heard)
    }

    /// 3.9: at a message boundary; or at once, with nothing acknowledged until it was heard.
    fn join(&mut self, branch: u32, entry: Entry) {
        if self.branches.get(&branch).is_some_and(|b| entry.at_boundary || b.entry.since == entry.since) {
            return;
        }
        // A node that knows of no data may have lost what it knew: a child that says nothing yet may lack anything.
        if entry.at_boundary && (entry.receiver || self.high != 0) {
            self.pending.insert(branch, entry);
            return;
        }
        // It holds an unknown part.
        let fresh = Branch {
            next: 0,
            heard: false,
            nak: None,
            nak_heard: 0,
            msn: TURN,
            credits: 31,
            entry,
            shift: 0,
            msn_base: 0,
        };
        self.branches.insert(branch, fresh);
        self.pending.remove(&branch);
        self.late.remove(&branch);
        self.told = 0;
    }

    fn data(&mut self, psn: u32, begins: bool, now: u64) -> Result<(), Refusal> {
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
            // 3.6: the retransmission is seen passing down.
            if v <= self.last_nak_next {
                self.told_nak = None;
            }
        }
        self.position = v + 1;
        // A node with nobody starts with a message sent again too, unless it said that it was held: its first copy was
        // lost, and nothing follows it.
        // One boundary at a time: those of the last one must have gone past it, so that one number says what is theirs.
        let past = self.told >= self.late_from;
        if begins && !self.pending.is_empty() && (v >= self.high && past || self.branches.is_empty() && v >= self.told)
        {
            self.start_pending(v);
        }
        self.high = self.high.max(v + 1);
        self.counters.data_packets += 1;
        Ok(())
    }

    /// They count from here: what came before is none of theirs.
    fn start_pending(&mut self, next: u64) {
        let msn = self.branches.values().map(|b| b.msn).min().unwrap_or(self.msn_told);
        self.late = self.pending.keys().copied().collect();
        self.late_from = next;
        for (branch, entry) in std::mem::take(&mut self.pending) {
            let shift = if entry.receiver { next.wrapping_sub(self.params.start) } else { 0 };
            let late = Branch {
                next,
                heard: true,
                nak: None,
                nak_heard: 0,
                msn,
                credits: 31,
                entry,
                shift,
                msn_base: msn & 0xFF_FFFF,
            };
            self.branches.insert(branch, late);
        }
    }

    /// 3.3: unwrapped near the newest, within [minimum - W, high] - or [high - W, high] while there is no minimum -, after
    /// something was sent; 3.9: since <= epoch <= own epoch, because a child with a newer program may have stopped counting a
    /// receiver that no other branch of this node counts yet.
    fn accept(&self, branch: u32, epoch: u32, psn: u32, held_more: u64) -> Result<u64, Refusal> {
        let b = self.branches.get(&branch).ok_or(Refusal::Inactive)?;
        if self.high == 0 {
            return Err(Refusal::Window);
        }
        let base = self.minimum().unwrap_or(self.high);
        if !b.entry.receiver && !not_before(epoch, b.entry.since) {
            return Err(Refusal::EpochOld);
        }
        if !b.entry.receiver && !not_before(self.epoch, epoch) {
            return Err(Refusal::EpochAhead);
        }
        let next = unwrap(self.high, psn.wrapping_add(b.shift as u32), self.params.psn_bits) + held_more;
        if next <= self.high && next + self.params.window >= base { Ok(next) } else { Err(Refusal::Window) }
    }

    fn ack(
        &mut self,
        branch: u32,
        epoch: u32,
        (psn, msn): (u32, u32),
        credits: u8,
        now: u64,
    ) -> Result<Option<Speech>, Refusal> {
        let next = self.accept(branch, epoch, psn, 1)?;
        let Some(b) = self.branches.get_mut(&branch) else { return Err(Refusal::Inactive) };
        self.counters.acks_in += 1;
        if next > b.next || !b.heard {
            let msn = unwrap(b.msn, msn.wrapping_add(b.msn_base as u32), 24);
            *b = Branch { next, heard: true, nak: None, msn, credits, ..*b };
            return Ok(self.advance(now));
        }
        // 3.5: said again, because the upstream ACK may have been lost.
        if self.told != 0 && now - self.repeated >= self.params.reack_ns {
            self.repeated = now;
            return Ok(Some(self.say_ack()));
        }
        Ok(None)
    }

    fn nak(
        &mut self,
        branch: u32,
        epoch: u32,
        (psn, msn): (u32, u32),
        nak: Nak,
        now: u64,
    ) -> Result<Option<Speech>, Refusal> {
        let next = self.accept(branch, epoch, psn, 0)?;
        let Some(b) = self.branches.get_mut(&branch) else { return Err(Refusal::Inactive) };
        if b.heard && next < b.next {
            return Err(Refusal::Ghost);
        }
        self.counters.naks_in += 1;
        // 3.4: a NAK acknowledges everything before it.
        let msn = unwrap(b.msn, msn.wrapping_add(b.msn_base as u32), 24);
        *b = Branch { next, heard: true, nak: Some(nak), nak_heard: now, msn, ..*b };
        if let Some(speech) = self.advance(now) {
            return Ok(Some(speech));
        }
        if self.told == 0 {
            return Ok(None);
        }
        let Some((minimum, at)) = self.lowest() else { return Ok(None) };
        let say = match (nak, at.nak) {
            // 3.7: an RNR NAK waits until its PSN is the minimum.
            (Nak::Rnr(_), Some(Nak::Sequence) | None) => return Ok(None),
            (_, Some(said)) => said,
            // 3.6: the lowest branch has no NAK, its next is the ePSN.
            (Nak::Sequence, None) => Nak::Sequence,
        };
        if let Some((next, told, when)) = self.told_nak
            && (next, told) == (minimum, say)
            && now - when < self.params.nak_merge_ns
        {
            return Ok(None);
        }
        Ok(Some(self.say_nak(say, now)))
    }

    /// The lowest branch that has most to say.
    fn lowest(&self) -> Option<(u64, Branch)> {
        self.branches.values().min_by_key(|b| (b.next, b.nak.map_or(63, Nak::rank))).map(|b| (b.next, *b))
    }

    /// 3.5 when the minimum rose, and 3.6 for a NAK that was held until it became the minimum; 3.9: silent while a branch
    /// that may lack something was not heard.
    fn advance(&mut self, now: u64) -> Option<Speech> {
        if self.high == 0 || !self.all_heard() {
            return None;
        }
        let (minimum, at) = self.lowest().filter(|(m, _)| *m > self.told)?;
        self.told = minimum;
        match at.nak {
            Some(Nak::Sequence) if self.was_resent(minimum, at.nak_heard) => Some(self.say_ack()),
            Some(nak) => Some(self.say_nak(nak, now)),
            None => Some(self.say_ack()),
        }
    }

    /// The retransmission of `minimum` has passed down since it was asked for at `asked`.
    fn was_resent(&self, minimum: u64, asked: u64) -> bool {
        let (from, when) = self.go_back;
        when > asked && from <= minimum && self.position > minimum
    }

    /// 3.2: the serial minimum of MSN and the minimum of credits.
    fn speech(&mut self, syndrome: u8, psn: u64) -> Speech {
        let msn = self.branches.values().map(|b| b.msn).min().unwrap_or(self.msn_told);
        self.msn_told = msn;
        let mask = u64::MAX >> (64 - self.params.psn_bits);
        Speech { syndrome, psn: (psn & mask) as u32, msn: msn as u32 & 0xFF_FFFF }
    }

    fn say_ack(&mut self) -> Speech {
        self.counters.acks_out += 1;
        let credits = self.branches.values().map(|b| b.credits).min().unwrap_or(31);
        self.speech(credits, self.base().unwrap_or(1) - 1)
    }

    fn say_nak(&mut self, nak: Nak, now: u64) -> Speech {
        self.counters.naks_out += 1;
        let next = self.base().unwrap_or(0);
        self.told_nak = Some((next, nak, now));
        self.last_nak_next = next;
        self.speech(nak.syndrome(), next)
    }
}

#[cfg(test)]
mod tests;
