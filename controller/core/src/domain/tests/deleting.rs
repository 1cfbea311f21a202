// SPDX-License-Identifier: Apache-2.0
//! Deleting a group that has more members than one transaction removes.

use canopy_model::status::GroupPhase;

use super::*;
use crate::command::Outcome;
use crate::effect::EffectKind;
use crate::testing::fabric;

const RECEIVERS: usize = 300;

/// A group with 300 receivers behind three leaves, open.
fn world() -> World {
    let mut w = World::with(fabric(4, 2, 100));
    w.run(group("g")).unwrap();
    w.run(source("g", "h4-1")).unwrap();
    for r in 0..RECEIVERS {
        w.run(receiver("g", &format!("h{}-{}", r / 100 + 1, r % 100 + 1))).unwrap();
    }
    w.confirm_all();
    w
}

fn delete() -> Command {
    Command::DeleteGroup { name: "g".into() }
}

fn step() -> Command {
    Command::ContinueDeletion { group: "g".into() }
}

/// Members of `g`, and its phase with the reason.
fn left(domain: &Domain) -> (usize, GroupPhase, String) {
    let status = domain.group("g").unwrap().status;
    (domain.state.groups.get("g").unwrap().members.len(), status.phase, status.reason)
}

fn programs(domain: &Domain) -> u32 {
    domain.all_nodes().iter().map(|node| node.spec.groups).sum()
}

#[test]
fn a_large_group_is_stopped_at_once_and_removed_in_steps_that_a_restart_continues() {
    let mut w = world();
    assert!(programs(&w.domain) >= 5);
    let marked = w.run(delete()).unwrap();
    assert_eq!((marked.outcome, programs(&w.domain)), (Outcome::Deleted, 0));
    assert!(marked.nodes.len() >= 5, "{:?}", marked.nodes);
    assert_eq!(left(&w.domain), (301, GroupPhase::Deleting, "it is being deleted: 301 members are left".into()));
    for members in [184, 67] {
        assert_eq!(w.run(step()).unwrap().outcome, Outcome::Updated);
        assert_eq!(left(&w.domain).0, members);
        let restarted = w.restarted();
        assert_eq!((left(&restarted), restarted.next_deletion()), (left(&w.domain), Some("g")));
        assert_eq!(programs(&restarted), 0);
    }
    assert_eq!(w.run(step()).unwrap().outcome, Outcome::Deleted);
    // The topology and the state record.
    assert_eq!((w.records.len(), w.domain.next_deletion()), (2, None));
    assert!(w.domain.state.groups.is_empty());
    assert_eq!(w.problem(step()), "NotFound: there is no group \"g\"");
    w.run(group("g")).unwrap();
    w.run(receiver("g", "h1-1")).unwrap();
}

#[test]
fn a_group_that_is_being_deleted_takes_no_change_but_departures() {
    let mut w = world();
    w.run(delete()).unwrap();
    let refused = "InUse: group \"g\" is in use: it is being deleted, and 301 members are left: wait until it is gone, then create it again";
    assert_eq!(w.problem(receiver("g", "h4-2")), refused);
    assert_eq!(w.problem(receiver("g", "h1-1")), refused);
    assert_eq!(w.problem(group("g")), refused);
    // Sent again, it changes nothing.
    assert!(w.domain.prepare(delete()).unwrap().is_noop());
    w.run(leave("g", "h4-1")).unwrap();
    assert_eq!(left(&w.domain).0, 300);
    // Another network gives it no tree.
    w.run(topology(fabric(5, 2, 100))).unwrap();
    assert_eq!((programs(&w.domain), left(&w.domain).1), (0, GroupPhase::Deleting));
    assert_eq!(left(&w.restarted()), left(&w.domain));
    for _ in 0..3 {
        w.run(step()).unwrap();
    }
    assert!(w.domain.group("g").is_none());
}

#[test]
fn only_a_deleted_group_loses_members_in_steps() {
    let mut w = world();
    assert!(w.domain.prepare(step()).unwrap().is_noop());
    // What one transaction removes is gone with it.
    for r in 0..RECEIVERS + 1 - (MAX_WRITES - 2) {
        w.run(leave("g", &format!("h{}-{}", r / 100 + 1, r % 100 + 1))).unwrap();
    }
    w.run(delete()).unwrap();
    assert!(w.domain.group("g").is_none());
}

#[test]
fn the_dry_run_of_a_deletion_in_steps_has_the_effect_of_one_at_once() {
    let mut w = world();
    let effects = |w: &World, command| w.domain.effects(&w.domain.prepare(command).unwrap());
    let found = effects(&w, delete());
    let [effect] = &found[..] else { panic!("{found:?}") };
    assert_eq!((effect.kind, effect.from.as_str()), (EffectKind::GroupDeleted, "301 members"));
    w.run(delete()).unwrap();
    assert!(effects(&w, delete()).is_empty() && effects(&w, step()).is_empty());
}
