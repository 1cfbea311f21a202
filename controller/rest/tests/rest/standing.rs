// SPDX-License-Identifier: Apache-2.0
//! Roles that change: what is open ends, and what comes next is decided anew.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use canopy_controller_access::Identity;
use canopy_controller_core::principal::Principal;
use canopy_controller_core::role::Role;
use canopy_controller_rest::Caller;
use serde_json::json;
use tokio::time::Instant;

use crate::support::{Api, Watch, group, signed_in};

/// Within which a role that was taken away has no effect any more.
const WITHIN: Duration = Duration::from_secs(5);

/// A user of the machine whose roles are those in the mutex.
fn user(of: &Arc<Mutex<Identity>>) -> Caller {
    let now = of.clone();
    let first = of.lock().unwrap().clone();
    Caller::new(first, move |_| now.lock().unwrap().clone())
}

fn alice(role: Option<Role>) -> Identity {
    Identity::new(Principal::operator("alice", Some(1000)), role)
}

/// The reason that the stream ends with, in time.
async fn ends(mut stream: Watch) -> String {
    let begun = Instant::now();
    loop {
        let event = stream.any().await.expect("it ends with a reason");
        if event.name == "bye" {
            assert!(begun.elapsed() < WITHIN, "after {:?}", begun.elapsed());
            assert!(stream.any().await.is_none());
            return event.data["reason"].as_str().unwrap().to_owned();
        }
    }
}

/// Catches a connection, a session or a stream that keeps a role which its user has lost, or got less of.
#[tokio::test(start_paused = true)]
async fn a_role_that_is_taken_away_or_lowered_counts_at_once() {
    for now in [None, Some(Role::Viewer)] {
        let api = Api::prepared().await;
        let of = Arc::new(Mutex::new(alice(Some(Role::Operator))));
        let user = api.by_caller(user(&of));
        let session = signed_in(&user).await;
        let by_session = [("authorization", session.as_str())];
        let own = user.watch("groups", "").await;
        let of_session = api.watch_with("groups", "", &by_session).await;
        let put = async || {
            let headers = [("content-type", "application/json"), ("authorization", session.as_str())];
            let by_session = api.send("PUT", "/api/v1/groups/g1", &headers, group("g1").to_string()).await;
            (user.put("/api/v1/groups/g1", &group("g1")).await.status.as_u16(), by_session)
        };
        let (own_put, by_session_put) = put().await;
        assert_eq!((own_put, by_session_put.status.as_u16()), (200, 200), "{}", by_session_put.text);
        *of.lock().unwrap() = alice(now);
        assert_eq!(ends(own).await, "your roles have changed");
        assert_eq!(ends(of_session).await, "your roles have changed");
        let (own_put, by_session_put) = put().await;
        assert_eq!(own_put, if now.is_some() { 403 } else { 401 });
        assert_eq!(by_session_put.problem().1, "SignInRequired", "a session ends with the roles of its beginning");
        // Roles that come back bring no session back.
        *of.lock().unwrap() = alice(Some(Role::Operator));
        tokio::time::advance(WITHIN).await;
        let (own_put, by_session_put) = put().await;
        assert_eq!((own_put, by_session_put.problem().1.as_str()), (200, "SignInRequired"));
    }
}

/// Catches a code that begins a session with a role that its user has lost meanwhile.
#[tokio::test(start_paused = true)]
async fn a_code_that_was_made_with_another_role_is_of_no_use() {
    let api = Api::start().await;
    let of = Arc::new(Mutex::new(alice(Some(Role::Operator))));
    let user = api.by_caller(user(&of));
    let code = user.post("/api/v1/sign-in-codes", &json!({})).await.json()["code"].clone();
    *of.lock().unwrap() = alice(None);
    tokio::time::advance(Duration::from_secs(2)).await;
    let begun = api.post("/api/v1/sign-in", &json!({"code": code})).await.json();
    let bearer = format!("Bearer {}", begun["bearer"].as_str().unwrap());
    let answer = api.send("GET", "/api/v1/groups", &[("authorization", &bearer)], "").await;
    assert_eq!(answer.problem().1, "SignInRequired");
}

/// Catches a stream and a session that outlive the token that they were opened with, and a stream that counts as a use of its token.
#[tokio::test(start_paused = true)]
async fn what_a_token_has_open_ends_with_it() {
    let api = Api::prepared().await;
    let made = api.post("/api/v1/tokens", &json!({"name": "ci", "role": "operator"})).await.json();
    let token = format!("Bearer {}", made["token"].as_str().unwrap());
    let stranger = api.by(Principal::operator("stranger", Some(1001)), None);
    let headers = [("authorization", token.as_str())];
    let stream = stranger.watch_with("groups", "&timeoutSeconds=3600", &headers).await;
    let code = stranger.send("POST", "/api/v1/sign-in-codes", &headers, "").await.json()["code"].clone();
    let session = api.post("/api/v1/sign-in", &json!({"code": code})).await.json();
    let session = format!("Bearer {}", session["bearer"].as_str().unwrap());
    let of_session = api.watch_with("groups", "&timeoutSeconds=3600", &[("authorization", &session)]).await;
    let used = async || api.get("/api/v1/tokens").await.json()["items"][0]["usedUnixNs"].clone();
    let before = used().await;
    tokio::time::sleep(WITHIN * 4).await;
    assert_eq!(used().await, before);
    assert_eq!(api.delete("/api/v1/tokens/ci").await.status, 204);
    assert_eq!(ends(stream).await, "your roles have changed");
    assert_eq!(ends(of_session).await, "your roles have changed");
}

/// Catches a session that its owner cannot find or end, one that others see, and a stream of it that continues.
#[tokio::test(start_paused = true)]
async fn sessions_are_listed_and_ended_by_their_owners_and_administrators() {
    let api = Api::prepared().await;
    let of = |name: &'static str, uid, role| api.by(Principal::operator(name, Some(uid)), Some(role));
    let (alice, bob) = (of("alice", 1000, Role::Viewer), of("bob", 1001, Role::Operator));
    let [first, second, other] = [signed_in(&alice).await, signed_in(&alice).await, signed_in(&bob).await];
    let ids = async |by: &Api| {
        let list = by.get("/api/v1/sessions").await;
        assert_eq!((list.status.as_u16(), list.header("cache-control")), (200, "no-store"));
        let items = list.json()["items"].as_array().unwrap().clone();
        items.iter().map(|item| (item["id"].as_u64().unwrap(), item["by"]["name"].clone())).collect::<Vec<_>>()
    };
    assert_eq!(ids(&alice).await, [(1, json!("alice")), (2, json!("alice"))]);
    assert_eq!(ids(&bob).await, [(3, json!("bob"))]);
    assert_eq!(ids(&api).await.len(), 3);
    assert_eq!(bob.delete("/api/v1/sessions/1").await.problem().0, 404);
    assert_eq!(alice.delete("/api/v1/sessions/99").await.problem().0, 404);
    assert_eq!(alice.delete("/api/v1/sessions/1?dryRun=true").await.problem().0, 400);
    let status =
        async |session: &str| api.send("GET", "/api/v1/groups", &[("authorization", session)], "").await.status;
    let stream = api.watch_with("groups", "", &[("authorization", &first)]).await;
    assert_eq!(alice.delete("/api/v1/sessions/1").await.status, 204);
    assert_eq!(ends(stream).await, "your roles have changed");
    assert_eq!((status(&first).await.as_u16(), status(&second).await.as_u16()), (401, 200));
    assert_eq!(api.delete("/api/v1/sessions/3").await.status, 204);
    assert_eq!(status(&other).await, 401);
    let audit = api.get("/api/v1/audit?limit=2").await.json();
    assert_eq!(audit["items"][0]["action"], "revoke", "{audit}");
    assert!(
        audit["items"].to_string().contains("session/1") && audit["items"].to_string().contains("session/3"),
        "{audit}"
    );
}
