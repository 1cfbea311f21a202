// SPDX-License-Identifier: Apache-2.0
//! Reports of agents. Kept in memory only: after a restart agents report again.

use std::collections::BTreeSet;

use canopy_model::ids::{Generation, GroupId};
use canopy_model::status::{ItemError, NodeStatus};
use canopy_units::Monotonic;

use super::restarts;
use super::state::State;
use crate::error::DomainError;
use crate::limits::MAX_ITEM_ERRORS;
use crate::resource::Node;
use crate::status::{Assessment, assess};
use crate::topology::NodeIx;

/// Processes reports into a state.
pub(super) struct Reports<'a>(pub(super) &'a mut State);

impl Reports<'_> {
    /// See [`super::Domain::report`].
    pub(super) fn status(&mut self, status: NodeStatus) -> Result<Vec<String>, DomainError> {
        let node = self
            .0
            .index(&status.node)
            .ok_or_else(|| DomainError::NotFound { kind: "node", name: status.node.clone() })?;
        if status.errors.len() > MAX_ITEM_ERRORS {
            return Err(DomainError::field(
                "errors",
                format!(
                    "{} errors, at most {MAX_ITEM_ERRORS} are accepted: report the first ones",
                    status.errors.len()
                ),
            ));
        }
        let Touched { confirmed, others } = touched_groups(&self.0.nodes[node], &status);
        let mut changed = self.observe(node, &others, |n| n.status = Some(status));
        // Their conditions name who has not confirmed, or how many have not.
        changed.extend(confirmed.iter().filter_map(|id| self.0.groups.name(*id).map(str::to_owned)));
        changed.sort_unstable();
        changed.dedup();
        Ok(changed)
    }

    /// See [`super::Domain::agent_connected`].
    pub(super) fn connected(&mut self, node: &str) -> Vec<String> {
        self.presence(node, true, |n| {
            restarts::end(n);
            // It reports again which branches are stalled.
            n.stalls.clear();
        })
    }

    /// See [`super::Domain::agent_gone`].
    pub(super) fn gone(&mut self, node: &str, now: Monotonic) -> Vec<String> {
        self.presence(node, false, |n| restarts::begin(n, now))
    }

    fn presence(&mut self, node: &str, connected: bool, change: impl FnOnce(&mut Node)) -> Vec<String> {
        let Some(at) = self.0.index(node).filter(|at| self.0.nodes[*at].connected != connected) else {
            return Vec::new();
        };
        // The conditions of each group with the node in its tree name the agents that are away. Those of one whose next tree alone has it may not
        // change.
        let added = |id: &GroupId| {
            let making = self.0.groups.by_id(*id).and_then(|group| group.making());
            making.is_some_and(|making| making.added.contains(&at))
        };
        let (added, in_force): (BTreeSet<GroupId>, BTreeSet<GroupId>) =
            self.0.nodes[at].spec.groups.ids().partition(added);
        let mut changed = self.observe(at, &added, |n| {
            n.connected = connected;
            change(n);
        });
        changed.extend(in_force.into_iter().filter_map(|id| self.0.groups.name(id).map(str::to_owned)));
        changed.sort_unstable();
        changed
    }

    /// Applies `change` to the node and returns the names of the `touched` groups whose assessment changed.
    pub(super) fn observe(
        &mut self,
        node: NodeIx,
        touched: &BTreeSet<GroupId>,
        change: impl FnOnce(&mut Node),
    ) -> Vec<String> {
        let assess_all = |state: &State| -> Vec<(String, Assessment)> {
            let groups = touched.iter().filter_map(|id| state.groups.by_id(*id));
            groups.map(|g| (g.metadata.name.clone(), assess(g, state.on_ground()))).collect()
        };
        let before = assess_all(self.0);
        change(&mut self.0.nodes[node]);
        let after = assess_all(self.0);
        let mut changed: Vec<String> =
            before.into_iter().zip(after).filter(|((_, b), (_, a))| a != b).map(|((name, _), _)| name).collect();
        changed.sort_unstable();
        changed
    }
}

/// The groups at a node whose assessment a report can change.
#[derive(Default)]
struct Touched {
    /// It confirms their programs, or no longer does: their assessment is another one.
    confirmed: BTreeSet<GroupId>,
    /// Its errors about them are others.
    others: BTreeSet<GroupId>,
}

/// Nothing, of a repeated report.
fn touched_groups(node: &Node, status: &NodeStatus) -> Touched {
    let old = node.status.as_ref();
    let empty: &[ItemError] = &[];
    let old_errors = old.map_or(empty, |s| &s.errors);
    let in_one =
        |a: &[ItemError], b: &[ItemError]| a.iter().filter(|e| !b.contains(e)).map(|e| e.group).collect::<Vec<_>>();
    let mut differing = in_one(old_errors, &status.errors);
    differing.extend(in_one(&status.errors, old_errors));
    if differing.contains(&None) {
        return Touched { others: node.spec.groups.ids().collect(), ..Touched::default() };
    }
    // A generation later than the spec's confirms nothing.
    let counts = |observed: Option<Generation>| observed.filter(|observed| *observed <= node.spec.generation);
    let now = (status.observed_term == node.spec.term).then_some(status.observed_generation);
    let confirmed = node.order.between(&node.spec.groups, counts(node.observed()), counts(now)).collect();
    Touched { confirmed, others: differing.into_iter().flatten().collect() }
}
