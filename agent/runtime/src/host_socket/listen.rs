// SPDX-License-Identifier: Apache-2.0
//! The socket file, and accepted connections with their callers.

use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::server::Connected;

use super::access::{Access, Caller};
use super::slots::Slot;
use crate::config::HostSocket;

/// Delay after a failed accept, most likely for lack of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A connection whose caller is known.
pub(super) struct Connection {
    stream: UnixStream,
    caller: Caller,
    _slot: Slot,
}

/// Removes the socket file when dropped, unless it was replaced.
pub(super) struct SocketFile {
    path: PathBuf,
    inode: u64,
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if fs::symlink_metadata(&self.path).is_ok_and(|found| found.ino() == self.inode) {
            // On failure, the next start finds the file stale and replaces it.
            _ = fs::remove_file(&self.path);
        }
    }
}

/// Binds the socket, with mode 0660 before any client can connect; replaces the stale socket of an ended process.
///
/// # Errors
/// The step that failed, and its cause.
pub(super) fn bind(
    config: &HostSocket,
    access: Arc<Access>,
) -> Result<(ReceiverStream<io::Result<Connection>>, SocketFile), String> {
    let path = &config.path;
    let gid = group(&config.group)?;
    let fail = |doing: &'static str| move |error: io::Error| format!("{doing}: {error}");
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent).map_err(fail("creating the directory of the socket"))?;
    }
    refuse_live(path)?;
    // Created under another name and renamed, so that the path never has a socket with other permissions.
    let hidden = path.with_file_name(format!(".h{}", std::process::id() % 100_000));
    match fs::remove_file(&hidden) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(format!("removing {hidden:?}: {error}")),
        _ => {}
    }
    let listener = UnixListener::bind(&hidden).map_err(fail("binding the socket"))?;
    let finish = || {
        fs::set_permissions(&hidden, fs::Permissions::from_mode(0o660))?;
        if gid.is_some() {
            chown(&hidden, None, gid)?;
        }
        let inode = fs::symlink_metadata(&hidden)?.ino();
        fs::rename(&hidden, path)?;
        Ok(inode)
    };
    let inode = finish().map_err(|error: io::Error| {
        _ = fs::remove_file(&hidden);
        format!("setting mode 0660 and host_socket.group, and renaming the socket: {error}")
    })?;
    let (sender, receiver) = mpsc::channel(1);
    tokio::spawn(accept(listener, access, sender));
    Ok((ReceiverStream::new(receiver), SocketFile { path: path.clone(), inode }))
}

async fn accept(listener: UnixListener, access: Arc<Access>, sender: mpsc::Sender<io::Result<Connection>>) {
    loop {
        let stream = tokio::select! {
            accepted = listener.accept() => accepted.map(|(stream, _)| stream),
            () = sender.closed() => return,
        };
        let admitted = stream.and_then(|stream| Ok((access.admit(&stream.peer_cred()?), stream)));
        match admitted {
            Ok((Some((caller, slot)), stream)) => {
                if sender.send(Ok(Connection { stream, caller, _slot: slot })).await.is_err() {
                    return;
                }
            }
            Ok((None, _)) => tracing::warn!("too many connections of callers without permission: closing one"),
            Err(error) => {
                tracing::warn!(%error, "cannot accept an application's connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

fn group(name: &str) -> Result<Option<u32>, String> {
    if name.is_empty() {
        return Ok(None);
    }
    if let Ok(gid) = name.parse() {
        return Ok(Some(gid));
    }
    match nix::unistd::Group::from_name(name) {
        Ok(Some(group)) => Ok(Some(group.gid.as_raw())),
        Ok(None) => Err(format!("host_socket.group: this machine has no group {name:?}: create it, or use a number")),
        Err(error) => Err(format!("host_socket.group: looking up {name:?}: {error}")),
    }
}

fn refuse_live(path: &Path) -> Result<(), String> {
    let found = match fs::symlink_metadata(path) {
        Ok(found) => found,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(format!("reading the file status: {error}")),
    };
    if !found.file_type().is_socket() {
        return Err("the path is a file that is not a socket: remove it or choose another path".to_owned());
    }
    match std::os::unix::net::UnixStream::connect(path) {
        Ok(_) => Err("another process listens on this path: give each agent of this machine its own path".to_owned()),
        Err(error) if matches!(error.kind(), ErrorKind::ConnectionRefused | ErrorKind::NotFound) => Ok(()),
        Err(error) => Err(format!("checking whether the existing socket is in use: {error}")),
    }
}

impl Connected for Connection {
    type ConnectInfo = Caller;
    fn connect_info(&self) -> Caller {
        self.caller.clone()
    }
}

impl AsyncRead for Connection {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }
    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
