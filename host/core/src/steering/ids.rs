// SPDX-License-Identifier: Apache-2.0
//! Path ids, which rest before they name another program: packets under way, and what is counted of them, still mean the former one.

use std::collections::{BTreeSet, VecDeque};
use std::fmt;
use std::time::Duration;

use canopy_units::Monotonic;

/// How long an id names no program after no slot names it any more.
pub const REST: Duration = Duration::from_secs(60);

/// Names a program of this host, 1 ..= [`PathId::LAST`]; the outer flow label of packets that have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PathId(u32);

impl PathId {
    /// The last one: the datapath has room for as many programs.
    pub const LAST: u32 = 16_383;

    /// `None` if it is out of range.
    pub fn new(value: u32) -> Option<Self> {
        (1..=Self::LAST).contains(&value).then_some(Self(value))
    }

    /// Its number.
    pub fn get(self) -> u32 {
        self.0
    }
}

impl fmt::Display for PathId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Which ids are free.
#[derive(Debug)]
pub(super) struct Ids {
    free: VecDeque<PathId>,
    /// In the order of time.
    resting: VecDeque<(Monotonic, PathId)>,
}

impl Default for Ids {
    fn default() -> Self {
        Self { free: (1..=PathId::LAST).map(PathId).collect(), resting: VecDeque::new() }
    }
}

impl Ids {
    /// The one that was free for longest.
    pub(super) fn next(&mut self) -> Option<PathId> {
        self.free.pop_front()
    }

    /// One that an earlier process uses.
    pub(super) fn take(&mut self, ids: &BTreeSet<PathId>) {
        self.free.retain(|free| !ids.contains(free));
    }

    pub(super) fn rest(&mut self, id: PathId, now: Monotonic) {
        self.resting.push_back((now + REST, id));
    }

    pub(super) fn poll_timeout(&self) -> Option<Monotonic> {
        self.resting.front().map(|(until, _)| *until)
    }

    /// Those that have rested.
    pub(super) fn handle_timeout(&mut self, now: Monotonic) -> Vec<PathId> {
        let mut rested = Vec::new();
        while let Some((_, id)) = self.resting.pop_front_if(|(until, _)| *until <= now) {
            self.free.push_back(id);
            rested.push(id);
        }
        rested
    }
}
