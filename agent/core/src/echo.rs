// SPDX-License-Identifier: Apache-2.0
//! Whether a link carries packets: ICMPv6 Echo (RFC 4443 section 4) to the neighbour, whose kernel answers also while its agent does
//! not run. Pure: answers and the time come in.
//!
//! A request counts as lost only between two answers: what is sent before the neighbour answers for the first time, or while the link
//! carries nothing at all, is no share of losses. A link without a carrier, a neighbour that starts, and a silent link are known otherwise.

use std::collections::VecDeque;
use std::time::Duration;

use canopy_units::Monotonic;

/// Shortest time between two requests on a link.
const SHORTEST_INTERVAL: Duration = Duration::from_millis(50);
/// Time between two requests of a node, over all links.
const PER_LINK: Duration = Duration::from_micros(500);
/// A request without an answer for this long is lost.
const LOST_AFTER: Duration = Duration::from_secs(1);
/// A link on which nothing was answered for this long carries nothing...
const SILENT_AFTER: Duration = Duration::from_millis(1500);
/// ...but not before so many requests in a row had no answer.
const SILENT_REQUESTS: u32 = 6;
/// A process that was woken this late knows nothing about the time in between.
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
    /// Expired since the last answer.
    expired: u64,
    /// The neighbour has answered once: one that never does may be configured not to.
    has_answered: bool,
    /// When the first request after the last answer was sent.
    unanswered_since: Option<Monotonic>,
    /// Only an answer ends it.
    is_silent: bool,
    counts: EchoCounts,
}

impl Echo {
    /// Sends its first request at `now`, and one each `interval` from then on.
    pub fn new(interval: Duration, now: Monotonic) -> Self {
        Self {
            interval,
            due: now,
            next: 0,
            waiting: VecDeque::new(),
            expired: 0,
            has_answered: false,
            unanswered_since: None,
            is_silent: false,
            counts: EchoCounts::default(),
        }
    }

    /// Another time between two requests from `now` on; what is known stays known.
    pub fn set_interval(&mut self, interval: Duration, now: Monotonic) {
        self.interval = interval;
        self.due = self.due.min(now + interval);
    }

    /// When to call [`Echo::handle_timeout`] next.
    pub fn poll_timeout(&self) -> Monotonic {
        self.due
    }

    /// Counts expired requests as lost; returns the sequence number of the request to send now, if one is due. Answers that have arrived
    /// must be handled first.
    pub fn handle_timeout(&mut self, now: Monotonic) -> Option<u16> {
        if now.since(self.due) >= ASLEEP {
            // Answers may have been dropped meanwhile.
            self.know_nothing();
        }
        let silent_after = SILENT_AFTER.max(self.interval * SILENT_REQUESTS);
        let is_long = |since: Monotonic| now.since(since) >= silent_after;
        self.is_silent |= self.has_answered && self.unanswered_since.is_some_and(is_long);
        while self.waiting.front().is_some_and(|(_, at)| now.since(*at) >= LOST_AFTER) {
            self.waiting.pop_front();
            self.expired += 1;
        }
        if now < self.due {
            return None;
        }
        let next = self.due + self.interval;
        self.due = if next > now { next } else { now + self.interval };
        let sequence = self.next;
        self.next = self.next.wrapping_add(1);
        self.waiting.push_back((sequence, now));
        self.unanswered_since.get_or_insert(now);
        Some(sequence)
    }

    /// The last request could not be sent, through no fault of the link: the time without requests shows nothing.
    pub fn not_sent(&mut self) {
        self.know_nothing();
    }

    /// An answer of the neighbour with this sequence number arrived. One that comes too late to count shows that the link carries packets,
    /// too.
    pub fn handle_answer(&mut self, sequence: u16) {
        if self.next.wrapping_sub(sequence.wrapping_add(1)) > u16::MAX / 2 {
            return;
        }
        let expired = std::mem::take(&mut self.expired);
        let is_first = !self.has_answered || self.is_silent;
        if !is_first {
            self.counts.sent += expired;
            self.counts.lost += expired;
        }
        if let Some(at) = self.waiting.iter().position(|(waits, _)| *waits == sequence) {
            // Those before the first answer count no more than those that have expired.
            self.waiting.drain(if is_first { 0..=at } else { at..=at });
            self.counts.sent += 1;
        }
        self.has_answered = true;
        (self.is_silent, self.unanswered_since) = (false, None);
    }

    /// Whether the link carries nothing any more, as of the last call of [`Echo::handle_timeout`]. False until the neighbour has answered
    /// once.
    pub fn is_silent(&self) -> bool {
        self.is_silent
    }

    /// Whether the last request that could have been answered was.
    pub fn answers(&self) -> bool {
        self.has_answered && self.unanswered_since.is_none()
    }

    /// What became of the requests.
    pub fn counts(&self) -> EchoCounts {
        self.counts
    }

    fn know_nothing(&mut self) {
        self.waiting.clear();
        self.expired = 0;
        self.unanswered_since = None;
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
        Echo::new(interval(4), FIRST)
    }

    #[test]
    fn a_link_that_carried_packets_is_silent_after_a_second_and_a_half_without_an_answer() {
        let mut echo = echo();
        run(&mut echo, 0, 1000, |_| true);
        run(&mut echo, 1000, 2500, |_| false);
        assert!(!echo.is_silent());
        run(&mut echo, 2500, 2550, |_| false);
        assert!(echo.is_silent());
        run(&mut echo, 2550, 2600, |_| true);
        assert!(!echo.is_silent(), "one answer is enough");
        run(&mut echo, 2600, 5000, |_| true);
        assert_eq!(echo.counts(), EchoCounts { sent: 69, lost: 0 }, "it was silent, which is another fault");
    }

    #[test]
    fn what_expires_between_two_answers_is_lost_and_what_is_sent_before_the_first_one_is_not() {
        let mut echo = echo();
        // A neighbour that starts a minute later.
        run(&mut echo, 0, 60_000, |_| false);
        assert!(!echo.is_silent());
        run(&mut echo, 60_000, 70_000, |_| true);
        assert_eq!(echo.counts(), EchoCounts { sent: 200, lost: 0 });
        run(&mut echo, 70_000, 71_400, |_| false);
        assert_eq!(echo.counts().lost, 0);
        run(&mut echo, 71_400, 80_000, |_| true);
        assert_eq!(echo.counts(), EchoCounts { sent: 400, lost: 28 });
    }

    #[test]
    fn a_request_that_cannot_be_sent_is_none() {
        let mut echo = echo();
        run(&mut echo, 0, 1000, |_| true);
        for ms in (1000..20_000).step_by(50) {
            if echo.handle_timeout(at(ms)).is_some() {
                echo.not_sent();
            }
            assert!(!echo.is_silent());
        }
        run(&mut echo, 20_000, 21_000, |_| true);
        assert_eq!(echo.counts(), EchoCounts { sent: 40, lost: 0 });
    }

    /// Another link of the node changes nothing but the time between two requests.
    #[test]
    fn a_silent_link_stays_silent_with_another_interval() {
        let mut echo = echo();
        run(&mut echo, 0, 1000, |_| true);
        run(&mut echo, 1000, 4000, |_| false);
        echo.set_interval(interval(1000), at(4000));
        assert!(echo.is_silent());
        run(&mut echo, 4000, 20_000, |_| false);
        assert!(echo.is_silent());
        echo.set_interval(interval(4), at(20_000));
        assert!(echo.poll_timeout() <= at(20_050));
    }

    /// A late request is followed by one at its own time; one that is due already is left out.
    #[test]
    fn requests_keep_their_times_and_do_not_catch_up() {
        let mut echo = echo();
        for (now, due) in [(0, 50), (60, 100), (149, 150), (200, 250), (420, 470)] {
            assert!(echo.handle_timeout(at(now)).is_some());
            assert_eq!(echo.poll_timeout(), at(due), "sent at {now}");
        }
    }

    #[test]
    fn another_interval_holds_from_the_next_request_on_and_delays_none() {
        let mut echo = echo();
        assert!(echo.handle_timeout(at(0)).is_some());
        echo.set_interval(interval(1000), at(10));
        assert_eq!(echo.poll_timeout(), at(50));
        assert!(echo.handle_timeout(at(50)).is_some());
        assert_eq!(echo.poll_timeout(), at(550));
        echo.set_interval(interval(4), at(60));
        assert_eq!(echo.poll_timeout(), at(110));
    }

    #[test]
    fn a_neighbour_answers_once_an_answer_arrived_and_until_a_request_has_none() {
        let mut echo = echo();
        assert!(!echo.answers(), "nothing was sent");
        run(&mut echo, 0, 50, |_| true);
        assert!(echo.answers());
        run(&mut echo, 50, 100, |_| false);
        assert!(!echo.answers());
        run(&mut echo, 100, 150, |_| true);
        assert!(echo.answers());
    }

    /// Sequence numbers wrap: of two that are half of all numbers apart, none is the earlier one.
    #[test]
    fn an_answer_is_known_among_the_last_32768_requests() {
        let mut echo = echo();
        run(&mut echo, 0, 50, |_| true);
        run(&mut echo, 50, 32_769 * 50, |_| false);
        assert_eq!((echo.next, echo.is_silent()), (32_769, true));
        echo.handle_answer(0);
        assert!(echo.is_silent(), "32769 requests ago");
        echo.handle_answer(1);
        assert!(!echo.is_silent());
    }

    #[test]
    fn nodes_of_many_links_find_silence_and_losses_too() {
        for (links, silent_after) in [(100, 1500), (1000, 3000), (4000, 12_000)] {
            let mut echo = Echo::new(interval(links), FIRST);
            run(&mut echo, 0, 60_000, |_| true);
            assert_eq!(echo.counts(), EchoCounts { sent: 60_000 / interval(links).as_millis() as u64, lost: 0 });
            let silent_at = (60_000..90_000).step_by(50).find(|ms| {
                run(&mut echo, *ms, *ms + 50, |_| false);
                echo.is_silent()
            });
            let after = silent_at.unwrap() - 60_000;
            assert!((silent_after..=silent_after + 2000).contains(&after), "{links} links: {after} ms");
            run(&mut echo, 90_000, 100_000, |_| true);
            assert!(!echo.is_silent());
            let before = echo.counts();
            let every = interval(links).as_millis() as u64;
            run(&mut echo, 100_000, 200_000, |ms| !(ms / every).is_multiple_of(5));
            run(&mut echo, 200_000, 210_000, |_| true);
            let after = echo.counts();
            let (sent, lost) = (after.sent - before.sent, after.lost - before.lost);
            assert!(sent * 15 / 100 <= lost && lost <= sent * 25 / 100, "{links} links: {lost} of {sent}");
            // A busy process.
            run(&mut echo, 230_000, 231_000, |_| false);
            assert!(!echo.is_silent());
        }
    }

    #[test]
    fn a_neighbour_that_never_answered_is_not_silent() {
        let mut echo = echo();
        run(&mut echo, 0, 60_000, |_| false);
        assert!(!echo.is_silent());
        assert_eq!(echo.counts(), EchoCounts::default(), "it may be configured not to answer");
    }

    #[test]
    fn one_packet_in_ten_keeps_a_link_alive_and_is_counted() {
        let mut echo = echo();
        for second in 0..60 {
            run(&mut echo, second * 1000, second * 1000 + 1000, |ms| ms % 500 == 0);
            assert!(!echo.is_silent());
        }
        let EchoCounts { sent, lost } = echo.counts();
        assert_eq!((sent - lost, lost), (120, 1080 - 27));
    }

    #[test]
    fn a_process_that_slept_accuses_no_link() {
        let mut echo = echo();
        run(&mut echo, 0, 1000, |_| true);
        run(&mut echo, 1000, 1100, |_| false);
        run(&mut echo, 9000, 10_400, |_| false);
        assert!(!echo.is_silent());
        run(&mut echo, 10_400, 10_450, |_| true);
        assert_eq!(echo.counts().lost, 9, "of those after it woke");
        run(&mut echo, 10_450, 12_050, |_| false);
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
