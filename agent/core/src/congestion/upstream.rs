// SPDX-License-Identifier: Apache-2.0
//! State of a flow, and detection of upstream control: section 5.7, decisions 4.6. A node upstream controls a flow if the
//! flow's arrival rate fell, or if most of its octets arrived marked CE: then a queue further upstream is above its K_min, and a
//! reduction by the source lowers the arrival rate only after that queue has drained.

use std::time::Duration;

use canopy_units::{Monotonic, Octets};

use super::trigger::AT_K_MAX;

const NANOSECOND: Duration = Duration::from_nanos(1);

/// State of a flow at a node.
#[derive(Clone, Debug, Default)]
pub(super) struct FlowState {
    /// The endpoint accepts the RoCEv2 format.
    pub(super) accepts_roce: bool,
    /// When a Long-haul CNP was last sent to its source.
    pub(super) sent_at: Option<Monotonic>,
    /// When most of its octets last arrived marked CE.
    pub(super) came_marked_at: Option<Monotonic>,
    /// What arrived last.
    arrived: Octets,
    /// It came after a gap in the measurement.
    after_gap: bool,
    /// A part of it was marked CE: perhaps what came last, and perhaps what came long ago.
    unsure: bool,
    /// Start of the running window, and what arrived in it.
    window: Option<(Monotonic, Octets)>,
    /// Rates of the last window and of the window before.
    previous: Option<[u128; 2]>,
    fell_at: Option<Monotonic>,
    deferral: Option<Deferral>,
}

/// Deferral to a node upstream: the level at its start, and its end.
#[derive(Clone, Copy, Debug)]
struct Deferral {
    level: u8,
    until: Monotonic,
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
    /// What arrives next comes after a gap in the measurement, or after none. A gap must not count as a fall of the rate, nor hide
    /// marks of its end.
    pub(super) fn follow(&mut self, gap: bool) {
        if gap {
            (self.window, self.previous) = (None, None);
        }
        (self.after_gap, self.unsure) = (gap, false);
    }

    /// Records that so many of the octets that arrived last were marked CE. After a gap it is unknown which: the next sample shows it.
    pub(super) fn came_marked(&mut self, octets: Octets, now: Monotonic) {
        if self.after_gap {
            self.unsure = octets > Octets::ZERO;
        } else if octets > self.arrived / 2 {
            self.came_marked_at = Some(now);
        }
    }

    /// Records arrived octets. The rate is measured over half an RTT; it fell if it is more than 10 % below that of the RTT
    /// before.
    pub(super) fn arrive(&mut self, octets: Octets, rtt: Duration, now: Monotonic) {
        self.arrived = octets;
        let Some((start, sum)) = self.window else {
            // These octets arrived at an unknown time before the window.
            self.window = Some((now, Octets::ZERO));
            return;
        };
        let elapsed = now.since(start);
        if elapsed < (rtt / 2).max(NANOSECOND) {
            self.window = Some((start, sum + octets));
            return;
        }
        // These octets arrived since the last sample: they belong to the window that ends now.
        let rate = rate(sum + octets, elapsed);
        let last = if self.compare(rate, now) { rate } else { self.previous.map_or(rate, |[last, _]| last) };
        self.previous = Some([rate, last]);
        self.window = Some((now, Octets::ZERO));
    }

    /// Whether a rate is more than 10 % below that of either of the two windows before, because a fall within a window is spread
    /// over two. A fall counts once.
    fn compare(&mut self, rate: u128, now: Monotonic) -> bool {
        let fell = self.previous.is_some_and(|[last, before]| rate * 10 < last.max(before) * 9);
        if fell {
            self.fell_at = Some(now);
            self.previous = Some([rate, rate]);
        }
        fell
    }

    /// Whether to send a Long-haul CNP at `level`, decisions 4.6.
    pub(super) fn verdict(&mut self, level: u8, rtt: Duration, now: Monotonic) -> Verdict {
        // A fall is also detected within a running window.
        if let Some((start, sum)) = self.window
            && now.since(start) >= (rtt / 4).max(NANOSECOND)
        {
            self.compare(rate(sum, now.since(start)), now);
        }
        let recent = |at: &Monotonic| now.since(*at) < rtt;
        let fell = self.fell_at.filter(recent);
        if let Some(deferral) = self.deferral {
            if now < deferral.until {
                return Verdict::Defer;
            }
            // Later than an RTT after the deferral, it is a new congestion.
            let fresh = now.since(deferral.until) <= rtt;
            let worse = level > deferral.level || level == u8::MAX;
            let marked = deferral.by_marks && self.came_marked_at.is_some_and(|at| recent(&at));
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
        if self.unsure {
            return Verdict::Defer;
        }
        match fell.or(self.came_marked_at.filter(recent).map(|_| now)) {
            Some(since) => {
                let by_marks = fell.is_none();
                self.deferral = Some(Deferral { level, until: since + rtt, by_marks });
                Verdict::Defer
            }
            None => Verdict::Send,
        }
    }
}

/// Octets per second, in full precision.
fn rate(octets: Octets, elapsed: Duration) -> u128 {
    u128::from(octets.get()) * 1_000_000_000 / elapsed.as_nanos().max(1)
}
