// SPDX-License-Identifier: Apache-2.0
//! Files that are replaced as a whole: after a power cut, or on a full disk, the old one or the new one is there.

use std::fs::{self, File};
use std::io;
use std::path::Path;

/// Puts what `write` writes in the place of the file at `path`, durably. Nothing of it stays after an error.
pub(crate) fn replace(path: &Path, write: impl FnOnce(&File) -> io::Result<()>) -> io::Result<()> {
    let half = path.with_extension("half");
    let written = File::create(&half).and_then(|file| {
        write(&file)?;
        file.sync_all()
    });
    let placed = written.and_then(|()| fs::rename(&half, path));
    if placed.is_err() {
        // It would take space away from the next one.
        _ = fs::remove_file(&half);
    }
    placed?;
    sync_dir_of(path)
}

/// A rename or a removal in the directory of `path` is durable after it.
pub(crate) fn sync_dir_of(path: &Path) -> io::Result<()> {
    let dir = path.parent().unwrap_or(Path::new("."));
    File::open(dir)?.sync_all()
}
