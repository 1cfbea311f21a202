// SPDX-License-Identifier: Apache-2.0
//! The Session-Sender of one link, RFC 8762 section 4.2.

use std::collections::VecDeque;
use std::time::Duration;

use canopy_model::ids::PortIndex;
use canopy_model::telemetry::LinkRtt;
use canopy_packet::stamp::{ReflectorPacket, SenderPacket};
use canopy_units::Monotonic;

use super::{ERROR_ESTIMATE, Timestamp};

/// A test packet without an answer for this long is lost; also the longest round-trip time that is accepted.
const LOST_AFTER: Duration = Duration::from_secs(10);
/// Maximum number of test packets without an answer; beyond it the oldest counts as lost.
const MAX_WAITING: usize = 128;

/// Settings of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionSettings {
    /// Time between two test packets, at least 1 ns.
    pub interval: Duration,
}

/// A session; its packets are numbered from 0.
#[derive(Clone, Debug)]
pub struct Session {
    settings: SessionSettings,
    due: Monotonic,
    next: u32,
    waiting: VecDeque<Waiting>,
    smallest: Option<Duration>,
    samples: u64,
    lost: u64,
    refused: u64,
}

#[derive(Clone, Copy, Debug)]
struct Waiting {
    sequence: u32,
    timestamp: Timestamp,
    sent_at: Monotonic,
}

impl Session {
    /// A session that sends its first packet at `now`. Counters continue from `before`, an earlier session of the port.
    pub fn new(settings: SessionSettings, now: Monotonic, before: Option<&LinkRtt>) -> Self {
        Self {
            settings,
            due: now,
            next: 0,
            waiting: VecDeque::new(),
            smallest: None,
            samples: before.map_or(0, |b| b.samples),
            lost: before.map_or(0, |b| b.lost),
            refused: 0,
        }
    }

    /// When to call [`Session::handle_timeout`] next.
    pub fn poll_timeout(&self) -> Monotonic {
        let lost_at = self.waiting.front().map_or(Monotonic::NEVER, |w| w.sent_at + LOST_AFTER);
        self.due.min(lost_at)
    }

    /// Counts expired test packets as lost; returns the test packet to send now, if one is due, with `timestamp` in it.
    pub fn handle_timeout(&mut self, now: Monotonic, timestamp: Timestamp) -> Option<SenderPacket> {
        while self.waiting.front().is_some_and(|w| now.since(w.sent_at) >= LOST_AFTER) {
            self.lose_oldest();
        }
        if now < self.due {
            return None;
        }
        // A delayed sender does not catch up with a burst.
        let next = self.due + self.settings.interval;
        self.due = if next > now { next } else { now + self.settings.interval };
        if self.waiting.len() >= MAX_WAITING {
            self.lose_oldest();
        }
        let sequence = self.next;
        self.next = self.next.wrapping_add(1);
        self.waiting.push_back(Waiting { sequence, timestamp, sent_at: now });
        Some(SenderPacket { sequence, timestamp: timestamp.0, error_estimate: ERROR_ESTIMATE })
    }

    /// Processes an answer that arrived at `arrived`. It is accepted if it answers an outstanding packet, carries that packet's
    /// timestamp, and its times are consistent; returns the round-trip time without the reflector's delay.
    pub fn handle_answer(&mut self, packet: &ReflectorPacket, arrived: Timestamp) -> Option<Duration> {
        let rtt = self.round_trip(packet, arrived);
        match rtt {
            Some(rtt) => {
                self.waiting.retain(|w| w.sequence != packet.sender.sequence);
                self.smallest = Some(self.smallest.map_or(rtt, |smallest| smallest.min(rtt)));
                self.samples += 1;
            }
            None => self.refused += 1,
        }
        rtt
    }

    /// Answers that were not accepted.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// Smallest round-trip time since the last call, and counters since the start.
    pub fn take(&mut self, port: PortIndex) -> LinkRtt {
        LinkRtt { port, rtt: self.smallest.take(), samples: self.samples, lost: self.lost }
    }

    #[cfg(test)]
    pub(super) fn waiting_len(&self) -> usize {
        self.waiting.len()
    }

    fn round_trip(&self, packet: &ReflectorPacket, arrived: Timestamp) -> Option<Duration> {
        let sent = self.waiting.iter().find(|w| w.sequence == packet.sender.sequence)?.timestamp;
        if packet.sender.timestamp != sent.0 {
            return None;
        }
        let all = arrived.since(sent)?;
        // PTP timestamps hold nanoseconds where NTP timestamps hold fractions of a second.
        let inside = if packet.error_estimate.ptp {
            ptp(packet.timestamp).checked_sub(ptp(packet.receive_timestamp))?
        } else {
            Timestamp(packet.timestamp).since(Timestamp(packet.receive_timestamp))?
        };
        // If the reflector's clock ran faster than the local one, the result must still be above zero.
        let rtt = all.checked_sub(inside)?.max(Duration::from_nanos(1));
        (rtt <= LOST_AFTER).then_some(rtt)
    }

    fn lose_oldest(&mut self) {
        self.waiting.pop_front();
        self.lost += 1;
    }
}

/// Seconds, then nanoseconds; a peer may send more than a second of them.
fn ptp(timestamp: u64) -> Duration {
    Duration::from_secs(timestamp >> 32) + Duration::from_nanos(timestamp & u64::from(u32::MAX))
}
