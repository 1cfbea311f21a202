// SPDX-License-Identifier: Apache-2.0
//! From a group, its members and the network to one program per tree node.
//!
//! A program leaves the agent no choice: it contains every address, port, SID and next hop. See the decisions page for:
//! which node encapsulates (2.1), the outer header (2.2), which SID a child is addressed by (2.3), the addresses of the
//! reverse path (3.1).
//!
//! With IP multicast between nodes the tree, its branches and the reverse path are the same; only the first SID differs.

use std::collections::BTreeMap;
use std::net::Ipv6Addr;
use std::sync::Arc;

use canopy_model::FieldError;
use canopy_model::addressing::AddressPlan;
use canopy_model::group::{GroupSpec, Replication};
use canopy_model::ids::{PortIndex, Qpn};
use canopy_model::member::{LateStart, MemoryRegion, Role};
use canopy_model::node_spec::{
    AggregationParams, Branch, BranchKind, EndMtList, GroupProgram, Headend, MAX_BRANCHES, MAX_RECEIVERS_PER_TLV,
    Multicast, SourceQp, Upstream,
};
use canopy_model::topology::Endpoint;
use canopy_units::Octets;

use crate::alloc::Allocation;
use crate::encoding::{Decision, EncodingReport, Question, TightLink, check_host_link, decide, inner_bytes};
use crate::epochs::{Epochs, Planning};
use crate::error::DomainError;
use crate::member::{Member, Members};
use crate::receivers_by_edge::{Joined, ReceiversByEdge, has_moved};
use crate::topology::{Network, NodeIx};
use crate::tree::{Tree, TreeNode};

/// Base virtual address of a source's WRITEs: the same for every group; each edge adds its receiver's own.
pub(crate) const WRITE_BASE_VA: u64 = 0;

/// Input of the planner for all groups of a domain.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Common<'a> {
    pub(crate) addresses: &'a AddressPlan,
    /// Headends may sign the SRH: there is room for an HMAC TLV.
    pub(crate) signed: bool,
}

/// Input of the planner for one group.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Intent<'a> {
    pub(crate) name: &'a str,
    pub(crate) spec: &'a GroupSpec,
    pub(crate) allocation: &'a Allocation,
    pub(crate) epoch: u32,
    /// Members that joined up to this epoch belong to sessions that have ended.
    pub(crate) session: u32,
    pub(crate) members: &'a Members,
    /// The tree in force.
    pub(crate) before: Option<&'a GroupPlan>,
    /// Epoch in which receivers last moved from behind one node to behind another.
    pub(crate) moved: u32,
    /// See [`Group::displaced`](crate::resource::Group::displaced).
    pub(crate) displaced: u32,
    /// Of the nodes of the tree in force; `None` if they are not known, or every node starts over.
    pub(crate) epochs: Option<&'a Epochs>,
    pub(crate) way: Way<'a>,
    /// The headend takes data (decisions 3.13).
    pub(crate) open: bool,
    /// It takes none for a while, because no receiver gets it.
    pub(crate) held: bool,
    /// Why the group was stopped, if it was.
    pub(crate) failed: Option<&'a str>,
    /// It is being deleted.
    pub(crate) deleting: bool,
    /// Agents export metrics of its branches, too.
    pub(crate) branch_metrics: bool,
}

/// What a group's tree leads over.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Way<'a> {
    /// The paths of the network.
    Paths,
    /// The same, as earlier versions chose among them.
    EarlierPaths,
    /// These ports of nodes towards the root: it is the tree in force (decisions 3.14).
    Ports(&'a [Endpoint]),
}

/// A tree and how receiver lists travel over it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GroupPlan {
    pub(crate) tree: Tree,
    pub(crate) encoding: EncodingReport,
    pub(crate) receivers_by_edge: ReceiversByEdge,
    /// Epoch in which receivers last moved.
    pub(crate) moved: u32,
    pub(crate) epochs: Arc<Epochs>,
}

/// The result of planning a group.
#[derive(Clone, Debug)]
pub(crate) enum Planned {
    /// No traffic is possible yet; the reason.
    Waiting(&'static str),
    /// The group was stopped; the reason.
    Failed(String),
    /// No links that carry packets lead to a receiver; the reason. There is a tree once they do.
    NoWay(String),
    /// There is a tree. Programs in the tree's order.
    Live(GroupPlan, Vec<GroupProgram>),
}

/// A member and the node it is attached to.
struct Placed {
    node: NodeIx,
    port: PortIndex,
    link: usize,
    address: Ipv6Addr,
    qpn: Qpn,
    memory: Option<MemoryRegion>,
    joined: Joined,
    start: Option<LateStart>,
    accepts_roce: bool,
}

/// Plans one group.
///
/// # Errors
/// `Invalid` about `spec.pathMtu` or `spec.encoding` of the group, or about a member's host; `Limit` when a node would
/// get more branches than it can serve, naming it.
pub(crate) fn plan_group(
    common: Common<'_>,
    network: Option<&Network>,
    intent: Intent<'_>,
) -> Result<Planned, DomainError> {
    if intent.deleting {
        return Ok(Planned::Waiting("it is being deleted"));
    }
    if let Some(reason) = intent.failed {
        return Ok(Planned::Failed(reason.to_owned()));
    }
    let present = |m: &&Arc<Member>| m.since > intent.session;
    let with_role = |role| intent.members.values().filter(present).filter(move |m| m.spec.role == role);
    let source = with_role(Role::Source).next();
    let (Some(source), true) = (source, with_role(Role::Receiver).next().is_some()) else {
        let ended = intent.members.values().any(|m| !present(&m));
        return Ok(Planned::Waiting(match (source, ended) {
            (None, false) => "waiting for a source to join",
            (None, true) => "the source's session has ended: waiting for a source, and for receivers to join again",
            (Some(_), false) => "waiting for receivers to join",
            (Some(_), true) => {
                "waiting for receivers: those of the session before have to reset their queue pairs and join again"
            }
        }));
    };
    let network = network.ok_or_else(|| unknown_host(&source.spec.host))?;
    let source = place(network, source)?;
    let mut receivers = Vec::with_capacity(intent.members.len());
    for m in with_role(Role::Receiver) {
        receivers.push(place(network, m)?);
    }
    // Receivers sorted by address: the order of copies and of TLV entries.
    receivers.sort_unstable_by_key(|r| r.address);
    for m in receivers.iter().chain([&source]) {
        // Its name is made only for an error.
        if inner_bytes(intent.spec.path_mtu) > network.spec.links[m.link].mtu as usize {
            check_host_link(intent.spec.path_mtu, &tight_link(network, m.link))?;
        }
    }
    let targets = receivers.iter().map(|r| r.node);
    let tree = match intent.way {
        Way::Paths => Tree::build(network, intent.allocation.tree_id, source.node, targets),
        Way::EarlierPaths => Tree::covering(network, intent.allocation.tree_id, source.node, targets),
        Way::Ports(uplinks) => Tree::keep(network, source.node, targets, uplinks)
            .ok_or_else(|| receivers.first().map_or(source.node, |r| r.node)),
    };
    let tree = match tree {
        Ok(tree) => tree,
        Err(node) => return Ok(Planned::NoWay(no_way(network, source.node, node))),
    };
    let edges = by_node(&receivers);
    let receivers_by_edge = behind(network, &tree, &edges);
    let moves = intent.before.is_some_and(|p| has_moved(&p.receivers_by_edge, &receivers_by_edge, intent.epoch));
    let moved = if moves { intent.epoch } else { intent.moved };
    let intent = Intent { moved, ..intent };
    let (epoch, is_open) = (intent.epoch, intent.open);
    let planning = Planning { network, tree: &tree, behind: &receivers_by_edge, epoch, moved, is_open };
    let before = intent.before.map(|plan| &plan.receivers_by_edge);
    let epochs = match intent.epochs {
        Some(known) => known.next(&planning, before, receivers.iter().map(|r| &r.joined)),
        None => Epochs::of_tree(&planning),
    };
    let epochs = Arc::new(epochs);
    let multicast = multicast(common.addresses, network, &intent, &tree)?;
    let planner = Planner {
        addresses: common.addresses,
        signed: common.signed,
        network,
        intent,
        source: &source,
        edges,
        tree: &tree,
        epochs: &epochs,
        multicast,
    };
    planner.check_branches()?;
    let (decision, edges) = planner.encoding()?;
    let mut programs = Vec::with_capacity(tree.nodes.len());
    for at in 0..tree.nodes.len() {
        programs.push(planner.program(at, &decision, &edges)?);
    }
    let encoding = planner.report(decision, &edges)?;
    Ok(Planned::Live(GroupPlan { tree, encoding, receivers_by_edge, moved, epochs }, programs))
}

fn no_way(network: &Network, from: NodeIx, to: NodeIx) -> String {
    let (from_name, to_name) = (network.name(from), network.name(to));
    let broken = network.broken_between(from, to);
    let left = network.left_between(from, to, broken.is_none()).map(|node| network.name(node));
    if let (None, Some(left)) = (&broken, left) {
        return format!(
            "nothing leads from node {from_name} to node {to_name} but over node {left}, which is retired and forwards nothing; the group \
             continues when another way is there, or when {left} is enrolled again and its agent is connected"
        );
    }
    let link = broken.map_or(String::new(), |link| format!(" {link}"));
    let left = left.map_or(String::new(), |left| {
        format!(" (the way over node {left} is none: it is retired and forwards nothing)")
    });
    format!(
        "no working link leads from node {from_name} to node {to_name}: link{link} has no carrier, an interface of it is missing, or it \
         loses every packet; the group continues when it is back{left}"
    )
}

fn unknown_host(host: &str) -> DomainError {
    DomainError::field("spec.host", format!("unknown host {host:?}: declare it in the topology first"))
}

fn place(network: &Network, member: &Member) -> Result<Placed, DomainError> {
    let (since, late, start) = (member.since, member.late, member.start);
    let member = &member.spec;
    let at = network.host(&member.host).ok_or_else(|| unknown_host(&member.host))?;
    let address = member.address.unwrap_or(at.address);
    Ok(Placed {
        node: at.node,
        port: at.port,
        link: at.link,
        address,
        joined: Joined { address, since, late },
        start,
        qpn: member.qpn,
        memory: member.memory,
        accepts_roce: at.accepts_roce,
    })
}

fn tight_link(network: &Network, link: usize) -> TightLink {
    let decl = &network.spec.links[link];
    TightLink { label: decl.label(), mtu: decl.mtu }
}

fn by_node(receivers: &[Placed]) -> BTreeMap<NodeIx, Vec<&Placed>> {
    let mut edges: BTreeMap<NodeIx, Vec<&Placed>> = BTreeMap::new();
    for r in receivers {
        edges.entry(r.node).or_default().push(r);
    }
    edges
}

/// The receivers behind every child of the tree.
fn behind(network: &Network, tree: &Tree, edges: &BTreeMap<NodeIx, Vec<&Placed>>) -> ReceiversByEdge {
    let own = |t: &TreeNode| edges.get(&t.node).map_or(&[][..], Vec::as_slice);
    let mut counts: Vec<usize> = tree.nodes.iter().map(|t| own(t).len()).collect();
    // Parents come before their children.
    for (child, t) in tree.nodes.iter().enumerate().rev() {
        let count = counts[child];
        t.parent.into_iter().for_each(|up| counts[up.position] += count);
    }
    let with_own = |(t, count): (&TreeNode, &usize)| {
        let mut receivers = Vec::with_capacity(*count);
        receivers.extend(own(t).iter().map(|r| r.joined));
        receivers
    };
    let mut at: Vec<Vec<Joined>> = tree.nodes.iter().zip(&counts).map(with_own).collect();
    let mut out = BTreeMap::new();
    for (child, t) in tree.nodes.iter().enumerate().rev() {
        let Some(up) = t.parent else { continue };
        let mut receivers = std::mem::take(&mut at[child]);
        // A stable sort uses that those of each child, and the node's own, are in order.
        receivers.sort();
        at[up.position].extend(&receivers);
        out.insert((network.id(tree.nodes[up.position].node), network.id(t.node)), receivers);
    }
    out
}

/// The (S, G) of a group that uses IP multicast replication. A group's number exists as long as the group.
fn multicast(
    addresses: &AddressPlan,
    network: &Network,
    intent: &Intent<'_>,
    tree: &Tree,
) -> Result<Option<Multicast>, DomainError> {
    if intent.spec.replication == Replication::Srv6 {
        return Ok(None);
    }
    let index = u64::from(intent.allocation.group_id.get());
    let group = addresses.multicast(index).ok_or_else(|| {
        DomainError::Limit(format!(
            "addressing.multicast_prefix {} has no address number {index} for group {}: use a shorter prefix, or replication srv6",
            addresses.multicast_prefix, intent.name
        ))
    })?;
    Ok(Some(Multicast { source: addresses.node_address(network.id(tree.nodes[0].node)), group }))
}

struct Planner<'a> {
    addresses: &'a AddressPlan,
    signed: bool,
    network: &'a Network,
    intent: Intent<'a>,
    source: &'a Placed,
    /// Receivers by the node that they are attached to.
    edges: BTreeMap<NodeIx, Vec<&'a Placed>>,
    tree: &'a Tree,
    epochs: &'a Epochs,
    /// Set for IP multicast between nodes.
    multicast: Option<Multicast>,
}

impl Planner<'_> {
    fn receivers(&self, node: NodeIx) -> &[&Placed] {
        self.edges.get(&node).map_or(&[], Vec::as_slice)
    }

    fn check_branches(&self) -> Result<(), DomainError> {
        for t in &self.tree.nodes {
            let branches = t.children.len() + self.receivers(t.node).len();
            if branches > MAX_BRANCHES {
                let (node, group) = (self.network.name(t.node), self.intent.name);
                return Err(DomainError::Limit(format!(
                    "node {node} would have {branches} branches of group {group}, a node serves at most {MAX_BRANCHES} per group: spread the receivers over more nodes"
                )));
            }
        }
        Ok(())
    }

    /// The decision, and the tree positions of the edges in the same order.
    fn encoding(&self) -> Result<(Decision, Vec<usize>), FieldError> {
        let edges: Vec<usize> =
            (0..self.tree.nodes.len()).filter(|&at| !self.receivers(self.tree.nodes[at].node).is_empty()).collect();
        let counts: Vec<usize> = edges.iter().map(|&at| self.receivers(self.tree.nodes[at].node).len()).collect();
        let links = self.tree.nodes.iter().filter_map(|t| Some(t.parent?.link));
        let tightest = links.min_by_key(|&l| (self.network.spec.links[l].mtu, l)).map(|l| tight_link(self.network, l));
        let spec = self.intent.spec;
        Ok((
            decide(&Question {
                choice: spec.encoding,
                path_mtu: spec.path_mtu,
                edges: &counts,
                tightest,
                signed: self.signed,
            })?,
            edges,
        ))
    }

    fn program(&self, at: usize, decision: &Decision, edges: &[usize]) -> Result<GroupProgram, DomainError> {
        let Intent { name, spec, allocation, .. } = self.intent;
        let t = &self.tree.nodes[at];
        // Edges are in the tree's order.
        let provisioned = edges.binary_search(&at).is_ok_and(|e| !decision.in_band[e]);
        Ok(GroupProgram {
            group_id: allocation.group_id,
            name: name.to_owned(),
            epoch: self.epochs.of(self.network.id(t.node)),
            tree_id: allocation.tree_id,
            proxy: self.proxy()?,
            designated_qpn: allocation.session.designated_qpn,
            start_psn: allocation.session.start_psn,
            source: SourceQp {
                address: self.source.address,
                qpn: self.source.qpn,
                accepts_roce: self.source.accepts_roce,
            },
            replication_sid: self.replication_sid(at),
            multicast: self.multicast,
            headend: if t.parent.is_none() { Some(self.headend(decision, edges)?) } else { None },
            headend_address: self.tree.nodes.first().map(|root| self.address(root.node)),
            upstream: self.upstream(t)?,
            alternate_upstream: None,
            branches: self.branches(t),
            receivers_provisioned: provisioned,
            write_base_va: WRITE_BASE_VA,
            write_rkey: allocation.session.write_rkey,
            params: AggregationParams {
                cnp_window: spec.cnp_window,
                stall_after: spec.stall_after,
                ..AggregationParams::default()
            },
            branch_metrics: self.intent.branch_metrics,
            largest_packet: inner_bytes(spec.path_mtu) as u32,
        })
    }

    /// A group's Proxy Address exists as long as the group: its index is allocated within the prefix.
    fn proxy(&self) -> Result<Ipv6Addr, DomainError> {
        let index = self.intent.allocation.proxy_index;
        self.addresses.proxy(index).ok_or_else(|| {
            DomainError::field(
                "addressing.proxy_prefix",
                format!(
                    "{} has no address number {index}, which group {} holds",
                    self.addresses.proxy_prefix, self.intent.name
                ),
            )
        })
    }

    fn address(&self, node: NodeIx) -> Ipv6Addr {
        self.addresses.node_address(self.network.id(node))
    }

    /// RFC 9524, unless the kernel replicates: the root and every node that replicates to other nodes have a
    /// Replication-SID; an edge needs only End.MT.
    fn replication_sid(&self, at: usize) -> Option<Ipv6Addr> {
        let t = &self.tree.nodes[at];
        let replicates = self.multicast.is_none() && (t.parent.is_none() || !t.children.is_empty());
        replicates.then(|| self.addresses.replication(self.network.id(t.node), self.intent.allocation.tree_id))
    }

    /// The SID that copies to a tree node are addressed to; with IP multicast, the same for all nodes.
    fn sid(&self, at: usize) -> Ipv6Addr {
        if let Some(m) = self.multicast {
            return m.group;
        }
        self.replication_sid(at).unwrap_or_else(|| self.addresses.end_mt(self.network.id(self.tree.nodes[at].node)))
    }

    fn segments(&self) -> Result<Vec<Ipv6Addr>, DomainError> {
        let root = self.network.id(self.tree.nodes[0].node);
        let multicast = self.multicast.map(|m| m.group);
        Ok(self.addresses.segments(self.proxy()?, multicast, root, self.intent.allocation.tree_id))
    }

    fn headend(&self, decision: &Decision, edges: &[usize]) -> Result<Headend, DomainError> {
        let in_band = edges
            .iter()
            .zip(&decision.in_band)
            .filter(|(_, in_band)| **in_band)
            .map(|(at, _)| self.tree.nodes[*at].node);
        let tlvs = in_band.flat_map(|node| {
            let edge = self.address(node);
            let list =
                |part: &[&Placed]| EndMtList { edge, receivers: part.iter().map(|r| (r.address, r.qpn)).collect() };
            self.receivers(node).chunks(MAX_RECEIVERS_PER_TLV).map(list).collect::<Vec<_>>()
        });
        Ok(Headend {
            source_port: self.source.port,
            segments: self.segments()?,
            tlvs: tlvs.collect(),
            max_flight: self.intent.spec.max_flight,
            open: self.intent.open,
            held: self.intent.held,
        })
    }

    fn upstream(&self, t: &TreeNode) -> Result<Upstream, DomainError> {
        let Some(up) = t.parent else {
            let address = self.source.address;
            return Ok(Upstream {
                source_address: self.proxy()?,
                destination: address,
                dest_qp: self.source.qpn,
                port: self.source.port,
                next_hop: address,
            });
        };
        let parent = self.tree.nodes[up.position].node;
        Ok(Upstream {
            source_address: self.address(t.node),
            destination: self.address(parent),
            dest_qp: self.intent.allocation.session.designated_qpn,
            port: up.port,
            next_hop: self.addresses.link_local(self.network.id(parent), up.parent_port),
        })
    }

    /// Child nodes in the tree's order, then receivers in the order of their addresses.
    fn branches(&self, t: &TreeNode) -> Vec<Branch> {
        let nodes = t.children.iter().filter_map(|&at| {
            let child = &self.tree.nodes[at];
            let up = child.parent?;
            Some(Branch {
                address: self.address(child.node),
                port: up.parent_port,
                next_hop: self.addresses.link_local(self.network.id(child.node), up.port),
                kind: BranchKind::Node { sid: self.sid(at) },
                // Unconfirmed, whichever receivers are behind it: a child that adopts its program earlier than its parent starts late
                // receivers with copies of a former branch, and the parent must not count them from a later message on.
                at_boundary: false,
                start: None,
                since: self.epochs.since(self.network.id(child.node)),
                standby: false,
                lost: false,
            })
        });
        // With another source all receivers start over.
        let is_late = |r: &Placed| r.joined.late && r.joined.since > self.source.joined.since;
        let receivers = self.receivers(t.node).iter().map(|r| Branch {
            address: r.address,
            port: r.port,
            next_hop: r.address,
            kind: BranchKind::Receiver { qpn: r.qpn, memory: r.memory },
            at_boundary: is_late(r),
            start: r.start.filter(|_| is_late(r)),
            since: r.joined.since,
            standby: false,
            // Where another edge in between counted it, and from which message on, is not known.
            lost: is_late(r) && r.start.is_none() && self.intent.displaced > r.joined.since,
        });
        let mut branches = Vec::with_capacity(t.children.len() + receivers.len());
        branches.extend(nodes.chain(receivers));
        branches
    }

    fn report(&self, decision: Decision, edges: &[usize]) -> Result<EncodingReport, DomainError> {
        let names = |wanted: bool| {
            let chosen = edges.iter().zip(&decision.in_band).filter(move |(_, in_band)| **in_band == wanted);
            chosen.map(|(at, _)| self.network.name(self.tree.nodes[*at].node).to_owned()).collect()
        };
        Ok(EncodingReport {
            mode: decision.mode,
            srh: Octets(decision.srh_bytes as u64),
            overhead: Octets(decision.overhead_bytes() as u64),
            segments: self.segments()?,
            in_band_edges: names(true),
            provisioned_edges: names(false),
            reason: decision.reason,
        })
    }
}
