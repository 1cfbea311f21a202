// SPDX-License-Identifier: Apache-2.0
//! A fatal NAK is state of its branch: in every sample until the branch leaves, and checked like other feedback (decisions 3.11).

use std::collections::BTreeMap;

use canopy_model::telemetry::FatalNak;
use canopy_packet::aeth::{Aeth, Syndrome};
use canopy_packet::bth::Opcode;
use canopy_packet::frame::RoceBuilder;

use crate::testbed::*;

const ACCESS: Syndrome = Syndrome(0x62);
const OPERATION: Syndrome = Syndrome(0x63);

/// Three receivers and a child node, and data up to PSN 109.
fn bed() -> Testbed {
    let bed = Testbed::new(&Shape { receivers: 3, children: 1, ..Shape::default() });
    for psn in 100..110 {
        bed.run("u0", &encapsulated(&data(Opcode::SEND_ONLY, psn, b"x"), end_mt(), list(0..3), 0));
    }
    bed
}

fn fatal(bed: &mut Testbed) -> BTreeMap<std::net::Ipv6Addr, FatalNak> {
    bed.telemetry().branches.into_iter().filter_map(|b| Some((b.address, b.fatal?))).collect()
}

#[test]
fn it_stays_in_every_sample_until_the_branch_leaves() {
    let mut bed = bed();
    assert_eq!(bed.run("d0", &answer(1, ACCESS, 105, 1)).0, SHOT);
    assert_eq!(bed.run("d0", &answer(1, OPERATION, 107, 1)).0, SHOT);
    let first = BTreeMap::from([(receiver(1), FatalNak { syndrome: 0x62, psn: 105 })]);
    assert_eq!(fatal(&mut bed), first);
    assert_eq!(bed.drops()["nak_fatal"], 2);
    bed.reopen();
    assert_eq!(bed.reconcile(|_| {}), []);
    assert_eq!(fatal(&mut bed), first, "after a restart of the agent");
    bed.through_another_layout();
    bed.reopen();
    assert_eq!(bed.reconcile(|_| {}), []);
    assert_eq!(fatal(&mut bed), first, "after an upgrade of the agent");

    let mut left = None;
    let errors = bed.reconcile(|s| {
        s.groups.for_each_mut(|g| {
            let at = g.branches.iter().position(|b| b.address == receiver(1)).unwrap();
            left = Some(g.branches.remove(at));
            g.epoch += 1;
        });
    });
    assert_eq!((errors, fatal(&mut bed)), (vec![], BTreeMap::new()));
    let errors = bed.reconcile(|s| {
        s.groups.for_each_mut(|g| {
            g.epoch += 1;
            g.branches.push(canopy_model::node_spec::Branch { since: g.epoch, ..left.clone().unwrap() });
        });
    });
    assert_eq!((errors, fatal(&mut bed)), (vec![], BTreeMap::new()), "it joined again");
}

#[test]
fn it_changes_nothing_of_the_aggregation() {
    let bed = bed();
    bed.run("d0", &answer(0, Syndrome::ack(31), 109, 10));
    let before = bed.state();
    assert_eq!(bed.run("d0", &answer(1, ACCESS, 105, 1)).0, SHOT);
    let mut after = bed.state();
    assert_ne!(after.fatal, before.fatal);
    after.fatal = before.fatal;
    assert_eq!(format!("{after:?}"), format!("{before:?}"));
}

#[test]
fn a_fatal_nak_that_no_receiver_of_this_session_can_send_is_refused() {
    let mut bed = Testbed::new(&Shape { receivers: 3, children: 1, ..Shape::default() });
    assert_eq!(bed.run("d0", &answer(1, ACCESS, 105, 1)).0, SHOT);
    assert_eq!(bed.drops()["feedback_window"], 1, "before any data");
    let mut bed = self::bed();
    bed.run("d0", &answer(1, Syndrome::ack(31), 106, 7));
    for (psn, reason) in [(111, "feedback_window"), (100 + (1 << 23), "feedback_window"), (105, "nak_ghost")] {
        let before = bed.drops().get(reason).copied().unwrap_or(0);
        assert_eq!(bed.run("d0", &answer(1, ACCESS, psn, 1)).0, SHOT);
        assert_eq!(bed.drops()[reason], before + 1, "PSN {psn}");
    }
    // A child node keeps those of its receivers.
    let child = plan().node_address(node(10));
    let mut b = RoceBuilder::new(child, plan().node_address(node(1)), Opcode::ACKNOWLEDGE, DQPN, 105);
    b.src_port = 0xC001;
    b.extensions.aeth = Some(Aeth { syndrome: ACCESS, msn: 1 });
    assert_eq!(bed.run("d1", &b.build().unwrap()).0, SHOT);
    assert_eq!(bed.drops()["feedback_malformed"], 1);
    assert_eq!(fatal(&mut bed), BTreeMap::new());
}
