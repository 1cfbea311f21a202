// SPDX-License-Identifier: Apache-2.0
//! What the schedule makes happen.

/// A fault, or a change by the controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// All uplinks of a place fail.
    LinkDown(u64),
    /// The links are up again.
    LinkUp(u64),
    /// The agent of a node restarts; kernel state stays.
    AgentRestarts(u64),
    /// A node goes down and loses its state.
    NodeDown(u64),
    /// The node is up again.
    NodeUp(u32),
    /// A receiver joins late.
    Join(u64),
    /// A receiver leaves.
    Leave(u64),
    /// A receiver dies.
    Dies(u64),
    /// The controller evicts the dead.
    Evict,
    /// A receiver or a node moves to another parent: every node adopts its program within the time `pace`.
    Move {
        /// The receiver or node that moves.
        who: u64,
        /// The new parent.
        to: u64,
        /// ns.
        pace: u64,
    },
    /// A node adopts its program of the move in progress.
    Adopt(u32),
    /// A receiver that moves sends its feedback to its new parent.
    Answers {
        /// The receiver.
        who: u32,
        /// Its new parent.
        to: u32,
    },
    /// A node repeats its last feedback, and again this many times.
    Repeat(u32, u32),
    /// Faults stop.
    Calm,
}
