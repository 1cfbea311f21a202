// SPDX-License-Identifier: Apache-2.0
//! What each issuer asked of one QP.

use std::net::Ipv6Addr;

use crate::congestion::Percent;

/// Who asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Issuer {
    /// The QP's peer, by CNPs: a receiver, or all receivers of a multicast group by way of the tree's aggregation.
    Peer,
    /// A node on the path.
    Node(Ipv6Addr),
}

/// What one issuer asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// Rate that this issuer permits.
    pub(super) cap_bps: u64,
    /// What its last reduction took, until a Resume gave some back: a Resume has nothing to give twice.
    taken_bps: u64,
    /// Rate before its last reduction.
    before_bps: u64,
    /// End of its pause, or a time past.
    pub(super) paused_until_ns: u64,
    /// When it last asked for less.
    asked_ns: Option<u64>,
    /// Timestamp of its last packet that had one.
    newest: Option<u64>,
}

impl Entry {
    pub(super) fn new(line_bps: u64) -> Self {
        let (taken_bps, before_bps, paused_until_ns, asked_ns, newest) = (0, line_bps, 0, None, None);
        Self { cap_bps: line_bps, taken_bps, before_bps, paused_until_ns, asked_ns, newest }
    }

    /// Notes a timestamp; `false` when it is not newer than the last (compared as serial numbers: NTP time wraps).
    pub(super) fn is_newer(&mut self, timestamp: Option<u64>) -> bool {
        let Some(new) = timestamp else { return true };
        let newer = self.newest.is_none_or(|old| new.wrapping_sub(old) as i64 > 0);
        if newer {
            self.newest = Some(new);
        }
        newer
    }

    /// Whether the issuer asked for less within the last RTT.
    pub(super) fn asked_within(&self, rtt_ns: u64, now_ns: u64) -> bool {
        self.asked_ns.is_some_and(|at| now_ns.saturating_sub(at) < rtt_ns)
    }

    pub(super) fn ask(&mut self, now_ns: u64) {
        self.asked_ns = Some(now_ns);
    }

    /// Lowers the cap to `target_bps`, seen from a rate of `start_bps`.
    pub(super) fn reduce(&mut self, start_bps: u64, target_bps: u64) {
        self.cap_bps = self.cap_bps.min(target_bps);
        self.before_bps = start_bps;
        self.taken_bps = start_bps.saturating_sub(self.cap_bps);
    }

    /// Whether a Resume has something to take back.
    pub(super) fn is_open(&self, now_ns: u64) -> bool {
        self.taken_bps > 0 || self.paused_until_ns > now_ns
    }

    /// Takes the pause back and gives a share of the last reduction, at most `most_bps`, back: once.
    pub(super) fn resume(&mut self, percent: Percent, most_bps: u64, line_bps: u64, now_ns: u64) {
        self.paused_until_ns = self.paused_until_ns.min(now_ns);
        if self.taken_bps == 0 {
            return;
        }
        let (gain, ceiling) = match percent {
            Percent::ZERO => (line_bps, line_bps),
            percent => (percent.of(self.taken_bps), self.before_bps),
        };
        let raised = self.cap_bps.saturating_add(gain.min(most_bps)).min(ceiling);
        self.cap_bps = self.cap_bps.max(raised);
        self.taken_bps = 0;
    }

    /// Raises the cap by `step_bps`; at line rate nothing is left to take back.
    pub(super) fn increase(&mut self, step_bps: u64, line_bps: u64) {
        self.cap_bps = self.cap_bps.saturating_add(step_bps).min(line_bps);
        if self.cap_bps == line_bps {
            self.taken_bps = 0;
        }
    }

    /// The line rate changed: a cap at the old one is none, and none exceeds the new one.
    pub(super) fn change_line(&mut self, old_bps: u64, new_bps: u64) {
        if self.cap_bps >= old_bps {
            self.cap_bps = new_bps;
        }
        self.cap_bps = self.cap_bps.min(new_bps);
        self.before_bps = self.before_bps.min(new_bps);
    }

    /// Whether it asks for nothing.
    pub(super) fn is_free(&self, line_bps: u64, now_ns: u64) -> bool {
        self.cap_bps >= line_bps && self.paused_until_ns <= now_ns
    }

    /// Whether it holds nothing worth keeping: it asks for nothing, and no timestamp guards against replays.
    pub(super) fn is_blank(&self, line_bps: u64, now_ns: u64) -> bool {
        self.is_free(line_bps, now_ns) && self.newest.is_none()
    }
}
