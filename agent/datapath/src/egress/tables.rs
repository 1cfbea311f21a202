// SPDX-License-Identifier: Apache-2.0
//! The maps of the egress program: thresholds and announced flows in, counters out.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use canopy_bpf::Result;
use canopy_units::Octets;
use imbl::ordmap::DiffItem;

use canopy_bpf::node::{Node, types};

use super::config::KnownFlows;
use super::keys;
use crate::render::same;

/// A flow and its counters.
pub(crate) type CountedFlow = (types::canopy_flow_key, types::canopy_flow);

/// The maps of the egress program.
pub(crate) struct Egress {
    pub(crate) bpf: Arc<Node>,
    /// Announced flows as written; `None` before the map was read.
    known: Mutex<Option<KnownFlows>>,
    /// Ports whose state was kept last; `None` before the first time.
    ports: Mutex<Option<BTreeSet<u32>>>,
}

impl Egress {
    pub(crate) fn new(bpf: Arc<Node>) -> Self {
        Self { bpf, known: Mutex::default(), ports: Mutex::default() }
    }

    /// Replaces the limits of all ports.
    pub(crate) fn set_limits(&self, want: &BTreeMap<u32, types::canopy_limits>) -> Result<()> {
        let map = self.bpf.eg_limits();
        let there: BTreeMap<u32, types::canopy_limits> = map.entries()?.into_iter().collect();
        for port in there.keys().filter(|port| !want.contains_key(port)) {
            map.delete(port)?;
        }
        let changed = want.iter().filter(|(port, limits)| there.get(port).is_none_or(|old| !same(old, limits)));
        changed.into_iter().try_for_each(|(port, limits)| map.put(port, limits))
    }

    /// Replaces the announced flows, as many as there is room for; the counters of flows that are no longer announced are removed. Returns
    /// how many are left out: the programs count these as learned flows. Costs what changed since the last call, and
    /// the flows that are left out.
    pub(crate) fn set_known(&self, want: &KnownFlows) -> Result<usize> {
        // The lock is held over the writes: two configurations at once would mix. A failure leaves `None`, so that the map is read.
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let map = self.bpf.eg_known();
        let (mut new, mut gone) = (Vec::new(), BTreeSet::new());
        let there = match known.take() {
            Some(there) => {
                for change in there.diff(want) {
                    match change {
                        DiffItem::Add(flow, _) => new.push(*flow),
                        DiffItem::Remove(flow, _) => _ = gone.insert(*flow),
                        DiffItem::Update { .. } => {}
                    }
                }
                there.len()
            }
            None => {
                let mut there = BTreeSet::new();
                for (key, _) in map.entries()? {
                    match keys::flow(&key) {
                        Some(flow) => _ = there.insert(flow),
                        // Of no agent.
                        None => map.delete(&key)?,
                    }
                }
                new.extend(want.keys().filter(|flow| !there.contains(flow)));
                gone.extend(there.iter().filter(|flow| !want.contains_key(*flow)));
                there.len()
            }
        };
        // First, to make room for new ones.
        gone.iter().try_for_each(|flow| map.delete(&keys::of(flow, 0)))?;
        let room = (map.capacity() as usize).saturating_sub(there - gone.len());
        let (new, without) = new.split_at(room.min(new.len()));
        new.iter().try_for_each(|flow| map.put(&keys::of(flow, 0), &1))?;
        if !gone.is_empty() {
            let kept = self.bpf.eg_kept();
            for (key, _) in kept.entries()? {
                if keys::flow(&key).is_some_and(|flow| gone.contains(&flow)) {
                    kept.delete(&key)?;
                }
            }
        }
        let mut held = want.clone();
        without.iter().for_each(|flow| _ = held.remove(flow));
        *known = Some(held);
        Ok(without.len())
    }

    /// Sets the depth of a queue that the program cannot read itself.
    pub(crate) fn set_sampled(&self, port: u32, depth: Octets) -> Result<()> {
        self.bpf.eg_sampled().put(&port, &depth.get())
    }

    /// Removes the state of all other ports: the kernel may reuse an interface index.
    pub(crate) fn keep_ports(&self, ports: &BTreeSet<u32>) -> Result<()> {
        let mut kept = self.ports.lock().unwrap_or_else(PoisonError::into_inner);
        let before = match kept.take() {
            Some(before) => before,
            None => self.counted_ports()?,
        };
        let gone: BTreeSet<u32> = before.difference(ports).copied().collect();
        for port in &gone {
            let stats = self.bpf.eg_stats();
            if *port < stats.capacity() {
                stats.zero(port)?;
            } else {
                self.bpf.eg_far_stats().delete(port)?;
            }
            self.bpf.eg_sampled().delete(port)?;
        }
        for map in [self.bpf.eg_kept(), self.bpf.eg_flows()].into_iter().filter(|_| !gone.is_empty()) {
            for (key, _) in map.entries()?.iter().filter(|(key, _)| !ports.contains(&key.ifindex)) {
                map.delete(key)?;
            }
        }
        *kept = Some(ports.clone());
        Ok(())
    }

    /// Ports that have state, perhaps since an earlier agent.
    fn counted_ports(&self) -> Result<BTreeSet<u32>> {
        let counted =
            |(port, stats): (u32, Vec<types::canopy_port_stats>)| stats.iter().any(|s| s.packets > 0).then_some(port);
        let mut ports: BTreeSet<u32> = self.bpf.eg_stats().entries()?.into_iter().filter_map(counted).collect();
        ports.extend(self.bpf.eg_far_stats().entries()?.into_iter().map(|(port, _)| port));
        ports.extend(self.bpf.eg_sampled().entries()?.into_iter().map(|(port, _)| port));
        Ok(ports)
    }

    /// Counters of a port, summed over all processors; depth and source are those of its last data packet.
    pub(crate) fn stats(&self, port: u32) -> Result<types::canopy_port_stats> {
        let mut sum = types::canopy_port_stats::default();
        let near = self.bpf.eg_stats();
        let stats = if port < near.capacity() { near } else { self.bpf.eg_far_stats() };
        for one in stats.get(&port)? {
            sum.packets += one.packets;
            sum.bytes += one.bytes;
            sum.marked += one.marked;
            sum.ce += one.ce;
            sum.not_ect += one.not_ect;
            if one.seen_ns > sum.seen_ns {
                (sum.depth, sum.seen_ns, sum.source) = (one.depth, one.seen_ns, one.source);
            }
        }
        Ok(sum)
    }

    /// All flows; the announced ones are first.
    pub(crate) fn flows(&self) -> Result<Vec<CountedFlow>> {
        let mut flows = self.bpf.eg_kept().entries()?;
        flows.extend(self.bpf.eg_flows().entries()?);
        Ok(flows)
    }

    /// All ACKs: their addresses and DestQP, and the time of the last one.
    pub(crate) fn acks(&self) -> Result<Vec<(types::canopy_flow_key, u64)>> {
        self.bpf.eg_acks().entries()
    }

    /// Adds flows to the table of flows that were not announced, as their first packets would.
    #[cfg(test)]
    pub(crate) fn fill(&self, flows: impl Iterator<Item = types::canopy_flow_key>) {
        let seen = types::canopy_flow { packets: 1, bytes: 1_000, ..types::canopy_flow::default() };
        for key in flows {
            self.bpf.eg_flows().put(&key, &seen).unwrap_or_else(|e| panic!("{e}"));
        }
    }

    /// The same for the table of flows that were announced.
    #[cfg(test)]
    pub(crate) fn fill_kept(&self, flows: impl Iterator<Item = types::canopy_flow_key>) {
        for key in flows {
            self.bpf.eg_kept().put(&key, &types::canopy_flow::default()).unwrap_or_else(|e| panic!("{e}"));
        }
    }

    /// Runs the program on a frame to be sent through `ifindex`; returns the resulting frame and the duration.
    #[cfg(any(test, feature = "testbed"))]
    pub(crate) fn run(&self, ifindex: u32, frame: &[u8]) -> (Vec<u8>, std::time::Duration) {
        self.run_gso(ifindex, frame, 0)
    }

    /// The same with a GSO buffer of so many packets; 0 = it is none.
    #[cfg(any(test, feature = "testbed"))]
    pub(crate) fn run_gso(&self, ifindex: u32, frame: &[u8], gso_segs: u32) -> (Vec<u8>, std::time::Duration) {
        let run = self.bpf.send(ifindex, frame, gso_segs).unwrap_or_else(|e| panic!("{}", canopy_bpf::chain(&e)));
        assert_eq!(run.verdict, -1, "the packet continues to the next filter");
        (run.frame, run.took)
    }
}
