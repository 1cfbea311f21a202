// SPDX-License-Identifier: Apache-2.0
//! The most recent events, in a ring: what nodes report and what the controller detects. Never stored.

use std::collections::VecDeque;
use std::net::Ipv6Addr;
use std::sync::{Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use canopy_controller_core::request_id::RequestId;
use canopy_model::telemetry::EventCode;
use canopy_units::UnixTime;
use tokio::sync::watch;

/// Events kept.
pub const RING: usize = 4096;
/// Longest detail kept of an event, bytes.
const MAX_DETAIL: usize = 1024;

/// What an event is about; its text is the API's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// Reported by a node.
    Node(EventCode),
    /// A node's agent connected.
    AgentConnected,
    /// A node's agent is no longer connected.
    AgentDisconnected,
    /// A node reported more events at once than are kept.
    EventsLeftOut,
    /// A group has another phase or reason.
    GroupPhase,
    /// A receiver was removed by the stall policy, or because its queue pair was not reset.
    MemberEvicted,
    /// That a late receiver answered its probe, or where it started, was not stored: the next sample tries again. If its edge loses its
    /// state before, the receiver has to join again; a group without another receiver stays held.
    LateStartNotStored,
    /// A stall policy ended a group.
    GroupFailed,
    /// A stall policy could not be carried out.
    PolicyNotCarriedOut,
    /// The second half of a move was not planned.
    MoveNotFinished,
    /// A node did not confirm a group's next tree in time: the tree in force stays.
    MoveGivenUp,
    /// A group that every node confirmed was not opened for data.
    GroupNotOpened,
    /// A link carries nothing at one of its ends: trees and routes avoid it.
    LinkDown,
    /// A link is whole again.
    LinkUp,
    /// A link loses packets although its carrier is up.
    LinkLossy,
    /// A link no longer loses packets.
    LinkLossEnded,
    /// Trees could not be moved off or onto a link.
    LinkChangeNotCarriedOut,
    /// New thresholds of a link were not pushed: one event until a push succeeds.
    ThresholdsNotPushed,
    /// The keys of the SRH HMAC TLV took the next step.
    HmacKeysChanged,
    /// That step failed: one event until one succeeds.
    HmacKeysNotChanged,
    /// Commits that were acknowledged are lost: the store was damaged.
    StoreRecovered,
    /// The disk of the store is full: no change is taken.
    StoreReadOnly,
    /// Changes are taken again.
    StoreWritable,
    /// An operator began a confirmed commit, or gave it more time.
    CommitPending,
    /// An operator confirmed a commit: its changes stay.
    CommitConfirmed,
    /// A commit was cancelled, or not confirmed in time: its changes were taken back.
    CommitRolledBack,
    /// A rollback could not put a resource back; the event names it with the reason.
    RollbackRefused,
    /// The time of a drain had passed, and the controller removed it.
    DrainEnded,
    /// A drain whose time had passed was not removed: one event until one is.
    DrainNotEnded,
    /// A silence ended by itself.
    SilenceEnded,
    /// A problem opened; `/api/v1/problems` has its causes and what it affects.
    ProblemOpened,
    /// A problem closed.
    ProblemClosed,
}

impl std::fmt::Display for Code {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Node(code) => code.fmt(f),
            // The variants' names are the API's.
            own => write!(f, "{own:?}"),
        }
    }
}

/// One event with names instead of ids.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Grows by one with every event since the start; a gap means that the ring overflowed.
    pub sequence: u64,
    /// When it happened.
    pub time: UnixTime,
    /// What it is about.
    pub code: Code,
    /// Node concerned.
    pub node: Option<String>,
    /// Group concerned.
    pub group: Option<String>,
    /// Branch concerned.
    pub branch: Option<Ipv6Addr>,
    /// The request that it follows from, if it is known.
    pub request: Option<RequestId>,
    /// Text for operators.
    pub detail: String,
}

impl Event {
    /// One about the domain, whose sequence number and time [`Events::push`] gives.
    pub fn new(code: Code, detail: String) -> Self {
        let (node, group, branch, request) = (None, None, None, None);
        Self { sequence: 0, time: UnixTime::default(), code, node, group, branch, request, detail }
    }
}

/// The ring.
#[derive(Default)]
pub struct Events {
    ring: Mutex<Ring>,
    next: watch::Sender<u64>,
}

#[derive(Default)]
struct Ring {
    next: u64,
    events: VecDeque<Event>,
}

impl Events {
    /// Adds an event. Assigns its sequence number, and the current time if its time is 0.
    pub fn push(&self, mut event: Event) {
        let mut ring = self.ring.lock().unwrap_or_else(PoisonError::into_inner);
        event.sequence = ring.next;
        if event.time == UnixTime::default() {
            event.time = UnixTime::default() + SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        }
        truncate(&mut event.detail);
        ring.next += 1;
        if ring.events.len() == RING {
            ring.events.pop_front();
        }
        ring.events.push_back(event);
        // Under the lock, so that the number never falls.
        self.next.send_replace(ring.next);
    }

    /// An event of the controller itself.
    pub fn note(&self, code: Code, node: Option<&str>, group: Option<&str>, detail: impl Into<String>) {
        let (node, group) = (node.map(str::to_owned), group.map(str::to_owned));
        self.push(Event { node, group, ..Event::new(code, detail.into()) });
    }

    /// An event of the controller itself that follows from this request.
    pub fn note_of(&self, request: Option<RequestId>, code: Code, detail: impl Into<String>) {
        self.push(Event { request, ..Event::new(code, detail.into()) });
    }

    /// Up to `limit` of the newest events that `keep` accepts, oldest first.
    pub fn newest(&self, limit: usize, keep: impl Fn(&Event) -> bool) -> Vec<Event> {
        let ring = self.ring.lock().unwrap_or_else(PoisonError::into_inner);
        let mut events: Vec<Event> = ring.events.iter().rev().filter(|e| keep(e)).take(limit).cloned().collect();
        events.reverse();
        events
    }

    /// The first `limit` of those events whose sequence number is `first` or above.
    pub fn since(&self, first: u64, limit: usize) -> Vec<Event> {
        let ring = self.ring.lock().unwrap_or_else(PoisonError::into_inner);
        let wanted = usize::try_from(ring.next.saturating_sub(first)).unwrap_or(usize::MAX);
        ring.events.iter().skip(ring.events.len().saturating_sub(wanted)).take(limit).cloned().collect()
    }

    /// The sequence number of the next event, now and after every event.
    pub fn follow(&self) -> watch::Receiver<u64> {
        self.next.subscribe()
    }
}

fn truncate(detail: &mut String) {
    if detail.len() > MAX_DETAIL {
        let cut = (0..=MAX_DETAIL).rev().find(|i| detail.is_char_boundary(*i)).unwrap_or(0);
        detail.truncate(cut);
        detail.push('…');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ring_forgets_the_oldest_and_numbers_all() {
        let events = Events::default();
        for i in 0..RING + 10 {
            events.note(Code::GroupPhase, (i % 2 == 0).then_some("n1"), None, "ä".repeat(MAX_DETAIL));
        }
        let all = events.newest(usize::MAX, |_| true);
        assert_eq!(all.len(), RING);
        assert_eq!(all[0].sequence, 10);
        let last = RING as u64 + 9;
        let since = |first, limit| events.since(first, limit).iter().map(|e| e.sequence).collect::<Vec<_>>();
        assert_eq!(
            (since(last, 9), since(last - 5, 2), since(last + 1, 9)),
            (vec![last], vec![last - 5, last - 4], vec![])
        );
        assert_eq!((since(0, usize::MAX).len(), since(0, 1)), (RING, vec![10]));
        assert_eq!(*events.follow().borrow(), last + 1);
        assert!(all[0].detail.len() <= MAX_DETAIL + '…'.len_utf8());
        let two = events.newest(2, |e| e.node.as_deref() == Some("n1"));
        assert_eq!(two.iter().map(|e| e.sequence).collect::<Vec<_>>(), [RING as u64 + 6, RING as u64 + 8]);
    }
}
