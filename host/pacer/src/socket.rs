// SPDX-License-Identifier: Apache-2.0
//! The bound Unix socket, the callers, and their permissions.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use canopy_daemon::socket::{self, SocketFile};
use tokio::net::UnixListener;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio_stream::wrappers::ReceiverStream;

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
pub(crate) type Connection = canopy_daemon::connection::Connection<Caller, OwnedSemaphorePermit>;

impl Owners {
    pub(crate) fn new(uids: Vec<u32>) -> Self {
        Self { own: nix::unistd::geteuid().as_raw(), uids }
    }

    fn caller(&self, uid: u32) -> Caller {
        Caller { uid, may_change: uid == ROOT || uid == self.own || self.uids.contains(&uid) }
    }
}

/// Binds the socket; its file belongs to `group`.
///
/// # Errors
/// What is in the way, or what the system refuses.
pub(crate) async fn bind(
    path: &Path,
    group: &str,
    owners: Owners,
) -> anyhow::Result<(ReceiverStream<io::Result<Connection>>, SocketFile)> {
    let gid = socket::group(group).map_err(anyhow::Error::msg).context("socket.group")?;
    let (listener, file) = socket::bind(path, gid, socket::FOR_GROUP).await?;
    let (sender, receiver) = mpsc::channel(1);
    tokio::spawn(accept(listener, owners, sender));
    Ok((ReceiverStream::new(receiver), file))
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
                let connection = Connection::new(stream, owners.caller(uid), place);
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
