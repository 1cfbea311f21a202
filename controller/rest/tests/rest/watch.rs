// SPDX-License-Identifier: Apache-2.0
//! Streams of changes over the real router.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use canopy_controller_core::principal::Principal;
use canopy_controller_core::role::Role;
use canopy_controller_rest::{Limits, Sessions, Watches, router_with};
use canopy_model::status::NodeStatus;
use canopy_store::MemStore;
use canopy_units::UnixTime;
use serde_json::json;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::support::{Api, group, member, topology, with};

/// Catches a stream that leaves out what exists, and a change that is not sent, or sent as another one.
#[tokio::test]
async fn a_stream_begins_with_what_exists_and_continues_with_what_changes() {
    let api = Api::prepared().await;
    let mut watch = api.watch("groups", "").await;
    let (present, token) = watch.present().await;
    assert_eq!(present.iter().map(|e| e.brief()).collect::<Vec<_>>(), [("added", "g1")]);
    assert_eq!(present[0].data, api.get("/api/v1/groups/g1").await.json());

    api.put("/api/v1/groups/g2", &group("g2")).await;
    let added = watch.next().await;
    assert_eq!(added.brief(), ("added", "g2"));
    assert_eq!(added.data, api.get("/api/v1/groups/g2").await.json());
    api.put("/api/v1/groups/g2", &with(group("g2"), |g| g["spec"]["pathMtu"] = json!(1024))).await;
    let modified = watch.next().await;
    assert_eq!((modified.brief(), &modified.data["spec"]["pathMtu"]), (("modified", "g2"), &json!(1024)));
    // What changes nothing is no change.
    api.put("/api/v1/groups/g2", &with(group("g2"), |g| g["spec"]["pathMtu"] = json!(1024))).await;
    api.delete("/api/v1/groups/g2").await;
    let deleted = watch.next().await;
    let identity = json!({"apiVersion": "canopy/v1", "kind": "Group", "metadata": {"name": "g2"}});
    assert_eq!((deleted.name.as_str(), &deleted.data), ("deleted", &identity));
    api.post("/api/v1/groups/g1/members", &member("r1", "receiver", 17)).await;
    assert_eq!(watch.next().await.data["status"]["receivers"], 1);

    let sequence = |token: &str| token.split_once('.').unwrap().1.parse::<u64>().unwrap();
    assert_eq!((sequence(&token), sequence(&deleted.id.unwrap())), (0, 3));
}

/// Catches a change that falls between two streams, and one that is sent twice.
#[tokio::test]
async fn a_stream_continues_after_its_token() {
    let api = Api::prepared().await;
    let (_, token) = api.watch("groups", "").await.present().await;
    api.put("/api/v1/groups/g2", &group("g2")).await;
    api.put("/api/v1/groups/g3", &group("g3")).await;
    let mut watch = api.watch("groups", &format!("&after={token}")).await;
    let (first, second) = (watch.next().await, watch.next().await);
    assert_eq!((first.brief(), second.brief()), (("added", "g2"), ("added", "g3")));
    // A browser that connects again repeats the first URL and adds the header.
    let header = [("last-event-id", first.id.as_deref().unwrap())];
    let mut again = api.watch_with("groups", &format!("&after={token}"), &header).await;
    assert_eq!(again.next().await, second);
    api.delete("/api/v1/groups/g3").await;
    assert_eq!((watch.next().await.brief(), again.next().await.brief()), (("deleted", "g3"), ("deleted", "g3")));
}

/// Catches a stream that continues with the changes of another kind or of another controller, without those in between.
#[tokio::test]
async fn a_token_of_something_else_is_gone() {
    let api = Api::prepared().await;
    let (_, of_nodes) = api.watch("nodes", "").await.present().await;
    let (_, of_groups) = api.watch("groups", "").await.present().await;
    let (_, of_another) = Api::prepared().await.watch("groups", "").await.present().await;
    let of_the_future = of_groups.replace(".0", ".7");
    for token in [of_nodes, of_another, of_the_future] {
        let mut watch = api.watch("groups", &format!("&after={token}")).await;
        let gone = watch.any().await.unwrap();
        assert!(gone.name == "gone" && gone.data["reason"].as_str().unwrap().contains("without `after`"), "{gone:?}");
        assert_eq!(watch.any().await, None);
    }
}

#[tokio::test(start_paused = true)]
async fn heartbeats_come_every_five_seconds_and_the_stream_ends_in_time() {
    let api = Api::prepared().await;
    let begin = Instant::now();
    let mut watch = api.watch("groups", "&timeoutSeconds=12").await;
    watch.present().await;
    for seconds in [5, 10] {
        let heartbeat = watch.any().await.unwrap();
        assert_eq!((heartbeat.name.as_str(), heartbeat.id), ("heartbeat", None));
        assert!(heartbeat.data["timeUnixNs"].as_u64().unwrap() > 1_700_000_000_000_000_000);
        assert_eq!(begin.elapsed().as_secs(), seconds);
    }
    let bye = watch.any().await.unwrap();
    assert!(bye.name == "bye" && bye.data["reason"].as_str().unwrap().contains("timeoutSeconds"), "{bye:?}");
    assert_eq!((begin.elapsed().as_secs(), watch.any().await), (12, None));
    // A stream outlives the time that other requests have.
    let mut watch = api.watch("groups", "&timeoutSeconds=3600").await;
    tokio::time::sleep(canopy_controller_rest::REQUEST_TIMEOUT * 2).await;
    watch.present().await;
    api.put("/api/v1/groups/g2", &group("g2")).await;
    assert_eq!(watch.next().await.brief(), ("added", "g2"));
}

async fn with_slots(slots: usize) -> (Api, watch::Sender<bool>) {
    let running = canopy_controller_actor::start(Arc::new(MemStore::new()), Default::default()).await.unwrap();
    let controller = running.controller;
    let (close, closing) = watch::channel(false);
    let watches = Watches::new(closing, slots);
    let router = router_with(
        controller.clone(),
        watches,
        Limits::default(),
        Sessions::default(),
        Default::default(),
        None,
        None,
    );
    (Api { router, controller }.by(Principal::operator("", None), Some(Role::Viewer)), close)
}

/// Catches streams that keep other requests from connecting, and a slot that is lost.
#[tokio::test]
async fn streams_have_slots_and_end_with_the_controller() {
    let (api, close) = with_slots(2).await;
    let (first, mut second) = (api.watch("nodes", "").await, api.watch("events", "").await);
    let (status, code, _) = api.get("/api/v1/groups?watch=true").await.problem();
    assert_eq!((status, code.as_str()), (429, "TooManyStreams"));
    assert_eq!(api.get("/api/v1/groups").await.status, 200);
    drop(first);
    let mut third = api.watch("groups", "").await;
    third.present().await;
    second.present().await;
    close.send_replace(true);
    for watch in [&mut second, &mut third] {
        let bye = watch.next().await;
        assert!(bye.name == "bye" && bye.data["reason"].as_str().unwrap().contains("stopping"), "{bye:?}");
        assert_eq!(watch.any().await, None);
    }
}

#[tokio::test]
async fn wrong_parameters_are_refused_by_name() {
    let api = Api::prepared().await;
    for (query, field) in [
        ("groups?watch=yes", "watch"),
        ("groups?watch=true&timeoutSeconds=0", "timeoutSeconds"),
        ("groups?watch=true&timeoutSeconds=3601", "timeoutSeconds"),
        ("groups?watch=true&timeoutSeconds=-1", "timeoutSeconds"),
        ("groups?watch=true&after=7", "after"),
        ("groups?watch=true&limit=1", "limit"),
        ("groups?watch=true&continue=67", "continue"),
        ("groups?watch=true&labelSelector=a", "labelSelector"),
        ("groups?after=1.2", "after"),
        ("nodes?timeoutSeconds=5", "timeoutSeconds"),
        ("nodes?watch=true&limit=5", "limit"),
        ("nodes?watch=true&summary=true", "summary"),
        ("nodes?watch=true&nameContains=n", "nameContains"),
        ("problems?watch=true&root=true", "root"),
        ("problems?watch=true&severity=info", "severity"),
        ("problems?after=1.2", "after"),
        ("events?watch=true&group=g1", "group"),
        ("drains?watch=true&labelSelector=a", "labelSelector"),
        ("drains?after=1.2", "after"),
        ("audit?watch=true&by=alice", "by"),
        ("audit?watch=true&limit=5", "limit"),
        ("audit?timeoutSeconds=5", "timeoutSeconds"),
        ("events?watch=true&after=1", "after"),
        ("events?after=1.2", "after"),
        ("events?after=-1", "after"),
    ] {
        let (status, _, errors) = api.get(&format!("/api/v1/{query}")).await.problem();
        assert!(status == 400 && errors[0].starts_with(&format!("{field}: ")), "{query}: {errors:?}");
    }
    let bad = [("last-event-id", "x")];
    let (status, _, errors) = api.send("GET", "/api/v1/groups?watch=true", &bad, "").await.problem();
    assert!(status == 400 && errors[0].starts_with("Last-Event-ID: "), "{errors:?}");
    api.put("/api/v1/groups/g2", &group("g2")).await;
    assert_eq!(api.get("/api/v1/events?after=0").await.json()["items"][0]["sequence"], 1);
}

fn report(node: &str, version: &str) -> NodeStatus {
    NodeStatus { node: node.into(), agent_version: version.into(), ..NodeStatus::default() }
}

/// Catches a change for every message of an agent, also where it changes nothing.
#[tokio::test]
async fn a_node_is_sent_when_it_differs() {
    let api = Api::prepared().await;
    let mut watch = api.watch("nodes", "").await;
    let (present, _) = watch.present().await;
    assert_eq!(present.iter().map(|e| e.brief()).collect::<Vec<_>>(), [("added", "n1"), ("added", "n2")]);
    assert_eq!(present[1].data, api.get("/api/v1/nodes/n2").await.json());
    let _spec = api.controller.watch_node("n1").unwrap();
    let connection = api.controller.agent_connected("n1");
    assert_eq!(watch.next().await.data["status"]["connected"], true);
    for _ in 0..3 {
        api.controller.report(report("n2", "1")).unwrap();
        api.controller.telemetry_received("n1", UnixTime::now(), std::iter::empty());
    }
    let changed = watch.next().await;
    assert_eq!((changed.brief(), &changed.data["status"]["agentVersion"]), (("modified", "n2"), &json!("1")));
    // Reports without news come between; the first change after them is the next event.
    api.controller.report(report("n2", "1")).unwrap();
    tokio::time::sleep(Duration::from_millis(200)).await;
    drop(connection);
    assert_eq!(watch.next().await.data["status"]["connected"], false);
    api.delete("/api/v1/topology").await;
    let (first, second) = (watch.next().await, watch.next().await);
    assert_eq!((first.brief(), second.brief()), (("deleted", "n1"), ("deleted", "n2")));
}

/// Catches an event that is lost or sent twice where the stream changes from the past to the present.
#[tokio::test]
async fn every_event_is_sent_once() {
    let api = Api::prepared().await;
    let mut watch = api.watch("events", "").await;
    let (present, token) = watch.present().await;
    let sequence = |e: &crate::support::Event| e.data["sequence"].as_u64().unwrap();
    let mut seen: Vec<u64> = present.iter().map(sequence).collect();
    for n in 2..20 {
        api.put(&format!("/api/v1/groups/g{n}"), &group(&format!("g{n}"))).await;
    }
    let listed = api.get("/api/v1/events?limit=4096").await.json()["items"].as_array().unwrap().len() as u64;
    assert!(listed >= 19, "{listed}");
    let mut again = api.watch("events", &format!("&after={token}")).await;
    while *seen.last().unwrap() + 1 < listed {
        let event = watch.next().await;
        assert_eq!(again.next().await, event);
        seen.push(sequence(&event));
    }
    assert_eq!(seen, (0..listed).collect::<Vec<_>>());
    // One that begins now has all of them as well.
    let (present, _) = api.watch("events", "").await.present().await;
    assert_eq!(present.iter().map(sequence).collect::<Vec<_>>()[..seen.len()], seen);
}

#[tokio::test(start_paused = true)]
async fn problems_open_change_and_close_in_the_stream() {
    let api = Api::start().await;
    let mut watch = api.watch("problems", "").await;
    assert!(watch.present().await.0.is_empty());
    api.put("/api/v1/topology", &topology()).await;
    let mut open = BTreeMap::new();
    let mut apply = |event: crate::support::Event| {
        let id = event.data["id"].as_str().unwrap().to_owned();
        match event.name.as_str() {
            "deleted" => assert!(open.remove(&id).is_some(), "{id} was not open"),
            _ => _ = open.insert(id, event.data),
        }
        open.len()
    };
    // Two nodes have no agent.
    while apply(watch.next().await) < 2 {}
    api.delete("/api/v1/topology").await;
    while apply(watch.next().await) > 0 {}
    assert_eq!(api.get("/api/v1/problems").await.json()["items"], json!([]));
}

/// Catches a kind that is missing in the stream of several, one that is there without being asked for, and a change between `synced` and
/// the list that is read after it.
#[tokio::test]
async fn one_stream_has_the_changes_of_several_kinds() {
    let api = Api::prepared().await;
    let mut watch = api.watch_topics("?topics=groups,nodes").await;
    assert_eq!(watch.next().await.name, "synced");
    api.put("/api/v1/groups/g2", &group("g2")).await;
    let added = watch.next().await;
    assert_eq!((added.brief(), &added.id), (("groups.added", "g2"), &None));
    assert_eq!(added.data, api.get("/api/v1/groups/g2").await.json());
    // The events of both are not asked for.
    let wider = with(topology(), |t| t["spec"]["nodes"][1] = json!({"name": "n3", "id": 3}));
    let wider = with(
        wider,
        |t| t["spec"]["links"] = json!([{"a": "n1/eth1", "b": "n3/eth1"}, {"a": "n1/eth2", "b": "s1/eth0"}, {"a": "n3/eth2", "b": "r1/eth0"}, {"a": "n3/eth3", "b": "r2/eth0"}]),
    );
    assert_eq!(api.put("/api/v1/topology", &wider).await.status, 200);
    let mut names = std::collections::BTreeSet::new();
    while names.len() < 3 {
        let event = watch.next().await;
        let (kind, name) = event.brief();
        if kind.starts_with("nodes.") {
            names.insert((kind.to_owned(), name.to_owned()));
        }
    }
    let names: Vec<_> = names.iter().map(|(kind, name)| (kind.as_str(), name.as_str())).collect();
    assert_eq!(names, [("nodes.added", "n3"), ("nodes.deleted", "n2"), ("nodes.modified", "n1")]);
}

/// Catches a stream that ends without a word, and a parameter that is not checked.
#[tokio::test]
async fn a_stream_of_several_kinds_ends_and_refuses_as_the_others_do() {
    let api = Api::prepared().await;
    let mut watch = api.watch_topics("?topics=events&timeoutSeconds=1").await;
    assert_eq!((watch.next().await.name.as_str(), watch.next().await.name.as_str()), ("synced", "bye"));
    assert_eq!(watch.any().await, None);
    for (query, field) in [
        ("topics=", "topics"),
        ("topics=groups,groups", "topics"),
        ("topics=links", "topics"),
        ("topics=drain", "topics"),
        ("topics=nodes&timeoutSeconds=0", "timeoutSeconds"),
    ] {
        let (status, _, errors) = api.get(&format!("/api/v1/watch?{query}")).await.problem();
        assert_eq!(status, 400, "{query}");
        assert!(errors[0].starts_with(field), "{errors:?}");
    }
}
