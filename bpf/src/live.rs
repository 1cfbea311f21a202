// SPDX-License-Identifier: Apache-2.0
//! Frames that arrive at an interface as from its driver, many in one system call: BPF_PROG_TEST_RUN with live frames (Linux 5.18).

use std::ffi::c_void;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::{Duration, Instant};

use libbpf_rs::libbpf_sys;

use crate::error::{Context as _, Result};

/// Octets at the beginning of a frame that a node may change: they are written anew each time.
const CHANGED: usize = 56;

/// A frame, and an XDP program that passes it to the stack as it was given, whatever became of its memory before.
#[derive(Debug)]
pub struct LiveFrames {
    program: OwnedFd,
    frame: Vec<u8>,
}

impl LiveFrames {
    /// Of a frame of at least 56 octets, of which no node changes anything behind them.
    ///
    /// # Errors
    /// The kernel does not take the program: not as root, or without XDP.
    pub fn of(frame: &[u8]) -> Result<Self> {
        if frame.len() < CHANGED {
            return Err(format!("a frame has {} octets, at least {CHANGED} are needed", frame.len()))
                .context("making live frames");
        }
        let program = program(frame);
        // SAFETY: names and instructions live through the call, and the count is theirs.
        let fd = unsafe {
            libbpf_sys::bpf_prog_load(
                libbpf_sys::BPF_PROG_TYPE_XDP,
                c"canopy_live".as_ptr(),
                c"GPL".as_ptr(),
                program.as_ptr(),
                program.len() as libbpf_sys::size_t,
                std::ptr::null_mut(),
            )
        };
        if fd < 0 {
            return Err(io::Error::from_raw_os_error(-fd)).context("loading a program that passes frames");
        }
        // SAFETY: a new descriptor without another owner.
        Ok(Self { program: unsafe { OwnedFd::from_raw_fd(fd) }, frame: frame.to_vec() })
    }

    /// The stack gets the frame `count` times from the interface. Returns how long that took, with all that it did at once.
    ///
    /// # Errors
    /// The interface is not in the thread's network namespace, the frame does not fit a page, or the kernel is older than Linux 5.18.
    pub fn arrive(&self, ifindex: u32, count: u32) -> Result<Duration> {
        let frame = &self.frame;
        let context = libbpf_sys::xdp_md {
            data_end: frame.len() as u32,
            ingress_ifindex: ifindex,
            ..libbpf_sys::xdp_md::default()
        };
        let mut opts = libbpf_sys::bpf_test_run_opts {
            sz: size_of::<libbpf_sys::bpf_test_run_opts>() as _,
            data_in: frame.as_ptr().cast(),
            data_size_in: frame.len() as u32,
            ctx_in: std::ptr::from_ref(&context).cast::<c_void>(),
            ctx_size_in: size_of::<libbpf_sys::xdp_md>() as u32,
            repeat: count as i32,
            flags: libbpf_sys::BPF_F_TEST_XDP_LIVE_FRAMES,
            ..libbpf_sys::bpf_test_run_opts::default()
        };
        let begun = Instant::now();
        // SAFETY: the pointers are to objects of the lengths beside them, which live through the call and are only read.
        let code = unsafe { libbpf_sys::bpf_prog_test_run_opts(self.program.as_raw_fd(), &mut opts) };
        if code != 0 {
            return Err(io::Error::from_raw_os_error(-code)).context("giving live frames to an interface");
        }
        Ok(begun.elapsed())
    }
}

/// Writes the beginning of `frame` where the frame is, and passes it.
fn program(frame: &[u8]) -> Vec<libbpf_sys::bpf_insn> {
    use libbpf_sys::*;
    let insn = |code: u32, (to, from): (u8, u8), off: i16, imm: i32| {
        let mut insn = bpf_insn { code: code as u8, off, imm, ..bpf_insn::default() };
        insn.set_dst_reg(to);
        insn.set_src_reg(from);
        insn
    };
    let words =
        frame.chunks_exact(4).take(CHANGED / 4).map(|word| i32::from_ne_bytes([word[0], word[1], word[2], word[3]]));
    let writes: Vec<bpf_insn> =
        words.zip(0..).map(|(word, at)| insn(BPF_ST | BPF_MEM | BPF_W, (2, 0), 4 * at, word)).collect();
    let of_context = |to, field: usize| insn(BPF_LDX | BPF_MEM | BPF_W, (to, 1), field as i16, 0);
    let mut program = vec![
        of_context(2, std::mem::offset_of!(xdp_md, data)),
        of_context(3, std::mem::offset_of!(xdp_md, data_end)),
        insn(BPF_ALU64 | BPF_MOV | BPF_X, (4, 2), 0, 0),
        insn(BPF_ALU64 | BPF_ADD | BPF_K, (4, 0), 0, 4 * writes.len() as i32),
        insn(BPF_JMP | BPF_JGT | BPF_X, (4, 3), writes.len() as i16, 0),
    ];
    program.extend(writes);
    program.push(insn(BPF_ALU64 | BPF_MOV | BPF_K, (0, 0), 0, XDP_PASS as i32));
    program.push(insn(BPF_JMP | BPF_EXIT, (0, 0), 0, 0));
    program
}
