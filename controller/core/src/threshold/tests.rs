// SPDX-License-Identifier: Apache-2.0

use canopy_units::Monotonic;
use proptest::prelude::*;

use super::*;

const MS: u64 = 1_000_000;
const S: u64 = 1_000 * MS;
/// MAX_RTT in nanoseconds.
const MAX_NS: u64 = 10 * S;
const GBPS_100: PortLimits = PortLimits { rate: Rate::from_bps(100_000_000_000), buffer: None };

/// A time of a test, in nanoseconds.
fn instant(ns: u64) -> Monotonic {
    Monotonic::from_nanos(ns)
}

/// The same for a span.
fn span(ns: u64) -> Duration {
    Duration::from_nanos(ns)
}

fn thresholds(rtt: u64, port: PortLimits) -> Thresholds {
    compute(ThresholdSettings::default(), port, span(rtt)).unwrap()
}

#[test]
fn the_drafts_example_is_125_mb_and_62_5_mb() {
    let found = thresholds(10 * MS, GBPS_100);
    let expected = Thresholds { k_max: Octets(125_000_000), k_min: Octets(62_500_000), bound: Bound::BandwidthDelay };
    assert_eq!(found, expected);
}

#[test]
fn the_base_is_a_floor_and_the_buffer_a_reported_ceiling() {
    // 10 Gb/s x 50 us = 62500 octets, just below 64 kB; x 52 us = 65000.
    let slow = PortLimits { rate: Rate::from_bps(10_000_000_000), buffer: None };
    let base = Thresholds { k_max: Octets(64_000), k_min: Octets(32_000), bound: Bound::Base };
    assert_eq!(thresholds(50_000, slow), base);
    assert_eq!(thresholds(0, slow), base);
    assert_eq!(thresholds(51_200, slow).bound, Bound::BandwidthDelay, "equal to the base");
    assert_eq!(thresholds(52_000, slow).k_max.get(), 65_000);
    let small = |bytes| PortLimits { buffer: Some(Octets(bytes)), ..GBPS_100 };
    let clamped = thresholds(10 * MS, small(32_000_001));
    let bound = Bound::Buffer { wanted: Octets(125_000_000) };
    assert_eq!(clamped, Thresholds { k_max: Octets(32_000_001), k_min: Octets(16_000_000), bound });
    assert_eq!(thresholds(10 * MS, small(125_000_000)).bound, Bound::BandwidthDelay, "it just fits");
    let bound = Bound::Buffer { wanted: Octets(64_000) };
    assert_eq!(
        thresholds(0, small(2)),
        Thresholds { k_max: Octets(2), k_min: Octets(1), bound },
        "even below the base"
    );
}

#[test]
fn alpha_is_exact_in_thousandths_and_nothing_overflows() {
    let alpha = |alpha_permille| ThresholdSettings { alpha_permille, ..ThresholdSettings::default() };
    // 100 Gb/s x 10 ms x 0.333 = 41 625 000 exactly; computed with floats it could round down.
    assert_eq!(compute(alpha(333), GBPS_100, span(10 * MS)).unwrap().k_max.get(), 41_625_000);
    // 800 Gb/s x 9.999999999 s: 999_999_999_900 octets, all 40 bits of them right.
    let fast = PortLimits { rate: Rate::from_bps(800_000_000_000), buffer: None };
    assert_eq!(thresholds(MAX_NS - 1, fast).k_max.get(), 999_999_999_900);
    let most = PortLimits { rate: Rate::from_bps(u64::MAX), buffer: None };
    // 65.535 x (2^64 - 1) x 10 / 8 does not fit 64 bits: saturated, not wrapped.
    assert_eq!(compute(alpha(u16::MAX), most, span(MAX_NS)).unwrap().k_max.get(), u64::MAX);
}

#[test]
fn inputs_out_of_range_are_refused_by_field() {
    let field = |settings, port, rtt| compute(settings, port, span(rtt)).unwrap_err().field;
    let settings = ThresholdSettings::default();
    let at = |buffer| PortLimits { buffer: Some(Octets(buffer)), ..GBPS_100 };
    assert_eq!(field(ThresholdSettings { alpha_permille: 0, ..settings }, GBPS_100, 1), "alphaPermille");
    assert_eq!(field(ThresholdSettings { k_base: Octets(4_197), ..settings }, GBPS_100, 1), "kBaseBytes");
    assert_eq!(field(ThresholdSettings { v_ecn_permille: 1_001, ..settings }, GBPS_100, 1), "vEcn");
    assert_eq!(field(ThresholdSettings { v_growth: Some(Octets(0)), ..settings }, GBPS_100, 1), "vGrowthBytesPerMs");
    assert_eq!(field(settings, PortLimits { rate: Rate::ZERO, ..GBPS_100 }, 1), "rateBps");
    assert_eq!(field(settings, at(1), 1), "bufferBytes");
    assert_eq!(field(settings, GBPS_100, MAX_NS + 1), "rttNs");
    let mut link = LinkThresholds::new(settings, GBPS_100, None, instant(0)).unwrap();
    assert_eq!(link.observe(span(0), instant(0)).unwrap_err().field, "rttNs");
    assert_eq!(link.pushed(), None);
    let before = link.clone();
    assert!(link.configure(settings, at(0), RttSource::Measured, instant(0)).is_err());
    assert_eq!(link, before);
}

/// Times and K_max of all pushed changes.
fn run(link: &mut LinkThresholds, samples: impl IntoIterator<Item = (u64, u64)>) -> Vec<(u64, u64)> {
    let push = |(now, rtt)| link.observe(span(rtt), instant(now)).unwrap().map(|new| (now, new.k_max.get()));
    samples.into_iter().filter_map(push).collect()
}

fn link() -> LinkThresholds {
    LinkThresholds::new(ThresholdSettings::default(), GBPS_100, None, instant(0)).unwrap()
}

/// Samples arrive once per `interval`, reports of the smallest since the last once per second; both at any phase.
#[test]
fn a_step_from_1_to_40_ms_is_followed_within_5_s_wherever_it_falls() {
    for interval in [10 * MS, 100 * MS, 300 * MS, S] {
        for (phase, late) in
            (0..S).step_by(70 * MS as usize).flat_map(|p| (0..S).step_by(90 * MS as usize).map(move |l| (p, l)))
        {
            let step = 30 * S + phase;
            let rtt = |now| if now < step { MS } else { 40 * MS };
            let reports = (1..60).map(|n| {
                let sampled =
                    (0..60 * S).step_by(interval as usize).filter(|at| (n * S..(n + 1) * S).contains(&(at + S - late)));
                (n * S + late, sampled.map(rtt).min())
            });
            let pushed = run(&mut link(), reports.filter_map(|(now, rtt)| Some((now, rtt?))));
            let [(_, first), (at, second)] = pushed[..] else { panic!("{pushed:?}") };
            assert_eq!((first, second), (12_500_000, 500_000_000));
            assert!(at > step + S && at <= step + 4_400 * MS, "{interval} {phase} {late}: {pushed:?}");
        }
    }
}

/// A packet that is on its way when the delay of both directions changes has the old delay one way and the new one the other
/// way: the estimate stops there until that sample has left the window.
#[test]
fn a_sample_halfway_through_a_step_does_not_start_the_hold() {
    for (phase, between) in (0..S).step_by(100 * MS as usize).flat_map(|p| [11, 20, 21, 30, 36].map(|b| (p, b * MS))) {
        let samples = |old: u64, between: u64, new: u64| {
            (0..60).map(move |n: u64| {
                (
                    n * S + phase,
                    if n < 30 {
                        old
                    } else if n == 30 {
                        between
                    } else {
                        new
                    },
                )
            })
        };
        let rise = run(&mut link(), samples(MS, between, 40 * MS));
        let (at, last) = rise[rise.len() - 1];
        assert_eq!(last, 500_000_000, "{between}: {rise:?}");
        assert!(at <= 30 * S + phase + 4_400 * MS, "{between}: {rise:?}");
        // 20 ms is half of 40 ms: a step, which a push of the value between does not hide.
        let fall = run(&mut link(), samples(40 * MS, 40 * MS - between / 2, 20 * MS));
        let (at, last) = fall[fall.len() - 1];
        assert_eq!((at, last), (31 * S + phase, 250_000_000), "{between}: {fall:?}");
        assert!(rise.len().max(fall.len()) <= 3, "{rise:?} {fall:?}");
    }
}

/// What follows a step is held back again as soon as the window holds only samples of the new path.
#[test]
fn a_step_ends_with_its_window() {
    let pushed = run(&mut link(), (0..60).map(|n| (n * S, if n < 10 { 10 * MS } else { (30 + 5 * n) * MS })));
    let gaps: Vec<u64> = pushed.windows(2).map(|two| (two[1].0 - two[0].0) / S).collect();
    // 10 ms at 0 s, 80 ms at 12 s, then 5 % more each second until the window of the step has passed; then not before the next step, to
    // 190 ms.
    assert_eq!(gaps, [12, 1, 1, 1, 19, 2], "{pushed:?}");
}

#[test]
fn a_step_down_is_followed_at_once_even_inside_the_hold() {
    let samples = [(0, 40 * MS), (S, MS), (2 * S, MS), (4 * S, 40 * MS), (4 * S + 100 * MS, 40 * MS)];
    assert_eq!(run(&mut link(), samples), [(0, 500_000_000), (S, 12_500_000)]);
}

/// A queue of 2.1 s adds to the samples; the threshold must not rise with it.
#[test]
fn a_queue_does_not_raise_its_own_threshold() {
    let rtt = |now: u64| if (20 * S..20 * S + 2_099 * MS).contains(&now) { 90 * MS } else { 10 * MS };
    let samples = (0..60 * S).step_by(10 * MS as usize).map(|now| (now, rtt(now)));
    assert_eq!(run(&mut link(), samples).len(), 1);
}

/// Samples of `before` for 30 s, then of `after`, one per second; when K_max changed, in seconds.
fn two_paths(before: u64, after: u64) -> Vec<u64> {
    let samples = (0..1_500).map(|n| (n * S, if n < 30 { before } else { after }));
    run(&mut link(), samples).iter().map(|(at, _)| at / S).collect()
}

/// A fall is pushed at once: no path is shorter than its shortest sample. A rise below twofold is pushed when samples have come for 10
/// min without a smaller one.
#[test]
fn changes_under_5_percent_are_not_pushed_and_those_from_5_percent_on_are() {
    let unchanged = [9_500_001, 10_499_999, 10 * MS].map(|after| two_paths(10 * MS, after));
    assert_eq!(unchanged, [[0], [0], [0]]);
    assert_eq!(two_paths(10 * MS, 9_500_000), [0, 30]);
    let [0, risen] = two_paths(10 * MS, 10_500_000)[..] else { panic!("a rise of 5 %") };
    assert!((30 + 525..=30 + 601).contains(&risen), "{risen}");
}

/// 0.1 % per minute, up or down: each push is 5 % from the one before, and what is in force is never far from the path.
#[test]
fn a_slow_creep_is_pushed_each_time_it_exceeds_5_percent_in_total() {
    for rising in [true, false] {
        let rtt = |second: u64| if rising { 10 * MS + second * 166 } else { 10 * MS - second * 166 };
        let mut link = link();
        let pushed = run(&mut link, (0..12 * 3_600).map(|n| (n * S, rtt(n))));
        assert!((8..=26).contains(&pushed.len()), "{pushed:?}");
        assert!(pushed.windows(2).all(|two| two[0].1.abs_diff(two[1].1) * 20 >= two[0].1), "{pushed:?}");
        let (now, then) = (rtt(12 * 3_600), nanos(link.pushed().unwrap().rtt));
        assert!(now.abs_diff(then) * 15 <= now, "{then} for {now}");
    }
}

/// A machine that is busy delays every test packet of some seconds by up to a millisecond.
#[test]
fn a_rise_that_a_busy_node_explains_is_no_step() {
    let mut link = link();
    let rtt = |n: u64| if n % 60 < 10 { 1_040_000 } else { 50_000 + n % 3 * 1_000 };
    assert_eq!(run(&mut link, (10..3_600).map(|n| (n * S, rtt(n)))).len(), 1);
    let twofold = run(&mut link, (3_600..3_700).map(|n| (n * S, 1_060_000)));
    assert_eq!(twofold.len(), 1, "1 ms and more is one");
}

/// A restarted controller continues with what was in force: it is compared with that, and a rise needs 10 min of its own samples.
#[test]
fn thresholds_in_force_are_continued_with() {
    let settings = ThresholdSettings::default();
    let again = || LinkThresholds::new(settings, GBPS_100, Some(span(10 * MS)), instant(0)).unwrap();
    let mut link = again();
    assert_eq!((link.pushed().unwrap().thresholds, link.pushes()), (thresholds(10 * MS, GBPS_100), 0));
    assert_eq!(link.configure(settings, GBPS_100, RttSource::Measured, instant(0)), Ok(None));
    assert_eq!(run(&mut link, (0..590).map(|n| (n * S, 11 * MS))), []);
    assert_eq!(run(&mut link, (590..602).map(|n| (n * S, 11 * MS))).len(), 1);
    // After a gap in the samples, the time before it does not count.
    let mut link = again();
    let samples = (0..400).map(|n| (n * S, 10 * MS)).chain((900..1_490).map(|n| (n * S, 11 * MS)));
    assert_eq!(run(&mut link, samples), []);
    let refused = LinkThresholds::new(settings, GBPS_100, Some(span(0)), instant(0)).unwrap_err();
    assert_eq!(refused.field, "rttNs");
}

/// Without a round-trip time, K_max is K_base or the smaller buffer, and RTT_est the time in which that is sent.
#[test]
fn a_direction_without_a_round_trip_time_has_k_base() {
    let settings = ThresholdSettings { alpha_permille: 4_000, ..ThresholdSettings::default() };
    let small = PortLimits { buffer: Some(Octets(8_000)), ..GBPS_100 };
    let bound = Bound::Buffer { wanted: Octets(64_000) };
    for (port, k_max, bound, rtt) in [(GBPS_100, 64_000, Bound::Base, 5_120), (small, 8_000, bound, 640)] {
        let mut link = LinkThresholds::new(settings, port, None, instant(0)).unwrap();
        let found = link.configure(settings, port, RttSource::Unknown, instant(0)).unwrap().unwrap();
        assert_eq!((found.k_max.get(), found.k_min.get(), found.bound), (k_max, k_max / 2, bound));
        assert_eq!((link.pushed().unwrap().rtt, link.estimate(), link.in_force()), (span(rtt), None, None));
        assert_eq!(run(&mut link, (0..30).map(|n| (n * S, 10 * MS))), [], "a sample changes nothing");
    }
}

#[test]
fn the_clamp_holds_still_while_the_path_does_not_and_configuration_is_pushed_at_once() {
    let settings = ThresholdSettings::default();
    let port = PortLimits { buffer: Some(Octets(10_000_000)), ..GBPS_100 };
    let mut link = LinkThresholds::new(settings, port, None, instant(0)).unwrap();
    assert_eq!(
        link.configure(settings, port, RttSource::Measured, instant(0)),
        Ok(None),
        "nothing to push without a sample"
    );
    // From 5 to 104 ms: K_max does not change, but the node needs the new RTT.
    let pushed = run(&mut link, (0..100).map(|n| (n * S, (5 + n) * MS)));
    assert!(pushed.iter().all(|(_, k_max)| *k_max == 10_000_000), "{pushed:?}");
    assert!((3..=5).contains(&pushed.len()), "each twofold rise, and nothing between: {pushed:?}");
    assert!(pushed.windows(2).all(|two| two[1].0 - two[0].0 >= 10 * S), "{pushed:?}");
    let larger = PortLimits { buffer: Some(Octets(20_000_000)), ..GBPS_100 };
    let pushed = link.configure(settings, larger, RttSource::Measured, instant(99 * S)).unwrap().unwrap();
    assert_eq!((pushed.k_max.get(), link.pushed().unwrap().thresholds), (20_000_000, pushed));
    assert_eq!(link.configure(settings, larger, RttSource::Measured, instant(99 * S)), Ok(None), "it is the same");
}

#[test]
fn a_configured_rtt_counts_instead_of_samples_and_a_step_of_it_is_pushed_at_once() {
    let settings = ThresholdSettings::default();
    let mut link = LinkThresholds::new(settings, GBPS_100, None, instant(0)).unwrap();
    let k_max = |pushed: Result<Option<Thresholds>, ThresholdError>| pushed.unwrap().map(|p| p.k_max.get());
    assert_eq!(
        k_max(link.configure(settings, GBPS_100, RttSource::Configured(span(MS)), instant(0))),
        Some(12_500_000)
    );
    assert_eq!(run(&mut link, (0..60).map(|n| (n * S, 50_000))), [], "samples change nothing");
    assert_eq!((link.measured(), link.estimate()), (Some(span(50_000)), Some(span(MS))), "but they are seen");
    assert_eq!(
        k_max(link.configure(settings, GBPS_100, RttSource::Configured(span(40 * MS)), instant(60 * S))),
        Some(500_000_000)
    );
    let pushed = link.pushed().unwrap();
    assert_eq!(
        (nanos(pushed.rtt), pushed.rate.bps(), pushed.at.nanos(), link.pushes()),
        (40 * MS, 100_000_000_000, 60 * S, 2)
    );
    assert_eq!(
        k_max(link.configure(settings, GBPS_100, RttSource::Measured, instant(61 * S))),
        Some(625_000),
        "the samples count again"
    );
    assert_eq!(
        link.configure(settings, GBPS_100, RttSource::Configured(span(0)), instant(62 * S)).unwrap_err().field,
        "rttNs"
    );
    assert_eq!(link.estimate(), Some(span(50_000)), "a refusal changes nothing");
}

proptest! {
    /// At rest: at least once per second, a sample is near the path's own RTT (less than twofold above); all other
    /// samples are anything above. Then no two pushes are less than 10 s apart.
    #[test]
    fn at_rest_there_is_at_most_one_change_in_10_s(
        rtt in MS..100 * MS,
        samples in prop::collection::vec((0_u64..990, 0_u64..5_000), 60..600),
    ) {
        let samples: Vec<_> = samples.iter().enumerate().flat_map(|(n, (near, far))| {
            let now = n as u64 * 300 * MS;
            [(now, rtt + rtt * near / 1_000), (now + MS, rtt + rtt * far / 1_000)]
        }).collect();
        let pushed = run(&mut link(), samples);
        prop_assert!(pushed.windows(2).all(|two| two[1].0 - two[0].0 >= 10 * S), "{pushed:?}");
        prop_assert!(pushed.windows(2).all(|two| two[0].1.abs_diff(two[1].1) * 20 >= two[0].1), "{pushed:?}");
    }

    /// The filter is the minimum of the window by its definition, part by part.
    #[test]
    fn the_filter_is_the_minimum_of_the_last_eight_parts(
        samples in prop::collection::vec((0_u64..3 * S, 1_u64..1_000), 1..100),
    ) {
        let mut filter = RttFilter::default();
        let (mut now, mut seen) = (0, Vec::new());
        for (gap, rtt) in samples {
            now += gap;
            seen.push((now, rtt));
            let oldest = (now / (300 * MS)).saturating_sub(7) * 300 * MS;
            let expected = seen.iter().filter(|(at, _)| *at >= oldest).map(|(_, rtt)| *rtt).min();
            prop_assert_eq!(Some(filter.observe(span(rtt), instant(now))), expected.map(span));
            prop_assert_eq!(filter.estimate(), expected.map(span));
        }
    }

    #[test]
    fn k_min_is_below_k_max_and_both_within_the_buffer(
        alpha_permille in 1_u16.., rate_bps in 1_u64.., rtt in 0..=MAX_NS, buffer in prop::option::of(2_u64..),
    ) {
        let settings = ThresholdSettings { alpha_permille, ..ThresholdSettings::default() };
        let found = compute(settings, PortLimits { rate: Rate::from_bps(rate_bps), buffer: buffer.map(Octets) }, span(rtt)).unwrap();
        prop_assert!(found.k_min.get() < found.k_max.get());
        prop_assert!(buffer.is_none_or(|buffer| found.k_max.get() <= buffer));
        prop_assert_eq!(matches!(found.bound, Bound::Buffer { .. }), buffer == Some(found.k_max.get()) && match found.bound {
            Bound::Buffer { wanted } => wanted.get() > found.k_max.get(),
            _ => false,
        });
    }
}
