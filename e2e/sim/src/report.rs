// SPDX-License-Identifier: Apache-2.0
//! What a run did.

use crate::forge::Refusals;

/// What a run did.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Its seed.
    pub seed: u64,
    /// Of every event in order: equal for equal runs.
    pub trace_hash: u64,
    /// Events.
    pub events: u64,
    /// ACKs and NAKs that nodes took or refused.
    pub feedback_events: u64,
    /// Answers that reached the source: ACKs, and when NAKs did, ns.
    pub acks: u64,
    /// See `acks`.
    pub naks: Vec<u64>,
    /// Refused feedback, forged or late, by reason.
    pub refusals: Refusals,
    /// Forged answers, and why they were refused.
    pub forged: Refusals,
    /// What did not hold, the first of it in words.
    pub violations: Vec<String>,
    /// All of it.
    pub violation_count: u64,
    /// PSN of the first packet.
    pub start_psn: u32,
    /// Times that the PSN went through its 24 bits.
    pub wraps: u64,
    /// The transfer was acknowledged whole, ns.
    pub finished: Option<u64>,
    /// When faults stopped, if the source was not done before.
    pub calm: Option<u64>,
    /// Retry timer expirations, and those after faults stopped.
    pub timeouts: u64,
    /// See `timeouts`.
    pub timeouts_after: u64,
    /// ACKs of the receiver that sent fewest.
    pub fewest_acks: u64,
    /// Moves, late joins, leaves, evictions and lost states that took place.
    pub moves: u64,
    /// See `moves`.
    pub joins: u64,
    /// See `moves`.
    pub leaves: u64,
    /// See `moves`.
    pub evictions: u64,
    /// See `moves`.
    pub states_lost: u64,
    /// Longest way of a packet and its answer, ns.
    pub round_trip: u64,
}
