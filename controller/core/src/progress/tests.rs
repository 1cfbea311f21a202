// SPDX-License-Identifier: Apache-2.0
//! Shares and delays against what a list of all samples gives.

use canopy_model::ids::GroupId;
use canopy_model::telemetry::BranchTelemetry;
use canopy_units::UnwrappedPsn;
use proptest::prelude::*;

use super::*;
use crate::testing::{branch_sample, group_sample};

const MS: u64 = 1_000_000;

fn address(i: usize) -> Ipv6Addr {
    Ipv6Addr::from(0x2001_0db8_u128 << 96 | i as u128)
}

/// `(completed_min, next)` of every branch.
fn sample(high: u64, branches: &[(u64, u64)]) -> GroupTelemetry {
    let branch = |(i, (completed, next)): (usize, &(u64, u64))| BranchTelemetry {
        next: Some(UnwrappedPsn(*next)),
        completed_min: Some(*completed),
        ..branch_sample(address(i))
    };
    GroupTelemetry {
        high: UnwrappedPsn(high),
        branches: branches.iter().enumerate().map(branch).collect(),
        ..group_sample(GroupId::new("g", 1).unwrap(), 1)
    }
}

fn at(ms: u64) -> Monotonic {
    Monotonic::from_nanos(ms * MS)
}

fn of(progress: &Progress, i: usize) -> Part {
    progress.parts().find(|part| part.branch == address(i)).unwrap()
}

fn branches(n: usize) -> Vec<Ipv6Addr> {
    (0..n).map(address).collect()
}

#[test]
fn the_branch_that_raises_the_minimum_holds_it_and_is_late_while_data_waits_for_it() {
    let known = branches(2);
    let mut progress = Progress::default();
    // 1,000 PSNs in a second; branch 1 acknowledges them 60 ms after branch 0.
    let mut changes = vec![];
    for second in 0..8 {
        let high = 1000 * (second + 1);
        if progress.add(&known, &sample(high, &[(second, high), (999 * second, high - 60)]), at(second * 1000)) {
            changes.push((second, progress.holder()));
        }
    }
    assert_eq!(changes, [(1, Some(Holder { branch: address(1), is_late: true }))]);
    let (first, second) = (of(&progress, 0), of(&progress, 1));
    assert_eq!((first.psns, second.psns, first.wait), (7, 6993, Some(Duration::ZERO)));
    // 60 PSNs wait at each of 8 samples, 7,000 passed in 7 s.
    assert_eq!(second.wait.map(|wait| wait.as_millis()), Some(60));
    assert_eq!((progress.covers(), progress.newest()), (Duration::from_secs(7), at(7000)));
    // Both raise it alike from now on, and what was is forgotten after two spans.
    let mut changes = vec![];
    for second in 8..30 {
        let high = 1000 * (second + 1);
        let counts = [(8 + 500 * (second - 7), high), (6993 + 500 * (second - 7), high)];
        if progress.add(&known, &sample(high, &counts), at(second * 1000)) {
            changes.push(progress.holder());
        }
    }
    assert_eq!(changes, [None]);
    let parts: Vec<u64> = progress.parts().map(|part| part.psns).collect();
    assert_eq!(parts[0], parts[1]);
}

#[test]
fn a_far_receiver_that_acknowledges_at_once_is_waited_for_and_is_not_late() {
    let known = branches(2);
    let mut progress = Progress::default();
    for second in 0..5 {
        let high = 1000 * (second + 1);
        progress.add(&known, &sample(high, &[(0, high), (1000 * second, high - 5)]), at(second * 1000));
    }
    assert_eq!(progress.holder(), Some(Holder { branch: address(1), is_late: false }));
}

#[test]
fn what_is_late_stays_it_until_it_waits_for_half_of_that() {
    let known = branches(1);
    let mut progress = Progress::default();
    let mut late = vec![];
    // Milliseconds that data waits, for 11 s each.
    for (phase, wait) in [15_u64, 25, 15, 5, 15].into_iter().enumerate() {
        for second in 11 * phase as u64..11 * (phase as u64 + 1) {
            let high = 1000 * (second + 1);
            progress.add(&known, &sample(high, &[(1000 * second, high - wait)]), at(second * 1000));
        }
        late.push(progress.holder().is_some_and(|holder| holder.is_late));
    }
    assert_eq!(late, [false, true, true, false, false]);
}

#[test]
fn counters_that_fall_or_are_missing_or_of_no_branch_count_nothing() {
    let known = branches(2);
    let mut progress = Progress::default();
    progress.add(&known, &sample(100, &[(5000, 100), (0, 100), (7, 100)]), at(0));
    assert_eq!(progress.parts().count(), 2, "the third is no branch of the program");
    // It left and joined again.
    progress.add(&known, &sample(200, &[(3, 200), (97, 200), (7000, 200)]), at(1000));
    assert_eq!((of(&progress, 0).psns, of(&progress, 1).psns), (0, 97));
    let mut unknown = sample(300, &[(50, 300), (150, 300)]);
    unknown.branches[0].completed_min = None;
    progress.add(&known, &unknown, at(2000));
    assert_eq!(progress.parts().map(|part| part.branch).collect::<Vec<_>>(), [address(1)]);
    // One that leaves is forgotten.
    progress.add(&branches(1), &sample(400, &[(60, 400)]), at(3000));
    assert_eq!(progress.parts().map(|part| part.branch).collect::<Vec<_>>(), [address(0)]);
}

#[test]
fn a_silence_of_the_node_is_no_time_in_which_data_waited() {
    let known = branches(1);
    let mut progress = Progress::default();
    progress.add(&known, &sample(1000, &[(0, 1000)]), at(0));
    progress.add(&known, &sample(2000, &[(1000, 2000)]), at(1000));
    progress.add(&known, &sample(9000, &[(8000, 9000)]), at(3_601_000));
    assert_eq!(progress.covers(), Duration::ZERO);
    progress.add(&known, &sample(10_000, &[(9000, 9990)]), at(3_602_000));
    assert_eq!((progress.covers(), of(&progress, 0).psns), (Duration::from_secs(1), 8000));
}

/// Catches numbers of an agent that stop the controller: sums that overflow, and a wait that is longer than any duration.
#[test]
fn an_agent_may_report_any_numbers() {
    let known = branches(2);
    let mut progress = Progress::default();
    progress.add(&known, &sample(u64::MAX, &[(0, 0), (0, 0)]), at(0));
    progress.add(&known, &sample(u64::MAX, &[(1, 0), (0, 0)]), at(4_000));
    assert_eq!(of(&progress, 0).wait, Some(Duration::MAX));
    progress.add(&known, &sample(u64::MAX, &[(u64::MAX, 0), (u64::MAX, 0)]), at(4_500));
    assert_eq!(progress.psns(), u64::MAX);
    assert_eq!(progress.parts().count(), 2);
}

proptest! {
    /// The same from a list of all samples: spans begin with the first sample that is 5 s behind the begin of the one before.
    #[test]
    fn parts_are_those_of_a_list_of_all_samples(
        steps in prop::collection::vec((1_u64..2500, 0_u64..400, 0_u64..400, 0_u64..50), 2..60)
    ) {
        let known = branches(2);
        let mut progress = Progress::default();
        let (mut now, mut first, mut second) = (0, 0, 0);
        let mut all: Vec<(u64, u64, u64, u64)> = vec![];
        for (gap, a, b, waiting) in steps {
            (now, first, second) = (now + gap, first + a, second + b);
            progress.add(&known, &sample(1_000_000, &[(first, 1_000_000), (second, 1_000_000 - waiting)]), at(now));
            all.push((now, first, second, waiting));
        }
        let mut begins = vec![0];
        for (i, (now, ..)) in all.iter().enumerate() {
            if now - all[*begins.last().unwrap()].0 >= 5000 {
                begins.push(i);
            }
        }
        let from = begins[begins.len().saturating_sub(2)];
        // What a sample adds was counted since the one before; the first one of all only sets the base.
        let before = all[from.saturating_sub(1)];
        let last = all[all.len() - 1];
        let psns = (last.1 - before.1, last.2 - before.2);
        prop_assert_eq!((of(&progress, 0).psns, of(&progress, 1).psns), psns);
        let lasted = last.0 - all[from].0;
        prop_assert_eq!(progress.covers(), Duration::from_millis(lasted));
        let kept = &all[from..];
        let waiting: u64 = kept.iter().map(|sample| sample.3).sum();
        let expected = (psns.0 + psns.1 > 0).then(|| {
            lasted as f64 * waiting as f64 / (kept.len() as f64 * (psns.0 + psns.1) as f64)
        });
        let wait = of(&progress, 1).wait.map(|wait| wait.as_secs_f64() * 1000.0);
        prop_assert_eq!(wait.is_some(), expected.is_some());
        prop_assert!((wait.unwrap_or_default() - expected.unwrap_or_default()).abs() < 0.001, "{wait:?} {expected:?}");
    }
}
