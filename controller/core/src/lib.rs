// SPDX-License-Identifier: Apache-2.0
//! The controller's decisions as a pure function: no clock, socket, task or randomness, so that the same commands and
//! reports lead to the same state on every machine. Identifiers that no host may guess follow from a key that the caller gives.
//!
//! Input: [`Command`]s (from operators and hosts) and `NodeStatus` reports (from agents). Output: durable writes, one
//! `NodeSpec` per node, and views for APIs. [`Domain`] holds the state. Each of the following modules depends only on
//! those listed before it:
//!
//! - `hash`, `secret`, `uid`, `request_id`, `trace`, `principal`, `role`, `metadata`, `tenant`, `quota`, `condition`, `limits`, `error`: small things that all others use.
//! - `ranked`: neighbours in the order of paths; `topology`: the declared network as a compact graph; `first_hops`, `homes`, `routes`: unicast routes and the rest of a node's base.
//! - `tree`: the replication tree of a group; `encoding`: how receiver lists travel.
//! - `alloc`: numbers that are unique while in use; `member`: a membership.
//! - `plan`: a group's tree, encoding and epochs; `content`: what else its nodes' programs follow
//!   from; `program`: these programs; `desired`: the rest of what a node is to have.
//! - `threshold`: queue thresholds of a link direction from its bandwidth-delay product.
//! - `problem`: the registry of what can be wrong; `states`: the state of a node, of a link direction or of a queue in one word.
//! - `map`: where nodes stand on the map, and what is drawn over it.
//! - `hmac`: the keys of the SRH HMAC TLV and their rotation.
//! - `view`: resources as APIs show them.
//! - `resource`: resources in memory; `record`: their durable form; `command`: changes of them.
//! - `audit`: what operators wrote; `effect`: what a write would do.
//! - `programs`: a group's programs, also while it moves.
//! - `delivery`: whether a group's data is acknowledged; `progress`: which branch of a node holds the minimum; `status`: plan compared with reports.
//! - `drops`: drop counters that are signs of what is wrong; `health`: what is, since when, and what caused it.
//! - `chart`: what was measured over the last minutes and hours; `incident`: each opening of a problem, with the charts around it.
//! - `path`: paths by uSIDs as APIs show them; `fabric_now`: what hosts compose path programs from.
//! - `scan`, `selector`, `fields`: which resources a list has.
//! - `domain`: prepare, apply, restore, report, views.
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a test fails by panicking"))]

pub mod audit;
pub mod capture;
pub mod chart;
mod clock;
pub mod command;
pub mod condition;
pub mod confirmations;
mod content;
pub mod delivery;
pub mod desired;
pub mod domain;
pub mod drops;
pub mod effect;
pub mod encoding;
pub mod error;
pub mod fabric_now;
pub mod fields;
mod first_hops;
pub mod health;
pub mod hmac;
mod hops;
pub mod incident;
pub mod limits;
pub mod map;
pub mod metadata;
pub mod path;
pub mod principal;
pub mod problem;
pub mod quota;
mod ranked;
pub mod record;
pub mod request_id;
pub mod retirement;
pub mod role;
pub mod selector;
pub mod states;
pub mod tenant;
pub mod threshold;
pub mod trace;
pub mod uid;
pub mod view;

mod alloc;
mod epochs;
mod hash;
mod homes;
mod member;
mod plan;
mod program;
mod programs;
mod progress;
mod receivers_by_edge;
mod rerouted;
mod resource;
mod routes;
mod scan;
mod secret;
mod shared;
mod status;
#[cfg(test)]
mod testing;
mod topology;
mod tree;

pub use command::{Applied, Command, Outcome, Write};
pub use desired::DesiredNode;
pub use domain::{
    BranchNews, BuiltTopology, DeadPorts, Domain, EXAMINED, GroupFilter, LateNews, LossNews, Move, NameFilter,
    Prepared, Reaction, TopologyDraft,
};
pub use error::{DomainError, RestoreError};
pub use programs::NodePrograms;
pub use record::{Record, assume_open};
pub use secret::Secret;
pub use shared::Shared;
