// SPDX-License-Identifier: Apache-2.0
//! All groups over another network.

use std::collections::BTreeMap;
use std::sync::Arc;

use canopy_model::node_spec::GroupProgram;

use super::bound::{MAX_BEHIND, MAX_FORCED, exceeded};
use super::change::Replan;
use super::group_change::{intent, is_back, settle};
use super::staging::stage;
use super::state::State;
use crate::error::DomainError;
use crate::plan::{GroupPlan, Intent, Planned, plan_group};
use crate::resource::{Behind, Group, GroupState, Step};
use crate::topology::Network;
use crate::tree::TreeNode;

/// Most networks that trees in force were planned over; groups that are behind beyond that move at once.
const MAX_EARLIER_PATHS: usize = 8;

/// Plans the groups of a state over another network.
pub(super) struct Replanner<'a> {
    pub(super) state: &'a State,
    pub(super) network: &'a Network,
}

impl Replanner<'_> {
    /// Plans every group that has members. A group whose programs do not change keeps its epoch.
    /// `on_error` turns a group's planning error into the reason of its infeasibility, or refuses.
    pub(super) fn all(
        &self,
        on_error: impl Fn(&str, &Group, DomainError) -> Result<String, DomainError>,
    ) -> Result<Vec<Replan>, DomainError> {
        let (state, network) = (self.state, self.network);
        let (mut replans, mut earlier) = (Vec::new(), EarlierPaths::default());
        for (name, group) in state.groups.with_members() {
            let plan = |intent| match plan_group(&state.addresses, Some(network), intent) {
                Ok(planned) => Ok(Ok(planned)),
                Err(e) => Ok::<_, DomainError>(Err(on_error(name, group, e)?)),
            };
            let mut planned = plan(Intent { before: None, ..intent(group) })?;
            let moved = match &planned {
                Ok(next) if group.plan().is_none() => is_back(group, next),
                Err(_) if group.plan().is_none() => false,
                Ok(Planned::Live(plan, programs)) => {
                    group.behind.is_some() || Some(named(network, plan, programs)) != self.installed(group)
                }
                _ => true,
            };
            let next = planned.as_ref().ok().filter(|_| moved);
            if let Some(made) = next.and_then(|next| self.in_two_steps(name, group, next, &mut earlier)) {
                replans.push(made);
                continue;
            }
            let epoch = group.epoch + u32::from(moved);
            if moved {
                // Every child sends its state again: the receivers behind it may have changed.
                planned = plan(Intent { before: None, epoch, moved: epoch, ..intent(group) })?;
            }
            if let (true, Ok(Planned::Live(tree, _))) = (moved, &planned) {
                let exceeds = |most| {
                    let nodes = tree.tree.nodes.iter().map(|t| network.name(t.node));
                    exceeded(state, group, epoch, nodes, most)
                };
                if let Some(detail) = exceeds(MAX_BEHIND) {
                    on_error(name, group, DomainError::InUse { kind: "group", name: name.clone(), detail })?;
                    planned = exceeds(MAX_FORCED).map_or(planned, Err);
                }
            }
            let (state, programs) =
                planned.map(settle).unwrap_or_else(|reason| (GroupState::Infeasible(reason), Vec::new()));
            replans.push(Replan { name: name.clone(), epoch, state, behind: None, programs });
        }
        Ok(replans)
    }

    /// The first step of the group's move to `next`; `None` if it must move at once.
    fn in_two_steps(&self, name: &str, group: &Group, next: &Planned, earlier: &mut EarlierPaths) -> Option<Replan> {
        let old = match &group.behind {
            Some(behind) => &behind.network,
            None => &self.state.topology.as_ref()?.network,
        };
        let paths = earlier.over(self.network, old)?;
        // The tree in force, as the network has it now: nodes and ports may have been renumbered, links have another MTU.
        let (plan, programs) = self.over(&paths, group)?;
        let is_in_force = match &group.behind {
            None => self.installed(group)? == named(&paths, &plan, &programs),
            Some(_) => {
                let (old_plan, old_programs) = self.over(old, group)?;
                named(old, &old_plan, &old_programs) == named(&paths, &plan, &programs)
            }
        };
        if !is_in_force {
            return None;
        }
        let (making, programs) = stage(self.network, group, self.state.revision + 1, (&plan, programs), next)?;
        let Planned::Live(_, wanted) = next else { return None };
        let is_there = making.added.is_empty() && making.leaving.is_empty() && programs == *wanted;
        let behind = (!is_there).then_some(Behind { network: paths, step: Step::Making(making) });
        Some(Replan { name: name.to_owned(), epoch: group.epoch, state: GroupState::Live(plan), behind, programs })
    }

    /// The group's plan over `network`, if there is a tree.
    fn over(&self, network: &Network, group: &Group) -> Option<(GroupPlan, Vec<GroupProgram>)> {
        match plan_group(&self.state.addresses, Some(network), Intent { before: None, ..intent(group) }) {
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

    /// Epochs, by group id, that are newer than those in the groups' own records once `replans` are applied.
    pub(super) fn moved(&self, replans: &[Replan]) -> BTreeMap<u32, u32> {
        let mut epochs: BTreeMap<&str, u32> =
            self.state.groups.iter().map(|(name, g)| (name.as_str(), g.epoch)).collect();
        // After a restart a tree that is behind moves at once.
        epochs.extend(replans.iter().map(|r| (r.name.as_str(), r.epoch + u32::from(r.behind.is_some()))));
        let ahead = self.state.groups.iter().filter_map(|(name, g)| {
            let epoch = epochs[name.as_str()];
            (epoch > g.recorded_epoch).then_some((g.allocation.group_id.get(), epoch))
        });
        ahead.collect()
    }
}

/// The programs of a plan over `network`, each with its node's name, in the tree's order.
fn named<'a>(network: &'a Network, plan: &GroupPlan, programs: &'a [GroupProgram]) -> Vec<(&'a str, &'a GroupProgram)> {
    plan.tree.nodes.iter().map(|t| network.name(t.node)).zip(programs).collect()
}

/// The present network with the paths of earlier ones, each built once.
#[derive(Default)]
struct EarlierPaths(Vec<(Arc<Network>, Arc<Network>)>);

impl EarlierPaths {
    /// `None` when there are too many already.
    fn over(&mut self, network: &Network, old: &Arc<Network>) -> Option<Arc<Network>> {
        if let Some((_, paths)) = self.0.iter().find(|(of, _)| Arc::ptr_eq(of, old)) {
            return Some(Arc::clone(paths));
        }
        if self.0.len() == MAX_EARLIER_PATHS {
            return None;
        }
        let paths = Arc::new(network.with_paths_of(old));
        self.0.push((Arc::clone(old), Arc::clone(&paths)));
        Some(paths)
    }
}
