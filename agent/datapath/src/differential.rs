// SPDX-License-Identifier: Apache-2.0
//! Feeds the BPF programs and the reference state machine the same inputs: they must send the same feedback, packet by packet, and
//! refuse the same inputs.
//!
//! The duration of a test run is not constant, so each of the two rate limits is set to "always" or "never", independent of time.

use std::collections::BTreeMap;
use std::time::Duration;

use canopy_bpf::node::{Control, types};
use canopy_packet::aeth::{Aeth, Syndrome};
use canopy_packet::bth::Opcode;
use canopy_packet::frame::RoceBuilder;
use canopy_reference::aggregate::{Aggregation, Counters, Entry, Feedback, Input, Nak, Params, Refusal, Start};
use canopy_units::{Monotonic, UnwrappedPsn};

use crate::testbed::*;

const GROUP: u32 = 5;
/// Octets of an upstream ACK frame.
const ACK_FRAME: usize = 82;
const RECEIVERS: u32 = 5;
const BRANCHES: u32 = 7;
const TURN: u64 = 1 << 24;
const NEVER: Duration = Duration::from_nanos(u64::MAX / 2);

/// xorshift64*: the same seed gives the same events.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) % n
    }
}

struct Pair {
    bed: Testbed,
    reference: Aggregation,
    now: Monotonic,
    epoch: u32,
    start: u32,
    refused: BTreeMap<&'static str, u64>,
    sent: u64,
    /// Draws the migration bit of every packet, on which nothing depends.
    bits: Dice,
}

impl Pair {
    fn new(start: u32, reack: Duration, nak_merge: Duration) -> Self {
        let mut bed = Testbed::new(&Shape {
            receivers: RECEIVERS,
            children: BRANCHES - RECEIVERS,
            provisioned: true,
            start_psn: start,
            ..Shape::default()
        });
        let errors = bed.reconcile(|s| {
            s.groups.for_each_mut(|g| {
                g.params.reack_interval = reack;
                g.params.nak_merge = nak_merge;
            });
        });
        assert_eq!(errors, []);
        let params = Params { start: TURN + u64::from(start), window: (1 << 22) - 1, reack, nak_merge, psn_bits: 24 };
        let mut reference = Aggregation::new(params, 1);
        for b in 0..BRANCHES {
            let entry = Entry { receiver: b < RECEIVERS, since: 1, ..Entry::default() };
            reference.handle(Input::Join(b, entry), Monotonic::START).unwrap();
        }
        Self {
            bed,
            reference,
            now: Monotonic::START,
            epoch: 1,
            start,
            refused: BTreeMap::new(),
            sent: 0,
            bits: Dice(u64::from(start) + 1),
        }
    }

    /// Feeds one input to both and compares the feedback that they send upstream.
    fn feed(&mut self, input: Input) {
        self.now = self.now + Duration::from_nanos(1);
        let expected = self.reference.handle(input, self.now);
        let bit = self.bits.below(2) == 1;
        let packet = match input {
            Input::Data { psn, begins } => {
                let op = if begins { Opcode::SEND_ONLY } else { Opcode::SEND_MIDDLE };
                let inner = with_migration(data(op, psn, b"x"), bit);
                self.bed.run("u0", &encapsulated(&inner, end_mt(), vec![], 0));
                if expected == Err(Refusal::Window) {
                    *self.refused.entry("psn_window").or_default() += 1;
                }
                return;
            }
            Input::Ack { branch, epoch, psn, msn, credits } => {
                feedback_of(branch, epoch, Syndrome::ack(credits), psn, msn)
            }
            Input::Nak { branch, epoch, psn, msn, nak } => {
                feedback_of(branch, epoch, Syndrome(nak.syndrome()), psn, msn)
            }
            Input::Fatal { branch, epoch, psn, syndrome } => feedback_of(branch, epoch, Syndrome(syndrome), psn, 0),
            Input::Join(slot, Entry { at_boundary, receiver, since, start: Start { shift, msn_base }, lost }) => {
                return self.control(Control::Join { slot, at_boundary, receiver, since, lost, shift, msn_base });
            }
            Input::Leave(slot) => return self.control(Control::Remove { slot }),
            Input::PendingOnly => return self.control(Control::PendingOnly),
            Input::Repeat => return self.control(Control::Repeat),
            Input::Adopt(epoch) => return self.adopt(epoch),
        };
        let (Input::Ack { branch, .. } | Input::Nak { branch, .. } | Input::Fatal { branch, .. }) = input else {
            return;
        };
        let (action, out, _) = self.bed.run(&port_of(branch), &with_migration(packet, bit));
        let sent = (action == REDIRECT).then_some(out);
        let wanted = expected.unwrap_or(None).map(upstream);
        self.sent += u64::from(sent.is_some());
        let reason = match expected {
            Err(Refusal::Inactive) => "branch_inactive",
            Err(Refusal::Window) => "feedback_window",
            Err(Refusal::Ghost) => "nak_ghost",
            Err(Refusal::EpochOld) => "epoch_old",
            Err(Refusal::EpochAhead) => "epoch_ahead",
            Err(Refusal::Malformed) => "feedback_malformed",
            Ok(_) if matches!(input, Input::Fatal { .. }) => "nak_fatal",
            Ok(_) => "",
        };
        if !reason.is_empty() {
            *self.refused.entry(reason).or_default() += 1;
        }
        if sent != wanted {
            let (t, drops) = (self.bed.telemetry(), self.bed.drops());
            panic!(
                "after {input:?}: sent {sent:02x?}, expected {expected:?} {wanted:02x?}; kernel {t:#?} {drops:?}, reference {:#?}",
                self.reference
            );
        }
    }

    fn control(&self, op: Control) {
        self.bed.datapath.bpf.control(GROUP, op, &[0; ACK_FRAME]).unwrap();
    }

    /// Sets the epoch of the group and changes nothing else.
    fn adopt(&self, epoch: u32) {
        let groups = self.bed.datapath.bpf.groups();
        let known = groups.get(&GROUP).unwrap().unwrap();
        groups.put(&GROUP, &types::canopy_group { epoch, ..known }).unwrap();
    }

    /// A random input: mostly plausible, with PSNs near the minimum and the highest PSN, sometimes far off.
    fn event(&mut self, dice: &mut Dice, high: &mut u64) -> Input {
        let low = self.reference.minimum().unwrap_or(*high);
        let near = |dice: &mut Dice, high: u64| {
            let v = match dice.below(20) {
                0 => high + 1 + dice.below(4),
                1 => low.saturating_sub(dice.below(1 << 23)),
                2 => dice.below(1 << 26),
                _ => low + dice.below(high.saturating_sub(low) + 1),
            };
            v as u32 & 0xFF_FFFF
        };
        let branch = dice.below(u64::from(BRANCHES)) as u32;
        let shift = self.reference.copies().find(|(b, _)| *b == branch).map_or(0, |(_, shift)| shift as u32);
        // Mostly in the PSNs of the branch.
        let near = |dice: &mut Dice, high: u64| near(dice, high).wrapping_sub(shift) & 0xFF_FFFF;
        let msn = dice.below(1 << 24) as u32;
        // What a probed queue pair answers: at times that it is fresh.
        if let Some(branch) = self.reference.probing().next().filter(|_| dice.below(8) == 0) {
            let start = self.start;
            return match dice.below(4) {
                0 => Input::Ack { branch, epoch: 0, psn: start.wrapping_sub(1) & 0xFF_FFFF, msn: 0, credits: 31 },
                1 => Input::Nak { branch, epoch: 0, psn: start, msn: 0, nak: Nak::Sequence },
                2 => Input::Nak { branch, epoch: 0, psn: start, msn: 0, nak: Nak::Rnr(3) },
                _ => Input::Ack { branch, epoch: 0, psn: start, msn: 0, credits: 31 },
            };
        }
        let epoch = if dice.below(20) == 0 { dice.below(1 << 14) as u32 } else { self.epoch };
        match dice.below(100) {
            0..30 => {
                let v = if dice.below(8) == 0 { low + dice.below(*high - low + 1) } else { *high + dice.below(8) / 7 };
                *high = (*high).max(v + 1);
                Input::Data { psn: v as u32 & 0xFF_FFFF, begins: dice.below(3) == 0 }
            }
            30..32 => Input::Data { psn: dice.below(1 << 24) as u32, begins: true },
            32..34 => Input::Fatal { branch, epoch, psn: near(dice, *high), syndrome: 0x61 + dice.below(4) as u8 },
            34..75 => Input::Ack { branch, epoch, psn: near(dice, *high), msn, credits: dice.below(32) as u8 },
            75..88 => Input::Nak { branch, epoch, psn: near(dice, *high), msn, nak: Nak::Sequence },
            88..96 => Input::Nak { branch, epoch, psn: near(dice, *high), msn, nak: Nak::Rnr(dice.below(32) as u8) },
            96..98 => Input::Leave(branch),
            98 => match dice.below(3) {
                0 => Input::PendingOnly,
                1 => Input::Repeat,
                // At times an older epoch than that of the child nodes.
                _ => Input::Adopt(self.epoch.saturating_sub(dice.below(2) as u32)),
            },
            _ => {
                self.epoch += u32::from(dice.below(3) == 0);
                let at_boundary = dice.below(2) == 0;
                if dice.below(4) > 0 {
                    self.feed(Input::Adopt(self.epoch));
                }
                // At times a receiver whose node lost its state.
                let restored = branch < RECEIVERS && !at_boundary && dice.below(2) == 0;
                let start = Start { shift: dice.below(1 << 24) as u32, msn_base: dice.below(1 << 24) as u32 };
                let start = if restored { start } else { Start::default() };
                let lost = branch < RECEIVERS && at_boundary && dice.below(8) == 0;
                Input::Join(branch, Entry { at_boundary, receiver: branch < RECEIVERS, since: self.epoch, start, lost })
            }
        }
    }
}

/// Slots are in the order of addresses: first the receivers, then the child nodes of the test bed.
fn address_of(branch: u32) -> std::net::Ipv6Addr {
    if branch < RECEIVERS { receiver(branch) } else { plan().node_address(node(u64::from(10 + branch - RECEIVERS))) }
}

fn port_of(branch: u32) -> String {
    if branch < RECEIVERS { "d0".into() } else { format!("d{}", 1 + branch - RECEIVERS) }
}

/// Feedback of a branch: of a receiver to the Proxy Address, of a child node to this node with its epoch.
fn feedback_of(branch: u32, epoch: u32, syndrome: Syndrome, psn: u32, msn: u32) -> Vec<u8> {
    if branch < RECEIVERS {
        return answer(branch, syndrome, psn, msn);
    }
    let mut b = RoceBuilder::new(address_of(branch), plan().node_address(node(1)), Opcode::ACKNOWLEDGE, DQPN, psn);
    b.src_port = 0xC000 | (epoch & 0x3FFF) as u16;
    b.extensions.aeth = Some(Aeth { syndrome, msn });
    b.build().unwrap()
}

/// The packet that must be sent to the parent node.
fn upstream(s: Feedback) -> Vec<u8> {
    let (me, parent) = (plan().node_address(node(1)), plan().node_address(node(2)));
    let mut b = RoceBuilder::new(me, parent, Opcode::ACKNOWLEDGE, DQPN, s.psn);
    b.src_port = 0xC001;
    b.bth.migration = true;
    b.extensions.aeth = Some(Aeth { syndrome: Syndrome(s.syndrome), msn: s.msn });
    b.build().unwrap()
}

fn run(start: u32, reack: Duration, nak_merge: Duration, events: u32, seed: u64) {
    let (mut pair, mut dice) = (Pair::new(start, reack, nak_merge), Dice(seed));
    let mut high = TURN + u64::from(start);
    // The first packet sets the PSN of the group, so it is not a random one.
    pair.feed(Input::Data { psn: start, begins: true });
    for n in 0..events {
        let input = pair.event(&mut dice, &mut high);
        // A random data packet within the window may raise the highest PSN.
        pair.feed(input);
        high = high.max(pair.reference.high().unwrap_or(high));
        if n % 512 == 0 || n + 1 == events {
            let t = pair.bed.telemetry();
            assert_eq!(
                t.min_next.map(UnwrappedPsn::get),
                pair.reference.minimum(),
                "start {start:#x} seed {seed}, event {n}"
            );
            assert_eq!(Some(t.high.get()), pair.reference.high());
            let counted = Counters {
                acks_in: t.acks_in,
                acks_out: t.acks_out,
                naks_in: t.naks_in,
                naks_out: t.naks_out,
                data_packets: t.data_packets,
                fresh_packets: t.fresh_packets.unwrap(),
            };
            assert_eq!(counted, pair.reference.counters(), "start {start:#x} seed {seed}, event {n}");
            for b in &t.branches {
                let slot = (0..BRANCHES).find(|s| address_of(*s) == b.address).unwrap();
                assert_eq!(
                    b.next.map(UnwrappedPsn::get),
                    pair.reference.next(slot),
                    "slot {slot}, start {start:#x} seed {seed}, event {n}"
                );
                assert_eq!(
                    b.fatal.map(|nak| (nak.syndrome, nak.psn)),
                    pair.reference.fatal(slot).map(|(syndrome, psn)| (syndrome, psn as u32 & 0xFF_FFFF)),
                    "slot {slot}, start {start:#x} seed {seed}, event {n}"
                );
            }
        }
    }
    let drops = pair.bed.drops();
    for (reason, n) in &pair.refused {
        assert_eq!(drops.get(*reason), Some(n), "start {start:#x} seed {seed}: {reason}");
    }
    assert!(pair.sent > u64::from(events) / 50, "only {} packets were sent upstream", pair.sent);
    for reason in [
        "branch_inactive",
        "feedback_window",
        "nak_ghost",
        "epoch_old",
        "epoch_ahead",
        "feedback_malformed",
        "nak_fatal",
    ] {
        assert!(pair.refused.contains_key(reason), "{reason} did not occur");
    }
}

#[test]
fn the_programs_do_what_the_reference_does() {
    for (i, start) in [0, 0x7F_FFFF, 0x80_0000, 0xFF_FFF0, 12345].into_iter().enumerate() {
        run(start, Duration::ZERO, NEVER, 6000, 11 + i as u64);
        run(start, NEVER, Duration::ZERO, 6000, 77 + i as u64);
    }
}
