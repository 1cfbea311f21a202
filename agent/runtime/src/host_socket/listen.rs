// SPDX-License-Identifier: Apache-2.0
//! The bound socket, and accepted connections with their callers.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use canopy_daemon::connection::Connection;
use canopy_daemon::socket::{self, SocketFile};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::UnixListener;
use tokio::sync::mpsc;
use tokio::time::Sleep;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::server::Connected;

use super::access::{Access, Peer};
use super::slots::Slot;
use crate::config::HostSocket;

/// Delay after a failed accept, most likely for lack of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// A pod has to be identified on its connection within this: longer than the controller may take.
const IDENTIFIED_WITHIN: Duration = Duration::from_secs(15);

/// A connection with its caller. One on which no pod is identified in time ends.
pub(super) struct Accepted {
    connection: Connection<Peer, Option<Slot>>,
    /// Of a pod that is not identified yet.
    waiting: Option<(Peer, Pin<Box<Sleep>>)>,
}

/// Binds the socket.
///
/// # Errors
/// The step that failed, and its cause.
pub(super) async fn bind(
    config: &HostSocket,
    access: Arc<Access>,
) -> Result<(ReceiverStream<io::Result<Accepted>>, SocketFile), String> {
    let gid = socket::group(&config.group).map_err(|why| format!("host_socket.group: {why}"))?;
    let (listener, file) = socket::bind(&config.path, gid, socket::FOR_GROUP).await.map_err(|error| error.text())?;
    let (sender, receiver) = mpsc::channel(1);
    tokio::spawn(accept(listener, access, sender));
    Ok((ReceiverStream::new(receiver), file))
}

async fn accept(listener: UnixListener, access: Arc<Access>, sender: mpsc::Sender<io::Result<Accepted>>) {
    loop {
        let stream = tokio::select! {
            accepted = listener.accept() => accepted.map(|(stream, _)| stream),
            () = sender.closed() => return,
        };
        let admitted = stream.and_then(|stream| Ok((access.admit(&stream.peer_cred()?), stream)));
        match admitted {
            Ok((Some((peer, slot)), stream)) => {
                let waiting =
                    peer.is_unidentified().then(|| (peer.clone(), Box::pin(tokio::time::sleep(IDENTIFIED_WITHIN))));
                let connection = Connection::new(stream, peer, slot);
                if sender.send(Ok(Accepted { connection, waiting })).await.is_err() {
                    return;
                }
            }
            Ok((None, _)) => tracing::warn!("too many connections of callers without permission or token: closing one"),
            Err(error) => {
                tracing::warn!(%error, "cannot accept an application's connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

impl Connected for Accepted {
    type ConnectInfo = Peer;
    fn connect_info(&self) -> Peer {
        self.connection.connect_info()
    }
}

impl AsyncRead for Accepted {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if let Some((peer, sleep)) = &mut self.waiting {
            if !peer.is_unidentified() {
                self.waiting = None;
            } else if sleep.as_mut().poll(cx).is_ready() {
                let why = format!("no pod was identified within {IDENTIFIED_WITHIN:?}");
                return Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, why)));
            }
        }
        Pin::new(&mut self.connection).poll_read(cx, buf)
    }
}

impl AsyncWrite for Accepted {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.connection).poll_write(cx, buf)
    }
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.connection).poll_flush(cx)
    }
    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.connection).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt;
    use tokio::net::UnixStream;

    use super::*;

    /// Catches silent connections that keep pods with tokens from connecting.
    #[tokio::test(start_paused = true)]
    async fn a_connection_without_a_pod_ends_and_one_with_a_pod_lasts() {
        let config = HostSocket { kubernetes: true, ..HostSocket::at_default() };
        let access = Access::new(&config);
        let accepted = || {
            let (near, far) = UnixStream::pair().unwrap();
            let (peer, slot) = access.admit(&near.peer_cred().unwrap()).unwrap();
            let waiting = Some((peer.clone(), Box::pin(tokio::time::sleep(IDENTIFIED_WITHIN))));
            (Accepted { connection: Connection::new(near, peer.clone(), slot), waiting }, peer, far)
        };
        let (mut silent, _, _far) = accepted();
        let ended = tokio::time::timeout(IDENTIFIED_WITHIN * 4, silent.read_u8()).await.expect("it lasts");
        assert_eq!(ended.unwrap_err().kind(), io::ErrorKind::TimedOut);
        let (mut pod, peer, _far) = accepted();
        peer.identified(&"training/trainer 1".parse().unwrap()).unwrap();
        let waited = tokio::time::timeout(IDENTIFIED_WITHIN * 4, pod.read_u8()).await;
        assert!(waited.is_err(), "{waited:?}");
    }
}
