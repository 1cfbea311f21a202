// SPDX-License-Identifier: Apache-2.0
//! The checked-in description is the generated one. `UPDATE_OPENAPI=1 cargo test -p canopy-controller-rest --test rest openapi` rewrites
//! it.

use crate::support::{Api, group, with};

#[test]
fn the_checked_in_description_is_current() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/openapi.json");
    let now = serde_json::to_string_pretty(&canopy_controller_rest::openapi()).unwrap() + "\n";
    if std::env::var_os("UPDATE_OPENAPI").is_some() {
        std::fs::write(file, &now).unwrap();
    }
    let checked_in = std::fs::read_to_string(file).unwrap_or_default();
    assert!(
        checked_in == now,
        "openapi.json is not what the code describes: run this test with UPDATE_OPENAPI=1 and commit the result"
    );
}

/// Catches a route that is served but not described, or described at another path.
#[tokio::test]
async fn every_described_path_is_served_with_that_method() {
    let api = Api::prepared().await;
    let description = api.get("/api/v1/openapi.json").await.json();
    assert!(description["openapi"].as_str().unwrap().starts_with("3.1"));
    let paths = description["paths"].as_object().unwrap();
    assert_eq!(paths.len(), 70);
    for (path, methods) in paths {
        let concrete =
            path.replace("{group}", "g1").replace("{node}", "n1").replace("{host}", "r1").replace("{port}", "eth1");
        for method in methods.as_object().unwrap().keys() {
            let answer = api.send(&method.to_uppercase(), &concrete, &[], "").await;
            let unserved = answer.status == 405 || answer.text.contains("nothing is served at");
            assert!(!unserved, "{method} {path}: {}", answer.text);
        }
    }
}

/// Catches two types under one name and a type that was never registered.
#[test]
fn every_reference_leads_somewhere_and_every_kind_has_its_own_schema() {
    let description = canopy_controller_rest::openapi();
    let mut references = Vec::new();
    collect(&description, &mut references);
    assert!(references.len() > 50);
    for reference in references {
        assert!(description.pointer(&reference[1..]).is_some(), "{reference} leads nowhere");
    }
    for (kind, field) in [
        ("Topology", "syncedNodes"),
        ("Node", "observedGeneration"),
        ("Group", "phase"),
        ("Member", "port"),
        ("Host", "receivers"),
    ] {
        let status = &description["components"]["schemas"][format!("{kind}Resource")]["properties"]["status"]["$ref"];
        let schema =
            description.pointer(&status.as_str().unwrap_or_else(|| panic!("{kind} has no status"))[1..]).unwrap();
        assert!(schema["properties"][field].is_object(), "{kind} has the status of something else");
    }
}

fn collect(value: &serde_json::Value, references: &mut Vec<String>) {
    match value {
        serde_json::Value::Object(o) => {
            references.extend(o.get("$ref").and_then(|r| r.as_str()).map(str::to_owned));
            o.values().for_each(|v| collect(v, references));
        }
        serde_json::Value::Array(a) => a.iter().for_each(|v| collect(v, references)),
        _ => {}
    }
}

/// Catches what the description does not have and the server accepts: a misspelt parameter or condition would be ignored in silence.
#[tokio::test]
async fn what_is_not_described_is_refused_with_its_name() {
    let api = Api::prepared().await;
    for path in ["/api/v1/topology?limit=1", "/api/v1/groups/g1?limit=1", "/api/v1/drains?limit=1"] {
        let (status, _, errors) = api.get(path).await.problem();
        assert_eq!((status, errors.len()), (400, 1), "{path}");
        assert!(errors[0].contains("limit"), "{path}: {errors:?}");
    }
    // Probes and scrapers have parameters of their own.
    assert_eq!(api.get("/livez?verbose=1").await.status, 200);
    for (header, value) in [
        ("If-Plan-Match", "x"),
        ("Canopy-Commit", "0123456789ABCDEF"),
        ("Canopy-Manager", "a b"),
        ("If-Match", "\"a b\""),
        ("Idempotency-Key", "a\\b"),
    ] {
        let (status, _, errors) = api.send("DELETE", "/api/v1/groups/g1", &[(header, value)], "").await.problem();
        assert_eq!(status, 400, "{header}");
        assert!(errors[0].starts_with(header), "{errors:?}");
    }
    for token in ["zz", "6", "2F", "41"] {
        assert_eq!(api.get(&format!("/api/v1/groups?continue={token}")).await.problem().0, 400, "{token}");
    }
    // A node's name, one without a port, a port of more than 15 octets, two of them.
    for name in ["n1", "n1/", "n1/eth0123456789abc", "n1/a/b", "N1/eth1", "/eth1"] {
        let token = hex::encode(name);
        assert_eq!(api.get(&format!("/api/v1/links?continue={token}")).await.problem().0, 400, "{name}");
    }
    let status = with(group("g2"), |g| g["status"] = serde_json::json!([]));
    let (code, _, errors) = api.put("/api/v1/groups/g2", &status).await.problem();
    assert_eq!((code, errors.len()), (422, 1), "{errors:?}");
    assert!(errors[0].starts_with("status: "), "{errors:?}");
}
