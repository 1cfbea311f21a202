// SPDX-License-Identifier: Apache-2.0
//! What a machine needs before a program of Canopy runs on it: checks, each with how to get what is missing.
//!
//! They read files of the kernel below a root, `/` except in tests. `canopy-agent doctor` examines its own process with them, under the user,
//! capabilities, mounts and limits of its service; `canopyctl check --pre` a machine on which nothing of Canopy runs yet.

mod clock;
mod disk;
mod features;
mod interfaces;
mod kernel;
mod limits;
mod memory;
mod mounts;
mod ports;
mod rdma;

use std::fs;
use std::path::{Path, PathBuf};

pub use limits::OPEN_FILES;

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
    /// It cannot be known here; how to know.
    Unknown(String),
}

impl Check {
    /// The requirement is met.
    fn met(name: &'static str, found: impl Into<String>) -> Self {
        Self { name, found: found.into(), verdict: Verdict::Met }
    }

    /// It is not, with how to meet it.
    fn missing(name: &'static str, found: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { name, found: found.into(), verdict: Verdict::Missing(fix.into()) }
    }

    /// It cannot be known here, with how to know.
    fn unknown(name: &'static str, found: impl Into<String>, how: impl Into<String>) -> Self {
        Self { name, found: found.into(), verdict: Verdict::Unknown(how.into()) }
    }

    /// A requirement that is met if it is `good`, with how to meet it otherwise.
    pub fn new(name: &'static str, found: String, good: bool, fix: impl FnOnce() -> String) -> Self {
        Self { name, found, verdict: if good { Verdict::Met } else { Verdict::Missing(fix()) } }
    }

    /// The requirement is met.
    pub fn is_met(&self) -> bool {
        self.verdict == Verdict::Met
    }

    /// How to meet it, or to know whether it is; `None` if it is met.
    pub fn fix(&self) -> Option<&str> {
        match &self.verdict {
            Verdict::Met => None,
            Verdict::Missing(fix) | Verdict::Unknown(fix) => Some(fix),
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

impl Machine<'_> {
    /// What the machine of a node needs.
    pub fn for_node(&self) -> Vec<Check> {
        vec![
            self.kernel(),
            self.btf(),
            self.traffic_control(),
            self.srv6(),
            self.has_bpffs(),
            self.may_have_capabilities(),
            self.ipv6(),
            self.sysctls_writable(),
            self.udp_port_free(STAMP_PORT),
        ]
    }

    /// What the machine of a host needs, on which applications of RDMA multicast run.
    pub fn for_host(&self) -> Vec<Check> {
        vec![self.ipv6(), self.rdma_device(), self.roce_gid(), self.locked_memory()]
    }

    /// What the machine of a controller needs that stores below `state_dir` and listens at these ports.
    pub fn for_controller(&self, state_dir: &Path, ports: &[u16]) -> Vec<Check> {
        let mut checks = vec![self.state_directory(state_dir), self.free_space(state_dir)];
        checks.extend(ports.iter().map(|port| self.tcp_port_free(*port)));
        checks.extend([clock::clock(), self.memory(), self.open_files()]);
        checks
    }
}

/// UDP port of STAMP reflectors, unless agents are configured with another one.
const STAMP_PORT: u16 = 862;

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
