// SPDX-License-Identifier: Apache-2.0
//! A directory of small files that are replaced as a whole: after a power cut each is there as it was or as it is. For what is useful and
//! not an intent, so a file that cannot be read is left out, with a line in the log.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::PathBuf;

use crate::StoreError;
use crate::replace::replace;

/// A file beyond it is not read, octets.
const MAX_OCTETS: u64 = 16 << 20;
const SUFFIX: &str = ".json";

/// A directory of files.
pub struct Files(PathBuf);

impl Files {
    /// Files in the directory `dir`, which is made if it is not there.
    ///
    /// # Errors
    /// The system refuses the directory.
    pub fn open(dir: PathBuf) -> Result<Self, StoreError> {
        fs::create_dir_all(&dir).map_err(StoreError::io("creating the directory", &dir))?;
        Ok(Self(dir))
    }

    /// Every file with its name, in the order of names.
    pub fn all(&self) -> Vec<(String, Vec<u8>)> {
        let Ok(dir) = fs::read_dir(&self.0) else { return Vec::new() };
        let names = dir.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let mut names: Vec<String> = names.filter_map(|file| Some(file.strip_suffix(SUFFIX)?.to_owned())).collect();
        names.sort();
        let read = |name: String| match self.read(&name) {
            Ok(content) => Some((name, content)),
            Err(error) => {
                tracing::warn!(path = %self.path(&name).display(), %error, "cannot read a file beside the store: it is left out");
                None
            }
        };
        names.into_iter().filter_map(read).collect()
    }

    /// Writes a file durably.
    ///
    /// # Errors
    /// It cannot be written; the one that was there stays.
    pub fn put(&self, name: &str, content: &[u8]) -> Result<(), StoreError> {
        let path = self.path(name);
        replace(&path, |mut file| file.write_all(content)).map_err(StoreError::io("writing", &path))
    }

    /// Removes a file, if it is there.
    ///
    /// # Errors
    /// The system refuses it.
    pub fn remove(&self, name: &str) -> Result<(), StoreError> {
        let path = self.path(name);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(StoreError::io("removing", &path)(error)),
            _ => Ok(()),
        }
    }

    fn read(&self, name: &str) -> io::Result<Vec<u8>> {
        let file = File::open(self.path(name))?;
        if file.metadata()?.len() > MAX_OCTETS {
            return Err(io::Error::other(format!("larger than {MAX_OCTETS} octets")));
        }
        let mut content = Vec::new();
        file.take(MAX_OCTETS).read_to_end(&mut content)?;
        Ok(content)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(format!("{name}{SUFFIX}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_come_back_in_the_order_of_names_and_what_is_no_file_of_ours_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let files = Files::open(dir.path().join("incidents")).unwrap();
        files.put("b", b"2").unwrap();
        files.put("a", b"1").unwrap();
        files.put("b", b"3").unwrap();
        fs::write(dir.path().join("incidents/half.half"), "x").unwrap();
        fs::create_dir(dir.path().join("incidents/c.json")).unwrap();
        let all = files.all();
        assert_eq!(all, [("a".to_owned(), b"1".to_vec()), ("b".to_owned(), b"3".to_vec())]);
        files.remove("a").unwrap();
        files.remove("a").unwrap();
        assert_eq!(files.all().len(), 1);
    }

    #[test]
    fn a_file_that_is_too_large_is_left_out() {
        let dir = tempfile::tempdir().unwrap();
        let files = Files::open(dir.path().to_owned()).unwrap();
        File::create(dir.path().join("a.json")).unwrap().set_len(MAX_OCTETS + 1).unwrap();
        files.put("b", b"2").unwrap();
        assert_eq!(files.all().len(), 1);
    }
}
