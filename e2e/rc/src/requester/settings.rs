// SPDX-License-Identifier: Apache-2.0
//! The configuration of a requester, and its counters.

use std::time::Duration;

use serde::Serialize;

/// The retry timer never exceeds its configured value times this.
pub const BACKOFF_MAX: u32 = 8;

/// Largest window, packets: far below half of the PSN space, so that an answer is distinguishable from an old one.
pub const WINDOW_MAX: u32 = 1 << 20;

/// A requester's configuration, validated.
#[derive(Debug, Clone)]
pub struct Settings {
    window: u32,
    ack_every: u32,
    timeout: Duration,
    retries: u32,
    applies_cnps: bool,
}

/// A setting outside its range.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    /// The window is 0 or more than [`WINDOW_MAX`].
    #[error("window: {0} packets is outside 1..={WINDOW_MAX}")]
    Window(u32),
    /// AckReq would never be set.
    #[error("ack-every: must be at least 1 packet")]
    AckEvery,
    /// The retry timer would always be expired.
    #[error("timeout: must be more than 0")]
    Timeout,
}

impl Settings {
    /// `window` packets may be in flight; AckReq is set at least every `ack_every` of them; `timeout` without
    /// progress causes a retransmission, `retries` times (0: unlimited) in a row without progress.
    pub fn new(window: u32, ack_every: u32, timeout: Duration, retries: u32) -> Result<Self, SettingsError> {
        if window == 0 || window > WINDOW_MAX {
            return Err(SettingsError::Window(window));
        }
        if ack_every == 0 {
            return Err(SettingsError::AckEvery);
        }
        if timeout.is_zero() {
            return Err(SettingsError::Timeout);
        }
        Ok(Self { window, ack_every: ack_every.min(window), timeout, retries, applies_cnps: true })
    }

    /// CNPs are only counted: another component paces the queue pair.
    pub fn ignoring_cnps(self) -> Self {
        Self { applies_cnps: false, ..self }
    }

    /// CNPs halve the window.
    pub fn applies_cnps(&self) -> bool {
        self.applies_cnps
    }

    /// Packets that may be in flight.
    pub fn window(&self) -> u32 {
        self.window
    }

    /// AckReq is set at least once per this many packets; never more than the window.
    pub fn ack_every(&self) -> u32 {
        self.ack_every
    }

    /// Retry timer before any back-off.
    pub fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Consecutive retransmissions without progress; 0 is unlimited.
    pub fn retries(&self) -> u32 {
        self.retries
    }
}

/// Counters of a requester.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Counters {
    /// Packets sent, retransmissions too.
    pub packets_sent: u64,
    /// Packets sent again.
    pub retransmitted: u64,
    /// Acknowledge packets with an ACK syndrome, useful or not.
    pub acks_received: u64,
    /// ACKs of the packet that was acknowledged last.
    pub duplicate_acks: u64,
    /// NAKs for a PSN sequence error that caused a retransmission.
    pub naks_received: u64,
    /// NAKs (of any kind) for packets that were already acknowledged.
    pub ghost_naks: u64,
    /// RNR NAKs that delayed the requester.
    pub rnr_received: u64,
    /// CNPs received.
    pub cnps_received: u64,
    /// Retry timer expirations.
    pub timeouts: u64,
    /// ACKs outside [oldest unacknowledged - 1, newest sent].
    pub ack_out_of_window: u64,
    /// ACKs and NAKs for packets that were never sent.
    pub false_acks: u64,
    /// Reserved syndromes and OpCodes that no responder sends for these requests.
    pub unexpected: u64,
}
