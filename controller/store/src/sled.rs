// SPDX-License-Identifier: Apache-2.0
//! The embedded store: sled 0.34.7, pinned, with a workaround for each of its known weaknesses.
//!
//! ```text
//! <store.path>/lock          held for the life of the process, holds its id
//! <store.path>/db/           sled: `m/revision` and `d/<key>`; one atomic batch, one flush and one fdatasync per commit
//! <store.path>/acknowledged  the revision of the last commit that was acknowledged
//! <store.path>/snapshots/    checksummed logical backups named by revision, the newest KEPT_SNAPSHOTS
//! <store.path>/damaged-<n>/  a database that did not open; never deleted by the controller
//! ```
//!
//! sled recovers a torn log by truncating it at the tear, without an error. So a backup newer than the database is treated as damage too,
//! and a database older than what was acknowledged is known to have lost its end: the rest of it is kept.

use std::fs::File;
use std::io::{Read, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard};

use crate::disk::{Disk, Mark};
use crate::snapshot::files::SnapshotDir;
use crate::{Op, RESTORE_GAP, Revision, Snapshot, Store, StoreError, check_ops};

const REVISION_KEY: &[u8] = b"m/revision";
const DATA: &str = "d/";

/// The embedded store.
pub struct SledStore {
    db: sled::Db,
    state: Mutex<State>,
    snapshots: SnapshotDir,
    recovery: Option<Recovery>,
    _lock: File,
}

struct State {
    disk: Disk,
    revision: Revision,
    saved: Revision,
    failed: bool,
}

/// Recovery from a damaged database.
#[derive(Clone, Debug)]
pub struct Recovery {
    /// New path of the damaged database; `None` = it was missing, or it was kept.
    pub quarantined: Option<PathBuf>,
    /// The backup that was restored; `None` = the database was kept, without its end.
    pub restored_from: Option<PathBuf>,
    /// Revision of what there is: later commits are lost.
    pub restored_revision: Revision,
    /// The damage found.
    pub detail: String,
}

impl SledStore {
    /// Opens the store in directory `path`, created with mode 0750 if missing. A damaged database is moved aside and
    /// the newest valid backup restored; see [`SledStore::recovery`].
    ///
    /// # Errors
    /// [`StoreError::Locked`] when another process has it open; [`StoreError::Failed`] when it is damaged and no
    /// backup is valid (nothing is moved then: an empty start would take every group down).
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        make_dir(path)?;
        let lock = lock(path)?;
        let snapshots = SnapshotDir::open(path.join("snapshots"))?;
        let mark = Mark::open(path)?;
        let newest = snapshots.newest();
        let floor = newest.as_ref().map_or(0, |(_, s)| s.revision);
        let dir = path.join("db");
        let (db, revision, recovery) = match open_checked(&dir, floor, mark.revision) {
            Ok((db, revision)) if revision < mark.revision => {
                let acknowledged = mark.revision;
                let detail = format!(
                    "it ends at revision {revision}, and {acknowledged} was acknowledged: the disk has lost the end of its log"
                );
                tracing::error!(store = %path.display(), revision, acknowledged, "the store has lost its last commits: check the disk; changes after this revision have to be made again");
                let r = Recovery { quarantined: None, restored_from: None, restored_revision: revision, detail };
                let revision = leap(&db, acknowledged)?;
                (db, revision, Some(r))
            }
            Ok((db, revision)) => (db, revision, None),
            Err(detail) => {
                let Some((file, snapshot)) = newest else {
                    return Err(StoreError::failed(
                        "opening",
                        format!(
                            "{}: {detail}, and there is no valid backup in {}",
                            dir.display(),
                            path.join("snapshots").display()
                        ),
                    ));
                };
                let quarantined = quarantine(path, &dir)?;
                let (db, revision) = restore(&dir, &snapshot, mark.revision)?;
                tracing::error!(?quarantined, restored_from = %file.display(), revision = snapshot.revision, %detail,
                    "store was damaged: restored the newest backup, changes after it are lost");
                let restored_from = Some(file);
                let r = Recovery { quarantined, restored_from, restored_revision: snapshot.revision, detail };
                (db, revision, Some(r))
            }
        };
        let saved = if recovery.is_some() { 0 } else { floor };
        let mut disk = Disk::of(path, &dir, mark)?;
        if recovery.is_some() {
            disk.commit(revision)?;
        }
        let state = Mutex::new(State { disk, revision, saved, failed: false });
        let store = Self { db, state, snapshots, recovery, _lock: lock };
        store.checkpoint()?;
        Ok(store)
    }

    /// The recovery at opening, if the database was damaged.
    pub fn recovery(&self) -> Option<&Recovery> {
        self.recovery.as_ref()
    }

    fn state(&self) -> Result<MutexGuard<'_, State>, StoreError> {
        let state = self.state.lock().map_err(|_| StoreError::failed("locking", "a thread panicked while writing"))?;
        if state.failed { Err(StoreError::failed("committing earlier", "its outcome is unknown")) } else { Ok(state) }
    }

    fn write(&self, state: &mut State, next: Revision, ops: &[Op]) -> Result<Revision, StoreError> {
        let mut batch = sled::Batch::default();
        for op in ops {
            let key = format!("{DATA}{}", op.key());
            match op {
                Op::Put { value, .. } => batch.insert(key.as_bytes(), value.as_slice()),
                Op::Delete { .. } => batch.remove(key.as_bytes()),
            }
        }
        batch.insert(REVISION_KEY, &next.to_be_bytes());
        // Set before writing: after a panic or error in sled the outcome is unknown.
        state.failed = true;
        let done = guarded(|| self.db.apply_batch(batch).and_then(|()| self.db.flush()));
        done.map_err(|e| StoreError::failed("committing", e))?;
        state.disk.commit(next)?;
        state.failed = false;
        state.revision = next;
        Ok(next)
    }
}

impl Store for SledStore {
    fn revision(&self) -> Result<Revision, StoreError> {
        Ok(self.state()?.revision)
    }

    fn commit(&self, expected: Revision, ops: &[Op]) -> Result<Revision, StoreError> {
        check_ops(ops)?;
        let mut state = self.state()?;
        if state.revision != expected {
            return Err(StoreError::Conflict { expected, actual: state.revision });
        }
        self.write(&mut state, expected + 1, ops)
    }

    fn scan(&self, prefix: &str) -> Result<Snapshot, StoreError> {
        let state = self.state()?;
        let entries = guarded(|| entries(&self.db, prefix)).map_err(|e| StoreError::failed("scanning", e))?;
        Ok(Snapshot { revision: state.revision, entries })
    }

    fn import(&self, snapshot: &Snapshot) -> Result<Revision, StoreError> {
        let mut state = self.state()?;
        let present = guarded(|| entries(&self.db, "")).map_err(|e| StoreError::failed("scanning", e))?.len();
        if present != 0 {
            return Err(StoreError::NotEmpty(present));
        }
        let next = state.revision.max(snapshot.revision) + RESTORE_GAP;
        self.write(&mut state, next, &puts(snapshot))
    }

    fn checkpoint(&self) -> Result<(), StoreError> {
        let saved = self.state()?.saved;
        if self.revision()? == saved {
            return Ok(());
        }
        let snapshot = self.scan("")?;
        self.snapshots.save(&snapshot)?;
        self.state()?.saved = snapshot.revision;
        Ok(())
    }
}

fn puts(snapshot: &Snapshot) -> Vec<Op> {
    snapshot.entries.iter().map(|(key, value)| Op::Put { key: key.clone(), value: value.clone() }).collect()
}

/// Runs an engine call and turns panics into errors, because sled asserts on damaged files.
fn guarded<T>(call: impl FnOnce() -> Result<T, sled::Error>) -> Result<T, String> {
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(done) => done.map_err(|e| e.to_string()),
        Err(panic) => {
            let message = panic
                .downcast_ref::<String>()
                .cloned()
                .or_else(|| panic.downcast_ref::<&str>().map(|s| (*s).to_owned()));
            Err(format!("it panicked: {}", message.unwrap_or_else(|| "no message".into())))
        }
    }
}

fn open_db(dir: &Path) -> Result<sled::Db, sled::Error> {
    // Every commit flushes; sled's timer would only hide a missing flush.
    sled::Config::new().path(dir).flush_every_ms(None).cache_capacity(64 << 20).open()
}

/// Opens the database and reads it once, so that damage is found here and not during a commit.
fn open_checked(dir: &Path, floor: Revision, acknowledged: Revision) -> Result<(sled::Db, Revision), String> {
    let db = guarded(|| open_db(dir))?;
    guarded(|| entries(&db, ""))?;
    let revision = match guarded(|| db.get(REVISION_KEY))? {
        None => 0,
        Some(v) => {
            Revision::from_be_bytes(v.as_ref().try_into().map_err(|_| "its revision is not 8 bytes".to_owned())?)
        }
    };
    if revision < floor {
        return Err(format!(
            "it is at revision {revision}, older than its newest backup at {floor}: its log was cut or the directory replaced"
        ));
    }
    if revision == 0 && acknowledged > 0 {
        return Err(format!("it is empty, and revision {acknowledged} was acknowledged"));
    }
    Ok((db, revision))
}

fn entries(db: &sled::Db, prefix: &str) -> Result<Vec<(String, Vec<u8>)>, sled::Error> {
    db.scan_prefix(format!("{DATA}{prefix}"))
        .map(|entry| {
            let (k, v) = entry?;
            let key = std::str::from_utf8(&k[DATA.len()..])
                .map_err(|e| sled::Error::Unsupported(format!("key {k:?}: {e}")))?;
            Ok((key.to_owned(), v.to_vec()))
        })
        .collect()
}

/// A revision that no lost commit had.
fn leap(db: &sled::Db, acknowledged: Revision) -> Result<Revision, StoreError> {
    let revision = acknowledged + RESTORE_GAP;
    let done = guarded(|| db.insert(REVISION_KEY, &revision.to_be_bytes()).and_then(|_| db.flush()));
    done.map_err(|e| StoreError::failed("continuing after lost commits", e))?;
    Ok(revision)
}

fn restore(dir: &Path, snapshot: &Snapshot, acknowledged: Revision) -> Result<(sled::Db, Revision), StoreError> {
    let revision = snapshot.revision.max(acknowledged) + RESTORE_GAP;
    let db = guarded(|| {
        let db = open_db(dir)?;
        let mut batch = sled::Batch::default();
        for (key, value) in &snapshot.entries {
            batch.insert(format!("{DATA}{key}").as_bytes(), value.as_slice());
        }
        batch.insert(REVISION_KEY, &revision.to_be_bytes());
        db.apply_batch(batch)?;
        db.flush()?;
        Ok(db)
    });
    Ok((db.map_err(|e| StoreError::failed("restoring a backup", e))?, revision))
}

fn quarantine(path: &Path, dir: &Path) -> Result<Option<PathBuf>, StoreError> {
    if !dir.exists() {
        return Ok(None);
    }
    let free = (1u32..)
        .map(|n| path.join(format!("damaged-{n}")))
        .find(|p| !p.exists())
        .expect("u32 names cannot all be taken");
    std::fs::rename(dir, &free).map_err(StoreError::io("moving the damaged database to", &free))?;
    Ok(Some(free))
}

fn make_dir(path: &Path) -> Result<(), StoreError> {
    use std::os::unix::fs::DirBuilderExt;
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o750)
        .create(path)
        .map_err(StoreError::io("creating store directory", path))
}

/// One process per store. sled has a lock too, but its error does not name the holder.
fn lock(path: &Path) -> Result<File, StoreError> {
    let file = path.join("lock");
    let io = |e| StoreError::io("locking", &file)(e);
    let mut f = File::options().create(true).truncate(false).read(true).write(true).open(&file).map_err(io)?;
    match f.try_lock() {
        Ok(()) => {}
        Err(std::fs::TryLockError::WouldBlock) => {
            let mut pid = String::new();
            let holder = match f.read_to_string(&mut pid) {
                Ok(_) if pid.trim().parse::<u32>().is_ok() => format!("process {}", pid.trim()),
                _ => "another process".into(),
            };
            return Err(StoreError::Locked { path: path.into(), holder });
        }
        Err(std::fs::TryLockError::Error(e)) => return Err(io(e)),
    }
    f.set_len(0).map_err(io)?;
    writeln!(f, "{}", std::process::id()).map_err(io)?;
    Ok(f)
}
