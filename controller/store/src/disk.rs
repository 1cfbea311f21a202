// SPDX-License-Identifier: Apache-2.0
//! What makes a commit survive a power cut, which sled's own flush does not: on Linux it calls `sync_file_range`, which writes neither
//! the file's size nor its extents, and leaves the data in the disk's cache.
//!
//! `acknowledged` beside the database has the revision of the last commit that was acknowledged. A log whose end is missing opens
//! without an error; by this mark that is known.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::{Revision, StoreError};

/// Distance of the mark's two records, octets: a write that is torn damages one of them.
const APART: u64 = 4096;
const MAGIC: [u8; 4] = *b"CSM1";
const RECORD: usize = 16;

/// The files of an open database.
pub(crate) struct Disk {
    log: File,
    blobs: PathBuf,
    /// Blobs that are on the disk.
    synced: BTreeSet<OsString>,
    mark: Mark,
}

impl Disk {
    /// Of the database in `dir`, which is open, in the store at `path`. Everything that opening it wrote is on the disk then.
    pub(crate) fn of(path: &Path, dir: &Path, mark: Mark) -> Result<Self, StoreError> {
        let file = dir.join("db");
        let log = File::open(&file).map_err(StoreError::io("opening", &file))?;
        let mut disk = Self { log, blobs: dir.join("blobs"), synced: BTreeSet::new(), mark };
        disk.sync_blobs()?;
        disk.log.sync_all().map_err(StoreError::io("syncing", &file))?;
        for written in [dir.join("conf"), dir.to_owned(), path.to_owned()] {
            sync(&written)?;
        }
        Ok(disk)
    }

    /// Puts what sled has flushed on the disk, and then the revision of the commit.
    pub(crate) fn commit(&mut self, next: Revision) -> Result<(), StoreError> {
        self.sync_blobs()?;
        self.log.sync_data().map_err(StoreError::io("syncing the log beside", &self.blobs))?;
        self.mark.set(next)
    }

    /// sled leaves large nodes of its tree to the kernel, in files of their own that are written once, and the log refers to them. A
    /// commit of a few octets may write such a node again. There are none where no value has hundreds of kilobytes.
    fn sync_blobs(&mut self) -> Result<(), StoreError> {
        let io = |e| StoreError::io("reading", &self.blobs)(e);
        let names = fs::read_dir(&self.blobs).map_err(io)?.map(|blob| Ok(blob?.file_name()));
        let present = names.collect::<std::io::Result<BTreeSet<OsString>>>().map_err(io)?;
        let is_new = present.difference(&self.synced).next().is_some();
        for blob in present.difference(&self.synced) {
            match sync(&self.blobs.join(blob)) {
                // Replaced meanwhile.
                Err(StoreError::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {}
                done => done?,
            }
        }
        self.synced = present;
        if is_new { sync(&self.blobs) } else { Ok(()) }
    }
}

fn sync(path: &Path) -> Result<(), StoreError> {
    File::open(path).and_then(|f| f.sync_all()).map_err(StoreError::io("syncing", path))
}

/// The revision of the last acknowledged commit, in two records that are written in turn.
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
            create(dir, &path)?;
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

/// As a whole, with a record: a new store has no mark that a cut left half written.
fn create(dir: &Path, path: &Path) -> Result<(), StoreError> {
    let half = path.with_extension("half");
    let written = File::create(&half).and_then(|file| {
        file.write_all_at(&record(0), 0)?;
        file.sync_all()
    });
    written.and_then(|()| fs::rename(&half, path)).map_err(StoreError::io("creating", path))?;
    sync(dir)
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
