// SPDX-License-Identifier: Apache-2.0
//! Deterministic paths by SRv6 uSIDs (decisions 5), without I/O: for the controller, which shows them, and for the agent of a host, which
//! composes them. Each module depends only on those listed before it:
//!
//! - [`program`]: an ordered list of uSIDs, and the headers that carry it: a destination address, or with an SRH.
//! - [`fabric`]: nodes, ports and links by their numbers, with tiers and planes.
//! - [`decode`]: what a captured header leads through.
//! - `updown`: all shortest up-down paths of a Clos, counted and by number; `detour`: some paths of any other graph.
//! - [`path`]: one path of a pair, its program and its MTU.
//! - [`host`]: which programs a host may send.
//! - [`pair`]: the paths of a pair, in an order in which the first ones share least.
//! - [`count`]: how many paths pairs of edges have in service, without the paths.
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a test fails by panicking"))]

pub mod count;
pub mod decode;
mod detour;
pub mod fabric;
pub mod host;
pub mod pair;
pub mod path;
pub mod program;
mod updown;
