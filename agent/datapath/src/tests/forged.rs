// SPDX-License-Identifier: Apache-2.0
//! Forged and invalid feedback: it changes no octet of the group's state (invariant I3), nothing is sent upstream for it, and each
//! packet is counted under the drop reason that applies.

use std::collections::BTreeMap;
use std::time::Duration;

use canopy_model::node_spec::BranchKind;
use canopy_packet::aeth::{NakCode, Syndrome};
use canopy_packet::bth::Opcode;
use canopy_units::UnwrappedPsn;

use super::forger::{BRANCHES, Dice, EPOCH, Forger, HIGH, IN_ERROR, NEXT, WAITS, cnp_of, feedback_of, port_of};
use crate::testbed::*;

const STARTS: [u32; 5] = [0, 0x7F_FFFF, 0x80_0000, 0xFF_FFF0, 0x12_3456];
const HOUR: u64 = 3_600_000_000_000;
/// Packets between two comparisons of the state.
const BATCH: u64 = 500;

/// Every drop reason of feedback for a group whose configuration and state are complete.
const REASONS: [&str; 15] = [
    "branch_inactive",
    "branch_unknown",
    "cnp_rate",
    "edge_source",
    "epoch_ahead",
    "epoch_old",
    "feedback_icrc",
    "feedback_malformed",
    "feedback_window",
    "group_unknown",
    "nak_fatal",
    "nak_ghost",
    "source_unregistered",
    "truncated",
    "wrong_port",
];

/// A node with five receivers, two child nodes, and one receiver that joins late.
struct Group {
    bed: Testbed,
    forger: Forger,
    expected: BTreeMap<String, u64>,
}

impl Group {
    /// The group before any data.
    fn new(start: u32, seed: u64) -> Self {
        let shape = Shape { receivers: 6, children: 2, provisioned: true, start_psn: start, ..Shape::default() };
        let mut bed = Testbed::new(&shape);
        let errors = bed.reconcile(|s| {
            s.groups.for_each_mut(|g| {
                g.branches.retain(|b| b.address != receiver(WAITS));
                let nodes = g.branches.iter_mut().filter(|b| matches!(b.kind, BranchKind::Node { .. }));
                nodes.for_each(|b| b.since = EPOCH.into());
                let hour = Duration::from_nanos(HOUR);
                (g.params.cnp_window, g.params.cnp_min_interval, g.epoch) = (hour, hour, EPOCH.into());
            });
        });
        assert_eq!(errors, []);
        Self { bed, forger: Forger::new(start, Dice(seed)), expected: BTreeMap::new() }
    }

    /// The source sends; every branch acknowledges and sends one CNP, one branch has an outstanding NAK; then one more joins.
    fn start(&mut self) {
        let psn = |n| self.forger.wire(n);
        for n in 0..HIGH {
            self.bed.run("u0", &encapsulated(&data(Opcode::SEND_ONLY, psn(n), b"x"), end_mt(), vec![], 0));
        }
        for (b, next) in (0..BRANCHES).zip(NEXT) {
            let ack = feedback_of(b, EPOCH, Syndrome::ack(31), psn(next - 1), next as u32);
            self.bed.run(&port_of(b), &ack.build().unwrap());
            self.bed.run(&port_of(b), &cnp_of(b).build().unwrap());
        }
        let nak = feedback_of(1, EPOCH, Syndrome::nak(NakCode::PsnSequence), psn(NEXT[1]), 1);
        self.bed.run(&port_of(1), &nak.build().unwrap());
        let fatal = feedback_of(IN_ERROR, EPOCH, Syndrome(0x62), psn(NEXT[IN_ERROR as usize]), 1);
        self.bed.run(&port_of(IN_ERROR), &fatal.build().unwrap());
        *self.expected.entry("nak_fatal".into()).or_default() += 1;
        let errors = self.bed.reconcile(|s| {
            s.groups.for_each_mut(|g| {
                let mut late = g.branches[0].clone();
                (late.address, late.next_hop) = (receiver(WAITS), receiver(WAITS));
                (late.at_boundary, late.since, g.epoch) = (true, 3, 3);
                g.branches.push(late);
            });
        });
        assert_eq!(errors, []);
        let fresh = feedback_of(BRANCHES, 0, Syndrome::nak(NakCode::PsnSequence), psn(0), 0);
        self.bed.run(&port_of(BRANCHES), &fresh.build().unwrap());
        let t = self.bed.telemetry();
        assert_eq!(
            (t.cnps_in, t.min_next),
            (BRANCHES.into(), Some(UnwrappedPsn(t.high.get() - (HIGH - NEXT[0]) as u64)))
        );
        self.forger.running = true;
    }

    /// Runs `packets` forged packets and compares the state after every batch.
    fn run_forged(&mut self, packets: u64, what: &str) {
        let before = self.bed.state_octets();
        for n in 0..packets {
            let f = self.forger.forge();
            assert_eq!(self.bed.run(&f.port, &f.packet).0, SHOT, "{what}: packet {n}, {}: {:02x?}", f.reason, f.packet);
            *self.expected.entry(f.reason.to_string()).or_default() += 1;
            if n % BATCH == 0 || n + 1 == packets {
                assert!(self.bed.state_octets() == before, "{what}: the state changed at or before packet {n}");
            }
        }
        let drops = self.bed.drops();
        assert_eq!(drops, self.expected, "{what}");
        assert_eq!(drops.values().sum::<u64>(), self.expected.values().sum::<u64>());
    }

    /// Valid feedback is still accepted, and changes the state that forged feedback did not change.
    fn accepts_valid_feedback(&self) {
        let before = self.bed.state_octets();
        let ack = feedback_of(0, EPOCH, Syndrome::ack(31), self.forger.wire(NEXT[1] - 1), 1);
        assert_eq!(self.bed.run("d0", &ack.build().unwrap()).0, REDIRECT, "the lowest branch caught up");
        assert!(self.bed.state_octets() != before);
    }
}

#[test]
fn forged_feedback_changes_no_state_and_each_is_counted_under_its_reason() {
    let total: u64 = if std::env::var_os("CANOPY_DEEP").is_some_and(|v| v == "1") { 1_000_000 } else { 50_000 };
    let each = total / STARTS.len() as u64;
    let mut counted = BTreeMap::new();
    for (seed, start) in (1..).zip(STARTS) {
        let mut group = Group::new(start, seed);
        group.run_forged(each / 10, &format!("start {start:#x}, seed {seed}, before data"));
        group.start();
        group.run_forged(each - each / 10, &format!("start {start:#x}, seed {seed}"));
        group.accepts_valid_feedback();
        group.expected.into_iter().for_each(|(reason, n)| *counted.entry(reason).or_insert(0) += n);
    }
    println!("{} forged packets: {counted:#?}", counted.values().sum::<u64>());
    assert_eq!(counted.keys().collect::<Vec<_>>(), REASONS.iter().collect::<Vec<_>>());
    assert_eq!(counted.values().sum::<u64>(), total + STARTS.len() as u64, "one of each group is not forged");
    assert!(counted.values().all(|n| *n > total / 100), "a drop reason occurred too rarely: {counted:?}");
}
