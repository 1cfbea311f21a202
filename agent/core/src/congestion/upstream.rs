// SPDX-License-Identifier: Apache-2.0
//! What a node keeps of each flow, and how it sees that a node upstream is at work on it: section 5.7, decisions 4.6. Either
//! the flow's arrival rate fell, or most of it came in marked CE: then a queue further upstream is above its K_min, and what
//! that node asks of the source shows in the arrival rate only when that queue has drained.

use super::trigger::AT_K_MAX;

/// What a node keeps of a flow besides its addresses.
#[derive(Clone, Debug, Default)]
pub(super) struct FlowState {
    /// The endpoint accepts the RoCEv2 format.
    pub(super) accepts_roce: bool,
    /// When it was last told something.
    pub(super) spoke_ns: Option<u64>,
    /// When most of it last came in marked CE.
    pub(super) came_marked_ns: Option<u64>,
    window: Option<(u64, u64)>,
    /// Rates of the last window and of the one before.
    previous: Option<[u128; 2]>,
    fell_ns: Option<u64>,
    watch: Option<Watch>,
}

/// Silence because the arrival rate fell: how bad it was, and when to look again.
#[derive(Clone, Copy, Debug)]
struct Watch {
    level: u8,
    until_ns: u64,
    /// The rate had not fallen; the flow came in marked.
    by_marks: bool,
}

/// Whether to speak to a flow's source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Yes.
    Speak,
    /// Yes, more strictly than the metrics alone ask for, and at least at this level: a node upstream was not enough.
    Escalate(u8),
    /// No: its rate fell within the last RTT.
    Defer,
}

impl FlowState {
    /// Begins anew: what arrived for a while is not known, which is no fall.
    pub(super) fn lose_sight(&mut self) {
        (self.window, self.previous) = (None, None);
    }

    /// Octets arrived. The rate is taken over half an RTT; lower by more than a tenth than in the RTT before, it fell.
    pub(super) fn arrive(&mut self, bytes: u64, rtt_ns: u64, now_ns: u64) {
        let Some((start, sum)) = self.window else {
            // These arrived before the window, how long before is not known.
            self.window = Some((now_ns, 0));
            return;
        };
        let elapsed = now_ns.saturating_sub(start);
        if elapsed < (rtt_ns / 2).max(1) {
            self.window = Some((start, sum.saturating_add(bytes)));
            return;
        }
        // Octets arrived after the last sample and up to this one: they belong to the window that ends.
        let rate = rate(sum.saturating_add(bytes), elapsed);
        let last = if self.compare(rate, now_ns) { rate } else { self.previous.map_or(rate, |[last, _]| last) };
        self.previous = Some([rate, last]);
        self.window = Some((now_ns, 0));
    }

    /// Whether a rate is lower by more than a tenth than that of either window before: a fall in the middle of a window is a
    /// part in one and a part in the next. It counts once.
    fn compare(&mut self, rate: u128, now_ns: u64) -> bool {
        let fell = self.previous.is_some_and(|[last, before]| rate * 10 < last.max(before) * 9);
        if fell {
            self.fell_ns = Some(now_ns);
            self.previous = Some([rate, rate]);
        }
        fell
    }

    /// Whether to speak at `level`, decisions 4.6.
    pub(super) fn verdict(&mut self, level: u8, rtt_ns: u64, now_ns: u64) -> Verdict {
        // A running window need not end to show a fall.
        if let Some((start, sum)) = self.window
            && now_ns.saturating_sub(start) >= (rtt_ns / 4).max(1)
        {
            self.compare(rate(sum, now_ns - start), now_ns);
        }
        let recent = |at: &u64| now_ns.saturating_sub(*at) < rtt_ns;
        let fell = self.fell_ns.filter(recent);
        if let Some(watch) = self.watch {
            if now_ns < watch.until_ns {
                return Verdict::Defer;
            }
            // Much later, it is another congestion.
            let fresh = now_ns - watch.until_ns <= rtt_ns;
            let worse = level > watch.level || level == u8::MAX;
            let marked = watch.by_marks && self.came_marked_ns.is_some_and(|at| recent(&at));
            // Still in the hands of a node upstream: silent, but no window need pass again before it is worse.
            if fresh && !worse && marked && fell.is_none() && (level < watch.level || level <= AT_K_MAX) {
                return Verdict::Defer;
            }
            self.watch = None;
            if fresh && worse {
                return Verdict::Escalate(watch.level.saturating_add(1));
            }
            // No better, beyond K_max, and marks alone kept it silent: nobody upstream does more than mark.
            if fresh && level == watch.level && level > AT_K_MAX && watch.by_marks {
                return Verdict::Speak;
            }
        }
        match fell.or(self.came_marked_ns.filter(recent).map(|_| now_ns)) {
            Some(since) => {
                let by_marks = fell.is_none();
                self.watch = Some(Watch { level, until_ns: since.saturating_add(rtt_ns), by_marks });
                Verdict::Defer
            }
            None => Verdict::Speak,
        }
    }
}

/// Octets per second.
fn rate(bytes: u64, elapsed_ns: u64) -> u128 {
    u128::from(bytes) * 1_000_000_000 / u128::from(elapsed_ns.max(1))
}
