// SPDX-License-Identifier: Apache-2.0
//! Connections over TLS by attackers without any credential.

use std::time::Instant;

use tokio::io::AsyncWriteExt;

use super::{each, until_closed};
use crate::ground::Ground;
use crate::wire::{self, HERE};

/// Nothing is sent, half of them to each API.
pub(super) async fn half_open(ground: Ground, until: Instant) {
    let ports = [ground.grpc, ground.rest];
    each(10_000, until, move |n| async move {
        until_closed(wire::tcp(wire::elsewhere(n % 500), ports[n % 2]).await?).await
    })
    .await;
}

pub(super) async fn half_open_here(ground: Ground, until: Instant) {
    let ports = [ground.grpc, ground.rest];
    each(2_000, until, move |n| async move { until_closed(wire::tcp(HERE, ports[n % 2]).await?).await }).await;
}

/// The longest handshake message that there may be, but for its last octet.
pub(super) async fn half_hello(ground: Ground, until: Instant) {
    let ports = [ground.grpc, ground.rest];
    let mut hello = Vec::new();
    let content = [[1_u8, 0, 0xFF, 0xFF].as_slice(), &[0; 0xFFFE]].concat();
    for part in content.chunks(1 << 14) {
        hello.extend([22, 3, 1]);
        hello.extend((part.len() as u16).to_be_bytes());
        hello.extend(part);
    }
    each(2_000, until, move |n| {
        let hello = hello.clone();
        async move {
            let mut stream = wire::tcp(wire::elsewhere(n), ports[n % 2]).await?;
            stream.write_all(&hello).await?;
            until_closed(stream).await
        }
    })
    .await;
}

/// The handshake is whole, and nothing follows.
pub(super) async fn idle(ground: Ground, until: Instant) {
    each(1_000, until, move |n| {
        let ground = ground.clone();
        async move {
            let (port, keys) = match n % 2 {
                0 => (ground.grpc, ground.keys.anonymous),
                _ => (ground.rest, ground.keys.operator),
            };
            until_closed(wire::tls(wire::elsewhere(n % 500), port, keys).await?).await
        }
    })
    .await;
}
