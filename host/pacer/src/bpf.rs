// SPDX-License-Identifier: Apache-2.0
//! The pacer's BPF programs on one interface, in the daemon's own types.

mod read;

use anyhow::Context;
use canopy_bpf::monotonic;
use canopy_bpf::pacer::{Pacer, types};

use crate::engine::Flow;
pub use types::pacer_mode as Mode;

pub(crate) use read::{Notice, Notices, Seen, Sightings};

/// Names of the programs' counters, in the order of `pacer_count`.
pub(crate) const COUNTERS: [&str; types::pacer_count::COUNTERS.0 as usize] = [
    "kernel_icmpv6",
    "kernel_rocev2",
    "kernel_ring_full",
    "kernel_limited",
    "paced_packets",
    "paced_octets",
    "departures_clamped",
];

/// The loaded programs.
#[derive(Debug)]
pub struct Bpf {
    pacer: std::sync::Arc<Pacer>,
    ifindex: u32,
    attached: bool,
}

impl Bpf {
    /// Loads the programs for an interface; [`Bpf::attach`] makes them run.
    ///
    /// # Errors
    /// The kernel refuses: this process lacks `CAP_BPF` and `CAP_NET_ADMIN`, or the kernel is older than 6.1.
    pub fn load(ifindex: u32) -> anyhow::Result<Self> {
        Ok(Self { pacer: std::sync::Arc::new(Pacer::load()?), ifindex, attached: false })
    }

    /// Attaches the programs in place of those that an earlier daemon left.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn attach(&mut self) -> anyhow::Result<()> {
        for filter in self.pacer.filters() {
            filter.attach(self.ifindex)?;
            self.attached = true;
        }
        Ok(())
    }

    /// Takes the programs off the interface.
    pub(crate) fn detach(&mut self) {
        if !std::mem::take(&mut self.attached) {
            return;
        }
        for filter in self.pacer.filters() {
            if let Err(error) = filter.detach(self.ifindex) {
                tracing::warn!(
                    error = canopy_bpf::chain(&error),
                    "a BPF program cannot be detached from the interface"
                );
            }
        }
    }

    pub(crate) fn control(&self, control: &types::pacer_control) -> anyhow::Result<()> {
        Ok(self.pacer.control(control)?)
    }

    pub(crate) fn pace(&self, flow: Flow, pace: &types::pacer_pace) -> anyhow::Result<()> {
        Ok(self.pacer.paces().put(&key(flow), pace)?)
    }

    pub(crate) fn unpace(&self, flow: Flow) -> anyhow::Result<()> {
        Ok(self.pacer.paces().delete(&key(flow))?)
    }

    /// Declares that answers to `local` belong to the flow with this DestQP.
    pub(crate) fn bind(&self, local: Flow, dest_qpn: u32) -> anyhow::Result<()> {
        let binding = types::pacer_binding { since_ns: monotonic().nanos(), dest_qpn, pad: 0 };
        Ok(self.pacer.bindings().put(&key(local), &binding)?)
    }

    pub(crate) fn unbind(&self, local: Flow) -> anyhow::Result<()> {
        Ok(self.pacer.bindings().delete(&key(local))?)
    }

    /// Sets whether notifications of a sender are exempt from the limit of unknown senders.
    pub(crate) fn know_sender(&self, sender: std::net::Ipv6Addr, known: bool) -> anyhow::Result<()> {
        let (senders, key) = (self.pacer.senders(), sender.into());
        let done = if known { senders.put(&key, &1) } else { senders.delete(&key) };
        done.with_context(|| format!("the limit of notifications from {sender}"))
    }

    /// The programs' counters, in the order of [`COUNTERS`].
    pub(crate) fn counters(&self) -> anyhow::Result<[u64; COUNTERS.len()]> {
        Ok(self.pacer.counters()?)
    }
}

/// The map key of a peer and a QP number.
fn key(flow: Flow) -> types::pacer_key {
    types::pacer_key { peer: flow.peer.into(), qpn: flow.qpn, pad: 0 }
}

#[cfg(test)]
mod tests;
