// SPDX-License-Identifier: Apache-2.0
//! The delay line: a process between two interfaces that forwards every frame, both directions, after a delay.
//!
//! For kernels without `sch_netem`. The frames are untagged Ethernet of at most the link's MTU; order is kept, also
//! when the delay changes; the number of bytes in transit is bounded (`queue`); the kernel timestamps arrivals
//! (`port`); the two ends see each other's carrier (`carrier`); the lab controls the process over a Unix socket
//! (`control`).

mod carrier;
mod control;
mod direction;
mod port;
mod queue;

use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::atomic::AtomicU64;
use std::sync::mpsc::sync_channel;

use anyhow::{Context, Result};
use canopy_units::nanos;
use clap::Args;

pub use control::LineReport;
pub(crate) use control::{ask, set_delay};
pub use direction::LineCounters;
pub(crate) use queue::limit;

use crate::units::{Delay, Rate};
use direction::Counts;
use port::Port;

/// Command line of a delay line.
#[derive(Clone, Debug, Args)]
pub struct LineArgs {
    /// Interface on the side of the link's first end; must be down.
    #[arg(long)]
    pub a: String,
    /// Interface on the side of the other end; must be down.
    #[arg(long)]
    pub b: String,
    /// One-way delay of each frame, 0ms to 10s.
    #[arg(long)]
    pub delay: Delay,
    /// Rate of the link, which bounds the bytes in transit.
    #[arg(long)]
    pub rate: Option<Rate>,
    /// MTU of the link in bytes.
    #[arg(long)]
    pub mtu: u32,
    /// Unix socket to create, for control requests.
    #[arg(long)]
    pub socket: PathBuf,
}

/// State shared by the threads of a line.
#[derive(Debug, Default)]
struct Shared {
    /// Nanoseconds.
    delay: AtomicU64,
    counts: [Counts; 2],
}

/// Runs a delay line in the namespace of the caller until something fails.
///
/// # Errors
/// An interface does not exist or goes away, or the kernel refuses something.
pub fn run(args: &LineArgs) -> Result<()> {
    let rate = args.rate.map(Rate::get).unwrap_or_default();
    let (a, b) = (Port::open(&args.a, args.mtu)?, Port::open(&args.b, args.mtu)?);
    let shared = Shared { delay: nanos(args.delay.get()).into(), ..Shared::default() };
    let listener =
        UnixListener::bind(&args.socket).with_context(|| format!("making the socket {}", args.socket.display()))?;
    let (failed, failure) = sync_channel::<anyhow::Error>(4);
    std::thread::scope(|scope| {
        let (a, b, shared) = (&a, &b, &shared);
        for (from, to, counts) in [(a, b, &shared.counts[0]), (b, a, &shared.counts[1])] {
            let failed = failed.clone();
            scope.spawn(move || direction::run(from, to, &shared.delay, rate, counts).map_err(|e| failed.send(e)));
        }
        let (answer, carrier) = (failed.clone(), failed);
        scope.spawn(move || {
            let ready = || drop(scope.spawn(move || control::serve(&listener, shared).map_err(|e| answer.send(e))));
            carrier::keep([&args.a, &args.b], ready).map_err(|e| carrier.send(e))
        });
        // The other threads may wait for frames that never come: the process ends with the first error.
        if let Ok(e) = failure.recv() {
            eprintln!("canopy-lab delay-line {} - {}: {e:#}", args.a, args.b);
        }
        std::process::exit(1)
    })
}
