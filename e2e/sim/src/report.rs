// SPDX-License-Identifier: Apache-2.0
//! The result of a run.

use crate::forge::Refusals;

/// The result of a run.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Its seed.
    pub seed: u64,
    /// Hash of every event in order: equal for equal runs.
    pub trace_hash: u64,
    /// Events.
    pub events: u64,
    /// ACKs and NAKs that nodes accepted or refused.
    pub feedback_events: u64,
    /// ACKs that reached the source, and the times at which NAKs did, ns.
    pub acks: u64,
    /// See `acks`.
    pub naks: Vec<u64>,
    /// Frames that nodes dropped, by reason; without forged ones.
    pub refusals: Refusals,
    /// Forged frames, by reason of their refusal.
    pub forged: Refusals,
    /// Violated invariants; the first ones as text.
    pub violations: Vec<String>,
    /// Number of all violations.
    pub violation_count: u64,
    /// PSN of the first packet.
    pub start_psn: u32,
    /// Times that the PSN wrapped.
    pub wraps: u64,
    /// Time at which the whole transfer was acknowledged, ns.
    pub finished: Option<u64>,
    /// Time at which faults stopped, if the source had not finished before.
    pub calm: Option<u64>,
    /// Retry timer expirations, and those after faults stopped.
    pub timeouts: u64,
    /// See `timeouts`.
    pub timeouts_after: u64,
    /// Number of ACKs of the receiver that sent the fewest.
    pub fewest_acks: u64,
    /// Changes of the tree by the topology, late joins, leaves, evictions and lost states that occurred.
    pub moves: u64,
    /// See `moves`.
    pub joins: u64,
    /// See `moves`.
    pub leaves: u64,
    /// See `moves`.
    pub evictions: u64,
    /// See `moves`.
    pub states_lost: u64,
    /// Agents and controllers that restarted, and specs that agents could not carry out.
    pub restarts: u64,
    /// See `restarts`.
    pub controller_restarts: u64,
    /// See `restarts`.
    pub refused_specs: u64,
    /// Receivers whose hosts were connected to another node.
    pub rewired: u64,
    /// Moves that were given up, and losses of the whole tree.
    pub given_up: u64,
    /// See `given_up`.
    pub infeasible: u64,
    /// Receivers that started with a later message.
    pub late_starts: u64,
    /// Longest round trip of a packet and its answer, ns.
    pub round_trip: u64,
}
