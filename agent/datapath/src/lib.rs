// SPDX-License-Identifier: Apache-2.0
//! Canopy's datapath on the Linux kernel: BPF programs and maps by libbpf, everything else by netlink.
//!
//! The only crate with `unsafe` code. [`LinuxDatapath::reconcile`](canopy_agent_core::Datapath::reconcile)
//! compares all desired with all observed, applies the difference, and reads everything back.
//!
//! Programs and maps are pinned under one directory per node; the TC filters live in the kernel. Killing the agent
//! therefore stops nothing and forgets nothing.

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
mod holder;
mod libbpf;
mod linux;
mod mroute;
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

pub use holder::{Hold, hold_multicast};
pub use linux::{LinuxDatapath, Options, cleanup};
