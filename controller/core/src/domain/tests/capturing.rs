// SPDX-License-Identifier: Apache-2.0
//! Captures of one packet: where it is to be seen, what was, and what each node changed.

use std::num::NonZeroU32;

use canopy_model::capture::{CaptureDirection, CapturedFrame, INNER, MAX_HEAD, MINOR_VERSION};
use canopy_model::ids::Psn;
use canopy_model::node_spec::{BranchKind, EndMtList, GroupProgram};
use canopy_packet::bth::Opcode;
use canopy_packet::end_mt::EndMt;
use canopy_packet::frame::RoceBuilder;
use canopy_packet::ipv6::Ipv6;
use canopy_packet::srh::{Srh, Tlv};
use canopy_units::UnixTime;

use super::*;
use crate::capture::{Capture, CapturePlan, CaptureState, CapturedField as Field, psn_ahead};
use crate::principal::Principal;
use crate::testing::fabric;

const ETHERNET: usize = 14;

/// Group `g` from h1-1 to h2-1, through one of two spines; every agent captures.
fn world() -> World {
    let mut w = World::with(fabric(2, 2, 1));
    w.run(group("g")).unwrap();
    w.run(source("g", "h1-1")).unwrap();
    w.run(receiver("g", "h2-1")).unwrap();
    w.confirm_all();
    for node in w.domain.all_nodes() {
        let report = reported(&node.name, node.spec.generation, vec![]);
        w.domain.report(NodeStatus { minor_version: MINOR_VERSION, ..report }).unwrap();
    }
    w
}

fn plan(w: &World) -> CapturePlan {
    w.domain.capture_plan("g").unwrap().unwrap()
}

fn program(w: &World, node: &str) -> GroupProgram {
    w.domain.node_spec(node).unwrap().groups.values().next().unwrap().clone()
}

fn armed(plan: CapturePlan) -> Capture {
    let psn = Psn::new("psn", 7).unwrap();
    let at = (UnixTime::from_nanos(1), instant(0));
    Capture::new(NonZeroU32::MIN, plan, psn, Duration::from_secs(5), at, Principal::default())
}

/// The source's packet with these addresses, DestQP and Hop Limit, as it is on the wire.
fn plain(src: Ipv6Addr, dst: Ipv6Addr, qpn: u32, hop_limit: u8) -> Vec<u8> {
    let mut packet = RoceBuilder::new(src, dst, Opcode::SEND_ONLY, qpn, 7);
    packet.hop_limit = hop_limit;
    packet.payload = b"payload";
    packet.build().unwrap()
}

/// `inner` with an outer header to `dst` and the group's SRH.
fn encapsulated(w: &World, inner: &[u8], dst: Ipv6Addr, hop_limit: u8) -> Vec<u8> {
    let headend = program(w, "leaf1").headend.unwrap();
    let list =
        |t: &EndMtList| EndMt { edge: t.edge, receivers: t.receivers.iter().map(|(a, q)| (*a, q.get())).collect() };
    let tlvs = headend.tlvs.iter().map(|t| Tlv::EndMt(list(t))).collect();
    let segments = headend.segments;
    let srh = Srh { next_header: 41, segments_left: 1, flags: 0, tag: 0, segments, tlvs, hmac: None };
    let srh = srh.to_vec().unwrap();
    let outer = Ipv6 {
        traffic_class: 0,
        flow_label: program(w, "leaf1").designated_qpn.get() & 0xF_FFFF,
        payload_len: (srh.len() + inner.len()) as u16,
        next_header: 43,
        hop_limit,
        src: w.domain.node_spec("leaf1").unwrap().base.node_address,
        dst,
    };
    let mut packet = vec![0; 40];
    outer.emit(&mut packet).unwrap();
    [packet, srh, inner.to_vec()].concat()
}

/// What a node reports of it, in a frame from this link-layer address.
fn frame(direction: CaptureDirection, port: &str, mac: u8, packet: &[u8]) -> CapturedFrame {
    let whole = [&[mac; 12][..], &[0x86, 0xDD], packet].concat();
    let inner_at = ETHERNET + if packet[6] == 43 { 40 + 8 * (usize::from(packet[41]) + 1) } else { 0 };
    let frame = CapturedFrame {
        id: NonZeroU32::MIN,
        direction,
        port: port.into(),
        time: UnixTime::from_nanos(5),
        length: whole.len() as u32,
        inner_at: inner_at as u32,
        head: whole[..(inner_at + INNER).min(MAX_HEAD)].to_vec(),
        inner: whole[inner_at..inner_at + INNER].try_into().unwrap(),
    };
    frame.checked().unwrap()
}

/// The frames of the way, in its order, with their nodes.
fn frames(w: &World) -> Vec<(String, CapturedFrame)> {
    let places = plan(w).places;
    let sid = |node: &str| match program(w, node).branches[0].kind {
        BranchKind::Node { sid } => sid,
        BranchKind::Receiver { .. } => panic!("{node} has no child"),
    };
    let (headend, edge, spine) = (program(w, "leaf1"), program(w, "leaf2"), &places[2].node);
    let sent = plain(headend.source.address, headend.proxy, headend.designated_qpn.get(), 64);
    let inside = plain(headend.source.address, headend.proxy, headend.designated_qpn.get(), 63);
    let up = encapsulated(w, &inside, sid("leaf1"), 64);
    let down = encapsulated(w, &inside, sid(spine), 63);
    let copy = plain(edge.proxy, edge.branches[0].address, 0x22, 62);
    let packets = [(&sent, 1), (&up, 2), (&up, 2), (&down, 3), (&down, 3), (&copy, 4)];
    let of_place = |(place, (packet, mac)): (&crate::capture::Place, (&Vec<u8>, u8))| {
        (place.node.clone(), frame(place.direction(), &place.port, mac, packet))
    };
    places.iter().zip(packets).map(of_place).collect()
}

#[test]
fn the_places_are_the_trees_with_the_copy_that_arrives_at_each() {
    let w = world();
    let plan = plan(&w);
    let spine = &plan.places[1].peer;
    let places: Vec<_> = plan.places.iter().map(|p| (&*p.node, p.direction(), &*p.peer, p.before)).collect();
    let (arrives, leaves) = (CaptureDirection::In, CaptureDirection::Out);
    assert_eq!(
        places,
        [
            ("leaf1", arrives, "h1-1", None),
            ("leaf1", leaves, spine, Some(0)),
            (spine, arrives, "leaf1", Some(1)),
            (spine, leaves, "leaf2", Some(2)),
            ("leaf2", arrives, spine, Some(3)),
            ("leaf2", leaves, "h2-1", Some(4)),
        ]
    );
    assert_eq!((plan.places[0].port.as_str(), plan.places[5].port.as_str()), ("host1", "host1"));
    assert_eq!((&*plan.headend, plan.able.len(), plan.unable.len()), ("leaf1", 3, 0));
}

#[test]
fn agents_that_cannot_capture_are_named() {
    let mut w = world();
    let report = reported("leaf2", w.domain.node_spec("leaf2").unwrap().generation, vec![]);
    w.domain.report(NodeStatus { minor_version: MINOR_VERSION - 1, ..report }).unwrap();
    w.domain.agent_gone("leaf1", instant(0));
    let plan = plan(&w);
    assert_eq!((plan.able, plan.unable), (vec![plan.places[2].node.clone()], vec!["leaf1".into(), "leaf2".into()]));
    w.run(group("empty")).unwrap();
    assert_eq!(w.domain.capture_plan("empty"), Some(None), "a group without a tree");
    assert_eq!(w.domain.capture_plan("absent"), None);
}

/// A tree with more places than are kept: the nodes behind them are not asked, and their places are counted.
#[test]
fn a_large_tree_is_cut_at_a_node_and_counted() {
    let w = world();
    let group = w.domain.state.groups.get("g").unwrap();
    let plan = crate::domain::capturing::plan(&w.domain.state, group, 3).unwrap();
    assert_eq!((plan.places.len(), plan.able.len(), plan.left_out), (4, 2, 2), "the edge's arrival and copy");
    assert_eq!(armed(plan).left_out, 2);
}

#[test]
fn every_octet_that_differs_has_its_field_and_its_cause() {
    let w = world();
    let mut capture = armed(plan(&w));
    for (node, frame) in frames(&w) {
        assert_eq!(capture.state(instant(0)), CaptureState::Armed);
        capture.add(&node, frame);
    }
    assert_eq!(capture.state(instant(0)), CaptureState::Complete);
    let hops = capture.hops();
    let changes = |at: usize| &hops[at].frame.as_ref().unwrap().changes;
    let fields = |at: usize| changes(at).iter().map(|c| c.field).collect::<Vec<_>>();
    assert_eq!(fields(0), []);
    assert_eq!(fields(1), [Field::Ethernet, Field::Outer, Field::HopLimit]);
    assert_eq!((changes(1)[1].at, changes(1)[1].before.len()), (14, 0));
    assert!(changes(1)[1].why.starts_with("headend: outer IPv6 header"), "{}", changes(1)[1].why);
    assert_eq!((fields(2), fields(4)), (vec![], vec![]));
    assert_eq!(fields(3), [Field::Ethernet, Field::OuterHopLimit, Field::OuterDestination]);
    assert_eq!(changes(3)[2].why, "End.Replicate: SID of leaf2 (RFC 9524)");
    let all = [Field::Ethernet, Field::Outer, Field::HopLimit, Field::Source, Field::Destination, Field::DestQp];
    assert_eq!(fields(5), all);
    assert!(changes(5)[1].after.is_empty());
    assert_eq!(changes(5)[4].why, "End.MT: TLV entry 1, h2-1");
    assert_eq!((changes(5)[5].at, &changes(5)[5].after[..]), (14 + 53, &[0, 0, 0x22][..]));
    let last = hops[5].frame.as_ref().unwrap();
    assert_eq!((last.inner.dest_qp, last.inner.psn, last.outer.is_none()), (0x22, 7, true));
    assert_eq!(hops[3].frame.as_ref().unwrap().outer.as_ref().unwrap().segments_left, 1);
}

/// The frames of the way are as the programs have them, which a test that reads the programs in another way has made.
#[test]
fn frames_as_the_programs_have_them_differ_nowhere() {
    let w = world();
    let mut capture = armed(plan(&w));
    frames(&w).into_iter().for_each(|(node, frame)| capture.add(&node, frame));
    let differ: Vec<_> = capture.hops().into_iter().flat_map(|hop| hop.frame.unwrap().unexpected).collect();
    assert_eq!(differ, []);
}

#[test]
fn the_expected_packet_has_what_the_programs_decide_and_dots_for_the_rest() {
    let w = world();
    let plan = plan(&w);
    let expected: Vec<_> = plan.expected().map(|(_, fields)| fields).collect();
    let of = |at: usize, field: Field| expected[at].iter().find(|one| one.field == field).unwrap();
    let (headend, edge) = (program(&w, "leaf1"), program(&w, "leaf2"));
    assert_eq!(expected.iter().map(Vec::len).collect::<Vec<_>>(), [18, 26, 26, 26, 26, 18]);
    assert!(expected[0].iter().all(|one| one.why.is_empty()), "nothing is changed where the source's packet arrives");
    assert_eq!((&*of(0, Field::Psn).octets, &*of(0, Field::Psn).value), ("......", "from the packet"));
    assert_eq!(of(0, Field::Destination).value, headend.proxy.to_string());
    assert_eq!((&*of(1, Field::OuterHopLimit).value, &*of(3, Field::OuterHopLimit).value), ("64", "63"));
    assert_eq!(of(1, Field::OuterDestination).value, of(2, Field::OuterDestination).value);
    assert_eq!(of(3, Field::OuterDestination).why, "End.Replicate: SID of leaf2 (RFC 9524)");
    assert!(of(1, Field::Srh).why.starts_with("headend: outer IPv6 header and SRH"), "{:?}", of(1, Field::Srh));
    assert!(expected[2].iter().chain(&expected[4]).all(|one| one.why.is_empty()), "nothing changes on the way");
    assert_eq!(
        (&*of(1, Field::HopLimit).value, &*of(5, Field::HopLimit).value),
        ("1 less than sent", "2 less than sent")
    );
    let BranchKind::Receiver { qpn, .. } = edge.branches[0].kind else { panic!("leaf2 has a child") };
    assert_eq!(of(5, Field::DestQp).value, format!("0x{:06x}", qpn.get()));
    assert_eq!(of(5, Field::Destination).why, "End.MT: TLV entry 1, h2-1");
    assert_eq!((of(5, Field::DestQp).at, of(0, Field::DestQp).at), (14 + 53, 14 + 53));
    assert_eq!(of(1, Field::DestQp).at as usize, 14 + 40 + of(1, Field::Srh).octets.len() / 2 + 53);
}

/// Octets that are other ones although a node writes them, which the comparison with the place before does not find.
#[test]
fn a_frame_that_is_not_as_expected_has_the_fields_and_what_they_should_be() {
    let w = world();
    let all = frames(&w);
    let differ = |at: usize, spoil: &dyn Fn(&mut CapturedFrame)| {
        let mut capture = armed(plan(&w));
        for (place, (node, frame)) in all.iter().enumerate() {
            let mut frame = frame.clone();
            if place == at {
                spoil(&mut frame);
            }
            capture.add(node, frame);
        }
        let hop = &capture.hops()[at];
        let unexpected = hop.frame.as_ref().unwrap().unexpected.iter();
        unexpected.map(|d| (d.field, d.at, d.expected.clone())).collect::<Vec<_>>()
    };
    assert_eq!(differ(5, &|f| f.inner[55] = 0x23), [(Field::DestQp, 14 + 53, "0x000022".to_owned())]);
    assert_eq!(differ(5, &|f| f.inner[59] = 8), [(Field::Psn, 14 + 57, "7".to_owned())]);
    assert_eq!(differ(5, &|f| f.inner[7] = 61), [(Field::HopLimit, 14 + 7, "62".to_owned())]);
    assert_eq!(differ(3, &|f| f.head[14 + 7] = 60), [(Field::OuterHopLimit, 14 + 7, "63".to_owned())]);
    let srh = differ(3, &|f| f.head[14 + 40 + 8] ^= 1);
    assert!(matches!(&srh[..], [(Field::Srh, 54, text)] if text.contains("segments ")), "{srh:?}");
    assert_eq!(differ(2, &|f| f.inner_at = 14), [(Field::Outer, 14, "an outer header and an SRH".to_owned())]);
    assert_eq!(differ(0, &|f| f.inner[0] |= 3), [], "the Traffic Class is the packet's");
}

/// A receiver that joined late counts from its own start PSN on.
#[test]
fn the_psn_of_a_late_receiver_is_its_own() {
    let w = world();
    let mut plan = plan(&w);
    plan.places[5].expected.as_mut().unwrap().is_psn_as_sent = false;
    let psn = plan.expected().nth(5).unwrap().1.into_iter().find(|one| one.field == Field::Psn).unwrap();
    assert_eq!(
        (&*psn.value, &*psn.why),
        ("from its own start PSN on", "h2-1 joined late: it counts from its own start PSN")
    );
    let mut capture = armed(plan);
    let (node, mut frame) = frames(&w).pop().unwrap();
    frame.inner[58] = 9;
    capture.add(&node, frame);
    assert_eq!(capture.hops()[5].frame.as_ref().unwrap().unexpected, []);
}

/// An octet that no node of Canopy changes.
#[test]
fn a_change_that_nothing_of_canopy_makes_is_shown_as_one() {
    let w = world();
    let mut capture = armed(plan(&w));
    let mut seen = frames(&w);
    seen[3].1.inner[50] ^= 1;
    seen[4].1.inner[50] ^= 1;
    seen[4].1.inner[7] -= 1;
    seen.into_iter().for_each(|(node, frame)| capture.add(&node, frame));
    let hops = capture.hops();
    let changes = |at: usize| &hops[at].frame.as_ref().unwrap().changes;
    assert!(changes(3).iter().any(|c| c.field == Field::PKey && c.why.starts_with("not expected")), "{:?}", changes(3));
    assert_eq!((changes(4)[0].field, changes(4).len()), (Field::HopLimit, 1));
    assert!(changes(4)[0].why.starts_with("on the way from"), "{}", changes(4)[0].why);
}

#[test]
fn the_first_frame_of_a_place_stays_and_strangers_are_shown_last() {
    let w = world();
    let mut capture = armed(plan(&w));
    let all = frames(&w);
    let (node, first) = all[5].clone();
    capture.add(&node, first.clone());
    capture.add(&node, CapturedFrame { time: UnixTime::from_nanos(9), ..first.clone() });
    capture.add("spine9", first.clone());
    let hops = capture.hops();
    assert_eq!((hops.len(), hops[5].frame.as_ref().unwrap().raw.clone()), (7, first.clone()));
    assert_eq!((&*hops[6].node, &hops[6].peer), ("spine9", &None));
    assert!(hops[5].frame.as_ref().unwrap().changes.is_empty(), "the place before was not seen");
    let (before, end) = (instant(4_999_999_999), instant(5_000_000_000));
    assert_eq!((capture.state(before), capture.state(end)), (CaptureState::Armed, CaptureState::Expired));
    for n in 0..5000 {
        capture.add("spine9", CapturedFrame { time: UnixTime::from_nanos(n), ..first.clone() });
    }
    assert_eq!((capture.hops().len() - 6 + 1, capture.left_out), (4096, 5002 - 4096));
}

/// Reads the blocks by their lengths, which are at both ends.
#[test]
fn pcapng_has_an_interface_for_each_place() {
    let w = world();
    let mut capture = armed(plan(&w));
    let all = frames(&w);
    all.iter().skip(1).for_each(|(node, frame)| capture.add(node, frame.clone()));
    let file = capture.pcapng();
    let word = |at: usize| u32::from_le_bytes(file[at..at + 4].try_into().unwrap());
    let (mut at, mut blocks) = (0, Vec::new());
    while at < file.len() {
        let length = word(at + 4) as usize;
        assert_eq!((length % 4, word(at + length - 4) as usize), (0, length));
        blocks.push((word(at), &file[at + 8..at + length - 4]));
        at += length;
    }
    let kinds: Vec<u32> = blocks.iter().map(|(kind, _)| *kind).collect();
    assert_eq!(kinds, [&[0x0A0D_0D0A][..], &[1; 5], &[6; 5]].concat());
    let name = format!("leaf1/{} out", all[1].1.port);
    assert!(blocks[1].1.windows(name.len()).any(|w| w == name.as_bytes()));
    let packet = blocks[6].1;
    let field = |at: usize| u32::from_le_bytes(packet[at..at + 4].try_into().unwrap());
    assert_eq!((field(0), field(8), field(12), field(16)), (0, 5, all[1].1.head.len() as u32, all[1].1.length));
    assert_eq!(packet[20..20 + all[1].1.head.len()], all[1].1.head);
}

#[test]
fn the_psn_is_as_far_ahead_as_the_source_sends() {
    let psn = |v| Psn::new("psn", v).unwrap();
    let lead = Duration::from_secs(2);
    assert_eq!(psn_ahead(psn(9), 0.0, lead), psn(9), "the next packet of an idle source");
    assert_eq!(psn_ahead(psn(9), 1000.0, lead), psn(2009));
    assert_eq!(psn_ahead(psn(0xFF_FFFF), 0.5, lead), psn(0));
    assert_eq!(psn_ahead(psn(0), 1e12, lead), psn(1 << 22), "never one that would be taken for an old one");
    assert_eq!(psn_ahead(psn(5), f64::NAN, lead), psn(5));
}
