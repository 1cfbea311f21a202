// SPDX-License-Identifier: Apache-2.0

use super::*;

const START: u64 = TURN + 100;
const TEN: Duration = Duration::from_nanos(10);

/// A time of a test, in nanoseconds.
fn at(ns: u64) -> Monotonic {
    Monotonic::from_nanos(ns)
}

fn ack(branch: u32, psn: u32) -> Input {
    Input::Ack { branch, epoch: 1, psn, msn: 1, credits: 31 }
}

fn acked(psn: u32) -> Result<Option<Feedback>, Refusal> {
    Ok(Some(Feedback { syndrome: 31, psn, msn: 1 }))
}

fn receiver(at_boundary: bool) -> Entry {
    Entry { at_boundary, receiver: true, since: 1, ..Entry::default() }
}

/// The queue pair of a late receiver answers its probe.
fn fresh(a: &mut Aggregation, branch: u32) {
    let nak = Input::Nak { branch, epoch: 0, psn: 100, msn: 0, nak: Nak::Sequence };
    assert_eq!(a.handle(nak, at(1)), Ok(None));
}

fn params() -> Params {
    Params { start: START, window: (1 << 22) - 1, reack: TEN, nak_merge: TEN, psn_bits: 24, lost: false }
}

fn machine(branches: u32, packets: std::ops::Range<u32>) -> Aggregation {
    let mut a = Aggregation::new(params(), 1);
    (0..branches).for_each(|b| a.join(b, receiver(false)));
    for psn in packets {
        a.handle(Input::Data { psn, begins: true }, at(1)).unwrap();
    }
    a
}

#[test]
fn an_ack_is_sent_only_for_what_all_branches_hold() {
    let mut a = machine(2, 100..120);
    assert_eq!(a.handle(ack(0, 110), at(200)), Ok(None));
    assert_eq!(a.handle(ack(1, 105), at(201)), acked(105));
    assert_eq!(a.handle(ack(2, 105), at(202)), Err(Refusal::Inactive));
    assert_eq!(a.handle(ack(1, 120), at(203)), Err(Refusal::Window));
}

#[test]
fn feedback_before_data_is_refused() {
    assert_eq!(machine(1, 0..0).handle(ack(0, 99), at(1)), Err(Refusal::Window));
}

#[test]
fn after_lost_state_far_from_the_start_no_ack_until_every_branch_is_confirmed() {
    let mut a = machine(2, 0x90_0000..0x90_0003);
    assert_eq!(a.handle(ack(0, 0x90_0001), at(200)), Ok(None));
    assert_eq!(a.minimum(), None);
    // The other branch is behind the first packet that the node forwarded.
    assert_eq!(a.handle(ack(1, 0x8F_FFF0), at(201)), acked(0x8F_FFF0));
}

#[test]
fn a_late_receiver_counts_from_the_boundary_and_in_its_own_psns() {
    let mut a = machine(1, 100..110);
    a.handle(ack(0, 109), at(150)).unwrap();
    a.join(1, receiver(true));
    fresh(&mut a, 1);
    a.handle(Input::Data { psn: 110, begins: false }, at(160)).unwrap();
    assert_eq!(a.handle(ack(1, 100), at(161)), Err(Refusal::Inactive));
    a.handle(Input::Data { psn: 111, begins: true }, at(162)).unwrap();
    assert_eq!(a.copies().collect::<Vec<_>>(), [(0, 0), (1, 11)]);
    assert_eq!(a.handle(ack(0, 111), at(163)), acked(110));
    // Its QP expects the group's start PSN first; its MSN of 1 is the group's 2.
    assert_eq!(a.handle(ack(1, 100), at(164)), Ok(Some(Feedback { syndrome: 31, psn: 111, msn: 1 })));
}

#[test]
fn a_node_without_branches_starts_with_a_retransmitted_message() {
    let mut a = machine(0, 0..0);
    a.join(0, receiver(true));
    fresh(&mut a, 0);
    // The first packet of the message was lost; the source has no other message and retransmits it.
    a.handle(Input::Data { psn: 101, begins: false }, at(1)).unwrap();
    a.handle(Input::Data { psn: 100, begins: true }, at(2)).unwrap();
    a.handle(Input::Data { psn: 101, begins: false }, at(3)).unwrap();
    assert_eq!(a.high(), Some(START + 2));
    assert_eq!(a.handle(ack(0, 101), at(4)), acked(101));
}

#[test]
fn feedback_of_a_child_from_before_receivers_moved_behind_it_is_refused() {
    let mut a = Aggregation::new(params(), 1);
    let node = |since| Entry { at_boundary: false, receiver: false, since, ..Entry::default() };
    a.join(0, node(1));
    a.join(1, node(1));
    for psn in 100..120 {
        a.handle(Input::Data { psn, begins: true }, at(1)).unwrap();
    }
    a.handle(ack(0, 115), at(2)).unwrap();
    assert_eq!(a.handle(ack(1, 105), at(3)), acked(105));
    // A receiver that holds 105 moves from child 1, which leaves, to child 0, which acknowledged 115 without it.
    a.join(0, node(2));
    a.handle(Input::Adopt(2), at(4)).unwrap();
    assert_eq!(a.handle(Input::Leave(1), at(4)), Ok(None));
    assert_eq!(a.handle(ack(0, 116), at(5)), Err(Refusal::EpochOld));
    assert_eq!(a.handle(Input::Ack { branch: 0, epoch: 2, psn: 105, msn: 1, credits: 31 }, at(6)), acked(105));
}

/// Two child nodes since epoch 1, data 100 to 163; child 0 holds up to 105 and child 1 all of it.
fn two_children() -> Aggregation {
    let mut a = Aggregation::new(params(), 1);
    let node = Entry { at_boundary: false, receiver: false, since: 1, ..Entry::default() };
    (0..2).for_each(|b| a.join(b, node));
    for psn in 100..164 {
        a.handle(Input::Data { psn, begins: true }, at(1)).unwrap();
    }
    assert_eq!(a.handle(ack(1, 163), at(2)), Ok(None));
    assert_eq!(a.handle(ack(0, 105), at(3)), acked(105));
    a
}

#[test]
fn feedback_of_a_newer_program_than_the_nodes_own_is_refused() {
    let mut a = two_children();
    let before = a.clone();
    // Child 0 has adopted epoch 2 and no longer counts a receiver that this node still expects behind it.
    let ahead = Input::Ack { branch: 0, epoch: 2, psn: 163, msn: 1, credits: 31 };
    assert_eq!(a.handle(ahead, at(4)), Err(Refusal::EpochAhead));
    let nak = Input::Nak { branch: 0, epoch: 2, psn: 120, msn: 1, nak: Nak::Sequence };
    assert_eq!(a.handle(nak, at(5)), Err(Refusal::EpochAhead));
    assert_eq!(a, before, "refused feedback changes nothing");
    a.handle(Input::Adopt(2), at(6)).unwrap();
    assert_eq!(a.handle(ahead, at(7)), acked(163));
}

#[test]
fn the_last_answer_is_repeated_as_it_was() {
    let mut a = two_children();
    assert_eq!(a.handle(Input::Repeat, at(4)), Ok(None), "the ACK was sent just now");
    assert_eq!(a.handle(Input::Repeat, at(4)), acked(105));
    assert_eq!(a.handle(Input::Repeat, at(4)), acked(105));
    let nak = Input::Nak { branch: 0, epoch: 1, psn: 106, msn: 1, nak: Nak::Sequence };
    let sent = Ok(Some(Feedback { syndrome: 0x60, psn: 106, msn: 1 }));
    assert_eq!(a.handle(nak, at(100)), sent);
    assert_eq!(a.handle(Input::Repeat, at(199)), Ok(None));
    assert_eq!(a.handle(Input::Repeat, at(200)), sent);
    // The retransmission was forwarded downstream: the parent received this NAK, or that of another branch.
    for psn in 106..108 {
        a.handle(Input::Data { psn, begins: true }, at(201)).unwrap();
    }
    assert_eq!(a.handle(Input::Repeat, at(202)), Ok(None), "data passes: it causes feedback of its own");
    assert_eq!(a.handle(Input::Repeat, at(203)), acked(105));
    // A branch that is reset holds an unknown part of the data: there is nothing to repeat.
    a.join(1, Entry { at_boundary: false, receiver: false, since: 2, ..Entry::default() });
    assert_eq!(a.handle(Input::Repeat, at(204)), Ok(None));
    assert_eq!(Aggregation::new(params(), 1).handle(Input::Repeat, at(1)), Ok(None));
}

#[test]
fn an_ack_of_a_node_with_only_pending_branches_is_repeated_too() {
    let mut a = machine(0, 0..0);
    a.handle(Input::Data { psn: 100, begins: false }, at(1)).unwrap();
    a.join(0, receiver(true));
    fresh(&mut a, 0);
    assert_eq!(a.handle(Input::Repeat, at(2)), Ok(None), "nothing was acknowledged yet");
    let ack = a.handle(Input::PendingOnly, at(3));
    assert!(matches!(ack, Ok(Some(Feedback { psn: 100, .. }))), "{ack:?}");
    assert_eq!(a.handle(Input::Repeat, at(4)), Ok(None));
    assert_eq!(a.handle(Input::Repeat, at(5)), ack);
}

#[test]
fn epochs_are_compared_around_their_wrap() {
    assert!(not_before(5, 5) && not_before(6, 5) && !not_before(4, 5));
    assert!(not_before(1, (1 << EPOCH_BITS) - 1) && !not_before((1 << EPOCH_BITS) - 1, 1));
}

#[test]
fn an_rnr_of_the_longest_timer_outranks_all() {
    let mut ranks: Vec<u8> = (0..32).map(|t| Nak::Rnr(t).rank()).collect();
    ranks.push(Nak::Sequence.rank());
    assert_eq!(ranks.iter().min(), Some(&Nak::Rnr(0).rank()));
    assert!(Nak::Rnr(31).rank() < Nak::Rnr(1).rank());
    assert_eq!(ranks.iter().max(), Some(&Nak::Sequence.rank()));
}

#[test]
fn a_late_receiver_waits_until_its_queue_pair_proves_to_be_fresh() {
    let mut a = machine(1, 100..110);
    a.handle(ack(0, 109), at(150)).unwrap();
    let message = |a: &mut Aggregation, psn| a.handle(Input::Data { psn, begins: true }, at(200)).unwrap();
    let sequence = |psn| Input::Nak { branch: 1, epoch: 0, psn, msn: 0, nak: Nak::Sequence };
    a.join(1, receiver(true));
    // What a queue pair answers that took five packets, and one that is not ready.
    for other in [
        ack(1, 104),
        ack(1, 100),
        sequence(105),
        Input::Nak { branch: 1, epoch: 0, psn: 100, msn: 0, nak: Nak::Rnr(1) },
    ] {
        assert_eq!(a.handle(other, at(160)), Err(Refusal::Inactive));
        message(&mut a, 110);
        assert_eq!(a.active().collect::<Vec<_>>(), [0], "{other:?}");
    }
    for (i, proof) in [ack(1, 99), sequence(100)].into_iter().enumerate() {
        a.handle(Input::Leave(1), at(161)).unwrap();
        a.join(1, receiver(true));
        assert_eq!(a.probing().collect::<Vec<_>>(), [1]);
        assert_eq!(a.handle(proof, at(162)), Ok(None));
        assert_eq!((a.probing().count(), a.active().count()), (0, 1));
        message(&mut a, 111 + i as u32);
        assert_eq!(a.active().collect::<Vec<_>>(), [0, 1]);
        a.handle(ack(0, 111 + i as u32), at(163)).unwrap();
        assert_eq!(a.minimum(), Some(START + 11 + i as u64), "it counts from the message on");
    }
}

#[test]
fn a_late_receiver_that_never_proves_it_does_not_stall_the_group() {
    let mut a = machine(0, 0..0);
    a.join(0, receiver(true));
    for psn in 100..103 {
        a.handle(Input::Data { psn, begins: true }, at(1)).unwrap();
        assert!(matches!(a.handle(Input::PendingOnly, at(2)), Ok(Some(ack)) if ack.psn == psn));
    }
}

#[test]
fn a_node_that_lost_its_state_continues_a_late_receiver_from_where_it_started() {
    let mut a = Aggregation::new(params(), 1);
    let start = Start { shift: 11, msn_base: 7 };
    a.join(0, Entry { at_boundary: false, receiver: true, since: 1, start, lost: false });
    a.handle(Input::Data { psn: 120, begins: false }, at(1)).unwrap();
    assert_eq!(a.copies().collect::<Vec<_>>(), [(0, 11)]);
    assert_eq!(a.handle(ack(0, 109), at(2)), Ok(Some(Feedback { syndrome: 31, psn: 120, msn: 8 })));
}

#[test]
fn nothing_is_acknowledged_while_a_receiver_that_may_have_started_is_there() {
    let mut a = machine(1, 100..110);
    let lost = Entry { at_boundary: true, receiver: true, since: 1, lost: true, ..Entry::default() };
    a.join(1, lost);
    assert_eq!((a.handle(ack(0, 109), at(150)), a.minimum()), (Ok(None), None));
    for answer in [ack(1, 99), Input::Nak { branch: 1, epoch: 0, psn: 100, msn: 0, nak: Nak::Sequence }] {
        assert_eq!(a.handle(answer, at(151)), Err(Refusal::Inactive));
    }
    a.handle(Input::Data { psn: 110, begins: true }, at(152)).unwrap();
    assert_eq!(a.active().collect::<Vec<_>>(), [0]);
    assert_eq!(a.handle(Input::Leave(1), at(153)), acked(109), "removed");
    // Also where no other branch is there.
    let mut only = machine(0, 100..110);
    only.join(0, lost);
    assert_eq!(only.handle(Input::PendingOnly, at(150)), Ok(None));
}
