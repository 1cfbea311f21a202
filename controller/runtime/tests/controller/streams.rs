// SPDX-License-Identifier: Apache-2.0
//! Streams of changes over real sockets: readers that stall, `canopyctl get --watch`, and the end of the controller.

use std::io::Write;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use clap::Parser;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::UnixStream;

use crate::support::{Controller, DEADLINE, LAB};

/// Names of events, or of groups, as they arrive.
struct Stream(Lines<BufReader<UnixStream>>);

impl Stream {
    async fn open(dir: &Path, kind: &str) -> Self {
        let mut socket = UnixStream::connect(dir.join("rest.sock")).await.unwrap();
        let request = format!("GET /api/v1/{kind}?watch=true HTTP/1.1\r\nhost: localhost\r\n\r\n");
        socket.write_all(request.as_bytes()).await.unwrap();
        Self(BufReader::new(socket).lines())
    }

    /// The rest of the next line that begins with `prefix`; `None` at the end.
    async fn next(&mut self, prefix: &str) -> Option<String> {
        let line = async {
            while let Some(line) = self.0.next_line().await.unwrap() {
                if let Some(rest) = line.strip_prefix(prefix) {
                    return Some(rest.trim_end().to_owned());
                }
            }
            None
        };
        tokio::time::timeout(DEADLINE, line).await.expect("nothing came")
    }

    /// Reads until these groups were sent.
    async fn groups(&mut self, count: usize) {
        let mut names = std::collections::BTreeSet::new();
        while names.len() < count {
            let data = self.next("data: ").await.expect("the stream ended");
            let resource: serde_json::Value = serde_json::from_str(&data).unwrap();
            if let Some(name) = resource["metadata"]["name"].as_str() {
                names.insert(name.to_owned());
            }
        }
    }
}

/// Catches a write, or another reader, that waits for a reader that does not read; changes that a slow reader loses although they are
/// kept; and a shutdown that waits for it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_that_stalls_delays_nothing() {
    const GROUPS: usize = 600;
    let dir = tempfile::tempdir().unwrap();
    let controller = Controller::start(dir.path()).await;
    let mut stalled = Stream::open(dir.path(), "groups").await;
    let mut live = Stream::open(dir.path(), "groups").await;
    for stream in [&mut stalled, &mut live] {
        assert_eq!(stream.next("event: ").await.unwrap(), "synced");
    }
    // More than a socket holds.
    let label = "x".repeat(60);
    let documents: Vec<String> = (0..GROUPS)
        .map(|n| {
            let labels: Vec<String> = (0..16).map(|k| format!("k{k}: {label}")).collect();
            let labels = labels.join(", ");
            format!("apiVersion: canopy/v1\nkind: Group\nmetadata: {{name: g{n}, labels: {{{labels}}}}}\nspec: {{}}\n")
        })
        .collect();
    controller.apply(&documents.join("---\n")).await.unwrap();
    live.groups(GROUPS).await;
    stalled.groups(GROUPS).await;
    controller.stop().await;
    // Heartbeats and changes may come before the end.
    let mut last = None;
    while let Some(event) = live.next("event: ").await {
        last = Some(event);
    }
    assert_eq!(last.as_deref(), Some("bye"));
}

/// What a command prints while it runs.
#[derive(Clone, Default)]
struct Output(Arc<Mutex<Vec<u8>>>);

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Output {
    /// Waits until a line begins with these words, for the `times`th time.
    async fn has(&self, words: &[&str], times: usize) {
        let deadline = tokio::time::Instant::now() + DEADLINE;
        loop {
            let text = String::from_utf8(self.0.lock().unwrap().clone()).unwrap();
            let starts = |line: &&str| line.split_whitespace().take(words.len()).eq(words.iter().copied());
            if text.lines().filter(starts).count() >= times {
                return;
            }
            assert!(tokio::time::Instant::now() < deadline, "{words:?} is not {times} times in\n{text}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

/// Catches rows that are missing, and a command that ends with the controller.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn canopyctl_prints_changes_and_continues_with_the_next_controller() {
    let dir = tempfile::tempdir().unwrap();
    let controller = Controller::start(dir.path()).await;
    controller.apply(LAB).await.unwrap();
    let server = format!("unix:{}", dir.path().join("rest.sock").display());
    let line = ["canopyctl", "--server", &server, "get", "groups", "-w"];
    let output = Output::default();
    let mut out = output.clone();
    let watch = canopy_ctl::run(canopy_ctl::cli::Cli::try_parse_from(line).unwrap(), &mut out);
    let steps = async {
        output.has(&["CHANGE", "NAME", "PHASE"], 1).await;
        output.has(&["added", "g1"], 1).await;
        controller.apply("apiVersion: canopy/v1\nkind: Group\nmetadata: {name: g2}\nspec: {}\n").await.unwrap();
        output.has(&["added", "g2", "Pending"], 1).await;
        controller.ctl(&["delete", "group", "g2"]).await.unwrap();
        output.has(&["deleted", "g2"], 1).await;
        controller.stop().await;
        let controller = Controller::start(dir.path()).await;
        output.has(&["added", "g1"], 2).await;
        controller.ctl(&["delete", "group", "g1"]).await.unwrap();
        output.has(&["deleted", "g1"], 1).await;
        controller.stop().await;
    };
    tokio::select! {
        ended = watch => panic!("it ended: {ended:?}"),
        () = steps => {}
    }
}
