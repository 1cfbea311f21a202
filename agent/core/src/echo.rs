// SPDX-License-Identifier: Apache-2.0
//! Whether a link carries packets: ICMPv6 Echo (RFC 4443 section 4) to the neighbour, whose kernel answers also while its agent does
//! not run. Pure: answers and the time come in.

use std::collections::VecDeque;
use std::time::Duration;

use canopy_units::Monotonic;

/// Shortest time between two requests on a link.
const SHORTEST_INTERVAL: Duration = Duration::from_millis(50);
/// Time between two requests of a node, over all links.
const PER_LINK: Duration = Duration::from_micros(500);
/// A request without an answer for this long is lost.
const LOST_AFTER: Duration = Duration::from_secs(1);
/// A link on which nothing was answered for this long carries nothing.
const SILENT_AFTER: Duration = Duration::from_millis(1500);
/// A process that was not woken for this long knows nothing about the time in between.
const ASLEEP: Duration = Duration::from_millis(500);

/// Time between two requests on each of `links` links.
pub fn interval(links: usize) -> Duration {
    SHORTEST_INTERVAL.max(PER_LINK.saturating_mul(u32::try_from(links).unwrap_or(u32::MAX)))
}

/// Requests of a link whose fate is known, since the agent started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EchoCounts {
    /// All.
    pub sent: u64,
    /// Those without an answer.
    pub lost: u64,
}

/// The requests on one link.
#[derive(Clone, Debug)]
pub struct Echo {
    interval: Duration,
    due: Monotonic,
    next: u16,
    waiting: VecDeque<(u16, Monotonic)>,
    /// The neighbour has answered once: one that never does may be configured not to.
    has_answered: bool,
    /// When the first request after the last answer was sent.
    silent_since: Option<Monotonic>,
    called: Monotonic,
    counts: EchoCounts,
}

impl Echo {
    /// Sends its first request at `now`, and one each `interval` from then on; counts on from `before`.
    pub fn new(interval: Duration, now: Monotonic, before: EchoCounts) -> Self {
        Self {
            interval,
            due: now,
            next: 0,
            waiting: VecDeque::new(),
            has_answered: false,
            silent_since: None,
            called: now,
            counts: before,
        }
    }

    /// When to call [`Echo::handle_timeout`] next.
    pub fn poll_timeout(&self) -> Monotonic {
        self.due
    }

    /// Counts expired requests as lost; returns the sequence number of the request to send now, if one is due. Answers that have arrived
    /// must be handled first.
    pub fn handle_timeout(&mut self, now: Monotonic) -> Option<u16> {
        if now.since(self.called) >= ASLEEP {
            // Their answers may have been dropped meanwhile.
            self.waiting.clear();
            self.silent_since = None;
        }
        self.called = now;
        while self.waiting.front().is_some_and(|(_, at)| now.since(*at) >= LOST_AFTER) {
            self.waiting.pop_front();
            self.counts.sent += 1;
            self.counts.lost += 1;
        }
        if now < self.due {
            return None;
        }
        let next = self.due + self.interval;
        self.due = if next > now { next } else { now + self.interval };
        let sequence = self.next;
        self.next = self.next.wrapping_add(1);
        self.waiting.push_back((sequence, now));
        self.silent_since.get_or_insert(now);
        Some(sequence)
    }

    /// An answer of the neighbour with this sequence number arrived. One that comes too late to count shows that the link carries packets,
    /// too.
    pub fn handle_answer(&mut self, sequence: u16) {
        if self.next.wrapping_sub(sequence.wrapping_add(1)) > u16::MAX / 2 {
            return;
        }
        let before = self.waiting.len();
        self.waiting.retain(|(waits, _)| *waits != sequence);
        self.counts.sent += u64::from(self.waiting.len() < before);
        self.has_answered = true;
        self.silent_since = None;
    }

    /// Whether the link carries nothing any more, as of the last call of [`Echo::handle_timeout`]. False until the neighbour has answered
    /// once.
    pub fn is_silent(&self) -> bool {
        self.has_answered && self.silent_since.is_some_and(|since| self.called.since(since) >= SILENT_AFTER)
    }

    /// Whether the last request that could have been answered was.
    pub fn answers(&self) -> bool {
        self.has_answered && self.silent_since.is_none()
    }

    /// What became of the requests.
    pub fn counts(&self) -> EchoCounts {
        self.counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: Monotonic = Monotonic::START;

    fn at(ms: u64) -> Monotonic {
        FIRST + Duration::from_millis(ms)
    }

    /// Runs from `from` to `to`, ms; those requests for which `answers` holds are answered at once.
    fn run(echo: &mut Echo, from: u64, to: u64, answers: impl Fn(u64) -> bool) {
        for ms in (from..to).step_by(50) {
            if let Some(sequence) = echo.handle_timeout(at(ms)).filter(|_| answers(ms)) {
                echo.handle_answer(sequence);
            }
        }
    }

    fn echo() -> Echo {
        Echo::new(interval(4), FIRST, EchoCounts::default())
    }

    #[test]
    fn a_link_that_carried_packets_is_silent_after_a_second_and_a_half_without_an_answer() {
        let mut echo = echo();
        run(&mut echo, 0, 1000, |_| true);
        run(&mut echo, 1000, 2500, |_| false);
        assert!(!echo.is_silent());
        run(&mut echo, 2500, 2550, |_| false);
        assert!(echo.is_silent());
        assert_eq!(echo.counts(), EchoCounts { sent: 31, lost: 11 });
        run(&mut echo, 2550, 2600, |_| true);
        assert!(!echo.is_silent(), "one answer is enough");
        assert_eq!(echo.counts().lost, 12);
    }

    #[test]
    fn a_neighbour_that_never_answered_is_not_silent() {
        let mut echo = echo();
        run(&mut echo, 0, 60_000, |_| false);
        assert!(!echo.is_silent());
        assert_eq!(echo.counts(), EchoCounts { sent: 1180, lost: 1180 });
    }

    #[test]
    fn one_packet_in_ten_keeps_a_link_alive_and_is_counted() {
        let mut echo = echo();
        for second in 0..60 {
            run(&mut echo, second * 1000, second * 1000 + 1000, |ms| ms % 500 == 0);
            assert!(!echo.is_silent());
        }
        let EchoCounts { sent, lost } = echo.counts();
        assert_eq!((sent - lost, lost), (120, 1080 - 18));
    }

    #[test]
    fn a_process_that_slept_accuses_no_link() {
        let mut echo = echo();
        run(&mut echo, 0, 1000, |_| true);
        run(&mut echo, 1000, 1100, |_| false);
        run(&mut echo, 9000, 10_400, |_| false);
        assert!(!echo.is_silent());
        assert_eq!(echo.counts().lost, 8, "of those after it woke");
        run(&mut echo, 10_400, 10_600, |_| false);
        assert!(echo.is_silent());
    }

    #[test]
    fn answers_that_take_longer_than_an_interval_count_and_strange_ones_do_not() {
        let mut echo = echo();
        let mut sent = Vec::new();
        for ms in (0..20_000).step_by(50) {
            sent.extend(echo.handle_timeout(at(ms)));
            // 900 ms of round-trip time.
            if let Some(sequence) = sent.len().checked_sub(19).map(|i| sent[i]) {
                echo.handle_answer(sequence);
            }
            assert!(!echo.is_silent());
        }
        assert_eq!(echo.counts().lost, 0);
        let before = echo.counts();
        (0..5).for_each(|_| echo.handle_answer(sent[0]));
        assert_eq!(echo.counts(), before);

        // Later than one second: lost, but the link is alive.
        let mut slow = self::echo();
        let mut sent = Vec::new();
        for ms in (0..20_000).step_by(50) {
            sent.extend(slow.handle_timeout(at(ms)));
            if let Some(sequence) = sent.len().checked_sub(81).map(|i| sent[i]) {
                slow.handle_answer(sequence);
            }
        }
        assert!(!slow.is_silent());
        assert_eq!(slow.counts().lost, slow.counts().sent);
        // One that was never sent.
        run(&mut slow, 20_000, 23_000, |_| false);
        assert!(slow.is_silent());
        slow.handle_answer(slow.next);
        assert!(slow.is_silent());
    }

    #[test]
    fn a_node_of_many_links_sends_two_thousand_requests_a_second() {
        assert_eq!(interval(1), SHORTEST_INTERVAL);
        assert_eq!(interval(100), SHORTEST_INTERVAL);
        assert_eq!(interval(4000), Duration::from_secs(2));
    }
}
