// SPDX-License-Identifier: Apache-2.0
//! Reconciliation of maps and netlink state: all desired against all observed.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::Ipv6Addr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use canopy_agent_core::congestion::Settings;
use canopy_agent_core::net::{self, Interface, NetCommand};
use canopy_agent_core::{Datapath, DatapathError, DatapathEvent, Sample};
use canopy_model::node_spec::NodeSpec;
use canopy_model::status::{ItemError, ItemKind};

use crate::bpf::{Bpf, Control, Table};
use crate::egress::{self, EgressBpf, Watcher, WatcherConfig};
use crate::error::{Context, chain};
use crate::events::Events;
use crate::mroute_holder::{Hold, MrouteHolder};
use crate::multicast::{self, MulticastUpdate};
use crate::netlink::{self, Netlink};
use crate::plain::{bytes, read};
use crate::sample::sample;
use crate::skel::types;
use crate::tables::{self, Entries, JoinPoint, Slots, Tables};

/// Length of an upstream ACK frame, the longest frame that the control program writes.
const ACK_FRAME: usize = 82;
/// How long a new neighbour entry may take to resolve: some round trips of a local link.
const NEIGHBOUR_PATIENCE: Duration = Duration::from_millis(300);
const NEIGHBOUR_POLL: Duration = Duration::from_millis(10);
/// How often a group that has only pending branches acknowledges the data forwarded so far: the source can send one window per this
/// time.
const POLL_PENDING_ONLY: Duration = Duration::from_millis(2);
/// How often a node repeats its last feedback after it has adopted a new epoch, and for how long (decisions 3.9): its parent drops
/// feedback of a newer epoch than its own.
const REPEAT_INTERVAL: Duration = Duration::from_millis(10);
const REPEAT_FOR: Duration = Duration::from_secs(2);

/// Options of the datapath.
#[derive(Clone, Debug)]
pub struct Options {
    /// Directory on a BPF file system for this node's programs and maps.
    pub pin_dir: PathBuf,
    /// Which process keeps IPv6 multicast routing enabled for groups that use it.
    pub hold_multicast: Hold,
    /// Parameters of the congestion detection.
    pub congestion: Settings,
}

/// The Linux kernel as a [`Datapath`].
pub struct LinuxDatapath {
    bpf: Bpf,
    pub(crate) egress: Arc<EgressBpf>,
    watcher: Watcher,
    netlink: Netlink,
    events: Events,
    mroute_holder: MrouteHolder,
    /// Nothing was pinned: the next PSN of every branch is unknown, also of those that joined at a boundary.
    cold: bool,
    /// Groups that may have pending branches.
    may_be_pending: BTreeSet<u32>,
    pending_poll: tokio::time::Interval,
    /// Groups whose epoch was adopted recently, and until when their last feedback is repeated.
    repeats: BTreeMap<u32, Instant>,
    repeat: tokio::time::Interval,
}

impl LinuxDatapath {
    /// Loads the programs and reuses the maps that an earlier agent pinned.
    ///
    /// # Errors
    /// The kernel rejects a step; the error names it and its requirement.
    pub async fn open(options: Options) -> Result<Self, DatapathError> {
        let cold = !options.pin_dir.join("canopy_ingress").exists();
        let bpf = Bpf::load(&options.pin_dir)?;
        let egress = Arc::new(EgressBpf::load(&options.pin_dir)?);
        let watcher = Watcher::start(Arc::clone(&egress), options.congestion)?;
        let events = Events::open(&bpf.events_path())?;
        netlink::enable_forwarding()?;
        let mroute_holder = MrouteHolder::new(options.hold_multicast);
        let mut pending_poll = tokio::time::interval(POLL_PENDING_ONLY);
        pending_poll.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut repeat = tokio::time::interval(REPEAT_INTERVAL);
        repeat.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let netlink = Netlink::open()?;
        Ok(Self {
            bpf,
            egress,
            watcher,
            netlink,
            events,
            mroute_holder,
            cold,
            may_be_pending: BTreeSet::new(),
            pending_poll,
            repeats: BTreeMap::new(),
            repeat,
        })
    }

    fn configure_congestion(
        &self,
        spec: &NodeSpec,
        interfaces: &BTreeMap<String, Interface>,
    ) -> Result<(), DatapathError> {
        let ports = &spec.base.ports;
        let ifindexes: BTreeMap<_, _> =
            ports.iter().filter_map(|p| Some((p.index, interfaces.get(&p.name)?.index))).collect();
        let config = WatcherConfig::new(spec, &ifindexes);
        self.egress.keep_ports(&ifindexes.values().copied().collect())?;
        self.egress.set_limits(&config.kernel_limits())?;
        self.egress.set_known(config.flows.keys())?;
        self.watcher.configure(config);
        Ok(())
    }

    /// Runs the ingress program on one packet (from its IPv6 header) received on `ifindex`.
    #[cfg(any(test, feature = "testbed"))]
    pub(crate) fn run_ingress(&self, ifindex: u32, packet: &[u8]) -> (u32, Vec<u8>, std::time::Duration) {
        self.bpf.run_ingress(ifindex, packet)
    }

    /// Runs one operation of the control program and changes nothing else.
    #[cfg(test)]
    pub(crate) fn membership(&self, group: u32, op: Control) -> Result<(), DatapathError> {
        self.bpf.control(group, op, &[0; ACK_FRAME])
    }

    /// Sets the epoch of the group and changes nothing else.
    #[cfg(test)]
    pub(crate) fn set_epoch(&self, group: u32, epoch: u32) {
        let known: Option<types::canopy_group> = self.bpf.get_as(Table::Groups, &group).unwrap();
        let conf = types::canopy_group { epoch, ..known.unwrap() };
        self.bpf.put(Table::Groups, bytes(&group), bytes(&conf)).unwrap();
    }

    /// Whether the last feedback of any group is being repeated.
    #[cfg(test)]
    pub(crate) fn repeats_feedback(&self) -> bool {
        !self.repeats.is_empty()
    }

    /// Nanoseconds and runs of the ingress program, counted by the kernel with `kernel.bpf_stats_enabled`.
    #[cfg(any(test, feature = "testbed"))]
    pub(crate) fn program_stats(&self) -> (u64, u64) {
        self.bpf.program_stats()
    }

    /// Entries of all maps except `node`.
    #[cfg(any(test, feature = "testbed"))]
    pub(crate) fn count_entries(&self) -> usize {
        use Table::*;
        [Groups, Proxies, Qpns, Trees, Multicasts, Outers, Branches, Peers, Stats, States, Cnps, Drops]
            .into_iter()
            .map(|t| self.bpf.keys(t).len())
            .sum()
    }

    fn held_slots(&self) -> Result<Slots, DatapathError> {
        let mut slots = Slots::new();
        for key in self.bpf.keys(Table::Peers) {
            let (Some(k), Some(v)) = (read::<types::canopy_peer_key>(&key), self.bpf.get(Table::Peers, &key)?) else {
                continue;
            };
            if let Some(peer) = read::<types::canopy_peer>(&v) {
                slots.entry(k.group_id).or_default().insert(tables::address(&k.address), peer.slot);
            }
        }
        Ok(slots)
    }

    fn entries(&self, table: Table) -> Result<Entries, DatapathError> {
        let mut out = Entries::new();
        for key in self.bpf.keys(table) {
            if let Some(value) = self.bpf.get(table, &key)? {
                out.insert(key, value);
            }
        }
        Ok(out)
    }

    /// Writes new and changed entries, before other entries refer to them.
    fn put_missing(&self, table: Table, want: &Entries) -> Result<(), DatapathError> {
        for (key, value) in want {
            if self.bpf.get(table, key)?.as_deref() != Some(value) {
                self.bpf.put(table, key, value)?;
            }
        }
        Ok(())
    }

    fn delete_extra(&self, table: Table, want: impl Fn(&[u8]) -> bool) -> Result<(), DatapathError> {
        for key in self.bpf.keys(table) {
            if !want(&key) {
                self.bpf.delete(table, &key)?;
            }
        }
        Ok(())
    }

    /// Writes all maps. `kept` are the groups that stay unchanged because their desired state could not be rendered.
    fn maps(&mut self, t: &Tables, held: &Slots, kept: &BTreeSet<u32>) -> Result<(), DatapathError> {
        if let Some(node) = &t.node {
            self.bpf.put(Table::Node, bytes(&0u32), bytes(node))?;
        }
        self.retire(t, kept)?;
        for (table, want) in [(Table::Branches, &t.branches), (Table::Peers, &t.peers), (Table::Outers, &t.outers)] {
            self.put_missing(table, want)?;
        }
        for (id, conf) in &t.groups {
            if self.group(*id, conf, t, held.get(id))? {
                self.repeats.insert(*id, Instant::now() + REPEAT_FOR);
            }
        }
        for (table, want) in entry_points(t) {
            self.put_missing(table, want)?;
        }
        self.sweep(t, kept)
    }

    /// Removes groups that are gone, entry points first, and the state of groups with another session.
    fn retire(&self, t: &Tables, kept: &BTreeSet<u32>) -> Result<(), DatapathError> {
        let lives =
            |value: &[u8]| read::<u32>(value).is_some_and(|id| t.groups.contains_key(&id) || kept.contains(&id));
        for (table, want) in entry_points(t) {
            for (key, value) in self.entries(table)? {
                // A group that changed to SRv6 replication has no multicast address any more.
                let of_other = table == Table::Multicasts && !want.contains_key(&key) && !is_kept(&value, kept);
                if !lives(&value) || of_other {
                    self.bpf.delete(table, &key)?;
                }
            }
        }
        for key in self.bpf.keys(Table::Groups) {
            let Some(id) = read::<u32>(&key) else { continue };
            let old: Option<types::canopy_group> = self.bpf.get_as(Table::Groups, &id)?;
            let restarts = matches!((old, t.groups.get(&id)), (Some(o), Some(n)) if session(&o) != session(n));
            if !lives(&key) || restarts {
                self.bpf.delete(Table::Groups, &key)?;
                self.bpf.delete(Table::Cnps, &key)?;
                self.bpf.delete(Table::States, &key)?;
            }
        }
        Ok(())
    }

    /// Applies one group: creates its state, joins new branches, writes the group's configuration, removes branches, in this order.
    /// Returns whether its feedback goes to another node and this node adopted the epoch only now.
    ///
    /// The written configuration makes the node send feedback with the new epoch. Before that every branch of the epoch must be
    /// counted (decisions 3.9), and a leaving branch must still hold back the minimum.
    fn group(
        &self,
        id: u32,
        conf: &types::canopy_group,
        t: &Tables,
        held: Option<&BTreeMap<Ipv6Addr, u32>>,
    ) -> Result<bool, DatapathError> {
        let slots = &t.slots[&id];
        if self.bpf.get(Table::States, bytes(&id))?.is_none() {
            self.bpf.put(Table::States, bytes(&id), bytes(&fresh_state()))?;
        }
        if self.bpf.get(Table::Cnps, bytes(&id))?.is_none() {
            self.bpf.put(Table::Cnps, bytes(&id), bytes(&types::canopy_cnp::default()))?;
        }
        for slot in slots.values() {
            let key = tables::slot_key(id, *slot);
            if self.bpf.get(Table::Stats, bytes(&key))?.is_none() {
                self.bpf.put(Table::Stats, bytes(&key), bytes(&types::canopy_branch_stats::default()))?;
            }
        }
        let known = self.bpf.get(Table::Groups, bytes(&id))?;
        if known.is_none() {
            // The control program requires the entry; no entry point refers to it yet.
            self.bpf.put(Table::Groups, bytes(&id), bytes(conf))?;
        }
        self.join(id, slots.values().filter_map(|slot| Some((*slot, t.join_points.get(&(id, *slot))?))))?;
        let was = known.as_deref().and_then(read::<types::canopy_group>);
        if known.is_some_and(|k| k != bytes(conf)) {
            self.bpf.put(Table::Groups, bytes(&id), bytes(conf))?;
        }
        let state: Option<types::canopy_state> = self.bpf.get_as(Table::States, &id)?;
        for (address, slot) in held.into_iter().flatten() {
            let counts = || state.is_some_and(|s| has(&s.active, *slot) || has(&s.pending, *slot));
            if !slots.contains_key(address) || (has(&conf.standby, *slot) && counts()) {
                self.bpf.control(id, Control::Remove { slot: *slot }, &[0; ACK_FRAME])?;
            }
        }
        // A headend sends feedback to the source, which has no epochs.
        let is_headend = conf.flags & tables::GROUP_HEADEND != 0;
        let parent = |g: &types::canopy_group| (g.epoch, g.up_da.hi, g.up_da.lo);
        // Before data there is no feedback that the parent could have dropped.
        let has_data = state.is_some_and(|s| s.high != 0);
        Ok(!is_headend && has_data && was.is_none_or(|w| parent(&w) != parent(conf)))
    }

    /// Joins new branches, branches behind which receivers moved, and branches that reuse the address of a former one.
    fn join<'a>(&self, id: u32, branches: impl Iterator<Item = (u32, &'a JoinPoint)>) -> Result<(), DatapathError> {
        let state: Option<types::canopy_state> = self.bpf.get_as(Table::States, &id)?;
        for (slot, &JoinPoint { at_boundary, receiver, since }) in branches {
            let there = state.filter(|s| has(&s.active, slot) || has(&s.pending, slot));
            if there.is_some_and(|s| s.since[slot as usize % s.since.len()] == since) {
                continue;
            }
            if there.is_some() && receiver {
                self.bpf.control(id, Control::Remove { slot }, &[0; ACK_FRAME])?;
            }
            // A child node that is active already continues with its next feedback, whatever receivers moved behind it.
            let counts = there.is_some_and(|s| has(&s.active, slot));
            let at_boundary = at_boundary && !self.cold && (receiver || !counts);
            self.bpf.control(id, Control::Join { slot, at_boundary, receiver, since }, &[0; ACK_FRAME])?;
        }
        Ok(())
    }

    /// Removes entries to which no other entry refers any more.
    fn sweep(&self, t: &Tables, kept: &BTreeSet<u32>) -> Result<(), DatapathError> {
        let of_kept = |key: &[u8]| key.first_chunk::<4>().is_some_and(|id| kept.contains(&u32::from_ne_bytes(*id)));
        let of_group = |key: &[u8]| {
            key.first_chunk::<4>().is_some_and(|id| t.groups.contains_key(&u32::from_ne_bytes(*id)) || *id == [0; 4])
        };
        self.delete_extra(Table::Peers, |k| t.peers.contains_key(k) || of_kept(k))?;
        self.delete_extra(Table::Branches, |k| t.branches.contains_key(k) || of_kept(k))?;
        self.delete_extra(Table::Stats, |k| t.branches.contains_key(k) || of_kept(k))?;
        self.delete_extra(Table::Outers, |k| t.outers.contains_key(k) || of_kept(k))?;
        self.delete_extra(Table::States, |k| of_group(k) || of_kept(k))?;
        self.delete_extra(Table::Cnps, |k| of_group(k) || of_kept(k))?;
        self.delete_extra(Table::Drops, |k| of_group(k) || of_kept(k))
    }

    /// Reads every map back and reports the first difference of each group.
    fn verify_maps(&self, spec: &NodeSpec, t: &Tables) -> Result<Vec<ItemError>, DatapathError> {
        let mut errors = Vec::new();
        for g in spec.groups.values() {
            let id = g.group_id.get();
            let Some(conf) = t.groups.get(&id) else { continue };
            let mut wrong = Vec::new();
            if self.bpf.get(Table::Groups, bytes(&id))?.as_deref() != Some(bytes(conf)) {
                wrong.push(Table::Groups);
            }
            for (table, want) in entry_points(t) {
                for (key, value) in want.iter().filter(|(_, v)| read::<u32>(v) == Some(id)) {
                    if self.bpf.get(table, key)?.as_deref() != Some(value) {
                        wrong.push(table);
                    }
                }
            }
            for (table, want) in [(Table::Branches, &t.branches), (Table::Peers, &t.peers), (Table::Outers, &t.outers)]
            {
                for (key, value) in want.iter().filter(|(k, _)| k[..4] == id.to_ne_bytes()) {
                    if self.bpf.get(table, key)?.as_deref() != Some(value) {
                        wrong.push(table);
                    }
                }
            }
            let state: Option<types::canopy_state> = self.bpf.get_as(Table::States, &id)?;
            let since = |slot: u32| t.join_points.get(&(id, slot)).map(|j| j.since);
            let counts = |s: &types::canopy_state, slot: u32| {
                (has(&s.active, slot) || has(&s.pending, slot)) && Some(s.since[slot as usize % 128]) == since(slot)
            };
            let counted = |slot: &&u32| t.join_points.contains_key(&(id, **slot));
            if !t.slots[&id].values().filter(counted).all(|slot| state.is_some_and(|s| counts(&s, *slot))) {
                wrong.push(Table::States);
            }
            if let Some(table) = wrong.first() {
                let detail = format!("map {} does not read back as written for group {}", table.name(), g.name);
                errors.push(ItemError { kind: ItemKind::Group, name: g.name.clone(), group: Some(g.group_id), detail });
            }
        }
        Ok(errors)
    }

    /// The interfaces that count as attached: both programs run if the interface is desired, any program runs if it is not.
    fn attached(&self, desired: &net::NetState, interfaces: impl Iterator<Item = u32>) -> BTreeSet<u32> {
        let runs = |i: &u32| match (self.bpf.attached(*i), self.egress.attached(*i)) {
            (ingress, egress) if desired.attached.contains(i) => ingress && egress,
            (ingress, egress) => ingress || egress,
        };
        interfaces.filter(runs).collect()
    }

    fn detach(&self, ifindex: u32) -> Result<(), DatapathError> {
        if self.egress.attached(ifindex) {
            self.egress.detach(ifindex)?;
        }
        if self.bpf.attached(ifindex) { self.bpf.detach(ifindex) } else { Ok(()) }
    }

    async fn network(
        &self,
        spec: &NodeSpec,
        interfaces: &BTreeMap<String, Interface>,
    ) -> Result<Vec<ItemError>, DatapathError> {
        let (desired, mut errors) = net::desired(spec, interfaces);
        let ports: BTreeSet<u32> = desired.attached.clone();
        let mut observed = self.netlink.observe(interfaces, &ports, &desired).await?;
        observed.state.attached = self.attached(&desired, interfaces.values().map(|i| i.index));
        let commands = net::plan(&desired, &observed.state);
        for command in &commands {
            let result = match *command {
                NetCommand::Attach(i) => self.bpf.attach(i).and_then(|()| self.egress.attach(i)),
                NetCommand::Detach(i) => self.detach(i),
                _ => self.netlink.execute(command).await,
            };
            if let Err(e) = result {
                tracing::warn!(
                    error = chain(&e),
                    kind = %kind(command),
                    item = name(command, interfaces),
                    "cannot apply a change to the kernel"
                );
                errors.push(ItemError {
                    kind: kind(command),
                    name: name(command, interfaces),
                    group: None,
                    detail: chain(&e),
                });
            }
        }
        let interfaces = self.netlink.interfaces().await?;
        let fresh: BTreeSet<_> = commands
            .iter()
            .filter_map(|c| if let NetCommand::AddNeighbour(i, a) = c { Some((*i, *a)) } else { None })
            .collect();
        let mut after = self.resolved(&interfaces, &ports, &desired, &fresh).await?;
        after.state.attached = self.attached(&desired, ports.iter().copied());
        for command in net::plan(&desired, &after.state) {
            // Every remaining difference is an error, unless the command that failed for the same item has been reported.
            if !errors.iter().any(|e| e.kind == kind(&command) && e.name == name(&command, &interfaces)) {
                let detail =
                    format!("the kernel does not have the desired state after applying it: still needs {command:?}");
                errors.push(ItemError { kind: kind(&command), name: name(&command, &interfaces), group: None, detail });
            }
        }
        for g in spec.groups.values() {
            for (port, hop) in
                g.branches.iter().map(|b| (b.port, b.next_hop)).chain([(g.upstream.port, g.upstream.next_hop)])
            {
                let Some(p) = spec.base.ports.iter().find(|p| p.index == port) else { continue };
                if interfaces.get(&p.name).is_some_and(|i| after.unresolved.contains(&(i.index, hop))) {
                    let detail =
                        format!("{hop} does not answer neighbour discovery on {}: check that the device is up", p.name);
                    errors.push(ItemError {
                        kind: ItemKind::Neighbour,
                        name: format!("{}/{hop}", p.name),
                        group: Some(g.group_id),
                        detail,
                    });
                }
            }
        }
        Ok(errors)
    }

    /// Observes the network state, and waits up to [`NEIGHBOUR_PATIENCE`] for the new neighbours `fresh` to resolve.
    async fn resolved(
        &self,
        interfaces: &BTreeMap<String, Interface>,
        ports: &BTreeSet<u32>,
        desired: &net::NetState,
        fresh: &BTreeSet<(u32, Ipv6Addr)>,
    ) -> Result<netlink::Observed, DatapathError> {
        let deadline = tokio::time::Instant::now() + NEIGHBOUR_PATIENCE;
        loop {
            let observed = self.netlink.observe(interfaces, ports, desired).await?;
            if observed.unresolved.is_disjoint(fresh) || tokio::time::Instant::now() >= deadline {
                return Ok(observed);
            }
            tokio::time::sleep(NEIGHBOUR_POLL).await;
        }
    }

    /// Acknowledges data for groups that have only pending branches (shared.h CONTROL_PENDING_ONLY). Polls the groups of the last
    /// reconcile until they have no pending branches.
    fn poll_pending_only(&mut self) {
        let Self { bpf, may_be_pending, .. } = self;
        may_be_pending.retain(|id| {
            let state = bpf.get_as(Table::States, id).ok().flatten();
            let Some(state) = state.filter(|s: &types::canopy_state| !is_empty(&s.pending)) else { return false };
            if is_empty(&state.active)
                && let Err(e) = bpf.control(*id, Control::PendingOnly, &[0; ACK_FRAME])
            {
                tracing::warn!(
                    group = id,
                    error = chain(&e),
                    "cannot acknowledge data for a group that has only pending branches"
                );
            }
            true
        });
    }

    /// Repeats the last feedback of groups whose epoch was adopted less than [`REPEAT_FOR`] ago. A failure is logged and retried at
    /// the next interval.
    fn repeat_feedback(&mut self) {
        let Self { bpf, repeats, .. } = self;
        let now = Instant::now();
        repeats.retain(|_, until| *until > now);
        for id in repeats.keys() {
            if let Err(e) = bpf.control(*id, Control::Repeat, &[0; ACK_FRAME]) {
                tracing::warn!(group = id, error = chain(&e), "cannot repeat the last feedback to the parent node");
            }
        }
    }

    async fn try_reconcile(&mut self, spec: &NodeSpec) -> Result<Vec<ItemError>, DatapathError> {
        let interfaces = self.netlink.interfaces().await?;
        let mut errors = self.network(spec, &interfaces).await?;
        let interfaces = self.netlink.interfaces().await?;
        let held = self.held_slots()?;
        let (tables, refused) = Tables::desired(spec, &interfaces, &held);
        let kept = refused.iter().filter_map(|e| Some(e.group?.get())).collect();
        errors.extend(refused);
        let recorded = multicasts(&self.bpf)?;
        let update = MulticastUpdate::before(&mut self.mroute_holder, spec, &interfaces, &recorded, &kept)?;
        self.maps(&tables, &held, &kept)?;
        errors.extend(update.after(&mut self.mroute_holder).await?);
        if let Err(e) = self.configure_congestion(spec, &interfaces) {
            let name = "congestion".to_string();
            errors.push(ItemError { kind: ItemKind::Program, name, group: None, detail: chain(&e) });
        }
        self.cold = false;
        self.repeats.retain(|id, _| tables.groups.contains_key(id));
        self.may_be_pending = tables.groups.keys().copied().collect();
        self.poll_pending_only();
        errors.extend(self.verify_maps(spec, &tables)?);
        Ok(errors)
    }
}

impl Datapath for LinuxDatapath {
    async fn reconcile(&mut self, spec: &NodeSpec) -> Vec<ItemError> {
        match self.try_reconcile(spec).await {
            Ok(errors) => errors,
            Err(e) => {
                let name = "datapath".to_string();
                vec![ItemError { kind: ItemKind::Program, name, group: None, detail: chain(&e) }]
            }
        }
    }

    async fn sample(&mut self) -> Result<Sample, DatapathError> {
        let congestion = egress::report(&self.egress, self.watcher.observations())?;
        Ok(Sample { congestion, ..sample(&self.bpf)? })
    }

    async fn next_event(&mut self) -> DatapathEvent {
        loop {
            tokio::select! {
                () = self.netlink.changed() => return DatapathEvent::KernelChanged,
                _ = self.pending_poll.tick(), if !self.may_be_pending.is_empty() => self.poll_pending_only(),
                _ = self.repeat.tick(), if !self.repeats.is_empty() => self.repeat_feedback(),
                () = self.mroute_holder.ended() => return DatapathEvent::KernelChanged,
                raw = self.events.next() => {
                    if let Some(event) = crate::events::act(&self.bpf, &raw) {
                        return DatapathEvent::Event(event);
                    }
                }
            }
        }
    }
}

/// Removes everything that an agent with this pin directory added: filters, pins, routes, neighbours, multicast routing.
///
/// # Errors
/// The first step that failed.
pub async fn cleanup(pin_dir: &Path) -> Result<(), DatapathError> {
    if pin_dir.join("canopy_ingress").exists() {
        let bpf = Bpf::load(pin_dir)?;
        let egress = EgressBpf::load(pin_dir)?;
        let netlink = Netlink::open()?;
        let interfaces = netlink.interfaces().await?;
        for i in interfaces.values() {
            // Attaching first replaces the filter of any version by ours, which can then be detached.
            if bpf.has_filter(i.index) {
                bpf.attach(i.index)?;
                bpf.detach(i.index)?;
            }
            if egress.has_filter(i.index) {
                egress.attach(i.index)?;
                egress.detach(i.index)?;
            }
        }
        let none = net::NetState::default();
        let mut observed = netlink.observe(&interfaces, &BTreeSet::new(), &none).await?.state;
        let ours = multicasts(&bpf)?.into_keys().collect();
        multicast::cleanup(&mut MrouteHolder::new(Hold::Itself), &interfaces, ours).await?;
        observed.up.clear();
        for command in net::plan(&none, &observed) {
            netlink.execute(&command).await?;
        }
    }
    match fs::remove_dir_all(pin_dir) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(()),
        other => other.with_context(|| format!("removing {}", pin_dir.display())),
    }
}

/// Maps by which the programs find the group of a packet.
fn entry_points(t: &Tables) -> [(Table, &Entries); 4] {
    [(Table::Proxies, &t.proxies), (Table::Qpns, &t.qpns), (Table::Trees, &t.trees), (Table::Multicasts, &t.multicasts)]
}

fn is_kept(value: &[u8], kept: &BTreeSet<u32>) -> bool {
    read::<u32>(value).is_some_and(|id| kept.contains(&id))
}

/// Multicast addresses of the groups in the programs' maps: the record of which kernel routes are ours.
fn multicasts(bpf: &Bpf) -> Result<BTreeMap<Ipv6Addr, u32>, DatapathError> {
    let mut out = BTreeMap::new();
    for key in bpf.keys(Table::Multicasts) {
        if let (Some(a), Some(id)) = (read::<types::canopy_addr>(&key), bpf.get(Table::Multicasts, &key)?) {
            out.insert(tables::address(&a), read::<u32>(&id).unwrap_or(0));
        }
    }
    Ok(out)
}

/// State of a new group: the first data packet sets its PSN, and nothing is acknowledged until every branch is confirmed
/// (decisions 3.3, 3.9).
fn fresh_state() -> types::canopy_state {
    let empty = types::canopy_min { key: tables::KEY_EMPTY, msn: u64::MAX, credits: u64::MAX };
    types::canopy_state { tree: [empty; 256], ..types::canopy_state::default() }
}

/// Identity of a PSN sequence: with another start PSN or source QP the group's state starts again. A source that left and
/// rejoined with another QP can be a single change of the spec.
fn session(g: &types::canopy_group) -> (u64, u32, u32, u64, u64) {
    (g.start, g.dqpn, g.source_qpn, g.source.hi, g.source.lo)
}

fn is_empty(slots: &types::canopy_slots) -> bool {
    slots.word == [0; 2]
}

fn has(slots: &types::canopy_slots, slot: u32) -> bool {
    slots.word[slot as usize / 64] >> (slot % 64) & 1 == 1
}

fn kind(command: &NetCommand) -> ItemKind {
    match command {
        NetCommand::Up(_) | NetCommand::AddAddress(..) | NetCommand::RemoveAddress(..) => ItemKind::Port,
        NetCommand::AddRoute(..) | NetCommand::RemoveRoute(..) => ItemKind::Route,
        NetCommand::AddNeighbour(..) | NetCommand::RemoveNeighbour(..) => ItemKind::Neighbour,
        NetCommand::Attach(_) | NetCommand::Detach(_) => ItemKind::Program,
    }
}

fn name(command: &NetCommand, interfaces: &BTreeMap<String, Interface>) -> String {
    let port = |i: u32| {
        interfaces.iter().find(|(_, x)| x.index == i).map_or_else(|| format!("interface {i}"), |(n, _)| n.clone())
    };
    match command {
        NetCommand::Up(i)
        | NetCommand::AddAddress(i, _)
        | NetCommand::RemoveAddress(i, _)
        | NetCommand::Attach(i)
        | NetCommand::Detach(i) => port(*i),
        NetCommand::AddRoute(p, ..) | NetCommand::RemoveRoute(p, ..) => p.to_string(),
        NetCommand::AddNeighbour(i, a) | NetCommand::RemoveNeighbour(i, a) => format!("{}/{a}", port(*i)),
    }
}
