// SPDX-License-Identifier: Apache-2.0
//! The node side of Long-haul CNP (decisions 4.1, 4.3 and 4.6, draft-tian-ccwg-long-haul-cnp-00 sections 5.2 to 5.5 and 5.7):
//! which flows pass, how congested each egress port is, and whom to tell what. Pure: [`Node::handle`] takes inputs and the
//! time, [`Node::poll_timeout`] says when [`Node::handle_timeout`] wants to be called, [`Node::next_command`] says what to
//! send. Times are nanoseconds on any steady clock.
//!
//! - [`FlowTable`]: one entry per flow, bounded, the oldest out; what the controller provisioned stays.
//! - `meter`: queue depth, ECN marking rate and queue growth rate from counters, over an interval.
//! - [`Limits`], [`Assessment`]: the second-level triggers, the Congestion Level and the action for it.
//! - `upstream`: whether a node upstream is at work on a flow, by its arrival rate and by the marks that it comes with.
//! - [`Node`]: puts them together, and holds back: one packet per flow and RTT, a limit per port, and silence while a node
//!   upstream is at work.

mod cm;
mod flow;
mod instruction;
mod meter;
mod node;
mod port;
mod trigger;
mod upstream;

pub use cm::{CmMessage, CmSays, Connections};
pub use flow::{FlowKey, FlowTable, FourTuple, Origin, TableFull};
pub use instruction::{Action, Metric, Percent};
pub use meter::Counters;
pub use node::{Command, Format, Input, Node, Settings};
pub use trigger::{Assessment, Limits, Reading};

#[cfg(test)]
mod tests;
