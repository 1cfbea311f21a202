// SPDX-License-Identifier: Apache-2.0
//! A node that leaves the domain for good.
//!
//! ```text
//! Draining --nothing uses it, its agent is connected--> CleaningUp --its agent has reported--> Revoking --its certificates are revoked--> Retired
//!    |  \--nothing uses it, without its agent-----------------\--without its agent------------^                                           |
//!    +--cancelled--> (none)                                                                                (none) <--enrolled again, forgotten--+
//! ```
//!
//! A node that is enrolled again stays without paths until its agent is connected.
//!
//! Each step is durable before anything of it is done, so that a controller that starts continues with it. Nothing is given up: a step that
//! waits shows what for.

use std::collections::BTreeMap;

use canopy_model::retirement::RetireSpec;
use canopy_units::{Monotonic, UnixTime};
use serde::{Deserialize, Serialize};

use crate::principal::Stamp;

/// How far a retirement is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum RetireStep {
    /// The node is drained; trees and routes leave it.
    Draining,
    /// Nothing uses it: its agent removes what it programmed into the kernel.
    CleaningUp,
    /// Its certificates are being revoked.
    Revoking,
    /// It has left. It stays drained until an operator takes it out of the topology.
    Retired,
}

impl std::fmt::Display for RetireStep {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The variants' names are the API's.
        write!(f, "{self:?}")
    }
}

/// A step, and when it was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reached {
    /// The step.
    pub step: RetireStep,
    /// On the controller's wall clock, for people.
    pub at: UnixTime,
}

/// A retirement, as it is stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Retirement {
    /// The node.
    pub node: String,
    /// Revision in which it began: names it among all retirements.
    pub id: u64,
    /// How the node is to leave.
    pub spec: RetireSpec,
    /// Who began it, and when.
    pub begun: Stamp,
    /// How far it is.
    pub reached: Reached,
    /// The drain that it has made; `None` if the node was drained before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drain: Option<String>,
    /// What the agent has removed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub removed: Vec<String>,
    /// An operator takes the node back, which has left: it is forgotten once the agent is connected, and not shown until then.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub enrolled: bool,
    /// The node had left when this retirement began, and no agent was connected since its enrollment: nothing leads over it from the
    /// beginning on.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub without_programs: bool,
    /// Why the agent has not removed everything, as it last reported.
    #[serde(skip)]
    pub failed: Option<String>,
    /// Its agent reports that it cleans up for another retirement, and nothing else: it can take the order of this one.
    #[serde(skip)]
    pub(crate) agent_leaves: bool,
    /// When this controller learned of it, for its timeout.
    #[serde(skip)]
    pub known: Monotonic,
    /// Index of a node that has not confirmed the routes around this one, as far as is known: until it has, no other one is checked.
    #[serde(skip)]
    pub(crate) waits_for: usize,
}

/// Retirements by node.
pub(crate) type Retirements = BTreeMap<String, Retirement>;

/// The nodes that forward nothing, or may stop to at any time.
pub(crate) fn left(retirements: &Retirements) -> Vec<&str> {
    retirements.values().filter(|of| of.is_beyond_return() || of.without_programs).map(|of| of.node.as_str()).collect()
}

impl Retirement {
    /// Whether nothing of it is left to do.
    pub fn has_ended(&self) -> bool {
        self.reached.step == RetireStep::Retired
    }

    /// Whether its agent has begun to clean up, or may have: there is no way back.
    pub fn is_beyond_return(&self) -> bool {
        self.reached.step > RetireStep::Draining
    }
}
