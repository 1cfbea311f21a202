// SPDX-License-Identifier: Apache-2.0
//! `Idempotency-Key`: the answers of writes that are sent again.

use serde_json::json;

use crate::support::{Answer, Api, group};

async fn send(api: &Api, method: &str, path: &str, key: &str, body: String) -> Answer {
    let headers = [("content-type", "application/json"), ("idempotency-key", key)];
    api.send(method, path, &headers, body).await
}

#[tokio::test]
async fn an_answer_that_was_lost_comes_again() {
    let api = Api::prepared().await;
    let body = || group("g2").to_string();
    let first = send(&api, "POST", "/api/v1/groups", "\"k 1\"", body()).await;
    assert_eq!((first.status.as_u16(), first.header("idempotency-replayed")), (201, ""));
    let again = send(&api, "POST", "/api/v1/groups", "\"k 1\"", body()).await;
    assert_eq!((again.status.as_u16(), again.header("idempotency-replayed")), (201, "true"));
    assert_eq!((&first.text, first.header("etag")), (&again.text, again.header("etag")));
    assert_eq!(first.header("location"), again.header("location"));
    assert_ne!(first.header("canopy-request-id"), again.header("canopy-request-id"));
    // Without the key it is another write.
    assert_eq!(api.post("/api/v1/groups", &group("g2")).await.problem().1, "AlreadyExists");

    let (status, code, errors) =
        send(&api, "POST", "/api/v1/groups", "\"k 1\"", group("g3").to_string()).await.problem();
    assert_eq!((status, code.as_str()), (422, "IdempotencyKeyReused"));
    assert!(errors[0].starts_with("Idempotency-Key: "), "{errors:?}");

    // In quotes and without, one key; and deletions have one too.
    for (key, replayed) in [("k2", ""), ("\"k2\"", "true")] {
        let gone = send(&api, "DELETE", "/api/v1/groups/g2", key, String::new()).await;
        assert_eq!((gone.status.as_u16(), gone.header("idempotency-replayed")), (204, replayed));
    }
    let (status, code, _) = send(&api, "POST", "/api/v1/groups", "\"k 1\"", body()).await.problem();
    assert_eq!((status, code.as_str()), (409, "Outlived"));
}

#[tokio::test]
async fn a_dry_run_uses_no_key() {
    let api = Api::prepared().await;
    let body = || group("g2").to_string();
    for _ in 0..2 {
        let dry = send(&api, "POST", "/api/v1/groups?dryRun=true", "k", body()).await;
        assert_eq!((dry.status.as_u16(), dry.header("idempotency-replayed")), (200, ""));
    }
    assert_eq!(send(&api, "POST", "/api/v1/groups", "k", body()).await.status, 201);
}

#[tokio::test]
async fn actions_have_keys() {
    let api = Api::prepared().await;
    let begin = || json!({"timeoutSeconds": 60}).to_string();
    let begun = send(&api, "POST", "/api/v1/commit", "k1", begin()).await;
    let again = send(&api, "POST", "/api/v1/commit", "k1", begin()).await;
    assert_eq!((begun.status.as_u16(), again.status.as_u16()), (201, 201));
    assert_eq!((again.header("idempotency-replayed"), begun.json()["id"] == again.json()["id"]), ("true", true));
    let end = || json!({"id": begun.json()["id"]}).to_string();
    for replayed in ["", "true"] {
        let ended = send(&api, "POST", "/api/v1/commit/confirm", "k2", end()).await;
        assert_eq!((ended.status.as_u16(), ended.header("idempotency-replayed")), (200, replayed));
    }
    // The commit is read again by the next one; of another it is not the answer.
    assert_eq!(send(&api, "POST", "/api/v1/commit", "k3", begin()).await.status, 201);
    assert_eq!(send(&api, "POST", "/api/v1/commit/confirm", "k2", end()).await.problem().1, "Outlived");
}

#[tokio::test]
async fn a_key_that_is_none_is_refused_before_anything_is_done() {
    let api = Api::prepared().await;
    let long = "k".repeat(129);
    for key in ["", "\"\"", "a b", "a\"b", "\"a\\\\b\"", "\"a", "k;a=1\"", long.as_str()] {
        let (status, _, errors) = send(&api, "POST", "/api/v1/groups", key, group("g2").to_string()).await.problem();
        assert_eq!(status, 400, "{key:?}");
        assert!(errors[0].starts_with("Idempotency-Key: is not one string of 1 to 128"), "{errors:?}");
    }
    let twice = [("content-type", "application/json"), ("idempotency-key", "a"), ("idempotency-key", "a")];
    assert_eq!(api.send("POST", "/api/v1/groups", &twice, group("g2").to_string()).await.problem().0, 400);
    assert_eq!(api.get("/api/v1/groups/g2").await.status, 404);
}
