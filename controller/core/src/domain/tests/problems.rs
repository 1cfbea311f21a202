// SPDX-License-Identifier: Apache-2.0
//! Signs of problems, and that each leads to one cause.

use canopy_model::congestion::{PortCongestion, QueueTelemetry};
use canopy_model::ids::PortIndex;
use canopy_model::reach::{EchoTally, HostReach};
use canopy_model::telemetry::{BranchTelemetry, GroupTelemetry};
use canopy_model::topology::Endpoint;
use canopy_units::{UnixTime, UnwrappedPsn};

use super::*;
use crate::domain::BranchNews;
use crate::drops::Rise;
use crate::health::{Health, Problem, ProblemKey, Subject, Symptom};
use crate::problem::{Object, ProblemCode as Code};
use crate::testing::{branch_sample, fabric, group_sample};
use canopy_model::status::GroupPhase;

const S: u64 = 1_000_000_000;

/// Group `g` from h1-1 behind leaf1 through the spine to two hosts behind leaf2 and one behind leaf1.
fn world() -> World {
    let mut w = World::with(fabric(2, 1, 2));
    w.run(group("g")).unwrap();
    w.run(source("g", "h1-1")).unwrap();
    for host in ["h1-2", "h2-1", "h2-2"] {
        w.run(receiver("g", host)).unwrap();
    }
    w.confirm_all();
    w
}

fn key(code: Code, object: Object) -> ProblemKey {
    ProblemKey::new(code, object)
}

fn link_key(code: Code) -> ProblemKey {
    key(code, Object::Link("leaf2/up1--spine1/down2".into()))
}

fn receiver_key(host: &str) -> ProblemKey {
    key(Code::ReceiverStalled, Object::Member { group: "g".into(), host: host.into() })
}

fn group_key(code: Code) -> ProblemKey {
    key(code, Object::Group("g".into()))
}

/// Branch `name` of its node in the tree is reported.
fn report(w: &mut World, name: &str, news: BranchNews) {
    let status = w.domain.group("g").unwrap().status;
    let find =
        |n: &crate::view::TreeNodeView| Some((n.node.clone(), n.branches.iter().find(|b| b.name == name)?.address));
    let (node, address) = status.tree.iter().find_map(find).unwrap();
    w.domain.branch_news(&node, status.group_id, address, news);
}

/// Of the node's program; 0 without one.
fn epoch_at(w: &World, node: &str) -> u32 {
    let id = w.domain.group("g").unwrap().status.group_id;
    w.domain.node_spec(node).unwrap().groups.get(&id).map_or(0, |program| program.epoch)
}

/// The headend reports this progress at a second; returns the groups that changed.
fn progress(w: &mut World, second: u64, high: u64, next: u64) -> Vec<String> {
    progress_of(w, "leaf1", second, high, next)
}

/// The same of any node.
fn progress_of(w: &mut World, node: &str, second: u64, high: u64, next: u64) -> Vec<String> {
    let status = w.domain.group("g").unwrap().status;
    let sample = GroupTelemetry {
        high: UnwrappedPsn(high),
        min_next: Some(UnwrappedPsn(next)),
        ..group_sample(status.group_id, epoch_at(w, node))
    };
    let now = instant(second * S);
    let mut changed = w.domain.telemetry_received(node, now);
    changed.extend(w.domain.progress(node, std::iter::once(&sample), now, UnixTime::from_nanos(second * S)));
    changed
}

#[test]
fn an_edge_without_progress_does_not_stall_its_group() {
    let mut w = world();
    for second in [10, 15, 20] {
        assert_ne!(epoch_at(&w, "leaf2"), 0);
        assert_eq!(progress_of(&mut w, "leaf2", second, 200, 100), Vec::<String>::new());
    }
    stall(&mut w);
}

fn stall(w: &mut World) {
    progress(w, 10, 200, 100);
    assert_eq!(progress(w, 15, 200, 100), ["g"]);
}

fn phase(w: &World) -> (GroupPhase, String) {
    let status = w.domain.group("g").unwrap().status;
    (status.phase, status.reason)
}

fn of_group(w: &World) -> Vec<Symptom> {
    w.domain.group_symptoms("g", instant(20 * S))
}

fn of_node(w: &World, node: &str) -> Vec<Symptom> {
    w.domain.node_symptoms(node, instant(20 * S))
}

/// Everything that is open once all delays have passed.
fn problems(w: &World) -> Vec<Problem> {
    let mut health = Health::default();
    for node in w.domain.all_nodes() {
        let symptoms = w.domain.node_symptoms(&node.name, instant(20 * S));
        health.observe(&Subject::Node(node.name), symptoms, instant(20 * S), UnixTime::default());
    }
    health.observe(&Subject::Group("g".into()), of_group(w), instant(20 * S), UnixTime::default());
    health.handle_timeout(instant(100 * S));
    health.problems()
}

fn keys(symptoms: &[Symptom]) -> Vec<ProblemKey> {
    symptoms.iter().map(|s| s.key.clone()).collect()
}

fn roots(w: &World) -> Vec<ProblemKey> {
    problems(w).into_iter().filter(Problem::is_root).map(|p| p.key).collect()
}

/// As if the node's agent reported these items.
fn errors(w: &mut World, node: &str, items: &[(ItemKind, &str)]) {
    let generation = w.domain.node_spec(node).unwrap().generation;
    let item = |(kind, name): &(ItemKind, &str)| ItemError {
        kind: *kind,
        name: (*name).to_owned(),
        group: None,
        detail: "is missing".into(),
    };
    w.domain.report(reported(node, generation, items.iter().map(item).collect())).unwrap();
}

#[test]
fn a_domain_in_which_all_is_well_has_no_symptoms() {
    let w = world();
    assert_eq!((roots(&w), phase(&w)), (vec![], (GroupPhase::Ready, String::new())));
    assert_eq!(
        (w.domain.group_symptoms("absent", instant(0)), w.domain.node_symptoms("absent", instant(0))),
        (vec![], vec![])
    );
}

#[test]
fn the_branches_that_hold_the_minimum_lead_to_the_receiver() {
    let mut w = world();
    for (branch, news) in
        [("spine1", BranchNews::Stalled), ("leaf2", BranchNews::Stalled), ("h2-1", BranchNews::Stalled)]
    {
        report(&mut w, branch, news);
    }
    stall(&mut w);
    let (now, reason) = phase(&w);
    assert!(now == GroupPhase::Stalled && reason.starts_with("held up by receiver h2-1 at node leaf2"), "{reason}");
    let symptoms = of_group(&w);
    assert_eq!(keys(&symptoms), [receiver_key("h2-1"), group_key(Code::GroupStalled)]);
    assert_eq!(symptoms[1].causes, [receiver_key("h2-1")]);
    assert!(symptoms[0].evidence.ends_with("at leaf2, port host1"), "{}", symptoms[0].evidence);
    assert_eq!(roots(&w), [receiver_key("h2-1")]);

    // Its port explains it.
    errors(&mut w, "leaf2", &[(ItemKind::Link, "host1")]);
    let port = key(Code::PortDown, Object::Port("leaf2/host1".into()));
    let all = problems(&w);
    assert_eq!(all.iter().filter(|p| p.is_root()).map(|p| &p.key).collect::<Vec<_>>(), [&port]);
    assert!(all[0].affects.contains(&group_key(Code::GroupStalled)), "{all:?}");

    // An acknowledgement ends it.
    errors(&mut w, "leaf2", &[]);
    ["h2-1", "leaf2", "spine1"].iter().for_each(|branch| report(&mut w, branch, BranchNews::Recovered));
    assert_eq!(progress(&mut w, 16, 200, 101), ["g"]);
    assert_eq!((roots(&w), phase(&w).0), (vec![], GroupPhase::Ready));
}

#[test]
fn what_the_host_of_a_stalled_receiver_answers_is_the_first_evidence_until_the_stall_ends() {
    let mut w = world();
    let id = w.domain.group("g").unwrap().status.group_id;
    let address = |w: &World, host: &str| w.domain.member("g", host).unwrap().status.address;
    let tally = |bytes, requests, replies| EchoTally { bytes, requests, replies };
    let small_mtu = HostReach::new(tally(64, 1, 1), tally(4180, 2, 0)).unwrap();
    let evidence = |w: &World| of_group(w).first().map(|s| s.evidence.clone()).unwrap_or_default();
    let at = address(&w, "h2-1");
    let probed = |w: &mut World, node: &str, reach| w.domain.host_probed(node, id, at, reach);
    assert_eq!(probed(&mut w, "leaf2", small_mtu), None, "it does not stall");
    report(&mut w, "h2-1", BranchNews::Stalled);
    for node in ["leaf1", "absent"] {
        assert_eq!(probed(&mut w, node, small_mtu), None, "{node} is not its edge");
    }
    assert!(evidence(&w).starts_with("data is forwarded to it"), "{}", evidence(&w));
    assert_eq!(probed(&mut w, "leaf2", small_mtu), Some("g".into()));
    let wanted = "h2-1 answers Echo Requests of 64 bytes but not of 4180: its MTU is too small; data is forwarded";
    assert!(evidence(&w).starts_with(wanted), "{}", evidence(&w));
    // Reported again, in a new session, or found out anew.
    report(&mut w, "h2-1", BranchNews::Stalled);
    assert!(evidence(&w).starts_with(wanted));
    let answers = HostReach::new(tally(64, 1, 1), tally(4180, 1, 1)).unwrap();
    assert_eq!(probed(&mut w, "leaf2", answers), Some("g".into()));
    let qpn = w.domain.member("g", "h2-1").unwrap().spec.qpn;
    assert!(evidence(&w).contains(&format!("no queue pair {qpn}, or it is not ready")), "{}", evidence(&w));
    // A fatal NAK is better evidence.
    report(&mut w, "h2-1", BranchNews::Fatal);
    assert!(evidence(&w).starts_with("its fatal NAK"), "{}", evidence(&w));
    report(&mut w, "h2-1", BranchNews::Recovered);
    report(&mut w, "h2-1", BranchNews::Stalled);
    assert!(evidence(&w).starts_with("data is forwarded to it"), "the next stall: {}", evidence(&w));
}

#[test]
fn a_child_node_has_no_host() {
    let mut w = world();
    report(&mut w, "spine1", BranchNews::Stalled);
    let status = w.domain.group("g").unwrap().status;
    let branch = status.tree[0].branches.iter().find(|b| b.name == "spine1").unwrap().address;
    let tally = EchoTally { bytes: 64, requests: 1, replies: 0 };
    let reach = HostReach::new(tally, tally).unwrap();
    assert_eq!(w.domain.host_probed("leaf1", status.group_id, branch, reach), None);
}

#[test]
fn a_fatal_nak_is_a_problem_of_its_own() {
    let mut w = world();
    report(&mut w, "h1-2", BranchNews::Fatal);
    let failed = key(Code::ReceiverFailed, Object::Member { group: "g".into(), host: "h1-2".into() });
    assert_eq!(keys(&of_group(&w)), [failed]);
}

#[test]
fn a_branch_counts_only_if_nothing_below_it_explains_it_and_is_then_one_problem() {
    let mut w = world();
    report(&mut w, "spine1", BranchNews::Stalled);
    report(&mut w, "leaf2", BranchNews::Stalled);
    stall(&mut w);
    // Only the lowest branch: leaf1 does not share what is between spine1 and leaf2.
    let silent = link_key(Code::BranchSilent);
    assert_eq!(keys(&of_group(&w)), [silent.clone(), group_key(Code::GroupStalled)]);
    assert_eq!(roots(&w), [silent]);
    // An MTU that is too small at either end lets no data pass.
    for (node, port) in [("spine1", "down2"), ("leaf2", "up1")] {
        errors(&mut w, node, &[(ItemKind::Port, port)]);
        assert_eq!(roots(&w), [key(Code::PortMisconfigured, Object::Port(format!("{node}/{port}")))]);
        errors(&mut w, node, &[]);
    }
    errors(&mut w, "spine1", &[(ItemKind::Silence, "down2")]);
    assert_eq!(roots(&w), [link_key(Code::LinkBlackHole)]);
    // Beside a receiver behind the same node.
    report(&mut w, "h2-2", BranchNews::Stalled);
    let all = keys(&of_group(&w));
    assert!(all.contains(&receiver_key("h2-2")) && !all.contains(&link_key(Code::BranchSilent)), "{all:?}");
}

#[test]
fn both_ends_of_a_link_report_one_problem() {
    let mut w = world();
    errors(&mut w, "leaf2", &[(ItemKind::Link, "up1")]);
    errors(&mut w, "spine1", &[(ItemKind::Link, "down2"), (ItemKind::Neighbour, "down2/fe80::1")]);
    let all = problems(&w);
    let root = all.iter().find(|p| p.key == link_key(Code::LinkDown)).unwrap();
    assert!(root.is_root() && root.evidence.len() == 2, "{all:?}");
    let unresolved = key(Code::NeighbourUnresolved, Object::Port("spine1/down2".into()));
    assert!(root.affects.contains(&unresolved) && root.affects.contains(&group_key(Code::GroupDegraded)), "{root:?}");
    assert_eq!(roots(&w), [link_key(Code::LinkDown)]);
}

#[test]
fn every_kind_of_item_has_a_code() {
    let mut w = world();
    let items = [
        (ItemKind::Route, "2001:db8::/64", Code::RouteMissing),
        (ItemKind::Program, "dispatch", Code::ProgramNotLoaded),
        (ItemKind::Group, "g", Code::ItemMissing),
        (ItemKind::Report, "errors", Code::ItemMissing),
        (ItemKind::Other, "x", Code::ItemMissing),
    ];
    errors(&mut w, "leaf2", &[(ItemKind::Port, "up1")]);
    assert_eq!(keys(&of_node(&w, "leaf2")), [key(Code::PortMisconfigured, Object::Port("leaf2/up1".into()))]);
    for (kind, name, code) in items {
        errors(&mut w, "leaf2", &[(kind, name)]);
        assert_eq!(keys(&of_node(&w, "leaf2")), [key(code, Object::Node("leaf2".into()))], "{kind:?}");
    }
    let id = w.domain.group("g").unwrap().status.group_id;
    let refused =
        ItemError { kind: ItemKind::Group, name: "g".into(), group: Some(id), detail: "the map is full".into() };
    let generation = w.domain.node_spec("leaf2").unwrap().generation;
    w.domain.report(reported("leaf2", generation, vec![refused])).unwrap();
    assert_eq!(roots(&w), [group_key(Code::ProgramRefused)]);
}

#[test]
fn an_agent_that_is_gone_or_silent_is_the_cause_of_what_is_not_known() {
    let mut w = world();
    let at = |code| key(code, Object::Node("leaf1".into()));
    progress(&mut w, 10, 200, 200);
    progress(&mut w, 11, 200, 200);
    assert_eq!(w.domain.mark_silent_nodes(instant(13 * S)), (vec![], vec![]), "two seconds are not long");
    assert_eq!(w.domain.mark_silent_nodes(instant(14 * S)), (vec!["leaf1".into()], vec!["g".into()]));
    assert_eq!(w.domain.mark_silent_nodes(instant(15 * S)), (vec![], vec![]), "once");
    let (now, reason) = phase(&w);
    assert!(now == GroupPhase::Unknown && reason.contains("leaf1"), "{reason}");
    assert_eq!(roots(&w), [at(Code::AgentSilent)]);
    w.domain.agent_gone("leaf1", instant(15 * S));
    assert_eq!(w.domain.expire_restarts(instant(25 * S)), ["leaf1"]);
    assert_eq!(roots(&w), [at(Code::AgentDisconnected)]);
    assert!(problems(&w)[0].affects.contains(&group_key(Code::GroupUnobserved)));

    // A change that it does not take in waits for it.
    w.run(leave("g", "h2-2")).unwrap();
    assert!(problems(&w)[0].affects.contains(&group_key(Code::GroupNotProgrammed)));
    w.domain.agent_connected("leaf1");
    assert_eq!(progress(&mut w, 20, 200, 200), ["g"]);
    w.confirm_all();
    assert_eq!((roots(&w), phase(&w).0), (vec![], GroupPhase::Ready));

    // One that reports every ten seconds is silent after thirty.
    progress(&mut w, 30, 200, 200);
    progress(&mut w, 40, 200, 200);
    assert_eq!(w.domain.mark_silent_nodes(instant(69 * S)), (vec![], vec![]));
    assert_eq!(w.domain.mark_silent_nodes(instant(70 * S)).0, ["leaf1"]);
    // Another node's agent does not change the phase.
    w.domain.telemetry_received("leaf2", instant(70 * S));
    progress(&mut w, 71, 200, 200);
    assert_eq!(w.domain.mark_silent_nodes(instant(73 * S)), (vec!["leaf2".into()], vec![]));
    assert_eq!(phase(&w).0, GroupPhase::Ready);
}

#[test]
fn a_node_that_is_connected_and_behind_is_named() {
    let mut w = world();
    w.run(leave("g", "h2-2")).unwrap();
    let waiting = of_node(&w, "leaf2");
    assert_eq!(keys(&waiting), [key(Code::NodeBehind, Object::Node("leaf2".into()))]);
    assert!(waiting[0].evidence.ends_with("is desired"), "{}", waiting[0].evidence);
    let symptoms = of_group(&w);
    let group = symptoms.iter().find(|s| s.key == group_key(Code::GroupNotProgrammed)).unwrap();
    assert!(group.evidence.contains("leaf2") && group.causes.contains(&waiting[0].key), "{group:?}");
    let is_restart = |w: &World| {
        let of = of_group(w).into_iter().find(|s| s.key == group_key(Code::GroupNotProgrammed));
        of.unwrap().evidence.contains("leaf2, whose agent restarts")
    };
    assert!(!is_restart(&w));
    w.domain.agent_gone("leaf2", instant(S));
    assert!(is_restart(&w));
    w.domain.expire_restarts(instant(20 * S));
    assert!(!is_restart(&w));
}

#[test]
fn a_broken_link_without_another_way_is_the_cause() {
    let mut w = world();
    errors(&mut w, "spine1", &[(ItemKind::Link, "down2")]);
    let down = Command::PortsDown { node: "spine1".into(), ports: ["down2".to_owned()].into() };
    w.run(down).unwrap();
    w.confirm();
    errors(&mut w, "spine1", &[(ItemKind::Link, "down2")]);
    let all = problems(&w);
    let root = all.iter().find(|p| p.is_root()).unwrap();
    assert_eq!(root.key, link_key(Code::LinkDown), "{all:?}");
    assert!(root.affects.iter().any(|p| p.object == Object::Group("g".into())), "{all:?}");
    let end = Endpoint { device: "spine1".into(), port: "down2".into() };
    assert_eq!(end.to_string(), "spine1/down2");
}

#[test]
fn drop_counters_that_rise_are_signs_as_long_as_they_do() {
    let mut w = world();
    let id = w.domain.group("g").unwrap().status.group_id;
    let rise = |reason, group, port: Option<&str>| Rise {
        group,
        port: port.map(str::to_owned),
        reason,
        name: format!("reason{reason}"),
        packets: 7,
    };
    let rises = vec![
        rise(33, None, Some("host1")),
        rise(34, None, Some("host1")),
        rise(35, None, Some("host2")),
        rise(6, Some(id), None),
        rise(17, Some(id), None),
        rise(19, Some(id), None),
    ];
    w.domain.drops_rose("leaf2", rises, instant(18 * S));
    let found = of_node(&w, "leaf2");
    let wanted = [
        key(Code::PacketsForged, Object::Node("leaf2".into())),
        key(Code::CopiesTooLarge, Object::Group("g".into())),
        key(Code::HostRefused, Object::Port("leaf2/host1".into())),
    ];
    assert_eq!(keys(&found).into_iter().collect::<std::collections::BTreeSet<_>>(), wanted.into());
    let evidence = |code| found.iter().find(|s| s.key.code == code).unwrap().evidence.clone();
    assert!(evidence(Code::PacketsForged).contains("reason6 (7 packets of group g"), "{found:?}");
    let refused = evidence(Code::HostRefused);
    assert!(refused.contains("reason33") && refused.contains("reason34"), "{refused}");
    assert_eq!(w.domain.node_symptoms("leaf2", instant(22 * S)), []);
    w.domain.drops_rose("leaf2", vec![], instant(22 * S));
    assert_eq!(of_node(&w, "leaf2"), []);
}

/// One clock that differs is its node's; if most do, to the same side, the controller's is wrong.
#[test]
fn clocks_are_wrong_where_most_others_are_not() {
    let mut w = world();
    let nodes = ["leaf1", "leaf2", "spine1"];
    nodes.iter().for_each(|node| _ = w.domain.agent_connected(node));
    let mut show = |clocks: [u64; 3]| {
        for (node, clock) in nodes.iter().zip(clocks) {
            w.domain.clock_shown(node, UnixTime::from_nanos(clock * S), UnixTime::from_nanos(1000 * S));
        }
        let found = nodes.map(|node| of_node(&w, node).iter().any(|s| s.key.code == Code::ClockDiffers));
        (found, w.domain.controllers_clock_differs())
    };
    assert_eq!(show([1005, 995, 1000]), ([false; 3], None));
    assert_eq!(show([1006, 1000, 1000]), ([true, false, false], None));
    assert_eq!(show([1006, 994, 1000]), ([true, true, false], None), "to both sides: it may be in between");
    let (found, why) = show([1006, 1600, 1000]);
    assert_eq!(
        (found, why.as_deref()),
        ([true, true, false], Some("it is behind the clocks of 2 of 3 connected nodes"))
    );
    assert_eq!(show([900, 900, 0]).1.as_deref(), Some("it is ahead of the clocks of 2 of 3 connected nodes"));
    let symptoms = of_node(&w, "leaf1");
    let differs = symptoms.iter().find(|s| s.key.code == Code::ClockDiffers).unwrap();
    assert_eq!(differs.causes, [key(Code::ControllerClockDiffers, Object::Controller)]);
    assert_eq!(differs.evidence, "its clock is 100.0 s behind the controller's");
    // Two nodes are too few, and a node that is away shows nothing.
    w.domain.agent_gone("leaf1", instant(20 * S));
    assert_eq!(w.domain.controllers_clock_differs(), None);
    assert!(!of_node(&w, "leaf1").iter().any(|s| s.key.code == Code::ClockDiffers));
}

/// Catches an outage without a cause: data that was under way when an application was killed, and a source that does not try again although
/// its receiver is back.
#[test]
fn a_source_that_gave_up_is_a_cause_and_what_held_it_up_is_the_cause_of_that() {
    let mut w = world();
    stall(&mut w);
    assert_eq!(roots(&w), [group_key(Code::GroupStalled)]);
    assert_eq!(progress(&mut w, 19, 200, 100), Vec::<String>::new());
    assert_eq!(progress(&mut w, 20, 200, 100), ["g"]);
    let gave_up = group_key(Code::SourceGaveUp);
    assert_eq!(roots(&w), std::slice::from_ref(&gave_up));
    let evidence = &of_group(&w)[0].evidence;
    assert_eq!(evidence, "leaf1 has taken no packet of h1-1 for 10 s, although 100 packets are not acknowledged");
    report(&mut w, "h2-2", BranchNews::Stalled);
    assert_eq!(roots(&w), [receiver_key("h2-2")]);
    assert!(keys(&of_group(&w)).contains(&gave_up));
    report(&mut w, "h2-2", BranchNews::Recovered);
    errors(&mut w, "leaf1", &[(ItemKind::Link, "host1")]);
    assert_eq!(roots(&w), [key(Code::PortDown, Object::Port("leaf1/host1".into()))]);
    errors(&mut w, "leaf1", &[]);
    // It sends, and nothing of it is taken.
    let id = w.domain.group("g").unwrap().status.group_id;
    let refused = Rise { group: Some(id), port: None, reason: 10, name: "x".into(), packets: 7 };
    w.domain.drops_rose("leaf1", vec![refused], instant(18 * S));
    assert_eq!(roots(&w), [group_key(Code::SourceRefused)]);
    // It is taken again.
    assert_eq!(progress(&mut w, 21, 201, 201), ["g"]);
    assert_eq!(keys(&of_group(&w)), []);
}

/// What leads to a neighbour is the cause of copies that were not forwarded, an MTU that of copies that were too large.
#[test]
fn drops_of_copies_lead_to_the_ports_of_their_node() {
    let mut w = world();
    let id = w.domain.group("g").unwrap().status.group_id;
    for (reason, code, cause) in [
        (15, Code::CopiesNotForwarded, key(Code::NeighbourUnresolved, Object::Port("leaf2/up1".into()))),
        (16, Code::CopiesNotForwarded, key(Code::RouteMissing, Object::Node("leaf2".into()))),
        (17, Code::CopiesTooLarge, key(Code::PortMisconfigured, Object::Port("leaf2/up1".into()))),
    ] {
        let rise = Rise { group: Some(id), port: None, reason, name: "x".into(), packets: 7 };
        w.domain.drops_rose("leaf2", vec![rise], instant(18 * S));
        let found = of_node(&w, "leaf2").into_iter().find(|s| s.key.code == code).unwrap();
        assert!(found.causes.contains(&cause), "{reason}: {:?}", found.causes);
    }
}

/// K_max of 10 ms at 100 Gb/s is 125 MB; agents report once a second.
#[test]
fn a_queue_above_k_max_is_a_congestion_while_its_report_is_fresh() {
    let mut spec = fabric(2, 1, 1);
    spec.links.iter_mut().for_each(|l| l.rate = Rate::from_bps(100_000_000_000));
    spec.links[0].rtt = Some(Duration::from_millis(10));
    let mut w = World::with(spec);
    w.domain.agent_connected("leaf1");
    w.run(Command::PushThresholds).unwrap();
    let mut congested = |peak: u64, seconds: u64| {
        let queue = QueueTelemetry { peak_queue: Octets(peak), ..QueueTelemetry::default() };
        let port = PortIndex::new("port", 1).unwrap();
        w.domain.queues(
            "leaf1",
            vec![PortCongestion { port, queue, flows: vec![] }],
            UnixTime::from_nanos(0),
            instant(18 * S),
        );
        let symptoms = w.domain.node_symptoms("leaf1", instant((18 + seconds) * S));
        symptoms.iter().any(|s| s.key == key(Code::LinkCongested, Object::Port("leaf1/up1".into())))
    };
    assert_eq!([124_999_999, 125_000_000, 125_000_001].map(|peak| congested(peak, 0)), [false, false, true]);
    assert_eq!([60, 61].map(|seconds| congested(200_000_000, seconds)), [true, false]);
}

#[test]
fn a_stall_of_another_session_is_none_of_this_one() {
    let mut w = world();
    stall(&mut w);
    assert_eq!(phase(&w).0, GroupPhase::Stalled);
    w.run(leave("g", "h1-1")).unwrap();
    assert_eq!((phase(&w).0, keys(&of_group(&w))), (GroupPhase::Pending, vec![]));
}

/// Every node of the tree reports at this second that the branches with these names raised its minimum by so much since the one before.
fn raise(w: &mut World, second: u64, waiting: u64, raised: &[(&str, u64)]) -> Vec<String> {
    let status = w.domain.group("g").unwrap().status;
    let mut changed = vec![];
    for node in &status.tree {
        let branch = |b: &crate::view::BranchView| {
            let per_second = raised.iter().find(|(name, _)| *name == b.name).map_or(0, |(_, n)| *n);
            BranchTelemetry {
                next: Some(UnwrappedPsn(1000 * second - if per_second > 0 { waiting } else { 0 })),
                completed_min: Some(per_second * second),
                ..branch_sample(b.address)
            }
        };
        let sample = GroupTelemetry {
            high: UnwrappedPsn(1000 * second),
            min_next: Some(UnwrappedPsn(1000 * second - waiting)),
            branches: node.branches.iter().map(branch).collect(),
            ..group_sample(status.group_id, epoch_at(w, &node.node))
        };
        let wall = UnixTime::from_nanos(second * S);
        changed.extend(w.domain.progress(&node.node, std::iter::once(&sample), instant(second * S), wall));
    }
    changed
}

#[test]
fn the_receiver_that_the_source_waits_for_has_its_share_and_is_the_problem_while_it_is_late() {
    let mut w = world();
    let behind_leaf2 = [("spine1", 1000), ("leaf2", 1000), ("h2-1", 960), ("h2-2", 40)];
    let mut changed = vec![];
    for second in 10..20 {
        changed.extend(raise(&mut w, second, 50, &behind_leaf2));
    }
    changed.dedup();
    assert_eq!(changed, ["g"]);
    let shares = w.domain.waited_for("g", instant(20 * S)).unwrap();
    let listed: Vec<_> = shares.receivers.iter().map(|r| (r.host.as_str(), r.node.as_str(), r.ppm)).collect();
    assert_eq!(listed, [("h2-1", "leaf2", 960_000), ("h2-2", "leaf2", 40_000), ("h1-2", "leaf1", 0)]);
    assert_eq!((shares.unknown_ppm, shares.psns), (0, 9000));
    assert_eq!(shares.receivers[0].wait.map(|wait| wait.as_millis()), Some(50));
    let slow = key(Code::ReceiverSlow, Object::Member { group: "g".into(), host: "h2-1".into() });
    let symptoms = of_group(&w);
    assert_eq!(keys(&symptoms), std::slice::from_ref(&slow));
    let evidence = &symptoms[0].evidence;
    assert!(evidence.contains("data waits 50 ms for its ACK at leaf2, port host1"), "{evidence}");
    // Its port is down: that is the cause.
    errors(&mut w, "leaf2", &[(ItemKind::Link, "host1")]);
    assert!(roots(&w).contains(&key(Code::PortDown, Object::Port("leaf2/host1".into()))));
    assert!(!roots(&w).contains(&slow));
    // Samples that are too old prove nothing.
    assert!(!keys(&w.domain.group_symptoms("g", instant(25 * S))).contains(&slow));
    let late = w.domain.waited_for("g", instant(25 * S)).unwrap();
    assert_eq!((late.psns, late.unknown_ppm, late.receivers[0].ppm), (0, 1_000_000, 0));
}

#[test]
fn receivers_that_are_waited_for_alike_or_acknowledge_at_once_are_no_problem() {
    let alike = [("spine1", 1000), ("leaf2", 1000), ("h2-1", 500), ("h2-2", 500)];
    let far = [("spine1", 1000), ("leaf2", 1000), ("h2-1", 1000)];
    for (waiting, raised) in [(50, &alike[..]), (2, &far[..])] {
        let mut w = world();
        for second in 10..20 {
            raise(&mut w, second, waiting, raised);
        }
        assert_eq!(of_group(&w), []);
    }
}

/// Catches causes of an infeasible group by which its tenant reads the names of links that have nothing to do with it.
#[test]
fn only_dead_links_of_a_groups_own_ways_explain_that_it_has_no_tree() {
    let mut w = World::with(fabric(4, 1, 2));
    w.run(group("g")).unwrap();
    let down = |node: &str| Command::PortsDown { node: node.into(), ports: ["up1".to_owned()].into() };
    for node in ["leaf2", "leaf3", "leaf4"] {
        w.run(down(node)).unwrap();
    }
    w.run(source("g", "h1-1")).unwrap();
    w.run(receiver("g", "h2-1")).unwrap();
    let of_group = of_group(&w);
    assert_eq!(of_group.iter().map(|s| s.key.code).collect::<Vec<_>>(), [Code::GroupInfeasible]);
    let objects: std::collections::BTreeSet<String> =
        of_group[0].causes.iter().map(|key| key.object.to_string()).collect();
    assert!(objects.len() == 1 && objects.iter().all(|object| object.contains("leaf2/up1")), "{objects:?}");
    assert!(!of_group[0].evidence.contains("leaf3") && !of_group[0].evidence.contains("leaf4"));
}
