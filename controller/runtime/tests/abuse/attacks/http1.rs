// SPDX-License-Identifier: Apache-2.0
//! The REST API: what is sent in part or never taken, by strangers and by the holder of a viewer's token.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::io::AsyncWriteExt;

use super::{each, keep, until_closed};
use crate::ground::Ground;
use crate::wire::{self, Wire};

/// As much as the API takes.
const LARGEST: usize = 4 << 20;

/// A connection over TLS from the n-th address.
async fn elsewhere(ground: &Ground, n: usize) -> io::Result<Wire> {
    wire::tls(wire::elsewhere(n), ground.rest, ground.keys.operator.clone()).await
}

pub(super) async fn half_sent_elsewhere(ground: Ground, until: Instant) {
    each(1_100, until, move |n| {
        let ground = ground.clone();
        async move {
            let mut wire = elsewhere(&ground, n % 20).await?;
            wire.write_all(b"GET /api/v1/groups HTTP/1.1\r\nHost: loc").await?;
            until_closed(wire).await
        }
    })
    .await;
}

pub(super) async fn slow_headers(ground: Ground, until: Instant) {
    each(1_000, until, move |n| {
        let ground = ground.clone();
        async move {
            let mut wire = elsewhere(&ground, n % 500).await?;
            wire.write_all(b"GET /livez HTTP/1.1\r\nX: ").await?;
            loop {
                wire.write_all(b"a").await?;
                tokio::time::sleep(Duration::from_millis(500)).await;
            }
        }
    })
    .await;
}

/// A request of the viewer, of whose body `sent` is there.
async fn validate(ground: &Ground, n: usize, length: usize, sent: &[u8]) -> io::Result<Wire> {
    let mut wire = match n % 2 {
        0 => elsewhere(ground, n % 20).await?,
        _ => Box::new(wire::tcp(wire::HERE, ground.loopback).await?) as Wire,
    };
    wire.write_all(wire::head("POST", "/api/v1/validate", Some(&ground.viewer), length).as_bytes()).await?;
    for part in sent.chunks(64 << 10) {
        wire.write_all(part).await?;
    }
    Ok(wire)
}

pub(super) async fn stalled_bodies(ground: Ground, until: Instant) {
    let part = Arc::new(vec![b' '; LARGEST - 1]);
    each(1_000, until, move |n| {
        let (ground, part) = (ground.clone(), part.clone());
        async move { until_closed(validate(&ground, n, LARGEST, &part).await?).await }
    })
    .await;
}

pub(super) async fn tiny_chunks(ground: Ground, until: Instant) {
    let chunks = Arc::new("1\r\n \r\n".repeat(1 << 20).into_bytes());
    each(200, until, move |n| {
        let (ground, chunks) = (ground.clone(), chunks.clone());
        async move {
            let mut wire = elsewhere(&ground, n % 20).await?;
            let head = wire::head("POST", "/api/v1/validate", Some(&ground.viewer), 0);
            let head = head.replace("Content-Length: 0", "Transfer-Encoding: chunked");
            wire.write_all(head.as_bytes()).await?;
            wire.write_all(&chunks).await?;
            until_closed(wire).await
        }
    })
    .await;
}

pub(super) async fn large_bodies(ground: Ground, until: Instant) {
    let part = Arc::new(vec![b' '; 64 << 20]);
    each(16, until, move |n| {
        let (ground, part) = (ground.clone(), part.clone());
        async move { until_closed(validate(&ground, n, part.len(), &part).await?).await }
    })
    .await;
}

/// Of lists, of objects, and of many small values.
pub(super) async fn deep_json(ground: Ground, until: Instant) {
    let deep = 100_000;
    let bodies = [
        "[".repeat(deep),
        format!("{}1{}", "{\"a\":".repeat(deep), "}".repeat(deep)),
        format!(r#"{{"items":[{}]}}"#, vec!["0"; LARGEST / 2 - 8].join(",")),
        format!(r#"{{"items":[{}]}}"#, vec!["{}"; LARGEST / 3 - 8].join(",")),
        format!(
            r#"{{"items":[{{"kind":"Group","metadata":{{"name":"g","labels":{{{}"z":"z"}}}}}}]}}"#,
            "\"a\":\"\",".repeat(LARGEST / 8)
        ),
    ];
    let bodies = bodies.map(Arc::new);
    each(64, until, move |n| {
        let (ground, body) = (ground.clone(), bodies[n % bodies.len()].clone());
        async move {
            let mut wire = validate(&ground, n, body.len(), body.as_bytes()).await?;
            wire::answer(&mut wire).await.map(drop)
        }
    })
    .await;
}

pub(super) async fn unread_streams(ground: Ground, until: Instant) {
    each(1_000, until, move |n| {
        let ground = ground.clone();
        async move {
            let mut wire = elsewhere(&ground, n % 20).await?;
            let path = "/api/v1/groups?watch=true&timeoutSeconds=3600";
            wire.write_all(wire::head("GET", path, Some(&ground.viewer), 0).as_bytes()).await?;
            keep(wire).await
        }
    })
    .await;
}

/// As many requests as the connection takes, whose answers pile up.
pub(super) async fn unread_answers(ground: Ground, until: Instant) {
    each(500, until, move |n| {
        let ground = ground.clone();
        async move {
            let mut wire = elsewhere(&ground, n % 20).await?;
            let request = wire::head("GET", "/api/v1/openapi.json", Some(&ground.viewer), 0);
            loop {
                wire.write_all(request.as_bytes()).await?;
            }
        }
    })
    .await;
}
