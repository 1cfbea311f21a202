// SPDX-License-Identifier: Apache-2.0
//! The most recent events, in a ring: what nodes report and what the controller detects. Those before them are in the
//! [`journal`](crate::journal).
//!
//! A node that reports one thing without end, or a cause that moves many groups at once, must not push everything else out: beyond
//! [`BURST`] events of one code of one node, [`PER_SECOND`] follow each second. Those left out are counted in `EventsSuppressed`.

use std::collections::{HashMap, VecDeque};
use std::net::Ipv6Addr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use canopy_controller_core::request_id::RequestId;
use canopy_model::telemetry::EventCode;
use canopy_units::UnixTime;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::journal::{EventFilter, EventJournal, Recorded};

/// Events kept.
pub const RING: usize = 4096;
/// Events of one code and node at once.
pub const BURST: u32 = 500;
/// Events of one code and node each second, beyond that.
pub const PER_SECOND: u32 = 5;
/// How often kinds of events that have their whole quota again are forgotten.
const SWEEP: Duration = Duration::from_secs(60);
/// Longest detail kept of an event, bytes.
const MAX_DETAIL: usize = 1024;

/// What an event is about; its text is the API's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Code {
    /// Reported by a node.
    Node(EventCode),
    /// A node's agent connected.
    AgentConnected,
    /// A node's agent is no longer connected.
    AgentDisconnected,
    /// A node or a host got its first certificate.
    Enrolled,
    /// An enrollment with a token of another name, or one that was used already.
    EnrollmentRefused,
    /// An agent in the name of a node that is connected with another key.
    SecondAgentRefused,
    /// An agent's certificate was not renewed: it has another key than that of its enrollment, while the authority is replaced.
    RenewalRefused,
    /// An operator revoked the certificates of a node or a host.
    IdentityRevoked,
    /// An operator took a step of the replacement of the authority.
    AuthorityReplacement,
    /// A node reported more events at once than are kept.
    EventsLeftOut,
    /// There were too many events of one code and node; the event has how many were left out.
    EventsSuppressed,
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
    /// A retirement of a node has taken a step, or was taken back.
    NodeRetirement,
    /// A step of a retirement failed: one event until one succeeds.
    RetirementNotAdvanced,
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
    /// The group's tenant; `None` without a group, and of one that is not known any more: the event is the domain's then.
    pub tenant: Option<String>,
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
        let (node, group, tenant, branch, request) = (None, None, None, None, None);
        Self { sequence: 0, time: UnixTime::default(), code, node, group, tenant, branch, request, detail }
    }
}

impl From<Event> for Recorded {
    fn from(event: Event) -> Self {
        let Event { sequence, time, code, node, group, tenant, branch, request, detail } = event;
        let tenant = Self::tenant_to_record(group.as_deref(), tenant);
        let (code, request) = (code.to_string(), request.map(|id| id.to_string()));
        Self { sequence, time, code, node, group, tenant, branch, request, detail }
    }
}

/// The ring, and the journal behind it.
#[derive(Default)]
pub struct Events {
    ring: Mutex<Ring>,
    next: watch::Sender<u64>,
    journal: EventJournal,
    /// The disk of the store is full.
    is_full: AtomicBool,
    suppressed: AtomicU64,
}

#[derive(Default)]
struct Ring {
    next: u64,
    events: VecDeque<Event>,
    quotas: Quotas,
}

impl Events {
    pub(crate) fn open(store: Option<&Path>) -> Self {
        let (journal, next) = EventJournal::open(store);
        let ring = Ring { next, ..Ring::default() };
        Self { ring: Mutex::new(ring), next: watch::Sender::new(next), journal, ..Self::default() }
    }

    /// Adds an event. Assigns its sequence number, and the current time if its time is 0.
    pub fn push(&self, event: Event) {
        let mut ring = self.ring.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let mut left_out = ring.quotas.sweep(now);
        let (is_kept, of_its_kind) = ring.quotas.take(&event, now);
        left_out.extend(of_its_kind);
        for LeftOut { node, code, count } in left_out {
            let detail = format!("{count} more events {code} were left out");
            self.add(&mut ring, Event { node, ..Event::new(Code::EventsSuppressed, detail) });
        }
        match is_kept {
            true => self.add(&mut ring, event),
            false => _ = self.suppressed.fetch_add(1, Ordering::Relaxed),
        }
    }

    fn add(&self, ring: &mut Ring, mut event: Event) {
        event.sequence = ring.next;
        if event.time == UnixTime::default() {
            event.time = UnixTime::default() + SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        }
        truncate(&mut event.detail);
        self.journal.add(&Recorded::from(event.clone()), self.is_full.load(Ordering::Relaxed));
        ring.next += 1;
        if ring.events.len() == RING {
            ring.events.pop_front();
        }
        ring.events.push_back(event);
        // Under the lock, so that the number never falls.
        self.next.send_replace(ring.next);
    }

    /// Up to `limit` of the newest events that the filter accepts, the oldest first, of the ring and the journal. Blocks on the disk where
    /// the ring does not have them.
    pub fn recorded(&self, limit: usize, filter: &EventFilter) -> Vec<Recorded> {
        let (mut newest, first) = {
            let ring = self.ring.lock().unwrap_or_else(PoisonError::into_inner);
            // Under the lock, so nothing is copied that is not wanted.
            let wanted = |event: &&Event| {
                filter.scope.has_of(event.tenant.as_deref())
                    && filter.is_of(event.sequence, event.time, event.node.as_deref(), event.group.as_deref())
                    && filter.code.as_ref().is_none_or(|code| *code == event.code.to_string())
            };
            let all = ring.events.iter().rev().filter(wanted).take(limit);
            let newest: Vec<Recorded> = all.map(|event| Recorded::from(event.clone())).collect();
            (newest, ring.events.front().map_or(ring.next, |event| event.sequence))
        };
        newest.reverse();
        let mut all = self.journal.newest(first, limit - newest.len(), filter);
        all.append(&mut newest);
        all
    }

    /// Events that were left out because there were too many of their code and node, since the start.
    pub fn suppressed(&self) -> u64 {
        self.suppressed.load(Ordering::Relaxed)
    }

    /// Events that are in no file, because the disk is full or too slow, since the start.
    pub fn unsaved(&self) -> u64 {
        self.journal.unsaved()
    }

    pub(crate) fn set_full(&self, is_full: bool) {
        self.is_full.store(is_full, Ordering::Relaxed);
    }

    /// Waits until all are on the disk.
    pub(crate) fn end(&self) {
        self.journal.end();
    }

    /// An event of the controller itself.
    pub fn note(&self, code: Code, node: Option<&str>, detail: impl Into<String>) {
        let node = node.map(str::to_owned);
        self.push(Event { node, ..Event::new(code, detail.into()) });
    }

    /// The same about a group of this tenant.
    pub(crate) fn note_group(
        &self,
        code: Code,
        node: Option<&str>,
        (group, tenant): (&str, Option<String>),
        detail: impl Into<String>,
    ) {
        let (node, group) = (node.map(str::to_owned), Some(group.to_owned()));
        self.push(Event { node, group, tenant, ..Event::new(code, detail.into()) });
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

/// How many events of a code and node may follow.
#[derive(Default)]
struct Quotas {
    of: HashMap<(Option<String>, Code), Quota>,
    /// When those that are full again were removed.
    swept: Option<Instant>,
}

struct Quota {
    left: f64,
    at: Instant,
    /// Left out and not counted in an event yet.
    left_out: u64,
}

impl Quotas {
    /// Whether the event is kept, and what was left out of its kind before it.
    fn take(&mut self, event: &Event, now: Instant) -> (bool, Option<LeftOut>) {
        let new = || Quota { left: f64::from(BURST), at: now, left_out: 0 };
        let quota = self.of.entry((event.node.clone(), event.code)).or_insert_with(new);
        quota.fill(now);
        if quota.left < 1.0 {
            quota.left_out += 1;
            return (false, None);
        }
        quota.left -= 1.0;
        let count = std::mem::take(&mut quota.left_out);
        (true, (count > 0).then(|| LeftOut { node: event.node.clone(), code: event.code, count }))
    }

    /// Forgets the kinds that have their whole quota again, once a minute, and returns what was left out of them: no event of theirs has
    /// come since that would have had it.
    fn sweep(&mut self, now: Instant) -> Vec<LeftOut> {
        if self.swept.is_some_and(|at| now < at + SWEEP) {
            return Vec::new();
        }
        self.swept = Some(now);
        let mut left_out = Vec::new();
        self.of.retain(|(node, code), quota| {
            quota.fill(now);
            let is_full = quota.left >= f64::from(BURST);
            if is_full && quota.left_out > 0 {
                left_out.push(LeftOut { node: node.clone(), code: *code, count: quota.left_out });
            }
            !is_full
        });
        left_out
    }
}

/// Events of one kind that were left out.
#[derive(Debug, PartialEq)]
struct LeftOut {
    node: Option<String>,
    code: Code,
    count: u64,
}

impl Quota {
    fn fill(&mut self, now: Instant) {
        let more = now.saturating_duration_since(self.at).as_secs_f64() * f64::from(PER_SECOND);
        (self.left, self.at) = ((self.left + more).min(f64::from(BURST)), now);
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
            let node = if i % 2 == 0 { "n1".to_owned() } else { format!("m{}", i / 100) };
            // As if they came slowly.
            events.ring.lock().unwrap().quotas = Quotas::default();
            events.note(Code::GroupPhase, Some(&node), "ä".repeat(MAX_DETAIL));
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

    #[test]
    fn a_node_that_reports_without_end_leaves_room_for_others_and_what_is_left_out_is_counted() {
        let (mut quotas, start) = (Quotas::default(), Instant::now());
        let of = |node: &str, code| Event { node: Some(node.into()), ..Event::new(code, String::new()) };
        let mut take = |node: &str, code, at: Duration| quotas.take(&of(node, code), start + at);
        let kept = (0..BURST + 100).filter(|_| take("n1", Code::AgentConnected, Duration::ZERO).0).count();
        assert_eq!(kept, BURST as usize);
        assert!(take("n2", Code::AgentConnected, Duration::ZERO).0 && take("n1", Code::GroupPhase, Duration::ZERO).0);
        let second = Duration::from_secs(1);
        let (is_kept, left_out) = take("n1", Code::AgentConnected, second);
        let counted = |count| Some(LeftOut { node: Some("n1".into()), code: Code::AgentConnected, count });
        assert_eq!((is_kept, left_out), (true, counted(100)));
        let kept = (0..100).filter(|_| take("n1", Code::AgentConnected, second).0).count();
        assert_eq!(kept, PER_SECOND as usize - 1);
        // Without another event of its kind what was left out is counted as well, and what is full again costs nothing.
        assert_eq!(quotas.sweep(start + second), []);
        assert_eq!(quotas.of.len(), 1, "the other two kinds have their whole quota again");
        assert_eq!(quotas.sweep(start + second * 2), [], "once a minute");
        assert_eq!(quotas.sweep(start + second * 3600), counted(96).into_iter().collect::<Vec<_>>());
        assert_eq!((quotas.of.len(), quotas.sweep(start + second * 7200).len()), (0, 0));
    }

    #[test]
    fn what_the_ring_has_forgotten_is_read_from_the_journal() {
        let dir = tempfile::tempdir().unwrap();
        let note = |events: &Events, i: usize| {
            events.note(Code::AgentConnected, Some(&format!("n{}", i % 100)), i.to_string())
        };
        let events = Events::open(Some(dir.path()));
        (0..RING + 10).for_each(|i| note(&events, i));
        let of_n5 = |events: &Events, limit| -> Vec<String> {
            let of_node = EventFilter { node: Some("n5".into()), ..EventFilter::default() };
            let found = events.recorded(limit, &of_node);
            found.into_iter().map(|event| event.detail).collect()
        };
        // The thread has to be done with those before the ring.
        events.end();
        let all = of_n5(&events, 1000);
        assert_eq!((all.len(), all[0].as_str(), of_n5(&events, 2)), (42, "5", vec!["4005".into(), "4105".into()]));
        let events = Events::open(Some(dir.path()));
        assert_eq!(*events.follow().borrow(), RING as u64 + 10);
        note(&events, 5);
        events.end();
        let last = of_n5(&events, 2);
        assert_eq!((of_n5(&events, 1000).len(), last), (43, vec!["4105".into(), "5".into()]));
        let only = EventFilter { after: Some(4105), ..EventFilter::default() };
        assert_eq!(events.recorded(9, &only).len(), 1);
    }
}
