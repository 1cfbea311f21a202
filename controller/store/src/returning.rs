// SPDX-License-Identifier: Apache-2.0
//! The return to the copy from before a later format: it becomes a database, and takes the place of the one that is there.
//!
//! Nothing of the store changes until that database is whole. From then on no version opens the store until the return has ended: cut off
//! anywhere, it is done again from the beginning.

use std::fs;
use std::path::{Path, PathBuf};

use crate::embedded::{SNAPSHOTS, free_name, lock, make_dir, puts, refuse_other_engine};
use crate::format::{self, PAGED};
use crate::mark::Mark;
use crate::replace::sync_dir_of;
use crate::{EmbeddedStore, EngineKind, RESTORE_GAP, Revision, StoreError};

/// Where the database is made.
const MADE: &str = "returning";

impl EmbeddedStore {
    /// Puts the copy from before the store's present format in its place, and sets database and backups aside. Returns the revision, and where
    /// the rest is.
    ///
    /// # Errors
    /// A process has the store open, it is one of another engine, there is no copy that this version reads, or the files cannot be written: on
    /// a full disk the store stays as it is.
    pub fn return_to_copy(path: &Path, kind: EngineKind) -> Result<(Revision, PathBuf), StoreError> {
        Self::return_as(path, kind, PAGED)
    }

    /// As a version that reads this format.
    pub(crate) fn return_as(path: &Path, kind: EngineKind, known: u32) -> Result<(Revision, PathBuf), StoreError> {
        let _lock = lock(path)?;
        refuse_other_engine(path, kind)?;
        let (format, snapshot) = format::copy(path, known)?;
        let mut mark = Mark::open(path)?;
        let next = snapshot.revision.max(mark.revision) + RESTORE_GAP;
        let made = path.join(MADE);
        discard(&made)?;
        let written = kind.open(&made).and_then(|mut engine| engine.write(next, &puts(&snapshot)));
        if let Err(error) = written {
            // It takes space that the store may need.
            discard(&made)?;
            return Err(error.of_store("returning to a copy", path));
        }
        format::begin_return(path)?;
        let aside = free_name(path, "later");
        make_dir(&aside)?;
        let dir = path.join(kind.dir());
        for (from, name) in [(&dir, kind.dir()), (&path.join(SNAPSHOTS), SNAPSHOTS)] {
            if from.exists() {
                fs::rename(from, aside.join(name)).map_err(StoreError::io("setting aside", from))?;
            }
        }
        fs::rename(&made, &dir).map_err(StoreError::io("placing the copy at", &dir))?;
        // What moved, and where to.
        for at in [&aside.join(SNAPSHOTS), &dir] {
            sync_dir_of(at).map_err(StoreError::io("returning to a copy", at))?;
        }
        mark.set(next)?;
        format::end_return(path, format)?;
        Ok((next, aside))
    }
}

fn discard(dir: &Path) -> Result<(), StoreError> {
    match fs::remove_dir_all(dir) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(StoreError::io("removing", dir)(error)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::tests::{keys, put};
    use crate::{Op, Store};

    /// Catches a store that a version opens while it is neither the earlier nor the later one, and a return that cannot be repeated.
    #[test]
    fn a_return_that_was_cut_off_anywhere_is_refused_by_every_version_until_it_is_done_again() {
        for kind in EngineKind::ALL {
            for cut in 0..4 {
                let dir = tempfile::tempdir().unwrap();
                let path = dir.path().join("store");
                let open = |format| EmbeddedStore::open_at(&path, kind, format, format);
                put(&open(1).unwrap(), "a");
                put(&open(2).unwrap(), "b");
                // As far as it came: the mark, the database aside, the backups aside, and the copy in its place.
                format::begin_return(&path).unwrap();
                let aside = path.join("later-1");
                fs::create_dir(&aside).unwrap();
                for name in [kind.dir(), SNAPSHOTS].into_iter().take(cut) {
                    fs::rename(path.join(name), aside.join(name)).unwrap();
                }
                if cut == 3 {
                    let mut engine = kind.open(&path.join(kind.dir())).unwrap();
                    engine.write(1 << 33, &[Op::Put { key: "a".into(), value: b"x".to_vec() }]).unwrap();
                }
                for format in [1, 2] {
                    let refused = open(format).map(|_| ()).unwrap_err();
                    assert!(matches!(refused, StoreError::Returning { .. }), "{refused}");
                    assert!(refused.to_string().contains("canopy-controller store return"), "{refused}");
                }
                EmbeddedStore::return_as(&path, kind, 1).unwrap();
                let store = open(1).unwrap();
                assert_eq!((keys(&store), store.recovery()), (vec!["a".to_owned()], None), "cut {cut}");
                assert!(!path.join(MADE).exists());
            }
        }
    }

    /// Catches a store that is given up before there is another: here the database cannot be made, as on a full disk.
    #[test]
    fn a_return_that_cannot_make_its_database_changes_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let (path, kind) = (dir.path().join("store"), EngineKind::default());
        put(&EmbeddedStore::open_at(&path, kind, 1, 1).unwrap(), "a");
        put(&EmbeddedStore::open_at(&path, kind, 2, 2).unwrap(), "b");
        fs::write(path.join(MADE), "").unwrap();
        EmbeddedStore::return_as(&path, kind, 1).unwrap_err();
        assert_eq!(keys(&EmbeddedStore::open_at(&path, kind, 2, 2).unwrap()), ["a", "b"]);
    }

    /// Catches a copy that is taken for one of the first format: its own is in it.
    #[test]
    fn a_version_returns_to_no_copy_that_it_does_not_read() {
        let dir = tempfile::tempdir().unwrap();
        let (path, kind) = (dir.path().join("store"), EngineKind::default());
        let open = |format| EmbeddedStore::open_at(&path, kind, format, format);
        put(&open(1).unwrap(), "a");
        put(&open(2).unwrap(), "b");
        put(&open(3).unwrap(), "c");
        let refused = EmbeddedStore::return_as(&path, kind, 1).unwrap_err().to_string();
        assert!(refused.contains("canopy-store/2") && refused.contains("canopy-store/1"), "{refused}");
        assert_eq!(keys(&open(3).unwrap()), ["a", "b", "c"], "a refusal changes nothing");
        EmbeddedStore::return_as(&path, kind, 2).unwrap();
        let refused = open(1).map(|_| ()).unwrap_err();
        assert!(matches!(refused, StoreError::LaterFormat { format: 2, .. }), "{refused}");
        assert_eq!(keys(&open(2).unwrap()), ["a", "b"]);
        EmbeddedStore::return_as(&path, kind, 1).unwrap();
        assert_eq!(keys(&open(1).unwrap()), ["a"]);
    }
}
