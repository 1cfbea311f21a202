// SPDX-License-Identifier: Apache-2.0
//! The BPF programs of `bpf/pacer.bpf.c`: loaded, attached to one interface, and their maps.

mod read;

use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};

use anyhow::{Context, bail};
use libbpf_rs::{
    MapCore, MapFlags, MapHandle, Object, ObjectBuilder, TC_EGRESS, TC_INGRESS, TcAttachPoint, TcHook, TcHookBuilder,
};

use crate::clock::monotonic_ns;
use crate::codec::{self, Control, Pace};
use crate::engine::Flow;
pub(crate) use read::Notices;

/// TC filter handle and priority: one filter of this daemon at each hook, next to those of an agent.
const HANDLE: u32 = 1;
const PRIORITY: u32 = 60;
/// Number of attempts to load if a signal interrupts the verifier.
const ATTEMPTS: u32 = 20;
static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/pacer.bpf.o"));

/// Counters of the programs, in the order of `tables.h`.
pub(crate) const COUNTERS: [&str; 7] = [
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
    maps: BTreeMap<&'static str, MapHandle>,
    ingress: OwnedFd,
    egress: OwnedFd,
    ifindex: u32,
    attached: bool,
}

/// The maps, with the octets of their keys and values.
const MAPS: [(&str, u32, u32); 8] = [
    ("control", 4, codec::CONTROL_LEN as u32),
    ("pace_of", codec::KEY_LEN as u32, codec::PACE_LEN as u32),
    ("flows", codec::KEY_LEN as u32, codec::FLOW_LEN as u32),
    ("answers", codec::KEY_LEN as u32, codec::ANSWERS_LEN as u32),
    ("bound", codec::KEY_LEN as u32, codec::BINDING_LEN as u32),
    ("senders", 16, 4),
    ("counters", 4, 8),
    ("notices", 0, 0),
];

impl Bpf {
    /// Loads the programs for an interface; [`Bpf::attach`] makes them run.
    ///
    /// # Errors
    /// The kernel refuses: this process lacks `CAP_BPF` and `CAP_NET_ADMIN`, or the kernel is older than 6.1.
    pub fn load(ifindex: u32) -> anyhow::Result<Self> {
        Self::of(&load_object()?, ifindex)
    }

    /// Duplicates the handles of what was loaded, which keeps it loaded.
    fn of(object: &Object, ifindex: u32) -> anyhow::Result<Self> {
        let mut maps = BTreeMap::new();
        for (name, key, value) in MAPS {
            let map =
                object.maps().find(|m| m.name() == name).with_context(|| format!("BPF map {name}: is missing"))?;
            if (map.key_size(), map.value_size()) != (key, value) {
                bail!("BPF map {name}: {}+{} octets, expected {key}+{value}", map.key_size(), map.value_size());
            }
            maps.insert(name, MapHandle::try_from(&map).with_context(|| format!("BPF map {name}"))?);
        }
        let program = |name: &str| {
            let found = object.progs().find(|p| p.name() == name);
            let found = found.with_context(|| format!("BPF program {name}: is missing"))?;
            found.as_fd().try_clone_to_owned().with_context(|| format!("BPF program {name}"))
        };
        let (ingress, egress) = (program("pacer_ingress")?, program("pacer_egress")?);
        Ok(Self { maps, ingress, egress, ifindex, attached: false })
    }

    /// Attaches the programs in place of those that an earlier daemon left.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn attach(&mut self) -> anyhow::Result<()> {
        for (fd, point) in [(&self.ingress, TC_INGRESS), (&self.egress, TC_EGRESS)] {
            let mut hook = self.hook(fd, point);
            hook.create().context("creating the clsact qdisc (needs NET_SCH_INGRESS: modprobe sch_ingress)")?;
            hook.attach().context("attaching a BPF program (needs NET_CLS_BPF: modprobe cls_bpf)")?;
            self.attached = true;
        }
        Ok(())
    }

    fn hook(&self, fd: &OwnedFd, point: TcAttachPoint) -> TcHook {
        let mut builder = TcHookBuilder::new(fd.as_fd());
        builder.ifindex(self.ifindex as i32).replace(true).handle(HANDLE).priority(PRIORITY);
        builder.hook(point)
    }

    /// Takes the programs off the interface.
    pub(crate) fn detach(&mut self) {
        if !std::mem::take(&mut self.attached) {
            return;
        }
        for (fd, point) in [(&self.ingress, TC_INGRESS), (&self.egress, TC_EGRESS)] {
            let mut builder = TcHookBuilder::new(fd.as_fd());
            builder.ifindex(self.ifindex as i32).handle(HANDLE).priority(PRIORITY);
            if let Err(error) = builder.hook(point).detach() {
                tracing::warn!(%error, "a BPF program cannot be detached from the interface");
            }
        }
    }

    /// A handle for another thread.
    fn copy(&self, name: &'static str) -> anyhow::Result<MapHandle> {
        MapHandle::try_from(self.map(name)?).with_context(|| format!("BPF map {name}: copying its handle"))
    }

    fn map(&self, name: &'static str) -> anyhow::Result<&MapHandle> {
        self.maps.get(name).with_context(|| format!("BPF map {name}: is missing"))
    }

    fn put(&self, name: &'static str, key: &[u8], value: &[u8]) -> anyhow::Result<()> {
        self.map(name)?.update(key, value, MapFlags::ANY).with_context(|| format!("BPF map {name}: writing"))
    }

    /// Deletes a key; succeeds if it does not exist.
    fn delete(&self, name: &'static str, key: &[u8]) -> anyhow::Result<()> {
        match self.map(name)?.delete(key) {
            Err(e) if e.kind() == libbpf_rs::ErrorKind::NotFound => Ok(()),
            other => other.with_context(|| format!("BPF map {name}: deleting")),
        }
    }

    pub(crate) fn control(&self, control: Control) -> anyhow::Result<()> {
        self.put("control", &0_u32.to_ne_bytes(), &control.bytes())
    }

    pub(crate) fn pace(&self, flow: Flow, pace: Pace) -> anyhow::Result<()> {
        self.put("pace_of", &codec::key(flow), &pace.bytes())
    }

    pub(crate) fn unpace(&self, flow: Flow) -> anyhow::Result<()> {
        self.delete("pace_of", &codec::key(flow))
    }

    /// Declares that answers to `local` belong to the flow with this DestQP.
    pub(crate) fn bind(&self, local: Flow, dest_qpn: u32) -> anyhow::Result<()> {
        self.put("bound", &codec::key(local), &codec::binding(dest_qpn, monotonic_ns()))
    }

    pub(crate) fn unbind(&self, local: Flow) -> anyhow::Result<()> {
        self.delete("bound", &codec::key(local))
    }

    /// Sets whether notifications of a sender are exempt from the limit of unknown senders.
    pub(crate) fn know_sender(&self, sender: std::net::Ipv6Addr, known: bool) -> anyhow::Result<()> {
        let key = sender.octets();
        if known { self.put("senders", &key, &1_u32.to_ne_bytes()) } else { self.delete("senders", &key) }
    }

    /// The programs' counters, in the order of [`COUNTERS`].
    pub(crate) fn counters(&self) -> anyhow::Result<[u64; COUNTERS.len()]> {
        let map = self.map("counters")?;
        let mut sums = [0; COUNTERS.len()];
        for (index, sum) in sums.iter_mut().enumerate() {
            let values = map.lookup_percpu(&(index as u32).to_ne_bytes(), MapFlags::ANY);
            let values = values.context("BPF map counters: reading")?.unwrap_or_default();
            *sum = values.iter().filter_map(|value| codec::word(value, 0)).sum();
        }
        Ok(sums)
    }
}

/// Loads the programs, which runs the verifier.
fn load_object() -> anyhow::Result<Object> {
    libbpf_rs::set_print(Some((libbpf_rs::PrintLevel::Debug, log_libbpf)));
    let mut attempts = 1..ATTEMPTS;
    let object = loop {
        let open = ObjectBuilder::default().open_memory(OBJECT).context("opening the BPF object")?;
        match open.load() {
            Err(e) if e.kind() == libbpf_rs::ErrorKind::WouldBlock && attempts.next().is_some() => {}
            loaded => {
                break loaded.context(
                    "loading the BPF programs (needs Linux 6.1 or later, and root or CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON)",
                )?;
            }
        }
    };
    Ok(object)
}

/// Logs libbpf's messages, which contain more than the error.
fn log_libbpf(_: libbpf_rs::PrintLevel, text: String) {
    tracing::debug!(target: "libbpf", "{}", text.trim_end());
}

#[cfg(test)]
mod tests;
