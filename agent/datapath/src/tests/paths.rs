// SPDX-License-Identifier: Apache-2.0
//! Path programs, packet by packet (decisions 5): what a node makes of its uN and its uAs, and what it drops. `vectors.txt` has packets before
//! and behind a node as scapy builds them, by a model of a node that `vectors.py` has.

use std::collections::BTreeMap;
use std::process::Command;
use std::time::{Duration, Instant};

use canopy_agent_core::PathPackets;
use canopy_model::ids::NodeId;
use canopy_packet::bth::Opcode;

use super::boundary::{ICMPV6, UDP, at, extension, packet, udp};
use super::frames::tap;
use crate::testbed::*;

pub(super) const NEXT_IPV6: u8 = 41;
pub(super) const NEXT_ROUTING: u8 = 43;
pub(super) const HOP_LIMIT: usize = 7;
/// Lines of `vectors.txt`: a part of it is not taken for all.
const VECTORS: usize = 120;
/// Ports to other nodes; a host is behind d0.
const FABRIC: [&str; 4] = ["u0", "d1", "d2", "d3"];

/// The node n1: n2 is behind u0, n10 to n12 are behind d1 to d3.
fn bed() -> Testbed {
    Testbed::new(&Shape { children: 3, ..Shape::default() })
}

/// Another node that sends programs.
fn sender() -> std::net::Ipv6Addr {
    plan().node_address(node(9))
}

/// A packet from a host to the host behind d0.
fn inner() -> Vec<u8> {
    packet(at("2001:db8:77::1"), receiver(0), 63, UDP, &udp(4791))
}

/// The packet behind an outer header to `dst`.
fn in_program(dst: &str, carried: &[u8]) -> Vec<u8> {
    packet(sender(), at(dst), 64, NEXT_IPV6, carried)
}

/// An SRH with these segments, in the order of the wire.
pub(super) fn srh(next: u8, left: u8, segments: &[&str]) -> Vec<u8> {
    let mut out = vec![next, 2 * segments.len() as u8, 4, left, segments.len() as u8 - 1, 0, 0, 0];
    segments.iter().for_each(|segment| out.extend(at(segment).octets()));
    out
}

/// The inner packet behind an outer header to `dst` and an SRH.
fn with_srh(dst: &str, srh: &[u8]) -> Vec<u8> {
    packet(sender(), at(dst), 64, NEXT_ROUTING, &[srh, &inner()].concat())
}

/// Link-layer address of an interface.
fn mac(port: &str) -> Vec<u8> {
    let out = Command::new("ip").args(["-o", "link", "show", "dev", port]).output().unwrap();
    let text = String::from_utf8(out.stdout).unwrap();
    let (_, behind) = text.split_once("link/ether ").unwrap_or_else(|| panic!("{port}: {text}"));
    behind[..17].split(':').map(|octet| u8::from_str_radix(octet, 16).unwrap()).collect()
}

/// What the node does with packets, and by which port they leave.
pub(super) struct Node {
    pub(super) bed: Testbed,
    macs: BTreeMap<Vec<u8>, &'static str>,
}

impl Node {
    pub(super) fn new() -> Self {
        Self { bed: bed(), macs: FABRIC.into_iter().map(|port| (mac(port), port)).collect() }
    }

    /// The port by which the packet leaves over a link, and how it leaves.
    pub(super) fn forwards(&self, port: &str, packet: &[u8]) -> (&'static str, Vec<u8>) {
        let mut run = self.bed.datapath.bpf.receive(self.bed.ifindex(port), packet).unwrap();
        assert_eq!(run.verdict as u32, REDIRECT, "{packet:02x?}");
        assert_eq!((run.frame[0], &run.frame[12..14]), (2, &[0x86, 0xDD][..]), "to the neighbour");
        let from = run.frame[6..12].to_vec();
        let by = self.macs.get(&from).unwrap_or_else(|| panic!("from {from:02x?}"));
        (by, run.frame.split_off(14))
    }

    /// The packet that the kernel gets and may forward.
    pub(super) fn passes(&self, port: &str, packet: &[u8]) -> Vec<u8> {
        assert_eq!(self.bed.mark(port, packet), MARK_FABRIC);
        let (action, out, _) = self.bed.run(port, packet);
        assert_eq!(action, OK, "{packet:02x?}");
        out
    }

    /// The packet is dropped, and counted once, at the port of arrival and under this reason.
    pub(super) fn drops(&mut self, port: &str, packet: &[u8], reason: &str) {
        let before = self.counted();
        assert_eq!(self.bed.run(port, packet).0, SHOT, "{reason}");
        let mut after = self.counted();
        let key = (port.to_string(), reason.to_string());
        let count = after.get_mut(&key).unwrap_or_else(|| panic!("no {reason} at {port}: {before:?}"));
        *count -= 1;
        after.retain(|_, count| *count != 0);
        assert_eq!(after, before, "{reason}");
    }

    /// The processor uses the next hop that it knows for some time yet: waits until it no longer forwards the packet.
    fn notices(&self, port: &str, packet: &[u8]) {
        let deadline = Instant::now() + Duration::from_secs(10);
        while self.bed.run(port, packet).0 != SHOT {
            assert!(Instant::now() < deadline, "the next hop that is gone is used for ever");
        }
    }

    /// Drops at ports, without the link-local packets that far ends send when they like.
    pub(super) fn counted(&mut self) -> BTreeMap<(String, String), u64> {
        let here = |(port, reason): &(String, String)| !port.ends_with('p') && reason != "edge_link_local";
        self.bed.port_drops().into_iter().filter(|(key, _)| here(key)).collect()
    }

    /// The node has this uSID and these uNs behind [`FABRIC`]; 0 = none.
    fn becomes(&mut self, usid: u16, far: &[u16; 4]) {
        let id = |number: u16| NodeId::new("node", number.into()).ok();
        let errors = self.bed.reconcile(|spec| {
            let base = spec.base_mut();
            base.node_id = id(usid).unwrap();
            for link in &mut base.path_links {
                let port = base.ports.iter().find(|p| p.index == link.port).unwrap();
                link.un = FABRIC.iter().position(|name| *name == port.name).and_then(|i| id(far[i]));
            }
        });
        assert_eq!(errors, []);
    }

    fn path_packets(&mut self, port: &str) -> PathPackets {
        self.bed.path_packets().get(port).copied().unwrap_or_default()
    }
}

fn octets(hex: &str) -> Vec<u8> {
    hex.as_bytes().chunks(2).map(|two| u8::from_str_radix(std::str::from_utf8(two).unwrap(), 16).unwrap()).collect()
}

/// The illustration of the draft hop by hop, three tiers that fill the address, uAs alone, parallel links, SRHs with PSP and without, every
/// pair of ECN fields, random programs. Catches a shift by another width or without the slots behind the 64th bit, a link of another uSID,
/// an SRH that stays or goes when it must not, and any octet that a node must not change.
#[test]
fn every_packet_leaves_as_scapy_builds_it_and_over_the_link_that_its_program_names() {
    let mut node = Node::new();
    let (mut is, mut count) = (None, 0);
    for line in include_str!("paths/vectors.txt").lines().filter(|line| !line.starts_with('#')) {
        let [name, usid, uns, port, to, packet, wanted] = line.split(' ').collect::<Vec<_>>()[..] else {
            panic!("{line:?}")
        };
        if is != Some((usid, uns)) {
            let number = |hex: &str| u16::from_str_radix(hex, 16).unwrap();
            let far: Vec<u16> = uns.split(',').map(number).collect();
            node.becomes(number(usid), &far.try_into().unwrap());
            is = Some((usid, uns));
        }
        let (packet, wanted) = (octets(packet), octets(wanted));
        match to {
            "-" => assert_eq!(node.passes(port, &packet), wanted, "{name}"),
            _ => assert_eq!(node.forwards(port, &packet), (to, wanted), "{name}"),
        }
        count += 1;
    }
    assert_eq!(count, VECTORS);
}

/// Catches a uN that is looked up in the kernel's routes, as it is for other packets, and one that takes any of several links.
#[test]
fn a_un_leads_over_the_only_link_to_its_node_or_nowhere() {
    let mut node = Node::new();
    let route = ["-6", "route", "add", "5f00:0:77::/48", "via", "fe80::a:1", "dev", "d1", "table", "4791"];
    assert!(Command::new("ip").args(route).status().unwrap().success());
    node.drops("u0", &in_program("5f00:0:1:77::", &inner()), "path_no_link");
    // Two links to n10.
    node.becomes(1, &[2, 0, 0, 12]);
    node.drops("u0", &in_program("5f00:0:1:a::", &inner()), "path_no_link");
    assert_eq!(node.forwards("u0", &in_program("5f00:0:1:e003:a::", &inner())).0, "d1");
    assert_eq!(node.forwards("u0", &in_program("5f00:0:1:e004:a::", &inner())).0, "d2");
    assert_eq!(node.forwards("u0", &in_program("5f00:0:1:c::", &inner())).0, "d3");
    // Itself, what is reserved, a service, a port that the node does not have, a gap, a host's port that is not the last.
    for next in ["1:c", "e000:c", "f000", "f0ff", "f100", "e006", "0:c", "e002:c"] {
        node.drops("u0", &in_program(&format!("5f00:0:1:{next}::"), &inner()), "path_no_link");
    }
    // A segment that is no path SID, or a uN that is not next to this node.
    for segment in ["2001:db8:1::100", "5f00:0:77::", "5f00:0:1:c::", "5f01:0:c::"] {
        node.drops("u0", &with_srh("5f00:0:1::", &srh(NEXT_IPV6, 1, &[segment])), "path_no_link");
    }
}

/// Catches a node that forwards what another one should have: a link to the wrong node would go unnoticed.
#[test]
fn a_sid_of_another_node_ends_here() {
    let mut node = Node::new();
    for dst in
        ["5f00:0:a::", "5f00:0:a:1::", "5f00:0:e006:a::", "5f00:0:e000:a::", "5f00:0:f100::", "5f00::", "5f00:0:0:1::"]
    {
        node.drops("u0", &in_program(dst, &inner()), "path_sid");
    }
}

/// Catches a link that is left by another one or by none without a count, and a state of links that a reconcile does not restore.
#[test]
fn over_a_link_that_is_down_nothing_leaves() {
    let mut node = Node::new();
    // What a processor knows of a next hop, it alone knows.
    node.bed.stay_on_this_processor();
    let over = |last: &str| in_program(&format!("5f00:0:1:{last}::"), &inner());
    assert_eq!(node.forwards("u0", &over("a:5")).0, "d1");
    assert!(Command::new("ip").args(["link", "set", "dev", "d1", "down"]).status().unwrap().success());
    node.notices("u0", &over("a:5"));
    for next in ["a:5", "e003:5", "e003"] {
        node.drops("u0", &over(next), "path_link_down");
    }
    assert_eq!(node.forwards("u0", &over("b:5")).0, "d2", "another link");
    assert_eq!(node.bed.reconcile(|_| {}), []);
    assert_eq!(node.forwards("u0", &over("a:5")).0, "d1");
    // The far end does not answer neighbour discovery.
    assert!(Command::new("ip").args(["-6", "neigh", "del", "fe80::a:1", "dev", "d1"]).status().unwrap().success());
    node.notices("u0", &over("a:5"));
    node.drops("u0", &over("a:5"), "path_link_down");
}

/// Catches an endless loop of programs, and a hop limit that is decremented twice or not at all.
#[test]
fn the_hop_limit_ends_a_program_but_not_at_its_end() {
    let mut node = Node::new();
    let with = |dst: &str, outer: u8, carried: u8| {
        let mut inner = inner();
        inner[HOP_LIMIT] = carried;
        let mut out = in_program(dst, &inner);
        out[HOP_LIMIT] = outer;
        out
    };
    for limit in [0, 1] {
        node.drops("u0", &with("5f00:0:1:a::", limit, 64), "hop_limit");
        node.drops("u0", &with("5f00:0:1:e003::", 64, limit), "hop_limit");
        assert_eq!(
            node.passes("u0", &with("5f00:0:1::", limit, 64))[HOP_LIMIT],
            64,
            "the kernel decrements that of the inner one"
        );
    }
    let (by, out) = node.forwards("u0", &with("5f00:0:1:a::", 2, 64));
    assert_eq!((by, out[HOP_LIMIT]), ("d1", 1));
}

/// Catches a read beyond the packet, a segment that is not in the list, and octets that one header has and another one does not cover.
#[test]
fn malformed_programs_are_dropped() {
    let mut node = Node::new();
    let good = |left| srh(NEXT_IPV6, left, &["5f00:0:a:8::"]);
    let changed = |at: usize, octet: u8| {
        let mut srh = good(1);
        srh[at] = octet;
        with_srh("5f00:0:1::", &srh)
    };
    assert_eq!(node.forwards("u0", &with_srh("5f00:0:1::", &good(1))).0, "d1");
    node.drops("u0", &with_srh("5f00:0:1::", &good(2)), "srh_malformed");
    node.drops("u0", &changed(4, 1), "srh_malformed");
    node.drops("u0", &changed(4, 255), "srh_malformed");
    node.drops("u0", &changed(2, 0), "srh_malformed");
    node.drops("u0", &changed(1, 1), "srh_malformed");
    node.drops("u0", &changed(1, 255), "truncated");
    let whole = with_srh("5f00:0:1::", &good(1));
    for len in [40, 47, 63, whole.len() - 1] {
        node.drops("u0", &whole[..len], "truncated");
    }
    let mut short = in_program("5f00:0:1:a::", &inner());
    short.pop();
    node.drops("u0", &short, "truncated");
    // The outer length is less or more than that of the inner packet.
    for len in [-1i32, 1] {
        let mut packet = in_program("5f00:0:1::", &inner());
        packet.push(0);
        let payload = (packet.len() as i32 - 41 + len) as u16;
        packet[4..6].copy_from_slice(&payload.to_be_bytes());
        node.drops("u0", &packet, "inner_malformed");
    }
    node.drops("u0", &in_program("5f00:0:1::", &inner()[..39]), "truncated");
    let mut other = inner();
    other[0] = 0x40;
    node.drops("u0", &in_program("5f00:0:1::", &other), "inner_malformed");
    // Nothing to remove a header from: UDP, IPv4, an upper layer behind an SRH.
    node.drops("u0", &packet(sender(), at("5f00:0:1::"), 64, UDP, &udp(4791)), "path_end");
    node.drops("u0", &packet(sender(), at("5f00:0:1::"), 64, 4, &[0x45; 20]), "path_end");
    node.drops("u0", &with_srh("5f00:0:1::", &srh(UDP, 0, &["5f00:0:a::"])), "path_end");
    // Not ECN capable inside, and marked outside.
    let mut marked = in_program("5f00:0:1::", &inner());
    marked[1] |= 0x30;
    node.drops("u0", &marked, "ecn");
}

/// Catches a packet that the next link cannot carry, and the count of a link that is down for it.
#[test]
fn a_program_larger_than_the_next_link_is_counted_for_its_size() {
    let mut node = Node::new();
    assert!(Command::new("ip").args(["link", "set", "dev", "d1", "mtu", "1280"]).status().unwrap().success());
    let errors = node
        .bed
        .reconcile(|spec| spec.base_mut().ports.iter_mut().filter(|p| p.name == "d1").for_each(|p| p.mtu = 1280));
    assert_eq!(errors, []);
    let of = |octets: usize| packet(at("2001:db8:77::1"), receiver(0), 63, UDP, &vec![0; octets - 80]);
    assert_eq!(node.forwards("u0", &in_program("5f00:0:1:a::", &of(1280))).0, "d1");
    node.drops("u0", &in_program("5f00:0:1:a::", &of(1281)), "path_mtu");
    // Also right behind one that fits: of so many pairs one is within the time that a processor keeps the next hop.
    node.bed.stay_on_this_processor();
    for _ in 0..200 {
        assert_eq!(node.forwards("u0", &in_program("5f00:0:1:a::", &of(1280))).0, "d1");
        assert_eq!(node.bed.run("u0", &in_program("5f00:0:1:a::", &of(1281))).0, SHOT);
    }
    assert_eq!(node.forwards("u0", &in_program("5f00:0:1:b::", &of(1281))).0, "d2");
}

/// Octets behind the packet are not the host's, and not the next node's.
#[test]
fn octets_behind_a_packet_do_not_leave_with_it() {
    let node = Node::new();
    let (clean, padded) = (in_program("5f00:0:1:a::", &inner()), |packet: &[u8]| [packet, &[0xEE; 9]].concat());
    assert_eq!(node.forwards("u0", &padded(&clean)), node.forwards("u0", &clean));
    let (by, out) = node.forwards("u0", &padded(&in_program("5f00:0:1:e003::", &inner())));
    let mut wanted = inner();
    wanted[HOP_LIMIT] -= 1;
    assert_eq!((by, out), ("d1", wanted));
}

/// Catches a tunnel around the boundary: what no host may send, a node would otherwise do for it.
#[test]
fn what_a_program_carries_is_checked_like_a_packet_of_a_host() {
    let mut node = Node::new();
    let from = at("2001:db8:77::1");
    let hosts = |dst| packet(from, dst, 63, UDP, &udp(4791));
    let tree = node.bed.spec.groups.values().next().unwrap().tree_id;
    let sids = [at("5f00:0:1:a::"), at("5f00:0:2::"), end_mt(), plan().replication(crate::testbed::node(1), tree)];
    let nodes = [1, 2].map(|n| plan().node_address(crate::testbed::node(n)));
    let others = [proxy(), group_address(), at("ff02::1"), at("fe80::1"), at("fe80::1:3")];
    let mut refused: Vec<Vec<u8>> = sids.into_iter().chain(nodes).chain(others).map(hosts).collect();
    for src in [sender(), at("5f00:0:2::"), proxy(), at("fe80::2:1")] {
        refused.push(packet(src, receiver(0), 63, UDP, &udp(4791)));
    }
    // Encapsulated again, at once or behind options; a Routing header; neighbour discovery.
    let twice = in_program("5f00:0:a::", &inner());
    refused.push(twice.clone());
    refused.push(packet(from, receiver(0), 63, NEXT_IPV6, &inner()));
    refused.push(packet(from, receiver(0), 63, 4, &[0x45; 20]));
    refused.push(packet(from, receiver(0), 63, NEXT_ROUTING, &[srh(UDP, 0, &["2001:db8:1::100"]), udp(80)].concat()));
    refused.push(packet(from, receiver(0), 63, 60, &[extension(NEXT_IPV6, 8), inner()].concat()));
    refused.push(packet(from, receiver(0), 63, 60, &[extension(UDP, 264), udp(80)].concat()));
    refused.push(packet(at("fe80::2:1"), at("ff02::1:ff00:1"), 255, ICMPV6, &[135; 24]));
    for carried in &refused {
        for dst in ["5f00:0:1::", "5f00:0:1:e002::", "5f00:0:e003::"] {
            node.drops("u0", &in_program(dst, carried), "path_inner");
        }
    }
    // The node's own address elsewhere.
    let own = ["-6", "addr", "add", "2001:db8:55::9/64", "dev", "lo", "nodad"];
    assert!(Command::new("ip").args(own).status().unwrap().success());
    assert_eq!(node.bed.reconcile(|_| {}), []);
    node.drops("u0", &in_program("5f00:0:1::", &hosts(at("2001:db8:55::9"))), "path_inner");
    let options = packet(from, receiver(0), 63, 60, &[extension(UDP, 8), udp(80)].concat());
    assert_eq!(node.passes("u0", &in_program("5f00:0:1::", &options)), options);
}

/// Catches a uA of a host's port that is only another name of the node.
#[test]
fn the_ua_of_a_hosts_port_is_for_that_host_alone() {
    let mut node = Node::new();
    assert_eq!(node.passes("u0", &in_program("5f00:0:e002::", &inner())), inner());
    assert_eq!(node.passes("u0", &in_program("5f00:0:1:e002::", &inner())), inner());
    let other = packet(at("2001:db8:77::1"), at("2001:db8:99::1"), 63, UDP, &udp(80));
    node.drops("u0", &in_program("5f00:0:1:e002::", &other), "path_no_link");
    assert_eq!(node.passes("u0", &in_program("5f00:0:1::", &other)), other, "by the node's routes");
}

/// Where no host may send programs.
#[test]
fn only_nodes_send_programs() {
    let mut node = Node::new();
    let from = |src| packet(src, at("5f00:0:1:a::"), 64, NEXT_IPV6, &inner());
    node.drops("u0", &from(at("2001:db8:77::1")), "fabric_source");
    node.drops("d0", &from(receiver(0)), "edge_tunnel");
    node.drops("d0", &packet(receiver(0), at("5f00:0:1:a::"), 64, UDP, &udp(4791)), "edge_sid");
    let before = node.bed.drops().get("gso").copied().unwrap_or(0);
    let run = node.bed.datapath.bpf.receive_gso(
        node.bed.ifindex("u0"),
        &in_program("5f00:0:1:a::", &[inner(), inner()].concat()),
        28,
    );
    assert_eq!(
        (run.unwrap().verdict as u32, node.bed.drops()["gso"]),
        (SHOT, before + 1),
        "a buffer of several packets"
    );
}

/// Catches a program of another node's group that path SIDs take from it, and a Replication-SID that a program no longer reaches.
#[test]
fn groups_keep_their_sids() {
    let node = Node::new();
    let sent = data(Opcode::SEND_ONLY, 100, b"group");
    for (psn, sid) in [(100, end_mt()), (101, replication())] {
        let sent = data(Opcode::SEND_ONLY, psn, b"group");
        assert_eq!(node.bed.run("u0", &encapsulated(&sent, sid, list(0..1), 0)).0, REDIRECT);
    }
    let mut node = node;
    assert_eq!((node.bed.telemetry().data_packets, node.path_packets("u0")), (2, PathPackets::default()));
    // End.MT and the tree's SID with something behind them are other SIDs.
    for dst in ["5f00:0:1:f001:1::", "5f00:0:1:f001::1", "5f00:0:1:f003::"] {
        node.drops("u0", &encapsulated(&sent, at(dst), list(0..1), 0), "path_no_link");
    }
}

/// What passes is counted by the port on which it arrived, and what is installed outlives the agent: a restarted one changes nothing that
/// is as wanted, and removes what is not.
#[test]
fn links_and_counters_outlive_the_agent() {
    let mut node = Node::new();
    let forwarded = in_program("5f00:0:1:a::", &inner());
    node.forwards("u0", &forwarded);
    node.forwards("u0", &forwarded);
    node.forwards("d1", &in_program("5f00:0:1:2::", &inner()));
    node.passes("u0", &in_program("5f00:0:1::", &inner()));
    let counted = PathPackets { forwarded: 2, ended: 2 };
    assert_eq!((node.path_packets("u0"), node.path_packets("d1")), (counted, PathPackets { forwarded: 1, ended: 0 }));
    node.bed.reopen();
    assert_eq!(node.forwards("u0", &forwarded).0, "d1", "before the first reconcile");
    let keys = |node: &Node| {
        let mut keys = node.bed.datapath.bpf.path_links().keys();
        keys.sort_unstable();
        keys
    };
    assert_eq!(keys(&node), [2, 10, 11, 12, 0xE001, 0xE002, 0xE003, 0xE004, 0xE005]);
    let d1 = node.bed.spec.base.ports.iter().find(|p| p.name == "d1").unwrap().index;
    assert_eq!(node.bed.reconcile(|spec| spec.base_mut().path_links.retain(|link| link.port != d1)), []);
    assert_eq!(keys(&node), [2, 11, 12, 0xE001, 0xE002, 0xE004, 0xE005]);
    node.drops("u0", &forwarded, "path_no_link");
    assert_eq!(node.path_packets("u0"), PathPackets { forwarded: 3, ended: 2 });
}

/// On the wire: over the link to the next node, and by the kernel to the host.
#[test]
fn packets_leave_through_the_ports() {
    let bed = Testbed::without_far_boundary(&Shape { children: 1, ..Shape::default() });
    let (next, host) = (tap(&bed, "d1"), tap(&bed, "d0"));
    let send = |packet: &[u8]| {
        let frame = [&mac("u0")[..], &[2, 0, 0, 0, 0, 9, 0x86, 0xDD], packet].concat();
        PacketSocket::open(bed.ifindex("u0p")).send(&frame);
    };
    send(&in_program("5f00:0:1:a:5::", &inner()));
    let mut wanted = in_program("5f00:0:a:5::", &inner());
    wanted[HOP_LIMIT] -= 1;
    assert_eq!(next.next(|p| p[6] == NEXT_IPV6), wanted);
    send(&in_program("5f00:0:1::", &inner()));
    let mut wanted = inner();
    wanted[HOP_LIMIT] -= 1;
    assert_eq!(host.next(|p| p[6] == UDP), wanted);
}
