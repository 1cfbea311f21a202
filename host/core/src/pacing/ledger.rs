// SPDX-License-Identifier: Apache-2.0
//! The ledger of one QP: what each issuer requested.

use std::net::Ipv6Addr;

use canopy_model::instruction::Percent;

/// Sender of an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Issuer {
    /// The QP's peer, by CNPs: a receiver, or all receivers of a multicast group, whose CNPs the tree aggregates.
    Peer,
    /// A node on the path.
    Node(Ipv6Addr),
}

/// State of one issuer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct IssuerRecord {
    /// Rate that this issuer permits.
    pub(super) cap_bps: u64,
    /// Rate removed by its last reduction; 0 after a Resume, so that a second Resume has no effect.
    taken_bps: u64,
    /// Rate before its last reduction.
    before_bps: u64,
    /// End of its pause; a time in the past without one.
    pub(super) paused_until_ns: u64,
    /// When it last requested a reduction or a pause.
    requested_ns: Option<u64>,
    /// Newest timestamp of its packets.
    newest: Option<u64>,
}

impl IssuerRecord {
    pub(super) fn new(line_bps: u64) -> Self {
        let (taken_bps, before_bps, paused_until_ns, requested_ns, newest) = (0, line_bps, 0, None, None);
        Self { cap_bps: line_bps, taken_bps, before_bps, paused_until_ns, requested_ns, newest }
    }

    /// Records a timestamp; `false` if it is not newer than the last (compared as serial numbers: NTP time wraps).
    pub(super) fn is_newer(&mut self, timestamp: Option<u64>) -> bool {
        let Some(new) = timestamp else { return true };
        let newer = self.newest.is_none_or(|old| new.wrapping_sub(old) as i64 > 0);
        if newer {
            self.newest = Some(new);
        }
        newer
    }

    /// Whether the issuer requested a reduction or a pause within the last RTT.
    pub(super) fn requested_within(&self, rtt_ns: u64, now_ns: u64) -> bool {
        self.requested_ns.is_some_and(|at| now_ns.saturating_sub(at) < rtt_ns)
    }

    pub(super) fn record_request(&mut self, now_ns: u64) {
        self.requested_ns = Some(now_ns);
    }

    /// Lowers the cap to `target_bps`, a reduction from the rate `start_bps`.
    pub(super) fn reduce(&mut self, start_bps: u64, target_bps: u64) {
        self.cap_bps = self.cap_bps.min(target_bps);
        self.before_bps = start_bps;
        self.taken_bps = start_bps.saturating_sub(self.cap_bps);
    }

    /// Whether there is a reduction or a pause that a Resume can lift.
    pub(super) fn is_open(&self, now_ns: u64) -> bool {
        self.taken_bps > 0 || self.paused_until_ns > now_ns
    }

    /// Ends the pause and restores a share of the last reduction, at most `most_bps`, once.
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

    /// Raises the cap by `step_bps`; at line rate no reduction is left to lift.
    pub(super) fn increase(&mut self, step_bps: u64, line_bps: u64) {
        self.cap_bps = self.cap_bps.saturating_add(step_bps).min(line_bps);
        if self.cap_bps == line_bps {
            self.taken_bps = 0;
        }
    }

    /// Applies a new line rate: a cap at the old line rate moves to the new one, and no cap exceeds the new one.
    pub(super) fn change_line(&mut self, old_bps: u64, new_bps: u64) {
        if self.cap_bps >= old_bps {
            self.cap_bps = new_bps;
        }
        self.cap_bps = self.cap_bps.min(new_bps);
        self.before_bps = self.before_bps.min(new_bps);
    }

    /// Whether the issuer limits nothing: no cap below line rate, no pause.
    pub(super) fn is_free(&self, line_bps: u64, now_ns: u64) -> bool {
        self.cap_bps >= line_bps && self.paused_until_ns <= now_ns
    }

    /// Whether the record can be dropped: it limits nothing and holds no timestamp against replays.
    pub(super) fn is_blank(&self, line_bps: u64, now_ns: u64) -> bool {
        self.is_free(line_bps, now_ns) && self.newest.is_none()
    }
}
