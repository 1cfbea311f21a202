// SPDX-License-Identifier: Apache-2.0
//! redb: one file, a B-tree that is copied on write; a transaction ends with one fdatasync. What it holds is checked whole when it is
//! opened, by the checksums of its pages.

use std::fs::{self, File};
use std::ops::Bound;
use std::path::Path;

use redb::{Builder, Database, DatabaseError, Durability, ReadableDatabase, StorageError, TableDefinition};

use super::{Engine, EngineError, guarded};
use crate::{Op, Revision};

const DATA: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("data");
const META: TableDefinition<'_, &str, u64> = TableDefinition::new("meta");
const REVISION: &str = "revision";
/// Memory for pages, octets.
const CACHE: usize = 64 << 20;

pub(super) struct Redb(Database);

impl Redb {
    pub(super) fn open(dir: &Path) -> Result<Self, EngineError> {
        let failed = |e: std::io::Error| EngineError::io(&e, "making its directory");
        fs::create_dir_all(dir).map_err(failed)?;
        let mut builder = Builder::new();
        builder.set_cache_size(CACHE).set_check_integrity_on_open(true);
        let db = builder.create(dir.join("data.redb")).map_err(|e| match e {
            DatabaseError::Storage(e) => storage(e),
            other => EngineError::damage(other.to_string()),
        })?;
        // A reader of a table that was never written would be an error.
        let write = db.begin_write().map_err(other)?;
        write.open_table(DATA).map_err(other)?;
        write.open_table(META).map_err(other)?;
        write.commit().map_err(other)?;
        File::open(dir).and_then(|d| d.sync_all()).map_err(|e| EngineError::io(&e, "syncing its directory"))?;
        Ok(Self(db))
    }
}

impl Engine for Redb {
    fn revision(&self) -> Result<Revision, EngineError> {
        guarded(|| {
            let read = self.0.begin_read().map_err(other)?;
            let meta = read.open_table(META).map_err(other)?;
            Ok(meta.get(REVISION).map_err(other)?.map_or(0, |revision| revision.value()))
        })
    }

    fn entries(&self, prefix: &str) -> Result<Vec<(String, Vec<u8>)>, EngineError> {
        guarded(|| {
            let read = self.0.begin_read().map_err(other)?;
            let data = read.open_table(DATA).map_err(other)?;
            let mut entries = Vec::new();
            for entry in data.range::<&str>((Bound::Included(prefix), Bound::Unbounded)).map_err(other)? {
                let (key, value) = entry.map_err(other)?;
                if !key.value().starts_with(prefix) {
                    break;
                }
                entries.push((key.value().to_owned(), value.value().to_vec()));
            }
            Ok(entries)
        })
    }

    fn newest(&self, from: &str, to: &str, limit: usize) -> Result<Vec<(String, Vec<u8>)>, EngineError> {
        guarded(|| {
            let read = self.0.begin_read().map_err(other)?;
            let data = read.open_table(DATA).map_err(other)?;
            let entries = data.range::<&str>(from..to).map_err(other)?.rev().take(limit);
            let owned = |entry: Result<(redb::AccessGuard<'_, &str>, redb::AccessGuard<'_, &[u8]>), StorageError>| {
                let (key, value) = entry.map_err(other)?;
                Ok((key.value().to_owned(), value.value().to_vec()))
            };
            entries.map(owned).collect()
        })
    }

    /// After an error of the disk it can be opened again, so that the space that the store keeps is enough.
    fn prepare(&mut self, _: u64) -> Result<(), EngineError> {
        Ok(())
    }

    fn opens_again(&self) -> bool {
        true
    }

    fn write(&mut self, next: Revision, ops: &[Op]) -> Result<(), EngineError> {
        guarded(|| {
            let mut write = self.0.begin_write().map_err(other)?;
            write.set_durability(Durability::Immediate).map_err(other)?;
            {
                let mut data = write.open_table(DATA).map_err(other)?;
                for op in ops {
                    match op {
                        Op::Put { key, value } => data.insert(key.as_str(), value.as_slice()).map_err(other)?,
                        Op::Delete { key } => data.remove(key.as_str()).map_err(other)?,
                    };
                }
                write.open_table(META).map_err(other)?.insert(REVISION, next).map_err(other)?;
            }
            write.commit().map_err(other)
        })
    }
}

fn storage(error: StorageError) -> EngineError {
    match error {
        StorageError::Io(e) => EngineError::io(&e, ""),
        other => EngineError::damage(other.to_string()),
    }
}

fn other(error: impl Into<redb::Error>) -> EngineError {
    match error.into() {
        redb::Error::Io(e) => EngineError::io(&e, ""),
        other => EngineError::damage(other.to_string()),
    }
}
