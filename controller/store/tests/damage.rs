// SPDX-License-Identifier: Apache-2.0
//! Behaviour of the embedded store when its files are damaged.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::Path;

use canopy_store::{EmbeddedStore, EngineKind, MemStore, Op, RESTORE_GAP, Store, StoreError, acknowledge_recovery};

fn put(key: &str) -> Op {
    Op::Put { key: key.into(), value: b"v".to_vec() }
}

/// Runs a test with each engine.
fn each(test: impl Fn(EngineKind)) {
    EngineKind::ALL.into_iter().for_each(test);
}

/// The database's directory in that of the store.
fn database(kind: EngineKind) -> &'static str {
    match kind {
        EngineKind::Sled => "db",
        EngineKind::Redb => "redb",
    }
}

fn open(dir: &Path, kind: EngineKind) -> EmbeddedStore {
    EmbeddedStore::open(dir, kind).unwrap()
}

fn refusal(dir: &Path, kind: EngineKind) -> StoreError {
    EmbeddedStore::open(dir, kind).map(|_| ()).unwrap_err()
}

fn store_with_backup(dir: &Path, kind: EngineKind) {
    let store = open(dir, kind);
    store.commit(0, &[put("a")]).unwrap();
    store.commit(1, &[put("b")]).unwrap();
    store.checkpoint().unwrap();
}

fn overwrite_database(dir: &Path, kind: EngineKind) {
    for entry in fs::read_dir(dir.join(database(kind))).unwrap().map(Result::unwrap) {
        let length = entry.metadata().unwrap().len();
        if entry.file_type().unwrap().is_file() {
            fs::write(entry.path(), vec![0x5A; length as usize]).unwrap();
        }
    }
}

#[test]
fn a_damaged_database_is_kept_aside_and_the_backup_restored() {
    each(|kind| {
        let dir = tempfile::tempdir().unwrap();
        store_with_backup(dir.path(), kind);
        overwrite_database(dir.path(), kind);
        let store = open(dir.path(), kind);
        let recovery = store.recovery().expect("damage goes unnoticed");
        assert_eq!(recovery.quarantined.as_deref(), Some(dir.path().join("damaged-1").as_path()));
        assert_eq!(recovery.restored_revision, 2);
        assert!(fs::read_dir(dir.path().join("damaged-1")).unwrap().next().is_some());
        assert_eq!(store.scan("").unwrap().entries.len(), 2);
        // Revisions never decrease, and the restored store accepts commits and opens again.
        let at = store.revision().unwrap();
        assert!(at > 2);
        store.commit(at, &[put("c")]).unwrap();
        drop(store);
        // It is reported at every start until an operator takes note.
        let store = open(dir.path(), kind);
        assert_eq!(store.recovery().as_ref(), Some(&recovery));
        assert_eq!(store.scan("").unwrap().entries.len(), 3);
        assert_eq!(acknowledge_recovery(dir.path()).unwrap().as_ref(), Some(&recovery));
        assert_eq!((store.recovery(), acknowledge_recovery(dir.path()).unwrap()), (None, None));
        drop(store);
        assert_eq!(open(dir.path(), kind).recovery(), None);
    });
}

#[test]
fn an_older_database_than_the_backup_counts_as_damage() {
    each(|kind| {
        let dir = tempfile::tempdir().unwrap();
        store_with_backup(dir.path(), kind);
        fs::remove_dir_all(dir.path().join(database(kind))).unwrap();
        let store = open(dir.path(), kind);
        assert!(store.recovery().unwrap().detail.contains("older than its newest backup at 2"));
        assert_eq!(store.scan("").unwrap().entries.len(), 2);
    });
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

#[test]
fn a_log_whose_end_is_missing_is_kept_and_reported() {
    each(|kind| {
        let (dir, older) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        store_with_backup(dir.path(), kind);
        {
            let store = open(dir.path(), kind);
            store.commit(2, &[put("c")]).unwrap();
            drop(store);
            copy(&dir.path().join(database(kind)), older.path());
            let store = open(dir.path(), kind);
            store.commit(3, &[put("d")]).unwrap();
            store.commit(4, &[put("e")]).unwrap();
        }
        fs::remove_dir_all(dir.path().join(database(kind))).unwrap();
        copy(older.path(), &dir.path().join(database(kind)));
        let store = open(dir.path(), kind);
        let recovery = store.recovery().expect("the loss goes unnoticed");
        assert_eq!((&recovery.quarantined, &recovery.restored_from, recovery.restored_revision), (&None, &None, 3));
        assert!(recovery.detail.contains("ends at revision 3, and 5 was acknowledged"), "{}", recovery.detail);
        assert_eq!(store.scan("").unwrap().entries.len(), 3, "more than the backup has");
        assert!(store.revision().unwrap() > RESTORE_GAP, "a revision that no lost commit had");
    });
}

/// As after a power cut behind the damage and before the record: it is found again.
#[test]
fn a_loss_that_cannot_be_recorded_is_not_hidden_from_the_next_start() {
    each(|kind| {
        let (dir, older) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        store_with_backup(dir.path(), kind);
        copy(&dir.path().join(database(kind)), older.path());
        open(dir.path(), kind).commit(2, &[put("c")]).unwrap();
        fs::remove_dir_all(dir.path().join(database(kind))).unwrap();
        copy(older.path(), &dir.path().join(database(kind)));
        let in_the_way = dir.path().join("recovered");
        fs::create_dir_all(in_the_way.join("directory")).unwrap();
        let e = refusal(dir.path(), kind);
        assert!(e.to_string().contains("recovered"), "{e}");
        fs::remove_dir_all(in_the_way).unwrap();
        assert!(open(dir.path(), kind).recovery().is_some(), "{kind}");
    });
}

/// As after the database was removed: to start with nothing takes every group down, so it has to be meant.
#[test]
fn an_empty_database_without_a_backup_is_refused_while_the_mark_is_there() {
    each(|kind| {
        let dir = tempfile::tempdir().unwrap();
        store_with_backup(dir.path(), kind);
        fs::remove_dir_all(dir.path().join(database(kind))).unwrap();
        fs::remove_dir_all(dir.path().join("snapshots")).unwrap();
        for _ in 0..2 {
            let e = refusal(dir.path(), kind);
            assert!(e.to_string().contains("it is empty, and revision 2 was acknowledged"), "{e}");
        }
        fs::remove_file(dir.path().join("acknowledged")).unwrap();
        assert_eq!(open(dir.path(), kind).revision().unwrap(), 0);
    });
}

#[test]
fn a_mark_that_is_torn_is_the_one_before_and_a_damaged_one_is_refused() {
    each(|kind| {
        let dir = tempfile::tempdir().unwrap();
        store_with_backup(dir.path(), kind);
        let mark = dir.path().join("acknowledged");
        let whole = fs::read(&mark).unwrap();
        for record in [0, 4096] {
            let mut torn = whole.clone();
            torn[record + 6] ^= 1;
            fs::write(&mark, torn).unwrap();
            assert!(open(dir.path(), kind).recovery().is_none());
        }
        fs::write(&mark, vec![0; whole.len()]).unwrap();
        let e = refusal(dir.path(), kind);
        assert!(e.to_string().contains("acknowledged is damaged") && e.to_string().contains("remove it"), "{e}");
        fs::remove_file(&mark).unwrap();
        let store = open(dir.path(), kind);
        assert!(store.recovery().is_none(), "a store of a version without a mark");
        assert_eq!(store.scan("").unwrap().entries.len(), 2);
    });
}

#[test]
fn a_damaged_newest_backup_falls_back_to_the_one_before() {
    each(|kind| {
        let dir = tempfile::tempdir().unwrap();
        store_with_backup(dir.path(), kind);
        {
            let store = open(dir.path(), kind);
            store.commit(2, &[put("c")]).unwrap();
            store.checkpoint().unwrap();
        }
        let newest = dir.path().join("snapshots/00000000000000000003.snapshot");
        let text = fs::read_to_string(&newest).unwrap();
        fs::write(&newest, text.replace("\"c\"", "\"d\"")).unwrap();
        overwrite_database(dir.path(), kind);
        let store = open(dir.path(), kind);
        assert_eq!(store.recovery().unwrap().restored_revision, 2);
        assert_eq!(store.scan("").unwrap().entries.len(), 2);
    });
}

#[test]
fn without_a_valid_backup_it_refuses_and_moves_nothing() {
    each(|kind| {
        let dir = tempfile::tempdir().unwrap();
        store_with_backup(dir.path(), kind);
        fs::remove_dir_all(dir.path().join("snapshots")).unwrap();
        overwrite_database(dir.path(), kind);
        for _ in 0..2 {
            let e = refusal(dir.path(), kind);
            assert!(e.to_string().contains("no valid backup"), "{e}");
        }
        assert!(fs::read_dir(dir.path().join(database(kind))).unwrap().next().is_some());
    });
}

#[test]
fn a_second_opener_gets_the_holder_of_the_store() {
    each(|kind| {
        let dir = tempfile::tempdir().unwrap();
        let _store = open(dir.path(), kind);
        let e = refusal(dir.path(), kind);
        assert!(matches!(e, StoreError::Locked { .. }), "{e}");
        assert!(e.to_string().contains(&format!("process {}", std::process::id())), "{e}");
        assert!(e.to_string().contains("store.path"), "{e}");
    });
}

#[test]
fn old_backups_do_not_pile_up() {
    each(|kind| {
        let dir = tempfile::tempdir().unwrap();
        let store = open(dir.path(), kind);
        for i in 0..9 {
            store.commit(i, &[put("a")]).unwrap();
            store.checkpoint().unwrap();
            store.checkpoint().unwrap();
        }
        assert_eq!(fs::read_dir(dir.path().join("snapshots")).unwrap().count(), 5);
    });
}

#[test]
fn the_last_backup_is_known_also_after_a_restart() {
    each(|kind| {
        let dir = tempfile::tempdir().unwrap();
        let store = open(dir.path(), kind);
        assert_eq!(store.last_backup(), None);
        store.commit(0, &[put("a")]).unwrap();
        assert_eq!(store.last_backup(), None, "a commit is no backup");
        store.checkpoint().unwrap();
        let first = store.last_backup().expect("a backup was written");
        assert_eq!(first.revision, 1);
        let file = dir.path().join("snapshots/00000000000000000001.snapshot");
        assert_eq!(first.at, fs::metadata(file).unwrap().modified().unwrap());
        store.commit(1, &[put("b")]).unwrap();
        store.checkpoint().unwrap();
        assert_eq!(store.last_backup().unwrap().revision, 2);
        drop(store);
        assert_eq!(open(dir.path(), kind).last_backup().unwrap().revision, 2);
        assert_eq!(MemStore::default().last_backup(), None);
    });
}

#[test]
fn a_database_of_the_other_engine_is_refused() {
    each(|kind| {
        let dir = tempfile::tempdir().unwrap();
        store_with_backup(dir.path(), kind);
        let [other] = EngineKind::ALL.into_iter().filter(|other| *other != kind).collect::<Vec<_>>()[..] else {
            panic!()
        };
        let e = refusal(dir.path(), other);
        assert!(
            matches!(&e, StoreError::OtherEngine { found, wanted, .. } if (*found, *wanted) == (kind, other)),
            "{e}"
        );
        assert!(e.to_string().contains("export the store"), "{e}");
        assert!(!dir.path().join(database(other)).exists());
    });
}

/// A pseudo-random number generator: splitmix64.
struct Chance(u64);

impl Chance {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) % n
    }
}

fn files(dir: &Path) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).unwrap().map(Result::unwrap) {
        if entry.file_type().unwrap().is_dir() {
            found.extend(files(&entry.path()));
        } else {
            found.push(entry.path());
        }
    }
    found.sort();
    found
}

/// Damages one file of the store and returns how.
fn damage(dir: &Path, chance: &mut Chance) -> String {
    let mut of_store = files(dir);
    of_store
        .retain(|path| !path.ends_with("reserve") && !path.ends_with("lock") && fs::metadata(path).unwrap().len() > 0);
    // Mostly the database's largest file: there is most of what can be damaged.
    let largest = of_store.iter().max_by_key(|path| fs::metadata(path).unwrap().len()).unwrap().clone();
    let path =
        if chance.below(3) > 0 { largest } else { of_store[chance.below(of_store.len() as u64) as usize].clone() };
    let mut content = fs::read(&path).unwrap();
    // Where there is something: databases leave holes.
    let used: Vec<usize> = (0..content.len()).filter(|at| content[*at] != 0).collect();
    let at = if used.is_empty() { 0 } else { used[chance.below(used.len() as u64) as usize] };
    let length = (1 + chance.below(4096) as usize).min(content.len() - at);
    let how = match chance.below(6) {
        0 => {
            content[at] ^= 1 << chance.below(8);
            "one bit"
        }
        1 => {
            content[at..at + length].fill(0);
            "zeros"
        }
        2 => {
            content[at..at + length].iter_mut().for_each(|octet| *octet = chance.below(256) as u8);
            "noise"
        }
        3 => {
            content.truncate(at);
            "cut off"
        }
        4 => {
            let from = used[chance.below(used.len() as u64) as usize];
            let length = length.min(content.len() - from);
            let to = at.min(content.len() - length);
            content.copy_within(from..from + length, to);
            "another place's content"
        }
        _ => {
            fs::remove_file(&path).unwrap();
            return format!("{} removed", path.strip_prefix(dir).unwrap().display());
        }
    };
    fs::write(&path, content).unwrap();
    format!("{} at {at}, {length} octets: {how}", path.strip_prefix(dir).unwrap().display())
}

/// Whatever is damaged: what was acknowledged is there, or its loss is reported, or the store is refused with the reason.
#[test]
fn no_damage_is_silent() {
    let times = if std::env::var_os("CANOPY_DEEP").is_some() { 300 } else { 40 };
    each(|kind| {
        let whole = tempfile::tempdir().unwrap();
        let expected = {
            let store = open(whole.path(), kind);
            for at in 0..40 {
                // One is in pages.
                let octets = if at == 30 { (1 << 20) + 1 } else { (at as usize * 7919) % 9000 };
                let value = vec![at as u8; octets];
                let put = |key: String| Op::Put { key, value: value.clone() };
                store.commit(at, &[put(format!("a/{}", at % 7)), put(format!("b/{at}"))]).unwrap();
                if at == 20 {
                    store.checkpoint().unwrap();
                }
            }
            store.scan("").unwrap()
        };
        let mut outcomes = [0; 3];
        for seed in 0..times {
            let mut chance = Chance(seed);
            let dir = tempfile::tempdir().unwrap();
            copy(whole.path(), dir.path());
            let how = damage(dir.path(), &mut chance);
            match EmbeddedStore::open(dir.path(), kind) {
                Err(error) => {
                    assert!(error.to_string().len() > 20, "{kind}, seed {seed}, {how}: {error}");
                    outcomes[2] += 1;
                }
                Ok(store) if store.recovery().is_some() => outcomes[1] += 1,
                Ok(store) => {
                    let found = store.scan("").unwrap();
                    assert!(
                        found == expected,
                        "{kind}, seed {seed}, {how}: {} entries at {}",
                        found.entries.len(),
                        found.revision
                    );
                    outcomes[0] += 1;
                }
            }
        }
        println!("{kind}: {} whole, {} recovered, {} refused", outcomes[0], outcomes[1], outcomes[2]);
        assert!(outcomes[1] > times / 20, "{kind}: {outcomes:?}");
    });
}
