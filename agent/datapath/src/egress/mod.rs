// SPDX-License-Identifier: Apache-2.0
//! Long-haul congestion on the kernel (draft-tian-ccwg-long-haul-cnp-00 sections 5 and 6): the egress program, what it counts and
//! tells, the node that judges it, and the packets that go out for it.
//!
//! - `object`: the program, its maps, its filters;
//! - `queues`: depths by netlink;
//! - `orders`: what a spec asks to be watched;
//! - `driver`: from counters to the pure node and back;
//! - `watch`: the thread around it; `speak`: packets;
//! - `window`, `report`: telemetry.

mod batch;
mod driver;
mod heard;
mod keys;
mod object;
mod orders;
mod queues;
mod report;
mod speak;
mod watch;
mod window;

pub(crate) use object::EgressBpf;
pub(crate) use orders::Orders;
pub(crate) use report::report;
pub(crate) use watch::Watcher;

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
