// SPDX-License-Identifier: Apache-2.0
//! Connections of strangers to a TCP port, in two lobbies: those that have sent nothing yet are many and cost little more than their socket,
//! those that have are in a handshake, or have shown no certificate.

use std::io;
use std::net::IpAddr;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::time::Instant;

use super::{Eviction, Limit, Lobby, Visit};

/// Connections that have sent nothing, together and of one network.
const SILENT: (usize, usize) = (4096, 2048);
/// A connection sends its first octet within this time.
const SILENCE: Duration = Duration::from_secs(10);
/// Handshakes, and connections whose caller is not known, together and of one network.
const UNKNOWN: (usize, usize) = (512, 128);
/// Such a connection is not evicted for an equal source before this: a handshake takes a few milliseconds of a processor, and the way
/// there and back.
const SAFE: Duration = Duration::from_millis(250);

/// The strangers at one port.
#[derive(Clone)]
pub struct Strangers {
    silent: Lobby,
    unknown: Lobby,
}

/// A connection that has sent nothing yet.
pub struct Silent {
    address: IpAddr,
    _visit: Visit,
    eviction: Eviction,
    unknown: Lobby,
}

impl Default for Strangers {
    fn default() -> Self {
        let silent = Lobby::new(SILENT.0, SILENT.1, Duration::ZERO);
        Self { silent, unknown: Lobby::new(UNKNOWN.0, UNKNOWN.1, SAFE) }
    }
}

impl Strangers {
    /// A connection from this address; `None` if there is no place for it.
    pub fn enter(&self, address: IpAddr) -> Option<Silent> {
        let entered = self.silent.enter(address, Instant::now());
        if entered.is_none() {
            Limit::UnknownConnections.refuse();
        }
        let (visit, eviction) = entered?;
        Some(Silent { address, _visit: visit, eviction, unknown: self.unknown.clone() })
    }
}

impl Silent {
    /// Its place once it has sent something.
    ///
    /// # Errors
    /// It sends nothing, or others needed its place.
    pub async fn begun(self, stream: &TcpStream) -> io::Result<(Visit, Eviction)> {
        let refused = |why| {
            Limit::UnknownConnections.refuse();
            io::Error::new(io::ErrorKind::ConnectionAborted, why)
        };
        let mut first = [0];
        tokio::select! {
            // Not `readable`, which may be ready without an octet.
            sent = stream.peek(&mut first) => if sent? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            },
            () = self.eviction => return Err(refused("another connection needed the place of this one")),
            () = tokio::time::sleep(SILENCE) => return Err(refused("nothing was sent")),
        }
        let place = self.unknown.enter(self.address, Instant::now());
        place.ok_or_else(|| refused("there are too many connections whose caller is not known"))
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt;
    use tokio::net::TcpListener;

    use super::*;

    /// Catches a connection that has a place among handshakes although it has sent nothing, and one that is not let in with its first octet.
    #[tokio::test]
    async fn who_has_sent_nothing_takes_no_place_of_a_handshake() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let strangers = Strangers::default();
        let (mut silent, mut held) = (tokio::task::JoinSet::new(), Vec::new());
        for _ in 0..2 * UNKNOWN.1 {
            let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
            let (stream, peer) = listener.accept().await.unwrap();
            let place = strangers.enter(peer.ip()).unwrap();
            silent.spawn(async move { place.begun(&stream).await.map(drop) });
            held.push(client);
        }
        tokio::task::yield_now().await;
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (stream, peer) = listener.accept().await.unwrap();
        client.write_all(&[22]).await.unwrap();
        let place = strangers.enter(peer.ip()).unwrap();
        assert!(place.begun(&stream).await.is_ok());
        assert!(silent.try_join_next().is_none(), "a connection that has sent nothing was let in or refused");
        drop(held);
        while let Some(ended) = silent.join_next().await {
            assert_eq!(ended.unwrap().unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        }
    }
}
