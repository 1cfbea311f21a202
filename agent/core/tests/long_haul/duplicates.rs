// SPDX-License-Identifier: Apache-2.0
//! Section 5.7: three nodes in a chain, congested at once by the same flows.
//!
//! A **would-be instruction** is an instruction of a node's shadow, which gets the same inputs as the node and never defers; one
//! per flow and RTT_est, as for every node. It is a **duplicate** if it is sent within one RTT_est after the arrival of the first
//! octets that the source sent at the rate requested by a node further upstream: the reduction is applied and visible to the
//! node. It is **needed** and no duplicate if the node escalated within that RTT_est and its queue grew in the RTT_est before. A
//! duplicate is **suppressed** if the node does not send it. Instructions between the source's reception of the upstream node's
//! instruction and the arrival of octets at the reduced rate are counted separately (*early*): the node cannot detect the
//! reduction yet.

use canopy_agent_core::congestion::Action;
use canopy_host_core::pacing::Outcome;
use canopy_units::nanos;

use crate::fluid::MS;
use crate::host::Message;
use crate::record::{Instruction, Received};
use crate::seeds::{Dice, seeds};
use crate::spec::{Burst, HopSpec, PathSpec, SourceSpec};
use crate::world::World;

const GBPS: u64 = 1_000_000_000;

/// The round-trip time that a node uses as RTT_est.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Estimate {
    /// The path's, as in the draft's example.
    Path,
    /// The next link's.
    Link,
}

/// Rates, delays (1 to 40 ms one way), phases and background traffic of one seed, and its duration. All three nodes are
/// congested: either their rates fall along the chain, or each has background traffic.
pub(crate) fn scenario(seed: u64, estimate: Estimate) -> (PathSpec, u64) {
    let mut dice = Dice::new(seed);
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

/// Reductions of the same flow by nodes upstream of `sent`'s that its source received, each with the era that it started.
fn upstream<'a>(sent: &'a Instruction, world: &'a World) -> impl Iterator<Item = (&'a Received, u32)> {
    let reduces = |message: Message| match message {
        Message::Node(hop, action) => hop < sent.hop && !matches!(action, Action::Resume(_)),
        Message::Cnp => false,
    };
    let of_flow = world.record.received.iter().filter(move |r| r.flow == sent.flow && reduces(r.message));
    of_flow.filter_map(|r| r.outcome.filter(|(o, _)| !matches!(o, Outcome::Refused(_))).map(|(_, era)| (r, era)))
}

/// Within one RTT_est after the first octets at the reduced rate arrived.
fn is_duplicate(sent: &Instruction, world: &World) -> bool {
    let hop = &world.hops[sent.hop];
    let arrival = |era| hop.eras.range((sent.flow, era)..(sent.flow, u32::MAX)).map(|(_, at)| *at).min();
    let soon = |at: u64| (at..at + nanos(hop.spec.limits.rtt)).contains(&sent.at_ns);
    sent.reduces() && upstream(sent, world).any(|(_, era)| arrival(era).is_some_and(soon))
}

/// Before that, but within a round-trip time after the source received the reduction.
fn is_early(sent: &Instruction, world: &World, rtt_ns: u64) -> bool {
    let soon = |at: u64| (at..at + rtt_ns).contains(&sent.at_ns);
    sent.reduces() && !is_duplicate(sent, world) && upstream(sent, world).any(|(r, _)| soon(r.at_ns))
}

/// An escalation of a node whose queue had grown.
fn is_needed(sent: &Instruction, world: &World) -> bool {
    let depth = |at: u64| {
        at.checked_div(MS).and_then(|ms| world.record.depths.get((ms as usize).max(1) - 1)).map(|d| d[sent.hop])
    };
    let before = sent.at_ns.saturating_sub(nanos(world.hops[sent.hop].spec.limits.rtt));
    sent.escalated && depth(sent.at_ns) > depth(before)
}

#[derive(Debug, Default)]
struct Tally {
    duplicates: usize,
    sent: usize,
    needed: usize,
    early: usize,
    early_sent: usize,
    /// Suppressed duplicates of each run with duplicates, in thousandths.
    shares: Vec<usize>,
}

impl Tally {
    fn add(&mut self, world: &World, rtt_ns: u64) {
        let (record, shadow) = (&world.record.sent, &world.record.shadow);
        let duplicates =
            |all: &[Instruction]| all.iter().filter(|i| is_duplicate(i, world)).copied().collect::<Vec<_>>();
        let (needed, sent): (Vec<_>, Vec<_>) = duplicates(record).into_iter().partition(|i| is_needed(i, world));
        let near = |d: &Instruction, n: &Instruction| {
            let rtt = nanos(world.hops[d.hop].spec.limits.rtt);
            (n.hop, n.flow) == (d.hop, d.flow) && n.at_ns.abs_diff(d.at_ns) * 2 <= rtt
        };
        let all = duplicates(shadow).iter().filter(|d| !needed.iter().any(|n| near(d, n))).count();
        let early = |all: &[Instruction]| all.iter().filter(|i| is_early(i, world, rtt_ns)).count();
        self.duplicates += all;
        self.sent += sent.len();
        self.needed += needed.len();
        self.early += early(shadow);
        self.early_sent += early(record);
        self.shares.extend((1_000 * sent.len().min(all)).checked_div(all).map(|sent| 1_000 - sent));
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
         {} runs have any); in addition, {} escalations, and {} of {} early instructions",
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

/// With the round-trip time of the next link, a node samples and sends several times before a distant source can respond.
#[test]
fn an_rtt_est_of_the_next_link_only_suppresses_most() {
    let tally = tally(Estimate::Link, 60);
    assert!(tally.duplicates > 100 && tally.suppressed() >= 800, "{tally:?}");
}
