// SPDX-License-Identifier: Apache-2.0
//! What a prepared command changes, and applying it: the only place where intents and nodes' specs change.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::net::Ipv6Addr;
use std::sync::Arc;

use canopy_model::ids::{Generation, GroupId, PortIndex};
use canopy_model::labels::Labels;
use canopy_model::node_spec::{NodeBase, PortThresholds};
use canopy_model::srh_hmac::SrhHmac;
use canopy_model::topology::Endpoint;
use canopy_units::Monotonic;

use super::drains::Drains;
use super::state::State;
use super::unrecorded::Unrecorded;
use crate::alloc::Cursors;
use crate::command::{Outcome, Write};
use crate::desired::{DesiredNode, ProgramOrder, ProgramTimes};
use crate::error::DomainError;
use crate::record::{Record, RecordedRtt, StateRecord};
use crate::resource::{Behind, Group, GroupState, Node, Silence, Stall, Topology};
use crate::retirement::{RetireStep, Retirement, Retirements};
use crate::topology::NodeIx;

/// A command that passed every check: commit [`Self::writes`] in one transaction, then apply it. A crash between the two
/// loses nothing: [`super::Domain::restore`] reads the same records.
#[derive(Debug)]
#[must_use = "a prepared command changes nothing until it is committed and applied"]
pub struct Prepared {
    /// At most [`MAX_WRITES`](crate::command::MAX_WRITES) durable writes, each key once; empty when nothing changes.
    pub writes: Vec<Write>,
    /// The domain's revision that this was prepared against.
    pub base_revision: u64,
    pub(super) outcome: Outcome,
    pub(super) generation: Generation,
    pub(super) effect: Effect,
}

impl Prepared {
    /// A command that changes `writes`, and the state record, which every change writes.
    pub(super) fn change(
        state: &State,
        outcome: Outcome,
        generation: Generation,
        mut writes: Vec<Write>,
        cursors: Cursors,
        effect: Effect,
    ) -> Self {
        writes.push(Write::Put(Record::State(StateRecord { revision: state.revision + 1, cursors })));
        Self { writes, base_revision: state.revision, outcome, generation, effect }
    }

    /// A command that changes nothing.
    pub(super) fn noop(state: &State, generation: Generation) -> Self {
        let (outcome, effect) = (Outcome::Unchanged, Effect::None);
        Self { writes: Vec::new(), base_revision: state.revision, outcome, generation, effect }
    }

    /// The outcome that applying this will have.
    pub fn outcome(&self) -> Outcome {
        self.outcome
    }

    /// True when the state is already as requested: nothing to commit, and applying it changes nothing.
    pub fn is_noop(&self) -> bool {
        self.writes.is_empty()
    }
}

/// The changes that applying a prepared command makes.
#[derive(Debug)]
pub(super) enum Effect {
    None,
    Group(Box<GroupEffect>),
    Topology(Box<TopologyEffect>),
    Links(Box<LinksEffect>),
    /// The drains from now on, without a topology.
    Drains {
        drains: Drains,
        /// The retirements from now on; `None`: as before.
        retirements: Option<Retirements>,
    },
    Silence(SilenceEffect),
    /// The retirements from now on.
    Retirements(Retirements),
    Thresholds(ThresholdEffects),
    /// The keys from now on.
    Hmac(Option<SrhHmac>),
}

/// A silence from now on.
#[derive(Debug)]
pub(super) enum SilenceEffect {
    Put(Box<Silence>),
    Remove(String),
}

/// The new state of a group.
#[derive(Debug)]
pub(super) struct GroupEffect {
    pub(super) name: String,
    /// `None`: the group is deleted.
    pub(super) group: Option<Group>,
    /// The nodes that have another program of the group from now on, or did not have one.
    pub(super) programs: Vec<NodeIx>,
    /// Behind the numbers that were drawn for it.
    pub(super) cursors: Cursors,
}

/// The new topology, and the new state of the groups over it.
#[derive(Debug)]
pub(super) struct TopologyEffect {
    pub(super) topology: Option<Topology>,
    /// By node index.
    pub(super) bases: Vec<NodeBase>,
    /// Every group that has members.
    pub(super) replans: Vec<Replan>,
    /// From now on.
    pub(super) unrecorded: Unrecorded,
}

/// The same topology with other links in service.
#[derive(Debug)]
pub(super) struct LinksEffect {
    pub(super) topology: Topology,
    /// Of the nodes whose routes change.
    pub(super) bases: Vec<(NodeIx, NodeBase)>,
    /// The groups that may change.
    pub(super) replans: Vec<Replan>,
    /// From now on.
    pub(super) unrecorded: Unrecorded,
    /// The drains from now on; `None`: as before.
    pub(super) drains: Option<Drains>,
    /// The retirements from now on; `None`: as before.
    pub(super) retirements: Option<Retirements>,
}

/// What other links in service have changed.
pub(super) struct LinksApplied {
    /// Names, in order.
    pub(super) nodes: Vec<String>,
    /// Names of those that were planned again, in order.
    pub(super) groups: Vec<String>,
    /// Ports that are treated as without carrier, or as silent, and were not, or were and are not.
    pub(super) ports: BTreeSet<Endpoint>,
}

/// The new plan of a group over another topology.
#[derive(Debug)]
pub(super) struct Replan {
    pub(super) name: String,
    pub(super) epoch: u32,
    /// See [`Group::displaced`](crate::resource::Group::displaced).
    pub(super) displaced: u32,
    pub(super) state: GroupState,
    /// See [`Group::behind`].
    pub(super) behind: Option<Behind>,
    /// The nodes that have another program of the group from now on, or did not have one.
    pub(super) programs: Vec<NodeIx>,
}

/// New thresholds, and the round-trip times that become durable with them.
#[derive(Debug)]
pub(super) struct ThresholdEffects {
    pub(super) nodes: Vec<ThresholdEffect>,
    /// By node: all that its record contains now; empty where it was deleted.
    pub(super) recorded: Vec<(String, BTreeMap<String, RecordedRtt>)>,
}

/// New thresholds of a node's ports.
#[derive(Debug)]
pub(super) struct ThresholdEffect {
    pub(super) node: NodeIx,
    pub(super) ports: Vec<(PortIndex, Option<PortThresholds>)>,
}

impl State {
    /// Counts a change that was prepared at `base`, unless it changes nothing.
    ///
    /// # Errors
    /// `Stale` when another change was applied since.
    pub(super) fn begin(&mut self, base: u64, effect: &Effect) -> Result<(), DomainError> {
        if base != self.revision {
            return Err(DomainError::Stale { prepared: base, current: self.revision });
        }
        self.revision += u64::from(!matches!(effect, Effect::None));
        Ok(())
    }

    /// Returns the names of changed nodes and groups.
    pub(super) fn apply_group(&mut self, effect: GroupEffect) -> (Vec<String>, Vec<String>) {
        let GroupEffect { name, group, programs, cursors } = effect;
        let old = self.groups.replace(&name, group);
        self.pools.resume(&cursors);
        if let Some(old) = &old {
            self.pools.release(&old.allocation);
            old.ended.values().for_each(|qpn| self.pools.release_qpn(*qpn));
        }
        if let Some(new) = self.groups.get(&name) {
            // The numbers were free, or the group's own, when the command was prepared, at this same revision.
            let claimed =
                self.pools.claim(&new.allocation).is_ok() && new.ended.values().all(|q| self.pools.claim_qpn(*q));
            debug_assert!(claimed);
        }
        for group in old.as_ref().into_iter().chain(self.groups.get(&name)) {
            self.unrecorded.forget(group.allocation.group_id);
        }
        let mut changed = BTreeSet::new();
        if let Some(old) = &old {
            self.unprogram(old.allocation.group_id, old.nodes().collect(), &name, &mut changed);
        }
        if let Some(new) = self.groups.get(&name) {
            self.reprogram(new.allocation.group_id, programs, &mut changed);
        }
        (self.settled(changed), vec![name])
    }

    /// Takes the group's program from those of the nodes that the group called `name` is not at.
    fn unprogram(&mut self, id: GroupId, before: Vec<NodeIx>, name: &str, changed: &mut BTreeSet<NodeIx>) {
        let stays: HashSet<NodeIx> = self.groups.get(name).into_iter().flat_map(Group::nodes).collect();
        for node in before.into_iter().filter(|node| !stays.contains(node)) {
            self.change_node(node, |spec| spec.groups.remove(&id));
            changed.insert(node);
        }
    }

    /// These nodes have another program of the group from now on.
    fn reprogram(&mut self, id: GroupId, nodes: Vec<NodeIx>, changed: &mut BTreeSet<NodeIx>) {
        for node in nodes {
            self.change_node(node, |spec| spec.groups.insert(id, spec.generation));
            let Node { spec, order, .. } = &mut self.nodes[node];
            order.push(id, spec.generation, &spec.groups);
            changed.insert(node);
        }
    }

    /// Forgets the stalls of programs that changed nodes do not have any more, once for each node. Returns their names, in order.
    fn settled(&mut self, nodes: BTreeSet<NodeIx>) -> Vec<String> {
        nodes.iter().for_each(|node| self.prune_stalls(*node));
        let mut names: Vec<String> = nodes.into_iter().map(|n| self.nodes[n].spec.base.name.clone()).collect();
        names.sort_unstable();
        names
    }

    /// Other links in service, at `now`.
    pub(super) fn apply_links(&mut self, effect: LinksEffect, now: Monotonic) -> LinksApplied {
        let LinksEffect { topology, bases, replans, unrecorded, drains, retirements } = effect;
        if let Some(drains) = drains {
            self.drains = drains;
        }
        self.unrecorded = unrecorded;
        let (mut changed, mut groups) = (BTreeSet::new(), Vec::new());
        for Replan { name, epoch, displaced, state, behind, programs } in replans {
            let Some(old) = self.groups.get(&name) else { continue };
            let (id, before) = (old.allocation.group_id, old.nodes().collect());
            self.groups.replan(&name, epoch, displaced, state, behind);
            self.unprogram(id, before, &name, &mut changed);
            self.reprogram(id, programs, &mut changed);
            groups.push(name);
        }
        for (node, base) in bases {
            self.change_node(node, |spec| spec.base = Arc::new(base));
            changed.insert(node);
        }
        let mut ports = BTreeSet::new();
        if let Some(old) = &self.topology {
            ports.extend(old.down.symmetric_difference(&topology.down).cloned());
            ports.extend(old.silent.symmetric_difference(&topology.silent).cloned());
        }
        self.topology = Some(topology);
        let mut nodes = self.settled(changed);
        if let Some(retirements) = retirements {
            nodes.extend(self.apply_retirements(retirements, now));
            nodes.sort_unstable();
            nodes.dedup();
        }
        LinksApplied { nodes, groups, ports }
    }

    /// Changes what a node is to have, which is of the present revision then.
    fn change_node(&mut self, node: NodeIx, change: impl FnOnce(&mut DesiredNode)) {
        let spec = Arc::make_mut(&mut self.nodes[node].spec);
        spec.generation = self.revision;
        change(spec);
    }

    /// Removes the reports on branches that no longer exist.
    fn prune_stalls(&mut self, at: NodeIx) {
        // Behind a child node receivers come and go; a receiver of another epoch is another one.
        let is_there = |(id, branch): &(GroupId, Ipv6Addr), stall: &Stall| {
            let branch = self.program_of(*id, at).and_then(|program| program.branch(*branch));
            branch.is_some_and(|branch| !stall.is_receiver || branch.since == stall.since)
        };
        let stalls = self.nodes[at].stalls.iter();
        let gone: Vec<_> = stalls.filter(|(key, stall)| !is_there(key, stall)).map(|(key, _)| *key).collect();
        gone.iter().for_each(|key| drop(self.nodes[at].stalls.remove(key)));
    }

    pub(super) fn apply_silence(&mut self, effect: SilenceEffect) {
        match effect {
            SilenceEffect::Put(silence) => self.silences.insert(*silence),
            SilenceEffect::Remove(name) => _ = self.silences.remove(&name),
        }
    }

    /// Returns the names of the nodes that it concerns.
    pub(super) fn apply_retirements(&mut self, mut retirements: Retirements, now: Monotonic) -> Vec<String> {
        let old = std::mem::take(&mut self.retirements);
        let is_new = |node: &String, retirement: &Retirement| old.get(node).is_none_or(|o| o.id != retirement.id);
        for (node, retirement) in &mut retirements {
            if is_new(node, retirement) {
                retirement.known = now;
            }
        }
        let changed = retirements.iter().filter(|(node, retirement)| old.get(*node) != Some(retirement));
        let gone = old.keys().filter(|node| !retirements.contains_key(*node));
        let names = changed.map(|(node, _)| node).chain(gone).cloned().collect();
        self.retirements = retirements;
        self.mark_retired();
        names
    }

    /// Nothing waits for nodes that have left.
    pub(super) fn mark_retired(&mut self) {
        for node in &mut self.nodes {
            let retirement = self.retirements.get(&node.spec.base.name);
            node.retired = retirement.is_some_and(|of| of.reached.step >= RetireStep::Revoking && !of.enrolled);
        }
    }

    /// Returns the names of changed nodes and groups.
    pub(super) fn apply_topology(&mut self, effect: TopologyEffect) -> (Vec<String>, Vec<String>) {
        let TopologyEffect { topology, bases, replans, unrecorded } = effect;
        self.unrecorded = unrecorded;
        let mut of_nodes = vec![(BTreeSet::new(), HashSet::new()); bases.len()];
        let mut groups = Vec::new();
        for replan in replans {
            let Replan { name, epoch, displaced, state, behind, programs } = replan;
            if !self.groups.replan(&name, epoch, displaced, state, behind) {
                continue;
            }
            if let Some(group) = self.groups.get(&name) {
                let id = group.allocation.group_id;
                group.nodes().for_each(|node| _ = of_nodes[node].0.insert(id));
                programs.into_iter().for_each(|node| _ = of_nodes[node].1.insert(id));
            }
            groups.push(name);
        }
        let mut old: BTreeMap<String, Node> =
            std::mem::take(&mut self.nodes).into_iter().map(|n| (n.spec.base.name.clone(), n)).collect();
        // Who watches a node sees its labels, too.
        fn labels<'a>(of: &'a Option<Topology>, name: &str) -> Option<&'a Labels> {
            let network = &of.as_ref()?.network;
            network.node(name).map(|at| &network.spec.nodes[at].labels)
        }
        let mut changed: BTreeSet<String> =
            old.keys().filter(|name| labels(&self.topology, name) != labels(&topology, name)).cloned().collect();
        let mut renewed = Vec::new();
        for (base, (ids, is_changed)) in bases.into_iter().zip(of_nodes) {
            let name = base.name.clone();
            let previous = old.remove(&name);
            let before = previous.as_ref().map(|node| &node.spec.groups);
            let since = |id| before.and_then(|before| before.get(id)).filter(|_| !is_changed.contains(id));
            let times: ProgramTimes = ids.iter().map(|id| (*id, since(id).unwrap_or(self.revision))).collect();
            let same = previous.as_ref().is_some_and(|n| *n.spec.base == base && n.spec.groups == times);
            self.nodes.push(match previous {
                Some(node) if same => node,
                previous => {
                    changed.insert(name);
                    renewed.push(self.nodes.len());
                    self.renewed(previous, base, times)
                }
            });
        }
        changed.extend(old.into_keys());
        self.topology = topology;
        for node in renewed {
            self.prune_stalls(node);
            self.nodes[node].prune_losses();
        }
        self.mark_retired();
        (changed.into_iter().collect(), groups)
    }

    /// Returns the names of all nodes.
    pub(super) fn apply_hmac(&mut self, keys: Option<SrhHmac>) -> Vec<String> {
        // Every node, at each step of a rotation: the keys are the domain's.
        for node in 0..self.nodes.len() {
            self.change_node(node, |spec| spec.base_mut().hmac.clone_from(&keys));
        }
        (self.hmac.keys, self.hmac.since, self.hmac.waits_for) = (keys, self.revision, 0);
        let mut names: Vec<String> = self.nodes.iter().map(|node| node.spec.base.name.clone()).collect();
        names.sort_unstable();
        names
    }

    /// Returns the name of the node.
    pub(super) fn apply_thresholds(&mut self, effect: ThresholdEffect) -> String {
        self.change_node(effect.node, |spec| set_thresholds(spec, effect.ports));
        self.nodes[effect.node].spec.base.name.clone()
    }

    /// Puts the thresholds that a node had before a restart into its spec, whose generation stays.
    pub(super) fn restore_thresholds(&mut self, effect: ThresholdEffect) {
        set_thresholds(Arc::make_mut(&mut self.nodes[effect.node].spec), effect.ports);
    }

    /// A node with a new spec of the present revision; its agent's last status is kept.
    fn renewed(&self, previous: Option<Node>, base: NodeBase, groups: ProgramTimes) -> Node {
        let spec = Arc::new(DesiredNode { term: self.term, generation: self.revision, base: Arc::new(base), groups });
        match previous {
            Some(previous) => Node { order: ProgramOrder::of(&spec.groups), spec, ..previous },
            None => Node::new(spec),
        }
    }
}

fn set_thresholds(spec: &mut DesiredNode, ports: Vec<(PortIndex, Option<PortThresholds>)>) {
    let base = spec.base_mut();
    for (index, thresholds) in ports {
        if let Some(port) = base.ports.get_mut(usize::from(index.get()) - 1) {
            port.thresholds = thresholds;
        }
    }
}
