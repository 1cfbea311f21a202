// SPDX-License-Identifier: Apache-2.0
//! The node side of Long-haul CNP (decisions 4.1, 4.3 and 4.6, draft-tian-ccwg-long-haul-cnp-00 sections 5.2 to 5.5 and 5.7):
//! which flows are forwarded, how congested each egress port is, and which Long-haul CNPs to send. Pure: [`Node::handle`] takes
//! inputs and the time, [`Node::poll_timeout`] returns when to call [`Node::handle_timeout`], [`Node::next_command`] returns the
//! next Long-haul CNP. Any monotonic clock will do.
//!
//! - [`FlowTable`]: one entry per flow, bounded; the oldest is evicted, provisioned flows stay.
//! - `meter`: queue depth, ECN marking rate and queue growth rate from counters, over an interval.
//! - [`Limits`], [`Assessment`]: the second-level triggers, the Congestion Level and the action for it.
//! - `upstream`: detects that a node upstream already controls a flow, by the flow's arrival rate and CE marks.
//! - [`Node`]: combines them and limits the packets: one per flow and RTT, a rate per port, and none while a node upstream
//!   controls the flow.

mod cm;
mod flow;
mod meter;
mod node;
mod port;
mod trigger;
mod upstream;

pub use canopy_model::instruction::{Action, Metric, Percent};
pub use cm::{CmKind, CmMessage, Connections};
pub use flow::{FlowKey, FlowTable, FourTuple, Origin, TableFull};
pub use meter::Counters;
pub use node::{Command, Format, Input, Node, Settings};
pub use trigger::{Assessment, Limits, Reading};

#[cfg(test)]
mod tests;
