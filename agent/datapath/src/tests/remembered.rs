// SPDX-License-Identifier: Apache-2.0
//! What a processor remembers from one packet to the next never outlives what it was worked out from.

use std::net::Ipv6Addr;

use canopy_model::ids::Qpn;
use canopy_model::node_spec::BranchKind;
use canopy_packet::aeth::Syndrome;
use canopy_packet::bth::Opcode;
use canopy_packet::end_mt::EndMt;
use canopy_packet::frame::{RoceBuilder, RoceFrame};
use canopy_packet::srh::Tlv;

use super::copy_for;
use crate::testbed::*;

fn listed(all: &[(u32, u32)]) -> Vec<Tlv> {
    let all: Vec<_> = all.iter().map(|(i, qpn)| (receiver(*i), *qpn)).collect();
    EndMt::split(plan().node_address(node(1)), &all).into_iter().map(Tlv::EndMt).collect()
}

fn to(bed: &Testbed, psn: u32, list: Vec<Tlv>) -> (u32, Vec<u8>) {
    let (verdict, frame, _) = bed.run("u0", &encapsulated(&data(Opcode::SEND_ONLY, psn, b"list"), end_mt(), list, 0));
    (verdict, frame)
}

fn refused(bed: &mut Testbed) -> u64 {
    bed.drops().get("tlv_unprovisioned").copied().unwrap_or(0)
}

#[test]
fn a_list_of_receivers_is_checked_again_when_one_of_them_has_another_queue_pair() {
    let mut bed = Testbed::new(&Shape { receivers: 2, ..Shape::default() });
    let (before, after) = ([(0, receiver_qpn(0)), (1, receiver_qpn(1))], [(0, receiver_qpn(0)), (1, 0x777)]);
    for psn in 100..103 {
        assert_eq!(to(&bed, psn, listed(&before)).0, REDIRECT);
    }
    assert_eq!((to(&bed, 103, listed(&after)).0, refused(&mut bed)), (SHOT, 1));
    let errors = bed.reconcile(|s| {
        s.groups.for_each_mut(|g| {
            for b in g.branches.iter_mut().filter(|b| b.address == receiver(1)) {
                b.kind = BranchKind::Receiver { qpn: Qpn::new("qpn", 0x777).unwrap(), memory: None };
            }
        });
    });
    assert_eq!(errors, []);
    assert_eq!((to(&bed, 103, listed(&before)).0, refused(&mut bed)), (SHOT, 2));
    for psn in 103..106 {
        let (verdict, copy) = to(&bed, psn, listed(&after));
        assert_eq!((verdict, RoceFrame::parse(&copy).unwrap().bth.dest_qp), (REDIRECT, 0x777));
    }
}

#[test]
fn a_list_that_differs_in_one_octet_or_in_length_is_another_one() {
    let mut bed = Testbed::new(&Shape { receivers: 60, ..Shape::default() });
    let copies = |bed: &Testbed| bed.branch_counters().values().map(|(packets, _)| packets).sum::<u64>();
    let (mut psn, mut sent) = (100, 0);
    // 1 to 60 receivers: up to six TLVs, of 1320 octets.
    for n in [1, 2, 1, 11, 12, 22, 23, 60, 60, 22, 2, 2, 3] {
        assert_eq!(to(&bed, psn, list(0..n)).0, REDIRECT, "{n} receivers");
        (psn, sent) = (psn + 1, sent + u64::from(n));
        assert_eq!(copies(&bed), sent, "{n} receivers");
    }
    let packet = encapsulated(&data(Opcode::SEND_ONLY, psn, b"list"), end_mt(), list(0..3), 0);
    // The addresses and QPNs of the three receivers; behind each there is a reserved octet.
    for at in (0..60).filter(|at| at % 20 != 19) {
        let mut other = packet.clone();
        other[40 + 8 + 2 * 16 + 24 + at] ^= 1;
        let before = refused(&mut bed);
        assert_eq!((bed.run("u0", &other).0, refused(&mut bed)), (SHOT, before + 1), "octet {at}");
    }
    assert_eq!(bed.run("u0", &packet).0, REDIRECT);
}

#[test]
fn groups_that_share_a_place_do_not_share_what_is_there() {
    let mut bed = Testbed::new(&Shape { receivers: 1, ..Shape::default() });
    let one = bed.group_id();
    // Places repeat after 8 and after 256 groups.
    let errors = bed.reconcile(|s| {
        let group = s.groups.values().next().unwrap().clone();
        for (i, step) in [8, 256].into_iter().enumerate() {
            let i = i as u32 + 1;
            let mut g = group.clone();
            g.group_id = canopy_model::ids::GroupId::new("group", (one + step).into()).unwrap();
            g.tree_id = canopy_model::ids::TreeId::new("tree", (100 + i).into()).unwrap();
            (g.name, g.designated_qpn) = (format!("g{i}"), Qpn::new("qpn", (0x2000 + i).into()).unwrap());
            g.proxy = (u128::from(g.proxy) + u128::from(i)).into();
            g.replication_sid = None;
            let kind = BranchKind::Receiver { qpn: Qpn::new("qpn", (0x9000 + i).into()).unwrap(), memory: None };
            g.branches.iter_mut().for_each(|b| b.kind = kind.clone());
            s.groups.insert(g.group_id, g);
        }
    });
    assert_eq!(errors, []);
    for psn in 100..110 {
        let sent = data(Opcode::SEND_ONLY, psn, b"mine");
        assert_eq!(to_group(&bed, 0, psn, receiver_qpn(0)), (REDIRECT, receiver_qpn(0)));
        assert_eq!(bed.run("u0", &encapsulated(&sent, end_mt(), list(0..1), 0)).1, copy_for(0, &sent), "psn {psn}");
        for i in 1..=2 {
            assert_eq!(to_group(&bed, i, psn, 0x9000 + i), (REDIRECT, 0x9000 + i), "psn {psn}");
            assert_eq!(to_group(&bed, i, psn, receiver_qpn(0)).0, SHOT, "psn {psn}");
        }
    }
}

/// Sends to the group whose Proxy Address is `i` behind the first one's, with the receiver's QPN `listed`; returns the copy's QPN.
fn to_group(bed: &Testbed, i: u32, psn: u32, qpn: u32) -> (u32, u32) {
    let designated = if i == 0 { DQPN } else { 0x2000 + i };
    let proxy = (u128::from(proxy()) + u128::from(i)).into();
    let mut inner = RoceBuilder::new(source(), proxy, Opcode::SEND_ONLY, designated, psn);
    inner.payload = b"mine";
    let packet = encapsulated_for(proxy, &inner.build().unwrap(), end_mt(), listed(&[(0, qpn)]), 0);
    let (verdict, frame, _) = bed.run("u0", &packet);
    (verdict, RoceFrame::parse(&frame).map_or(0, |f| f.bth.dest_qp))
}

#[test]
fn another_link_layer_address_of_a_receiver_is_used_soon() {
    let bed = Testbed::new(&Shape { receivers: 1, ..Shape::default() });
    soon(&bed, receiver(0), "d0", |psn| {
        bed.sent_to("u0", &encapsulated(&data(Opcode::SEND_ONLY, psn, b"mac"), end_mt(), list(0..1), 0))
    });
}

#[test]
fn another_link_layer_address_of_the_source_is_used_soon() {
    let bed = Testbed::new(&Shape { receivers: 1, headend: true, ..Shape::default() });
    soon(&bed, source(), "u0", |psn| {
        bed.run("u0", &data(Opcode::SEND_ONLY, psn, b"mac"));
        bed.sent_to("d0", &answer(0, Syndrome::ack(31), psn, 1))
    });
}

/// Replaces the neighbour `of` and waits until what `addressed_to` sends goes there.
fn soon(bed: &Testbed, of: Ipv6Addr, port: &str, addressed_to: impl Fn(u32) -> Vec<u8>) {
    bed.stay_on_this_processor();
    let first = addressed_to(100);
    let neighbour = format!("-6 neigh replace {of} dev {port} lladdr 02:00:00:00:00:77 nud permanent");
    assert!(std::process::Command::new("ip").args(neighbour.split(' ')).status().unwrap().success());
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(10);
    let mut psn = 101;
    while addressed_to(psn) != [2, 0, 0, 0, 0, 0x77] {
        assert!(std::time::Instant::now() < deadline, "still {first:?}");
        psn += 1;
    }
}

/// Also within the time for which a processor remembers the next hop of the old one.
#[test]
fn feedback_goes_to_another_parent_at_once() {
    let bed = Testbed::new(&Shape { receivers: 3, headend: true, ..Shape::default() });
    bed.stay_on_this_processor();
    let (id, groups) = (bed.group_id(), bed.datapath.bpf.groups());
    let own = groups.get(&id).unwrap().unwrap();
    // A second one, whose link-layer address the node has.
    let mut other = own;
    (other.up_da, other.up_ifindex) = (receiver(2).into(), bed.ifindex("d0"));
    let sent: Vec<_> = (100..160)
        .map(|psn| {
            bed.run("u0", &data(Opcode::SEND_ONLY, psn, b"up"));
            (1..3).for_each(|i| drop(bed.run("d0", &answer(i, Syndrome::ack(31), psn, psn - 99))));
            groups.put(&id, &[own, other][psn as usize % 2]).unwrap();
            bed.sent_to("d0", &answer(0, Syndrome::ack(31), psn, psn - 99))
        })
        .collect();
    assert!(sent[0] != sent[1] && sent[..2].iter().all(|mac| *mac != [0; 6]), "{sent:?}");
    assert!(sent.chunks(2).all(|pair| pair == &sent[..2]), "{sent:?}");
}

#[test]
fn a_copy_that_is_larger_than_its_path_is_dropped_also_behind_one_that_is_not() {
    let mut bed = Testbed::new(&Shape { receivers: 1, ..Shape::default() });
    let set = std::process::Command::new("ip").args("link set dev d0 mtu 1400".split(' ')).output().unwrap();
    assert!(set.status.success(), "{set:?}");
    let errors = bed.reconcile(|s| s.base_mut().ports.iter_mut().filter(|p| p.name == "d0").for_each(|p| p.mtu = 1400));
    assert_eq!(errors, []);
    let packet = |psn, octets| encapsulated(&data(Opcode::SEND_ONLY, psn, &vec![7; octets]), end_mt(), list(0..1), 0);
    // Some of the pairs are closer than the millisecond for which a next hop is remembered.
    let pairs = 200;
    for psn in (100..).step_by(2).take(pairs) {
        assert_eq!(bed.run("u0", &packet(psn, 1024)).0, REDIRECT);
        assert_eq!(bed.run("u0", &packet(psn + 1, 1400)).0, SHOT);
    }
    assert_eq!((bed.drops().get("mtu"), bed.telemetry().branches[0].packets), (Some(&(pairs as u64)), pairs as u64));
}
