// SPDX-License-Identifier: Apache-2.0
//! Groups over another network.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use canopy_model::ids::GroupId;
use canopy_model::node_spec::GroupProgram;
use canopy_model::topology::Endpoint;

use super::bound::{MAX_BEHIND, MAX_FORCED, exceeded};
use super::change::Replan;
use super::group_change::{intent, is_back, settle};
use super::staging::stage;
use super::state::State;
use super::unrecorded::Unrecorded;
use crate::epochs::Epochs;
use crate::error::DomainError;
use crate::plan::{GroupPlan, Intent, Planned, Way, plan_group};
use crate::record::TreeRecord;
use crate::resource::{Behind, Group, GroupState, Step};
use crate::topology::Network;
use crate::tree::TreeNode;

/// The tree that was in force when a controller ended.
pub(super) enum InForce {
    Tree(TreeRecord),
    /// A tree over the links of the topology's record, with this digest, of this version or of an earlier one.
    Digest(u64),
}

/// Plans the groups of a state over another network.
pub(super) struct Replanner<'a> {
    pub(super) state: &'a State,
    pub(super) network: &'a Network,
    /// For a controller that starts: the trees in force, by group. The groups have no plan then.
    pub(super) recorded: BTreeMap<String, InForce>,
}

impl<'a> Replanner<'a> {
    pub(super) fn new(state: &'a State, network: &'a Network) -> Self {
        Self { state, network, recorded: BTreeMap::new() }
    }

    /// Plans every group that has members. A group whose programs do not change keeps its epoch.
    /// `on_error` turns a group's planning error into the reason of its infeasibility, or refuses.
    pub(super) fn all(
        &self,
        on_error: impl Fn(&str, &Group, DomainError) -> Result<String, DomainError>,
    ) -> Result<Vec<Replan>, DomainError> {
        self.state.groups.with_members().map(|(name, group)| self.one(name, group, &on_error)).collect()
    }

    /// The same of these groups alone, in name order; a planning error is the reason of a group's infeasibility.
    pub(super) fn some(&self, ids: &BTreeSet<GroupId>) -> Result<Vec<Replan>, DomainError> {
        let groups = ids.iter().filter_map(|id| self.state.groups.by_id(*id)).filter(|group| !group.members.is_empty());
        let by_name: BTreeMap<&String, &Group> = groups.map(|group| (&group.metadata.name, group)).collect();
        by_name.into_iter().map(|(name, group)| self.one(name, group, &|_, _, e| Ok(e.to_string()))).collect()
    }

    fn one(
        &self,
        name: &str,
        group: &Group,
        on_error: &impl Fn(&str, &Group, DomainError) -> Result<String, DomainError>,
    ) -> Result<Replan, DomainError> {
        let (state, network) = (self.state, self.network);
        let plan = |intent| match plan_group(state.common(), Some(network), intent) {
            Ok(planned) => Ok(Ok(planned)),
            Err(e) => Ok::<_, DomainError>(Err(on_error(name, group, e)?)),
        };
        let recorded = self.recorded_epochs(name);
        let known = Self::known(group, recorded.as_ref());
        let mut planned = plan(known)?;
        let moved = self.moves(name, group, planned.as_ref().ok());
        let next = planned.as_ref().ok().filter(|_| moved);
        if let Some(made) = next.and_then(|next| self.in_two_steps(name, known, group, next)) {
            return Ok(made);
        }
        let epoch = group.epoch + u32::from(moved);
        let mut displaced = group.displaced;
        if moved {
            if !self.keeps_edges(group) {
                displaced = epoch;
            }
            // Every child sends its state again: the receivers behind it may have changed.
            planned = plan(Intent { epochs: None, epoch, moved: epoch, displaced, ..known })?;
        }
        let in_use = |detail| DomainError::InUse { kind: "group", name: name.to_owned(), detail };
        if let (Some(_), Ok(Planned::NoWay(reason))) = (group.plan(), &planned) {
            planned = Err(on_error(name, group, in_use(reason.clone()))?);
        }
        if let (true, Ok(Planned::Live(tree, _))) = (moved, &planned) {
            let exceeds = |most| {
                let nodes = tree.tree.nodes.iter().map(|t| network.name(t.node));
                exceeded(state, group, epoch, nodes, most)
            };
            if let Some(detail) = exceeds(MAX_BEHIND) {
                on_error(name, group, in_use(detail))?;
                planned = exceeds(MAX_FORCED).map_or(planned, Err);
            }
        }
        let (state, programs) =
            planned.map(settle).unwrap_or_else(|reason| (GroupState::Infeasible(reason), Vec::new()));
        if moved && matches!(state, GroupState::Infeasible(_)) {
            displaced = epoch;
        }
        Ok(Replan { name: name.to_owned(), epoch, displaced, state, behind: None, programs })
    }

    /// Whether each member is where it was: at the same node, with the same address.
    fn keeps_edges(&self, group: &Group) -> bool {
        let Some(old) = self.state.topology.as_ref().map(|topology| &*topology.network) else { return true };
        if Arc::ptr_eq(&old.spec, &self.network.spec) {
            return true;
        }
        let place = |network: &'a Network, host| {
            network.host(host).map(|at| (network.name(at.node), network.id(at.node), at.address))
        };
        group.members.keys().all(|host| place(old, host) == place(self.network, host))
    }

    /// The epochs of a tree that was in force when a controller ended.
    fn recorded_epochs(&self, name: &str) -> Option<Epochs> {
        match self.recorded.get(name)? {
            InForce::Tree(tree) => Epochs::read(&tree.epochs, &tree.uplinks, self.network),
            InForce::Digest(_) => None,
        }
    }

    /// `group`, whose members stay, as input of the planner.
    fn known<'b>(group: &'b Group, recorded: Option<&'b Epochs>) -> Intent<'b> {
        let intent = intent(group);
        Intent { before: None, epochs: recorded.or(intent.epochs), ..intent }
    }

    /// Whether the group's tree in force is not the planned one.
    fn moves(&self, name: &str, group: &Group, planned: Option<&Planned>) -> bool {
        let recorded = self.recorded.get(name);
        let Some(Planned::Live(plan, programs)) = planned else {
            return group.plan().is_some() || recorded.is_some();
        };
        match recorded {
            Some(InForce::Tree(tree)) => plan.tree.uplinks(self.network) != tree.uplinks,
            Some(InForce::Digest(digest)) => plan.tree.digest(self.network) != *digest,
            None if group.plan().is_none() => planned.is_some_and(|planned| is_back(group, planned)),
            None => group.behind.is_some() || Some(named(self.network, plan, programs)) != self.installed(group),
        }
    }

    /// The first step of the group's move to `next`; `None` if it must move at once.
    fn in_two_steps(&self, name: &str, known: Intent<'_>, group: &Group, next: &Planned) -> Option<Replan> {
        let (plan, present) = self.in_force(name, known, group)?;
        let (step, programs) = match next {
            Planned::NoWay(reason) => (Some(Step::NoWay(reason.clone())), present),
            Planned::Live(..) => stage(self.network, group, self.state.revision + 1, (&plan, present), next)?,
            Planned::Waiting(_) | Planned::Failed(_) => return None,
        };
        let behind = step.map(|step| Behind { step });
        Some(Replan {
            name: name.to_owned(),
            epoch: group.epoch,
            displaced: group.displaced,
            state: GroupState::Live(Arc::new(plan)),
            behind,
            programs,
        })
    }

    /// The tree in force, as the network has it now: nodes and ports may have been renumbered, links have another MTU. `None` if it is
    /// not the same any longer.
    fn in_force(&self, name: &str, known: Intent<'_>, group: &Group) -> Option<(GroupPlan, Vec<GroupProgram>)> {
        match self.recorded.get(name) {
            Some(InForce::Tree(tree)) => return self.kept(self.network, known, &tree.uplinks),
            Some(InForce::Digest(digest)) => {
                let earlier = self.over(self.network, known, Way::EarlierPaths)?;
                return Some(earlier).filter(|(plan, _)| plan.tree.digest(self.network) == *digest);
            }
            None => {}
        }
        let old = &*self.state.topology.as_ref()?.network;
        let uplinks = group.plan()?.tree.uplinks(old);
        let (plan, programs) = self.kept(self.network, known, &uplinks)?;
        let is_same = match &group.behind {
            None => self.installed(group)? == named(self.network, &plan, &programs),
            Some(_) => {
                let (old_plan, old_programs) = self.kept(old, known, &uplinks)?;
                named(old, &old_plan, &old_programs) == named(self.network, &plan, &programs)
            }
        };
        is_same.then_some((plan, programs))
    }

    /// The group's plan over these ports, if there is a tree.
    fn kept(
        &self,
        network: &Network,
        known: Intent<'_>,
        uplinks: &[Endpoint],
    ) -> Option<(GroupPlan, Vec<GroupProgram>)> {
        self.over(network, known, Way::Ports(uplinks))
    }

    /// The group's plan over such a way, if there is a tree.
    fn over(&self, network: &Network, known: Intent<'_>, way: Way<'_>) -> Option<(GroupPlan, Vec<GroupProgram>)> {
        match plan_group(self.state.common(), Some(network), Intent { way, ..known }) {
            Ok(Planned::Live(plan, programs)) => Some((plan, programs)),
            _ => None,
        }
    }

    /// The programs of the group's tree in the nodes' present specs, as [`named`] has them.
    fn installed(&self, group: &Group) -> Option<Vec<(&str, &GroupProgram)>> {
        let at = |t: &TreeNode| {
            let spec = &self.state.nodes[t.node].spec;
            Some((spec.base.name.as_str(), spec.groups.get(&group.allocation.group_id)?))
        };
        group.plan()?.tree.nodes.iter().map(at).collect()
    }

    /// What groups' own records do not have once `replans`, of all groups, are applied.
    pub(super) fn unrecorded(&self, replans: &[Replan]) -> Unrecorded {
        let mut out = Unrecorded::default();
        // Those without members have no tree, and the epoch of their record or one of a topology change before.
        for (_, group) in self.state.groups.iter().filter(|(_, group)| group.members.is_empty()) {
            if group.epoch > group.recorded_epoch {
                out.moved.insert(group.allocation.group_id.get(), group.epoch);
            }
        }
        self.add_unrecorded(replans, &mut out);
        out
    }

    /// The same if `replans` are those of the groups that change.
    pub(super) fn unrecorded_with(&self, replans: &[Replan]) -> Unrecorded {
        let mut out = self.state.unrecorded.clone();
        for group in replans.iter().filter_map(|replan| self.state.groups.get(&replan.name)) {
            out.forget(group.allocation.group_id);
        }
        self.add_unrecorded(replans, &mut out);
        out
    }

    fn add_unrecorded(&self, replans: &[Replan], out: &mut Unrecorded) {
        for replan in replans {
            let Some(group) = self.state.groups.get(&replan.name) else { continue };
            let id = group.allocation.group_id.get();
            // A version without `behind` moves a tree that is behind at once when it starts.
            let epoch = replan.epoch + u32::from(replan.behind.is_some());
            // The record of a group that was behind has the epoch that its next tree may have, but the tree before.
            let has_another_tree = group.recorded_tree.is_some_and(|tree| tree != replan.epoch);
            let is_newer = epoch > group.recorded_epoch || has_another_tree;
            if is_newer {
                out.moved.insert(id, epoch);
            }
            // Of an epoch after that of the group's own record, which has it otherwise.
            if replan.displaced >= group.recorded_epoch {
                out.displaced.insert(id, replan.displaced);
            }
            let GroupState::Live(plan) = &replan.state else { continue };
            if replan.behind.is_some() {
                let tree = || TreeRecord {
                    epoch: replan.epoch,
                    moved: group.moved.max(plan.moved),
                    uplinks: plan.tree.uplinks(self.network),
                    epochs: plan.epochs.recorded(self.network, &plan.tree),
                };
                let is_recorded = group.recorded_tree == Some(replan.epoch);
                out.behind.insert(id, (!is_recorded).then(tree));
            } else if is_newer {
                out.digests.insert(id, plan.tree.digest(self.network));
            }
        }
    }
}

/// The programs of a plan over `network`, each with its node's name, in the tree's order.
fn named<'a>(network: &'a Network, plan: &GroupPlan, programs: &'a [GroupProgram]) -> Vec<(&'a str, &'a GroupProgram)> {
    plan.tree.nodes.iter().map(|t| network.name(t.node)).zip(programs).collect()
}
