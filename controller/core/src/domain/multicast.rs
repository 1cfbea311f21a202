// SPDX-License-Identifier: Apache-2.0
//! State that all groups in IP multicast replication share at a node: the kernel's multicast interfaces.

use std::collections::{BTreeMap, BTreeSet};

use canopy_model::ids::PortIndex;
use canopy_model::node_spec::{MAX_MULTICAST_PORTS, MulticastRoute};

use super::change::Replan;
use super::state::State;
use crate::error::DomainError;
use crate::plan::Planned;
use crate::programs::{Ground, Trees};
use crate::resource::Group;
use crate::topology::NodeIx;

/// Refuses a plan with which a node would need more multicast interfaces than Linux has, counting all groups.
pub(super) fn check_ports(state: &State, planned: &Planned) -> Result<(), DomainError> {
    let (Planned::Live(plan), Some(network)) = (planned, state.network()) else { return Ok(()) };
    if plan.content.common.multicast.is_none() {
        return Ok(());
    }
    for (at, t) in plan.tree.nodes().enumerate() {
        let Some(node) = state.nodes.get(t.node) else { continue };
        // A node with few ports cannot run out of interfaces, however many groups there are.
        if node.spec.base.ports.len() > MAX_MULTICAST_PORTS {
            let program = Ground { addresses: &state.addresses, network }.programs(plan).at(at);
            let groups = node.spec.groups.ids().filter_map(|id| state.groups.by_id(id));
            let is_other = |group: &&Group| group.allocation.group_id != program.group_id && is_by_kernel(group);
            let others = groups.filter(is_other).filter_map(|group| state.program(group, t.node)?.multicast_route());
            let routes = others.chain(program.multicast_route());
            check(&node.spec.base.name, &program.name, routes)?;
        }
    }
    Ok(())
}

fn is_by_kernel(group: &Group) -> bool {
    group.plan().is_some_and(|plan| plan.content.common.multicast.is_some())
}

/// The same check for all groups over another topology.
pub(super) fn check_all(ground: Ground<'_>, replans: &[Replan]) -> Result<(), DomainError> {
    let mut at: BTreeMap<NodeIx, (&str, Vec<MulticastRoute>)> = BTreeMap::new();
    for replan in replans {
        for (node, route) in Trees::of(&replan.state, replan.behind.as_ref()).multicast_routes(ground) {
            let (name, routes) = at.entry(node).or_default();
            *name = &replan.name;
            routes.push(route);
        }
    }
    at.into_iter().try_for_each(|(node, (name, routes))| check(ground.network.name(node), name, routes))
}

fn check(node: &str, group: &str, routes: impl IntoIterator<Item = MulticastRoute>) -> Result<(), DomainError> {
    let mut used: BTreeSet<PortIndex> = BTreeSet::new();
    for route in routes {
        used.insert(route.input);
        used.extend(route.outputs);
    }
    if used.len() > MAX_MULTICAST_PORTS {
        return Err(DomainError::Limit(format!(
            "node {node} would need {} ports for IP multicast with group {group}, and Linux has {MAX_MULTICAST_PORTS} multicast interfaces: use replication srv6",
            used.len()
        )));
    }
    Ok(())
}
