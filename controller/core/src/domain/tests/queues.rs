// SPDX-License-Identifier: Apache-2.0
//! Queues that agents report: shown with the link, bounded, and removed when stale.

use canopy_model::congestion::{FlowOrigin, FlowTelemetry, PortCongestion, QueueTelemetry};
use canopy_model::ids::{PortIndex, Qpn};

use super::*;
use crate::testing::fabric;
use crate::view::LinkCongestion;

const S: u64 = 1_000_000_000;

/// leaf1 with up1 (port 1) and host1 (port 2), and others; its agent is connected.
fn world() -> World {
    let mut world = World::with(fabric(2, 1, 1));
    world.domain.agent_connected("leaf1");
    world
}

fn report(port: u64, queue: u64, flows: u32) -> PortCongestion {
    let flow = |n: u32| FlowTelemetry {
        src: std::net::Ipv6Addr::from_bits(n.into()),
        dst: std::net::Ipv6Addr::LOCALHOST,
        dst_qp: Qpn::new("qp", 17).unwrap(),
        src_qp: None,
        origin: FlowOrigin::Unknown,
        packets: 1,
        octets: Octets(1_000),
        ce: 0,
        rate: Rate::from_bps(8_000),
        share_permille: 10,
        counts: Default::default(),
    };
    PortCongestion {
        port: PortIndex::new("port", port).unwrap(),
        queue: QueueTelemetry { queue: Octets(queue), ..QueueTelemetry::default() },
        flows: (0..flows).map(flow).collect(),
    }
}

fn shown(w: &World, name: &str, now_ns: u64) -> Option<(u64, u64)> {
    let (node, port) = name.split_once('/').unwrap();
    let LinkCongestion { queue, reported_ago } =
        w.domain.link(node, port, instant(now_ns)).unwrap().status.congestion?;
    Some((queue.queue.get(), nanos(reported_ago)))
}

fn flows(w: &World, node: Option<&str>, port: Option<&str>) -> Vec<String> {
    let all = w.domain.flows(node, port, instant(4 * S));
    all.iter().map(|f| format!("{}/{} {} {}", f.node, f.port, f.flow.src, f.reported_ago.as_secs())).collect()
}

#[test]
fn a_queue_is_shown_at_its_port_until_a_report_omits_it() {
    let mut w = world();
    // leaf1 has no port 9, and there is no node n9.
    w.domain.queues("leaf1", vec![report(1, 7_000, 2), report(2, 8_000, 1), report(9, 1, 1)], instant(3 * S));
    w.domain.queues("n9", vec![report(1, 1, 1)], instant(3 * S));
    assert_eq!((shown(&w, "leaf1/up1", 4 * S), shown(&w, "leaf1/host1", 4 * S)), (Some((7_000, S)), Some((8_000, S))));
    assert_eq!((shown(&w, "leaf2/up1", 4 * S), shown(&w, "spine1/down1", 4 * S)), (None, None));
    let all = ["leaf1/up1 :: 1", "leaf1/up1 ::1 1", "leaf1/host1 :: 1"];
    assert_eq!(flows(&w, None, None), all);
    assert_eq!(flows(&w, Some("leaf1"), None), all);
    assert_eq!(flows(&w, Some("leaf1"), Some("host1")), all[2..]);
    assert_eq!(flows(&w, Some("leaf2"), None), [""; 0]);
    w.domain.queues("leaf1", vec![report(2, 8_001, 0)], instant(4 * S));
    assert_eq!((shown(&w, "leaf1/up1", 4 * S), shown(&w, "leaf1/host1", 4 * S)), (None, Some((8_001, 0))));
    assert_eq!(flows(&w, None, None), [""; 0]);
}

#[test]
fn a_node_cannot_make_more_than_64_flows_grow_here() {
    let mut w = world();
    w.domain.queues("leaf1", vec![report(1, 1, 60), report(2, 1, 60)], instant(3 * S));
    assert_eq!((flows(&w, None, Some("up1")).len(), flows(&w, None, Some("host1")).len()), (60, 4));
}

#[test]
fn stale_queue_state_is_not_shown() {
    let mut w = world();
    w.domain.queues("leaf1", vec![report(1, 7_000, 1)], instant(3 * S));
    assert_eq!(shown(&w, "leaf1/up1", 63 * S), Some((7_000, 60 * S)));
    assert_eq!(shown(&w, "leaf1/up1", 63 * S + 1), None, "a minute old");
    assert_eq!(w.domain.flows(None, None, instant(63 * S + 1)), []);
    w.domain.agent_gone("leaf1", instant(0));
    assert_eq!((shown(&w, "leaf1/up1", 4 * S), flows(&w, None, None)), (None, vec![]));
    w.domain.queues("leaf1", vec![report(1, 7_000, 1)], instant(3 * S));
    assert_eq!(shown(&w, "leaf1/up1", 4 * S), None, "a report received after the agent disconnected");
}

#[test]
fn a_port_keeps_its_queue_when_it_is_numbered_anew_and_loses_it_when_it_is_gone() {
    let mut w = world();
    w.domain.queues("leaf1", vec![report(1, 7_000, 1)], instant(3 * S));
    let mut spec = fabric(2, 1, 1);
    let up1 = spec.links.iter().position(|l| l.label().contains("leaf1/up1")).unwrap();
    let last = spec.links.len() - 1;
    spec.links.swap(up1, last);
    w.run_at(topology(spec.clone()), 4 * S).unwrap();
    assert_eq!(shown(&w, "leaf1/up1", 4 * S), Some((7_000, S)));
    spec.links[last].b.port = "other".into();
    w.run_at(topology(spec), 4 * S).unwrap();
    assert!(
        w.domain.links(instant(4 * S)).iter().all(|link| link.status.congestion.is_none()),
        "the other end is another"
    );
}
