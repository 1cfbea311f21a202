// SPDX-License-Identifier: Apache-2.0
//! Specs of a node, and the updates that carry them.

use std::net::Ipv6Addr;

use canopy_control::{HeldSpec, Items, delta_response, pb, snapshot_responses};
use canopy_model::addressing::AddressPlan;
use canopy_model::ids::{GroupId, NodeId, PortIndex, Psn, Qpn, TreeId};
use canopy_model::node_spec::*;
use canopy_model::routes::{Route, Routes};

/// The only page of a snapshot of `spec`.
pub fn snapshot(spec: &NodeSpec) -> pb::WatchResponse {
    snapshot_responses(&HeldSpec::encode(spec.clone())).remove(0)
}

/// The delta from the content of `from` to `to`.
pub fn delta(from: &NodeSpec, to: &NodeSpec) -> pb::WatchResponse {
    delta_response((to.term, to.generation), &Items::encode(from), &Items::encode(to))
}

/// A spec for `leaf-1` with the given groups.
pub fn spec(term: u64, generation: u64, groups: &[u64]) -> NodeSpec {
    let programs = groups.iter().map(|id| program(*id));
    NodeSpec { term, generation, base: base("leaf-1").into(), groups: programs.map(|p| (p.group_id, p)).collect() }
}

fn base(name: &str) -> NodeBase {
    let link = |n: u16| Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, n);
    let host = Peer::Host {
        name: "h1".into(),
        prefix: "2001:db8:1::/64".parse().unwrap(),
        address: "2001:db8:1::2".parse().unwrap(),
        gateway: "2001:db8:1::1".parse().unwrap(),
    };
    let spine = Peer::Node { name: "spine-1".into(), link_local: link(2) };
    NodeBase {
        name: name.into(),
        node_id: NodeId::new("id", 1).unwrap(),
        node_address: "fcff:0:0:1::1".parse().unwrap(),
        un: "5f00:0:1::/48".parse().unwrap(),
        end_mt: "5f00:0:1:f001::".parse().unwrap(),
        ports: vec![
            Port { index: port(1), name: "eth1".into(), mtu: 9000, link_local: link(1), peer: spine, thresholds: None },
            Port { index: port(2), name: "eth2".into(), mtu: 4500, link_local: link(3), peer: host, thresholds: None },
        ],
        routes: Routes::from_iter([Route {
            prefix: "5f00:0:2::/48".parse().unwrap(),
            port: port(1),
            next_hop: link(2),
        }]),
        addressing: AddressPlan::default(),
        hmac: None,
        path_links: [(1, Some(2)), (2, None)].map(|(index, un)| path_link(index, un)).into(),
        host_programs: None,
    }
}

fn path_link(index: u64, un: Option<u64>) -> PathLink {
    PathLink { port: port(index), un: un.map(|un| NodeId::new("un", un).unwrap()) }
}

fn port(index: u64) -> PortIndex {
    PortIndex::new("port", index).unwrap()
}

fn program(id: u64) -> GroupProgram {
    let receiver = "2001:db8:1::2".parse().unwrap();
    let qpn = |n| Qpn::new("qpn", n).unwrap();
    GroupProgram {
        group_id: GroupId::new("id", id).unwrap(),
        name: format!("g{id}"),
        epoch: 1,
        tree_id: TreeId::new("tree", id).unwrap(),
        proxy: Ipv6Addr::new(0xfcfe, 0, 0, 0, 0, 0, 0, 1),
        designated_qpn: qpn(0x8000 + id),
        start_psn: Psn::new("psn", 100).unwrap(),
        source: SourceQp { address: "2001:db8:9::2".parse().unwrap(), qpn: qpn(0x11), accepts_roce: false },
        replication_sid: None,
        multicast: None,
        headend: None,
        headend_address: None,
        upstream: Upstream {
            source_address: "fcff:0:0:1::1".parse().unwrap(),
            destination: "fcff:0:0:2::1".parse().unwrap(),
            dest_qp: qpn(0x8000 + id),
            port: port(1),
            next_hop: "fe80::2".parse().unwrap(),
        },
        alternate_upstream: None,
        branches: vec![Branch {
            address: receiver,
            port: port(2),
            next_hop: receiver,
            kind: BranchKind::Receiver { qpn: qpn(0x21), memory: None },
            at_boundary: false,
            start: None,
            since: 1,
            standby: false,
            lost: false,
        }],
        receivers_provisioned: true,
        write_base_va: 0,
        write_rkey: 0,
        params: AggregationParams::default(),
        branch_metrics: false,
        largest_packet: 4180,
    }
}
