// SPDX-License-Identifier: Apache-2.0
//! Canopy's datapath on the Linux kernel: BPF programs and maps through `canopy-bpf`, everything else through netlink.
//!
//! [`LinuxDatapath::reconcile`](canopy_agent_core::Datapath::reconcile)
//! compares the whole desired with the whole observed state, applies the difference, and reads everything back.
//!
//! Programs and maps are pinned under one directory per node, and the kernel holds the TC filters. Forwarding and its state
//! therefore survive the end of the agent.

mod boundary;
mod capture;
mod cnp_windows;
#[cfg(test)]
mod differential;
mod egress;
mod events;
mod groups;
mod linux;
mod mroute;
mod mroute_holder;
mod multicast;
mod neighbours;
mod netlink;
mod notices;
mod observe;
mod paths;
mod probe;
mod raw_socket;
mod render;
mod rules;
mod sample;
mod solicit;
mod srh_hmac;
#[cfg(any(test, feature = "testbed"))]
#[allow(missing_docs)]
pub mod testbed;
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
mod user;

pub use canopy_bpf::memory::{MapMemory, of_maps as map_memory};
pub use linux::{LinuxDatapath, Options, cleanup, has_multicast_rules};
pub use mroute_holder::{Hold, hold_multicast, hold_multicast_on_request};
pub use netlink::SYSCTL_DIR;
