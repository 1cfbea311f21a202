// SPDX-License-Identifier: Apache-2.0
//! The paths of a pair of hosts and captured headers over the REST API.

use serde_json::{Value, json};

use crate::support::Api;

/// Two leaves, two spines, and two hosts at each leaf.
fn clos() -> Value {
    let host =
        |name: &str, net: &str| json!({"name": name, "prefix": format!("{net}::/64"), "address": format!("{net}::1")});
    json!({"apiVersion": "canopy/v1", "kind": "Topology", "metadata": {"name": "default"}, "spec": {
        "nodes": [{"name": "leaf1", "id": 0x100}, {"name": "leaf3", "id": 0x300}, {"name": "spine5", "id": 0x500}, {"name": "spine6", "id": 0x600}],
        "hosts": [host("gpu1", "2001:db8:1"), host("gpu2", "2001:db8:2"), host("gpu3", "2001:db8:3")],
        "links": [
            {"a": "leaf1/s5", "b": "spine5/l1"}, {"a": "leaf1/s6", "b": "spine6/l1", "drained": true},
            {"a": "leaf3/s5", "b": "spine5/l3"}, {"a": "leaf3/s6", "b": "spine6/l3"},
            {"a": "leaf1/h1", "b": "gpu1/eth0"}, {"a": "leaf1/h2", "b": "gpu2/eth0"}, {"a": "leaf3/h3", "b": "gpu3/eth0", "mtu": 4200},
        ],
    }})
}

async fn api() -> Api {
    let api = Api::start().await;
    let answer = api.put("/api/v1/topology", &clos()).await;
    assert_eq!(answer.status, 201, "{}", answer.text);
    api
}

/// Catches a path without its links or with those of another one, and one with nodes without a report that claims that they forward by it.
#[tokio::test]
async fn a_pair_has_paths_with_program_links_and_mtu() {
    let api = api().await;
    let all = api.get("/api/v1/paths?from=gpu1&to=gpu3").await.json();
    assert_eq!((&all["kind"], &all["total"], &all["method"]), (&json!("Paths"), &json!(2), &json!("upDown")));
    assert_eq!((&all["permitted"], &all["forwarded"]), (&json!(false), &json!(false)));
    let [by5, by6] = all["items"].as_array().unwrap().as_slice() else { panic!("{all}") };
    assert_eq!(by5["destination"], "5f00:0:100:500:300::");
    assert_eq!(by5["program"], json!(["uN 0x0100", "uN 0x0500", "uN 0x0300"]));
    assert_eq!((&by5["segments"], &by5["overhead"], &by5["mtu"]), (&json!([]), &json!(40), &json!(4200)));
    assert_eq!((&by5["disjoint"], &by5["sound"]), (&json!(null), &json!(true)));
    assert_eq!((&by6["disjoint"], &by6["sound"]), (&json!("node"), &json!(false)));
    let links = |path: &Value| -> Vec<(String, Value, Value)> {
        let links = path["links"].as_array().unwrap().iter();
        links
            .map(|l| (l["link"].as_str().unwrap().to_owned(), l["destination"].clone(), l["drained"].clone()))
            .collect()
    };
    assert_eq!(
        links(by6),
        [
            ("leaf1/h1--gpu1/eth0".to_owned(), json!("5f00:0:100:600:300::"), json!(false)),
            ("leaf1/s6--spine6/l1".to_owned(), json!("5f00:0:600:300::"), json!(true)),
            ("leaf3/s6--spine6/l3".to_owned(), json!("5f00:0:300::"), json!(false)),
            ("leaf3/h3--gpu3/eth0".to_owned(), json!(null), json!(false)),
        ]
    );
    let by_links = api.get("/api/v1/paths?from=gpu1&to=gpu3&style=links").await.json();
    assert_eq!(by_links["items"][0]["program"], json!(["uA 0xe001", "uA 0xe002", "uA 0xe003"]));
    let why = "a uA stands right behind the uN of its node";
    assert_eq!((&by5["refused"], &by_links["items"][0]["refused"]), (&json!(null), &json!(why)));
}

/// Catches a permission that is lost on its way through the topology.
#[tokio::test]
async fn a_host_may_send_programs_if_the_topology_permits_it() {
    let api = api().await;
    let mut topology = clos();
    topology["spec"]["hosts"][0]["pathPrograms"] = json!(true);
    let answer = api.put("/api/v1/topology", &topology).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    let permitted =
        async |from: &str| api.get(&format!("/api/v1/paths?from={from}&to=gpu3")).await.json()["permitted"].clone();
    assert_eq!((permitted("gpu1").await, permitted("gpu2").await), (json!(true), json!(false)));
    let read = api.get("/api/v1/topology").await.json();
    assert_eq!(read["spec"]["hosts"][0]["pathPrograms"], true);
    assert!(read["spec"]["hosts"][1].get("pathPrograms").is_none());
    topology["spec"]["hosts"][0]["pathPrograms"] = json!("yes");
    assert_eq!(api.put("/api/v1/topology", &topology).await.status, 422);
}

/// Catches a page that repeats or leaves out a path.
#[tokio::test]
async fn paths_come_in_pages() {
    let api = api().await;
    let first = api.get("/api/v1/paths?from=gpu1&to=gpu3&limit=1").await.json();
    let token = first["metadata"]["continue"].as_str().unwrap();
    let second = api.get(&format!("/api/v1/paths?from=gpu1&to=gpu3&limit=1&continue={token}")).await.json();
    let whole = api.get("/api/v1/paths?from=gpu1&to=gpu3").await.json();
    assert_eq!(whole["items"], json!([first["items"][0], second["items"][0]]));
    assert!(second["metadata"].get("continue").is_none() && whole["metadata"].get("continue").is_none());
}

#[tokio::test]
async fn hosts_that_are_not_there_and_wrong_parameters_are_named() {
    let api = api().await;
    for (query, status, field) in [
        ("from=gpu1&to=gpu9", 404, ""),
        ("from=leaf1&to=gpu3", 404, ""),
        ("from=gpu1&to=gpu1", 400, "to: "),
        ("from=gpu1&to=gpu3&limit=0", 400, "limit: "),
        ("from=gpu1&to=gpu3&continue=61", 400, "continue: "),
        ("from=gpu1&to=gpu3&style=x", 400, "style: "),
    ] {
        let (code, _, errors) = api.get(&format!("/api/v1/paths?{query}")).await.problem();
        assert_eq!(code, status, "{query}");
        assert!(errors.iter().all(|e| e.starts_with(field)) && errors.is_empty() == field.is_empty(), "{errors:?}");
    }
    for (query, status, field) in [
        ("address=x", 400, "address: "),
        ("address=5f00:0:100::&segments=x", 400, "segments: "),
        ("address=5f00:0:100::&segments=", 400, "segments: "),
        ("address=5f00:0:100::&segments=5f00:0:300::,,5f00:0:600::", 400, "segments: "),
        ("address=5f00:0:100::&at=leaf9", 404, ""),
    ] {
        let (code, _, errors) = api.get(&format!("/api/v1/paths/decode?{query}")).await.problem();
        assert_eq!(code, status, "{query}");
        assert!(errors.iter().all(|e| e.starts_with(field)) && errors.is_empty() == field.is_empty(), "{errors:?}");
    }
}

/// Catches segments that are read in another order, and an error without its place.
#[tokio::test]
async fn a_captured_header_is_decoded() {
    let api = api().await;
    let decode = async |query: &str| api.get(&format!("/api/v1/paths/decode?{query}")).await.json();
    let shifted = decode("address=5f00:0:500:300::&at=leaf1").await;
    assert_eq!((&shifted["kind"], &shifted["forwarded"]), (&json!("DecodedPath"), &json!(false)));
    assert_eq!(shifted["end"]["action"], "decapsulate");
    assert_eq!(shifted["end"]["node"], "leaf3");
    let links: Vec<&Value> = shifted["steps"].as_array().unwrap().iter().map(|step| &step["link"]).collect();
    assert_eq!(links, ["leaf1/s5--spine5/l1", "leaf3/s5--spine5/l3"]);
    let with_srh = decode("address=5f00:0:100::&segments=5f00:0:300::,5f00:0:600::&segmentsLeft=2").await;
    assert_eq!(with_srh["steps"][1]["link"], "leaf1/s6--spine6/l1");
    assert_eq!(with_srh["steps"][1]["place"], "uSID 1 of Segment List[1]");
    let delivered = decode("address=5f00:0:300:e003::").await;
    assert_eq!((&delivered["end"]["action"], &delivered["end"]["to"]), (&json!("deliver"), &json!("gpu3")));
    let broken = decode("address=5f00:0:100:300::").await;
    assert_eq!(broken["end"], json!(null));
    let error = broken["error"].as_str().unwrap();
    assert!(error.starts_with("uSID 2 of the destination address: no link leads from node 256 to node 768"), "{error}");
}

/// Catches a dry run that has trees alone, a number that a script cannot read, and effects of pairs beside those of groups without `pairs`.
#[tokio::test]
async fn a_dry_run_has_what_becomes_of_the_paths_of_pairs() {
    let api = api().await;
    let mut topology = clos();
    topology["spec"]["hosts"][0]["pathPrograms"] = json!(true);
    assert_eq!(api.put("/api/v1/topology", &topology).await.status, 200);
    let drain = json!({"apiVersion": "canopy/v1", "kind": "Drain", "metadata": {"name": "x"}, "spec": {"node": "spine5", "reason": "x"}});
    let dry = api.put("/api/v1/drains/x?dryRun=true", &drain).await.json();
    let stays = json!({"type": "pathsStay", "object": "Pairs", "name": "leaf1 - leaf3", "from": "1", "to": "0", "pairs": 1, "lossless": true});
    assert_eq!(dry["effects"].as_array().unwrap().iter().find(|e| e["object"] == "Pairs"), Some(&stays), "{dry}");
    let summary = dry["summary"].as_str().unwrap();
    assert!(summary.contains("1 pair of edges keeps drained paths for want of others"), "{summary}");
    topology["spec"]["links"][1]["drained"] = json!(false);
    let dry = api.put("/api/v1/topology?dryRun=true", &topology).await.json();
    let more = json!({"type": "pathsMore", "object": "Pairs", "name": "leaf1 - leaf3", "from": "1", "to": "2", "pairs": 1, "lossless": true});
    assert_eq!(dry["effects"].as_array().unwrap().iter().find(|e| e["object"] == "Pairs"), Some(&more), "{dry}");
    assert!(dry["summary"].as_str().unwrap().ends_with("1 pair of edges has more paths, 3 nodes change"), "{dry}");
    assert!(dry["effects"].as_array().unwrap().iter().all(|e| e["object"] == "Pairs" || e["pairs"].is_null()), "{dry}");
}
