// SPDX-License-Identifier: Apache-2.0
//! Sequences of events that broke earlier rules.

use canopy_reference::aggregate::{Entry, Start};

use crate::network::{A, B, Place, access, link};
use crate::scenario::Change::{Epoch, Join};
use crate::scenario::Scenario;
use crate::state::FIRST_EPOCH;

const LATE: Entry = Entry {
    at_boundary: true,
    receiver: true,
    since: FIRST_EPOCH + 1,
    start: Start { shift: 0, msn_base: 0 },
    lost: false,
};

/// The parent starts a late edge at a boundary and must not forward earlier packets to it when the source goes back: if such a
/// packet were the first that the edge receives, its receivers would start below the boundary and wait for packets that are not
/// retransmitted.
#[test]
fn a_late_edge_never_starts_below_the_boundary_of_its_parent() {
    let edge = Place::Edge(B);
    let changes = vec![
        Join { node: edge, branch: 2, entry: LATE },
        Epoch { node: edge, epoch: LATE.since },
        Join { node: Place::Root, branch: B as u32, entry: Entry { receiver: false, ..LATE } },
        Epoch { node: Place::Root, epoch: LATE.since },
    ];
    let (to_root, to_edge) = (link(Place::Source, Place::Root), link(Place::Root, edge));
    let from_root = link(Place::Root, Place::Source);
    let scenario = Scenario {
        members: [true, true, false],
        changes,
        packets: 3,
        outstanding: 2,
        psn_bits: 4,
        faults: 3,
        faulty: 1 << to_edge | 1 << link(edge, Place::Receiver(2)),
        instant: !(1 << to_root | 1 << to_edge | 1 << from_root),
        ..Scenario::new("late edge below the boundary")
    };
    scenario.holds();
}

/// An edge that loses its state also loses the PSN offsets of its late receivers, and which data was sent before: those that started are
/// removed, and the others continue.
#[test]
fn an_edge_that_lost_its_state_removes_late_receivers_that_started() {
    let scenario = Scenario {
        members: [true, false, true],
        changes: vec![Join { node: Place::Edge(A), branch: 1, entry: LATE }],
        packets: 3,
        crashing: &[Place::Edge(A)],
        crashes: 1,
        instant: access(),
        ..Scenario::new("late, lost state")
    };
    scenario.holds();
}
