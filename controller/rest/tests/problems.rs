// SPDX-License-Identifier: Apache-2.0
//! Problems in the API: lists, filters, one, the status, the registry, metrics.
#![allow(clippy::unwrap_used)]

mod support;

use std::time::Duration;

use serde_json::{Value, json};
use support::Api;

/// Two nodes whose agents have not connected for long enough.
async fn without_agents() -> Api {
    let api = Api::prepared().await;
    tokio::time::sleep(Duration::from_secs(6)).await;
    api
}

fn names(list: &Value) -> Vec<(String, String)> {
    let text = |v: &Value| v.as_str().unwrap().to_owned();
    let items = list["items"].as_array().unwrap().iter();
    items.map(|p| (text(&p["code"]), text(&p["object"]["name"]))).collect()
}

fn agent(node: &str) -> (String, String) {
    ("AgentDisconnected".into(), node.into())
}

#[tokio::test(start_paused = true)]
async fn problems_are_listed_filtered_and_shown() {
    let api = without_agents().await;
    let list = api.get("/api/v1/problems").await.json();
    assert_eq!((list["kind"].as_str(), names(&list)), (Some("ProblemList"), vec![agent("n1"), agent("n2")]));
    let first = &list["items"][0];
    assert_eq!(
        (&first["severity"], &first["root"], &first["count"], &first["closing"], &first["object"]["kind"]),
        (&json!("critical"), &json!(true), &json!(1), &json!(false), &json!("node"))
    );
    let id = first["id"].as_str().unwrap();
    assert_eq!(&api.get(&format!("/api/v1/problems/{id}")).await.json(), first);
    assert_eq!(api.get("/api/v1/problems/0123").await.problem().0, 404);

    for (query, found) in [
        ("root=true", vec![agent("n1"), agent("n2")]),
        ("severity=critical&limit=1", vec![agent("n1")]),
        ("severity=warning", vec![]),
        ("kind=node&name=n2", vec![agent("n2")]),
        ("kind=group&name=g1", vec![]),
        ("kind=host&name=r1", vec![]),
        ("fieldSelector=code%3DAgentDisconnected,name!%3Dn1", vec![agent("n2")]),
        ("fieldSelector=kind%3Dnode,root%3Dtrue,severity%3Dcritical", vec![agent("n1"), agent("n2")]),
        ("fieldSelector=kind%3Dgroup", vec![]),
    ] {
        assert_eq!(names(&api.get(&format!("/api/v1/problems?{query}")).await.json()), found, "{query}");
    }
    for bad in ["limit=0", "limit=5001", "severity=bad", "kind=node", "name=n1", "kind=pod&name=x", "what=1"] {
        assert_eq!(api.get(&format!("/api/v1/problems?{bad}")).await.problem().0, 400, "{bad}");
    }
    let events = api.get("/api/v1/events?node=n1").await.json();
    let opened = events["items"].as_array().unwrap().iter().find(|e| e["code"] == "ProblemOpened").unwrap().clone();
    assert!(opened["detail"].as_str().unwrap().contains(id), "{opened}");
}

#[tokio::test(start_paused = true)]
async fn the_status_counts_and_names_causes_and_follows_what_changes() {
    let api = without_agents().await;
    let status = api.get("/api/v1/status").await.json();
    assert_eq!((&status["nodes"], &status["connectedNodes"], &status["hosts"]), (&json!(2), &json!(0), &json!(3)));
    assert_eq!((&status["groups"], &status["roots"]), (&json!({"Pending": 1}), &json!({"critical": 2})));
    assert_eq!(status["problems"].as_array().unwrap().len(), 2);
    let page = api.get("/plain").await.text;
    assert!(page.contains("node n1</code> has no connection to its agent"), "{page}");
    let metrics = api.get("/metrics").await.text;
    let wanted =
        "canopy_problem_active{code=\"AgentDisconnected\",severity=\"critical\",kind=\"node\",object=\"n1\"} 1";
    assert!(metrics.contains(wanted), "{metrics}");

    let _stream = api.controller.watch_node("n1");
    let connection = api.controller.agent_connected("n1");
    let status = api.get("/api/v1/status").await.json();
    assert_eq!((&status["connectedNodes"], &status["roots"]["critical"]), (&json!(1), &json!(1)), "{status}");
    // It sends no telemetry.
    tokio::time::sleep(Duration::from_secs(6)).await;
    let list = api.get("/api/v1/problems?kind=node&name=n1").await.json();
    assert!(names(&list).contains(&("AgentSilent".into(), "n1".into())), "{list}");
    drop(connection);

    // A node that leaves the topology has no problems.
    assert_eq!(api.delete("/api/v1/groups/g1").await.status, 204);
    assert_eq!(api.delete("/api/v1/topology").await.status, 204);
    tokio::time::sleep(Duration::from_secs(6)).await;
    assert_eq!(names(&api.get("/api/v1/problems").await.json()), []);
}

#[tokio::test]
async fn the_registry_is_served() {
    let api = Api::start().await;
    let codes = api.get("/api/v1/problem-codes").await.json();
    let down = codes["items"].as_array().unwrap().iter().find(|c| c["code"] == "LinkDown").unwrap().clone();
    assert_eq!(
        (&down["object"], &down["severity"], &down["opensAfterMs"]),
        (&json!("link"), &json!("warning"), &json!(0))
    );
}
