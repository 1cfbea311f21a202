// SPDX-License-Identifier: Apache-2.0
//! Incidents over the real router: a problem opens, its charts are kept, and it closes.

use std::time::Duration;

use canopy_model::ids::PortIndex;
use canopy_model::telemetry::LinkLoss;
use canopy_units::UnixTime;
use serde_json::{Value, json};

use crate::support::Api;

/// Node n1 drops 10 packets a second for so long.
async fn drop_packets(api: &Api, from: u64, seconds: u64) {
    for second in from..from + seconds {
        api.controller.chart_drops("n1", UnixTime::from_nanos((50 + second) * 1_000_000_000), 10);
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

fn items(list: &Value) -> Vec<(String, String)> {
    let text = |v: &Value| v.as_str().unwrap().to_owned();
    let items = list["items"].as_array().unwrap().iter();
    items.map(|i| (text(&i["of"]["code"]), text(&i["of"]["name"]))).collect()
}

#[tokio::test(start_paused = true)]
async fn an_incident_has_the_charts_around_it_and_stays_when_the_problem_has_closed() {
    let api = Api::prepared().await;
    let stream = api.controller.watch_node("n1");
    let connection = api.controller.agent_connected("n1");
    // n2 has no agent, n1 none from here on.
    drop_packets(&api, 0, 60).await;
    drop((connection, stream));
    drop_packets(&api, 60, 30).await;
    let list = api.get("/api/v1/incidents").await.json();
    assert_eq!(list["kind"], "IncidentList");
    let found = items(&list);
    let of = |node: &str| found.iter().position(|(code, name)| code == "AgentDisconnected" && name == node).unwrap();
    assert_ne!(of("n1"), of("n2"));
    let incident = &list["items"][of("n1")];
    let evidence = incident["evidence"].as_array().unwrap();
    assert_eq!(
        (&incident["severity"], &incident["of"]["kind"], &incident["reopened"], evidence.is_empty()),
        (&json!("critical"), &json!("node"), &json!(0), false)
    );
    assert!(incident.get("closedUnixNs").is_none(), "{incident}");
    let (id, problem) = (incident["id"].as_str().unwrap(), incident["problem"].as_str().unwrap());
    assert_eq!(api.get(&format!("/api/v1/problems/{problem}")).await.status, 200);
    let of_problem = api.get(&format!("/api/v1/incidents?problem={problem}&limit=1")).await.json();
    assert_eq!(of_problem["items"], json!([incident]));

    // What is measured meanwhile is in it at once.
    let path = format!("/api/v1/incidents/{id}");
    let shown = api.get(&path).await;
    assert_eq!((shown.status.as_u16(), shown.header("cache-control")), (200, "no-store"), "{}", shown.text);
    let known = |shown: &Value| {
        let series = shown["series"].as_array().unwrap().iter();
        let drops = series.filter(|s| s["object"] == "node/n1" && s["series"] == "drops");
        let points: Vec<Value> = drops.flat_map(|s| s["points"].as_array().unwrap().clone()).collect();
        (points.len(), points.iter().filter(|p| !p.is_null()).count())
    };
    let (steps, before) = known(&shown.json());
    assert!(steps > 300 && before > 60, "{steps} {before}");
    drop_packets(&api, 90, 400).await;
    let complete = api.get(&path).await.json();
    let (steps, points) = known(&complete);
    // It opened 13 s after the last agent was gone: it had 10 s to be back.
    assert!((590..=600).contains(&steps) && points > 350 && points < 380, "{steps} {points}");
    let opened = incident["openedUnixNs"].as_u64().unwrap();
    let start = complete["startUnixNs"].as_u64().unwrap();
    let first = complete["series"].as_array().unwrap().iter().find(|s| s["object"] == "node/n1").unwrap();
    assert_eq!(first["unit"], "perSecond");
    assert!(opened - start <= 301_000_000_000, "{complete}");
    drop_packets(&api, 490, 60).await;
    assert_eq!(api.get(&path).await.json()["series"], complete["series"], "nothing is added any more");

    let stream = api.controller.watch_node("n1");
    let connection = api.controller.agent_connected("n1");
    drop_packets(&api, 550, 2).await;
    let closed = api.get(&path).await.json();
    assert!(closed["incident"]["closedUnixNs"].as_u64().unwrap() > opened, "{closed}");
    assert_eq!(api.get(&format!("/api/v1/problems/{problem}")).await.status, 404);
    drop((connection, stream));
}

/// Catches an incident that stays empty because nothing had been measured of its object when it opened.
#[tokio::test(start_paused = true)]
async fn what_is_measured_for_the_first_time_since_it_opened_is_shown_as_well() {
    let api = Api::prepared().await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    let list = api.get("/api/v1/incidents").await.json();
    let of_n1 = list["items"].as_array().unwrap().iter().find(|i| i["of"]["name"] == "n1").unwrap();
    let path = format!("/api/v1/incidents/{}", of_n1["id"].as_str().unwrap());
    assert_eq!(api.get(&path).await.json()["series"], json!([]));
    for second in 0..20 {
        let loss =
            LinkLoss { port: PortIndex::new("port", 1).unwrap(), requests: second * 10, lost: 0, queue_drops: 0 };
        api.controller.chart_links("n1", UnixTime::from_nanos((50 + second) * 1_000_000_000), &[loss], &[], &[]);
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    let shown = api.get(&path).await.json();
    let objects: Vec<&Value> = shown["series"].as_array().unwrap().iter().map(|s| &s["object"]).collect();
    assert!(objects.contains(&&json!("link/n1/eth1")), "{objects:?}");
}

#[tokio::test]
async fn parameters_and_names_that_are_wrong_are_refused() {
    let api = Api::prepared().await;
    for bad in ["limit=0", "limit=201", "limit=x", "what=1"] {
        assert_eq!(api.get(&format!("/api/v1/incidents?{bad}")).await.problem().0, 400, "{bad}");
    }
    for none in ["x", "1764171000-00c0ffee00c0ffee", "..%2F..%2Fetc"] {
        assert_eq!(api.get(&format!("/api/v1/incidents/{none}")).await.problem().0, 404, "{none}");
    }
    assert_eq!(api.get("/api/v1/incidents?problem=none").await.json()["items"], json!([]));
}
