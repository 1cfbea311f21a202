// SPDX-License-Identifier: Apache-2.0
//! Which links lose packets although their carriers are up (decisions 3.14): the Echo Requests of both ends' agents in, verdicts out.
//! Pure, and in memory only: agents report every second.
//!
//! What happens to data is measured in the same way, by [`super::data_flows`].
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

/// Data is lost at a rate if it is in so many of a window's reports: one incident is none.
const FEWEST_STEPS: usize = 3;
/// Without data for this long, nothing is known of what happens to it.
const IDLE: Duration = Duration::from_secs(30);

/// The reports of the agent at one end of a link. For data, the packets that had to arrive take the place of the requests.
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
    /// Times between two reports in which something was lost.
    steps_with_loss: usize,
}

/// Which time a link is judged over: the shortest one that is long enough and has enough requests.
#[derive(Clone, Copy)]
struct Rule {
    lasts: Duration,
    /// Reports in it at least.
    steps: usize,
    /// It may be as short as what is known.
    may_be_shorter: bool,
}

/// By requests.
const ECHO: Rule = Rule { lasts: WINDOW, steps: 1, may_be_shorter: true };
/// By data, from the time on at which the loss was found.
const DATA: Rule = Rule { lasts: WINDOW, steps: FEWEST_STEPS, may_be_shorter: false };
/// A source that repeats what was lost sends so little else that the time before would outweigh it.
const NEW_DATA: Rule = Rule { lasts: Duration::from_secs(3), ..DATA };

impl Losses {
    /// No report.
    pub(super) const NONE: Self =
        Self { newest: None, reports: VecDeque::new(), answers: None, answered: None, dropped: None };

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

    /// What was lost before the newest report, over the time of the rule; `None` while too little is known.
    fn window(&self, rule: Rule, now: Monotonic) -> Option<Loss> {
        let (at, newest) = self.reports.back().filter(|(at, _)| now.since(*at) <= STALE)?;
        let enough = |report: &LinkLoss| newest.requests - report.requests >= FEWEST / 2;
        // The newest reports that are old enough, or else the oldest.
        let earlier = |start: Monotonic| self.reports.iter().rev().find(|(at, _)| start.since(*at) >= QUEUED);
        let is_whole = |(start, report): &&(Monotonic, LinkLoss)| at.since(*start) >= rule.lasts && enough(report);
        let whole = self.reports.iter().rev().skip(rule.steps).find(is_whole);
        let whole = whole.and_then(|start| Some((start, earlier(start.0)?)));
        let partial = || self.reports.iter().find_map(|start| Some((start, earlier(start.0)?)));
        let ((begin, start), (_, before)) = whole.or_else(|| rule.may_be_shorter.then(partial)?)?;
        let reports: Vec<&LinkLoss> = self.reports.iter().filter(|(at, _)| at >= begin).map(|(_, r)| r).collect();
        Some(Loss {
            requests: newest.requests - start.requests,
            lost: newest.lost - start.lost,
            queue_drops: newest.queue_drops - before.queue_drops,
            steps_with_loss: reports.windows(2).filter(|pair| pair[1].lost > pair[0].lost).count(),
        })
    }

    /// Forgets all reports but the newest: the time before shows nothing of whether the loss has ended.
    pub(super) fn restart(&mut self) {
        self.reports.drain(..self.reports.len().saturating_sub(1));
    }

    /// Whether most requests have been answered for this long, and still are.
    pub(super) fn is_answered_for(&self, lasts: Duration, now: Monotonic) -> bool {
        self.answers.is_some_and(|(since, last)| now.since(since) >= lasts && now.since(last) < APART)
    }

    /// Whether the port's queue dropped packets a moment ago.
    pub(super) fn has_dropped(&self, now: Monotonic) -> bool {
        self.dropped.is_some_and(|at| now.since(at) < GAP)
    }

    /// Whether nothing worth mentioning was sent for so long that nothing is known any more.
    fn is_idle(&self, now: Monotonic) -> bool {
        let Some((_, newest)) = self.reports.back() else { return false };
        let old = self.reports.iter().rev().find(|(at, _)| now.since(*at) >= IDLE);
        old.is_some_and(|(_, report)| newest.requests - report.requests < REQUESTS_APART)
    }
}

/// Packets of a thousand that the link loses, judged from both its ends; 0 = none worth mentioning. `None` where the verdict stays as
/// it `is` now: too little is known, or the queues may have dropped what is missing.
pub(super) fn judge(is: Option<u16>, ends: [&Losses; 2], now: Monotonic) -> Option<(u16, Loss)> {
    let [a, b] = ends.map(|end| end.window(ECHO, now));
    let (a, b) = (a?, b?);
    decide(
        is,
        Loss {
            requests: a.requests.saturating_add(b.requests),
            lost: a.lost.saturating_add(b.lost),
            queue_drops: a.queue_drops.saturating_add(b.queue_drops),
            steps_with_loss: a.steps_with_loss + b.steps_with_loss,
        },
    )
}

/// The same by the data in one direction, and 0 when none has passed for a while.
pub(super) fn judge_data(is: Option<u16>, data: &Losses, now: Monotonic) -> Option<(u16, Loss)> {
    if is.is_some() && data.is_idle(now) {
        return Some((0, Loss::default()));
    }
    let rules = if is.is_some() { &[DATA][..] } else { &[NEW_DATA, DATA] };
    rules.iter().find_map(|rule| {
        let loss = data.window(*rule, now)?;
        decide(is, loss).filter(|(permille, _)| *permille == 0 || loss.steps_with_loss >= FEWEST_STEPS)
    })
}

fn decide(is: Option<u16>, both: Loss) -> Option<(u16, Loss)> {
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
