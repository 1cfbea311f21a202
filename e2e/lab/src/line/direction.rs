// SPDX-License-Identifier: Apache-2.0
//! One direction of a line: from the port where frames arrive to the port where they leave.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use anyhow::Result;
use canopy_units::{Monotonic, Octets, Rate, nanos, numbers};
use nix::sys::prctl::set_timerslack;
use serde::{Deserialize, Serialize};

use super::port::{BATCH, Port, monotonic};
use super::queue::{Queue, limit};

/// The port is polled this often while frames are in transit: arrivals carry their own timestamps.
const POLL_INTERVAL: Duration = Duration::from_micros(200);
/// Frames that are due within this time leave together.
const TOGETHER: Duration = Duration::from_micros(30);

/// Counters of one direction of a delay line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LineCounters {
    /// Frames in transit now.
    pub queued_frames: u64,
    /// Their bytes, with the memory overhead of queueing them.
    #[serde(rename = "queuedBytes")]
    pub queued_octets: Octets,
    /// Frames that left.
    pub forwarded: u64,
    /// Frames dropped because rate x delay and the headroom were in use.
    pub dropped_full: u64,
    /// Frames dropped because they arrived faster than this process received them.
    pub dropped_overrun: u64,
    /// Frames dropped because the far end was down.
    pub dropped_down: u64,
    /// Mean time between when a frame was due and when it left.
    #[serde(rename = "meanLateNs", with = "numbers::nanos")]
    pub mean_late: Duration,
    /// The maximum of the same.
    #[serde(rename = "worstLateNs", with = "numbers::nanos")]
    pub worst_late: Duration,
}

/// The counters as the forwarding thread updates them; times in nanoseconds.
#[derive(Debug, Default)]
pub(super) struct Counts {
    queued: [AtomicU64; 2],
    forwarded: AtomicU64,
    full: AtomicU64,
    overrun: AtomicU64,
    down: AtomicU64,
    late: AtomicU64,
    worst: AtomicU64,
}

impl Counts {
    pub(super) fn read(&self) -> LineCounters {
        let forwarded = self.forwarded.load(Relaxed);
        LineCounters {
            queued_frames: self.queued[0].load(Relaxed),
            queued_octets: Octets(self.queued[1].load(Relaxed)),
            forwarded,
            dropped_full: self.full.load(Relaxed),
            dropped_overrun: self.overrun.load(Relaxed),
            dropped_down: self.down.load(Relaxed),
            mean_late: Duration::from_nanos(self.late.load(Relaxed).checked_div(forwarded).unwrap_or(0)),
            worst_late: Duration::from_nanos(self.worst.load(Relaxed)),
        }
    }
}

/// Forwards until an error. `delay` in nanoseconds may change at any time and applies to frames that arrive from then
/// on.
///
/// # Errors
/// An interface is gone.
pub(super) fn run(from: &Port, to: &Port, delay: &AtomicU64, rate: Rate, counts: &Counts) -> Result<()> {
    // The default timer slack of 50 us would be half of the intended accuracy.
    set_timerslack(1)?;
    let (mut queue, mut scratch, mut last) = (Queue::default(), from.scratch(), Monotonic::START);
    loop {
        if let Some(due) = queue.due() {
            let now = monotonic()?;
            // The first frame leaves up to TOGETHER late, together with those due right after it; no frame leaves
            // early.
            let until = (due + TOGETHER).min(now + POLL_INTERVAL);
            if until > now {
                std::thread::sleep(until.since(now));
            }
        }
        loop {
            let arrivals = from.receive(&mut scratch, queue.due().is_none())?;
            let held = Duration::from_nanos(delay.load(Relaxed));
            for (i, a) in arrivals.iter().enumerate() {
                // The real-time clock may have been set meanwhile: arrival times are kept monotonic.
                last = a.time.max(last);
                if !queue.push(last + held, from.frame(&scratch, i, a.length), limit(rate, held)) {
                    counts.full.fetch_add(1, Relaxed);
                }
                counts.overrun.fetch_max(a.overflow.into(), Relaxed);
            }
            if arrivals.len() < BATCH {
                break;
            }
            release(&mut queue, to, counts)?;
        }
        release(&mut queue, to, counts)?;
    }
}

/// Sends all frames that are due.
fn release(queue: &mut Queue, to: &Port, counts: &Counts) -> Result<()> {
    loop {
        let now = monotonic()?;
        let frames = queue.take_due(now, BATCH);
        if frames.is_empty() {
            let (frames, octets) = queue.len();
            counts.queued[0].store(frames, Relaxed);
            counts.queued[1].store(octets.get(), Relaxed);
            return Ok(());
        }
        let lost = to.send(&frames);
        counts.down.fetch_add(lost, Relaxed);
        counts.forwarded.fetch_add(frames.len() as u64 - lost, Relaxed);
        counts.late.fetch_add(frames.iter().map(|f| nanos(now.since(f.due))).sum(), Relaxed);
        counts.worst.fetch_max(nanos(now.since(frames[0].due)), Relaxed);
    }
}
