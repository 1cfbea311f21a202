// SPDX-License-Identifier: Apache-2.0
//! The BPF programs and the reference machine, fed the same: they must say the same, packet by packet, and refuse the same.
//!
//! Real time passes between two test runs, so the two rates are set to "always" or "never": both sides then agree on them.

use std::collections::BTreeMap;

use canopy_agent_core::aggregate::{Aggregation, Input, Nak, Params, Refusal, Speech};
use canopy_packet::aeth::Syndrome;
use canopy_packet::bth::Opcode;
use canopy_packet::frame::RoceFrame;

use crate::testbed::*;

const BRANCHES: u32 = 7;
const TURN: u64 = 1 << 24;
const NEVER: u64 = u64::MAX / 2;

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
    now: u64,
    refused: BTreeMap<&'static str, u64>,
    spoken: u64,
}

impl Pair {
    fn new(start: u32, reack_ns: u64, nak_merge_ns: u64) -> Self {
        let mut bed =
            Testbed::new(&Shape { receivers: BRANCHES, provisioned: true, start_psn: start, ..Shape::default() });
        let errors = bed.reconcile(|s| {
            s.groups.values_mut().for_each(|g| {
                (g.params.reack_interval_ns, g.params.nak_merge_ns) = (reack_ns, nak_merge_ns);
            });
        });
        assert_eq!(errors, []);
        let params = Params { start: TURN + u64::from(start), window: (1 << 22) - 1, reack_ns, nak_merge_ns };
        let mut reference = Aggregation::new(params);
        for b in 0..BRANCHES {
            reference.handle(Input::Join(b), 0).unwrap();
        }
        Self { bed, reference, now: 0, refused: BTreeMap::new(), spoken: 0 }
    }

    /// One input to both.
    fn feed(&mut self, input: Input) {
        self.now += 1;
        let expected = self.reference.handle(input, self.now);
        let packet = match input {
            Input::Data { psn, begins } => {
                let op = if begins { Opcode::SEND_ONLY } else { Opcode::SEND_MIDDLE };
                let inner = data(op, psn, b"x");
                self.bed.run("u0", &encapsulated(&inner, end_mt(), vec![], 0));
                if expected == Err(Refusal::Window) {
                    *self.refused.entry("psn_window").or_default() += 1;
                }
                return;
            }
            Input::Ack { branch, psn, msn, credits } => answer(branch, Syndrome::ack(credits), psn, msn),
            Input::Nak { branch, psn, msn, nak } => answer(branch, Syndrome(nak.syndrome()), psn, msn),
            Input::Join(b) => return self.bed.datapath.membership(5, b, true).unwrap(),
            Input::Leave(b) => return self.bed.datapath.membership(5, b, false).unwrap(),
        };
        let (action, out, _) = self.bed.run("d0", &packet);
        let said = (action == REDIRECT).then(|| {
            let f = RoceFrame::parse(&out).unwrap();
            assert!(f.icrc_is_valid());
            let aeth = f.extensions.aeth.unwrap();
            Speech { syndrome: aeth.syndrome.0, psn: f.bth.psn, msn: aeth.msn }
        });
        self.spoken += u64::from(said.is_some());
        let reason = match expected {
            Err(Refusal::Inactive) => "branch_inactive",
            Err(Refusal::Window) => "feedback_window",
            Err(Refusal::Ghost) => "nak_ghost",
            Ok(_) => "",
        };
        if !reason.is_empty() {
            *self.refused.entry(reason).or_default() += 1;
        }
        if said != expected.unwrap_or(None) {
            let (t, drops) = (self.bed.telemetry(), self.bed.drops());
            panic!(
                "after {input:?}: said {said:?}, expected {expected:?}; kernel {t:#?} {drops:?}, reference {:#?}",
                self.reference
            );
        }
    }

    /// Mostly plausible, sometimes not: near the minimum, near the newest, far off.
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
        let msn = dice.below(1 << 24) as u32;
        match dice.below(100) {
            0..30 => {
                let v = if dice.below(8) == 0 { low + dice.below(*high - low + 1) } else { *high + dice.below(8) / 7 };
                *high = (*high).max(v + 1);
                Input::Data { psn: v as u32 & 0xFF_FFFF, begins: dice.below(3) == 0 }
            }
            30..32 => Input::Data { psn: dice.below(1 << 24) as u32, begins: true },
            32..75 => Input::Ack { branch, psn: near(dice, *high), msn, credits: dice.below(32) as u8 },
            75..88 => Input::Nak { branch, psn: near(dice, *high), msn, nak: Nak::Sequence },
            88..96 => Input::Nak { branch, psn: near(dice, *high), msn, nak: Nak::Rnr(dice.below(32) as u8) },
            96..98 => Input::Leave(branch),
            _ => Input::Join(branch),
        }
    }
}

fn run(start: u32, reack_ns: u64, nak_merge_ns: u64, events: u32, seed: u64) {
    let (mut pair, mut dice) = (Pair::new(start, reack_ns, nak_merge_ns), Dice(seed));
    let mut high = TURN + u64::from(start);
    for n in 0..events {
        let input = pair.event(&mut dice, &mut high);
        // A data packet from far away may be within the window and move the newest PSN: follow it.
        pair.feed(input);
        high = high.max(pair.reference.high());
        if n % 512 == 0 || n + 1 == events {
            let t = pair.bed.telemetry();
            assert_eq!(t.min_next, pair.reference.minimum(), "start {start:#x} seed {seed}, event {n}");
            assert_eq!(t.high, pair.reference.high());
            let counted = t.branches.iter().filter(|b| b.next.is_some()).count();
            assert_eq!(counted, pair.reference.active().count());
        }
    }
    let drops = pair.bed.drops();
    for (reason, n) in &pair.refused {
        assert_eq!(drops.get(*reason), Some(n), "start {start:#x} seed {seed}: {reason}");
    }
    assert!(pair.spoken > u64::from(events) / 50, "{} packets spoken: this proves little", pair.spoken);
    for reason in ["branch_inactive", "feedback_window", "nak_ghost"] {
        assert!(pair.refused.contains_key(reason), "{reason} was never provoked");
    }
}

#[test]
fn the_programs_do_what_the_reference_does() {
    for (i, start) in [0, 0x7F_FFFF, 0x80_0000, 0xFF_FFF0, 12345].into_iter().enumerate() {
        run(start, 0, NEVER, 6000, 11 + i as u64);
        run(start, NEVER, 0, 6000, 77 + i as u64);
    }
}
