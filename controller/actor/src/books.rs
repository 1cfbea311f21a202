// SPDX-License-Identifier: Apache-2.0
//! What operators wrote, beside what is in force: an entry per write (`audit/`), and the version that each write replaced (`version/`).
//!
//! Both are records of the store and written in the transaction of the write itself. In memory there is only which records are to
//! be removed: a write removes at most [`MAX_REMOVED`] old records of each kind, so that the books shrink to their bounds without a change
//! that is larger than others. Tenants and the domain share the bounds: see [`Shares`].

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use canopy_controller_core::audit::{Action, AuditEntry, IntentKind, MAX_FIELDS};
use canopy_controller_core::command::MAX_WRITES;
use canopy_controller_core::metadata::{Labels, Metadata};
use canopy_controller_core::principal::Written;
use canopy_controller_core::tenant::to_record;
use canopy_controller_core::uid::Uid;
use canopy_model::ids::Generation;
use canopy_store::{MAX_OPS, Op};
use canopy_units::UnixTime;
use serde::{Deserialize, Serialize};

use crate::intent::{Intent, Spec, Target};
use crate::once;
use crate::shares::{Bounds, Owner, Shares, owner, owner_of_group};

/// Entries of the audit that are kept.
pub const MAX_AUDIT: usize = 100_000;
/// Octets of these, at most.
pub const MAX_AUDIT_OCTETS: u64 = 64 << 20;
/// Replaced versions of one resource that are kept.
pub const MAX_VERSIONS: usize = 50;
/// Replaced versions of all resources that are kept, and their octets.
pub const MAX_ALL_VERSIONS: usize = 200_000;
/// See [`MAX_ALL_VERSIONS`].
pub const MAX_VERSION_OCTETS: u64 = 256 << 20;
/// Octets of one of them, at most: others are to be kept, too.
const MAX_ONE_VERSION: usize = 32 << 20;
/// How long a replaced version is kept; the newest one of a resource is kept longer, so that the last change can always be undone.
pub const KEPT: Duration = Duration::from_secs(30 * 24 * 3600);
/// Old records of each kind that one write removes, at most.
const MAX_REMOVED: usize = 2;
/// One entry, one version, what they displace, one record of a confirmed commit, and one of an idempotency key with what it displaces fit
/// into the transaction of every command; so do an entry, a version and the three records of a change set.
const _: () = assert!(MAX_WRITES + 4 + 2 * MAX_REMOVED + once::MAX_REMOVED <= MAX_OPS);

const AUDIT: &str = "audit/";
const VERSION: &str = "version/";

/// An intent that a write has replaced.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Version {
    /// Of which resource of this name.
    pub uid: Uid,
    /// Its generation then.
    pub generation: Generation,
    /// Its labels.
    #[serde(default)]
    pub labels: Labels,
    /// Its spec.
    pub spec: Spec,
    /// Who wrote it; absent if an earlier version of the controller wrote it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub written: Option<Written>,
    /// Who replaced or deleted it; absent for the one in force.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<Written>,
    /// It was deleted, not replaced.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub deleted: bool,
    /// The tenant of a group: see [`recorded`](canopy_controller_core::tenant::recorded).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
}

impl Version {
    /// The intent of a resource as it is now.
    pub fn present(metadata: Metadata, intent: Intent) -> Self {
        let written = metadata.written().cloned().map(Written::from);
        let tenant = to_record(&metadata.tenant);
        let Metadata { uid, generation, .. } = metadata;
        let Intent { labels, spec } = intent;
        Self { uid, generation, labels, spec, written, ended: None, deleted: false, tenant }
    }
}

/// The part of a [`Version`] that a start reads: most of it is the spec.
#[derive(Deserialize)]
struct Ended {
    ended: Option<Written>,
    tenant: Option<String>,
}

/// The part of an [`AuditEntry`] that a start reads.
#[derive(Deserialize)]
struct Audited {
    kind: IntentKind,
    tenant: Option<String>,
}

/// A write of an operator that passed every check.
pub(crate) struct Entry<'a> {
    pub(crate) target: &'a Target,
    pub(crate) written: &'a Written,
    pub(crate) old: Option<&'a (Metadata, Intent)>,
    /// `None`: deleted, or no resource.
    pub(crate) new: Option<&'a Intent>,
    /// What is done to what is no resource.
    pub(crate) act: Action,
    /// Of the resource that it creates.
    pub(crate) uid: Option<Uid>,
    /// Of a group or a member.
    pub(crate) tenant: Option<String>,
    /// The domain's revision with it: greater with every write.
    pub(crate) revision: u64,
}

/// What an entry adds and removes: durable with [`Note::ops`], and kept by [`Books::keep`] then.
pub(crate) struct Note {
    pub(crate) ops: Vec<Op>,
    /// Octets and owner of the entry.
    audited: (u32, Owner),
    audits_removed: Vec<u64>,
    version: Option<(Target, Kept, u32, Owner)>,
    versions_removed: Vec<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Kept {
    revision: u64,
    at: UnixTime,
}

/// Which records there are.
pub(crate) struct Books {
    /// By sequence. There are holes where what an owner had too much of has left.
    audit: Shares<()>,
    /// Oldest first.
    versions: BTreeMap<Target, VecDeque<Kept>>,
    /// Of the same, by revision: of which resource.
    by_age: Shares<Target>,
}

impl Default for Books {
    fn default() -> Self {
        let audit = Bounds { records: MAX_AUDIT, octets: MAX_AUDIT_OCTETS };
        Self::bounded(audit, Bounds { records: MAX_ALL_VERSIONS, octets: MAX_VERSION_OCTETS })
    }
}

impl Books {
    /// From all records of the store; others are ignored. A record that cannot be read counts with its size, as the domain's.
    pub(crate) fn restore<'a>(records: impl Iterator<Item = (&'a str, &'a [u8])>) -> Self {
        Self::default().restored(records)
    }

    fn bounded(audit: Bounds, versions: Bounds) -> Self {
        Self { audit: Shares::new(audit), versions: BTreeMap::new(), by_age: Shares::new(versions) }
    }

    fn restored<'a>(mut self, records: impl Iterator<Item = (&'a str, &'a [u8])>) -> Self {
        for (key, value) in records {
            let octets = value.len() as u32;
            if let Some(sequence) = audit_sequence(key) {
                let entry = serde_json::from_slice::<Audited>(value).ok();
                let owner = owner(entry.as_ref().and_then(|entry| entry.kind.tenant_in(entry.tenant.as_deref())));
                self.audit.add(sequence, (), octets, &owner);
            } else if let Some((target, revision)) = key.strip_prefix(VERSION).and_then(version_of) {
                let version = serde_json::from_slice::<Ended>(value).ok();
                let owner = version.as_ref().and_then(|version| version_owner(&target, version.tenant.as_deref()));
                let at = version.and_then(|version| version.ended).map(|ended| ended.at).unwrap_or_default();
                self.add_version(target, Kept { revision, at }, octets, &owner);
            }
        }
        self
    }

    /// Sequence number of the next entry of the audit. The newest entry leaves only with one that follows it.
    pub(crate) fn next(&self) -> u64 {
        self.audit.last().map_or(0, |last| last + 1)
    }

    /// What is to be stored with the write of `entry`.
    pub(crate) fn note(&self, entry: &Entry<'_>) -> Note {
        let sequence = self.next();
        let entry_of_audit = audit(entry, sequence);
        let record = serialized(&entry_of_audit);
        let audited = (record.len() as u32, owner(entry_of_audit.tenant()));
        let mut audits_removed = Vec::new();
        self.audit.make_room(&mut audits_removed, MAX_REMOVED, audited.0, &audited.1);
        let mut ops = vec![Op::Put { key: audit_key(sequence), value: record }];
        ops.extend(audits_removed.iter().map(|removed| Op::Delete { key: audit_key(*removed) }));
        let mut note = Note { ops, audited, audits_removed, version: None, versions_removed: Vec::new() };
        if let Some(old) = entry.old.filter(|_| has_versions(entry.target.kind)) {
            self.note_version(entry, old, &mut note);
        }
        note
    }

    fn note_version(&self, entry: &Entry<'_>, (metadata, intent): &(Metadata, Intent), note: &mut Note) {
        let mut version = Version::present(metadata.clone(), intent.clone());
        (version.ended, version.deleted) = (Some(entry.written.clone()), entry.new.is_none());
        let value = serialized(&version);
        if value.len() > MAX_ONE_VERSION {
            tracing::warn!(resource = %entry.target, octets = value.len(), "the version that this write replaces is too large to be kept: the write cannot be undone");
            return;
        }
        let owner = version_owner(entry.target, version.tenant.as_deref());
        let (kept, octets) = (Kept { revision: entry.revision, at: entry.written.at }, value.len() as u32);
        note.ops.push(Op::Put { key: version_key(entry.target, entry.revision), value });
        note.versions_removed = self.versions_beyond(entry.target, kept, octets, &owner);
        let leaving = note.versions_removed.iter().filter_map(|revision| Some((self.by_age.get(*revision)?, revision)));
        note.ops.extend(leaving.map(|(target, revision)| Op::Delete { key: version_key(target, *revision) }));
        note.version = Some((entry.target.clone(), kept, octets, owner));
    }

    /// Takes note of what is durable, or will be before anyone sees it.
    pub(crate) fn keep(&mut self, note: Note) {
        let (sequence, (octets, owner)) = (self.next(), note.audited);
        for removed in note.audits_removed {
            self.audit.remove(removed);
        }
        self.audit.add(sequence, (), octets, &owner);
        for revision in note.versions_removed {
            self.remove_version(revision);
        }
        if let Some((target, kept, octets, owner)) = note.version {
            self.add_version(target, kept, octets, &owner);
        }
    }

    fn add_version(&mut self, target: Target, kept: Kept, octets: u32, owner: &Owner) {
        self.by_age.add(kept.revision, target.clone(), octets, owner);
        self.versions.entry(target).or_default().push_back(kept);
    }

    fn remove_version(&mut self, revision: u64) {
        let Some(target) = self.by_age.remove(revision) else { return };
        let Some(all) = self.versions.get_mut(&target) else { return };
        all.retain(|kept| kept.revision != revision);
        if all.is_empty() {
            self.versions.remove(&target);
        }
    }

    /// Which versions leave when `new` of `target` comes: the resource's own that are too many or too old, then the oldest of who has most
    /// while there is no room.
    fn versions_beyond(&self, target: &Target, new: Kept, octets: u32, owner: &Owner) -> Vec<u64> {
        let own = self.versions.get(target);
        let own_count = own.map_or(0, VecDeque::len) + 1;
        let is_old = |kept: &Kept| new.at.nanos().saturating_sub(kept.at.nanos()) > canopy_units::nanos(KEPT);
        let leaves = |(i, kept): &(usize, &Kept)| own_count - i > MAX_VERSIONS || is_old(kept);
        let own = own.into_iter().flatten().enumerate().filter(leaves).take(MAX_REMOVED);
        let mut leaving: Vec<u64> = own.map(|(_, kept)| kept.revision).collect();
        self.by_age.make_room(&mut leaving, MAX_REMOVED, octets, owner);
        leaving
    }
}

fn audit(entry: &Entry<'_>, sequence: u64) -> AuditEntry {
    let old = entry.old.map(|(metadata, _)| metadata);
    let (action, uid, generation) = match (old, entry.new) {
        (None, Some(_)) => (Action::Create, entry.uid, Some(1)),
        (Some(m), Some(_)) => (Action::Update, Some(m.uid), Some(m.generation + 1)),
        (Some(m), None) => (Action::Delete, Some(m.uid), Some(m.generation)),
        (None, None) => (entry.act, None, None),
    };
    let (mut fields, mut more_fields) = (Vec::new(), 0);
    if let (Some((_, old)), Some(new)) = (entry.old, entry.new) {
        fields = Intent::differences(Some(old), Some(new)).into_iter().map(|d| d.pointer).collect();
        more_fields = fields.len().saturating_sub(MAX_FIELDS);
        fields.truncate(MAX_FIELDS);
    }
    let (written, Target { kind, name }) = (entry.written.clone(), entry.target.clone());
    let tenant = kind.recorded_tenant(entry.tenant.as_deref());
    AuditEntry {
        sequence,
        written,
        action,
        kind,
        name,
        uid,
        generation,
        fields,
        more_fields,
        tenant,
        more: 0,
        last: None,
    }
}

/// Whose a version of a resource is, with what its record has of the tenant.
fn version_owner(target: &Target, in_record: Option<&str>) -> Owner {
    if target.kind.is_of_tenant() { owner_of_group(in_record) } else { None }
}

/// Members belong to their hosts: who left joins again by itself.
fn has_versions(kind: IntentKind) -> bool {
    matches!(kind, IntentKind::Topology | IntentKind::Drain | IntentKind::Group)
}

fn serialized(record: &impl Serialize) -> Vec<u8> {
    // Structs of strings, numbers and JSON values: serialising them cannot fail.
    serde_json::to_vec(record).expect("a record is JSON")
}

/// Keys are in the order of the sequence.
pub(crate) fn audit_key(sequence: u64) -> String {
    format!("{AUDIT}{sequence:016x}")
}

/// The sequence of the entry with this key.
pub(crate) fn audit_sequence(key: &str) -> Option<u64> {
    key.strip_prefix(AUDIT).and_then(number)
}

/// Prefix of all entries of the audit.
pub(crate) fn audit_prefix() -> &'static str {
    AUDIT
}

/// Prefix of a resource's versions.
pub(crate) fn version_prefix(target: &Target) -> String {
    format!("{VERSION}{target}/")
}

fn version_key(target: &Target, revision: u64) -> String {
    format!("{}{revision:016x}", version_prefix(target))
}

fn version_of(rest: &str) -> Option<(Target, u64)> {
    let (target, revision) = rest.rsplit_once('/')?;
    let (kind, name) = target.split_once('/')?;
    Some((Target { kind: kind.parse().ok()?, name: name.to_owned() }, number(revision)?))
}

fn number(digits: &str) -> Option<u64> {
    u64::from_str_radix(digits, 16).ok()
}

#[cfg(test)]
mod tests {
    use canopy_controller_core::principal::Principal;

    use super::*;

    const DAY: u64 = 24 * 3_600 * 1_000_000_000;

    /// Books over the records that their notes have made.
    struct Library {
        books: Books,
        bounds: [Bounds; 2],
        records: BTreeMap<String, Vec<u8>>,
        revision: u64,
    }

    impl Default for Library {
        fn default() -> Self {
            let audit = Bounds { records: MAX_AUDIT, octets: MAX_AUDIT_OCTETS };
            Self::bounded([audit, Bounds { records: MAX_ALL_VERSIONS, octets: MAX_VERSION_OCTETS }])
        }
    }

    impl Library {
        fn bounded(bounds: [Bounds; 2]) -> Self {
            let [audit, versions] = bounds;
            Self { books: Books::bounded(audit, versions), bounds, records: BTreeMap::new(), revision: 0 }
        }

        /// A group's change at `at`, with a spec of about `octets`. Returns how many records it removed.
        fn change(&mut self, group: &str, at: u64, octets: usize) -> usize {
            self.change_of("default", group, at, octets)
        }

        /// The same of a group of this tenant.
        fn change_of(&mut self, tenant: &str, group: &str, at: u64, octets: usize) -> usize {
            self.revision += 1;
            let metadata = metadata(tenant, self.revision);
            let intent = |text: String| Intent { labels: Labels::new(), spec: Spec::Json(text.into()) };
            let target = Target { kind: IntentKind::Group, name: group.to_owned() };
            let written =
                Written { at: UnixTime::from_nanos(at), by: Principal::operator("alice", None).into(), request: None };
            let (old, new) = ((metadata, intent("x".repeat(octets))), intent("y".into()));
            let (target, written, revision) = (&target, &written, self.revision);
            let (act, tenant) = (Action::Rotate, Some(tenant.to_owned()));
            let entry = Entry { target, written, old: Some(&old), new: Some(&new), act, uid: None, tenant, revision };
            let note = self.books.note(&entry);
            let mut removed = 0;
            for op in note.ops.clone() {
                match op {
                    Op::Put { key, value } => assert_eq!(self.records.insert(key, value), None),
                    Op::Delete { key } => {
                        assert!(self.records.remove(&key).is_some(), "{key} is removed and was not there");
                        removed += 1;
                    }
                }
            }
            self.books.keep(note);
            removed
        }

        fn versions(&self, group: &str) -> Vec<u64> {
            let prefix = version_prefix(&Target { kind: IntentKind::Group, name: group.to_owned() });
            self.records.keys().filter_map(|key| number(key.strip_prefix(&prefix)?)).collect()
        }

        fn audits(&self) -> Vec<u64> {
            self.records.keys().filter_map(|key| number(key.strip_prefix(AUDIT)?)).collect()
        }

        /// What is in memory follows from the records.
        fn check(&self) {
            let records = self.records.iter().map(|(key, value)| (key.as_str(), value.as_slice()));
            let [audit, versions] = self.bounds;
            let read = Books::bounded(audit, versions).restored(records);
            assert_eq!((read.next(), &read.audit), (self.books.next(), &self.books.audit));
            assert_eq!((&read.versions, &read.by_age), (&self.books.versions, &self.books.by_age));
        }
    }

    fn metadata(tenant: &str, generation: u64) -> Metadata {
        let json = serde_json::json!({"name": "g", "tenant": tenant, "generation": generation});
        serde_json::from_value(json).unwrap()
    }

    #[test]
    fn fifty_versions_of_a_resource_are_kept_and_those_of_others_stay() {
        let mut library = Library::default();
        library.change("other", DAY, 1);
        (0..MAX_VERSIONS + 7).for_each(|_| _ = library.change("g", DAY, 1));
        let kept = library.versions("g");
        assert_eq!((kept.len(), kept[0], library.versions("other")), (MAX_VERSIONS, 9, vec![1]));
        library.check();
    }

    #[test]
    fn versions_of_a_month_ago_go_with_the_next_change_and_never_the_newest() {
        let mut library = Library::default();
        (0..5).for_each(|_| _ = library.change("g", DAY, 1));
        assert_eq!(library.change("g", 31 * DAY, 1), 0);
        assert_eq!(library.change("g", 31 * DAY + 1, 1), 2);
        assert_eq!(library.versions("g"), [3, 4, 5, 6, 7]);
        // Long after everything: the version of this change stays.
        (0..9).for_each(|i| _ = library.change("g", (100 + i * 40) * DAY, 1));
        assert_eq!(library.versions("g").last(), Some(&16));
        library.check();
    }

    /// By octets: a hundred thousand entries take as long.
    #[test]
    fn the_audit_and_all_versions_have_bounds_and_the_oldest_go_first() {
        let mut library = Library::default();
        let megabyte = 1_000_000;
        (0..300).for_each(|i| _ = library.change(&format!("g{i}"), DAY, megabyte));
        let octets: u64 =
            library.records.iter().filter(|(k, _)| k.starts_with(VERSION)).map(|(_, v)| v.len() as u64).sum();
        assert!(octets <= MAX_VERSION_OCTETS && octets > MAX_VERSION_OCTETS - 3 * megabyte as u64, "{octets}");
        assert_eq!((library.versions("g0"), library.versions("g299")), (vec![], vec![300]));
        library.check();
        let few = Bounds { records: 10, octets: u64::MAX };
        let mut library = Library::bounded([few, few]);
        (0..25).for_each(|i| _ = library.change(&format!("g{i}"), DAY, 1));
        assert_eq!((library.audits()[0], library.audits().len(), library.books.next()), (15, 10, 25));
        assert_eq!((library.versions("g14"), library.versions("g15")), (vec![], vec![16]));
        library.check();
    }

    /// Catches a tenant that writes without end and so displaces what the domain or another tenant has written; also once the books were
    /// read again.
    #[test]
    fn what_one_tenant_writes_displaces_nothing_of_others() {
        let bounds = [Bounds { records: 20, octets: u64::MAX }, Bounds { records: 12, octets: u64::MAX }];
        let mut library = Library::bounded(bounds);
        let quiet: [(&str, &str); 5] = [("acme", "a"), ("acme", "a"), ("default", "d"), ("other", "o"), ("acme", "a2")];
        quiet.iter().for_each(|(tenant, group)| _ = library.change_of(tenant, group, DAY, 1));
        for restarts in 0..2 {
            (0..50).for_each(|i| _ = library.change_of("loud", &format!("l{restarts}{i}"), DAY, 1));
            library.check();
            assert_eq!((&library.audits()[..5], library.audits().len()), (&[0, 1, 2, 3, 4][..], 20));
            let kept = ["a", "d", "o", "a2"].map(|group| library.versions(group).len());
            assert_eq!((kept, library.records.len()), ([2, 1, 1, 1], 20 + 12));
            let records = library.records.iter().map(|(key, value)| (key.as_str(), value.as_slice()));
            library.books = Books::bounded(bounds[0], bounds[1]).restored(records);
        }
    }

    /// Catches a bound that a resource with too many versions of its own exceeds with each larger one.
    #[test]
    fn a_larger_version_than_the_one_that_leaves_displaces_another_too() {
        let mut library = Library::default();
        let other = 1_000_000;
        (0..MAX_VERSIONS).for_each(|_| _ = library.change("g", DAY, 1));
        (0..268).for_each(|i| _ = library.change(&format!("o{i}"), DAY, other));
        assert_eq!(library.change("g", DAY, other), 2);
        // Its own oldest one, and the oldest of all, which is its own too.
        assert_eq!(library.versions("g")[0], 3);
        library.check();
    }

    /// Catches a version that displaces those of everything else.
    #[test]
    fn a_version_that_is_too_large_is_left_out() {
        let mut library = Library::default();
        library.change("g", DAY, MAX_ONE_VERSION);
        assert_eq!((library.versions("g"), library.audits()), (vec![], vec![0]));
        library.check();
    }
}
