// SPDX-License-Identifier: Apache-2.0
//! Files that only their owner can read, replaced as a whole.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// A file of an identity cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[error("{path}: {why}", path = path.display())]
pub struct FileError {
    pub(crate) path: PathBuf,
    pub(crate) why: String,
}

impl FileError {
    /// What is wrong with the file, as text for operators.
    pub fn new(path: &Path, why: impl ToString) -> Self {
        Self { path: path.to_owned(), why: why.to_string() }
    }
}

/// Makes the directory with mode 0700 if it does not exist.
///
/// # Errors
/// It cannot be made, or other users can write to it.
pub fn private_directory(path: &Path) -> Result<(), FileError> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(|error| FileError::new(path, error))?;
    refuse_mode(path, 0o022, "other users can write to this directory")
}

/// The file's content; `None` if there is no file.
///
/// # Errors
/// It cannot be read.
pub fn read(path: &Path) -> Result<Option<String>, FileError> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(FileError::new(path, error)),
    }
}

/// As [`read`], refused if other users can read the file.
///
/// # Errors
/// It cannot be read, or others can read it too.
pub fn read_secret(path: &Path) -> Result<Option<String>, FileError> {
    let text = read(path)?;
    if text.is_some() {
        refuse_mode(path, 0o077, "other users can read this private key")?;
    }
    Ok(text)
}

/// Replaces the file, mode 0600: after a power cut it has the old content or the new one.
///
/// # Errors
/// It cannot be written.
pub fn replace(path: &Path, content: &[u8]) -> Result<(), FileError> {
    let mut new = path.as_os_str().to_owned();
    new.push(".new");
    let new = PathBuf::from(new);
    let written = || -> io::Result<()> {
        // What a killed process left; the directory is its owner's alone.
        match fs::remove_file(&new) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
        file.write_all(content)?;
        file.sync_all()?;
        fs::rename(&new, path)?;
        sync_directory(path)
    };
    written().map_err(|error| FileError::new(path, error))
}

/// Removes the file durably; there may be none.
///
/// # Errors
/// It cannot be removed.
pub fn remove(path: &Path) -> Result<(), FileError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed.and_then(|()| sync_directory(path)).map_err(|error| FileError::new(path, error)),
    }
}

/// Puts the file durably in the place of another one of the same directory; nothing is done where there is none.
///
/// # Errors
/// It cannot be renamed.
pub fn rename(from: &Path, to: &Path) -> Result<(), FileError> {
    match fs::rename(from, to) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        renamed => renamed.and_then(|()| sync_directory(to)).map_err(|error| FileError::new(from, error)),
    }
}

fn sync_directory(path: &Path) -> io::Result<()> {
    // The parent of a name alone is empty.
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    fs::File::open(parent.unwrap_or(Path::new(".")))?.sync_all()
}

fn refuse_mode(path: &Path, refused: u32, why: &str) -> Result<(), FileError> {
    let mode = fs::metadata(path).map_err(|error| FileError::new(path, error))?.mode() & 0o777;
    if mode & refused == 0 {
        return Ok(());
    }
    Err(FileError::new(path, format!("{why} (mode {mode:04o}): chmod go-rwx it")))
}
