// SPDX-License-Identifier: Apache-2.0
//! Deletion of a group that has more members than one transaction removes.

use std::time::{Duration, Instant};

use canopy_controller_core::Command;
use serde_json::json;

use crate::support::{Api, group};

const MEMBERS: usize = 118;
const PATH: &str = "/api/v1/groups/g1";

async fn prepared() -> Api {
    let api = Api::start().await;
    let host = |h: usize| json!({"name": format!("h{h}"), "prefix": format!("2001:db8:{h:x}::/64"), "address": format!("2001:db8:{h:x}::1")});
    let link = |h: usize| json!({"a": format!("n1/eth{h}"), "b": format!("h{h}/eth0")});
    let topology = json!({"apiVersion": "canopy/v1", "kind": "Topology", "metadata": {"name": "default"}, "spec": {
        "nodes": [{"name": "n1", "id": 1}],
        "hosts": (1..=MEMBERS).map(host).collect::<Vec<_>>(),
        "links": (1..=MEMBERS).map(link).collect::<Vec<_>>(),
    }});
    assert_eq!(api.put("/api/v1/topology", &topology).await.status, 201);
    assert_eq!(api.put(PATH, &group("g1")).await.status, 201);
    for h in 1..=MEMBERS {
        let spec = json!({"host": format!("h{h}"), "role": "receiver", "qpn": 17});
        let spec = serde_json::from_value(spec).unwrap();
        let join = Command::PutMember { group: "g1".into(), spec, create_only: true, instance: None, lease: None };
        api.controller.execute(join, None, false).await.unwrap();
    }
    api
}

#[tokio::test]
async fn a_large_group_is_accepted_for_deletion_and_is_gone_soon() {
    let api = prepared().await;
    let dry = api.delete(&format!("{PATH}?dryRun=true")).await.json();
    assert_eq!(dry["summary"], "deleted; 1 group is deleted with its members");
    assert_eq!(dry["effects"][0]["from"], "118 members");

    let tag = api.get(PATH).await.header("etag").to_owned();
    let keyed = [("idempotency-key", "once"), ("if-match", tag.as_str())];
    let accepted = api.send("DELETE", PATH, &keyed, "").await;
    assert_eq!((accepted.status.as_u16(), accepted.header("etag")), (202, tag.as_str()));
    let left = accepted.json();
    assert_eq!((&left["kind"], &left["status"]["phase"]), (&json!("Group"), &json!("Deleting")));
    assert_eq!(left["status"]["reason"], "it is being deleted: 118 members are left");

    let deadline = Instant::now() + Duration::from_secs(60);
    while api.get(PATH).await.status != 404 {
        assert!(Instant::now() < deadline, "the group is still there");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    // Sent again, it is not carried out again, and another group of this name stays.
    let again = api.send("DELETE", PATH, &keyed, "").await;
    assert_eq!((again.status.as_u16(), again.header("idempotency-replayed")), (204, "true"));
    assert_eq!(api.put(PATH, &group("g1")).await.status, 201);
    assert_eq!(api.send("DELETE", PATH, &keyed, "").await.status, 204);
    assert_eq!(api.get(PATH).await.status, 200);
    let audit = api.get("/api/v1/audit?kind=Group").await.json();
    let actions: Vec<&str> = audit["items"].as_array().unwrap().iter().map(|e| e["action"].as_str().unwrap()).collect();
    assert_eq!(actions, ["create", "delete", "create"]);
}
