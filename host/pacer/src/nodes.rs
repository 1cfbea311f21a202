// SPDX-License-Identifier: Apache-2.0
//! The nodes whose Long-haul CNPs are accepted: from the command line, from a file that may change, and from the host's agent.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::net::Ipv6Addr;
use std::path::{Path, PathBuf};

use canopy_host_core::pacing::MAX_NODES;

/// Maximum size of the file: enough for the maximum number of nodes.
const MAX_BYTES: u64 = 1 << 20;

/// The source of the nodes.
#[derive(Debug)]
pub(crate) struct Nodes {
    given: BTreeSet<Ipv6Addr>,
    file: Option<PathBuf>,
    /// The content of the file when it was last read, valid or not.
    last: Option<Result<String, String>>,
    /// Those of the file, as it was valid last.
    listed: BTreeSet<Ipv6Addr>,
    of_agent: BTreeSet<Ipv6Addr>,
}

impl Nodes {
    pub(crate) fn new(given: BTreeSet<Ipv6Addr>, file: Option<PathBuf>) -> Self {
        Self { given, file, last: None, listed: BTreeSet::new(), of_agent: BTreeSet::new() }
    }

    /// All of them.
    pub(crate) fn all(&self) -> BTreeSet<Ipv6Addr> {
        self.given.iter().chain(&self.listed).chain(&self.of_agent).copied().collect()
    }

    /// Takes those of the host's agent; all nodes, if they differ from those of before.
    ///
    /// # Errors
    /// Too many; the last good list stays in force.
    pub(crate) fn set_of_agent(&mut self, nodes: BTreeSet<Ipv6Addr>) -> Option<Result<BTreeSet<Ipv6Addr>, String>> {
        let before = std::mem::replace(&mut self.of_agent, nodes);
        if before == self.of_agent {
            return None;
        }
        let all = self.all();
        if all.len() > MAX_NODES {
            self.of_agent = before;
            return Some(Err(format!(
                "{} nodes with those of the agent: at most {MAX_NODES} are supported",
                all.len()
            )));
        }
        Some(Ok(all))
    }

    /// All nodes, if they differ from those of the last call.
    ///
    /// # Errors
    /// The file is invalid; reported once for each content. The last good list stays in force.
    pub(crate) fn changed(&mut self) -> Option<Result<BTreeSet<Ipv6Addr>, String>> {
        let path = self.file.as_ref()?;
        let text = read(path).map_err(|error| format!("{}: {error}", path.display()));
        if self.last.as_ref() == Some(&text) {
            return None;
        }
        let listed = text.clone().and_then(|text| {
            let listed = parse(&text).map_err(|error| format!("{}: {error}", path.display()))?;
            let others = self.given.union(&self.of_agent).filter(|node| !listed.contains(node)).count();
            match listed.len() + others {
                count if count > MAX_NODES => {
                    Err(format!("{}: {count} nodes: use at most {MAX_NODES}", path.display()))
                }
                _ => Ok(listed),
            }
        });
        self.last = Some(text);
        Some(listed.map(|listed| {
            self.listed = listed;
            self.all()
        }))
    }
}

fn read(path: &Path) -> io::Result<String> {
    let found = fs::metadata(path)?;
    if !found.is_file() || found.len() > MAX_BYTES {
        let problem = format!("not a regular file of at most {MAX_BYTES} octets");
        return Err(io::Error::new(io::ErrorKind::InvalidData, problem));
    }
    fs::read_to_string(path)
}

/// One address per line; `#` starts a comment.
fn parse(text: &str) -> Result<BTreeSet<Ipv6Addr>, String> {
    let lines = text.lines().enumerate().map(|(n, line)| (n + 1, line.split('#').next().unwrap_or_default().trim()));
    lines
        .filter(|(_, address)| !address.is_empty())
        .map(|(n, address)| address.parse().map_err(|_| format!("line {n}: {address:?} is not an IPv6 address")))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_blank_lines_are_none_and_a_bad_line_is_named() {
        let nodes = parse("# nodes\nfcff:0:0:1::1\n\n  fcff:0:0:2::1 # the second\n").unwrap();
        assert_eq!(nodes.len(), 2);
        assert_eq!(parse("fcff::1\nn2\n").unwrap_err(), "line 2: \"n2\" is not an IPv6 address");
    }

    #[test]
    fn a_changed_file_is_reported_and_an_invalid_one_once() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("nodes");
        let given = BTreeSet::from([Ipv6Addr::LOCALHOST]);
        let mut nodes = Nodes::new(given, Some(path.clone()));
        assert!(nodes.changed().unwrap().is_err(), "it is not there");
        assert!(nodes.changed().is_none());
        fs::write(&path, "fcff::1").unwrap();
        assert_eq!(nodes.changed().unwrap().unwrap().len(), 2);
        assert!(nodes.changed().is_none());
        fs::write(&path, "fcff::1\nnonsense").unwrap();
        assert!(nodes.changed().unwrap().is_err());
        assert!(nodes.changed().is_none());
        fs::write(&path, "fcff::1\n").unwrap();
        assert!(nodes.changed().unwrap().is_ok());
    }

    /// Catches nodes of one source that are lost with those of another, and a list that is too long and in force.
    #[test]
    fn nodes_of_the_agent_are_added_to_the_others() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("nodes");
        fs::write(&path, "fcff::1").unwrap();
        let mut nodes = Nodes::new(BTreeSet::from([Ipv6Addr::LOCALHOST]), Some(path.clone()));
        let of_agent = |of: &[u16]| of.iter().map(|n| Ipv6Addr::new(0xfcff, 0, 0, 0, 0, 0, 1, *n)).collect();
        assert_eq!(nodes.set_of_agent(of_agent(&[1, 2])).unwrap().unwrap().len(), 3);
        assert!(nodes.set_of_agent(of_agent(&[1, 2])).is_none());
        assert_eq!(nodes.changed().unwrap().unwrap().len(), 4);
        fs::write(&path, "fcff::1\nfcff::2").unwrap();
        assert_eq!(nodes.changed().unwrap().unwrap().len(), 5);
        let many: Vec<u16> = (0..MAX_NODES as u16).collect();
        assert!(nodes.set_of_agent(of_agent(&many)).unwrap().unwrap_err().contains("at most"));
        assert_eq!(nodes.all().len(), 5);
        assert_eq!(nodes.set_of_agent(of_agent(&[])).unwrap().unwrap().len(), 3);
    }
}
