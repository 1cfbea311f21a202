// SPDX-License-Identifier: Apache-2.0
//! What APIs ask of a domain.

use canopy_model::status::GroupPhase;
use canopy_paths::path::Style;
use canopy_paths::program::Header;
use canopy_units::Monotonic;

use super::Domain;
use super::flow_views;
use super::host_views::HostViews;
use super::link_views::LinkViews;
use super::map_views;
use super::node_views::NodeViews;
use super::paging::{GroupFilter, NameFilter};
use super::path_views::PathViews;
use super::restarts;
use super::views::Views;
use crate::fields::{FieldSelector, HostField, LinkField, NodeField};
use crate::map::{Layer, LayerView, MapView};
use crate::path::{DecodedView, PathsView};
use crate::states::Troubles;
use crate::status::assess;
use crate::uid::Uid;
use crate::view::{
    FlowView, GroupSummary, GroupView, HostView, LinkView, MemberView, NodeSummary, NodeView, Page, RestartingAgent,
    TopologyStatus, TopologyView,
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
        NodeViews(&self.state).summaries().for_each(visit);
    }

    /// Names of all nodes, in order.
    pub fn node_names(&self) -> Vec<String> {
        NodeViews(&self.state).names()
    }

    /// Up to `limit` (1..=1000) nodes that `filter` lets pass, in name order, behind the name `after`, with their ports or without.
    pub fn nodes(
        &self,
        filter: &NameFilter<NodeField>,
        after: Option<&str>,
        limit: usize,
        with_ports: bool,
    ) -> Page<NodeView> {
        NodeViews(&self.state).page(filter, after, limit, with_ports)
    }

    /// One node.
    pub fn node(&self, name: &str) -> Option<NodeView> {
        NodeViews(&self.state).one(name)
    }

    /// Up to `limit` (1..=1000) hosts of the topology that `filter` lets pass, in name order, behind the name `after`; without the names of
    /// their groups. At most [`EXAMINED`] hosts are examined.
    pub fn hosts(&self, filter: &NameFilter<HostField>, after: Option<&str>, limit: usize) -> Page<HostView> {
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

    /// What a group is doing.
    pub fn group_summary(&self, name: &str) -> Option<GroupSummary> {
        Views(&self.state).group_summary(name)
    }

    /// Names of all groups, in order.
    pub fn group_names(&self) -> Vec<String> {
        self.state.groups.iter().map(|(name, _)| name.to_owned()).collect()
    }

    /// Calls `visit` for every group, its uid and its phase, in name order; costs no view of it.
    pub fn for_each_phase(&self, mut visit: impl FnMut(&str, Uid, GroupPhase)) {
        let phase = |group| assess(group, self.state.on_ground()).phase;
        self.state.groups.iter().for_each(|(name, group)| visit(name, group.metadata.uid, phase(group)));
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

    /// The first `most` link directions out of a node's port, in the topology's order, without their problems, and how many others there are;
    /// `now` is on the clock of [`Domain::link_rtts`].
    pub fn first_links(&self, now: Monotonic, most: usize) -> (Vec<LinkView>, usize) {
        self.link_views(now, &Troubles::new()).first(most)
    }

    /// Up to `limit` (1..=1000) link directions that `filter` lets pass, in the order of node and port, behind the port `after` of a node. At
    /// most [`EXAMINED`] are examined.
    pub fn links(
        &self,
        filter: &FieldSelector<LinkField>,
        after: Option<(&str, &str)>,
        limit: usize,
        troubles: &Troubles,
        now: Monotonic,
    ) -> Page<LinkView> {
        self.link_views(now, troubles).page(filter, after, limit)
    }

    /// The direction out of `port` of `node`.
    pub fn link(&self, node: &str, port: &str, troubles: &Troubles, now: Monotonic) -> Option<LinkView> {
        self.link_views(now, troubles).one(node, port)
    }

    /// The flows that agents reported, without their hosts and groups, in the topology's order, each port's in the agent's order; restricted to `node`
    /// and `port` where given.
    pub fn flows(&self, node: Option<&str>, port: Option<&str>, now: Monotonic) -> Vec<FlowView> {
        flow_views::flows(&self.link_views(now, &Troubles::new()), node, port)
    }

    /// Finds the hosts and groups behind the addresses of flows.
    pub fn name_flows(&self, flows: &mut [FlowView]) {
        flow_views::name(&self.state, flows);
    }

    /// Where nodes, hosts and links are on the map; `None` before a topology was declared.
    pub fn map(&self) -> Option<MapView> {
        map_views::map(&self.state)
    }

    /// What is drawn over it; `None` before a topology was declared.
    pub fn map_layer(&self, layer: Layer, troubles: &Troubles, now: Monotonic) -> Option<LayerView> {
        map_views::layer(&self.link_views(now, troubles), layer)
    }

    fn link_views<'a>(&'a self, now: Monotonic, troubles: &'a Troubles) -> LinkViews<'a> {
        LinkViews { state: &self.state, links: &self.links, now, troubles }
    }
}
