// SPDX-License-Identifier: Apache-2.0
//! Which links lose packets although their carriers are up (decisions 3.14): the Echo Requests of both ends' agents in, verdicts out.
//! Pure, and in memory only: agents report every second.
//!
//! A packet that a node's own queue drops is congestion, not the link's fault. Requests and replies wait in the same queues as data, so
//! each packet that a queue at either end dropped may have been one of those that are missing, and is not counted against the link.

use std::collections::VecDeque;
use std::time::Duration;

use canopy_model::telemetry::LinkLoss;
use canopy_units::Monotonic;

/// Time over which a link is judged at least.
const WINDOW: Duration = Duration::from_secs(8);
/// A request is counted as lost a second after it was sent: what a queue dropped this long before the window can be lost inside it.
const QUEUED: Duration = Duration::from_secs(2);
/// A report older than this proves nothing about now.
const STALE: Duration = Duration::from_secs(10);
/// Reports nearer to each other than this replace each other, so that [`REPORTS`] reach back far enough...
const APART: Duration = Duration::from_millis(500);
/// ...and those with fewer requests in between: the agents of nodes with thousands of links send few on each.
const REQUESTS_APART: u64 = 4;
/// Reports kept of one end.
const REPORTS: usize = 32;
/// Fewest requests of both ends together that a verdict rests on.
const FEWEST: u64 = 100;
/// Fewest lost ones of them that make a link lossy: two can be chance.
const FEWEST_LOST: u64 = 5;
/// A link loses packets from this many of a thousand on, and until they are fewer than the second number.
const LOSSY: u16 = 20;
const CLEAN: u16 = 5;
/// A link that was silent is used again when it has answered for this long...
const ANSWERS: Duration = Duration::from_secs(5);
/// ...without a gap of this length.
const GAP: Duration = Duration::from_secs(3);

/// The reports of the agent at one end of a link.
#[derive(Clone, Debug, Default)]
pub(super) struct Losses {
    newest: Option<(Monotonic, LinkLoss)>,
    /// Those that the link is judged by.
    reports: VecDeque<(Monotonic, LinkLoss)>,
    /// From when to when most requests were answered.
    answers: Option<(Monotonic, Monotonic)>,
    /// When the last request was answered.
    answered: Option<Monotonic>,
    /// When the queue last dropped packets.
    dropped: Option<Monotonic>,
}

/// What became of requests in a window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Loss {
    pub(super) requests: u64,
    pub(super) lost: u64,
    /// Packets that the queues at both ends dropped.
    pub(super) queue_drops: u64,
}

impl Losses {
    /// Adds a report that arrived at `now`. Smaller numbers than before come from an agent that was restarted. The link is not judged by
    /// reports about a time in which it `is_down`.
    pub(super) fn add(&mut self, report: LinkLoss, now: Monotonic, is_down: bool) {
        let before = self.newest.replace((now, report));
        let is_next = |newest: &LinkLoss| {
            let LinkLoss { requests, lost, queue_drops, .. } = *newest;
            report.requests >= requests && report.lost >= lost && report.queue_drops >= queue_drops
        };
        match before.filter(|(_, newest)| is_next(newest)) {
            Some((at, before)) => self.note(before, at, report, now),
            None => (self.answers, self.answered, self.dropped) = (None, None, None),
        }
        if is_down || self.reports.back().is_some_and(|(_, newest)| !is_next(newest)) {
            self.reports.clear();
        }
        if is_down {
            return;
        }
        let near = |(at, newer): &(Monotonic, LinkLoss), (before, older): &(Monotonic, LinkLoss)| {
            at.since(*before) < APART || newer.requests - older.requests < REQUESTS_APART
        };
        let len = self.reports.len();
        if len >= 2 && near(&self.reports[len - 1], &self.reports[len - 2]) {
            self.reports.pop_back();
        }
        if self.reports.len() == REPORTS {
            self.reports.pop_front();
        }
        self.reports.push_back((now, report));
    }

    /// Notes answers and drops between two reports.
    fn note(&mut self, before: LinkLoss, at: Monotonic, report: LinkLoss, now: Monotonic) {
        if report.queue_drops > before.queue_drops {
            self.dropped = Some(now);
        }
        let requests = report.requests - before.requests;
        let answered = report.answered().saturating_sub(before.answered());
        if answered > 0 {
            self.answered = Some(now);
        }
        self.answers = match self.answers {
            answers if requests == 0 => answers.filter(|(_, last)| now.since(*last) < GAP),
            _ if answered < requests - answered => None,
            answers => Some((answers.map_or(at, |(since, _)| since), now)),
        };
    }

    /// Forgets everything but the newest report: the link carries nothing from now on.
    pub(super) fn forget(&mut self) {
        *self = Self { newest: self.newest, ..Self::default() };
    }

    /// The newest report.
    pub(super) fn newest(&self) -> Option<&LinkLoss> {
        self.newest.as_ref().map(|(_, report)| report)
    }

    /// Whether the neighbour has answered for long enough that the link carries packets again.
    pub(super) fn is_answered(&self, now: Monotonic) -> bool {
        self.answers.is_some_and(|(since, last)| last.since(since) >= ANSWERS && now.since(last) < STALE)
    }

    /// What the last [`WINDOW`] before the newest report brought, or a longer one with enough requests; `None` while too little is known.
    fn window(&self, now: Monotonic) -> Option<Loss> {
        let (at, newest) = self.reports.back().filter(|(at, _)| now.since(*at) <= STALE)?;
        let enough = |report: &LinkLoss| newest.requests - report.requests >= FEWEST / 2;
        // The newest reports that are old enough, or else the oldest.
        let earlier = |start: Monotonic| self.reports.iter().rev().find(|(at, _)| start.since(*at) >= QUEUED);
        let is_whole = |(start, report): &&(Monotonic, LinkLoss)| at.since(*start) >= WINDOW && enough(report);
        let whole = self.reports.iter().rev().find(is_whole).and_then(|start| Some((start, earlier(start.0)?)));
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
/// it `is` now: too little is known, or the queues may have dropped what is missing.
pub(super) fn judge(is: Option<u16>, ends: [&Losses; 2], now: Monotonic) -> Option<(u16, Loss)> {
    let [a, b] = ends.map(|end| end.window(now));
    let (a, b) = (a?, b?);
    let both = Loss {
        requests: a.requests.saturating_add(b.requests),
        lost: a.lost.saturating_add(b.lost),
        queue_drops: a.queue_drops.saturating_add(b.queue_drops),
    };
    if both.requests < FEWEST {
        return None;
    }
    let permille = |lost: u64| (u128::from(lost) * 1000 / u128::from(both.requests)) as u16;
    let by_link = both.lost.saturating_sub(both.queue_drops);
    match is {
        None if permille(by_link) >= LOSSY && by_link >= FEWEST_LOST => Some((permille(by_link), both)),
        Some(_) if permille(both.lost) < CLEAN => Some((0, both)),
        _ => None,
    }
}

/// Whether a link is silent for its queues' sake: one at its ends dropped packets a moment ago, and nothing else is known to be wrong. Not for
/// ever: a link that answers nothing for so long is of no use.
pub(super) fn is_congested(ends: [&Losses; 2], now: Monotonic) -> bool {
    let drops = |end: &Losses| end.dropped.is_some_and(|at| now.since(at) < GAP);
    let answered = |end: &Losses| end.answered.is_some_and(|at| now.since(at) < STALE);
    ends.iter().any(|end| drops(end)) && ends.iter().any(|end| answered(end))
}
