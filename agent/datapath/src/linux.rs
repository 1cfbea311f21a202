// SPDX-License-Identifier: Apache-2.0
//! Reconciliation of maps and netlink state: all desired against all observed.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs;
use std::net::Ipv6Addr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use canopy_agent_core::congestion::Settings;
use canopy_agent_core::hops::{self, Hops};
use canopy_agent_core::net::{self, Interface, NetCommand};
use canopy_agent_core::rules::Machine;
use canopy_agent_core::{Datapath, DatapathError, DatapathEvent, Sample, Scope};
use canopy_bpf::handover::Handover;
use canopy_bpf::node::{Loaded, Node, types};
use canopy_bpf::{Context, Result, chain};
use canopy_model::capture::CaptureOrder;
use canopy_model::host_programs::HostPrograms;
use canopy_model::ids::PortIndex;
use canopy_model::node_spec::{NodeBase, NodeSpec};
use canopy_model::status::{ItemError, ItemKind};
use canopy_model::telemetry::Event;

use crate::boundary;
use crate::capture::{self, Captured};
use crate::cnp_windows::CnpWindows;
use crate::egress::{Egress, GroupFlows, Queues, Watcher, WatcherConfig, report};
use crate::events::{self, Events};
use crate::groups::Groups;
use crate::mroute_holder::{Hold, MrouteHolder};
use crate::multicast::{self, MulticastUpdate};
use crate::netlink::{self, Netlink};
use crate::paths;
use crate::render::Ports;
use crate::rules;
use crate::sample::Sampler;
use crate::solicit::{self, Solicitor};

/// How long a new neighbour entry may take to resolve: some round trips of a local link.
const NEIGHBOUR_PATIENCE: Duration = Duration::from_millis(300);
const NEIGHBOUR_POLL: Duration = Duration::from_millis(10);
/// How often a group that has only pending branches acknowledges the data forwarded so far: the source can send one window per this
/// time.
const POLL_PENDING_ONLY: Duration = Duration::from_millis(2);
/// How often a node repeats its last feedback after it has adopted a new epoch (decisions 3.9).
const REPEAT_INTERVAL: Duration = Duration::from_millis(10);

/// Options of the datapath.
#[derive(Clone, Debug)]
pub struct Options {
    /// Directory on a BPF file system for this node's programs and maps.
    pub pin_dir: PathBuf,
    /// Which process keeps IPv6 multicast routing enabled for groups that use it.
    pub hold_multicast: Hold,
    /// Parameters of the congestion detection.
    pub congestion: Settings,
    /// Directory with the switches of the network, [`crate::SYSCTL_DIR`] but where that is read-only.
    pub sysctl_dir: PathBuf,
}

/// The Linux kernel as a [`Datapath`].
pub struct LinuxDatapath {
    pub(crate) bpf: Arc<Node>,
    /// Programs of another layout forward until the first reconcile has brought the groups up to date.
    pub(crate) handover: Option<Handover>,
    pub(crate) groups: Groups,
    hops: Hops,
    /// `None` if the network may not be as the last spec wants it.
    settled: Option<Settled>,
    /// What programs of hosts may be, as it was last written; `None` if it may be another.
    permitted: Option<Option<HostPrograms>>,
    flows: GroupFlows,
    /// Flows of groups that have no place in the table of announced ones.
    unannounced: usize,
    pub(crate) egress: Arc<Egress>,
    watcher: Watcher,
    pub(crate) netlink: Netlink,
    pub(crate) machine: Machine,
    events: Events,
    captured: Captured,
    pub(crate) cnp_windows: CnpWindows,
    mroute_holder: MrouteHolder,
    /// Opened when the first receiver has to be solicited.
    solicitor: Option<Solicitor>,
    /// The boundary after the last reconcile, and events about parts of it that were gone.
    kept: boundary::Kept,
    restored: VecDeque<Event>,
    /// Names of the interfaces at the last reconcile.
    names: BTreeMap<u32, String>,
    pub(crate) sampler: Sampler,
    queues: Queues,
    pending_poll: tokio::time::Interval,
    repeat: tokio::time::Interval,
}

/// For what the network of the node is as wanted, as far as the kernel's notices have it.
struct Settled {
    /// Without the thresholds of its ports, which the network does not depend on.
    base: NodeBase,
    interfaces: BTreeMap<String, Interface>,
}

fn without_thresholds(base: &NodeBase) -> NodeBase {
    let mut base = base.clone();
    base.ports.iter_mut().for_each(|port| port.thresholds = None);
    base
}

impl LinuxDatapath {
    /// Loads the programs and reuses the maps that an earlier agent pinned.
    ///
    /// # Errors
    /// The kernel rejects a step; the error names it and its requirement.
    pub async fn open(options: Options) -> Result<Self, DatapathError> {
        Self::try_open(options).await.map_err(datapath_error)
    }

    async fn try_open(options: Options) -> Result<Self> {
        let Loaded { node, handover, cold } = Node::load(&options.pin_dir)?;
        let handover = handover.and_then(|h| h.as_ref().map_or(Ok(()), Handover::copy).map(|()| h)).with_context(|| {
            format!(
                "taking over the groups in {} from programs of another layout, which forward them until then (`canopy-agent cleanup` \
                 removes them, and the groups start over)",
                options.pin_dir.display()
            )
        })?;
        let bpf = Arc::new(node);
        let egress = Arc::new(Egress::new(Arc::clone(&bpf)));
        let watcher = Watcher::start(Arc::clone(&egress), options.congestion)?;
        let events = Events::open(&bpf)?;
        let captured = Captured::open(&bpf)?;
        let cnp_windows = CnpWindows::open(Arc::clone(&bpf))?;
        let mroute_holder = MrouteHolder::new(options.hold_multicast);
        let mut pending_poll = tokio::time::interval(POLL_PENDING_ONLY);
        pending_poll.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut repeat = tokio::time::interval(REPEAT_INTERVAL);
        repeat.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let netlink = Netlink::open(&options.sysctl_dir)?;
        let machine = Machine { user: crate::user::effective(), multicast_rules: netlink.has_multicast_rules().await? };
        let groups = Groups::new(Arc::clone(&bpf), cold);
        let (hops, flows) = Default::default();
        Ok(Self {
            bpf,
            handover,
            groups,
            hops,
            settled: None,
            permitted: None,
            flows,
            unannounced: 0,
            egress,
            watcher,
            netlink,
            machine,
            events,
            captured,
            cnp_windows,
            mroute_holder,
            solicitor: None,
            kept: boundary::Kept::default(),
            restored: VecDeque::new(),
            names: BTreeMap::new(),
            sampler: Sampler::default(),
            queues: Queues::open()?,
            pending_poll,
            repeat,
        })
    }

    fn configure_congestion(&mut self, spec: &NodeSpec, ports: &Ports) -> Result<()> {
        let config = WatcherConfig::new(&spec.base, self.flows.follow(&spec.groups), ports);
        self.egress.keep_ports(&ports.values().copied().collect())?;
        self.egress.set_limits(&config.kernel_limits())?;
        let unannounced = self.egress.set_known(&config.flows)?;
        if std::mem::replace(&mut self.unannounced, unannounced) == 0 && unannounced > 0 {
            tracing::warn!(
                flows = config.flows.len(),
                unannounced,
                "the table of the groups' flows is full: the others are counted among learned flows, of which the least recently used are forgotten; put fewer receivers behind this node"
            );
        }
        self.watcher.configure(config);
        Ok(())
    }

    /// Whether the last feedback of any group is being repeated.
    #[cfg(test)]
    pub(crate) fn repeats_feedback(&self) -> bool {
        self.groups.repeats()
    }

    /// Entries of all maps of the groups except `node`.
    #[cfg(any(test, feature = "testbed"))]
    pub(crate) fn count_entries(&self) -> usize {
        let b = &self.bpf;
        let groups =
            b.groups().keys().len() + b.outers().keys().len() + b.states().keys().len() + b.cnps().keys().len();
        let entry_points =
            b.proxies().keys().len() + b.qpns().keys().len() + b.trees().keys().len() + b.multicasts().keys().len();
        let branches = b.branches().keys().len() + b.peers().keys().len();
        let groups = groups + b.hmacs().keys().len();
        groups + entry_points + branches + b.drops().keys().len()
    }

    /// Adds to `observed` the interfaces that run what they should, and those that run something and should not.
    fn observe_filters(
        &self,
        desired: &net::NetState,
        interfaces: impl Iterator<Item = u32>,
        observed: &mut net::NetState,
    ) {
        let (ingress, egress) = (self.bpf.ingress(), self.bpf.egress());
        for i in interfaces {
            let runs = (ingress.is_attached(i), egress.is_attached(i));
            if desired.attached.contains(&i) && runs == (true, true) {
                observed.attached.insert(i);
            } else if desired.guarded.contains(&i) && runs == (true, false) {
                observed.guarded.insert(i);
            } else if !desired.attached.contains(&i) && !desired.guarded.contains(&i) && runs != (false, false) {
                observed.attached.insert(i);
            }
        }
    }

    fn attach(&self, ifindex: u32) -> Result<()> {
        self.bpf.ingress().attach(ifindex)?;
        self.bpf.egress().attach(ifindex)
    }

    fn guard(&self, ifindex: u32) -> Result<()> {
        self.bpf.ingress().attach(ifindex)?;
        if self.bpf.egress().is_attached(ifindex) { self.bpf.egress().detach(ifindex) } else { Ok(()) }
    }

    fn detach(&self, ifindex: u32) -> Result<()> {
        let attached = [self.bpf.egress(), self.bpf.ingress()].into_iter().filter(|f| f.is_attached(ifindex));
        attached.into_iter().try_for_each(|filter| filter.detach(ifindex))
    }

    async fn network(&mut self, spec: &NodeSpec, interfaces: &BTreeMap<String, Interface>) -> Result<Vec<ItemError>> {
        let (desired, mut errors) = net::desired(&spec.base, &self.hops, interfaces, self.machine);
        self.netlink.follow(&desired.neighbours);
        let ports: BTreeSet<u32> = desired.attached.clone();
        let mut observed = self.netlink.observe(interfaces, &ports, &desired).await?;
        if let Err(e) = boundary::keep_own(&self.bpf, &observed.own) {
            let name = "own addresses".to_string();
            errors.push(ItemError { kind: ItemKind::Program, name, group: None, detail: chain(&e) });
        }
        self.observe_filters(&desired, interfaces.values().map(|i| i.index), &mut observed.state);
        let commands = net::plan(&desired, &observed.state);
        for command in &commands {
            if let Some(detail) = self.kept.restored(command, |i| port_name(interfaces, i)) {
                tracing::warn!(what = detail, "restoring a part of the domain's boundary");
                self.restored.push_back(events::boundary_restored(detail));
            }
            let result = match *command {
                NetCommand::Attach(i) => self.attach(i),
                NetCommand::Guard(i) => self.guard(i),
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
        let before = interfaces;
        let interfaces = &self.netlink.interfaces().await?;
        // An interface outside the topology that went away meanwhile needs no program.
        errors.retain(|e| {
            e.kind != ItemKind::Program || interfaces.contains_key(&e.name) || !before.contains_key(&e.name)
        });
        let fresh: BTreeSet<_> = commands
            .iter()
            .filter_map(|c| if let NetCommand::AddNeighbour(i, a) = c { Some((*i, *a)) } else { None })
            .collect();
        let mut after = self.resolved(interfaces, &ports, &desired, &fresh).await?;
        self.observe_filters(&desired, interfaces.values().map(|i| i.index), &mut after.state);
        self.kept.remember(&desired, &after.state);
        if let Err(e) = solicit::keep(&self.bpf, &after.macs) {
            let name = "link-layer addresses".to_string();
            errors.push(ItemError { kind: ItemKind::Program, name, group: None, detail: chain(&e) });
        }
        let there = |i: u32| interfaces.values().any(|x| x.index == i);
        let wanted = |c: &NetCommand| !matches!(c, NetCommand::Guard(i) if !there(*i));
        for command in net::plan(&desired, &after.state).into_iter().filter(wanted) {
            // Every remaining difference is an error, unless the command that failed for the same item has been reported.
            if !errors.iter().any(|e| e.kind == kind(&command) && e.name == name(&command, interfaces)) {
                let detail =
                    format!("the kernel does not have the desired state after applying it: still needs {command:?}");
                errors.push(ItemError { kind: kind(&command), name: name(&command, interfaces), group: None, detail });
            }
        }
        let unresolved = |(port, hop): &(PortIndex, Ipv6Addr)| {
            let p = spec.base.ports.iter().find(|p| p.index == *port)?;
            let i = interfaces.get(&p.name)?;
            after.unresolved.contains(&(i.index, *hop)).then(|| (p.name.clone(), *hop))
        };
        let silent: Vec<_> = self.hops.neighbours().filter_map(|n| Some((*n, unresolved(n)?))).collect();
        let affected = (!silent.is_empty()).then(|| spec.groups.values());
        for g in affected.into_iter().flatten() {
            for (_, (port, hop)) in hops::neighbours(g).filter_map(|n| silent.iter().find(|(of, _)| *of == n)) {
                let detail =
                    format!("{hop} does not answer neighbour discovery on {port}: check that the device is up");
                let (kind, name) = (ItemKind::Neighbour, format!("{port}/{hop}"));
                errors.push(ItemError { kind, name, group: Some(g.group_id), detail });
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
    ) -> Result<netlink::Observed> {
        let deadline = tokio::time::Instant::now() + NEIGHBOUR_PATIENCE;
        loop {
            let observed = self.netlink.observe(interfaces, ports, desired).await?;
            if observed.unresolved.is_disjoint(fresh) || tokio::time::Instant::now() >= deadline {
                return Ok(observed);
            }
            tokio::time::sleep(NEIGHBOUR_POLL).await;
        }
    }

    /// Lets neighbour discovery find out where a receiver is whose feedback came from another link-layer address.
    fn solicit(&mut self, event: &types::canopy_event) {
        // A branch that has left meanwhile is of no interest.
        let Some((address, ifindex)) = self.groups.peer(event.group_id, event.slot) else { return };
        let Some(port) = self.names.get(&ifindex) else { return };
        tracing::debug!(%address, port, "feedback from another link-layer address: soliciting the receiver");
        let opened = match self.solicitor.take() {
            Some(open) => Ok(open),
            None => Solicitor::open(),
        };
        let asked = opened.and_then(|s| self.solicitor.insert(s).ask(ifindex, port, address));
        if let Err(e) = asked {
            tracing::warn!(error = chain(&e), %address, port, "cannot solicit a receiver that may have moved");
        }
    }

    async fn try_reconcile(&mut self, spec: &NodeSpec, scope: Scope) -> Result<Vec<ItemError>> {
        // A notice may wait behind specs that come one after the other. What another layout had is compared as a whole.
        let noticed = if self.netlink.take_notice() { Scope::Network } else { Scope::Spec };
        let scope = if self.handover.is_some() { Scope::All } else { scope.max(noticed) };
        let other_hops = self.hops.follow(&spec.groups);
        let is_wanted =
            |settled: &Settled| scope == Scope::Spec && !other_hops && settled.base == without_thresholds(&spec.base);
        let (settled, mut errors) = match self.settled.take().filter(is_wanted) {
            Some(settled) => (settled, Vec::new()),
            None => self.reconcile_network(spec, scope).await?,
        };
        let is_settled = errors.is_empty();
        errors.extend(self.reconcile_groups(spec, &settled.interfaces, scope).await?);
        self.settled = Some(settled).filter(|_| is_settled);
        self.groups.attend_waiting();
        Ok(errors)
    }

    /// Interfaces with their programs, addresses, routes and neighbours, and what else follows from them.
    async fn reconcile_network(&mut self, spec: &NodeSpec, scope: Scope) -> Result<(Settled, Vec<ItemError>)> {
        if self.handover.is_some() {
            // The programs that take over must find the groups as they are now. The audit that follows reports what is wrong with them.
            let interfaces = self.netlink.interfaces().await?;
            self.reconcile_groups(spec, &interfaces, Scope::All).await?;
        }
        if let Some(handover) = &mut self.handover {
            handover.switch()?;
        }
        let interfaces = self.netlink.interfaces().await?;
        // Before the program is attached: without an entry every interface is outside.
        boundary::configure(&self.bpf, &spec.base, &interfaces)?;
        let path_links = paths::configure(&self.bpf, &spec.base, &interfaces);
        let programs = self.permit_programs(&spec.base, scope);
        self.names = interfaces.iter().map(|(name, i)| (i.index, name.clone())).collect();
        let mut errors = self.network(spec, &interfaces).await?;
        for (name, done) in [("path links", path_links), ("path programs of hosts", programs)] {
            let error = done.err().map(|e| chain(&e));
            errors.extend(error.map(|detail| ItemError {
                kind: ItemKind::Program,
                name: name.into(),
                group: None,
                detail,
            }));
        }
        if let Some(handover) = self.handover.take_if(|_| errors.iter().all(|e| e.kind != ItemKind::Program)) {
            handover.finish()?;
            let (from, to) = handover.between();
            tracing::info!(from = %from.display(), to = %to.display(), "the groups moved to maps of another layout");
        }
        // They may have changed meanwhile.
        let interfaces = self.netlink.interfaces().await?;
        Ok((Settled { base: without_thresholds(&spec.base), interfaces }, errors))
    }

    /// Writes what programs of hosts may be, if it has changed, or in an audit: a base with other routes alone does not read these maps.
    fn permit_programs(&mut self, base: &NodeBase, scope: Scope) -> Result<()> {
        if scope != Scope::All && self.permitted.as_ref().is_some_and(|permitted| *permitted == base.host_programs) {
            return Ok(());
        }
        self.permitted = None;
        paths::permit(&self.bpf, base.host_programs.as_ref())?;
        self.permitted = Some(base.host_programs.clone());
        Ok(())
    }

    async fn reconcile_groups(
        &mut self,
        spec: &NodeSpec,
        interfaces: &BTreeMap<String, Interface>,
        scope: Scope,
    ) -> Result<Vec<ItemError>> {
        let ports: Ports =
            spec.base.ports.iter().filter_map(|p| Some((p.index, interfaces.get(&p.name)?.index))).collect();
        let plan = self.groups.plan(spec, ports.clone(), scope)?;
        let update = MulticastUpdate::before(
            &self.bpf,
            &mut self.mroute_holder,
            spec,
            interfaces,
            &plan.multicasts,
            &plan.kept,
            self.machine,
        )?;
        let mut errors = self.groups.apply(spec, plan)?;
        errors.extend(update.after(&mut self.mroute_holder).await?);
        if let Err(e) = self.configure_congestion(spec, &ports) {
            let name = "congestion".to_string();
            errors.push(ItemError { kind: ItemKind::Program, name, group: None, detail: chain(&e) });
        }
        Ok(errors)
    }
}

/// The error as the agent's core knows it.
fn datapath_error(e: canopy_bpf::Error) -> DatapathError {
    DatapathError { doing: e.doing, source: e.source }
}

impl Datapath for LinuxDatapath {
    async fn follow(&mut self, spec: &NodeSpec, scope: Scope) -> Vec<ItemError> {
        self.groups.read_back = Duration::ZERO;
        match self.try_reconcile(spec, scope).await {
            Ok(errors) => errors,
            Err(e) => {
                let name = "datapath".to_string();
                vec![ItemError { kind: ItemKind::Program, name, group: None, detail: chain(&e) }]
            }
        }
    }

    fn read_back(&self) -> Duration {
        self.groups.read_back
    }

    async fn sample(&mut self) -> Result<Sample, DatapathError> {
        let observations = self.watcher.observations();
        let sampled = report(&self.egress, observations).and_then(|congestion| {
            let sample = self.sampler.sample(&self.bpf, &self.names, &mut self.groups)?;
            Ok(Sample { congestion, ..sample })
        });
        sampled.map_err(datapath_error)
    }

    fn queue_drops(&mut self) -> Result<BTreeMap<String, u64>, DatapathError> {
        let queues = self.queues.read().map_err(datapath_error)?;
        let named =
            queues.into_iter().filter_map(|(index, queue)| Some((self.names.get(&index)?.clone(), queue.drops)));
        Ok(named.collect())
    }

    fn capture(&mut self, order: Option<&CaptureOrder>) -> Result<(), DatapathError> {
        capture::arm(&self.bpf, order).map_err(datapath_error)
    }

    async fn next_event(&mut self) -> DatapathEvent {
        loop {
            if let Some(event) = self.restored.pop_front() {
                return DatapathEvent::Event(event);
            }
            tokio::select! {
                () = self.netlink.changed() => return DatapathEvent::KernelChanged,
                _ = self.pending_poll.tick(), if self.groups.any_waits() => self.groups.attend_waiting(),
                _ = self.repeat.tick(), if self.groups.repeats() => self.groups.repeat_feedback(),
                () = self.mroute_holder.ended() => return DatapathEvent::KernelChanged,
                () = self.cnp_windows.close() => {}
                raw = self.captured.next() => {
                    let port = port_of(&self.names, raw.ifindex);
                    if let Some(frame) = capture::report(&raw, port) {
                        return DatapathEvent::Captured(frame);
                    }
                }
                raw = self.events.next() => match events::is_other_mac(&raw) {
                    true => self.solicit(&raw),
                    false => return DatapathEvent::Event(events::report(&raw)),
                },
            }
        }
    }
}

/// Whether the kernel's IPv6 multicast routing has policy rules, which multicast replication requires: CONFIG_IPV6_MROUTE_MULTIPLE_TABLES.
///
/// # Errors
/// The kernel does not answer.
pub async fn has_multicast_rules() -> Result<bool, DatapathError> {
    let answered = async { Netlink::open(Path::new(crate::SYSCTL_DIR))?.has_multicast_rules().await };
    answered.await.map_err(datapath_error)
}

/// Removes everything that an agent with these options added: filters, pins, routes, neighbours, multicast routing, and the addresses that
/// `base` has, its last desired state. Returns what it was, for a person; after a failure it can be called again. IPv6 forwarding stays on:
/// others of the machine may need it.
///
/// # Errors
/// The first step that failed.
pub async fn cleanup(pin_dir: &Path, hold: Hold, base: Option<&NodeBase>) -> Result<Vec<String>, DatapathError> {
    try_cleanup(pin_dir, hold, base).await.map_err(datapath_error)
}

async fn try_cleanup(pin_dir: &Path, hold: Hold, base: Option<&NodeBase>) -> Result<Vec<String>> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    if Node::is_pinned(pin_dir) {
        let Loaded { node: bpf, handover, .. } = Node::load(pin_dir)?;
        // For the multicast addresses of the groups, whose routes are removed.
        if let Err(e) = handover.and_then(|h| h.as_ref().map_or(Ok(()), Handover::copy)) {
            tracing::warn!(error = chain(&e), "multicast routes of groups in maps of another layout may be left");
        }
        let netlink = Netlink::open(Path::new(crate::SYSCTL_DIR))?;
        let interfaces = netlink.interfaces().await?;
        for i in interfaces.values() {
            // Attaching first replaces the filter of any version by ours, which can then be detached.
            for filter in [bpf.ingress(), bpf.egress()].into_iter().filter(|f| f.is_present(i.index)) {
                filter.attach(i.index)?;
                filter.detach(i.index)?;
                *counts.entry("filters").or_default() += 1;
                if !netlink.has_filters(i.index).await? {
                    filter.remove_qdisc(i.index)?;
                    *counts.entry("qdiscs").or_default() += 1;
                }
            }
        }
        let none = net::NetState::default();
        let machine = Machine { user: 0, multicast_rules: false };
        let addresses = base.map(|base| net::desired(base, &Hops::default(), &interfaces, machine).0.addresses);
        let own = net::NetState { addresses: addresses.unwrap_or_default(), ..none.clone() };
        let mut observed = netlink.observe(&interfaces, &BTreeSet::new(), &own).await?.state;
        let ours = bpf.multicasts().keys().into_iter().map(Ipv6Addr::from).collect();
        multicast::cleanup(&bpf, &mut MrouteHolder::new(hold), &interfaces, ours).await?;
        observed.up.clear();
        for command in net::plan(&none, &observed) {
            netlink.execute(&command).await?;
            *counts.entry(plural(&command)).or_default() += 1;
        }
    }
    let mut removed: Vec<String> = counts.into_iter().map(|(what, count)| format!("{count} {what}")).collect();
    match fs::remove_dir_all(pin_dir) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
        other => {
            other.with_context(|| format!("removing {}", pin_dir.display()))?;
            removed.push(format!("everything pinned at {}", pin_dir.display()));
        }
    }
    Ok(removed)
}

/// What a command of a cleanup removes.
fn plural(command: &NetCommand) -> &'static str {
    match command {
        NetCommand::AddAddress(..) | NetCommand::RemoveAddress(..) => "addresses",
        NetCommand::AddRoute(..) | NetCommand::RemoveRoute(..) | NetCommand::RemoveStray(..) => "routes",
        NetCommand::AddRule(_) | NetCommand::RemoveRule(_) => "rules",
        NetCommand::AddNeighbour(..) | NetCommand::RemoveNeighbour(..) => "neighbours",
        NetCommand::Up(_) | NetCommand::Forward(_) => "switches",
        NetCommand::Attach(_) | NetCommand::Guard(_) | NetCommand::Detach(_) => "filters",
    }
}

fn kind(command: &NetCommand) -> ItemKind {
    match command {
        NetCommand::Up(_) | NetCommand::AddAddress(..) | NetCommand::RemoveAddress(..) => ItemKind::Port,
        NetCommand::AddRoute(..)
        | NetCommand::RemoveRoute(..)
        | NetCommand::RemoveStray(..)
        | NetCommand::AddRule(_)
        | NetCommand::RemoveRule(_)
        | NetCommand::Forward(_) => ItemKind::Route,
        NetCommand::AddNeighbour(..) | NetCommand::RemoveNeighbour(..) => ItemKind::Neighbour,
        NetCommand::Attach(_) | NetCommand::Guard(_) | NetCommand::Detach(_) => ItemKind::Program,
    }
}

/// Name of the interface, or its index where the last reconcile did not find it.
fn port_of(names: &BTreeMap<u32, String>, ifindex: u32) -> String {
    names.get(&ifindex).cloned().unwrap_or_else(|| format!("if{ifindex}"))
}

fn port_name(interfaces: &BTreeMap<String, Interface>, ifindex: u32) -> String {
    let found = interfaces.iter().find(|(_, i)| i.index == ifindex);
    found.map_or_else(|| format!("interface {ifindex}"), |(name, _)| name.clone())
}

fn name(command: &NetCommand, interfaces: &BTreeMap<String, Interface>) -> String {
    let port = |i: u32| port_name(interfaces, i);
    match command {
        NetCommand::Up(i)
        | NetCommand::AddAddress(i, _)
        | NetCommand::RemoveAddress(i, _)
        | NetCommand::Attach(i)
        | NetCommand::Guard(i)
        | NetCommand::Detach(i) => port(*i),
        NetCommand::AddRoute(p, ..) | NetCommand::RemoveRoute(p, ..) | NetCommand::RemoveStray(p, ..) => p.to_string(),
        NetCommand::AddRule(rule) | NetCommand::RemoveRule(rule) => rules::name(rule),
        NetCommand::Forward(name) => format!("net.ipv6.conf.{name}.forwarding"),
        NetCommand::AddNeighbour(i, a) | NetCommand::RemoveNeighbour(i, a) => format!("{}/{a}", port(*i)),
    }
}
