// SPDX-License-Identifier: Apache-2.0
//! Every kind of invalid input is refused with an error that names the cause.

use canopy_model::group::EncodingChoice;

use super::*;
use crate::testing::fabric;

fn world() -> World {
    let mut w = World::with(fabric(3, 2, 2));
    w.run(group("g")).unwrap();
    w.run(source("g", "h1-1")).unwrap();
    w.run(receiver("g", "h2-1")).unwrap();
    w
}

fn at(host: &str, address: &str) -> Command {
    join_with("g", MemberSpec { address: Some(address.parse().unwrap()), ..member(host, Role::Receiver, 9) })
}

#[test]
fn members() {
    let w = world();
    assert_eq!(w.problem(receiver("absent", "h3-1")), "NotFound: there is no group \"absent\"");
    assert_eq!(
        w.problem(receiver("g", "h9")),
        "Invalid: spec.host: unknown host \"h9\": the topology does not declare it"
    );
    let mut bare = World::empty();
    bare.run(group("g")).unwrap();
    assert_eq!(bare.problem(receiver("g", "h9")), "Invalid: spec.host: unknown host \"h9\": there is no topology yet");
    assert!(
        w.problem(source("g", "h3-1"))
            .starts_with("Invalid: spec.role: host \"h1-1\" is the source of group g already")
    );
    // A host has one membership: the source cannot also be a receiver.
    assert!(
        w.problem(receiver("g", "h1-1"))
            .starts_with("AlreadyExists: member \"g/h1-1\" exists already: it joined as source")
    );
    assert_eq!(
        w.problem(at("h3-1", "2001:db8:999::1")),
        "Invalid: spec.address: 2001:db8:999::1 is outside 2001:db8:301::/64 of host \"h3-1\""
    );
    for multicast_or_local in ["ff3e::1", "::", "::1", "fe80::1"] {
        assert!(w.problem(at("h3-1", multicast_or_local)).contains("is not a global unicast address"));
    }
    assert!(w.problem(at("h3-1", "5f00:0:1:f001::")).contains("is a SID of this domain (in 5f00::/32)"));
    assert!(w.problem(at("h3-1", "fcff:0:0:1::1")).contains("is a node's address"));
    assert!(w.problem(at("h3-1", "fcfe::1")).contains("is a Proxy Address"));
    assert_eq!(w.problem(leave("g", "h3-1")), "NotFound: there is no member \"g/h3-1\"");
    assert_eq!(w.problem(leave("x", "h3-1")), "NotFound: there is no group \"x\"");
}

/// A node distinguishes the branches of a group by their addresses. An address lies in the prefix of its host, and prefixes do not overlap,
/// whichever is changed first.
#[test]
fn no_two_members_of_a_group_have_one_address() {
    let mut w = world();
    assert_eq!(
        w.problem(at("h3-1", "2001:db8:201::1")),
        "Invalid: spec.address: 2001:db8:201::1 is outside 2001:db8:301::/64 of host \"h3-1\""
    );
    w.run(at("h3-1", "2001:db8:301::77")).unwrap();
    let spec = Arc::unwrap_or_clone(w.domain.topology().unwrap().spec);
    let with_prefix = |host: &str, prefix: &str, address: &str| {
        let mut s = spec.clone();
        let h = s.hosts.iter_mut().find(|h| h.name == host).unwrap();
        (h.prefix, h.address) = (prefix.parse().unwrap(), address.parse().unwrap());
        s
    };
    for wider in ["2001:db8:301::/64", "2001:db8:301::/72", "2001:db8:300::/40"] {
        let problem = w.problem(topology(with_prefix("h2-1", wider, "2001:db8:301::77")));
        assert!(problem.contains("overlaps") && problem.contains("h2-1"), "{problem}");
    }
    // The two hosts change places: the member with an address of its own does not follow.
    let mut changed = with_prefix("h2-1", "2001:db8:301::/64", "2001:db8:301::77");
    let h3 = changed.hosts.iter_mut().find(|h| h.name == "h3-1").unwrap();
    (h3.prefix, h3.address) = ("2001:db8:201::/64".parse().unwrap(), "2001:db8:201::1".parse().unwrap());
    assert!(w.problem(topology(changed)).contains("with address 2001:db8:301::77, which is outside the new prefix"));
}

#[test]
fn a_node_serves_a_bounded_number_of_branches() {
    let mut w = World::with(fabric(2, 1, 130));
    w.run(group("g")).unwrap();
    w.run(source("g", "h1-1")).unwrap();
    for h in 1..=128 {
        w.run(receiver("g", &format!("h2-{h}"))).unwrap();
    }
    assert!(
        w.problem(receiver("g", "h2-129"))
            .starts_with("Limit: node leaf2 would have 129 branches of group g, a node serves at most 128")
    );
}

#[test]
fn groups() {
    let mut w = world();
    assert!(w.problem(group("Not_a_name")).starts_with("Invalid: metadata.name: \"Not_a_name\" is not a name"));
    assert!(
        w.problem(group_with("x", GroupSpec { path_mtu: 1500, ..GroupSpec::default() }))
            .contains("spec.pathMtu: 1500 is not an RDMA path MTU")
    );
    assert!(
        w.problem(group_with("x", GroupSpec { cnp_window: Duration::from_micros(1), ..GroupSpec::default() }))
            .contains("spec.cnpWindowUs")
    );
    let put = |if_match, create_only, labels| Command::PutGroup {
        tenant: None,
        name: "g".into(),
        labels,
        spec: GroupSpec::default(),
        if_match,
        create_only,
    };
    assert!(w.problem(put(None, true, Labels::new())).starts_with("AlreadyExists: group \"g\""));
    assert_eq!(
        w.problem(put(Some(7), false, Labels::new())),
        "Conflict: group \"g\" is at generation 1, not 7: read it again and repeat the change"
    );
    assert!(
        w.problem(put(None, false, Labels::from([("a b".into(), "c".into())])))
            .contains("metadata.labels: \"a b\" is not a label key")
    );
    let absent = Command::PutGroup {
        tenant: None,
        name: "x".into(),
        labels: Labels::new(),
        spec: GroupSpec::default(),
        if_match: Some(1),
        create_only: false,
    };
    assert_eq!(w.problem(absent), "NotFound: there is no group \"x\"");
    assert_eq!(w.problem(Command::DeleteGroup { name: "x".into() }), "NotFound: there is no group \"x\"");
    // Members have configured their QPs: these fields can only change without members.
    assert!(
        w.problem(group_with("g", GroupSpec { path_mtu: 1024, ..GroupSpec::default() }))
            .starts_with("Invalid: spec.pathMtu: 1024 is not 4096, and members have")
    );
    let psn = canopy_model::ids::Psn::new("p", 5).ok();
    assert!(
        w.problem(group_with("g", GroupSpec { start_psn: psn, ..GroupSpec::default() }))
            .contains("spec.startPsn: 5 is not ")
    );
    for host in ["h1-1", "h2-1"] {
        w.run(leave("g", host)).unwrap();
    }
    w.run(group_with("g", GroupSpec { path_mtu: 1024, start_psn: psn, ..GroupSpec::default() })).unwrap();
    let connection = w.domain.connection("g").unwrap();
    assert_eq!((connection.path_mtu, connection.start_psn.get()), (1024, 5));
}

#[test]
fn encodings_and_mtus() {
    let mut spec = fabric(2, 1, 60);
    spec.links[0].mtu = 4280;
    let name = spec.links[0].label();
    let mut w = World::with(spec.clone());
    w.run(group_with("g", GroupSpec { encoding: EncodingChoice::InBand, ..GroupSpec::default() })).unwrap();
    w.run(source("g", "h1-1")).unwrap();
    let problem = w.problem(receiver("g", "h2-1"));
    assert!(
        problem.starts_with(
            "Invalid: groups[g].spec.encoding: inBand would need an SRH of 88 bytes, but there are at most 60"
        ),
        "{problem}"
    );
    assert!(problem.contains(&name), "{problem}");
    w.run(group("g")).unwrap();
    w.run(receiver("g", "h2-1")).unwrap();
    // Here the group itself requests the infeasible encoding, so the error names its own field.
    let problem = w.problem(group_with("g", GroupSpec { encoding: EncodingChoice::InBand, ..GroupSpec::default() }));
    assert!(problem.starts_with("Invalid: spec.encoding: inBand"), "{problem}");
    // A topology that would make the group infeasible is refused as a whole.
    spec.links[0].mtu = 1500;
    let problem = w.problem(topology(spec.clone()));
    assert!(
        problem.starts_with(&format!(
            "Invalid: groups[g].spec.pathMtu: link {name} has MTU 1500, this group needs 4260 bytes"
        )),
        "{problem}"
    );
    spec.links[0].mtu = 9000;
    let last = spec.links.iter_mut().find(|l| l.b.device == "h2-1").unwrap();
    last.mtu = 1500;
    assert!(
        w.problem(topology(spec)).contains("link leaf2/host1--h2-1/eth0 has MTU 1500, this group needs 4180 bytes")
    );
}

#[test]
fn topologies() {
    let mut w = world();
    let spec = Arc::unwrap_or_clone(w.domain.topology().unwrap().spec);
    let without = |host: &str| {
        let mut s = spec.clone();
        s.hosts.retain(|h| h.name != host);
        s.links.retain(|l| l.b.device != host);
        s
    };
    assert!(
        w.problem(topology(without("h2-1"))).starts_with("InUse: host \"h2-1\" is in use: it is a member of group g")
    );
    w.run(topology(without("h3-1"))).unwrap();
    let mut moved = without("h3-1");
    moved.hosts[0].prefix = "2001:db8:aaaa::/64".parse().unwrap();
    assert!(w.problem(topology(moved.clone())).contains("spec.hosts[0].address"));
    moved.hosts[0].address = "2001:db8:aaaa::1".parse().unwrap();
    assert!(!w.domain.prepare(topology(moved.clone())).unwrap().is_noop());
    let explicit = MemberSpec { address: "2001:db8:101::77".parse().ok(), ..member("h1-1", Role::Source, 0x11) };
    w.run(Command::PutMember { group: "g".into(), spec: explicit, create_only: false, instance: None, lease: None })
        .unwrap();
    assert!(
        w.problem(topology(moved))
            .contains("with address 2001:db8:101::77, which is outside the new prefix 2001:db8:aaaa::/64")
    );
    let mut bad = spec.clone();
    bad.links.clear();
    assert!(w.problem(topology(bad)).starts_with("Invalid: spec.hosts[0]: host \"h1-1\" has no link"));
    assert!(
        w.problem(Command::PutTopology { labels: Labels::new(), spec: spec.into(), if_match: Some(9) })
            .starts_with("Conflict: topology \"default\" is at generation 2, not 9")
    );
    assert!(
        w.problem(Command::DeleteTopology).starts_with("InUse: topology \"default\" is in use: group g has 2 members")
    );
    assert_eq!(World::empty().problem(Command::DeleteTopology), "NotFound: there is no topology \"default\"");
}

#[test]
fn what_was_prepared_before_another_change_is_stale() {
    let mut w = world();
    let early = w.domain.prepare(receiver("g", "h3-1")).unwrap();
    w.run(leave("g", "h2-1")).unwrap();
    let before = format!("{:?}", w.domain);
    let e = w.domain.apply(early, instant(0)).unwrap_err();
    assert_eq!(e, DomainError::Stale { prepared: 4, current: 5 });
    assert_eq!(format!("{:?}", w.domain), before);
}

#[test]
fn reports() {
    let mut w = world();
    assert_eq!(w.domain.report(reported("n9", 1, vec![])).unwrap_err().to_string(), "there is no node \"n9\"");
    let error = ItemError { kind: ItemKind::Port, name: "x".into(), group: None, detail: String::new() };
    let e = w.domain.report(reported("leaf1", 1, vec![error; 16_385])).unwrap_err();
    assert!(e.to_string().starts_with("errors: 16385 errors, at most 16384"));
    assert!(w.domain.agent_connected("n9").is_empty());
}
