// SPDX-License-Identifier: Apache-2.0
//! What may happen within one run of the checker.

use canopy_agent_core::aggregate::{Entry, Params};
use stateright::{Checker, HasDiscoveries, Model};

use crate::network::{A, B, Place};

/// What the controller does, in its order, at any time; and what happens to a receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Change {
    /// A node's program has a branch; a receiver answers this node from now on.
    Join {
        node: Place,
        branch: u32,
        entry: Entry,
    },
    Leave {
        node: Place,
        branch: u32,
    },
    /// A node's program of this epoch is in force: its feedback carries it, and newer feedback is refused.
    Epoch {
        node: Place,
        epoch: u32,
    },
    /// A receiver dies.
    Dies(usize),
    /// It is no longer in the group.
    Evicted(usize),
}

/// Bounds, and what is to be seen.
#[derive(Clone, Debug)]
pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    pub(crate) packets: u8,
    /// Packets of a message; the last one of each asks for an ACK.
    pub(crate) message: u8,
    /// Packets that the source has outstanding.
    pub(crate) outstanding: u8,
    pub(crate) psn_bits: u32,
    /// Identical NAKs are merged always, or never.
    pub(crate) merge: bool,
    pub(crate) room: usize,
    /// Links without delay.
    pub(crate) instant: u16,
    /// Losses, repetitions, overtakings and early timeouts, together.
    pub(crate) faults: u8,
    /// Links that they happen on.
    pub(crate) faulty: u16,
    /// Nodes that lose their state, and how often.
    pub(crate) crashing: &'static [Place],
    pub(crate) crashes: u8,
    /// Receivers that are in the group from the start.
    pub(crate) members: [bool; 3],
    /// The edge that each receiver is behind at the start.
    pub(crate) parents: [usize; 3],
    pub(crate) changes: Vec<Change>,
    /// `sometimes` properties that must be seen.
    pub(crate) seen: &'static [&'static str],
}

impl Scenario {
    pub(crate) fn new(name: &'static str) -> Self {
        Self {
            name,
            packets: 4,
            message: 1,
            outstanding: 1,
            psn_bits: 3,
            merge: true,
            room: 2,
            instant: 0,
            faults: 1,
            faulty: u16::MAX,
            crashing: &[],
            crashes: 0,
            members: [true; 3],
            parents: [A, A, B],
            changes: Vec::new(),
            seen: &["PSN wraps", "finished"],
        }
    }

    /// The first packet's PSN, unwrapped: two before a wrap, one turn up.
    pub(crate) fn start(&self) -> u64 {
        (2 << self.psn_bits) - 2
    }

    pub(crate) fn wire(&self, psn: u64) -> u32 {
        psn as u32 & ((1 << self.psn_bits) - 1)
    }

    pub(crate) fn params(&self) -> Params {
        Params {
            start: self.start(),
            window: (1 << (self.psn_bits - 2)) - 1,
            reack_ns: 0,
            nak_merge_ns: if self.merge { u64::MAX / 2 } else { 0 },
            psn_bits: self.psn_bits,
        }
    }

    /// Every state within the bounds has the properties, and everything that is to be seen is.
    pub(crate) fn holds(self) {
        let name = self.name;
        let checker = self.checker().threads(2).spawn_bfs().join();
        println!("{name}: {} unique states, depth {}", checker.unique_state_count(), checker.max_depth());
        checker.assert_properties();
    }

    /// Some state within the bounds does not have this property.
    pub(crate) fn breaks(self, property: &'static str) {
        let name = self.name;
        let enough = HasDiscoveries::AnyOf([property].into());
        let checker = self.checker().threads(2).finish_when(enough).spawn_bfs().join();
        println!("{name}: {} unique states until {property} broke", checker.unique_state_count());
        let Some(path) = checker.discovery(property) else { panic!("{name}: {property} holds, and should not") };
        println!("{:?}", path.into_actions());
    }
}

/// Larger bounds were asked for.
pub(crate) fn deep() -> bool {
    std::env::var_os("CANOPY_DEEP").is_some_and(|v| v == "1")
}
