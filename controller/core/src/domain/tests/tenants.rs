// SPDX-License-Identifier: Apache-2.0
//! Groups of tenants: their pages, and quotas, which hold over restarts, deletions and changes of role.

use super::*;
use crate::quota::{OwnQuotas, Quotas};
use crate::tenant::Scope;
use crate::testing::fabric;
use crate::view::TenantUsage;

fn of(tenant: &str, name: &str) -> Command {
    let Command::PutGroup { name, labels, spec, if_match, create_only, .. } = group(name) else { unreachable!() };
    Command::PutGroup { name, tenant: Some(tenant.to_owned()), labels, spec, if_match, create_only }
}

fn scope(tenants: &[&str]) -> Scope {
    Scope::Tenants(tenants.iter().map(|name| (*name).to_owned()).collect())
}

fn usage(domain: &Domain, tenant: &str) -> TenantUsage {
    domain.tenants(&scope(&[tenant]), None, 1).items[0].usage
}

fn limited(w: &mut World, max_groups: u32, max_receivers: u32) {
    let own = OwnQuotas { max_groups: Some(max_groups), max_receivers: Some(max_receivers), ..OwnQuotas::default() };
    let tenants = [("acme".to_owned(), own)].into();
    w.domain.limit_tenants(Quotas { tenants, ..Quotas::default() });
}

/// Catches a count that differs from what is there after any kind of change, or after a restart.
#[test]
fn usage_is_what_there_is_after_every_change_and_a_restart() {
    let mut w = World::with(fabric(2, 2, 2));
    let check = |w: &World, groups, receivers| {
        for domain in [&w.domain, &w.restarted()] {
            assert_eq!(usage(domain, "acme"), TenantUsage { groups, receivers });
        }
    };
    w.run(of("acme", "g")).unwrap();
    w.run(of("acme", "h")).unwrap();
    w.run(of("other", "o")).unwrap();
    check(&w, 2, 0);
    w.run(source("g", "h1-1")).unwrap();
    w.run(receiver("g", "h2-1")).unwrap();
    w.run(receiver("g", "h2-2")).unwrap();
    w.run(receiver("h", "h2-1")).unwrap();
    w.run(receiver("o", "h2-1")).unwrap();
    check(&w, 2, 3);
    assert!(w.records.contains_key("member/g/h2-1"));
    assert_eq!(w.domain.declared_member("g", "h2-1").unwrap().0.tenant, "acme");
    w.confirm_all();
    w.run(leave("g", "h2-2")).unwrap();
    check(&w, 2, 2);
    w.run(Command::DeleteGroup { name: "g".into() }).unwrap();
    check(&w, 1, 1);
    w.run(Command::DeleteGroup { name: "h".into() }).unwrap();
    check(&w, 0, 0);
    assert_eq!(usage(&w.domain, "other"), TenantUsage { groups: 1, receivers: 1 });
}

#[test]
fn quotas_hold_where_something_is_added_and_nowhere_else() {
    let mut w = World::with(fabric(2, 2, 2));
    limited(&mut w, 2, 1);
    w.run(of("acme", "g")).unwrap();
    w.run(of("acme", "h")).unwrap();
    let refused = w.problem(of("acme", "i"));
    assert!(
        refused.starts_with("Limit: tenant acme has 2 groups, and its quota is 2 (quotas.max_groups)"),
        "{refused}"
    );
    // Other tenants, and changes of what is there, are not concerned.
    w.run(of("other", "i")).unwrap();
    w.run(group("g")).unwrap();
    w.run(source("g", "h1-1")).unwrap();
    w.run(receiver("g", "h2-1")).unwrap();
    w.run(receiver("g", "h2-1")).unwrap();
    let refused = w.problem(receiver("h", "h2-2"));
    assert!(refused.starts_with("Limit: tenant acme has 1 receivers"), "{refused}");
    // A source that is to receive is one more.
    let again = Command::PutMember {
        group: "g".into(),
        spec: member("h1-1", Role::Receiver, 5),
        create_only: false,
        instance: None,
        lease: None,
    };
    assert!(w.problem(again).starts_with("Limit: "));
    w.run(leave("g", "h2-1")).unwrap();
    w.run(receiver("h", "h2-2")).unwrap();
    // What is deleted comes back only while there is room.
    w.run(Command::DeleteGroup { name: "g".into() }).unwrap();
    w.run(of("acme", "x")).unwrap();
    assert!(w.problem(of("acme", "g")).starts_with("Limit: "));
    // One that was lowered takes nothing away, also at a restart.
    w.domain = w.restarted();
    limited(&mut w, 1, 0);
    assert_eq!(usage(&w.domain, "acme"), TenantUsage { groups: 2, receivers: 1 });
    w.run(receiver("h", "h2-2")).unwrap();
    limited(&mut w, 1, 1);
    assert!(
        w.problem(of("acme", "y")).starts_with("Limit: ") && w.problem(receiver("x", "h2-1")).starts_with("Limit: ")
    );
}

/// Catches a rollback that a quota refuses, because it was lowered or its room was used up since.
#[test]
fn what_is_put_back_is_bound_by_no_quota() {
    let mut w = World::with(fabric(2, 2, 2));
    limited(&mut w, 1, 1);
    w.run(of("acme", "g")).unwrap();
    w.run(receiver("g", "h2-1")).unwrap();
    for command in [of("acme", "h"), receiver("g", "h2-2")] {
        assert_eq!(w.domain.prepare(command.clone()).unwrap_err().code(), "Limit");
        assert!(w.domain.prepare_back(command, &crate::principal::Written::default()).is_ok());
    }
}

#[test]
fn a_group_stays_in_its_tenant_and_keeps_it_over_a_restart() {
    let mut w = World::with(fabric(2, 2, 2));
    w.run(of("acme", "g")).unwrap();
    let refused = w.problem(of("default", "g"));
    assert!(refused.starts_with("Invalid: metadata.tenant: \"default\" is not \"acme\""), "{refused}");
    w.run(group("g")).unwrap();
    assert_eq!(w.restarted().tenant_of("g"), Some("acme"));
    for bad in ["", "A", "a.b", &"a".repeat(64)] {
        assert!(w.problem(of(bad, "x")).contains("metadata.tenant: "), "{bad:?}");
    }
    assert_eq!(w.domain.tenant_of("x"), None);
}

/// Catches a page that examines, names or ends at a group outside of the scope.
#[test]
fn a_page_of_a_tenant_costs_and_shows_what_the_tenant_has() {
    let mut w = World::empty();
    for i in 0..40 {
        w.run(of(["a", "b", "c", "d"][i % 4], &format!("g{i:02}"))).unwrap();
    }
    let names = |filter: &GroupFilter, limit| {
        let (mut all, mut after) = (Vec::new(), None);
        loop {
            let page = w.domain.groups(filter, after.as_deref(), limit);
            all.extend(page.items.into_iter().map(|view| view.metadata.name));
            match page.next {
                Some(next) => assert_eq!(all.last(), Some(&next), "the next page begins at a name of the tenant"),
                None => return all,
            }
            after = all.last().cloned();
        }
    };
    let filter = GroupFilter { scope: scope(&["b", "d"]), ..GroupFilter::default() };
    let wanted: Vec<String> = (0..40).filter(|i| i % 2 == 1).map(|i| format!("g{i:02}")).collect();
    for limit in [1, 3, 100] {
        assert_eq!(names(&filter, limit), wanted);
    }
    let prefixed = GroupFilter { prefix: "g1".into(), ..filter };
    assert_eq!(names(&prefixed, 2), wanted[5..10]);
    assert!(names(&GroupFilter { scope: scope(&[]), ..GroupFilter::default() }, 1).is_empty());
    let page = w.domain.tenants(&Scope::Domain, None, 3);
    let of_page = |page: crate::view::Page<crate::view::TenantView>| {
        (page.items.into_iter().map(|t| t.name).collect::<Vec<_>>().join(" "), page.next)
    };
    assert_eq!(of_page(page), ("a b c".into(), Some("c".into())));
    assert_eq!(of_page(w.domain.tenants(&Scope::Domain, Some("c"), 3)), ("d default".into(), None));
    assert_eq!(of_page(w.domain.tenants(&scope(&["x", "b"]), None, 3)), ("b x".into(), None));
}
