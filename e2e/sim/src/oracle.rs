// SPDX-License-Identifier: Apache-2.0
//! The invariants I1 and I2 of the decisions, checked on all feedback that reaches the source.

use crate::net::Feedback;
use crate::tree::Tree;

/// Violations kept as text; more are only counted.
const KEPT: usize = 8;

/// Violations found.
#[derive(Clone, Debug, Default)]
pub struct Oracle {
    /// The first violations, as text.
    pub violations: Vec<String>,
    /// All of them.
    pub count: u64,
}

impl Oracle {
    /// Records a violation.
    pub fn violated(&mut self, at: u64, what: &str) {
        self.count += 1;
        if self.violations.len() < KEPT {
            self.violations.push(format!("at {at} ns: {what}"));
        }
    }

    /// Checks `feedback` at the source, where its PSN stands for packet `number`.
    pub fn judge(&mut self, tree: &Tree, feedback: Feedback, number: i64, at: u64) {
        let is_ack = feedback.syndrome < 0x20;
        // The feedback acknowledges every packet below this for every receiver.
        let below = number + i64::from(is_ack);
        for (index, receiver) in tree.receivers.iter().enumerate() {
            if !receiver.is_current() || receiver.holds_below() as i64 >= below {
                continue;
            }
            let from = receiver.started.unwrap_or(0) as i64;
            if from >= below {
                continue;
            }
            let (rule, kind) = if is_ack { ("I1", "ACK") } else { ("I2", "NAK") };
            let (place, holds) = (tree.receiver_place(index), receiver.holds_below());
            self.violated(
                at,
                &format!("{rule}: {kind} of packet {number}, but the receiver at {place} holds {from}..{holds} only"),
            );
        }
    }
}
