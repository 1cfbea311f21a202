// SPDX-License-Identifier: Apache-2.0
//! A thread that reads a ring buffer into a bounded queue.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use libbpf_rs::{ErrorKind, MapHandle, RingBufferBuilder};
use tokio::sync::mpsc;

use crate::error::{Context, Result};

/// How often the thread checks whether it must stop.
const POLL: Duration = Duration::from_millis(100);

/// Records of a ring buffer. The thread ends when this is dropped.
#[derive(Debug)]
pub struct Records<T> {
    receiver: mpsc::Receiver<T>,
    lost: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
}

impl<T> Drop for Records<T> {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

impl<T: Send + 'static> Records<T> {
    /// Starts the thread `name`, which parses each record with `parse`; `depth` records wait for [`Records::next`], and the newest are
    /// lost beyond that.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn read(
        map: MapHandle,
        name: &'static str,
        depth: usize,
        parse: impl Fn(&[u8]) -> Option<T> + Send + 'static,
    ) -> Result<Self> {
        let lost = Arc::new(AtomicU64::new(0));
        let losses = Arc::clone(&lost);
        Self::start(map, name, depth, lost, move |sender, data| {
            if let Some(record) = parse(data)
                && sender.try_send(record).is_err()
            {
                losses.fetch_add(1, Ordering::Relaxed);
            }
        })
    }

    /// As [`Records::read`], but loses none: while `depth` records wait the ring buffer is not read, and the program that fills it
    /// finds out and counts.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn read_all(
        map: MapHandle,
        name: &'static str,
        depth: usize,
        parse: impl Fn(&[u8]) -> Option<T> + Send + 'static,
    ) -> Result<Self> {
        Self::start(map, name, depth, Arc::default(), move |sender, data| {
            if let Some(record) = parse(data) {
                // Fails only if the reader is gone, and then the thread ends.
                let _ = sender.blocking_send(record);
            }
        })
    }

    fn start(
        map: MapHandle,
        name: &'static str,
        depth: usize,
        lost: Arc<AtomicU64>,
        take: impl Fn(&mpsc::Sender<T>, &[u8]) + Send + 'static,
    ) -> Result<Self> {
        let (sender, receiver) = mpsc::channel(depth);
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let push = move |data: &[u8]| {
            take(&sender, data);
            0
        };
        let pump = move || pump(name, &map, push, &stopped);
        thread::Builder::new().name(name.into()).spawn(pump).context("starting the reader of a ring buffer")?;
        Ok(Self { receiver, lost, stop })
    }

    /// The next record; `None` if the ring buffer cannot be read any more. Cancel safe.
    pub async fn next(&mut self) -> Option<T> {
        self.receiver.recv().await
    }

    /// Appends up to `limit` records to `batch` and returns how many; 0 if the ring buffer cannot be read any more. Cancel safe.
    pub async fn next_batch(&mut self, batch: &mut Vec<T>, limit: usize) -> usize {
        self.receiver.recv_many(batch, limit).await
    }

    /// Records lost because the queue was full.
    pub fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }
}

fn pump(name: &str, map: &MapHandle, push: impl FnMut(&[u8]) -> i32 + 'static, stop: &AtomicBool) {
    let mut builder = RingBufferBuilder::new();
    let added = builder.add(map, push).map(drop);
    let ring = match added.and_then(|()| builder.build()) {
        Ok(ring) => ring,
        Err(error) => {
            tracing::error!(%error, ring = name, "cannot read the ring buffer: restart this daemon");
            return;
        }
    };
    while !stop.load(Ordering::Relaxed) {
        if let Err(error) = ring.poll(POLL)
            && error.kind() != ErrorKind::Interrupted
        {
            tracing::warn!(%error, ring = name, "cannot poll the ring buffer, trying again");
            thread::sleep(POLL);
        }
    }
}
