// SPDX-License-Identifier: Apache-2.0
//! Lines that are only added, in files of which the oldest are removed: for what is useful and not an intent. A power cut may take what was
//! not synced, and leave half a line, which readers leave out.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use crate::StoreError;

/// A file that is this large gets no further line, octets.
const FILE_OCTETS: u64 = 8 << 20;
/// Files that are kept.
const FILES: usize = 8;
const SUFFIX: &str = ".log";

/// The files of a directory, oldest first. Names are the 16 hexadecimal digits of a number that grows with every file.
#[derive(Clone, Debug)]
pub struct JournalFiles(PathBuf);

impl JournalFiles {
    /// Paths, oldest first.
    pub fn all(&self) -> Vec<PathBuf> {
        self.numbers().into_iter().map(|number| self.path(number)).collect()
    }

    /// Content of one of them, cut at its maximum size; nothing if it cannot be read, or was removed meanwhile.
    pub fn read(path: &Path) -> Vec<u8> {
        let mut content = Vec::new();
        let read = File::open(path).and_then(|file| file.take(2 * FILE_OCTETS).read_to_end(&mut content));
        match read {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                tracing::warn!(path = %path.display(), %error, "cannot read a file of a journal: it is left out");
                Vec::new()
            }
            _ => content,
        }
    }

    fn numbers(&self) -> Vec<u64> {
        let Ok(dir) = fs::read_dir(&self.0) else { return Vec::new() };
        let names = dir.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let number = |name: String| {
            let digits = name.strip_suffix(SUFFIX).filter(|digits| digits.len() == 16)?;
            u64::from_str_radix(digits, 16).ok()
        };
        let mut numbers: Vec<u64> = names.filter_map(number).collect();
        numbers.sort_unstable();
        numbers
    }

    fn path(&self, number: u64) -> PathBuf {
        self.0.join(format!("{number:016x}{SUFFIX}"))
    }
}

/// The end of a journal, to which one writer adds.
pub struct Journal {
    files: JournalFiles,
    number: u64,
    file: File,
    octets: u64,
}

impl Journal {
    /// The journal in the directory `dir`, which is made if it is not there.
    ///
    /// # Errors
    /// The system refuses the directory or the file.
    pub fn open(dir: PathBuf) -> Result<Self, StoreError> {
        fs::create_dir_all(&dir).map_err(StoreError::io("creating the directory", &dir))?;
        let files = JournalFiles(dir);
        let number = files.numbers().last().copied().unwrap_or(0);
        let path = files.path(number);
        let (file, octets) = open(&path).map_err(StoreError::io("opening", &path))?;
        Ok(Self { files, number, file, octets })
    }

    /// For readers.
    pub fn files(&self) -> JournalFiles {
        self.files.clone()
    }

    /// Adds whole lines.
    ///
    /// # Errors
    /// They cannot be written; half a line may be there.
    pub fn append(&mut self, lines: &[u8]) -> Result<(), StoreError> {
        if self.octets >= FILE_OCTETS {
            self.next_file()?;
        }
        let path = self.files.path(self.number);
        let written = self.file.write_all(lines);
        self.octets += lines.len() as u64;
        written.map_err(StoreError::io("writing", &path))
    }

    /// Waits until what was added is on the disk.
    ///
    /// # Errors
    /// The system reports that it is not.
    pub fn sync(&self) -> Result<(), StoreError> {
        self.file.sync_data().map_err(StoreError::io("syncing", &self.files.path(self.number)))
    }

    fn next_file(&mut self) -> Result<(), StoreError> {
        self.sync()?;
        let path = self.files.path(self.number + 1);
        (self.file, self.octets) = open(&path).map_err(StoreError::io("opening", &path))?;
        self.number += 1;
        let numbers = self.files.numbers();
        for number in &numbers[..numbers.len().saturating_sub(FILES)] {
            let path = self.files.path(*number);
            fs::remove_file(&path).map_err(StoreError::io("removing", &path))?;
        }
        Ok(())
    }
}

/// At its end, on a line of its own.
fn open(path: &Path) -> io::Result<(File, u64)> {
    let mut file = OpenOptions::new().create(true).read(true).append(true).open(path)?;
    let octets = file.metadata()?.len();
    if octets > 0 {
        file.seek(SeekFrom::End(-1))?;
        let mut last = [0];
        file.read_exact(&mut last)?;
        if last != [b'\n'] {
            file.write_all(b"\n")?;
            return Ok((file, octets + 1));
        }
    }
    Ok((file, octets))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn content(journal: &Journal) -> String {
        let all = journal.files().all();
        all.iter().map(|path| String::from_utf8(JournalFiles::read(path)).unwrap()).collect()
    }

    #[test]
    fn a_journal_continues_behind_what_was_cut() {
        let dir = tempfile::tempdir().unwrap();
        let mut journal = Journal::open(dir.path().join("events")).unwrap();
        journal.append(b"one\ntwo\n").unwrap();
        journal.append(b"hal").unwrap();
        drop(journal);
        let mut journal = Journal::open(dir.path().join("events")).unwrap();
        journal.append(b"three\n").unwrap();
        journal.sync().unwrap();
        assert_eq!(content(&journal), "one\ntwo\nhal\nthree\n");
        assert_eq!(journal.files().all().len(), 1, "a restart begins no file");
    }

    #[test]
    fn the_oldest_files_leave_and_others_are_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("notes.log"), "x").unwrap();
        fs::write(dir.path().join("1.log"), "x").unwrap();
        let mut journal = Journal::open(dir.path().to_owned()).unwrap();
        let mut line = vec![b'x'; (FILE_OCTETS / 2) as usize];
        *line.last_mut().unwrap() = b'\n';
        for _ in 0..2 * (FILES + 3) {
            journal.append(&line).unwrap();
        }
        let all = journal.files().all();
        let name = |path: &PathBuf| path.file_name().unwrap().to_str().unwrap().to_owned();
        assert_eq!(
            (all.len(), name(&all[0]), name(&all[FILES - 1])),
            (FILES, format!("{:016x}.log", 3), format!("{:016x}.log", 10))
        );
        let octets: u64 = all.iter().map(|path| fs::metadata(path).unwrap().len()).sum();
        assert!(octets <= FILES as u64 * FILE_OCTETS);
        assert!(dir.path().join("notes.log").exists() && dir.path().join("1.log").exists());
        drop(journal);
        assert_eq!(Journal::open(dir.path().to_owned()).unwrap().number, 10);
    }
}
