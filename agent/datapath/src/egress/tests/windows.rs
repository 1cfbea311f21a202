// SPDX-License-Identifier: Apache-2.0
//! The flows that are reported, and the cost of reading a full table.

use std::sync::Arc;
use std::time::Instant;

use canopy_agent_core::congestion::{Counters, FourTuple, Input, Limits, Node, Origin, Settings};
use canopy_model::congestion::{FlowOrigin, FlowTelemetry};
use canopy_model::ids::PortIndex;

use super::*;
use crate::egress::window::{FlowTotals, Flows, PortTotals, Window};

const S: u64 = 1_000_000_000;
const MS: u64 = 1_000_000;
const IFINDEX: u32 = 7;

fn index() -> PortIndex {
    PortIndex::new("p", 2).unwrap()
}

fn flows(all: &[(u32, u64)]) -> Arc<Flows> {
    let totals =
        |(n, bytes): &(u32, u64)| ((IFINDEX, flow(*n)), FlowTotals { octets: Octets(*bytes), ..FlowTotals::default() });
    Arc::new(all.iter().map(totals).collect())
}

fn node() -> Node {
    let mut node = Node::new(Settings::default());
    node.handle(Input::Port(index(), Limits::new(Octets(20_000), Octets(40_000), span(10 * MS))), instant(0)).unwrap();
    node
}

fn close(window: &mut Window, all: &[(u32, u64)], port_bytes: u64, node: &Node, now_ns: u64) -> Vec<FlowTelemetry> {
    let ports = BTreeMap::from([(IFINDEX, PortTotals { index: index(), octets: Octets(port_bytes) })]);
    window.close(flows(all), &ports, node, instant(now_ns)).remove(&index()).unwrap_or_default()
}

#[test]
fn what_was_sent_in_the_window_counts_and_not_what_was_sent_before() {
    let (mut window, node) = (Window::default(), node());
    assert!(window.has_ended(instant(0)), "the first window starts at once");
    assert_eq!(close(&mut window, &[(1, 1 << 40), (2, 100), (3, 5)], 1 << 41, &node, S), []);
    assert!(!window.has_ended(instant(2 * S - 1)) && window.has_ended(instant(2 * S)));
    // Two seconds later: flow 1 was evicted and added again, flow 3 is idle, flow 4 is new.
    let reported = close(&mut window, &[(1, 1_000), (2, 7_100), (3, 5), (4, 1_500)], (1 << 41) + 10_000, &node, 3 * S);
    let found: Vec<_> = reported.iter().map(|f| (f.src, f.rate.bps(), f.share_permille)).collect();
    assert_eq!(found, [(host(2), 28_000, 700), (host(4), 6_000, 150), (host(1), 4_000, 100)]);
    assert_eq!(
        (reported[0].octets, reported[0].src_qp, reported[0].origin),
        (Octets(7_100), None, FlowOrigin::Unknown)
    );
}

#[test]
fn an_idle_flow_with_counted_cnps_is_reported_and_the_list_is_bounded() {
    let (mut window, mut node) = (Window::default(), node());
    let src_qp = Qpn::new("q", 17).unwrap();
    let known = FourTuple { key: flow(500), src_qp };
    node.handle(Input::Flow { flow: known, origin: Origin::Provisioned, accepts_roce: false }, instant(0)).unwrap();
    node.handle(Input::Arrived(index(), flow(500), Octets(1_000)), instant(MS)).unwrap();
    for at in [MS, 3 * MS] {
        node.handle(Input::Arrived(index(), flow(500), Octets(1_000)), instant(at)).unwrap();
        let counters = Counters { queue: Octets(50_000), packets: at, ce_packets: 0 };
        node.handle(Input::Sample(index(), counters), instant(at)).unwrap();
    }
    assert_eq!(node.counts().cnps.sent(), 1);
    close(&mut window, &[(500, 9)], 9, &node, S);
    let reported = close(&mut window, &[(500, 9), (1, 100)], 109, &node, 2 * S);
    let found: Vec<_> = reported.iter().map(|f| (f.src, f.src_qp, f.origin, f.counts.cnps.sent())).collect();
    let expected = [(host(1), None, FlowOrigin::Unknown, 0), (host(500), Some(src_qp), FlowOrigin::Provisioned, 1)];
    assert_eq!(found, expected);
    let many: Vec<_> = (1..=300).map(|n| (n, u64::from(n) * 1_000)).collect();
    let reported = close(&mut window, &many, 1 << 30, &node, 3 * S);
    assert_eq!((reported.len(), reported[0].src, reported[63].src), (64, host(300), host(237)));
}

/// The watcher reads the whole table. The printed figures are for docs/long-haul.md.
#[test]
fn a_full_table_is_read_and_evaluated_whole() {
    let bed = Bed::new();
    let key = |n| keys::of(&flow(n), bed.port);
    bed.egress().fill((0..65_536).map(key));
    let start = Instant::now();
    let all = bed.egress().flows().unwrap();
    let read = start.elapsed();
    let totals: Flows = all
        .iter()
        .map(|(key, f)| {
            ((key.ifindex, keys::flow(key).unwrap()), FlowTotals { octets: Octets(f.bytes), ..FlowTotals::default() })
        })
        .collect();
    let sorted = start.elapsed();
    let (mut window, node) = (Window::default(), node());
    let ports = BTreeMap::from([(bed.port, PortTotals { index: index(), octets: Octets(1 << 30) })]);
    window.close(Arc::default(), &ports, &node, instant(S));
    let reported = window.close(Arc::new(totals), &ports, &node, instant(2 * S));
    println!(
        "{} flows: read {read:?}, by key {:?}, evaluated {:?}",
        all.len(),
        sorted - read,
        start.elapsed() - sorted
    );
    // The kernel evicts entries before an LRU map is full.
    assert!(all.len() > 60_000, "{}", all.len());
    assert_eq!(reported[&index()].len(), 64);
}
