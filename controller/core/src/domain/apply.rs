// SPDX-License-Identifier: Apache-2.0
//! Applying a prepared command: the only place where intents and nodes' specs change.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use canopy_model::node_spec::{GroupProgram, NodeBase, NodeSpec};

use super::Domain;
use super::links::ThresholdEffect;
use crate::command::{Applied, Prepared};
use crate::error::DomainError;
use crate::resource::{Group, GroupState, Node, Topology};
use crate::topology::NodeIx;

/// The changes that applying a prepared command makes.
#[derive(Debug)]
pub(crate) enum Effect {
    None,
    Group(Box<GroupEffect>),
    Topology(Box<TopologyEffect>),
    Thresholds(Vec<ThresholdEffect>),
}

/// The new state of a group.
#[derive(Debug)]
pub(crate) struct GroupEffect {
    pub(crate) name: String,
    /// `None`: the group is deleted.
    pub(crate) group: Option<Group>,
    /// In the order of [`Group::nodes`]; empty without a tree.
    pub(crate) programs: Vec<GroupProgram>,
}

/// The new topology, and the new state of the groups over it.
#[derive(Debug)]
pub(crate) struct TopologyEffect {
    pub(crate) topology: Option<Topology>,
    /// By node index.
    pub(crate) bases: Vec<NodeBase>,
    /// Every group that has members.
    pub(crate) replans: Vec<Replan>,
}

/// The new plan of a group over another topology.
#[derive(Debug)]
pub(crate) struct Replan {
    pub(crate) name: String,
    pub(crate) epoch: u32,
    pub(crate) state: GroupState,
    /// See [`Group::making`].
    pub(crate) making: Option<Vec<NodeIx>>,
    /// In the order of [`Group::nodes`].
    pub(crate) programs: Vec<GroupProgram>,
}

impl Domain {
    /// Applies a prepared command. Its writes must be durable before this call.
    ///
    /// # Errors
    /// `Stale` when another command was applied since it was prepared; nothing changes then.
    pub fn apply(&mut self, prepared: Prepared) -> Result<Applied, DomainError> {
        let Prepared { base_revision, outcome, generation, effect, .. } = prepared;
        if base_revision != self.revision {
            return Err(DomainError::Stale { prepared: base_revision, current: self.revision });
        }
        let (nodes, groups) = match effect {
            Effect::None => Default::default(),
            Effect::Group(effect) => {
                self.revision += 1;
                self.apply_group(*effect)
            }
            Effect::Topology(effect) => {
                self.revision += 1;
                self.apply_topology(*effect)
            }
            Effect::Thresholds(effects) => {
                self.revision += 1;
                (effects.into_iter().map(|effect| self.apply_thresholds(effect)).collect(), Vec::new())
            }
        };
        Ok(Applied { outcome, generation, nodes, groups })
    }

    fn apply_group(&mut self, effect: GroupEffect) -> (Vec<String>, Vec<String>) {
        let GroupEffect { name, group, programs } = effect;
        let old = self.groups.remove(&name);
        if let Some(old) = &old {
            self.labels.remove(&name, &old.metadata.labels);
        }
        match (&old, &group) {
            (None, Some(new)) => {
                self.pools.resume(&self.pools.cursors_behind(&new.allocation));
                // The numbers were free when the command was prepared, at this same revision.
                let claimed = self.pools.claim(&new.allocation);
                debug_assert_eq!(claimed, Ok(()));
                self.names.insert(new.allocation.group_id, name.clone());
            }
            (Some(old), None) => {
                self.pools.release(&old.allocation);
                self.names.remove(&old.allocation.group_id);
            }
            _ => {}
        }
        let mut changed = BTreeSet::new();
        if let Some(old) = old {
            let stays: BTreeSet<NodeIx> = nodes_of(group.as_ref()).collect();
            for node in nodes_of(Some(&old)).filter(|n| !stays.contains(n)) {
                self.change_node(node, |spec, since, _| {
                    spec.groups.remove(&old.allocation.group_id);
                    since.remove(&old.allocation.group_id);
                });
                changed.insert(node);
            }
        }
        for (node, program) in nodes_of(group.as_ref()).zip(programs) {
            let id = program.group_id;
            if self.nodes[node].spec.groups.get(&id) != Some(&program) {
                self.change_node(node, |spec, since, generation| {
                    spec.groups.insert(id, program);
                    since.insert(id, generation);
                });
                changed.insert(node);
            }
        }
        if let Some(group) = group {
            self.labels.insert(&name, &group.metadata.labels);
            self.groups.insert(name.clone(), group);
        }
        let mut nodes: Vec<String> = changed.into_iter().map(|n| self.nodes[n].spec.base.name.clone()).collect();
        nodes.sort_unstable();
        (nodes, vec![name])
    }

    /// Changes a node's spec in place. It is copied first only while a stream still holds it to compute a delta, so
    /// that many changes between two pushes cost one copy.
    pub(super) fn change_node(
        &mut self,
        node: NodeIx,
        change: impl FnOnce(&mut NodeSpec, &mut BTreeMap<canopy_model::ids::GroupId, u64>, u64),
    ) {
        let revision = self.revision;
        let node = &mut self.nodes[node];
        let spec = Arc::make_mut(&mut node.spec);
        spec.generation = revision;
        change(spec, &mut node.since, revision);
        node.prune_stalls();
    }

    pub(super) fn apply_topology(&mut self, effect: TopologyEffect) -> (Vec<String>, Vec<String>) {
        let TopologyEffect { topology, bases, replans } = effect;
        let mut programs: Vec<BTreeMap<_, GroupProgram>> = vec![BTreeMap::new(); bases.len()];
        let mut groups = Vec::new();
        for replan in replans {
            let Some(group) = self.groups.get_mut(&replan.name) else { continue };
            group.epoch = replan.epoch;
            if let GroupState::Live(plan) = &replan.state {
                group.moved = group.moved.max(plan.moved);
            }
            group.state = replan.state;
            group.making = replan.making;
            for (node, program) in nodes_of(Some(group)).zip(replan.programs) {
                programs[node].insert(program.group_id, program);
            }
            groups.push(replan.name);
        }
        let mut old: BTreeMap<String, Node> =
            std::mem::take(&mut self.nodes).into_iter().map(|n| (n.spec.base.name.clone(), n)).collect();
        let mut changed = BTreeSet::new();
        for (base, programs) in bases.into_iter().zip(programs) {
            let name = base.name.clone();
            let previous = old.remove(&name);
            let same = previous.as_ref().is_some_and(|n| n.spec.base == base && n.spec.groups == programs);
            self.nodes.push(match previous {
                Some(node) if same => node,
                previous => {
                    changed.insert(name);
                    self.renewed(previous, base, programs)
                }
            });
        }
        changed.extend(old.into_keys());
        self.topology = topology;
        (changed.into_iter().collect(), groups)
    }

    /// A node with a new spec of the present revision; its agent's last status and the generations of unchanged
    /// programs are kept.
    fn renewed(
        &self,
        previous: Option<Node>,
        base: NodeBase,
        groups: BTreeMap<canopy_model::ids::GroupId, GroupProgram>,
    ) -> Node {
        let unchanged = |id, program: &GroupProgram| {
            let node = previous.as_ref()?;
            (node.spec.groups.get(id)? == program).then(|| node.since.get(id).copied()).flatten()
        };
        let since = groups.iter().map(|(id, p)| (*id, unchanged(id, p).unwrap_or(self.revision))).collect();
        let spec = Arc::new(NodeSpec { term: self.term, generation: self.revision, base, groups });
        let (status, connected, stalls) = previous.map_or_else(Default::default, |n| (n.status, n.connected, n.stalls));
        let mut node = Node { spec, since, status, connected, stalls };
        node.prune_stalls();
        node
    }
}

fn nodes_of(group: Option<&Group>) -> impl Iterator<Item = NodeIx> {
    group.into_iter().flat_map(Group::nodes)
}
