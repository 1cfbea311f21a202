// SPDX-License-Identifier: Apache-2.0
//! The checked-in description is the one that the code makes. `UPDATE_OPENAPI=1 cargo test -p canopy-controller-rest --test openapi` writes it anew.
#![allow(clippy::unwrap_used)]

mod support;

use support::Api;

#[test]
fn the_checked_in_description_is_current() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/openapi.json");
    let now = canopy_controller_rest::openapi().to_pretty_json().unwrap() + "\n";
    if std::env::var_os("UPDATE_OPENAPI").is_some() {
        std::fs::write(file, &now).unwrap();
    }
    let checked_in = std::fs::read_to_string(file).unwrap_or_default();
    assert!(checked_in == now, "openapi.json is not what the code describes: run this test with UPDATE_OPENAPI=1 and commit the result");
}

/// Catches a route that is served and not described, or described at another path.
#[tokio::test]
async fn every_described_path_is_served_with_that_method() {
    let api = Api::prepared().await;
    let description = api.get("/api/v1/openapi.json").await.json();
    assert!(description["openapi"].as_str().unwrap().starts_with("3.1"));
    let paths = description["paths"].as_object().unwrap();
    assert_eq!(paths.len(), 15);
    for (path, methods) in paths {
        let concrete = path.replace("{group}", "g1").replace("{node}", "n1").replace("{host}", "r1");
        for method in methods.as_object().unwrap().keys() {
            let answer = api.send(&method.to_uppercase(), &concrete, &[], "").await;
            let unserved = answer.status == 405 || answer.text.contains("nothing is served at");
            assert!(!unserved, "{method} {path}: {}", answer.text);
        }
    }
}
