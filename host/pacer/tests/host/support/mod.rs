// SPDX-License-Identifier: Apache-2.0
//! Two namespaces connected by a veth pair: a source host with the real daemon, and all other nodes and hosts.

mod daemon;
pub(crate) mod packets;
mod wire;

pub(crate) use daemon::{Daemon, LINE_BPS, Settings};
pub(crate) use wire::{Wire, request};

use std::net::Ipv6Addr;
use std::process::Command;
use std::time::{Duration, Instant};

/// Time limit of every wait.
pub(crate) const DEADLINE: Duration = Duration::from_secs(20);

/// The source host.
pub(crate) const HOST: &str = "fd00::1";
/// Its peer.
pub(crate) const PEER: &str = "fd00::2";
/// Trusted nodes.
pub(crate) const N1: &str = "fcff:0:0:1::1";
pub(crate) const N2: &str = "fcff:0:0:2::1";
/// A node that is not trusted.
pub(crate) const UNTRUSTED: &str = "fcff:0:0:9::1";

/// An address.
pub(crate) fn at(text: &str) -> Ipv6Addr {
    text.parse().unwrap()
}

/// Polls until `poll` returns a value.
pub(crate) fn wait<T>(what: &str, mut poll: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + DEADLINE;
    loop {
        if let Some(found) = poll() {
            return found;
        }
        assert!(Instant::now() < end, "not within {DEADLINE:?}: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Runs a program to its end; returns its output, or its error output.
pub(crate) fn sh(line: &str) -> Result<String, String> {
    let mut words = line.split_whitespace();
    let done = Command::new(words.next().unwrap()).args(words).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if done.status.success() { Ok(text(&done.stdout)) } else { Err(format!("{line}: {}", text(&done.stderr))) }
}

/// `CLOCK_MONOTONIC`, the clock of the daemon's times.
pub(crate) fn monotonic_ns() -> u64 {
    let t = nix::time::clock_gettime(nix::time::ClockId::CLOCK_MONOTONIC).unwrap();
    t.tv_sec() as u64 * 1_000_000_000 + t.tv_nsec() as u64
}
