// SPDX-License-Identifier: Apache-2.0
//! sled 0.34.7, pinned, with a workaround for each of its known weaknesses: `m/revision` and `d/<key>`; one atomic batch, one flush
//! and one fdatasync per transaction.
//!
//! sled's own flush does not survive a power cut: on Linux it calls `sync_file_range`, which writes neither the file's size nor its
//! extents, and leaves the data in the disk's cache. Opening it truncates a torn log at the tear, without an error; the store's mark
//! shows that. After an error of the disk it can be used no more, not even dropped: that waits for ever. So its log has its space
//! before it is written to.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::errno::Errno;
use nix::fcntl::{FallocateFlags, fallocate};
use nix::sys::statvfs::statvfs;

use super::{Engine, EngineError, guarded};
use crate::{Op, Revision};

const REVISION_KEY: &[u8] = b"m/revision";
const DATA: &str = "d/";
/// Tries to open a database that this process has just closed: threads of sled hold it a little longer.
const TRIES: u32 = 100;
const PAUSE: Duration = Duration::from_millis(20);
/// Space behind the log's end that is taken at once, and that must be there, octets: sled's buffers and a segment of 512 KiB.
const AHEAD: u64 = 8 << 20;
const LEAST_AHEAD: u64 = 4 << 20;
/// Free space that must be there for blobs, beside twice what is in them, octets: a node of many small values becomes one.
const LEAST_FOR_BLOBS: u64 = 1 << 20;

pub(super) struct Sled {
    /// `None` after a write that failed. To drop it would wait for buffers that are never written, and so would every process that ends
    /// by that: it is forgotten.
    db: Option<sled::Db>,
    files: Files,
}

impl Sled {
    pub(super) fn open(dir: &Path) -> Result<Self, EngineError> {
        remove_half_snapshots(dir).map_err(|e| EngineError::io(&e, "removing half a snapshot"))?;
        // Every commit flushes; sled's timer would only hide a missing flush.
        let config = sled::Config::new().path(dir).flush_every_ms(None).cache_capacity(64 << 20);
        let mut tries = 1;
        let db = loop {
            match config.open() {
                Err(sled::Error::Io(e)) if tries < TRIES && e.to_string().contains("could not acquire lock") => {
                    std::thread::sleep(PAUSE);
                    tries += 1;
                }
                opened => break opened.map_err(error)?,
            }
        };
        Ok(Self { files: Files::of(dir)?, db: Some(db) })
    }

    fn db(&self) -> Result<&sled::Db, EngineError> {
        self.db.as_ref().ok_or_else(|| EngineError::damage("an earlier write has failed"))
    }

    fn apply(&mut self, batch: sled::Batch) -> Result<(), EngineError> {
        guarded(|| {
            let db = self.db()?;
            db.apply_batch(batch).and_then(|()| db.flush()).map_err(error)
        })?;
        self.files.sync()
    }
}

impl Engine for Sled {
    fn revision(&self) -> Result<Revision, EngineError> {
        let found = guarded(|| self.db()?.get(REVISION_KEY).map_err(error))?;
        let Some(value) = found else { return Ok(0) };
        let octets = value.as_ref().try_into();
        octets.map(Revision::from_be_bytes).map_err(|_| EngineError::damage("its revision is not 8 octets"))
    }

    fn entries(&self, prefix: &str) -> Result<Vec<(String, Vec<u8>)>, EngineError> {
        guarded(|| self.db()?.scan_prefix(format!("{DATA}{prefix}")).map(entry).collect())
    }

    fn newest(&self, from: &str, to: &str, limit: usize) -> Result<Vec<(String, Vec<u8>)>, EngineError> {
        let keys = format!("{DATA}{from}")..format!("{DATA}{to}");
        guarded(|| self.db()?.range(keys).rev().take(limit).map(entry).collect())
    }

    fn prepare(&mut self, octets: u64) -> Result<(), EngineError> {
        self.files.prepare(octets)
    }

    /// Its lock stays.
    fn opens_again(&self) -> bool {
        false
    }

    fn write(&mut self, next: Revision, ops: &[Op]) -> Result<(), EngineError> {
        let mut batch = sled::Batch::default();
        for op in ops {
            let key = format!("{DATA}{}", op.key());
            match op {
                Op::Put { value, .. } => batch.insert(key.as_bytes(), value.as_slice()),
                Op::Delete { .. } => batch.remove(key.as_bytes()),
            }
        }
        batch.insert(REVISION_KEY, &next.to_be_bytes());
        self.apply(batch).inspect_err(|_| std::mem::forget(self.db.take()))
    }
}

/// sled takes a snapshot of its page table that a full disk or a cut left half written for damage of the database. The one before is there.
fn remove_half_snapshots(dir: &Path) -> io::Result<()> {
    let entries = match fs::read_dir(dir) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "generating") {
            fs::remove_file(path)?;
        }
    }
    Ok(())
}

fn entry(entry: sled::Result<(sled::IVec, sled::IVec)>) -> Result<(String, Vec<u8>), EngineError> {
    let (key, value) = entry.map_err(error)?;
    let text = std::str::from_utf8(&key[DATA.len()..]);
    let text = text.map_err(|e| EngineError::damage(format!("key {key:?}: {e}")))?;
    Ok((text.to_owned(), value.to_vec()))
}

fn error(error: sled::Error) -> EngineError {
    match error {
        sled::Error::Io(e) => EngineError::io(&e, ""),
        other => EngineError::damage(other.to_string()),
    }
}

/// The files of an open database.
struct Files {
    log: File,
    blobs: PathBuf,
    /// Blobs that are on the disk.
    synced: BTreeSet<OsString>,
    /// The log has space up to here.
    taken: u64,
    /// Its length then: sled cuts it off, and its space with it.
    length: u64,
}

impl Files {
    /// Of the database in `dir`. Everything that opening it wrote is on the disk then.
    fn of(dir: &Path) -> Result<Self, EngineError> {
        let log = File::options()
            .read(true)
            .write(true)
            .open(dir.join("db"))
            .map_err(|e| EngineError::io(&e, "opening its log"))?;
        let mut files = Self { log, blobs: dir.join("blobs"), synced: BTreeSet::new(), taken: 0, length: 0 };
        files.sync_blobs()?;
        files.log.sync_all().map_err(|e| EngineError::io(&e, "syncing its log"))?;
        for written in [dir.join("conf"), dir.to_owned()] {
            sync(&written).map_err(|e| EngineError::io(&e, "syncing its directory"))?;
        }
        Ok(files)
    }

    /// Takes space behind the end of the log, and checks that there is some for what sled may write into blobs.
    fn prepare(&mut self, octets: u64) -> Result<(), EngineError> {
        let failed = |e: io::Error| EngineError::io(&e, "taking space for its log");
        let length = self.log.metadata().map_err(failed)?.len();
        if length < self.length || length + LEAST_AHEAD + octets > self.taken {
            let taken = length + AHEAD + octets;
            // The first time, holes before the end are filled as well.
            let from = if self.taken == 0 { 0 } else { length };
            match fallocate(&self.log, FallocateFlags::FALLOC_FL_KEEP_SIZE, from as i64, (taken - from) as i64) {
                // A file system that cannot do that.
                Ok(()) | Err(Errno::EOPNOTSUPP) => self.taken = taken,
                Err(e) => return Err(failed(e.into())),
            }
        }
        self.length = length;
        let mut in_blobs = LEAST_FOR_BLOBS + octets;
        for blob in &self.synced {
            in_blobs += fs::metadata(self.blobs.join(blob)).map_or(0, |blob| blob.len());
        }
        let disk = statvfs(&self.blobs).map_err(|e| failed(e.into()))?;
        let free = disk.blocks_available() * disk.fragment_size();
        if free < 2 * in_blobs { Err(failed(io::ErrorKind::StorageFull.into())) } else { Ok(()) }
    }

    /// Puts what sled has flushed on the disk.
    fn sync(&mut self) -> Result<(), EngineError> {
        self.sync_blobs()?;
        self.log.sync_data().map_err(|e| EngineError::io(&e, "syncing its log"))
    }

    /// sled leaves large nodes of its tree to the kernel, in files of their own that are written once, and the log refers to them. A
    /// commit of a few octets may write such a node again. There are none where no value has hundreds of kilobytes.
    fn sync_blobs(&mut self) -> Result<(), EngineError> {
        let failed = |e: io::Error| EngineError::io(&e, "syncing its blobs");
        let names = fs::read_dir(&self.blobs).map_err(failed)?.map(|blob| Ok(blob?.file_name()));
        let present = names.collect::<io::Result<BTreeSet<OsString>>>().map_err(failed)?;
        let is_new = present.difference(&self.synced).next().is_some();
        for blob in present.difference(&self.synced) {
            match sync(&self.blobs.join(blob)) {
                // Replaced meanwhile.
                Err(e) if e.kind() == io::ErrorKind::NotFound => {}
                done => done.map_err(failed)?,
            }
        }
        self.synced = present;
        if is_new { sync(&self.blobs).map_err(failed) } else { Ok(()) }
    }
}

fn sync(path: &Path) -> io::Result<()> {
    File::open(path).and_then(|f| f.sync_all())
}
