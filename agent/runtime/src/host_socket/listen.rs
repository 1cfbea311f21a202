// SPDX-License-Identifier: Apache-2.0
//! The bound socket, and accepted connections with their callers.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use canopy_daemon::socket::{self, SocketFile};
use tokio::net::UnixListener;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

use super::access::{Access, Caller};
use super::slots::Slot;
use crate::config::HostSocket;

/// Delay after a failed accept, most likely for lack of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A connection with its caller.
pub(super) type Connection = canopy_daemon::connection::Connection<Caller, Slot>;

/// Binds the socket.
///
/// # Errors
/// The step that failed, and its cause.
pub(super) async fn bind(
    config: &HostSocket,
    access: Arc<Access>,
) -> Result<(ReceiverStream<io::Result<Connection>>, SocketFile), String> {
    let gid = socket::group(&config.group).map_err(|why| format!("host_socket.group: {why}"))?;
    let (listener, file) = socket::bind(&config.path, gid, socket::FOR_GROUP).await.map_err(|error| error.text())?;
    let (sender, receiver) = mpsc::channel(1);
    tokio::spawn(accept(listener, access, sender));
    Ok((ReceiverStream::new(receiver), file))
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
                if sender.send(Ok(Connection::new(stream, caller, slot))).await.is_err() {
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
