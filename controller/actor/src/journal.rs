// SPDX-License-Identifier: Apache-2.0
//! Events of the last days, in files beside the store: what is shown of the time before a restart, and of what the ring has forgotten.
//!
//! A thread of its own writes them, so a disk that hangs delays nothing; it syncs once a second, so a power cut takes the events of that
//! second. While the store's disk is full, nothing is written: the space is for the store.

use std::net::Ipv6Addr;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use canopy_controller_core::tenant::{Scope, recorded, to_record};
use canopy_store::{Journal, JournalFiles};
use canopy_units::UnixTime;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

/// Directory of the files, beside the store.
const DIR: &str = "events";
/// Events that wait for the disk, at most.
const QUEUE: usize = 8192;
/// Events that are written at once, at most.
const BATCH: usize = 1024;
/// Time until what was written is synced.
const SYNC: Duration = Duration::from_secs(1);

/// An event as it was recorded; its code may be one of a later version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recorded {
    /// Its number, which grows over restarts.
    pub sequence: u64,
    /// When it happened.
    pub time: UnixTime,
    /// What it is about.
    pub code: String,
    /// Node concerned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Group concerned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// The group's tenant: see [`Recorded::tenant`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// Branch concerned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<Ipv6Addr>,
    /// The request that it follows from, 32 hexadecimal digits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<String>,
    /// Text for operators.
    pub detail: String,
}

/// What a record has of an event about a group whose tenant is not known.
const NO_TENANT: &str = "";

impl Recorded {
    /// The tenant of its group: of an event of a version without tenants the default one; `None`: the event is the domain's.
    pub fn tenant(&self) -> Option<&str> {
        self.group.as_ref()?;
        Some(recorded(self.tenant.as_deref())).filter(|tenant| *tenant != NO_TENANT)
    }

    /// What a record has of the tenant of this group.
    pub(crate) fn tenant_to_record(group: Option<&str>, tenant: Option<String>) -> Option<String> {
        group.and_then(|_| to_record(tenant.as_deref().unwrap_or(NO_TENANT)))
    }
}

/// Which events are wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventFilter {
    /// Only what a caller sees.
    pub scope: Scope,
    /// Only of this node.
    pub node: Option<String>,
    /// Only of this group.
    pub group: Option<String>,
    /// Only with this code.
    pub code: Option<String>,
    /// Only with a larger number.
    pub after: Option<u64>,
    /// Only with a smaller number.
    pub before: Option<u64>,
    /// Only from then on.
    pub since: UnixTime,
}

impl EventFilter {
    /// Whether an event is wanted, whatever its code.
    pub(crate) fn is_of(&self, sequence: u64, time: UnixTime, node: Option<&str>, group: Option<&str>) -> bool {
        let is = |wanted: &Option<String>, has: Option<&str>| wanted.is_none() || wanted.as_deref() == has;
        self.after.is_none_or(|after| sequence > after)
            && self.before.is_none_or(|before| sequence < before)
            && time >= self.since
            && is(&self.node, node)
            && is(&self.group, group)
    }

    fn accepts(&self, event: &Recorded) -> bool {
        self.scope.has_of(event.tenant())
            && self.is_of(event.sequence, event.time, event.node.as_deref(), event.group.as_deref())
            && self.code.as_ref().is_none_or(|code| *code == event.code)
    }
}

/// The journal of a controller; of one whose store is in memory it keeps nothing.
#[derive(Default)]
pub(crate) struct EventJournal {
    files: Option<JournalFiles>,
    writer: Mutex<Option<Writer>>,
    /// Events that a full or slow disk did not get.
    unsaved: Arc<AtomicU64>,
}

struct Writer {
    queue: SyncSender<Vec<u8>>,
    thread: JoinHandle<()>,
}

impl EventJournal {
    /// The journal beside a store, and the number of the next event. Blocks on the disk.
    pub(crate) fn open(store: Option<&Path>) -> (Self, u64) {
        let Some(store) = store else { return Default::default() };
        let journal = match Journal::open(store.join(DIR)) {
            Ok(journal) => journal,
            Err(error) => {
                tracing::error!(%error, "cannot keep events: they are lost when the controller ends");
                return Default::default();
            }
        };
        let (files, unsaved) = (journal.files(), Arc::new(AtomicU64::new(0)));
        let next = files.all().iter().rev().find_map(|path| Some(events(&JournalFiles::read(path)).next()?.sequence));
        let next = next.map_or(0, |last| last + 1);
        let (queue, lines) = mpsc::sync_channel(QUEUE);
        let failures = unsaved.clone();
        let spawned =
            std::thread::Builder::new().name("events".to_owned()).spawn(move || write(journal, &lines, &failures));
        let thread = spawned.inspect_err(|error| tracing::error!(%error, "cannot keep events: no thread")).ok();
        let writer = Mutex::new(thread.map(|thread| Writer { queue, thread }));
        (Self { files: Some(files), writer, unsaved }, next)
    }

    /// Writes an event; `is_full` while the store's disk is.
    pub(crate) fn add(&self, event: &Recorded, is_full: bool) {
        let writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(writer) = writer.as_ref() else { return };
        // A struct of strings and numbers: serialising it cannot fail.
        let mut line = serde_json::to_vec(event).unwrap_or_default();
        line.push(b'\n');
        if is_full || writer.queue.try_send(line).is_err() {
            self.unsaved.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Up to `limit` of the newest events before the one with number `first` that the filter accepts, the oldest first. Reads 64 MiB at
    /// most, from the disk, and no file that is older than what is wanted.
    pub(crate) fn newest(&self, first: u64, limit: usize, filter: &EventFilter) -> Vec<Recorded> {
        let mut found = Vec::new();
        if limit == 0 || filter.after.is_some_and(|after| after + 1 >= first) {
            return found;
        }
        for path in self.files.iter().flat_map(JournalFiles::all).rev() {
            let content = JournalFiles::read(&path);
            let mut events = events(&content).filter(|event| event.sequence < first).peekable();
            // By its last event: the clock may have been set within it.
            if events.peek().is_some_and(|last| {
                last.time < filter.since || filter.after.is_some_and(|after| last.sequence <= after)
            }) {
                break;
            }
            found.extend(events.filter(|event| filter.accepts(event)).take(limit - found.len()));
            if found.len() == limit {
                break;
            }
        }
        found.reverse();
        found
    }

    /// Events that a full or slow disk did not get.
    pub(crate) fn unsaved(&self) -> u64 {
        self.unsaved.load(Ordering::Relaxed)
    }

    /// Waits until what is written is on the disk, and writes nothing more.
    pub(crate) fn end(&self) {
        let writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(Writer { queue, thread }) = writer {
            drop(queue);
            _ = thread.join();
        }
    }
}

/// Writes lines until there is no sender any more.
fn write(mut journal: Journal, lines: &Receiver<Vec<u8>>, unsaved: &AtomicU64) {
    let mut dirty: Option<Instant> = None;
    let mut reported = false;
    loop {
        let first = match dirty {
            Some(since) => lines.recv_timeout(SYNC.saturating_sub(since.elapsed())),
            None => lines.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        let mut result = Ok(());
        if let Ok(mut batch) = first.clone() {
            let mut count = 1;
            while count < BATCH
                && let Ok(line) = lines.try_recv()
            {
                batch.extend(line);
                count += 1;
            }
            result = journal.append(&batch);
            unsaved.fetch_add(if result.is_err() { count as u64 } else { 0 }, Ordering::Relaxed);
            dirty.get_or_insert_with(Instant::now);
        }
        let is_end = first == Err(RecvTimeoutError::Disconnected);
        if dirty.is_some_and(|since| is_end || since.elapsed() >= SYNC) {
            result = result.and(journal.sync());
            dirty = None;
        }
        match result {
            Ok(()) => reported = false,
            // One line until it works again.
            Err(error) if !reported => {
                tracing::warn!(%error, "cannot keep events: they are lost when the controller ends");
                reported = true;
            }
            Err(_) => {}
        }
        if is_end {
            return;
        }
    }
}

/// The events of a file, the newest first; a line that is none is left out.
fn events(content: &[u8]) -> impl Iterator<Item = Recorded> {
    let lines = content.split(|octet| *octet == b'\n').rev().filter(|line| !line.is_empty());
    lines.filter_map(|line| serde_json::from_slice(line).ok())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn event(sequence: u64, detail: &str) -> Recorded {
        let (code, detail, time) = ("AgentConnected".to_owned(), detail.to_owned(), UnixTime::default());
        Recorded { sequence, time, code, node: None, group: None, tenant: None, branch: None, request: None, detail }
    }

    fn details(journal: &EventJournal, before: u64, limit: usize) -> Vec<String> {
        journal.newest(before, limit, &EventFilter::default()).into_iter().map(|event| event.detail).collect()
    }

    #[test]
    fn events_come_back_after_a_restart_also_behind_half_a_line_and_are_numbered_on() {
        let dir = tempfile::tempdir().unwrap();
        let (journal, next) = EventJournal::open(Some(dir.path()));
        assert_eq!(next, 0);
        (0..5).for_each(|i| journal.add(&event(i, &format!("e{i}\n")), false));
        journal.add(&event(5, "the disk is full"), true);
        journal.end();
        journal.add(&event(6, "after its end"), false);
        assert_eq!(journal.unsaved(), 1);
        let path = JournalFiles::all(journal.files.as_ref().unwrap()).remove(0);
        let half = fs::read(&path).unwrap();
        fs::write(&path, &half[..half.len() - 7]).unwrap();
        let (journal, next) = EventJournal::open(Some(dir.path()));
        assert_eq!(next, 4);
        journal.add(&event(4, "again"), false);
        journal.end();
        assert_eq!(details(&journal, u64::MAX, 9), ["e0\n", "e1\n", "e2\n", "e3\n", "again"]);
        assert_eq!((details(&journal, 4, 2), details(&journal, 0, 9)), (vec!["e2\n".into(), "e3\n".into()], vec![]));
    }

    #[test]
    fn the_journal_of_a_store_in_memory_keeps_nothing() {
        let (journal, next) = EventJournal::open(None);
        journal.add(&event(0, "x"), false);
        journal.end();
        assert_eq!((next, details(&journal, u64::MAX, 9)), (0, vec![]));
    }

    #[test]
    fn a_directory_that_is_refused_costs_the_journal_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join(DIR), "not a directory").unwrap();
        let (journal, next) = EventJournal::open(Some(dir.path()));
        journal.add(&event(0, "x"), false);
        assert_eq!((next, details(&journal, u64::MAX, 9)), (0, vec![]));
    }
}
