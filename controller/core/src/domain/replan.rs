// SPDX-License-Identifier: Apache-2.0
//! Groups over another network.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use canopy_model::ids::GroupId;

use super::bound::{MAX_BEHIND, MAX_FORCED, exceeded};
use super::change::Replan;
use super::group_change::{intent, is_back, settle};
use super::staging::stage;
use super::state::State;
use super::unrecorded::Unrecorded;
use crate::epochs::Epochs;
use crate::error::DomainError;
use crate::plan::{GroupPlan, Intent, Planned, Way, plan_group};
use crate::program::TreePrograms;
use crate::programs::{Ground, Trees, changed};
use crate::record::TreeRecord;
use crate::resource::{Behind, Group, GroupState, Step};
use crate::topology::Network;

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

    /// Plans these groups, of the same topology, in name order; a planning error is the reason of a group's
    /// infeasibility.
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
        if let Some((plan, behind)) = next.and_then(|next| self.in_two_steps(name, known, group, next)) {
            let state = GroupState::Live(plan);
            return Ok(self.replan(group, (group.epoch, group.displaced), state, behind));
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
        if let (true, Ok(Planned::Live(plan))) = (moved, &planned) {
            let exceeds = |most| {
                let nodes = plan.tree.nodes().map(|t| network.name(t.node));
                exceeded(state, group, epoch, nodes, most)
            };
            if let Some(detail) = exceeds(MAX_BEHIND) {
                on_error(name, group, in_use(detail))?;
                planned = exceeds(MAX_FORCED).map_or(planned, Err);
            }
        }
        let state = planned.map(settle).unwrap_or_else(GroupState::Infeasible);
        if moved && matches!(state, GroupState::Infeasible(_)) {
            displaced = epoch;
        }
        Ok(self.replan(group, (epoch, displaced), state, None))
    }

    fn replan(
        &self,
        group: &Group,
        (epoch, displaced): (u32, u32),
        state: GroupState,
        behind: Option<Behind>,
    ) -> Replan {
        let ground = Ground { network: self.network, addresses: &self.state.addresses };
        let (old, new) = (Trees::of_group(group), Trees::of(&state, behind.as_ref()));
        let programs = changed(old, self.state.ground(), new, ground);
        Replan { name: group.metadata.name.clone(), epoch, displaced, state, behind, programs }
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
        group.members.iter().all(|m| place(old, &m.host) == place(self.network, &m.host))
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
        let Some(Planned::Live(plan)) = planned else {
            return group.plan().is_some() || recorded.is_some();
        };
        match recorded {
            Some(InForce::Tree(tree)) => plan.tree.uplinks(self.network) != tree.uplinks,
            Some(InForce::Digest(digest)) => plan.tree.digest(self.network) != *digest,
            None if group.plan().is_none() => planned.is_some_and(|planned| is_back(group, planned)),
            None => group.behind.is_some() || !self.is_installed(group, plan),
        }
    }

    /// The first step of the group's move to `next`; `None` if it must move at once.
    fn in_two_steps(
        &self,
        name: &str,
        known: Intent<'_>,
        group: &Group,
        next: &Planned,
    ) -> Option<(Arc<GroupPlan>, Option<Behind>)> {
        let plan = self.in_force(name, known, group)?;
        let step = match next {
            Planned::NoWay(reason) => Some(Step::NoWay(reason.clone())),
            Planned::Live(next) => stage(group, self.state.revision + 1, self.programs(&plan), next)?,
            Planned::Waiting(_) | Planned::Failed(_) => return None,
        };
        Some((plan, step.map(|step| Behind { step })))
    }

    /// The tree in force, as the network has it now: nodes and ports may have been renumbered, links have another MTU. `None` if it is
    /// not the same any longer.
    fn in_force(&self, name: &str, known: Intent<'_>, group: &Group) -> Option<Arc<GroupPlan>> {
        match self.recorded.get(name) {
            Some(InForce::Tree(tree)) => return self.over(self.network, known, Way::Ports(&tree.uplinks)),
            Some(InForce::Digest(digest)) => {
                let earlier = self.over(self.network, known, Way::EarlierPaths)?;
                return Some(earlier).filter(|plan| plan.tree.digest(self.network) == *digest);
            }
            None => {}
        }
        let old = &*self.state.topology.as_ref()?.network;
        let uplinks = group.plan()?.tree.uplinks(old);
        let plan = self.over(self.network, known, Way::Ports(&uplinks))?;
        let is_same = match &group.behind {
            None => self.is_installed(group, &plan),
            Some(_) => {
                let before = self.over(old, known, Way::Ports(&uplinks))?;
                self.programs(&plan).are_same(&TreePrograms { network: old, plan: &before, ..self.programs(&plan) })
            }
        };
        is_same.then_some(plan)
    }

    /// The group's plan over such a way, if there is a tree.
    fn over(&self, network: &Network, known: Intent<'_>, way: Way<'_>) -> Option<Arc<GroupPlan>> {
        match plan_group(self.state.common(), Some(network), Intent { way, ..known }) {
            Ok(Planned::Live(plan)) => Some(plan),
            _ => None,
        }
    }

    /// Whether nodes have the programs of this plan of the group, which is not behind, by their names.
    fn is_installed(&self, group: &Group, plan: &GroupPlan) -> bool {
        let before = self.state.network().zip(group.plan());
        before.is_some_and(|(network, before)| {
            self.programs(plan).are_same(&TreePrograms { network, plan: before, ..self.programs(plan) })
        })
    }

    fn programs<'b>(&'b self, plan: &'b GroupPlan) -> TreePrograms<'b> {
        TreePrograms { addresses: &self.state.addresses, network: self.network, plan }
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
