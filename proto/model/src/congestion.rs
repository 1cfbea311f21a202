// SPDX-License-Identifier: Apache-2.0
//! What a node's egress queues did, and what was said about it (draft-tian-ccwg-long-haul-cnp-00 sections 5.2 to 5.5); kept
//! in memory only. An octet of a packet counts from its Ethernet header on. Totals of packets and octets are the kernel's
//! and outlive the agent; totals of Long-haul CNPs begin with the agent.

use std::fmt::{Display, Formatter};
use std::net::Ipv6Addr;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::FieldError;
use crate::ids::{PortIndex, Qpn};

/// Flows that a node tells of at most, all ports together.
pub const MAX_TOLD_FLOWS: usize = 64;

/// An egress port with limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortCongestion {
    /// Which.
    pub port: PortIndex,
    /// Its queue.
    pub queue: QueueTelemetry,
    /// Flows through it: those that sent most in the last window, then those of which anything was said.
    pub flows: Vec<FlowTelemetry>,
}

/// The queue of an egress port. A window is about one second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct QueueTelemetry {
    /// Queue depth (QD), octets, at the last look.
    pub queue_bytes: u64,
    /// The largest QD of this window and the one before, octets.
    pub peak_queue_bytes: u64,
    /// Where the depth is from that packets are marked by: `kernel`, or `sampled, N ms`; `null` before the first data packet.
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>))]
    pub depth_source: Option<DepthSource>,
    /// Congestion Level, 0..=255, of the last reading.
    pub level: u8,
    /// The largest Congestion Level of this window and the one before.
    pub peak_level: u8,
    /// ECN marking rate (EMR) of the last reading: packets marked CE per thousand, 0..=1000.
    pub emr_permille: u16,
    /// Queue growth rate (QGR) of the last reading, octets per millisecond.
    pub qgr_bytes_per_ms: u64,
    /// Data packets that left.
    pub packets: u64,
    /// Their octets.
    pub bytes: u64,
    /// Packets marked CE here.
    pub marked: u64,
    /// Packets that left marked CE, here or before.
    pub ce: u64,
    /// Packets above K_min that are not ECN capable.
    pub not_ect: u64,
    /// Long-haul CNPs.
    #[serde(flatten)]
    pub counts: CnpCounts,
}

/// A flow through an egress port, as its packets show it; inside SRv6, the inner headers.
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
    /// Source QP; `null` while it is not known: then nobody can be told.
    pub src_qp: Option<Qpn>,
    /// Who says what the source QP is.
    pub origin: FlowOrigin,
    /// Data packets that left.
    pub packets: u64,
    /// Their octets.
    pub bytes: u64,
    /// Packets that left marked CE, here or before.
    pub ce: u64,
    /// Bits per second in the last window.
    pub rate_bps: u64,
    /// Share of the port's octets in the last window, per thousand, 0..=1000.
    pub share_permille: u16,
    /// Long-haul CNPs about the flow for this port; forgotten when the node forgets the flow.
    #[serde(flatten)]
    pub counts: CnpCounts,
}

/// Who says what a flow's source QP is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub enum FlowOrigin {
    /// Nobody yet.
    #[default]
    Unknown,
    /// The DestQP of reverse ACKs.
    Learned,
    /// RDMA-CM messages on QP1.
    Cm,
    /// The controller.
    Provisioned,
}

/// What became of the Long-haul CNPs that a reading called for; totals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct CnpCounts {
    /// Said, by action.
    pub cnps: CnpsSaid,
    /// Held back: the flow's arrival rate fell, so a node upstream was heard.
    pub suppressed: u64,
    /// Held back: the flow was told something less than one RTT ago.
    pub rate_limited_flow: u64,
    /// Held back: the port said as much as it may per second.
    pub rate_limited_port: u64,
    /// Not possible: the flow's source QP is not known.
    pub unknown_source_qp: u64,
}

/// Long-haul CNPs by action.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct CnpsSaid {
    /// Notify.
    pub notify: u64,
    /// Pause.
    pub pause: u64,
    /// Rate Reduce.
    pub rate_reduce: u64,
    /// Resume.
    pub resume: u64,
    /// Composed, of whichever action, but the kernel would not send them.
    pub failed: u64,
}

impl CnpsSaid {
    /// All that were sent.
    pub fn sent(&self) -> u64 {
        self.notify + self.pause + self.rate_reduce + self.resume
    }
}

impl CnpCounts {
    /// Everything that was sent or not.
    pub fn total(&self) -> u64 {
        let held_back = self.suppressed + self.rate_limited_flow + self.rate_limited_port + self.unknown_source_qp;
        self.cnps.sent() + self.cnps.failed + held_back
    }
}

/// Where the depth of a queue is from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum DepthSource {
    /// Read by the program as each packet enters the queue.
    Kernel,
    /// Asked for by netlink, once in this many milliseconds (1 and more).
    Sampled {
        /// Milliseconds.
        every_ms: u32,
    },
}

impl Display for DepthSource {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Kernel => f.write_str("kernel"),
            Self::Sampled { every_ms } => write!(f, "sampled, {every_ms} ms"),
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
        let every = |text: &str| text.strip_prefix("sampled, ")?.strip_suffix(" ms")?.parse().ok();
        match (text, every(text)) {
            ("kernel", _) => Ok(Self::Kernel),
            (_, Some(every_ms)) if every_ms > 0 => Ok(Self::Sampled { every_ms }),
            _ => Err(FieldError::new("depthSource", format!("{text:?} is none: use kernel, or sampled, N ms"))),
        }
    }
}
