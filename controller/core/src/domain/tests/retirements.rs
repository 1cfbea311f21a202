// SPDX-License-Identifier: Apache-2.0
//! Nodes that leave for good.

use canopy_model::node_spec::Peer;
use canopy_model::retirement::{CleanedUp, MINOR_VERSION, RetireSpec};

use super::*;
use crate::command::Outcome;
use crate::problem::ProblemCode;
use crate::retirement::RetireStep as Step;
use crate::testing::fabric;

/// Two leaves, two spines; group `g` from h1-1 to h2-1, through one of the spines.
fn world() -> World {
    let mut w = World::with(fabric(2, 2, 1));
    w.run(group("g")).unwrap();
    w.run(source("g", "h1-1")).unwrap();
    w.run(receiver("g", "h2-1")).unwrap();
    confirm(&mut w);
    w.run(Command::OpenGroup { group: "g".into() }).unwrap();
    confirm(&mut w);
    w
}

/// Every node but `without` confirms its spec, from a connected agent of this version.
fn confirm_without(w: &mut World, without: &str) {
    for node in w.domain.all_nodes().into_iter().filter(|node| node.name != without) {
        w.domain.agent_connected(&node.name);
        let (observed_term, minor_version) = (w.domain.term(), MINOR_VERSION);
        let report = reported(&node.name, node.spec.generation, vec![]);
        w.domain.report(NodeStatus { observed_term, minor_version, ..report }).unwrap();
    }
}

fn confirm(w: &mut World) {
    confirm_without(w, "");
}

fn spine(d: &Domain) -> String {
    let tree = d.group("g").unwrap().status.tree;
    tree.into_iter().map(|n| n.node).find(|n| n.starts_with("spine")).unwrap()
}

fn retire(node: &str, spec: RetireSpec) -> Command {
    Command::Retire { node: node.to_owned(), spec }
}

fn cancel(node: &str) -> Command {
    Command::CancelRetirement { node: node.to_owned() }
}

fn step(d: &Domain, node: &str) -> Option<Step> {
    d.retirement(node).map(|of| of.reached.step)
}

fn waits_for(d: &Domain, node: &str) -> String {
    d.node(node).unwrap().status.retirement.unwrap().waits_for
}

/// Takes every step that is due, as the controller does.
fn advance(w: &mut World) {
    while w.domain.retirement_is_due() {
        assert_eq!(w.run(Command::AdvanceRetirements).unwrap().outcome, Outcome::Updated);
    }
    assert_eq!(w.run(Command::AdvanceRetirements).unwrap().outcome, Outcome::Unchanged);
}

fn report(w: &World, node: &str, failed: Option<&str>) -> Command {
    let retirement = w.domain.retirement(node).unwrap().id;
    let report = CleanedUp { retirement, removed: vec!["12 routes".into()], failed: failed.map(Into::into) };
    Command::NodeCleanedUp { node: node.to_owned(), report }
}

/// Catches an order to clean up before the data has moved, or before a neighbour has confirmed that its routes have.
#[test]
fn a_node_is_cleaned_up_once_nothing_leads_over_it() {
    let mut w = world();
    let node = spine(&w.domain);
    assert_eq!(w.run(retire(&node, RetireSpec::default())).unwrap().outcome, Outcome::Created);
    advance(&mut w);
    assert_eq!(step(&w.domain, &node), Some(Step::Draining));
    assert!(w.problem(report(&w.clone(), &node, None)).contains("in step Draining"), "nothing was ordered yet");
    assert!(waits_for(&w.domain, &node).starts_with("g to leave it"), "{}", waits_for(&w.domain, &node));
    // Its drain is not an operator's to delete meanwhile.
    assert!(w.problem(Command::DeleteDrain { name: node.clone() }).contains("--cancel"));

    confirm(&mut w);
    w.run(Command::FinishMove { group: "g".into() }).unwrap();
    confirm_without(&mut w, "leaf2");
    advance(&mut w);
    assert_eq!(waits_for(&w.domain, &node), "leaf2 to confirm the routes around it");
    assert_eq!(step(&w.domain, &node), Some(Step::Draining));
    confirm(&mut w);
    advance(&mut w);
    assert_eq!(step(&w.domain, &node), Some(Step::CleaningUp));
    assert!(w.problem(cancel(&node)).contains("no way back"));
    assert_eq!(waits_for(&w.domain, &node), "its agent to clean up");
    w.domain.agent_gone(&node, instant(0));
    assert!(waits_for(&w.domain, &node).starts_with("its agent, which is not connected"));
    let mut without = fabric(2, 2, 1);
    without.nodes.retain(|n| n.name != node);
    without.links.retain(|l| l.a.device != node && l.b.device != node);
    assert!(w.problem(topology(without.clone())).contains("until it has left"));

    // One of another retirement is refused by name: its agent must not take it for this one. One that has failed changes nothing.
    let other =
        Command::NodeCleanedUp { node: node.clone(), report: CleanedUp { retirement: 1, ..Default::default() } };
    let present = w.domain.retirement(&node).unwrap().id;
    let refused = w.problem(other.clone());
    assert!(refused.starts_with("InUse") && refused.contains("retirement 1,"), "{refused}");
    assert!(refused.contains(&format!("under way is {present}, in step CleaningUp")), "{refused}");
    assert_eq!(w.run(report(&w.clone(), &node, Some("busy"))).unwrap().outcome, Outcome::Unchanged);
    let done = report(&w, &node, None);
    assert_eq!(w.run(done).unwrap().outcome, Outcome::Updated);
    assert_eq!(step(&w.domain, &node), Some(Step::Revoking));
    let retirement = w.domain.retirement(&node).unwrap().id;
    w.run(Command::NodeRevoked { node: node.clone(), retirement: retirement + 1 }).unwrap();
    assert_eq!(step(&w.domain, &node), Some(Step::Revoking));
    w.run(Command::NodeRevoked { node: node.clone(), retirement }).unwrap();
    assert_eq!(w.domain.retirement(&node).unwrap().removed, ["12 routes"]);
    assert_eq!(w.run(other).unwrap().outcome, Outcome::Unchanged, "the node has left: nothing waits for the agent");

    // It has left: that its agent is away is no problem, and nothing waits for it.
    w.domain.agent_gone(&node, instant(0));
    // The others have no routes to it any more.
    confirm_without(&mut w, &node);
    w.domain.expire_restarts(instant(60_000_000_000));
    assert_eq!(w.domain.node_symptoms(&node, instant(60_000_000_000)), []);
    let all = w.domain.topology().unwrap().status;
    assert_eq!((all.nodes, all.synced_nodes, all.conditions[0].holds()), (4, 3, true));
    // It stays drained over a restart, and is forgotten with the node.
    let restarted = w.restarted();
    assert_eq!((restarted.retirement(&node), restarted.drains()), (w.domain.retirement(&node), w.domain.drains()));
    w.run(topology(without)).unwrap();
    advance(&mut w);
    assert_eq!((w.domain.retirement(&node), w.restarted().retirement(&node)), (None, None));
    assert_eq!((w.domain.drains(), w.restarted().drains()), (vec![], vec![]), "its drain goes with it");
}

/// Catches a step that a controller which starts takes again, or forgets.
#[test]
fn a_controller_that_starts_continues_in_the_same_step() {
    let mut w = world();
    let node = spine(&w.domain);
    w.run(retire(&node, RetireSpec { reason: "old".into(), ..RetireSpec::default() })).unwrap();
    for wanted in [Step::Draining, Step::CleaningUp, Step::Revoking, Step::Retired] {
        assert_eq!(step(&w.domain, &node), Some(wanted));
        let restarted = w.restarted();
        assert_eq!(restarted.retirement(&node).map(|of| (&of.spec, of.reached)), {
            w.domain.retirement(&node).map(|of| (&of.spec, of.reached))
        });
        let retirement = w.domain.retirement(&node).unwrap().id;
        match wanted {
            Step::Draining => {
                confirm(&mut w);
                w.run(Command::FinishMove { group: "g".into() }).unwrap();
                confirm(&mut w);
                advance(&mut w);
            }
            Step::CleaningUp => drop(w.run(report(&w.clone(), &node, None)).unwrap()),
            _ => drop(w.run(Command::NodeRevoked { node: node.clone(), retirement }).unwrap()),
        }
    }
}

#[test]
fn a_node_with_members_behind_it_is_refused_or_they_are_removed_first() {
    let mut w = world();
    let before = w.records.clone();
    let refused = w.problem(retire("leaf2", RetireSpec::default()));
    assert!(refused.starts_with("InUse") && refused.contains("h2-1") && refused.contains("--accept-loss"), "{refused}");
    assert_eq!((&w.records, w.domain.drains().len(), step(&w.domain, "leaf2")), (&before, 0, None));
    for spec in [
        RetireSpec { reason: " ".into(), ..RetireSpec::default() },
        RetireSpec { timeout_seconds: 1, ..RetireSpec::default() },
    ] {
        assert!(w.problem(retire("leaf2", spec)).starts_with("Invalid"));
    }
    assert!(w.problem(retire("leaf9", RetireSpec::default())).starts_with("NotFound"));

    w.run(retire("leaf2", RetireSpec { accept_loss: true, ..RetireSpec::default() })).unwrap();
    advance(&mut w);
    assert_eq!(w.domain.members("g").unwrap().len(), 1);
    assert_eq!(w.domain.group("g").unwrap().status.evicted[0].reason, "its node is retired");
    // It can still join, and is removed again; once the agent has the order, it cannot.
    w.run(receiver("g", "h2-1")).unwrap();
    advance(&mut w);
    confirm(&mut w);
    advance(&mut w);
    assert_eq!(step(&w.domain, "leaf2"), Some(Step::CleaningUp));
    assert!(w.problem(receiver("g", "h2-1")).contains("leaf2"));
}

/// Catches a host that joined meanwhile and is cut off without being asked for.
#[test]
fn a_host_that_joins_while_the_node_is_drained_is_waited_for() {
    let mut w = world();
    w.run(leave("g", "h2-1")).unwrap();
    confirm(&mut w);
    w.run(retire("leaf2", RetireSpec::default())).unwrap();
    w.run(receiver("g", "h2-1")).unwrap();
    confirm(&mut w);
    advance(&mut w);
    assert_eq!(step(&w.domain, "leaf2"), Some(Step::Draining));
    assert!(waits_for(&w.domain, "leaf2").starts_with("h2-1 are members"), "{}", waits_for(&w.domain, "leaf2"));
}

#[test]
fn a_node_without_an_able_agent_is_waited_for_or_left_without_its_report() {
    for without_agent in [false, true] {
        let mut w = world();
        let node = if spine(&w.domain) == "spine1" { "spine2" } else { "spine1" };
        w.run(retire(node, RetireSpec::default())).unwrap();
        confirm(&mut w);
        w.domain.agent_gone(node, instant(0));
        advance(&mut w);
        assert!(waits_for(&w.domain, node).starts_with("its agent, which is not connected"));
        // Of an earlier version.
        w.domain.agent_connected(node);
        let generation = w.domain.node(node).unwrap().spec.generation;
        w.domain.report(NodeStatus { minor_version: 5, ..reported(node, generation, vec![]) }).unwrap();
        advance(&mut w);
        let text = waits_for(&w.domain, node);
        assert!(text.contains("contract 1.5") && text.contains("canopy-agent cleanup"), "{text}");
        assert_eq!(step(&w.domain, node), Some(Step::Draining));
        if without_agent {
            let spec = RetireSpec { without_agent, ..RetireSpec::default() };
            assert_eq!(w.run(retire(node, spec)).unwrap().outcome, Outcome::Updated);
            advance(&mut w);
            assert_eq!(step(&w.domain, node), Some(Step::Revoking));
            continue;
        }
        // Taken back, with the drain that it made, and nothing is left of it.
        assert_eq!(w.run(cancel(node)).unwrap().outcome, Outcome::Deleted);
        assert_eq!((w.domain.drains(), step(&w.domain, node)), (vec![], None));
        assert_eq!((w.restarted().drains().len(), w.restarted().retirement(node)), (0, None));
        assert!(w.problem(cancel(node)).starts_with("NotFound"));
    }
}

/// Catches a drain of an operator that a cancelled retirement takes along.
#[test]
fn a_drain_of_before_stays() {
    let mut w = world();
    let node = if spine(&w.domain) == "spine1" { "spine2" } else { "spine1" };
    let spec =
        canopy_model::drain::DrainSpec { node: Some(node.to_owned()), reason: "kernel".into(), ..Default::default() };
    let put = Command::PutDrain { name: "x".into(), labels: Labels::new(), spec, if_match: None, create_only: true };
    w.run(put).unwrap();
    w.run(retire(node, RetireSpec::default())).unwrap();
    assert_eq!(w.domain.drains().len(), 1);
    w.run(cancel(node)).unwrap();
    assert_eq!(w.domain.drains()[0].metadata.name, "x");
}

#[test]
fn a_node_that_does_not_leave_in_time_is_a_problem_that_names_what_it_waits_for() {
    let mut w = world();
    let node = spine(&w.domain);
    w.run_at(retire(&node, RetireSpec { timeout_seconds: 60, ..RetireSpec::default() }), 5_000_000_000).unwrap();
    let of = |w: &World, second: u64| {
        let symptoms = w.domain.node_symptoms(&node, instant(second * 1_000_000_000));
        symptoms.into_iter().find(|s| s.key.code == ProblemCode::RetirementLate).map(|s| s.evidence)
    };
    assert_eq!(of(&w, 64), None);
    assert!(of(&w, 65).unwrap().contains("g to leave it"));
    w.run(cancel(&node)).unwrap();
    assert_eq!(of(&w, 65), None);
}

/// The node leaves without its agent's report.
fn gone(w: &mut World, node: &str) {
    w.run(retire(node, RetireSpec { without_agent: true, ..RetireSpec::default() })).unwrap();
    confirm(w);
    advance(w);
    let retirement = w.domain.retirement(node).unwrap().id;
    w.run(Command::NodeRevoked { node: node.to_owned(), retirement }).unwrap();
    assert_eq!(step(&w.domain, node), Some(Step::Retired));
    w.domain.agent_gone(node, instant(0));
}

/// How many routes of leaf1 lead to this node first.
fn routes_over(d: &Domain, node: &str) -> usize {
    let base = d.node_spec("leaf1").unwrap().base.clone();
    let port = base.ports.iter().find(|port| matches!(&port.peer, Peer::Node { name, .. } if name == node)).unwrap();
    base.routes.iter().filter(|route| route.port == port.index).count()
}

/// Catches a drain of an operator that goes with a node which is taken out of the topology, and one of a retirement that stays when the
/// whole topology goes.
#[test]
fn the_drain_of_a_retirement_goes_with_it_and_one_that_an_operator_made_or_changed_stays() {
    let without = |node: &str| {
        let mut spec = fabric(2, 2, 1);
        spec.nodes.retain(|n| n.name != node);
        spec.links.retain(|l| l.a.device != node && l.b.device != node);
        topology(spec)
    };
    let put = |name: &str, node: &str, reason: &str| {
        let spec = canopy_model::drain::DrainSpec {
            node: Some(node.to_owned()),
            reason: reason.to_owned(),
            ..Default::default()
        };
        Command::PutDrain { name: name.into(), labels: Labels::new(), spec, if_match: None, create_only: false }
    };
    for (before, changed, left) in [(false, false, 0), (true, false, 1), (false, true, 1)] {
        let mut w = world();
        let node = if spine(&w.domain) == "spine1" { "spine2" } else { "spine1" };
        if before {
            w.run(put("x", node, "mine")).unwrap();
        }
        gone(&mut w, node);
        if changed {
            w.run(put(node, node, "mine")).unwrap();
        }
        w.run(without(node)).unwrap();
        advance(&mut w);
        assert_eq!(w.domain.retirement(node), None);
        assert_eq!((w.domain.drains().len(), w.restarted().drains().len()), (left, left), "{before} {changed}");
    }
    let mut w = world();
    let node = spine(&w.domain);
    for host in ["h1-1", "h2-1"] {
        w.run(leave("g", host)).unwrap();
    }
    gone(&mut w, &node);
    w.run(Command::DeleteTopology).unwrap();
    advance(&mut w);
    assert_eq!((w.domain.drains().len(), w.domain.retirements().count(), w.restarted().drains().len()), (0, 0, 0));
}

/// Catches a node without programs that is the last resort of trees and routes, before and after a restart, and one that is enrolled again
/// and is that before its agent is there.
#[test]
fn nothing_leads_over_a_node_that_has_left_until_its_agent_is_back() {
    let mut w = world();
    let used = spine(&w.domain);
    let left = if used == "spine1" { "spine2" } else { "spine1" };
    w.run(retire(left, RetireSpec::default())).unwrap();
    confirm(&mut w);
    assert_ne!(routes_over(&w.domain, left), 0, "while it is drained, its own addresses are reached");
    advance(&mut w);
    assert_eq!((step(&w.domain, left), routes_over(&w.domain, left)), (Some(Step::CleaningUp), 0));
    w.run(report(&w.clone(), left, None)).unwrap();
    let retirement = w.domain.retirement(left).unwrap().id;
    w.run(Command::NodeRevoked { node: left.to_owned(), retirement }).unwrap();
    w.domain.agent_gone(left, instant(0));

    let cut = |is: bool| Command::PortsDown {
        node: used.clone(),
        ports: ["down1", "down2"].into_iter().filter(|_| is).map(Into::into).collect(),
    };
    let prepared = w.domain.prepare(cut(true)).unwrap();
    let shown = w.domain.effects(&prepared);
    assert!(shown.iter().all(|e| !e.to.contains(&format!("{left}/"))), "{shown:?}");
    w.run(cut(true)).unwrap();
    let names_it = |d: &Domain, group: &str| {
        let group = d.group(group).unwrap().status;
        let text = format!("{:?} {:?}", group.reason, group.conditions);
        assert!(text.contains(&format!("the way over node {left} is none: it is retired")), "{text}");
        assert_eq!(routes_over(d, left), 0);
        assert_eq!(d.node_spec(left).unwrap().groups.len(), 0);
    };
    names_it(&w.domain, "g");
    // A group that is made now, and a controller that starts.
    w.run(group("late")).unwrap();
    w.run(source("late", "h1-1")).unwrap();
    w.run(receiver("late", "h2-1")).unwrap();
    names_it(&w.domain, "late");
    names_it(&w.restarted(), "late");
    w.run(topology({
        let mut spec = fabric(2, 2, 1);
        spec.links[0].alpha = Some(200);
        spec
    }))
    .unwrap();
    names_it(&w.domain, "g");

    // Enrolled again, and not there yet.
    assert_eq!(w.run(cancel(left)).unwrap().outcome, Outcome::Deleted);
    assert_eq!((step(&w.domain, left), w.domain.retirements().count()), (None, 0));
    assert!(w.problem(cancel(left)).starts_with("NotFound"));
    advance(&mut w);
    names_it(&w.domain, "g");
    names_it(&w.restarted(), "g");
    w.domain.agent_connected(left);
    advance(&mut w);
    assert_eq!(w.domain.state.retirements.len(), 0);
    assert_ne!(routes_over(&w.domain, left), 0, "it is drained, and there is no other way");
    assert_eq!(spine(&w.domain), left);
    assert_eq!(w.domain.drains().len(), 1, "until an operator puts it back into service");
    assert!(!w.domain.node_spec(left).unwrap().groups.is_empty() && w.restarted().drains().len() == 1);
}

/// Catches a node without programs that becomes a last resort because it is retired again, or that is cancelled, before its agent is back.
#[test]
fn one_that_is_retired_again_before_its_agent_is_back_is_no_way_either() {
    let mut w = world();
    let used = spine(&w.domain);
    let left = if used == "spine1" { "spine2" } else { "spine1" };
    gone(&mut w, left);
    w.run(cancel(left)).unwrap();
    let again = retire(left, RetireSpec { without_agent: true, ..RetireSpec::default() });
    assert_eq!(w.run(again.clone()).unwrap().outcome, Outcome::Created);
    let is_no_way = |w: &World| assert_eq!((routes_over(&w.domain, left), routes_over(&w.restarted(), left)), (0, 0));
    is_no_way(&w);
    assert_eq!(step(&w.domain, left), Some(Step::Draining));
    // Taken back, it is as after its enrollment.
    assert_eq!(w.run(cancel(left)).unwrap().outcome, Outcome::Deleted);
    assert_eq!((step(&w.domain, left), step(&w.restarted(), left)), (None, None));
    is_no_way(&w);
    // Nothing leads there, so it ends at once; its new certificates are revoked, too.
    w.run(again).unwrap();
    confirm_without(&mut w, left);
    advance(&mut w);
    assert_eq!(step(&w.domain, left), Some(Step::Revoking));
    is_no_way(&w);
    let retirement = w.domain.retirement(left).unwrap().id;
    w.run(Command::NodeRevoked { node: left.to_owned(), retirement }).unwrap();
    w.run(cancel(left)).unwrap();
    w.domain.agent_connected(left);
    advance(&mut w);
    assert_ne!(routes_over(&w.domain, left), 0);
}

/// Catches a retirement that waits for good for a report that is never sent: an agent that cleans up for an earlier one, of which the store
/// was restored, sends no other.
#[test]
fn an_agent_that_cleans_up_for_another_retirement_can_take_the_order_of_this_one() {
    let mut w = world();
    let node = if spine(&w.domain) == "spine1" { "spine2" } else { "spine1" };
    w.run(retire(node, RetireSpec::default())).unwrap();
    confirm_without(&mut w, node);
    let mut w = World { domain: w.restarted(), ..w };
    confirm_without(&mut w, node);
    w.domain.agent_connected(node);
    assert_eq!(waits_for(&w.domain, node), "its agent to report");
    let of_another = CleanedUp { retirement: 1, ..Default::default() };
    assert!(w.domain.check_cleaned_up(node, &of_another).is_err());
    w.domain.agent_leaves(node);
    advance(&mut w);
    assert_eq!(step(&w.domain, node), Some(Step::CleaningUp));
}

/// Catches a report that reads every node while one is drained to leave: in a domain of thousands each node reports every few
/// seconds.
#[test]
fn reports_while_a_node_is_drained_check_each_node_about_once() {
    use crate::domain::leaving::CHECKED;
    let mut w = World::with(fabric(200, 4, 0));
    confirm(&mut w);
    w.run(retire("spine1", RetireSpec::default())).unwrap();
    let nodes: Vec<String> = w.domain.all_nodes().into_iter().map(|n| n.name).collect();
    let report = |w: &mut World, name: &str| {
        let generation = w.domain.node_spec(name).unwrap().generation;
        let status = NodeStatus {
            observed_term: w.domain.term(),
            minor_version: MINOR_VERSION,
            ..reported(name, generation, vec![])
        };
        w.domain.report(status).unwrap();
        w.domain.retirement_is_due()
    };
    CHECKED.with(|count| count.set(0));
    // The last one confirms at the end; the others report again and again.
    for _ in 0..20 {
        for name in &nodes[..nodes.len() - 1] {
            assert!(!report(&mut w, name));
        }
    }
    let is_due = report(&mut w, &nodes[nodes.len() - 1]);
    let (checked, reports) = (CHECKED.with(std::cell::Cell::get), 20 * nodes.len());
    println!("{checked} checks of a node in {reports} reports of {} nodes", nodes.len());
    assert!(is_due && checked < 4 * reports, "{checked}");
    // One that waits for its agent alone reads no other node either.
    w.domain.agent_gone("spine1", instant(0));
    CHECKED.with(|count| count.set(0));
    nodes.iter().filter(|name| *name != "spine1").for_each(|name| assert!(!report(&mut w, name)));
    assert!(CHECKED.with(std::cell::Cell::get) <= 2 * nodes.len());
    w.domain.agent_connected("spine1");
    advance(&mut w);
    assert_eq!(step(&w.domain, "spine1"), Some(Step::CleaningUp));
}
