// SPDX-License-Identifier: Apache-2.0
//! While a tree moves, two of them lie side by side (decisions 3.9, make before break).

use super::*;

/// A transit node with two children, of which the second is only warming up; data may come by `d1` too when `also`.
fn bed(also: bool) -> Testbed {
    let mut bed = Testbed::new(&Shape { receivers: 0, children: 2, ..Shape::default() });
    let errors = bed.reconcile(|s| {
        let g = s.groups.values_mut().next().unwrap();
        g.branches[1].warming = true;
        g.also_from = also.then(|| g.branches[0].port);
    });
    assert_eq!(errors, []);
    bed
}

fn down(bed: &Testbed, port: &str, psn: u32) -> u32 {
    bed.run(port, &encapsulated(&data(Opcode::SEND_ONLY, psn, b"x"), replication(), vec![], 0)).0
}

/// ACK of child `n` (10 or 11) in `epoch`.
fn says(n: u64, epoch: u16, psn: u32) -> Vec<u8> {
    let mut b =
        RoceBuilder::new(plan().node_address(node(n)), plan().node_address(node(1)), Opcode::ACKNOWLEDGE, DQPN, psn);
    b.src_port = 0xC000 | epoch;
    b.extensions.aeth = Some(Aeth { syndrome: Syndrome::ack(31), msn: 1 });
    b.build().unwrap()
}

/// Copies that each child got.
fn packets(bed: &mut Testbed) -> Vec<u64> {
    bed.telemetry().branches.iter().map(|b| b.packets).collect()
}

#[test]
fn a_warming_child_gets_copies_and_does_not_count() {
    let mut bed = bed(false);
    down(&bed, "u0", 100);
    assert_eq!(packets(&mut bed), [1, 1]);
    assert_eq!(bed.run("d2", &says(11, 1, 100)).0, SHOT);
    assert_eq!(bed.drops().get("wrong_port"), Some(&1), "it still answers to somebody else");
    assert_eq!(bed.telemetry().acks_out, 0);
    bed.run("d1", &says(10, 1, 100));
    assert_eq!(bed.telemetry().acks_out, 1, "nobody waits for it");

    // It moves here: until it was heard, nothing goes upstream.
    let errors = bed.reconcile(|s| {
        let g = s.groups.values_mut().next().unwrap();
        g.epoch = 2;
        g.branches.iter_mut().for_each(|b| (b.warming, b.since) = (false, 2));
    });
    assert_eq!(errors, []);
    down(&bed, "u0", 101);
    bed.run("d1", &says(10, 1, 101));
    assert_eq!(bed.telemetry().acks_out, 1);
    assert_eq!(bed.drops().get("epoch_old"), Some(&1), "said before the move");
    for (port, child) in [("d1", 10), ("d2", 11)] {
        bed.run(port, &says(child, 2, 101));
    }
    assert_eq!(bed.telemetry().acks_out, 2);
}

#[test]
fn data_comes_from_the_parent_to_come_too_while_the_tree_moves() {
    for also in [false, true] {
        let mut bed = bed(also);
        down(&bed, "u0", 100);
        down(&bed, "d1", 101);
        assert_eq!(packets(&mut bed)[1], 1 + u64::from(also));
        assert_eq!(bed.drops().get("wrong_port").copied().unwrap_or(0), u64::from(!also));
        down(&bed, "d2", 102);
        assert_eq!(packets(&mut bed)[1], 1 + u64::from(also), "and from nowhere else");
    }
}
