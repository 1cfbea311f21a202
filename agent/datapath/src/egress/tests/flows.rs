// SPDX-License-Identifier: Apache-2.0
//! The flow tables: bounded, and announced flows are never evicted.

use std::collections::BTreeSet;

use super::*;

/// Capacity for flows that were not announced (egress_maps.h MAX_LEARNED).
const MAX_LEARNED: usize = 65_536;
/// Capacity for flows that were announced, by port (maps.h MAX_KEPT).
const MAX_KEPT: u32 = 65_536;
const MILLION: u32 = 1_000_000;

#[test]
fn a_million_flows_leave_a_full_table_and_the_announced_ones_with_every_packet_counted() {
    let bed = Bed::new();
    let announced: BTreeSet<_> = (0..100).map(|n| flow(MILLION + n)).collect();
    bed.egress().set_known(&crate::testbed::announced(announced.iter().copied())).unwrap();
    let p = |n| packet(n, ECT0, 1, b"abcd");
    (0..100).for_each(|n| drop(bed.run(&p(MILLION + n))));
    let mut frame = frame(&p(0));
    for n in 0..MILLION {
        frame[14 + 8..14 + 24].copy_from_slice(&host(n).octets());
        bed.egress().run(bed.port, &frame);
    }
    (0..100).for_each(|n| drop(bed.run(&p(MILLION + n))));
    assert_eq!(bed.stats().packets, u64::from(MILLION) + 200);
    let flows = bed.flows();
    let (kept, learned): (Vec<_>, Vec<_>) = flows.into_iter().partition(|(key, _)| announced.contains(key));
    assert!(kept.iter().all(|(_, f)| f.packets == 2), "an announced flow lost its counters");
    assert_eq!(kept.len(), announced.len());
    assert!(learned.len() <= MAX_LEARNED, "{}", learned.len());
    assert!(learned.len() > MAX_LEARNED / 2, "only {} entries: the table evicts too much", learned.len());
    let keys: BTreeSet<_> = learned.iter().map(|(key, _)| *key).collect();
    assert!(
        keys.contains(&flow(MILLION - 1)) && !keys.contains(&flow(0)),
        "the newest flow stays, the oldest is evicted"
    );
    // Flows that are no longer announced are removed.
    bed.egress().set_known(&crate::testbed::announced(announced.iter().take(1).copied())).unwrap();
    let left: BTreeSet<_> = bed.flows().into_iter().map(|(key, _)| key).filter(|k| announced.contains(k)).collect();
    assert_eq!(left, announced.iter().take(1).copied().collect());
}

/// Catches a node with more flows than the table holds, on which every group is an error.
#[test]
fn flows_without_a_place_in_the_table_take_the_next_free_one() {
    let bed = Bed::new();
    let program = own(&bed);
    let flows = |from: u32, to: u32| crate::testbed::announced((from..to).map(flow));
    let bpf = std::sync::Arc::clone(&program.bpf);
    let count = || bpf.eg_known().keys().len();
    assert_eq!(program.set_known(&flows(0, MAX_KEPT + 6)).unwrap(), 6);
    assert_eq!(count(), MAX_KEPT as usize);
    assert_eq!(program.set_known(&flows(2, MAX_KEPT + 6)).unwrap(), 4);
    assert_eq!(program.set_known(&flows(10, MAX_KEPT + 6)).unwrap(), 0);
    assert_eq!(count(), MAX_KEPT as usize - 4);
    // Another agent, which reads the table.
    let program = Egress::new(std::sync::Arc::clone(&program.bpf));
    assert_eq!(program.set_known(&flows(10, MAX_KEPT + 20)).unwrap(), 10);
    assert_eq!(count(), MAX_KEPT as usize);
    assert_eq!(program.set_known(&flows(0, 3)).unwrap(), 0);
    assert_eq!(count(), 3);
}

/// The packets are forwarded and marked; only their counts are missing from the flow.
#[test]
fn packets_of_an_announced_flow_without_room_in_the_table_are_counted_at_the_port() {
    let bed = Bed::new();
    let program = own(&bed);
    program.set_known(&crate::testbed::announced([flow(1), flow(2)])).unwrap();
    let uncounted = || port_drops(&program, bed.port, types::canopy_drop::DROP_FLOW_UNCOUNTED);
    let p = |n| frame(&packet(n, ECT0, 1, b"abcd"));
    program.run(bed.port, &p(1));
    program.fill_kept((0..MAX_KEPT - 1).map(|n| keys::of(&flow(MILLION + n), 0)));
    for (n, wanted) in [(1, 0), (3, 0), (2, 1), (2, 2)] {
        let sent = p(n);
        assert_eq!((program.run(bed.port, &sent).0, uncounted()), (sent, wanted), "flow {n}");
    }
    assert_eq!(program.stats(bed.port).unwrap().packets, 5);
    // An announcement that ends makes room.
    program.bpf.eg_kept().delete(&keys::of(&flow(MILLION), 0)).unwrap();
    program.run(bed.port, &p(2));
    assert_eq!(uncounted(), 2);
}

#[test]
fn answers_and_cnps_are_no_data() {
    use canopy_packet::aeth::{Aeth, Syndrome};
    let bed = Bed::new();
    let mut ack = RoceBuilder::new(far(), host(1), Opcode::ACKNOWLEDGE, 0x55, 1);
    ack.extensions.aeth = Some(Aeth { syndrome: Syndrome::ack(1), msn: 1 });
    bed.run(&ack.build().unwrap());
    let mut cnp = RoceBuilder::new(far(), host(1), Opcode::CNP, 0x56, 0);
    cnp.extensions.cnp = Some(canopy_packet::cnp::Cnp::default());
    bed.run(&cnp.build().unwrap());
    let mut other_port = packet(1, ECT0, 1, b"abcd");
    other_port[42..44].copy_from_slice(&4792u16.to_be_bytes());
    bed.run(&other_port);
    assert_eq!((bed.stats().packets, bed.flows().len()), (0, 0));
    let acks: Vec<_> = bed.egress().acks().unwrap().iter().map(|(key, _)| keys::flow(key).unwrap()).collect();
    assert_eq!(acks, [FlowKey { src: far(), dst: host(1), dst_qp: Qpn::new("q", 0x55).unwrap() }]);
}

#[test]
fn ports_of_one_flow_are_counted_apart() {
    let bed = Bed::new();
    let p = frame(&packet(1, ECT0, 1, b"abcd"));
    let other = bed.bed.ifindex("u0");
    bed.egress().run(bed.port, &p);
    bed.egress().run(other, &p);
    bed.egress().run(other, &p);
    let mut counted: Vec<_> = bed.egress().flows().unwrap().into_iter().map(|(k, f)| (k.ifindex, f.packets)).collect();
    counted.sort();
    assert_eq!(counted, if other < bed.port { [(other, 2), (bed.port, 1)] } else { [(bed.port, 1), (other, 2)] });
}

#[test]
fn an_interface_that_is_gone_takes_its_counters_along_and_the_others_keep_theirs() {
    let mut bed = Bed::new();
    let (p, other) = (frame(&packet(1, ECT0, 1, b"abcd")), bed.bed.ifindex("u0"));
    bed.egress().set_known(&crate::testbed::announced([flow(2)])).unwrap();
    for n in [1, 2] {
        bed.run(&packet(n, ECT0, 1, b"abcd"));
    }
    bed.egress().run(other, &p);
    assert_eq!(bed.egress().flows().unwrap().len(), 3);
    let out = Command::new("ip").args(["link", "del", "d0"]).status().unwrap();
    assert!(out.success());
    assert_ne!(bed.bed.reconcile(|_| ()), [], "a port is missing");
    assert_eq!((bed.stats().packets, (bed.stats().seen_ns == 0)), (0, true));
    let left: Vec<_> = bed.egress().flows().unwrap().iter().map(|(key, _)| key.ifindex).collect();
    assert_eq!((left, bed.egress().stats(other).unwrap().packets), (vec![other], 1));
}
