// SPDX-License-Identifier: Apache-2.0
//! The way of a browser into the API: codes, sessions, and what needs one.

use std::time::Duration;

use canopy_controller_core::principal::Principal;
use canopy_controller_core::role::Role;
use serde_json::json;

use crate::support::{Answer, Api, group, signed_in};

const CODES: &str = "/api/v1/sign-in-codes";
const SIGN_IN: &str = "/api/v1/sign-in";
/// Headers of which a browser sends one or more.
const OF_BROWSERS: [(&str, &str); 4] = [
    ("origin", "http://127.0.0.1:8640"),
    ("sec-fetch-site", "same-origin"),
    ("sec-fetch-site", "none"),
    ("sec-fetch-dest", "empty"),
];

async fn made(api: &Api) -> String {
    api.post(CODES, &json!({})).await.json()["code"].as_str().unwrap().to_owned()
}

async fn exchanged(api: &Api, code: &str) -> Answer {
    api.post(SIGN_IN, &json!({"code": code})).await
}

#[track_caller]
fn assert_refused(answer: &Answer, code: &str, why: &str) {
    assert_eq!((answer.status.as_u16(), answer.problem().1.as_str()), (401, code), "{why}: {}", answer.text);
    assert_eq!(answer.header("www-authenticate"), "Bearer", "{why}");
}

/// Catches a code that works twice, secrets that a cache keeps, and an answer that differs for a code that there was.
#[tokio::test]
async fn a_code_is_exchanged_once_and_a_used_one_is_like_none() {
    let api = Api::start().await;
    let answer = api.post(CODES, &json!({})).await;
    assert_eq!((answer.status.as_u16(), answer.header("cache-control")), (201, "no-store"));
    let code = answer.json()["code"].as_str().unwrap().to_owned();
    assert_eq!((code.len(), &answer.json()["expiresInSeconds"]), (22, &json!(60)));
    let begun = exchanged(&api, &code).await;
    assert_eq!((begun.status.as_u16(), begun.header("cache-control")), (200, "no-store"));
    assert_eq!(begun.json()["bearer"].as_str().unwrap().len(), 43);
    assert_eq!(begun.json()["expiresInSeconds"], 12 * 3600);
    let again = exchanged(&api, &code).await;
    assert_refused(&again, "CodeNotValid", "used");
    let never = exchanged(&api, "AAAAAAAAAAAAAAAAAAAAAA").await;
    // But for the id of the request, which is another for each.
    let without_id = |mut answer: Answer| {
        let id = answer.headers.remove("canopy-request-id").unwrap();
        (answer.status, answer.headers, answer.text.replace(id.to_str().unwrap(), ""))
    };
    assert_eq!(without_id(never), without_id(again));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_many_that_send_a_code_at_once_one_gets_a_session() {
    let api = std::sync::Arc::new(Api::start().await);
    let code = made(&api).await;
    let all = (0..8).map(|_| {
        let (api, code) = (api.clone(), code.clone());
        tokio::spawn(async move { exchanged(&api, &code).await.status.as_u16() })
    });
    let mut statuses = Vec::new();
    for one in all.collect::<Vec<_>>() {
        statuses.push(one.await.unwrap());
    }
    statuses.sort_unstable();
    assert_eq!(statuses, [&[200][..], &[401; 7]].concat());
}

/// Catches a code and a session that do not end, by a clock that the test moves.
#[tokio::test(start_paused = true)]
async fn codes_and_sessions_end_in_time() {
    let api = Api::start().await;
    let (early, late) = (made(&api).await, made(&api).await);
    tokio::time::advance(Duration::from_secs(59)).await;
    let begun = exchanged(&api, &early).await;
    assert_eq!(begun.status, 200);
    tokio::time::advance(Duration::from_secs(1)).await;
    assert_refused(&exchanged(&api, &late).await, "CodeNotValid", "too old");
    let bearer = format!("Bearer {}", begun.json()["bearer"].as_str().unwrap());
    let read = async || api.send("GET", "/api/v1/groups", &[("authorization", &bearer)], "").await;
    tokio::time::advance(Duration::from_secs(12 * 3600 - 2)).await;
    assert_eq!(read().await.status, 200);
    tokio::time::advance(Duration::from_secs(2)).await;
    assert_refused(&read().await, "SignInRequired", "too old");
}

/// Catches guessing without a limit, and a limit that stays.
#[tokio::test(start_paused = true)]
async fn wrong_codes_are_limited() {
    let api = Api::start().await;
    for _ in 0..10 {
        assert_refused(&exchanged(&api, "AAAAAAAAAAAAAAAAAAAAAA").await, "CodeNotValid", "wrong");
    }
    let code = made(&api).await;
    let limited = exchanged(&api, "AAAAAAAAAAAAAAAAAAAAAA").await;
    assert_eq!(limited.problem().1, "TooManyCodes");
    let wait: u64 = limited.header("retry-after").parse().unwrap();
    assert!((1..=7).contains(&wait), "{wait}");
    // Others that guess keep no operator out.
    assert_eq!(exchanged(&api, &code).await.status, 200);
    tokio::time::advance(Duration::from_secs(wait)).await;
    assert_refused(&exchanged(&api, "AAAAAAAAAAAAAAAAAAAAAA").await, "CodeNotValid", "forgiven");
}

/// Catches a path or method that a browser uses without a session, one that needs a session and should not, and scripts that need one.
#[tokio::test]
async fn a_browser_needs_a_session_for_everything_below_api_and_scripts_need_none() {
    let api = Api::prepared().await;
    let bearer = signed_in(&api).await;
    let json = ("content-type", "application/json");
    let requests = [
        ("GET", "/api/v1/groups/g1", 200),
        ("HEAD", "/api/v1/groups/g1", 200),
        ("GET", "/api/v1/openapi.json", 200),
        ("GET", "/api/v1/nothing", 404),
        ("OPTIONS", "/api/v1/groups/g1", 405),
        ("PUT", "/api/v1/groups/g1", 200),
        ("DELETE", "/api/v1/groups/g1", 204),
    ];
    for (method, path, with_session) in requests {
        let body = if method == "PUT" { group("g1").to_string() } else { String::new() };
        for header in OF_BROWSERS {
            for more in [None, Some("Bearer AAAA"), Some("Basic AAAA"), Some("Bearer"), Some("")] {
                let headers: Vec<_> = [Some(json), Some(header), more.map(|more| ("authorization", more))]
                    .into_iter()
                    .flatten()
                    .collect();
                let answer = api.send(method, path, &headers, body.clone()).await;
                assert_eq!(answer.status, 401, "{method} {path} {headers:?}");
                assert_eq!(answer.header("www-authenticate"), "Bearer");
            }
        }
        assert_eq!(api.get("/api/v1/groups/g1").await.status, 200, "{method} {path} changed something");
        let headers = [json, OF_BROWSERS[0], OF_BROWSERS[1], ("authorization", &bearer)];
        assert_eq!(api.send(method, path, &headers, body).await.status, with_session, "{method} {path}");
    }
    let watch = [OF_BROWSERS[1]];
    assert_refused(&api.send("GET", "/api/v1/watch?topics=groups", &watch, "").await, "SignInRequired", "a stream");
    // Programs send none of these headers; Node's fetch sends one that no decision is made by.
    for script in [("sec-fetch-mode", "cors"), ("user-agent", "curl/8"), ("authorization", "Basic AAAA")] {
        assert_eq!(api.send("GET", "/api/v1/nodes", &[script], "").await.status, 200, "{script:?}");
    }
    for open in ["/", "/plain", "/icon.svg", "/livez", "/readyz", "/version", "/metrics"] {
        assert_eq!(api.send("GET", open, &OF_BROWSERS[..2], "").await.status, 200, "{open}");
    }
    // Other forms of a path lead nowhere.
    for path in ["//api/v1/nodes", "/api//v1/nodes", "/%61pi/v1/nodes", "/API/v1/nodes", "/x/../api/v1/nodes"] {
        let answer = api.send("GET", path, &OF_BROWSERS[..2], "").await;
        assert!(!answer.text.contains("nodeAddress") && answer.status != 200, "{path}: {}", answer.text);
    }
}

/// Catches a page that makes itself a code, and a session that prolongs itself.
#[tokio::test]
async fn neither_a_browser_nor_a_session_makes_codes() {
    let api = Api::start().await;
    let bearer = signed_in(&api).await;
    for header in OF_BROWSERS {
        let answer = api.send("POST", CODES, &[header], "").await;
        assert_refused(&answer, "SignInRequired", header.0);
        let answer = api.send("POST", CODES, &[header, ("authorization", &bearer)], "").await;
        assert_eq!(answer.problem().1, "NotForBrowsers", "{header:?}");
    }
    let answer = api.send("POST", CODES, &[("authorization", &bearer)], "").await;
    assert_eq!(answer.problem().1, "NotForBrowsers");
}

/// Catches writes that are another user's than of who had the code made, and ones that the audit shows like those of canopyctl.
#[tokio::test]
async fn writes_of_a_session_are_by_who_had_its_code_made() {
    let api = Api::start().await;
    let of = |name: &'static str, uid| api.by(Principal::operator(name, Some(uid)), Some(Role::Operator));
    let (alice, bob) = (of("alice", 1000), of("bob", 1001));
    let bearer = signed_in(&alice).await;
    let headers = [("content-type", "application/json"), ("origin", "http://x"), ("authorization", bearer.as_str())];
    let written = bob.send("PUT", "/api/v1/groups/g1", &headers, group("g1").to_string()).await;
    let by = json!({"kind": "operator", "name": "alice", "uid": 1000, "via": "ui"});
    assert_eq!(written.json()["metadata"]["writtenBy"], by);
    assert_eq!(bob.put("/api/v1/groups/g2", &group("g2")).await.status, 201);
    let audit = bob.get("/api/v1/audit").await.json();
    assert_eq!(audit["items"][1]["by"], by);
    assert_eq!(audit["items"][0]["by"], json!({"kind": "operator", "name": "bob", "uid": 1001}));
    assert_eq!(bob.get("/api/v1/audit?by=alice").await.json()["items"].as_array().unwrap().len(), 1);
}

/// Catches a session that is not ended by signing out, or that another controller knows.
#[tokio::test]
async fn a_session_ends_by_signing_out_and_with_the_controller() {
    let api = Api::start().await;
    let [one, other] = [signed_in(&api).await, signed_in(&api).await];
    let send = async |api: &Api, method: &str, path: &str, bearer: &str| {
        api.send(method, path, &[("authorization", bearer), OF_BROWSERS[1]], "").await
    };
    let restarted = Api::of(api.controller.clone());
    assert_refused(&send(&restarted, "GET", "/api/v1/groups", &one).await, "SignInRequired", "after a restart");
    assert_eq!(send(&api, "DELETE", SIGN_IN, &one).await.status, 204);
    for (method, path) in [("GET", "/api/v1/groups"), ("DELETE", SIGN_IN)] {
        assert_refused(&send(&api, method, path, &one).await, "SignInRequired", path);
    }
    assert_eq!(send(&api, "GET", "/api/v1/groups", &other).await.status, 200);
    assert_refused(&api.delete(SIGN_IN).await, "SignInRequired", "without a bearer");
}

/// Catches a refusal that repeats what was sent, which may be a code in the wrong place.
#[tokio::test]
async fn a_code_in_the_wrong_place_is_not_repeated() {
    let api = Api::start().await;
    let code = made(&api).await;
    let bodies = [
        json!(code),
        json!([code]),
        json!({code.clone(): 1}),
        json!({"code": [code]}),
        json!({"code": {"code": code}}),
        json!({"code": format!("#{code}")}),
        json!({"code": code, "more": code}),
        json!({"code": code.chars().rev().chain(['!']).collect::<String>()}),
    ];
    for body in bodies {
        let answer = api.post(SIGN_IN, &body).await;
        let (status, _, errors) = answer.problem();
        let field = if body.is_array() { "body: " } else { "code: " };
        assert!(status == 422 && errors.len() == 1 && errors[0].starts_with(field), "{body}: {}", answer.text);
        assert!(!answer.text.contains(&code), "{}", answer.text);
    }
    let headers = [("content-type", "application/json")];
    for body in [code.clone(), format!("{{\"code\": {code}}}"), format!("{{\"code\": \"{code}")] {
        let answer = api.send("POST", SIGN_IN, &headers, body).await;
        assert_eq!(answer.problem().0, 400);
        assert!(!answer.text.contains(&code), "{}", answer.text);
    }
    assert_eq!(api.send("POST", SIGN_IN, &[], json!({"code": code}).to_string()).await.problem().0, 415);
    assert_eq!(exchanged(&api, &code).await.status, 200, "a refusal used the code up");
}
