// SPDX-License-Identifier: Apache-2.0
//! A gRPC server's connection of a caller that is known.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::UnixStream;
use tonic::transport::server::Connected;

/// A connection with its caller, which requests have among their extensions, and with the place that it takes up until it ends.
#[derive(Debug)]
pub struct Connection<C, P> {
    stream: UnixStream,
    caller: C,
    _place: P,
}

impl<C, P> Connection<C, P> {
    /// The accepted `stream` of `caller`.
    pub fn new(stream: UnixStream, caller: C, place: P) -> Self {
        Self { stream, caller, _place: place }
    }
}

impl<C: Clone + Send + Sync + 'static, P> Connected for Connection<C, P> {
    type ConnectInfo = C;
    fn connect_info(&self) -> C {
        self.caller.clone()
    }
}

impl<C: Unpin, P: Unpin> AsyncRead for Connection<C, P> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl<C: Unpin, P: Unpin> AsyncWrite for Connection<C, P> {
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
