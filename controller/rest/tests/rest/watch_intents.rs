// SPDX-License-Identifier: Apache-2.0
//! Streams of what operators write: topology, drains, commits and the audit.

use canopy_controller_core::Command;
use serde_json::{Value, json};

use crate::support::{Api, Event, group, member, topology, with};

fn drain(name: &str, reason: &str) -> Value {
    json!({"apiVersion": "canopy/v1", "kind": "Drain", "metadata": {"name": name},
        "spec": {"link": "n1/eth1", "reason": reason}})
}

/// Catches a drain that is not sent, one that is sent without a change, and a number of groups that stays what it was.
#[tokio::test]
async fn drains_are_sent_when_they_or_their_groups_change() {
    let api = Api::prepared().await;
    api.post("/api/v1/drains", &drain("d1", "optics")).await;
    let mut watch = api.watch("drains", "").await;
    let (present, token) = watch.present().await;
    assert_eq!(present.iter().map(|e| e.brief()).collect::<Vec<_>>(), [("added", "d1")]);
    assert_eq!(present[0].data, api.get("/api/v1/drains/d1").await.json());
    // Another write of an operator is no change of a drain.
    api.put("/api/v1/groups/g2", &group("g2")).await;
    api.post("/api/v1/drains", &drain("d2", "fans")).await;
    let added = watch.next().await;
    assert_eq!((added.brief(), &added.data), (("added", "d2"), &api.get("/api/v1/drains/d2").await.json()));
    api.put("/api/v1/drains/d2", &drain("d2", "fans of n2")).await;
    assert_eq!(watch.next().await.data["spec"]["reason"], "fans of n2");
    api.delete("/api/v1/drains/d2").await;
    let deleted = watch.next().await;
    assert_eq!(deleted.brief(), ("deleted", "d2"));
    // Hosts join: no operator writes.
    for of in [member("s1", "source", 18), member("r1", "receiver", 17)] {
        let spec = serde_json::from_value(of["spec"].clone()).unwrap();
        let join = Command::PutMember { group: "g1".into(), spec, create_only: true, instance: None, lease: None };
        api.controller.execute(join, None, false).await.unwrap();
    }
    let moved = watch.next().await;
    assert_eq!((moved.brief(), &moved.data["status"]["groups"]), (("modified", "d1"), &json!(1)));
    // A write does not wait for the next comparison after a change of groups, and is not lost in between.
    api.put("/api/v1/drains/d1", &drain("d1", "optics of n2")).await;
    assert_eq!(watch.next().await.data["spec"]["reason"], "optics of n2");
    let mut again = api.watch("drains", &format!("&after={token}")).await;
    assert_eq!((again.next().await.brief(), again.next().await.brief()), (("added", "d2"), ("modified", "d2")));
    assert_eq!(again.next().await, deleted);
}

/// Catches an entry that is lost or sent twice where the stream changes from the past to the present.
#[tokio::test]
async fn every_entry_of_the_audit_is_sent_once() {
    let api = Api::prepared().await;
    let mut watch = api.watch("audit", "").await;
    let name = |e: &Event| e.data["name"].as_str().unwrap().to_owned();
    let (present, _) = watch.present().await;
    assert_eq!(present.iter().map(name).collect::<Vec<_>>(), ["default", "g1"]);
    for i in 0..600 {
        api.put(&format!("/api/v1/groups/t{i}"), &group(&format!("t{i}"))).await;
    }
    let mut late = api.watch("audit", "").await;
    let (seen, _) = late.present().await;
    let mut sequences: Vec<u64> = seen.iter().map(|e| e.data["sequence"].as_u64().unwrap()).collect();
    api.delete("/api/v1/groups/t7").await;
    while sequences.len() < 603 {
        let event = late.next().await;
        assert_eq!(event.name, "added");
        sequences.push(event.data["sequence"].as_u64().unwrap());
    }
    assert!(sequences.windows(2).all(|pair| pair[0] + 1 == pair[1]), "{sequences:?}");
    for i in 0..600 {
        assert_eq!(name(&watch.next().await), format!("t{i}"));
    }
    let last = watch.next().await;
    assert_eq!((name(&last).as_str(), &last.data["action"]), ("t7", &json!("delete")));
    assert_eq!(last.data, api.get("/api/v1/audit?limit=1").await.json()["items"][0]);
}

/// Catches a commit whose changes, end or successor is not sent, and one that is sent for a write that is no part of it.
#[tokio::test]
async fn a_commit_is_sent_as_it_goes() {
    let api = Api::prepared().await;
    let mut watch = api.watch_topics("?topics=commits,topology").await;
    assert_eq!(watch.next().await.name, "synced");
    let begun = api.post("/api/v1/commit", &json!({"timeoutSeconds": 600})).await.json();
    let id = begun["id"].as_str().unwrap().to_owned();
    let mut of = async |wanted: &str| {
        let event = watch.next().await;
        assert_eq!((event.name.as_str(), &event.data["id"]), (wanted, &json!(id)));
        event.data
    };
    assert_eq!(of("commits.added").await["phase"], "Pending");
    let headers = [("content-type", "application/json"), ("canopy-commit", id.as_str())];
    api.send("PUT", "/api/v1/groups/g2", &headers, group("g2").to_string()).await;
    assert_eq!(of("commits.modified").await["changes"][0]["name"], "g2");
    // A host joins: nothing of the commit.
    api.post("/api/v1/commit/extend", &json!({"timeoutSeconds": 900, "id": id})).await;
    of("commits.modified").await;
    assert_eq!(api.post("/api/v1/commit/cancel", &json!({"id": id})).await.status, 200);
    let ended = of("commits.modified").await;
    assert_eq!(ended["phase"], "Cancelled");

    let wider = with(topology(), |t| t["spec"]["links"][0]["rateBps"] = json!(1_000_000_000));
    assert_eq!(api.put("/api/v1/topology", &wider).await.status, 200);
    let modified = watch.next().await;
    assert_eq!(modified.brief(), ("topology.modified", "default"));
    assert_eq!(modified.data["spec"], api.get("/api/v1/topology").await.json()["spec"]);
    assert_eq!(api.delete("/api/v1/groups/g1").await.status, 204);
    assert_eq!(api.delete("/api/v1/topology").await.status, 204);
    assert_eq!(watch.next().await.brief(), ("topology.deleted", "default"));
    api.put("/api/v1/topology", &topology()).await;
    assert_eq!(watch.next().await.brief(), ("topology.added", "default"));
}
