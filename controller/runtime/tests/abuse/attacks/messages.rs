// SPDX-License-Identifier: Apache-2.0
//! Messages of agents: too long, never whole, or of more items than octets should hold.

use std::sync::Arc;
use std::time::Instant;

use super::each;
use super::http2::{OF_CONNECTION, OF_KEY, OPEN, TELEMETRY, begin};
use crate::ground::Ground;
use crate::wire;

/// The largest message of telemetry that the controller has ever taken.
const LARGEST: usize = 16 << 20;

/// As much of each as the controller reads, one octet short of whole.
pub(super) async fn stalled(ground: Ground, until: Instant) {
    let part = vec![0; 64 << 10];
    each(OF_KEY, until, move |_| {
        let (ground, part) = (ground.clone(), part.clone());
        async move {
            let mut http2 = begin(&ground, &ground.keys.node, OPEN).await?;
            for stream in 0..OF_CONNECTION {
                let stream = 2 * stream + 1;
                http2.call(stream, TELEMETRY).await?;
                http2.data(stream, &wire::message(LARGEST, &[])).await?;
                // The server's windows are what it gives back as it reads; an attacker that ignores them is disconnected.
                http2.data(stream, &part[..16 << 10]).await?;
            }
            for round in 1_u32.. {
                for stream in 0..OF_CONNECTION {
                    http2.data(2 * stream + 1, &part[..16 << 10]).await?;
                }
                if round as usize * (16 << 10) >= LARGEST - (32 << 10) {
                    break;
                }
            }
            super::keep(http2).await
        }
    })
    .await;
}

async fn send_whole(ground: Ground, until: Instant, content: Vec<u8>) {
    let content = Arc::new(wire::message(content.len(), &content));
    each(OF_KEY, until, move |_| {
        let (ground, content) = (ground.clone(), content.clone());
        async move {
            let mut http2 = begin(&ground, &ground.keys.node, OPEN).await?;
            http2.call(1, TELEMETRY).await?;
            loop {
                http2.data(1, &content).await?;
            }
        }
    })
    .await;
}

pub(super) async fn large(ground: Ground, until: Instant) {
    send_whole(ground, until, vec![0; 64 << 20]).await;
}

/// `groups`, each empty: two octets each on the wire, hundreds in memory.
pub(super) async fn empty_items(ground: Ground, until: Instant) {
    send_whole(ground, until, [wire::field(1, b"n2"), wire::field(3, &[]).repeat((4 << 20) / 2 - 8)].concat()).await;
}

/// A group of another, as far as a message goes; the schema ends it, a parser must too.
pub(super) async fn deep(ground: Ground, until: Instant) {
    let mut content = wire::field(3, &[]);
    while content.len() < 1 << 20 {
        content = wire::field(3, &content);
        if content.len() > 200_000 {
            break;
        }
    }
    // Groups of protobuf (wire type 3) need no lengths, so that they are the deepest.
    let groups = [wire::field(1, b"n2"), vec![0x7B; 1_000_000]].concat();
    send_whole(ground, until, [content, groups].concat()).await;
}
