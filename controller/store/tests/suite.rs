// SPDX-License-Identifier: Apache-2.0
//! One suite, run against every engine that the controller supports.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;

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
    let value = |len: usize| Op::Put { key: "big".into(), value: vec![0; len] };
    let refused = store.commit(1, &[del("k000"), value(MAX_VALUE_BYTES + 1)]).unwrap_err().to_string();
    assert!(refused.contains("\"big\" has 268435457 bytes"), "{refused}");
    let own = store.commit(1, &[del("k000"), put("store/page/1", "x")]).unwrap_err().to_string();
    assert!(own.contains("\"store/page/1\" is the store's own"), "{own}");
    assert!(store.commit(1, &[put("", "x")]).unwrap_err().to_string().contains("key \"\" has 0 bytes"));
    assert_eq!(store.revision().unwrap(), 1);
    assert_eq!(keys(store, "").len(), MAX_OPS);
}

/// As topologies are: many of them have much in common.
fn large(seed: u64, octets: usize) -> Vec<u8> {
    let mut value: Vec<u8> =
        (0..=octets as u64 / 8).flat_map(|n| format!("{:08x}", n * 0x9E37).into_bytes()).take(octets).collect();
    let at = seed as usize * 7919;
    seed.to_string().bytes().enumerate().for_each(|(i, octet)| value[(at + i) % octets] = octet);
    value
}

fn values_of_any_size_are_written_and_read(store: &dyn Store) {
    let mut expected: BTreeMap<String, Vec<u8>> = BTreeMap::new();
    let sizes = [10, 1 << 20, (1 << 20) + 1, 3 << 20, 100];
    let mut at = 0;
    for step in 0..40_u64 {
        let key = format!("{}/{}", ["a", "z"][step as usize % 2], step * step % 5);
        let ops = if step % 7 == 6 {
            expected.remove(&key);
            vec![Op::Delete { key }]
        } else {
            let value = large(step, sizes[(step * 3 % 5) as usize]);
            expected.insert(key.clone(), value.clone());
            // The last one of a transaction wins, of whatever size.
            vec![Op::Put { key: key.clone(), value: large(99, sizes[step as usize % 5]) }, Op::Put { key, value }]
        };
        at = store.commit(at, &ops).unwrap();
        let found = store.scan("").unwrap();
        assert!(found.entries.iter().map(|(k, v)| (k, v)).eq(&expected), "step {step}");
    }
    for prefix in ["", "a/", "z/3", "c", "store/"] {
        let of_prefix = || expected.iter().filter(|(key, _)| key.starts_with(prefix));
        let found = store.scan(prefix).unwrap().entries;
        assert!(found.iter().map(|(k, v)| (k, v)).eq(of_prefix()), "{prefix:?}");
        for (below, limit) in [(None, 1), (None, 3), (None, 9), (Some("a/3"), 9), (Some("z/1"), 2)] {
            let newest = store.newest(prefix, below, limit).unwrap();
            let wanted = of_prefix().rev().filter(|(key, _)| below.is_none_or(|below| key.as_str() < below));
            let wanted: Vec<_> = wanted.take(limit).map(|(key, value)| (key.clone(), value.clone())).collect();
            let keys = newest.iter().map(|(key, _)| key).collect::<Vec<_>>();
            assert!(newest == wanted, "{prefix:?} {below:?} {limit}: {keys:?}");
        }
    }
    let exported = store.scan("").unwrap();
    let other = tempfile::tempdir().unwrap();
    let other = EmbeddedStore::open(other.path(), EngineKind::Redb).unwrap();
    other.import(&exported).unwrap();
    assert!(other.scan("").unwrap().entries == exported.entries);
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
    values_of_any_size_are_written_and_read,
    export_goes_into_an_empty_store_only,
    concurrent_writers_never_both_win,
);
