// SPDX-License-Identifier: Apache-2.0
//! What APIs ask of a domain.

use std::collections::HashMap;

use canopy_paths::path::Style;
use canopy_paths::program::Header;
use canopy_units::Monotonic;

use super::Domain;
use super::host_views::HostViews;
use super::link_views::LinkViews;
use super::map_views;
use super::paging::GroupFilter;
use super::path_views::PathViews;
use super::restarts;
use super::views::Views;
use crate::fields::{FieldSelector, HostField};
use crate::map::{Layer, LayerView, MapView};
use crate::path::{DecodedView, PathsView};
use crate::view::{
    FlowView, GroupView, HostView, LinkView, MemberView, NodeSummary, NodeView, Page, RestartingAgent, TopologyStatus,
    TopologyView,
};

impl Domain {
    /// The network; `None` before a topology was declared.
    pub fn topology(&self) -> Option<TopologyView> {
        Views(&self.state).topology()
    }

    /// What is observed of the network; `None` before a topology was declared. Costs no copy of its spec.
    pub fn topology_status(&self) -> Option<TopologyStatus> {
        Views(&self.state).topology_status()
    }

    /// Nodes whose agents are gone and to be back soon, in name order.
    pub fn restarting(&self, now: Monotonic) -> Vec<RestartingAgent> {
        restarts::awaited(&self.state, now)
    }

    /// Calls `visit` for every node, in arbitrary order; costs no copy of a spec.
    pub fn for_each_node(&self, visit: impl FnMut(NodeSummary<'_>)) {
        Views(&self.state).summaries().for_each(visit);
    }

    /// All nodes, in name order.
    pub fn nodes(&self) -> Vec<NodeView> {
        Views(&self.state).nodes()
    }

    /// One node.
    pub fn node(&self, name: &str) -> Option<NodeView> {
        Views(&self.state).node(name)
    }

    /// Up to `limit` (1..=1000) hosts of the topology that `filter` lets pass, in name order, behind the name `after`; without the names of
    /// their groups. At most [`EXAMINED`] hosts are examined.
    pub fn hosts(&self, filter: &FieldSelector<HostField>, after: Option<&str>, limit: usize) -> Page<HostView> {
        HostViews(&self.state).page(filter, after, limit)
    }

    /// One host of the topology.
    pub fn host(&self, name: &str) -> Option<HostView> {
        HostViews(&self.state).one(name)
    }

    /// Name of the node that a host of the topology is attached to.
    pub fn node_of_host(&self, host: &str) -> Option<&str> {
        let network = self.state.network()?;
        network.host(host).map(|at| network.name(at.node))
    }

    /// The paths by uSIDs from one host to another, with programs in this style; `None` unless the topology has both hosts. Nothing forwards by
    /// them yet.
    pub fn paths(&self, from: &str, to: &str, style: Style) -> Option<PathsView> {
        PathViews(&self.state).paths(from, to, style)
    }

    /// What a header that was captured at node `at`, or on the link to the node of its first uSID, leads through; `None` without a topology, or
    /// if it has no such node.
    pub fn decode_path(&self, header: &Header, at: Option<&str>) -> Option<DecodedView> {
        PathViews(&self.state).decoded(header, at)
    }

    /// One group.
    pub fn group(&self, name: &str) -> Option<GroupView> {
        Views(&self.state).group(name)
    }

    /// Up to `limit` (1..=1000) groups that `filter` lets pass, in name order, behind the name `after`; those of one value of a label by an
    /// index. At most [`EXAMINED`] groups are examined. Phases are compared last: a page with `next` may be short.
    pub fn groups(&self, filter: &GroupFilter, after: Option<&str>, limit: usize) -> Page<GroupView> {
        Views(&self.state).groups(filter, after, limit)
    }

    /// The same of `names`, which are in order.
    pub fn groups_among(&self, names: &[String], filter: &GroupFilter, limit: usize) -> Page<GroupView> {
        Views(&self.state).groups_among(names, filter, limit)
    }

    /// Members of a group in the order of their hosts' names; `None` when there is no such group.
    pub fn members(&self, group: &str) -> Option<Vec<MemberView>> {
        Views(&self.state).members(group)
    }

    /// One membership.
    pub fn member(&self, group: &str, host: &str) -> Option<MemberView> {
        Views(&self.state).member(group, host)
    }

    /// Every link direction out of a node's port, in the topology's order; `now` is on the clock of
    /// [`Domain::link_rtts`].
    pub fn links(&self, now: Monotonic) -> Vec<LinkView> {
        self.link_views(now).all()
    }

    /// The direction out of `port` of `node`.
    pub fn link(&self, node: &str, port: &str, now: Monotonic) -> Option<LinkView> {
        self.link_views(now).one(node, port)
    }

    /// The flows that agents reported, in the topology's order, each port's in the agent's order; restricted to `node`
    /// and `port` where given.
    pub fn flows(&self, node: Option<&str>, port: Option<&str>, now: Monotonic) -> Vec<FlowView> {
        self.link_views(now).flows(node, port)
    }

    /// Where nodes, hosts and links are on the map; `None` before a topology was declared.
    pub fn map(&self) -> Option<MapView> {
        map_views::map(&self.state)
    }

    /// What is drawn over it; `None` before a topology was declared. `problems` has the values of links and ports, by their names, in
    /// [`Layer::State`].
    pub fn map_layer(&self, layer: Layer, problems: &HashMap<String, u8>, now: Monotonic) -> Option<LayerView> {
        map_views::layer(&self.link_views(now), layer, problems)
    }

    fn link_views(&self, now: Monotonic) -> LinkViews<'_> {
        LinkViews { state: &self.state, links: &self.links, now }
    }
}
