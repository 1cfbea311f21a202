// SPDX-License-Identifier: Apache-2.0
//! The whole desired state of one node. The controller plans, the agent executes: no field leaves the agent a choice.

use std::collections::BTreeSet;
use std::net::Ipv6Addr;
use std::sync::Arc;
use std::time::Duration;

use canopy_units::{Octets, Rate};
use ipnet::Ipv6Net;

use crate::addressing::AddressPlan;
use crate::host_programs::HostPrograms;
use crate::ids::{Generation, GroupId, NodeId, PortIndex, Psn, Qpn, TreeId};
use crate::member::{LateStart, MemoryRegion};
use crate::programs::Programs;
use crate::routes::Routes;
use crate::srh_hmac::SrhHmac;

/// Most branches of one group at one node.
pub const MAX_BRANCHES: usize = 128;

/// Most receivers in one End.MT TLV: 22 + 20n octets must fit the 8-bit Length (decisions 2.6).
pub const MAX_RECEIVERS_PER_TLV: usize = 11;

/// Most ports that one node's IP multicast routes can use, over all groups: Linux has 32 multicast interfaces (MAXMIFS).
pub const MAX_MULTICAST_PORTS: usize = 32;

/// The desired state of one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeSpec {
    /// Leader's term; a lower one than the highest accepted is refused.
    pub term: u64,
    /// Grows with every change of this node's spec.
    pub generation: Generation,
    /// What does not depend on groups. Shared, because most changes of a spec are of groups.
    pub base: Arc<NodeBase>,
    /// One program per group that this node takes part in.
    pub groups: Programs,
}

impl NodeSpec {
    /// The base, to be changed; a copy of it while it is shared.
    pub fn base_mut(&mut self) -> &mut NodeBase {
        Arc::make_mut(&mut self.base)
    }
}

/// Identity, ports and unicast routes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeBase {
    /// Name in the topology.
    pub name: String,
    /// Number in the locator.
    pub node_id: NodeId,
    /// The node's own address.
    pub node_address: Ipv6Addr,
    /// uN, the node's locator.
    pub un: Ipv6Net,
    /// End.MT SID.
    pub end_mt: Ipv6Addr,
    /// Ports in index order.
    pub ports: Vec<Port>,
    /// Unicast routes to other nodes' locators and addresses and to hosts' prefixes.
    pub routes: Routes,
    /// Prefixes of the SRv6 domain, which packets from outside must not be addressed to (decisions 6, RFC 8754 section 5.1).
    pub addressing: AddressPlan,
    /// Keys of the SRH HMAC TLV; `None` = headends send none and nodes ignore it.
    pub hmac: Option<SrhHmac>,
    /// Links that path programs lead over, in the order of their ports (decisions 5.1). Empty from a controller that does not know path SIDs.
    pub path_links: Vec<PathLink>,
    /// Path programs of hosts; `None` = no host of the domain may send any (decisions 5.8).
    pub host_programs: Option<HostPrograms>,
}

/// A link that path programs lead over: by the uA of its port, whose number is the port's, and perhaps by a uN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathLink {
    /// The port.
    pub port: PortIndex,
    /// The node at the far end, if this is the only link that leads there: its uN leads over it.
    pub un: Option<NodeId>,
}

/// A port and what is at its far end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Port {
    /// Index on this node.
    pub index: PortIndex,
    /// Interface name.
    pub name: String,
    /// IPv6 MTU the interface must have at least, bytes.
    pub mtu: u32,
    /// Link-local address of this end.
    pub link_local: Ipv6Addr,
    /// A neighbouring node, or a host.
    pub peer: Peer,
    /// Queue thresholds of the port's egress; `None` where the rate is not known, or the round-trip time to another node.
    pub thresholds: Option<PortThresholds>,
}

/// Queue thresholds of an egress port, and what a node needs beside them (draft-tian-ccwg-long-haul-cnp-00 section 5.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortThresholds {
    /// K_min, below K_max: above it, packets are marked CE.
    pub k_min: Octets,
    /// K_max: above it, Long-haul CNPs.
    pub k_max: Octets,
    /// RTT_est when these were computed, 1 ns ..= 10 s; towards a host without a known one, the time in which K_max is sent.
    pub rtt: Duration,
    /// R_port, 1 bit/s and more.
    pub port_rate: Rate,
    /// V_ecn in packets per thousand, 1 ..= 1000: a higher ECN marking rate is second-level congestion.
    pub v_ecn_permille: u16,
    /// V_growth in octets per millisecond: a queue that grows faster is second-level congestion.
    pub v_growth_per_ms: Octets,
}

impl PortThresholds {
    /// V_growth where none is configured: the queue grows from K_min to K_max in one RTT_est. Faster than that, ECN marks come too late.
    pub fn default_v_growth(k_min: Octets, k_max: Octets, rtt: Duration) -> Octets {
        let room = u128::from(k_max.saturating_sub(k_min).get()) * 1_000_000;
        u64::try_from(room / rtt.as_nanos().max(1)).map_or(Octets::MAX, Octets)
    }
}

/// The far end of a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Peer {
    /// Another node, reached at its link-local address.
    Node {
        /// Its name.
        name: String,
        /// Its link-local address on the link.
        link_local: Ipv6Addr,
    },
    /// A host.
    Host {
        /// Its name.
        name: String,
        /// Its prefix, routed to the port as on-link.
        prefix: Ipv6Net,
        /// Its default address.
        address: Ipv6Addr,
        /// The gateway address that this node answers for on the port.
        gateway: Ipv6Addr,
    },
}

/// A group's part at one node: an edge, transit, headend, or several of these at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupProgram {
    /// Compact identifier.
    pub group_id: GroupId,
    /// Name, for people and metrics.
    pub name: String,
    /// Bumped whenever the tree or its membership changes.
    pub epoch: u32,
    /// Replication tree.
    pub tree_id: TreeId,
    /// Proxy Address.
    pub proxy: Ipv6Addr,
    /// Designated QPN.
    pub designated_qpn: Qpn,
    /// PSN of the first packet: the initial AckPSN is this minus one.
    pub start_psn: Psn,
    /// The registered source's address and QPN; edges need it for the ICRC difference.
    pub source: SourceQp,
    /// RFC 9524 Replication-SID instantiated here; `None` at a node that only runs End.MT.
    pub replication_sid: Option<Ipv6Addr>,
    /// Child nodes get their copies by the kernel's IP multicast rather than one by one (decisions 2.3).
    pub multicast: Option<Multicast>,
    /// Set at the headend.
    pub headend: Option<Headend>,
    /// The headend's node address: encapsulated packets of the group have no other source (decisions 6.3). `None` = not known, any
    /// node's.
    pub headend_address: Option<Ipv6Addr>,
    /// Where feedback goes.
    pub upstream: Upstream,
    /// Port of the node that is about to become the parent: data is taken from there too.
    pub alternate_upstream: Option<PortIndex>,
    /// Where data goes and feedback comes from; one branch per child node or receiver.
    pub branches: Vec<Branch>,
    /// End.MT packets that carry no TLV for this edge use the provisioned receivers.
    pub receivers_provisioned: bool,
    /// Virtual address that the source's WRITEs count from.
    pub write_base_va: u64,
    /// R_Key that the source's WRITEs must carry.
    pub write_rkey: u32,
    /// Aggregation constants.
    pub params: AggregationParams,
    /// The agent exports metrics of the group's branches, too.
    pub branch_metrics: bool,
    /// Octets of the largest data packet as a receiver gets it, from its IPv6 header on. 0 = not known: hosts of stalled receivers are
    /// not probed.
    pub largest_packet: u32,
}

/// The (S, G) of a group that nodes forward as native IP multicast. G is the first SID, an End.MT SID at every edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Multicast {
    /// S, the outer Source Address: the headend's node address.
    pub source: Ipv6Addr,
    /// G, the outer Destination Address: the group's ff3e:: address.
    pub group: Ipv6Addr,
}

/// The kernel's part of a group at one node: a multicast route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MulticastRoute {
    /// What is routed.
    pub flow: Multicast,
    /// Port that packets arrive on: towards the parent, or the source's at the headend.
    pub input: PortIndex,
    /// Ports of the child nodes; not empty.
    pub outputs: BTreeSet<PortIndex>,
}

impl GroupProgram {
    /// The Segment List of the group's encapsulated packets in wire order, known at every node: the Proxy Address and the tree's first
    /// SID. `None` where the headend is not known.
    pub fn segments(&self, addressing: &AddressPlan) -> Option<Vec<Ipv6Addr>> {
        if let Some(headend) = &self.headend {
            return Some(headend.segments.clone());
        }
        let headend = addressing.node_of(self.headend_address?)?;
        Some(addressing.segments(self.proxy, self.multicast.map(|m| m.group), headend, self.tree_id))
    }

    /// The multicast route that serves the child nodes. `None` in SRv6 replication, and at a node without child nodes.
    pub fn multicast_route(&self) -> Option<MulticastRoute> {
        let nodes = self.branches.iter().filter(|b| matches!(b.kind, BranchKind::Node { .. }));
        let route = MulticastRoute {
            flow: self.multicast?,
            input: self.upstream.port,
            outputs: nodes.map(|b| b.port).collect(),
        };
        (!route.outputs.is_empty()).then_some(route)
    }
}

/// The source's end of its RC connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SourceQp {
    /// Source's address.
    pub address: Ipv6Addr,
    /// Source's QPN.
    pub qpn: Qpn,
    /// Its endpoint is registered as accepting Long-haul CNPs in the RoCEv2 format (decisions 4.5).
    pub accepts_roce: bool,
}

/// Encapsulation at the headend (decisions 2.1, 2.2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Headend {
    /// Port where the source's packets arrive.
    pub source_port: PortIndex,
    /// Segment List in wire order: `[0]` the Proxy Address, `[1]` the tree's first SID.
    pub segments: Vec<Ipv6Addr>,
    /// End.MT TLVs, in order; each at most 11 receivers.
    pub tlvs: Vec<EndMtList>,
    /// F, packets, 1 ..= [`MAX_FLIGHT`](crate::group::MAX_FLIGHT): the first PSN of a session is at most F after the start PSN, and no
    /// packet raises the highest PSN by more (decisions 3.11).
    pub max_flight: u32,
    /// Data of the source is taken (decisions 3.13). False until every node has confirmed its program of the source's session.
    pub open: bool,
    /// Data of the source is dropped although the group is open: no receiver gets it, because all joined late and none has answered its
    /// probe yet. The headend may have forwarded data before.
    pub held: bool,
}

/// One End.MT TLV's content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndMtList {
    /// Edge Node Address.
    pub edge: Ipv6Addr,
    /// Receivers behind that edge.
    pub receivers: Vec<(Ipv6Addr, Qpn)>,
}

/// The next hop of aggregated feedback and the fields it is rewritten to (decisions 3.1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upstream {
    /// Source Address written into feedback: this node's address, or the Proxy Address on the last hop.
    pub source_address: Ipv6Addr,
    /// Destination Address: the parent's node address, or the source.
    pub destination: Ipv6Addr,
    /// DestQP: the Designated QPN, or the source's QPN on the last hop.
    pub dest_qp: Qpn,
    /// Output port.
    pub port: PortIndex,
    /// On-link neighbour: the parent's link-local address, or the source itself.
    pub next_hop: Ipv6Addr,
}

/// A downstream branch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Branch {
    /// Address that the branch's feedback comes from: the child's node address, or the receiver's.
    /// Identifies the branch within (node, group).
    pub address: Ipv6Addr,
    /// Port where it lives.
    pub port: PortIndex,
    /// On-link neighbour on that port: the child's link-local address, or the receiver itself.
    pub next_hop: Ipv6Addr,
    /// What kind of branch.
    pub kind: BranchKind,
    /// No receiver behind it was in the group before data flowed: it starts at the next message boundary. Otherwise it may
    /// hold any part of the data, and the node sends no ACK upstream until the branch is confirmed.
    pub at_boundary: bool,
    /// Where a receiver that joined late has started; `None` before that, and for all others. A node that has lost its state
    /// continues from it (decisions 3.13).
    pub start: Option<LateStart>,
    /// Epoch that brought the branch in or, behind a child node, moved receivers there: the child's feedback from an earlier
    /// epoch is discarded.
    pub since: u32,
    /// A child node that is about to move here: it gets copies, and its feedback still goes to its present parent
    /// (decisions 3.9, make before break).
    pub standby: bool,
    /// A late receiver that may have started where it is no longer attached, or in a tree that is gone. A node that has no state of it
    /// can neither continue nor start it: it reports it as lost, and acknowledges nothing until it has been removed (decisions 3.13).
    pub lost: bool,
}

/// A branch is a child node or a receiver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BranchKind {
    /// A child node: the outer Destination Address becomes `sid`.
    Node {
        /// The child's Replication-SID, its End.MT SID where it is only an edge, or the group's ff3e:: address.
        sid: Ipv6Addr,
    },
    /// A receiver: the copy is addressed to `Branch::address`.
    Receiver {
        /// Receiver's QPN.
        qpn: Qpn,
        /// Receiver's registered memory, if any.
        memory: Option<MemoryRegion>,
    },
}

/// Constants of the reverse path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AggregationParams {
    /// How far below the minimum a PSN may lie and still count as a re-acknowledgement, packets, < 2^22.
    pub window: u32,
    /// Shortest distance between two repeated upstream ACKs.
    pub reack_interval: Duration,
    /// Identical NAKs within this time are merged (one RTT).
    pub nak_merge: Duration,
    /// CNP window T; not 0.
    pub cnp_window: Duration,
    /// Shortest distance between two counted CNPs of one branch.
    pub cnp_min_interval: Duration,
    /// Time without progress after which a branch that holds the group up counts as stalled; not 0.
    pub stall_after: Duration,
}

impl Default for AggregationParams {
    fn default() -> Self {
        Self {
            window: (1 << 22) - 1,
            reack_interval: Duration::from_micros(200),
            nak_merge: Duration::from_micros(500),
            cnp_window: Duration::from_millis(1),
            cnp_min_interval: Duration::from_micros(4),
            stall_after: Duration::from_millis(200),
        }
    }
}
