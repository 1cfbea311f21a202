// SPDX-License-Identifier: Apache-2.0
//! Hosts as the northbound API shows them.

use std::borrow::Cow;

use canopy_model::labels::Labels;
use canopy_model::member::Role;
use canopy_model::status::ItemKind;

use super::paging::{self, EXAMINED, NameFilter};
use super::state::State;
use super::symptoms::port_of;
use crate::fields::HostField;
use crate::limits::MAX_PAGE;
use crate::resource::Node;
use crate::topology::HostLink;
use crate::view::{self, HostDesired, HostGroup, HostObserved, HostPort, HostView, Page, PortState};

/// Groups that the view of one host names, at most.
const MAX_NAMED: usize = 1_000;

/// Views of a state.
pub(super) struct HostViews<'a>(pub(super) &'a State);

impl HostViews<'_> {
    /// See [`super::Domain::hosts`]. A page compares the names of all hosts, and reads the state of its own.
    pub(super) fn page(&self, filter: &NameFilter<HostField>, after: Option<&str>, limit: usize) -> Page<HostView> {
        let limit = limit.clamp(1, MAX_PAGE);
        let hosts = self.0.network().map(|network| network.spec.hosts.as_slice()).unwrap_or_default();
        let names = filter.begin(hosts.iter().map(|host| host.name.as_str()), after, limit);
        let read = |name| self.passes(filter, name).then(|| self.view(name, 0)).flatten();
        let (items, next) = paging::page(names.into_iter(), limit, EXAMINED, read);
        Page { items, next: next.map(str::to_owned) }
    }

    fn passes(&self, filter: &NameFilter<HostField>, name: &str) -> bool {
        if !filter.labels.matches(&Labels::new()) {
            return false;
        }
        let Some(network) = self.0.network().filter(|_| !filter.fields.is_empty()) else { return true };
        let Some(host) = network.host(name) else { return false };
        filter.fields.matches(|field| match field {
            HostField::Name => Cow::Borrowed(name),
            HostField::Node => Cow::Borrowed(network.name(host.node)),
            HostField::Port => {
                let state = |at: HostLink| port_state(&self.0.nodes[at.node], network.port_name(at.node, at.port)).0;
                Cow::Owned(
                    network.host_links(name).map(state).max().map_or_else(String::new, |port| format!("{port:?}")),
                )
            }
        })
    }

    /// See [`super::Domain::host`].
    pub(super) fn one(&self, name: &str) -> Option<HostView> {
        self.view(name, MAX_NAMED)
    }

    /// With the names of so many groups.
    fn view(&self, name: &str, named: usize) -> Option<HostView> {
        let topology = self.0.topology.as_ref()?;
        let network = &topology.network;
        let at = network.host(name)?;
        let port = network.port_name(at.node, at.port);
        let (state, reason) = port_state(&self.0.nodes[at.node], port);
        let (mut links, mut ports) = (Vec::new(), Vec::new());
        for HostLink { node, port, link } in network.host_links(name) {
            let (mtu, port) = (network.spec.links[link].mtu, network.port_name(node, port).to_owned());
            let (state, reason) = port_state(&self.0.nodes[node], &port);
            let node = network.name(node).to_owned();
            links.push(view::HostLink { node: node.clone(), port: port.clone(), mtu });
            ports.push(HostPort { node, port, state, reason });
        }
        let mut status =
            HostObserved { port: state, reason, links: ports, sources: 0, receivers: 0, groups: Vec::new() };
        for group in self.0.groups.of_host(name).filter_map(|group| self.0.groups.get(group)) {
            let Some(member) = group.members.get(name) else { continue };
            let role = member.role;
            match role {
                Role::Source => status.sources += 1,
                Role::Receiver => status.receivers += 1,
            }
            if status.groups.len() < named {
                let ended = !group.takes_part(member);
                status.groups.push(HostGroup { name: group.metadata.name.clone(), role, ended });
            }
        }
        let spec = HostDesired {
            node: network.name(at.node).to_owned(),
            port: port.to_owned(),
            prefix: at.prefix,
            address: at.address,
            mtu: network.spec.links[at.link].mtu,
            path_programs: at.sends_programs,
            links,
        };
        Some(HostView { name: name.to_owned(), generation: topology.metadata.generation, spec, status })
    }
}

/// The state of a port by what the node's agent last reported, and what is wrong with it.
fn port_state(node: &Node, port: &str) -> (PortState, String) {
    let name = &node.spec.base.name;
    if !node.connected {
        return (PortState::Unknown, format!("the agent of {name} is not connected"));
    }
    let Some(status) = &node.status else {
        return (PortState::Unknown, format!("the agent of {name} has not reported yet"));
    };
    let of_ports = [ItemKind::Link, ItemKind::Silence, ItemKind::Port, ItemKind::Neighbour];
    let errors = status.errors.iter().filter(|e| of_ports.contains(&e.kind) && port_of(e) == port);
    let is_down = errors.clone().any(|e| e.kind.is_dead_link());
    let reasons: Vec<&str> = errors.map(|e| e.detail.as_str()).collect();
    (if is_down { PortState::Down } else { PortState::Up }, reasons.join("; "))
}
