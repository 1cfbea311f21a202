// SPDX-License-Identifier: Apache-2.0
//! The flows of multicast groups are provisioned without being registered, and copies of their packets are counted.

use super::*;
use crate::egress::{GroupFlows, WatcherConfig};
use crate::testbed::{DQPN, SOURCE_QPN, data, proxy, receiver, receiver_qpn, source};

fn key(src: Ipv6Addr, dst: Ipv6Addr, qpn: u32) -> FlowKey {
    FlowKey { src, dst, dst_qp: Qpn::new("q", qpn.into()).unwrap() }
}

fn headend() -> Testbed {
    Testbed::new(&Shape { headend: true, receivers: 2, children: 1, ..Shape::default() })
}

#[test]
fn cnps_for_every_copy_go_to_the_source_of_the_group_independent_of_its_addresses() {
    let bed = headend();
    let flows = GroupFlows::default().follow(&bed.spec.groups);
    let config = WatcherConfig::new(&bed.spec.base, flows, &BTreeMap::new());
    let known: BTreeMap<_, _> =
        config.flows.iter().map(|(key, f)| (*key, (f.notify, f.flow.src_qp.get(), f.accepts_roce))).collect();
    let notify = (source(), SOURCE_QPN, false);
    let wanted = [
        (key(source(), proxy(), DQPN), notify),
        (key(proxy(), receiver(0), receiver_qpn(0)), notify),
        (key(proxy(), receiver(1), receiver_qpn(1)), notify),
    ];
    assert_eq!(known, BTreeMap::from(wanted));
}

/// Queues at the ports to the child and to the receivers that are longer than K_min, and drain very slowly.
fn congest(bed: &Testbed) {
    let limits = types::canopy_limits { k_min: 1_000, rtt_ns: HOUR_NS };
    for name in ["d0", "d1"] {
        tc(&format!("qdisc replace dev {name} root tbf rate 1kbit burst 1600 limit 1000000"));
        fill(bed.ifindex(name), 50);
    }
    let ports = ["d0", "d1"].map(|name| (bed.ifindex(name), limits));
    bed.datapath.egress.set_limits(&BTreeMap::from(ports)).unwrap();
}

fn flows_of(bed: &Testbed) -> BTreeMap<(u32, FlowKey), (u64, u64)> {
    let flows = bed.datapath.egress.flows().unwrap().into_iter();
    flows.map(|(k, f)| ((k.ifindex, keys::flow(&k).unwrap()), (f.packets, f.bytes))).collect()
}

fn sent() -> Vec<Vec<u8>> {
    (100..110).map(|psn| data(Opcode::SEND_ONLY, psn, b"abcd")).collect()
}

#[test]
fn copies_at_a_short_queue_are_counted_at_their_ports_only() {
    let bed = headend();
    bed.traffic("u0", &sent());
    let packets = |name: &str| bed.datapath.egress.stats(bed.ifindex(name)).unwrap().packets;
    assert_eq!((packets("d1"), packets("d0")), (10, 20));
    assert_eq!(flows_of(&bed), BTreeMap::new());
}

/// They are counted by their first header alone; a copy to a child node has the mark there too.
#[test]
fn copies_that_arrived_marked_count_as_marked_at_a_short_queue() {
    let bed = headend();
    let sent: Vec<_> = sent().iter().zip([CE, ECT0].into_iter().cycle()).map(|(p, ecn)| with_ecn(p, 0, ecn)).collect();
    bed.traffic("u0", &sent);
    let counted = |name: &str| {
        let stats = bed.datapath.egress.stats(bed.ifindex(name)).unwrap();
        (stats.packets, stats.ce, stats.marked)
    };
    assert_eq!((counted("d1"), counted("d0")), ((10, 5, 0), (20, 10, 0)));
}

#[test]
fn copies_at_a_long_queue_are_counted_encapsulated_or_not_and_the_group_takes_its_flows_along() {
    let mut bed = headend();
    congest(&bed);
    let sent = sent();
    bed.traffic("u0", &sent);
    let (to_child, to_receivers) = (bed.ifindex("d1"), bed.ifindex("d0"));
    let plain = sent[0].len() as u64 + 14;
    let flows = flows_of(&bed);
    let (packets, encapsulated) = flows[&(to_child, key(source(), proxy(), DQPN))];
    assert_eq!(packets, 10);
    assert!(encapsulated > 10 * (plain + 40), "the octets of the encapsulation count: {encapsulated}");
    for i in 0..2 {
        let at_receiver = flows[&(to_receivers, key(proxy(), receiver(i), receiver_qpn(i)))];
        assert_eq!(at_receiver, (10, 10 * plain));
    }
    assert_eq!(flows.len(), 3);
    assert_eq!(bed.reconcile(|spec| spec.groups.clear()), []);
    assert_eq!(flows_of(&bed), BTreeMap::new(), "announced flows are removed with the group");
}
