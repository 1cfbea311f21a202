// SPDX-License-Identifier: Apache-2.0
//! TLS connections of agents: accepted within limits, and ended with the certificate that they came with.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use canopy_controller_authority::{Connected, Registrar, Revocations, Standing};
use canopy_daemon::limits::{Eviction, Limit, Place, Places, Silent, Strangers, Visit};
use canopy_identity::{AuthorityHash, Certificate, KeyHash};
use canopy_units::UnixTime;
use futures::Stream;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::server::Connected as ConnectInfo;

use crate::caller::Caller;

/// A handshake takes at most this long.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// Connections with a valid certificate at once, and with one key: an agent has four, and some that it has left.
const KNOWN: (usize, usize) = (32_768, 16);
/// A connection without a valid certificate lasts as long as its one call.
const UNKNOWN_LIFE: Duration = Duration::from_secs(30);
/// How often the end of a certificate is compared with the wall clock, which may be set.
const CLOCK: Duration = Duration::from_secs(60);
/// Pause after a failed accept, most likely for lack of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Connections of `listener` after their handshakes. Ends when it is dropped.
pub fn incoming(listener: TcpListener, registrar: Arc<Registrar>) -> impl Stream<Item = io::Result<Secure>> {
    let (sender, receiver) = mpsc::channel(16);
    tokio::spawn(async move {
        tokio::select! {
            () = accept(listener, registrar, &sender) => {}
            () = sender.closed() => {}
        }
    });
    ReceiverStream::new(receiver)
}

async fn accept(listener: TcpListener, registrar: Arc<Registrar>, to: &mpsc::Sender<io::Result<Secure>>) {
    let (strangers, known) = (Strangers::default(), Places::new(KNOWN.0, KNOWN.1));
    loop {
        let (stream, address) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection of an agent");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        // Closed at once where there is no place: the agent tries again.
        let Some(stranger) = strangers.enter(address.ip()) else { continue };
        let (registrar, known, to) = (Arc::clone(&registrar), known.clone(), to.clone());
        tokio::spawn(async move {
            let secured = Secure::handshake(stream, address, &registrar, stranger, &known);
            match tokio::time::timeout(HANDSHAKE_TIMEOUT, secured).await {
                Ok(Ok(secure)) => _ = to.send(Ok(secure)).await,
                // Not louder: everybody who reaches the port can cause it.
                Ok(Err(error)) => tracing::debug!(%address, %error, "refused a connection of an agent"),
                Err(_) => {
                    Limit::UnknownConnections.refuse();
                    tracing::debug!(%address, "a TLS handshake took more than {HANDSHAKE_TIMEOUT:?}");
                }
            }
        });
    }
}

/// A connection over TLS. It fails once its certificate has ended or is revoked.
pub struct Secure {
    stream: TlsStream<TcpStream>,
    caller: Caller,
    end: Pin<Box<dyn Future<Output = &'static str> + Send>>,
    _held: Held,
}

/// The place among those that are bounded; it is given back with the connection.
#[allow(dead_code, reason = "held, not read")]
enum Held {
    Stranger(Visit),
    Known(Place<KeyHash>, Connected),
}

impl Secure {
    async fn handshake(
        stream: TcpStream,
        address: SocketAddr,
        registrar: &Arc<Registrar>,
        stranger: Silent,
        known: &Places<KeyHash>,
    ) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        let (visit, mut eviction) = stranger.begun(&stream).await?;
        let revocations = registrar.revocations();
        let config = registrar.configs().agents;
        let stream = tokio::select! {
            accepted = TlsAcceptor::from(config).accept(stream) => accepted?,
            () = &mut eviction => return Err(evicted()),
        };
        let shown = stream.get_ref().1.peer_certificates().and_then(|chain| chain.first());
        let Some(shown) = shown else {
            let (caller, end) = (Caller::Anonymous(address), Box::pin(staying(eviction)));
            return Ok(Self { stream, caller, end, _held: Held::Stranger(visit) });
        };
        let (certificate, shown) = (Certificate::read(shown).map_err(io::Error::other)?, shown.clone().into_owned());
        let is_expired = certificate.not_after < UnixTime::now();
        let caller = Caller::Certified { certificate: certificate.clone(), is_expired, address };
        if is_expired {
            return Ok(Self { stream, caller, end: Box::pin(staying(eviction)), _held: Held::Stranger(visit) });
        }
        let slot = known.take(certificate.key).ok_or_else(|| {
            Limit::Connections.refuse();
            io::Error::other("too many connections of this agent, or of all")
        })?;
        let (noting, noted) = (Arc::clone(registrar), certificate.clone());
        let standing = registrar.standing();
        // Which authority it is of takes a signature, and what is new of it a file.
        let noted = tokio::task::spawn_blocking(move || {
            let signer = noting.standing().borrow().clone().signer(&shown)?;
            Some((signer, noting.connected(&noted, signer, UnixTime::now())))
        });
        let noted = noted.await.map_err(io::Error::other)?;
        // Replaced since the handshake.
        let (signer, connected) = noted.ok_or_else(|| io::Error::other("its authority is not accepted any more"))?;
        let end = Box::pin(ended(certificate, signer, revocations, standing));
        Ok(Self { stream, caller, end, _held: Held::Known(slot, connected) })
    }
}

/// Returns why the connection of a stranger has to end.
async fn staying(eviction: Eviction) -> &'static str {
    tokio::select! {
        () = tokio::time::sleep(UNKNOWN_LIFE) => "without a valid certificate, a connection is for one call",
        () = eviction => {
            Limit::UnknownConnections.refuse();
            "another connection needed the place of one without a valid certificate"
        }
    }
}

fn evicted() -> io::Error {
    Limit::UnknownConnections.refuse();
    io::Error::new(io::ErrorKind::ConnectionAborted, "another connection needed the place of this one")
}

/// Returns why the connection of this certificate has to end.
async fn ended(
    certificate: Certificate,
    signer: AuthorityHash,
    mut revocations: watch::Receiver<Arc<Revocations>>,
    mut standing: watch::Receiver<Arc<Standing>>,
) -> &'static str {
    let expired = async {
        loop {
            let left = certificate.not_after.nanos().saturating_sub(UnixTime::now().nanos());
            if left == 0 {
                return;
            }
            tokio::time::sleep(Duration::from_nanos(left).min(CLOCK)).await;
        }
    };
    tokio::select! {
        () = expired => "the certificate of this connection has ended",
        revoked = revocations.wait_for(|all| all.has(&certificate)) => match revoked {
            Ok(_) => "the certificate of this connection is revoked",
            Err(_) => "the controller is stopping",
        },
        replaced = standing.wait_for(|all| !all.accepts(signer)) => match replaced {
            Ok(_) => "the authority of this connection's certificate was replaced",
            Err(_) => "the controller is stopping",
        },
    }
}

impl ConnectInfo for Secure {
    type ConnectInfo = Caller;

    fn connect_info(&self) -> Caller {
        self.caller.clone()
    }
}

impl Secure {
    /// An error once the connection has to end. Reads and writes ask alike, whichever the connection waits for.
    fn poll_end(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        let Poll::Ready(why) = self.end.as_mut().poll(cx) else { return Ok(()) };
        tracing::debug!(caller = %self.caller, why, "closing a connection");
        // It is not polled again after it has ended.
        self.end = Box::pin(std::future::ready(why));
        Err(io::Error::new(io::ErrorKind::ConnectionAborted, why))
    }
}

impl AsyncRead for Secure {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, to: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.poll_end(cx)?;
        Pin::new(&mut self.stream).poll_read(cx, to)
    }
}

impl AsyncWrite for Secure {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, from: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_end(cx)?;
        Pin::new(&mut self.stream).poll_write(cx, from)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_end(cx)?;
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_end(cx)?;
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
