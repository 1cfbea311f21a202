// SPDX-License-Identifier: Apache-2.0
//! Flows as the northbound API shows them, with the host and the group behind their addresses.

use std::collections::{HashMap, HashSet};
use std::net::Ipv6Addr;

use canopy_model::member::Role;

use super::link_views::LinkViews;
use super::links::Declared;
use super::state::State;
use crate::resource::Group;
use crate::view::FlowView;

/// See [`super::Domain::flows`].
pub(super) fn flows(views: &LinkViews<'_>, node: Option<&str>, port: Option<&str>) -> Vec<FlowView> {
    let declared: Vec<Declared> = match (node, port) {
        (Some(node), Some(port)) => views.links.declared_from(views.state, node, port).into_iter().collect(),
        _ => views.links.declared(views.state),
    };
    let mut flows = Vec::new();
    for Declared { from, .. } in &declared {
        if node.is_some_and(|node| node != from.device) || port.is_some_and(|port| port != from.port) {
            continue;
        }
        let Some((queue, reported_ago)) = views.fresh_queue(from) else { continue };
        let of_port = queue.report.flows.iter().map(|flow| FlowView {
            node: from.device.clone(),
            port: from.port.clone(),
            flow: *flow,
            host: None,
            group: None,
            reported_ago,
        });
        flows.extend(of_port);
    }
    flows
}

/// See [`super::Domain::name_flows`]. Data of a group goes to its Proxy Address, and copies at an edge come from it.
pub(super) fn name(state: &State, flows: &mut [FlowView]) {
    let Some(network) = state.network() else { return };
    let groups = groups(state, flows);
    for of in flows {
        let copied = groups.get(&of.flow.src);
        let source = copied.and_then(|group| group.present(Role::Source).next());
        of.host = source.map(|member| member.host.as_ref()).or_else(|| network.host_at(of.flow.src)).map(str::to_owned);
        let group = copied.or_else(|| groups.get(&of.flow.dst));
        of.group = group.map(|group| group.metadata.name.clone());
    }
}

/// Groups by their Proxy Addresses, as far as flows have these: of those with a program at the flows' nodes.
fn groups<'a>(state: &'a State, flows: &[FlowView]) -> HashMap<Ipv6Addr, &'a Group> {
    let prefix = state.addresses.proxy_prefix;
    let mut wanted = HashSet::new();
    let mut nodes = HashSet::new();
    for of in flows {
        for address in [of.flow.src, of.flow.dst] {
            if prefix.contains(&address) {
                wanted.insert(address);
                nodes.insert(of.node.as_str());
            }
        }
    }
    let there = nodes.into_iter().filter_map(|name| state.node(name)).flat_map(|node| node.spec.groups.ids());
    let groups = there.filter_map(|id| state.groups.by_id(id));
    let by_proxy = groups.filter_map(|group| Some((state.addresses.proxy(group.allocation.proxy_index)?, group)));
    by_proxy.filter(|(proxy, _)| wanted.contains(proxy)).collect()
}
