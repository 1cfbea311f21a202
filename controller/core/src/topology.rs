// SPDX-License-Identifier: Apache-2.0
//! The declared network as a compact graph: nodes by index, adjacency in one array, hosts by their attachment.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::Ipv6Addr;
use std::sync::{Arc, OnceLock};

use canopy_model::addressing::AddressPlan;
use canopy_model::drain::DrainTarget;
use canopy_model::fabric::HostFabric;
use canopy_model::host_programs::{HostPrograms, MOST_NODES};
use canopy_model::ids::{NodeId, PortIndex};
use canopy_model::routes::Destinations;
use canopy_model::topology::{Endpoint, HostDecl, TopologySpec};
use canopy_model::usid::UsidBlock;
use canopy_model::{FieldError, FieldErrors};
use canopy_paths::fabric::{Ends, Fabric, NotAFabric, PortOf};
use canopy_paths::host::most_nodes;
use fixedbitset::FixedBitSet;
use ipnet::Ipv6Net;

use crate::hops::{Hops, UNREACHED};
use crate::limits::{MAX_HOSTS, MAX_LINKS, MAX_NODES};
use crate::ranked::{Ranked, rank};

mod host_fabric;
mod regions;
mod wiring;

pub(crate) use regions::Regions;
use wiring::{Wiring, connect, host_prefixes};

/// An end of a link.
pub type LinkEnd = (NodeId, PortIndex);

/// Index of a node in its [`Network`], in the order of declaration. Meaningless in another network.
pub(crate) type NodeIx = usize;

/// A validated topology, indexed for graph algorithms. What links in and out of service do not change is shared.
#[derive(Clone, Debug)]
pub(crate) struct Network {
    pub(crate) spec: Arc<TopologySpec>,
    /// Numbers in the locator, by node: next to each other, because trees compare many.
    ids: Arc<[NodeId]>,
    by_name: Arc<HashMap<String, NodeIx>>,
    ports: Arc<Vec<Vec<PortInfo>>>,
    hosts: Arc<HashMap<Arc<str>, Attachment>>,
    /// All links of the hosts that have several, by place in `spec.hosts`.
    multi_homed: Arc<BTreeMap<usize, Vec<HostLink>>>,
    host_link_count: usize,
    /// Every prefix that nodes have routes to, in order, with its place: the node that has it or whose hosts have it, or, behind the nodes, one of
    /// `shared`.
    destinations: Destinations,
    /// Sets of nodes that hosts with several links are behind.
    shared: Arc<[Vec<NodeIx>]>,
    /// What path programs of hosts may be, without ports; `None`: no host may send any.
    host_programs: Option<HostPrograms>,
    /// By link: the nodes at both ends; `None` if one of them is a host.
    ends: Arc<Vec<Option<[NodeIx; 2]>>>,
    adjacency: Arc<Adjacency>,
    /// Indexes of links of which an end has no carrier.
    broken: FixedBitSet,
    /// Indexes of links that drains take out of service.
    drained: FixedBitSet,
    /// Nodes that have left for good, or are about to: they forward nothing, and no path leads there.
    left: BTreeSet<NodeIx>,
    /// Indexes of links that no path leads over.
    avoided: FixedBitSet,
    block: UsidBlock,
    /// Made when it is first asked for: most networks that are built are not asked for paths.
    fabric: Arc<OnceLock<Option<Fabric>>>,
    /// The same as hosts get it. Made when it is first asked for.
    host_fabric: Arc<OnceLock<Arc<HostFabric>>>,
    hops: Hops,
    /// Made when routes are first asked for.
    ranked: Arc<OnceLock<Ranked>>,
    /// Of this state of the network, too.
    partly_cut: Arc<OnceLock<Vec<PartlyCut>>>,
    /// Of this state of the network. Made when it is first asked for.
    regions: Arc<OnceLock<Regions>>,
    /// By the hosts' addresses: their places in `spec.hosts`. Made when it is first asked for.
    by_address: Arc<OnceLock<HashMap<Ipv6Addr, u32>>>,
}

/// Links that two states of one network use differently.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Difference {
    /// Paths lead over them in one of the two only.
    pub(crate) paths: BTreeSet<usize>,
    /// Trees led over them, and no longer do.
    pub(crate) lost: BTreeSet<usize>,
    /// Trees lead over them, and did not.
    pub(crate) gained: BTreeSet<usize>,
}

/// One port of a node; its index is its place in the list plus one.
#[derive(Clone, Debug)]
pub(crate) struct PortInfo {
    pub(crate) index: PortIndex,
    pub(crate) link: usize,
    /// True when this node is the link's `a` end.
    pub(crate) is_a: bool,
    pub(crate) far: Far,
}

/// What is at the far end of a port.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Far {
    Node {
        node: NodeIx,
        port: PortIndex,
    },
    /// Index in `spec.hosts`.
    Host(usize),
}

/// A neighbouring node over one link.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Adjacent {
    pub(crate) to: NodeIx,
    /// Port on this side.
    pub(crate) port: PortIndex,
    /// Port on the neighbour's side.
    pub(crate) far_port: PortIndex,
    pub(crate) link: usize,
    pub(crate) mtu: u32,
}

/// The neighbours of every node over all links, in service or not.
#[derive(Debug)]
struct Adjacency {
    /// Row of node n in `all`: `rows[n]..rows[n + 1]`.
    rows: Vec<usize>,
    /// Each row in the order of neighbours and ports.
    all: Vec<Adjacent>,
}

/// A host of which packets should not take some link: its prefix, the nodes of the others, and those of all links that are not broken.
pub(crate) type PartlyCut = (Ipv6Net, Vec<NodeIx>, Vec<NodeIx>);

/// A link of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HostLink {
    pub(crate) node: NodeIx,
    pub(crate) port: PortIndex,
    pub(crate) link: usize,
}

/// Attachment of a host: its first link, or its only one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attachment {
    pub(crate) node: NodeIx,
    pub(crate) port: PortIndex,
    pub(crate) link: usize,
    pub(crate) prefix: Ipv6Net,
    pub(crate) address: Ipv6Addr,
    /// The host accepts Long-haul CNPs in the RoCEv2 format.
    pub(crate) accepts_roce: bool,
    /// The host may send path programs.
    pub(crate) sends_programs: bool,
    /// Place in `spec.hosts`.
    at: usize,
}

impl Network {
    /// The network with every link in service.
    #[cfg(test)]
    pub(crate) fn build(spec: impl Into<Arc<TopologySpec>>, plan: &AddressPlan) -> Result<Self, FieldErrors> {
        Self::build_around(spec, plan, &BTreeSet::new(), &[], &[])
    }

    /// Validates `spec` by itself, against the address plan and against the limits. Paths avoid links that `spec` or one of `drains` takes out
    /// of service, and links with a port in `down` as long as all nodes can still reach each other; a node that only a broken link connects
    /// waits for that link, and no new tree leads over it. Nothing leads over links of nodes in `left`, also where there is no other way.
    ///
    /// # Errors
    /// Every invalid field.
    pub(crate) fn build_around(
        spec: impl Into<Arc<TopologySpec>>,
        plan: &AddressPlan,
        down: &BTreeSet<Endpoint>,
        drains: &[DrainTarget<'_>],
        left: &[&str],
    ) -> Result<Self, FieldErrors> {
        let spec = spec.into();
        check_sizes(&spec)?;
        spec.validate()?;
        check_prefixes(&spec.hosts, plan)?;
        let by_name: HashMap<String, NodeIx> =
            spec.nodes.iter().enumerate().map(|(i, n)| (n.name.clone(), i)).collect();
        let Wiring { ports, hosts, multi_homed } = connect(&spec, &by_name)?;
        let node = |end: &Endpoint| by_name.get(&end.device).copied();
        let ends = spec.links.iter().map(|link| Some([node(&link.a)?, node(&link.b)?])).collect();
        let locators = spec
            .nodes
            .iter()
            .enumerate()
            .flat_map(|(at, node)| [(plan.un(node.id), at), (Ipv6Net::from(plan.node_address(node.id)), at)]);
        let (of_hosts, shared) = host_prefixes(&spec, &hosts, &multi_homed);
        // Each node has a number for each of them.
        if shared.len() > MAX_NODES {
            let detail = format!(
                "hosts with several links are behind {} sets of nodes, at most {MAX_NODES} are supported",
                shared.len()
            );
            return Err(FieldError::new("spec.links", detail).into());
        }
        // At most MAX_NODES and MAX_HOSTS.
        let all = locators.chain(of_hosts).map(|(prefix, place)| (prefix, place as u32));
        let mut destinations: Vec<(Ipv6Net, u32)> = all.collect();
        destinations.sort_unstable();
        let adjacency = Adjacency::new(&spec, &ports);
        let more: usize = multi_homed.values().map(|links| links.len() - 1).sum();
        let mut network = Self {
            host_link_count: hosts.len() + more,
            ids: spec.nodes.iter().map(|node| node.id).collect(),
            spec,
            destinations: destinations.into(),
            host_programs: None,
            ends: Arc::new(ends),
            by_name: Arc::new(by_name),
            ports: Arc::new(ports),
            hosts: Arc::new(hosts),
            multi_homed: Arc::new(multi_homed),
            shared: shared.into(),
            adjacency: Arc::new(adjacency),
            broken: FixedBitSet::new(),
            drained: FixedBitSet::new(),
            left: BTreeSet::new(),
            avoided: FixedBitSet::new(),
            block: plan.usid_block(),
            fabric: Arc::default(),
            host_fabric: Arc::default(),
            hops: Hops::default(),
            ranked: Arc::default(),
            regions: Arc::default(),
            partly_cut: Arc::default(),
            by_address: Arc::default(),
        };
        network.host_programs = network.programs_of_hosts(plan);
        Ok(network.with_links(down, drains, left))
    }

    /// What path programs of hosts may be, without ports; `None`: no host may send any.
    fn programs_of_hosts(&self, plan: &AddressPlan) -> Option<HostPrograms> {
        self.spec.hosts.iter().find(|host| host.path_programs)?;
        let is_hosts = |prefix: &Ipv6Net| !plan.block.contains(prefix) && !plan.node_prefix.contains(prefix);
        let ends = self.destinations.iter().filter(|(prefix, _)| is_hosts(prefix));
        Some(HostPrograms {
            ports: BTreeSet::new(),
            ends: ends.flat_map(|(prefix, at)| self.nodes_at(*at).map(|node| (*prefix, self.ids[node]))).collect(),
            nodes: self.ids.iter().copied().collect(),
            most_nodes: self.fabric().map_or(MOST_NODES, most_nodes),
        })
    }

    /// The same network with other links out of service; see [`Network::build_around`]. A few instructions per link of the network.
    pub(crate) fn with_links(&self, down: &BTreeSet<Endpoint>, drains: &[DrainTarget<'_>], left: &[&str]) -> Self {
        let mut network = self.clone();
        (network.regions, network.partly_cut) = (Arc::default(), Arc::default());
        network.broken = self.set(down.iter().filter_map(|port| Some(self.port(port)?.1.link)));
        network.drained = self.set(drains.iter().flat_map(|target| self.links_of(*target)));
        network.left = left.iter().filter_map(|node| self.node(node)).collect();
        network.avoided = network.spare();
        let difference = self.difference(&network);
        network.hops.keep(&self.hops, |hops| network.are_hops(hops, &difference));
        network
    }

    /// Whether hop counts of a network that differs so are those of this one: no link that came back is a shorter way, and who lost a link to
    /// a nearer node has another one to a node as near.
    fn are_hops(&self, hops: &[u16], difference: &Difference) -> bool {
        let is_no_shorter = |link: &usize| {
            self.ends(*link).is_none_or(|[a, b]| match (hops[a], hops[b]) {
                (UNREACHED, UNREACHED) => true,
                (UNREACHED, _) | (_, UNREACHED) => false,
                (a, b) => a.abs_diff(b) <= 1,
            })
        };
        let has_another = |link: &usize| {
            self.ends(*link).is_none_or(|[a, b]| {
                let far = if hops[a] < hops[b] { b } else { a };
                hops[a] == hops[b] || self.sound(far).any(|near| hops[near.to].checked_add(1) == Some(hops[far]))
            })
        };
        difference.gained.iter().all(is_no_shorter) && difference.lost.iter().all(has_another)
    }

    /// The links that `next`, another state of this network, uses differently.
    pub(crate) fn difference(&self, next: &Self) -> Difference {
        let unsound = |network: &Self| &network.avoided | &network.broken;
        let (old, new) = (unsound(self), unsound(next));
        Difference {
            paths: self.avoided.symmetric_difference(&next.avoided).collect(),
            lost: new.difference(&old).collect(),
            gained: old.difference(&new).collect(),
        }
    }

    /// A set of links.
    fn set(&self, links: impl Iterator<Item = usize>) -> FixedBitSet {
        let mut set = FixedBitSet::with_capacity(self.spec.links.len());
        set.extend(links);
        set
    }

    /// Every prefix that nodes have routes to, in order, with the node that has it or whose hosts have it: those of the hosts of a node are
    /// joined where they fill a shorter one, and no address is in one that was in none.
    pub(crate) fn destinations(&self) -> &Destinations {
        &self.destinations
    }

    /// The nodes of a place: one, or those that hosts with several links are behind.
    fn nodes_at(&self, place: u32) -> impl Iterator<Item = NodeIx> {
        let place = place as usize;
        let several = place.checked_sub(self.len()).map_or(&[][..], |set| &self.shared[set]);
        Some(place).filter(|place| *place < self.len()).into_iter().chain(several.iter().copied())
    }

    /// Sets of nodes that hosts with several links are behind: the places of [`Network::destinations`] that follow the nodes.
    pub(crate) fn shared(&self) -> &[Vec<NodeIx>] {
        &self.shared
    }

    /// Which nodes reach each other over what links. A few instructions per link, once for each state of the network.
    pub(crate) fn regions(&self) -> &Regions {
        self.regions.get_or_init(|| Regions::of(self))
    }

    /// The hosts of which packets should not take some of several links: the prefix of each, with the nodes of the others. Those are the links in
    /// service, else those that are not broken. Work is in the order of such hosts, once for each state of the network.
    pub(crate) fn partly_cut(&self) -> &[PartlyCut] {
        self.partly_cut.get_or_init(|| {
            let cut = self.multi_homed.iter().filter_map(|(host, links)| {
                let nodes = |may: &dyn Fn(usize) -> bool| -> Vec<NodeIx> {
                    links.iter().filter(|at| may(at.link)).map(|at| at.node).collect()
                };
                let in_service = nodes(&|link| !self.is_broken(link) && !self.is_drained(link));
                let sound = nodes(&|link| !self.is_broken(link));
                let best = if in_service.is_empty() { sound.clone() } else { in_service };
                (!best.is_empty() && best.len() < links.len()).then(|| (self.spec.hosts[*host].prefix, best, sound))
            });
            cut.collect()
        })
    }

    /// What path programs of hosts may be, without the ports at which they arrive; `None`: no host may send any.
    pub(crate) fn host_programs(&self) -> Option<&HostPrograms> {
        self.host_programs.as_ref()
    }

    /// Shares with `old` what is the same: routes of nodes are compared and kept by their destinations.
    pub(crate) fn share(&mut self, old: &Self) {
        if self.destinations == old.destinations {
            self.destinations = old.destinations.clone();
        }
        if self.host_programs == old.host_programs {
            self.host_programs.clone_from(&old.host_programs);
        }
    }

    /// The nodes at both ends of a link; `None` if one of them is a host.
    pub(crate) fn ends(&self, link: usize) -> Option<[NodeIx; 2]> {
        self.ends[link]
    }

    /// Whether the topology or a drain takes the link out of service.
    pub(crate) fn is_drained(&self, link: usize) -> bool {
        self.spec.links[link].drained || self.drained.contains(link)
    }

    /// The links between nodes that a drain of `target` takes out of service; none if the topology does not have it.
    pub(crate) fn links_of(&self, target: DrainTarget<'_>) -> Vec<usize> {
        let is_wanted = |p: &PortInfo| match target {
            DrainTarget::Node(_) => true,
            DrainTarget::Link(label) => self.spec.links[p.link].label() == label,
        };
        let node = match target {
            DrainTarget::Node(node) => node,
            DrainTarget::Link(label) => label.split('/').next().unwrap_or_default(),
        };
        let ports = self.node(node).map(|node| self.ports(node)).unwrap_or_default();
        let between_nodes = ports.iter().filter(|p| matches!(p.far, Far::Node { .. }));
        between_nodes.filter(|p| is_wanted(p)).map(|p| p.link).collect()
    }

    /// The links of nodes that have left, and those that are drained or broken, except what the other nodes need to stay connected; drained
    /// ones are preferred for that. A few instructions per link.
    fn spare(&self) -> FixedBitSet {
        let all = || 0..self.spec.links.len();
        let out_of_service = self.set(all().filter(|link| self.is_broken(*link) || self.is_drained(*link)));
        let is_left = |link: &usize| self.ends[*link].is_some_and(|ends| ends.iter().any(|end| self.has_left(*end)));
        let mut spare = self.set(all().filter(|link| !self.left.is_empty() && is_left(link)));
        if out_of_service.is_clear() {
            return spare;
        }
        // Kruskal's forest, best links first.
        let mut component: Vec<NodeIx> = (0..self.spec.nodes.len()).collect();
        fn find(component: &mut [NodeIx], mut n: NodeIx) -> NodeIx {
            while component[n] != n {
                component[n] = component[component[n]];
                n = component[n];
            }
            n
        }
        let in_service = all().filter(|link| !out_of_service.contains(*link));
        let (broken, drained): (Vec<usize>, Vec<usize>) = out_of_service.ones().partition(|link| self.is_broken(*link));
        for link in in_service.chain(drained).chain(broken) {
            if spare.contains(link) {
                continue;
            }
            let Some([a, b]) = self.ends[link] else { continue };
            let (a, b) = (find(&mut component, a), find(&mut component, b));
            if a == b && out_of_service.contains(link) {
                spare.insert(link);
            }
            component[a] = b;
        }
        spare
    }

    /// Whether the node has left for good, or is about to.
    pub(crate) fn has_left(&self, node: NodeIx) -> bool {
        self.left.contains(&node)
    }

    /// True when an end of the link has no carrier.
    pub(crate) fn is_broken(&self, link: usize) -> bool {
        self.broken.contains(link)
    }

    /// Whether nothing can cross a link between nodes: an end has no carrier, or has left for good.
    pub(crate) fn is_dead(&self, link: usize) -> bool {
        self.is_broken(link) || self.ends[link].is_some_and(|ends| ends.iter().any(|end| self.has_left(*end)))
    }

    /// Neighbouring nodes over links that carry packets.
    pub(crate) fn sound(&self, node: NodeIx) -> impl Iterator<Item = &Adjacent> + Clone {
        self.adjacent(node).filter(|a| !self.is_broken(a.link))
    }

    /// A port of a node, by name.
    pub(crate) fn endpoint(&self, node: NodeIx, port: PortIndex) -> Endpoint {
        Endpoint { device: self.name(node).to_owned(), port: self.port_name(node, port).to_owned() }
    }

    /// The node that has this port, and the port.
    fn port(&self, port: &Endpoint) -> Option<(NodeIx, &PortInfo)> {
        let node = self.node(&port.device)?;
        Some((node, self.ports[node].iter().find(|p| self.port_name(node, p.index) == port.port)?))
    }

    /// The link at a port of a node, or at that of a host. A few instructions per port of the node.
    pub(crate) fn link_at(&self, end: &Endpoint) -> Option<usize> {
        let of_host = || {
            self.host_links(&end.device).map(|at| at.link).find(|link| {
                let decl = &self.spec.links[*link];
                decl.a == *end || decl.b == *end
            })
        };
        self.port(end).map(|(_, port)| port.link).or_else(of_host)
    }

    /// The node that has this port, and its neighbour there.
    pub(crate) fn across(&self, port: &Endpoint) -> Option<(NodeIx, Adjacent)> {
        let (node, info) = self.port(port)?;
        let Far::Node { node: to, port: far_port } = info.far else { return None };
        let (link, mtu) = (info.link, self.spec.links[info.link].mtu);
        Some((node, Adjacent { to, port: info.index, far_port, link, mtu }))
    }

    /// A broken link on a shortest path from `from` to `to`, by the names of its ends.
    pub(crate) fn broken_between(&self, from: NodeIx, to: NodeIx) -> Option<String> {
        let (distance, _) = self.distances(from, |_| false);
        let mut at = to;
        while at != from {
            let up = self.adjacent(at).find(|a| distance[a.to].checked_add(1) == Some(distance[at]))?;
            if self.is_broken(up.link) {
                return Some(self.spec.links[up.link].label());
            }
            at = up.to;
        }
        None
    }

    /// A node that has left, on one of the shortest ways from `from` to `to`, of which none is sound: over links that carry packets, or with
    /// `also_broken` over all. `None` if those ways do not lead there. A few instructions per link.
    pub(crate) fn left_between(&self, from: NodeIx, to: NodeIx, also_broken: bool) -> Option<NodeIx> {
        if self.left.is_empty() {
            return None;
        }
        let mut by = vec![None; self.len()];
        let (mut order, mut next) = (vec![from], 0);
        by[from] = Some(from);
        while let Some(&node) = order.get(next) {
            next += 1;
            for port in self.ports(node) {
                if let Far::Node { node: far, .. } = port.far
                    && by[far].is_none()
                    && (also_broken || !self.is_broken(port.link))
                {
                    by[far] = Some(node);
                    order.push(far);
                }
            }
        }
        let mut at = to;
        while !self.has_left(at) {
            at = by[at].filter(|up| *up != at)?;
        }
        Some(at)
    }

    /// The broken links on shortest paths from `from` to all of `to`, and those of these nodes themselves that paths avoid: `most` of them at most.
    /// Follows each link once.
    pub(crate) fn broken_towards(
        &self,
        from: NodeIx,
        to: impl Iterator<Item = NodeIx>,
        most: usize,
    ) -> BTreeSet<usize> {
        let (distance, _) = self.distances(from, |_| false);
        let (mut found, mut seen) = (BTreeSet::new(), BTreeSet::from([from]));
        let own = |node| {
            let ports = self.links_of(DrainTarget::Node(self.name(node))).into_iter();
            ports.filter(|link| self.is_broken(*link))
        };
        found.extend(own(from).take(most));
        for mut at in to {
            if found.len() < most && !seen.contains(&at) {
                found.extend(own(at).take(most - found.len()));
            }
            while seen.insert(at)
                && found.len() < most
                && let Some(up) = self.adjacent(at).find(|a| distance[a.to].checked_add(1) == Some(distance[at]))
            {
                found.extend(Some(up.link).filter(|link| self.is_broken(*link)));
                at = up.to;
            }
        }
        found
    }

    /// What paths by uSIDs lead through: every link of the topology, in its order, whether it carries packets or not.
    pub(crate) fn fabric(&self) -> Option<&Fabric> {
        // A validated topology has each node and port once: there is a fabric.
        self.fabric.get_or_init(|| fabric(self.block, &self.spec, &self.ports).ok()).as_ref()
    }

    /// What hosts compose programs from: the same, with names and prefixes.
    pub(crate) fn host_fabric(&self) -> &Arc<HostFabric> {
        self.host_fabric.get_or_init(|| Arc::new(host_fabric::host_fabric(self)))
    }

    /// The links between nodes that are drained or dead, each by its `a` end. A few instructions per link.
    pub(crate) fn unusable(&self) -> Arc<[LinkEnd]> {
        host_fabric::unusable(self)
    }

    /// The block of uSIDs.
    pub(crate) fn block(&self) -> UsidBlock {
        self.block
    }

    /// The node with this number. It compares the numbers of all nodes.
    pub(crate) fn node_with(&self, id: NodeId) -> Option<NodeIx> {
        self.spec.nodes.iter().position(|node| node.id == id)
    }

    /// Number of nodes.
    pub(crate) fn len(&self) -> usize {
        self.spec.nodes.len()
    }

    /// The node called `name`.
    pub(crate) fn node(&self, name: &str) -> Option<NodeIx> {
        self.by_name.get(name).copied()
    }

    /// The node's name.
    pub(crate) fn name(&self, node: NodeIx) -> &str {
        &self.spec.nodes[node].name
    }

    /// The node's number in the locator.
    pub(crate) fn id(&self, node: NodeIx) -> NodeId {
        self.ids[node]
    }

    /// The node's ports in index order.
    pub(crate) fn ports(&self, node: NodeIx) -> &[PortInfo] {
        &self.ports[node]
    }

    /// Interface name of a port.
    pub(crate) fn port_name(&self, node: NodeIx, port: PortIndex) -> &str {
        let info = &self.ports[node][usize::from(port.get()) - 1];
        let link = &self.spec.links[info.link];
        if info.is_a { &link.a.port } else { &link.b.port }
    }

    /// Neighbouring nodes over links that paths lead over, one entry per link, in the order of neighbours and ports.
    pub(crate) fn adjacent(&self, node: NodeIx) -> impl Iterator<Item = &Adjacent> + Clone {
        self.adjacency.of(node).iter().filter(|a| self.is_way(a.link))
    }

    /// How many links lead from a node to others, in service or not.
    pub(crate) fn degree(&self, node: NodeIx) -> usize {
        self.adjacency.of(node).len()
    }

    /// The neighbours of every node over all links, in the order of their ranks.
    pub(crate) fn ranked(&self) -> &Ranked {
        let ranked = |node| {
            let all = self.adjacency.of(node).iter();
            all.map(|a| (rank(self.id(node), self.id(a.to), a.to), a.link)).collect()
        };
        self.ranked.get_or_init(|| Ranked::new((0..self.len()).map(ranked)))
    }

    /// Whether paths lead over the link.
    pub(crate) fn is_way(&self, link: usize) -> bool {
        !self.avoided.contains(link)
    }

    /// All links of the host called `name`, in the order of declaration.
    pub(crate) fn host_links(&self, name: &str) -> impl Iterator<Item = HostLink> {
        let at = self.hosts.get(name);
        let several = at.and_then(|at| self.multi_homed.get(&at.at));
        let only = at.filter(|_| several.is_none()).map(|at| HostLink { node: at.node, port: at.port, link: at.link });
        only.into_iter().chain(several.into_iter().flatten().copied())
    }

    /// Links of all hosts.
    pub(crate) fn host_link_count(&self) -> usize {
        self.host_link_count
    }

    /// First attachment of the host called `name`, the one of its groups.
    pub(crate) fn host(&self, name: &str) -> Option<&Attachment> {
        self.hosts.get(name)
    }

    /// The name of a host, for those that keep it.
    pub(crate) fn shared_name(&self, host: &str) -> Option<Arc<str>> {
        self.hosts.get_key_value(host).map(|(name, _)| Arc::clone(name))
    }

    /// Name of the host that has this address.
    pub(crate) fn host_at(&self, address: Ipv6Addr) -> Option<&str> {
        // A topology has at most MAX_HOSTS.
        let all = || self.spec.hosts.iter().enumerate().map(|(at, host)| (host.address, at as u32)).collect();
        let at = *self.by_address.get_or_init(all).get(&address)?;
        Some(&self.spec.hosts[at as usize].name)
    }

    /// Hop counts from `root`, `u32::MAX` for nodes not reached before `enough`, called after each whole distance,
    /// returns true. Also returns the nodes in the order of their distance.
    pub(crate) fn distances(&self, root: NodeIx, enough: impl FnMut(&[NodeIx]) -> bool) -> (Vec<u32>, Vec<NodeIx>) {
        self.search(root, |_| true, enough)
    }

    /// The same over links that carry packets.
    pub(crate) fn sound_distances(
        &self,
        root: NodeIx,
        enough: impl FnMut(&[NodeIx]) -> bool,
    ) -> (Vec<u32>, Vec<NodeIx>) {
        self.search(root, |a| !self.is_broken(a.link), enough)
    }

    /// Hop counts from `root` over links that carry packets, [`UNREACHED`](crate::hops::UNREACHED) where none lead. Kept for the next tree.
    pub(crate) fn hops_from(&self, root: NodeIx) -> Arc<[u16]> {
        self.hops.from(root, self.len(), || self.sound_distances(root, |_| false).0)
    }

    fn search(
        &self,
        root: NodeIx,
        is_way: impl Fn(&Adjacent) -> bool,
        mut enough: impl FnMut(&[NodeIx]) -> bool,
    ) -> (Vec<u32>, Vec<NodeIx>) {
        let mut distance = vec![u32::MAX; self.len()];
        distance[root] = 0;
        let mut order = vec![root];
        let mut level = 0..1;
        let mut hops = 0;
        while !level.is_empty() && !enough(&order[level.clone()]) {
            hops += 1;
            let end = order.len();
            for i in level {
                for a in self.adjacent(order[i]).filter(|a| is_way(a)) {
                    if distance[a.to] == u32::MAX {
                        distance[a.to] = hops;
                        order.push(a.to);
                    }
                }
            }
            level = end..order.len();
        }
        (distance, order)
    }
}

impl Adjacency {
    fn new(spec: &TopologySpec, ports: &[Vec<PortInfo>]) -> Self {
        let (mut rows, mut all) = (Vec::with_capacity(ports.len() + 1), Vec::new());
        for list in ports {
            let row = all.len();
            rows.push(row);
            all.extend(list.iter().filter_map(|p| match p.far {
                Far::Node { node, port } => Some(Adjacent {
                    to: node,
                    port: p.index,
                    far_port: port,
                    link: p.link,
                    mtu: spec.links[p.link].mtu,
                }),
                Far::Host(_) => None,
            }));
            all[row..].sort_unstable_by_key(|a| (a.to, a.port));
        }
        rows.push(all.len());
        Self { rows, all }
    }

    fn of(&self, node: NodeIx) -> &[Adjacent] {
        &self.all[self.rows[node]..self.rows[node + 1]]
    }
}

fn check_sizes(spec: &TopologySpec) -> Result<(), FieldErrors> {
    let mut errors = FieldErrors::default();
    for (field, len, max) in [
        ("nodes", spec.nodes.len(), MAX_NODES),
        ("hosts", spec.hosts.len(), MAX_HOSTS),
        ("links", spec.links.len(), MAX_LINKS),
    ] {
        if len > max {
            errors.push(format!("spec.{field}"), format!("{len} {field}, at most {max} are supported"));
        }
    }
    errors.into_result()
}

/// Host prefixes must not contain the fabric's own addresses: a route to a host would capture their traffic.
fn check_prefixes(hosts: &[HostDecl], plan: &AddressPlan) -> Result<(), FieldErrors> {
    let mut errors = FieldErrors::default();
    let link_local = Ipv6Net::new_assert(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0), 10);
    let multicast = Ipv6Net::new_assert(Ipv6Addr::new(0xff00, 0, 0, 0, 0, 0, 0, 0), 8);
    let reserved = [
        (plan.block, "the SRv6 block"),
        (plan.node_prefix, "the node addresses"),
        (plan.proxy_prefix, "the Proxy Addresses"),
        (link_local, "link-local addresses"),
        (multicast, "multicast addresses"),
    ];
    for (i, host) in hosts.iter().enumerate() {
        if host.prefix.trunc() != host.prefix {
            errors.push(
                format!("spec.hosts[{i}].prefix"),
                format!("{} has bits set behind its length: write {}", host.prefix, host.prefix.trunc()),
            );
        }
        for (net, what) in reserved {
            if net.contains(&host.prefix) || host.prefix.contains(&net) {
                errors.push(format!("spec.hosts[{i}].prefix"), format!("{} overlaps {what} {net}", host.prefix));
            }
        }
    }
    errors.into_result()
}

/// Nodes, ports and links by their numbers.
fn fabric(block: UsidBlock, spec: &TopologySpec, ports: &[Vec<PortInfo>]) -> Result<Fabric, NotAFabric> {
    let mut links = vec![None; spec.links.len()];
    for (node, ports) in spec.nodes.iter().zip(ports) {
        for info in ports {
            let near = PortOf { node: node.id, port: info.index };
            links[info.link] = match info.far {
                Far::Node { node: far, port } => Some(Ends::Nodes(near, PortOf { node: spec.nodes[far].id, port })),
                Far::Host(_) => Some(Ends::Host(near)),
            };
        }
    }
    let nodes = spec.nodes.iter().map(|node| node.id);
    // Each link has at least one node.
    let links = links.into_iter().flatten().zip(spec.links.iter().map(|link| link.mtu));
    Fabric::new(block, nodes, links)
}

#[cfg(test)]
mod tests;
