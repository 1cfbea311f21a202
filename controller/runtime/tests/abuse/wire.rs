// SPDX-License-Identifier: Apache-2.0
//! Octets as no library here would send them: HTTP/1.1 by hand, HTTP/2 frames (RFC 9113 section 4.1), over TCP, TLS and Unix sockets.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream, UnixStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::ClientConfig;

/// Own address where none matters.
pub(crate) const HERE: Ipv4Addr = Ipv4Addr::LOCALHOST;

pub(crate) trait Both: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Both for T {}

/// A connection of any kind.
pub(crate) type Wire = Box<dyn Both>;

/// The n-th address of an attacker who has many: each is a network of its own for the controller.
pub(crate) fn elsewhere(n: usize) -> Ipv4Addr {
    Ipv4Addr::new(127, 1, (n / 250) as u8, (n % 250 + 1) as u8)
}

pub(crate) async fn tcp(from: Ipv4Addr, port: u16) -> io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.bind(SocketAddr::new(IpAddr::V4(from), 0))?;
    socket.connect(SocketAddr::new(IpAddr::V4(HERE), port)).await
}

pub(crate) async fn tls(from: Ipv4Addr, port: u16, config: Arc<ClientConfig>) -> io::Result<Wire> {
    let name = IpAddr::V4(HERE).into();
    let stream = tcp(from, port).await?;
    Ok(Box::new(TlsConnector::from(config).connect(name, stream).await?))
}

pub(crate) async fn unix(path: &Path) -> io::Result<Wire> {
    Ok(Box::new(UnixStream::connect(path).await?))
}

/// The head of a request with a body of so many octets.
pub(crate) fn head(method: &str, path: &str, bearer: Option<&str>, length: usize) -> String {
    let bearer = bearer.map(|bearer| format!("Authorization: Bearer {bearer}\r\n")).unwrap_or_default();
    format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n{bearer}Content-Length: {length}\r\n\r\n"
    )
}

/// A whole answer to a request: its status, headers and body.
pub(crate) async fn ask(wire: &mut Wire, head: &str, body: &[u8]) -> io::Result<(u16, String)> {
    wire.write_all(head.as_bytes()).await?;
    wire.write_all(body).await?;
    answer(wire).await
}

pub(crate) async fn answer(wire: &mut Wire) -> io::Result<(u16, String)> {
    let mut all = Vec::new();
    loop {
        let count = wire.read_buf(&mut all).await?;
        let text = String::from_utf8_lossy(&all);
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.to_ascii_lowercase();
            let length = length.split("content-length: ").nth(1).and_then(|rest| rest.lines().next()?.parse().ok());
            if length.is_none_or(|length: usize| body.len() >= length) {
                let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
                return status
                    .map(|status| (status, text.clone().into_owned()))
                    .ok_or_else(|| io::Error::other("no status"));
            }
        }
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
}

pub(crate) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
pub(crate) const DATA: u8 = 0;
pub(crate) const HEADERS: u8 = 1;
pub(crate) const RST_STREAM: u8 = 3;
pub(crate) const SETTINGS: u8 = 4;
pub(crate) const PING: u8 = 6;
pub(crate) const WINDOW_UPDATE: u8 = 8;
pub(crate) const CONTINUATION: u8 = 9;
pub(crate) const END_STREAM: u8 = 1;
pub(crate) const END_HEADERS: u8 = 4;

pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = payload.len() as u32;
    let mut octets = length.to_be_bytes()[1..].to_vec();
    octets.extend([kind, flags]);
    octets.extend(stream.to_be_bytes());
    octets.extend(payload);
    octets
}

/// SETTINGS with INITIAL_WINDOW_SIZE: how much of an answer the server may send without being asked.
pub(crate) fn window(size: u32) -> Vec<u8> {
    let mut payload = 4_u16.to_be_bytes().to_vec();
    payload.extend(size.to_be_bytes());
    frame(SETTINGS, 0, 0, &payload)
}

/// A header block of a gRPC call (RFC 7541, nothing indexed by it).
pub(crate) fn block(path: &str) -> Vec<u8> {
    let mut octets = vec![0x83, 0x86, 0x04, path.len() as u8];
    octets.extend(path.as_bytes());
    octets.extend([0x01, 1, b'c', 0x0F, 0x10, 16]);
    octets.extend(b"application/grpc");
    octets.extend([0x00, 2, b't', b'e', 8]);
    octets.extend(b"trailers");
    octets
}

/// A message with its gRPC prefix, which may announce more than there is.
pub(crate) fn message(announced: usize, content: &[u8]) -> Vec<u8> {
    let mut octets = vec![0];
    octets.extend((announced as u32).to_be_bytes());
    octets.extend(content);
    octets
}

/// A field of wire type 2.
pub(crate) fn field(number: u8, content: &[u8]) -> Vec<u8> {
    let mut octets = vec![number << 3 | 2];
    let mut length = content.len();
    while length > 127 {
        octets.push(length as u8 | 0x80);
        length >>= 7;
    }
    octets.push(length as u8);
    octets.extend(content);
    octets
}

/// An HTTP/2 connection after its preface; what the server sends is read and thrown away.
pub(crate) struct Http2 {
    sender: tokio::io::WriteHalf<Wire>,
    reading: tokio::task::JoinHandle<()>,
}

impl Drop for Http2 {
    fn drop(&mut self) {
        self.reading.abort();
    }
}

impl Http2 {
    /// `answers`: how much of an answer the server may send.
    pub(crate) async fn begin(wire: Wire, answers: u32) -> io::Result<Self> {
        let (mut receiver, mut sender) = tokio::io::split(wire);
        sender.write_all(PREFACE).await?;
        sender.write_all(&window(answers)).await?;
        sender.write_all(&frame(SETTINGS, 1, 0, &[])).await?;
        // The connection's window, so that the server's does not end its reading.
        sender.write_all(&frame(WINDOW_UPDATE, 0, 0, &(1_u32 << 30).to_be_bytes())).await?;
        sender.flush().await?;
        let reading = tokio::spawn(async move {
            let mut octets = vec![0; 64 << 10];
            while receiver.read(&mut octets).await.is_ok_and(|count| count > 0) {}
        });
        Ok(Self { sender, reading })
    }

    pub(crate) async fn send(&mut self, octets: &[u8]) -> io::Result<()> {
        self.sender.write_all(octets).await?;
        self.sender.flush().await
    }

    /// Opens a call.
    pub(crate) async fn call(&mut self, stream: u32, path: &str) -> io::Result<()> {
        self.send(&frame(HEADERS, END_HEADERS, stream, &block(path))).await
    }

    /// Octets of a body, in frames that every server takes.
    pub(crate) async fn data(&mut self, stream: u32, content: &[u8]) -> io::Result<()> {
        for part in content.chunks(16 << 10) {
            self.send(&frame(DATA, 0, stream, part)).await?;
        }
        Ok(())
    }
}
