// SPDX-License-Identifier: Apache-2.0
//! A thread that reads a ring buffer into a bounded queue.

use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use libbpf_rs::{ErrorKind, MapHandle, RingBuffer, RingBufferBuilder};
use tokio::sync::mpsc;

use crate::error::{Context, Result};

/// Delay after a failed call.
const PAUSE: Duration = Duration::from_millis(100);

/// Records of a ring buffer. What is not read when this is dropped is left to the next reader.
#[derive(Debug)]
pub struct Records<T> {
    receiver: mpsc::Receiver<T>,
    lost: Arc<AtomicU64>,
    /// The thread ends when this end of the pair is closed.
    stop: Option<UnixStream>,
    thread: Option<JoinHandle<()>>,
}

impl<T> Drop for Records<T> {
    fn drop(&mut self) {
        self.stop = None;
        // The thread may wait for room.
        self.receiver.close();
        if let Some(thread) = self.thread.take() {
            // It has panicked, which the panic's message shows.
            let _ = thread.join();
        }
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
        let starting = || format!("starting the reader of ring buffer {name}");
        let (stop, stopped) = UnixStream::pair().with_context(starting)?;
        let push = move |data: &[u8]| {
            take(&sender, data);
            // An error ends the reading.
            if sender.is_closed() { -libc::ECANCELED } else { 0 }
        };
        let pump = move || pump(name, &map, push, &stopped);
        let thread = thread::Builder::new().name(name.into()).spawn(pump).with_context(starting)?;
        Ok(Self { receiver, lost, stop: Some(stop), thread: Some(thread) })
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

fn pump(name: &str, map: &MapHandle, push: impl FnMut(&[u8]) -> i32 + 'static, stop: &UnixStream) {
    let mut builder = RingBufferBuilder::new();
    let added = builder.add(map, push).map(drop);
    let ring = match added.and_then(|()| builder.build()) {
        Ok(ring) => ring,
        Err(error) => {
            tracing::error!(%error, ring = name, "cannot read the ring buffer: restart this daemon");
            return;
        }
    };
    loop {
        let failed = match wait(&ring, stop) {
            Ok(Woken::ToStop) => return,
            Ok(Woken::ToRead) => {
                ring.consume().err().filter(|e| e.kind() != ErrorKind::Interrupted).map(|e| e.to_string())
            }
            Err(error) => Some(error.to_string()),
        };
        if let Some(error) = failed {
            // Reading also ends with an error where the reader was dropped.
            if has_ended(stop) {
                return;
            }
            tracing::warn!(error, ring = name, "cannot read the ring buffer, trying again");
            thread::sleep(PAUSE);
        }
    }
}

/// Why the thread continues.
enum Woken {
    ToRead,
    ToStop,
}

/// Waits for records, or for the end of the reader.
fn wait(ring: &RingBuffer<'_>, stop: &UnixStream) -> io::Result<Woken> {
    let [_, stopped] = poll([ring.epoll_fd(), stop.as_raw_fd()], -1)?;
    Ok(if stopped { Woken::ToStop } else { Woken::ToRead })
}

/// Whether the reader was dropped.
fn has_ended(stop: &UnixStream) -> bool {
    poll([stop.as_raw_fd()], 0).is_ok_and(|[ended]| ended)
}

/// Which of the descriptors can be read or have ended, after at most `timeout` milliseconds; -1 waits for ever. None of them where a
/// signal interrupts it.
fn poll<const N: usize>(fds: [i32; N], timeout: i32) -> io::Result<[bool; N]> {
    let mut fds = fds.map(|fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 });
    // SAFETY: the array is live and has as many elements as the call is given.
    if unsafe { libc::poll(fds.as_mut_ptr(), N as libc::nfds_t, timeout) } < 0 {
        let error = io::Error::last_os_error();
        return if error.kind() == io::ErrorKind::Interrupted { Ok([false; N]) } else { Err(error) };
    }
    Ok(fds.map(|fd| fd.revents != 0))
}
