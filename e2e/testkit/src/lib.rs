// SPDX-License-Identifier: Apache-2.0
//! What the tests of several crates share; only tests depend on it.
//!
//! - [`controller`]: a controller behind a real gRPC server, driven by the test; and specs ([`spec`](mod@spec)).
//! - [`agent`]: an agent's socket for applications, which gives the answers that a test configures.
//! - [`power`]: power cuts, by an image of a block device; and full disks.
//! - [`kubernetes`]: a Kubernetes API server, as far as it confirms tokens.
//! - [`collector`]: an OpenTelemetry collector.
//! - [`cases`]: test programs with a `main` of their own, which list what the machine cannot run as ignored.
//! - [`browser`]: what scenarios of the web UI need.
//! - [`captures`]: packets captured from Linux's rdma_rxe, and pcap files.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

pub mod agent;
pub mod browser;
pub mod captures;
pub mod cases;
pub mod collector;
pub mod controller;
pub mod kubernetes;
pub mod power;
pub mod spec;
