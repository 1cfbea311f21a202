// SPDX-License-Identifier: Apache-2.0
//! Thresholds: from a topology and the agents' measurements to the nodes' specs.

use canopy_model::ids::PortIndex;
use canopy_model::node_spec::PortThresholds;
use canopy_model::telemetry::LinkRtt;
use canopy_model::topology::{EndBuffers, EndNumbers, LinkBuffer, LongHaulFormat, PortNumber};

use super::*;
use crate::command::Outcome;
use crate::states::Troubles;
use crate::testing::fabric;
use crate::threshold::Bound;
use crate::view::LinkView;

const S: u64 = 1_000_000_000;

/// leaf1/up1--spine1/down1, leaf2/up1--spine1/down2, and a host at each leaf; 100 Gb/s everywhere.
fn network() -> TopologySpec {
    let mut t = fabric(2, 1, 1);
    t.links.iter_mut().for_each(|l| l.rate = Rate::from_bps(100_000_000_000));
    t
}

fn spec_thresholds(world: &World, node: &str, port: &str) -> Option<PortThresholds> {
    let spec = world.domain.node_spec(node).unwrap();
    spec.base.ports.iter().find(|p| p.name == port).unwrap().thresholds
}

fn measured(port: u64, rtt_ns: u64) -> LinkRtt {
    LinkRtt { port: PortIndex::new("port", port).unwrap(), rtt: Some(span(rtt_ns)), samples: 1, lost: 0 }
}

fn view(world: &World, name: &str) -> LinkView {
    let (node, port) = name.split_once('/').unwrap();
    world.domain.link(node, port, &Troubles::new(), instant(100 * S)).unwrap()
}

#[test]
fn nodes_know_which_sources_take_the_rocev2_format() {
    let accepts = |format| {
        let mut spec = network();
        spec.hosts.iter_mut().find(|h| h.name == "h1-1").unwrap().long_haul_cnp = format;
        let mut w = World::with(spec);
        w.run(group("g")).unwrap();
        w.run(source("g", "h1-1")).unwrap();
        w.run(receiver("g", "h2-1")).unwrap();
        ["leaf1", "spine1", "leaf2"].map(|node| {
            let groups = w.domain.node_spec(node).unwrap().groups.clone();
            groups.values().next().unwrap().source.accepts_roce
        })
    };
    assert_eq!([LongHaulFormat::Icmpv6, LongHaulFormat::RoceV2].map(accepts), [[false; 3], [true; 3]]);
}

#[test]
fn a_sample_reaches_the_port_that_sends_and_no_other_and_no_group() {
    let mut w = World::with(network());
    w.run(group("g")).unwrap();
    w.run(source("g", "h1-1")).unwrap();
    w.run(receiver("g", "h2-1")).unwrap();
    w.confirm_all();
    let programs = |w: &World| w.domain.node_spec("leaf1").unwrap().groups.clone();
    // Ports towards hosts need no sample.
    w.run(Command::PushThresholds).unwrap();
    let floor = spec_thresholds(&w, "leaf1", "host1");
    let (before, others) = (programs(&w), w.domain.node_spec("leaf2").unwrap());
    assert!(!w.domain.thresholds_are_due());
    // The node has no port 9.
    w.domain.link_rtts("leaf1", &[measured(1, 10_000_000), measured(9, 1)], instant(S));
    assert!(w.domain.thresholds_are_due());
    let applied = w.run(Command::PushThresholds).unwrap();
    assert_eq!((applied.nodes, applied.groups), (vec!["leaf1".to_owned()], vec![]));
    let k = PortThresholds {
        k_min: Octets(62_500_000),
        k_max: Octets(125_000_000),
        rtt: span(10_000_000),
        port_rate: Rate::from_bps(100_000_000_000),
        v_ecn_permille: 500,
        v_growth_per_ms: Octets(6_250_000),
    };
    assert_eq!((spec_thresholds(&w, "leaf1", "up1"), spec_thresholds(&w, "leaf1", "host1")), (Some(k), floor));
    assert_eq!(spec_thresholds(&w, "spine1", "down1"), None, "the other direction has its own measurement");
    assert_eq!(programs(&w), before);
    let spec = w.domain.node_spec("leaf1").unwrap();
    assert_eq!(spec.generation, w.domain.revision());
    assert_eq!(w.domain.node_spec("leaf2").unwrap(), others);
    assert_eq!(
        w.domain.group("g").unwrap().status.phase,
        canopy_model::status::GroupPhase::Ready,
        "the group does not wait for it"
    );
    assert_eq!(w.run(Command::PushThresholds).unwrap().outcome, Outcome::Unchanged, "it is pushed once");
}

#[test]
fn a_missing_rate_or_rtt_is_the_reason_and_a_configured_rtt_needs_no_sample() {
    let mut spec = network();
    spec.links[0].rate = Rate::ZERO;
    spec.links[1].rtt = Some(Duration::from_millis(1));
    spec.links[1].buffer = Some(LinkBuffer::Each(EndBuffers { a: Some(Octets(10_000_000)), b: None }));
    let mut w = World::with(spec);
    w.domain.link_rtts("leaf1", &[measured(1, 1_000)], instant(S));
    w.run(Command::PushThresholds).unwrap();
    let unknown = view(&w, "leaf1/up1");
    assert_eq!((unknown.status.thresholds, spec_thresholds(&w, "leaf1", "up1")), (None, None));
    assert!(unknown.status.reason.contains("rateBps"), "{}", unknown.status.reason);
    assert_eq!(unknown.status.rtt.measured, Some(span(1_000)), "measured all the same");
    let (up, down) = (view(&w, "leaf2/up1"), view(&w, "spine1/down2"));
    let clamped = up.status.thresholds.unwrap();
    assert_eq!((clamped.k_max.get(), clamped.bound), (10_000_000, Bound::Buffer { wanted: Octets(12_500_000) }));
    assert_eq!((up.spec.buffer, up.status.rtt.estimate), (Some(Octets(10_000_000)), Some(span(1_000_000))));
    assert_eq!(down.status.thresholds.unwrap().k_max.get(), 12_500_000, "only end a has that buffer");
    assert_eq!((down.status.pushes, down.status.pushed_ago), (1, Some(span(100 * S))));
    assert_eq!(w.domain.all_links(instant(0)).len(), 6, "directions out of hosts are not listed");
}

#[test]
fn a_topology_update_keeps_what_is_measured_and_follows_what_is_configured() {
    let mut w = World::empty_with(ThresholdSettings { alpha_permille: 500, ..ThresholdSettings::default() });
    w.run(topology(network())).unwrap();
    w.domain.link_rtts("leaf1", &[measured(1, 10_000_000)], instant(S));
    w.run(Command::PushThresholds).unwrap();
    assert_eq!(spec_thresholds(&w, "leaf1", "up1").unwrap().k_max.get(), 62_500_000, "the controller's alpha");
    // The link is declared after another one: its port has another number.
    let mut spec = network();
    spec.links.swap(0, 2);
    spec.links[2].alpha = Some(1_000);
    w.run_at(topology(spec.clone()), 2 * S).unwrap();
    assert_eq!(spec_thresholds(&w, "leaf1", "up1").unwrap().k_max.get(), 62_500_000, "no gap");
    w.run(Command::PushThresholds).unwrap();
    assert_eq!(
        spec_thresholds(&w, "leaf1", "up1").unwrap().k_max.get(),
        125_000_000,
        "the link's own alpha, the same sample"
    );
    spec.links[2].rtt = Some(Duration::from_millis(40));
    w.run_at(topology(spec.clone()), 3 * S).unwrap();
    w.run(Command::PushThresholds).unwrap();
    assert_eq!(spec_thresholds(&w, "leaf1", "up1").unwrap().k_max.get(), 500_000_000);
    // The thresholds are removed with the rate.
    spec.links[2].rate = Rate::ZERO;
    w.run_at(topology(spec), 4 * S).unwrap();
    assert!(w.domain.thresholds_are_due());
    w.run(Command::PushThresholds).unwrap();
    assert_eq!(spec_thresholds(&w, "leaf1", "up1"), None);
}

#[test]
fn after_a_restart_no_generation_goes_back() {
    let mut w = World::with(network());
    w.domain.link_rtts("leaf1", &[measured(1, 10_000_000)], instant(S));
    w.run(Command::PushThresholds).unwrap();
    let before = w.domain.node_spec("leaf1").unwrap().generation;
    assert!(w.restarted().node_spec("leaf1").unwrap().generation >= before);
}

#[test]
fn a_round_trip_time_that_no_path_has_is_refused_and_counted() {
    let mut w = World::with(network());
    w.domain.link_rtts("leaf1", &[measured(1, 10_000_000)], instant(S));
    w.run(Command::PushThresholds).unwrap();
    let before = spec_thresholds(&w, "leaf1", "up1").unwrap();
    let floor = ThresholdSettings::default().min_rtt.as_nanos() as u64;
    for n in 0..100 {
        w.domain.link_rtts("leaf1", &[measured(1, [1, floor - 1][n % 2])], instant((n as u64 + 20) * S));
        assert!(w.domain.prepare(Command::PushThresholds).unwrap().is_noop());
    }
    assert_eq!(spec_thresholds(&w, "leaf1", "up1"), Some(before));
    let rtt = view(&w, "leaf1/up1").status.rtt;
    assert_eq!((rtt.refused, rtt.measured), (100, Some(span(10_000_000))), "the last one that a path can have");
    w.domain.link_rtts("leaf1", &[measured(1, floor)], instant(200 * S));
    assert_eq!(view(&w, "leaf1/up1").status.rtt.measured, Some(span(floor)));
}

/// Hosts do not answer STAMP: the port towards one has K_base, and the time in which that is sent stands for RTT_est.
#[test]
fn a_port_towards_a_host_has_k_base_without_a_round_trip_time() {
    let mut w = World::with(network());
    w.run(Command::PushThresholds).unwrap();
    let floor = PortThresholds {
        k_min: Octets(32_000),
        k_max: Octets(64_000),
        rtt: span(5_120),
        port_rate: Rate::from_bps(100_000_000_000),
        v_ecn_permille: 500,
        v_growth_per_ms: Octets(6_250_000),
    };
    assert_eq!(spec_thresholds(&w, "leaf1", "host1"), Some(floor));
    assert_eq!(spec_thresholds(&w, "leaf1", "up1"), None, "a link between nodes waits for its measurement");
    let host = view(&w, "leaf1/host1").status;
    assert_eq!((host.rtt.estimate, host.reason.as_str()), (None, ""));
    assert_eq!(host.thresholds.unwrap().bound, Bound::Base);
    // A topology that knows the round-trip time decides.
    let mut spec = network();
    let host = spec.links.iter_mut().find(|l| l.a.port == "host1" && l.a.device == "leaf1").unwrap();
    host.rtt = Some(Duration::from_millis(1));
    w.run(topology(spec)).unwrap();
    w.run(Command::PushThresholds).unwrap();
    assert_eq!(spec_thresholds(&w, "leaf1", "host1").unwrap().k_max.get(), 12_500_000);
}

/// Reports of one second: each link between nodes has its own shortest time, and every sample is above it by chance.
fn jittering_second(w: &mut World, dice: &mut u64, at: u64) {
    for (node, ports) in [("leaf1", 1), ("leaf2", 1), ("spine1", 2_u64)] {
        let sample = |port| {
            *dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            // The time of an interrupt, and now and then that of a scheduler.
            let above = (*dice >> 40) % 20_000 * u64::from(1 + (*dice << 24).leading_zeros() * 2);
            measured(port, if node == "spine1" { 10_000_000 } else { 40_000 } + above)
        };
        let samples: Vec<LinkRtt> = (1..=ports).map(sample).collect();
        w.domain.link_rtts(node, &samples, instant(at));
    }
}

#[test]
fn an_idle_domain_keeps_its_generations_for_an_hour() {
    for seed in 0..20 {
        let mut spec = network();
        // Bounded by K_base.
        spec.links[1].rate = Rate::from_bps(1_000_000_000);
        let mut w = World::with(spec);
        let mut dice = seed;
        let mut seconds = |w: &mut World, from: u64, until: u64| {
            let mut pushes = Vec::new();
            for second in from..until {
                jittering_second(w, &mut dice, second * S + 1);
                if w.domain.thresholds_are_due() {
                    w.run_at(Command::PushThresholds, second * S + 1).unwrap();
                    pushes.push(second);
                }
            }
            pushes
        };
        let first = seconds(&mut w, 0, 300);
        assert!((1..=9).contains(&first.len()), "{seed}: {first:?}");
        let revision = w.domain.revision();
        assert_eq!(seconds(&mut w, 300, 3_900), [0; 0], "{seed}");
        assert_eq!(w.domain.revision(), revision);
        // A restart changes nothing either.
        w.domain = w.restarted();
        assert_eq!(seconds(&mut w, 0, 3_600), [0; 0], "{seed}: after a restart");
        assert_eq!(w.domain.revision(), revision);
    }
}

#[test]
fn a_restarted_controller_has_the_thresholds_of_before() {
    let mut w = World::with(network());
    w.domain.link_rtts("leaf1", &[measured(1, 10_000_000)], instant(S));
    w.domain.link_rtts("spine1", &[measured(1, 9_999_999), measured(2, 1_000)], instant(S));
    w.run(Command::PushThresholds).unwrap();
    // Less than 5 % is not pushed, and not recorded.
    w.domain.link_rtts("leaf1", &[measured(1, 9_700_000)], instant(20 * S));
    assert!(!w.domain.thresholds_are_due());
    let restarted = World { domain: w.restarted(), records: w.records.clone() };
    for (node, port) in [("leaf1", "up1"), ("leaf1", "host1"), ("spine1", "down1"), ("spine1", "down2")] {
        let before = spec_thresholds(&w, node, port);
        assert!(before.is_some(), "{node}/{port}");
        assert_eq!(spec_thresholds(&restarted, node, port), before, "{node}/{port}");
    }
    assert!(!restarted.domain.thresholds_are_due() && restarted.domain.revision() == w.domain.revision());
    let rtt = view(&restarted, "leaf1/up1").status.rtt;
    assert_eq!((rtt.measured, rtt.estimate), (None, Some(span(10_000_000))));
    // What is compared with a new sample is what was pushed, not what was measured last.
    let mut w = restarted;
    w.domain.link_rtts("leaf1", &[measured(1, 9_550_000)], instant(30 * S));
    assert!(!w.domain.thresholds_are_due());
    w.domain.link_rtts("leaf1", &[measured(1, 9_450_000)], instant(31 * S));
    assert!(w.domain.thresholds_are_due(), "5.5 % in two steps");
    w.run(Command::PushThresholds).unwrap();
    assert_eq!(spec_thresholds(&w, "leaf1", "up1").unwrap().rtt, span(9_450_000));
}

/// Records of round-trip times, by key.
fn rtt_records(w: &World) -> Vec<&str> {
    w.records.keys().map(String::as_str).filter(|key| key.starts_with("rtt/")).collect()
}

#[test]
fn a_recorded_round_trip_time_is_of_one_link_and_goes_with_it() {
    let mut w = World::with(network());
    w.domain.link_rtts("leaf1", &[measured(1, 10_000_000)], instant(S));
    w.run(Command::PushThresholds).unwrap();
    assert_eq!(rtt_records(&w), ["rtt/leaf1"]);
    // The port now leads to another port: its former path is none.
    let mut spec = network();
    let up = spec.links.iter_mut().find(|l| l.a.device == "leaf1" && l.a.port == "up1").unwrap();
    up.b.port = "down7".into();
    w.run_at(topology(spec), 2 * S).unwrap();
    assert!(w.domain.thresholds_are_due());
    w.run(Command::PushThresholds).unwrap();
    assert_eq!((spec_thresholds(&w, "leaf1", "up1"), rtt_records(&w).len()), (None, 0));
    w.confirm();
    // Without a topology no record is left.
    w.domain.link_rtts("leaf1", &[measured(1, 10_000_000)], instant(3 * S));
    w.run(Command::PushThresholds).unwrap();
    w.run(Command::DeleteTopology).unwrap();
    assert!(w.domain.thresholds_are_due());
    w.run(Command::PushThresholds).unwrap();
    assert_eq!(rtt_records(&w).len(), 0);
}

/// One transaction has 128 operations at most; what does not fit is pushed by the next command.
#[test]
fn many_nodes_are_pushed_in_several_commands() {
    let mut spec = fabric(200, 1, 0);
    spec.links.iter_mut().for_each(|l| l.rate = Rate::from_bps(100_000_000_000));
    let mut w = World::with(spec);
    for leaf in 1..=200 {
        w.domain.link_rtts(&format!("leaf{leaf}"), &[measured(1, 10_000_000)], instant(S));
    }
    let mut pushed = Vec::new();
    while w.domain.thresholds_are_due() {
        pushed.push(w.run(Command::PushThresholds).unwrap().nodes.len());
    }
    assert_eq!(pushed, [MAX_WRITES - 1, 200 - (MAX_WRITES - 1)]);
    let restarted = w.restarted();
    assert!(!restarted.thresholds_are_due());
    assert_eq!(restarted.node_spec("leaf200").unwrap().base, w.domain.node_spec("leaf200").unwrap().base);
}

#[test]
fn v_ecn_and_v_growth_of_a_port_are_the_links_else_the_controllers_else_the_defaults() {
    let v = |w: &World, node, port| {
        let thresholds = spec_thresholds(w, node, port).unwrap();
        (thresholds.v_ecn_permille, thresholds.v_growth_per_ms.get())
    };
    let mut w = World::empty_with(ThresholdSettings { v_ecn_permille: 300, ..ThresholdSettings::default() });
    let mut spec = network();
    spec.links[0].rtt = Some(Duration::from_millis(10));
    w.run(topology(spec.clone())).unwrap();
    w.run(Command::PushThresholds).unwrap();
    assert_eq!(v(&w, "leaf1", "up1"), (300, 6_250_000), "62.5 MB in 10 ms");
    // One port of a link, and both.
    spec.links[0].v_ecn = Some(PortNumber::Each(EndNumbers { a: Some(900), b: None }));
    spec.links[0].v_growth = Some(PortNumber::Both(77));
    w.run(topology(spec)).unwrap();
    w.run(Command::PushThresholds).unwrap();
    assert_eq!([v(&w, "leaf1", "up1"), v(&w, "spine1", "down1")], [(900, 77), (300, 77)]);
    let desired = view(&w, "leaf1/up1").spec;
    assert_eq!((desired.v_ecn, desired.v_growth), (900, Some(Octets(77))));
    assert!(w.domain.prepare(Command::PushThresholds).unwrap().is_noop(), "they are pushed once");
}
