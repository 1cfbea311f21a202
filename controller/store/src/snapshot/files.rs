// SPDX-License-Identifier: Apache-2.0
//! The directory of backups: each is written atomically, the newest few are kept.

use std::fs::{self, File};
use std::io::{BufReader, BufWriter};
use std::path::{Path, PathBuf};

use crate::replace::replace;
use crate::{Backup, Snapshot, StoreError};

/// Backups kept.
const KEPT_SNAPSHOTS: usize = 5;
const SUFFIX: &str = ".snapshot";

/// A directory of backups named by revision.
pub(crate) struct SnapshotDir {
    dir: PathBuf,
    /// Of the entries that are written, and the latest that is read.
    format: u32,
}

impl SnapshotDir {
    pub(crate) fn open(dir: PathBuf, format: u32) -> Result<Self, StoreError> {
        fs::create_dir_all(&dir).map_err(StoreError::io("creating backup directory", &dir))?;
        Ok(Self { dir, format })
    }

    /// The newest valid backup; invalid ones are logged and skipped.
    pub(crate) fn newest(&self) -> Option<(PathBuf, Snapshot)> {
        self.files().into_iter().rev().find_map(|path| match self.read(&path) {
            Ok(snapshot) => Some((path, snapshot)),
            Err(error) => {
                tracing::error!(path = %path.display(), %error, "backup is not usable, trying the one before");
                None
            }
        })
    }

    /// The newest backup, without reading what is in it; `None` without one, or if the directory cannot be read.
    pub(crate) fn last(&self) -> Option<Backup> {
        let path = self.files().pop()?;
        let revision = path.file_stem()?.to_str()?.parse().ok()?;
        Some(Backup { revision, at: fs::metadata(&path).ok()?.modified().ok()? })
    }

    /// Writes a backup durably, then drops the oldest beyond [`KEPT_SNAPSHOTS`].
    pub(crate) fn save(&self, snapshot: &Snapshot) -> Result<(), StoreError> {
        let path = self.dir.join(format!("{:020}{SUFFIX}", snapshot.revision));
        let write = |file: &File| snapshot.write_as(&mut BufWriter::new(file), self.format);
        replace(&path, write).map_err(StoreError::io("writing backup", &path))?;
        let files = self.files();
        for old in &files[..files.len().saturating_sub(KEPT_SNAPSHOTS)] {
            fs::remove_file(old).map_err(StoreError::io("removing old backup", old))?;
        }
        Ok(())
    }

    fn files(&self) -> Vec<PathBuf> {
        let Ok(dir) = fs::read_dir(&self.dir) else { return Vec::new() };
        let mut files: Vec<PathBuf> =
            dir.filter_map(|e| Some(e.ok()?.path())).filter(|p| p.to_string_lossy().ends_with(SUFFIX)).collect();
        files.sort();
        files
    }

    fn read(&self, path: &Path) -> Result<Snapshot, StoreError> {
        let file = File::open(path).map_err(StoreError::io("reading backup", path))?;
        Ok(Snapshot::read_as(&mut BufReader::new(file), self.format)?.1)
    }
}
