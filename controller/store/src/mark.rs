// SPDX-License-Identifier: Apache-2.0
//! `acknowledged` beside the database: the revision of the last commit that was acknowledged. A log whose end is missing opens without
//! an error; by this mark that is known.
//!
//! A thread of its own writes it after the acknowledgement, so that commits do not wait for a second sync. While commits follow each
//! other it is behind by as many as one sync takes; it is never ahead of them.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use crate::replace::replace;
use crate::{Revision, StoreError};

/// Distance of the mark's two records, octets: a write that is torn damages one of them.
const APART: u64 = 4096;
const MAGIC: [u8; 4] = *b"CSM1";
const RECORD: usize = 16;

/// The mark as it was found.
pub(crate) struct Mark {
    file: File,
    path: PathBuf,
    /// The newest; 0 without one.
    pub(crate) revision: Revision,
    next: u64,
}

impl Mark {
    /// Of the store in directory `dir`.
    ///
    /// # Errors
    /// It cannot be read, or neither of its records is whole: then it is not known what was acknowledged.
    pub(crate) fn open(dir: &Path) -> Result<Self, StoreError> {
        let path = dir.join("acknowledged");
        if !path.exists() {
            create(&path)?;
        }
        let io = |e| StoreError::io("opening", &path)(e);
        let file = File::options().read(true).write(true).open(&path).map_err(io)?;
        let records = [0, APART].map(|at| read(&file, at));
        let Some(revision) = records.iter().flatten().max().copied() else {
            let detail = format!(
                "{} is damaged: what was acknowledged is not known. If the store is complete, remove it",
                path.display()
            );
            return Err(StoreError::failed("opening", detail));
        };
        let next = if records[0] == Some(revision) { APART } else { 0 };
        Ok(Self { file, path, revision, next })
    }

    /// Puts the revision on the disk.
    pub(crate) fn set(&mut self, revision: Revision) -> Result<(), StoreError> {
        let written = self.file.write_all_at(&record(revision), self.next).and_then(|()| self.file.sync_data());
        written.map_err(StoreError::io("writing", &self.path))?;
        (self.revision, self.next) = (revision, APART - self.next);
        Ok(())
    }
}

/// Writes the mark behind the commits. The last revision is on the disk when this was dropped.
pub(crate) struct Marker {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    acknowledged: Revision,
    failed: Option<StoreError>,
    ends: bool,
}

impl Marker {
    pub(crate) fn new(mark: Mark) -> Result<Self, StoreError> {
        let state = State { acknowledged: mark.revision, failed: None, ends: false };
        let shared = Arc::new(Shared { state: Mutex::new(state), changed: Condvar::new() });
        let (of_thread, path) = (shared.clone(), mark.path.clone());
        let thread = std::thread::Builder::new().name("store-mark".into()).spawn(move || of_thread.run(mark));
        let thread = thread.map_err(StoreError::io("starting the thread that writes", path))?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// Has the revision written, and returns at once.
    ///
    /// # Errors
    /// An earlier one could not be written.
    pub(crate) fn acknowledge(&self, revision: Revision) -> Result<(), StoreError> {
        let mut state = self.shared.lock();
        if let Some(failed) = state.failed.take() {
            return Err(failed);
        }
        state.acknowledged = revision;
        self.shared.changed.notify_one();
        Ok(())
    }
}

impl Drop for Marker {
    fn drop(&mut self) {
        self.shared.lock().ends = true;
        self.shared.changed.notify_one();
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the thread that writes the mark of the store panicked: the mark may be behind");
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self, mut mark: Mark) {
        loop {
            let mut state = self.lock();
            while state.acknowledged == mark.revision {
                if state.ends {
                    return;
                }
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            let revision = state.acknowledged;
            drop(state);
            if let Err(error) = mark.set(revision) {
                tracing::error!(%error, revision, "cannot write the mark of the store: the next commit fails");
                self.lock().failed = Some(error);
                return;
            }
        }
    }
}

/// As a whole, with both records: a new store has no mark that a cut left half written, and a full disk takes no room away from it.
fn create(path: &Path) -> Result<(), StoreError> {
    let both = |file: &File| [0, APART].iter().try_for_each(|at| file.write_all_at(&record(0), *at));
    replace(path, both).map_err(StoreError::io("creating", path))
}

fn record(revision: Revision) -> [u8; RECORD] {
    let mut record = [0; RECORD];
    record[..4].copy_from_slice(&MAGIC);
    record[4..12].copy_from_slice(&revision.to_be_bytes());
    let sum = crc32fast::hash(&record[..12]);
    record[12..].copy_from_slice(&sum.to_be_bytes());
    record
}

fn read(file: &File, at: u64) -> Option<Revision> {
    let mut record = [0; RECORD];
    file.read_exact_at(&mut record, at).ok()?;
    let (content, sum) = record.split_at(12);
    let is_whole = content[..4] == MAGIC && crc32fast::hash(content).to_be_bytes() == *sum;
    is_whole.then(|| Revision::from_be_bytes(content[4..].try_into().expect("8 octets")))
}
