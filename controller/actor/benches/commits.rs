// SPDX-License-Identifier: Apache-2.0
//! Commands that are carried out per second, by one writer and by 50, against what the disk syncs per second in the same run; over each
//! engine, on this disk, and as on a disk that needs 2 ms more for a sync.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use canopy_controller_actor::{Controller, Running, start};
use canopy_controller_core::Command;
use canopy_controller_core::metadata::Labels;
use canopy_store::{EmbeddedStore, EngineKind, Op, Revision, Snapshot, Store, StoreError};

const WRITERS: usize = 50;
const ROUNDS: usize = 5;
const LASTS: Duration = Duration::from_secs(1);

/// A store on a disk whose syncs take longer.
struct Slower(EmbeddedStore, Duration);

impl Store for Slower {
    fn revision(&self) -> Result<Revision, StoreError> {
        self.0.revision()
    }

    fn commit(&self, expected: Revision, ops: &[Op]) -> Result<Revision, StoreError> {
        if !self.1.is_zero() {
            std::thread::sleep(self.1);
        }
        self.0.commit(expected, ops)
    }

    fn scan(&self, prefix: &str) -> Result<Snapshot, StoreError> {
        self.0.scan(prefix)
    }

    fn newest(&self, prefix: &str, below: Option<&str>, limit: usize) -> Result<Vec<(String, Vec<u8>)>, StoreError> {
        self.0.newest(prefix, below, limit)
    }

    fn import(&self, snapshot: &Snapshot) -> Result<Revision, StoreError> {
        self.0.import(snapshot)
    }

    fn ready(&self) -> Result<(), StoreError> {
        self.0.ready()
    }
}

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    println!(
        "engine  sync added  fdatasync      1 writer    {WRITERS} writers  {WRITERS} writers x fdatasync (min, max of {ROUNDS} rounds)"
    );
    for kind in EngineKind::ALL {
        for added in [Duration::ZERO, Duration::from_millis(2)] {
            runtime.block_on(measure(kind, added));
        }
    }
}

async fn measure(kind: EngineKind, added: Duration) {
    let dir = tempfile::tempdir().expect("a directory");
    let opened = EmbeddedStore::open(&dir.path().join("store"), kind).expect("a store");
    let store: Arc<dyn Store> = Arc::new(Slower(opened, added));
    let Running { controller, .. } = start(store, Default::default()).await.expect("a controller");
    let mut rounds = Vec::new();
    for _ in 0..ROUNDS {
        let sync = sync(dir.path()) + added;
        let [one, many] = [write(&controller, 1).await, write(&controller, WRITERS).await];
        rounds.push((many * sync.as_secs_f64(), sync, one, many));
    }
    rounds.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (ratio, sync, one, many) = rounds[ROUNDS / 2];
    let (least, most) = (rounds[0].0, rounds[ROUNDS - 1].0);
    println!("{kind:6} {added:>11?} {sync:>10.0?} {one:>10.0}/s {many:>10.0}/s  {ratio:.1} ({least:.1}, {most:.1})");
}

/// One append of 512 octets, as a commit makes one.
fn sync(dir: &Path) -> Duration {
    let file = File::create(dir.join("sync")).expect("a file");
    let start = Instant::now();
    for at in 0..200 {
        file.write_all_at(&[7; 512], at * 512).and_then(|()| file.sync_data()).expect("a write");
    }
    start.elapsed() / 200
}

/// Commands per second. Each writer changes a group of its own.
async fn write(controller: &Controller, writers: usize) -> f64 {
    let start = Instant::now();
    let writer = |n: usize| {
        let controller = controller.clone();
        async move {
            let mut done = 0_u32;
            while start.elapsed() < LASTS {
                let labels = Labels::from([("round".to_owned(), format!("{writers}-{done}"))]);
                let name = format!("g{n}");
                let spec = Default::default();
                let command =
                    Command::PutGroup { tenant: None, name, labels, spec, if_match: None, create_only: false };
                controller.execute(command, None, false).await.expect("carried out");
                done += 1;
            }
            done
        }
    };
    let tasks: Vec<_> = (0..writers).map(|n| tokio::spawn(writer(n))).collect();
    let mut done = 0;
    for task in tasks {
        done += task.await.expect("a writer");
    }
    f64::from(done) / start.elapsed().as_secs_f64()
}
