// SPDX-License-Identifier: Apache-2.0
//! Data at the headend: when it is taken (decisions 3.13), and with which PSN (decisions 3.11). A packet that the source's present
//! connection does not send moves nothing.

use canopy_model::ids::Psn;
use canopy_packet::aeth::Syndrome;
use canopy_packet::bth::Opcode;
use canopy_packet::frame::RoceFrame;

use crate::testbed::*;

const TURN: u32 = 1 << 24;

/// A headend with one child node, and a session that starts at `start`.
fn headend(start: u32) -> Testbed {
    let mut bed = Testbed::new(&Shape { receivers: 0, children: 1, headend: true, ..Shape::default() });
    opens(&mut bed, start, false);
    opens(&mut bed, start, true);
    bed
}

/// Programs the session that starts at `start`.
fn opens(bed: &mut Testbed, start: u32, open: bool) {
    let errors = bed.reconcile(|s| {
        s.groups.for_each_mut(|g| {
            g.start_psn = Psn::new("psn", start.into()).unwrap();
            g.headend.as_mut().unwrap().open = open;
        })
    });
    assert_eq!(errors, []);
}

#[test]
fn a_closed_headend_takes_no_data_and_an_open_one_begins_with_the_first_packet() {
    let mut bed = Testbed::new(&Shape { receivers: 0, children: 1, headend: true, ..Shape::default() });
    opens(&mut bed, 7, false);
    let state = bed.state_octets();
    for psn in [7, 8, 7 + FLIGHT, 4_000_000] {
        assert_eq!(bed.run("u0", &data(Opcode::SEND_ONLY, psn, b"data")).0, SHOT);
    }
    assert_eq!((bed.drops()["not_open"], bed.state_octets()), (4, state));
    opens(&mut bed, 7, true);
    sends(&mut bed, 7, true);
    assert_eq!(bed.drops()["not_open"], 4);
}

/// Holds the open session, or takes its data again.
fn holds(bed: &mut Testbed, held: bool) {
    assert_eq!(bed.reconcile(|s| s.groups.for_each_mut(|g| g.headend.as_mut().unwrap().held = held)), []);
}

#[test]
fn a_held_headend_takes_no_data_and_continues_where_it_was() {
    let mut bed = headend(7);
    for psn in 7..20 {
        sends(&mut bed, psn, true);
    }
    holds(&mut bed, true);
    let state = bed.state_octets();
    for psn in [19, 20, 7 + FLIGHT] {
        assert_eq!(bed.run("u0", &data(Opcode::SEND_ONLY, psn, b"data")).0, SHOT);
    }
    assert_eq!((bed.drops()["no_receiver"], bed.state_octets()), (3, state));
    holds(&mut bed, false);
    sends(&mut bed, 20, true);
}

/// Neither the feedback that raises the minimum, nor what follows from a branch that leaves.
#[test]
fn a_held_headend_sends_the_source_no_answer() {
    let mut bed = Testbed::new(&Shape { receivers: 3, children: 0, headend: true, ..Shape::default() });
    for psn in 100..104 {
        assert_eq!(bed.run("u0", &data(Opcode::SEND_ONLY, psn, b"data")).0, REDIRECT);
    }
    let answers = |bed: &Testbed, i, psn| bed.run("d0", &answer(i, Syndrome::ack(31), psn, 1)).0;
    assert_eq!((answers(&bed, 0, 103), answers(&bed, 1, 101)), (SHOT, SHOT), "receiver 2 has not answered");
    holds(&mut bed, true);
    let unanswered = |bed: &mut Testbed| bed.drops().get("no_receiver").copied().unwrap_or(0);
    let raises = answers(&bed, 2, 101);
    assert_eq!((raises, unanswered(&mut bed)), (SHOT, 1), "{:?}", bed.drops());
    let errors = bed.reconcile(|s| {
        s.groups.for_each_mut(|g| {
            g.branches.retain(|b| b.address == receiver(0));
            g.epoch += 1;
        })
    });
    assert_eq!((errors, unanswered(&mut bed)), (vec![], 2), "the minimum rises when both are gone");
    holds(&mut bed, false);
    let (action, sent, _) = bed.run("d0", &answer(0, Syndrome::ack(31), 103, 1));
    assert_eq!((action, RoceFrame::parse(&sent).unwrap().bth.psn), (REDIRECT, 103), "what was forwarded before");
}

#[test]
fn a_held_headend_that_gets_its_state_has_lost_an_earlier_one() {
    let mut bed = headend(7);
    holds(&mut bed, true);
    bed.lose_state();
    // It gets the state while it is held.
    holds(&mut bed, true);
    holds(&mut bed, false);
    sends(&mut bed, 4_000_000, true);
}

/// The packet with this PSN, modulo 2^24, is forwarded, or dropped for its PSN without a trace in the group's state.
fn sends(bed: &mut Testbed, psn: u32, forwarded: bool) {
    let (state, drops) = (bed.state_octets(), bed.drops().get("psn_flight").copied().unwrap_or(0));
    let (action, ..) = bed.run("u0", &data(Opcode::SEND_ONLY, psn % TURN, b"data"));
    let dropped = bed.drops().get("psn_flight").copied().unwrap_or(0) - drops;
    let expected = if forwarded { (REDIRECT, 0) } else { (SHOT, 1) };
    assert_eq!((action, dropped), expected, "PSN {psn:#x}: {:?}", bed.drops());
    assert_eq!(bed.state_octets() == state, !forwarded, "PSN {psn:#x}");
}

#[test]
fn a_session_begins_at_its_start_psn_or_within_a_flight_of_it() {
    for start in [0, 101, TURN - 16, TURN / 2] {
        let mut bed = headend(start);
        for wrong in [TURN - 1, FLIGHT + 1, 1 << 22, TURN / 2 - 1, TURN / 2, TURN - (1 << 22)] {
            sends(&mut bed, start + wrong, false);
        }
        sends(&mut bed, start + FLIGHT, true);
        sends(&mut bed, start, true);
    }
}

#[test]
fn no_packet_moves_the_newest_psn_by_more_than_a_flight() {
    for start in [7, TURN - 3] {
        let mut bed = headend(start);
        sends(&mut bed, start, true);
        // Two packets four million PSNs ahead stopped a group for ever.
        for far in [FLIGHT + 1, 4_000_000, 4_000_000, 8_000_000] {
            sends(&mut bed, start + far, false);
        }
        sends(&mut bed, start + 1, true);
        sends(&mut bed, start + 1 + FLIGHT, true);
        sends(&mut bed, start + 2 + 2 * FLIGHT, false);
        // Retransmissions of whatever age within the window.
        sends(&mut bed, start + 1, true);
    }
}

#[test]
fn a_headend_that_lost_its_state_continues_wherever_the_source_is() {
    let mut bed = Testbed::new(&Shape { receivers: 0, children: 1, headend: true, ..Shape::default() });
    sends(&mut bed, 100 + 5_000_000, true);
    sends(&mut bed, 100 + 5_000_000 + FLIGHT + 1, false);
    sends(&mut bed, 100 + 5_000_001, true);
}

#[test]
fn other_nodes_take_what_the_headend_sends() {
    let bed = Testbed::new(&Shape::default());
    for psn in [100, 100 + 4 * FLIGHT] {
        let sent = data(Opcode::SEND_ONLY, psn, b"data");
        assert_eq!(bed.run("u0", &encapsulated(&sent, end_mt(), list(0..1), 0)).0, REDIRECT);
    }
}
