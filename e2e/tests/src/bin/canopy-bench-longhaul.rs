// SPDX-License-Identifier: Apache-2.0
//! Gain of Long-haul CNPs over the receivers' CNPs alone, by the distance of the congestion from the source: RTT 20
//! ms, a bottleneck of 40 Mbit/s. Pairs of transfers A B A B; ratios are within a pair, and printed with their
//! spread.

use anyhow::Result;
use canopy_e2e::longhaul::{Path, Trial};

const PAIRS: usize = 7;

fn main() -> Result<()> {
    let mut path = Path::up()?;
    println!("medians of {PAIRS} pairs; ratios as least / median / most");
    println!(
        "{:>6}   {:>28} {:>24}   {:>28} {:>24}",
        "d ms", "slower after: CNP, LH-CNP", "sooner, x", "above K_max: CNP, LH-CNP", "of the time, x"
    );
    for ms in [0.0, 2.5, 5.0, 7.5, 10.0] {
        path.move_bottleneck(ms)?;
        let pairs = (0..PAIRS).map(|_| Ok((path.trial(false)?, path.trial(true)?))).collect::<Result<Vec<_>>>()?;
        let of = |what: fn(&Trial) -> f64, ratio: fn(f64, f64) -> f64| {
            let [plain, notified, ratio] = [
                pairs.iter().map(|(p, _)| what(p)).collect(),
                pairs.iter().map(|(_, t)| what(t)).collect(),
                pairs.iter().map(|(p, t)| ratio(what(p), what(t))).collect(),
            ]
            .map(sorted);
            let middle = PAIRS / 2;
            let spread = format!("{:.2} / {:.2} / {:.2}", ratio[0], ratio[middle], ratio[PAIRS - 1]);
            (format!("{:.1}, {:.1} ms", plain[middle], notified[middle]), spread)
        };
        let (reaction, sooner) = of(|t| t.reaction_ms, |plain, notified| plain / notified);
        let (above, share) = of(|t| t.above_ms, |plain, notified| notified / plain);
        println!("{ms:>6}   {reaction:>28} {sooner:>24}   {above:>28} {share:>24}");
    }
    Ok(())
}

fn sorted(mut all: Vec<f64>) -> Vec<f64> {
    all.sort_by(f64::total_cmp);
    all
}
