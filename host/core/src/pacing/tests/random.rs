// SPDX-License-Identifier: Apache-2.0
//! Under any inputs the rate stays within its limits, pauses stay within their budget, and no instruction counts twice.

use super::*;
use proptest::prelude::*;

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        Just(Action::Notify),
        any::<u16>().prop_map(|micros| Action::Pause { micros }),
        (0_u8..=100).prop_map(|p| Action::RateReduce(percent(p))),
        (0_u8..=100).prop_map(|p| Action::Resume(percent(p))),
    ]
}

/// From nodes 1 to 3, an unknown one, or the peer.
fn input() -> impl Strategy<Value = Input> {
    prop_oneof![
        6 => (1_u16..5, action()).prop_map(|(n, action)| long_haul(n, action)),
        1 => prop_oneof![Just(peer()), Just(node(2)), Just(node(9))].prop_map(cnp),
    ]
}

fn history() -> impl Strategy<Value = Vec<(u64, Input)>> {
    prop::collection::vec((prop_oneof![Just(0), 0..RTT, 0..10 * RTT], input()), 1..80)
}

/// Runs all timers until `until` and calls `observed` with each state and its start time.
fn advance(source: &mut Pacing, until: u64, mut observed: impl FnMut(u64, Command)) {
    while let Some(at) = source.poll_timeout().filter(|at| *at <= instant(until)) {
        source.handle_timeout(at);
        assert!(source.poll_timeout().is_none_or(|next| next > at), "the timer does not advance");
        observed(at.nanos(), now(source));
    }
}

proptest! {
    #[test]
    fn the_rate_is_within_its_limits_and_comes_back(history in history()) {
        let mut source = source();
        let mut at = 0;
        for (gap, input) in history {
            at += gap;
            advance(&mut source, at, |_, state| assert!((MIN..=LINE).contains(&state.rate.bps())));
            let before = now(&source);
            let outcome = source.handle(input.clone(), instant(at));
            let after = now(&source);
            prop_assert!((MIN..=LINE).contains(&after.rate.bps()));
            prop_assert_eq!(after.limited_by.is_none(), after.rate.bps() == LINE);
            let risen = after.rate.bps().saturating_sub(before.rate.bps());
            prop_assert!(risen <= LINE / 4, "{input:?} raised it by {risen}");
            let changed = (before.rate.bps(), before.paused_until) != (after.rate.bps(), after.paused_until);
            prop_assert!(!changed || outcome == Outcome::Applied, "{outcome:?}");
        }
        while let Some(at) = source.poll_timeout() {
            source.handle_timeout(at);
        }
        prop_assert_eq!((now(&source).rate.bps(), now(&source).paused_until), (LINE, None));
        prop_assert!(source.qps[&qp(100)].timer().is_none());
    }

    /// In steps of 1 ms: of any interval, at most the burst and a quarter of it (and the end of a step) is paused.
    #[test]
    fn pauses_stay_within_their_budget(history in history()) {
        let mut source = source();
        let (mut at, mut paused) = (0, Vec::new());
        let mut state = now(&source);
        for (gap, input) in history {
            for _ in 0..gap / MS {
                paused.push(state.paused_until.is_some_and(|until| until >= instant(at + MS)));
                at += MS;
                source.handle_timeout(instant(at));
                state = now(&source);
            }
            source.handle(input, instant(at));
            state = now(&source);
        }
        let mut sums = vec![0];
        paused.iter().for_each(|p| sums.push(sums[sums.len() - 1] + u64::from(*p)));
        for from in (0..sums.len()).step_by(7) {
            for to in (from..sums.len()).step_by(7) {
                let (time, spent) = ((to - from) as u64, sums[to] - sums[from]);
                // A pause granted before the interval may still run in it: one more budget.
                prop_assert!(spent <= 200 + time / 4 + 1, "{spent} of {time} ms");
            }
        }
        prop_assert!(sums[sums.len() - 1] <= 100 + paused.len() as u64 / 4 + 1);
    }

    #[test]
    fn a_second_resume_changes_nothing(history in history(), first in 0_u8..=100, second in 0_u8..=100, gap in 0..RTT) {
        let mut source = source();
        let mut at = 0;
        for (gap, input) in history {
            at += gap;
            source.handle(input, instant(at));
        }
        at += RTT;
        source.handle(resume(1, first), instant(at));
        advance(&mut source, at + gap, |_, _| ());
        let before = now(&source);
        prop_assert_eq!(source.handle(resume(1, second), instant(at + gap)), Outcome::Absorbed);
        prop_assert_eq!(now(&source), before);
    }

    #[test]
    fn the_order_within_an_rtt_does_not_matter(cuts in prop::collection::vec((1_u16..4, 0_u8..=100), 1..8)) {
        let run = |cuts: &mut dyn Iterator<Item = &(u16, u8)>| {
            let mut source = source();
            for (n, by) in cuts {
                source.handle(cut(*n, *by), instant(0));
            }
            now(&source).rate.bps()
        };
        let strictest = cuts.iter().map(|(_, by)| u64::from(*by)).max().unwrap_or(0);
        prop_assert_eq!(run(&mut cuts.iter()), (LINE - strictest * LINE / 100).max(MIN));
        prop_assert_eq!(run(&mut cuts.iter()), run(&mut cuts.iter().rev()));
    }

    /// The last command always equals the state.
    #[test]
    fn commands_follow_the_state(history in history()) {
        let mut source = source();
        let (mut at, mut last) = (0, now(&source));
        for (gap, input) in history {
            at += gap;
            source.handle(input, instant(at));
            while let Some(command) = source.next_command() {
                prop_assert!(command != last);
                last = command;
            }
            prop_assert_eq!(last, now(&source));
        }
    }
}
