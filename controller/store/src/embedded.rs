// SPDX-License-Identifier: Apache-2.0
//! The embedded store: one of the [engines](EngineKind), and around it what no engine has: the mark of what was acknowledged, backups,
//! recovery after damage, and a full disk that loses nothing.
//!
//! ```text
//! <store.path>/lock          held for the life of the process, holds its id
//! <store.path>/db/, redb/    the database, of the one or the other engine
//! <store.path>/acknowledged  the revision of the last commit that was acknowledged
//! <store.path>/reserve       space for the commit that finds the disk full
//! <store.path>/snapshots/    checksummed logical backups named by revision, the newest KEPT_SNAPSHOTS
//! <store.path>/incidents/    problems of the last time with their charts: not a part of the store, and not of a backup
//! <store.path>/format        which versions read the database; before-format-<n>.snapshot is the way back for others
//! <store.path>/damaged-<n>/  a database that did not open; never deleted by the controller
//! <store.path>/later-<n>/    database and backups of a later version, after a return to the copy from before it
//! <store.path>/returning/    the database that such a return makes, until it is whole
//! <store.path>/recovered     that commits are lost, until an operator takes note
//! ```
//!
//! A database may open without an error although its end is missing. So a backup newer than the database is treated as damage too, and
//! a database older than what was acknowledged is known to have lost its end: the rest of it is kept.

use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::engine::{Cause, Engine, EngineError};
use crate::format::{FORMAT, Found, PAGED};
use crate::mark::{Mark, Marker};
use crate::pages::{Pages, Turned};
use crate::recovery::{self, Recovery};
use crate::reserve::{Reserve, is_full};
use crate::snapshot::files::SnapshotDir;
use crate::store::keys_below;
use crate::{Backup, EngineKind, ORDINARY_OCTETS, Op, RESTORE_GAP, Revision, Snapshot, Store, StoreError, check_ops};

/// Directory of backups.
pub(crate) const SNAPSHOTS: &str = "snapshots";

/// The embedded store.
pub struct EmbeddedStore {
    path: PathBuf,
    kind: EngineKind,
    state: Mutex<State>,
    snapshots: SnapshotDir,
    recovery: Option<Recovery>,
    _lock: File,
}

struct State {
    /// `None` after an error: what it holds is not known.
    engine: Option<Box<dyn Engine>>,
    marker: Marker,
    reserve: Reserve,
    revision: Revision,
    pages: Pages,
    format: Found,
    /// Of the newest backup.
    saved: Revision,
}

/// A database that was opened, with its pages, at its revision, and what was lost.
type Opened = (Box<dyn Engine>, Pages, Revision, Option<Recovery>);

impl EmbeddedStore {
    /// Opens the store in directory `path`, created with mode 0750 if missing. A damaged database is moved aside and
    /// the newest valid backup restored; see [`Store::recovery`].
    ///
    /// # Errors
    /// [`StoreError::Locked`] when another process has it open; [`StoreError::OtherEngine`] when its database is one of the other engine;
    /// [`StoreError::LaterFormat`] when a later version has written what this one cannot read; [`StoreError::Returning`] when a return from there
    /// has not ended;
    /// [`StoreError::Full`] when the disk has no space even to open it; [`StoreError::Failed`] when it is damaged and no backup is
    /// valid (nothing is moved then: an empty start would take every group down), or when the system refuses the files.
    pub fn open(path: &Path, kind: EngineKind) -> Result<Self, StoreError> {
        Self::open_at(path, kind, FORMAT, PAGED)
    }

    /// As a version that reads `known` at most, and writes `format` until a store needs more.
    pub(crate) fn open_at(path: &Path, kind: EngineKind, format: u32, known: u32) -> Result<Self, StoreError> {
        make_dir(path)?;
        let lock = lock(path)?;
        let found = Found::open(path, known)?;
        refuse_other_engine(path, kind)?;
        let snapshots = SnapshotDir::open(path.join(SNAPSHOTS), format)?;
        let mut mark = Mark::open(path)?;
        let mut reserve = Reserve::of(path);
        let newest = snapshots.newest();
        let floor = newest.as_ref().map_or(0, |(_, s)| s.revision);
        let (engine, pages, revision, lost) = open_or_restore(path, kind, &mut reserve, newest, mark.revision)?;
        let saved = if lost.is_some() { 0 } else { floor };
        if lost.is_some() {
            mark.set(revision)?;
        }
        let recovery = lost.or_else(|| recovery::recorded(path));
        let marker = Marker::new(mark)?;
        let mut state = State { engine: Some(engine), marker, reserve, revision, pages, format: found, saved };
        state.raise(path, format)?;
        let state = Mutex::new(state);
        let store = Self { path: path.to_owned(), kind, state, snapshots, recovery, _lock: lock };
        match store.ready() {
            // Until there is space, commits are refused.
            Err(error @ StoreError::Full { .. }) => tracing::error!(%error, "the store is read-only"),
            done => done?,
        }
        if let Err(error) = store.checkpoint() {
            tracing::error!(%error, store = %path.display(), "cannot write a backup of the store; the store itself is whole");
        }
        Ok(store)
    }

    fn state(&self) -> Result<MutexGuard<'_, State>, StoreError> {
        self.state.lock().map_err(|_| StoreError::failed("locking", "a thread panicked while writing"))
    }

    fn write(&self, state: &mut State, next: Revision, ops: &[Op]) -> Result<Revision, StoreError> {
        state.reserve.take()?;
        let turned = state.pages.turn(ops);
        if turned.has_pages() {
            state.raise(&self.path, PAGED)?;
        }
        let octets = turned.octets();
        self.check_space(octets)?;
        // Taken out before writing: after an error or a panic its content is not known.
        let mut engine = state.engine.take().ok_or_else(unknown)?;
        if let Err(error) = engine.prepare(octets) {
            state.engine = Some(engine);
            return Err(error.of_store("committing", &self.path));
        }
        let Turned { ops, values } = turned;
        let engine = match engine.write(next, &ops) {
            Ok(()) => engine,
            Err(error) => {
                if error.cause != Cause::Full || !engine.opens_again() {
                    return Err(StoreError::failed("committing", error.detail));
                }
                drop(engine);
                self.write_into_reserve(state, next, &ops)?
            }
        };
        state.engine = Some(engine);
        state.pages.keep(values);
        state.marker.acknowledge(next)?;
        state.revision = next;
        Ok(next)
    }

    /// Completes a commit for which the disk had no space: whether it was written is seen in the database, opened anew.
    fn write_into_reserve(&self, state: &mut State, next: Revision, ops: &[Op]) -> Result<Box<dyn Engine>, StoreError> {
        tracing::error!(store = %self.path.display(), "the disk is full: completing this commit in the space that was kept for it; the store is read-only then");
        state.reserve.free();
        let failed = |error: EngineError| StoreError::failed("committing on a full disk", error.detail);
        let mut engine = self.kind.open(&self.path.join(self.kind.dir())).map_err(failed)?;
        let found = engine.revision().map_err(failed)?;
        if found == state.revision {
            engine.write(next, ops).map_err(failed)?;
        } else if found != next {
            let detail = format!("it is at revision {found}, neither before nor after the commit of {next}");
            return Err(StoreError::failed("committing on a full disk", detail));
        }
        Ok(engine)
    }

    /// A transaction for which the reserve may be too small is written only where there is space beside it.
    fn check_space(&self, octets: u64) -> Result<(), StoreError> {
        if octets <= ORDINARY_OCTETS as u64 {
            return Ok(());
        }
        let disk = nix::sys::statvfs::statvfs(&self.path).map_err(std::io::Error::from);
        let disk = disk.map_err(StoreError::io("reading the free space at", &self.path))?;
        if disk.blocks_available() * disk.fragment_size() < octets * 4 {
            return Err(StoreError::Full { path: self.path.clone() });
        }
        Ok(())
    }
}

fn unknown() -> StoreError {
    StoreError::failed("committing earlier", "its outcome is unknown")
}

impl State {
    fn entries(&self, prefix: &str) -> Result<Vec<(String, Vec<u8>)>, StoreError> {
        let engine = &**self.engine.as_ref().ok_or_else(unknown)?;
        let entries = engine.entries(prefix).and_then(|entries| self.pages.join(prefix, entries, engine));
        entries.map_err(|e| StoreError::failed("scanning", e.detail))
    }

    /// Records that `format` is written from now on.
    fn raise(&mut self, path: &Path, format: u32) -> Result<(), StoreError> {
        let content = || Ok(Snapshot { revision: self.revision, entries: self.entries("")? });
        self.format = self.format.raise(path, format, content)?;
        Ok(())
    }
}

impl Store for EmbeddedStore {
    fn revision(&self) -> Result<Revision, StoreError> {
        let state = self.state()?;
        state.engine.as_ref().map(|_| state.revision).ok_or_else(unknown)
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
        Ok(Snapshot { revision: state.revision, entries: state.entries(prefix)? })
    }

    fn newest(&self, prefix: &str, below: Option<&str>, limit: usize) -> Result<Vec<(String, Vec<u8>)>, StoreError> {
        let Some(keys) = keys_below(prefix, below) else { return Ok(Vec::new()) };
        let state = self.state()?;
        let engine = &**state.engine.as_ref().ok_or_else(unknown)?;
        let newest = state.pages.newest((&keys.start, &keys.end), limit, engine);
        newest.map_err(|e| StoreError::failed("reading the newest entries", e.detail))
    }

    fn import(&self, snapshot: &Snapshot) -> Result<Revision, StoreError> {
        let mut state = self.state()?;
        let present = state.entries("")?.len();
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

    fn ready(&self) -> Result<(), StoreError> {
        let mut state = self.state()?;
        state.reserve.take()?;
        let engine = state.engine.as_mut().ok_or_else(unknown)?;
        engine.prepare(ORDINARY_OCTETS as u64).map_err(|e| e.of_store("committing", &self.path))
    }

    fn beside(&self) -> Option<&Path> {
        Some(&self.path)
    }

    fn engine(&self) -> &'static str {
        self.kind.name()
    }

    fn octets(&self) -> Option<u64> {
        octets_below(&self.path.join(self.kind.dir())).ok()
    }

    fn last_backup(&self) -> Option<Backup> {
        self.snapshots.last()
    }

    fn recovery(&self) -> Option<Recovery> {
        self.recovery.clone().filter(|_| recovery::recorded(&self.path).is_some())
    }
}

/// Octets of all files in a directory: a database has tens, or one per value of hundreds of kilobytes.
fn octets_below(directory: &Path) -> std::io::Result<u64> {
    let mut octets = 0;
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        octets += if entry.file_type()?.is_dir() { octets_below(&entry.path())? } else { entry.metadata()?.len() };
    }
    Ok(octets)
}

pub(crate) fn puts(snapshot: &Snapshot) -> Vec<Op> {
    snapshot.entries.iter().map(|(key, value)| Op::Put { key: key.clone(), value: value.clone() }).collect()
}

/// The database, or the newest backup in its place if it is damaged.
fn open_or_restore(
    path: &Path,
    kind: EngineKind,
    reserve: &mut Reserve,
    newest: Option<(PathBuf, Snapshot)>,
    acknowledged: Revision,
) -> Result<Opened, StoreError> {
    let dir = path.join(kind.dir());
    let floor = newest.as_ref().map_or(0, |(_, s)| s.revision);
    let mut opened = open_checked(kind, &dir, floor, acknowledged);
    if opened.as_ref().is_err_and(|e| e.cause == Cause::Full) {
        tracing::error!(store = %path.display(), "the disk is full: opening the store in the space that was kept for it");
        reserve.free();
        opened = open_checked(kind, &dir, floor, acknowledged);
    }
    let damage = match opened {
        Ok((mut engine, pages, revision)) if revision < acknowledged => {
            let detail = format!(
                "the database ends at revision {revision}, and {acknowledged} was acknowledged: the disk has lost its end"
            );
            tracing::error!(store = %path.display(), revision, acknowledged, "the store has lost its last commits: check the disk; changes after this revision have to be made again");
            let (quarantined, restored_from) = (None, None);
            let lost = Recovery { time: now(), quarantined, restored_from, restored_revision: revision, detail };
            // Before the revision that hides the loss from the next start.
            recovery::record(path, &lost)?;
            let next = acknowledged + RESTORE_GAP;
            engine.write(next, &[]).map_err(|e| e.of_store("continuing after lost commits", path))?;
            return Ok((engine, pages, next, Some(lost)));
        }
        Ok((engine, pages, revision)) => return Ok((engine, pages, revision, None)),
        Err(error) if error.cause == Cause::Damage => error.detail,
        Err(error) => return Err(error.of_store("opening", path)),
    };
    let Some((file, snapshot)) = newest else {
        let backups = path.join(SNAPSHOTS);
        let detail = format!("{}: {damage}, and there is no valid backup in {}", dir.display(), backups.display());
        return Err(StoreError::failed("opening", detail));
    };
    let quarantined = quarantine(path, &dir)?;
    tracing::error!(?quarantined, restoring = %file.display(), revision = snapshot.revision, %damage,
        "store was damaged: restoring the newest backup, changes after it are lost");
    let (restored_revision, restored_from) = (snapshot.revision, Some(file));
    let lost = Recovery { time: now(), quarantined, restored_from, restored_revision, detail: damage };
    recovery::record(path, &lost)?;
    let next = snapshot.revision.max(acknowledged) + RESTORE_GAP;
    let (entries, mut pages) = (puts(&snapshot), Pages::default());
    let Turned { ops, values } = pages.turn(&entries);
    let restored = kind.open(&dir).and_then(|mut engine| {
        engine.write(next, &ops)?;
        Ok(engine)
    });
    let engine = restored.map_err(|e| e.of_store("restoring a backup", path))?;
    pages.keep(values);
    Ok((engine, pages, next, Some(lost)))
}

/// Opens the database and reads it once, so that damage is found here and not during a commit.
fn open_checked(
    kind: EngineKind,
    dir: &Path,
    floor: Revision,
    acknowledged: Revision,
) -> Result<(Box<dyn Engine>, Pages, Revision), EngineError> {
    let engine = kind.open(dir)?;
    let pages = Pages::of(&engine.entries("")?)?;
    let revision = engine.revision()?;
    if revision < floor {
        return Err(EngineError::damage(format!(
            "it is at revision {revision}, older than its newest backup at {floor}: its log was cut or the directory replaced"
        )));
    }
    if revision == 0 && acknowledged > 0 {
        return Err(EngineError::damage(format!("it is empty, and revision {acknowledged} was acknowledged")));
    }
    Ok((engine, pages, revision))
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

fn quarantine(path: &Path, dir: &Path) -> Result<Option<PathBuf>, StoreError> {
    if !dir.exists() {
        return Ok(None);
    }
    let free = free_name(path, "damaged");
    std::fs::rename(dir, &free).map_err(StoreError::io("moving the damaged database to", &free))?;
    Ok(Some(free))
}

pub(crate) fn free_name(path: &Path, prefix: &str) -> PathBuf {
    let mut names = (1u32..).map(|n| path.join(format!("{prefix}-{n}")));
    names.find(|p| !p.exists()).expect("u32 names cannot all be taken")
}

pub(crate) fn make_dir(path: &Path) -> Result<(), StoreError> {
    use std::os::unix::fs::DirBuilderExt;
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o750)
        .create(path)
        .map_err(StoreError::io("creating store directory", path))
}

/// An empty database beside one of the other engine would take every group down.
pub(crate) fn refuse_other_engine(path: &Path, kind: EngineKind) -> Result<(), StoreError> {
    let other = EngineKind::ALL.into_iter().find(|other| *other != kind && path.join(other.dir()).exists());
    match other {
        Some(found) => Err(StoreError::OtherEngine { path: path.to_owned(), found, wanted: kind }),
        None => Ok(()),
    }
}

/// One process per store. The engines have locks too, but their errors do not name the holder.
pub(crate) fn lock(path: &Path) -> Result<File, StoreError> {
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
    match f.set_len(0).and_then(|()| writeln!(f, "{}", std::process::id())) {
        // The lock holds without the number, which only an error of another process names.
        Err(e) if is_full(&e) => {}
        written => written.map_err(io)?,
    }
    Ok(f)
}
