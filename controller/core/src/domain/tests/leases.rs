// SPDX-License-Identifier: Apache-2.0
//! Memberships that end with the agent of their host: what joins and operators change about that, and what a record has of it.

use super::*;
use crate::command::Outcome::{Created, Unchanged, Updated};
use crate::testing::fabric;

/// A join by an agent.
fn with_lease(join: Command, lease: bool) -> Command {
    let Command::PutMember { group, spec, create_only, instance, .. } = join else { panic!("{join:?}") };
    Command::PutMember { group, spec, create_only, instance, lease: Some(lease) }
}

/// Catches an operator's write that takes a lease away, and a lease that makes the queue pair another one.
#[test]
fn joins_give_and_take_a_lease_and_operators_leave_it() {
    let mut w = World::with(fabric(2, 2, 2));
    w.run(group("g")).unwrap();
    w.run(source("g", "h1-1")).unwrap();
    let key = ("g".to_owned(), "h2-1".to_owned());
    assert_eq!(w.run(with_lease(receiver("g", "h2-1"), true)).unwrap().outcome, Created);
    assert!(w.domain.has_lease("g", "h2-1") && !w.domain.has_lease("g", "h1-1") && !w.domain.has_lease("h", "h2-1"));
    w.confirm_all();
    let since = |w: &World| w.domain.state.groups.get("g").unwrap().members.get("h2-1").unwrap().since;
    let before = since(&w);
    assert_eq!(w.run(receiver("g", "h2-1")).unwrap().outcome, Unchanged);
    assert_eq!((w.domain.leases(), w.restarted().leases()), (vec![key.clone()], vec![key]));
    assert_eq!(w.run(with_lease(receiver("g", "h2-1"), false)).unwrap().outcome, Updated);
    assert!(w.domain.leases().is_empty() && w.restarted().leases().is_empty());
    assert_eq!(w.run(with_lease(receiver("g", "h2-1"), true)).unwrap().outcome, Updated);
    assert_eq!(since(&w), before, "nothing reached its queue pair");
    // Another queue pair, as an operator declares it, is no process's.
    let spec = member("h2-1", Role::Receiver, 0x99);
    w.run(Command::PutMember { group: "g".into(), spec, create_only: false, instance: None, lease: None }).unwrap();
    assert!(w.domain.leases().is_empty());
}

/// An earlier version reads a record with a lease, and its own are without.
#[test]
fn a_record_has_a_lease_only_where_there_is_one() {
    let mut w = World::with(fabric(2, 2, 2));
    w.run(group("g")).unwrap();
    for lease in [true, false] {
        w.run(with_lease(receiver("g", "h2-1"), lease)).unwrap();
        let value = serde_json::to_value(&w.records["member/g/h2-1"]).unwrap();
        assert_eq!(value.get("lease").is_some(), lease, "{value}");
        assert_eq!(Record::read("member/g/h2-1", value).unwrap().as_ref(), w.records.get("member/g/h2-1"));
    }
}
