// SPDX-License-Identifier: Apache-2.0
//! Feeds the BPF programs and the reference state machine the same inputs. After each of them exactly the frames must have left the node
//! that follow from what the reference decided, octet by octet, through the right ports: the copies of a data packet, or the feedback to
//! the parent node, with its epoch, or to the source. Both must refuse the same inputs, and have the same branches.
//!
//! The duration of a test run is not constant, so each of the two rate limits is set to "always" or "never", independent of time.

mod events;
mod frames;
mod taps;

use std::collections::BTreeMap;
use std::time::Duration;

use canopy_bpf::node::{Control, types};
use canopy_model::ids::Psn;
use canopy_model::member::MemoryRegion;
use canopy_model::node_spec::BranchKind;
use canopy_reference::aggregate::{Aggregation, Counters, Entry, Feedback, Input, Params, Refusal, Start};
use canopy_units::{Monotonic, UnwrappedPsn};

use crate::render::render;
use crate::testbed::*;
use events::{Dice, Events};
use frames::{Links, MEMORY, Packet, Place, address_of, feedback_of, memory_of};
use taps::{Frame, Taps};

const GROUP: u32 = 5;
/// Octets of an upstream ACK frame.
const ACK_FRAME: usize = 82;
const RECEIVERS: u32 = 5;
const BRANCHES: u32 = 7;
const TURN: u64 = 1 << 24;
const WINDOW: u32 = (1 << 22) - 1;
const NEVER: Duration = Duration::from_nanos(u64::MAX / 2);

/// What must occur, so that it is known to be compared: at least ten times in all.
const MUST_OCCUR: [&str; 12] = [
    "copy to a receiver",
    "copy to a late receiver",
    "copy to a child node",
    "no copy to a late branch",
    "copy to a late receiver from the first packet on",
    "feedback after an ACK",
    "feedback after a NAK",
    "feedback after a leave",
    "feedback after pending only",
    "feedback after a repetition",
    "feedback in another epoch",
    "epoch within its bounds",
];
/// The same for the reasons of refusals, by the names of their counters.
const REASONS: [&str; 8] = [
    "branch_inactive",
    "feedback_window",
    "nak_ghost",
    "epoch_old",
    "epoch_ahead",
    "feedback_malformed",
    "nak_fatal",
    "psn_window",
];

/// The programs and the reference, with one group that starts anew.
struct Pair<'a> {
    place: Place,
    bed: &'a mut Testbed,
    taps: Taps,
    links: Links,
    reference: Aggregation,
    now: Monotonic,
    /// The epoch of the first program.
    first_epoch: u32,
    /// Drops counted before.
    dropped: BTreeMap<String, u64>,
    /// What occurred, and how often.
    seen: BTreeMap<&'static str, u64>,
    /// Draws what a packet has besides the input, and on which no decision depends.
    bits: Dice,
}

impl<'a> Pair<'a> {
    /// The group gets another start PSN than it had: its state starts anew.
    fn new(place: Place, bed: &'a mut Testbed, of: &Run) -> Self {
        let Run { start, epoch, reack, nak_merge, .. } = *of;
        let errors = bed.reconcile(|s| {
            s.groups.for_each_mut(|g| {
                g.start_psn = Psn::new("psn", start.into()).unwrap();
                g.params.reack_interval = reack;
                g.params.nak_merge = nak_merge;
                g.epoch = epoch;
                // The headend's own bound is that of the window: the reference knows no other.
                if let Some(headend) = &mut g.headend {
                    headend.max_flight = WINDOW + 1;
                }
                for (i, branch) in (0..).zip(&mut g.branches) {
                    branch.since = epoch;
                    if let BranchKind::Receiver { memory, .. } = &mut branch.kind {
                        let (va, rkey) = memory_of(i);
                        *memory = Some(MemoryRegion { va, rkey, length: MEMORY });
                    }
                }
            });
        });
        assert_eq!(errors, []);
        let params = Params {
            start: TURN + u64::from(start),
            window: WINDOW.into(),
            reack,
            nak_merge,
            psn_bits: 24,
            // A headend that is open when its state starts.
            lost: place == Place::Headend,
        };
        let mut reference = Aggregation::new(params, epoch);
        for b in 0..BRANCHES {
            let entry = Entry { receiver: b < RECEIVERS, since: epoch, ..Entry::default() };
            reference.handle(Input::Join(b, entry), Monotonic::START).unwrap();
        }
        let taps = Taps::open(bed);
        Self {
            place,
            links: Links::new(place, bed.spec(), &taps),
            dropped: bed.drops(),
            bed,
            taps,
            reference,
            now: Monotonic::START,
            first_epoch: epoch,
            seen: BTreeMap::new(),
            bits: Dice(of.seed),
        }
    }

    /// Feeds one input to both and compares what leaves the node.
    fn feed(&mut self, input: Input) {
        self.now = self.now + Duration::from_nanos(1);
        let decided = self.reference.handle(input, self.now);
        let mut expected: Vec<Frame> = Vec::new();
        if let Ok(Some(feedback)) = decided {
            expected.push(self.links.upstream(self.reference.epoch(), feedback));
        }
        let mut sent = match input {
            Input::Data { psn, begins } => {
                let packet = Packet::draw(&mut self.bits, self.place, psn, begins);
                if decided.is_ok() {
                    expected.extend(self.links.copies(&packet, self.reference.copies()));
                }
                self.receive("u0", &packet.octets)
            }
            Input::Ack { branch, epoch, psn, msn, credits } => self.feedback(branch, epoch, credits, psn, msn),
            Input::Nak { branch, epoch, psn, msn, nak } => self.feedback(branch, epoch, nak.syndrome(), psn, msn),
            Input::Fatal { branch, epoch, psn, syndrome } => self.feedback(branch, epoch, syndrome, psn, 0),
            Input::Join(slot, Entry { at_boundary, receiver, since, start: Start { shift, msn_base }, lost }) => {
                self.control(Control::Join { slot, at_boundary, receiver, since, lost, shift, msn_base })
            }
            Input::Leave(slot) => self.control(Control::Remove { slot }),
            Input::PendingOnly => self.control(Control::PendingOnly),
            Input::Repeat => self.control(Control::Repeat),
            Input::Adopt(epoch) => self.adopt(epoch),
        };
        sent.sort();
        expected.sort();
        if sent != expected {
            let wrong: Vec<_> = sent.iter().filter(|frame| !expected.contains(frame)).collect();
            let missing: Vec<_> = expected.iter().filter(|frame| !sent.contains(frame)).collect();
            let (t, drops) = (self.bed.telemetry(), self.bed.drops());
            panic!(
                "after {input:?}, decided {decided:?}: {} frames left, of which should not {wrong:02x?}; of {} expected ones \
                 these did not {missing:02x?}; kernel {t:#?} {drops:?}, reference {:#?}",
                sent.len(),
                expected.len(),
                self.reference
            );
        }
        self.note(input, decided);
    }

    /// What leaves the node when it receives this packet on this port.
    fn receive(&self, port: &str, packet: &[u8]) -> Vec<Frame> {
        let run = self.bed.datapath.bpf.receive(self.bed.ifindex(port), packet).unwrap();
        let verdict = run.verdict as u32;
        assert!(verdict == REDIRECT || verdict == SHOT, "verdict {verdict}");
        let result = (verdict == REDIRECT).then(|| self.taps.result(run.frame));
        self.taps.transmitted().chain(result).collect()
    }

    fn feedback(&mut self, branch: u32, epoch: u32, syndrome: u8, psn: u32, msn: u32) -> Vec<Frame> {
        let migration = self.bits.one_in(2);
        self.receive(self.links.port(branch), &feedback_of(branch, epoch, syndrome, psn, msn, migration))
    }

    fn control(&self, op: Control) -> Vec<Frame> {
        self.bed.datapath.bpf.control(GROUP, op, &[0; ACK_FRAME]).unwrap();
        self.taps.transmitted().collect()
    }

    /// Configures the group as the agent does for a program of this epoch; the state stays.
    fn adopt(&self, epoch: u32) -> Vec<Frame> {
        let spec = self.bed.spec();
        let mut group = spec.groups.values().next().unwrap().clone();
        group.epoch = epoch;
        let ports = spec.base.ports.iter().map(|p| (p.index, self.bed.ifindex(&p.name))).collect();
        let slots = (0..BRANCHES).map(|slot| (address_of(slot), slot)).collect();
        let rendered = render(&spec.base, &group, &ports, &slots).unwrap();
        self.bed.datapath.bpf.groups().put(&GROUP, &rendered.entries.group.unwrap()).unwrap();
        self.taps.transmitted().collect()
    }

    /// Counts what occurred.
    fn note(&mut self, input: Input, decided: Result<Option<Feedback>, Refusal>) {
        let mut count = |what: &'static str, n: usize| *self.seen.entry(what).or_default() += n as u64;
        let refused = match decided {
            Err(Refusal::Window) if matches!(input, Input::Data { .. }) => "psn_window",
            Err(Refusal::Inactive) => "branch_inactive",
            Err(Refusal::Window) => "feedback_window",
            Err(Refusal::Ghost) => "nak_ghost",
            Err(Refusal::EpochOld) => "epoch_old",
            Err(Refusal::EpochAhead) => "epoch_ahead",
            Err(Refusal::Malformed) => "feedback_malformed",
            Ok(_) if matches!(input, Input::Fatal { .. }) => "nak_fatal",
            Ok(_) => "accepted",
        };
        count(refused, 1);
        let sent = usize::from(matches!(decided, Ok(Some(_))));
        match input {
            Input::Data { .. } if decided.is_ok() => {
                let copies: Vec<_> = self.reference.copies().collect();
                count("copy to a receiver", copies.iter().filter(|(slot, _)| *slot < RECEIVERS).count());
                count("copy to a late receiver", copies.iter().filter(|(_, shift)| *shift != 0).count());
                count("copy to a child node", copies.iter().filter(|(slot, _)| *slot >= RECEIVERS).count());
                let from_first = |(slot, _): &&(u32, u64)| self.reference.start(*slot).is_some_and(|s| s.shift == 0);
                count("copy to a late receiver from the first packet on", copies.iter().filter(from_first).count());
                count("no copy to a late branch", self.reference.active().count() - copies.len());
            }
            Input::Ack { branch, epoch, .. } => {
                count("feedback after an ACK", sent);
                let (since, own) = (self.reference.since(branch), self.reference.epoch());
                let within =
                    branch >= RECEIVERS && since.is_some_and(|since| since & 0x3FFF != epoch) && own & 0x3FFF != epoch;
                count("epoch within its bounds", usize::from(within && decided.is_ok()));
            }
            Input::Nak { .. } => count("feedback after a NAK", sent),
            Input::Leave(_) => count("feedback after a leave", sent),
            Input::PendingOnly => count("feedback after pending only", sent),
            Input::Repeat => count("feedback after a repetition", sent),
            _ => (),
        }
        if self.reference.epoch() != self.first_epoch {
            count("feedback in another epoch", sent);
        }
    }

    /// Compares the branches and how they joined.
    fn compare_branches(&self) {
        let (state, r) = (self.bed.state(), &self.reference);
        let all = |of: types::canopy_slots| (0..BRANCHES).filter(move |b| of.word[0] >> b & 1 == 1).collect::<Vec<_>>();
        assert_eq!(all(state.active), r.active().collect::<Vec<_>>(), "active");
        assert_eq!(all(state.pending), r.pending().collect::<Vec<_>>(), "pending");
        assert_eq!(all(state.probing), r.probing().collect::<Vec<_>>(), "probing");
        for slot in 0..BRANCHES {
            let i = slot as usize;
            if let Some(since) = r.since(slot) {
                assert_eq!(state.since[i], since, "since of slot {slot}");
            }
            if let Some(start) = r.start(slot) {
                let (shift, msn_base) = (state.shift[i] & 0xFF_FFFF, state.msn_base[i]);
                assert_eq!(Start { shift, msn_base }, start, "start of slot {slot}");
            }
            let lost = all(state.probing).contains(&slot) && state.nak_received_ns[i] == 1;
            assert_eq!(lost, r.is_lost(slot), "slot {slot} is lost");
        }
    }

    /// Drops since the group started, by reason. Above its bound the headend has a reason of its own for the PSN of data.
    fn drops(&mut self, reason: &str) -> u64 {
        let now = self.bed.drops();
        let since =
            |reason: &str| now.get(reason).copied().unwrap_or(0) - self.dropped.get(reason).copied().unwrap_or(0);
        since(reason) + if reason == "psn_window" { since("psn_flight") } else { 0 }
    }

    /// Compares what the node reports.
    fn compare_telemetry(&mut self) {
        let t = self.bed.telemetry();
        assert_eq!(t.min_next.map(UnwrappedPsn::get), self.reference.minimum());
        assert_eq!(Some(t.high.get()), self.reference.high());
        let counted = Counters {
            acks_in: t.acks_in,
            acks_out: t.acks_out,
            naks_in: t.naks_in,
            naks_out: t.naks_out,
            data_packets: t.data_packets,
            fresh_packets: t.fresh_packets.unwrap(),
        };
        assert_eq!(counted, self.reference.counters());
        for b in &t.branches {
            let slot = (0..BRANCHES).find(|s| address_of(*s) == b.address).unwrap();
            assert_eq!(b.next.map(UnwrappedPsn::get), self.reference.next(slot), "slot {slot}");
            let fatal = self.reference.fatal(slot).map(|(syndrome, psn)| (syndrome, psn as u32 & 0xFF_FFFF));
            assert_eq!(b.fatal.map(|nak| (nak.syndrome, nak.psn)), fatal, "slot {slot}");
            assert_eq!(b.completed_min, Some(self.reference.completed_min(slot)), "slot {slot}");
        }
    }
}

/// Where a run starts, its rate limits, and its seed.
#[derive(Debug)]
struct Run {
    start: u32,
    epoch: u32,
    reack: Duration,
    nak_merge: Duration,
    seed: u64,
}

/// Names the run and the event in which a thread panics.
struct Progress<'a> {
    of: &'a Run,
    event: u32,
}

impl Drop for Progress<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{:x?}, event {}", self.of, self.event);
        }
    }
}

/// Feeds 6,000 inputs; adds what occurred to `seen`.
fn run(place: Place, bed: &mut Testbed, of: &Run, seen: &mut BTreeMap<&'static str, u64>) {
    let events = 6000;
    let mut progress = Progress { of, event: 0 };
    let mut pair = Pair::new(place, bed, of);
    let mut inputs = Events::new(of.seed, of.start, of.epoch);
    for event in 0..events {
        progress.event = event;
        let input = inputs.next(&pair.reference);
        pair.feed(input);
        if !matches!(input, Input::Ack { .. } | Input::Nak { .. }) {
            pair.compare_branches();
        }
        if event % 512 == 511 || event + 1 == events {
            pair.compare_telemetry();
        }
    }
    for reason in REASONS {
        let refused = pair.seen.get(reason).copied().unwrap_or(0);
        assert_eq!(pair.drops(reason), refused, "{reason}");
    }
    let sent = pair.reference.counters().acks_out + pair.reference.counters().naks_out;
    assert!(sent > u64::from(events) / 50, "only {sent} packets were sent upstream");
    pair.seen.into_iter().for_each(|(what, n)| *seen.entry(what).or_default() += n);
}

/// PSNs and epochs start near the places where their order turns round.
#[test]
fn the_programs_do_what_the_reference_does() {
    const BELOW: [(u32, u32); 5] =
        [(0, 1), (0x7F_FFFF, 0x1FFC), (0x80_0000, 0x3FFA), (0xFF_FFF0, 0x3FFD), (12345, 0x1_BFFE)];
    const HEADEND: [(u32, u32); 1] = [(0xFF_FF00, 0x3FFE)];
    let mut seen = BTreeMap::new();
    for (place, starts) in [(Place::Below, &BELOW[..]), (Place::Headend, &HEADEND)] {
        let mut bed = Testbed::new(&Shape {
            receivers: RECEIVERS,
            children: BRANCHES - RECEIVERS,
            headend: place == Place::Headend,
            provisioned: true,
            ..Shape::default()
        });
        for (seed, reack, nak_merge) in [(11, Duration::ZERO, NEVER), (77, NEVER, Duration::ZERO)] {
            for (i, (start, epoch)) in (0..).zip(starts) {
                // Any other start PSN lets the state start anew.
                let (start, epoch) = (start ^ u32::from(seed == 77), *epoch);
                run(place, &mut bed, &Run { start, epoch, reack, nak_merge, seed: seed + i }, &mut seen);
            }
        }
    }
    for what in REASONS.iter().chain(&MUST_OCCUR) {
        assert!(seen.get(what).is_some_and(|n| *n >= 10), "{what} hardly occurred: {seen:#?}");
    }
}
