// SPDX-License-Identifier: Apache-2.0
//! The audit of hosts: joins and leaves, counted by principal, group and minute.

use canopy_controller_actor::{AuditFilter, Controller, Order, start};
use canopy_controller_core::Command;
use canopy_controller_core::audit::{Action, IntentKind};
use canopy_controller_core::metadata::Labels;
use canopy_controller_core::principal::Principal;
use canopy_controller_core::tenant::Scope;
use canopy_model::group::GroupSpec;
use canopy_model::member::MemberSpec;
use canopy_model::topology::TopologySpec;
use serde_json::json;

use crate::support::{Failing, alice, stop};

async fn carry_out(controller: &Controller, command: Command, by: Principal) {
    controller.carry_out(Order::new(command, by)).await.unwrap();
}

/// Catches joins that are in no audit, each in one of its own, or that displace what operators wrote; and those of another tenant.
#[tokio::test]
async fn joins_and_leaves_of_hosts_are_counted_in_an_audit_of_their_own() {
    let store = Failing::new();
    let running = start(store.clone(), Default::default()).await.unwrap();
    let controller = &running.controller;
    let spec: TopologySpec = serde_json::from_value(json!({
        "nodes": [{"name": "n1", "id": 1}],
        "hosts": [{"name": "h1", "prefix": "2001:db8:1::/64", "address": "2001:db8:1::1"}],
        "links": [{"a": "n1/eth1", "b": "h1/eth0"}],
    }))
    .unwrap();
    carry_out(controller, Command::PutTopology { labels: Labels::new(), spec: spec.into(), if_match: None }, alice())
        .await;
    let (tenant, name, labels, spec) = (None, "g".to_owned(), Labels::new(), GroupSpec::default());
    let group = Command::PutGroup { tenant, name, labels, spec, if_match: None, create_only: false };
    carry_out(controller, group, alice()).await;
    let spec: MemberSpec = serde_json::from_value(json!({"host": "h1", "role": "receiver", "qpn": 17})).unwrap();
    let join = Command::PutMember { group: "g".into(), spec, create_only: true, instance: None, lease: None };
    let leave = Command::DeleteMember { group: "g".into(), host: "h1".into() };
    let user = |uid| Principal { uid: Some(uid), ..Principal::host("h1") };
    for _ in 0..3 {
        carry_out(controller, join.clone(), user(7)).await;
        // The same again changes nothing.
        carry_out(controller, join.clone(), user(7)).await;
        carry_out(controller, leave.clone(), user(7)).await;
    }
    carry_out(controller, join, user(8)).await;
    let of_hosts = |scope| AuditFilter { hosts: true, scope, ..AuditFilter::default() };
    let (entries, next) = controller.audit(of_hosts(Scope::Domain), None, 10).await.unwrap();
    let listed: Vec<_> =
        entries.iter().map(|e| (e.action, e.name.as_str(), e.written.by.uid, e.more + 1, e.last.is_some())).collect();
    let expected = [
        (Action::Join, "g/h1", Some(8), 1, false),
        (Action::Leave, "g/h1", Some(7), 3, true),
        (Action::Join, "g/h1", Some(7), 3, true),
    ];
    assert_eq!((listed.as_slice(), next), (&expected[..], None));
    assert!(entries[1].last > Some(entries[1].written.at));
    let others = of_hosts(Scope::Tenants(["acme".to_owned()].into()));
    assert_eq!(controller.audit(others, None, 10).await.unwrap().0, []);
    // Of operators alone, as before; and an operator's join is one of these.
    carry_out(controller, leave, alice()).await;
    let (entries, _) = controller.audit(AuditFilter::default(), None, 10).await.unwrap();
    let kinds: Vec<_> = entries.iter().map(|e| (e.action, e.kind)).collect();
    let expected = [
        (Action::Delete, IntentKind::Member),
        (Action::Create, IntentKind::Group),
        (Action::Create, IntentKind::Topology),
    ];
    assert_eq!(kinds, expected);
    // After a restart they are there, and new ones are new entries.
    stop(running).await;
    let running = start(store.clone(), Default::default()).await.unwrap();
    let (entries, _) = running.controller.audit(of_hosts(Scope::Domain), None, 10).await.unwrap();
    assert_eq!(entries.len(), 3);
    stop(running).await;
}
