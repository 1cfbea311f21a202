// SPDX-License-Identifier: Apache-2.0
//! Connections whose octets are counted.

use std::io;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::UnixStream;
use tonic::transport::{Channel, Endpoint, Uri};

/// A connection that counts what arrives.
struct Counted {
    stream: UnixStream,
    arrived: Arc<AtomicU64>,
}

impl AsyncRead for Counted {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buffer);
        self.arrived.fetch_add((buffer.filled().len() - before) as u64, Ordering::Relaxed);
        read
    }
}

impl AsyncWrite for Counted {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, octets: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, octets)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// A connection to a socket, made on first use and again; what arrives over it is added to `arrived`.
pub(crate) fn channel(socket: PathBuf, arrived: Arc<AtomicU64>) -> Channel {
    let connect = move |_: Uri| {
        let (socket, arrived) = (socket.clone(), Arc::clone(&arrived));
        async move { Ok::<_, io::Error>(TokioIo::new(Counted { stream: UnixStream::connect(socket).await?, arrived })) }
    };
    Endpoint::from_static("http://controller").connect_with_connector_lazy(tower::service_fn(connect))
}
