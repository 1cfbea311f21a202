// SPDX-License-Identifier: Apache-2.0
//! Canopy's datapath on the Linux kernel: BPF programs and maps through libbpf, everything else through netlink.
//!
//! The only crate with `unsafe` code. [`LinuxDatapath::reconcile`](canopy_agent_core::Datapath::reconcile)
//! compares the whole desired with the whole observed state, applies the difference, and reads everything back.
//!
//! Programs and maps are pinned under one directory per node, and the kernel holds the TC filters. Forwarding and its state
//! therefore survive the end of the agent.

mod bpf;
#[cfg(test)]
mod differential;
mod egress;
#[allow(missing_docs, unreachable_pub, clippy::all, clippy::unwrap_used, dead_code, non_camel_case_types)]
mod egress_skel {
    include!(concat!(env!("OUT_DIR"), "/egress.skel.rs"));
}
mod error;
mod events;
mod libbpf;
mod linux;
mod mroute;
mod mroute_holder;
mod multicast;
mod netlink;
mod plain;
mod sample;
#[allow(missing_docs, unreachable_pub, clippy::all, clippy::unwrap_used, dead_code)]
mod skel {
    include!(concat!(env!("OUT_DIR"), "/ingress.skel.rs"));
}
mod tables;
#[cfg(any(test, feature = "testbed"))]
#[allow(missing_docs)]
pub mod testbed;
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;

pub use linux::{LinuxDatapath, Options, cleanup};
pub use mroute_holder::{Hold, hold_multicast};
