// SPDX-License-Identifier: Apache-2.0
//! From a group, its members and the network to the group's tree, and to what the programs of its nodes follow from.
//!
//! See the decisions page for which node encapsulates (2.1).
//!
//! With IP multicast between nodes the tree, its branches and the reverse path are the same; only the first SID differs.

use std::net::Ipv6Addr;
use std::sync::Arc;

use canopy_model::FieldError;
use canopy_model::addressing::AddressPlan;
use canopy_model::group::{EncodingMode, GroupSpec, Replication};
use canopy_model::ids::NodeId;
use canopy_model::member::Role;
use canopy_model::node_spec::{AggregationParams, GroupProgram, Headend, MAX_BRANCHES, Multicast, SourceQp, Upstream};
use canopy_model::topology::Endpoint;
use canopy_units::Octets;

use crate::alloc::Allocation;
use crate::content::{Content, Edge, Receiver};
use crate::encoding::{Decision, EncodingReport, Question, TightLink, check_host_link, decide, inner_bytes};
use crate::epochs::{Epochs, Planning};
use crate::error::DomainError;
use crate::member::{Member, Members};
use crate::receivers_by_edge::{ReceiversByEdge, has_moved};
use crate::topology::{Network, NodeIx};
use crate::tree::Tree;

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
    /// The tree in force, over the same network.
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

/// A tree, how receiver lists travel over it, and what else the programs of its nodes follow from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GroupPlan {
    pub(crate) tree: Tree,
    pub(crate) encoding: Encoding,
    pub(crate) content: Content,
    /// Epoch in which receivers last moved.
    pub(crate) moved: u32,
    pub(crate) epochs: Epochs,
}

/// The encoding of a plan: see [`EncodingReport`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Encoding {
    mode: EncodingMode,
    reason: String,
    srh: Octets,
    overhead: Octets,
}

impl GroupPlan {
    /// The edges whose lists are in End.MT TLVs, or those that hold theirs as provisioned state, in the tree's order.
    pub(crate) fn edges(&self, in_band: bool) -> impl Iterator<Item = NodeIx> {
        let edges = self.content.edges.iter().filter(move |edge| edge.in_band == in_band);
        edges.map(|edge| self.tree.node(edge.at()).node)
    }

    /// How receiver lists travel over the tree, for people.
    pub(crate) fn encoding_report(&self, network: &Network) -> EncodingReport {
        let Encoding { mode, reason, srh, overhead } = self.encoding.clone();
        let names = |in_band| self.edges(in_band).map(|node| network.name(node).to_owned()).collect();
        EncodingReport {
            mode,
            reason,
            srh,
            overhead,
            segments: self.content.headend.segments.clone(),
            in_band_edges: names(true),
            provisioned_edges: names(false),
        }
    }
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
    /// There is a tree.
    Live(Arc<GroupPlan>),
}

/// A member and the node it is attached to.
struct Placed {
    node: NodeIx,
    link: usize,
    accepts_roce: bool,
    receiver: Receiver,
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
    let with_role = |role| intent.members.iter().filter(present).filter(move |m| m.role == role);
    let source = with_role(Role::Source).next();
    let (Some(source), true) = (source, with_role(Role::Receiver).next().is_some()) else {
        let ended = intent.members.iter().any(|m| !present(&m));
        return Ok(Planned::Waiting(match (source, ended) {
            (None, false) => "waiting for a source to join",
            (None, true) => "the source's session has ended: waiting for a source, and for receivers to join again",
            (Some(_), false) => "waiting for receivers to join",
            (Some(_), true) => {
                "waiting for receivers: those of the session before have to reset their queue pairs and join again"
            }
        }));
    };
    let network = network.ok_or_else(|| unknown_host(&source.host))?;
    let source = place(network, source)?;
    let mut receivers = Vec::with_capacity(intent.members.len());
    for m in with_role(Role::Receiver) {
        receivers.push(place(network, m)?);
    }
    receivers.sort_unstable_by_key(|r| r.receiver.address);
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
    let multicast = multicast(common.addresses, network, &intent, &tree)?;
    // Those of a node stay in the order of their addresses.
    receivers.sort_by_key(|r| r.node);
    let mut edges = edges(&tree, &receivers);
    check_branches(network, &intent, &tree, &edges)?;
    let decision = decision(common, network, &intent, &tree, &edges)?;
    edges.iter_mut().zip(&decision.in_band).for_each(|(edge, in_band)| edge.in_band = *in_band);
    let proxy = proxy(common.addresses, &intent)?;
    let receivers: Box<[Receiver]> = receivers.into_iter().map(|r| r.receiver).collect();

    let root = network.id(tree.root());
    let group = multicast.map(|m| m.group);
    let headend = Headend {
        source_port: source.receiver.port,
        segments: common.addresses.segments(proxy, group, root, intent.allocation.tree_id),
        tlvs: Vec::new(),
        max_flight: intent.spec.max_flight,
        open: intent.open,
        held: intent.held,
    };
    let content = Content {
        common: of_all_nodes(common.addresses, root, &intent, &source, proxy, multicast),
        headend,
        source_since: source.receiver.member.since,
        displaced: intent.displaced,
        receivers,
        edges: edges.into(),
    };

    let behind = ReceiversByEdge::of(network, &tree, &content);
    let before = intent.before.map(|plan| ReceiversByEdge::of(network, &plan.tree, &plan.content));
    let moves = before.as_ref().is_some_and(|before| has_moved(before, &behind, intent.epoch));
    let moved = if moves { intent.epoch } else { intent.moved };
    let (epoch, is_open) = (intent.epoch, intent.open);
    let planning = Planning { network, tree: &tree, behind: &behind, epoch, moved, is_open };
    let epochs = match intent.epochs {
        Some(known) => known.next(&planning, before.as_ref(), content.receivers.iter().map(Receiver::joined)),
        None => Epochs::of_tree(&planning),
    };

    let (srh, overhead) = (Octets(decision.srh_bytes as u64), Octets(decision.overhead_bytes() as u64));
    let encoding = Encoding { mode: decision.mode, reason: decision.reason, srh, overhead };
    Ok(Planned::Live(Arc::new(GroupPlan { tree, encoding, content, moved, epochs })))
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

fn place(network: &Network, member: &Arc<Member>) -> Result<Placed, DomainError> {
    let at = network.host(&member.host).ok_or_else(|| unknown_host(&member.host))?;
    let address = member.address.unwrap_or(at.address);
    Ok(Placed {
        node: at.node,
        link: at.link,
        accepts_roce: at.accepts_roce,
        receiver: Receiver { address, port: at.port, member: Arc::clone(member) },
    })
}

fn tight_link(network: &Network, link: usize) -> TightLink {
    let decl = &network.spec.links[link];
    TightLink { label: decl.label(), mtu: decl.mtu }
}

/// The nodes of the tree that have receivers; in-band or not is decided later. `receivers` are in the order of their nodes.
fn edges(tree: &Tree, receivers: &[Placed]) -> Vec<Edge> {
    let edge = |(at, node): (usize, NodeIx)| {
        let first = receivers.partition_point(|r| r.node < node);
        let count = receivers[first..].iter().take_while(|r| r.node == node).count();
        (count > 0).then(|| Edge::new(at, first..first + count))
    };
    tree.nodes().map(|t| t.node).enumerate().filter_map(edge).collect()
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
    Ok(Some(Multicast { source: addresses.node_address(network.id(tree.root())), group }))
}

fn check_branches(network: &Network, intent: &Intent<'_>, tree: &Tree, edges: &[Edge]) -> Result<(), DomainError> {
    let mut edges = edges.iter().peekable();
    for (at, t) in tree.nodes().enumerate() {
        let receivers = edges.next_if(|edge| edge.at() == at).map_or(0, |edge| edge.receivers().len());
        let branches = t.children().len() + receivers;
        if branches > MAX_BRANCHES {
            let (node, group) = (network.name(t.node), intent.name);
            return Err(DomainError::Limit(format!(
                "node {node} would have {branches} branches of group {group}, a node serves at most {MAX_BRANCHES} per group: spread the receivers over more nodes"
            )));
        }
    }
    Ok(())
}

/// For each edge whether its list is in-band.
fn decision(
    common: Common<'_>,
    network: &Network,
    intent: &Intent<'_>,
    tree: &Tree,
    edges: &[Edge],
) -> Result<Decision, FieldError> {
    let counts: Vec<usize> = edges.iter().map(|edge| edge.receivers().len()).collect();
    let links = tree.nodes().filter_map(|t| Some(t.parent?.link));
    let tightest = links.min_by_key(|&l| (network.spec.links[l].mtu, l)).map(|l| tight_link(network, l));
    decide(&Question {
        choice: intent.spec.encoding,
        path_mtu: intent.spec.path_mtu,
        edges: &counts,
        tightest,
        signed: common.signed,
    })
}

/// A group's Proxy Address exists as long as the group: its index is allocated within the prefix.
fn proxy(addresses: &AddressPlan, intent: &Intent<'_>) -> Result<Ipv6Addr, DomainError> {
    let index = intent.allocation.proxy_index;
    addresses.proxy(index).ok_or_else(|| {
        DomainError::field(
            "addressing.proxy_prefix",
            format!("{} has no address number {index}, which group {} holds", addresses.proxy_prefix, intent.name),
        )
    })
}

/// What all programs have in common; the rest is that of the root, without its branches.
fn of_all_nodes(
    addresses: &AddressPlan,
    root: NodeId,
    intent: &Intent<'_>,
    source: &Placed,
    proxy: Ipv6Addr,
    multicast: Option<Multicast>,
) -> GroupProgram {
    let Intent { name, spec, allocation, .. } = *intent;
    let Receiver { address, port, ref member } = source.receiver;
    let qpn = member.qpn;
    GroupProgram {
        group_id: allocation.group_id,
        name: name.to_owned(),
        epoch: intent.epoch,
        tree_id: allocation.tree_id,
        proxy,
        designated_qpn: allocation.session.designated_qpn,
        start_psn: allocation.session.start_psn,
        source: SourceQp { address, qpn, accepts_roce: source.accepts_roce },
        replication_sid: None,
        multicast,
        headend: None,
        headend_address: Some(addresses.node_address(root)),
        upstream: Upstream { source_address: proxy, destination: address, dest_qp: qpn, port, next_hop: address },
        alternate_upstream: None,
        branches: Vec::new(),
        receivers_provisioned: false,
        write_base_va: WRITE_BASE_VA,
        write_rkey: allocation.session.write_rkey,
        params: AggregationParams {
            cnp_window: spec.cnp_window,
            stall_after: spec.stall_after,
            ..AggregationParams::default()
        },
        branch_metrics: intent.branch_metrics,
        largest_packet: inner_bytes(spec.path_mtu) as u32,
    }
}
