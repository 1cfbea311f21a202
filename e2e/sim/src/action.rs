// SPDX-License-Identifier: Apache-2.0
//! What the schedule makes happen. Places are drawn as numbers that are taken modulo the number of places.

use crate::fabric::Place;

/// A fault, or a command to the controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// A link fails; the nodes at its ends notice it (true) or not.
    LinkDown(u64, bool),
    /// The link is up again.
    LinkUp(u64),
    /// An agent does nothing for this long, ns: specs and reports wait.
    Pause(u64, u64),
    /// An agent exits and starts again after this long, ns; the kernel's state stays.
    AgentRestarts(u64, u64),
    /// A node loses its pins and forwards nothing for this long, ns.
    PinsLost(u64, u64),
    /// An agent continues, or starts.
    Awake(Place),
    /// An agent that could not carry out its spec tries again.
    Retry(Place),
    /// A node cannot carry out its program, or only some of its steps, this many times.
    Refuses(u64, u32),
    /// An agent connects again and reports again.
    Reconnects(Place),
    /// The controller restarts from its records, with a higher term.
    ControllerRestarts,
    /// A receiver joins; hosts that left may join again with another queue pair.
    Join(u64),
    /// A receiver leaves.
    Leave(u64),
    /// A receiver's queue pair fails: it answers with a fatal NAK (true), or nothing.
    Dies(u64, bool),
    /// The nodes report the failed receivers.
    Evict,
    /// The operator drains a link, or ends that.
    Drain(u64),
    /// The operator changes the MTU of a link, or changes it back.
    Mtu(u64),
    /// A receiver's host is connected to another node; the operator declares that first (true) or then.
    Rewire(u64, u64, bool),
    /// The operator changes how receiver lists travel.
    Encoding(u64),
    /// The group has many changes elsewhere, and the controller restarts.
    Ages,
    /// The time of this move ends: it is given up if it was not confirmed.
    MakingEnds(u64),
    /// Faults stop.
    Calm,
    /// Checks whether the controller's last word is in force everywhere.
    Settle,
}
