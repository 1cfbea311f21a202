// SPDX-License-Identifier: Apache-2.0
//! State of a flow, and detection of upstream control: section 5.7, decisions 4.6. A node upstream controls a flow if the
//! flow's arrival rate fell, or if most of its octets arrived marked CE: then a queue further upstream is above its K_min, and a
//! reduction by the source lowers the arrival rate only after that queue has drained.

use super::trigger::AT_K_MAX;

/// State of a flow at a node.
#[derive(Clone, Debug, Default)]
pub(super) struct FlowState {
    /// The endpoint accepts the RoCEv2 format.
    pub(super) accepts_roce: bool,
    /// When a Long-haul CNP was last sent to its source.
    pub(super) sent_ns: Option<u64>,
    /// When most of its octets last arrived marked CE.
    pub(super) came_marked_ns: Option<u64>,
    window: Option<(u64, u64)>,
    /// Rates of the last window and of the window before.
    previous: Option<[u128; 2]>,
    fell_ns: Option<u64>,
    deferral: Option<Deferral>,
}

/// Deferral to a node upstream: the level at its start, and its end.
#[derive(Clone, Copy, Debug)]
struct Deferral {
    level: u8,
    until_ns: u64,
    /// Caused by CE marks; the rate had not fallen.
    by_marks: bool,
}

/// Whether to send a Long-haul CNP to a flow's source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Send.
    Send,
    /// Send a stricter action than the metrics alone require, at this level or above: control by the node upstream was not
    /// enough.
    Escalate(u8),
    /// Do not send: a node upstream controls the flow.
    Defer,
}

impl FlowState {
    /// Restarts the measurement after a gap, which must not count as a fall of the rate.
    pub(super) fn reset_window(&mut self) {
        (self.window, self.previous) = (None, None);
    }

    /// Records arrived octets. The rate is measured over half an RTT; it fell if it is more than 10 % below that of the RTT
    /// before.
    pub(super) fn arrive(&mut self, bytes: u64, rtt_ns: u64, now_ns: u64) {
        let Some((start, sum)) = self.window else {
            // These octets arrived at an unknown time before the window.
            self.window = Some((now_ns, 0));
            return;
        };
        let elapsed = now_ns.saturating_sub(start);
        if elapsed < (rtt_ns / 2).max(1) {
            self.window = Some((start, sum.saturating_add(bytes)));
            return;
        }
        // These octets arrived since the last sample: they belong to the window that ends now.
        let rate = rate(sum.saturating_add(bytes), elapsed);
        let last = if self.compare(rate, now_ns) { rate } else { self.previous.map_or(rate, |[last, _]| last) };
        self.previous = Some([rate, last]);
        self.window = Some((now_ns, 0));
    }

    /// Whether a rate is more than 10 % below that of either of the two windows before, because a fall within a window is spread
    /// over two. A fall counts once.
    fn compare(&mut self, rate: u128, now_ns: u64) -> bool {
        let fell = self.previous.is_some_and(|[last, before]| rate * 10 < last.max(before) * 9);
        if fell {
            self.fell_ns = Some(now_ns);
            self.previous = Some([rate, rate]);
        }
        fell
    }

    /// Whether to send a Long-haul CNP at `level`, decisions 4.6.
    pub(super) fn verdict(&mut self, level: u8, rtt_ns: u64, now_ns: u64) -> Verdict {
        // A fall is also detected within a running window.
        if let Some((start, sum)) = self.window
            && now_ns.saturating_sub(start) >= (rtt_ns / 4).max(1)
        {
            self.compare(rate(sum, now_ns - start), now_ns);
        }
        let recent = |at: &u64| now_ns.saturating_sub(*at) < rtt_ns;
        let fell = self.fell_ns.filter(recent);
        if let Some(deferral) = self.deferral {
            if now_ns < deferral.until_ns {
                return Verdict::Defer;
            }
            // Later than an RTT after the deferral, it is a new congestion.
            let fresh = now_ns - deferral.until_ns <= rtt_ns;
            let worse = level > deferral.level || level == u8::MAX;
            let marked = deferral.by_marks && self.came_marked_ns.is_some_and(|at| recent(&at));
            // A node upstream still controls the flow: defer, and escalate without another window once the level is higher.
            if fresh && !worse && marked && fell.is_none() && (level < deferral.level || level <= AT_K_MAX) {
                return Verdict::Defer;
            }
            self.deferral = None;
            if fresh && worse {
                return Verdict::Escalate(deferral.level.saturating_add(1));
            }
            // The level is unchanged and above K_max, and only marks caused the deferral: the nodes upstream only mark.
            if fresh && level == deferral.level && level > AT_K_MAX && deferral.by_marks {
                return Verdict::Send;
            }
        }
        match fell.or(self.came_marked_ns.filter(recent).map(|_| now_ns)) {
            Some(since) => {
                let by_marks = fell.is_none();
                self.deferral = Some(Deferral { level, until_ns: since.saturating_add(rtt_ns), by_marks });
                Verdict::Defer
            }
            None => Verdict::Send,
        }
    }
}

/// Octets per second.
fn rate(bytes: u64, elapsed_ns: u64) -> u128 {
    u128::from(bytes) * 1_000_000_000 / u128::from(elapsed_ns.max(1))
}
