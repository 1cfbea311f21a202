// SPDX-License-Identifier: Apache-2.0
//! From counters to the node: what counts as arrived, whose source QP is known, and who is told.

use std::sync::Arc;

use canopy_agent_core::congestion::{Action, CmMessage, CmSays, Counters, FourTuple, Limits, Settings};
use canopy_model::ids::PortIndex;

use super::*;
use crate::egress::driver::{Driver, Shown};
use crate::egress::orders::{KnownFlow, Orders, WatchedPort};
use crate::egress::window::FlowShown;

const MS: u64 = 1_000_000;
const IFINDEX: u32 = 7;

fn qp(n: u32) -> Qpn {
    Qpn::new("q", n.into()).unwrap()
}

fn orders(flows: Vec<KnownFlow>) -> Orders {
    let limits = Limits::new(20_000, 40_000, 10 * MS);
    Orders {
        node_address: Ipv6Addr::LOCALHOST,
        device: "n1".into(),
        ports: BTreeMap::from([(PortIndex::new("p", 2).unwrap(), WatchedPort { ifindex: IFINDEX, limits })]),
        flows: flows.into_iter().map(|known| (known.flow.key, known)).collect(),
    }
}

/// Flow totals of a port whose queue is this deep.
fn shown(queue_bytes: u64, flows: &[(u32, u64)], now: u64) -> Shown {
    let shown = |(n, bytes): &(u32, u64)| {
        ((IFINDEX, flow(*n)), FlowShown { bytes: *bytes, seen_ns: now, ..FlowShown::default() })
    };
    Shown {
        ports: BTreeMap::from([(IFINDEX, Counters { queue_bytes, packets: now / MS, ce_packets: 0 })]),
        flows: Some(Arc::new(flows.iter().map(shown).collect())),
        acks: vec![],
    }
}

#[test]
fn the_flow_that_sent_most_between_two_looks_is_blamed_not_the_one_that_sent_most_before() {
    let known = |n, tell| KnownFlow { flow: FourTuple { key: flow(n), src_qp: qp(n + 10) }, tell, accepts_roce: false };
    let mut driver = Driver::new(Settings::default());
    driver.order(orders(vec![known(1, host(1)), known(2, far())]), MS);
    assert!(!driver.busy(MS));
    assert_eq!(driver.look(shown(50_000, &[(1, 1 << 40), (2, 10)], 2 * MS), 2 * MS), []);
    assert!(driver.busy(2 * MS + 1), "a queue above K_min makes flows worth looking at");
    let said = driver.look(shown(50_000, &[(1, (1 << 40) + 10), (2, 5_000)], 4 * MS), 4 * MS);
    let [(command, tell)] = said[..] else { panic!("{said:?}") };
    assert_eq!((command.flow, tell), (FourTuple { key: flow(2), src_qp: qp(12) }, far()));
    assert!(matches!(command.action, Action::RateReduce(_)), "{command:?}");
    assert!(!driver.busy(4 * MS + 4 * 10 * MS), "four RTTs later it is not");
}

#[test]
fn a_counter_that_began_again_is_not_a_gap_of_octets() {
    let known =
        |n| KnownFlow { flow: FourTuple { key: flow(n), src_qp: qp(n + 10) }, tell: host(n), accepts_roce: false };
    let mut driver = Driver::new(Settings::default());
    driver.order(orders(vec![known(1), known(2)]), MS);
    driver.look(shown(50_000, &[(1, 1_000_000), (2, 0)], 2 * MS), 2 * MS);
    let said = driver.look(shown(50_000, &[(1, 100), (2, 5_000)], 4 * MS), 4 * MS);
    assert_eq!(said.iter().map(|(c, _)| c.flow.key).collect::<Vec<_>>(), [flow(2)]);
}

#[test]
fn an_ack_gives_a_source_qp_away_only_where_it_can_be_nobody_elses() {
    let ack = |n: u32, to| FlowKey { src: far(), dst: host(n), dst_qp: qp(to) };
    let blamed = |acks: Vec<(FlowKey, u64)>| {
        let mut driver = Driver::new(Settings::default());
        driver.order(orders(vec![]), MS);
        let look = |driver: &mut Driver, bytes, now| {
            let mut shown = shown(50_000, &[(1, bytes)], now);
            shown.acks.clone_from(&acks);
            driver.look(shown, now)
        };
        look(&mut driver, 0, 2 * MS);
        let said = look(&mut driver, 9_000, 4 * MS);
        (said.iter().map(|(c, _)| c.flow.src_qp.get()).collect::<Vec<_>>(), driver.node().counts().unknown_source_qp)
    };
    assert_eq!(blamed(vec![(ack(1, 5), MS)]), (vec![5], 0));
    assert_eq!(blamed(vec![(ack(1, 5), MS), (ack(1, 6), MS)]), (vec![], 1), "two QPs of one host");
    assert_eq!(blamed(vec![(ack(2, 5), MS)]), (vec![], 1), "another host's");
    assert_eq!(blamed(vec![]), (vec![], 1));
}

#[test]
fn rdma_cm_gives_a_source_qp_where_acks_leave_a_doubt() {
    let mut driver = Driver::new(Settings::default());
    driver.order(orders(vec![]), MS);
    let message = |from, to, says| CmMessage { from, to, says };
    let wanted = flow(1);
    driver.cm(message(host(1), far(), CmSays::Request { local_id: 3, qpn: qp(21) }), MS);
    driver.cm(message(far(), host(1), CmSays::Reply { remote_id: 3, qpn: wanted.dst_qp }), MS);
    driver.look(shown(50_000, &[(1, 0)], 2 * MS), 2 * MS);
    let said = driver.look(shown(50_000, &[(1, 9_000)], 4 * MS), 4 * MS);
    assert_eq!(said.iter().map(|(c, _)| c.flow).collect::<Vec<_>>(), [FourTuple { key: wanted, src_qp: qp(21) }]);
}

#[test]
fn a_flow_that_comes_marked_is_left_to_the_node_that_marked_it() {
    let said = |came| {
        let known = KnownFlow { flow: FourTuple { key: flow(1), src_qp: qp(11) }, tell: host(1), accepts_roce: false };
        let mut driver = Driver::new(Settings::default());
        driver.order(orders(vec![known]), MS);
        driver.look(shown(50_000, &[(1, 0)], 2 * MS), 2 * MS);
        let mut marked = shown(50_000, &[(1, 9_000)], 4 * MS);
        let flows = Arc::make_mut(marked.flows.as_mut().unwrap());
        flows.values_mut().for_each(|f| f.came = came);
        (driver.look(marked, 4 * MS).len(), driver.node().counts().suppressed)
    };
    assert_eq!([said(0), said(9_000)], [(1, 0), (0, 1)]);
}

#[test]
fn a_look_at_the_queues_alone_forgets_no_flow() {
    let known = KnownFlow { flow: FourTuple { key: flow(1), src_qp: qp(11) }, tell: host(1), accepts_roce: false };
    let mut driver = Driver::new(Settings::default());
    driver.order(orders(vec![known]), MS);
    driver.look(shown(0, &[(1, 0)], 2 * MS), 2 * MS);
    let depths_only = Shown { flows: None, ..shown(0, &[], 12 * MS) };
    driver.look(depths_only, 12 * MS);
    let said = driver.look(shown(50_000, &[(1, 9_000)], 22 * MS), 22 * MS);
    assert_eq!(said.len(), 1, "whoever filled the queue is known at the first look that finds it long");
}
