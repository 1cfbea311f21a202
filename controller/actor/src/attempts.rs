// SPDX-License-Identifier: Apache-2.0
//! Attempts at a command that follows from the state: who makes them, and how the last one ended.

use std::sync::atomic::{AtomicBool, Ordering};

/// Attempts of one kind.
#[derive(Debug, Default)]
pub(crate) struct Attempts {
    is_taken: AtomicBool,
    has_failed: AtomicBool,
}

impl Attempts {
    /// True for the one caller that makes the next attempt.
    pub(crate) fn take(&self) -> bool {
        !self.is_taken.swap(true, Ordering::AcqRel)
    }

    /// Ends an attempt. True if it is the first one that failed since one succeeded.
    pub(crate) fn end(&self, failed: bool) -> bool {
        self.is_taken.store(false, Ordering::Release);
        let had_failed = self.has_failed.swap(failed, Ordering::AcqRel);
        failed && !had_failed
    }
}
