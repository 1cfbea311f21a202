// SPDX-License-Identifier: Apache-2.0
//! The agent's pure half: what the kernel should hold for a `NodeSpec`, and the seam to the half that touches it.

pub mod aggregate;
pub mod congestion;
pub mod mroute;
pub mod net;
pub mod pacing;
pub mod slots;
pub mod stall;
pub mod stamp;

use std::future::Future;

use canopy_model::congestion::PortCongestion;
use canopy_model::node_spec::NodeSpec;
use canopy_model::status::ItemError;
use canopy_model::telemetry::{DropCount, Event, GroupTelemetry};

/// What the agent's event loop needs of a datapath; `canopy-datapath` implements it on the Linux kernel.
pub trait Datapath: Send {
    /// Makes the kernel match `spec` (all desired against all observed), reads everything back, and returns what
    /// does not match. Empty means applied. Safe to run any number of times.
    fn reconcile(&mut self, spec: &NodeSpec) -> impl Future<Output = Vec<ItemError>> + Send;

    /// Reads the counters and the aggregation state of every group, and what is known of the ports' queues.
    fn sample(&mut self) -> impl Future<Output = Result<Sample, DatapathError>> + Send;

    /// Waits for the next thing worth acting on. Cancel safe.
    fn next_event(&mut self) -> impl Future<Output = DatapathEvent> + Send;
}

/// One reading of the datapath.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// Per group.
    pub groups: Vec<GroupTelemetry>,
    /// Drops that belong to no group.
    pub node_drops: Vec<DropCount>,
    /// Per port that has thresholds.
    pub congestion: Vec<PortCongestion>,
}

/// Why the datapath woke its owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DatapathEvent {
    /// Links, addresses, routes or neighbours changed in the kernel: reconcile again.
    KernelChanged,
    /// Something to tell people.
    Event(Event),
}

/// A datapath operation failed; says what was being done.
#[derive(Debug, thiserror::Error)]
#[error("{doing}")]
pub struct DatapathError {
    /// What was being done.
    pub doing: String,
    /// Why it failed.
    #[source]
    pub source: Box<dyn std::error::Error + Send + Sync>,
}
