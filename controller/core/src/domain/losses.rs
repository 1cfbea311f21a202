// SPDX-License-Identifier: Apache-2.0
//! Which links lose packets although their carriers are up (decisions 3.14): the Echo Requests of both ends' agents in, verdicts out.
//! Pure, and in memory only: agents report every second.
//!
//! A packet that a node's own queue drops is congestion, not the link's fault. Requests and replies wait in the same queues as data, so
//! a link is judged only while neither end's queue dropped anything.

use std::collections::VecDeque;
use std::time::Duration;

use canopy_model::telemetry::LinkLoss;
use canopy_units::Monotonic;

/// Time over which a link is judged.
const WINDOW: Duration = Duration::from_secs(8);
/// A request is counted as lost a second after it was sent: what a queue dropped this long before the window can be lost inside it.
const QUEUED: Duration = Duration::from_secs(2);
/// A report older than this proves nothing about now.
const STALE: Duration = Duration::from_secs(10);
/// Reports nearer to each other than this replace each other, so that [`REPORTS`] reach back far enough.
const APART: Duration = Duration::from_millis(500);
/// Reports kept of one end.
const REPORTS: usize = 32;
/// Fewest requests of both ends together that a verdict rests on.
const FEWEST: u64 = 100;
/// Fewest lost ones of them that make a link lossy: two can be chance.
const FEWEST_LOST: u64 = 5;
/// A link loses packets from this many of a thousand on, and until they are fewer than the second number.
const LOSSY: u16 = 20;
const CLEAN: u16 = 5;

/// The reports of the agent at one end of a link.
#[derive(Clone, Debug, Default)]
pub(super) struct Losses {
    reports: VecDeque<(Monotonic, LinkLoss)>,
}

/// What became of requests in a window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Loss {
    pub(super) requests: u64,
    pub(super) lost: u64,
    queue_drops: u64,
}

impl Losses {
    /// Adds a report that arrived at `now`. Smaller numbers than before come from an agent that was restarted.
    pub(super) fn add(&mut self, report: LinkLoss, now: Monotonic) {
        let is_next = |newest: &LinkLoss| {
            let LinkLoss { requests, lost, queue_drops, .. } = *newest;
            report.requests >= requests && report.lost >= lost && report.queue_drops >= queue_drops
        };
        if self.reports.back().is_some_and(|(_, newest)| !is_next(newest)) {
            self.reports.clear();
        }
        let len = self.reports.len();
        if len >= 2 && self.reports[len - 1].0.since(self.reports[len - 2].0) < APART {
            self.reports.pop_back();
        }
        if self.reports.len() == REPORTS {
            self.reports.pop_front();
        }
        self.reports.push_back((now, report));
    }

    /// The newest report.
    pub(super) fn newest(&self) -> Option<&LinkLoss> {
        self.reports.back().map(|(_, report)| report)
    }

    /// What the last [`WINDOW`] before the newest report brought; `None` while too little is known.
    fn window(&self, now: Monotonic) -> Option<Loss> {
        let (at, newest) = self.reports.back().filter(|(at, _)| now.since(*at) <= STALE)?;
        // The newest reports that are old enough, or else the oldest.
        let from = |end: Monotonic, age: Duration| self.reports.iter().rev().find(|(at, _)| end.since(*at) >= age);
        let earlier = |start: Monotonic| from(start, QUEUED);
        let whole = from(*at, WINDOW).and_then(|start| Some((start, earlier(start.0)?)));
        let partial = || self.reports.iter().find_map(|start| Some((start, earlier(start.0)?)));
        let ((_, start), (_, before)) = whole.or_else(partial)?;
        Some(Loss {
            requests: newest.requests - start.requests,
            lost: newest.lost - start.lost,
            queue_drops: newest.queue_drops - before.queue_drops,
        })
    }
}

/// Packets of a thousand that the link loses, judged from both its ends; 0 = none worth mentioning. `None` where the verdict stays as
/// it `is` now: too little is known, or a queue dropped packets.
pub(super) fn judge(is: Option<u16>, ends: [&Losses; 2], now: Monotonic) -> Option<(u16, Loss)> {
    let [a, b] = ends.map(|end| end.window(now));
    let (a, b) = (a?, b?);
    let both = Loss {
        requests: a.requests.saturating_add(b.requests),
        lost: a.lost.saturating_add(b.lost),
        queue_drops: a.queue_drops.saturating_add(b.queue_drops),
    };
    if both.queue_drops > 0 || both.requests < FEWEST {
        return None;
    }
    let permille = (u128::from(both.lost) * 1000 / u128::from(both.requests)) as u16;
    let loses = match is {
        Some(_) => permille >= CLEAN,
        None => permille >= LOSSY && both.lost >= FEWEST_LOST,
    };
    Some((if loses { permille } else { 0 }, both))
}
