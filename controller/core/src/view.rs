// SPDX-License-Identifier: Apache-2.0
//! Views of resources: metadata, spec and status. Their JSON form belongs to `canopy_controller_api`.

use std::net::Ipv6Addr;
use std::sync::Arc;
use std::time::Duration;

use canopy_model::congestion::{FlowTelemetry, QueueTelemetry};
use canopy_model::drain::DrainSpec;
use canopy_model::group::{EncodingMode, GroupSpec};
use canopy_model::ids::{Generation, GroupId, NodeId, PortIndex, Qpn, TreeId};
use canopy_model::labels::Labels;
use canopy_model::member::{Connection, LateStart, MemberSpec, Role};
use canopy_model::silence::SilenceSpec;
use canopy_model::srh_hmac::{FlagBit, HmacPhase};
use canopy_model::status::{GroupPhase, ItemError};
use canopy_model::topology::TopologySpec;
use canopy_units::{Octets, Rate};
use ipnet::Ipv6Net;
use serde::{Deserialize, Serialize};

use crate::condition::Condition;
use crate::delivery::Delivery;
use crate::encoding::EncodingReport;
use crate::metadata::Metadata;
use crate::quota::Quota;
use crate::retirement::Retirement;
use crate::states::{LinkState, NodeState, QueueState, Trouble};
use crate::threshold::Thresholds;
use crate::uid::Uid;

/// One page of a list, in name order, and the start of the next page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page<T> {
    /// The items, in name order.
    pub items: Vec<T>,
    /// Pass as `after` for the next page; `None` on the last page.
    pub next: Option<String>,
}

/// What a tenant has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TenantUsage {
    /// Its groups.
    pub groups: usize,
    /// Memberships of receivers in them.
    pub receivers: usize,
}

/// A tenant: what it has beside what it may have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TenantView {
    /// Its name.
    pub name: String,
    /// What it has.
    pub usage: TenantUsage,
    /// What it may have.
    pub quota: Quota,
}

/// The network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopologyView {
    /// Identity.
    pub metadata: Metadata,
    /// As declared.
    pub spec: Arc<TopologySpec>,
    /// Observed state.
    pub status: TopologyStatus,
}

/// Observed state of the network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopologyStatus {
    /// Declared nodes.
    pub nodes: u32,
    /// Of these, nodes whose agent is connected.
    pub connected_nodes: u32,
    /// Of these, nodes that run exactly their desired state.
    pub synced_nodes: u32,
    /// Declared hosts.
    pub hosts: u32,
    /// Declared links.
    pub links: u32,
    /// Of these, links of hosts.
    pub host_links: u32,
    /// Summary.
    pub conditions: Vec<Condition>,
}

/// A node whose agent is gone and to be back soon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestartingAgent {
    /// The node.
    pub node: String,
    /// The agent announced it when it was stopped; otherwise it was killed, or its connection was lost.
    pub announced: bool,
    /// After this long the agent counts as away; zero once that is about to be noticed.
    pub back_within: Duration,
}

/// A link or node that an operator takes out of service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DrainView {
    /// Identity.
    pub metadata: Metadata,
    /// As declared; a link as the topology lists it.
    pub spec: DrainSpec,
    /// Observed state.
    pub status: DrainStatus,
}

/// How far a drain is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DrainStatus {
    /// The links that it takes out of service; none if the topology no longer has the target.
    pub links: Vec<String>,
    /// Groups that still use them: they move away, or there is no other way. Of a node, those that do not serve hosts behind it.
    pub groups: u32,
    /// Hosts behind a drained node that are members of groups.
    pub hosts: Vec<String>,
}

/// Problems that an operator knows of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SilenceView {
    /// Identity.
    pub metadata: Metadata,
    /// As declared; a link as the topology lists it.
    pub spec: SilenceSpec,
}

/// One forwarding node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeView {
    /// Name in the topology.
    pub name: String,
    /// As the topology declares them.
    pub labels: Labels,
    /// Desired state that the topology gives this node.
    pub spec: NodeDesired,
    /// State that its agent reported.
    pub status: NodeObserved,
}

/// A node's desired state, without the groups' programs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeDesired {
    /// Number in the locator.
    pub id: NodeId,
    /// The node's own address.
    pub node_address: Ipv6Addr,
    /// uN, the node's locator.
    pub un: Ipv6Net,
    /// End.MT SID.
    pub end_mt: Ipv6Addr,
    /// Term of the controller that desires it.
    pub term: u64,
    /// Generation of the node's desired state, within the term.
    pub generation: Generation,
    /// Ports in index order; none in a list without them.
    pub ports: Vec<PortView>,
    /// Number of ports.
    pub port_count: u32,
    /// Number of unicast routes.
    pub routes: u32,
    /// Number of groups with a program at this node.
    pub groups: u32,
}

/// One port of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortView {
    /// Index on the node.
    pub index: PortIndex,
    /// Interface name.
    pub name: String,
    /// Node or host at the far end.
    pub peer: String,
    /// IPv6 MTU in bytes.
    pub mtu: u32,
    /// Link-local address of this end.
    pub link_local: Ipv6Addr,
    /// Queue thresholds in the node's desired state; `null` where the rate is not known, or the round-trip time to
    /// another node.
    pub thresholds: Option<PortThresholdsView>,
}

/// Queue thresholds in a node's desired state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortThresholdsView {
    /// K_min.
    pub k_min: Octets,
    /// K_max.
    pub k_max: Octets,
    /// RTT_est.
    pub rtt: Duration,
    /// R_port.
    pub port_rate: Rate,
    /// V_ecn in packets per thousand.
    pub v_ecn: u16,
    /// V_growth per millisecond.
    pub v_growth: Octets,
}

/// One direction of a link, out of a node's port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkView {
    /// The sending port, `node/port`.
    pub name: String,
    /// Generation of the topology.
    pub generation: Generation,
    /// Inputs of its thresholds.
    pub spec: LinkDesired,
    /// Measurements and the resulting thresholds.
    pub status: LinkObserved,
}

/// Inputs of a link direction's thresholds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkDesired {
    /// The link, `a--b`.
    pub link: String,
    /// Device and port at the far end.
    pub to: String,
    /// The topology or a drain takes the link out of service.
    pub drained: bool,
    /// R_port; 0 = not known.
    pub rate: Rate,
    /// What the sending port can queue; `None` = not known.
    pub buffer: Option<Octets>,
    /// alpha in thousandths, the link's or the controller's.
    pub alpha: u16,
    /// K_base, the link's or the controller's.
    pub k_base: Octets,
    /// V_ecn of the sending port in packets per thousand, the link's or the controller's.
    pub v_ecn: u16,
    /// V_growth of the sending port per millisecond, the link's or the controller's; `None`: from K_min to K_max in one RTT_est.
    pub v_growth: Option<Octets>,
    /// The link's configured round-trip time.
    pub rtt: Option<Duration>,
}

/// Measurements of a link direction and the resulting thresholds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkObserved {
    /// In one word.
    pub state: LinkState,
    /// The worst open problem of the link or of its sending port.
    pub trouble: Option<Trouble>,
    /// Round-trip times.
    pub rtt: LinkRttView,
    /// Thresholds pushed to the node; `null` while there are none.
    pub thresholds: Option<Thresholds>,
    /// Why there are no thresholds, and what to do; empty if there are.
    pub reason: String,
    /// Changes since the controller started or the link was declared.
    pub pushes: u64,
    /// Time since the last change.
    pub pushed_ago: Option<Duration>,
    /// RTT_est that the thresholds were computed from; without one, the time in which K_max is sent.
    pub pushed_rtt: Option<Duration>,
    /// State of the sending port's queue; `null` while there are no thresholds, the node's agent is not connected, or
    /// it reported nothing for a minute.
    pub congestion: Option<LinkCongestion>,
    /// Loss of packets; `None` before the first report, and for links to hosts.
    pub loss: Option<LinkLossView>,
}

/// What a link direction loses: by ICMPv6 Echo Requests (RFC 4443 section 4) of the agent at the sending port, and by the data of groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkLossView {
    /// Requests whose fate is known, since the agent started.
    pub requests: u64,
    /// Those without a reply: the request or the reply was lost.
    pub lost: u64,
    /// Packets that the port's own queue dropped.
    pub queue_drops: u64,
    /// Data packets of groups that had to arrive at the other end, retransmissions not counted, since the topology declared the link or the
    /// controller started.
    pub data_packets: u64,
    /// Those that did not arrive in their turn.
    pub data_lost: u64,
    /// Packets of a thousand that the link lost when it was found to lose packets; `None` while it does not.
    pub permille: Option<u16>,
}

/// The queue of a link direction's sending port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkCongestion {
    /// As reported by the node's agent.
    pub queue: QueueTelemetry,
    /// In one word.
    pub state: QueueState,
    /// What the data took between the agent's last two reports; `None` before the second.
    pub load: Option<Rate>,
    /// Time since the report.
    pub reported_ago: Duration,
}

/// A flow that leaves through a node's port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowView {
    /// The node.
    pub node: String,
    /// Its port.
    pub port: String,
    /// As reported by the node's agent.
    pub flow: FlowTelemetry,
    /// Host that sends it; `None` if its address is of none.
    pub host: Option<String>,
    /// Group whose data or copies it is; `None` for other traffic.
    pub group: Option<String>,
    /// Time since the report.
    pub reported_ago: Duration,
}

/// Round-trip times of a link.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinkRttView {
    /// As configured.
    pub configured: Option<Duration>,
    /// The newest that the node's STAMP session measured.
    pub measured: Option<Duration>,
    /// The smallest measured in the last 2.4 s.
    pub filtered: Option<Duration>,
    /// RTT_est: as configured, else filtered, else as before the controller's restart.
    pub estimate: Option<Duration>,
    /// Test packets answered since the agent started.
    pub samples: u64,
    /// Test packets lost since the agent started.
    pub lost: u64,
    /// Measurements that the controller refused since the link was declared: shorter than any path may be.
    pub refused: u64,
    /// Time since the agent last reported.
    pub reported_ago: Option<Duration>,
}

/// State that a node's agent last reported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeObserved {
    /// In one word.
    pub state: NodeState,
    /// The agent has a live connection to this controller.
    pub connected: bool,
    /// Term of what the agent last reconciled; `None` before its first report.
    pub observed_term: Option<u64>,
    /// Generation, within that term, that the agent last reconciled; `None` before its first report.
    pub observed_generation: Option<Generation>,
    /// Digest of what the agent last reconciled, 64 hexadecimal digits; empty before its first report.
    pub observed_digest: String,
    /// Version of the southbound contract that agent and controller agreed on, such as `1.2`; empty before its first report.
    pub contract: String,
    /// Items that are not in the kernel as desired.
    pub errors: Vec<ItemError>,
    /// Agent version, empty before the first report.
    pub agent_version: String,
    /// Kernel release, empty before the first report.
    pub kernel: String,
    /// Where Prometheus finds the agent's metrics, `host:port`; empty if it serves none.
    pub metrics_address: String,
    /// `Connected`, `Synced`, `Healthy`.
    pub conditions: Vec<Condition>,
    /// Present while the node leaves for good, and once it has.
    pub retirement: Option<RetirementView>,
}

/// A retirement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetirementView {
    /// As it is stored.
    pub retirement: Retirement,
    /// What its step waits for, for operators; empty once it has ended.
    pub waits_for: String,
}

/// A host of the topology.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostView {
    /// Name in the topology.
    pub name: String,
    /// Generation of the topology.
    pub generation: Generation,
    /// As declared.
    pub spec: HostDesired,
    /// Its port and its groups.
    pub status: HostObserved,
}

/// Where a host is attached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostDesired {
    /// The node of its first link, or of its only one.
    pub node: String,
    /// Port of that node.
    pub port: String,
    /// The prefix routed to its links; members' addresses lie in it.
    pub prefix: Ipv6Net,
    /// The host's default address.
    pub address: Ipv6Addr,
    /// IPv6 MTU of the first link in bytes.
    pub mtu: u32,
    /// It may send path programs.
    pub path_programs: bool,
    /// All its links, the first one too.
    pub links: Vec<HostLink>,
}

/// A link of a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostLink {
    /// Its node.
    pub node: String,
    /// Port of that node.
    pub port: String,
    /// IPv6 MTU in bytes.
    pub mtu: u32,
}

/// A node's port to a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostPort {
    /// The node.
    pub node: String,
    /// Its port.
    pub port: String,
    /// State of the port.
    pub state: PortState,
    /// What is wrong with it, or why its state is not known; empty otherwise.
    pub reason: String,
}

/// What is known of a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostObserved {
    /// State of the node's port at its first link.
    pub port: PortState,
    /// What is wrong with that port, or why its state is not known; empty otherwise.
    pub reason: String,
    /// The nodes' ports at all its links.
    pub links: Vec<HostPort>,
    /// Groups that it sends to.
    pub sources: u32,
    /// Groups that it receives from.
    pub receivers: u32,
    /// These groups, in name order, the first 1,000; empty in a list of hosts.
    pub groups: Vec<HostGroup>,
}

/// State of a port that leads to a host, the worse the greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PortState {
    /// It has an interface with a carrier.
    Up,
    /// The agent of its node is not connected, or has not reported.
    Unknown,
    /// Its interface or its carrier is missing.
    Down,
}

/// A group that a host is a member of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostGroup {
    /// Name of the group.
    pub name: String,
    /// The host's role in it.
    pub role: Role,
    /// The host belongs to a session that has ended: its queue pair is no longer part of the group.
    pub ended: bool,
}

/// What metrics and service discovery show of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeSummary<'a> {
    /// Name in the topology.
    pub name: &'a str,
    /// The agent has a live connection to this controller.
    pub connected: bool,
    /// Generation of the desired state.
    pub desired: Generation,
    /// Generation that the agent last reconciled; `None` before its first report.
    pub observed: Option<Generation>,
    /// Items that are not in the kernel as desired.
    pub errors: usize,
    /// Where Prometheus finds the agent's metrics; empty if it serves none.
    pub metrics_address: &'a str,
}

/// One multicast group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupView {
    /// Identity.
    pub metadata: Metadata,
    /// As declared.
    pub spec: GroupSpec,
    /// Observed state.
    pub status: GroupStatus,
}

/// What a group is doing. Costs no view of its tree, nodes and conditions: it is wanted at every report of every node of the tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupSummary {
    /// Names the group for ever.
    pub uid: Uid,
    /// Its owner.
    pub tenant: String,
    /// Compact identifier.
    pub group_id: GroupId,
    /// Phase of its life cycle.
    pub phase: GroupPhase,
    /// Why; empty when it is ready.
    pub reason: String,
    /// Receivers of the present session that get data.
    pub receivers: u32,
    /// Receivers that the stall policy removed, oldest first.
    pub evicted: Vec<Evicted>,
    /// What queue pairs are set up with.
    pub connection: Connection,
}

/// Observed state of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupStatus {
    /// Phase of its life cycle.
    pub phase: GroupPhase,
    /// Why, as text for operators: names the node, the cause and what to do. Empty when `Ready`.
    pub reason: String,
    /// Whether the source's data is acknowledged, as the headend reported last; `None` before its first report.
    pub delivery: Option<Delivery>,
    /// `Planned`, `Programmed`, `Open`, `Healthy`, `AgentsConnected`, `Delivering`, `Stalled`, `Lossy`; the last two name the receivers or nodes
    /// that stall the group, and the links of its tree that lose packets.
    pub conditions: Vec<Condition>,
    /// Generation of the group that the rest of this status reflects.
    pub observed_generation: Generation,
    /// Compact identifier in node state and telemetry.
    pub group_id: GroupId,
    /// Replication tree (RFC 9524).
    pub tree_id: TreeId,
    /// Grows with every change of tree or membership.
    pub epoch: u32,
    /// The remote side that members configure into their QPs.
    pub connection: Connection,
    /// Host of the source, if one joined.
    pub source: Option<String>,
    /// Number of receivers.
    pub receivers: u32,
    /// Hosts of receivers that joined late and get no data yet: their queue pairs have not answered a probe.
    pub probing: Vec<String>,
    /// Receivers that the stall policy removed since the source joined and that have not joined again, oldest first.
    pub evicted: Vec<Evicted>,
    /// How receiver lists are distributed; `None` while there is no tree.
    pub encoding: Option<EncodingReport>,
    /// The tree, root first, every parent before its children; empty while there is none.
    pub tree: Vec<TreeNodeView>,
    /// Progress of each tree node, in the tree's order.
    pub nodes: Vec<NodeProgress>,
}

/// For which receivers a group's source waits.
///
/// Every node counts the PSNs by which each of its branches raised the minimum: all others had acknowledged them before. A receiver's
/// share is the product of the shares from the headend down to it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WaitedFor {
    /// The time that the shares cover, up to 10 s; zero while the headend reports nothing.
    pub covers: Duration,
    /// PSNs that were acknowledged to the source in it.
    pub psns: u64,
    /// Share of the nodes that report nothing, parts per million.
    pub unknown_ppm: u32,
    /// All receivers of the tree; the largest share first, then by name.
    pub receivers: Vec<ReceiverShare>,
}

/// A receiver's part in what a source waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceiverShare {
    /// Its host.
    pub host: String,
    /// Its edge.
    pub node: String,
    /// Its share, parts per million.
    pub ppm: u32,
    /// How long data that its edge has forwarded waits for its acknowledgement, on average; `None` if nothing was acknowledged.
    pub wait: Option<Duration>,
}

/// The branches from a group's headend to its receivers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Branches {
    /// The tree's nodes, each behind its parent; the first is the headend.
    pub nodes: Vec<BranchNode>,
    /// Its receivers.
    pub receivers: Vec<BranchReceiver>,
}

/// A node of a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BranchNode {
    /// Its name.
    pub name: String,
    /// Place of its parent among the nodes; `None`: the headend.
    pub parent: Option<usize>,
    /// Its branch at the parent.
    pub address: Ipv6Addr,
}

/// A receiver of a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BranchReceiver {
    /// Its host.
    pub host: String,
    /// Place of its edge among the nodes.
    pub edge: usize,
    /// Its branch at the edge.
    pub address: Ipv6Addr,
}

/// A receiver that the stall policy removed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Evicted {
    /// Its host.
    pub host: String,
    /// Why, as text for operators.
    pub reason: String,
}

/// A node's role in a tree; a node may have several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TreeRole {
    /// Encapsulates the source's packets (decisions 2.1).
    Headend,
    /// Replicates to other nodes (RFC 9524 End.Replicate).
    Transit,
    /// Runs End.MT for receivers on its own ports.
    Edge,
}

/// One node of a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TreeNodeView {
    /// Node name.
    pub node: String,
    /// Parent node; `None` at the root.
    pub parent: Option<String>,
    /// Its roles, in the order headend, transit, edge.
    pub roles: Vec<TreeRole>,
    /// SID that copies for this node are addressed to.
    pub sid: Ipv6Addr,
    /// Interface toward the parent; at the root, toward the source.
    pub upstream_port: String,
    /// Branches, child nodes first.
    pub branches: Vec<BranchView>,
}

/// One branch of a tree node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BranchView {
    /// Child node or receiver host.
    pub name: String,
    /// `node` or `receiver`.
    pub kind: BranchRole,
    /// Address that identifies the branch on the reverse path.
    pub address: Ipv6Addr,
    /// Receiver's QPN.
    pub qpn: Option<Qpn>,
    /// Interface that the branch is attached to.
    pub port: String,
}

/// Kind of a branch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BranchRole {
    /// A child node.
    Node,
    /// A receiver.
    Receiver,
}

/// Progress of one tree node with a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeProgress {
    /// Node name.
    pub node: String,
    /// Generation of the node's spec that first carried the group's present program.
    pub desired_generation: Generation,
    /// Generation of the present term that the agent last reconciled; `None` before its first report of one.
    pub observed_generation: Option<Generation>,
    /// The agent has a live connection.
    pub connected: bool,
    /// Errors at this node that affect this group.
    pub errors: Vec<ItemError>,
}

/// One membership.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberView {
    /// Group that the host is a member of.
    pub group: String,
    /// Identity; the name is the host's.
    pub metadata: Metadata,
    /// As declared.
    pub spec: MemberSpec,
    /// Observed state.
    pub status: MemberStatus,
}

/// Where a member is attached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberStatus {
    /// Address of the QP: the declared one, or the host's default.
    pub address: Ipv6Addr,
    /// Node that the host is attached to.
    pub node: String,
    /// That node's interface.
    pub port: String,
    /// How a receiver is distributed to its edge: `inBand` or `provisioned`; `None` for a source or while there is no
    /// tree.
    pub encoding: Option<EncodingMode>,
    /// The session that it joined has ended with its source: it gets no data until its queue pair is reset and it joins again.
    pub ended: bool,
    /// It joined after the group was open, and gets data from a later message on.
    pub late: bool,
    /// Where it started then, once its edge has reported it: its edge needs that if it loses its state.
    pub start: Option<LateStart>,
}

/// The keys of the SRH HMAC TLV, without their secrets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HmacView {
    /// How far the domain is.
    pub phase: HmacPhase,
    /// The keys that nodes accept, the oldest first.
    pub keys: Vec<HmacKeyView>,
    /// Nodes that have not confirmed the phase; the next one waits for them.
    pub unconfirmed: usize,
    /// The first of them.
    pub waiting: Vec<HmacWait>,
}

/// A key of the SRH HMAC TLV, without its secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HmacKeyView {
    /// HMAC Key ID.
    pub id: u32,
    /// Flags of the SRHs that are signed with it.
    pub flag_bit: FlagBit,
    /// Headends sign with it.
    pub sends: bool,
}

/// A node that has not confirmed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HmacWait {
    /// Its name.
    pub node: String,
    /// Why not, for operators.
    pub reason: String,
}
