// SPDX-License-Identifier: Apache-2.0
//! Loss, duplication, reordering and lost state, with constant membership.

use crate::network::{A, B, Place, access};
use crate::properties::MERGED;
use crate::scenario::{Scenario, deep};

const NODES: &[Place] = &[Place::Root, Place::Edge(A), Place::Edge(B)];

/// Four bits of PSN, so that two packets may be outstanding.
fn wide(name: &'static str) -> Scenario {
    let faults = 1 + u8::from(deep());
    Scenario { packets: 3, outstanding: 2, psn_bits: 4, instant: access(), faults, ..Scenario::new(name) }
}

#[test]
fn one_outstanding_and_two_faults_anywhere() {
    Scenario { packets: 3, faults: 2 + u8::from(deep()), ..Scenario::new("one outstanding") }.holds();
}

#[test]
fn two_outstanding_and_identical_naks_are_merged() {
    Scenario { seen: &["PSN wraps", "finished", MERGED], ..wide("merging") }.holds();
}

#[test]
fn two_outstanding_and_every_nak_is_sent() {
    Scenario { merge: false, ..wide("not merging") }.holds();
}

#[test]
fn two_outstanding_and_delays_on_every_link() {
    Scenario { instant: 0, room: 1 + usize::from(deep()), ..wide("delays everywhere") }.holds();
}

#[test]
fn an_ack_comes_only_at_the_end_of_a_message() {
    Scenario { packets: 4, message: 2, ..wide("messages") }.holds();
}

#[test]
fn nodes_that_lose_their_state_acknowledge_only_what_branches_confirmed() {
    let seen = &["PSN wraps", "lost state, then finished"];
    Scenario { crashing: NODES, crashes: 1, seen, ..Scenario::new("lost state") }.holds();
    Scenario { crashing: NODES, crashes: 1, seen, ..wide("lost state, two outstanding") }.holds();
}

#[test]
fn nodes_that_lose_their_state_one_after_the_other() {
    let seen = &["PSN wraps", "lost state, then finished"];
    Scenario { crashing: NODES, crashes: 2, faults: u8::from(deep()), seen, ..Scenario::new("lost state twice") }
        .holds();
}
