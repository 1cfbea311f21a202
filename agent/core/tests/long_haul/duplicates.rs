// SPDX-License-Identifier: Apache-2.0
//! Section 5.7: three nodes in a chain, congested at once by the same flows.
//!
//! A **would-be instruction** is what a shadow of a node says, which hears everything that the node hears and never defers;
//! one per flow and RTT_est, as for every node. It is a **duplicate** if it comes within one RTT_est after the first octets
//! that the source sent in obedience to a node further upstream: the source obeys, and the node can see it. It is **needed**
//! and no duplicate if the node escalated within that RTT_est, and its queue had truly grown in the RTT_est before. A duplicate
//! is **suppressed** if the node does not say it. What would be said between the source's hearing the upstream node and the
//! arrival of what it then sent is counted apart (*early*): nothing that has reached the node by then is other than before.

use canopy_agent_core::congestion::Action;
use canopy_agent_core::pacing::Outcome;

use crate::fluid::MS;
use crate::host::Word;
use crate::record::{Heard, Told};
use crate::seeds::{Dice, seeds};
use crate::spec::{Burst, HopSpec, PathSpec, SourceSpec};
use crate::world::World;

const GBPS: u64 = 1_000_000_000;

/// Whose round-trip time is a node's RTT_est.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Estimate {
    /// The path's, as in the draft's example.
    Path,
    /// The next link's.
    Link,
}

/// Rates, delays (1 to 40 ms one way), phases and background of one seed, and how long it runs. All three nodes are congested:
/// either their rates fall along the chain, or each has background.
pub(crate) fn scenario(seed: u64, estimate: Estimate) -> (PathSpec, u64) {
    let mut dice = Dice(seed);
    let one_way = dice.range(10, 400) * (MS / 10);
    let mut cuts: Vec<_> = (0..3).map(|_| dice.range(0, one_way / (MS / 10)) * (MS / 10)).collect();
    cuts.sort_unstable();
    let delays_ns = vec![cuts[0], cuts[1] - cuts[0], cuts[2] - cuts[1], one_way - cuts[2]];
    let rtt_ns = 2 * one_way;
    let sources: Vec<_> = (0..dice.range(1, 3))
        .map(|_| {
            let (qps, line_bps) = (dice.range(1, 2) as usize, dice.range(2, 10) * GBPS);
            SourceSpec { qps, ..SourceSpec::new(line_bps, rtt_ns) }
        })
        .collect();
    let offered: u64 = sources.iter().map(|s| s.line_bps * s.qps as u64).sum();
    let (by_background, onset) = (dice.range(0, 1) == 1, dice.range(0, 2 * rtt_ns / MS) * MS);
    let mut rate = offered;
    let hops = (0..3).map(|hop| {
        rate = if by_background { offered } else { rate / 100 * dice.range(70, 95) };
        let of_link = (2 * delays_ns[hop + 1]).max(MS);
        let mut hop = HopSpec::new(rate, if estimate == Estimate::Path { rtt_ns } else { of_link });
        hop.phase_ns = dice.range(0, 9) * (MS / 10);
        if by_background {
            let from_ns = onset + dice.range(0, rtt_ns / MS) * MS;
            let rate_bps = offered / 100 * dice.range(10, 60);
            hop.bursts = vec![Burst { rate_bps, from_ns, until_ns: from_ns + 8 * rtt_ns }];
        }
        hop
    });
    let hops = hops.collect();
    (PathSpec { sources, hops, delays_ns, cnp_interval_ns: MS / 20 }, onset + 16 * rtt_ns)
}

/// Instructions of nodes upstream of `told`'s about the same flow that its source heard, with the era that each began.
fn upstream<'a>(told: &'a Told, world: &'a World) -> impl Iterator<Item = (&'a Heard, u32)> {
    let asks =
        |word: Word| matches!(word, Word::Node(hop, action) if hop < told.hop && !matches!(action, Action::Resume(_)));
    let of_flow = world.record.heard.iter().filter(move |h| h.flow == told.flow && asks(h.word));
    of_flow.filter_map(|h| h.outcome.filter(|(o, _)| !matches!(o, Outcome::Refused(_))).map(|(_, era)| (h, era)))
}

/// Within one RTT_est after what the source sent in obedience arrived.
fn is_duplicate(told: &Told, world: &World) -> bool {
    let hop = &world.hops[told.hop];
    let arrival = |era| hop.eras.range((told.flow, era)..(told.flow, u32::MAX)).map(|(_, at)| *at).min();
    let soon = |at: u64| (at..at + hop.spec.limits.rtt_ns).contains(&told.at_ns);
    told.asks() && upstream(told, world).any(|(_, era)| arrival(era).is_some_and(soon))
}

/// Before that, but within a round-trip time after the source heard.
fn is_early(told: &Told, world: &World, rtt_ns: u64) -> bool {
    let soon = |at: u64| (at..at + rtt_ns).contains(&told.at_ns);
    told.asks() && !is_duplicate(told, world) && upstream(told, world).any(|(h, _)| soon(h.at_ns))
}

/// An escalation whose queue had grown.
fn is_needed(told: &Told, world: &World) -> bool {
    let depth = |at: u64| {
        at.checked_div(MS).and_then(|ms| world.record.depths.get((ms as usize).max(1) - 1)).map(|d| d[told.hop])
    };
    let before = told.at_ns.saturating_sub(world.hops[told.hop].spec.limits.rtt_ns);
    told.escalated && depth(told.at_ns) > depth(before)
}

#[derive(Debug, Default)]
struct Tally {
    duplicates: usize,
    sent: usize,
    needed: usize,
    early: usize,
    early_sent: usize,
    /// Of each run with duplicates, thousandths that were suppressed.
    shares: Vec<usize>,
}

impl Tally {
    fn add(&mut self, world: &World, rtt_ns: u64) {
        let (told, shadow) = (&world.record.told, &world.record.shadow);
        let duplicates = |all: &[Told]| all.iter().filter(|t| is_duplicate(t, world)).copied().collect::<Vec<_>>();
        let (needed, sent): (Vec<_>, Vec<_>) = duplicates(told).into_iter().partition(|t| is_needed(t, world));
        let beside = |d: &Told, n: &Told| {
            let rtt = world.hops[d.hop].spec.limits.rtt_ns;
            (n.hop, n.flow) == (d.hop, d.flow) && n.at_ns.abs_diff(d.at_ns) * 2 <= rtt
        };
        let all = duplicates(shadow).iter().filter(|d| !needed.iter().any(|n| beside(d, n))).count();
        let early = |all: &[Told]| all.iter().filter(|t| is_early(t, world, rtt_ns)).count();
        self.duplicates += all;
        self.sent += sent.len();
        self.needed += needed.len();
        self.early += early(shadow);
        self.early_sent += early(told);
        self.shares.extend((1_000 * sent.len().min(all)).checked_div(all).map(|said| 1_000 - said));
    }

    fn suppressed(&self) -> usize {
        1_000 - 1_000 * self.sent.min(self.duplicates) / self.duplicates.max(1)
    }
}

fn tally(estimate: Estimate, runs: u64) -> Tally {
    let mut tally = Tally::default();
    for seed in seeds(runs) {
        let (spec, until_ns) = scenario(seed, estimate);
        tally.add(&World::run(&spec, until_ns), spec.rtt_ns());
    }
    tally.shares.sort_unstable();
    let (least, median) = (tally.shares[0], tally.shares[tally.shares.len() / 2]);
    println!(
        "RTT_est of the {estimate:?}: {} of {} duplicates sent, {} of 1000 suppressed (of one run: least {least}, median {median}, \
         {} runs have any); besides, {} escalations, and {} of {} early instructions",
        tally.sent,
        tally.duplicates,
        tally.suppressed(),
        tally.shares.len(),
        tally.needed,
        tally.early_sent,
        tally.early
    );
    tally
}

#[test]
fn of_three_congested_nodes_in_a_chain_at_least_95_percent_of_the_duplicates_are_suppressed() {
    let tally = tally(Estimate::Path, 300);
    assert!(tally.duplicates > 300, "there is something to suppress: {tally:?}");
    assert!(tally.suppressed() >= 950, "{tally:?}");
}

/// With the next link's round-trip time, a node speaks and looks several times before a source far away can obey.
#[test]
fn an_rtt_est_of_the_next_link_only_suppresses_most() {
    let tally = tally(Estimate::Link, 60);
    assert!(tally.duplicates > 100 && tally.suppressed() >= 800, "{tally:?}");
}
