// SPDX-License-Identifier: Apache-2.0
//! What watchers cost a write: 2,000 of them, SSE and gRPC, against none, in the same run; and what readers that stall cost the others.
//!
//! All clients are in this process and share its processors with the controller. The store is in memory, so that no disk hides a cost.
#![allow(clippy::unwrap_used)]

#[path = "../tests/support/mod.rs"]
mod support;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use canopy_control::pb::WatchGroupRequest;
use canopy_control::pb::membership_service_client::MembershipServiceClient;
use canopy_controller_runtime::{Listen, Parts, run};
use canopy_store::MemStore;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;

/// Streams of changes that a listener takes, less some for the writer and the live reader.
const SSE: usize = 500;
const GRPC: usize = 1500;
/// HTTP/2 connections of the gRPC watchers.
const CHANNELS: usize = 20;
const ROUNDS: usize = 5;
const WRITES: usize = 2000;

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(measure());
}

async fn measure() {
    let dir = tempfile::tempdir().unwrap();
    let bind = async |name: &str| Listen::Unix(dir.path().join(name)).bind().await.unwrap();
    let (stop, shutdown) = watch::channel(false);
    let (ready, is_ready) = oneshot::channel();
    let parts = Parts {
        store: Arc::new(MemStore::new()),
        addressing: Default::default(),
        thresholds: Default::default(),
        hmac: Default::default(),
        traces: None,
        lease_grace: Duration::from_secs(60),
        registrar: None,
        attestor: None,
        roles: Default::default(),
        quotas: Default::default(),
        tokens: Default::default(),
        accounts: None,
        grpc: vec![bind("grpc.sock").await],
        rest: vec![bind("rest.sock").await],
        web: None,
        single_sign_on: None,
        shutdown,
        on_ready: Box::new(move || ready.send(()).unwrap()),
    };
    let task = tokio::spawn(run(parts));
    is_ready.await.unwrap();
    let mut writer = Writer::connect(dir.path()).await;
    writer.put("watched", 0).await;
    writer.put("other", 0).await;

    println!("{SSE} SSE and {GRPC} gRPC watchers; {WRITES} writes per round, {ROUNDS} rounds; medians (min, max)");
    for (what, kind) in
        [("SSE of nodes: no watcher gets the write", "nodes"), ("SSE of groups: each gets it", "groups")]
    {
        let mut rounds = Vec::new();
        for _ in 0..ROUNDS {
            let none = writer.time().await;
            let received = Arc::new(AtomicU64::new(0));
            let watchers = watchers(dir.path(), kind, &received).await;
            let before = received.load(Ordering::Relaxed);
            let with = writer.time().await;
            let events = received.load(Ordering::Relaxed) - before;
            drop(watchers);
            rounds.push((with.as_secs_f64() / none.as_secs_f64(), none, with, events));
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
        rounds.sort_by(|a, b| a.0.total_cmp(&b.0));
        let (ratio, none, with, events) = rounds[ROUNDS / 2];
        let (least, most) = (rounds[0].0, rounds[ROUNDS - 1].0);
        println!(
            "{what}: a write takes {none:.0?} without, {with:.0?} with them; ratio {ratio:.2} ({least:.2}, {most:.2}); {events} events meanwhile"
        );
    }

    println!("from a write to a live reader, {ROUNDS} rounds; medians (min, max)");
    for stalled in [0, 100, 400] {
        let mut rounds = Vec::new();
        for round in 0..ROUNDS {
            let readers: Vec<UnixStream> = {
                let mut readers = Vec::new();
                for _ in 0..stalled {
                    readers.push(sse(dir.path(), "groups").await);
                }
                readers
            };
            // Their sockets are full before the measurement.
            fill(&mut writer, if stalled == 0 { 0 } else { 400 }).await;
            rounds.push(latency(dir.path(), &mut writer, round).await);
            drop(readers);
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
        rounds.sort();
        println!(
            "{stalled:>4} stalled readers: {:.0?} ({:.0?}, {:.0?})",
            rounds[ROUNDS / 2],
            rounds[0],
            rounds[ROUNDS - 1]
        );
    }
    stop.send_replace(true);
    task.await.unwrap().unwrap();
}

/// Changes of many groups, of which each stalled reader gets all.
async fn fill(writer: &mut Writer, groups: usize) {
    for n in 0..groups {
        writer.put(&format!("fill{n}"), n).await;
    }
}

/// Median time from the beginning of a write until a live reader has its event.
async fn latency(dir: &Path, writer: &mut Writer, round: usize) -> Duration {
    let mut live = BufReader::new(sse(dir, "groups").await).lines();
    let mut next = async |wanted: &str| {
        loop {
            let line = live.next_line().await.unwrap().unwrap();
            if line.contains(wanted) {
                return;
            }
        }
    };
    next("event: synced").await;
    let mut times = Vec::new();
    for n in 0..20 {
        // Later than the pace of the ring.
        tokio::time::sleep(Duration::from_millis(100)).await;
        let (begin, label) = (Instant::now(), 1_000_000 + round * 1000 + n);
        writer.put("other", label).await;
        next(&format!("\"round\":\"{label}\"")).await;
        times.push(begin.elapsed());
    }
    times.sort();
    times[times.len() / 2]
}

/// All watchers, each past its first event.
async fn watchers(dir: &Path, kind: &'static str, received: &Arc<AtomicU64>) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    let open = Arc::new(AtomicU64::new(0));
    for _ in 0..CHANNELS {
        let channel = support::channel(PathBuf::from(dir).join("grpc.sock")).await;
        for _ in 0..GRPC / CHANNELS {
            let (mut client, open) = (MembershipServiceClient::new(channel.clone()), open.clone());
            tasks.spawn(async move {
                let mut stream = client
                    .watch_group(WatchGroupRequest { group: "watched".into(), ..Default::default() })
                    .await
                    .unwrap()
                    .into_inner();
                while let Ok(Some(_)) = stream.message().await {
                    open.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    }
    for _ in 0..SSE {
        let (open, received, mut lines) =
            (open.clone(), received.clone(), BufReader::new(sse(dir, kind).await).lines());
        tasks.spawn(async move {
            while let Ok(Some(line)) = lines.next_line().await {
                match line.strip_prefix("event: ") {
                    Some("synced") => _ = open.fetch_add(1, Ordering::Relaxed),
                    Some("added" | "modified") => _ = received.fetch_add(1, Ordering::Relaxed),
                    _ => {}
                }
            }
        });
    }
    while (open.load(Ordering::Relaxed) as usize) < SSE + GRPC {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    tasks
}

async fn sse(dir: &Path, kind: &str) -> UnixStream {
    let mut socket = UnixStream::connect(dir.join("rest.sock")).await.unwrap();
    let request = format!("GET /api/v1/{kind}?watch=true&timeoutSeconds=3600 HTTP/1.1\r\nhost: localhost\r\n\r\n");
    socket.write_all(request.as_bytes()).await.unwrap();
    socket
}

/// One connection that writes groups.
struct Writer(UnixStream, usize);

impl Writer {
    async fn connect(dir: &Path) -> Self {
        Self(UnixStream::connect(dir.join("rest.sock")).await.unwrap(), 0)
    }

    async fn put(&mut self, name: &str, label: usize) {
        let body = format!(
            "{{\"apiVersion\":\"canopy/v1\",\"kind\":\"Group\",\"metadata\":{{\"name\":\"{name}\",\"labels\":{{\"round\":\"{label}\"}}}},\"spec\":{{}}}}"
        );
        let head = format!(
            "PUT /api/v1/groups/{name} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        self.0.write_all((head + &body).as_bytes()).await.unwrap();
        let mut answer = vec![0; 64 << 10];
        let mut have = 0;
        loop {
            let n = self.0.read(&mut answer[have..]).await.unwrap();
            assert!(n > 0, "the connection was closed");
            have += n;
            let text = std::str::from_utf8(&answer[..have]).unwrap();
            assert!(text.starts_with("HTTP/1.1 20"), "{text}");
            if let Some((head, body)) = text.split_once("\r\n\r\n") {
                let length = head.lines().find_map(|l| l.strip_prefix("content-length: ")).unwrap();
                if body.len() == length.parse::<usize>().unwrap() {
                    return;
                }
            }
        }
    }

    /// Mean time of a write to a group that no gRPC watcher waits for.
    async fn time(&mut self) -> Duration {
        let begin = Instant::now();
        for _ in 0..WRITES {
            self.1 += 1;
            self.put("other", self.1).await;
        }
        begin.elapsed() / WRITES as u32
    }
}
