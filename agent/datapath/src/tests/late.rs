// SPDX-License-Identifier: Apache-2.0
//! Late receivers: probed until the queue pair proves to be fresh, started at a message, continued after a loss of state (decisions 3.13).

use std::time::{Duration, Instant};

use canopy_model::member::LateStart;
use canopy_model::telemetry::{BranchTelemetry, LateState};
use canopy_packet::aeth::{NakCode, Syndrome};
use canopy_packet::bth::Opcode;
use canopy_packet::frame::RoceFrame;
use canopy_units::UnwrappedPsn;

use super::*;

const TURN: u64 = 1 << 24;

/// Two receivers; the first acknowledged PSNs 100 to 109, the second joins then.
fn bed() -> Testbed {
    let mut bed = Testbed::new(&Shape { receivers: 2, provisioned: true, ..Shape::default() });
    let mut late = None;
    assert_eq!(bed.reconcile(|s| s.groups.for_each_mut(|g| late = g.branches.pop())), []);
    for psn in 100..110 {
        message(&bed, psn);
    }
    bed.run("d0", &answer(0, Syndrome::ack(31), 109, 10));
    let late = Branch { at_boundary: true, since: 2, ..late.unwrap() };
    assert_eq!(
        bed.reconcile(|s| s.groups.for_each_mut(|g| {
            g.branches.push(late.clone());
            g.epoch = 2;
        })),
        []
    );
    bed
}

fn message(bed: &Testbed, psn: u32) -> Option<Vec<u8>> {
    let (action, out, _) = bed.run("u0", &encapsulated(&data(Opcode::SEND_ONLY, psn, b"x"), end_mt(), vec![], 0));
    (action == REDIRECT).then_some(out)
}

fn late(bed: &mut Testbed) -> BranchTelemetry {
    bed.telemetry().branches.into_iter().find(|b| b.address == receiver(1)).unwrap()
}

/// Two receivers of a session that no node has lost: the first was there before it was open, the second joins late, and its queue pair
/// has answered.
fn before_the_first_packet() -> Testbed {
    let (mut bed, late) = session(false);
    joins_late(&mut bed, late);
    bed
}

/// A session from PSN 7 on, and its second receiver, which is not there yet. The first may have joined late itself.
fn session(first_is_late: bool) -> (Testbed, Branch) {
    let mut bed = Testbed::new(&Shape { receivers: 2, provisioned: true, ..Shape::default() });
    let mut second = None;
    let begins = |g: &mut canopy_model::node_spec::GroupProgram| {
        g.start_psn = canopy_model::ids::Psn::new("psn", 7).unwrap();
        second = g.branches.pop();
        g.branches[0].at_boundary = first_is_late;
    };
    assert_eq!(bed.reconcile(|s| s.groups.for_each_mut(begins)), []);
    (bed, second.unwrap())
}

fn joins_late(bed: &mut Testbed, late: Branch) {
    let late = Branch { at_boundary: true, since: 2, ..late };
    let joins = |g: &mut canopy_model::node_spec::GroupProgram| {
        g.branches.push(late.clone());
        g.epoch = 2;
    };
    assert_eq!(bed.reconcile(|s| s.groups.for_each_mut(joins)), []);
    let start = bed.spec().groups.values().next().unwrap().start_psn.get();
    bed.run("d0", &answer(1, Syndrome::nak(NakCode::PsnSequence), start, 0));
}

/// The source waited for both: the second receiver must not wait for the next message, which may never come.
#[test]
fn a_late_receiver_that_is_there_before_the_first_packet_gets_it() {
    let mut bed = before_the_first_packet();
    message(&bed, 7);
    let started = late(&mut bed);
    assert_eq!((started.late, started.packets), (Some(LateState::Started), 1));
    assert_eq!(
        (started.start, started.next),
        (Some(LateStart { shift: 0, msn_base: 0 }), Some(UnwrappedPsn(TURN + 7)))
    );
    // Nothing is acknowledged that either of them lacks.
    for (receiver, acknowledged) in [(0, 6), (1, 7)] {
        let (action, out, _) = bed.run("d0", &answer(receiver, Syndrome::ack(31), 7, 1));
        assert_eq!((action, RoceFrame::parse(&out).unwrap().bth.psn), (REDIRECT, acknowledged));
    }
}

#[test]
fn a_first_packet_that_a_link_loses_is_waited_for() {
    let mut bed = before_the_first_packet();
    message(&bed, 8);
    bed.run("d0", &answer(0, Syndrome::nak(NakCode::PsnSequence), 7, 0));
    message(&bed, 9);
    assert_eq!((late(&mut bed).late, late(&mut bed).packets), (Some(LateState::Pending), 0));
    message(&bed, 7);
    assert_eq!(late(&mut bed).start, Some(LateStart { shift: 0, msn_base: 0 }));
}

/// A node that comes into the tree of a session with more than 2^23 packets takes the first that it gets for one from before the session.
#[test]
fn a_late_receiver_at_a_node_that_is_new_in_a_long_session_starts_with_the_next_message() {
    const FIRST: u32 = 7 + (1 << 23) + 100;
    let (mut bed, second) = session(true);
    bed.run("d0", &answer(0, Syndrome::nak(NakCode::PsnSequence), 7, 0));
    message(&bed, FIRST);
    let first = bed.telemetry().branches.into_iter().find(|b| b.address == receiver(0)).unwrap();
    assert_eq!((first.late, first.packets), (Some(LateState::Started), 1));
    assert_eq!(bed.run("d0", &answer(0, Syndrome::ack(31), 7, 1)).0, REDIRECT);
    joins_late(&mut bed, second);
    assert_eq!((late(&mut bed).late, late(&mut bed).packets), (Some(LateState::Pending), 0));
    message(&bed, FIRST + 1);
    assert_eq!((late(&mut bed).late, late(&mut bed).packets), (Some(LateState::Started), 1));
}

/// What the node acknowledged before it lost its state counts at its parent; or what it has acknowledged since.
#[test]
fn a_first_packet_that_may_be_acknowledged_starts_no_late_receiver() {
    for lost in [true, false] {
        let (mut bed, late_one) = session(false);
        message(&bed, 7);
        bed.run("d0", &answer(0, Syndrome::ack(31), 7, 1));
        if lost {
            bed.lose_state();
            assert_eq!(bed.reconcile(|_| ()), []);
        }
        joins_late(&mut bed, late_one);
        message(&bed, 7);
        assert_eq!((late(&mut bed).late, late(&mut bed).packets), (Some(LateState::Pending), 0), "lost: {lost}");
    }
}

#[test]
fn a_late_receiver_gets_nothing_until_its_queue_pair_expects_the_start_psn() {
    for proof in [Syndrome::nak(NakCode::PsnSequence), Syndrome::ack(31)] {
        let mut bed = bed();
        assert_eq!(late(&mut bed).late, Some(LateState::Probing));
        // Of a queue pair that took five packets, one that is not ready, one in error, one that was reset but knows an older PSN.
        let others = [
            (Syndrome::ack(31), 104),
            (Syndrome::ack(31), 100),
            (Syndrome::ack(31), 0xFF_FFFF),
            (Syndrome::nak(NakCode::PsnSequence), 105),
            (Syndrome(0x21), 100),
            (Syndrome(0x62), 100),
        ];
        for (i, (syndrome, psn)) in others.into_iter().enumerate() {
            assert_eq!(bed.run("d0", &answer(1, syndrome, psn, 1)).0, SHOT);
            message(&bed, 110 + i as u32);
            assert_eq!(bed.drops()["branch_inactive"], i as u64 + 1, "{syndrome:?}");
            assert_eq!((late(&mut bed).late, late(&mut bed).packets), (Some(LateState::Probing), 0));
        }
        let is_ack = proof == Syndrome::ack(31);
        bed.run("d0", &answer(1, proof, if is_ack { 99 } else { 100 }, 0));
        assert_eq!(late(&mut bed).late, Some(LateState::Pending));
        assert_eq!(late(&mut bed).packets, 0);
        bed.run("d0", &answer(0, Syndrome::ack(31), 115, 16));
        message(&bed, 116);
        let started = late(&mut bed);
        assert_eq!((started.late, started.packets), (Some(LateState::Started), 1));
        assert_eq!(started.start, Some(LateStart { shift: 16, msn_base: 16 }));
        assert_eq!(started.next, Some(UnwrappedPsn(TURN + 116)), "it counts from its first message on");
        assert_eq!(bed.drops()["branch_inactive"], 6);
    }
}

#[test]
fn a_queue_pair_that_answers_for_a_second_and_not_as_a_fresh_one_is_reported() {
    let mut bed = bed();
    // Silence proves nothing: the application may not have connected yet. Nor does one answer, which may be left over from its former
    // queue pair, however long ago it was.
    let stale = answer(1, Syndrome::nak(NakCode::PsnSequence), 105, 1);
    bed.run("d0", &stale);
    let first = Instant::now();
    while first.elapsed() < Duration::from_millis(1_500) {
        assert_eq!(late(&mut bed).late, Some(LateState::Probing));
        std::thread::sleep(Duration::from_millis(20));
    }
    // Now it answers again.
    bed.run("d0", &stale);
    assert_eq!(late(&mut bed).late, Some(LateState::NotFresh));
    // It holds up nothing.
    message(&bed, 110);
    let (action, out, _) = bed.run("d0", &answer(0, Syndrome::ack(31), 110, 11));
    assert_eq!((action, RoceFrame::parse(&out).unwrap().bth.psn), (REDIRECT, 110));
    // It was reset after all.
    bed.run("d0", &answer(1, Syndrome::nak(NakCode::PsnSequence), 100, 0));
    assert_eq!(late(&mut bed).late, Some(LateState::Pending));
    // Another membership of the same host is probed anew, also where the one before was about to start.
    let again = |g: &mut canopy_model::node_spec::GroupProgram| (g.branches[1].since, g.epoch) = (3, 3);
    assert_eq!(bed.reconcile(|s| s.groups.for_each_mut(again)), []);
    assert_eq!(late(&mut bed).late, Some(LateState::Probing));
}

#[test]
fn an_edge_that_lost_its_state_continues_a_late_receiver_whose_start_is_known_and_no_other() {
    for start in [None, Some(LateStart { shift: 11, msn_base: 7 })] {
        let mut bed = bed();
        bed.run("d0", &answer(1, Syndrome::nak(NakCode::PsnSequence), 100, 0));
        message(&bed, 111);
        assert_eq!(late(&mut bed).late, Some(LateState::Started));
        let before = bed.state_octets();
        assert_eq!(bed.reconcile(|s| s.groups.for_each_mut(|g| g.branches[1].start = start)), []);
        assert!(bed.state_octets() == before, "what the node knows itself stays");

        bed.lose_state();
        assert_eq!(bed.reconcile(|_| ()), []);
        if start.is_none() {
            // What it acknowledged before counts at its parent: no answer lets it start anew.
            for proof in [answer(1, Syndrome::nak(NakCode::PsnSequence), 100, 0), answer(1, Syndrome::ack(31), 99, 0)] {
                bed.run("d0", &proof);
                message(&bed, 112);
                assert_eq!((late(&mut bed).late, late(&mut bed).packets), (Some(LateState::Lost), 0));
            }
            // The source must not believe that it holds this: nothing goes upstream until the controller has removed it.
            assert_eq!(bed.run("d0", &answer(0, Syndrome::ack(31), 112, 13)).0, SHOT);
            let acks = bed.telemetry().acks_out;
            let removed = |g: &mut canopy_model::node_spec::GroupProgram| {
                g.branches.truncate(1);
                g.epoch = 3;
            };
            assert_eq!(bed.reconcile(|s| s.groups.for_each_mut(removed)), []);
            assert_eq!(bed.telemetry().acks_out, acks + 1);
            continue;
        }
        message(&bed, 112);
        assert_eq!(late(&mut bed).packets, 1);
        // Nothing is acknowledged before both have answered, then in the PSNs of the group.
        assert_eq!(bed.run("d0", &answer(0, Syndrome::ack(31), 112, 13)).0, SHOT);
        let (action, out, _) = bed.run("d0", &answer(1, Syndrome::ack(31), 101, 2));
        let f = RoceFrame::parse(&out).unwrap();
        assert_eq!((action, f.bth.psn), (REDIRECT, 112));
        assert_eq!(f.extensions.aeth.unwrap().msn, 9, "the least of 13, and 7 and 2");
        assert_eq!(late(&mut bed).start, None, "it is no news");
    }
}

#[test]
fn a_late_receiver_that_may_have_started_elsewhere_is_lost_where_it_is_not_known() {
    let mut bed = bed();
    let lost = |g: &mut canopy_model::node_spec::GroupProgram| g.branches[1].lost = true;
    // A node that has it all the time knows better.
    assert_eq!(bed.reconcile(|s| s.groups.for_each_mut(lost)), []);
    assert_eq!(late(&mut bed).late, Some(LateState::Probing));
    // As after its host was connected to this node.
    let mut moved = None;
    assert_eq!(bed.reconcile(|s| s.groups.for_each_mut(|g| moved = g.branches.pop())), []);
    assert_eq!(bed.reconcile(|s| s.groups.for_each_mut(|g| g.branches.push(moved.clone().unwrap()))), []);
    bed.run("d0", &answer(1, Syndrome::nak(NakCode::PsnSequence), 100, 0));
    assert_eq!(late(&mut bed).late, Some(LateState::Lost));
    assert_eq!(bed.run("d0", &answer(0, Syndrome::ack(31), 109, 10)).0, SHOT, "nothing is acknowledged again");
    message(&bed, 110);
    assert_eq!(bed.run("d0", &answer(0, Syndrome::ack(31), 110, 11)).0, SHOT, "nothing is acknowledged");
    let acks = bed.telemetry().acks_out;
    assert_eq!(bed.reconcile(|s| s.groups.for_each_mut(|g| g.branches.truncate(1))), []);
    assert_eq!(bed.telemetry().acks_out, acks + 1);
}

#[test]
fn an_agent_that_is_restarted_before_it_applied_a_spec_knows_that_its_state_is_lost() {
    let mut bed = bed();
    bed.run("d0", &answer(1, Syndrome::nak(NakCode::PsnSequence), 100, 0));
    message(&bed, 111);
    assert_eq!(late(&mut bed).late, Some(LateState::Started));
    // After a reboot the agent waits for its controller, and is restarted meanwhile: what is pinned then is its own, and empty.
    bed.lose_state();
    bed.reopen();
    assert_eq!(bed.reconcile(|_| ()), []);
    assert_eq!(late(&mut bed).late, Some(LateState::Lost));
    // From here on the maps have everything.
    bed.reopen();
    let again = |g: &mut canopy_model::node_spec::GroupProgram| (g.branches[1].since, g.epoch) = (3, 3);
    assert_eq!(bed.reconcile(|s| s.groups.for_each_mut(again)), []);
    assert_eq!(late(&mut bed).late, Some(LateState::Probing));
}
