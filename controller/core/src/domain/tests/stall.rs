// SPDX-License-Identifier: Apache-2.0
//! A receiver that stalls its group, under each of the three policies.

use std::net::Ipv6Addr;

use canopy_model::group::StallPolicy;
use canopy_model::status::GroupPhase;

use super::*;
use crate::condition::ConditionStatus;
use crate::domain::{BranchNews, Reaction};
use crate::problem::ProblemCode as Code;
use crate::testing::fabric;
use crate::view::{BranchRole, GroupStatus};

const HOSTS: [&str; 3] = ["h1-2", "h2-1", "h2-2"];

/// Groups `g` with this policy and `other` from h1-1 to all of `HOSTS`, confirmed.
fn world(stall_policy: StallPolicy) -> World {
    let mut w = World::with(fabric(2, 1, 2));
    w.run(group_with("g", GroupSpec { stall_policy, ..GroupSpec::default() })).unwrap();
    w.run(group("other")).unwrap();
    for name in ["g", "other"] {
        w.run(source(name, "h1-1")).unwrap();
        for host in HOSTS {
            w.run(receiver(name, host)).unwrap();
        }
    }
    w.confirm_all();
    w
}

fn status(w: &World, name: &str) -> GroupStatus {
    w.domain.group(name).unwrap().status
}

/// Node and address of the branch `name` of group `g`.
fn branch(w: &World, name: &str) -> (String, Ipv6Addr, BranchRole) {
    let tree = status(w, "g").tree;
    let found = tree.iter().find_map(|n| Some((n, n.branches.iter().find(|b| b.name == name)?)));
    let (node, branch) = found.unwrap();
    (node.node.clone(), branch.address, branch.kind)
}

fn report(w: &mut World, name: &str, news: BranchNews) -> Reaction {
    let (node, address, _) = branch(w, name);
    let id = status(w, "g").group_id;
    w.domain.branch_news(&node, id, address, news)
}

fn stalled(w: &World) -> (ConditionStatus, String, String) {
    let c = status(w, "g").conditions.into_iter().find(|c| c.kind == crate::condition::ConditionKind::Stalled).unwrap();
    (c.status, format!("{:?}", c.reason), c.message)
}

#[test]
fn wait_is_an_alarm_that_names_host_and_node_and_ends() {
    let mut w = world(StallPolicy::Wait);
    assert_eq!(stalled(&w).0, ConditionStatus::False);
    let reaction = report(&mut w, "h2-1", BranchNews::Stalled);
    assert_eq!((reaction.groups, reaction.command), (vec!["g".to_owned()], None));
    let (holds, reason, message) = stalled(&w);
    assert_eq!((holds, reason.as_str()), (ConditionStatus::True, "ReceiverStalled"));
    assert!(message.contains("receiver h2-1 at node leaf2"), "{message}");
    assert_eq!(status(&w, "g").phase, GroupPhase::Ready, "it forwards");
    assert_eq!(report(&mut w, "h2-1", BranchNews::Stalled), Reaction::default(), "a repeated report has no effect");
    report(&mut w, "h2-1", BranchNews::Fatal);
    assert_eq!(stalled(&w).1, "FatalNak");
    assert_eq!(report(&mut w, "h2-1", BranchNews::Recovered).groups, ["g"]);
    assert_eq!(stalled(&w).0, ConditionStatus::False);
    report(&mut w, "h2-1", BranchNews::Stalled);
    w.domain.agent_gone("leaf2", instant(0));
    w.domain.agent_connected("leaf2");
    assert_eq!(stalled(&w).0, ConditionStatus::False, "a reconnected agent reports it again");
}

#[test]
fn a_receiver_that_replaces_its_queue_pair_holds_nothing_up_any_more() {
    let mut w = world(StallPolicy::Wait);
    report(&mut w, "h2-1", BranchNews::Fatal);
    let before = stalled(&w);
    w.run(leave("g", "h1-2")).unwrap();
    assert_eq!(stalled(&w), before, "another one left");
    let other = member("h2-1", Role::Receiver, 0x77);
    w.run(Command::PutMember { group: "g".into(), spec: other, create_only: false, instance: None, lease: None })
        .unwrap();
    assert_eq!(stalled(&w).0, ConditionStatus::False);
}

#[test]
fn a_child_node_is_reported_and_never_acted_upon() {
    for policy in [StallPolicy::Wait, StallPolicy::Evict, StallPolicy::Fail] {
        let mut w = world(policy);
        for child in ["spine1", "leaf2"] {
            assert_eq!(branch(&w, child).2, BranchRole::Node);
            assert_eq!(report(&mut w, child, BranchNews::Stalled).command, None);
        }
        let (_, reason, message) = stalled(&w);
        assert!(reason == "ChildNodeStalled" && message.contains("node leaf2 at node spine1"), "{reason}: {message}");
        report(&mut w, "h2-1", BranchNews::Stalled);
        assert!(stalled(&w).2.starts_with("held up by receiver h2-1"), "a receiver comes before child nodes");
    }
}

#[test]
fn evict_removes_the_receiver_and_reports_it_until_it_or_the_source_joins_again() {
    for news in [BranchNews::Stalled, BranchNews::Fatal] {
        let mut w = world(StallPolicy::Evict);
        let other = w.domain.group("other");
        let command = report(&mut w, "h2-1", news).command.unwrap();
        let Command::EvictMember { group, host, .. } = &command else { panic!("{command:?}") };
        assert_eq!((group.as_str(), host.as_str()), ("g", "h2-1"));
        let before = status(&w, "g").epoch;
        w.run(command.clone()).unwrap();
        w.confirm_all();
        let now = status(&w, "g");
        assert_eq!((now.phase, now.receivers, now.epoch), (GroupPhase::Ready, 2, before + 1));
        assert_eq!(stalled(&w).0, ConditionStatus::False);
        assert_eq!(now.evicted[0].host, "h2-1");
        assert!(now.evicted[0].reason.contains("leaf2"), "{}", now.evicted[0].reason);
        assert_eq!(w.restarted().group("g").unwrap().status.evicted, now.evicted, "it is durable");
        assert_eq!(w.domain.group("other").unwrap().spec, other.unwrap().spec);
        assert_eq!(status(&w, "other").receivers, 3, "other groups are not affected");
        assert_eq!(w.problem(command), "NotFound: there is no member \"g/h2-1\"");
        let mut again = w.clone();
        again.run(receiver("g", "h2-1")).unwrap();
        assert_eq!(status(&again, "g").evicted, []);
        w.run(leave("g", "h1-1")).unwrap();
        assert_eq!(status(&w, "g").evicted, []);
    }
}

#[test]
fn evictions_are_reported_side_by_side_and_once_each() {
    let mut w = world(StallPolicy::Evict);
    for host in ["h2-1", "h2-2"] {
        let command = report(&mut w, host, BranchNews::Stalled).command.unwrap();
        w.run(command).unwrap();
    }
    let evicted = |w: &World| status(w, "g").evicted.into_iter().map(|e| e.host).collect::<Vec<_>>();
    assert_eq!(evicted(&w), ["h2-1", "h2-2"]);
}

#[test]
fn fail_stops_the_group_until_all_have_left() {
    let mut w = world(StallPolicy::Fail);
    let command = report(&mut w, "h2-1", BranchNews::Stalled).command.unwrap();
    w.run(command.clone()).unwrap();
    assert!(w.run(command).unwrap().nodes.is_empty(), "once is enough");
    let id = status(&w, "g").group_id;
    for node in w.domain.all_nodes() {
        assert!(!w.domain.node_spec(&node.name).unwrap().groups.contains_key(&id), "{}", node.name);
    }
    assert_eq!(status(&w, "other").phase, GroupPhase::Ready);
    let now = status(&w, "g");
    assert_eq!((now.phase, now.receivers, now.source.as_deref()), (GroupPhase::Failed, 3, Some("h1-1")));
    assert!(now.reason.contains("h2-1") && now.reason.contains("leaf2"), "{}", now.reason);
    let symptoms = w.domain.group_symptoms("g", instant(0));
    assert_eq!(
        symptoms.iter().map(|s| (s.key.code, s.evidence.as_str())).collect::<Vec<_>>(),
        [(Code::GroupFailed, now.reason.as_str())]
    );
    assert_eq!(w.restarted().group("g").unwrap().status.phase, GroupPhase::Failed, "it is durable");
    assert!(w.problem(receiver("g", "h2-1")).starts_with("InUse: "));
    for host in HOSTS {
        w.run(leave("g", host)).unwrap();
        assert_eq!(status(&w, "g").phase, GroupPhase::Failed);
    }
    w.run(leave("g", "h1-1")).unwrap();
    assert_eq!(status(&w, "g").phase, GroupPhase::Pending);
    w.run(source("g", "h1-1")).unwrap();
    w.run(receiver("g", "h2-1")).unwrap();
    w.confirm_all();
    assert_eq!(status(&w, "g").phase, GroupPhase::Ready);
}

#[test]
fn reports_on_unknown_nodes_and_branches_change_nothing() {
    let mut w = world(StallPolicy::Evict);
    let (node, address, _) = branch(&w, "h2-1");
    let id = status(&w, "g").group_id;
    for (n, a) in [("leaf1", address), ("absent", address), (node.as_str(), Ipv6Addr::LOCALHOST)] {
        assert_eq!(w.domain.branch_news(n, id, a, BranchNews::Stalled), Reaction::default());
    }
    w.run(leave("g", "h2-1")).unwrap();
    assert_eq!(w.domain.branch_news(&node, id, address, BranchNews::Stalled), Reaction::default(), "too late");
    assert_eq!(stalled(&w).0, ConditionStatus::False);
}

#[test]
fn a_command_of_a_policy_is_for_one_membership() {
    for policy in [StallPolicy::Evict, StallPolicy::Fail] {
        let mut w = world(policy);
        let command = report(&mut w, "h2-1", BranchNews::Fatal).command.unwrap();
        // It leaves and joins again before the command is carried out.
        w.run(leave("g", "h2-1")).unwrap();
        w.run(receiver("g", "h2-1")).unwrap();
        let done = w.run(command.clone()).unwrap();
        assert_eq!((done.outcome, done.nodes.len()), (crate::command::Outcome::Unchanged, 0), "{policy:?}");
        assert_eq!((status(&w, "g").receivers, status(&w, "g").evicted.len()), (3, 0));
        assert_eq!(w.domain.due_policies("leaf2"), [], "the report was about the membership before");
        if policy == StallPolicy::Fail {
            w.run(leave("g", "h2-1")).unwrap();
            assert_eq!(w.run(command).unwrap().outcome, crate::command::Outcome::Unchanged, "it has left");
        }
    }
}

#[test]
fn a_policy_is_due_as_long_as_the_stall_lasts_and_as_it_is_then() {
    let mut w = world(StallPolicy::Wait);
    assert_eq!(report(&mut w, "h2-1", BranchNews::Fatal).command, None);
    assert_eq!(w.domain.due_policies("leaf2"), []);
    let evict = GroupSpec { stall_policy: StallPolicy::Evict, ..GroupSpec::default() };
    w.run(group_with("g", evict)).unwrap();
    let due = w.domain.due_policies("leaf2");
    assert!(matches!(&due[..], [Command::EvictMember { host, .. }] if host == "h2-1"), "{due:?}");
    // A command that failed changes nothing; the next sample requires it again.
    assert_eq!((w.domain.due_policies("leaf2"), w.domain.due_policies("spine1")), (due.clone(), vec![]));
    // Another queue pair of the host has its address.
    let mut other = w.clone();
    let spec = member("h2-1", Role::Receiver, 0x99);
    other.run(Command::PutMember { group: "g".into(), spec, create_only: false, instance: None, lease: None }).unwrap();
    assert_eq!(other.domain.due_policies("leaf2"), []);
    w.run(due[0].clone()).unwrap();
    assert_eq!((w.domain.due_policies("leaf2"), status(&w, "g").evicted.len()), (vec![], 1));
}
