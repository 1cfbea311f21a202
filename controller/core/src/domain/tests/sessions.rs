// SPDX-License-Identifier: Apache-2.0
//! A session of a source ends when it leaves or joins again; nothing of it counts in the next one (decisions 3.11, 6.5).

use std::num::NonZeroU64;

use canopy_model::ids::Psn;
use canopy_model::status::GroupPhase;

use super::*;
use crate::testing::fabric;

/// Two leaves, two spines, a source behind the first leaf, a receiver at each.
fn world(spec: GroupSpec) -> World {
    let mut w = World::with(fabric(2, 2, 2));
    w.run(group_with("g", spec)).unwrap();
    for command in [receiver("g", "h1-2"), receiver("g", "h2-1"), source("g", "h1-1")] {
        w.run(command).unwrap();
    }
    w
}

fn connection(w: &World) -> canopy_model::member::Connection {
    w.domain.connection("g").unwrap()
}

/// Receivers that copies are made for, at all nodes.
fn served(w: &World) -> Vec<Ipv6Addr> {
    let nodes = w.domain.all_nodes().into_iter().map(|n| w.domain.node_spec(&n.name).unwrap());
    let programs: Vec<_> = nodes.flat_map(|spec| spec.groups.values().cloned().collect::<Vec<_>>()).collect();
    let receivers = programs
        .iter()
        .flat_map(|p| &p.branches)
        .filter(|b| matches!(b.kind, canopy_model::node_spec::BranchKind::Receiver { .. }));
    let mut addresses: Vec<Ipv6Addr> = receivers.map(|b| b.address).collect();
    addresses.sort_unstable();
    addresses
}

fn address(w: &World, host: &str) -> Ipv6Addr {
    w.domain.member("g", host).unwrap().status.address
}

fn with_psn(host: &str, role: Role, psn: u64) -> Command {
    join_with("g", MemberSpec { start_psn: Some(Psn::new("p", psn).unwrap()), ..member(host, role, 0x11) })
}

#[test]
fn a_receiver_belongs_to_the_session_that_it_joined() {
    let mut w = world(GroupSpec::default());
    let first = connection(&w);
    assert_eq!(served(&w).len(), 2);
    w.run(leave("g", "h1-1")).unwrap();
    w.run(source("g", "h1-1")).unwrap();
    let second = connection(&w);
    assert_eq!(second.proxy_address, first.proxy_address, "the Proxy Address is the group's");
    assert_ne!(second.designated_qpn, first.designated_qpn);
    assert_ne!(second.start_psn, first.start_psn);
    assert_ne!(second.write_rkey, first.write_rkey);
    assert_ne!(second.session, first.session);
    // Nothing is planned for those of the session before.
    assert!(served(&w).is_empty());
    let status = w.domain.group("g").unwrap().status;
    assert_eq!((status.phase, status.receivers), (GroupPhase::Pending, 0));
    assert!(status.reason.contains("reset their queue pairs and join again"), "{}", status.reason);
    assert!(w.domain.member("g", "h2-1").unwrap().status.ended);
    assert_eq!(w.domain.connection_of("g", "h2-1"), None);

    // The same content is another membership now.
    let joined = w.run(receiver("g", "h2-1")).unwrap();
    assert_eq!(joined.outcome, crate::command::Outcome::Updated);
    assert!(!w.domain.member("g", "h2-1").unwrap().status.ended);
    assert_eq!(w.domain.connection_of("g", "h2-1"), Some(connection(&w)));
    assert_eq!(served(&w), [address(&w, "h2-1")]);
    assert_eq!(w.domain.group("g").unwrap().status.receivers, 1);
    let again = w.restarted();
    assert_eq!(again.group("g"), w.domain.group("g"));
    assert_eq!(again.member("g", "h1-2"), w.domain.member("g", "h1-2"));
}

#[test]
fn a_source_that_joins_again_begins_another_session() {
    let mut w = world(GroupSpec::default());
    let first = connection(&w);
    let other_qp = Command::PutMember {
        group: "g".into(),
        spec: member("h1-1", Role::Source, 0x99),
        create_only: false,
        instance: None,
        lease: None,
    };
    w.run(other_qp).unwrap();
    let second = connection(&w);
    assert!(second.designated_qpn != first.designated_qpn && second.start_psn != first.start_psn);
    assert!(served(&w).is_empty());
    // A receiver that changes its queue pair ends nothing.
    w.run(receiver("g", "h2-1")).unwrap();
    w.run(receiver("g", "h1-2")).unwrap();
    let other_qp = Command::PutMember {
        group: "g".into(),
        spec: member("h2-1", Role::Receiver, 0x98),
        create_only: false,
        instance: None,
        lease: None,
    };
    w.run(other_qp).unwrap();
    assert_eq!((connection(&w), served(&w).len()), (second, 2));
}

/// A join of the library: the content of [`source`] or [`receiver`], with the number of a queue pair.
fn instance(join: Command, number: u64) -> Command {
    let Command::PutMember { group, spec, create_only, .. } = join else { panic!("{join:?}") };
    Command::PutMember { group, spec, create_only, instance: NonZeroU64::new(number), lease: None }
}

#[test]
fn a_source_with_a_queue_pair_that_was_reset_begins_another_session() {
    use crate::command::Outcome::{Unchanged, Updated};
    let mut w = World::with(fabric(2, 2, 2));
    w.run(group("g")).unwrap();
    w.run(receiver("g", "h2-1")).unwrap();
    w.run(instance(source("g", "h1-1"), 1)).unwrap();
    let first = connection(&w);
    // The headend takes no data yet, so that no queue pair has sent any: the last one counts.
    assert_eq!(w.run(instance(source("g", "h1-1"), 2)).unwrap().outcome, Updated);
    assert_eq!((connection(&w), served(&w).len()), (first.clone(), 1));
    w.domain = w.restarted();
    w.confirm_all();
    // The same call repeated, an operator, an earlier library.
    assert_eq!(w.run(instance(source("g", "h1-1"), 2)).unwrap().outcome, Unchanged);
    assert_eq!(w.run(source("g", "h1-1")).unwrap().outcome, Unchanged);
    assert_eq!(connection(&w), first);

    assert_eq!(w.run(instance(source("g", "h1-1"), 3)).unwrap().outcome, Updated);
    let second = connection(&w);
    assert!(second.designated_qpn != first.designated_qpn && second.start_psn != first.start_psn);
    assert!(second.session != first.session && served(&w).is_empty());
    assert_eq!(w.run(instance(source("g", "h1-1"), 3)).unwrap().outcome, Unchanged);
    assert_eq!(w.restarted().member("g", "h1-1"), w.domain.member("g", "h1-1"));
}

#[test]
fn a_receiver_with_a_queue_pair_that_was_reset_is_a_late_one() {
    use crate::command::Outcome::{Unchanged, Updated};
    let mut w = World::with(fabric(2, 2, 2));
    w.run(group("g")).unwrap();
    for join in [instance(receiver("g", "h2-1"), 1), receiver("g", "h1-2"), source("g", "h1-1")] {
        w.run(join).unwrap();
    }
    let member = |w: &World, host: &str| w.domain.state.groups.get("g").unwrap().members.get(host).unwrap().clone();
    let since = member(&w, "h2-1").since;
    assert_eq!(w.run(instance(receiver("g", "h2-1"), 2)).unwrap().outcome, Updated);
    assert_eq!((member(&w, "h2-1").since, member(&w, "h2-1").late), (since, false), "nothing was sent to it");
    w.confirm_all();
    let session = connection(&w);
    assert_eq!(w.run(instance(receiver("g", "h2-1"), 2)).unwrap().outcome, Unchanged);
    assert_eq!(w.run(receiver("g", "h2-1")).unwrap().outcome, Unchanged);
    assert_eq!(member(&w, "h2-1").since, since);
    // One that an operator declared, too: it may have received data meanwhile.
    for (host, number) in [("h2-1", 3), ("h1-2", 4)] {
        let before = member(&w, host).since;
        assert_eq!(w.run(instance(receiver("g", host), number)).unwrap().outcome, Updated);
        assert!(member(&w, host).late && member(&w, host).since > before, "{host}");
        assert_eq!(w.run(instance(receiver("g", host), number)).unwrap().outcome, Unchanged);
    }
    assert_eq!((connection(&w), served(&w).len()), (session, 2));
}

#[test]
fn a_designated_qpn_rests_while_a_member_of_its_session_is_there() {
    let mut w = world(GroupSpec::default());
    let in_use = |w: &World| w.domain.state.pools.in_use()[3];
    assert_eq!(in_use(&w), 1);
    for round in 2..5 {
        w.run(leave("g", "h1-1")).unwrap();
        w.run(source("g", "h1-1")).unwrap();
        // One receiver of the first session stays, the other one is in the last session.
        w.run(receiver("g", "h2-1")).unwrap();
        assert_eq!(in_use(&w), 2, "round {round}");
        assert_eq!(w.restarted().state.pools.in_use(), w.domain.state.pools.in_use());
    }
    w.run(leave("g", "h1-2")).unwrap();
    assert_eq!(in_use(&w), 1);
    w.run(leave("g", "h1-1")).unwrap();
    assert_eq!(in_use(&w), 2);
    w.run(Command::DeleteGroup { name: "g".into() }).unwrap();
    assert_eq!(w.domain.state.pools.in_use(), [0; 4]);
}

#[test]
fn the_sources_join_fixes_the_start_psn_while_no_receiver_has_joined() {
    let mut w = World::with(fabric(2, 2, 2));
    w.run(group("g")).unwrap();
    let drawn = connection(&w).start_psn.get();
    let other = u64::from(drawn ^ 1);
    w.run(with_psn("h1-1", Role::Source, other)).unwrap();
    assert_eq!(u64::from(connection(&w).start_psn.get()), other);
    assert_eq!(w.restarted().connection("g"), w.domain.connection("g"));
    // It counts for that session only.
    w.run(leave("g", "h1-1")).unwrap();
    let next = connection(&w).start_psn.get();
    assert_ne!(u64::from(next), other);

    w.run(receiver("g", "h2-1")).unwrap();
    let problem = w.problem(with_psn("h1-1", Role::Source, other));
    assert!(problem.contains("spec.startPsn") && problem.contains("1 receivers"), "{problem}");
    // The PSN that receivers have is no change.
    w.run(with_psn("h1-1", Role::Source, u64::from(next))).unwrap();
    let problem = w.problem(with_psn("h1-2", Role::Receiver, u64::from(next)));
    assert!(problem.contains("only the source fixes"), "{problem}");
    // A source that joins again begins a session without receivers; a receiver that becomes the source does not.
    let psn = Some(Psn::new("p", other).unwrap());
    let put = |host: &str, qpn| Command::PutMember {
        group: "g".into(),
        spec: MemberSpec { start_psn: psn, ..member(host, Role::Source, qpn) },
        create_only: false,
        instance: None,
        lease: None,
    };
    w.run(put("h1-1", 0x99)).unwrap();
    assert_eq!(u64::from(connection(&w).start_psn.get()), other);
    w.run(leave("g", "h1-1")).unwrap();
    w.run(receiver("g", "h1-2")).unwrap();
    assert!(w.problem(put("h1-2", 0x99)).contains("spec.startPsn"));
}

#[test]
fn the_groups_start_psn_is_that_of_every_session() {
    let psn = Psn::new("p", 0x777).unwrap();
    let mut w = world(GroupSpec { start_psn: Some(psn), ..GroupSpec::default() });
    let first = connection(&w);
    assert_eq!(first.start_psn, psn);
    w.run(leave("g", "h1-1")).unwrap();
    let second = connection(&w);
    assert_eq!(second.start_psn, psn);
    assert_ne!(second.designated_qpn, first.designated_qpn, "packets of the session before name another group");
    let problem = w.problem(with_psn("h1-1", Role::Source, 0x778));
    assert!(problem.contains("which spec.startPsn of the group fixes"), "{problem}");
    // Who is left of the session before does not hold the next one's parameters fast.
    let other = GroupSpec { start_psn: Psn::new("p", 0x999).ok(), ..GroupSpec::default() };
    w.run(group_with("g", other)).unwrap();
    assert_eq!(connection(&w).start_psn.get(), 0x999);
}

#[test]
fn a_restored_copy_gives_no_number_that_was_given_since() {
    let mut w = World::with(fabric(2, 2, 2));
    w.run(group("g0")).unwrap();
    let mut copy = World { domain: w.restarted(), records: w.records.clone() };
    let numbers = |w: &World, name: &str| {
        let s = w.domain.group(name).unwrap().status;
        (s.tree_id, s.connection.proxy_address, s.connection.designated_qpn)
    };
    for i in 1..50 {
        w.run(group(&format!("g{i}"))).unwrap();
    }
    let record = copy.domain.leap();
    copy.records.insert(record.key(), record);
    // Durable before anything is given.
    copy.domain = copy.restarted();
    for i in 50..100 {
        copy.run(group(&format!("g{i}"))).unwrap();
    }
    let before: BTreeMap<_, _> = (0..50).map(|i| (numbers(&w, &format!("g{i}")), i)).collect();
    for i in 50..100 {
        let (tree, proxy, qpn) = numbers(&copy, &format!("g{i}"));
        assert!(before.keys().all(|(t, p, q)| *t != tree && *p != proxy && *q != qpn));
    }
}
