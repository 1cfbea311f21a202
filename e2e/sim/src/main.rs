// SPDX-License-Identifier: Apache-2.0
//! `canopy-sim`: runs many seeds, or replays one.

use std::process::ExitCode;

use anyhow::Result;
use canopy_sim::campaign::{campaign, replay_command};
use canopy_sim::{Config, run, run_traced};
use clap::{Parser, Subcommand};
use indicatif::{ProgressBar, ProgressStyle};

/// Simulates a multicast group: the controller's core, nodes with their agents, a source, receivers, bad links, changes. Exits with 1
/// when an invariant did not hold.
#[derive(Parser)]
#[command(version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run many seeds
    Run {
        /// How many
        #[arg(long, default_value_t = 1000)]
        seeds: u64,
        /// The first one
        #[arg(long, default_value_t = 0)]
        first: u64,
        /// Threads
        #[arg(long, default_value_t = 2)]
        threads: usize,
        #[command(flatten)]
        config: Config,
    },
    /// Run one seed and print its result
    Replay {
        /// The seed
        seed: u64,
        /// Print every event
        #[arg(long)]
        trace: bool,
        #[command(flatten)]
        config: Config,
    },
}

fn main() -> Result<ExitCode> {
    let failed = match Cli::parse().command {
        Command::Run { seeds, first, threads, config } => run_many((first, seeds), threads, &config)?,
        Command::Replay { seed, trace, config } => replay(seed, trace, &config)?,
    };
    Ok(ExitCode::from(u8::from(failed)))
}

fn run_many(seeds: (u64, u64), threads: usize, config: &Config) -> Result<bool> {
    let style = ProgressStyle::with_template("{wide_bar} {pos}/{len} seeds, {eta} left")?;
    let bar = ProgressBar::new(seeds.1).with_style(style);
    let totals = campaign(seeds, config, threads, &|_| bar.inc(1))?;
    bar.finish_and_clear();
    println!("{totals}");
    for (seed, violation) in &totals.failed {
        println!("{}\n    {violation}", replay_command(*seed, config));
    }
    Ok(totals.violations > 0)
}

fn replay(seed: u64, trace: bool, config: &Config) -> Result<bool> {
    let report = match trace {
        true => run_traced(seed, config, &mut |line| println!("{line}"))?,
        false => run(seed, config)?,
    };
    println!("{report:#?}");
    Ok(report.violation_count > 0)
}
