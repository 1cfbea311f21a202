// SPDX-License-Identifier: Apache-2.0
//! The node's desired state: one group, of the shape that a test asks for.

use canopy_model::ids::{GroupId, Psn, Qpn, TreeId};
use canopy_model::node_spec::*;

use super::{
    DQPN, FLIGHT, SOURCE_QPN, Shape, group_address, node, ok, plan, port, proxy, receiver, receiver_qpn, source,
};

pub(crate) fn spec(s: &Shape) -> NodeSpec {
    let (plan, me, parent) = (plan(), node(1), node(2));
    let ll = |n, p| plan.link_local(n, port(p));
    let mut ports = vec![Port {
        index: port(1),
        name: "u0".into(),
        mtu: 9000,
        link_local: ll(me, 1),
        peer: if s.headend {
            Peer::Host {
                name: "s1".into(),
                prefix: ok("2001:db8:ff::/64".parse()),
                address: source(),
                gateway: plan.host_gateway(),
            }
        } else {
            Peer::Node { name: "n2".into(), link_local: ll(parent, 1) }
        },
        thresholds: None,
    }];
    ports.push(Port {
        index: port(2),
        name: "d0".into(),
        mtu: 9000,
        link_local: ll(me, 2),
        peer: Peer::Host {
            name: "r".into(),
            prefix: ok("2001:db8:1::/64".parse()),
            address: receiver(0),
            gateway: plan.host_gateway(),
        },
        thresholds: None,
    });
    for i in 1..=u64::from(s.children) {
        ports.push(Port {
            index: port(2 + i),
            name: format!("d{i}"),
            mtu: 9000,
            link_local: ll(me, 2 + i),
            peer: Peer::Node { name: format!("n{}", 9 + i), link_local: ll(node(9 + i), 1) },
            thresholds: None,
        });
    }
    let far = |name: &str| match name {
        "u0" => (!s.headend).then_some(parent),
        child => child.strip_prefix('d').and_then(|i| i.parse().ok()).filter(|i| *i != 0).map(|i: u64| node(9 + i)),
    };
    let path_links = ports.iter().map(|p| PathLink { port: p.index, un: far(&p.name) }).collect();
    let tree = ok(TreeId::new("tree", 7));
    let memory = s.memory.map(|(va, rkey, length)| canopy_model::member::MemoryRegion { va, rkey, length });
    let mut branches: Vec<Branch> = (0..s.receivers)
        .map(|i| Branch {
            address: receiver(i),
            port: port(2),
            next_hop: receiver(i),
            kind: BranchKind::Receiver { qpn: ok(Qpn::new("qpn", receiver_qpn(i).into())), memory },
            at_boundary: false,
            start: None,
            since: 1,
            standby: false,
            lost: false,
        })
        .collect();
    for i in 1..=u64::from(s.children) {
        let child = node(9 + i);
        branches.push(Branch {
            address: plan.node_address(child),
            port: port(2 + i),
            next_hop: ll(child, 1),
            kind: BranchKind::Node { sid: if s.multicast { group_address() } else { plan.end_mt(child) } },
            at_boundary: false,
            start: None,
            since: 1,
            standby: false,
            lost: false,
        });
    }
    let dqpn = ok(Qpn::new("dqpn", DQPN.into()));
    let list: Vec<_> = (0..s.receivers).map(|i| (receiver(i), ok(Qpn::new("qpn", receiver_qpn(i).into())))).collect();
    let group = GroupProgram {
        group_id: ok(GroupId::new("group", 5)),
        name: "g".into(),
        epoch: 1,
        tree_id: tree,
        proxy: proxy(),
        designated_qpn: dqpn,
        start_psn: ok(Psn::new("psn", s.start_psn.into())),
        source: SourceQp { address: source(), qpn: ok(Qpn::new("qpn", SOURCE_QPN.into())), accepts_roce: false },
        replication_sid: (!s.multicast).then(|| plan.replication(me, tree)),
        multicast: s.multicast.then(|| Multicast {
            source: plan.node_address(if s.headend { me } else { node(9) }),
            group: group_address(),
        }),
        headend: s.headend.then(|| Headend {
            source_port: port(1),
            segments: vec![proxy(), if s.multicast { group_address() } else { plan.replication(me, tree) }],
            tlvs: list.chunks(11).map(|c| EndMtList { edge: plan.node_address(me), receivers: c.to_vec() }).collect(),
            max_flight: FLIGHT,
            open: true,
            held: false,
        }),
        headend_address: Some(plan.node_address(if s.headend { me } else { node(9) })),
        upstream: if s.headend {
            Upstream {
                source_address: proxy(),
                destination: source(),
                dest_qp: ok(Qpn::new("qpn", SOURCE_QPN.into())),
                port: port(1),
                next_hop: source(),
            }
        } else {
            Upstream {
                source_address: plan.node_address(me),
                destination: plan.node_address(parent),
                dest_qp: dqpn,
                port: port(1),
                next_hop: ll(parent, 1),
            }
        },
        alternate_upstream: None,
        branches,
        receivers_provisioned: s.provisioned,
        write_base_va: 0x1000,
        write_rkey: 0xABCD,
        params: AggregationParams::default(),
        branch_metrics: false,
        largest_packet: 0,
    };
    NodeSpec {
        term: 1,
        generation: 1,
        base: NodeBase {
            name: "n1".into(),
            node_id: me,
            node_address: plan.node_address(me),
            un: plan.un(me),
            end_mt: plan.end_mt(me),
            ports,
            routes: Default::default(),
            addressing: plan,
            hmac: s.hmac.clone(),
            path_links,
            host_programs: None,
        }
        .into(),
        groups: [(ok(GroupId::new("group", 5)), group)].into(),
    }
}
