// SPDX-License-Identifier: Apache-2.0
//! Settings of the socket for applications.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::{ConfigError, Layer, absolute, pick};

/// Longest path, bytes: `sun_path` has 108, and the socket is created under a temporary name in the same directory.
const MAX_PATH: usize = 100;
/// Maximum number of ids in a list, which is searched for every connection.
const MAX_IDS: usize = 1024;

/// The socket and its permitted users. Root and the agent's own user are always permitted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HostSocket {
    /// Absolute, at most 100 bytes; empty = no socket. Its mode is 0660.
    pub path: PathBuf,
    /// Group of the socket's file, a name or a number; empty = the agent's own.
    pub group: String,
    /// Permitted users.
    pub uids: Vec<u32>,
    /// Permitted groups; only the effective group of a process counts (SO_PEERCRED reports no other).
    pub gids: Vec<u32>,
}

/// The `host_socket` table of one source.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[allow(missing_docs, reason = "the fields are documented where they end up, in HostSocket")]
pub struct HostSocketLayer {
    pub path: Option<PathBuf>,
    pub group: Option<String>,
    pub uids: Option<Ids>,
    pub gids: Option<Ids>,
}

/// Numbers as a list or, from a variable, as text between commas.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum Ids {
    /// `[1000, 1001]`.
    List(Vec<u32>),
    /// `"1000,1001"`.
    Text(String),
}

impl HostSocketLayer {
    pub(super) fn defaults() -> Self {
        Self {
            path: Some("/run/canopy/host.sock".into()),
            group: Some(String::new()),
            uids: Some(Ids::List(vec![])),
            gids: Some(Ids::List(vec![])),
        }
    }
}

impl HostSocket {
    pub(super) fn resolve(layers: &[(String, Layer)]) -> Result<Self, ConfigError> {
        Ok(Self {
            path: pick(layers, "host_socket.path", |layer| layer.host_socket.path.clone(), path)?,
            group: pick(layers, "host_socket.group", |layer| layer.host_socket.group.clone(), Ok)?,
            uids: pick(layers, "host_socket.uids", |layer| layer.host_socket.uids.clone(), ids)?,
            gids: pick(layers, "host_socket.gids", |layer| layer.host_socket.gids.clone(), ids)?,
        })
    }
}

fn path(path: PathBuf) -> Result<PathBuf, String> {
    match path.as_os_str().len() {
        0 => Ok(path),
        1..=MAX_PATH => absolute(path),
        _ => Err(format!("{path:?} is longer than {MAX_PATH} bytes: the system cannot bind it")),
    }
}

fn ids(ids: Ids) -> Result<Vec<u32>, String> {
    let list = match ids {
        Ids::List(list) => list,
        Ids::Text(text) => {
            let numbers = text.split(',').map(str::trim).filter(|part| !part.is_empty()).map(|part| {
                part.parse().map_err(|_| format!("{part:?} is not a number: use for example \"1000,1001\" (see `id`)"))
            });
            numbers.collect::<Result<_, _>>()?
        }
    };
    if list.len() > MAX_IDS { Err(format!("{} ids, at most {MAX_IDS} are supported", list.len())) } else { Ok(list) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_and_texts_give_the_same_numbers() {
        assert_eq!(ids(Ids::Text(" 1000, 1001,".into())), Ok(vec![1000, 1001]));
        assert_eq!(ids(Ids::List(vec![7])), Ok(vec![7]));
        assert!(ids(Ids::Text("alice".into())).unwrap_err().contains("\"alice\" is not a number"));
        assert!(ids(Ids::List(vec![0; MAX_IDS + 1])).unwrap_err().contains("at most"));
    }

    #[test]
    fn a_path_is_absolute_and_short_enough_to_bind_or_empty() {
        assert_eq!(path(PathBuf::new()), Ok(PathBuf::new()));
        assert!(path("run/host.sock".into()).is_err());
        assert!(path(format!("/{}", "x".repeat(MAX_PATH)).into()).unwrap_err().contains("cannot bind"));
    }
}
