// SPDX-License-Identifier: Apache-2.0
//! The threads that read: the ring buffer's notifications, and the tables of flows and answers.

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

/// Notifications waiting for the daemon; past it the ring buffer holds 3,800 more and then drops the newest.
const DEPTH: usize = 4096;
/// How often the reader looks whether it is to end.
const POLL: Duration = Duration::from_millis(100);
/// How often flows are looked at, and how much longer than that itself takes.
const LOOK_EVERY: Duration = Duration::from_millis(250);
const LOOK_SHARE: u32 = 20;

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

    /// Starts the thread that looks at every flow and every answer, again and again: there may be thousands, and the daemon
    /// has packets to hear. It ends when nobody listens.
    pub(crate) fn sightings(&self) -> anyhow::Result<mpsc::Receiver<anyhow::Result<Sighted>>> {
        let (flows, answers) = (self.copy("flows")?, self.copy("answers")?);
        // A daemon that is busy gets no more than one look late.
        let (sender, receiver) = mpsc::channel(1);
        let run = move || loop {
            let begin = Instant::now();
            let seen = table(&flows, Seen::flow)
                .and_then(|flows| Ok(Sighted { flows, answers: table(&answers, Seen::answers)? }));
            if sender.blocking_send(seen).is_err() {
                return;
            }
            thread::sleep(LOOK_EVERY.max(begin.elapsed() * LOOK_SHARE));
        };
        thread::Builder::new().name("flows".into()).spawn(run).context("starting the flows' reader")?;
        Ok(receiver)
    }
}

/// What comes from the ring buffer.
#[derive(Debug)]
pub(crate) struct Notices {
    pub(crate) receiver: mpsc::Receiver<Notice>,
    /// Those that the daemon was too busy for.
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
            // The daemon sees the channel's end.
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
        // It may be gone since.
        let value = map.lookup(&key, MapFlags::ANY).with_context(|| format!("BPF map {:?}: reading", map.name()))?;
        if let Some((flow, seen)) = codec::read_key(&key).zip(value.as_deref().and_then(&read)) {
            all.insert(flow, seen);
        }
    }
    Ok(all)
}
