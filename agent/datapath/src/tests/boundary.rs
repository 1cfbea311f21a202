// SPDX-License-Identifier: Apache-2.0
//! The boundary of the domain, packet by packet (decisions 6): what a host, a node and an interface outside the topology may send.

use std::collections::BTreeMap;
use std::net::Ipv6Addr;

use canopy_packet::bth::Opcode;

use crate::testbed::*;

pub(super) const UDP: u8 = 17;
pub(super) const ICMPV6: u8 = 58;
const MLD: &str = "edge_link_local";

pub(super) fn at(text: &str) -> Ipv6Addr {
    text.parse().unwrap()
}

/// An IPv6 packet, built here octet by octet.
pub(super) fn packet(src: Ipv6Addr, dst: Ipv6Addr, hop_limit: u8, next: u8, payload: &[u8]) -> Vec<u8> {
    let mut out = vec![0x60, 0, 0, 0];
    out.extend((payload.len() as u16).to_be_bytes());
    out.extend([next, hop_limit]);
    out.extend(src.octets());
    out.extend(dst.octets());
    out.extend(payload);
    out
}

pub(super) fn udp(dport: u16) -> Vec<u8> {
    let mut out = vec![0xC0, 0];
    out.extend(dport.to_be_bytes());
    out.extend([0, 28, 0, 0]);
    out.extend([0; 20]);
    out
}

/// Neighbour discovery of `kind` about `target`.
fn discovery(kind: u8, target: Ipv6Addr) -> Vec<u8> {
    let mut out = vec![kind, 0, 0, 0, 0, 0, 0, 0];
    out.extend(target.octets());
    out
}

/// An extension header of `octets` that is followed by `next`.
pub(super) fn extension(next: u8, octets: usize) -> Vec<u8> {
    let mut out = vec![next, (octets / 8 - 1) as u8];
    out.resize(octets, 0);
    out
}

pub(super) fn fragment(next: u8, offset: u16, more: bool) -> Vec<u8> {
    let field = (offset << 3) | u16::from(more);
    let mut out = vec![next, 0];
    out.extend(field.to_be_bytes());
    out.extend([0, 0, 0, 9]);
    out
}

pub(super) struct Edge {
    pub(super) bed: Testbed,
}

impl Edge {
    pub(super) fn new() -> Self {
        Self { bed: Testbed::new(&Shape { receivers: 1, children: 1, ..Shape::default() }) }
    }

    /// The packet is dropped on `port` for `reason`, counted there and nowhere else, and changes no state.
    pub(super) fn refuses(&mut self, port: &str, packet: &[u8], reason: &str) {
        let (state, before) = (self.bed.state_octets(), self.counted());
        let (action, ..) = self.bed.run(port, packet);
        let mut after = self.counted();
        let key = (port.to_string(), reason.to_string());
        // The kernel at the far end of the port sends MLD reports when it likes, which are link-local too.
        let counted = after.get(&key).copied().unwrap_or(0) - before.get(&key).copied().unwrap_or(0);
        assert!(counted == 1 || counted > 1 && reason == MLD, "{counted} {reason} on {port}: {after:?}");
        let others = |drops: &mut BTreeMap<(String, String), u64>| drops.retain(|k, _| *k != key && k.1 != MLD);
        let mut was = before;
        others(&mut was);
        others(&mut after);
        assert_eq!((action, after), (SHOT, was), "{reason} on {port}");
        assert_eq!(self.bed.state_octets(), state, "{reason} on {port}");
    }

    fn counted(&mut self) -> BTreeMap<(String, String), u64> {
        self.bed.port_drops()
    }

    /// The packet is passed to the kernel with the mark of the fabric.
    pub(super) fn passes(&mut self, port: &str, packet: &[u8]) {
        let mut before = self.counted();
        assert_eq!((self.bed.run(port, packet).0, self.bed.mark(port, packet)), (OK, MARK_FABRIC), "{packet:02x?}");
        let mut after = self.counted();
        before.retain(|k, _| k.1 != MLD);
        after.retain(|k, _| k.1 != MLD);
        assert_eq!(after, before);
    }
}

#[test]
fn a_host_sends_from_its_prefix_to_hosts_and_to_proxy_addresses() {
    let mut edge = Edge::new();
    let host = receiver(0);
    edge.passes("d0", &packet(host, at("2001:db8:2::1"), 64, UDP, &udp(4791)));
    edge.passes("d0", &packet(host, at("fe80::1"), 64, ICMPV6, &[128, 0, 0, 0, 0, 1, 0, 1]));
    let chain = [extension(60, 8), extension(60, 8), extension(60, 8), extension(UDP, 232), udp(80)].concat();
    edge.passes("d0", &packet(host, at("2001:db8:2::1"), 64, 0, &chain));
    edge.passes("d0", &packet(host, at("2001:db8:2::1"), 64, 44, &[fragment(UDP, 100, true), vec![1; 64]].concat()));
}

#[test]
fn a_host_sends_only_in_its_own_name() {
    let mut edge = Edge::new();
    let to = at("2001:db8:2::1");
    for src in
        [plan().node_address(node(2)), plan().node_address(node(1)), proxy(), at("2001:db8:3::1"), end_mt(), at("::1")]
    {
        edge.refuses("d0", &packet(src, to, 64, UDP, &udp(4791)), "edge_source");
        edge.refuses("d0", &packet(src, proxy(), 64, UDP, &udp(4791)), "edge_source");
    }
    for src in [at("fe80::77"), at("::"), plan().host_gateway()] {
        edge.refuses("d0", &packet(src, to, 64, UDP, &udp(4791)), "edge_link_local");
    }
}

#[test]
fn a_host_reaches_no_sid_no_node_and_no_group_by_multicast() {
    let mut edge = Edge::new();
    let host = receiver(0);
    let data = data(Opcode::SEND_ONLY, 100, b"forged");
    let tree = edge.bed.spec.groups.values().next().unwrap().tree_id;
    for sid in [end_mt(), plan().replication(node(1), tree), plan().un(node(3)).addr()] {
        edge.refuses("d0", &packet(host, sid, 64, UDP, &udp(4791)), "edge_sid");
        let mut forged = encapsulated(&data, sid, list(0..1), 0);
        edge.refuses("d0", &forged, "edge_tunnel");
        forged[8..24].copy_from_slice(&host.octets());
        edge.refuses("d0", &forged, "edge_tunnel");
        edge.refuses("d0", &packet(host, sid, 64, 41, &data), "edge_tunnel");
        edge.refuses("d0", &packet(host, sid, 64, 4, &data), "edge_tunnel");
    }
    edge.refuses("d0", &packet(host, plan().node_address(node(1)), 64, UDP, &udp(4791)), "edge_node_address");
    edge.refuses("d0", &packet(host, plan().node_address(node(2)), 64, ICMPV6, &[128, 0, 0, 0]), "edge_node_address");
    for group in [group_address(), at("ff05::2"), at("ff02::16")] {
        edge.refuses("d0", &packet(host, group, 64, UDP, &udp(4791)), "edge_link_local");
    }
    // An SRH, or another Routing header, to anywhere.
    for kind in [4, 0, 2] {
        let mut routing = extension(UDP, 24);
        routing[2] = kind;
        let chain = [routing, udp(80)].concat();
        edge.refuses("d0", &packet(host, at("2001:db8:2::1"), 64, 43, &chain), "edge_tunnel");
        let hidden = [extension(43, 8), chain].concat();
        edge.refuses("d0", &packet(host, at("2001:db8:2::1"), 64, 60, &hidden), "edge_tunnel");
    }
}

#[test]
fn only_whole_roce_packets_reach_the_proxy_prefix() {
    let mut edge = Edge::new();
    let (host, proxy) = (receiver(0), plan().proxy(77).unwrap());
    edge.refuses("d0", &packet(host, proxy, 64, UDP, &udp(4790)), "edge_proxy_prefix");
    edge.refuses("d0", &packet(host, proxy, 64, 6, &[0; 20]), "edge_proxy_prefix");
    edge.refuses("d0", &packet(host, proxy, 64, 59, &[]), "edge_proxy_prefix");
    edge.refuses("d0", &packet(host, proxy, 64, UDP, &[0xC0]), "edge_proxy_prefix");
    let known = crate::testbed::proxy();
    for (offset, more) in [(0, true), (0, false), (1, true), (100, false)] {
        let payload = [fragment(UDP, offset, more), udp(4791)].concat();
        edge.refuses("d0", &packet(host, proxy, 64, 44, &payload), "edge_proxy_prefix");
        edge.refuses("d0", &packet(host, known, 64, 44, &payload), "edge_proxy_prefix");
    }
    // Behind another header no role finds it; and a group without a part here has none for it.
    for kind in [0, 60, 51] {
        let hidden = [extension(UDP, if kind == 51 { 16 } else { 8 }), udp(4791)].concat();
        edge.refuses("d0", &packet(host, known, 64, kind, &hidden), "edge_proxy_prefix");
    }
    edge.refuses("d0", &packet(host, proxy, 64, UDP, &udp(4791)), "edge_proxy_prefix");
    edge.refuses("d0", &packet(host, plan().proxy(78).unwrap(), 64, UDP, &udp(4791)), "edge_proxy_prefix");
}

#[test]
fn a_chain_of_headers_ends_within_the_packets_own_length() {
    let mut edge = Edge::new();
    let (host, to) = (receiver(0), at("2001:db8:2::1"));
    // What is behind the length is not the packet's: the frame's padding, or octets that another fragment contradicts.
    let cut = |mut packet: Vec<u8>, payload: u16| {
        packet[4..6].copy_from_slice(&payload.to_be_bytes());
        packet
    };
    let echo = [128, 0, 0, 0, 0, 1, 0, 1];
    let behind = packet(host, to, 64, 60, &[extension(UDP, 8), udp(80)].concat());
    edge.passes("d0", &cut(behind.clone(), 8 + 28));
    edge.passes("d0", &cut(behind.clone(), 8));
    edge.refuses("d0", &cut(behind.clone(), 7), "edge_headers");
    edge.refuses("d0", &cut(behind, 0), "edge_headers");
    let options = [fragment(60, 0, true), extension(ICMPV6, 16), echo.to_vec()].concat();
    edge.refuses("d0", &cut(packet(host, to, 64, 44, &options), 16), "edge_headers");
    // The type of the ICMPv6 message is in the next fragment.
    edge.refuses("d0", &cut(packet(host, to, 64, 44, &options), 24), "edge_headers");
    edge.refuses("d0", &cut(packet(host, to, 64, ICMPV6, &echo), 0), "edge_headers");
    edge.passes("d0", &[packet(host, to, 64, ICMPV6, &echo), vec![0; 6]].concat());
}

#[test]
fn a_replication_sid_is_compared_as_a_whole() {
    let mut edge = Edge::new();
    let sent = data(Opcode::SEND_ONLY, 100, b"tree");
    let argument = |a: u128| Ipv6Addr::from(u128::from(replication()) | a);
    for a in [1, 1 << 31] {
        assert_eq!(edge.bed.run("u0", &encapsulated(&sent, argument(a), list(0..1), 0)).0, SHOT, "argument {a:#x}");
    }
    assert_eq!((edge.bed.drops()["group_unknown"], edge.bed.telemetry().data_packets), (2, 0));
    assert_eq!(edge.bed.run("u0", &encapsulated(&sent, argument(0), list(0..1), 0)).0, REDIRECT);
}

#[test]
fn a_host_does_not_reach_the_nodes_other_addresses() {
    let mut edge = Edge::new();
    let host = receiver(0);
    let ip = |args: &str| {
        let out = std::process::Command::new("ip").args(args.split(' ')).output().unwrap();
        assert!(out.status.success(), "ip {args}: {}", String::from_utf8_lossy(&out.stderr));
    };
    let tcp = |to| packet(host, to, 64, 6, &[0; 20]);
    let (managed, anycast, inside) = (at("2001:db8:77::9"), at("2001:db8:77::"), receiver(99));
    for to in [managed, anycast] {
        edge.passes("d0", &tcp(to));
    }
    edge.passes("d0", &packet(inside, at("2001:db8:2::1"), 64, UDP, &udp(80)));
    // A management address, and one in the host's own prefix.
    ip("-6 addr add 2001:db8:77::9/64 dev lo nodad");
    ip(&format!("-6 addr add {inside}/128 dev lo nodad"));
    assert_eq!(edge.bed.reconcile(|_| {}), []);
    for to in [managed, anycast, inside] {
        edge.refuses("d0", &tcp(to), "edge_own_address");
        edge.refuses("d0", &packet(host, to, 64, ICMPV6, &[128, 0, 0, 0, 0, 1, 0, 1]), "edge_own_address");
    }
    edge.refuses("d0", &packet(inside, at("2001:db8:2::1"), 64, UDP, &udp(80)), "edge_source");
    edge.passes("d0", &tcp(at("fe80::1")));
    edge.passes("d0", &tcp(at("2001:db8:77::8")));
    ip("-6 addr del 2001:db8:77::9/64 dev lo");
    assert_eq!(edge.bed.reconcile(|_| {}), []);
    edge.passes("d0", &tcp(managed));
}

#[test]
fn chains_of_headers_are_bounded() {
    let mut edge = Edge::new();
    let (host, to) = (receiver(0), at("2001:db8:2::1"));
    let five =
        [extension(60, 8), extension(60, 8), extension(60, 8), extension(60, 8), extension(UDP, 8), udp(80)].concat();
    edge.refuses("d0", &packet(host, to, 64, 60, &five), "edge_headers");
    edge.refuses("d0", &packet(host, to, 64, 60, &[extension(UDP, 264), udp(80)].concat()), "edge_headers");
    edge.refuses(
        "d0",
        &packet(host, to, 64, 60, &[extension(60, 200), extension(UDP, 64), udp(80)].concat()),
        "edge_headers",
    );
    edge.refuses("d0", &packet(host, to, 64, 0, &[60, 0]), "edge_headers");
    edge.refuses("d0", &packet(host, to, 64, ICMPV6, &[]), "edge_headers");
    let mut other = packet(host, to, 64, UDP, &udp(80));
    other[0] = 0x40;
    edge.refuses("d0", &other, "edge_frame");
}

#[test]
fn a_host_discovers_its_neighbours_and_answers_for_itself_only() {
    let mut edge = Edge::new();
    let (host, local) = (receiver(0), at("fe80::ab"));
    let gateway = plan().host_gateway();
    let own = edge.bed.spec.base.ports.iter().find(|p| p.name == "d0").unwrap().link_local;
    let solicited = at("ff02::1:ff00:1");
    let (rs, ra, ns, na, redirect) = (133, 134, 135, 136, 137);
    let nd = |src, dst, kind, target| packet(src, dst, 255, ICMPV6, &discovery(kind, target));
    for src in [host, local] {
        edge.passes("d0", &nd(src, solicited, ns, gateway));
        edge.passes("d0", &nd(src, gateway, ns, gateway));
        edge.passes("d0", &nd(src, own, ns, own));
        edge.passes("d0", &nd(src, own, na, host));
        edge.passes("d0", &nd(src, at("ff02::1"), na, local));
        edge.passes("d0", &nd(src, at("ff02::2"), rs, at("::")));
    }
    // Duplicate address detection of its own addresses.
    edge.passes("d0", &nd(at("::"), at("ff02::1:ff00:100"), ns, host));
    edge.passes("d0", &nd(at("::"), at("ff02::1:ff00:ab"), ns, local));
    let wrong = "edge_neighbour_discovery";
    for (kind, target) in [
        (ra, at("::")),
        (redirect, at("2001:db8:9::1")),
        (na, gateway),
        (na, own),
        (na, at("2001:db8:3::1")),
        (na, plan().node_address(node(1))),
        (ns, at("2001:db8:3::1")),
    ] {
        for src in [host, local] {
            edge.refuses("d0", &nd(src, own, kind, target), wrong);
        }
    }
    // It claims the node's addresses: by duplicate address detection, or as a source.
    for target in [gateway, own] {
        edge.refuses("d0", &nd(at("::"), solicited, ns, target), wrong);
        edge.refuses("d0", &nd(target, solicited, ns, host), wrong);
    }
    edge.refuses("d0", &nd(at("2001:db8:3::1"), own, ns, own), wrong);
    edge.refuses("d0", &nd(host, at("2001:db8:2::1"), na, host), wrong);
    edge.refuses("d0", &nd(host, at("ff05::2"), na, host), wrong);
    edge.refuses("d0", &packet(host, own, 254, ICMPV6, &discovery(ns, own)), wrong);
    edge.refuses("d0", &packet(host, own, 255, ICMPV6, &discovery(ns, own)[..20]), wrong);
    let hidden = [extension(ICMPV6, 8), discovery(ns, own)].concat();
    edge.refuses("d0", &packet(host, own, 255, 60, &hidden), wrong);
    let in_fragment = [fragment(ICMPV6, 0, true), discovery(ra, at("::"))].concat();
    edge.refuses("d0", &packet(host, own, 255, 44, &in_fragment), wrong);
}

#[test]
fn the_source_sends_plain_packets_and_never_encapsulated_ones() {
    let mut bed = Testbed::new(&Shape { receivers: 1, headend: true, ..Shape::default() });
    let sent = data(Opcode::SEND_ONLY, 100, b"plain");
    let tree = bed.spec.groups.values().next().unwrap().tree_id;
    for sid in [end_mt(), plan().replication(node(1), tree)] {
        let mut forged = encapsulated(&sent, sid, list(0..1), 0);
        assert_eq!(bed.run("u0", &forged).0, SHOT);
        forged[8..24].copy_from_slice(&source().octets());
        assert_eq!(bed.run("u0", &forged).0, SHOT);
    }
    assert_eq!((bed.port_drops()[&("u0".into(), "edge_tunnel".into())], bed.telemetry().data_packets), (4, 0));
    assert_eq!(bed.run("u0", &sent).0, REDIRECT);
}

#[test]
fn a_group_is_fed_by_its_headend_and_sids_by_nodes() {
    let mut edge = Edge::new();
    let sent = data(Opcode::SEND_ONLY, 100, b"data");
    let good = encapsulated(&sent, end_mt(), list(0..1), 0);
    for src in [plan().node_address(node(3)), plan().node_address(node(1)), source()] {
        let mut forged = good.clone();
        forged[8..24].copy_from_slice(&src.octets());
        assert_eq!(edge.bed.run("u0", &forged).0, SHOT);
    }
    assert_eq!((edge.bed.drops()["fabric_source"], edge.bed.telemetry().data_packets), (3, 0));
    let foreign = packet(at("2001:db8:3::1"), plan().un(node(3)).addr(), 64, UDP, &udp(80));
    edge.refuses("u0", &foreign, "fabric_source");
    edge.refuses("u0", &packet(plan().node_address(node(7)), plan().un(node(3)).addr(), 64, UDP, &udp(80)), "path_sid");
    edge.passes("u0", &packet(at("2001:db8:3::1"), receiver(0), 64, UDP, &udp(80)));
    assert_eq!(edge.bed.run("u0", &good).0, REDIRECT);
}

#[test]
fn an_interface_outside_the_topology_reaches_nothing_of_the_domain() {
    let mut edge = Edge::new();
    edge.bed.port_aside();
    edge.bed.reconcile(|_| {});
    let stranger = at("2001:db8:99::1");
    for to in [end_mt(), plan().un(node(3)).addr(), plan().node_address(node(1)), proxy(), group_address()] {
        edge.refuses("a0", &packet(stranger, to, 64, UDP, &udp(4791)), "outside");
        edge.refuses("a0", &packet(receiver(0), to, 64, UDP, &udp(4791)), "outside");
    }
    // Its own business: passed, and without the mark it has no route into the fabric.
    let other = packet(stranger, at("2001:db8:98::1"), 64, UDP, &udp(80));
    assert_eq!((edge.bed.run("a0", &other).0, edge.bed.mark("a0", &other)), (OK, 0));
}

#[test]
fn what_the_node_sends_itself_and_receives_again_is_no_packet_of_a_host() {
    let mut edge = Edge::new();
    // Every interface is in ff02::1: the kernel returns the node's own packet on the port, without a link-layer header.
    let ping = std::process::Command::new("ping")
        .args(["-6", "-c", "2", "-i", "0.1", "-W", "1", "ff02::1%d0"])
        .output()
        .unwrap();
    assert!(String::from_utf8_lossy(&ping.stdout).contains("2 packets transmitted"), "{ping:?}");
    let mut drops = edge.counted();
    drops.retain(|(port, reason), _| port == "d0" && reason != MLD);
    assert_eq!(drops, BTreeMap::new());
}

#[test]
fn a_member_of_a_bridge_that_is_a_port_is_not_outside() {
    let mut bed = Testbed::new(&Shape::default());
    let member = bed.port_aside();
    let run = |program: &str, args: &str| {
        let out = std::process::Command::new(program).args(args.split(' ')).output().unwrap();
        assert!(out.status.success(), "{program} {args}: {}", String::from_utf8_lossy(&out.stderr));
        String::from_utf8(out.stdout).unwrap()
    };
    bed.reconcile(|_| {});
    assert!(run("tc", "filter show dev a0 ingress").contains("canopy_dispatch"), "outside, as long as it stands alone");
    run("ip", "link add br7 type bridge");
    run("ip", "link set dev br7 mtu 9000 up");
    run("ip", "link set dev a0 master br7");
    let errors = bed.reconcile(|s| {
        let mut port = s.base.ports[0].clone();
        (port.index, port.name) = (canopy_model::ids::PortIndex::new("port", 77).unwrap(), "br7".into());
        port.link_local = at("fe80::77");
        s.base_mut().ports.push(port);
    });
    assert_eq!(errors, []);
    assert!(run("tc", "filter show dev br7 ingress").contains("canopy_dispatch"));
    assert_eq!(run("tc", "filter show dev a0 ingress").trim(), "", "interface {member} is below a port");
}
