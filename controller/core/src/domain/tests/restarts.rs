// SPDX-License-Identifier: Apache-2.0
//! Agents that are stopped or killed and come back: trees stay, and nothing is concluded from the silence of their nodes for a while.

use std::collections::BTreeSet;
use std::time::Duration;

use canopy_model::status::{BACK_WITHIN, GroupPhase};

use super::*;
use crate::condition::{ConditionKind, ConditionReason, ConditionStatus};
use crate::domain::BranchNews;
use crate::problem::ProblemCode as Code;
use crate::testing::fabric;
use crate::view::RestartingAgent;

const S: u64 = 1_000_000_000;

/// Group `g` from h1-1 behind leaf1 to h2-1 behind leaf2, over one of two spines.
#[derive(Clone)]
struct Bed {
    w: World,
    /// The spine that the tree leads over.
    spine: String,
    /// The port of a leaf towards it.
    up: String,
}

impl Bed {
    fn new() -> Self {
        let mut w = World::with(fabric(2, 2, 1));
        w.run(group("g")).unwrap();
        w.run(source("g", "h1-1")).unwrap();
        w.run(receiver("g", "h2-1")).unwrap();
        w.confirm_all();
        let tree = w.domain.group("g").unwrap().status.tree;
        let spine = tree.iter().find(|n| n.node.starts_with("spine")).unwrap().node.clone();
        let up = spine.replace("spine", "up");
        Self { w, spine, up }
    }

    /// The agent of the spine ends at a second, and has announced it or not.
    fn gone(&mut self, announced: Option<Duration>, second: u64) {
        self.w.domain.agent_announces(&self.spine, announced);
        self.w.domain.agent_gone(&self.spine, instant(second * S));
    }

    /// A leaf's link to the spine carries nothing, as its agent reports.
    fn report(&mut self, leaf: &str, kind: Option<ItemKind>) {
        let error = kind.map(|kind| ItemError { kind, name: self.up.clone(), group: None, detail: "x".into() });
        let generation = self.w.domain.node_spec(leaf).unwrap().generation;
        self.w.domain.report(reported(leaf, generation, error.into_iter().collect())).unwrap();
    }

    /// What the controller takes for dead at a leaf.
    fn dead(&self, leaf: &str, second: u64) -> BTreeSet<String> {
        self.w.domain.dead_ports(leaf, instant(second * S)).unwrap().reported
    }

    fn connected(&self) -> (ConditionStatus, ConditionReason) {
        let node = self.w.domain.node(&self.spine).unwrap();
        let connected = node.status.conditions.into_iter().find(|c| c.kind == ConditionKind::Connected).unwrap();
        (connected.status, connected.reason)
    }

    fn codes(&self, second: u64) -> Vec<Code> {
        let symptoms = self.w.domain.node_symptoms(&self.spine, instant(second * S));
        symptoms.into_iter().map(|symptom| symptom.key.code).collect()
    }
}

/// Catches a real failure that is taken for the restart of an agent for a whole minute.
#[test]
fn a_node_that_does_not_answer_counts_after_the_time_of_a_kill_and_its_agent_after_the_term() {
    for (announced, term) in [(None, 10), (Some(BACK_WITHIN), 60), (Some(Duration::from_secs(3)), 3)] {
        let mut bed = Bed::new();
        bed.gone(announced, 100);
        assert_eq!(bed.connected(), (ConditionStatus::False, ConditionReason::Restarting));
        let awaited = |bed: &Bed, second: u64| bed.w.domain.restarting(instant(second * S));
        let back_within = Duration::from_secs(term - 1);
        let gone = RestartingAgent { node: bed.spine.clone(), announced: announced.is_some(), back_within };
        assert_eq!(awaited(&bed, 101), [gone]);
        for leaf in ["leaf1", "leaf2"] {
            bed.report(leaf, Some(ItemKind::Silence));
            assert_eq!(bed.dead(leaf, 101), BTreeSet::new());
        }
        let early = instant((100 + term.min(10)) * S - 1);
        assert_eq!(bed.w.domain.expire_restarts(early), Vec::<String>::new());
        assert_eq!(bed.dead("leaf1", 101), BTreeSet::new());
        assert_eq!(bed.codes(100 + term - 1), []);
        if term > 10 {
            // No restart takes so long: the links that do not answer count, and its agent is waited for all the same.
            assert_eq!(bed.w.domain.expire_restarts(instant(110 * S)), [bed.spine.clone()]);
            assert_eq!(bed.dead("leaf1", 110), BTreeSet::from([bed.up.clone()]));
            assert_eq!(bed.connected().1, ConditionReason::Restarting);
            assert_eq!(awaited(&bed, 110).len(), 1);
            assert_eq!(bed.codes(100 + term - 1), []);
        }
        assert_eq!(bed.w.domain.expire_restarts(instant((100 + term) * S)), [bed.spine.clone()]);
        assert_eq!(bed.w.domain.expire_restarts(instant((101 + term) * S)), Vec::<String>::new(), "once");
        assert_eq!(bed.codes(101 + term), [Code::AgentDisconnected]);
        assert_eq!(bed.connected(), (ConditionStatus::False, ConditionReason::AgentNotConnected));
        assert_eq!(awaited(&bed, 101 + term), [], "its problem names it");
        for leaf in ["leaf1", "leaf2"] {
            assert_eq!(bed.dead(leaf, 101 + term), BTreeSet::from([bed.up.clone()]));
        }
        // The tree moves.
        let before = bed.w.domain.group("g").unwrap().status.epoch;
        for node in ["leaf1", "leaf2"] {
            let ports = BTreeSet::from([bed.up.clone()]);
            bed.w.run_at(Command::PortsDown { node: node.into(), ports }, (101 + term) * S).unwrap();
        }
        assert!(bed.w.domain.group("g").unwrap().status.epoch > before);
    }
}

#[test]
fn a_link_without_carrier_and_one_that_was_dead_before_stay_dead() {
    let mut bed = Bed::new();
    bed.gone(Some(BACK_WITHIN), 100);
    bed.report("leaf1", Some(ItemKind::Link));
    assert_eq!(bed.dead("leaf1", 101), BTreeSet::from([bed.up.clone()]));

    let mut bed = Bed::new();
    bed.report("leaf1", Some(ItemKind::Silence));
    let ports = bed.dead("leaf1", 99);
    bed.w.run_at(Command::PortsDown { node: "leaf1".into(), ports }, 99 * S).unwrap();
    bed.gone(Some(BACK_WITHIN), 100);
    assert_eq!(bed.dead("leaf1", 101), BTreeSet::from([bed.up.clone()]));
    // The other spine's agent is there.
    let other = if bed.up == "up1" { "up2" } else { "up1" };
    bed.up = other.to_owned();
    bed.report("leaf1", Some(ItemKind::Silence));
    assert!(bed.dead("leaf1", 101).contains(other));
}

/// Data that is not acknowledged over the node shows more than its silence.
#[test]
fn a_node_that_does_not_forward_is_left_before_the_term_has_ended() {
    let mut bed = Bed::new();
    bed.gone(Some(BACK_WITHIN), 100);
    bed.report("leaf1", Some(ItemKind::Silence));
    let status = bed.w.domain.group("g").unwrap().status;
    let branch = |node: &str, name: &str| {
        let node = status.tree.iter().find(|n| n.node == node).unwrap();
        node.branches.iter().find(|b| b.name == name).unwrap().address
    };
    let (above, below) = (branch("leaf1", &bed.spine), branch(&bed.spine, "leaf2"));
    // What the node itself had reported of its own branches shows nothing about it.
    let mut other = bed.clone();
    other.w.domain.branch_news(&bed.spine, status.group_id, below, BranchNews::Stalled);
    assert_eq!(other.w.domain.expire_restarts(instant(102 * S)), Vec::<String>::new());

    bed.w.domain.branch_news("leaf1", status.group_id, above, BranchNews::Stalled);
    assert_eq!(bed.w.domain.expire_restarts(instant(102 * S)), [bed.spine.clone()]);
    assert_eq!(bed.w.domain.expire_restarts(instant(103 * S)), Vec::<String>::new(), "once");
    assert_eq!(bed.dead("leaf1", 103), BTreeSet::from([bed.up.clone()]));
    assert_eq!(bed.connected().1, ConditionReason::Restarting, "its agent may be back all the same");
    assert_eq!(bed.w.domain.expire_restarts(instant(160 * S)), [bed.spine.clone()]);
    assert_eq!(bed.connected().1, ConditionReason::AgentNotConnected);
}

#[test]
fn an_agent_that_is_back_starts_over() {
    let mut bed = Bed::new();
    bed.gone(Some(BACK_WITHIN), 100);
    bed.report("leaf1", Some(ItemKind::Silence));
    assert_eq!(bed.w.domain.neighbours(&bed.spine), ["leaf1", "leaf2"]);
    bed.w.domain.agent_connected(&bed.spine);
    assert_eq!(bed.connected(), (ConditionStatus::True, ConditionReason::AgentConnected));
    assert_eq!(bed.dead("leaf1", 101), BTreeSet::from([bed.up.clone()]), "its link is silent, and it does not restart");
    assert_eq!(bed.w.domain.expire_restarts(instant(200 * S)), Vec::<String>::new());
    // What it announced then is no announcement of the next end, also if the controller has not noticed that it was away.
    bed.w.domain.agent_announces(&bed.spine, Some(BACK_WITHIN));
    bed.gone(None, 300);
    assert_eq!(bed.w.domain.expire_restarts(instant(310 * S)), [bed.spine.clone()]);

    // One that announced its end and did not end.
    let mut bed = Bed::new();
    bed.w.domain.agent_announces(&bed.spine, Some(BACK_WITHIN));
    assert_eq!(bed.connected().1, ConditionReason::AgentConnected);
    // A controller that has just started knows of no restart.
    bed.w.domain = bed.w.restarted();
    assert_eq!(bed.connected().1, ConditionReason::AgentNotConnected);
    assert_eq!(bed.codes(1), [Code::AgentDisconnected]);
}

/// Its headend's agent is away for a while: what the source sends is delivered all the same.
#[test]
fn a_group_is_observed_again_in_time_or_unknown_after_the_term() {
    let mut w = Bed::new().w;
    w.domain.telemetry_received("leaf1", instant(99 * S));
    w.domain.agent_announces("leaf1", Some(BACK_WITHIN));
    w.domain.agent_gone("leaf1", instant(100 * S));
    assert_eq!(w.domain.expire_restarts(instant(110 * S)), ["leaf1"]);
    assert_eq!(w.domain.mark_silent_nodes(instant(159 * S)), (vec![], vec![]));
    let phase = |w: &World| w.domain.group("g").unwrap().status.phase;
    assert_eq!(phase(&w), GroupPhase::Ready);
    assert_eq!(w.domain.expire_restarts(instant(160 * S)), ["leaf1"]);
    assert_eq!(w.domain.mark_silent_nodes(instant(160 * S)), (vec!["leaf1".into()], vec!["g".into()]));
    assert_eq!(phase(&w), GroupPhase::Unknown);
}
