// SPDX-License-Identifier: Apache-2.0
//! Path programs of hosts at their edge, packet by packet (decisions 5.8): what a host that may send them gets in, and what not.

use std::net::Ipv6Addr;
use std::sync::atomic::{AtomicBool, Ordering};

use canopy_model::host_programs::HostPrograms;
use canopy_model::ids::PortIndex;
use canopy_model::usid::{Usid, UsidBlock};
use canopy_paths::host;
use canopy_paths::program::Program;

use super::boundary::{ICMPV6, UDP, at, extension, packet, udp};
use super::paths::{HOP_LIMIT, NEXT_IPV6, NEXT_ROUTING, Node, srh};
use crate::testbed::*;

const FORGED: &str = "edge_program";
const ELSEWHERE: &str = "edge_program_end";
/// A host behind n10, which is behind d1.
const AT_N10: &str = "2001:db8:a::1";
/// A host behind node 5, which is none of the node's neighbours.
const AT_5: &str = "2001:db8:5::1";
/// Those that programs may lead over.
const NODES: [u16; 9] = [1, 2, 5, 7, 0x3F, 0xA, 0xB, 0xC, 0xDFFF];

/// The node n1, whose host behind d0 may send programs; its other neighbours are as in `tests/paths.rs`.
fn edge() -> Node {
    let mut node = Node::new();
    permit(&mut node, Some(permission()));
    node
}

fn permission() -> HostPrograms {
    let end = |(prefix, un): (&str, u64)| (prefix.parse().unwrap(), node(un));
    let ends = [("2001:db8:1::/64", 1), ("2001:db8:5::/64", 5), ("2001:db8:a::/64", 10)].map(end);
    let nodes = NODES.iter().map(|un| node(u64::from(*un))).collect();
    HostPrograms { ports: [PortIndex::new("port", 2).unwrap()].into(), ends: ends.into(), nodes, most_nodes: 24 }
}

fn permit(node: &mut Node, programs: Option<HostPrograms>) {
    assert_eq!(node.bed.reconcile(|spec| spec.base_mut().host_programs = programs), []);
}

/// The host's packet to another host.
fn inner(dst: &str) -> Vec<u8> {
    packet(receiver(0), at(dst), 64, UDP, &udp(4791))
}

fn outer(dst: Ipv6Addr, carried: &[u8]) -> Vec<u8> {
    packet(receiver(0), dst, 64, NEXT_IPV6, carried)
}

/// The host's packet to `to`, by a program in one address.
fn program(dst: &str, to: &str) -> Vec<u8> {
    outer(at(dst), &inner(to))
}

fn with_srh(dst: &str, srh: &[u8], to: &str) -> Vec<u8> {
    packet(receiver(0), at(dst), 64, NEXT_ROUTING, &[srh, &inner(to)].concat())
}

/// Catches a program of a host that is dropped, changed on its way in, or sent over another link.
#[test]
fn what_ends_where_the_inner_destination_is_leaves_over_the_link_that_it_names() {
    let node = edge();
    for (dst, to, port, shifted) in [
        ("5f00:0:1:a::", AT_N10, "d1", "5f00:0:a::"),
        ("5f00:0:1:e003:a::", AT_N10, "d1", "5f00:0:a::"),
        ("5f00:0:1:b:a::", AT_N10, "d2", "5f00:0:b:a::"),
        ("5f00:0:1:b:e001:a:e00a:5", AT_5, "d2", "5f00:0:b:e001:a:e00a:5::"),
        ("5f00:0:1:c:7:dfff:efff:a", AT_N10, "d3", "5f00:0:c:7:dfff:efff:a::"),
        // A loop: the way there and back of a probe.
        ("5f00:0:1:b:5:b:1::", "2001:db8:1::200", "d2", "5f00:0:b:5:b:1::"),
    ] {
        let mut wanted = program(shifted, to);
        wanted[HOP_LIMIT] -= 1;
        assert_eq!(node.forwards("d0", &program(dst, to)), (port, wanted), "{dst}");
    }
    // From a host to another one of the same node.
    assert_eq!(node.passes("d0", &program("5f00:0:1::", "2001:db8:1::200")), inner("2001:db8:1::200"));
}

/// Catches a segment that no node loads and that is read, one that is loaded and not read, and a reduced list that is taken for a whole one.
#[test]
fn the_segments_that_nodes_will_load_are_part_of_the_program() {
    let mut node = edge();
    let first = "5f00:0:1:b:c:2:7:b";
    let reduced: &[&[&str]] = &[
        &["5f00:0:5::"],
        &["5f00:0:c:5::", "5f00:0:c:2:7:b:c:2"],
        &["5f00:0:5::", "5f00:0:2:b::", "5f00:0:c:2:7:b:c:e001"],
        // The node of the last uN in front loads the segment, and reads the uA at its start.
        &["5f00:0:e004:5::"],
        &["5f00:0:e001:5::", "5f00:0:e004:c:2:7:b:c"],
    ];
    for segments in reduced {
        let left = segments.len() as u8;
        assert_eq!(
            node.forwards("d0", &with_srh(first, &srh(NEXT_IPV6, left, segments), AT_5)).0,
            "d2",
            "{segments:?}"
        );
        // One less is loaded: the last segment is the same, unless it was the only one.
        let less = with_srh(first, &srh(NEXT_IPV6, left - 1, segments), AT_5);
        match left {
            1 => node.drops("d0", &less, ELSEWHERE),
            _ => assert_eq!(node.forwards("d0", &less).0, "d2"),
        }
        let whole = [segments, &[first][..]].concat();
        assert_eq!(node.forwards("d0", &with_srh(first, &srh(NEXT_IPV6, left, &whole), AT_5)).0, "d2");
        node.drops("d0", &with_srh(first, &srh(NEXT_IPV6, left, segments), AT_N10), ELSEWHERE);
        // What was loaded before is not loaded again, whatever it is.
        let with_former = [segments, &["2001:db8::"][..]].concat();
        assert_eq!(node.forwards("d0", &with_srh(first, &srh(NEXT_IPV6, left, &with_former), AT_5)).0, "d2");
    }
    let four = ["5f00:0:5::", "5f00:0:b::", "5f00:0:c::", "5f00:0:2::"];
    node.drops("d0", &with_srh(first, &srh(NEXT_IPV6, 4, &four), AT_5), FORGED);
    node.drops("d0", &with_srh(first, &srh(NEXT_IPV6, 4, &[&four[..], &[first]].concat()), AT_5), FORGED);
    // Two uAs of one node, each in an address of its own.
    let two = with_srh("5f00:0:1:b:c:2:7:e001", &srh(NEXT_IPV6, 1, &["5f00:0:e002:5::"]), AT_5);
    node.drops("d0", &two, FORGED);
    let others = [
        "2001:db8:5::1",
        "5f00::",
        "5f00::5",
        "5f00:0:5:0:5::",
        "5f00:0:f001::",
        "5f00:0:5:f001::",
        "5f00:0:f100::",
        "::",
        "5f01:0:5::",
    ];
    for at in 0..3 {
        for bad in others {
            let mut segments = ["5f00:0:5::", "5f00:0:2::", "5f00:0:c::"];
            segments[at] = bad;
            node.drops("d0", &with_srh(first, &srh(NEXT_IPV6, 3, &segments), AT_5), FORGED);
        }
    }
    let changed = |at: usize, octet: u8| {
        let mut list = srh(NEXT_IPV6, 1, &["5f00:0:5::"]);
        list[at] = octet;
        with_srh(first, &list, AT_5)
    };
    // Next header; length (TLVs, or shorter than the list); type; Segments Left; Last Entry; flags.
    let octets = [
        [(0, UDP), (0, NEXT_ROUTING), (0, 59)],
        [(1, 3), (1, 4), (1, 255)],
        [(1, 1), (2, 0), (2, 3)],
        [(3, 2), (3, 255), (4, 1)],
        [(4, 255), (5, 1), (5, 128)],
    ];
    for (at, octet) in octets.concat() {
        node.drops("d0", &changed(at, octet), FORGED);
    }
}

/// Catches a host that lets one packet pass a link many times.
#[test]
fn a_program_turns_back_once_and_is_no_longer_than_the_fabric_needs() {
    let mut node = edge();
    permit(&mut node, Some(HostPrograms { most_nodes: 5, ..permission() }));
    let probe = "2001:db8:1::200";
    assert_eq!(node.forwards("d0", &program("5f00:0:1:b:5:b:1::", probe)).0, "d2", "there and back");
    assert_eq!(node.forwards("d0", &program("5f00:0:1:b:1:c:5::", AT_5)).0, "d2");
    for back_and_forth in ["5f00:0:1:b:1:b:5::", "5f00:0:1:b:1:b:1::", "5f00:0:1:e004:b:1:b:5"] {
        node.drops(
            "d0",
            &program(
                back_and_forth,
                if back_and_forth.ends_with("5::") || back_and_forth.ends_with('5') { AT_5 } else { probe },
            ),
            FORGED,
        );
    }
    // A turn and what is counted do not begin anew with the next segment, and uAs are not counted.
    let two = |first, second, to| with_srh(first, &srh(NEXT_IPV6, 1, &[second]), to);
    assert_eq!(node.forwards("d0", &two("5f00:0:1:b:5::", "5f00:0:b:1::", probe)).0, "d2");
    assert_eq!(node.forwards("d0", &two("5f00:0:1:e004:b:e001:5:e001", "5f00:0:b:e001:1::", probe)).0, "d2");
    node.drops("d0", &two("5f00:0:1:b:1::", "5f00:0:b:5::", AT_5), FORGED);
    node.drops("d0", &two("5f00:0:1:b:c:2::", "5f00:0:7:5::", AT_5), FORGED);
    node.drops("d0", &program("5f00:0:1:b:c:2:7:5", AT_5), FORGED);
    permit(&mut node, Some(HostPrograms { most_nodes: 6, ..permission() }));
    assert_eq!(node.forwards("d0", &program("5f00:0:1:b:c:2:7:5", AT_5)).0, "d2");
    assert_eq!(node.forwards("d0", &two("5f00:0:1:b:c:2::", "5f00:0:7:5::", AT_5)).0, "d2");
}

/// What a host may send, by the text of decisions 5.8 and not by the program's way of reading it.
fn is_authorised(usids: &[u16; 6], end: u16) -> bool {
    let len = usids.iter().rposition(|&usid| usid != 0).map_or(0, |last| last + 1);
    let used = &usids[..len];
    let is_node = |usid: &u16| NODES.contains(usid);
    let is_link = |usid: &u16| (0xE001..=0xEFFF).contains(usid);
    used.first() == Some(&1)
        && used.last() == Some(&end)
        && used.iter().all(|usid| is_node(usid) || is_link(usid))
        && !used.windows(2).any(|two| two.iter().all(is_link))
        && used
            .iter()
            .filter(|usid| is_node(usid))
            .collect::<Vec<_>>()
            .windows(3)
            .filter(|way| way[0] == way[2])
            .count()
            < 2
}

/// A compromised host tries every value at every place. Catches one that leaves its edge though no host may send it.
#[test]
fn no_forged_usid_leaves_the_edge() {
    let mut node = edge();
    let count = |node: &mut Node| -> u64 {
        let all = node.counted();
        all.iter()
            .filter(|((port, reason), _)| port == "d0" && [FORGED, ELSEWHERE].contains(&&**reason))
            .map(|(_, n)| n)
            .sum()
    };
    let (before, mut refused) = (count(&mut node), 0);
    for base in [[1, 0xA, 5, 0, 0, 0], [1, 0xA, 0xE001, 0xB, 0xE004, 5]] {
        for place in 0..6 {
            for value in 0..=u16::MAX {
                let mut usids: [u16; 6] = base;
                usids[place] = value;
                let [a, b, c, d, e, f] = usids;
                let action = node.bed.run("d0", &outer(Ipv6Addr::new(0x5F00, 0, a, b, c, d, e, f), &inner(AT_5))).0;
                let is_authorised = is_authorised(&usids, 5);
                refused += u64::from(!is_authorised);
                // A neighbour is behind the second uSID, or nothing or the host.
                let neighbours = [2, 0xA, 0xB, 0xC, 0xE001, 0xE003, 0xE004, 0xE005];
                let leaves = is_authorised && neighbours.contains(&usids[1]);
                assert_eq!(action, if leaves { REDIRECT } else { SHOT }, "{usids:x?}");
            }
        }
    }
    assert_eq!(count(&mut node) - before, refused);
}

/// Catches ends and nodes that an agent with maps of another layout has to be given first: until then the host's programs would be dropped.
#[test]
fn another_layout_has_the_permission_before_the_first_reconcile() {
    let mut node = edge();
    node.bed.through_another_layout();
    node.bed.reopen();
    assert_eq!(node.bed.datapath.bpf.path_ends().keys().len(), 3);
    assert_eq!(node.forwards("d0", &program("5f00:0:1:a::", AT_N10)).0, "d1");
}

/// Catches one of a host's nodes at which its programs may not end, and a node that another host is behind.
#[test]
fn programs_may_end_at_each_of_the_nodes_that_a_host_is_behind() {
    let mut node = edge();
    let end = |(prefix, un): (&str, u64)| (prefix.parse().unwrap(), self::node(un));
    let of_5 = [2, 5, 7, 11, 12, 13, 14, 15].map(|un| ("2001:db8:5::/64", un));
    let ends: Vec<_> = of_5.into_iter().chain([("2001:db8:a::/64", 10)]).map(end).collect();
    let all = [1, 2, 5, 7, 10, 11, 12, 13, 14, 15].map(self::node).into_iter().collect();
    permit(&mut node, Some(HostPrograms { ends: ends.into(), nodes: all, ..permission() }));
    assert_eq!(node.bed.datapath.bpf.path_ends().keys().len(), 2);
    for (_, un) in of_5 {
        assert_eq!(node.forwards("d0", &program(&format!("5f00:0:1:a:{un:x}::"), AT_5)).0, "d1", "{un}");
    }
    let refused = |program: Vec<u8>| node.bed.run("d0", &program).0;
    assert_eq!(refused(program("5f00:0:1:a::", AT_5)), SHOT, "10");
    assert_eq!(refused(program("5f00:0:1:a:1::", AT_5)), SHOT, "1");
    assert_eq!(refused(program("5f00:0:1:a:5::", AT_N10)), SHOT, "another host's");
}

/// Random programs: what the controller marks as refused, the edge drops for its form, and nothing else.
#[test]
fn the_controller_and_the_edge_have_the_same_rules() {
    let block = UsidBlock::at_front(at("5f00::"));
    for most_nodes in [5, 24] {
        let mut node = edge();
        permit(&mut node, Some(HostPrograms { most_nodes, ..permission() }));
        let mut draw = 0x2545_F491_4F6C_DD1Du64;
        let mut next = |below: usize| {
            draw ^= draw << 13;
            draw ^= draw >> 7;
            draw ^= draw << 17;
            (draw >> 33) as usize % below
        };
        let (mut refused, mut accepted) = (0, 0);
        for _ in 0..20_000 {
            let mut usids = vec![1];
            for _ in 0..next(28) {
                let before = usids.len().checked_sub(2).map_or(1, |at| usids[at]);
                usids.push(match next(12) {
                    0 | 1 => 0xE001 + next(8) as u16,
                    2 => before,
                    _ => [2, 7, 0x3F, 0xA, 0xB, 0xC, 0xDFFF][next(7)],
                });
            }
            usids.push(5);
            let usids = usids.into_iter().filter_map(|usid| Usid::try_from(usid).ok()).collect();
            let Ok(path) = Program::new(usids) else { continue };
            let header = path.encode(block);
            let sent = match header.segments.len() {
                0 => outer(header.destination, &inner(AT_5)),
                _ => {
                    let segments: Vec<String> = header.segments.iter().map(ToString::to_string).collect();
                    let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
                    let srh = srh(NEXT_IPV6, header.segments_left, &segments);
                    packet(receiver(0), header.destination, 64, NEXT_ROUTING, &[srh, inner(AT_5)].concat())
                }
            };
            // Behind the edge's check a program may still have no link.
            node.bed.run("d0", &sent);
            match host::check(&path, &header, most_nodes) {
                Ok(()) => accepted += 1,
                Err(_) => refused += 1,
            }
        }
        let key = |reason: &str| ("d0".to_owned(), reason.to_owned());
        let drops = node.counted();
        assert_eq!(drops.get(&key(FORGED)).copied().unwrap_or(0), refused, "{drops:?}");
        assert_eq!(drops.get(&key(ELSEWHERE)), None);
        assert!(accepted > 500 && refused > 500, "{accepted} accepted, {refused} refused");
    }
}

/// Catches a tunnel around the boundary at the edge, which the host's own packets cannot pass.
#[test]
fn what_a_program_of_a_host_carries_is_checked_like_what_it_sends() {
    let mut node = edge();
    let carries = |carried: &[u8]| outer(at("5f00:0:1:a::"), carried);
    let (me, to) = (receiver(0), at(AT_N10));
    // To the domain, to no host, to a host of another node.
    let tree = node.bed.spec.groups.values().next().unwrap().tree_id;
    let sids = [at("5f00:0:1:a::"), at("5f00:0:a::"), end_mt(), plan().replication(crate::testbed::node(1), tree)];
    let others = [
        proxy(),
        group_address(),
        plan().node_address(crate::testbed::node(10)),
        at("ff02::1"),
        at("fe80::1"),
        at("2001:db8:99::1"),
        at(AT_5),
    ];
    for dst in sids.into_iter().chain(others) {
        node.drops("d0", &carries(&packet(me, dst, 64, UDP, &udp(4791))), ELSEWHERE);
    }
    // In the name of others, inside and outside.
    for src in
        [at("2001:db8:5::1"), at("5f00:0:2::"), plan().node_address(crate::testbed::node(9)), proxy(), at(AT_N10)]
    {
        node.drops("d0", &carries(&packet(src, to, 64, UDP, &udp(80))), "edge_source");
        node.drops("d0", &packet(src, at("5f00:0:1:a::"), 64, NEXT_IPV6, &inner(AT_N10)), "edge_source");
    }
    for src in [at("fe80::2:1"), at("::")] {
        // Counted as edge_link_local, as what the far end sends when it likes.
        assert_eq!(node.bed.run("d0", &carries(&packet(src, to, 64, UDP, &udp(80)))).0, SHOT);
        node.drops("d0", &packet(src, at("5f00:0:1:a::"), 64, NEXT_IPV6, &inner(AT_N10)), "edge_source");
    }
    // Encapsulated again, at once and behind options; a Routing header; too many headers; neighbour discovery; an error about others.
    let twice = carries(&inner(AT_N10));
    node.drops("d0", &carries(&twice), ELSEWHERE);
    for (next, payload) in
        [(NEXT_IPV6, inner(AT_N10)), (4, vec![0x45; 20]), (NEXT_ROUTING, srh(UDP, 0, &["2001:db8:a::2"]))]
    {
        node.drops("d0", &carries(&packet(me, to, 64, next, &payload)), "edge_tunnel");
        let options = [extension(next, 8), payload].concat();
        node.drops("d0", &carries(&packet(me, to, 64, 60, &options)), "edge_tunnel");
    }
    node.drops("d0", &carries(&packet(me, to, 64, 60, &[extension(UDP, 264), udp(80)].concat())), "edge_headers");
    node.drops("d0", &carries(&packet(me, to, 255, ICMPV6, &[135; 24])), "edge_neighbour_discovery");
    let error = [&[3, 0, 0, 0, 0, 0, 0, 0][..], &packet(to, at(AT_5), 64, UDP, &udp(80))].concat();
    node.drops("d0", &carries(&packet(me, to, 64, ICMPV6, &error)), "edge_icmp_error");
    let error = [&[3, 0, 0, 0, 0, 0, 0, 0][..], &packet(to, me, 64, UDP, &udp(80))].concat();
    assert_eq!(node.forwards("d0", &carries(&packet(me, to, 64, ICMPV6, &error))).0, "d1", "one about its own");
    // The inner packet is shorter or longer than what the outer one has, or not there.
    for by in [-1i32, 1] {
        let mut packet = carries(&inner(AT_N10));
        let payload = i32::from(packet[5]) + by;
        packet[5] = payload as u8;
        packet.push(0);
        node.drops("d0", &packet, "edge_headers");
    }
    node.drops("d0", &carries(&inner(AT_N10)[..39]), "edge_headers");
    let mut four = inner(AT_N10);
    four[0] = 0x45;
    node.drops("d0", &carries(&four), "edge_frame");
    for version in [0x00, 0x40, 0x50, 0xF0] {
        let mut other = carries(&inner(AT_N10));
        other[0] = version;
        node.drops("d0", &other, "edge_frame");
    }
    // No program is in it.
    node.drops("d0", &packet(me, at("5f00:0:1:a::"), 64, UDP, &udp(4791)), FORGED);
    node.drops("d0", &packet(me, at("5f00:0:1:a::"), 64, 4, &[0x45; 40]), FORGED);
}

/// Catches a permission that outlives its end, one that counts for other ports, and a domain that is open where no host may send.
#[test]
fn programs_are_let_in_while_the_host_may_send_them() {
    let mut node = edge();
    let sent = program("5f00:0:1:a::", AT_N10);
    assert_eq!(node.forwards("d0", &sent).0, "d1");
    node.bed.reopen();
    assert_eq!(node.forwards("d0", &sent).0, "d1", "before the first reconcile");
    assert_eq!(node.bed.reconcile(|_| {}), []);
    // A program of another node's host arrives from a node, or from an address of the domain.
    let from = |src| packet(src, at("5f00:0:1:a::"), 64, NEXT_IPV6, &packet(at(AT_5), at(AT_N10), 63, UDP, &udp(80)));
    assert_eq!(node.forwards("u0", &from(at(AT_5))).0, "d1");
    let own = ["-6", "addr", "add", "2001:db8:55::9/64", "dev", "lo", "nodad"];
    assert!(std::process::Command::new("ip").args(own).status().unwrap().success());
    assert_eq!(node.bed.reconcile(|_| {}), []);
    let domain = [proxy(), at("5f00:0:9::"), group_address()];
    for src in domain.into_iter().chain(["::", "fe80::2:1", "ff0e::1", "2001:db8:55::9"].map(at)) {
        node.drops("u0", &from(src), "fabric_source");
    }
    // Other hosts may send programs, this one may not.
    permit(&mut node, Some(HostPrograms::of_others(5)));
    node.drops("d0", &sent, "edge_tunnel");
    node.drops("d0", &packet(receiver(0), at("5f00:0:1:a::"), 64, UDP, &udp(80)), "edge_sid");
    assert_eq!(node.forwards("u0", &from(at(AT_5))).0, "d1");
    assert_eq!(node.bed.datapath.bpf.path_ends().keys().len(), 0);
    // The host of another port may.
    let other = HostPrograms { ports: [PortIndex::new("port", 3).unwrap()].into(), ..permission() };
    permit(&mut node, Some(other));
    node.drops("d0", &sent, "edge_tunnel");
    // No host may.
    permit(&mut node, None);
    node.drops("u0", &from(at(AT_5)), "fabric_source");
    node.drops("d0", &sent, "edge_tunnel");
    permit(&mut node, Some(permission()));
    assert_eq!(node.forwards("d0", &sent).0, "d1");
    assert_eq!(node.bed.datapath.bpf.path_ends().keys().len(), 3);
    // A host that moves to another node.
    let moved = |mut programs: HostPrograms| {
        programs.ends = programs
            .ends
            .iter()
            .map(|(p, un)| (*p, if un.get() == 10 { crate::testbed::node(11) } else { *un }))
            .collect();
        programs
    };
    permit(&mut node, Some(moved(permission())));
    node.drops("d0", &sent, ELSEWHERE);
    assert_eq!(node.forwards("d0", &program("5f00:0:1:b::", AT_N10)).0, "d2");
}

/// Prefixes of hosts that fill a shorter one become one: catches a moment in which a host between them is behind no node.
#[test]
fn a_host_has_a_node_while_the_prefixes_around_it_change() {
    let mut node = edge();
    let sent = program("5f00:0:1:a::", AT_N10);
    let with = |prefix: &str| {
        let end = (prefix.parse().unwrap(), crate::testbed::node(10));
        HostPrograms { ends: vec![end].into(), ..permission() }
    };
    let (bpf, port) = (node.bed.datapath.bpf.clone(), node.bed.ifindex("d0"));
    let (sent_once, has_ended) = (AtomicBool::new(false), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !has_ended.load(Ordering::Relaxed) {
                bpf.receive(port, &sent).unwrap();
                sent_once.store(true, Ordering::Relaxed);
            }
        });
        while !sent_once.load(Ordering::Relaxed) {
            std::thread::yield_now();
        }
        for prefix in ["2001:db8:a::/63", "2001:db8:a::/64"].iter().cycle().take(5_000) {
            crate::paths::permit(&bpf, Some(&with(prefix))).unwrap();
        }
        has_ended.store(true, Ordering::Relaxed);
    });
    let drops = node.counted();
    assert!(!drops.keys().any(|(_, reason)| reason == ELSEWHERE), "{drops:?}");
}
