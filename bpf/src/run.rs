// SPDX-License-Identifier: Apache-2.0
//! Runs of a program on a frame that user space gives it (BPF_PROG_TEST_RUN), and the clock of the programs' time stamps.

use std::mem::offset_of;
use std::time::Duration;

use libbpf_rs::{ProgramInput, ProgramMut};

use crate::error::{Context as _, Result};
use crate::node::types::__sk_buff;

/// Longest frame that a run returns.
const OUT: usize = 16384;

/// What a program finds in the context of a frame.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Context {
    /// Interface on which the frame arrived; 0 = none.
    pub(crate) ingress_ifindex: u32,
    /// Interface through which it leaves; 0 = the kernel's choice.
    pub(crate) ifindex: u32,
    /// Control block.
    pub(crate) cb: [u32; 5],
}

impl Context {
    /// As `struct __sk_buff`, with zeros elsewhere: the kernel refuses anything else, in padding too.
    fn bytes(self) -> Vec<u8> {
        let mut out = vec![0; size_of::<__sk_buff>()];
        let mut put = |at: usize, word: u32| out[at..at + 4].copy_from_slice(&word.to_ne_bytes());
        put(offset_of!(__sk_buff, ingress_ifindex), self.ingress_ifindex);
        put(offset_of!(__sk_buff, ifindex), self.ifindex);
        (0..).zip(self.cb).for_each(|(i, word)| put(offset_of!(__sk_buff, cb) + 4 * i, word));
        out
    }
}

/// The result of a run.
#[derive(Clone, Debug)]
pub struct Run {
    /// The program's verdict.
    pub verdict: i32,
    /// The frame afterwards.
    pub frame: Vec<u8>,
    /// How long the program ran.
    pub took: Duration,
    /// Priority afterwards.
    pub priority: u32,
    /// Departure time afterwards, in nanoseconds of the monotonic clock; 0 = at once.
    pub departs_ns: u64,
}

/// Runs `program` once on `frame` in `context`.
pub(crate) fn run(program: &ProgramMut<'_>, context: Context, frame: &[u8]) -> Result<Run> {
    let (mut before, mut after, mut out) = (context.bytes(), vec![0; size_of::<__sk_buff>()], vec![0; OUT]);
    let input = ProgramInput {
        context_in: Some(&mut before),
        context_out: Some(&mut after),
        data_in: Some(frame),
        data_out: Some(&mut out),
        repeat: 1,
        ..ProgramInput::default()
    };
    let done = program.test_run(input).context("running a BPF program on a frame")?;
    let (verdict, took) = (done.return_value as i32, done.duration);
    let frame = done.data.map(|d| d.to_vec()).unwrap_or_default();
    let word = |at: usize| after.get(at..).and_then(|w| w.first_chunk().copied());
    let priority = word(offset_of!(__sk_buff, priority)).map_or(0, u32::from_ne_bytes);
    let long = |at: usize| after.get(at..).and_then(|w| w.first_chunk().copied());
    let departs_ns = long(offset_of!(__sk_buff, tstamp)).map_or(0, u64::from_ne_bytes);
    Ok(Run { verdict, frame, took, priority, departs_ns })
}

/// CLOCK_MONOTONIC in nanoseconds.
pub fn monotonic_ns() -> u64 {
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a valid timespec on the stack.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut t) };
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}
