// SPDX-License-Identifier: Apache-2.0
//! What one caller may have in flight, and that another one is served meanwhile.

use std::convert::Infallible;

use axum::body::{Body, Bytes};
use axum::http::{Request, Response};
use canopy_controller_core::principal::Principal;
use canopy_controller_core::role::Role;
use futures::StreamExt;
use tower::ServiceExt;

use crate::support::{Answer, Api, group};

const JSON: [(&str, &str); 1] = [("content-type", "application/json")];
/// Most of the largest body: two of them are what one caller may have.
const PART: usize = 3 << 20;

fn other(api: &Api) -> Api {
    api.by(Principal::operator("other", Some(1000)), Some(Role::Operator))
}

/// So many octets, of which no more come.
fn stalled(octets: usize) -> Body {
    let part = Ok::<_, Infallible>(Bytes::from(vec![b' '; octets]));
    Body::from_stream(futures::stream::iter([part]).chain(futures::stream::pending()))
}

#[track_caller]
fn is_refused(answer: &Answer, wanted: (u16, &str)) {
    let (status, code, _) = answer.problem();
    assert_eq!((status, code.as_str()), wanted, "{}", answer.text);
    assert_eq!(answer.header("retry-after"), "1");
}

/// Catches bodies that are bounded one by one only, a share that is never given back, and a caller that pays for another.
#[tokio::test(start_paused = true)]
async fn bodies_in_flight_are_bounded_for_each_caller() {
    let api = Api::prepared().await;
    let send = |api: &Api, body: Body| {
        let api = Api { router: api.router.clone(), controller: api.controller.clone() };
        tokio::spawn(async move { api.send("POST", "/api/v1/validate", &JSON, body).await })
    };
    let waiting = [send(&api, stalled(PART)), send(&api, stalled(PART))];
    tokio::task::yield_now().await;
    is_refused(&send(&api, stalled(PART)).await.unwrap(), (429, "TooManyOctets"));
    assert_eq!(other(&api).put("/api/v1/groups/g2", &group("g2")).await.status, 201);
    for late in waiting {
        let (status, code, _) = late.await.unwrap().problem();
        assert_eq!((status, code.as_str()), (408, "BodyTimeout"));
    }
    // Another one has the room again, and is read to its end.
    let (status, code, _) = send(&api, vec![b' '; PART].into()).await.unwrap().problem();
    assert_eq!((status, code.as_str()), (400, "MalformedJson"));
    // Parts of an octet cost more than their octets.
    let parts = futures::stream::repeat_with(|| Ok::<_, Infallible>(Bytes::from_static(b" "))).take(1 << 20);
    is_refused(&send(&api, Body::from_stream(parts)).await.unwrap(), (429, "TooManyOctets"));
}

async fn description(api: &Api) -> Response<Body> {
    let request = Request::builder().uri("/api/v1/openapi.json").body(Body::empty()).unwrap();
    api.router.clone().oneshot(request).await.unwrap()
}

/// Catches answers that pile up where nothing takes them, and an answer that is not whole or has lost its length.
#[tokio::test]
async fn answers_that_are_not_taken_are_bounded_for_each_caller() {
    let api = Api::prepared().await;
    let whole = api.get("/api/v1/openapi.json").await;
    assert_eq!(whole.header("content-length"), whole.text.len().to_string());
    assert_eq!(whole.json(), canopy_controller_rest::openapi());
    let mut held = Vec::new();
    let refused = loop {
        let answer = description(&api).await;
        if answer.status() != 200 {
            break answer;
        }
        held.push(answer);
        assert!(held.len() * whole.text.len() <= 16 << 20, "{} answers are held", held.len());
    };
    assert_eq!((refused.status().as_u16(), &refused.headers()["retry-after"]), (429, &"1".parse().unwrap()));
    assert_eq!(description(&other(&api)).await.status(), 200);
    drop(held);
    assert_eq!(description(&api).await.status(), 200);
}

/// Catches one caller that has all streams.
#[tokio::test]
async fn streams_are_bounded_for_each_caller() {
    let api = Api::prepared().await;
    let mut held = Vec::new();
    for _ in 0..128 {
        held.push(api.watch("groups", "").await);
    }
    is_refused(&api.get("/api/v1/groups?watch=true").await, (429, "TooManyStreams"));
    other(&api).watch("groups", "").await.present().await;
    held.pop();
    api.watch("groups", "").await.present().await;
    // Root on the controller's machine is bounded by the streams of the address alone.
    let root = api.by(Principal::operator("root", Some(0)), Some(Role::Admin));
    for _ in 0..200 {
        held.push(root.watch("groups", "").await);
    }
}
