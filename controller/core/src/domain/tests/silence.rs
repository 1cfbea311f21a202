// SPDX-License-Identifier: Apache-2.0
//! Links that lose every packet although their carriers are up: they stay avoided until they answer (decisions 3.14).

use std::collections::BTreeSet;

use canopy_model::ids::PortIndex;
use canopy_model::telemetry::LinkLoss;

use super::*;
use crate::domain::DeadPorts;
use crate::testing::{fabric, link};

const S: u64 = 1_000_000_000;
/// Requests of one agent in a second.
const RATE: u64 = 20;

/// leaf1/up1--spine1/down1, and the agents at its ends.
#[derive(Clone)]
struct Bed {
    w: World,
    now: u64,
    ends: [LinkLoss; 2],
}

impl Bed {
    fn new() -> Self {
        let mut w = World::with(fabric(2, 2, 1));
        w.confirm();
        let port = PortIndex::new("port", 1).unwrap();
        let mut bed = Self { w, now: 0, ends: [LinkLoss { port, requests: 0, lost: 0, queue_drops: 0 }; 2] };
        bed.run(20, true, 0);
        bed
    }

    /// Both agents report for some seconds; spine1's queue drops packets.
    fn run(&mut self, seconds: u64, answers: bool, drops: u64) {
        for _ in 0..seconds {
            self.now += S;
            self.ends[1].queue_drops += drops;
            for (end, node) in self.ends.iter_mut().zip(["leaf1", "spine1"]) {
                end.requests += if answers { RATE } else { 0 };
                let news = self.w.domain.link_losses(node, &[*end], instant(self.now));
                assert_eq!(news, [], "nothing is lossy");
            }
        }
    }

    /// The agent of leaf1 was restarted, or reports something else.
    fn report(&mut self, error: Option<ItemKind>) {
        let error = error.map(|kind| ItemError { kind, name: "up1".into(), group: None, detail: "x".into() });
        let generation = self.w.domain.node_spec("leaf1").unwrap().generation;
        self.w.domain.report(reported("leaf1", generation, error.into_iter().collect())).unwrap();
    }

    fn dead(&self) -> DeadPorts {
        self.w.domain.dead_ports("leaf1", instant(self.now)).unwrap()
    }

    /// What the controller does at once.
    fn lead_around(&mut self) {
        let DeadPorts { avoided, reported, .. } = self.dead();
        let ports = avoided.union(&reported).cloned().collect();
        self.w.run_at(Command::PortsDown { node: "leaf1".into(), ports }, self.now).unwrap();
    }

    /// What it does when the ports have settled.
    fn settle(&mut self) {
        let DeadPorts { reported, unproven, .. } = self.dead();
        let ports = reported.union(&unproven).cloned().collect();
        self.w.run_at(Command::PortsDown { node: "leaf1".into(), ports }, self.now).unwrap();
    }

    fn restart_agents(&mut self) {
        self.ends = self.ends.map(|end| LinkLoss { requests: 0, lost: 0, ..end });
        self.report(None);
    }
}

fn up1() -> BTreeSet<String> {
    ["up1".to_owned()].into()
}

#[test]
fn a_silent_link_is_used_again_when_it_answers_and_not_when_its_agents_have_forgotten_it() {
    let mut bed = Bed::new();
    bed.report(Some(ItemKind::Silence));
    bed.lead_around();
    let dead = bed.dead();
    assert_eq!((dead.avoided, dead.unproven, dead.is_silence_new), (up1(), up1(), false));
    // Two seconds later, so that the last answers are not stale yet.
    bed.run(2, false, 0);
    bed.restart_agents();
    for _ in 0..60 {
        bed.run(1, false, 0);
        bed.settle();
        assert_eq!(bed.dead().avoided, up1());
    }
    // Another link, and another controller.
    let mut spec = fabric(2, 2, 1);
    spec.links.push(link("leaf1/x", "spine1/x"));
    bed.w.run_at(topology(spec), bed.now).unwrap();
    bed.w.domain = bed.w.restarted();
    bed.report(None);
    bed.settle();
    assert_eq!(bed.dead().avoided, up1());
    bed.run(60, false, 0);
    bed.settle();
    assert_eq!(bed.dead().avoided, up1());

    bed.run(4, true, 0);
    bed.settle();
    assert_eq!(bed.dead().avoided, up1(), "not for long enough");
    bed.run(1, true, 0);
    bed.settle();
    assert_eq!(bed.dead().avoided, BTreeSet::new());
    assert!(!bed.w.records.values().any(|r| format!("{r:?}").contains("silent: {Endpoint")));
}

#[test]
fn answers_of_one_end_are_enough_and_those_of_one_in_three_are_not() {
    for (answered, is_used) in [(RATE, true), (RATE / 3, false)] {
        let mut bed = Bed::new();
        bed.report(Some(ItemKind::Silence));
        bed.lead_around();
        bed.restart_agents();
        for n in 1..20 {
            let report = LinkLoss { requests: n * RATE, lost: n * (RATE - answered), ..bed.ends[1] };
            bed.now += S;
            bed.w.domain.link_losses("spine1", &[report], instant(bed.now));
        }
        bed.settle();
        assert_eq!(bed.dead().avoided.is_empty(), is_used);
    }
    // Answers from before the link fell silent, and a gap.
    let mut bed = Bed::new();
    bed.report(Some(ItemKind::Silence));
    bed.lead_around();
    bed.report(None);
    bed.run(3, true, 0);
    bed.run(4, false, 0);
    bed.run(4, true, 0);
    bed.settle();
    assert_eq!(bed.dead().avoided, up1());
}

#[test]
fn a_carrier_that_returns_is_used_after_it_has_settled_unless_the_link_was_silent_too() {
    let mut bed = Bed::new();
    bed.report(Some(ItemKind::Link));
    bed.lead_around();
    bed.report(None);
    bed.settle();
    assert_eq!(bed.dead().avoided, BTreeSet::new(), "its neighbour may be configured not to answer");

    bed.report(Some(ItemKind::Link));
    bed.lead_around();
    bed.report(Some(ItemKind::Silence));
    assert!(bed.dead().is_silence_new);
    bed.lead_around();
    assert!(!bed.dead().is_silence_new);
    bed.report(Some(ItemKind::Link));
    bed.lead_around();
    bed.report(None);
    bed.settle();
    assert_eq!(bed.dead().avoided, up1());
    // A port that leads to a host from now on is not measured.
    let mut spec = fabric(2, 2, 1);
    spec.hosts.push(canopy_model::topology::HostDecl {
        name: "h9".into(),
        prefix: "2001:db8:99::/64".parse().unwrap(),
        address: "2001:db8:99::1".parse().unwrap(),
        ..spec.hosts[0].clone()
    });
    spec.links.retain(|l| l.a.to_string() != "leaf1/up1");
    spec.links.push(link("leaf1/up1", "h9/eth0"));
    bed.w.run_at(topology(spec), bed.now).unwrap();
    bed.settle();
    assert_eq!(bed.dead().avoided, BTreeSet::new());
}

#[test]
fn a_queue_that_drops_every_packet_is_no_dead_link_for_a_while() {
    let mut bed = Bed::new();
    bed.run(2, false, 100);
    bed.report(Some(ItemKind::Silence));
    assert_eq!(bed.dead().reported, BTreeSet::new());
    bed.run(7, false, 100);
    assert_eq!(bed.dead().reported, BTreeSet::new());
    let mut queue_is_empty = bed.clone();
    queue_is_empty.run(3, false, 0);
    assert_eq!(queue_is_empty.dead().reported, up1());
    bed.run(3, false, 100);
    assert_eq!(bed.dead().reported, up1(), "no answer for ten seconds");
    // Without drops there is nothing to wait for, and what is avoided stays so.
    let mut bed = Bed::new();
    bed.report(Some(ItemKind::Silence));
    assert_eq!(bed.dead().reported, up1());
    bed.lead_around();
    bed.run(2, false, 100);
    assert_eq!(bed.dead().reported, up1());
}
