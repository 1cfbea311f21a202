// SPDX-License-Identifier: Apache-2.0
//! What a machine needs before a program of Canopy runs on it: checks, each with how to get what is missing.
//!
//! They read files of the kernel below a root, `/` except in tests. `canopy-agent doctor` examines its own process with them, under the user,
//! capabilities, mounts and limits of its service.

mod kernel;
mod memory;
mod mounts;

use std::fs;
use std::path::{Path, PathBuf};

/// Result of one check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// Name of the requirement.
    pub name: &'static str,
    /// State on this machine.
    pub found: String,
    /// Whether the requirement is met.
    pub verdict: Verdict,
}

/// Whether a requirement is met.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is.
    Met,
    /// It is not; how to meet it.
    Missing(String),
}

impl Check {
    /// A requirement that is met if it is `good`, with how to meet it otherwise.
    pub fn new(name: &'static str, found: String, good: bool, fix: impl FnOnce() -> String) -> Self {
        Self { name, found, verdict: if good { Verdict::Met } else { Verdict::Missing(fix()) } }
    }

    /// The requirement is met.
    pub fn is_met(&self) -> bool {
        self.verdict == Verdict::Met
    }

    /// How to meet it; `None` if it is met.
    pub fn fix(&self) -> Option<&str> {
        match &self.verdict {
            Verdict::Met => None,
            Verdict::Missing(fix) => Some(fix),
        }
    }
}

/// The machine whose `/proc` and `/sys` are below a root.
#[derive(Clone, Copy, Debug)]
pub struct Machine<'a> {
    root: &'a Path,
}

impl<'a> Machine<'a> {
    /// The machine below `root`: `/`, except in tests.
    pub const fn at(root: &'a Path) -> Self {
        Self { root }
    }

    /// A path of the examined machine.
    fn within(&self, path: &Path) -> PathBuf {
        self.root.join(path.strip_prefix("/").unwrap_or(path))
    }

    /// A small file's text, trimmed.
    fn read(&self, path: &str) -> Result<String, String> {
        let path: PathBuf = self.root.join(path);
        let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(text.trim().to_owned())
    }
}

/// Files of a machine in tests.
#[cfg(test)]
mod testing {
    use std::fs;
    use std::path::Path;

    use tempfile::TempDir;

    /// A root with these files.
    pub(crate) fn root(files: &[(&str, &str)]) -> TempDir {
        let root = tempfile::tempdir().unwrap();
        files.iter().for_each(|(path, text)| put(root.path(), path, text));
        root
    }

    pub(crate) fn put(root: &Path, path: &str, text: &str) {
        let file = root.join(path);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    }
}
