// SPDX-License-Identifier: Apache-2.0
//! The audit of hosts: which of them joined and left which group, beside what operators wrote, and never in its place.
//!
//! A record (`joins/`) is one principal's joins of one group, or its leaves, within a minute of the first: it is written with that one and
//! written again, with a higher count, with each that follows. Both are in the transaction of the join itself. A start begins new records.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use canopy_controller_core::audit::{Action, AuditEntry, IntentKind};
use canopy_controller_core::principal::{Principal, Written};
use canopy_controller_core::tenant::to_record;
use canopy_store::Op;
use canopy_units::UnixTime;

use crate::intent::Target;
use crate::shares::{Bounds, Owner, Shares, owner_of_group};

/// Records that are kept, which tenants share.
pub const MAX_RECORDS: usize = 20_000;
/// Octets of these, at most.
pub const MAX_OCTETS: u64 = 16 << 20;
/// How long after the first one a record takes others in.
pub const WITHIN: Duration = Duration::from_secs(60);
/// Records that take others in, at most; beyond them the oldest takes none any more.
const MAX_OPEN: usize = 10_000;
/// Records that one join or leave removes, at most, beside the one that it adds.
const MAX_REMOVED: usize = 2;
/// Octets by which a count and a time make a record longer.
const GROWTH: u32 = 64;

const JOINS: &str = "joins/";

/// What one record is about.
type About = (Target, Arc<Principal>, Action);

/// What a join or a leave adds: durable with [`Note::ops`], and kept by [`Joins::keep`] then.
pub(crate) struct Note {
    pub(crate) ops: Vec<Op>,
    entry: AuditEntry,
    octets: u32,
    owner: Owner,
    removed: Vec<u64>,
}

/// Which records there are, and which of them take others in.
pub(crate) struct Joins {
    records: Shares<()>,
    open: HashMap<About, AuditEntry>,
    /// The same by their beginning, with those that were closed before their time.
    by_age: VecDeque<(UnixTime, About, u64)>,
}

impl Default for Joins {
    fn default() -> Self {
        Self::bounded(Bounds { records: MAX_RECORDS, octets: MAX_OCTETS })
    }
}

impl Joins {
    fn bounded(bounds: Bounds) -> Self {
        Self { records: Shares::new(bounds), open: HashMap::new(), by_age: VecDeque::new() }
    }

    /// From all records of the store; others are ignored. A record that cannot be read counts with its size, as of the default tenant.
    pub(crate) fn restore<'a>(records: impl Iterator<Item = (&'a str, &'a [u8])>) -> Self {
        let mut joins = Self::default();
        for (key, value) in records {
            let Some(sequence) = sequence_of(key) else { continue };
            let entry = serde_json::from_slice::<AuditEntry>(value).ok();
            let owner = owner_of_group(entry.as_ref().and_then(|entry| entry.tenant.as_deref()));
            joins.records.add(sequence, (), value.len() as u32 + GROWTH, &owner);
        }
        joins
    }

    /// What is to be stored with a join or a leave of `written.by`, in a group of this tenant.
    pub(crate) fn note(&self, target: Target, action: Action, written: Written, tenant: &str) -> Note {
        let about = (target, written.by.clone(), action);
        let (at, owner) = (written.at, owner_of_group(to_record(tenant).as_deref()));
        let is_within = |first: UnixTime| at >= first && at.nanos() - first.nanos() < canopy_units::nanos(WITHIN);
        let open = self.open.get(&about);
        // Of another tenant by now, it is another group.
        let same = open.filter(|e| is_within(e.written.at) && e.tenant == to_record(tenant));
        if let Some(entry) = same.filter(|entry| self.records.get(entry.sequence).is_some()) {
            let entry = AuditEntry { more: entry.more + 1, last: Some(at), ..entry.clone() };
            let ops = vec![Op::Put { key: joins_key(entry.sequence), value: serialized(&entry) }];
            return Note { ops, entry, octets: 0, owner, removed: Vec::new() };
        }
        let (Target { name, .. }, ..) = about;
        let entry = AuditEntry {
            sequence: self.records.last().map_or(0, |last| last + 1),
            written,
            action,
            kind: IntentKind::Member,
            name,
            uid: None,
            generation: None,
            fields: Vec::new(),
            more_fields: 0,
            tenant: to_record(tenant),
            more: 0,
            last: None,
        };
        let value = serialized(&entry);
        let (octets, mut removed) = (value.len() as u32 + GROWTH, Vec::new());
        self.records.make_room(&mut removed, MAX_REMOVED, octets, &owner);
        let put = Op::Put { key: joins_key(entry.sequence), value };
        let gone = removed.iter().map(|sequence| Op::Delete { key: joins_key(*sequence) });
        let ops = std::iter::once(put).chain(gone).collect();
        Note { ops, entry, octets, owner, removed }
    }

    /// Takes note of what is durable, or will be before anyone sees it.
    pub(crate) fn keep(&mut self, note: Note) {
        let Note { entry, octets, owner, removed, .. } = note;
        for sequence in removed {
            self.records.remove(sequence);
        }
        let target = Target { kind: entry.kind, name: entry.name.clone() };
        let about: About = (target, entry.written.by.clone(), entry.action);
        if octets > 0 {
            self.records.add(entry.sequence, (), octets, &owner);
            self.by_age.push_back((entry.written.at, about.clone(), entry.sequence));
        }
        let now = entry.last.unwrap_or(entry.written.at);
        self.open.insert(about, entry);
        self.close(now);
    }

    /// No longer takes in what is too late, or too much.
    fn close(&mut self, now: UnixTime) {
        let has_ended = |first: &UnixTime| now.nanos().saturating_sub(first.nanos()) >= canopy_units::nanos(WITHIN);
        while let Some((first, about, sequence)) = self.by_age.front()
            && (has_ended(first) || self.by_age.len() > MAX_OPEN)
        {
            if self.open.get(about).is_some_and(|entry| entry.sequence == *sequence) {
                self.open.remove(about);
            }
            self.by_age.pop_front();
        }
    }
}

fn serialized(entry: &AuditEntry) -> Vec<u8> {
    // A struct of strings and numbers: serialising it cannot fail.
    serde_json::to_vec(entry).expect("an entry is JSON")
}

/// Prefix of all records.
pub(crate) fn joins_prefix() -> &'static str {
    JOINS
}

/// Keys are in the order of the sequence.
pub(crate) fn joins_key(sequence: u64) -> String {
    format!("{JOINS}{sequence:016x}")
}

/// The sequence of the record with this key.
pub(crate) fn sequence_of(key: &str) -> Option<u64> {
    u64::from_str_radix(key.strip_prefix(JOINS)?, 16).ok()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    const SECOND: u64 = 1_000_000_000;

    /// Joins over the records that their notes have made.
    #[derive(Default)]
    struct Library {
        joins: Joins,
        records: BTreeMap<String, AuditEntry>,
    }

    impl Library {
        fn add(&mut self, host: &str, action: Action, second: u64, tenant: &str) {
            let by = Principal::host(host).into();
            let written = Written { at: UnixTime::from_nanos(second * SECOND), by, request: None };
            let target = Target { kind: IntentKind::Member, name: format!("{tenant}-g/{host}") };
            let note = self.joins.note(target, action, written, tenant);
            for op in &note.ops {
                match op {
                    Op::Put { key, value } => {
                        _ = self.records.insert(key.clone(), serde_json::from_slice(value).unwrap());
                    }
                    Op::Delete { key } => assert!(self.records.remove(key).is_some(), "{key}"),
                }
            }
            self.joins.keep(note);
        }

        /// Second of the first, count, and second of the last.
        fn counted(&self) -> Vec<(u64, u64, u64)> {
            let seconds = |at: UnixTime| at.nanos() / SECOND;
            let last = |e: &AuditEntry| seconds(e.last.unwrap_or(e.written.at));
            self.records.values().map(|e| (seconds(e.written.at), e.more + 1, last(e))).collect()
        }
    }

    /// Catches a record per join, and one that takes in another principal's, another group's, a leave, or what comes a minute later.
    #[test]
    fn what_one_principal_does_to_one_group_within_a_minute_is_one_record() {
        let mut library = Library::default();
        for second in [100, 101, 159] {
            library.add("r1", Action::Join, second, "default");
        }
        assert_eq!(library.counted(), [(100, 3, 159)]);
        library.add("r2", Action::Join, 110, "default");
        library.add("r1", Action::Leave, 120, "default");
        library.add("r1", Action::Join, 120, "acme");
        library.add("r1", Action::Join, 160, "default");
        library.add("r1", Action::Join, 161, "default");
        assert_eq!(library.counted(), [(100, 3, 159), (110, 1, 110), (120, 1, 120), (120, 1, 120), (160, 2, 161)]);
        // A clock that was set back is no minute.
        library.add("r1", Action::Join, 50, "default");
        assert_eq!(library.counted().last(), Some(&(50, 1, 50)));
        assert!(library.joins.open.len() <= library.joins.by_age.len());
    }

    /// Catches a book without a bound, one whose tenants displace each other, and a record that is written again after it has left.
    #[test]
    fn the_book_has_its_bound_and_who_joins_most_displaces_its_own() {
        let mut library =
            Library { joins: Joins::bounded(Bounds { records: 10, octets: 1 << 20 }), ..Library::default() };
        library.add("r0", Action::Join, 100, "acme");
        for host in 0..30 {
            library.add(&format!("r{host}"), Action::Join, 100, "default");
        }
        assert_eq!((library.records.len(), library.records.values().filter(|e| e.tenant.is_some()).count()), (10, 1));
        library.add("r0", Action::Join, 101, "default");
        assert_eq!(library.counted().last(), Some(&(101, 1, 101)), "that of second 100 has left");
        // The same from the store.
        let stored: Vec<(String, Vec<u8>)> = library.records.iter().map(|(k, e)| (k.clone(), serialized(e))).collect();
        let restored = Joins::restore(stored.iter().map(|(key, value)| (key.as_str(), value.as_slice())));
        assert_eq!((restored.records.last(), restored.open.len()), (library.joins.records.last(), 0));
    }

    #[test]
    fn what_takes_others_in_has_a_bound() {
        let mut library = Library::default();
        for host in 0..MAX_OPEN + 5 {
            library.add(&format!("r{host}"), Action::Join, 100, "default");
        }
        assert_eq!((library.joins.open.len(), library.joins.by_age.len()), (MAX_OPEN, MAX_OPEN));
        library.add("r9", Action::Join, 400, "default");
        assert_eq!((library.joins.open.len(), library.joins.by_age.len()), (1, 1));
    }
}
