// SPDX-License-Identifier: Apache-2.0
//! The PSNs by which each branch's feedback raised the minimum: whichever branch acknowledges a PSN last has all of the wait for it.

use canopy_packet::aeth::{NakCode, Syndrome};
use canopy_packet::bth::Opcode;

use crate::testbed::*;

/// Bits of a PSN.
const PSN_MASK: u32 = 0xFF_FFFF;
/// First PSN.
const START: u32 = 100;

/// `receivers` of a session that starts at `start`, each of which has acknowledged the first of `sent` packets.
fn bed(receivers: u32, start: u32, sent: u32) -> Testbed {
    let bed = Testbed::new(&Shape { receivers, start_psn: start, ..Shape::default() });
    for i in 0..sent {
        let psn = (start + i) & PSN_MASK;
        bed.run("u0", &encapsulated(&data(Opcode::SEND_ONLY, psn, b"x"), end_mt(), list(0..receivers), 0));
    }
    (0..receivers).for_each(|i| ack(&bed, i, start));
    bed
}

fn feedback(bed: &Testbed, i: u32, syndrome: Syndrome, psn: u32) {
    bed.run("d0", &answer(i, syndrome, psn & PSN_MASK, 1));
}

fn ack(bed: &Testbed, i: u32, psn: u32) {
    feedback(bed, i, Syndrome::ack(31), psn);
}

fn nak(bed: &Testbed, i: u32, psn: u32) {
    feedback(bed, i, Syndrome::nak(NakCode::PsnSequence), psn);
}

/// What each receiver has completed.
fn completed(bed: &mut Testbed) -> Vec<u64> {
    let branches = bed.telemetry().branches;
    (0..).map_while(|i| branches.iter().find(|b| b.address == receiver(i))?.completed_min).collect()
}

#[test]
fn the_last_branch_to_acknowledge_completes_the_minimum() {
    let mut bed = bed(3, START, 20);
    assert_eq!(completed(&mut bed), [0, 0, 0], "before every branch was confirmed no minimum was known");
    ack(&bed, 0, START + 10);
    ack(&bed, 1, START + 5);
    assert_eq!(completed(&mut bed), [0, 0, 0], "receiver 2 holds the minimum");
    ack(&bed, 2, START + 7);
    assert_eq!(completed(&mut bed), [0, 0, 5], "it rose to receiver 1's");
    ack(&bed, 1, START + 7);
    assert_eq!(completed(&mut bed), [0, 2, 5]);
    ack(&bed, 1, START + 15);
    assert_eq!(completed(&mut bed), [0, 2, 5], "receiver 2 is at the same PSN still");
    ack(&bed, 2, START + 15);
    ack(&bed, 0, START + 15);
    assert_eq!(completed(&mut bed), [5, 2, 8]);
}

#[test]
fn a_duplicate_or_older_ack_counts_nothing() {
    let mut bed = bed(2, START, 20);
    ack(&bed, 0, START + 10);
    ack(&bed, 1, START + 10);
    for psn in [10, 10, 9, 0] {
        ack(&bed, 1, START + psn);
        ack(&bed, 0, START + psn);
    }
    assert_eq!(completed(&mut bed), [0, 10]);
}

#[test]
fn a_nak_acknowledges_what_is_before_it_and_counts_like_that() {
    let mut bed = bed(2, START, 20);
    ack(&bed, 0, START + 10);
    nak(&bed, 1, START + 6);
    assert_eq!(completed(&mut bed), [0, 5], "up to {}", START + 5);
    // The same NAK, one of a PSN that was acknowledged since, a fatal one.
    nak(&bed, 1, START + 6);
    nak(&bed, 1, START + 3);
    feedback(&bed, 1, Syndrome(0x62), START + 8);
    assert_eq!(completed(&mut bed), [0, 5]);
    feedback(&bed, 1, Syndrome(0x23), START + 7);
    assert_eq!(completed(&mut bed), [0, 6], "RNR");
}

#[test]
fn the_only_branch_completes_everything_also_where_psns_wrap() {
    for start in [START, PSN_MASK - 4, PSN_MASK / 2 - 4] {
        let mut one = bed(1, start, 20);
        ack(&one, 0, start + 3);
        ack(&one, 0, start + 19);
        assert_eq!(completed(&mut one), [19], "from {start:#x}");
        let mut two = bed(2, start, 20);
        ack(&two, 1, start + 19);
        ack(&two, 0, start + 2);
        ack(&two, 0, start + 12);
        assert_eq!(completed(&mut two), [12, 0], "from {start:#x}");
    }
}

#[test]
fn a_branch_that_leaves_completes_nothing_and_takes_its_count_along() {
    let mut bed = bed(3, START, 20);
    ack(&bed, 0, START + 12);
    ack(&bed, 1, START + 9);
    ack(&bed, 2, START + 4);
    assert_eq!(completed(&mut bed), [0, 0, 4]);
    let errors = bed.reconcile(|s| {
        s.groups.for_each_mut(|g| {
            g.branches.retain(|b| b.address != receiver(2));
            g.epoch += 1;
        });
    });
    assert_eq!((errors, completed(&mut bed)), (vec![], vec![0, 0]), "the minimum rose by 5, and no branch did that");
    let errors = bed.reconcile(|s| {
        s.groups.for_each_mut(|g| {
            g.epoch += 1;
            g.branches.iter_mut().for_each(|b| b.since = g.epoch);
        });
    });
    assert_eq!(errors, []);
    ack(&bed, 0, START + 12);
    ack(&bed, 1, START + 15);
    assert_eq!(completed(&mut bed), [0, 0], "of a minimum that was not known it is not known which branch held it up");
    ack(&bed, 0, START + 15);
    assert_eq!(completed(&mut bed), [3, 0]);
}

/// The count outlives a restart, and programs whose record of a branch has other fields in another order, in both directions.
#[test]
fn the_count_continues_through_a_restart_and_an_upgrade() {
    let mut bed = bed(2, START, 20);
    ack(&bed, 0, START + 10);
    ack(&bed, 1, START + 7);
    bed.reopen();
    assert_eq!((bed.reconcile(|_| {}), completed(&mut bed)), (vec![], vec![0, 7]), "a restart");
    let other = bed.through_another_layout();
    bed.run_pinned(&other, "d0", &answer(1, Syndrome::ack(31), START + 9, 1));
    bed.reopen();
    bed.begin_handover();
    let unknown: Vec<_> = bed.telemetry().branches.into_iter().map(|b| b.completed_min).collect();
    assert_eq!(unknown, [None, None], "two programs count");
    assert_eq!((bed.reconcile(|_| {}), completed(&mut bed)), (vec![], vec![0, 9]), "an upgrade");
    ack(&bed, 1, START + 10);
    assert_eq!(completed(&mut bed), [0, 10]);
}
