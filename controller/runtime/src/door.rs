// SPDX-License-Identifier: Apache-2.0
//! How a connection to the REST API comes in: within its bounds, as a user of this machine, or over TLS.

use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use canopy_controller_access::{Identity, Roles};
use canopy_controller_authority::Registrar;
use canopy_controller_grpc::{Place, Places, network};
use canopy_controller_rest::Caller;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use crate::caller;
use crate::listen::Listener;

/// A handshake takes at most this long.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// Connections of one user, other than root and the controller's own, through a Unix socket.
const OF_USER: usize = 128;
/// Connections that are kept for root and the controller's own user.
const RESERVED: usize = 64;
/// Connections of one address, or one /64 of IPv6, over TLS.
const OF_ADDRESS: usize = 64;

/// What connections are made from.
#[derive(Clone)]
pub(crate) struct Door {
    roles: Arc<Roles>,
    registrar: Option<Arc<Registrar>>,
    users: Places<u32>,
    addresses: Places<IpAddr>,
}

pub(crate) trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Stream for T {}

/// A connection that can be served.
pub(crate) struct Entered {
    pub(crate) stream: Box<dyn Stream>,
    pub(crate) caller: Caller,
    /// Given back with the connection.
    pub(crate) place: Held,
}

/// A place that a connection has.
#[allow(dead_code, reason = "held, not read")]
pub(crate) enum Held {
    Free,
    User(Place<u32>),
    Address(Place<IpAddr>),
}

/// A connection that comes in, which may take as long as a handshake.
pub(crate) type Entering = Pin<Box<dyn Future<Output = io::Result<Entered>> + Send>>;

impl Door {
    /// For listeners that have `most` connections at once.
    pub(crate) fn new(roles: Roles, registrar: Option<Arc<Registrar>>, most: usize) -> Self {
        let others = most.saturating_sub(RESERVED);
        let (users, addresses) = (Places::new(others, OF_USER), Places::new(others, OF_ADDRESS));
        Self { roles: Arc::new(roles), registrar, users, addresses }
    }
}

/// The next connection; `None`: one of a source that has all its places.
pub(crate) async fn accept(listener: &Listener, door: &Door) -> io::Result<Option<Entering>> {
    match listener {
        Listener::Tcp(l) if is_local(l) => {
            let (stream, peer) = l.accept().await?;
            stream.set_nodelay(true)?;
            let (local, roles) = (stream.local_addr()?, door.roles.clone());
            Ok(Some(Box::pin(async move {
                let asked = tokio::task::spawn_blocking(move || caller::of_tcp(peer, local, &roles)).await;
                // It has been this connection all the time: no other user has got its port meanwhile.
                stream.peer_addr()?;
                let caller = Caller::known(asked.map_err(io::Error::other)?);
                Ok(Entered { stream: Box::new(stream), caller, place: Held::Free })
            })))
        }
        Listener::Tcp(l) => {
            let (stream, peer) = l.accept().await?;
            let Some(place) = door.addresses.take(network(peer.ip())) else { return Ok(None) };
            let registrar = door.registrar.clone();
            Ok(Some(Box::pin(async move {
                let shaken = tokio::time::timeout(HANDSHAKE_TIMEOUT, handshake(stream, registrar.as_deref()));
                let stream = shaken.await.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
                // Who it is, each request shows by its bearer.
                let caller = Caller::known(Identity::unknown());
                Ok(Entered { stream, caller, place: Held::Address(place) })
            })))
        }
        Listener::Unix(l, _) => {
            let (stream, _) = l.accept().await?;
            let uid = stream.peer_cred()?.uid();
            let is_free = uid == 0 || uid == nix::unistd::Uid::effective().as_raw();
            let place = match is_free {
                true => Held::Free,
                false => match door.users.take(uid) {
                    Some(place) => Held::User(place),
                    None => return Ok(None),
                },
            };
            let caller = caller::of_unix(&stream, door.roles.clone());
            Ok(Some(entered(stream, caller, place)))
        }
    }
}

fn entered(stream: impl Stream + 'static, caller: Caller, place: Held) -> Entering {
    Box::pin(std::future::ready(Ok(Entered { stream: Box::new(stream), caller, place })))
}

async fn handshake(stream: TcpStream, registrar: Option<&Registrar>) -> io::Result<Box<dyn Stream>> {
    let registrar = registrar.ok_or_else(|| io::Error::other("there is no authority for TLS"))?;
    stream.set_nodelay(true)?;
    let config = canopy_identity::for_operators(&registrar.config().borrow());
    Ok(Box::new(TlsAcceptor::from(Arc::new(config)).accept(stream).await?))
}

/// Only this machine reaches it: without TLS, and users are known.
pub(crate) fn is_local(listener: &TcpListener) -> bool {
    listener.local_addr().is_ok_and(|address| address.ip().is_loopback())
}
