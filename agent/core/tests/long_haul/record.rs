// SPDX-License-Identifier: Apache-2.0
//! Events of a run.

use canopy_agent_core::congestion::Action;
use canopy_host_core::pacing::Outcome;

use crate::host::Message;

/// A node's instruction, sent or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Instruction {
    pub(crate) at_ns: u64,
    pub(crate) hop: usize,
    pub(crate) flow: usize,
    pub(crate) level: u8,
    pub(crate) action: Action,
    /// The node counted all instructions of this sample as escalations, or the action differs from that of the metrics alone.
    pub(crate) escalated: bool,
}

impl Instruction {
    /// Whether it requests a reduction or a pause.
    pub(crate) fn reduces(&self) -> bool {
        !matches!(self.action, Action::Resume(_))
    }
}

/// A message that a source received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Received {
    pub(crate) at_ns: u64,
    pub(crate) flow: usize,
    pub(crate) message: Message,
    /// Its outcome, and the era of its flow that starts with it.
    pub(crate) outcome: Option<(Outcome, u32)>,
}

/// The events of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Record {
    /// Instructions of the nodes.
    pub(crate) sent: Vec<Instruction>,
    /// Instructions of shadow nodes, which get the same inputs and never defer.
    pub(crate) shadow: Vec<Instruction>,
    pub(crate) received: Vec<Received>,
    /// Per millisecond: depth of each queue, then the rate of each flow.
    pub(crate) depths: Vec<Vec<u64>>,
    pub(crate) rates: Vec<Vec<u64>>,
    /// Per millisecond: total octets sent by each node.
    pub(crate) carried: Vec<Vec<u64>>,
}
