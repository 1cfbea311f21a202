// SPDX-License-Identifier: Apache-2.0
//! `canopy-operator`: what is declared as resources of Kubernetes is declared at the controller, and its state is shown as their status.
//!
//! A client of two servers: of Kubernetes, whose resources are the intent, and of the controller's REST API, whose groups and topology follow it.
//!
//! - [`resources`]: `MulticastGroup` and `Topology`; [`crd`] describes them for Kubernetes, from the types of the REST API.
//! - [`mirror`]: the groups, drains and topology of the controller, from its streams: a reconciliation that changes nothing sends no request.
//! - [`group`] and [`topology`]: what has to be done for one resource, decided without either server, and then done.
//! - [`cordon`]: a cordoned node of Kubernetes is a drained one of the topology, where that is asked for.
//! - [`condition`]: conditions, and when they changed last.
//! - [`manager`]: whose a group is: the operator writes none that another one has made.
//! - [`metrics`]: what Prometheus reads of it.
//! - [`migrate`]: resources that are stored in an earlier version of their definition are stored anew.
//! - [`run`] wires them.

pub mod cli;
pub mod condition;
pub mod context;
pub mod cordon;
pub mod crd;
pub mod failure;
pub mod group;
pub mod manager;
pub mod metrics;
pub mod migrate;
pub mod mirror;
pub mod resources;
pub mod run;
mod schema;
pub mod status;
pub mod topology;
