// SPDX-License-Identifier: Apache-2.0
//! The invariants over many seeds, and the expected results of single situations.

#![allow(clippy::unwrap_used)]

use canopy_sim::campaign::{Totals, campaign, replay_command};
use canopy_sim::config::{STARTS, Window};
use canopy_sim::machine::Mutant;
use canopy_sim::shape::Shape;
use canopy_sim::{Config, run, run_traced};

fn deep() -> bool {
    std::env::var_os("CANOPY_DEEP").is_some_and(|v| v == "1")
}

fn many(first: u64, seeds: u64, config: &Config) -> Totals {
    let totals = campaign((first, seeds), config, 2, &|_| ()).unwrap();
    println!("{totals}");
    totals
}

#[track_caller]
fn assert_clean(totals: &Totals, config: &Config) {
    let failed: Vec<String> =
        totals.failed.iter().map(|(seed, what)| format!("{what}\n    {}", replay_command(*seed, config))).collect();
    assert!(failed.is_empty(), "{} violations\n{}", totals.violations, failed.join("\n"));
}

/// With all kinds of faults and changes, of which the seeds have each often enough.
#[test]
fn millions_of_answers_over_thousands_of_seeds_break_no_invariant() {
    let (seeds, answers) = if deep() { (10_000, 10_000_000) } else { (2_000, 2_000_000) };
    let totals = many(0, seeds, &Config::plain());
    assert_clean(&totals, &Config::plain());
    assert!(totals.feedback_events >= answers, "only {} answers", totals.feedback_events);
    assert!(totals.changes.iter().all(|n| *n > seeds / 10), "changes that hardly took place: {totals}");
    assert!(totals.calmed > seeds / 4, "faults hardly mattered: {totals}");
    let starts = |psn: &u32| totals.starts.get(psn).copied().unwrap_or(0);
    let anywhere = seeds - STARTS.iter().map(starts).sum::<u64>();
    println!("first PSNs: {:?}, {anywhere} anywhere", STARTS.map(|psn| (psn, starts(&psn))));
    assert!(STARTS.iter().all(|psn| starts(psn) > seeds / 20) && anywhere > seeds / 20, "{:?}", totals.starts);
}

/// Every run checks the bound of three timeouts: here the loss covers its whole range, on every link.
#[test]
fn loss_up_to_a_fifth_both_ways_ends_within_three_timeouts_of_the_last_fault() {
    for loss in [10_000, 50_000, 100_000, 200_000] {
        let config = Config { loss: Some(loss), packets: Some(400), only_links: true, ..Config::plain() };
        let totals = many(loss, if deep() { 500 } else { 40 }, &config);
        assert_clean(&totals, &config);
        // At the lowest loss some runs finish before faults stop.
        assert!(loss < 100_000 || totals.calmed > totals.seeds / 2, "too few outlasted the faults: {totals}");
    }
}

#[test]
fn at_most_two_naks_a_round_trip_reach_the_source_when_1024_receivers_lose_the_same_packet() {
    for seed in 0..if deep() { 30 } else { 3 } {
        let config = Config {
            receivers: Some(1024),
            packets: Some(100),
            ack_every: Some(16),
            no_faults: true,
            all_lose: Some(37),
            ..Config::plain()
        };
        let report = run(seed, &config).unwrap();
        assert_eq!(report.violations, Vec::<String>::new(), "{}", replay_command(seed, &config));
        let most = report
            .naks
            .iter()
            .map(|at| report.naks.iter().filter(|t| (*at..at + report.round_trip).contains(t)).count())
            .max();
        println!("seed {seed}: {} NAKs in all, round trip {} ns", report.naks.len(), report.round_trip);
        assert!((1..=2).contains(&most.unwrap_or(0)), "{most:?} NAKs within one round trip");
        assert!(report.feedback_events > 1024, "the receivers sent nothing");
    }
}

#[test]
fn without_loss_no_more_acks_of_1024_receivers_than_of_one_reach_the_source() {
    let mut as_often = 0;
    for seed in 0..if deep() { 30 } else { 3 } {
        let shape = Some(Shape::Fan);
        let config = Config { receivers: Some(1024), packets: Some(200), shape, no_faults: true, ..Config::plain() };
        let one = Config { receivers: Some(1), ..config.clone() };
        let (report, unicast) = (run(seed, &config).unwrap(), run(seed, &one).unwrap());
        assert_eq!(report.violations, Vec::<String>::new(), "{}", replay_command(seed, &config));
        println!(
            "seed {seed}: {} ACKs of 1024, {} of one alone; timeouts {}, {}",
            report.acks, unicast.acks, report.timeouts, unicast.timeouts
        );
        // With a longer round trip the window closes more often, and the source sets AckReq more often. The number of
        // AckReqs that one receiver gets bounds the number of ACKs at the source, and a receiver alone sends as many
        // if it gets as many AckReqs.
        assert!(report.acks > 0 && report.acks <= report.fewest_acks);
        assert!(report.fewest_acks > unicast.acks || report.acks <= unicast.acks);
        as_often += u32::from(report.fewest_acks == unicast.acks);
        assert!(report.naks.is_empty());
    }
    assert!(as_often >= 3, "only {as_often} runs were comparable");
}

#[test]
fn a_million_forged_answers_change_nothing_and_are_counted_by_reason() {
    let config = Config { forged: Some(8), packets: Some(150), ..Config::plain() };
    let mut all = [0; 7];
    let mut seed = 0;
    while all.iter().sum::<u64>() < 1_000_000 {
        let report = run(seed, &config).unwrap();
        assert_eq!(report.violations, Vec::<String>::new(), "{}", replay_command(seed, &config));
        let f = report.forged;
        let reasons = [f.inactive, f.window, f.ghost, f.epoch_old, f.epoch_ahead, f.malformed, f.port];
        all.iter_mut().zip(reasons).for_each(|(sum, n)| *sum += n);
        seed += 1;
    }
    println!("{seed} seeds; forged: [inactive, window, ghost, epoch_old, epoch_ahead, malformed, port] {all:?}");
    assert!(all[..5].iter().all(|n| *n > 50_000) && all[5..].iter().all(|n| *n > 20_000), "{all:?}");
}

#[test]
fn a_seed_is_a_run() {
    let mut hashes = std::collections::BTreeSet::new();
    for seed in 0..50 {
        let first = run(seed, &Config::plain()).unwrap();
        let mut lines = 0;
        let again = run_traced(seed, &Config::plain(), &mut |_| lines += 1).unwrap();
        assert_eq!(first.trace_hash, again.trace_hash, "{}", replay_command(seed, &Config::plain()));
        assert!(lines >= again.events);
        hashes.insert(first.trace_hash);
    }
    assert_eq!(hashes.len(), 50, "two seeds were the same run");
}

/// The first violation of `rule` in at most `seeds` seeds.
fn finds(rule: &str, mut seeds: std::ops::Range<u64>, config: &Config) -> Option<(u64, String)> {
    seeds.find_map(|seed| {
        let report = run(seed, config).unwrap();
        report.violations.into_iter().find(|v| v.contains(&format!(": {rule}"))).map(|v| (seed, v))
    })
}

/// Tests the oracle: a mutant of every rule violates an invariant.
#[test]
fn every_wrong_aggregation_is_caught() {
    // The first seed of the search: the rarest one takes minutes from the first seed on.
    let wrong = [
        (Mutant::Max, "I1", 0),
        (Mutant::OwnNak, "I2", 0),
        (Mutant::NoEpoch, "I1", 0),
        (Mutant::NoReset, "I1", 1_700),
        (Mutant::NoReack, "I4", 0),
        (Mutant::Unconfirmed, "I1", 0),
        (Mutant::NoBoundary, "receiver", 0),
        (Mutant::OwnMsn, "MSN", 0),
        (Mutant::OwnCredits, "credits", 0),
        (Mutant::EpochFirst, "I1", 0),
    ];
    for (mutant, rule, first) in wrong {
        let found = finds(rule, first..first + 3_000, &Config { mutant, forged: Some(0), ..Config::plain() });
        println!("{mutant:?}: {found:?}");
        assert!(found.is_some(), "{mutant:?} broke no {rule}");
    }
}

/// A node that counts feedback of a newer program than its own acknowledges what a receiver lacks, although every program is the
/// controller's own, and every agent carries it out in the right order: it suffices that one agent is later than another.
#[test]
fn a_node_without_the_upper_bound_of_epochs_is_caught_with_the_real_controller() {
    let config = Config { mutant: Mutant::NoBound, forged: Some(0), ..Config::plain() };
    let found = finds("I1", 0..10_000, &config);
    println!("{found:?}");
    assert!(found.is_some(), "no false ACK");
}

/// No stall, no false ACK, and from its boundary on every receiver has every byte.
#[test]
fn receivers_join_late_in_every_window() {
    use Window::*;
    let windows = [BeforeFirst, WhileFirst, AfterFirst, ControllerRestarted, AgentRestarted, PinsLost];
    let each = if deep() { 2_000 } else { 170 };
    let mut joins = 0;
    for window in windows {
        let config = Config { late: Some(window), ..Config::plain() };
        let totals = many(0, each, &config);
        assert_clean(&totals, &config);
        let [_, joined, .., started] = totals.changes;
        assert!(joined >= each, "{window:?}: {totals}");
        assert!(started > each / 4, "{window:?}: hardly any receiver started with a later message: {totals}");
        joins += joined;
    }
    assert!(joins >= 1_000);
}

/// A source that waits until late receivers are reported to get data sends its first packet for them too.
#[test]
fn no_receiver_misses_the_first_message_that_the_source_waited_for() {
    let config = Config { late: Some(Window::Awaited), ..Config::plain() };
    let totals = many(0, if deep() { 2_000 } else { 170 }, &config);
    assert_clean(&totals, &config);
    assert!(totals.changes[1] >= totals.seeds, "{totals}");
    let found = finds("the source waited", 0..100, &Config { mutant: Mutant::NoFirst, ..config });
    println!("{found:?}");
    assert!(found.is_some(), "no receiver misses it");
}

/// The first packet is 16 before a wrap.
#[test]
fn the_psn_wraps_three_times() {
    let calm = Config {
        receivers: Some(2),
        packets: Some(3 * (1 << 24) + 1000),
        message: Some(65_536),
        start_psn: Some(0xFF_FFF0),
        ack_every: Some(4096),
        burst: 4096,
        no_faults: true,
        ..Config::plain()
    };
    let report = run(1, &calm).unwrap();
    assert_eq!(report.violations, Vec::<String>::new(), "{}", replay_command(1, &calm));
    println!("{} wraps, {} ACKs, {} NAKs", report.wraps, report.acks, report.naks.len());
    assert!(report.finished.is_some() && report.wraps >= 3);
}
