// SPDX-License-Identifier: Apache-2.0
//! Behaviour of the embedded store when its files are damaged.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::Path;

use canopy_store::{Op, RESTORE_GAP, SledStore, Store, StoreError};

fn put(key: &str) -> Op {
    Op::Put { key: key.into(), value: b"v".to_vec() }
}

fn store_with_backup(dir: &Path) {
    let store = SledStore::open(dir).unwrap();
    store.commit(0, &[put("a")]).unwrap();
    store.commit(1, &[put("b")]).unwrap();
    store.checkpoint().unwrap();
}

fn overwrite_database(dir: &Path) {
    for file in ["db/db", "db/conf"] {
        let path = dir.join(file);
        let len = fs::metadata(&path).unwrap().len();
        fs::write(&path, vec![0x5A; len as usize]).unwrap();
    }
}

#[test]
fn a_damaged_database_is_kept_aside_and_the_backup_restored() {
    let dir = tempfile::tempdir().unwrap();
    store_with_backup(dir.path());
    overwrite_database(dir.path());
    let store = SledStore::open(dir.path()).unwrap();
    let recovery = store.recovery().expect("damage goes unnoticed");
    assert_eq!(recovery.quarantined.as_deref(), Some(dir.path().join("damaged-1").as_path()));
    assert_eq!(recovery.restored_revision, 2);
    assert!(dir.path().join("damaged-1/db").exists());
    assert_eq!(store.scan("").unwrap().entries.len(), 2);
    // Revisions never decrease, and the restored store accepts commits and opens again.
    let at = store.revision().unwrap();
    assert!(at > 2);
    store.commit(at, &[put("c")]).unwrap();
    drop(store);
    let store = SledStore::open(dir.path()).unwrap();
    assert!(store.recovery().is_none());
    assert_eq!(store.scan("").unwrap().entries.len(), 3);
}

#[test]
fn an_older_database_than_the_backup_counts_as_damage() {
    let dir = tempfile::tempdir().unwrap();
    store_with_backup(dir.path());
    fs::remove_dir_all(dir.path().join("db")).unwrap();
    let store = SledStore::open(dir.path()).unwrap();
    assert!(store.recovery().unwrap().detail.contains("older than its newest backup at 2"));
    assert_eq!(store.scan("").unwrap().entries.len(), 2);
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
    let (dir, older) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    store_with_backup(dir.path());
    {
        let store = SledStore::open(dir.path()).unwrap();
        store.commit(2, &[put("c")]).unwrap();
        drop(store);
        copy(&dir.path().join("db"), older.path());
        let store = SledStore::open(dir.path()).unwrap();
        store.commit(3, &[put("d")]).unwrap();
        store.commit(4, &[put("e")]).unwrap();
    }
    fs::remove_dir_all(dir.path().join("db")).unwrap();
    copy(older.path(), &dir.path().join("db"));
    let store = SledStore::open(dir.path()).unwrap();
    let recovery = store.recovery().expect("the loss goes unnoticed");
    assert_eq!((&recovery.quarantined, &recovery.restored_from, recovery.restored_revision), (&None, &None, 3));
    assert!(recovery.detail.contains("ends at revision 3, and 5 was acknowledged"), "{}", recovery.detail);
    assert_eq!(store.scan("").unwrap().entries.len(), 3, "more than the backup has");
    assert!(store.revision().unwrap() > RESTORE_GAP, "a revision that no lost commit had");
    drop(store);
    assert!(SledStore::open(dir.path()).unwrap().recovery().is_none(), "it is reported once");
}

/// As after the database was removed: to start with nothing takes every group down, so it has to be meant.
#[test]
fn an_empty_database_without_a_backup_is_refused_while_the_mark_is_there() {
    let dir = tempfile::tempdir().unwrap();
    store_with_backup(dir.path());
    fs::remove_dir_all(dir.path().join("db")).unwrap();
    fs::remove_dir_all(dir.path().join("snapshots")).unwrap();
    for _ in 0..2 {
        let e = SledStore::open(dir.path()).map(|_| ()).unwrap_err();
        assert!(e.to_string().contains("it is empty, and revision 2 was acknowledged"), "{e}");
    }
    fs::remove_file(dir.path().join("acknowledged")).unwrap();
    assert_eq!(SledStore::open(dir.path()).unwrap().revision().unwrap(), 0);
}

#[test]
fn a_mark_that_is_torn_is_the_one_before_and_a_damaged_one_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    store_with_backup(dir.path());
    let mark = dir.path().join("acknowledged");
    let whole = fs::read(&mark).unwrap();
    for record in [0, 4096] {
        let mut torn = whole.clone();
        torn[record + 6] ^= 1;
        fs::write(&mark, torn).unwrap();
        assert!(SledStore::open(dir.path()).unwrap().recovery().is_none());
    }
    fs::write(&mark, vec![0; whole.len()]).unwrap();
    let e = SledStore::open(dir.path()).map(|_| ()).unwrap_err();
    assert!(e.to_string().contains("acknowledged is damaged") && e.to_string().contains("remove it"), "{e}");
    fs::remove_file(&mark).unwrap();
    let store = SledStore::open(dir.path()).unwrap();
    assert!(store.recovery().is_none(), "a store of a version without a mark");
    assert_eq!(store.scan("").unwrap().entries.len(), 2);
}

#[test]
fn a_damaged_newest_backup_falls_back_to_the_one_before() {
    let dir = tempfile::tempdir().unwrap();
    store_with_backup(dir.path());
    {
        let store = SledStore::open(dir.path()).unwrap();
        store.commit(2, &[put("c")]).unwrap();
        store.checkpoint().unwrap();
    }
    let newest = dir.path().join("snapshots/00000000000000000003.snapshot");
    let text = fs::read_to_string(&newest).unwrap();
    fs::write(&newest, text.replace("\"c\"", "\"d\"")).unwrap();
    overwrite_database(dir.path());
    let store = SledStore::open(dir.path()).unwrap();
    assert_eq!(store.recovery().unwrap().restored_revision, 2);
    assert_eq!(store.scan("").unwrap().entries.len(), 2);
}

#[test]
fn without_a_valid_backup_it_refuses_and_moves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    store_with_backup(dir.path());
    fs::remove_dir_all(dir.path().join("snapshots")).unwrap();
    overwrite_database(dir.path());
    for _ in 0..2 {
        let e = SledStore::open(dir.path()).map(|_| ()).unwrap_err();
        assert!(e.to_string().contains("no valid backup"), "{e}");
    }
    assert!(dir.path().join("db/db").exists());
}

#[test]
fn a_second_opener_gets_the_holder_of_the_store() {
    let dir = tempfile::tempdir().unwrap();
    let _store = SledStore::open(dir.path()).unwrap();
    let e = SledStore::open(dir.path()).map(|_| ()).unwrap_err();
    assert!(matches!(e, StoreError::Locked { .. }), "{e}");
    assert!(e.to_string().contains(&format!("process {}", std::process::id())), "{e}");
    assert!(e.to_string().contains("store.path"), "{e}");
}

#[test]
fn old_backups_do_not_pile_up() {
    let dir = tempfile::tempdir().unwrap();
    let store = SledStore::open(dir.path()).unwrap();
    for i in 0..9 {
        store.commit(i, &[put("a")]).unwrap();
        store.checkpoint().unwrap();
        store.checkpoint().unwrap();
    }
    assert_eq!(fs::read_dir(dir.path().join("snapshots")).unwrap().count(), 5);
}
