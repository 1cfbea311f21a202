// SPDX-License-Identifier: Apache-2.0
//! The keys of the HMAC TLV in the API: identifiers and phase, and never a secret.

use std::sync::Arc;

use canopy_controller_core::NameFilter;
use canopy_controller_core::hmac::HmacSettings;
use canopy_model::srh_hmac::FlagBit;
use canopy_model::status::NodeStatus;
use canopy_store::{MemStore, Store};
use serde_json::{Value, json};

use crate::support::{Api, topology};

/// Every node confirms what it was given.
fn confirm(api: &Api) {
    let nodes = api.controller.read(|d| d.nodes(&NameFilter::default(), None, 1000, true)).items;
    let term = api.controller.read(|d| d.term());
    for node in nodes {
        let report = NodeStatus {
            node: node.name,
            observed_term: term,
            observed_generation: node.spec.generation,
            minor_version: canopy_model::srh_hmac::MINOR_VERSION,
            ..NodeStatus::default()
        };
        api.controller.report(report).unwrap();
    }
}

/// Confirms until the domain is in `phase`.
async fn until(api: &Api, phase: &str) -> Value {
    let deadline = tokio::time::Instant::now() + std::time::Duration::from_secs(30);
    loop {
        let now = api.get("/api/v1/hmac").await.json();
        if now["phase"] == phase {
            return now;
        }
        assert!(tokio::time::Instant::now() < deadline, "{now}");
        confirm(api);
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_rotation_is_begun_followed_and_shown_without_secrets() {
    let store: Arc<dyn Store> = Arc::new(MemStore::new());
    let hmac = HmacSettings { enabled: true, flag_bit: FlagBit::Linux };
    let running = canopy_controller_actor::start_with(store.clone(), Default::default(), Default::default(), hmac);
    let controller = running.await.unwrap().controller;
    let api = Api::of(controller);
    assert_eq!(api.put("/api/v1/topology", &topology()).await.status, 201);
    let on = until(&api, "On").await;
    assert_eq!((on["keys"].as_array().unwrap().len(), on["keys"][0]["flagBit"].as_str()), (1, Some("linux")));
    confirm(&api);
    // A rotation has no dry run: the answer must not be that of one that was begun.
    let dry = api.send("POST", "/api/v1/hmac/rotate?dryRun=true", &[], "").await;
    assert_eq!((dry.problem().0, api.get("/api/v1/hmac").await.json()["phase"].as_str()), (400, Some("On")));
    let begun = api.send("POST", "/api/v1/hmac/rotate", &[], "").await;
    assert_eq!((begun.status.as_u16(), begun.json()["phase"].as_str()), (200, Some("Accepting")), "{}", begun.text);
    let waiting = begun.json()["waiting"].as_array().unwrap().clone();
    assert_eq!(waiting[0], json!({"node": "n1", "reason": "its agent is not connected"}));
    assert_eq!(api.send("POST", "/api/v1/hmac/rotate", &[], "").await.problem().0, 409);
    let stored = store.scan("domain/hmac").unwrap().entries;
    let record: Value = serde_json::from_slice(&stored[0].1).unwrap();
    let secrets: Vec<&str> = record["keys"].as_array().unwrap().iter().map(|k| k["secret"].as_str().unwrap()).collect();
    assert_eq!(secrets.iter().map(|s| s.len()).collect::<Vec<_>>(), [64, 64]);
    for path in [
        "/plain",
        "/metrics",
        "/api/v1/hmac",
        "/api/v1/nodes",
        "/api/v1/nodes/n1",
        "/api/v1/events",
        "/api/v1/topology",
    ] {
        let text = api.get(path).await.text;
        assert!(secrets.iter().all(|secret| !text.contains(secret)), "{path} shows a secret");
    }
    let rotated = until(&api, "On").await;
    assert_eq!(
        (&rotated["keys"][0]["id"], rotated["keys"].as_array().unwrap().len()),
        (&begun.json()["keys"][1]["id"], 1)
    );
    let events = api.get("/api/v1/events").await.text;
    assert!(events.contains("HmacKeysChanged") && events.contains("phase Sending"), "{events}");
}

#[tokio::test]
async fn without_the_tlv_there_is_nothing_to_rotate() {
    let api = Api::prepared().await;
    let off = api.get("/api/v1/hmac").await.json();
    assert_eq!(off, json!({"phase": "Off", "keys": [], "unconfirmed": 0, "waiting": []}));
    let (status, _, errors) = api.send("POST", "/api/v1/hmac/rotate", &[], "").await.problem();
    assert_eq!(status, 422);
    assert!(errors[0].starts_with("hmac.enabled: "), "{errors:?}");
}
