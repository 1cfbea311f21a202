// SPDX-License-Identifier: Apache-2.0
//! `format` beside the database: which versions of the controller read what is in it, and the way back for those that do not.
//!
//! Records gain fields that earlier versions read over, and keep, so that versions may change in either order. A change that breaks that raises
//! [`FORMAT`]. The first start of such a version makes a copy of the store, and earlier versions refuse the store from then on: they would read
//! a part of it, and write over the rest.

use std::fs::File;
use std::io::{BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::replace::replace;
use crate::{Snapshot, StoreError};

/// Format of entries that this version writes: grows by one with each change that earlier versions cannot read.
pub(crate) const FORMAT: u32 = 1;
/// Format of a database with values in [pages](crate::pages), the latest that this version reads. A store takes it with its first such value,
/// which earlier versions would have refused; what is read from it, and so a backup, has the format of its entries.
pub(crate) const PAGED: u32 = 2;
/// Of stores without the file.
const FIRST: u32 = 1;
const FILE: &str = "format";

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Written {
    format: u32,
    /// Version of the controller that raised it.
    #[serde(default)]
    version: String,
    /// A return to the copy from before this format has begun, and not ended.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    is_returning: bool,
}

/// The format that a store has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    format: u32,
    /// The file is there.
    is_written: bool,
}

/// The copy from before a format.
pub(crate) fn copy_before(dir: &Path, format: u32) -> PathBuf {
    dir.join(format!("before-format-{format}.snapshot"))
}

impl Found {
    /// The format of the store in directory `dir`, where `known` is read at most.
    ///
    /// # Errors
    /// It is a later one, a return from it has not ended, or the file cannot be read.
    pub(crate) fn open(dir: &Path, known: u32) -> Result<Self, StoreError> {
        let Some(Written { format, version, is_returning }) = read(dir)? else {
            return Ok(Self { format: FIRST, is_written: false });
        };
        if is_returning {
            return Err(StoreError::Returning { path: dir.to_owned() });
        }
        if format <= known {
            return Ok(Self { format, is_written: true });
        }
        let copy = copy_before(dir, format);
        let way_back = if copy.exists() {
            "or give up every change since the upgrade, and return to the copy from before it: canopy-controller store return".to_owned()
        } else {
            "or import an export or backup from before the upgrade into another store.path: canopy-controller store import FILE".to_owned()
        };
        Err(StoreError::LaterFormat { path: dir.to_owned(), format, version, known, way_back })
    }

    /// Records that `known` is written from now on, if it is the later one. A store of an earlier format that is not empty is copied before.
    ///
    /// # Errors
    /// The files cannot be written.
    pub(crate) fn raise(
        self,
        dir: &Path,
        known: u32,
        content: impl FnOnce() -> Result<Snapshot, StoreError>,
    ) -> Result<Self, StoreError> {
        let known = known.max(self.format);
        if self.format == known && self.is_written {
            return Ok(self);
        }
        if self.format < known {
            let snapshot = content()?;
            if snapshot.revision > 0 {
                let path = copy_before(dir, known);
                let write = |file: &File| snapshot.write_as(&mut BufWriter::new(file), self.format);
                replace(&path, write).map_err(StoreError::io("copying the store to", &path))?;
                tracing::info!(from = self.format, to = known, copy = %path.display(), "the store changes its format: earlier versions do not read it any more");
            }
        }
        match write(dir, &Written::by_this_version(known)) {
            // Commits are refused until there is space, and the format is no other one.
            Err(StoreError::Full { .. }) if self.format == known => Ok(self),
            done => done.map(|()| Self { format: known, is_written: true }),
        }
    }
}

/// The copy from before the present format, and the format that it has.
///
/// # Errors
/// There is none, or its format is later than `known`.
pub(crate) fn copy(dir: &Path, known: u32) -> Result<(u32, Snapshot), StoreError> {
    let format = read(dir)?.map_or(FIRST, |written| written.format);
    let path = copy_before(dir, format);
    let file = File::open(&path).map_err(StoreError::io("reading the copy from before the upgrade", &path))?;
    Snapshot::read_as(&mut BufReader::new(file), known)
}

/// Records that a return to the copy has begun: no version opens the store until [`end_return`].
pub(crate) fn begin_return(dir: &Path) -> Result<(), StoreError> {
    let there = read(dir)?.unwrap_or(Written { format: FIRST, version: String::new(), is_returning: false });
    write(dir, &Written { is_returning: true, ..there })
}

/// Records that the store is the copy, of this format.
pub(crate) fn end_return(dir: &Path, format: u32) -> Result<(), StoreError> {
    write(dir, &Written::by_this_version(format))
}

fn read(dir: &Path) -> Result<Option<Written>, StoreError> {
    let path = dir.join(FILE);
    match std::fs::read(&path) {
        Ok(text) => {
            let damaged = |error| StoreError::failed("opening", format!("{} is damaged: {error}", path.display()));
            serde_json::from_slice(&text).map(Some).map_err(damaged)
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(StoreError::io("reading", &path)(error)),
    }
}

impl Written {
    fn by_this_version(format: u32) -> Self {
        Self { format, version: env!("CARGO_PKG_VERSION").into(), is_returning: false }
    }
}

fn write(dir: &Path, written: &Written) -> Result<(), StoreError> {
    let path = dir.join(FILE);
    let text = serde_json::to_string(written).unwrap_or_default();
    replace(&path, |mut file| writeln!(file, "{text}")).map_err(StoreError::io("writing", &path))
}

#[cfg(test)]
pub(crate) mod tests {
    use crate::{EmbeddedStore, EngineKind, Op, Revision, Store, StoreError};

    pub(crate) fn put(store: &EmbeddedStore, key: &str) -> Revision {
        let op = Op::Put { key: key.into(), value: b"x".to_vec() };
        store.commit(store.revision().unwrap(), &[op]).unwrap()
    }

    pub(crate) fn keys(store: &EmbeddedStore) -> Vec<String> {
        store.scan("").unwrap().entries.into_iter().map(|(key, _)| key).collect()
    }

    /// Catches an earlier controller that opens what a later one has written, and one that cannot go back.
    #[test]
    fn an_earlier_version_refuses_a_later_format_and_returns_to_the_copy_from_before_it() {
        for kind in EngineKind::ALL {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("store");
            let open = |format| EmbeddedStore::open_at(&path, kind, format, format);
            let first = put(&open(1).unwrap(), "a");
            // The same version again, and then the later one, which writes what the earlier one cannot read.
            drop(open(1).unwrap());
            let last = put(&open(2).unwrap(), "b");
            drop(open(2).unwrap());
            let refused = open(1).map(|_| ()).unwrap_err().to_string();
            for part in ["format 2", "reads 1 at most", env!("CARGO_PKG_VERSION"), "canopy-controller store return"] {
                assert!(refused.contains(part), "{refused}");
            }
            assert_eq!(keys(&open(2).unwrap()), ["a", "b"], "a refusal changes nothing");
            // With settings of another engine there would be two databases afterwards, of which neither engine opens one.
            let other = EngineKind::ALL.into_iter().find(|other| *other != kind).unwrap();
            let refused = EmbeddedStore::return_as(&path, other, 1).unwrap_err();
            assert!(matches!(refused, StoreError::OtherEngine { .. }), "{refused}");

            let (revision, aside) = EmbeddedStore::return_as(&path, kind, 1).unwrap();
            assert!(first < last && last < revision, "{first} {last} {revision}");
            // Backups of the later version would be restored after the next damage.
            assert!([kind.dir(), "snapshots"].iter().all(|name| aside.join(name).exists()), "{}", aside.display());
            let store = open(1).unwrap();
            assert_eq!((keys(&store), store.recovery()), (vec!["a".to_owned()], None));
        }
    }

    /// Catches a copy of an empty store, to which no operator wants to return, and a return without a copy.
    #[test]
    fn there_is_no_way_back_from_a_store_that_was_always_of_this_format() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("store");
        put(&EmbeddedStore::open_at(&path, EngineKind::default(), 2, 2).unwrap(), "a");
        let refused = EmbeddedStore::open_at(&path, EngineKind::default(), 1, 1).map(|_| ()).unwrap_err().to_string();
        assert!(refused.contains("canopy-controller store import"), "{refused}");
        assert!(EmbeddedStore::return_as(&path, EngineKind::default(), 1).is_err());
        assert_eq!(keys(&EmbeddedStore::open_at(&path, EngineKind::default(), 2, 2).unwrap()), ["a"]);
    }
}
