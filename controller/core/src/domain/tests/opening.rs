// SPDX-License-Identifier: Apache-2.0
//! The headend takes data once every node has confirmed, and who joins then is late (decisions 3.13).

use canopy_model::group::GroupSpec;
use canopy_model::member::LateStart;
use canopy_model::node_spec::GroupProgram;
use canopy_model::status::GroupPhase;

use super::*;
use crate::condition::{ConditionKind, ConditionReason};
use crate::domain::LateNews;
use crate::testing::fabric;

/// Two leaves, two spines, a source behind the first leaf, and no receiver.
fn world(spec: GroupSpec) -> World {
    let mut w = World::with(fabric(2, 2, 2));
    w.run(group_with("g", spec)).unwrap();
    w.run(source("g", "h1-1")).unwrap();
    w
}

fn programs(d: &Domain) -> BTreeMap<String, GroupProgram> {
    let program = |name: &str| d.node_spec(name).unwrap().groups.values().next().cloned();
    d.all_nodes().into_iter().filter_map(|n| Some((n.name.clone(), program(&n.name)?))).collect()
}

/// Whether the headend takes data.
fn open(d: &Domain) -> bool {
    let headends: Vec<bool> = programs(d).values().filter_map(|p| Some(p.headend.as_ref()?.open)).collect();
    assert_eq!(headends.len(), 1);
    headends[0]
}

fn open_group() -> Command {
    Command::OpenGroup { group: "g".into() }
}

/// Whether the branch of the receiver on `host` starts at a message boundary.
fn is_late(w: &World, host: &str) -> bool {
    let address = w.domain.member("g", host).unwrap().status.address;
    let programs = programs(&w.domain);
    programs.values().flat_map(|p| &p.branches).find(|b| b.address == address).unwrap().at_boundary
}

fn phase(w: &World) -> (GroupPhase, String) {
    let status = w.domain.group("g").unwrap().status;
    (status.phase, status.reason)
}

#[test]
fn a_group_opens_once_every_node_has_confirmed_and_only_its_headend_changes() {
    let mut w = world(GroupSpec::default());
    assert!(!w.domain.may_open("g"), "there is no tree");
    w.run(receiver("g", "h2-1")).unwrap();
    assert!(!open(&w.domain) && !w.domain.may_open("g"));
    assert!(w.run(open_group()).unwrap().nodes.is_empty(), "no node has confirmed");
    let epoch = w.domain.group("g").unwrap().status.epoch;

    w.confirm();
    assert_eq!(phase(&w), (GroupPhase::Programming, "every node confirmed; the headend is about to take data".into()));
    assert!(w.domain.may_open("g"));
    let before = programs(&w.domain);
    assert_eq!(w.run(open_group()).unwrap().nodes, ["leaf1"]);
    let after = programs(&w.domain);
    assert!(before.iter().all(|(node, p)| (*p == after[node]) == (node != "leaf1")));
    assert!(open(&w.domain) && !w.domain.may_open("g"));
    assert_eq!(w.domain.group("g").unwrap().status.epoch, epoch, "no branch changes");
    assert_eq!(phase(&w).0, GroupPhase::Programming, "the headend has not confirmed");
    w.confirm();
    assert_eq!(phase(&w), (GroupPhase::Ready, String::new()));
    assert!(open(&w.restarted()), "it is durable");
    assert!(w.run(open_group()).unwrap().nodes.is_empty(), "once is enough");
}

#[test]
fn who_joins_an_open_group_is_late_and_no_other_receiver() {
    let mut w = world(GroupSpec::default());
    w.run(receiver("g", "h2-1")).unwrap();
    w.confirm();
    // Nodes that confirmed have not confirmed this one.
    w.run(receiver("g", "h2-2")).unwrap();
    assert!(w.run(open_group()).unwrap().nodes.is_empty() && !open(&w.domain));
    w.confirm();
    w.run(open_group()).unwrap();
    w.run(receiver("g", "h1-2")).unwrap();
    assert_eq!(["h2-1", "h2-2", "h1-2"].map(|h| is_late(&w, h)), [false, false, true]);
    assert!(open(&w.domain), "the data of the others continues");
    // A controller that restarts has the same programs, and so the same receivers that are late.
    assert_eq!(programs(&w.restarted()), programs(&w.domain));
}

#[test]
fn another_session_of_the_source_opens_anew() {
    let mut w = world(GroupSpec::default());
    w.run(receiver("g", "h2-1")).unwrap();
    w.confirm_all();
    assert!(open(&w.domain));
    w.run(leave("g", "h1-1")).unwrap();
    w.run(source("g", "h1-1")).unwrap();
    w.run(receiver("g", "h2-2")).unwrap();
    assert!(!open(&w.domain) && !open(&w.restarted()));
    w.run(receiver("g", "h2-1")).unwrap();
    assert_eq!(["h2-1", "h2-2"].map(|h| is_late(&w, h)), [false, false]);
    w.confirm_all();
    assert!(open(&w.domain));
    // The source with another queue pair, in one change.
    let other = Command::PutMember {
        group: "g".into(),
        spec: member("h1-1", Role::Source, 0x99),
        create_only: false,
        instance: None,
        lease: None,
    };
    w.run(other).unwrap();
    w.run(receiver("g", "h2-2")).unwrap();
    assert!(!open(&w.domain) && !is_late(&w, "h2-2"));
}

#[test]
fn a_group_waits_for_its_receivers() {
    let mut w = world(GroupSpec { min_receivers: 2, ..GroupSpec::default() });
    w.run(receiver("g", "h2-1")).unwrap();
    w.confirm_all();
    assert!(!open(&w.domain));
    let expected = "1 of 2 receivers have joined; data is dropped until then (spec.minReceivers)";
    assert_eq!(phase(&w), (GroupPhase::Programming, expected.into()));
    w.run(receiver("g", "h2-2")).unwrap();
    w.confirm_all();
    assert_eq!((open(&w.domain), phase(&w).0), (true, GroupPhase::Ready));
    w.run(leave("g", "h2-2")).unwrap();
    assert!(open(&w.domain), "a receiver that leaves does not close the group");
}

#[test]
fn a_tree_that_moves_stays_open_and_one_whose_next_is_being_made_opens() {
    let drained = |w: &World, is: bool| {
        let mut spec = fabric(2, 2, 2);
        let spine = programs(&w.domain).into_keys().find(|n| n.starts_with("spine")).unwrap();
        spec.links.iter_mut().filter(|l| l.a.device == "leaf1" && l.b.device == spine).for_each(|l| l.drained = is);
        topology(spec)
    };
    let mut w = world(GroupSpec::default());
    w.run(receiver("g", "h2-1")).unwrap();
    let drain = drained(&w, true);
    w.run(drain.clone()).unwrap();
    assert!(!w.domain.may_open("g"), "the tree in force is not confirmed");
    let mut finished = w.clone();
    finished.confirm();
    finished.run(Command::FinishMove { group: "g".into() }).unwrap();
    assert!(!finished.domain.may_open("g"), "the tree that is in force now is not confirmed");
    w.confirm_all();
    assert_eq!((w.made(), open(&w.domain)), (Some(true), true));
    w.run(Command::FinishMove { group: "g".into() }).unwrap();
    assert!(open(&w.domain));
    w.confirm();
    let back = drained(&w, true);
    w.run(back).unwrap();
    assert!(open(&w.domain));
    w.confirm();
    w.run(Command::FinishMove { group: "g".into() }).unwrap();
    assert!(open(&w.domain) && open(&w.restarted()));
}

#[test]
fn data_may_have_passed_in_a_group_of_a_version_that_did_not_open_groups() {
    let mut w = world(GroupSpec::default());
    w.run(receiver("g", "h2-1")).unwrap();
    let Record::Group(record) = w.records.get_mut("group/g").unwrap() else { panic!() };
    record.opened = None;
    let mut w = World { domain: w.restarted(), records: w.records };
    assert!(open(&w.domain));
    w.run(receiver("g", "h2-2")).unwrap();
    assert_eq!(["h2-1", "h2-2"].map(|h| is_late(&w, h)), [false, true]);
    // Its next session is like any other.
    w.run(leave("g", "h1-1")).unwrap();
    w.run(source("g", "h1-1")).unwrap();
    w.run(receiver("g", "h2-1")).unwrap();
    assert!(!open(&w.domain) && !is_late(&w, "h2-1"));
}

/// The branch of the receiver on `host`, at the node that has it.
fn branch(w: &World, host: &str) -> (String, canopy_model::node_spec::Branch) {
    let address = w.domain.member("g", host).unwrap().status.address;
    let programs = programs(&w.domain).into_iter();
    let mut of = programs.filter_map(|(node, p)| Some((node, p.branches.into_iter().find(|b| b.address == address)?)));
    of.next().unwrap()
}

/// What the report of a late receiver's edge leads to.
fn reported_late(w: &World, host: &str, news: LateNews) -> Option<Command> {
    let (node, b) = branch(w, host);
    let id = w.domain.group("g").unwrap().status.group_id;
    assert_eq!(w.domain.late_receiver("spine1", id, b.address, news), None, "not its edge");
    w.domain.late_receiver(&node, id, b.address, news)
}

/// An open group with h2-1, and h2-2 that joined then.
fn with_late_receiver() -> World {
    let mut w = world(GroupSpec::default());
    w.run(receiver("g", "h2-1")).unwrap();
    w.confirm_all();
    w.run(receiver("g", "h2-2")).unwrap();
    w.confirm();
    w
}

#[test]
fn where_a_late_receiver_started_is_durable_and_part_of_its_program_only() {
    let mut w = with_late_receiver();
    let start = LateStart { shift: 77, msn_base: 5 };
    assert_eq!(branch(&w, "h2-2").1.start, None);
    assert_eq!(reported_late(&w, "h2-1", LateNews::Started(start)), None, "it is not late");
    let command = reported_late(&w, "h2-2", LateNews::Started(start)).unwrap();
    let (before, epoch) = (programs(&w.domain), w.domain.group("g").unwrap().status.epoch);
    assert_eq!(w.run(command.clone()).unwrap().nodes, ["leaf2"]);
    assert_eq!(branch(&w, "h2-2").1.start, Some(start));
    let after = programs(&w.domain);
    assert!(before.iter().all(|(node, p)| (*p == after[node]) == (node != "leaf2")));
    assert_eq!(w.domain.group("g").unwrap().status.epoch, epoch, "no branch changes");
    assert!(open(&w.domain));
    assert_eq!(programs(&w.restarted()), after);
    assert_eq!(reported_late(&w, "h2-2", LateNews::Started(start)), None, "it is known");
    assert!(w.run(command.clone()).unwrap().nodes.is_empty());

    // It belongs to the membership, not to the host.
    w.run(leave("g", "h2-2")).unwrap();
    w.run(receiver("g", "h2-2")).unwrap();
    assert_eq!(branch(&w, "h2-2").1.start, None);
    assert!(w.run(command).unwrap().nodes.is_empty(), "a report of the membership before");
}

#[test]
fn a_start_does_not_end_a_move() {
    let mut w = with_late_receiver();
    let mut spec = fabric(2, 2, 2);
    let spine = programs(&w.domain).into_keys().find(|n| n.starts_with("spine")).unwrap();
    spec.links.iter_mut().filter(|l| l.a.device == "leaf1" && l.b.device == spine).for_each(|l| l.drained = true);
    w.run(topology(spec)).unwrap();
    assert!(w.domain.moving("g").is_some());
    let news = LateNews::Started(LateStart { shift: 1, msn_base: 1 });
    let command = reported_late(&w, "h2-2", news).unwrap();
    assert_eq!(w.run(command).unwrap().nodes, ["leaf2"]);
    assert!(w.domain.moving("g").is_some());
    assert_eq!(reported_late(&w, "h2-2", news), None, "it is known");
    w.confirm();
    w.run(Command::FinishMove { group: "g".into() }).unwrap();
    assert_eq!(reported_late(&w, "h2-2", news), None, "it is known");
}

#[test]
fn a_late_receiver_that_cannot_start_is_removed_whatever_the_policy() {
    let reasons =
        [(LateNews::NotFresh, "does not expect the start PSN"), (LateNews::Lost, "node leaf2 lost its state")];
    for (news, because) in reasons {
        let mut w = with_late_receiver();
        assert_eq!(reported_late(&w, "h2-1", news), None, "it is not late");
        let command = reported_late(&w, "h2-2", news).unwrap();
        w.run(command).unwrap();
        let status = w.domain.group("g").unwrap().status;
        assert_eq!((status.receivers, status.evicted[0].host.as_str()), (1, "h2-2"));
        let reason = &status.evicted[0].reason;
        assert!(reason.contains(because) && reason.ends_with(": reset the queue pair, then join"), "{reason}");
        w.run(receiver("g", "h2-2")).unwrap();
        assert!(is_late(&w, "h2-2"));
    }
}

/// Whether the headend drops what the source of the open group sends.
fn held(w: &World) -> bool {
    let headends: Vec<_> = programs(&w.domain).into_values().filter_map(|p| p.headend).collect();
    assert!(headends.len() == 1 && headends[0].open);
    headends[0].held
}

fn open_condition(w: &World) -> (bool, ConditionReason, String) {
    let status = w.domain.group("g").unwrap().status;
    let c = status.conditions.into_iter().find(|c| c.kind == ConditionKind::Open).unwrap();
    (c.holds(), c.reason, c.message)
}

#[test]
fn data_is_not_taken_while_no_receiver_gets_it() {
    let mut w = with_late_receiver();
    assert!(!held(&w), "h2-1 gets it");
    assert_eq!(w.domain.group("g").unwrap().status.probing, ["h2-2"]);
    w.run(leave("g", "h2-1")).unwrap();
    w.confirm();
    assert!(held(&w) && held(&World { domain: w.restarted(), records: w.records.clone() }));
    let (holds, reason, message) = open_condition(&w);
    assert_eq!((holds, reason), (false, ConditionReason::NoReceiver));
    assert!(message.contains("h2-2 joined late and has not answered"), "{message}");
    assert_eq!(w.domain.group("g").unwrap().status.phase, GroupPhase::Pending);
    w.run(receiver("g", "h1-2")).unwrap();
    assert!(held(&w), "it joined late too");

    // Only the headend changes, and no branch does.
    let command = reported_late(&w, "h2-2", LateNews::Answered).unwrap();
    let epoch = w.domain.group("g").unwrap().status.epoch;
    assert_eq!(w.run(command.clone()).unwrap().nodes, ["leaf1"]);
    assert_eq!(w.domain.group("g").unwrap().status.epoch, epoch);
    assert!(!held(&w) && !held(&World { domain: w.restarted(), records: w.records.clone() }));
    assert_eq!(w.domain.group("g").unwrap().status.probing, ["h1-2"]);
    assert_eq!(reported_late(&w, "h2-2", LateNews::Answered), None, "it is known");
    w.confirm();
    assert_eq!(open_condition(&w).1, ConditionReason::Opened);

    // It belongs to the membership, not to the host.
    w.run(leave("g", "h2-2")).unwrap();
    w.run(receiver("g", "h2-2")).unwrap();
    assert!(w.run(command).unwrap().nodes.is_empty(), "a report of the membership before");
    assert!(held(&w));
    let news = LateNews::Started(LateStart { shift: 7, msn_base: 1 });
    let command = reported_late(&w, "h2-2", news).unwrap();
    w.run(command).unwrap();
    assert!(!held(&w), "who started has answered");
    assert_eq!(reported_late(&w, "h2-2", LateNews::Answered), None, "it is known");
}
