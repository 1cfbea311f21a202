// SPDX-License-Identifier: Apache-2.0
//! Which flows are told of, and what reading a full table costs.

use std::sync::Arc;
use std::time::Instant;

use canopy_agent_core::congestion::{Counters, FourTuple, Input, Limits, Node, Origin, Settings};
use canopy_model::congestion::{FlowOrigin, FlowTelemetry};
use canopy_model::ids::PortIndex;

use super::*;
use crate::egress::window::{FlowShown, Flows, PortShown, Window};

const S: u64 = 1_000_000_000;
const MS: u64 = 1_000_000;
const IFINDEX: u32 = 7;

fn index() -> PortIndex {
    PortIndex::new("p", 2).unwrap()
}

fn flows(all: &[(u32, u64)]) -> Arc<Flows> {
    let shown = |(n, bytes): &(u32, u64)| ((IFINDEX, flow(*n)), FlowShown { bytes: *bytes, ..FlowShown::default() });
    Arc::new(all.iter().map(shown).collect())
}

fn node() -> Node {
    let mut node = Node::new(Settings::default());
    node.handle(Input::Port(index(), Limits::new(20_000, 40_000, 10 * MS)), 0).unwrap();
    node
}

fn close(window: &mut Window, all: &[(u32, u64)], port_bytes: u64, node: &Node, now_ns: u64) -> Vec<FlowTelemetry> {
    let ports = BTreeMap::from([(IFINDEX, PortShown { index: index(), bytes: port_bytes })]);
    window.close(flows(all), &ports, node, now_ns).remove(&index()).unwrap_or_default()
}

#[test]
fn what_was_sent_in_the_window_counts_and_not_what_was_sent_before() {
    let (mut window, node) = (Window::default(), node());
    assert!(window.is_over(0), "the first one begins at once");
    assert_eq!(close(&mut window, &[(1, 1 << 40), (2, 100), (3, 5)], 1 << 41, &node, S), []);
    assert!(!window.is_over(2 * S - 1) && window.is_over(2 * S));
    // 1 was pushed out and came back, 3 is silent, 4 is new. Two seconds.
    let told = close(&mut window, &[(1, 1_000), (2, 7_100), (3, 5), (4, 1_500)], (1 << 41) + 10_000, &node, 3 * S);
    let found: Vec<_> = told.iter().map(|f| (f.src, f.rate_bps, f.share_permille)).collect();
    assert_eq!(found, [(host(2), 28_000, 700), (host(4), 6_000, 150), (host(1), 4_000, 100)]);
    assert_eq!((told[0].bytes, told[0].src_qp, told[0].origin), (7_100, None, FlowOrigin::Unknown));
}

#[test]
fn a_flow_that_was_complained_of_is_told_of_though_it_is_silent_and_the_list_is_bounded() {
    let (mut window, mut node) = (Window::default(), node());
    let src_qp = Qpn::new("q", 17).unwrap();
    let known = FourTuple { key: flow(500), src_qp };
    node.handle(Input::Flow { flow: known, origin: Origin::Provisioned, accepts_roce: false }, 0).unwrap();
    node.handle(Input::Arrived(index(), flow(500), 1_000), MS).unwrap();
    for at in [MS, 3 * MS] {
        node.handle(Input::Arrived(index(), flow(500), 1_000), at).unwrap();
        let counters = Counters { queue_bytes: 50_000, packets: at, ce_packets: 0 };
        node.handle(Input::Sample(index(), counters), at).unwrap();
    }
    assert_eq!(node.counts().cnps.sent(), 1);
    close(&mut window, &[(500, 9)], 9, &node, S);
    let told = close(&mut window, &[(500, 9), (1, 100)], 109, &node, 2 * S);
    let found: Vec<_> = told.iter().map(|f| (f.src, f.src_qp, f.origin, f.counts.cnps.sent())).collect();
    let expected = [(host(1), None, FlowOrigin::Unknown, 0), (host(500), Some(src_qp), FlowOrigin::Provisioned, 1)];
    assert_eq!(found, expected);
    let many: Vec<_> = (1..=300).map(|n| (n, u64::from(n) * 1_000)).collect();
    let told = close(&mut window, &many, 1 << 30, &node, 3 * S);
    assert_eq!((told.len(), told[0].src, told[63].src), (64, host(300), host(237)));
}

/// The watcher's thread reads the table, once a second while nothing is congested. The figures are for docs/long-haul.md.
#[test]
fn a_full_table_is_read_and_judged_whole() {
    let bed = Bed::new();
    let key = |n| keys::of(&flow(n), bed.port);
    bed.egress().fill((0..65_536).map(key));
    let began = Instant::now();
    let all = bed.egress().flows().unwrap();
    let read = began.elapsed();
    let shown: Flows = all
        .iter()
        .map(|(key, f)| ((key.ifindex, keys::flow(key).unwrap()), FlowShown { bytes: f.bytes, ..FlowShown::default() }))
        .collect();
    let sorted = began.elapsed();
    let (mut window, node) = (Window::default(), node());
    let ports = BTreeMap::from([(bed.port, PortShown { index: index(), bytes: 1 << 30 })]);
    window.close(Arc::default(), &ports, &node, S);
    let told = window.close(Arc::new(shown), &ports, &node, 2 * S);
    println!("{} flows: read {read:?}, by key {:?}, judged {:?}", all.len(), sorted - read, began.elapsed() - sorted);
    // The kernel's table begins to make room before it is quite full.
    assert!(all.len() > 60_000, "{}", all.len());
    assert_eq!(told[&index()].len(), 64);
}
