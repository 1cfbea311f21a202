// SPDX-License-Identifier: Apache-2.0
//! State that all groups in IP multicast replication share at a node: the kernel's multicast interfaces.

use std::collections::{BTreeMap, BTreeSet};

use canopy_model::ids::{GroupId, PortIndex};
use canopy_model::node_spec::{GroupProgram, MAX_MULTICAST_PORTS};

use super::change::Replan;
use super::state::State;
use crate::error::DomainError;
use crate::plan::Planned;
use crate::program::TreePrograms;
use crate::topology::{Network, NodeIx};

/// Refuses a plan with which a node would need more multicast interfaces than Linux has, counting all groups.
pub(super) fn check_ports(state: &State, planned: &Planned) -> Result<(), DomainError> {
    let (Planned::Live(plan), Some(network)) = (planned, state.network()) else { return Ok(()) };
    if plan.content.common.multicast.is_none() {
        return Ok(());
    }
    for (at, t) in plan.tree.nodes.iter().enumerate() {
        let Some(node) = state.nodes.get(t.node) else { continue };
        // A node with few ports cannot run out of interfaces, however many groups there are.
        if node.spec.base.ports.len() > MAX_MULTICAST_PORTS {
            let program = TreePrograms { addresses: &state.addresses, network, plan }.at(at);
            let others = node.spec.groups.iter().filter(|(id, _)| **id != program.group_id).map(|(_, p)| p);
            check(&node.spec.base.name, program.group_id, others.chain([&program]))?;
        }
    }
    Ok(())
}

/// The same check for all groups over another topology.
pub(super) fn check_all(network: &Network, replans: &[Replan]) -> Result<(), DomainError> {
    let mut at: BTreeMap<NodeIx, Vec<&GroupProgram>> = BTreeMap::new();
    for (node, program) in replans.iter().flat_map(|replan| &replan.programs) {
        if program.multicast.is_some() {
            at.entry(*node).or_default().push(program);
        }
    }
    for (node, programs) in at {
        let last = programs.last().map(|p| p.group_id);
        last.map_or(Ok(()), |id| check(network.name(node), id, programs.iter().copied()))?;
    }
    Ok(())
}

fn check<'a>(node: &str, group: GroupId, programs: impl Iterator<Item = &'a GroupProgram>) -> Result<(), DomainError> {
    let (mut used, mut name): (BTreeSet<PortIndex>, &str) = Default::default();
    for p in programs {
        if p.group_id == group {
            name = &p.name;
        }
        if let Some(route) = p.multicast_route() {
            used.insert(route.input);
            used.extend(route.outputs);
        }
    }
    if used.len() > MAX_MULTICAST_PORTS {
        return Err(DomainError::Limit(format!(
            "node {node} would need {} ports for IP multicast with group {name}, and Linux has {MAX_MULTICAST_PORTS} multicast interfaces: use replication srv6",
            used.len()
        )));
    }
    Ok(())
}
