// SPDX-License-Identifier: Apache-2.0
//! The ledger of one QP: what each issuer requested.

use std::net::Ipv6Addr;
use std::time::Duration;

use canopy_model::instruction::Percent;
use canopy_units::{Monotonic, Rate};

/// How long the newest timestamp of an issuer counts: its clock may be set back, and a packet is not on its way for longer.
const TIMESTAMP_COUNTS: Duration = Duration::from_secs(10);

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
    pub(super) cap: Rate,
    /// Rate removed by its last reduction; 0 after a Resume, so that a second Resume has no effect.
    taken: Rate,
    /// Rate before its last reduction.
    before: Rate,
    /// End of its pause; a time in the past without one.
    pub(super) paused_until: Monotonic,
    /// When it last requested a reduction or a pause.
    requested_at: Option<Monotonic>,
    /// Newest timestamp of its packets, and when that one arrived.
    newest: Option<(u64, Monotonic)>,
}

impl IssuerRecord {
    pub(super) fn new(line: Rate) -> Self {
        let (taken, paused_until, requested_at, newest) = (Rate::ZERO, Monotonic::START, None, None);
        Self { cap: line, taken, before: line, paused_until, requested_at, newest }
    }

    /// Records a timestamp; `false` if it is not newer than the last (compared as serial numbers: NTP time wraps), unless that one
    /// arrived long ago.
    pub(super) fn is_newer(&mut self, timestamp: Option<u64>, now: Monotonic) -> bool {
        let Some(new) = timestamp else { return true };
        let newer = self.last_timestamp(now).is_none_or(|old| new.wrapping_sub(old) as i64 > 0);
        if newer {
            self.newest = Some((new, now));
        }
        newer
    }

    /// The newest timestamp, while it counts.
    fn last_timestamp(&self, now: Monotonic) -> Option<u64> {
        self.newest.filter(|(_, at)| now.since(*at) < TIMESTAMP_COUNTS).map(|(timestamp, _)| timestamp)
    }

    /// Whether the issuer requested a reduction or a pause within the last RTT.
    pub(super) fn requested_within(&self, rtt: Duration, now: Monotonic) -> bool {
        self.requested_at.is_some_and(|at| now.since(at) < rtt)
    }

    pub(super) fn record_request(&mut self, now: Monotonic) {
        self.requested_at = Some(now);
    }

    /// Lowers the cap to `target`, a reduction from the rate `start`.
    pub(super) fn reduce(&mut self, start: Rate, target: Rate) {
        self.cap = self.cap.min(target);
        self.before = start;
        self.taken = start.saturating_sub(self.cap);
    }

    /// Whether there is a reduction or a pause that a Resume can lift.
    pub(super) fn is_open(&self, now: Monotonic) -> bool {
        self.taken > Rate::ZERO || self.paused_until > now
    }

    /// Ends the pause and restores a share of the last reduction, at most `most`, once.
    pub(super) fn resume(&mut self, percent: Percent, most: Rate, line: Rate, now: Monotonic) {
        self.paused_until = self.paused_until.min(now);
        if self.taken == Rate::ZERO {
            return;
        }
        let (gain, ceiling) = match percent {
            Percent::ZERO => (line, line),
            percent => (share(percent, self.taken), self.before),
        };
        let raised = (self.cap + gain.min(most)).min(ceiling);
        self.cap = self.cap.max(raised);
        self.taken = Rate::ZERO;
    }

    /// Raises the cap by `step`; at line rate no reduction is left to lift.
    pub(super) fn increase(&mut self, step: Rate, line: Rate) {
        self.cap = (self.cap + step).min(line);
        if self.cap == line {
            self.taken = Rate::ZERO;
        }
    }

    /// Applies a new line rate: a cap at the old line rate moves to the new one, and no cap exceeds the new one.
    pub(super) fn change_line(&mut self, old: Rate, new: Rate) {
        if self.cap >= old {
            self.cap = new;
        }
        self.cap = self.cap.min(new);
        self.before = self.before.min(new);
    }

    /// Whether the issuer limits nothing: no cap below line rate, no pause.
    pub(super) fn is_free(&self, line: Rate, now: Monotonic) -> bool {
        self.cap >= line && self.paused_until <= now
    }

    /// Whether the record can be dropped: it limits nothing and holds no timestamp against replays.
    pub(super) fn is_blank(&self, line: Rate, now: Monotonic) -> bool {
        self.is_free(line, now) && self.last_timestamp(now).is_none()
    }
}

/// A share of a rate, rounded as [`Percent::of`] does.
pub(super) fn share(percent: Percent, rate: Rate) -> Rate {
    Rate::from_bps(percent.of(rate.bps()))
}
