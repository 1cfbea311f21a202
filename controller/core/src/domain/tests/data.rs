// SPDX-License-Identifier: Apache-2.0
//! Links that lose data, by the counters of the nodes at their ends (decisions 3.14): a model of a source, three nodes in a row, and agents
//! that sample at times of their own.

use std::collections::VecDeque;

use canopy_model::ids::GroupId;
use canopy_model::node_spec::BranchKind;
use canopy_model::telemetry::{BranchTelemetry, GroupTelemetry, LinkLoss};
use canopy_units::UnwrappedPsn;

use super::*;
use crate::condition::{ConditionKind, ConditionStatus};
use crate::domain::LossNews;
use crate::states::Troubles;
use crate::testing::{branch_sample, fabric, group_sample};

/// Turns of the model, each of a millisecond.
const SECOND: u64 = 1000;
const MS: u64 = 1_000_000;
/// Nodes from the source on, with the ports that lead to the next one and back.
const NODES: [&str; 3] = ["leaf1", "spine2", "leaf2"];
const DOWN: [&str; 3] = ["up2", "down2", ""];
const UP: [&str; 3] = ["", "down1", "up2"];

/// What a node's programs count of `g`.
#[derive(Clone, Copy, Default)]
struct Counters {
    high: u64,
    fresh: u64,
    data: u64,
    copies: u64,
}

impl Counters {
    fn take(&mut self, psn: u64) {
        if self.high == 0 {
            self.high = psn;
        }
        if psn >= self.high {
            (self.high, self.fresh) = (psn + 1, self.fresh + 1);
        }
        self.data += 1;
    }
}

/// A pseudo-random number generator: splitmix64.
struct Chance(u64);

impl Chance {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) % n
    }
}

struct Bed {
    w: World,
    now: u64,
    chance: Chance,
    nodes: [Counters; 3],
    /// On the way to each node, with the time of arrival; into the first one is the source's link.
    under_way: [VecDeque<(u64, u64)>; 3],
    /// Of a thousand packets on the way to each node.
    loss: [u64; 3],
    /// Two packets change places, of a thousand.
    reordered: u64,
    /// What the queue of each node drops of a thousand copies.
    queue_loss: [u64; 3],
    queue_drops: [u64; 3],
    /// Of a thousand packets, those of which each node makes no copy, for a reason that it counts.
    unsent: [u64; 3],
    /// Whether Echo Requests between a node and the one before are answered.
    answers: [bool; 3],
    requests: u64,
    /// Packets of a millisecond, and the source's window.
    rate: u64,
    window: u64,
    /// The source: next PSN to send, highest sent, and acknowledged by the last node.
    next: u64,
    acked: u64,
    progress_at: u64,
    /// The receiver takes nothing more.
    is_stuck: bool,
    /// A node that came into the tree later unwraps its first PSN to another multiple of 2^24.
    offset: [u64; 3],
    /// Milliseconds in which each agent samples, of a second.
    phases: [u64; 3],
    /// Those that run.
    agents: [bool; 3],
    /// They leave out a group at rest.
    leave_out: bool,
    /// What each agent read last, and since when it has read that.
    read: [(Option<GroupTelemetry>, u64); 3],
    left_out: u64,
    /// Those that do not have the group.
    has_none: [bool; 3],
    news: Vec<LossNews>,
    /// When, and at which node, dead ports changed.
    dead: Vec<(u64, String)>,
}

/// Milliseconds after which an agent leaves out a group that does not move; agents wait for longer.
const REST: u64 = 2 * SECOND;

/// The first PSN of the session.
const START: u64 = 5_000_000;

impl Bed {
    fn new(seed: u64) -> Self {
        let mut w = World::with(fabric(2, 2, 2));
        w.confirm();
        w.run(group("g")).unwrap();
        w.run(source("g", "h1-1")).unwrap();
        w.run(receiver("g", "h2-1")).unwrap();
        w.confirm();
        let mut chance = Chance(seed);
        let phases = [0; 3].map(|_| chance.below(SECOND));
        let mut bed = Self {
            w,
            now: 0,
            chance,
            nodes: [Counters::default(); 3],
            under_way: Default::default(),
            loss: [0; 3],
            reordered: 0,
            queue_loss: [0; 3],
            queue_drops: [0; 3],
            unsent: [0; 3],
            answers: [true; 3],
            requests: 0,
            rate: 10,
            window: 256,
            next: START,
            acked: START,
            progress_at: 0,
            is_stuck: false,
            offset: [0, 0, (seed % 2) << 24],
            phases,
            agents: [true; 3],
            leave_out: seed.is_multiple_of(2),
            read: Default::default(),
            left_out: 0,
            has_none: [false; 3],
            news: Vec::new(),
            dead: Vec::new(),
        };
        assert_eq!(bed.parent_of("leaf2"), "spine2");
        bed.run(5 * SECOND);
        bed
    }

    /// A session whose source has sent nothing yet.
    fn before_data(seed: u64) -> Self {
        let mut bed = Self::new(seed);
        // What is on the way is of the session before.
        (bed.nodes, bed.under_way) = Default::default();
        bed.w.run(leave("g", "h2-1")).unwrap();
        bed.w.run(receiver("g", "h2-1")).unwrap();
        bed.w.confirm();
        (bed.next, bed.acked, bed.rate) = (START, START, 0);
        bed.run(3 * SECOND);
        bed
    }

    /// The link out of spine2 counts as dead within so many milliseconds.
    #[track_caller]
    fn leaves_within(&mut self, most: u64) {
        let from = self.now;
        while self.dead.is_empty() {
            self.run(10);
            assert!(self.now - from <= most, "phases {:?}", self.phases);
        }
        assert_eq!(self.dead[0].1, "spine2");
    }

    fn parent_of(&self, node: &str) -> String {
        let view = self.w.domain.group("g").unwrap();
        view.status.tree.into_iter().find(|n| n.node == node).unwrap().parent.unwrap()
    }

    fn run(&mut self, turns: u64) {
        for _ in 0..turns {
            self.now += 1;
            self.source();
            for at in 0..3 {
                while self.under_way[at].front().is_some_and(|(when, _)| *when <= self.now) {
                    let Some((_, psn)) = self.under_way[at].pop_front() else { break };
                    self.nodes[at].take(psn);
                    if at < 2 && self.chance.below(1000) < self.unsent[at] {
                        continue;
                    }
                    if at < 2 {
                        self.nodes[at].copies += 1;
                        if self.chance.below(1000) < self.queue_loss[at] {
                            self.queue_drops[at] += 1;
                        } else {
                            self.send(at + 1, psn);
                        }
                    } else if psn == self.acked && !self.is_stuck {
                        // The receiver of an RC connection takes packets in their turn.
                        (self.acked, self.progress_at) = (psn + 1, self.now);
                    }
                }
            }
            if self.now.is_multiple_of(50) {
                self.requests += 1;
            }
            for at in 0..3 {
                if self.agents[at] && self.now % SECOND == self.phases[at] {
                    self.sample(at);
                }
            }
        }
    }

    fn send(&mut self, to: usize, psn: u64) {
        if self.chance.below(1000) < self.loss[to] {
            return;
        }
        self.under_way[to].push_back((self.now + 1, psn));
        let len = self.under_way[to].len();
        if len > 1 && self.chance.below(1000) < self.reordered {
            self.under_way[to].swap(len - 1, len - 2);
        }
    }

    /// Go-back-N with a time-out of 20 ms.
    fn source(&mut self) {
        if self.now - self.progress_at > 20 && self.next > self.acked {
            (self.next, self.progress_at) = (self.acked, self.now);
        }
        for _ in 0..self.rate {
            if self.next < self.acked + self.window {
                self.send(0, self.next);
                self.next += 1;
            }
        }
    }

    /// `None` while the node has no part in the group.
    fn telemetry(&self, at: usize) -> Option<GroupTelemetry> {
        let spec = self.w.domain.node_spec(NODES[at]).unwrap();
        let (id, program) = spec.groups.iter().next()?;
        let Counters { high, fresh, data, copies } = self.nodes[at];
        let branch = |b: &canopy_model::node_spec::Branch| BranchTelemetry {
            next: Some(UnwrappedPsn(self.acked)),
            packets: if matches!(b.kind, BranchKind::Node { .. }) { copies } else { data },
            ..branch_sample(b.address)
        };
        Some(GroupTelemetry {
            high: UnwrappedPsn(if high == 0 { 0 } else { high + self.offset[at] }),
            min_next: Some(UnwrappedPsn(self.acked)),
            data_packets: data,
            fresh_packets: Some(fresh),
            branches: program.branches.iter().map(branch).collect(),
            ..group_sample(*id, program.epoch)
        })
    }

    /// What an agent sends: the losses of its links, then its groups.
    fn sample(&mut self, at: usize) {
        let sample = self.telemetry(at);
        if self.read[at].0 != sample {
            self.read[at] = (sample.clone(), self.now);
        }
        let high = self.nodes[at].high;
        let is_at_rest = self.now - self.read[at].1 >= REST && (high == 0 || high == self.acked);
        let left_out = is_at_rest && self.leave_out || self.has_none[at];
        self.left_out += u64::from(left_out);
        self.sample_of(at, sample.as_ref().filter(|_| !left_out));
    }

    fn sample_of(&mut self, at: usize, sample: Option<&GroupTelemetry>) {
        let now = instant(self.now * MS);
        let spec = self.w.domain.node_spec(NODES[at]).unwrap();
        let port = |name: &str| spec.base.ports.iter().find(|p| p.name == name).map(|p| p.index);
        let mut losses = Vec::new();
        for (name, to) in [(DOWN[at], at + 1), (UP[at], at)] {
            let Some(port) = port(name) else { continue };
            let queue_drops = if to > at { self.queue_drops[at] } else { 0 };
            // Nothing is known of requests behind the last answer.
            let requests = if self.answers[to] { self.requests } else { 0 };
            losses.push(LinkLoss { port, requests, lost: 0, queue_drops });
        }
        self.news.extend(self.w.domain.link_losses(NODES[at], &losses, now));
        for node in self.w.domain.data_samples(NODES[at], sample.into_iter(), self.leave_out, now) {
            self.dead.push((self.now, node));
        }
    }

    /// Carries out what the controller does at once about the node's ports.
    fn lead_around(&mut self, node: &str) {
        let dead = self.w.domain.dead_ports(node, instant(self.now * MS)).unwrap();
        let ports = dead.avoided.union(&dead.reported).cloned().collect();
        self.w.run_at(Command::PortsDown { node: node.into(), ports }, self.now * MS).unwrap();
    }

    /// And when they have settled.
    fn settle(&mut self, node: &str) -> bool {
        self.w.confirm();
        let dead = self.w.domain.dead_ports(node, instant(self.now * MS)).unwrap();
        let ports: std::collections::BTreeSet<_> = dead.reported.union(&dead.unproven).cloned().collect();
        let is_used = ports.is_empty();
        self.w.run_at(Command::PortsDown { node: node.into(), ports }, self.now * MS).unwrap();
        self.w.confirm();
        if self.w.made() == Some(true) {
            self.w.run_at(Command::FinishMove { group: "g".into() }, self.now * MS).unwrap();
            self.w.confirm();
        }
        is_used
    }

    fn measured(&self, node: &str, port: &str) -> (u64, u64) {
        let link = self.w.domain.link(node, port, &Troubles::new(), instant(self.now * MS)).unwrap();
        let loss = link.status.loss.unwrap();
        (loss.data_packets, loss.data_lost)
    }

    fn quiet(&self) {
        assert_eq!(self.news, [], "{:?}", self.dead);
        assert_eq!(self.dead, []);
    }

    /// When the first news came, in milliseconds from `from`, and that it names the link out of spine2.
    fn named(&self, from: u64) -> bool {
        let [news] = self.news.as_slice() else { panic!("after {} ms: {:?}", self.now - from, self.news) };
        assert_eq!((news.link.as_str(), news.is_lossy), ("leaf2/up2--spine2/down2", true), "{}", news.detail);
        news.groups == ["g"]
    }
}

/// Each sample is one of 10^5: at any times, rates and windows, also where retransmissions are frequent because another link loses data.
#[test]
fn a_link_that_loses_nothing_is_never_named() {
    let mut samples = 0;
    for seed in 0..240 {
        let mut bed = Bed::new(seed);
        bed.reordered = seed % 3;
        (bed.rate, bed.window) = ([4, 2, 12][seed as usize % 3], [64, 256, 1024][seed as usize / 3 % 3]);
        for _ in 0..14 {
            bed.run(10 * SECOND);
            // Pauses, and other rates.
            let rate = bed.rate;
            bed.rate = bed.chance.below(3);
            let pause = 1 + bed.chance.below(3000);
            bed.run(pause);
            bed.rate = rate;
            bed.phases = [0; 3].map(|_| bed.chance.below(SECOND));
            samples += 3 * (10 + pause / SECOND);
        }
        bed.quiet();
        let (packets, lost) = bed.measured("spine2", "down2");
        assert!(packets > 1000 && lost * 200 < packets, "seed {seed}: {lost} of {packets}");
    }
    println!("{samples} samples");
    assert!(samples >= 100_000);
}

/// One link loses, the one behind it and the one before do not.
#[test]
fn five_of_a_hundred_are_named_within_ten_seconds_and_no_other_link_is() {
    for seed in 0..30 {
        let mut bed = Bed::new(seed);
        bed.run(20 * SECOND);
        bed.quiet();
        bed.loss[2] = 50;
        let from = bed.now;
        while bed.news.is_empty() {
            bed.run(100);
            assert!(bed.now - from < 10 * SECOND, "seed {seed}: {:?}", bed.measured("spine2", "down2"));
        }
        println!("seed {seed}: {} ms, {}", bed.now - from, bed.news[0].detail);
        assert!(bed.named(from));
        bed.run(60 * SECOND);
        assert!(bed.named(from), "once, and no other link");
        let conditions = bed.w.domain.group("g").unwrap().status.conditions;
        let lossy = conditions.iter().find(|c| c.kind == ConditionKind::Lossy).unwrap();
        assert_eq!(lossy.status, ConditionStatus::True);
        // Its end.
        bed.loss[2] = 0;
        bed.run(20 * SECOND);
        assert!(bed.news.len() == 2 && !bed.news[1].is_lossy, "{:?}", bed.news);
        assert_eq!(bed.dead, []);
    }
}

#[test]
fn a_link_behind_a_lossy_one_is_not_lossy_and_one_that_is_is_found_behind_it() {
    for seed in 0..20 {
        let mut bed = Bed::new(seed);
        bed.loss[1] = 50;
        bed.run(60 * SECOND);
        let links: Vec<&str> = bed.news.iter().map(|n| n.link.as_str()).collect();
        assert_eq!(links, ["leaf1/up2--spine2/down1"], "seed {seed}");
        bed.loss[2] = 50;
        bed.run(12 * SECOND);
        assert_eq!(bed.news.len(), 2, "seed {seed}: {:?}", bed.measured("spine2", "down2"));
        assert_eq!(bed.dead, []);
    }
}

/// Samples of the two nodes are compared at the same PSN: what was lost further up between them is not taken for a loss here.
#[test]
fn losses_further_up_that_come_and_go_are_not_counted_behind_them() {
    let (mut all, mut missing) = (0, 0);
    for seed in 0..20 {
        let mut bed = Bed::new(seed);
        for _ in 0..40 {
            bed.loss[1] = bed.chance.below(2) * 100;
            let lasts = 500 + bed.chance.below(2000);
            bed.run(lasts);
        }
        let (packets, lost) = bed.measured("spine2", "down2");
        println!("seed {seed}: {lost} of {packets}");
        (all, missing) = (all + packets, missing + lost);
        assert!(bed.news.iter().all(|n| n.link == "leaf1/up2--spine2/down1"), "{:?}", bed.news);
        assert_eq!(bed.dead, []);
    }
    assert!(missing * 5000 < all, "{missing} of {all}");
}

/// What is lost before the first node is no loss of a link between two.
#[test]
fn a_lossy_link_of_the_source_names_none() {
    for seed in 0..20 {
        let mut bed = Bed::new(seed);
        bed.loss[0] = 100;
        bed.run(60 * SECOND);
        bed.quiet();
    }
}

#[test]
fn what_the_parents_queue_drops_is_no_fault_of_the_link() {
    for seed in 0..20 {
        let mut bed = Bed::new(seed);
        bed.queue_loss[1] = 100;
        bed.run(60 * SECOND);
        bed.quiet();
        let (packets, lost) = bed.measured("spine2", "down2");
        assert!(lost > 1000, "it is seen, and explained: {lost} of {packets}");
        // More than it dropped.
        bed.loss[2] = 100;
        bed.queue_loss[1] = 0;
        bed.run(16 * SECOND);
        assert!(bed.named(0));
    }
}

#[test]
fn copies_that_the_parent_did_not_make_are_no_fault_of_the_link() {
    for seed in 0..20 {
        let mut bed = Bed::new(seed);
        bed.unsent[1] = 100;
        bed.run(60 * SECOND);
        bed.quiet();
        // None at all.
        bed.unsent[1] = 1000;
        bed.run(20 * SECOND);
        assert_eq!(bed.dead, []);
    }
}

#[test]
fn data_of_which_nothing_arrives_is_found_within_two_and_a_half_seconds_and_only_if_echo_requests_are_answered() {
    for seed in 0..100 {
        let mut bed = Bed::new(seed);
        bed.rate = [10, 1, 40][seed as usize % 3];
        bed.run(3 * SECOND + seed * 7);
        bed.loss[2] = 1000;
        let from = bed.now;
        while bed.dead.is_empty() {
            bed.run(10);
            assert!(bed.now - from <= 2500, "seed {seed}");
        }
        assert_eq!((bed.dead[0].1.as_str(), bed.dead.len()), ("spine2", 1));
        let detail = bed.w.domain.withholds("spine2", "down2").unwrap().to_owned();
        assert!(detail.contains("loses every packet of data") && detail.contains("group g"), "{detail}");
        bed.lead_around("spine2");
        assert_eq!(bed.parent_of("leaf2"), "spine1", "the tree leaves it");
    }
    // A link that loses everything is for the agents to find.
    for seed in 0..20 {
        let mut bed = Bed::new(seed);
        bed.loss[2] = 1000;
        bed.answers[2] = false;
        bed.run(60 * SECOND);
        assert_eq!(bed.dead, []);
    }
    // A queue that drops everything is not a link that does, for a while.
    let mut bed = Bed::new(1);
    bed.queue_loss[1] = 1000;
    bed.run(9 * SECOND);
    assert_eq!(bed.dead, []);
    bed.run(5 * SECOND);
    assert_eq!(bed.dead.len(), 1);
}

/// From the first packet on: no node behind the link has counted any.
#[test]
fn data_that_never_arrived_is_found_too() {
    for seed in 0..30 {
        let mut bed = Bed::before_data(seed);
        bed.loss[2] = 1000;
        bed.rate = 10;
        bed.leaves_within(4000);
    }
}

/// Catches a node that leaves out a group at rest, and of which it is therefore not known that it gets nothing of what is sent now.
#[test]
fn data_that_does_not_reach_a_node_at_rest_is_found_within_two_and_a_half_seconds() {
    for seed in 0..60 {
        let mut bed = Bed::new(seed);
        bed.rate = 0;
        bed.run(20 * SECOND);
        assert_eq!(bed.left_out > 40, bed.leave_out);
        bed.quiet();
        bed.rate = 10;
        bed.loss[2] = 1000;
        bed.leaves_within(2500);
    }
}

/// Catches a node that does not have a group any more, such as one that cannot apply it, and that is taken for one at which it rests.
#[test]
fn a_group_that_a_new_stream_does_not_have_is_not_at_rest() {
    for seed in (0..40).step_by(2) {
        let mut bed = Bed::new(seed);
        bed.run(5 * SECOND);
        // The node starts again, and gets nothing that it could count.
        bed.has_none[2] = true;
        bed.loss[2] = 1000;
        bed.w.domain.telemetry_begins(NODES[2], instant(bed.now * MS));
        bed.run(20 * SECOND);
        bed.quiet();
    }
}

/// A loss that begins a moment after the data does: the link between the two was not measured before.
#[test]
fn data_that_stops_to_arrive_at_once_is_found_within_two_and_a_half_seconds() {
    for seed in 0..60 {
        let mut bed = Bed::before_data(seed);
        bed.rate = 10;
        bed.run(20 + seed * 10);
        bed.loss[2] = 1000;
        bed.leaves_within(2500);
    }
}

/// Whether data passes again is not known before it is tried, and each try costs a few seconds of it.
#[test]
fn a_link_without_data_is_tried_again_after_a_time_that_doubles() {
    let mut bed = Bed::new(3);
    let mut waits = Vec::new();
    bed.loss[2] = 1000;
    for _ in 0..7 {
        bed.dead.clear();
        while bed.dead.is_empty() {
            bed.run(100);
        }
        bed.lead_around("spine2");
        let from = bed.now;
        // The tree is elsewhere: nothing that these nodes count is of this link.
        bed.rate = 0;
        bed.run(10 * SECOND);
        while !bed.settle("spine2") {
            bed.run(SECOND);
        }
        waits.push((bed.now - from) / SECOND);
        let is_tried_again = |port| bed.w.domain.is_tried_again("spine2", port, instant(bed.now * MS));
        assert!(is_tried_again("down2") && !is_tried_again("down1"));
        // Back again.
        assert_eq!(bed.parent_of("leaf2"), "spine2");
        bed.rate = 10;
    }
    println!("tried again after {waits:?} s");
    for (wait, least) in waits.iter().zip([60, 120, 240, 480, 960, 1920, 1920]) {
        assert!((least..least + 8).contains(wait), "{waits:?}");
    }
    // It works, for long enough to forget.
    bed.loss[2] = 0;
    bed.dead.clear();
    bed.run(2 * 1921 * SECOND);
    bed.quiet();
    bed.loss[2] = 1000;
    bed.run(3 * SECOND);
    assert!(bed.w.domain.withholds("spine2", "down2").unwrap().contains("in 60 s"));
}

/// A node that lost its state, an agent that was restarted, another epoch, a sample of a former one, counters of another version.
#[test]
fn counters_that_start_over_are_no_losses() {
    for seed in 0..40 {
        let mut bed = Bed::new(seed);
        for round in 0..12 {
            bed.run(2 * SECOND + seed * 31);
            match round % 6 {
                // A node without state: the next packet is its first one.
                0 => bed.nodes[1 + seed as usize % 2] = Counters::default(),
                // Its programs were replaced: those before counted for themselves.
                1 => bed.nodes[seed as usize % 3].fresh /= 2,
                2 => {
                    let at = seed as usize % 3;
                    bed.agents[at] = false;
                    bed.run(4 * SECOND);
                    bed.agents[at] = true;
                }
                3 => {
                    let old = bed.telemetry(1);
                    bed.w.run_at(receiver("g", "h2-2"), bed.now * MS).unwrap();
                    bed.w.confirm();
                    bed.sample_of(1, old.as_ref());
                    bed.run(3 * SECOND);
                    bed.w.run_at(leave("g", "h2-2"), bed.now * MS).unwrap();
                    bed.w.confirm();
                }
                4 => {
                    let sample = bed.telemetry(1).unwrap();
                    let group_id = GroupId::new("g", 999).unwrap();
                    bed.sample_of(1, Some(&GroupTelemetry { fresh_packets: None, ..sample.clone() }));
                    bed.sample_of(1, Some(&GroupTelemetry { group_id, ..sample }));
                }
                _ => bed.offset[2] ^= 1 << 24,
            }
        }
        bed.run(10 * SECOND);
        bed.quiet();
    }
}

#[test]
fn a_single_incident_is_no_rate() {
    for seed in 0..20 {
        let mut bed = Bed::new(seed);
        bed.run(20 * SECOND);
        bed.loss[2] = 300;
        bed.run(200);
        bed.loss[2] = 0;
        bed.run(60 * SECOND);
        bed.quiet();
        let (_, lost) = bed.measured("spine2", "down2");
        assert!(lost > 50, "seed {seed}: {lost}");
    }
}

/// A flow that ends is not a link that lost the rest of it; nor is a receiver that stops.
#[test]
fn silence_of_the_source_and_of_receivers_is_no_loss() {
    for seed in 0..40 {
        let mut bed = Bed::new(seed);
        bed.reordered = 5;
        for _ in 0..10 {
            bed.run(SECOND + seed * 13);
            bed.rate = 0;
            bed.run(4 * SECOND);
            bed.rate = 10;
        }
        // The source sends its window again and again.
        bed.is_stuck = true;
        bed.run(20 * SECOND);
        bed.quiet();
    }
}

/// Samples of groups that a node no longer has leave nothing, nor do those of nodes that the topology no longer has.
#[test]
fn what_is_kept_is_bounded_by_the_specs() {
    let mut bed = Bed::new(1);
    bed.run(5 * SECOND);
    assert_eq!(bed.w.domain.links.flows(), 3);
    let old: Vec<_> = (0..3).map(|at| bed.telemetry(at)).collect();
    bed.w.run_at(leave("g", "h2-1"), bed.now * MS).unwrap();
    for (at, sample) in old.iter().enumerate() {
        bed.sample_of(at, sample.as_ref());
    }
    assert_eq!(bed.w.domain.links.flows(), 0);
}
