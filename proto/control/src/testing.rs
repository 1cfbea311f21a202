// SPDX-License-Identifier: Apache-2.0
//! Specs for tests: one that uses every field, every way of changing one field of it, and random ones.

use std::net::Ipv6Addr;
use std::time::Duration;

use canopy_model::addressing::AddressPlan;
use canopy_model::congestion::{
    CnpCounts, CnpsByAction, DepthSource, FlowOrigin, FlowTelemetry, PortCongestion, QueueTelemetry,
};
use canopy_model::host_programs::{HostPrograms, Uns};
use canopy_model::ids::{GroupId, NodeId, PortIndex, Psn, Qpn, TreeId};
use canopy_model::member::{LateStart, MemoryRegion};
use canopy_model::node_spec::*;
use canopy_model::routes::{Route, Routes};
use canopy_model::srh_hmac::{FlagBit, HmacKey, HmacKeyId, HmacSecret, SrhHmac};
use canopy_units::{Octets, Rate};
use ipnet::Ipv6Net;
use proptest::prelude::*;

fn ip(last: u16) -> Ipv6Addr {
    Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, last)
}

fn group_address(last: u16) -> Ipv6Addr {
    Ipv6Addr::new(0xff3e, 0, 0, 0, 0, 0, 0x8000, last)
}

fn net(node: u16) -> Ipv6Net {
    Ipv6Net::new(Ipv6Addr::new(0x5f00, 0, node, 0, 0, 0, 0, 0), 48).unwrap()
}

fn port(index: u64) -> PortIndex {
    PortIndex::new("port", index).unwrap()
}

fn qpn(value: u64) -> Qpn {
    Qpn::new("qpn", value).unwrap()
}

/// The host of one port may send programs, which end at these nodes.
fn programs(at: u64, ends: &[(u16, u64)]) -> HostPrograms {
    let end = |&(prefix, un): &(u16, u64)| (net(prefix), NodeId::new("un", un).unwrap());
    let nodes = ends.iter().map(|end| end.1).chain([9]).map(|un| NodeId::new("un", un).unwrap()).collect();
    HostPrograms { ports: [port(at)].into(), ends: ends.iter().map(end).collect(), nodes, most_nodes: 5 }
}

fn route() -> Route {
    Route { prefix: net(2), port: port(1), next_hop: ip(0xD) }
}

fn program(id: u64) -> GroupProgram {
    let memory = MemoryRegion { va: 1 << 40, rkey: 0x1234, length: 1 << 20 };
    let branch = |n, kind| Branch {
        address: ip(n),
        port: port(2),
        next_hop: ip(n + 1),
        kind,
        at_boundary: n % 2 == 0,
        start: (n % 2 == 0).then_some(LateStart { shift: 0xFF_FFFF, msn_base: 9 }),
        since: 3,
        standby: n % 2 == 1,
        lost: n % 2 == 1,
    };
    GroupProgram {
        group_id: GroupId::new("id", id).unwrap(),
        name: format!("g{id}"),
        epoch: 3,
        tree_id: TreeId::new("tree", 7).unwrap(),
        proxy: ip(0x100),
        designated_qpn: qpn(0x8000),
        start_psn: Psn::new("psn", 0xFF_FFF0).unwrap(),
        source: SourceQp { address: ip(1), qpn: qpn(0x11), accepts_roce: false },
        replication_sid: Some(ip(0x200)),
        multicast: Some(Multicast { source: ip(0x500), group: group_address(1) }),
        headend: Some(Headend {
            source_port: port(1),
            segments: vec![ip(0x100), ip(0x200)],
            tlvs: vec![EndMtList { edge: ip(0x300), receivers: vec![(ip(0x20), qpn(0x21)), (ip(0x22), qpn(0x23))] }],
            max_flight: 1000,
            open: true,
            held: false,
        }),
        upstream: Upstream {
            source_address: ip(0x100),
            destination: ip(1),
            dest_qp: qpn(0x11),
            port: port(1),
            next_hop: ip(1),
        },
        headend_address: Some(ip(0x600)),
        alternate_upstream: Some(port(3)),
        branches: vec![
            branch(0x400, BranchKind::Node { sid: ip(0x401) }),
            branch(0x20, BranchKind::Receiver { qpn: qpn(0x21), memory: Some(memory) }),
            branch(0x22, BranchKind::Receiver { qpn: qpn(0x23), memory: None }),
        ],
        receivers_provisioned: true,
        write_base_va: 0x5000,
        write_rkey: 0x99,
        params: AggregationParams::default(),
        branch_metrics: true,
        largest_packet: 0,
    }
}

const THRESHOLDS: PortThresholds = PortThresholds {
    k_min: Octets(62_500_000),
    k_max: Octets(125_000_000),
    rtt: Duration::from_millis(10),
    port_rate: Rate::from_bps(100_000_000_000),
    v_ecn_permille: 500,
    v_growth_per_ms: Octets(6_250_000),
};

fn hmac<const N: usize>(keys: [(u32, u8, FlagBit); N], sending: u32, required: bool) -> SrhHmac {
    let id = |id| HmacKeyId::new("id", id).unwrap();
    let key = |(n, octet, flag_bit)| HmacKey { id: id(n), secret: HmacSecret::new([octet; 32]), flag_bit };
    SrhHmac::new(keys.map(key).to_vec(), id(sending), required).unwrap()
}

fn path_link(index: u64, un: u64) -> PathLink {
    PathLink { port: port(index), un: Some(NodeId::new("un", un).unwrap()) }
}

/// Two groups, every optional part present somewhere.
pub(crate) fn full_spec() -> NodeSpec {
    NodeSpec {
        term: 2,
        generation: 9,
        base: NodeBase {
            name: "n1".into(),
            node_id: NodeId::new("id", 1).unwrap(),
            node_address: ip(0xA),
            un: net(1),
            end_mt: ip(0xB),
            ports: vec![
                Port {
                    index: port(1),
                    name: "eth1".into(),
                    mtu: 9000,
                    link_local: ip(0xC),
                    peer: Peer::Node { name: "n2".into(), link_local: ip(0xD) },
                    thresholds: Some(THRESHOLDS),
                },
                Port {
                    index: port(2),
                    name: "eth2".into(),
                    mtu: 4500,
                    link_local: ip(0xE),
                    peer: Peer::Host { name: "h1".into(), prefix: net(9), address: ip(0xF), gateway: ip(0x10) },
                    thresholds: None,
                },
            ],
            routes: Routes::from_iter([route()]),
            addressing: AddressPlan::default(),
            hmac: Some(hmac([(3, 0x55, FlagBit::Rfc8754), (4, 0x66, FlagBit::Linux)], 3, true)),
            path_links: vec![path_link(1, 2), PathLink { port: port(2), un: None }],
            host_programs: Some(programs(2, &[(8, 1), (9, 2)])),
        }
        .into(),
        groups: [4, 5].map(|id| (GroupId::new("id", id).unwrap(), program(id))).into(),
    }
}

/// [`full_spec`] with one field changed, for every field that travels.
pub(crate) fn every_field_changed() -> Vec<(&'static str, NodeSpec)> {
    let mut all: Vec<(&'static str, NodeSpec)> = Vec::new();
    macro_rules! changed {
        ($($field:ident $(. $rest:ident)* $([$i:expr] $(. $inner:ident)*)? = $value:expr),+ $(,)?) => {$({
            let mut spec = full_spec();
            spec.base_mut().$field$(.$rest)*$([$i]$(.$inner)*)? = $value;
            all.push((stringify!($field$(.$rest)*$([$i]$(.$inner)*)?), spec));
        })+};
    }
    changed!(
        name = "x".into(),
        node_id = NodeId::new("id", 2).unwrap(),
        node_address = ip(0xFF0),
        un = net(0xF1),
        end_mt = ip(0xFF2),
        ports = vec![],
        ports[0].index = port(9),
        ports[0].name = "x".into(),
        ports[0].mtu = 1500,
        ports[0].link_local = ip(0xFF3),
        ports[0].peer = Peer::Node { name: "x".into(), link_local: ip(0xD) },
        ports[0].thresholds = None,
        ports[0].thresholds = Some(PortThresholds { k_min: Octets(1), ..THRESHOLDS }),
        ports[0].thresholds = Some(PortThresholds { k_max: Octets(1 << 30), ..THRESHOLDS }),
        ports[0].thresholds = Some(PortThresholds { rtt: Duration::from_nanos(1), ..THRESHOLDS }),
        ports[0].thresholds = Some(PortThresholds { port_rate: Rate::from_bps(1), ..THRESHOLDS }),
        ports[0].thresholds = Some(PortThresholds { v_ecn_permille: 1, ..THRESHOLDS }),
        ports[0].thresholds = Some(PortThresholds { v_growth_per_ms: Octets(1), ..THRESHOLDS }),
        ports[1].thresholds = Some(THRESHOLDS),
        ports[1].peer = Peer::Node { name: "n2".into(), link_local: ip(0xFF4) },
        ports[1].peer = Peer::Host { name: "x".into(), prefix: net(9), address: ip(0xF), gateway: ip(0x10) },
        ports[1].peer = Peer::Host { name: "h1".into(), prefix: net(8), address: ip(0xF), gateway: ip(0x10) },
        ports[1].peer = Peer::Host { name: "h1".into(), prefix: net(9), address: ip(0xFF5), gateway: ip(0x10) },
        ports[1].peer = Peer::Host { name: "h1".into(), prefix: net(9), address: ip(0xF), gateway: ip(0xFF6) },
        routes = Routes::default(),
        routes = Routes::from_iter([Route { prefix: net(0xF3), ..route() }]),
        routes = Routes::from_iter([Route { port: port(9), ..route() }]),
        routes = Routes::from_iter([Route { next_hop: ip(0xFF7), ..route() }]),
        addressing.block = net(0xF4),
        addressing.node_prefix = net(0xF4),
        addressing.proxy_prefix = net(0xF4),
        addressing.multicast_prefix = net(0xF4),
        hmac = None,
        hmac = Some(hmac([(3, 0x55, FlagBit::Rfc8754), (4, 0x66, FlagBit::Linux)], 3, false)),
        hmac = Some(hmac([(3, 0x55, FlagBit::Rfc8754), (4, 0x66, FlagBit::Linux)], 4, true)),
        hmac = Some(hmac([(3, 0x55, FlagBit::Rfc8754), (4, 0x66, FlagBit::Rfc8754)], 3, true)),
        hmac = Some(hmac([(3, 0x56, FlagBit::Rfc8754), (4, 0x66, FlagBit::Linux)], 3, true)),
        hmac = Some(hmac([(3, 0x55, FlagBit::Rfc8754), (5, 0x66, FlagBit::Linux)], 3, true)),
        hmac = Some(hmac([(3, 0x55, FlagBit::Rfc8754)], 3, true)),
        path_links = vec![],
        path_links[0] = path_link(9, 2),
        path_links[0] = path_link(1, 3),
        path_links[1] = path_link(2, 3),
        host_programs = None,
        host_programs = Some(HostPrograms::of_others(5)),
        host_programs = Some(HostPrograms { most_nodes: 6, ..programs(2, &[(8, 1), (9, 2)]) }),
        host_programs = Some(HostPrograms { nodes: Uns::default(), ..programs(2, &[(8, 1), (9, 2)]) }),
        host_programs = Some(programs(3, &[(8, 1), (9, 2)])),
        host_programs = Some(programs(2, &[(8, 1), (9, 3)])),
        host_programs = Some(programs(2, &[(8, 1), (7, 2)])),
    );
    type Change = fn(&mut GroupProgram);
    fn receiver(qpn: Qpn, memory: Option<MemoryRegion>) -> BranchKind {
        BranchKind::Receiver { qpn, memory }
    }
    const REGION: MemoryRegion = MemoryRegion { va: 1 << 40, rkey: 0x1234, length: 1 << 20 };
    let in_group: Vec<(&'static str, Change)> = vec![
        ("group_id", |p| p.group_id = GroupId::new("id", 77).unwrap()),
        ("name", |p| p.name = "x".into()),
        ("epoch", |p| p.epoch += 1),
        ("tree_id", |p| p.tree_id = TreeId::new("t", 8).unwrap()),
        ("proxy", |p| p.proxy = ip(0xFFF)),
        ("designated_qpn", |p| p.designated_qpn = qpn(0x8001)),
        ("start_psn", |p| p.start_psn = Psn::new("p", 0).unwrap()),
        ("source.address", |p| p.source.address = ip(0xFFF)),
        ("source.qpn", |p| p.source.qpn = qpn(0x12)),
        ("source.accepts_roce", |p| p.source.accepts_roce = true),
        ("replication_sid", |p| p.replication_sid = None),
        ("multicast", |p| p.multicast = None),
        ("multicast.source", |p| p.multicast.as_mut().unwrap().source = ip(0xFFF)),
        ("multicast.group", |p| p.multicast.as_mut().unwrap().group = group_address(2)),
        ("headend", |p| p.headend = None),
        ("headend_address", |p| p.headend_address = None),
        ("headend_address", |p| p.headend_address = Some(ip(0xFFF))),
        ("headend.source_port", |p| p.headend.as_mut().unwrap().source_port = port(9)),
        ("headend.max_flight", |p| p.headend.as_mut().unwrap().max_flight += 1),
        ("headend.open", |p| p.headend.as_mut().unwrap().open = false),
        ("headend.held", |p| p.headend.as_mut().unwrap().held = true),
        ("headend.segments", |p| p.headend.as_mut().unwrap().segments.reverse()),
        ("headend.tlvs", |p| p.headend.as_mut().unwrap().tlvs.clear()),
        ("headend.tlvs.edge", |p| p.headend.as_mut().unwrap().tlvs[0].edge = ip(0xFFF)),
        ("headend.tlvs.receivers", |p| p.headend.as_mut().unwrap().tlvs[0].receivers.reverse()),
        ("headend.tlvs.receivers.address", |p| p.headend.as_mut().unwrap().tlvs[0].receivers[0].0 = ip(0xFFF)),
        ("headend.tlvs.receivers.qpn", |p| p.headend.as_mut().unwrap().tlvs[0].receivers[0].1 = qpn(0xFFF)),
        ("upstream.source_address", |p| p.upstream.source_address = ip(0xFFF)),
        ("upstream.destination", |p| p.upstream.destination = ip(0xFFF)),
        ("upstream.dest_qp", |p| p.upstream.dest_qp = qpn(0xFFF)),
        ("upstream.port", |p| p.upstream.port = port(9)),
        ("upstream.next_hop", |p| p.upstream.next_hop = ip(0xFFF)),
        ("alternate_upstream", |p| p.alternate_upstream = None),
        ("standby", |p| p.branches[0].standby = !p.branches[0].standby),
        ("branches", |p| p.branches.swap(0, 1)),
        ("branches.address", |p| p.branches[0].address = ip(0xFFF)),
        ("branches.port", |p| p.branches[0].port = port(9)),
        ("branches.next_hop", |p| p.branches[0].next_hop = ip(0xFFF)),
        ("branches.sid", |p| p.branches[0].kind = BranchKind::Node { sid: ip(0xFFF) }),
        ("branches.qpn", |p| p.branches[1].kind = receiver(qpn(0xFFF), Some(REGION))),
        ("branches.memory", |p| p.branches[1].kind = receiver(qpn(0x21), None)),
        ("branches.memory.va", |p| p.branches[1].kind = receiver(qpn(0x21), Some(MemoryRegion { va: 1, ..REGION }))),
        ("branches.memory.rkey", |p| {
            p.branches[1].kind = receiver(qpn(0x21), Some(MemoryRegion { rkey: 1, ..REGION }))
        }),
        ("branches.memory.length", |p| {
            p.branches[1].kind = receiver(qpn(0x21), Some(MemoryRegion { length: 1, ..REGION }))
        }),
        ("receivers_provisioned", |p| p.receivers_provisioned = false),
        ("write_base_va", |p| p.write_base_va += 1),
        ("write_rkey", |p| p.write_rkey += 1),
        ("branch_metrics", |p| p.branch_metrics = false),
        ("params.window", |p| p.params.window -= 1),
        ("params.reack_interval_ns", |p| p.params.reack_interval += Duration::from_nanos(1)),
        ("params.nak_merge_ns", |p| p.params.nak_merge += Duration::from_nanos(1)),
        ("params.cnp_window_ns", |p| p.params.cnp_window += Duration::from_nanos(1)),
        ("params.cnp_min_interval_ns", |p| p.params.cnp_min_interval += Duration::from_nanos(1)),
    ];
    for (field, change) in in_group {
        let mut spec = full_spec();
        let mut p = spec.groups.pop_first().unwrap().as_ref().clone();
        change(&mut p);
        spec.groups.insert(p.group_id, p);
        all.push((field, spec));
    }
    let mut gone = full_spec();
    gone.groups.pop_first();
    all.push(("groups", gone));
    all
}

fn arb_ip() -> impl Strategy<Value = Ipv6Addr> {
    any::<u128>().prop_map(Ipv6Addr::from)
}

fn arb_net() -> impl Strategy<Value = Ipv6Net> {
    (arb_ip(), 0u8..=128).prop_map(|(a, l)| Ipv6Net::new(a, l).unwrap().trunc())
}

fn arb_port() -> impl Strategy<Value = PortIndex> {
    (1u64..=0xFFF).prop_map(port)
}

fn arb_qpn() -> impl Strategy<Value = Qpn> {
    (2u64..0xFF_FFFF).prop_map(qpn)
}

fn arb_name() -> impl Strategy<Value = String> {
    "[a-z][a-z0-9]{0,14}"
}

fn arb_peer() -> impl Strategy<Value = Peer> {
    prop_oneof![
        (arb_name(), arb_ip()).prop_map(|(name, link_local)| Peer::Node { name, link_local }),
        (arb_name(), arb_net(), arb_ip(), arb_ip()).prop_map(|(name, prefix, address, gateway)| Peer::Host {
            name,
            prefix,
            address,
            gateway
        }),
    ]
}

fn arb_base() -> impl Strategy<Value = NodeBase> {
    let rest = (1..=10_000_000_000_u64, 1_u64.., 1..=1_000_u16, 1_u64..);
    let thresholds = (any::<u32>(), rest).prop_map(|(k_min, (rtt_ns, port_rate_bps, v_ecn_permille, v_growth))| {
        let k_min = u64::from(k_min);
        PortThresholds {
            k_min: Octets(k_min),
            k_max: Octets(2 * k_min + 1),
            rtt: Duration::from_nanos(rtt_ns),
            port_rate: Rate::from_bps(port_rate_bps),
            v_ecn_permille,
            v_growth_per_ms: Octets(v_growth),
        }
    });
    let ports = (arb_port(), arb_name(), 1280u32..=65535, arb_ip(), arb_peer(), prop::option::of(thresholds)).prop_map(
        |(index, name, mtu, link_local, peer, thresholds)| Port { index, name, mtu, link_local, peer, thresholds },
    );
    let path_links = (arb_port(), prop::option::of(1u64..=0xDFFF))
        .prop_map(|(port, un)| PathLink { port, un: un.map(|un| NodeId::new("un", un).unwrap()) });
    let ends = (arb_net(), 1u64..=0xDFFF).prop_map(|(prefix, un)| (prefix, NodeId::new("un", un).unwrap()));
    let host_programs =
        (prop::collection::btree_set(arb_port(), 0..3), prop::collection::vec(ends, 0..4)).prop_map(|(ports, ends)| {
            let nodes = ends.iter().map(|(_, un): &(_, NodeId)| *un).collect();
            HostPrograms { ports, ends: ends.into(), nodes, most_nodes: 9 }
        });
    let routes =
        (arb_net(), arb_port(), arb_ip()).prop_map(|(prefix, port, next_hop)| Route { prefix, port, next_hop });
    (
        arb_name(),
        1u64..=0xDFFF,
        arb_ip(),
        arb_net(),
        arb_ip(),
        prop::collection::vec(ports, 0..4),
        prop::collection::vec(routes, 0..4).prop_map(Routes::from_iter),
        (arb_net(), arb_net(), arb_net(), arb_net()),
        (prop::option::of(arb_hmac()), prop::collection::vec(path_links, 0..4), prop::option::of(host_programs)),
    )
        .prop_map(|(name, id, node_address, un, end_mt, ports, routes, (block, nodes, proxies, groups), rest)| {
            let (hmac, path_links, host_programs) = rest;
            NodeBase {
                name,
                node_id: NodeId::new("id", id).unwrap(),
                node_address,
                un,
                end_mt,
                ports,
                routes,
                addressing: AddressPlan { block, node_prefix: nodes, proxy_prefix: proxies, multicast_prefix: groups },
                hmac,
                path_links,
                host_programs,
            }
        })
}

fn arb_hmac() -> impl Strategy<Value = SrhHmac> {
    let key = (any::<[u8; 32]>(), any::<bool>());
    (1..=u32::MAX - 1, prop::collection::vec(key, 1..=2), any::<bool>()).prop_map(|(first, keys, required)| {
        let key = |(n, (secret, linux))| HmacKey {
            id: HmacKeyId::new("id", first + n as u32).unwrap(),
            secret: HmacSecret::new(secret),
            flag_bit: if linux { FlagBit::Linux } else { FlagBit::Rfc8754 },
        };
        let keys: Vec<_> = keys.into_iter().enumerate().map(key).collect();
        let sending = keys.last().unwrap().id;
        SrhHmac::new(keys, sending, required).unwrap()
    })
}

fn arb_memory() -> impl Strategy<Value = MemoryRegion> {
    (any::<u64>(), any::<u32>(), any::<u64>()).prop_map(|(va, rkey, length)| {
        let va = va >> 1;
        MemoryRegion { va, rkey, length: (length >> 1).max(1) }
    })
}

fn arb_branch() -> impl Strategy<Value = Branch> {
    let kind = prop_oneof![
        arb_ip().prop_map(|sid| BranchKind::Node { sid }),
        (arb_qpn(), prop::option::of(arb_memory())).prop_map(|(qpn, memory)| BranchKind::Receiver { qpn, memory }),
    ];
    let start = (0..1u32 << 24, 0..1u32 << 24).prop_map(|(shift, msn_base)| LateStart { shift, msn_base });
    let start = prop::option::of(start);
    (arb_ip(), arb_port(), arb_ip(), kind, any::<(bool, bool, bool)>(), any::<u32>(), start).prop_map(
        |(address, port, next_hop, kind, (at_boundary, standby, lost), since, start)| Branch {
            address,
            port,
            next_hop,
            kind,
            at_boundary,
            start,
            since,
            standby,
            lost,
        },
    )
}

fn arb_headend() -> impl Strategy<Value = Headend> {
    let list = (arb_ip(), prop::collection::vec((arb_ip(), arb_qpn()), 1..=11))
        .prop_map(|(edge, receivers)| EndMtList { edge, receivers });
    let lists = (prop::collection::vec(arb_ip(), 1..3), prop::collection::vec(list, 0..3));
    (arb_port(), lists, 1u32..1 << 22, any::<(bool, bool)>()).prop_map(
        |(source_port, (segments, tlvs), flight, (open, held))| Headend {
            source_port,
            segments,
            tlvs,
            max_flight: flight.min(canopy_model::group::MAX_FLIGHT),
            open,
            held,
        },
    )
}

fn arb_program() -> impl Strategy<Value = GroupProgram> {
    let ids = (
        1u64..=u64::from(u32::MAX),
        arb_name(),
        any::<u32>(),
        1u64..=u64::from(u32::MAX),
        arb_ip(),
        arb_qpn(),
        0u64..=0xFF_FFFF,
        arb_ip(),
        arb_qpn(),
    );
    let upstream = (arb_ip(), arb_ip(), arb_qpn(), arb_port(), arb_ip()).prop_map(
        |(source_address, destination, dest_qp, port, next_hop)| Upstream {
            source_address,
            destination,
            dest_qp,
            port,
            next_hop,
        },
    );
    let params = (1u32..1 << 22, any::<u64>(), any::<u64>(), 1u64.., any::<u64>(), 1u64..).prop_map(
        |(window, reack_interval_ns, nak_merge_ns, cnp_window_ns, cnp_min_interval_ns, stall_after_ns)| {
            AggregationParams {
                window,
                reack_interval: Duration::from_nanos(reack_interval_ns),
                nak_merge: Duration::from_nanos(nak_merge_ns),
                cnp_window: Duration::from_nanos(cnp_window_ns),
                cnp_min_interval: Duration::from_nanos(cnp_min_interval_ns),
                stall_after: Duration::from_nanos(stall_after_ns),
            }
        },
    );
    let multicast =
        (any::<u16>(), any::<u16>()).prop_map(|(s, g)| Multicast { source: ip(s), group: group_address(g) });
    let rest = (
        prop::option::of(arb_ip()),
        prop::option::of(multicast),
        (prop::option::of(arb_headend()), prop::option::of(arb_ip())),
        upstream,
        prop::option::of(arb_port()),
        prop::collection::vec(arb_branch(), 0..4),
    );
    (ids, rest, any::<((bool, bool, bool), u64, u32, u32)>(), params).prop_map(
        |(
            (id, name, epoch, tree, proxy, designated_qpn, psn, address, qpn),
            (replication_sid, multicast, (headend, headend_address), upstream, alternate_upstream, branches),
            ((receivers_provisioned, accepts_roce, branch_metrics), write_base_va, write_rkey, largest_packet),
            params,
        )| {
            GroupProgram {
                group_id: GroupId::new("id", id).unwrap(),
                name,
                epoch,
                tree_id: TreeId::new("tree", tree).unwrap(),
                proxy,
                designated_qpn,
                start_psn: Psn::new("psn", psn).unwrap(),
                source: SourceQp { address, qpn, accepts_roce },
                replication_sid,
                multicast,
                headend,
                headend_address,
                upstream,
                alternate_upstream,
                branches,
                receivers_provisioned,
                write_base_va,
                write_rkey,
                params,
                branch_metrics,
                largest_packet,
            }
        },
    )
}

/// Random specs with up to five groups.
pub(crate) fn node_spec() -> impl Strategy<Value = NodeSpec> {
    (any::<u32>(), any::<u32>(), arb_base(), prop::collection::vec(arb_program(), 0..5)).prop_map(
        |(term, generation, base, programs)| {
            let groups = programs.into_iter().map(|p| (p.group_id, p)).collect();
            NodeSpec { term: term.into(), generation: generation.into(), base: base.into(), groups }
        },
    )
}

fn arb_counts() -> impl Strategy<Value = CnpCounts> {
    any::<[u64; 9]>().prop_map(|[notify, pause, rate_reduce, resume, failed, a, b, c, d]| CnpCounts {
        cnps: CnpsByAction { notify, pause, rate_reduce, resume, failed },
        suppressed: a,
        rate_limited_flow: b,
        rate_limited_port: c,
        unknown_source_qp: d,
    })
}

fn arb_flow() -> impl Strategy<Value = FlowTelemetry> {
    let known = [FlowOrigin::Learned, FlowOrigin::Cm, FlowOrigin::Provisioned];
    let source = prop::option::of((arb_qpn(), prop::sample::select(known.to_vec())));
    (arb_ip(), arb_ip(), arb_qpn(), source, any::<[u64; 4]>(), 0..=1_000_u16, arb_counts()).prop_map(
        |(src, dst, dst_qp, source, [packets, octets, ce, rate], share_permille, counts)| {
            let (src_qp, origin) = source.unzip();
            let origin = origin.unwrap_or_default();
            let (octets, rate) = (Octets(octets), Rate::from_bps(rate));
            FlowTelemetry { src, dst, dst_qp, src_qp, origin, packets, octets, ce, rate, share_permille, counts }
        },
    )
}

/// Random queues with up to three flows.
pub(crate) fn port_congestion() -> impl Strategy<Value = PortCongestion> {
    let source = prop_oneof![
        Just(None),
        Just(Some(DepthSource::Kernel)),
        (1..=u32::MAX).prop_map(|ms| Some(DepthSource::Sampled { every: Duration::from_millis(ms.into()) })),
    ];
    let levels = (any::<u8>(), any::<u8>(), 0..=1_000_u16);
    let flows = prop::collection::vec(arb_flow(), 0..4);
    (arb_port(), source, levels, any::<[u64; 8]>(), arb_counts(), flows).prop_map(
        |(port, depth_source, (level, peak_level, emr_permille), n, counts, flows)| {
            let [queue, peak_queue, qgr_per_ms, packets, octets, marked, ce, not_ect] = n;
            let queue = QueueTelemetry {
                queue: Octets(queue),
                peak_queue: Octets(peak_queue),
                depth_source,
                level,
                peak_level,
                emr_permille,
                qgr_per_ms: Octets(qgr_per_ms),
                packets,
                octets: Octets(octets),
                marked,
                ce,
                not_ect,
                counts,
            };
            PortCongestion { port, queue, flows }
        },
    )
}
