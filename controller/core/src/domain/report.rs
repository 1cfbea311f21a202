// SPDX-License-Identifier: Apache-2.0
//! Reports of agents. Kept in memory only: after a restart agents report again.

use std::collections::BTreeSet;

use canopy_model::ids::GroupId;
use canopy_model::status::{ItemError, NodeStatus};

use super::Domain;
use crate::error::DomainError;
use crate::limits::MAX_ITEM_ERRORS;
use crate::resource::Node;
use crate::status::{Assessment, assess, is_confirmed};
use crate::topology::NodeIx;

impl Domain {
    /// Takes a node's report. Returns the names of the groups whose phase, reason or conditions changed.
    ///
    /// # Errors
    /// `NotFound` for a node that the topology does not have; `Invalid` for more errors than a node may report.
    pub fn report(&mut self, status: NodeStatus) -> Result<Vec<String>, DomainError> {
        let node = self
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
        let touched = touched_groups(&self.nodes[node], &status);
        Ok(self.observe(node, &touched, |n| n.status = Some(status)))
    }

    /// Notes that a node's agent is connected, or no longer is. Returns the names of the groups whose phase, reason or
    /// conditions changed; a node that the topology does not have is ignored.
    pub fn agent_connected(&mut self, node: &str, connected: bool) -> Vec<String> {
        match self.index(node) {
            Some(ix) if self.nodes[ix].connected != connected => {
                if !connected {
                    self.forget_queues(node);
                }
                let all: BTreeSet<GroupId> = self.nodes[ix].spec.groups.keys().copied().collect();
                self.observe(ix, &all, |n| {
                    n.connected = connected;
                    if connected {
                        // It reports again which branches are stalled.
                        n.stalls.clear();
                    }
                })
            }
            _ => Vec::new(),
        }
    }

    pub(super) fn index(&self, node: &str) -> Option<NodeIx> {
        self.topology.as_ref()?.network.node(node)
    }

    /// Applies `change` to the node and returns the names of the `touched` groups whose assessment changed.
    pub(super) fn observe(
        &mut self,
        node: NodeIx,
        touched: &BTreeSet<GroupId>,
        change: impl FnOnce(&mut Node),
    ) -> Vec<String> {
        let assess_all = |domain: &Self| -> Vec<(String, Assessment)> {
            let groups = touched.iter().filter_map(|id| domain.groups.get(domain.names.get(id)?));
            groups.map(|g| (g.metadata.name.clone(), assess(g, &domain.nodes))).collect()
        };
        let before = assess_all(self);
        change(&mut self.nodes[node]);
        let after = assess_all(self);
        let mut changed: Vec<String> =
            before.into_iter().zip(after).filter(|((_, b), (_, a))| a.differs(b)).map(|((name, _), _)| name).collect();
        changed.sort_unstable();
        changed
    }
}

/// The groups at `node` whose assessment this report can change; empty for a repeated report.
fn touched_groups(node: &Node, status: &NodeStatus) -> BTreeSet<GroupId> {
    let old = node.status.as_ref();
    let empty: &[ItemError] = &[];
    let old_errors = old.map_or(empty, |s| &s.errors);
    let latest = node.spec.generation;
    let before = node.observed();
    let now = (status.observed_term == node.spec.term).then_some(status.observed_generation);
    let in_one =
        |a: &[ItemError], b: &[ItemError]| a.iter().filter(|e| !b.contains(e)).map(|e| e.group).collect::<Vec<_>>();
    let mut differing = in_one(old_errors, &status.errors);
    differing.extend(in_one(&status.errors, old_errors));
    if differing.contains(&None) {
        return node.spec.groups.keys().copied().collect();
    }
    let confirmed = node
        .since
        .iter()
        .filter(|(_, since)| is_confirmed(before, **since, latest) != is_confirmed(now, **since, latest))
        .map(|(id, _)| *id);
    confirmed.chain(differing.into_iter().flatten()).collect()
}
