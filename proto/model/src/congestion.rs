// SPDX-License-Identifier: Apache-2.0
//! State of a node's egress queues and the Long-haul CNPs sent about them (draft-tian-ccwg-long-haul-cnp-00 sections
//! 5.2 to 5.5); kept in memory only. Octets of a packet are counted from its Ethernet header on. Totals of packets and
//! octets are the kernel's and outlive the agent; totals of Long-haul CNPs start with the agent.

use std::fmt::{Display, Formatter};
use std::net::Ipv6Addr;
use std::str::FromStr;
use std::time::Duration;

use canopy_units::{Octets, Rate};
use serde::{Deserialize, Serialize};

use crate::FieldError;
use crate::ids::{PortIndex, Qpn};
use crate::instruction::Action;

/// Flows that a node reports at most, all ports together.
pub const MAX_REPORTED_FLOWS: usize = 64;

/// An egress port with queue thresholds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortCongestion {
    /// The port.
    pub port: PortIndex,
    /// Its queue.
    pub queue: QueueTelemetry,
    /// Flows through it: those with the highest rate in the last window, then those that Long-haul CNPs were sent or
    /// withheld for.
    pub flows: Vec<FlowTelemetry>,
}

/// The queue of an egress port. A window is about one second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct QueueTelemetry {
    /// Queue depth (QD), octets, at the last sample.
    #[cfg_attr(feature = "schema", schema(value_type = u64))]
    #[serde(rename = "queueBytes")]
    pub queue: Octets,
    /// The largest QD of this window and the one before, octets.
    #[cfg_attr(feature = "schema", schema(value_type = u64))]
    #[serde(rename = "peakQueueBytes")]
    pub peak_queue: Octets,
    /// Source of the depth that packets are marked by: `kernel`, or `sampled, N ms`; `null` before the first data
    /// packet.
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>))]
    pub depth_source: Option<DepthSource>,
    /// Congestion Level, 0..=255, of the last sample.
    pub level: u8,
    /// The largest Congestion Level of this window and the one before.
    pub peak_level: u8,
    /// ECN marking rate (EMR) of the last sample: packets marked CE per thousand, 0..=1000.
    pub emr_permille: u16,
    /// Queue growth rate (QGR) of the last sample, octets per millisecond.
    #[cfg_attr(feature = "schema", schema(value_type = u64))]
    #[serde(rename = "qgrBytesPerMs")]
    pub qgr_per_ms: Octets,
    /// Data packets sent.
    pub packets: u64,
    /// Their octets.
    #[cfg_attr(feature = "schema", schema(value_type = u64))]
    #[serde(rename = "bytes")]
    pub octets: Octets,
    /// Packets marked CE here.
    pub marked: u64,
    /// Packets that left marked CE, by this node or an earlier one.
    pub ce: u64,
    /// Packets above K_min that are not ECN capable.
    pub not_ect: u64,
    /// Long-haul CNPs.
    #[serde(flatten)]
    pub counts: CnpCounts,
}

/// A flow through an egress port, identified by its packets' headers; inside SRv6, the inner headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct FlowTelemetry {
    /// Source address.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub src: Ipv6Addr,
    /// Destination address.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub dst: Ipv6Addr,
    /// Destination QP.
    pub dst_qp: Qpn,
    /// Source QP; `null` while it is not known: no Long-haul CNP can be sent then.
    pub src_qp: Option<Qpn>,
    /// Origin of the source QP.
    pub origin: FlowOrigin,
    /// Data packets sent.
    pub packets: u64,
    /// Their octets.
    #[cfg_attr(feature = "schema", schema(value_type = u64))]
    #[serde(rename = "bytes")]
    pub octets: Octets,
    /// Packets that left marked CE, by this node or an earlier one.
    pub ce: u64,
    /// Bits per second in the last window.
    #[cfg_attr(feature = "schema", schema(value_type = u64))]
    #[serde(rename = "rateBps")]
    pub rate: Rate,
    /// Share of the port's octets in the last window, per thousand, 0..=1000.
    pub share_permille: u16,
    /// Long-haul CNPs about the flow for this port; reset when the node removes the flow.
    #[serde(flatten)]
    pub counts: CnpCounts,
}

/// Origin of a flow's source QP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub enum FlowOrigin {
    /// Not known yet.
    #[default]
    Unknown,
    /// The DestQP of reverse ACKs.
    Learned,
    /// RDMA-CM messages on QP1.
    Cm,
    /// The controller.
    Provisioned,
}

/// Long-haul CNPs that samples required, by outcome; totals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct CnpCounts {
    /// Sent, by action.
    pub cnps: CnpsByAction,
    /// Held back: the flow's arrival rate fell, so the notification of a node upstream took effect.
    pub suppressed: u64,
    /// Held back: a Long-haul CNP about the flow was sent less than one RTT ago.
    pub rate_limited_flow: u64,
    /// Held back: the port reached its limit of Long-haul CNPs per second.
    pub rate_limited_port: u64,
    /// Not possible: the flow's source QP is not known.
    pub unknown_source_qp: u64,
}

/// Long-haul CNPs by action.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct CnpsByAction {
    /// Notify.
    pub notify: u64,
    /// Pause.
    pub pause: u64,
    /// Rate Reduce.
    pub rate_reduce: u64,
    /// Resume.
    pub resume: u64,
    /// Composed, with any action, but the kernel refused to send them.
    pub failed: u64,
}

impl CnpsByAction {
    /// The counter of those with this action.
    pub fn of(&mut self, action: Action) -> &mut u64 {
        match action {
            Action::Notify => &mut self.notify,
            Action::Pause { .. } => &mut self.pause,
            Action::RateReduce(_) => &mut self.rate_reduce,
            Action::Resume(_) => &mut self.resume,
        }
    }

    /// All that were sent.
    pub fn sent(&self) -> u64 {
        self.notify + self.pause + self.rate_reduce + self.resume
    }
}

impl CnpCounts {
    /// All that samples required, sent or not.
    pub fn total(&self) -> u64 {
        let held_back = self.suppressed + self.rate_limited_flow + self.rate_limited_port + self.unknown_source_qp;
        self.cnps.sent() + self.cnps.failed + held_back
    }
}

/// Source of a queue depth.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum DepthSource {
    /// Read by the eBPF program as each packet enters the queue.
    Kernel,
    /// Polled by netlink, once in this time.
    Sampled {
        /// Whole milliseconds, 1 and more.
        every: Duration,
    },
}

impl Display for DepthSource {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Kernel => f.write_str("kernel"),
            Self::Sampled { every } => write!(f, "sampled, {} ms", every.as_millis()),
        }
    }
}

impl From<DepthSource> for String {
    fn from(source: DepthSource) -> Self {
        source.to_string()
    }
}

impl TryFrom<String> for DepthSource {
    type Error = FieldError;
    fn try_from(text: String) -> Result<Self, FieldError> {
        text.parse()
    }
}

impl FromStr for DepthSource {
    type Err = FieldError;
    fn from_str(text: &str) -> Result<Self, FieldError> {
        let every = |text: &str| text.strip_prefix("sampled, ")?.strip_suffix(" ms")?.parse::<u32>().ok();
        match (text, every(text)) {
            ("kernel", _) => Ok(Self::Kernel),
            (_, Some(millis)) if millis > 0 => Ok(Self::Sampled { every: Duration::from_millis(millis.into()) }),
            _ => Err(FieldError::new("depthSource", format!("{text:?} is none: use kernel, or sampled, N ms"))),
        }
    }
}
