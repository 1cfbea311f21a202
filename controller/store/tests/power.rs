// SPDX-License-Identifier: Apache-2.0
//! Power cuts: every acknowledged commit is on the disk. And full disks: nothing is lost, and the store is read-only.
#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::process::ExitCode;

use canopy_store::{EmbeddedStore, EngineKind, Op, Snapshot, Store, StoreError};
use canopy_testkit::cases::{Case, run};
use canopy_testkit::power::{self, Device};

/// Octets of the disk.
const DISK: u64 = 96 << 20;

fn main() -> ExitCode {
    if let Some((engine, dir)) = power::child() {
        let kind = EngineKind::ALL.into_iter().find(|kind| kind.to_string() == engine).unwrap();
        write(&dir, kind);
        return ExitCode::SUCCESS;
    }
    let cases = [
        Case { name: "sled_keeps_acknowledged_commits_through_power_cuts", run: || cut(EngineKind::Sled) },
        Case { name: "redb_keeps_acknowledged_commits_through_power_cuts", run: || cut(EngineKind::Redb) },
        Case { name: "sled_is_read_only_on_a_full_disk_and_loses_nothing", run: || fill(EngineKind::Sled) },
        Case { name: "redb_is_read_only_on_a_full_disk_and_loses_nothing", run: || fill(EngineKind::Redb) },
    ];
    run(&cases, power::missing)
}

/// The transaction that makes revision `at`: of all sizes, some in files of their own, some in pages.
fn ops(at: u64) -> Vec<Op> {
    let filler = match at % 12 {
        11 => vec![at as u8; 700_000],
        // In pages, of which each such transaction writes some.
        5 => (0..1_200_000_u64).map(|n| if n / 100_000 == at % 7 { at as u8 } else { ((n * n) >> 9) as u8 }).collect(),
        n => vec![at as u8; (n as usize * 7919) % 40_000],
    };
    let put = |key: String, value: Vec<u8>| Op::Put { key, value };
    vec![
        put("left".into(), at.to_string().into()),
        put(format!("filler/{}", at % 5), filler),
        put("right".into(), at.to_string().into()),
    ]
}

fn write(dir: &Path, kind: EngineKind) {
    let store = EmbeddedStore::open(dir, kind).unwrap();
    power::on_request(|| {
        let at = store.revision().unwrap();
        store.commit(at, &ops(at + 1)).unwrap().to_string()
    });
}

fn cut(kind: EngineKind) {
    let device = Device::new(DISK);
    let mut writer = device.writer(&kind.to_string(), "store");
    for n in 0..if std::env::var_os("CANOPY_DEEP").is_some() { 200 } else { 13 } {
        // Cuts after one commit, and after some.
        let mut at: u64 = 0;
        for _ in 0..1 + n * n % 4 {
            at = writer.write().parse().unwrap();
        }
        let cut = device.cut();
        let store = EmbeddedStore::open(&cut.path().join("store"), kind).unwrap();
        assert!(store.recovery().is_none(), "cut {n} after revision {at}: {:?}", store.recovery());
        assert_eq!(store.revision().unwrap(), at, "cut {n}");
        let entries = store.scan("").unwrap().entries;
        for op in ops(at) {
            let Op::Put { key, value } = op else { continue };
            assert!(entries.contains(&(key.clone(), value)), "cut {n} after revision {at}: {key}");
        }
        drop(store);
    }
}

/// As [`ops`], and the store grows.
fn growing(at: u64) -> Vec<Op> {
    let mut ops = ops(at);
    ops.push(Op::Put { key: format!("grown/{at}"), value: vec![at as u8; 20_000] });
    ops
}

/// Octets of the disk that the files of a store take, but for the space that it keeps for the commit that finds the disk full.
fn taken(dir: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let files = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let of = |path: &Path| if path.is_dir() { taken(path) } else { path.metadata().unwrap().blocks() * 512 };
    files.filter(|path| !path.ends_with("reserve")).map(|path| of(&path)).sum()
}

/// Commits until the disk is full; then what was acknowledged is there, now, at the next start, and after a power cut. Returns it, and the
/// octets that the store takes.
fn commit_until_full(device: &Device, dir: &Path, kind: EngineKind) -> (Snapshot, u64) {
    let store = EmbeddedStore::open(dir, kind).unwrap();
    let mut at = store.revision().unwrap();
    let error = loop {
        match store.commit(at, &growing(at + 1)) {
            Ok(next) => at = next,
            Err(error) => break error,
        }
    };
    assert!(matches!(error, StoreError::Full { .. }), "{kind}: {error}");
    assert!(error.to_string().contains("read-only until"), "{error}");
    let (kept, full) = (store.scan("").unwrap(), taken(dir));
    assert_eq!(kept.revision, at);
    for op in growing(at) {
        let Op::Put { key, value } = op else { continue };
        assert!(at == 0 || kept.entries.contains(&(key.clone(), value)), "{kind}: {key} of revision {at}");
    }
    let cut = device.cut();
    let of_cut = EmbeddedStore::open(&cut.path().join("store"), kind).unwrap();
    assert_eq!((of_cut.scan("").unwrap() == kept, of_cut.recovery()), (true, None), "{kind}: after a cut");
    (kept, full)
}

fn fill(kind: EngineKind) {
    // With its backups, what all steps write takes more than twice that.
    let device = Device::new(4 * DISK);
    let dir = device.path().join("store");
    // The first value in pages also writes a copy of the store.
    let store = EmbeddedStore::open(&dir, kind).unwrap();
    (0..6).for_each(|at| _ = store.commit(at, &growing(at + 1)).unwrap());
    let mut expected = store.scan("").unwrap();
    drop(store);
    // Free space when it begins, so that it is full at another step of a commit each time.
    let steps = (0..60).step_by(if std::env::var_os("CANOPY_DEEP").is_some() { 1 } else { 6 });
    for free in steps.map(|n: u64| n * n * 997) {
        let filler = device.fill(free);
        let (mut kept, mut full) = commit_until_full(&device, &dir, kind);
        assert!(kept.revision >= expected.revision, "{kind}, {free} octets free");
        // It starts on the full disk too, more than once.
        for _ in 0..3 {
            let store = EmbeddedStore::open(&dir, kind).unwrap();
            let opened = taken(&dir);
            assert!(store.recovery().is_none(), "{kind}, {free} octets free: {:?}", store.recovery());
            assert!(store.scan("").unwrap() == kept, "{kind}, {free} octets free");
            match store.commit(kept.revision, &growing(kept.revision + 1)) {
                Err(StoreError::Full { .. }) => assert!(matches!(store.ready(), Err(StoreError::Full { .. }))),
                // Closed, it gives the unused end of its file back to the disk, and opened, the oldest backup: that may be enough for some
                // commits more.
                Ok(_) if kind == EngineKind::Redb => {
                    assert!(
                        opened < full,
                        "{free} octets free: it took {full} octets when it was full, and now {opened}"
                    );
                    drop(store);
                    (kept, full) = commit_until_full(&device, &dir, kind);
                }
                other => panic!("{kind}, {free} octets free: {other:?}"),
            }
        }
        // And it writes again, in the same process, once there is as much space as the refusal asks for, and for blobs twice.
        let store = EmbeddedStore::open(&dir, kind).unwrap();
        drop(filler);
        let blobs = std::fs::read_dir(dir.join("db/blobs")).into_iter().flatten();
        let blobs: u64 = blobs.map(|blob| blob.unwrap().metadata().unwrap().len()).sum();
        let _most = device.fill((32 << 20) + 2 * blobs);
        store.ready().unwrap();
        store.commit(kept.revision, &growing(kept.revision + 1)).unwrap();
        expected = store.scan("").unwrap();
    }
}
