// SPDX-License-Identifier: Apache-2.0
//! Pure part of the agent: computes the kernel state that a `NodeSpec` requires; [`Datapath`] is the interface to the kernel.

pub mod congestion;
pub mod echo;
pub mod hops;
pub mod mroute;
pub mod net;
pub mod reach;
pub mod rules;
pub mod slots;
pub mod stall;
pub mod stamp;

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod testing;

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::time::Duration;

use canopy_model::capture::{CaptureOrder, CapturedFrame};
use canopy_model::congestion::PortCongestion;
use canopy_model::ids::GroupId;
use canopy_model::node_spec::NodeSpec;
use canopy_model::status::ItemError;
use canopy_model::telemetry::{DropCount, Event, GroupTelemetry};

/// Operations that the agent's event loop needs from a datapath; `canopy-datapath` implements them on the Linux kernel.
pub trait Datapath: Send {
    /// Makes the kernel match `spec`, reads back what it wrote, and returns every item that does not match, also those of before; an empty
    /// result means applied. What `scope` leaves out is taken to be as the last call left it. Safe to run any number of times.
    fn follow(&mut self, spec: &NodeSpec, scope: Scope) -> impl Future<Output = Vec<ItemError>> + Send;

    /// The same for all desired against all observed.
    fn reconcile(&mut self, spec: &NodeSpec) -> impl Future<Output = Vec<ItemError>> + Send {
        self.follow(spec, Scope::All)
    }

    /// How long the last [`Datapath::follow`] read back what it had written.
    fn read_back(&self) -> Duration {
        Duration::ZERO
    }

    /// Reads the counters and the aggregation state of every group, and the state of the ports' queues.
    fn sample(&mut self) -> impl Future<Output = Result<Sample, DatapathError>> + Send;

    /// Packets that the queue of each interface dropped since it exists, by name; interfaces without a queue are missing.
    fn queue_drops(&mut self) -> Result<BTreeMap<String, u64>, DatapathError>;

    /// Waits for a packet and captures it, or for none from now on. A packet that is waited for already is given up.
    ///
    /// # Errors
    /// The group is not configured here, or the kernel refuses.
    fn capture(&mut self, order: Option<&CaptureOrder>) -> Result<(), DatapathError>;

    /// Waits for the next event. Cancel safe.
    fn next_event(&mut self) -> impl Future<Output = DatapathEvent> + Send;
}

/// What may differ from what the last reconcile left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// What changed in the spec.
    Spec,
    /// That, and links, addresses, routes and neighbours: the kernel has sent a notice.
    Network,
    /// Everything: notices of the kernel can be lost, and there is none of a change of a map.
    All,
}

/// One sample of the datapath.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// Per group.
    pub groups: Vec<GroupTelemetry>,
    /// Those of them of which nothing has moved for some time, and nothing waits for anybody.
    pub at_rest: BTreeSet<GroupId>,
    /// Drops that belong to no group.
    pub node_drops: Vec<DropCount>,
    /// Per port that has thresholds.
    pub congestion: Vec<PortCongestion>,
    /// What passed by path SIDs, by the name of the port on which it arrived.
    pub paths: BTreeMap<String, PathPackets>,
}

/// Packets to path SIDs of the node that were not dropped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PathPackets {
    /// Sent over the link that their next uSID names.
    pub forwarded: u64,
    /// Their program ended here, and the inner packet was forwarded.
    pub ended: u64,
}

/// An event that the datapath reports to the agent's event loop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DatapathEvent {
    /// Links, addresses, routes or neighbours changed in the kernel: reconcile again.
    KernelChanged,
    /// An event for the operator.
    Event(Event),
    /// A frame of the packet that is captured.
    Captured(CapturedFrame),
}

/// A datapath operation failed.
#[derive(Debug, thiserror::Error)]
#[error("{doing}")]
pub struct DatapathError {
    /// The operation.
    pub doing: String,
    /// Why it failed.
    #[source]
    pub source: Box<dyn std::error::Error + Send + Sync>,
}
