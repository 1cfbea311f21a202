// SPDX-License-Identifier: Apache-2.0
//! Links that lose packets although their carriers are up (decisions 3.14).

use canopy_model::ids::PortIndex;
use canopy_model::telemetry::LinkLoss;

use super::*;
use crate::condition::{ConditionKind, ConditionStatus};
use crate::domain::LossNews;
use crate::states::Troubles;
use crate::testing::{fabric, link};
use crate::view::GroupStatus;

fn status(w: &World, name: &str) -> GroupStatus {
    w.domain.group(name).unwrap().status
}

const MS: u64 = 1_000_000;
/// Requests of one agent in a second.
const RATE: u64 = 20;

/// Two groups: `g` over leaf1/up1--spine1/down1 and leaf2/up1--spine1/down2, `local` at leaf1 alone.
struct Bed {
    world: World,
    ms: u64,
    ends: [LinkLoss; 2],
}

impl Bed {
    fn new() -> Self {
        let mut world = World::with(fabric(2, 1, 2));
        for (name, host) in [("g", "h2-1"), ("local", "h1-2")] {
            world.run(group(name)).unwrap();
            world.run(source(name, "h1-1")).unwrap();
            world.run(receiver(name, host)).unwrap();
        }
        let port = PortIndex::new("port", 1).unwrap();
        assert_eq!(world.domain.node_spec("leaf1").unwrap().base.ports[0].name, "up1");
        assert_eq!(world.domain.node_spec("spine1").unwrap().base.ports[0].name, "down1");
        Self { world, ms: 0, ends: [LinkLoss { port, requests: 0, lost: 0, queue_drops: 0 }; 2] }
    }

    /// Runs for some seconds, in which `lost` of a hundred requests from each end are lost and leaf1's queue drops some packets a second.
    fn run(&mut self, seconds: u64, lost: u64, drops: u64) -> Vec<LossNews> {
        let mut news = Vec::new();
        for _ in 0..seconds {
            self.ms += 1000;
            for (end, node) in self.ends.iter_mut().zip(["leaf1", "spine1"]) {
                let before = end.requests * lost / 100;
                end.requests += RATE;
                end.lost += end.requests * lost / 100 - before;
                if node == "leaf1" {
                    end.queue_drops += drops;
                }
                news.extend(self.world.domain.link_losses(node, &[*end], instant(self.ms * MS)));
            }
        }
        news
    }

    fn condition(&self, group: &str) -> (ConditionStatus, String) {
        let c = status(&self.world, group).conditions.into_iter().find(|c| c.kind == ConditionKind::Lossy).unwrap();
        (c.status, c.message)
    }

    fn permille(&self) -> [Option<u16>; 2] {
        [("leaf1", "up1"), ("spine1", "down1")].map(|(node, port)| {
            let view = self.world.domain.link(node, port, &Troubles::new(), instant(self.ms * MS)).unwrap();
            view.status.loss.unwrap().permille
        })
    }
}

#[test]
fn five_of_a_hundred_are_named_within_ten_seconds_in_event_condition_and_link_and_so_is_the_end() {
    let mut bed = Bed::new();
    assert_eq!(bed.run(60, 0, 0), []);
    let phase = status(&bed.world, "g").phase;
    let news = bed.run(9, 5, 0);
    let [lossy] = news.as_slice() else { panic!("{news:?}") };
    assert_eq!((lossy.link.as_str(), lossy.is_lossy), ("leaf1/up1--spine1/down1", true));
    assert_eq!(lossy.groups, ["g"], "the link is not in the tree of the other group");
    assert!(lossy.detail.contains("2.1 %") && lossy.detail.contains("check optics"), "{}", lossy.detail);
    let (holds, message) = bed.condition("g");
    assert_eq!(holds, ConditionStatus::True);
    assert!(message.contains("leaf1/up1--spine1/down1 (2.1 %)"), "{message}");
    assert_eq!(bed.condition("local").0, ConditionStatus::False);
    assert_eq!(status(&bed.world, "g").phase, phase, "it forwards");
    assert_eq!(bed.permille(), [Some(21); 2]);
    assert_eq!(bed.run(60, 5, 0), [], "reported once");
    // A topology that is applied again does not forget it.
    bed.world.run(topology(fabric(2, 1, 3))).unwrap();
    assert_eq!(bed.condition("g").0, ConditionStatus::True);

    let news = bed.run(20, 0, 0);
    let [ended] = news.as_slice() else { panic!("{news:?}") };
    assert_eq!((ended.is_lossy, ended.groups.as_slice()), (false, ["g".to_owned()].as_slice()));
    assert_eq!((bed.condition("g").0, bed.permille()), (ConditionStatus::False, [None; 2]));
}

#[test]
fn less_than_two_of_a_hundred_are_not_worth_an_event_but_keep_one_going() {
    let mut bed = Bed::new();
    assert_eq!(bed.run(300, 1, 0), []);
    assert_eq!(bed.run(10, 3, 0).len(), 1);
    assert_eq!(bed.run(300, 1, 0), [], "no flapping");
}

#[test]
fn what_a_queue_dropped_is_no_fault_of_the_link_and_what_it_cannot_have_dropped_is() {
    let mut bed = Bed::new();
    bed.run(20, 0, 0);
    assert_eq!(bed.run(10, 50, 1).len(), 1, "a packet a second explains little");
    assert_eq!(bed.run(60, 3, 20), [], "it may still lose packets");
    assert_eq!(bed.run(20, 0, 100).len(), 1, "nothing is missing");
    assert_eq!(bed.run(60, 50, 30), []);
    // The last requests that the queue dropped are counted as lost after it has stopped.
    for end in &mut bed.ends {
        (end.requests, end.lost) = (end.requests + 2 * RATE, end.lost + RATE);
    }
    assert_eq!(bed.run(60, 0, 0), []);
    assert_eq!(bed.run(10, 5, 0).len(), 1);
}

/// Requests are few where a node has many links, and two reports may have none in between.
#[test]
fn links_of_nodes_with_thousands_of_links_are_judged_too_after_a_longer_time() {
    for (links, seconds) in [(100, 9), (320, 11), (1000, 30), (4000, 130)] {
        let mut bed = Bed::new();
        let micros = (links * 500).max(50_000);
        let mut news = Vec::new();
        for n in 1..=300 + seconds {
            bed.ms += 1000;
            for (end, node) in bed.ends.iter_mut().zip(["leaf1", "spine1"]) {
                end.requests = n * 1_000_000 / micros;
                end.lost = if n > 300 { (end.requests - 300_000_000 / micros) / 10 } else { 0 };
                news.extend(bed.world.domain.link_losses(node, &[*end], instant(bed.ms * MS)));
            }
            assert!(n > 300 || news.is_empty());
        }
        assert_eq!(news.len(), 1, "{links} links");
    }
}

/// A cable is pulled, or a neighbour starts: what is missing then is no loss "although the carrier is up".
#[test]
fn a_link_that_is_down_is_not_lossy_too() {
    let mut bed = Bed::new();
    bed.run(20, 0, 0);
    let down = |ports: &[&str]| Command::PortsDown {
        node: "spine1".into(),
        ports: ports.iter().map(|p| (*p).into()).collect(),
    };
    bed.world.run_at(down(&["down1"]), bed.ms * MS).unwrap();
    assert_eq!(bed.run(10, 100, 0), []);
    bed.world.run_at(down(&[]), bed.ms * MS).unwrap();
    for end in &mut bed.ends {
        end.lost = end.requests;
    }
    assert_eq!(bed.run(60, 0, 0), []);
    assert_eq!(bed.run(10, 5, 0).len(), 1);
}

#[test]
fn one_end_alone_an_agent_that_starts_again_and_an_old_report_prove_nothing() {
    let mut bed = Bed::new();
    for n in 1..60 {
        let report = LinkLoss { requests: n * RATE, lost: n * RATE / 2, ..bed.ends[0] };
        assert_eq!(bed.world.domain.link_losses("leaf1", &[report], instant(n * 1000 * MS)), []);
    }
    let mut bed = Bed::new();
    for _ in 0..30 {
        bed.run(10, 0, 0);
        // A rolling restart: the counters start anew, once with more lost than before.
        bed.ends[0] = LinkLoss { requests: 10, lost: 10, ..bed.ends[0] };
        assert_eq!(bed.run(1, 0, 0), []);
    }
    // One agent is gone for a while.
    bed.run(20, 0, 0);
    for n in 1..60 {
        bed.ms += 1000;
        let report = LinkLoss { requests: bed.ends[0].requests + n * RATE, lost: n * RATE, ..bed.ends[0] };
        let news = bed.world.domain.link_losses("leaf1", &[report], instant(bed.ms * MS));
        assert!(n < 10 || news.is_empty(), "after {n} s: {news:?}");
    }
    // Unknown ports and nodes.
    let strange = LinkLoss { port: PortIndex::new("port", 99).unwrap(), ..bed.ends[0] };
    assert_eq!(bed.world.domain.link_losses("leaf1", &[strange], instant(bed.ms * MS)), []);
    assert_eq!(bed.world.domain.link_losses("strange", &[bed.ends[0]], instant(bed.ms * MS)), []);
}

#[test]
fn reports_ten_times_a_second_and_every_ten_seconds_are_judged_alike_and_the_largest_numbers_do_not_overflow() {
    for (step_ms, seconds) in [(100_u64, 20), (10_000, 60)] {
        let mut bed = Bed::new();
        let mut news = Vec::new();
        for ms in (0..seconds * 1000).step_by(step_ms as usize) {
            for (end, node) in bed.ends.iter_mut().zip(["leaf1", "spine1"]) {
                end.requests = ms * RATE / 1000;
                end.lost = end.requests / 10;
                news.extend(bed.world.domain.link_losses(node, &[*end], instant((ms + 1) * MS)));
            }
        }
        assert_eq!(news.len(), 1, "every {step_ms} ms");
    }
    let mut bed = Bed::new();
    bed.run(10, 0, 0);
    for end in &mut bed.ends {
        (end.requests, end.lost) = (u64::MAX - 1000, u64::MAX - 1000);
    }
    assert_eq!(bed.run(1, 0, 0).len(), 1);
}

/// A link in front of others renumbers the ports of its nodes; until the agent has adopted that, it reports by the former numbers.
#[test]
fn reports_by_former_port_numbers_are_not_of_other_ports() {
    let mut bed = Bed::new();
    bed.world.confirm();
    bed.run(60, 0, 0);
    let mut spec = fabric(2, 1, 2);
    spec.links.insert(0, link("leaf1/first", "spine1/first"));
    bed.world.run_at(topology(spec), bed.ms * MS).unwrap();
    let first = |bed: &Bed| {
        bed.world.domain.link("leaf1", "first", &Troubles::new(), instant(bed.ms * MS)).unwrap().status.loss
    };
    assert_eq!(bed.world.domain.node_spec("leaf1").unwrap().base.ports[0].name, "first");
    assert_eq!(bed.run(20, 50, 0), []);
    let requests = |bed: &Bed| {
        bed.world
            .domain
            .link("leaf1", "up1", &Troubles::new(), instant(bed.ms * MS))
            .unwrap()
            .status
            .loss
            .unwrap()
            .requests
    };
    assert_eq!(requests(&bed), 60 * RATE);
    bed.world.confirm();
    bed.run(1, 0, 0);
    assert!(first(&bed).is_some(), "port 1 from now on");
}
