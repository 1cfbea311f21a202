// SPDX-License-Identifier: Apache-2.0
//! Seeds that found a bug once, in `seeds.txt`, find none any more; those of faults that are not mended yet, in `open.txt`, still find
//! them.

#![allow(clippy::unwrap_used)]

use canopy_sim::{Config, Report, run};
use clap::Parser;

#[derive(Parser)]
struct Line {
    seed: u64,
    #[command(flatten)]
    config: Config,
}

/// Runs every line, and returns it with its report.
fn replay(list: &str) -> Vec<(String, Report)> {
    let mut reports = Vec::new();
    for line in list.lines() {
        let words = line.split('#').next().unwrap_or("").split_whitespace();
        if words.clone().next().is_none() {
            continue;
        }
        let Line { seed, config } = Line::try_parse_from(std::iter::once("replay").chain(words)).unwrap();
        reports.push((format!("cargo run -p canopy-sim -- replay {line}"), run(seed, &config).unwrap()));
    }
    reports
}

#[test]
fn kept_seeds_break_no_invariant() {
    let reports = replay(include_str!("../seeds.txt"));
    assert!(!reports.is_empty());
    for (command, report) in reports {
        assert_eq!(report.violations, Vec::<String>::new(), "{command}");
    }
}

#[test]
fn faults_that_are_not_mended_yet_are_found() {
    for (command, report) in replay(include_str!("../open.txt")) {
        println!("{command}: {:?}", report.violations.first());
        assert!(report.violation_count > 0, "is it mended? {command}");
    }
}
