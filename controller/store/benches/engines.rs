// SPDX-License-Identifier: Apache-2.0
//! Both engines with 10^6 records, as many as a million groups have: filling, commits, a read of everything, a backup, opening, size.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use canopy_store::{EmbeddedStore, EngineKind, MAX_OPS, Op, Store};

/// `CANOPY_RECORDS` for other numbers.
fn records() -> u64 {
    std::env::var("CANOPY_RECORDS").ok().and_then(|n| n.parse().ok()).unwrap_or(1_000_000)
}

fn put(n: u64, round: u64) -> Op {
    let value = format!("{{\"group\":{n},\"round\":{round},\"filler\":\"{}\"}}", "x".repeat(180 + (n % 80) as usize));
    Op::Put { key: format!("group/{:08}", n.wrapping_mul(0x9E37_79B9) % 100_000_000), value: value.into_bytes() }
}

fn main() {
    let records = records();
    println!("{records} records of 200 to 280 octets");
    println!("engine       fill  commit of 3: median     p99   read all     backup       open  on disk");
    for kind in EngineKind::ALL {
        let dir = tempfile::tempdir().expect("a directory");
        let store = EmbeddedStore::open(dir.path(), kind).expect("a store");
        let start = Instant::now();
        let mut at = store.revision().expect("a revision");
        let all: Vec<u64> = (0..records).collect();
        for some in all.chunks(MAX_OPS) {
            let ops: Vec<Op> = some.iter().map(|n| put(*n, 0)).collect();
            at = store.commit(at, &ops).expect("a commit");
        }
        let filled = start.elapsed();
        let mut commits: Vec<Duration> = (0..2_000)
            .map(|n| {
                let start = Instant::now();
                let ops = [put(n * 7919 % records, n), put(n * 104_729 % records, n), put(0, n)];
                at = store.commit(at, &ops).expect("a commit");
                start.elapsed()
            })
            .collect();
        commits.sort_unstable();
        let time = |what: &dyn Fn()| {
            let start = Instant::now();
            what();
            start.elapsed()
        };
        let read = time(&|| drop(store.scan("").expect("a scan")));
        let backup = time(&|| store.checkpoint().expect("a backup"));
        drop(store);
        let open = time(&|| drop(EmbeddedStore::open(dir.path(), kind).expect("a store")));
        let octets = size(&dir.path().join(if kind == EngineKind::Sled { "db" } else { "redb" }));
        println!(
            "{kind:6} {filled:>10.1?} {:>20.0?} {:>8.0?} {read:>10.1?} {backup:>10.1?} {open:>10.1?} {:>5} MB",
            commits[commits.len() / 2],
            commits[commits.len() * 99 / 100],
            octets >> 20
        );
    }
}

fn size(dir: &Path) -> u64 {
    let entries = fs::read_dir(dir).expect("a directory").map(|entry| entry.expect("an entry"));
    entries.map(|e| if e.path().is_dir() { size(&e.path()) } else { e.metadata().map_or(0, |m| m.len()) }).sum()
}
