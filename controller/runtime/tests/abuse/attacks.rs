// SPDX-License-Identifier: Apache-2.0
//! The attacks: what each sends, and with which identity.

mod handshakes;
mod http1;
mod http2;
mod messages;
pub(crate) mod user;

use std::future::Future;
use std::pin::Pin;
use std::time::{Duration, Instant};

use crate::ground::Ground;

/// An attack under way.
type Running = Pin<Box<dyn Future<Output = ()> + Send>>;

pub(crate) struct Attack {
    pub(crate) name: &'static str,
    /// Attacks until then; what its connections have ends with it.
    pub(crate) run: fn(Ground, Instant) -> Running,
}

macro_rules! attacks {
    ($($name:literal: $run:path,)*) => {
        pub(crate) const ALL: &[Attack] = &[$(Attack { name: $name, run: |ground, until| Box::pin($run(ground, until)) },)*];
    };
}

attacks! {
    "10,000 half-open TLS connections from 500 addresses": handshakes::half_open,
    "half a ClientHello on each of 2,000 connections": handshakes::half_hello,
    "half-open TLS connections from the honest callers' own address": handshakes::half_open_here,
    "anonymous TLS connections that stay, from 500 addresses": handshakes::idle,
    "1,100 half-sent requests over TLS": http1::half_sent_elsewhere,
    "1,100 half-sent requests of a user without a role": user::half_sent,
    "headers octet by octet over TLS": http1::slow_headers,
    "1,000 stalled bodies of a viewer": http1::stalled_bodies,
    "bodies in chunks of one octet of a viewer": http1::tiny_chunks,
    "bodies of 64 MiB of a viewer": http1::large_bodies,
    "JSON 100,000 deep of a viewer": http1::deep_json,
    "1,000 streams of a viewer that are never read": http1::unread_streams,
    "answers of a viewer that are never read": http1::unread_answers,
    "rapid reset of a node's agent": http2::rapid_reset,
    "CONTINUATION flood of a node's agent": http2::continuation,
    "SETTINGS and PING flood, nothing read, of a node's agent": http2::control_frames,
    "empty DATA frames of a host's agent": http2::empty_data,
    "streams without a message of a host's agent": http2::no_message,
    "closed windows on 16,384 watches of a host's agent": http2::closed_windows,
    "telemetry of 16 MiB that stops before its end, 1,024 streams of a node's agent": messages::stalled,
    "messages of 64 MiB of a node's agent": messages::large,
    "millions of empty items of a node's agent": messages::empty_items,
    "groups 1,000,000 deep of a node's agent": messages::deep,
}

/// Runs `one` for each number at once, again and again until then: what an attacker is refused, it tries again.
async fn each<F: Future<Output = std::io::Result<()>> + Send + 'static>(
    count: usize,
    until: Instant,
    one: impl Fn(usize) -> F + Clone + Send + 'static,
) {
    let mut all = tokio::task::JoinSet::new();
    for n in 0..count {
        let one = one.clone();
        all.spawn(async move {
            while Instant::now() < until {
                // The attacker's processor is also the controller's: without a pause after a refusal, that alone would be attacked.
                if tokio::time::timeout_at(until.into(), one(n)).await.is_ok_and(|ended| ended.is_err()) {
                    tokio::time::sleep(Duration::from_millis(500)).await;
                }
            }
        });
        if n % 64 == 63 {
            tokio::task::yield_now().await;
        }
    }
    while all.join_next().await.is_some() {}
}

/// Keeps what it is given until the attack ends.
async fn keep<T>(_held: T) -> std::io::Result<()> {
    std::future::pending().await
}

/// Keeps a connection until the other end closes it.
async fn until_closed(mut wire: impl tokio::io::AsyncRead + Unpin) -> std::io::Result<()> {
    let mut octets = [0; 4096];
    while tokio::io::AsyncReadExt::read(&mut wire, &mut octets).await? > 0 {}
    Err(std::io::ErrorKind::ConnectionReset.into())
}
