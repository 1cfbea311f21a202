// SPDX-License-Identifier: Apache-2.0
//! The illustration of draft-filsfils-srv6-ai-backends section 7, address by address, and what goes beyond it: three tiers, uAs alone, parallel
//! links, programs with an SRH.

use canopy_model::ids::ServiceId;
use canopy_paths::fabric::Fabric;
use canopy_paths::pair::{Disjoint, Method, Paths};
use canopy_paths::path::{Attachment, Style};
use canopy_units::Octets;

use crate::net::{Net, address, destinations};

const LEAVES: [u16; 4] = [0x100, 0x200, 0x300, 0x400];
const SPINES: [u16; 2] = [0x500, 0x600];

/// Four leaves and two spines; NIC 1 and 2 at leaf 1 and 2, NIC 3 and 4 at leaf 3 and 4. A NIC's first attachment is at the leaf of the draft.
fn figure() -> (Net, [[Attachment; 2]; 4]) {
    let mut net = Net::new(LEAVES.into_iter().chain(SPINES));
    for leaf in LEAVES {
        SPINES.iter().for_each(|&spine| net.link(leaf, spine));
    }
    let pairs = [[0x100, 0x200], [0x200, 0x100], [0x300, 0x400], [0x400, 0x300]];
    let nics = pairs.map(|pair| pair.map(|leaf| net.host(leaf)));
    (net, nics)
}

fn paths(fabric: &Fabric, nics: &[[Attachment; 2]; 4], from: usize, to: usize) -> Paths {
    Paths::between(fabric, &nics[from - 1], &nics[to - 1])
}

/// Catches a program without the first leaf, a shift by another width, and nodes in another order.
#[test]
fn gpu1_to_gpu3_has_the_addresses_of_the_draft_at_each_hop() {
    let (net, nics) = figure();
    let fabric = net.fabric();
    let path = net.over(&paths(&fabric, &nics, 1, 3), &[0x100, 0x500, 0x300]);
    let expected = ["5f00:0:0100:0500:0300::", "5f00:0:0500:0300::", "5f00:0:0300::"].map(address);
    assert_eq!(destinations(&path, &fabric, Style::Nodes), expected);
    let headers = path.headers(&fabric, Style::Nodes, None).unwrap();
    assert!(headers.iter().all(|header| header.segments.is_empty()), "the packet has no SRH");
    assert_eq!(headers[2].carried_out(), None, "leaf 3 removes the outer header");
}

#[test]
fn gpu2_to_gpu3_takes_spine6_and_leaf4() {
    let (net, nics) = figure();
    let fabric = net.fabric();
    let path = net.over(&paths(&fabric, &nics, 2, 3), &[0x200, 0x600, 0x400]);
    let expected = ["5f00:0:0200:0600:0400::", "5f00:0:0600:0400::", "5f00:0:0400::"].map(address);
    assert_eq!(destinations(&path, &fabric, Style::Nodes), expected);
}

/// Catches a change of path that needs more than another destination address at the source.
#[test]
fn the_switch_to_spine6_is_another_destination_address() {
    let (net, nics) = figure();
    let fabric = net.fabric();
    let all = paths(&fabric, &nics, 1, 3);
    let path = net.over(&all, &[0x100, 0x600, 0x300]);
    let expected = ["5f00:0:0100:0600:0300::", "5f00:0:0600:0300::", "5f00:0:0300::"].map(address);
    assert_eq!(destinations(&path, &fabric, Style::Nodes), expected);
    assert_eq!((all.total, all.list.len(), all.method), (8, 8, Method::UpDown), "2 leaves, 2 spines, 2 leaves");
}

/// Decision 5.6 has the first one. Catches a way back by other links, and one that ends before the first leaf.
#[test]
fn a_probe_leads_there_by_one_path_and_back_by_another() {
    let (net, nics) = figure();
    let fabric = net.fabric();
    let all = paths(&fabric, &nics, 1, 3);
    let [by5, by6] = [0x500, 0x600].map(|spine| net.over(&all, &[0x100, spine, 0x300]));
    let round = by5.there_and_back(&by5, &fabric).unwrap();
    let nodes: Vec<u64> = round.nodes().map(|node| u64::from(node.get())).collect();
    assert_eq!((nodes.as_slice(), round.to), (&[0x100, 0x500, 0x300, 0x500, 0x100][..], by5.from));
    assert_eq!(destinations(&round, &fabric, Style::Nodes)[0], address("5f00:0:100:500:300:500:100:0"));
    let mixed = by5.there_and_back(&by6, &fabric).unwrap();
    assert_eq!(destinations(&mixed, &fabric, Style::Nodes)[0], address("5f00:0:100:500:300:600:100:0"));
    let other = net.over(&all, &[0x100, 0x500, 0x400]);
    assert_eq!(by5.there_and_back(&other, &fabric), None, "they end at two leaves");
    // 9000 less the header, in both directions.
    let header = round.program(Style::Nodes, None).unwrap().encode(fabric.block());
    assert_eq!(round.mtu(&fabric, &header), by5.mtu(&fabric, &header));
}

/// The ports are worked out by hand from the order of the links.
#[test]
fn over_parallel_links_a_probe_comes_back_by_the_same_ones() {
    let (net, a, b) = parallel();
    let fabric = net.fabric();
    let paths = Paths::between(&fabric, &[a], &[b]);
    let round = paths.list[0].path.there_and_back(&paths.list[0].path, &fabric).unwrap();
    let header = round.program(Style::Nodes, None).unwrap().encode(fabric.block());
    assert_eq!(header.destination, address("5f00:0:1:e001:5:e003:2:e001"));
    assert_eq!(header.segments, [address("5f00:0:5:e001:1::")]);
}

/// Catches an order by numbers alone, in which the second path shares a leaf with the first.
#[test]
fn the_first_paths_share_no_node() {
    let (net, nics) = figure();
    let all = paths(&net.fabric(), &nics, 1, 3);
    let classes: Vec<_> = all.list.iter().map(|ranked| ranked.disjoint).collect();
    assert_eq!(classes[..2], [None, Some(Disjoint::Node)]);
    assert!(classes[2..].iter().all(|class| *class <= Some(Disjoint::Link)));
    let nodes: Vec<Vec<u16>> = all.list[..2].iter().map(|r| r.path.nodes().map(|n| n.get()).collect()).collect();
    assert_eq!(nodes, [[0x100, 0x500, 0x300], [0x200, 0x600, 0x400]], "the two programs of the draft's section 7.2");
}

/// Leaf, spine, super-spine, spine, leaf of two pods.
fn three_tiers() -> (Net, Attachment, Attachment) {
    let mut net = Net::new([0x11, 0x12, 0x21, 0x22, 0x31, 0x32]);
    for (leaf, spine) in [(0x11, 0x21), (0x12, 0x22)] {
        net.link(leaf, spine);
        net.link(spine, 0x31);
        net.link(spine, 0x32);
    }
    let (a, b) = (net.host(0x11), net.host(0x12));
    (net, a, b)
}

/// Catches an SRH where the address has room for all six, and a service that is read without its leaf.
#[test]
fn three_tiers_and_a_service_fill_the_address_exactly() {
    let (net, a, b) = three_tiers();
    let fabric = net.fabric();
    let paths = Paths::between(&fabric, &[a], &[b]);
    assert_eq!(paths.total, 2);
    let path = net.over(&paths, &[0x11, 0x21, 0x31, 0x22, 0x12]);
    let service = ServiceId::new("service", 0xF100).unwrap();
    let header = path.program(Style::Nodes, Some(service)).unwrap().encode(fabric.block());
    assert_eq!(header.destination, address("5f00:0:11:21:31:22:12:f100"));
    assert_eq!((header.segments.len(), header.overhead()), (0, Octets(40)));
    assert_eq!(path.mtu(&fabric, &header), 8960);
    let last = path.headers(&fabric, Style::Nodes, Some(service)).unwrap().pop().unwrap();
    assert_eq!(last.destination, address("5f00:0:12:f100::"));
}

/// Catches a uA of the far end's port, and a program that ends a node too early.
#[test]
fn uas_alone_cost_a_slot_for_each_link() {
    let (net, a, b) = three_tiers();
    let fabric = net.fabric();
    let path = net.over(&Paths::between(&fabric, &[a], &[b]), &[0x11, 0x21, 0x31, 0x22, 0x12]);
    let expected = [
        "5f00:0:e001:e002:e002:e001:e002::",
        "5f00:0:e002:e002:e001:e002::",
        "5f00:0:e002:e001:e002::",
        "5f00:0:e001:e002::",
        "5f00:0:e002::",
    ];
    assert_eq!(destinations(&path, &fabric, Style::Links), expected.map(address));
}

/// Two leaves with two links to each of two spines.
fn parallel() -> (Net, Attachment, Attachment) {
    let mut net = Net::new([1, 2, 5, 6]);
    for leaf in [1, 2] {
        for spine in [5, 5, 6, 6] {
            net.link(leaf, spine);
        }
    }
    let (a, b) = (net.host(1), net.host(2));
    (net, a, b)
}

/// Catches parallel links that count as one, or that a uN is to choose from.
#[test]
fn parallel_links_are_paths_of_their_own_and_take_their_ua() {
    let (net, a, b) = parallel();
    let fabric = net.fabric();
    let paths = Paths::between(&fabric, &[a], &[b]);
    assert_eq!((paths.total, paths.list.len()), (8, 8));
    let first = &paths.list[0].path;
    let expected = ["5f00:0:1:e001:5:e003:2::", "5f00:0:5:e003:2::", "5f00:0:2::"].map(address);
    assert_eq!(destinations(first, &fabric, Style::Nodes), expected);
    let classes: Vec<_> = paths.list.iter().map(|ranked| ranked.disjoint).collect();
    assert_eq!(
        classes[..4],
        [None, Some(Disjoint::Node), Some(Disjoint::Link), Some(Disjoint::Link)],
        "the other spine, then the other links"
    );
    assert!(classes[4..].iter().all(|class| *class == Some(Disjoint::Not)));
}

/// A row of nodes.
fn row(nodes: u16) -> (Net, Attachment, Attachment) {
    let mut net = Net::new(1..=nodes);
    (1..nodes).for_each(|node| net.link(node, node + 1));
    let (a, b) = (net.host(1), net.host(nodes));
    (net, a, b)
}

/// Catches a segment list in the order of the path, a wrong Segments Left, and an SRH that the last segment's node still sees.
#[test]
fn more_than_six_usids_take_an_srh_that_is_gone_with_its_last_segment() {
    let (net, a, b) = row(8);
    let fabric = net.fabric();
    let paths = Paths::between(&fabric, &[a], &[b]);
    let headers = paths.list[0].path.headers(&fabric, Style::Nodes, None).unwrap();
    assert_eq!(headers[0].destination, address("5f00:0:1:2:3:4:5:6"));
    assert_eq!((headers[0].segments.as_slice(), headers[0].segments_left), ([address("5f00:0:7:8::")].as_slice(), 1));
    assert_eq!(headers[5].destination, address("5f00:0:6::"));
    assert_eq!(headers[5].segments_left, 1, "node 6 has no argument left and loads the segment");
    assert_eq!((headers[6].destination, headers[6].segments.len()), (address("5f00:0:7:8::"), 0), "PSP");
    assert_eq!(headers[7].destination, address("5f00:0:8::"));
    assert_eq!(paths.list[0].path.mtu(&fabric, &headers[0]), 9000 - 40 - 8 - 16);
}

/// Catches an MTU of links that the header does not pass, or that leaves out one that it does.
#[test]
fn the_mtu_is_that_of_the_smallest_link_with_the_header_on_all_but_the_last() {
    let (mut net, a, b) = row(3);
    let mtu = |net: &Net| {
        let fabric = net.fabric();
        let path = Paths::between(&fabric, &[a], &[b]).list.remove(0).path;
        let header = path.headers(&fabric, Style::Nodes, None).unwrap().remove(0);
        path.mtu(&fabric, &header)
    };
    assert_eq!(mtu(&net), 8960);
    net.links[b.link].mtu = 8970;
    assert_eq!(mtu(&net), 8960, "the destination's link carries the inner packet alone");
    net.links[b.link].mtu = 8000;
    assert_eq!(mtu(&net), 8000);
    net.links[1].mtu = 4196;
    assert_eq!(mtu(&net), 4156);
    net.links[a.link].mtu = 1500;
    assert_eq!(mtu(&net), 1460);
}

/// Catches planes that are taken for one because a host has both.
#[test]
fn planes_are_disjoint_and_come_first() {
    let mut net = Net::new([1, 2, 3, 4, 11, 12, 13, 14]);
    for (leaf, spine) in [(1, 3), (1, 4), (2, 3), (2, 4), (11, 13), (11, 14), (12, 13), (12, 14)] {
        net.link(leaf, spine);
    }
    let from = [net.host(1), net.host(11)];
    let to = [net.host(2), net.host(12)];
    let paths = Paths::between(&net.fabric(), &from, &to);
    assert_eq!(paths.total, 4, "no path changes the plane");
    let classes: Vec<_> = paths.list.iter().map(|ranked| ranked.disjoint).collect();
    let last = Some(Disjoint::Not);
    assert_eq!(classes, [None, Some(Disjoint::Plane), last, last], "the links of the hosts count, since each has two");
}

/// Catches paths from an edge from which the destination is farther.
#[test]
fn a_common_edge_of_two_hosts_leaves_the_other_edges_out() {
    let (mut net, _) = figure();
    let from = [net.host(0x100), net.host(0x200)];
    let to = [net.host(0x200), net.host(0x300)];
    let paths = Paths::between(&net.fabric(), &from, &to);
    assert_eq!((paths.total, paths.list.len()), (1, 1));
    assert_eq!((paths.list[0].path.from, paths.list[0].path.to), (from[1], to[0]));
}

#[test]
fn hosts_of_one_edge_have_one_path_over_it() {
    let mut net = Net::new([1, 2]);
    net.link(1, 2);
    let (a, b) = (net.host(1), net.host(1));
    let fabric = net.fabric();
    let paths = Paths::between(&fabric, &[a], &[b]);
    assert_eq!((paths.total, paths.list.len()), (1, 1));
    assert_eq!(destinations(&paths.list[0].path, &fabric, Style::Nodes), [address("5f00:0:1::")]);
    assert_eq!(destinations(&paths.list[0].path, &fabric, Style::Links), [address("5f00:0:e003::")]);
}
