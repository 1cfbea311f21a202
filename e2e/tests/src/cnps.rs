// SPDX-License-Identifier: Apache-2.0
//! CNPs on their way to the source, window by window, by captures at both ends.

use std::net::Ipv6Addr;
use std::time::Duration;

use anyhow::{Context, Result};
use canopy_lab::Lab;
use canopy_units::nanos;

use crate::capture::{Capture, Packet};

/// Filter for CNPs (BTH OpCode 0x81) in plain RoCEv2 over IPv6.
const CNPS: &str = "ip6 proto 17 and ip6[42:2] == 4791 and ip6[48] == 0x81";

/// Captures of the CNPs of one group: those that its receivers send and those that reach its source.
#[derive(Debug)]
pub struct CnpTaps {
    source: Capture,
    receivers: Vec<Capture>,
}

/// What [`CnpTaps`] captured.
#[derive(Debug)]
pub struct Cnps {
    /// Capture times at the source, ns.
    pub received: Vec<u64>,
    /// Capture times at the receivers, ns.
    pub sent: Vec<u64>,
}

impl CnpTaps {
    /// Captures at `source` what arrives from the group's `proxy` address, and at `receivers` what goes there.
    ///
    /// # Errors
    /// As [`Capture::start_headers`].
    pub fn start(lab: &Lab, proxy: Ipv6Addr, source: &str, receivers: &[&str]) -> Result<Self> {
        let tap = |host, way| Capture::start_headers(lab, host, "eth0", &format!("{CNPS} and {way} host {proxy}"));
        let receivers = receivers.iter().map(|r| tap(*r, "dst")).collect::<Result<_>>()?;
        Ok(Self { source: tap(source, "src")?, receivers })
    }

    /// Ends the captures.
    ///
    /// # Errors
    /// As [`Capture::stop`].
    pub fn stop(self) -> Result<Cnps> {
        let times = |c: Capture| Ok(c.stop()?.iter().map(|p: &Packet| p.time_ns).collect::<Vec<_>>());
        let received = times(self.source)?;
        let sent: Vec<Vec<u64>> = self.receivers.into_iter().map(times).collect::<Result<_>>()?;
        let mut sent = sent.concat();
        sent.sort_unstable();
        Ok(Cnps { received, sent })
    }
}

impl Cnps {
    /// Of the time from `from` to `to` (ns): CNPs that the source received, and windows in which a receiver sent one. A window starts with
    /// the first CNP, or with the end of the one before if a CNP arrives in it.
    pub fn between(&self, from: u64, to: u64, window: Duration) -> (u64, u64) {
        let (window, span) = (nanos(window), from..to);
        let received = self.received.iter().filter(|t| span.contains(t)).count();
        let (mut windows, mut end) = (0, 0);
        for at in self.sent.iter().copied().filter(|t| span.contains(t)) {
            if at >= end {
                windows += 1;
                end = if at < end + window { end } else { at } + window;
            }
        }
        (received as u64, windows)
    }
}

/// The time by which captures are stamped, ns.
///
/// # Errors
/// It is before 1970.
pub fn now_ns() -> Result<u64> {
    let since = std::time::SystemTime::UNIX_EPOCH.elapsed().context("the time of day")?;
    Ok(nanos(since))
}
