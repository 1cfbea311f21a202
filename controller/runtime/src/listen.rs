// SPDX-License-Identifier: Apache-2.0
//! Listen addresses and bound listeners: Unix sockets, and TCP. Agents use TLS over TCP; operators too, but for loopback.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

use anyhow::Context;
use canopy_daemon::socket::{self, SocketFile};
use serde::{Serialize, Serializer};
use tokio::net::{TcpListener, TcpSocket, UnixListener};

/// Connections that the kernel keeps until they are accepted; `net.core.somaxconn` may make it fewer. A client whose connection finds no room
/// tries again after a second.
const BACKLOG: u32 = 4096;

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
            None => text.parse().map(Self::Tcp).map_err(|_| {
                format!("{text:?} is not a listen address: use unix:/path, 192.0.2.1:port or [2001:db8::1]:port")
            }),
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
    /// Refuses paths that cannot be bound.
    ///
    /// # Errors
    /// The reason, as text for operators.
    pub fn check_path(&self) -> Result<(), String> {
        match self {
            Self::Tcp(_) => Ok(()),
            Self::Unix(path) => socket::check_path(path),
        }
    }

    /// Whether other machines can reach it.
    pub fn is_remote(&self) -> bool {
        matches!(self, Self::Tcp(address) if !address.ip().is_loopback())
    }

    /// Binds the address. A Unix socket has mode 0660 before any client can connect; the socket of a dead process is
    /// replaced, a live one and a file that is not a socket are left alone.
    ///
    /// # Errors
    /// The address cannot be bound; the error names the cause.
    pub async fn bind(&self) -> anyhow::Result<Listener> {
        self.bind_for(socket::FOR_GROUP).await
    }

    /// As [`Listen::bind`], with mode 0666: each request has its user's role.
    ///
    /// # Errors
    /// The address cannot be bound; the error names the cause.
    pub async fn bind_for_all(&self) -> anyhow::Result<Listener> {
        self.bind_for(socket::FOR_ALL).await
    }

    async fn bind_for(&self, mode: u32) -> anyhow::Result<Listener> {
        self.check_path().map_err(anyhow::Error::msg)?;
        match self {
            Self::Tcp(address) => {
                bind_tcp(*address).map(Listener::Tcp).with_context(|| format!("listening on {address}"))
            }
            Self::Unix(path) => {
                let bound = socket::bind(path, None, mode).await.with_context(|| format!("listening on {self}"));
                bound.map(|(listener, file)| Listener::Unix(listener, file))
            }
        }
    }
}

fn bind_tcp(address: SocketAddr) -> std::io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
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
            Self::Unix(_, file) => Ok(Listen::Unix(file.path().to_owned())),
        }
    }
}
