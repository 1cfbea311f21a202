// SPDX-License-Identifier: Apache-2.0
//! The map and its layers over the real router.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use canopy_controller_core::role::Role;
use serde_json::{Value, json};

use crate::support::{Api, topology, with};

fn values(layer: &Value) -> Vec<u8> {
    STANDARD.decode(layer["values"].as_str().unwrap()).unwrap()
}

#[tokio::test]
async fn the_map_has_places_and_layers_have_an_octet_for_each_direction() {
    let api = Api::start().await;
    for path in ["/api/v1/map", "/api/v1/map/layers/state"] {
        assert_eq!(api.get(path).await.problem().0, 404, "{path}");
    }
    let declared = with(topology(), |t| t["spec"]["nodes"][1]["site"] = json!("ams"));
    assert_eq!(api.put("/api/v1/topology", &declared).await.status, 201);
    assert_eq!(api.get("/api/v1/topology").await.json()["spec"]["nodes"][1]["site"], "ams");
    let map = api.get("/api/v1/map").await;
    assert_eq!(map.header("cache-control"), "no-store");
    let map = map.json();
    assert_eq!(
        map["nodes"],
        json!([{"name": "n1", "id": 1, "tier": 1}, {"name": "n2", "id": 2, "tier": 1, "site": "ams"}])
    );
    assert_eq!(map["hosts"], json!([{"name": "s1", "node": 0}, {"name": "r1", "node": 1}, {"name": "r2", "node": 1}]));
    assert_eq!(map["links"][1], json!({"a": 0, "aPort": "eth2", "b": 2, "bPort": "eth0"}));
    for (layer, expected) in [
        ("state", vec![1; 8]),
        ("load", vec![255; 8]),
        ("loss", vec![255; 8]),
        ("queue", vec![255; 8]),
        ("nodes", vec![3; 2]),
    ] {
        let answer = api.get(&format!("/api/v1/map/layers/{layer}")).await.json();
        assert_eq!((&answer["version"], values(&answer)), (&map["version"], expected), "{layer}");
        let again =
            api.get(&format!("/api/v1/map/layers/{layer}?since={}", answer["revision"].as_str().unwrap())).await;
        let again = again.json();
        assert_eq!((&again["changes"], again.get("values")), (&json!([]), None), "{layer}");
    }
    assert_eq!(api.get("/api/v1/map/layers/colour").await.problem().0, 404);
    let (status, _, errors) = api.get("/api/v1/map/layers/load?since=5").await.problem();
    assert_eq!(status, 400);
    assert!(errors[0].starts_with("since: \"5\" is no revision of a layer"), "{errors:?}");
}

/// Catches a tier or a site that is taken though no map can show it.
#[tokio::test]
async fn a_tier_and_a_site_out_of_range_are_refused_by_field() {
    let api = Api::start().await;
    let declared = with(topology(), |t| {
        t["spec"]["nodes"][0]["tier"] = json!(0);
        t["spec"]["nodes"][1]["site"] = json!("Amsterdam!");
    });
    let (status, _, errors) = api.put("/api/v1/topology", &declared).await.problem();
    assert_eq!(status, 422);
    assert_eq!(errors[0], "spec.nodes[0].tier: 0 is no tier of a node: use 1..=16");
    assert!(errors[1].starts_with("spec.nodes[1].site: "), "{errors:?}");
}

/// Catches the fabric that is shown to a tenant.
#[tokio::test]
async fn the_map_is_the_domains() {
    let api = Api::prepared().await.of_tenant("acme", Role::Admin);
    for path in ["/api/v1/map", "/api/v1/map/layers/load"] {
        assert_eq!(api.get(path).await.problem().0, 403, "{path}");
    }
}
