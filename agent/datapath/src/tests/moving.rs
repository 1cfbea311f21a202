// SPDX-License-Identifier: Apache-2.0
//! Make-before-break: while a tree moves, its old and new branches exist at the same time (decisions 3.9).

use super::*;

/// A transit node with two child nodes, the second of which is on standby; with `alternate`, `d1` is an alternate upstream port.
fn bed(alternate: bool) -> Testbed {
    let mut bed = Testbed::new(&Shape { receivers: 0, children: 2, ..Shape::default() });
    let errors = bed.reconcile(|s| {
        s.groups.for_each_mut(|g| {
            g.branches[1].standby = true;
            g.alternate_upstream = alternate.then(|| g.branches[0].port);
        });
    });
    assert_eq!(errors, []);
    bed
}

fn down(bed: &Testbed, port: &str, psn: u32) -> u32 {
    bed.run(port, &encapsulated(&data(Opcode::SEND_ONLY, psn, b"x"), replication(), vec![], 0)).0
}

/// ACK of child `n` (10 or 11) in `epoch`.
fn ack_of(n: u64, epoch: u16, psn: u32) -> Vec<u8> {
    let mut b =
        RoceBuilder::new(plan().node_address(node(n)), plan().node_address(node(1)), Opcode::ACKNOWLEDGE, DQPN, psn);
    b.src_port = 0xC000 | epoch;
    b.extensions.aeth = Some(Aeth { syndrome: Syndrome::ack(31), msn: 1 });
    b.build().unwrap()
}

/// Number of copies sent to each child.
fn packets(bed: &mut Testbed) -> Vec<u64> {
    bed.telemetry().branches.iter().map(|b| b.packets).collect()
}

#[test]
fn a_standby_child_gets_copies_and_does_not_count() {
    let mut bed = bed(false);
    down(&bed, "u0", 100);
    assert_eq!(packets(&mut bed), [1, 1]);
    assert_eq!(bed.run("d2", &ack_of(11, 1, 100)).0, SHOT);
    assert_eq!(bed.drops().get("wrong_port"), Some(&1), "its feedback goes to another parent");
    assert_eq!(bed.telemetry().acks_out, 0);
    bed.run("d1", &ack_of(10, 1, 100));
    assert_eq!(bed.telemetry().acks_out, 1, "the minimum does not wait for it");

    // It becomes a regular branch: until it is confirmed, nothing goes upstream.
    let errors = bed.reconcile(|s| {
        s.groups.for_each_mut(|g| {
            g.epoch = 2;
            g.branches.iter_mut().for_each(|b| (b.standby, b.since) = (false, 2));
        });
    });
    assert_eq!(errors, []);
    down(&bed, "u0", 101);
    bed.run("d1", &ack_of(10, 1, 101));
    assert_eq!(bed.telemetry().acks_out, 1);
    assert_eq!(bed.drops().get("epoch_old"), Some(&1), "sent before the move");
    for (port, child) in [("d1", 10), ("d2", 11)] {
        bed.run(port, &ack_of(child, 2, 101));
    }
    assert_eq!(bed.telemetry().acks_out, 2);
}

#[test]
fn data_is_also_accepted_from_the_alternate_upstream_while_the_tree_moves() {
    for alternate in [false, true] {
        let mut bed = bed(alternate);
        down(&bed, "u0", 100);
        down(&bed, "d1", 101);
        assert_eq!(packets(&mut bed)[1], 1 + u64::from(alternate));
        assert_eq!(bed.drops().get("wrong_port").copied().unwrap_or(0), u64::from(!alternate));
        down(&bed, "d2", 102);
        assert_eq!(packets(&mut bed)[1], 1 + u64::from(alternate), "and from no other port");
    }
}
