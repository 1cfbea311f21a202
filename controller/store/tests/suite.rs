// SPDX-License-Identifier: Apache-2.0
//! One suite, run against every engine that the controller supports.
#![allow(clippy::unwrap_used)]

use canopy_store::{
    EmbeddedStore, EngineKind, MAX_OPS, MAX_VALUE_BYTES, MemStore, Op, RESTORE_GAP, Snapshot, Store, StoreError,
};

fn put(key: &str, value: &str) -> Op {
    Op::Put { key: key.into(), value: value.into() }
}

fn del(key: &str) -> Op {
    Op::Delete { key: key.into() }
}

fn keys(store: &dyn Store, prefix: &str) -> Vec<String> {
    store.scan(prefix).unwrap().entries.into_iter().map(|(k, _)| k).collect()
}

fn transactions_are_all_or_nothing(store: &dyn Store) {
    assert_eq!(store.revision().unwrap(), 0);
    assert_eq!(store.commit(0, &[put("g/a", "1"), put("g/b", "2"), put("h/a", "3")]).unwrap(), 1);
    assert!(matches!(store.commit(0, &[put("g/c", "9")]), Err(StoreError::Conflict { expected: 0, actual: 1 })));
    assert!(matches!(store.commit(2, &[del("g/a")]), Err(StoreError::Conflict { expected: 2, actual: 1 })));
    assert_eq!(keys(store, ""), ["g/a", "g/b", "h/a"]);
    assert_eq!(store.commit(1, &[del("g/a"), put("g/b", "4"), del("not there")]).unwrap(), 2);
    let scan = store.scan("g/").unwrap();
    assert_eq!(scan, Snapshot { revision: 2, entries: vec![("g/b".into(), b"4".to_vec())] });
}

fn later_operations_of_one_transaction_win(store: &dyn Store) {
    store.commit(0, &[put("k", "1"), del("k"), put("k", "2"), put("gone", "1"), del("gone")]).unwrap();
    assert_eq!(store.scan("").unwrap().entries, vec![("k".into(), b"2".to_vec())]);
}

fn prefixes_are_of_bytes_and_in_order(store: &dyn Store) {
    store.commit(0, &[put("a/2", ""), put("a/10", ""), put("a", ""), put("b", ""), put("a0", "")]).unwrap();
    assert_eq!(keys(store, "a/"), ["a/10", "a/2"]);
    assert_eq!(keys(store, "a"), ["a", "a/10", "a/2", "a0"]);
    assert_eq!(keys(store, "c"), Vec::<String>::new());
}

/// Catches a page that has the key that the last one ended with, or a key of another prefix.
fn the_newest_entries_come_first_and_in_pages(store: &dyn Store) {
    store
        .commit(0, &[put("a/1", "x"), put("a/2", "y"), put("a/3", "z"), put("a", ""), put("a0", ""), put("b/9", "")])
        .unwrap();
    let page = |prefix: &str, below: Option<&str>, limit| {
        let entries = store.newest(prefix, below, limit).unwrap().into_iter();
        entries.map(|(key, value)| key + "=" + std::str::from_utf8(&value).unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(page("a/", None, 2), ["a/3=z", "a/2=y"]);
    assert_eq!(page("a/", Some("a/2"), 2), ["a/1=x"]);
    assert_eq!(page("a/", Some("c"), 9), ["a/3=z", "a/2=y", "a/1=x"]);
    for (prefix, below, limit) in [("a/", Some("a/1"), 9), ("a/", Some("a"), 9), ("c", None, 9), ("a/", None, 0)] {
        assert_eq!(page(prefix, below, limit), Vec::<String>::new(), "{prefix} {below:?}");
    }
}

fn limits_are_refused_and_change_nothing(store: &dyn Store) {
    let full: Vec<Op> = (0..MAX_OPS).map(|i| put(&format!("k{i:03}"), "v")).collect();
    store.commit(0, &full).unwrap();
    let over: Vec<Op> = (0..=MAX_OPS).map(|i| del(&format!("k{i:03}"))).collect();
    assert!(store.commit(1, &over).unwrap_err().to_string().contains("129 operations"));
    let value = |len: usize| Op::Put { key: "big".into(), value: vec![7; len] };
    assert!(
        store
            .commit(1, &[del("k000"), value(MAX_VALUE_BYTES + 1)])
            .unwrap_err()
            .to_string()
            .contains("\"big\" has 1048577 bytes")
    );
    assert!(store.commit(1, &[put("", "x")]).unwrap_err().to_string().contains("key \"\" has 0 bytes"));
    assert_eq!(store.revision().unwrap(), 1);
    assert_eq!(keys(store, "").len(), MAX_OPS);
    store.commit(1, &[value(MAX_VALUE_BYTES)]).unwrap();
    assert_eq!(store.scan("big").unwrap().entries[0].1.len(), MAX_VALUE_BYTES);
}

fn export_goes_into_an_empty_store_only(store: &dyn Store) {
    let from = MemStore::new();
    from.commit(0, &[put("a", "1"), Op::Put { key: "b".into(), value: vec![0xFE] }]).unwrap();
    let exported = from.scan("").unwrap();
    let mut bytes = Vec::new();
    exported.write(&mut bytes).unwrap();
    let read = Snapshot::read(&mut bytes.as_slice()).unwrap();
    let imported = store.import(&read).unwrap();
    assert_eq!(imported, exported.revision + RESTORE_GAP, "what agents saw after the export lies before it");
    assert_eq!(store.scan("").unwrap().entries, exported.entries);
    assert!(matches!(store.import(&read), Err(StoreError::NotEmpty(2))));
    store.commit(imported, &[del("a")]).unwrap();
}

fn concurrent_writers_never_both_win(store: &dyn Store) {
    let wins = std::sync::atomic::AtomicU64::new(0);
    std::thread::scope(|s| {
        for t in 0..4 {
            let wins = &wins;
            s.spawn(move || {
                for i in 0..25 {
                    let at = store.revision().unwrap();
                    match store.commit(at, &[put(&format!("t{t}/{i}"), "x")]) {
                        Ok(_) => _ = wins.fetch_add(1, std::sync::atomic::Ordering::SeqCst),
                        Err(StoreError::Conflict { .. }) => {}
                        Err(e) => panic!("{e}"),
                    }
                }
            });
        }
    });
    let wins = wins.into_inner();
    assert!(wins > 0);
    assert_eq!(store.revision().unwrap(), wins);
    assert_eq!(keys(store, "").len() as u64, wins);
}

fn embedded(kind: EngineKind, case: impl Fn(&dyn Store)) {
    let dir = tempfile::tempdir().unwrap();
    let store = EmbeddedStore::open(dir.path(), kind).unwrap();
    case(&store);
    let (revision, entries) = (store.revision().unwrap(), store.scan("").unwrap());
    drop(store);
    let again = EmbeddedStore::open(dir.path(), kind).unwrap();
    assert!(again.recovery().is_none(), "{:?}", again.recovery());
    assert_eq!((again.revision().unwrap(), again.scan("").unwrap()), (revision, entries));
}

macro_rules! suite {
    ($($case:ident),+ $(,)?) => {
        mod mem {
            $(#[test] fn $case() { super::$case(&super::MemStore::new()); })+
        }
        mod sled {
            $(#[test] fn $case() { super::embedded(super::EngineKind::Sled, super::$case); })+
        }
        mod redb {
            $(#[test] fn $case() { super::embedded(super::EngineKind::Redb, super::$case); })+
        }
    };
}

suite!(
    transactions_are_all_or_nothing,
    later_operations_of_one_transaction_win,
    prefixes_are_of_bytes_and_in_order,
    the_newest_entries_come_first_and_in_pages,
    limits_are_refused_and_change_nothing,
    export_goes_into_an_empty_store_only,
    concurrent_writers_never_both_win,
);
