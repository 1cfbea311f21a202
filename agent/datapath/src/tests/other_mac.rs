// SPDX-License-Identifier: Apache-2.0
//! Feedback of a receiver from another link-layer address than its neighbour entry has.

use std::time::{Duration, Instant};

use canopy_packet::aeth::Syndrome;
use canopy_packet::bth::Opcode;

use crate::testbed::*;

const FORGED: [u8; 6] = [2, 0, 0, 0, 0, 0x66];
const MOVED: [u8; 6] = [2, 0, 0, 0, 0, 0x99];

/// The link-layer address of the receiver in the kernel's neighbour table.
fn entry() -> String {
    let of = receiver(0).to_string();
    let out = std::process::Command::new("ip").args(["-6", "neigh", "show", &of, "dev", "d0"]).output().unwrap();
    let text = String::from_utf8(out.stdout).unwrap();
    text.split("lladdr ").nth(1).map(|rest| rest[..17].to_owned()).unwrap_or(text)
}

fn text(mac: [u8; 6]) -> String {
    mac.map(|octet| format!("{octet:02x}")).join(":")
}

fn known(bed: &Testbed) -> ([u8; 6], u64) {
    let known = bed.datapath.bpf.neighbours().get(&receiver(0).into()).unwrap().unwrap();
    (known.mac, known.reported_ns)
}

/// Reconciles until the first receivers have answered neighbour discovery. The far ends are in this namespace, so the receiver's address
/// is one of the node's own: not for this test.
fn reconcile(bed: &mut Testbed, receivers: usize) {
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        assert_eq!(bed.reconcile(|_| {}), []);
        if bed.datapath.bpf.neighbours().keys().len() == receivers {
            break;
        }
        assert!(Instant::now() < deadline, "no answer to neighbour discovery");
        bed.let_time_pass(Duration::from_millis(20));
    }
    bed.datapath.bpf.own_addresses().delete(&receiver(0).into()).unwrap();
}

#[test]
fn a_receiver_with_another_link_layer_address_is_solicited_and_nothing_is_learned_from_its_feedback() {
    let mut bed = Testbed::new(&Shape::default());
    bed.peers_answer();
    reconcile(&mut bed, 1);
    let was = known(&bed).0;
    assert_eq!((entry(), known(&bed).1), (text(was), 0), "the programs know what the kernel knows");
    for psn in 100..104 {
        bed.run("u0", &encapsulated(&data(Opcode::SEND_ONLY, psn, b"x"), end_mt(), list(0..1), 0));
    }
    let ack = |psn| answer(0, Syndrome::ack(31), psn, 1);
    assert_eq!(bed.run_from("d0", was, &ack(100)).0, REDIRECT);
    assert_eq!(known(&bed).1, 0, "from its own address");

    // Another host behind the port uses its name: the receiver answers the solicitation, and its entry stays. The feedback counts as before.
    assert_eq!(bed.run_from("d0", FORGED, &ack(101)).0, REDIRECT);
    let (_, reported) = known(&bed);
    assert_ne!(reported, 0);
    assert_eq!(bed.run_from("d0", FORGED, &ack(102)).0, REDIRECT);
    assert!(known(&bed).1 == reported || known(&bed).1 - reported > 100_000_000, "one report in 100 ms");
    bed.let_time_pass(Duration::from_millis(300));
    reconcile(&mut bed, 1);
    assert_eq!((entry(), known(&bed).0), (text(was), was));

    // It really has another one, and does not announce it.
    let moves = ["link", "set", "dev", "d0p", "address", &text(MOVED)];
    assert!(std::process::Command::new("ip").args(moves).status().unwrap().success());
    assert_eq!(entry(), text(was));
    let began = Instant::now();
    assert_eq!(bed.run_from("d0", MOVED, &ack(103)).0, REDIRECT);
    while entry() != text(MOVED) {
        assert!(began.elapsed() < Duration::from_secs(10), "the neighbour entry did not follow");
        bed.let_time_pass(Duration::from_millis(5));
    }
    println!("the entry follows after {:?}", began.elapsed());
    assert_eq!(bed.reconcile(|_| {}), []);
    assert_eq!(known(&bed), (MOVED, 0));
    assert_eq!(bed.drops().get("event_lost"), None);
}

#[test]
fn neighbours_that_are_gone_or_not_resolved_are_not_compared() {
    let mut bed = Testbed::new(&Shape { receivers: 2, ..Shape::default() });
    assert_eq!(bed.datapath.bpf.neighbours().keys().len(), 0, "none has answered");
    bed.peers_answer();
    // Receivers, and no child node or parent.
    reconcile(&mut bed, 2);
    assert_eq!(bed.reconcile(|s| s.groups.for_each_mut(|g| _ = g.branches.pop())), []);
    assert_eq!(
        bed.datapath.bpf.neighbours().keys().into_iter().map(std::net::Ipv6Addr::from).collect::<Vec<_>>(),
        [receiver(0)]
    );
    assert_eq!(bed.reconcile(|s| s.groups.clear()), []);
    assert_eq!(bed.datapath.bpf.neighbours().keys().len(), 0);
}
