// SPDX-License-Identifier: Apache-2.0
//! Listen addresses and bound listeners: Unix sockets, and TCP on loopback only, because TLS is not implemented yet.

use std::fs;
use std::io::{Error, ErrorKind};
use std::net::SocketAddr;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::{Context, bail};
use serde::{Serialize, Serializer};
use tokio::net::{TcpListener, UnixListener};

/// Longest path of a Unix socket, bytes; `sun_path` has 108, the temporary name needs the rest.
const MAX_PATH: usize = 100;

/// Listen address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Listen {
    /// TCP; port 0 selects a free port.
    Tcp(SocketAddr),
    /// A Unix socket at an absolute path.
    Unix(PathBuf),
}

impl FromStr for Listen {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.strip_prefix("unix:") {
            Some(path) => Ok(Self::Unix(path.into())),
            None => text
                .parse()
                .map(Self::Tcp)
                .map_err(|_| format!("{text:?} is not a listen address: use unix:/path, 127.0.0.1:port or [::1]:port")),
        }
    }
}

impl std::fmt::Display for Listen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

impl Serialize for Listen {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

impl Listen {
    /// Refuses addresses that other machines can reach, and paths that cannot be bound.
    ///
    /// # Errors
    /// The reason, as text for operators.
    pub fn check(&self) -> Result<(), String> {
        match self {
            Self::Tcp(address) if !address.ip().is_loopback() => Err(format!(
                "{address} can be reached from other machines, and there are no certificates yet to authenticate callers: use a loopback address or unix:/path"
            )),
            Self::Unix(path) if !path.is_absolute() => Err(format!("{self} needs an absolute path")),
            Self::Unix(path) if path.as_os_str().len() > MAX_PATH => {
                Err(format!("{self} is longer than {MAX_PATH} bytes: the system cannot bind it"))
            }
            _ => Ok(()),
        }
    }

    /// Binds the address. A Unix socket has mode 0660 before any client can connect; the socket of a dead process is
    /// replaced, a live one and a file that is not a socket are left alone.
    ///
    /// # Errors
    /// The address cannot be bound; the error names the cause.
    pub async fn bind(&self) -> anyhow::Result<Listener> {
        self.check().map_err(anyhow::Error::msg)?;
        match self {
            Self::Tcp(address) => {
                Ok(Listener::Tcp(TcpListener::bind(address).await.with_context(|| format!("listening on {address}"))?))
            }
            Self::Unix(path) => bind_unix(path).await.with_context(|| format!("listening on {self}")),
        }
    }
}

/// A bound listener.
pub enum Listener {
    /// TCP.
    Tcp(TcpListener),
    /// A Unix socket; dropping [`SocketFile`] removes its file.
    Unix(UnixListener, SocketFile),
}

impl Listener {
    /// The address as clients write it: `127.0.0.1:8640`, `unix:/path`.
    ///
    /// # Errors
    /// The system does not return the bound address.
    pub fn address(&self) -> std::io::Result<Listen> {
        match self {
            Self::Tcp(l) => l.local_addr().map(Listen::Tcp),
            Self::Unix(_, file) => Ok(Listen::Unix(file.path.clone())),
        }
    }
}

/// Removes the socket's file when dropped, unless another process replaced it.
pub struct SocketFile {
    path: PathBuf,
    inode: u64,
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if fs::symlink_metadata(&self.path).is_ok_and(|m| m.ino() == self.inode) {
            // If this fails, the next process finds the file stale and replaces it.
            _ = fs::remove_file(&self.path);
        }
    }
}

async fn bind_unix(path: &Path) -> anyhow::Result<Listener> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent).with_context(|| format!("creating {}", parent.display()))?;
    }
    refuse_live(path).await?;
    // Created under another name and renamed: the path never shows a socket with other permissions, and a stale one is
    // replaced atomically.
    let hidden = path.with_file_name(format!(".{}", std::process::id() % 100_000));
    match fs::remove_file(&hidden) {
        Err(e) if e.kind() != ErrorKind::NotFound => {
            return Err(e).with_context(|| format!("removing {}", hidden.display()));
        }
        _ => {}
    }
    let listener = UnixListener::bind(&hidden)?;
    let finished = fs::set_permissions(&hidden, fs::Permissions::from_mode(0o660)).and_then(|()| {
        let inode = fs::symlink_metadata(&hidden)?.ino();
        fs::rename(&hidden, path)?;
        Ok(inode)
    });
    match finished {
        Ok(inode) => Ok(Listener::Unix(listener, SocketFile { path: path.into(), inode })),
        Err(e) => {
            _ = fs::remove_file(&hidden);
            Err(e).context("setting mode 0660 and renaming the socket")
        }
    }
}

async fn refuse_live(path: &Path) -> anyhow::Result<()> {
    let found = match fs::symlink_metadata(path) {
        Ok(found) => found,
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(()),
        Err(e) => return Err(e.into()),
    };
    if !found.file_type().is_socket() {
        bail!("there is a file that is not a socket: remove it or choose another path");
    }
    match tokio::net::UnixStream::connect(path).await {
        Ok(_) => bail!("another process listens there: stop it or choose another path"),
        Err(e) if is_dead(&e) => Ok(()),
        Err(e) => Err(e).context("asking whether the socket found there is in use"),
    }
}

fn is_dead(e: &Error) -> bool {
    matches!(e.kind(), ErrorKind::ConnectionRefused | ErrorKind::NotFound)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(path: &Path) -> Listen {
        Listen::Unix(path.into())
    }

    #[tokio::test]
    async fn sockets_are_closed_to_others_and_leave_nothing_behind() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("sub/c.sock");
        let listener = at(&path).bind().await.unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o660);
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
        tokio::net::UnixStream::connect(&path).await.unwrap();
        drop(listener);
        assert!(!path.exists());
    }

    #[tokio::test]
    async fn a_stale_socket_is_replaced_a_live_one_and_a_file_are_not() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("c.sock");
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        assert!(path.exists());
        let first = at(&path).bind().await.unwrap();
        let e = format!("{:#}", at(&path).bind().await.err().unwrap());
        assert!(e.contains("another process listens there"), "{e}");
        // A successor that replaced the file keeps it when the first one ends.
        fs::remove_file(&path).unwrap();
        let second = at(&path).bind().await.unwrap();
        drop(first);
        assert!(path.exists());
        drop(second);
        fs::write(&path, "precious").unwrap();
        let e = format!("{:#}", at(&path).bind().await.err().unwrap());
        assert!(e.contains("not a socket"), "{e}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
    }
}
