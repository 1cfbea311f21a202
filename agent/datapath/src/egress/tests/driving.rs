// SPDX-License-Identifier: Apache-2.0
//! The driver of the congestion detection: arrivals, known source QPs, and the destinations of CNPs.

use std::sync::Arc;

use canopy_agent_core::congestion::{Action, CmKind, CmMessage, Counters, FourTuple, Limits, Settings};
use canopy_model::ids::PortIndex;

use super::*;
use crate::egress::config::{KnownFlow, PortConfig, WatcherConfig};
use crate::egress::driver::{Driver, Snapshot};
use crate::egress::window::FlowTotals;

const MS: u64 = 1_000_000;
const IFINDEX: u32 = 7;

fn qp(n: u32) -> Qpn {
    Qpn::new("q", n.into()).unwrap()
}

fn config(flows: Vec<KnownFlow>) -> WatcherConfig {
    let limits = Limits::new(Octets(20_000), Octets(40_000), span(10 * MS));
    WatcherConfig {
        node_address: Ipv6Addr::LOCALHOST,
        device: "n1".into(),
        ports: BTreeMap::from([(PortIndex::new("p", 2).unwrap(), PortConfig { ifindex: IFINDEX, limits })]),
        flows: flows.into_iter().map(|known| (known.flow.key, known)).collect(),
    }
}

/// A snapshot with this queue depth and these flow totals.
fn snapshot(queue_bytes: u64, flows: &[(u32, u64)], now: u64) -> Snapshot {
    let totals = |(n, bytes): &(u32, u64)| {
        ((IFINDEX, flow(*n)), FlowTotals { octets: Octets(*bytes), seen: instant(now), ..FlowTotals::default() })
    };
    Snapshot {
        ports: BTreeMap::from([(IFINDEX, Counters { queue: Octets(queue_bytes), packets: now / MS, ce_packets: 0 })]),
        flows: Some(Arc::new(flows.iter().map(totals).collect())),
        acks: vec![],
    }
}

#[test]
fn the_heaviest_flow_between_two_polls_is_notified_not_the_heaviest_before() {
    let known =
        |n, notify| KnownFlow { flow: FourTuple { key: flow(n), src_qp: qp(n + 10) }, notify, accepts_roce: false };
    let mut driver = Driver::new(Settings::default());
    driver.configure(config(vec![known(1, host(1)), known(2, far())]), instant(MS));
    assert!(!driver.busy(instant(MS)));
    assert_eq!(driver.handle_snapshot(snapshot(50_000, &[(1, 1 << 40), (2, 10)], 2 * MS), instant(2 * MS)), []);
    assert!(driver.busy(instant(2 * MS + 1)), "a queue above K_min makes the watcher poll flows often");
    let cnps = driver.handle_snapshot(snapshot(50_000, &[(1, (1 << 40) + 10), (2, 5_000)], 4 * MS), instant(4 * MS));
    let [(command, dst)] = cnps[..] else { panic!("{cnps:?}") };
    assert_eq!((command.flow, dst), (FourTuple { key: flow(2), src_qp: qp(12) }, far()));
    assert!(matches!(command.action, Action::RateReduce(_)), "{command:?}");
    assert!(!driver.busy(instant(4 * MS + 4 * 10 * MS)), "four RTTs later it is not");
}

#[test]
fn a_counter_that_started_again_is_not_a_gap_of_octets() {
    let known =
        |n| KnownFlow { flow: FourTuple { key: flow(n), src_qp: qp(n + 10) }, notify: host(n), accepts_roce: false };
    let mut driver = Driver::new(Settings::default());
    driver.configure(config(vec![known(1), known(2)]), instant(MS));
    driver.handle_snapshot(snapshot(50_000, &[(1, 1_000_000), (2, 0)], 2 * MS), instant(2 * MS));
    let cnps = driver.handle_snapshot(snapshot(50_000, &[(1, 100), (2, 5_000)], 4 * MS), instant(4 * MS));
    assert_eq!(cnps.iter().map(|(c, _)| c.flow.key).collect::<Vec<_>>(), [flow(2)]);
}

#[test]
fn an_ack_gives_a_source_qp_only_if_the_mapping_is_unambiguous() {
    let ack = |n: u32, to| FlowKey { src: far(), dst: host(n), dst_qp: qp(to) };
    let notified = |acks: Vec<(FlowKey, u64)>| {
        let mut driver = Driver::new(Settings::default());
        driver.configure(config(vec![]), instant(MS));
        let poll = |driver: &mut Driver, bytes, now| {
            let mut snapshot = snapshot(50_000, &[(1, bytes)], now);
            snapshot.acks = acks.iter().map(|(ack, at)| (*ack, instant(*at))).collect();
            driver.handle_snapshot(snapshot, instant(now))
        };
        poll(&mut driver, 0, 2 * MS);
        let cnps = poll(&mut driver, 9_000, 4 * MS);
        (cnps.iter().map(|(c, _)| c.flow.src_qp.get()).collect::<Vec<_>>(), driver.node().counts().unknown_source_qp)
    };
    assert_eq!(notified(vec![(ack(1, 5), MS)]), (vec![5], 0));
    assert_eq!(notified(vec![(ack(1, 5), MS), (ack(1, 6), MS)]), (vec![], 1), "two QPs of one host");
    assert_eq!(notified(vec![(ack(2, 5), MS)]), (vec![], 1), "an ACK to another host");
    assert_eq!(notified(vec![]), (vec![], 1));
}

#[test]
fn rdma_cm_gives_a_source_qp_if_acks_are_ambiguous() {
    let mut driver = Driver::new(Settings::default());
    driver.configure(config(vec![]), instant(MS));
    let message = |from, to, kind| CmMessage { from, to, kind };
    let wanted = flow(1);
    driver.cm(message(host(1), far(), CmKind::Request { local_id: 3, qpn: qp(21) }), instant(MS));
    driver.cm(message(far(), host(1), CmKind::Reply { remote_id: 3, qpn: wanted.dst_qp }), instant(MS));
    driver.handle_snapshot(snapshot(50_000, &[(1, 0)], 2 * MS), instant(2 * MS));
    let cnps = driver.handle_snapshot(snapshot(50_000, &[(1, 9_000)], 4 * MS), instant(4 * MS));
    assert_eq!(cnps.iter().map(|(c, _)| c.flow).collect::<Vec<_>>(), [FourTuple { key: wanted, src_qp: qp(21) }]);
}

#[test]
fn a_flow_that_comes_marked_is_left_to_the_node_that_marked_it() {
    let counts = |ce_in| {
        let known =
            KnownFlow { flow: FourTuple { key: flow(1), src_qp: qp(11) }, notify: host(1), accepts_roce: false };
        let mut driver = Driver::new(Settings::default());
        driver.configure(config(vec![known]), instant(MS));
        driver.handle_snapshot(snapshot(50_000, &[(1, 0)], 2 * MS), instant(2 * MS));
        let mut marked = snapshot(50_000, &[(1, 9_000)], 4 * MS);
        let flows = Arc::make_mut(marked.flows.as_mut().unwrap());
        flows.values_mut().for_each(|f| f.ce_in = Octets(ce_in));
        (driver.handle_snapshot(marked, instant(4 * MS)).len(), driver.node().counts().suppressed)
    };
    assert_eq!([counts(0), counts(9_000)], [(1, 0), (0, 1)]);
}

#[test]
fn a_poll_of_depths_only_keeps_the_flow_totals() {
    let known = KnownFlow { flow: FourTuple { key: flow(1), src_qp: qp(11) }, notify: host(1), accepts_roce: false };
    let mut driver = Driver::new(Settings::default());
    driver.configure(config(vec![known]), instant(MS));
    driver.handle_snapshot(snapshot(0, &[(1, 0)], 2 * MS), instant(2 * MS));
    let depths_only = Snapshot { flows: None, ..snapshot(0, &[], 12 * MS) };
    driver.handle_snapshot(depths_only, instant(12 * MS));
    let cnps = driver.handle_snapshot(snapshot(50_000, &[(1, 9_000)], 22 * MS), instant(22 * MS));
    assert_eq!(cnps.len(), 1, "the heaviest flow is known at the first poll that finds the queue long");
}
