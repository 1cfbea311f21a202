// SPDX-License-Identifier: Apache-2.0
//! Counters and aggregation state that a node reports; kept in memory only.

use std::net::Ipv6Addr;
use std::time::Duration;

use canopy_units::{Octets, UnixTime, UnwrappedPsn, numbers};
use serde::{Deserialize, Serialize};

use crate::ids::{GroupId, PortIndex};
use crate::member::LateStart;
use crate::reach::HostReach;

/// One group at one node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct GroupTelemetry {
    /// The group.
    pub group_id: GroupId,
    /// Epoch of the program that is in force.
    pub epoch: u32,
    /// Highest data PSN sent down + 1, unwrapped to 64 bits.
    #[cfg_attr(feature = "schema", schema(value_type = u64))]
    pub high: UnwrappedPsn,
    /// Minimum of the branches' next PSNs, unwrapped; `None` without branches.
    #[cfg_attr(feature = "schema", schema(value_type = Option<u64>))]
    pub min_next: Option<UnwrappedPsn>,
    /// ACKs received from branches.
    pub acks_in: u64,
    /// ACKs sent upstream.
    pub acks_out: u64,
    /// NAKs (PSN sequence error and RNR) received.
    pub naks_in: u64,
    /// NAKs sent upstream.
    pub naks_out: u64,
    /// CNPs received.
    pub cnps_in: u64,
    /// CNPs sent upstream.
    pub cnps_out: u64,
    /// Data packets received from upstream (or from the source, at the headend).
    pub data_packets: u64,
    /// Their bytes.
    #[cfg_attr(feature = "schema", schema(value_type = u64))]
    #[serde(rename = "dataBytes")]
    pub data_octets: Octets,
    /// Those data packets that raised `high`: what a rise of `high` has more was lost on the way here, or overtaken. `None` while the
    /// programs of an agent of another version forward too, and from agents that do not count them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fresh_packets: Option<u64>,
    /// Per branch.
    pub branches: Vec<BranchTelemetry>,
    /// Per drop reason; only those that are not zero.
    pub drops: Vec<DropCount>,
}

/// One branch of a group at a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct BranchTelemetry {
    /// The child's node address or the receiver's address.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub address: Ipv6Addr,
    /// Unwrapped next PSN (AckPSN + 1); `None` while the branch is not active.
    #[cfg_attr(feature = "schema", schema(value_type = Option<u64>))]
    pub next: Option<UnwrappedPsn>,
    /// The branch is active but unconfirmed: no ACK since it was added or since receivers moved behind it.
    pub unconfirmed: bool,
    /// AckPSN, 24 bits.
    pub ack_psn: Option<u32>,
    /// ePSN of an outstanding NAK.
    pub epsn: Option<u32>,
    /// Fatal NAK of a receiver, from its first one until the branch leaves; it stays in every sample.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fatal: Option<FatalNak>,
    /// How far a receiver is that joins while data flows; `None` for all others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub late: Option<LateState>,
    /// Where it started; in every sample from then on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<LateStart>,
    /// CNPs in the current window.
    pub ccount: u32,
    /// Nanoseconds since feedback was last received; `None` = never.
    #[cfg_attr(feature = "schema", schema(value_type = Option<u64>))]
    #[serde(rename = "lastFeedbackNs", with = "numbers::optional_nanos", default)]
    pub last_feedback: Option<Duration>,
    /// Copies sent to this branch.
    pub packets: u64,
    /// Their bytes.
    #[cfg_attr(feature = "schema", schema(value_type = u64))]
    #[serde(rename = "bytes")]
    pub octets: Octets,
    /// PSNs by which feedback of this branch raised the minimum, since it joined: all other branches had acknowledged them, so the
    /// source waited for this one. `None` while the programs of an agent of another version count too, and from agents that do not
    /// count them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed_min: Option<u64>,
}

/// How far a receiver is that joined while data flowed (decisions 3.13).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub enum LateState {
    /// Its queue pair is probed, and has not answered as one does that expects the start PSN.
    Probing,
    /// It has; the next message is its first one.
    Pending,
    /// It gets data and counts.
    Started,
    /// Its queue pair answers, for a second now, but not as one that expects the start PSN: it was not reset.
    NotFresh,
    /// It may have started, but its edge has lost its state, and with it from where.
    Lost,
}

/// A NAK after which a queue pair is in error (decisions 3.7): retransmission does not help.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct FatalNak {
    /// AETH syndrome: 97 invalid request, 98 remote access error, 99 remote operational error, 100 invalid RD request.
    pub syndrome: u8,
    /// PSN of the packet that it refused, 24 bits, in the source's numbering.
    pub psn: u32,
}

impl FatalNak {
    /// What the syndrome means (IBTA vol. 1, 9.7.5.2.8).
    pub const fn meaning(self) -> &'static str {
        match self.syndrome {
            0x61 => "invalid request",
            0x62 => "remote access error",
            0x63 => "remote operational error",
            0x64 => "invalid RD request",
            _ => "unknown error",
        }
    }
}

/// Drops for one reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct DropCount {
    /// Number, never reused.
    pub reason: u32,
    /// Its name, for example `branch_unknown`.
    pub name: String,
    /// Packets.
    pub packets: u64,
    /// Interface on which they arrived; only for drops at the boundary of the domain and of packets to path SIDs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<String>,
}

/// What an agent's STAMP session (RFC 8762) over one of its links measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct LinkRtt {
    /// Port that the test packets leave through.
    pub port: PortIndex,
    /// Smallest round-trip time since the last report, nanoseconds, without the reflector's own delay; `None` without a sample.
    #[cfg_attr(feature = "schema", schema(value_type = Option<u64>))]
    #[serde(rename = "rttNs", with = "numbers::optional_nanos", default)]
    pub rtt: Option<Duration>,
    /// Test packets answered since the agent started.
    pub samples: u64,
    /// Test packets lost since the agent started.
    pub lost: u64,
}

/// What became of an agent's ICMPv6 Echo Requests (RFC 4443 section 4) over one of its links (decisions 3.14). Cumulative since the agent
/// started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkLoss {
    /// Port that the requests leave through.
    pub port: PortIndex,
    /// Requests whose fate is known.
    pub requests: u64,
    /// Those without a reply: the request or the reply was lost.
    pub lost: u64,
    /// Packets that the port's own queue dropped.
    pub queue_drops: u64,
}

impl LinkLoss {
    /// Requests with a reply.
    pub fn answered(&self) -> u64 {
        self.requests.saturating_sub(self.lost)
    }
}

/// What happened, in an [`Event`]. The names are stable: they appear in the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub enum EventCode {
    /// A branch stalls its group (decisions 3.10).
    BranchStalled,
    /// The branch no longer stalls its group.
    BranchRecovered,
    /// A receiver sent a fatal NAK (decisions 3.7).
    FatalNak,
    /// The headend forwarded the first data of a source.
    FirstData,
    /// The agent refused an update of its desired state.
    SpecRefused,
    /// The agent cannot read the datapath's counters.
    SampleFailed,
    /// The agent dropped telemetry while the controller did not take it.
    TelemetryDropped,
    /// A filter, rule or sysctl of the domain's boundary was gone, and the agent restored it (decisions 6.4).
    BoundaryRestored,
    /// The host of a stalled receiver got Echo Requests; the detail has what was seen.
    HostProbed,
    /// A code of a later version; the detail has the agent's text.
    Unknown,
}

impl std::fmt::Display for EventCode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The variants' names are the API's.
        write!(f, "{self:?}")
    }
}

/// An event that the datapath or agent reports to operators.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Event {
    /// Nanoseconds since the Unix epoch.
    #[cfg_attr(feature = "schema", schema(value_type = u64))]
    #[serde(rename = "timeUnixNs")]
    pub time: UnixTime,
    /// What happened.
    pub code: EventCode,
    /// Group concerned, if any.
    pub group: Option<GroupId>,
    /// Branch concerned, if any.
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>))]
    pub branch: Option<Ipv6Addr>,
    /// Epoch of the group's program at the node, if the event depends on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch: Option<u32>,
    /// Text for operators.
    pub detail: String,
    /// Only with [`EventCode::HostProbed`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reach: Option<HostReach>,
}
