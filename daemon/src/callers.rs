// SPDX-License-Identifier: Apache-2.0
//! A daemon's Unix socket that some users may only read through and some may change something through, by the credentials that the kernel
//! reports for the caller.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::UnixListener;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio_stream::wrappers::ReceiverStream;

use crate::connection;
use crate::socket::{self, SocketError, SocketFile};

/// Connections at once; one carries all calls of a process.
const MAX_CONNECTIONS: usize = 128;
/// Pause after a failed accept, most likely because there were no free descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
const ROOT: u32 = 0;

/// Users that may change something: root, the daemon's own user, and these.
#[derive(Clone, Debug)]
pub struct Owners {
    own: u32,
    uids: Vec<u32>,
}

/// The caller of a connection, from the kernel's peer credentials.
#[derive(Clone, Copy, Debug)]
pub struct Caller {
    /// Its user.
    pub uid: u32,
    /// It may change something.
    pub may_change: bool,
}

/// A connection with its caller.
pub type Connection = connection::Connection<Caller, OwnedSemaphorePermit>;

impl Owners {
    /// With these besides root and this process's user.
    pub fn new(uids: Vec<u32>) -> Self {
        Self { own: nix::unistd::geteuid().as_raw(), uids }
    }

    fn caller(&self, uid: u32) -> Caller {
        Caller { uid, may_change: uid == ROOT || uid == self.own || self.uids.contains(&uid) }
    }
}

/// Why the socket cannot be bound.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// There is no such group.
    #[error("socket.group: {0}")]
    Group(String),
    /// The path.
    #[error(transparent)]
    Socket(#[from] SocketError),
}

/// Binds the socket; its file belongs to `group`.
///
/// # Errors
/// What is in the way, or what the system refuses.
pub async fn bind(
    path: &Path,
    group: &str,
    owners: Owners,
) -> Result<(ReceiverStream<io::Result<Connection>>, SocketFile), BindError> {
    let gid = socket::group(group).map_err(BindError::Group)?;
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
