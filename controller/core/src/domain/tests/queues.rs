// SPDX-License-Identifier: Apache-2.0
//! Queues that agents report: shown with the link, bounded, and removed when stale.

use canopy_model::congestion::{FlowOrigin, FlowTelemetry, PortCongestion, QueueTelemetry};
use canopy_model::ids::{PortIndex, Qpn};
use canopy_units::UnixTime;

use super::*;
use crate::fields::{FieldSelector, LinkField};
use crate::states::{QueueState, Troubles};
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

fn taken(at: u64) -> UnixTime {
    UnixTime::from_nanos(at)
}

fn shown(w: &World, name: &str, now_ns: u64) -> Option<(u64, u64)> {
    let (node, port) = name.split_once('/').unwrap();
    let LinkCongestion { queue, reported_ago, .. } =
        w.domain.link(node, port, &Troubles::new(), instant(now_ns)).unwrap().status.congestion?;
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
    w.domain.queues(
        "leaf1",
        vec![report(1, 7_000, 2), report(2, 8_000, 1), report(9, 1, 1)],
        taken(3 * S),
        instant(3 * S),
    );
    w.domain.queues("n9", vec![report(1, 1, 1)], taken(3 * S), instant(3 * S));
    assert_eq!((shown(&w, "leaf1/up1", 4 * S), shown(&w, "leaf1/host1", 4 * S)), (Some((7_000, S)), Some((8_000, S))));
    assert_eq!((shown(&w, "leaf2/up1", 4 * S), shown(&w, "spine1/down1", 4 * S)), (None, None));
    let all = ["leaf1/up1 :: 1", "leaf1/up1 ::1 1", "leaf1/host1 :: 1"];
    assert_eq!(flows(&w, None, None), all);
    assert_eq!(flows(&w, Some("leaf1"), None), all);
    assert_eq!(flows(&w, Some("leaf1"), Some("host1")), all[2..]);
    assert_eq!(flows(&w, Some("leaf2"), None), [""; 0]);
    w.domain.queues("leaf1", vec![report(2, 8_001, 0)], taken(4 * S), instant(4 * S));
    assert_eq!((shown(&w, "leaf1/up1", 4 * S), shown(&w, "leaf1/host1", 4 * S)), (None, Some((8_001, 0))));
    assert_eq!(flows(&w, None, None), [""; 0]);
}

/// Catches a rate by the time of arrival, one of reports that are almost one, and one of octets that became fewer.
#[test]
fn the_load_is_what_the_data_took_by_the_agents_own_clock() {
    let mut w = world();
    let mut after = |octets: u64, taken_ms: u64, arrived: u64| {
        let mut report = report(1, 1, 0);
        report.queue.octets = Octets(octets);
        w.domain.queues("leaf1", vec![report], taken(taken_ms * 1_000_000), instant(arrived * S));
        let load = w
            .domain
            .link("leaf1", "up1", &Troubles::new(), instant(arrived * S))
            .unwrap()
            .status
            .congestion
            .unwrap()
            .load;
        load.map(Rate::bps)
    };
    assert_eq!(after(1_000, 10_000, 3), None);
    assert_eq!(after(2_000, 11_000, 3), Some(8_000));
    assert_eq!(after(9_000, 11_001, 3), Some(8_000), "a millisecond later");
    assert_eq!(after(10_000, 13_000, 4), Some(32_000), "8,000 octets in two seconds");
    assert_eq!(after(10_000, 14_000, 5), Some(0));
    assert_eq!(after(1, 15_000, 6), None, "a machine that started again");
    assert_eq!(after(1_001, 16_000, 7), Some(8_000));
    assert_eq!(after(2_001, 15_000, 8), None, "a clock that was set back");
}

#[test]
fn a_node_cannot_make_more_than_64_flows_grow_here() {
    let mut w = world();
    w.domain.queues("leaf1", vec![report(1, 1, 60), report(2, 1, 60)], taken(3 * S), instant(3 * S));
    assert_eq!((flows(&w, None, Some("up1")).len(), flows(&w, None, Some("host1")).len()), (60, 4));
}

#[test]
fn stale_queue_state_is_not_shown() {
    let mut w = world();
    w.domain.queues("leaf1", vec![report(1, 7_000, 1)], taken(3 * S), instant(3 * S));
    assert_eq!(shown(&w, "leaf1/up1", 63 * S), Some((7_000, 60 * S)));
    assert_eq!(shown(&w, "leaf1/up1", 63 * S + 1), None, "a minute old");
    assert_eq!(w.domain.flows(None, None, instant(63 * S + 1)), []);
    w.domain.agent_gone("leaf1", instant(0));
    assert_eq!((shown(&w, "leaf1/up1", 4 * S), flows(&w, None, None)), (None, vec![]));
    w.domain.queues("leaf1", vec![report(1, 7_000, 1)], taken(3 * S), instant(3 * S));
    assert_eq!(shown(&w, "leaf1/up1", 4 * S), None, "a report received after the agent disconnected");
}

#[test]
fn a_port_keeps_its_queue_when_it_is_numbered_anew_and_loses_it_when_it_is_gone() {
    let mut w = world();
    w.domain.queues("leaf1", vec![report(1, 7_000, 1)], taken(3 * S), instant(3 * S));
    let mut spec = fabric(2, 1, 1);
    let up1 = spec.links.iter().position(|l| l.label().contains("leaf1/up1")).unwrap();
    let last = spec.links.len() - 1;
    spec.links.swap(up1, last);
    w.run_at(topology(spec.clone()), 4 * S).unwrap();
    assert_eq!(shown(&w, "leaf1/up1", 4 * S), Some((7_000, S)));
    // Its agent still calls up1 by the number that host1 has now.
    w.domain.queues("leaf1", vec![report(1, 9_000, 0)], taken(4 * S), instant(4 * S));
    assert_eq!((shown(&w, "leaf1/up1", 4 * S), shown(&w, "leaf1/host1", 4 * S)), (None, None));
    w.confirm();
    w.domain.queues("leaf1", vec![report(2, 7_000, 0)], taken(4 * S), instant(4 * S));
    assert_eq!(shown(&w, "leaf1/up1", 5 * S), Some((7_000, S)));
    spec.links[last].b.port = "other".into();
    w.run_at(topology(spec), 4 * S).unwrap();
    assert!(
        w.domain.all_links(instant(4 * S)).iter().all(|link| link.status.congestion.is_none()),
        "the other end is another"
    );
}

/// Catches a queue that is compared with the thresholds of another port, and a port that is found by another word than its own.
#[test]
fn a_queue_is_compared_with_the_thresholds_of_its_port() {
    let mut spec = fabric(2, 1, 1);
    spec.links[0].rate = Rate::from_bps(100_000_000_000);
    spec.links[0].rtt = Some(Duration::from_millis(1));
    let mut w = World::with(spec);
    w.domain.agent_connected("leaf1");
    let link = |w: &World| w.domain.link("leaf1", "up1", &Troubles::new(), instant(4 * S)).unwrap();
    let found = |w: &World, fields: &str| {
        let filter = FieldSelector::<LinkField>::parse("", fields).unwrap();
        let page = w.domain.links(&filter, None, 100, &Troubles::new(), instant(4 * S));
        page.items.into_iter().any(|link| link.name == "leaf1/up1")
    };
    assert!(found(&w, "queue=Unknown"), "nothing was reported");
    let limits = link(&w).status.thresholds.unwrap();
    let mut word = |queue: u64, peak: u64, marked: u64, pauses: u64| {
        let mut report = report(1, queue, 0);
        report.queue.peak_queue = Octets(peak);
        report.queue.marked = marked;
        report.queue.counts.cnps.pause = pauses;
        w.domain.queues("leaf1", vec![report], taken(3 * S), instant(3 * S));
        let state = link(&w).status.congestion.unwrap().state;
        assert!(found(&w, &format!("queue={state}")) && !found(&w, &format!("queue!={state}")), "{state}");
        state
    };
    let (k_min, k_max) = (limits.k_min.get(), limits.k_max.get());
    assert_eq!(word(0, 0, 0, 0), QueueState::Quiet);
    assert_eq!(word(k_min, k_min, 0, 0), QueueState::Quiet, "not above");
    assert_eq!(word(0, k_min + 1, 0, 0), QueueState::AboveKMin, "the deepest counts");
    assert_eq!(word(k_max, 0, 1, 1), QueueState::AboveKMin);
    assert_eq!(word(k_max + 1, 0, 0, 0), QueueState::AboveKMax);
    assert_eq!([word(0, 0, 1, 0), word(0, 0, 0, 1)], [QueueState::Marked; 2]);
}

/// Catches a flow of another group, copies whose source is taken for a host, and unicast that is taken for a group's.
#[test]
fn a_flow_has_the_host_and_the_group_behind_its_addresses() {
    let mut w = World::with(fabric(2, 1, 2));
    for (group, source, receiver) in [("g1", "h1-1", "h2-1"), ("g2", "h1-2", "h2-2")] {
        w.run(super::group(group)).unwrap();
        w.run(super::source(group, source)).unwrap();
        w.run(super::receiver(group, receiver)).unwrap();
    }
    w.domain.agent_connected("leaf1");
    w.domain.agent_connected("leaf2");
    let proxy = |w: &World, group: &str| w.domain.group(group).unwrap().status.connection.proxy_address;
    let address = |w: &World, host: &str| w.domain.host(host).unwrap().spec.address;
    let proxies = ["g1", "g2"].map(|group| proxy(&w, group));
    let [source, receiver] = ["h1-1", "h2-1"].map(|host| address(&w, host));
    let mut seen = |src: std::net::Ipv6Addr, dst: std::net::Ipv6Addr| {
        let mut report = report(1, 1, 1);
        (report.flows[0].src, report.flows[0].dst) = (src, dst);
        w.domain.queues("leaf1", vec![report], taken(3 * S), instant(3 * S));
        let mut flows = w.domain.flows(Some("leaf1"), None, instant(3 * S));
        w.domain.name_flows(&mut flows);
        let flow = flows.remove(0);
        (flow.host.unwrap_or_default(), flow.group.unwrap_or_default())
    };
    let named = |host: &str, group: &str| (host.to_owned(), group.to_owned());
    assert_eq!(seen(source, proxies[0]), named("h1-1", "g1"), "data");
    assert_eq!(seen(proxies[1], receiver), named("h1-2", "g2"), "copies come from the Proxy Address");
    assert_eq!(seen(source, receiver), named("h1-1", ""), "unicast");
    let other = std::net::Ipv6Addr::LOCALHOST;
    assert_eq!(seen(other, proxies[0]), named("", "g1"));
    assert_eq!(seen(other, receiver), named("", ""));
}
