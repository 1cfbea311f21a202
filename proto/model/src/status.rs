// SPDX-License-Identifier: Apache-2.0
//! What nodes observe, and the phases of groups.

use std::net::Ipv6Addr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::FieldError;
use crate::digest::SpecDigest;
use crate::ids::{Generation, GroupId};
use crate::retirement::CleanedUp;

/// A node's report after each reconciliation: applied means read back from the kernel and equal.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct NodeStatus {
    /// Node name.
    pub node: String,
    /// Term of the spec that was reconciled.
    #[serde(default)]
    pub observed_term: u64,
    /// Generation of the spec that was reconciled. Another controller's life may have the same number: with term and digest it
    /// names the spec.
    pub observed_generation: Generation,
    /// Digest of the spec that was reconciled.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub observed_digest: SpecDigest,
    /// Items that are not as desired; empty means that the kernel state matches the whole spec.
    pub errors: Vec<ItemError>,
    /// Agent version.
    pub agent_version: String,
    /// Kernel release.
    pub kernel: String,
    /// Minor version of the southbound contract that agent and controller agreed on.
    #[serde(default)]
    pub minor_version: u32,
    /// Where Prometheus finds the agent's metrics, `host:port`; empty if it serves none.
    #[serde(default)]
    pub metrics_address: String,
    /// How long the first reconciliation of the observed spec took, if the agent measures it.
    #[serde(skip)]
    pub took: Option<Took>,
    /// The agent ends now, and is back within this long.
    #[serde(skip)]
    pub back_within: Option<Duration>,
    /// The agent has cleaned up after an order to; everything else is empty then.
    #[serde(skip)]
    pub cleaned_up: Option<CleanedUp>,
}

/// Minor version of the southbound contract from which on agents announce that they end.
pub const BACK_WITHIN_MINOR_VERSION: u32 = 5;
/// An agent that is stopped is back within this long, or its node counts as one without an agent.
pub const BACK_WITHIN: Duration = Duration::from_secs(60);

/// How long a reconciliation took, on the node's monotonic clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Took {
    /// Writing, the ledger included.
    pub apply: Duration,
    /// Reading back.
    pub read_back: Duration,
}

/// Accepts `host:port`, the host being a name, an IPv4 address or an IPv6 address in brackets.
///
/// # Errors
/// The field, and what is permitted.
pub fn check_metrics_address(field: &str, address: &str) -> Result<(), FieldError> {
    let is_name =
        |host: &str| host.len() <= 253 && host.bytes().all(|b| b.is_ascii_alphanumeric() || b".-_".contains(&b));
    let is_host = |host: &str| match host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
        Some(inner) => inner.parse::<Ipv6Addr>().is_ok(),
        None => !host.is_empty() && is_name(host),
    };
    let is_port =
        |port: &str| port.bytes().all(|b| b.is_ascii_digit()) && port.parse::<u16>().is_ok_and(|port| port > 0);
    match address.rsplit_once(':') {
        Some((host, port)) if is_host(host) && is_port(port) => Ok(()),
        _ => Err(FieldError::new(
            field,
            format!("{address:?} is not an address: use host:port, with an IPv6 address in brackets"),
        )),
    }
}

/// Kind of a desired item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub enum ItemKind {
    /// A port of the node.
    Port,
    /// A port whose link carries nothing: its interface or its carrier is missing.
    Link,
    /// A port whose link loses every packet although its carrier is up: its neighbour answered once, and does not any more.
    Silence,
    /// A unicast route.
    Route,
    /// A next hop's link-layer address.
    Neighbour,
    /// A BPF program, or the agent itself.
    Program,
    /// A group's program at the node.
    Group,
    /// The report itself.
    Report,
    /// A kind of a later version; the name and the detail have the agent's text.
    Other,
}

impl ItemKind {
    /// Whether trees and routes lead around the port: its link carries nothing.
    pub fn is_dead_link(self) -> bool {
        matches!(self, Self::Link | Self::Silence)
    }
}

impl std::fmt::Display for ItemKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Port => "port",
            Self::Link => "link",
            Self::Silence => "silence",
            Self::Route => "route",
            Self::Neighbour => "neighbour",
            Self::Program => "program",
            Self::Group => "group",
            Self::Report => "report",
            Self::Other => "other",
        })
    }
}

/// One desired item that is not in the kernel as asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ItemError {
    /// What kind of item.
    pub kind: ItemKind,
    /// Which one, for example `eth2`.
    pub name: String,
    /// The group that suffers, if only one does; `None` = every group that uses the item.
    pub group: Option<GroupId>,
    /// What is wrong and what to do, for a person.
    pub detail: String,
}

/// Where a group is in its life.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub enum GroupPhase {
    /// No source or no receiver yet.
    #[default]
    Pending,
    /// At least one node has not confirmed the program of the current epoch.
    Programming,
    /// Every node read its kernel state back and it matched, and the source's data, if any, is acknowledged.
    Ready,
    /// Data is outstanding and its AckPSN has not advanced for `stallAfterMs`; the reason names the branch that holds it up.
    Stalled,
    /// No telemetry of the headend arrives: it forwards, and whether receivers acknowledge is not known.
    Unknown,
    /// At least one node cannot do its part; the reason names it.
    Degraded,
    /// The stall policy `fail` stopped it; the reason names the receiver. Nothing is forwarded until every member has left.
    Failed,
    /// It was deleted, and its members are being removed; the reason has how many are left. Nothing is forwarded, and no host can join.
    Deleting,
}

impl GroupPhase {
    /// Every phase.
    pub const ALL: [Self; 8] = [
        Self::Pending,
        Self::Programming,
        Self::Ready,
        Self::Stalled,
        Self::Unknown,
        Self::Degraded,
        Self::Failed,
        Self::Deleting,
    ];
}

impl std::fmt::Display for GroupPhase {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The variants' names are the API's.
        write!(f, "{self:?}")
    }
}
