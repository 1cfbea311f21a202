// SPDX-License-Identifier: Apache-2.0
//! `reserve` beside the database: space that is kept free, so that a commit that has begun can be completed on a disk that is full, and
//! the database can be opened there. While it is missing, commits are refused.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use nix::fcntl::{FallocateFlags, fallocate};

use crate::StoreError;

/// Its size, octets: several times what opening a database and one ordinary commit write.
const RESERVE: u64 = 8 * crate::ORDINARY_OCTETS as u64;

pub(crate) struct Reserve {
    dir: PathBuf,
    path: PathBuf,
    is_whole: bool,
}

impl Reserve {
    /// Of the store in directory `dir`. Takes no space yet.
    pub(crate) fn of(dir: &Path) -> Self {
        let path = dir.join("reserve");
        let is_whole = fs::metadata(&path).is_ok_and(|file| allocated(&file) >= RESERVE);
        Self { dir: dir.to_owned(), path, is_whole }
    }

    /// Takes the space, if it does not have it.
    ///
    /// # Errors
    /// [`StoreError::Full`], or the file cannot be made.
    pub(crate) fn take(&mut self) -> Result<(), StoreError> {
        if self.is_whole {
            return Ok(());
        }
        let made = File::create(&self.path).and_then(|file| {
            allocate(&file)?;
            file.sync_all()
        });
        match made {
            Ok(()) => {
                self.is_whole = true;
                Ok(())
            }
            Err(e) if is_full(&e) => {
                self.free();
                Err(StoreError::Full { path: self.dir.clone() })
            }
            Err(e) => Err(StoreError::io("making", &self.path)(e)),
        }
    }

    /// Gives the space to others, and first of all to the database.
    pub(crate) fn free(&mut self) {
        self.is_whole = false;
        // Without the file there is nothing to give.
        _ = fs::remove_file(&self.path);
    }
}

fn allocated(file: &fs::Metadata) -> u64 {
    use std::os::unix::fs::MetadataExt;
    // In units of 512 octets on every file system; see stat(2).
    file.blocks() * 512
}

fn allocate(file: &File) -> io::Result<()> {
    match fallocate(file, FallocateFlags::empty(), 0, RESERVE as i64) {
        Ok(()) => Ok(()),
        // A file system that cannot reserve space.
        Err(nix::errno::Errno::EOPNOTSUPP) => {
            io::copy(&mut io::Read::take(io::repeat(0x5A), RESERVE), &mut &*file).map(|_| ())
        }
        Err(e) => Err(e.into()),
    }
}

pub(crate) fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}
