// SPDX-License-Identifier: Apache-2.0
//! The series against a list of all samples, and the budget.

use std::time::Duration;

use canopy_units::{Monotonic, UnixTime};
use proptest::prelude::*;

use super::*;
use crate::chart::span::Pace;

const S: u64 = 1_000_000_000;

fn group(name: &str) -> ChartObject {
    ChartObject::Group(name.to_owned())
}

fn at(second: u64) -> Monotonic {
    Monotonic::START + Duration::from_secs(second)
}

fn span(sample: u64) -> Span {
    Span { sample, start: at(sample.saturating_sub(1)), end: at(sample) }
}

fn seconds(first: u64, count: usize) -> Range {
    Range { tier: SECONDS, step: 1, first, count }
}

/// What is kept, counted anew.
fn recounted(charts: &Charts) -> u64 {
    charts.objects.iter().map(|(object, entry)| cost(object, entry.tracks.len()) as u64).sum()
}

/// A sample as the oracle keeps it.
#[derive(Clone, Copy, Debug)]
struct Sent {
    /// On the node's clock and the controller's alike, nanoseconds.
    at: u64,
    count: u64,
    restarted: bool,
    /// It did not have the series, whose agent was the same as before.
    left_out: bool,
}

/// Mean and maximum of `from..to` by brute force over all samples: every pair that follows, whose counter did not fall and that is
/// at most 5 s apart, is a rate for its time.
fn oracle(all: &[Sent], from: u64, to: u64) -> Option<(f64, f64)> {
    let (mut things, mut time, mut max) = (0.0, 0.0, f64::MIN);
    for pair in all.windows(2) {
        let (a, b) = (pair[0], pair[1]);
        if b.restarted || b.count < a.count || b.at - a.at > 5 * S && !b.left_out {
            continue;
        }
        let overlap = b.at.min(to).saturating_sub(a.at.max(from));
        if overlap > 0 {
            let rate = (b.count - a.count) as f64 / ((b.at - a.at) as f64 / S as f64);
            let share = overlap as f64 / S as f64;
            (things, time, max) = (things + rate * share, time + share, max.max(rate));
        }
    }
    (time > 0.0).then(|| (things / time, max))
}

fn near(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-3 * b.abs().max(1.0)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    /// Samples at any distance, with resets, restarts and holes: each second is what all samples show, and a gap where none does.
    #[test]
    fn points_are_those_of_all_samples(
        steps in proptest::collection::vec((1u64..8_000, prop_oneof![Just(0), 0u64..10_000], 0u8..20), 2..200),
        leaves_out in any::<bool>(),
    ) {
        let (mut charts, mut pace, mut all) = (Charts::default(), Pace::default(), Vec::<Sent>::new());
        let (mut time, mut count) = (10 * S, 1_000_000u64);
        for (millis, rise, what) in steps {
            time += millis * S / 1000;
            count = if what == 0 { rise } else { count + rise };
            let restarted = what == 1;
            if restarted {
                pace.interrupt();
            }
            let span = pace.next(UnixTime::from_nanos(time), Monotonic::from_nanos(time));
            // Samples that do not move are left out, but for some: a node sends them for some time.
            let is_whole = leaves_out && !restarted && what != 2;
            let left_out = is_whole && what > 5 && all.last().is_some_and(|last| last.count == count);
            if is_whole {
                charts.rest(span);
            }
            if !left_out {
                charts.read(&group("g"), span, &[(Series::Packets, Reading::count(count))], true);
            }
            all.push(Sent { at: time, count, restarted, left_out });
            prop_assert_eq!(charts.usage().octets, recounted(&charts));
        }
        let newest = (time - 1) / S;
        for second in newest.saturating_sub(290)..=newest {
            let found = charts.charts(&group("g"), None, seconds(second, 1))[0].points[0];
            let wanted = oracle(&all, second * S, (second + 1) * S);
            match (found, wanted) {
                (Some(p), Some((mean, max))) => {
                    prop_assert!(near(p.mean.into(), mean) && near(p.max.into(), max), "{} {:?} {} {}", second, p, mean, max);
                }
                (found, wanted) => prop_assert_eq!(found.is_some(), wanted.is_some(), "second {}", second),
            }
        }
        // The coarser resolution, in steps that are over.
        for ten in (newest / 10).saturating_sub(300)..newest / 10 {
            let range = Range { tier: TENS, step: 10, first: ten, count: 1 };
            let found = charts.charts(&group("g"), None, range)[0].points[0];
            let wanted = oracle(&all, ten * 10 * S, (ten + 1) * 10 * S);
            prop_assert_eq!(found.is_some(), wanted.is_some(), "step {}", ten);
            if let (Some(p), Some((mean, max))) = (found, wanted) {
                prop_assert!(near(p.mean.into(), mean) && near(p.max.into(), max));
            }
        }
    }

    /// Any order of objects that come, are active or idle, and leave: the account is exact, the budget holds, and what is evicted is
    /// what was idle longest.
    #[test]
    fn the_budget_holds(steps in proptest::collection::vec((0u8..12, any::<bool>(), 0u8..10, 1u64..40), 1..200)) {
        let budget = 5 * cost(&group("g0"), 1) + 100;
        let mut charts = Charts::new(budget);
        let mut second = 10;
        let mut last_active = BTreeMap::<String, u64>::new();
        for (n, is_active, what, passed) in steps {
            second += passed;
            let object = group(&format!("g{n}"));
            if what == 0 {
                charts.remove(&object);
                last_active.remove(&object.to_string());
            } else {
                let before: Vec<String> = charts.objects.keys().map(|o| o.to_string()).collect();
                let level = Reading::level(f64::from(u8::from(is_active)));
                let s = Span { sample: second * 2, start: at(second - 1), end: at(second) };
                charts.read(&object, s, &[(Series::Lag, level)], is_active);
                let s = Span { sample: second * 2 + 1, ..s };
                charts.read(&object, s, &[(Series::Lag, level)], is_active);
                let is_new = !before.contains(&object.to_string());
                if charts.has(&object) && (is_new || is_active) {
                    last_active.insert(object.to_string(), second);
                }
                for gone in before.iter().filter(|o| !charts.has(&o.parse().unwrap())) {
                    prop_assert!(is_active && is_new, "only an active new one evicts");
                    let idle = last_active.remove(gone).unwrap();
                    prop_assert!(idle + IDLE <= second);
                    prop_assert!(charts.objects.keys().filter(|o| ***o != object).all(|o| last_active[&o.to_string()] >= idle));
                }
            }
            prop_assert_eq!(charts.usage().octets, recounted(&charts));
            prop_assert!(charts.usage().octets as usize <= budget);
            prop_assert_eq!(charts.usage().series as usize, charts.objects.values().map(|e| e.tracks.len()).sum::<usize>());
            prop_assert_eq!(charts.idle.len(), charts.objects.len());
        }
    }
}

#[test]
fn a_reset_a_share_of_nothing_and_a_level_that_is_no_number_are_gaps() {
    let mut charts = Charts::default();
    let mut read = |sample, count, part, whole, value| {
        let readings = [
            (Series::Packets, Reading::count(count)),
            (Series::Loss, Reading::Share { part, whole }),
            (Series::Rtt, Reading::level(value)),
        ];
        charts.read(&group("g"), span(sample), &readings, true);
    };
    read(1, 100, 0, 10, 1.0);
    read(2, 150, 1, 20, 2.0);
    read(3, 10, 1, 20, f64::NAN);
    read(4, 30, 3, 24, 4.0);
    let found = charts.charts(&group("g"), None, seconds(0, 6));
    let means = |at: usize| found[at].points.iter().map(|p| p.map(|p| p.mean)).collect::<Vec<_>>();
    assert_eq!(means(0), [None, Some(50.0), None, Some(20.0), None, None]);
    assert_eq!(means(1), [None, Some(0.1), None, Some(0.5), None, None]);
    assert_eq!(means(2), [None, Some(2.0), None, Some(4.0), None, None]);
}

#[test]
fn groups_nodes_and_branches_leave_with_their_series() {
    let mut charts = Charts::default();
    let branch = |group: &str, node: &str, n: u16| ChartObject::Branch {
        group: group.to_owned(),
        node: node.to_owned(),
        address: std::net::Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, n),
    };
    let link = |node: &str| ChartObject::Link { node: node.to_owned(), port: "eth1".to_owned() };
    let all = [
        group("a"),
        group("b"),
        branch("a", "n1", 1),
        branch("a", "n1", 2),
        branch("a", "n2", 1),
        branch("b", "n1", 1),
        link("n1"),
        link("n2"),
        ChartObject::Node("n1".to_owned()),
        ChartObject::Fleet,
    ];
    all.iter().for_each(|o| charts.read(o, span(1), &[(Series::Lag, Reading::level(1.0))], true));
    let left = |charts: &Charts| all.iter().filter(|o| charts.has(o)).map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(left(&charts).len(), 10);
    charts.remove_branches("a", Some("n1"), |address| address.segments()[7] == 2);
    assert!(!charts.has(&branch("a", "n1", 2)) && charts.has(&branch("a", "n1", 1)));
    charts.remove_group("a");
    assert_eq!(
        left(&charts),
        ["group/b", "branch/b/n1/2001:db8::1", "link/n1/eth1", "link/n2/eth1", "node/n1", "fleet"]
    );
    charts.remove_node("n1");
    assert_eq!(left(&charts), ["group/b", "link/n2/eth1", "fleet"]);
    assert_eq!(charts.usage().octets, recounted(&charts));
}

#[test]
fn ranges_take_the_finest_resolution_that_is_kept_and_refuse_the_rest() {
    let now = 100_000;
    let of = |from, to, step| range(&group("g"), now, from, to, step).map(|r| (r.tier.step, r.step, r.first, r.count));
    assert_eq!(of(None, None, None), Ok((1, 1, now - 300, 301)));
    assert_eq!(of(Some(now - 60), None, Some(5)), Ok((1, 5, (now - 60) / 5, 13)));
    assert_eq!(of(Some(now - 60), None, Some(20)), Ok((10, 20, (now - 60) / 20, 4)));
    assert_eq!(of(Some(now - 1000), None, None), Ok((10, 10, (now - 1000) / 10, 101)));
    assert_eq!(of(Some(now - 1000), None, Some(1)).unwrap_err().0, "step");
    assert_eq!(of(Some(now), Some(now - 1), None).unwrap_err().0, "from");
    assert_eq!(of(Some(now + 1), None, None).unwrap_err().0, "from");
    assert_eq!(of(None, None, Some(0)).unwrap_err().0, "step");
    assert_eq!(of(Some(0), None, None).unwrap_err().0, "step");
    assert_eq!(of(None, None, Some(u64::MAX)).unwrap_err().0, "step");
    let day = range(&ChartObject::Fleet, now, Some(now - 80_000), None, None).unwrap();
    assert_eq!((day.tier.step, day.count), (60, 1334));
}

#[test]
fn a_group_whose_headend_is_another_node_has_a_gap_and_no_spike() {
    for later in 0..4 {
        let mut charts = Charts::default();
        let (mut n1, mut n2) = (Pace::new(1), Pace::new(2));
        let mut read = |pace: &mut Pace, second: u64, count: u64, is_headend: bool| {
            let span = pace.next(UnixTime::from_nanos(second * S), at(second));
            if is_headend {
                charts.read(&group("g"), span, &[(Series::Packets, Reading::count(count))], true);
            }
        };
        // Both nodes report; the source moves from n1 to n2 after second 15.
        for second in 10..=20 {
            read(&mut n1, second, second * 10, second <= 15);
            if second >= 10 + later {
                read(&mut n2, second, 1_000_000 + second * 10, second > 15);
            }
        }
        let points = &charts.charts(&group("g"), None, seconds(10, 10))[0].points;
        let means: Vec<_> = points.iter().map(|p| p.map(|p| p.mean)).collect();
        let ten = Some(10.0);
        assert_eq!(means, [ten, ten, ten, ten, ten, None, ten, ten, ten, ten], "{later}");
    }
}

#[test]
fn what_a_second_part_of_a_sample_counts_more_is_in_the_next_one() {
    let mut charts = Charts::default();
    for (sample, count) in [(1, 0), (2, 10), (2, 14), (3, 20)] {
        charts.read(&group("g"), span(sample), &[(Series::Drops, Reading::count(count))], true);
    }
    let points = &charts.charts(&group("g"), None, seconds(1, 2))[0].points;
    assert_eq!(points.iter().map(|p| p.map(|p| p.mean)).collect::<Vec<_>>(), [Some(10.0), Some(10.0)]);
}

/// Catches a port of which a sample has no reading, and a group of which it has no acknowledgement, that are charted as if they were at rest.
#[test]
fn what_is_not_left_out_has_a_gap_where_it_is_not_read() {
    let mut charts = Charts::default();
    let link = ChartObject::Link { node: "n".to_owned(), port: "eth1".to_owned() };
    let branch = ChartObject::Branch { group: "g".to_owned(), node: "n".to_owned(), address: Ipv6Addr::LOCALHOST };
    for second in 1..=9 {
        let known = !(4..=6).contains(&second);
        charts.rest(span(second));
        let count = [(Series::Packets, Reading::count(second * 10))];
        if known {
            charts.read(&link, span(second), &count, true);
        }
        charts.read_whole(&group("g"), span(second), if known { &count } else { &[] }, true);
        // Left out.
        if second < 3 {
            charts.read_whole(&branch, span(second), &count, true);
        }
    }
    let means = |charts: &Charts, object: &ChartObject| {
        let points = &charts.charts(object, None, seconds(1, 8))[0].points;
        points.iter().map(|p| p.map(|p| p.mean)).collect::<Vec<_>>()
    };
    let (ten, zero) = (Some(10.0), Some(0.0));
    for object in [&link, &group("g")] {
        assert_eq!(means(&charts, object), [ten, ten, None, None, None, None, ten, ten], "{object:?}");
    }
    assert_eq!(means(&charts, &branch), [ten, zero, zero, zero, zero, zero, zero, zero]);
    charts.left("g", "n", 0);
    assert_eq!(means(&charts, &branch), [ten, None, None, None, None, None, None, None], "it has left the node");
}
