// SPDX-License-Identifier: Apache-2.0
//! Seeds that found a bug once, in `seeds.txt`, find none any more.

use canopy_sim::{Config, run};
use clap::Parser;

#[derive(Parser)]
struct Line {
    seed: u64,
    #[command(flatten)]
    config: Config,
}

#[test]
fn kept_seeds_break_no_invariant() {
    let mut kept = 0;
    for line in include_str!("../seeds.txt").lines() {
        let words = line.split('#').next().unwrap_or("").split_whitespace();
        if words.clone().next().is_none() {
            continue;
        }
        let Line { seed, config } = Line::try_parse_from(std::iter::once("replay").chain(words)).unwrap();
        let report = run(seed, &config).unwrap();
        assert_eq!(report.violations, Vec::<String>::new(), "cargo run -p canopy-sim -- replay {line}");
        kept += 1;
    }
    assert!(kept > 0);
}
