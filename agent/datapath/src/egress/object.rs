// SPDX-License-Identifier: Apache-2.0
//! The loaded egress BPF object: typed access to its maps, its program and its attachment.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use canopy_agent_core::DatapathError;
use canopy_agent_core::congestion::FlowKey;
use libbpf_rs::skel::SkelBuilder;
use libbpf_rs::{MapCore, MapFlags, OpenObject, TC_EGRESS, TcHook, TcHookBuilder};

use super::batch::batch;
use super::keys;
use crate::bpf::prog_id;
use crate::egress_skel::{EgressSkel, EgressSkelBuilder, OpenEgressSkel, types};
use crate::error::Context;
use crate::libbpf;
use crate::plain::{Plain, bytes, read};

/// TC filter handle and priority of our filter, one per port.
const HANDLE: u32 = 1;
const PRIORITY: u32 = 50;
/// Name of the program and of its pin.
const PROGRAM: &str = "canopy_egress";

/// Program and maps, pinned next to those of the ingress program.
pub(crate) struct EgressBpf {
    skel: EgressSkel<'static>,
    pin_dir: PathBuf,
}

// SAFETY: libbpf objects are memory and file descriptors without thread affinity; `EgressBpf` is the only owner, and after
// loading it makes only bpf(2) calls on file descriptors.
unsafe impl Send for EgressBpf {}
// SAFETY: as above.
unsafe impl Sync for EgressBpf {}

impl EgressBpf {
    /// Loads the program and reuses maps that an earlier agent pinned.
    pub(crate) fn load(pin_dir: &Path) -> Result<Self, DatapathError> {
        let operation = || {
            format!(
                "loading the egress BPF program with the maps in {} (if they have another version's layout, `canopy-agent cleanup` removes them)",
                pin_dir.display()
            )
        };
        let mut skel = libbpf::load(|| Self::open(pin_dir), operation)?;
        let path = pin_dir.join(PROGRAM);
        if path.exists() {
            fs::remove_file(&path).with_context(|| format!("replacing {}", path.display()))?;
        }
        skel.progs.canopy_egress.pin(&path).with_context(|| format!("pinning {}", path.display()))?;
        Ok(Self { skel, pin_dir: pin_dir.into() })
    }

    fn open(pin_dir: &Path) -> Result<OpenEgressSkel<'static>, DatapathError> {
        // Leaked once: the object lives as long as the agent.
        let storage: &'static mut MaybeUninit<OpenObject> = Box::leak(Box::new(MaybeUninit::uninit()));
        let mut builder = EgressSkelBuilder::default();
        builder.obj_builder.pin_root_path(pin_dir).context("setting the pin directory")?;
        builder.open(storage).context("opening the egress BPF object")
    }

    fn hook(&self, ifindex: u32) -> TcHook {
        TcHookBuilder::new(self.skel.progs.canopy_egress.as_fd())
            .ifindex(ifindex as i32)
            .replace(true)
            .handle(HANDLE)
            .priority(PRIORITY)
            .hook(TC_EGRESS)
    }

    fn present(&self, ifindex: u32) -> TcHook {
        let mut hook = TcHookBuilder::new(self.skel.progs.canopy_egress.as_fd());
        hook.ifindex(ifindex as i32).handle(HANDLE).priority(PRIORITY).hook(TC_EGRESS)
    }

    /// Attaches the program, or atomically replaces that of an earlier agent.
    pub(crate) fn attach(&self, ifindex: u32) -> Result<(), DatapathError> {
        let mut hook = self.hook(ifindex);
        hook.create().with_context(|| format!("creating the clsact qdisc on interface {ifindex}"))?;
        hook.attach().map(drop).with_context(|| format!("attaching to the egress of interface {ifindex}"))
    }

    pub(crate) fn detach(&self, ifindex: u32) -> Result<(), DatapathError> {
        self.present(ifindex).detach().with_context(|| format!("detaching from the egress of interface {ifindex}"))
    }

    /// Whether the egress of `ifindex` has our filter, of any version.
    pub(crate) fn has_filter(&self, ifindex: u32) -> bool {
        self.present(ifindex).query().is_ok()
    }

    /// Whether the egress of `ifindex` runs this loaded program.
    pub(crate) fn attached(&self, ifindex: u32) -> bool {
        let id = prog_id(self.skel.progs.canopy_egress.as_fd());
        self.present(ifindex).query().is_ok_and(|there| Some(u64::from(there)) == id)
    }

    /// Replaces the limits of all ports.
    pub(crate) fn set_limits(&self, want: &BTreeMap<u32, types::canopy_limits>) -> Result<(), DatapathError> {
        let map = &self.skel.maps.eg_limits;
        for key in map.keys().collect::<Vec<_>>() {
            if !read::<u32>(&key).is_some_and(|port| want.contains_key(&port)) {
                remove(map, &key)?;
            }
        }
        want.iter().try_for_each(|(port, limits)| put(map, port, limits))
    }

    /// Replaces the announced flows; the counters of flows that are no longer announced are removed.
    pub(crate) fn set_known<'a>(&self, want: impl Iterator<Item = &'a FlowKey>) -> Result<(), DatapathError> {
        let (known, kept) = (&self.skel.maps.eg_known, &self.skel.maps.eg_kept);
        let want: BTreeMap<Vec<u8>, types::canopy_flow_key> =
            want.map(|flow| keys::of(flow, 0)).map(|key| (bytes(&key).to_vec(), key)).collect();
        let mut gone = false;
        for key in known.keys().collect::<Vec<_>>() {
            if !want.contains_key(&key) {
                remove(known, &key)?;
                gone = true;
            }
        }
        for key in want.values() {
            put(known, key, &1u32)?;
        }
        if gone {
            for (key, _) in self.flows_of(kept)? {
                if !want.contains_key(bytes(&types::canopy_flow_key { ifindex: 0, ..key })) {
                    remove(kept, bytes(&key))?;
                }
            }
        }
        Ok(())
    }

    /// Sets the depth, in octets, of a queue that the program cannot read itself.
    pub(crate) fn set_sampled(&self, port: u32, depth: u64) -> Result<(), DatapathError> {
        put(&self.skel.maps.eg_sampled, &port, &depth)
    }

    /// Removes the state of all other ports: the kernel may reuse an interface index.
    pub(crate) fn keep_ports(&self, ports: &BTreeSet<u32>) -> Result<(), DatapathError> {
        let m = &self.skel.maps;
        let foreign = |key: &[u8]| read::<u32>(key).is_some_and(|port| !ports.contains(&port));
        let mut gone = false;
        for map in [&m.eg_stats, &m.eg_states, &m.eg_sampled] {
            for key in map.keys().filter(|key| foreign(key)).collect::<Vec<_>>() {
                remove(map, &key)?;
                gone = true;
            }
        }
        for map in [&m.eg_kept, &m.eg_flows].into_iter().filter(|_| gone) {
            for (key, _) in self.flows_of(map)?.iter().filter(|(key, _)| !ports.contains(&key.ifindex)) {
                remove(map, bytes(key))?;
            }
        }
        Ok(())
    }

    /// Counters of a port, summed over all processors.
    pub(crate) fn stats(&self, port: u32) -> Result<types::canopy_port_stats, DatapathError> {
        let values =
            self.skel.maps.eg_stats.lookup_percpu(bytes(&port), MapFlags::ANY).context("reading map eg_stats")?;
        let mut sum = types::canopy_port_stats::default();
        for one in values.into_iter().flatten().filter_map(|v| read::<types::canopy_port_stats>(&v)) {
            sum.packets += one.packets;
            sum.bytes += one.bytes;
            sum.marked += one.marked;
            sum.ce += one.ce;
            sum.not_ect += one.not_ect;
            sum.events += one.events;
            sum.flow_limited += one.flow_limited;
            sum.port_limited += one.port_limited;
            sum.lost += one.lost;
        }
        Ok(sum)
    }

    /// State of a port's queue at its last data packet; `None` before the first one.
    pub(crate) fn state(&self, port: u32) -> Result<Option<types::canopy_port_state>, DatapathError> {
        let value = self.skel.maps.eg_states.lookup(bytes(&port), MapFlags::ANY).context("reading map eg_states")?;
        Ok(value.as_deref().and_then(read))
    }

    /// All flows; the announced ones are first.
    pub(crate) fn flows(&self) -> Result<Vec<(types::canopy_flow_key, types::canopy_flow)>, DatapathError> {
        let mut flows = self.flows_of(&self.skel.maps.eg_kept)?;
        flows.extend(self.flows_of(&self.skel.maps.eg_flows)?);
        Ok(flows)
    }

    /// All ACKs: their addresses and DestQP, and the time of the last one.
    pub(crate) fn acks(&self) -> Result<Vec<(types::canopy_flow_key, u64)>, DatapathError> {
        batch(&self.skel.maps.eg_acks)
    }

    fn flows_of(&self, map: &impl MapCore) -> Result<Vec<(types::canopy_flow_key, types::canopy_flow)>, DatapathError> {
        batch(map)
    }

    /// Path of the pin of the congestion events ring buffer.
    pub(crate) fn events_path(&self) -> PathBuf {
        self.pin_dir.join("eg_events")
    }

    /// Path of the pin of the RDMA-CM messages ring buffer.
    pub(crate) fn cms_path(&self) -> PathBuf {
        self.pin_dir.join("eg_cms")
    }

    /// Adds flows to the table of flows that were not announced, as their first packets would.
    #[cfg(test)]
    pub(crate) fn fill(&self, flows: impl Iterator<Item = types::canopy_flow_key>) {
        let seen = types::canopy_flow { packets: 1, bytes: 1_000, ..types::canopy_flow::default() };
        for key in flows {
            put(&self.skel.maps.eg_flows, &key, &seen).unwrap_or_else(|e| panic!("{e}"));
        }
    }

    /// Runs the program on a frame to be sent through `ifindex`; returns the resulting frame and the duration.
    #[cfg(any(test, feature = "testbed"))]
    pub(crate) fn run(&self, ifindex: u32, frame: &[u8]) -> (Vec<u8>, std::time::Duration) {
        const SKB_IFINDEX: usize = 40;
        const SKB_LEN: usize = 68;
        let mut skb = [0u8; SKB_LEN];
        skb[SKB_IFINDEX..SKB_IFINDEX + 4].copy_from_slice(&ifindex.to_ne_bytes());
        let mut out = vec![0u8; 16384];
        let input = libbpf_rs::ProgramInput {
            context_in: Some(&mut skb),
            data_in: Some(frame),
            data_out: Some(&mut out),
            repeat: 1,
            ..libbpf_rs::ProgramInput::default()
        };
        let result = self.skel.progs.canopy_egress.test_run(input).unwrap_or_else(|e| panic!("test run: {e}"));
        assert_eq!(result.return_value as i32, -1, "the packet continues to the next filter");
        (result.data.map(|d| d.to_vec()).unwrap_or_default(), result.duration)
    }
}

fn put<K: Plain, V: Plain>(map: &impl MapCore, key: &K, value: &V) -> Result<(), DatapathError> {
    map.update(bytes(key), bytes(value), MapFlags::ANY).with_context(|| format!("writing map {}", name(map)))
}

/// Deletes an entry; a missing one is no error.
fn remove(map: &impl MapCore, key: &[u8]) -> Result<(), DatapathError> {
    match map.delete(key) {
        Err(e) if e.kind() == libbpf_rs::ErrorKind::NotFound => Ok(()),
        other => other.with_context(|| format!("deleting from map {}", name(map))),
    }
}

pub(super) fn name(map: &impl MapCore) -> String {
    map.name().to_string_lossy().into_owned()
}
