// SPDX-License-Identifier: Apache-2.0
//! The Unix socket: its file, the callers, and their permissions.

use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};
use std::time::Duration;

use anyhow::{Context, bail};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::server::Connected;

/// Connections at once; one carries all calls of a process.
const MAX_CONNECTIONS: usize = 128;
/// Pause after a failed accept, most likely because there were no free descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
const ROOT: u32 = 0;

/// Users that may open and close queue pairs: root, the daemon's own user, and these.
#[derive(Clone, Debug)]
pub(crate) struct Owners {
    own: u32,
    uids: Vec<u32>,
}

/// The caller of a connection, from the kernel's peer credentials.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Caller {
    pub(crate) uid: u32,
    pub(crate) may_change: bool,
}

/// A connection with its caller.
pub(crate) struct Connection {
    stream: UnixStream,
    caller: Caller,
    _place: OwnedSemaphorePermit,
}

/// Removes the socket's file when dropped, if it is still the one created.
#[derive(Debug)]
pub(crate) struct SocketFile {
    path: PathBuf,
    inode: u64,
}

impl Owners {
    pub(crate) fn new(uids: Vec<u32>) -> Self {
        Self { own: nix::unistd::geteuid().as_raw(), uids }
    }

    fn caller(&self, uid: u32) -> Caller {
        Caller { uid, may_change: uid == ROOT || uid == self.own || self.uids.contains(&uid) }
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if fs::symlink_metadata(&self.path).is_ok_and(|found| found.ino() == self.inode) {
            // If this fails, the next daemon replaces the stale socket.
            _ = fs::remove_file(&self.path);
        }
    }
}

/// Binds with mode 0660 before a client can connect; replaces the socket of a dead process.
///
/// # Errors
/// The file that blocks the path.
pub(crate) fn bind(
    path: &Path,
    group: Option<&str>,
    owners: Owners,
) -> anyhow::Result<(ReceiverStream<io::Result<Connection>>, SocketFile)> {
    let gid = group.map(find_group).transpose()?;
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent).with_context(|| format!("creating {}", parent.display()))?;
    }
    refuse_live(path)?;
    // Created under another name and renamed: the path never has other permissions.
    let hidden = path.with_file_name(format!(".p{}", std::process::id()));
    if hidden.exists() {
        fs::remove_file(&hidden).with_context(|| format!("removing {}", hidden.display()))?;
    }
    let listener = UnixListener::bind(&hidden).with_context(|| format!("binding {}", hidden.display()))?;
    let finish = || {
        fs::set_permissions(&hidden, fs::Permissions::from_mode(0o660))?;
        if gid.is_some() {
            chown(&hidden, None, gid)?;
        }
        let inode = fs::symlink_metadata(&hidden)?.ino();
        fs::rename(&hidden, path)?;
        Ok::<_, io::Error>(inode)
    };
    let inode = finish().inspect_err(|_| _ = fs::remove_file(&hidden));
    let inode = inode.context("setting its mode and group, and renaming it")?;
    let (sender, receiver) = mpsc::channel(1);
    tokio::spawn(accept(listener, owners, sender));
    Ok((ReceiverStream::new(receiver), SocketFile { path: path.to_owned(), inode }))
}

async fn accept(listener: UnixListener, owners: Owners, sender: mpsc::Sender<io::Result<Connection>>) {
    let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        // The semaphore is never closed.
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = sender.closed() => return,
        };
        let known = accepted.and_then(|(stream, _)| Ok((stream.peer_cred()?.uid(), stream)));
        match known {
            Ok((uid, stream)) => {
                let connection = Connection { stream, caller: owners.caller(uid), _place: place };
                if sender.send(Ok(connection)).await.is_err() {
                    return;
                }
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

fn find_group(name: &str) -> anyhow::Result<u32> {
    if let Ok(gid) = name.parse() {
        return Ok(gid);
    }
    let found = nix::unistd::Group::from_name(name).with_context(|| format!("--socket-group: looking up {name:?}"))?;
    let group = found.with_context(|| format!("--socket-group: this machine has no group {name:?}: use a number"))?;
    Ok(group.gid.as_raw())
}

fn refuse_live(path: &Path) -> anyhow::Result<()> {
    let found = match fs::symlink_metadata(path) {
        Ok(found) => found,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error).context("reading its metadata"),
    };
    if !found.file_type().is_socket() {
        bail!("there is a file that is not a socket: remove it or choose another path");
    }
    match std::os::unix::net::UnixStream::connect(path) {
        Ok(_) => bail!("another canopy-pacer listens on it: give each interface a daemon with its own --socket"),
        Err(error) if matches!(error.kind(), ErrorKind::ConnectionRefused | ErrorKind::NotFound) => Ok(()),
        Err(error) => Err(error).context("checking whether the existing socket is in use"),
    }
}

impl Connected for Connection {
    type ConnectInfo = Caller;
    fn connect_info(&self) -> Caller {
        self.caller
    }
}

impl AsyncRead for Connection {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }
    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_root_the_daemons_user_and_the_listed_users_may_change() {
        let owners = Owners { own: 990, uids: vec![1000] };
        let may = [0, 990, 1000, 1001].map(|uid| owners.caller(uid).may_change);
        assert_eq!(may, [true, true, true, false]);
    }
}
