// SPDX-License-Identifier: Apache-2.0
//! What became of the tokens that were shown, for the metrics.

use std::sync::atomic::{AtomicU64, Ordering};

/// What became of one token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is of an agent of this name.
    Accepted,
    /// It is not, or the API server does not confirm it.
    Refused,
    /// The API server was not reached, or there were too many tokens at once.
    Unavailable,
}

static COUNTS: [AtomicU64; Outcome::ALL.len()] = [const { AtomicU64::new(0) }; Outcome::ALL.len()];

impl Outcome {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Accepted, Self::Refused, Self::Unavailable];

    /// As metrics name it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Accepted => "accepted",
            Self::Refused => "refused",
            Self::Unavailable => "unavailable",
        }
    }

    pub(crate) fn count(self) {
        COUNTS[self as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// How many there were in this process.
    pub fn counted(self) -> u64 {
        COUNTS[self as usize].load(Ordering::Relaxed)
    }
}
