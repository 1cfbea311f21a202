// SPDX-License-Identifier: Apache-2.0
//! Bounds and events of one run of the model checker.

use std::time::Duration;

use canopy_reference::aggregate::{Entry, Params};
use stateright::{Checker, HasDiscoveries, Model};

use crate::network::{A, B, Place};

/// Actions of the controller, in order and at any time; and failures of receivers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Change {
    /// A branch is added to a node's program; a receiver sends feedback to this node from now on.
    Join {
        node: Place,
        branch: u32,
        entry: Entry,
    },
    Leave {
        node: Place,
        branch: u32,
    },
    /// A node's program of this epoch becomes active: its feedback carries the epoch, and newer feedback is refused.
    Epoch {
        node: Place,
        epoch: u32,
    },
    /// A receiver fails.
    Dies(usize),
    /// A receiver is removed from the group.
    Evicted(usize),
}

/// Bounds, and situations that must occur.
#[derive(Clone, Debug)]
pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    pub(crate) packets: u8,
    /// Packets of a message; the last one requests an ACK.
    pub(crate) message: u8,
    /// Maximum number of outstanding packets of the source.
    pub(crate) outstanding: u8,
    pub(crate) psn_bits: u32,
    /// Identical NAKs are merged always, or never.
    pub(crate) merge: bool,
    pub(crate) room: usize,
    /// Links without delay.
    pub(crate) instant: u16,
    /// Losses, duplications, reorderings and early timeouts in total.
    pub(crate) faults: u8,
    /// Links with faults.
    pub(crate) faulty: u16,
    /// Nodes that may lose their state, and how often in total.
    pub(crate) crashing: &'static [Place],
    pub(crate) crashes: u8,
    /// Receivers that are in the group from the start.
    pub(crate) members: [bool; 3],
    /// The edge of each receiver at the start.
    pub(crate) parents: [usize; 3],
    pub(crate) changes: Vec<Change>,
    /// `sometimes` properties that must occur.
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

    /// Unwrapped PSN of the first packet: two before a wrap, at least the size of the PSN space.
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
            reack: Duration::ZERO,
            nak_merge: if self.merge { Duration::MAX } else { Duration::ZERO },
            psn_bits: self.psn_bits,
            lost: false,
        }
    }

    /// Every state within the bounds has the properties, and every required situation occurs. Depth first: the states of a breadth
    /// take more memory than those of a path, 20 GiB with the wide bounds.
    pub(crate) fn holds(self) {
        let name = self.name;
        let checker = self.checker().threads(2).spawn_dfs().join();
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

/// Whether larger bounds are requested.
pub(crate) fn deep() -> bool {
    std::env::var_os("CANOPY_DEEP").is_some_and(|v| v == "1")
}
