// SPDX-License-Identifier: Apache-2.0
//! Receivers join late, move and are evicted.

use canopy_reference::aggregate::Entry;

use crate::network::{A, B, Place, access};
use crate::properties::{I1, MOVED};
use crate::scenario::Change::{self, Dies, Epoch, Evicted, Join, Leave};
use crate::scenario::{Scenario, deep};
use crate::state::FIRST_EPOCH;

const CHANGED: &[&str] = &["PSN wraps", "changed, then finished"];
const RETREED: &[&str] = &["PSN wraps", "changed, then finished", MOVED];
const LATE: &[&str] = &["PSN wraps", "a late receiver gets its packets"];
const EDGE_A: Place = Place::Edge(A);
const EDGE_B: Place = Place::Edge(B);
/// The epoch of the change.
const NEXT: u32 = FIRST_EPOCH + 1;

fn wide(name: &'static str, changes: &[Change]) -> Scenario {
    let faults = u8::from(deep());
    let changes = changes.to_vec();
    let s = Scenario::new(name);
    Scenario { packets: 3, outstanding: 2, psn_bits: 4, instant: access(), faults, changes, seen: CHANGED, ..s }
}

fn narrow(name: &'static str, changes: &[Change]) -> Scenario {
    let faults = 1 + u8::from(deep());
    Scenario { packets: 3, faults, changes: changes.to_vec(), seen: CHANGED, ..Scenario::new(name) }
}

fn join(node: Place, branch: u32, at_boundary: bool, since: u32) -> Change {
    Join { node, branch, entry: Entry { at_boundary, receiver: node != Place::Root, since, ..Entry::default() } }
}

const fn adopt(node: Place) -> Change {
    Epoch { node, epoch: NEXT }
}

const fn leave(node: Place, branch: u32) -> Change {
    Leave { node, branch }
}

#[test]
fn a_failed_receiver_blocks_the_others_until_it_is_evicted() {
    let seen = &["PSN wraps", "eviction unblocks"];
    let changes = [Dies(1), Evicted(1), leave(EDGE_A, 1)];
    Scenario { seen, instant: access(), ..narrow("eviction", &changes) }.holds();
    Scenario { seen, ..wide("eviction, two outstanding", &changes) }.holds();
    // The last receiver behind its edge.
    let changes = [Dies(2), Evicted(2), leave(EDGE_B, 2), leave(Place::Root, 1)];
    Scenario { seen, ..wide("eviction of an edge", &changes) }.holds();
}

#[test]
fn a_late_receiver_starts_with_a_message() {
    let members = [true, false, true];
    let changes = [join(EDGE_A, 1, true, NEXT)];
    Scenario { members, seen: LATE, faults: 1, ..wide("late", &changes) }.holds();
    Scenario { members, seen: LATE, packets: 4, faults: 1, message: 2, ..wide("late, long messages", &changes) }
        .holds();
}

#[test]
fn a_late_edge_starts_with_a_message() {
    let members = [true, true, false];
    let changes = [join(EDGE_B, 2, true, NEXT), adopt(EDGE_B), join(Place::Root, 1, true, NEXT), adopt(Place::Root)];
    Scenario { members, seen: LATE, faults: 1, ..wide("late edge", &changes) }.holds();
    Scenario { members, seen: LATE, packets: 4, faults: 1, message: 2, ..wide("late edge, long messages", &changes) }
        .holds();
}

/// Receiver 2 moves from edge B to edge A, make-before-break.
fn moved() -> [Change; 6] {
    [
        join(EDGE_A, 2, false, NEXT),
        adopt(EDGE_A),
        join(Place::Root, A as u32, false, NEXT),
        adopt(Place::Root),
        leave(EDGE_B, 2),
        leave(Place::Root, B as u32),
    ]
}

#[test]
fn a_receiver_moves_behind_another_edge() {
    Scenario { seen: RETREED, instant: access(), ..narrow("move", &moved()) }.holds();
    Scenario { seen: RETREED, ..wide("move, two outstanding", &moved()) }.holds();
    let [join_a, epoch, reset, at_root, leave_edge, leave_root] = moved();
    let changes = [join_a, epoch, reset, at_root, leave_root, leave_edge];
    Scenario { seen: RETREED, ..wide("move, root first", &changes) }.holds();
    let changes = [reset, at_root, join_a, epoch, leave_edge, leave_root];
    Scenario { seen: RETREED, ..wide("move, root long before edge A", &changes) }.holds();
}

#[test]
fn a_receiver_moves_while_nodes_lose_their_state() {
    let crashing = &[Place::Root, EDGE_A, EDGE_B];
    Scenario {
        seen: RETREED,
        crashing,
        crashes: 1,
        faults: u8::from(deep()),
        instant: access(),
        ..narrow("move, lost state", &moved())
    }
    .holds();
}

#[test]
fn a_move_in_a_wrong_order_acknowledges_data_that_a_receiver_lacks() {
    let [join_a, epoch, reset, at_root, leave_edge, leave_root] = moved();
    wide("B leaves before A is reset", &[join_a, epoch, leave_root, reset, at_root, leave_edge]).breaks(I1);
    wide("A is of the new epoch too early", &[epoch, reset, at_root, leave_root, join_a, leave_edge]).breaks(I1);
    let not_reset = join(Place::Root, A as u32, false, FIRST_EPOCH);
    wide("A is not reset", &[join_a, epoch, not_reset, at_root, leave_root, leave_edge]).breaks(I1);
}

/// Receiver 2 moves from edge A, where receiver 0 stays, to edge B; edge A adopts its program long before the others.
fn moved_from_a_shared_edge() -> [Change; 6] {
    [
        adopt(EDGE_A),
        leave(EDGE_A, 2),
        join(EDGE_B, 2, false, NEXT),
        adopt(EDGE_B),
        join(Place::Root, B as u32, false, NEXT),
        adopt(Place::Root),
    ]
}

#[test]
fn a_node_may_adopt_its_program_long_before_its_parent() {
    let shared = |name, changes: &[Change]| {
        let (members, parents) = ([true, false, true], [A, A, A]);
        Scenario { members, parents, ..wide(name, changes) }
    };
    shared("the old edge first", &moved_from_a_shared_edge()).holds();
    let [epoch_a, leave_a, join_b, epoch_b, reset, at_root] = moved_from_a_shared_edge();
    let changes = [epoch_a, leave_a, reset, at_root, join_b, epoch_b];
    shared("the old edge, the root, the new edge", &changes).holds();
    // Without the upper bound, the root counts feedback of edge A's new epoch while no branch counts receiver 2.
    let unbounded = [at_root, epoch_a, leave_a, join_b, epoch_b, reset];
    shared("the root takes feedback that is ahead", &unbounded).breaks(I1);
}
