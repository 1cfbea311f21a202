// SPDX-License-Identifier: Apache-2.0
//! Captures of one packet in the API, with frames that the test reports in the place of agents.

use canopy_controller_core::NameFilter;
use std::num::NonZeroU32;

use canopy_controller_actor::AgentConnection;
use canopy_model::capture::{CaptureDirection, CapturedFrame, INNER};
use canopy_model::status::NodeStatus;
use canopy_units::UnixTime;
use serde_json::{Value, json};

use crate::support::{Api, member};

const CAPTURES: &str = "/api/v1/groups/g1/captures";
const TYPE: (&str, &str) = ("content-type", "application/json");

/// Group `g1` with a tree, whose nodes' agents implement this minor version.
async fn ready(minor_version: u32) -> (Api, Vec<AgentConnection>) {
    let api = Api::prepared().await;
    for (host, role) in [("s1", "source"), ("r1", "receiver")] {
        let made = api.send("POST", "/api/v1/groups/g1/members", &[TYPE], member(host, role, 17).to_string()).await;
        assert_eq!(made.status, 201, "{}", made.text);
    }
    let mut agents = Vec::new();
    for node in api.controller.read(|d| d.nodes(&NameFilter::default(), None, 1000, true)).items {
        api.controller.watch_node(&node.name).unwrap();
        agents.push(api.controller.agent_connected(&node.name));
        api.controller.report(NodeStatus { node: node.name, minor_version, ..NodeStatus::default() }).unwrap();
    }
    (api, agents)
}

async fn arm(api: &Api, body: Value) -> crate::support::Answer {
    api.send("POST", CAPTURES, &[TYPE], body.to_string()).await
}

fn frame(id: &str, port: &str) -> CapturedFrame {
    CapturedFrame {
        id: NonZeroU32::new(u32::from_str_radix(id, 16).unwrap()).unwrap(),
        direction: CaptureDirection::In,
        port: port.into(),
        time: UnixTime::from_nanos(5),
        length: 100,
        inner_at: 14,
        head: vec![0xAB; 74],
        inner: [0xCD; INNER],
    }
}

#[tokio::test]
async fn a_capture_is_armed_filled_and_read_as_json_and_pcapng() {
    let (api, _agents) = ready(canopy_model::capture::MINOR_VERSION).await;
    let mut orders = api.controller.capture_orders("n1");
    let armed = arm(&api, json!({"psn": 77, "withinSeconds": 2})).await;
    let (shown, id) = (armed.json(), armed.json()["id"].as_str().unwrap().to_owned());
    assert_eq!((armed.status.as_u16(), armed.header("location")), (201, &*format!("{CAPTURES}/{id}")));
    assert_eq!(
        (&shown["state"], &shown["psn"], &shown["withinNs"]),
        (&json!("armed"), &json!(77), &json!(2_000_000_000))
    );
    assert!(shown["hops"].as_array().unwrap().iter().all(|hop| hop["frame"].is_null()));
    let order = orders.next().await;
    assert_eq!((format!("{:08x}", order.id), order.psn.get()), (id.clone(), 77));

    // Of a node that is not asked, and of another capture: left out.
    api.controller.captured("n9", vec![frame(&id, "eth1")]);
    api.controller.captured("n1", vec![frame("00000001", "eth1"), frame(&id, "eth2")]);
    let now = api.get(&format!("{CAPTURES}/{id}")).await;
    assert_eq!(now.header("cache-control"), "no-store");
    let seen: Vec<Value> =
        now.json()["hops"].as_array().unwrap().iter().filter(|h| !h["frame"].is_null()).cloned().collect();
    assert_eq!(seen.len(), 1, "{}", now.text);
    assert_eq!((&seen[0]["node"], &seen[0]["direction"], &seen[0]["peer"]), (&json!("n1"), &json!("in"), &json!("s1")));
    assert_eq!((&seen[0]["frame"]["head"], &seen[0]["frame"]["destQp"]), (&json!("ab".repeat(74)), &json!(0xCD_CDCD)));

    let file = api.octets(&format!("{CAPTURES}/{id}?format=pcapng")).await;
    assert_eq!(file.0.get("content-type").unwrap(), "application/vnd.tcpdump.pcap");
    assert_eq!(file.0.get("content-disposition").unwrap(), &format!("attachment; filename=\"g1-{id}.pcapng\""));
    assert!(file.1.starts_with(&[0x0A, 0x0D, 0x0D, 0x0A]) && file.1.windows(74).any(|w| w == [0xAB; 74]));
}

/// Catches an expected packet that needs agents or a capture, and a list with captures of another group.
#[tokio::test]
async fn the_expected_packet_is_read_without_a_capture_and_captures_are_listed() {
    let (api, _agents) = ready(canopy_model::capture::MINOR_VERSION).await;
    let packet = api.get("/api/v1/groups/g1/packet").await.json();
    let first = &packet["hops"][0];
    assert_eq!(
        (&packet["kind"], &first["node"], &first["direction"]),
        (&json!("ExpectedPacket"), &json!("n1"), &json!("in"))
    );
    let last = packet["hops"].as_array().unwrap().last().unwrap().clone();
    let dest_qp = last["fields"].as_array().unwrap().iter().find(|field| field["field"] == "destQp").unwrap().clone();
    assert_eq!((&dest_qp["octets"], &dest_qp["value"]), (&json!("000011"), &json!("0x000011")));
    assert_eq!(api.get("/api/v1/groups/g9/packet").await.problem().0, 404);

    assert_eq!(api.get(CAPTURES).await.json()["items"], json!([]));
    let id = arm(&api, json!({"psn": 77})).await.json()["id"].clone();
    api.controller.captured("n1", vec![frame(id.as_str().unwrap(), "eth1")]);
    let list = api.get(CAPTURES).await.json();
    assert_eq!((&list["kind"], list["items"].as_array().unwrap().len()), (&json!("CaptureList"), 1));
    let item = &list["items"][0];
    assert_eq!(
        (&item["id"], &item["psn"], &item["seen"], &item["state"]),
        (&id, &json!(77), &json!(1), &json!("armed"))
    );
    assert_eq!(item["places"], packet["hops"].as_array().unwrap().len());
    assert_eq!(api.get("/api/v1/groups/g9/captures").await.problem().0, 404);
    // Octets of a frame that are not those of the programs.
    let read = api.get(&format!("{CAPTURES}/{}", id.as_str().unwrap())).await.json();
    let hop = read["hops"].as_array().unwrap().iter().find(|hop| !hop["frame"].is_null()).unwrap();
    let unexpected = hop["frame"]["unexpected"].as_array().unwrap();
    assert!(unexpected.iter().any(|d| d["field"] == "psn" && d["expected"] == "77"), "{unexpected:?}");
    let other = json!({"apiVersion": "canopy/v1", "kind": "Group", "metadata": {"name": "g2"}, "spec": {}});
    assert_eq!(api.send("POST", "/api/v1/groups", &[TYPE], other.to_string()).await.status, 201);
    assert_eq!(api.get("/api/v1/groups/g2/captures").await.json()["items"], json!([]));
    assert_eq!(api.get("/api/v1/groups/g2/packet").await.json()["hops"], json!([]), "no tree");
}

#[tokio::test]
async fn one_capture_runs_at_a_time() {
    let (api, _agents) = ready(canopy_model::capture::MINOR_VERSION).await;
    assert_eq!(arm(&api, json!({})).await.status, 201);
    let second = arm(&api, json!({})).await;
    assert_eq!(second.problem(), (409, "CaptureRunning".into(), vec![]));
    assert!(second.text.contains("captures a packet of group \\\"g1\\\", for "), "{}", second.text);
}

#[tokio::test(start_paused = true)]
async fn a_capture_expires_and_the_oldest_of_many_are_forgotten() {
    let (api, _agents) = ready(canopy_model::capture::MINOR_VERSION).await;
    let mut paths = Vec::new();
    for _ in 0..33 {
        let armed = arm(&api, json!({"withinSeconds": 1})).await;
        paths.push(armed.header("location").to_owned());
        tokio::time::advance(std::time::Duration::from_secs(1)).await;
    }
    assert_eq!(api.get(&paths[32]).await.json()["state"], "expired");
    assert_eq!((api.get(&paths[1]).await.status.as_u16(), api.get(&paths[0]).await.status.as_u16()), (200, 404));
    // An order that has ended goes to no node.
    let mut orders = api.controller.capture_orders("n1");
    let asked = tokio::time::timeout(std::time::Duration::from_secs(9), orders.next()).await;
    assert!(asked.is_err(), "{asked:?}");
}

#[tokio::test]
async fn what_cannot_be_captured_is_refused_with_the_reason() {
    let api = Api::prepared().await;
    let no_tree = arm(&api, json!({})).await;
    assert_eq!(no_tree.problem(), (409, "NoTree".into(), vec![]));
    let absent = api.send("POST", "/api/v1/groups/g9/captures", &[TYPE], "{}").await;
    assert_eq!(absent.problem().0, 404);
    let (old, _agents) = ready(canopy_model::capture::MINOR_VERSION - 1).await;
    let unable = arm(&old, json!({})).await;
    assert_eq!(unable.problem(), (409, "CannotCapture".into(), vec![]));
    assert!(unable.text.contains("upgrade the agents of n1"), "{}", unable.text);
    for (body, field) in [
        (json!({"psn": 0x100_0000}), "psn"),
        (json!({"withinSeconds": 6}), "withinSeconds"),
        (json!({"withinSeconds": 0}), "withinSeconds"),
    ] {
        let (status, code, errors) = arm(&old, body).await.problem();
        assert_eq!((status, &*code), (422, "Invalid"));
        assert!(errors[0].starts_with(field), "{errors:?}");
    }
    assert_eq!(arm(&old, json!({"psm": 1})).await.problem().0, 422);
    let dry = old.send("POST", &format!("{CAPTURES}?dryRun=true"), &[TYPE], "{}").await;
    assert_eq!(dry.problem().0, 400);
    for bad in ["0", "00000000", "zz", "123456789"] {
        assert_eq!(old.get(&format!("{CAPTURES}/{bad}")).await.problem().0, 404);
    }
}
