// SPDX-License-Identifier: Apache-2.0
//! Counters to readings, readings to levels and actions.

use canopy_model::node_spec::PortThresholds;
use canopy_units::Rate;

use super::*;
use crate::congestion::meter::Meter;
use proptest::prelude::*;

fn counters(queue: u64, packets: u64, ce_packets: u64) -> Counters {
    Counters { queue: Octets(queue), packets, ce_packets }
}

fn depth(queue: u64) -> Assessment {
    limits().assess(Reading { queue: Octets(queue), ..Reading::default() })
}

#[test]
fn rates_are_taken_over_the_interval() {
    let mut meter = Meter::default();
    let mut sample = |c, now| meter.sample(c, span(MS), instant(now));
    assert_eq!(sample(counters(9, 100, 50), 0), None);
    assert_eq!(sample(counters(5_000_000, 1_000, 90), MS - 1), None, "within the interval");
    let first = Reading { queue: Octets(3_000_009), emr_permille: 333, qgr_per_ms: Octets(1_500_000) };
    assert_eq!(sample(counters(3_000_009, 1_000, 350), 2 * MS), Some(first));
    let idle = Reading { queue: Octets(9), emr_permille: 0, qgr_per_ms: Octets(0) };
    assert_eq!(sample(counters(9, 1_000, 350), 3 * MS), Some(idle), "no packet, and a queue that shrinks");
    assert_eq!(sample(counters(99, 3, 0), 4 * MS), None, "the counters restarted");
    assert_eq!(sample(counters(99, 5, 9), 5 * MS).map(|r| r.emr_permille), Some(1_000), "never above 100 %");
    assert_eq!(sample(counters(0, 6, 9), MS), None, "time that goes back measures nothing");
}

#[test]
fn the_drafts_example_has_its_level_and_its_action() {
    let high = depth(130 * MB);
    assert_eq!(
        (high.level, high.second(), high.action(high.level, false, span(RTT))),
        (180, true, Action::RateReduce(percent(30)))
    );
    assert_eq!(high.metric(), Metric::QueueDepth(130_000));
    let low = depth(30 * MB);
    assert_eq!((low.level, low.second(), low.first), (20, false, false));
    assert_eq!(low.metric(), Metric::QueueDepth(30_000));
    let middle = depth(70 * MB);
    assert_eq!((middle.first, middle.second()), (true, false), "step 3: marking, and no more");
}

#[test]
fn each_trigger_alone_and_only_above_its_threshold() {
    assert!(!depth(125 * MB).second() && depth(125 * MB + 1).depth);
    assert!(!depth(62_500_000).first && depth(62_500_001).first);
    let emr = |emr_permille| limits().assess(Reading { emr_permille, ..Reading::default() });
    assert!(!emr(500).second() && emr(501).second() && emr(501).marking && !emr(501).depth && !emr(501).growth);
    assert_eq!(emr(501).metric(), Metric::EcnMarkingRate(percent(50)));
    // The default V_growth: 62.5 MB in 10 ms.
    let qgr = |octets| limits().assess(Reading { qgr_per_ms: Octets(octets), ..Reading::default() });
    assert!(!qgr(6_250_000).second() && qgr(6_250_001).second() && qgr(6_250_001).growth && !qgr(6_250_001).marking);
    assert_eq!([0, 3_125_000, 6_250_000, 12_500_000].map(|octets| qgr(octets).level), [0, 42, 177, 255]);
    assert_eq!(qgr(7_000_000).metric(), Metric::QueueGrowthRate(7_000));
    assert_eq!(qgr(6_250_001).action(177, false, span(RTT)), Action::Notify, "the queue is still short");
    assert_eq!(qgr(6_250_001).action(177, true, span(RTT)), Action::RateReduce(percent(28)));
}

#[test]
fn a_port_has_the_v_ecn_and_v_growth_of_its_thresholds() {
    let thresholds = PortThresholds {
        k_min: Octets(62_500_000),
        k_max: Octets(125 * MB),
        rtt: span(RTT),
        port_rate: Rate::from_bps(1),
        v_ecn_permille: 900,
        v_growth_per_ms: Octets(77),
    };
    let reading = Reading { emr_permille: 900, qgr_per_ms: Octets(77), ..Reading::default() };
    let assess = |reading| Limits::from(thresholds).assess(reading);
    assert!(!assess(reading).second());
    assert!(assess(Reading { emr_permille: 901, ..reading }).marking);
    assert!(assess(Reading { qgr_per_ms: Octets(78), ..reading }).growth);
    // 1000: the marking rate never triggers.
    let limits = Limits::from(PortThresholds { v_ecn_permille: 1_000, ..thresholds });
    assert!(!limits.assess(Reading { emr_permille: 1_000, ..Reading::default() }).second());
}

/// Every packet above K_min is marked: a marking rate of 100 % is no worse than K_max and does not hide a deeper queue.
#[test]
fn a_marking_rate_alone_is_never_worse_than_a_queue_at_k_max() {
    let at =
        |queue, emr_permille| limits().assess(Reading { queue: Octets(queue), emr_permille, ..Reading::default() });
    assert_eq!([0, 250, 500, 750, 1_000].map(|emr| at(0, emr).level), [0, 42, 177, 177, 177]);
    let found = at(70 * MB, 1_000);
    assert_eq!(found.action(found.level, false, span(RTT)), Action::RateReduce(percent(28)));
    assert_eq!(at(250 * MB, 1_000).level, 255);
}

#[test]
fn pause_only_past_twice_k_max_or_by_escalation() {
    let at = |queue, escalate| depth(queue).action(depth(queue).level, escalate, span(RTT));
    assert_eq!(at(250 * MB, false), Action::RateReduce(percent(80)));
    assert_eq!(at(250 * MB + 1, false), Action::Pause { micros: 10_000 });
    assert_eq!(at(130 * MB, true), Action::Pause { micros: 10_000 });
    let far = depth(250 * MB + 1).action(255, false, span(10_000 * MS));
    assert_eq!(far, Action::Pause { micros: u16::MAX }, "the largest value of the field");
}

#[test]
fn values_beyond_24_bits_saturate() {
    let huge = limits().assess(Reading { queue: Octets(u64::MAX), emr_permille: 1_000, qgr_per_ms: Octets(u64::MAX) });
    assert_eq!((huge.level, huge.metric()), (255, Metric::QueueDepth(0xff_ffff)));
}

proptest! {
    #[test]
    fn level_and_reduction_grow_with_the_queue(a in 0..400 * MB, b in 0..400 * MB) {
        let (low, high) = (depth(a.min(b)), depth(a.max(b)));
        prop_assert!(low.level <= high.level);
        prop_assert_eq!(low.level >= 177, a.min(b) >= 125 * MB);
        let reduction = |x: Assessment| match x.action(x.level, false, span(RTT)) {
            Action::Notify => 0,
            Action::RateReduce(by) => by.get(),
            _ => 101,
        };
        prop_assert!(reduction(low) <= reduction(high));
    }

    #[test]
    fn no_limits_and_no_reading_panic(values in any::<[u64; 5]>(), v_ecn_permille: u16, emr_permille in 0_u16..=1_000) {
        let [k_min, k_max, v_growth_per_ms, queue, qgr_per_ms] = values.map(Octets);
        let limits = Limits { k_min, k_max, v_ecn_permille, v_growth_per_ms, rtt: span(1) };
        let found = limits.assess(Reading { queue, emr_permille, qgr_per_ms });
        found.action(found.level, emr_permille % 2 == 0, span(queue.get()));
        found.metric();
        Limits::new(k_min, k_max, span(v_growth_per_ms.get()));
    }
}
