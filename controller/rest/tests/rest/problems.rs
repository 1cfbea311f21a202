// SPDX-License-Identifier: Apache-2.0
//! Problems in the API: lists, filters, one, the status, the registry, metrics.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::Api;

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
    assert_eq!((&status["restartingAgents"], &status["restarting"]), (&json!(0), &json!([])));
    drop(connection);
    let status = api.get("/api/v1/status").await.json();
    let gone = json!([{"node": "n1", "announced": false, "backWithinMs": 10_000}]);
    assert_eq!((&status["restartingAgents"], &status["restarting"]), (&json!(1), &gone));
    let page = api.get("/plain").await.text;
    assert!(page.contains("restarting") && page.contains("not connected"), "{page}");

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

fn silence(name: &str, spec: Value) -> Value {
    json!({"apiVersion": "canopy/v1", "kind": "Silence", "metadata": {"name": name}, "spec": spec})
}

#[tokio::test(start_paused = true)]
async fn a_problem_that_is_acknowledged_comes_last_and_raises_no_alert() {
    let api = without_agents().await;
    let id = api.get("/api/v1/problems").await.json()["items"][0]["id"].as_str().unwrap().to_owned();
    let mut watch = api.watch("problems", "").await;
    assert_eq!(watch.present().await.0.len(), 2);
    let body = silence("known", json!({"problem": id, "note": "fans ordered"}));
    let created = api.post("/api/v1/silences", &body).await;
    assert_eq!((created.status.as_u16(), created.header("location")), (201, "/api/v1/silences/known"));
    assert_eq!(created.json()["status"], json!({"active": true}));
    assert_eq!(api.post("/api/v1/silences", &body).await.problem().1, "AlreadyExists");

    let list = api.get("/api/v1/problems").await.json();
    assert_eq!(names(&list), vec![agent("n2"), agent("n1")]);
    let known = json!({"name": "known", "note": "fans ordered", "by": list["items"][1]["silence"]["by"]});
    assert_eq!((&list["items"][0]["silence"], &list["items"][1]["silence"]), (&Value::Null, &known));
    let status = api.get("/api/v1/status").await.json();
    assert_eq!((&status["roots"], &status["silenced"]), (&json!({"critical": 1}), &json!(1)));
    assert_eq!(status["problems"][1]["silence"]["name"], "known");
    let metrics = api.get("/metrics").await.text;
    for (node, active) in [("n1", 0), ("n2", 1)] {
        let line = format!("kind=\"node\",object=\"{node}\"}} {active}\n");
        assert!(metrics.contains(&line), "{line}{metrics}");
    }
    // Those who watch see it too.
    let event = watch.next().await;
    assert_eq!((event.name.as_str(), &event.data["silence"]["note"]), ("modified", &json!("fans ordered")));

    assert_eq!(api.delete("/api/v1/silences/known").await.status, 204);
    assert_eq!(names(&api.get("/api/v1/problems").await.json()), vec![agent("n1"), agent("n2")]);
    let audit = api.get("/api/v1/audit?kind=Silence").await.json();
    let actions: Vec<_> = audit["items"].as_array().unwrap().iter().map(|e| e["action"].clone()).collect();
    assert_eq!(actions, [json!("delete"), json!("create")]);
}

#[tokio::test(start_paused = true)]
async fn an_acknowledgement_ends_with_its_problem() {
    let api = without_agents().await;
    let problems = api.get("/api/v1/problems").await.json();
    for (i, problem) in problems["items"].as_array().unwrap().iter().enumerate() {
        let body = silence(&format!("s{i}"), json!({"problem": problem["id"], "note": "x"}));
        assert_eq!(api.post("/api/v1/silences", &body).await.status, 201);
    }
    let _stream = api.controller.watch_node("n1");
    let _connection = api.controller.agent_connected("n1");
    // Longer than the problem needs to close and the silence to end; n2 is still away.
    tokio::time::sleep(Duration::from_secs(200)).await;
    let silences = api.get("/api/v1/silences").await.json();
    let left: Vec<_> = silences["items"].as_array().unwrap().iter().map(|s| s["metadata"]["name"].clone()).collect();
    assert_eq!(left, ["s1"], "{silences}");
    let events = api.get("/api/v1/events").await.json();
    let ended = events["items"].as_array().unwrap().iter().find(|e| e["code"] == "SilenceEnded").unwrap().clone();
    assert_eq!(ended["detail"], "silence s0 ended: the problem is not open any more");
    let audit = api.get("/api/v1/audit?kind=Silence&action=delete").await.json();
    assert_eq!(audit["items"][0]["by"]["kind"], "controller");
}

#[tokio::test(start_paused = true)]
async fn silences_are_refused_by_field_and_written_while_a_commit_is_pending() {
    let api = without_agents().await;
    let refused = |spec: Value| {
        let api = &api;
        async move {
            let (status, _, errors) = api.put("/api/v1/silences/s", &silence("s", spec)).await.problem();
            assert_eq!(status, 422, "{errors:?}");
            errors[0].split(':').next().unwrap().to_owned()
        }
    };
    assert_eq!(refused(json!({"problem": "0123456789abcdef", "note": "x"})).await, "spec.problem");
    assert_eq!(refused(json!({"node": "n1", "note": "x"})).await, "spec.until");
    assert_eq!(refused(json!({"node": "n9", "note": "x", "until": "2100-01-01T00:00:00Z"})).await, "spec.until");
    let soon = canopy_model::rfc3339::format(canopy_units::UnixTime::now() + Duration::from_secs(3600));
    assert_eq!(refused(json!({"node": "n9", "note": "x", "until": soon})).await, "spec.node");
    assert_eq!(refused(json!({"node": "n1", "note": " ", "until": soon})).await, "spec.note");
    assert_eq!(refused(json!({"note": "x"})).await, "spec");

    assert_eq!(api.post("/api/v1/commit", &json!({"timeoutSeconds": 3600})).await.status, 201);
    let body = silence("s", json!({"node": "n1", "note": "x", "until": soon}));
    assert_eq!(api.put("/api/v1/silences/s", &body).await.status, 201);
    assert_eq!(api.get("/api/v1/commit").await.json()["changes"], json!([]));
}
