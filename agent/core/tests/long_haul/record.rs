// SPDX-License-Identifier: Apache-2.0
//! What happened in a run.

use canopy_agent_core::congestion::Action;
use canopy_agent_core::pacing::Outcome;

use crate::host::Word;

/// A node's instruction, sent or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Told {
    pub(crate) at_ns: u64,
    pub(crate) hop: usize,
    pub(crate) flow: usize,
    pub(crate) level: u8,
    pub(crate) action: Action,
    /// The node said so, of all that it told then; or it is other than the metrics alone ask for.
    pub(crate) escalated: bool,
}

impl Told {
    /// Whether it asks for less.
    pub(crate) fn asks(&self) -> bool {
        !matches!(self.action, Action::Resume(_))
    }
}

/// Something that reached a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Heard {
    pub(crate) at_ns: u64,
    pub(crate) flow: usize,
    pub(crate) word: Word,
    /// What became of it, and which era of its flow it began.
    pub(crate) outcome: Option<(Outcome, u32)>,
}

/// What happened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Record {
    /// By nodes as they are.
    pub(crate) told: Vec<Told>,
    /// By nodes that never defer and hear the same.
    pub(crate) shadow: Vec<Told>,
    pub(crate) heard: Vec<Heard>,
    /// Per millisecond: depth of each queue, then the rate of each flow.
    pub(crate) depths: Vec<Vec<u64>>,
    pub(crate) rates: Vec<Vec<u64>>,
    /// Per millisecond: octets that each node sent so far.
    pub(crate) carried: Vec<Vec<u64>>,
}
