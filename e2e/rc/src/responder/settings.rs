// SPDX-License-Identifier: Apache-2.0
//! What a responder is told, and what it counts.

use std::time::Duration;

use serde::Serialize;

use crate::transfer::Region;

/// A responder's settings.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Path MTU: the payload of every first and middle packet.
    pub mtu: u32,
    /// Memory that accepts RDMA WRITE; without it every WRITE is refused.
    pub region: Option<Region>,
    /// Answers every so many-th SEND message with an RNR NAK the first time; 0 is never.
    pub rnr_every: u64,
    /// Timer code of those RNR NAKs, 0..=31 (IBTA volume 1 section 9.7.5.2.8).
    pub rnr_timer: u8,
    /// Falls silent for ever once so many bytes were delivered, as a host that died.
    pub stop_after: Option<u64>,
    /// CNPs are at least this far apart.
    pub cnp_interval: Duration,
}

impl Settings {
    /// Path MTU `mtu`, no memory, always ready; a CNP every 50 microseconds; timer code 12 (0.64 ms) should RNR be on.
    pub fn new(mtu: u32) -> Self {
        Self {
            mtu,
            region: None,
            rnr_every: 0,
            rnr_timer: 12,
            stop_after: None,
            cnp_interval: Duration::from_micros(50),
        }
    }
}

/// What a responder has received, sent and ignored.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Counters {
    /// Requests, of whatever use.
    pub packets: u64,
    /// Bytes delivered.
    pub bytes: u64,
    /// Messages completed.
    pub messages: u64,
    /// Requests before the expected PSN.
    pub duplicates: u64,
    /// Requests behind the expected PSN.
    pub out_of_sequence: u64,
    /// Requests after the QP failed or was stopped.
    pub ignored: u64,
    /// ACKs.
    pub acks_sent: u64,
    /// NAKs for a PSN sequence error.
    pub naks_sent: u64,
    /// RNR NAKs.
    pub rnr_sent: u64,
    /// NAKs after which the QP is in its error state: 0 or 1.
    pub fatal_naks_sent: u64,
    /// Requests that came with ECN's CE.
    pub ce_marked: u64,
    /// CNPs.
    pub cnps_sent: u64,
}
