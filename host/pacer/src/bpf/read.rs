// SPDX-License-Identifier: Apache-2.0
//! The threads that read the ring buffer's notifications, and the tables of flows and answers.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context;
use libbpf_rs::{MapCore, MapFlags, MapHandle, RingBufferBuilder};
use tokio::sync::mpsc;

use super::Bpf;
use crate::codec::{self, Notice, Seen};
use crate::engine::Flow;
use crate::learn::Sighted;

/// Notifications queued for the daemon; beyond that the ring buffer holds 3,800 more and then drops the newest.
const DEPTH: usize = 4096;
/// Interval at which the reader checks whether it must stop.
const POLL: Duration = Duration::from_millis(100);
/// Minimum pause between two samples of the flows, and the pause as a multiple of the duration of a sample.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(250);
const SAMPLE_PAUSE_FACTOR: u32 = 20;

impl Bpf {
    /// Starts the thread that reads the ring buffer.
    pub(crate) fn notices(&self) -> anyhow::Result<Notices> {
        let map = self.copy("notices")?;
        let (sender, receiver) = mpsc::channel(DEPTH);
        let (stop, lost) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (stopped, losses) = (Arc::clone(&stop), Arc::clone(&lost));
        let run = move || pump(&map, &sender, &stopped, &losses);
        thread::Builder::new().name("notices".into()).spawn(run).context("starting the ring buffer's reader")?;
        Ok(Notices { receiver, lost, stop })
    }

    /// Starts the thread that samples every flow and every answer periodically: there may be thousands, and the
    /// daemon must receive packets meanwhile. It ends when the receiver is dropped.
    pub(crate) fn sightings(&self) -> anyhow::Result<mpsc::Receiver<anyhow::Result<Sighted>>> {
        let (flows, answers) = (self.copy("flows")?, self.copy("answers")?);
        // A busy daemon gets at most one outdated sample.
        let (sender, receiver) = mpsc::channel(1);
        let run = move || loop {
            let begin = Instant::now();
            let seen = table(&flows, Seen::flow)
                .and_then(|flows| Ok(Sighted { flows, answers: table(&answers, Seen::answers)? }));
            if sender.blocking_send(seen).is_err() {
                return;
            }
            thread::sleep(SAMPLE_INTERVAL.max(begin.elapsed() * SAMPLE_PAUSE_FACTOR));
        };
        thread::Builder::new().name("flows".into()).spawn(run).context("starting the flows' reader")?;
        Ok(receiver)
    }
}

/// Notifications from the ring buffer.
#[derive(Debug)]
pub(crate) struct Notices {
    pub(crate) receiver: mpsc::Receiver<Notice>,
    /// Notifications dropped because the daemon was busy.
    pub(crate) lost: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
}

impl Drop for Notices {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

fn pump(map: &MapHandle, sender: &mpsc::Sender<Notice>, stop: &AtomicBool, lost: &AtomicU64) {
    let push = |data: &[u8]| {
        if let Some(notice) = Notice::read(data)
            && sender.try_send(notice).is_err()
        {
            lost.fetch_add(1, Ordering::Relaxed);
        }
        0
    };
    let mut builder = RingBufferBuilder::new();
    let added = builder.add(map, push).map(drop);
    let ring = match added.and_then(|()| builder.build()) {
        Ok(ring) => ring,
        Err(error) => {
            // The daemon detects the end of the channel.
            tracing::error!(%error, "the ring buffer cannot be read");
            return;
        }
    };
    while !stop.load(Ordering::Relaxed) {
        if let Err(error) = ring.poll(POLL)
            && error.kind() != libbpf_rs::ErrorKind::Interrupted
        {
            tracing::warn!(%error, "polling the ring buffer");
            thread::sleep(POLL);
        }
    }
}

fn table(map: &MapHandle, read: impl Fn(&[u8]) -> Option<Seen>) -> anyhow::Result<BTreeMap<Flow, Seen>> {
    let mut all = BTreeMap::new();
    for key in map.keys() {
        // The entry may have been deleted since.
        let value = map.lookup(&key, MapFlags::ANY).with_context(|| format!("BPF map {:?}: reading", map.name()))?;
        if let Some((flow, seen)) = codec::read_key(&key).zip(value.as_deref().and_then(&read)) {
            all.insert(flow, seen);
        }
    }
    Ok(all)
}
