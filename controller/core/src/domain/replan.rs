// SPDX-License-Identifier: Apache-2.0
//! All groups over another network.

use std::collections::BTreeMap;

use canopy_model::node_spec::GroupProgram;

use super::change::Replan;
use super::group_change::{intent, settle};
use super::staging::stage;
use super::state::State;
use crate::error::DomainError;
use crate::plan::{Intent, Planned, plan_group};
use crate::resource::Group;
use crate::topology::Network;
use crate::tree::TreeNode;

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
        let mut replans = Vec::new();
        for (name, group) in state.groups.with_members() {
            let plan = |intent| match plan_group(&state.addresses, Some(network), intent) {
                Ok(planned) => Ok(Ok(planned)),
                Err(e) => Ok::<_, DomainError>(Err(on_error(name, group, e)?)),
            };
            let mut planned = plan(Intent { before: None, ..intent(group) })?;
            let moved = match &planned {
                Ok(Planned::Live(_, programs)) => {
                    group.plan().is_some() && !self.are_installed(group, &planned, programs)
                }
                _ => group.plan().is_some(),
            };
            if let Some(made) = planned.as_ref().ok().filter(|_| moved).and_then(|p| stage(state, network, group, p)) {
                replans.push(Replan { name: name.clone(), epoch: group.epoch, ..made });
                continue;
            }
            let epoch = group.epoch + u32::from(moved || group.making.is_some());
            if epoch != group.epoch {
                // Every child sends its state again: the receivers behind it may have changed.
                planned = plan(Intent { before: None, epoch, moved: epoch, ..intent(group) })?;
            }
            let (state, programs) = settle(planned);
            replans.push(Replan { name: name.clone(), epoch, state, making: None, programs });
        }
        Ok(replans)
    }

    /// True when exactly these programs are in the nodes' present specs.
    fn are_installed(&self, group: &Group, planned: &Result<Planned, String>, programs: &[GroupProgram]) -> bool {
        let (Ok(Planned::Live(plan, _)), Some(present)) = (planned, group.plan()) else { return false };
        let installed = |(at, p): (&TreeNode, &GroupProgram)| {
            self.state.node(self.network.name(at.node)).and_then(|n| n.spec.groups.get(&p.group_id)) == Some(p)
        };
        present.tree.nodes.len() == plan.tree.nodes.len() && plan.tree.nodes.iter().zip(programs).all(installed)
    }

    /// Epochs, by group id, that are newer than those in the groups' own records once `replans` are applied.
    pub(super) fn moved(&self, replans: &[Replan]) -> BTreeMap<u32, u32> {
        let mut epochs: BTreeMap<&str, u32> =
            self.state.groups.iter().map(|(name, g)| (name.as_str(), g.epoch)).collect();
        // A node that restarts while a move is in progress uses the new tree at once.
        epochs.extend(replans.iter().map(|r| (r.name.as_str(), r.epoch + u32::from(r.making.is_some()))));
        let ahead = self.state.groups.iter().filter_map(|(name, g)| {
            let epoch = epochs[name.as_str()];
            (epoch > g.recorded_epoch).then_some((g.allocation.group_id.get(), epoch))
        });
        ahead.collect()
    }
}
