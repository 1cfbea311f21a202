// SPDX-License-Identifier: Apache-2.0
//! The socket's file, and connections with their callers.

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

/// After accepting failed, for want of descriptors most likely.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A connection whose caller is known.
pub(super) struct Connection {
    stream: UnixStream,
    caller: Caller,
    _slot: Slot,
}

/// Removes the socket's file when dropped, if it is still ours.
pub(super) struct SocketFile {
    path: PathBuf,
    inode: u64,
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if fs::symlink_metadata(&self.path).is_ok_and(|found| found.ino() == self.inode) {
            // Left behind, it would be found to be stale.
            _ = fs::remove_file(&self.path);
        }
    }
}

/// Binds with mode 0660 before anyone can connect; a socket that a dead process left is replaced.
///
/// # Errors
/// What is in the way.
pub(super) fn bind(
    config: &HostSocket,
    access: Arc<Access>,
) -> Result<(ReceiverStream<io::Result<Connection>>, SocketFile), String> {
    let path = &config.path;
    let gid = group(&config.group)?;
    let fail = |doing: &'static str| move |error: io::Error| format!("{doing}: {error}");
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent).map_err(fail("creating its directory"))?;
    }
    refuse_live(path)?;
    // Made under another name and renamed: the path never shows a socket with other permissions.
    let hidden = path.with_file_name(format!(".h{}", std::process::id() % 100_000));
    match fs::remove_file(&hidden) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(format!("removing {hidden:?}: {error}")),
        _ => {}
    }
    let listener = UnixListener::bind(&hidden).map_err(fail("binding it"))?;
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
        format!("setting mode 0660 and host_socket.group, and renaming it: {error}")
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
            Ok((None, _)) => tracing::warn!("too many callers that may not call: one is cut off"),
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
        Ok(None) => Err(format!("host_socket.group: this machine has no group {name:?}: make it, or use a number")),
        Err(error) => Err(format!("host_socket.group: looking up {name:?}: {error}")),
    }
}

fn refuse_live(path: &Path) -> Result<(), String> {
    let found = match fs::symlink_metadata(path) {
        Ok(found) => found,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(format!("looking at it: {error}")),
    };
    if !found.file_type().is_socket() {
        return Err("there is a file that is not a socket: remove it or choose another path".to_owned());
    }
    match std::os::unix::net::UnixStream::connect(path) {
        Ok(_) => Err("another process listens there: give each agent of this machine its own path".to_owned()),
        Err(error) if matches!(error.kind(), ErrorKind::ConnectionRefused | ErrorKind::NotFound) => Ok(()),
        Err(error) => Err(format!("asking whether the socket found there is in use: {error}")),
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
