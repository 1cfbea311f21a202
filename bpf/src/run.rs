// SPDX-License-Identifier: Apache-2.0
//! Runs of a program on a frame that user space gives it (BPF_PROG_TEST_RUN), and the clock of the programs' time stamps.

use std::io;
use std::mem::offset_of;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Duration;

use canopy_units::Monotonic;
use libbpf_rs::libbpf_sys;

use crate::error::{Context as _, Result};
use crate::node_skel::types::__sk_buff;

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
    /// Mark of the socket that sent it.
    pub(crate) mark: u32,
    /// Packets that the frame is, as a GSO buffer; 0 = it is none.
    pub(crate) gso_segs: u32,
    /// Octets of payload of each of them.
    pub(crate) gso_size: u32,
}

impl Context {
    /// As `struct __sk_buff`, with zeros elsewhere: the kernel refuses anything else, in padding too.
    fn bytes(self) -> Vec<u8> {
        let mut out = vec![0; size_of::<__sk_buff>()];
        let mut put = |at: usize, word: u32| out[at..at + 4].copy_from_slice(&word.to_ne_bytes());
        put(offset_of!(__sk_buff, ingress_ifindex), self.ingress_ifindex);
        put(offset_of!(__sk_buff, ifindex), self.ifindex);
        put(offset_of!(__sk_buff, mark), self.mark);
        put(offset_of!(__sk_buff, gso_segs), self.gso_segs);
        put(offset_of!(__sk_buff, gso_size), self.gso_size);
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
    /// Mark afterwards.
    pub mark: u32,
    /// Departure time afterwards, in nanoseconds of the monotonic clock; 0 = at once.
    pub departs_ns: u64,
}

/// Runs `program` once on `frame` in `context`.
pub(crate) fn run(program: BorrowedFd<'_>, context: Context, frame: &[u8]) -> Result<Run> {
    let (before, mut after, mut out) = (context.bytes(), vec![0; size_of::<__sk_buff>()], vec![0; OUT]);
    let mut opts = libbpf_sys::bpf_test_run_opts {
        sz: size_of::<libbpf_sys::bpf_test_run_opts>() as _,
        data_in: frame.as_ptr().cast(),
        data_size_in: frame.len() as u32,
        data_out: out.as_mut_ptr().cast(),
        data_size_out: out.len() as u32,
        ctx_in: before.as_ptr().cast(),
        ctx_size_in: before.len() as u32,
        ctx_out: after.as_mut_ptr().cast(),
        ctx_size_out: after.len() as u32,
        repeat: 1,
        ..libbpf_sys::bpf_test_run_opts::default()
    };
    // SAFETY: the pointers are to buffers of the lengths beside them, which live through the call; the kernel writes to the two that
    // are mutable.
    let code = unsafe { libbpf_sys::bpf_prog_test_run_opts(program.as_raw_fd(), &mut opts) };
    if code != 0 {
        return Err(io::Error::from_raw_os_error(-code)).context("running a BPF program on a frame");
    }
    out.truncate(opts.data_size_out as usize);
    let (verdict, took, frame) = (opts.retval as i32, Duration::from_nanos(opts.duration.into()), out);
    let word = |at: usize| after.get(at..).and_then(|w| w.first_chunk().copied());
    let priority = word(offset_of!(__sk_buff, priority)).map_or(0, u32::from_ne_bytes);
    let mark = word(offset_of!(__sk_buff, mark)).map_or(0, u32::from_ne_bytes);
    let long = |at: usize| after.get(at..).and_then(|w| w.first_chunk().copied());
    let departs_ns = long(offset_of!(__sk_buff, tstamp)).map_or(0, u64::from_ne_bytes);
    Ok(Run { verdict, frame, took, priority, mark, departs_ns })
}

/// CLOCK_MONOTONIC, the clock of the programs.
pub fn monotonic() -> Monotonic {
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a valid timespec on the stack.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut t) };
    Monotonic::from_nanos(t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64)
}
