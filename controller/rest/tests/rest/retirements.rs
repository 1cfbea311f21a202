// SPDX-License-Identifier: Apache-2.0
//! Nodes that leave for good: the steps as a client sees them, the order to the agent, what is refused, and the audit.

use std::time::Duration;

use canopy_model::retirement::{CleanedUp, MINOR_VERSION};
use canopy_model::status::NodeStatus;
use serde_json::{Value, json};

use crate::support::Api;

const PATH: &str = "/api/v1/nodes/n1/retire";

/// The agent of `node` is connected, as long as what is returned is kept, and has applied what it has to.
fn connect(api: &Api, node: &str) -> impl Sized + use<> {
    let specs = api.controller.watch_node(node).unwrap();
    let connection = api.controller.agent_connected(node);
    let (observed_term, observed_generation) = (specs.borrow().term, specs.borrow().generation);
    let node = node.to_owned();
    let status =
        NodeStatus { node, observed_term, observed_generation, minor_version: MINOR_VERSION, ..NodeStatus::default() };
    api.controller.report(status).unwrap();
    (specs, connection)
}

/// The node's retirement, once its step is `step`.
async fn reached(api: &Api, step: &str) -> Value {
    let deadline = std::time::Instant::now() + Duration::from_secs(60);
    loop {
        let node = api.get("/api/v1/nodes/n1").await.json();
        if node["status"]["retirement"]["step"] == step {
            return node["status"]["retirement"].clone();
        }
        assert!(std::time::Instant::now() < deadline, "{node}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

async fn audit(api: &Api) -> Vec<Value> {
    let audit = api.get("/api/v1/audit?kind=Identity").await.json();
    audit["items"].as_array().unwrap().iter().map(|e| json!([e["action"], e["name"]])).collect()
}

/// Catches an order that comes before the agent is there or only once, a report of another retirement that ends this one, and an entry of
/// the audit about what was refused.
#[tokio::test]
async fn a_node_is_drained_and_its_agent_gets_the_order_on_each_stream_until_it_has_reported() {
    let api = Api::prepared().await;
    for (body, status) in [(json!({"timeoutSeconds": 1}), 422), (json!({"reason": ""}), 422), (json!({"x": 1}), 422)] {
        assert_eq!(api.post(PATH, &body).await.status, status, "{body}");
    }
    assert_eq!(api.post("/api/v1/nodes/none/retire", &json!({})).await.status, 404);
    assert_eq!(api.send("DELETE", PATH, &[], "").await.status, 404);
    assert_eq!(audit(&api).await, Vec::<Value>::new());

    let begun = api.post(PATH, &json!({"reason": "old"})).await;
    assert_eq!((begun.status.as_u16(), begun.json()["status"]["retirement"]["step"].clone()), (200, json!("Draining")));
    assert_eq!(api.get("/api/v1/drains/n1").await.json()["spec"]["reason"], "old");
    assert_eq!(api.send("DELETE", "/api/v1/drains/n1", &[], "").await.status, 409);
    let gone = api.send("DELETE", PATH, &[], "").await;
    assert_eq!((gone.status.as_u16(), gone.json()["status"]["retirement"].clone()), (200, Value::Null));
    assert_eq!(api.get("/api/v1/drains/n1").await.status, 404);
    let entries = || [json!(["cancel", "node/n1"]), json!(["retire", "node/n1"])];
    assert_eq!(audit(&api).await, entries());

    api.post(PATH, &json!({"reason": "old"})).await;
    let _others = connect(&api, "n2");
    let waits_for = reached(&api, "Draining").await["waitsFor"].as_str().unwrap().to_owned();
    assert!(waits_for.starts_with("its agent, which is not connected"), "{waits_for}");
    let agent = connect(&api, "n1");
    let mut orders = api.controller.clean_up_orders("n1");
    let order = tokio::time::timeout(Duration::from_secs(60), orders.next()).await.unwrap();
    let again =
        tokio::time::timeout(Duration::from_secs(60), api.controller.clean_up_orders("n1").next()).await.unwrap();
    assert_eq!(order, again);
    assert_eq!(reached(&api, "CleaningUp").await["reason"], "old");
    assert_eq!(api.send("DELETE", PATH, &[], "").await.status, 409);

    let report = |retirement, failed: Option<&str>| {
        let report = CleanedUp { retirement, removed: vec!["3 routes".into()], failed: failed.map(Into::into) };
        api.controller.cleaned_up("n1", report)
    };
    for failed in [None, Some("other")] {
        let refused = report(order.retirement + 1, failed).await.unwrap_err().to_string();
        assert!(refused.contains(&format!("under way is {}", order.retirement)), "{refused}");
    }
    report(order.retirement, Some("busy")).await.unwrap();
    let still = reached(&api, "CleaningUp").await;
    assert_eq!((&still["failed"], &still["removed"]), (&json!("busy"), &json!([])));
    report(order.retirement, None).await.unwrap();
    assert_eq!(reached(&api, "Revoking").await["removed"], json!(["3 routes"]));
    assert_eq!(api.controller.retirements_to_revoke(), [("n1".to_owned(), order.retirement)]);
    drop(agent);
    let events = api.get("/api/v1/events?code=NodeRetirement").await.text;
    assert!(!events.contains("other"), "{events}");
    assert!(events.contains("cancelled") && events.contains("busy") && events.contains("3 routes"), "{events}");
}

/// Catches a step that cannot be taken back on what a commit may take back, one that is never taken after it, and an entry of the audit
/// about what was refused.
#[tokio::test]
async fn no_retirement_begins_ends_or_advances_while_a_commit_is_pending() {
    let api = Api::prepared().await;
    let begin = async || {
        let begun = api.post("/api/v1/commit", &json!({"timeoutSeconds": 600})).await;
        assert!(begun.status.is_success(), "{}", begun.text);
        json!({"id": begun.json()["id"]})
    };
    let commit = begin().await;
    for refused in [api.post(PATH, &json!({})).await, api.send("DELETE", PATH, &[], "").await] {
        assert_eq!((refused.problem().0, refused.problem().1.as_str()), (409, "NotReversible"), "{}", refused.text);
    }
    assert_eq!(audit(&api).await, Vec::<Value>::new());
    assert_eq!(api.post("/api/v1/commit/cancel", &commit).await.status, 200);

    // It waits for its agent; what makes the next step due comes while a commit is pending.
    assert_eq!(api.post(PATH, &json!({"acceptLoss": true})).await.status, 200);
    let commit = begin().await;
    let _agents = ["n1", "n2"].map(|node| connect(&api, node));
    // Behind changes that the commit has, a step would have been taken.
    let headers = [("content-type", "application/json"), ("canopy-commit", commit["id"].as_str().unwrap())];
    for name in ["other", "another"] {
        let group = crate::support::group(name).to_string();
        let put = api.send("PUT", &format!("/api/v1/groups/{name}"), &headers, group).await;
        assert_eq!(put.status, 201, "{}", put.text);
    }
    let node = api.get("/api/v1/nodes/n1").await.json();
    assert_eq!(node["status"]["retirement"]["step"], "Draining", "{node}");
    assert_eq!(api.post("/api/v1/commit/cancel", &commit).await.status, 200);
    reached(&api, "CleaningUp").await;
}
