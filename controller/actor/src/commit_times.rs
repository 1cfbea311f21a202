// SPDX-License-Identifier: Apache-2.0
//! How long commits of the store take.

use std::collections::VecDeque;
use std::time::Duration;

/// Commits that are kept.
pub const KEPT: usize = 1024;

/// The times of the last commits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommitTimes(VecDeque<Duration>);

impl CommitTimes {
    pub(crate) fn note(&mut self, took: Duration) {
        if self.0.len() == KEPT {
            self.0.pop_front();
        }
        self.0.push_back(took);
    }

    /// Commits that are kept.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// So many of 100 took this time or less; `None` without a commit.
    pub fn percentile(&self, of_100: usize) -> Option<Duration> {
        let mut times: Vec<Duration> = self.0.iter().copied().collect();
        times.sort_unstable();
        let rank = (times.len() * of_100).div_ceil(100).max(1);
        times.get(rank - 1).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_of_the_last_commits() {
        let mut times = CommitTimes::default();
        assert_eq!((times.count(), times.percentile(50)), (0, None));
        let ms = Duration::from_millis;
        (1..=100).for_each(|of| times.note(ms(of)));
        assert_eq!([1, 50, 99, 100].map(|of| times.percentile(of).unwrap()), [ms(1), ms(50), ms(99), ms(100)]);
        (0..KEPT).for_each(|_| times.note(ms(7)));
        assert_eq!((times.count(), times.percentile(1), times.percentile(99)), (KEPT, Some(ms(7)), Some(ms(7))));
    }
}
