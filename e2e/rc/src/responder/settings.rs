// SPDX-License-Identifier: Apache-2.0
//! The configuration of a responder, and its counters.

use std::time::Duration;

use serde::Serialize;

use crate::transfer::Region;

/// A responder's configuration.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Path MTU: the payload of every first and middle packet.
    pub mtu: u32,
    /// Memory that accepts RDMA WRITE; without it every WRITE is rejected.
    pub region: Option<Region>,
    /// Answers every n-th SEND message with an RNR NAK the first time; 0 is never.
    pub rnr_every: u64,
    /// Timer code of those RNR NAKs, 0..=31 (IBTA volume 1 section 9.7.5.2.8).
    pub rnr_timer: u8,
    /// Stops answering after this many bytes were delivered, like a host that died.
    pub stop_after: Option<u64>,
    /// Minimum interval between CNPs.
    pub cnp_interval: Duration,
}

impl Settings {
    /// Path MTU `mtu`, no memory, no RNR NAKs; a CNP every 50 microseconds; RNR timer code 12 (0.64 ms).
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

/// Counters of a responder.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Counters {
    /// Requests, valid or not.
    pub packets: u64,
    /// Bytes delivered.
    pub bytes: u64,
    /// Messages completed.
    pub messages: u64,
    /// Requests before the expected PSN.
    pub duplicates: u64,
    /// Requests after the expected PSN.
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
    /// Requests marked CE.
    pub ce_marked: u64,
    /// CNPs sent.
    pub cnps_sent: u64,
}
