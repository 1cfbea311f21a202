// SPDX-License-Identifier: Apache-2.0
//! Log levels that hold for a while: who gets them, what is refused, and the audit.

use std::time::Duration;

use canopy_controller_actor::log_levels::LogTarget;
use canopy_model::log_level::{LogFilter, LogOrder, MINOR_VERSION};
use canopy_model::status::NodeStatus;
use serde_json::{Value, json};

use crate::support::Api;

const PATH: &str = "/api/v1/log-levels";

/// The agent of `node` is connected, as long as what is returned is kept, and has reported this version of the contract.
fn connect(api: &Api, node: &str, minor_version: u32) -> impl Sized + use<> {
    let specs = api.controller.watch_node(node).unwrap();
    let connection = api.controller.agent_connected(node);
    let status = NodeStatus { node: node.into(), minor_version, ..NodeStatus::default() };
    api.controller.report(status).unwrap();
    (specs, connection)
}

/// Who logs what.
fn levels(list: &Value) -> Vec<(Value, String)> {
    let items = list["items"].as_array().unwrap();
    items.iter().map(|item| (item["node"].clone(), item["level"].as_str().unwrap().to_owned())).collect()
}

async fn next(orders: &mut canopy_controller_actor::log_levels::LogOrders) -> LogOrder {
    tokio::time::timeout(Duration::from_secs(60), orders.next()).await.expect("no order came")
}

#[tokio::test]
async fn a_level_goes_to_the_one_that_it_is_for_and_comes_again_after_a_reconnect() {
    let api = Api::prepared().await;
    let _agents = [connect(&api, "n1", MINOR_VERSION), connect(&api, "n2", MINOR_VERSION)];
    let mut of_n1 = api.controller.log_orders(LogTarget::Agent("n1".into()));
    let mut of_controller = api.controller.log_orders(LogTarget::Controller);

    let set = api.post(PATH, &json!({"node": "n1", "level": "info,canopy_datapath=debug", "forSeconds": 600})).await;
    assert_eq!(set.status, 200, "{}", set.text);
    assert_eq!(levels(&set.json()), [(json!("n1"), "info,canopy_datapath=debug".to_owned())]);
    let left = set.json()["items"][0]["leftNs"].as_u64().unwrap();
    assert!(left > 500_000_000_000 && left <= 600_000_000_000, "{left}");
    let order = next(&mut of_n1).await;
    let filter = LogFilter::new("", "info,canopy_datapath=debug").unwrap();
    assert!(order.filter == Some(filter.clone()) && order.within <= Duration::from_secs(600), "{order:?}");

    api.post(PATH, &json!({"level": "trace"})).await;
    assert_eq!(next(&mut of_controller).await.filter.unwrap().as_str(), "trace");
    let all = api.get(PATH).await.json();
    assert_eq!(levels(&all).len(), 2);
    assert_eq!(levels(&all)[0], (Value::Null, "trace".to_owned()));
    let controllers = api.get("/api/v1/controllers").await.json();
    assert_eq!(controllers["items"][0]["status"]["logLevel"]["level"], "trace");

    // Another stream of the node: the time that is left.
    let again = next(&mut api.controller.log_orders(LogTarget::Agent("n1".into()))).await;
    assert!(again.filter == Some(filter) && again.within <= order.within, "{again:?}");

    let back = api.post(PATH, &json!({"node": "n1"})).await;
    assert_eq!(levels(&back.json()), [(Value::Null, "trace".to_owned())]);
    assert_eq!(next(&mut of_n1).await, LogOrder::default());

    let audit = api.get("/api/v1/audit?kind=LogLevel").await.json();
    let entries: Vec<_> =
        audit["items"].as_array().unwrap().iter().map(|e| (e["action"].clone(), e["name"].clone())).collect();
    let of = |action: &str, name: &str| (json!(action), json!(name));
    assert_eq!(entries, [of("delete", "agent/n1"), of("update", "controller"), of("update", "agent/n1")]);
}

#[tokio::test]
async fn a_level_whose_time_has_passed_is_not_listed_and_not_sent() {
    let api = Api::prepared().await;
    api.post(PATH, &json!({"level": "debug", "forSeconds": 1})).await;
    let deadline = std::time::Instant::now() + Duration::from_secs(60);
    while !levels(&api.get(PATH).await.json()).is_empty() {
        assert!(std::time::Instant::now() < deadline, "it holds for ever");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let mut orders = api.controller.log_orders(LogTarget::Controller);
    api.post(PATH, &json!({"level": "warn"})).await;
    assert_eq!(next(&mut orders).await.filter.unwrap().as_str(), "warn");
}

#[tokio::test]
async fn what_cannot_be_applied_is_refused_and_leaves_no_entry() {
    let api = Api::prepared().await;
    let _agent = connect(&api, "n2", MINOR_VERSION - 1);
    for (body, status, code, field) in [
        (json!({"node": "n9", "level": "debug"}), 404, "NotFound", ""),
        (json!({"node": "n1", "level": "debug"}), 409, "NotConnected", ""),
        (json!({"node": "n2", "level": "debug"}), 409, "CannotSetLevel", ""),
        (json!({"level": "loud"}), 422, "Invalid", "level"),
        (json!([null, "debug"]), 422, "Invalid", "body"),
        (json!({"level": "debug", "forSeconds": 0}), 422, "Invalid", "forSeconds"),
        (json!({"level": "debug", "forSeconds": 86_401}), 422, "Invalid", "forSeconds"),
        (json!({"node": "No", "level": "debug"}), 422, "Invalid", "node"),
    ] {
        let (answered, word, errors) = api.post(PATH, &body).await.problem();
        assert_eq!((answered, word.as_str()), (status, code), "{body}");
        assert!(field.is_empty() || errors[0].starts_with(&format!("{field}: ")), "{body}: {errors:?}");
    }
    assert_eq!(levels(&api.get(PATH).await.json()), []);
    assert_eq!(api.get("/api/v1/audit?kind=LogLevel").await.json()["items"], json!([]));
}
