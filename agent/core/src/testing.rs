// SPDX-License-Identifier: Apache-2.0
//! A node and its groups, for the tests of several files.

use std::net::Ipv6Addr;

use canopy_model::addressing::AddressPlan;
use canopy_model::ids::{GroupId, NodeId, PortIndex, Psn, Qpn, TreeId};
use canopy_model::node_spec::{
    AggregationParams, Branch, BranchKind, GroupProgram, NodeBase, Peer, Port, SourceQp, Upstream,
};

/// An address that a test does not compare.
pub(crate) fn any() -> Ipv6Addr {
    "fcff::1".parse().unwrap()
}

pub(crate) fn index(n: u64) -> PortIndex {
    PortIndex::new("port", n).unwrap()
}

/// The port eth`n` to another node.
pub(crate) fn port(n: u64) -> Port {
    let peer = Peer::Node { name: "x".into(), link_local: any() };
    Port { index: index(n), name: format!("eth{n}"), mtu: 9000, link_local: any(), peer, thresholds: None }
}

/// The node n1 with these ports.
pub(crate) fn base(ports: Vec<Port>) -> NodeBase {
    NodeBase {
        name: "n1".into(),
        node_id: NodeId::new("n", 1).unwrap(),
        node_address: any(),
        un: "5f00:0:1::/48".parse().unwrap(),
        end_mt: any(),
        ports,
        routes: Default::default(),
        addressing: AddressPlan::default(),
        hmac: None,
        path_links: vec![],
        host_programs: None,
    }
}

/// A branch to the node behind port `n`.
pub(crate) fn branch(n: u64) -> Branch {
    Branch {
        address: Ipv6Addr::from(u128::from(n)),
        port: index(n),
        next_hop: any(),
        kind: BranchKind::Node { sid: any() },
        at_boundary: false,
        start: None,
        since: 1,
        standby: false,
        lost: false,
    }
}

/// Group `id`: its source is behind port 1, its child nodes behind these ports.
pub(crate) fn program(id: u64, children: impl IntoIterator<Item = u64>) -> GroupProgram {
    let qpn = Qpn::new("qpn", 2).unwrap();
    GroupProgram {
        group_id: GroupId::new("id", id).unwrap(),
        name: format!("g{id}"),
        epoch: 1,
        tree_id: TreeId::new("t", id).unwrap(),
        proxy: any(),
        designated_qpn: qpn,
        start_psn: Psn::new("p", 0).unwrap(),
        source: SourceQp { address: any(), qpn, accepts_roce: false },
        replication_sid: None,
        multicast: None,
        headend: None,
        headend_address: None,
        upstream: Upstream { source_address: any(), destination: any(), dest_qp: qpn, port: index(1), next_hop: any() },
        alternate_upstream: None,
        branches: children.into_iter().map(branch).collect(),
        receivers_provisioned: false,
        write_base_va: 0,
        write_rkey: 0,
        params: AggregationParams::default(),
        branch_metrics: false,
        largest_packet: 0,
    }
}
