// SPDX-License-Identifier: Apache-2.0
//! Validated domain types that every part of Canopy shares.
//!
//! Parsed once at an edge (REST, gRPC, a file), these types make invalid states unrepresentable inside. They have no
//! behaviour beyond validation and arithmetic on names and numbers.
//!
//! - [`ids`]: small numbers with their ranges (QPN, PSN, node, tree, group identifiers).
//! - [`addressing`]: the domain's address plan, from which every SID and address is derived.
//! - [`usid`]: the number plan of uSIDs under the block.
//! - [`topology`], [`group`], [`member`]: intents of operators and hosts. [`limits`]: how large a topology is at most.
//! - [`fabric`]: what a host composes path programs from.
//! - [`node_spec`]: desired state of one node; leaves the agent no choice. [`programs`]: its part that grows with the groups, [`routes`]: that
//!   which grows with the topology.
//! - [`srh_hmac`]: keys of the SRH HMAC TLV.
//! - [`digest`]: the name of a node's desired state.
//! - [`status`]: reports of nodes and status of groups.
//! - [`reach`]: what the host of a stalled receiver answers.
//! - [`telemetry`], [`congestion`]: counters per group, branch, egress queue and flow, never stored durably.
//! - [`capture`]: one packet of a group, captured.
//! - [`labels`]: words by which operators find resources. [`log_level`]: filters of log lines that hold for a while.
//! - [`rfc3339`]: times that operators write.
//! - [`instruction`]: what a Long-haul CNP asks of a source, and why.

pub mod addressing;
pub mod capture;
pub mod congestion;
pub mod digest;
pub mod drain;
pub mod error;
pub mod fabric;
pub mod group;
pub mod host_programs;
pub mod ids;
pub mod instruction;
pub mod labels;
pub mod limits;
pub mod log_level;
pub mod member;
pub mod node_spec;
pub mod programs;
pub mod reach;
pub mod retirement;
pub mod rfc3339;
pub mod routes;
pub mod silence;
pub mod srh_hmac;
pub mod status;
pub mod telemetry;
pub mod topology;
pub mod usid;

pub use error::{FieldError, FieldErrors};
