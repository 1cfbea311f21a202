// SPDX-License-Identifier: Apache-2.0
//! How a connection to the REST API comes in: within its bounds, as a user of this machine, or over TLS.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use canopy_controller_access::{Identity, Live, Roles, Tokens};
use canopy_controller_authority::Registrar;
use canopy_controller_rest::{Arrival, Caller};
use canopy_daemon::limits::{HolderPlaces, Limit, Place, Places, Silent, Strangers};
use canopy_identity::{Certificate, KeyHash, Subject};
use canopy_units::UnixTime;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;

use crate::caller::Connected;
use crate::guest::{Guest, Staying, UserPlace};
use crate::listen::Listener;
use crate::socket_owner::uid_of_socket;
use crate::users::Users;

/// A handshake takes at most this long.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// Connections of users of this machine with a role, together and of one. Root and the controller's own user have [`OF_ROOT`] besides.
const USERS: (usize, usize) = (1024, 128);
/// Connections of root and the controller's own user.
const OF_ROOT: usize = 1024;
/// Connections of users without a role, together and of one: who may make many users keeps those with a role from nothing.
const WITHOUT_ROLE: (usize, usize) = (64, 16);
/// Connections over loopback whose user is asked for, and how many of them at a time: where the kernel cannot be asked for
/// one socket, each reads its table of all.
const ASKED_FOR: (usize, usize) = (256, 2);
/// Connections with a bearer, together, of all tokens of one maker, and of one caller.
const BEARERS: (usize, usize, usize) = (1024, 512, 128);

/// What connections are made from.
#[derive(Clone)]
pub(crate) struct Door {
    roles: Live<Roles>,
    database: Users,
    registrar: Option<Arc<Registrar>>,
    tokens: Arc<Tokens>,
    /// At an address for browsers: with which certificate.
    browsers: Option<Live<ServerConfig>>,
    users: Places<u32>,
    root: Places<()>,
    without_role: Places<u32>,
    asked_for: Places<()>,
    asking: Arc<Semaphore>,
    strangers: Strangers,
    bearers: HolderPlaces,
}

pub(crate) trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Stream for T {}

/// A connection that can be served.
pub(crate) struct Entered {
    pub(crate) stream: Box<dyn Stream>,
    pub(crate) caller: Caller,
    /// Of a connection that may become known by a request.
    pub(crate) arrival: Option<Arrival>,
    pub(crate) staying: Staying,
}

/// A connection that comes in, which may take as long as a handshake.
pub(crate) type Entering = Pin<Box<dyn Future<Output = io::Result<Entered>> + Send>>;

impl Door {
    pub(crate) fn new(roles: Live<Roles>, registrar: Option<Arc<Registrar>>, tokens: Arc<Tokens>) -> Self {
        Self {
            roles,
            database: Users::default(),
            registrar,
            tokens,
            browsers: None,
            users: Places::new(USERS.0, USERS.1),
            root: Places::new(OF_ROOT, OF_ROOT),
            without_role: Places::new(WITHOUT_ROLE.0, WITHOUT_ROLE.1),
            asked_for: Places::new(ASKED_FOR.0, ASKED_FOR.0),
            asking: Arc::new(Semaphore::new(ASKED_FOR.1)),
            strangers: Strangers::default(),
            bearers: HolderPlaces::new(BEARERS.0, BEARERS.1, BEARERS.2),
        }
    }

    /// The same, with the same places, for an address for browsers on other machines.
    pub(crate) fn for_browsers(&self, tls: Live<ServerConfig>) -> Self {
        Self { browsers: Some(tls), ..self.clone() }
    }

    /// Users of this machine connect here, without TLS.
    pub(crate) fn is_local(&self, listener: &TcpListener) -> bool {
        self.browsers.is_none() && listener.local_addr().is_ok_and(|address| address.ip().is_loopback())
    }

    /// A place for a connection of this user, before the user's role is asked for.
    fn user(&self, uid: Option<u32>) -> io::Result<UserPlace> {
        let is_free = uid.is_some_and(|uid| uid == 0 || uid == nix::unistd::Uid::effective().as_raw());
        let place = match is_free {
            true => self.root.take(()).map(UserPlace::Root),
            // Who cannot be known is one user.
            false => self.users.take(uid.unwrap_or(u32::MAX)).map(UserPlace::Other),
        };
        place.ok_or_else(|| refused("too many connections of this user, or of all"))
    }

    /// What a connection of this user is served with.
    fn entered(
        &self,
        stream: impl Stream + 'static,
        place: UserPlace,
        uid: Option<u32>,
        connected: Connected,
        identity: Identity,
    ) -> io::Result<Entered> {
        let (arrival, staying) = match identity.highest() {
            Some(_) => (None, Staying::user(place)),
            None => {
                let among = self.without_role.take(uid.unwrap_or(u32::MAX));
                let among = among.ok_or_else(|| refused("too many connections of users without a role"))?;
                let (guest, staying) = Guest::here(place, among);
                (Some(guest.arrival(self.bearers.clone())), staying)
            }
        };
        let caller = Caller::new(identity, move |last| connected.identity(Some(last)));
        Ok(Entered { stream: Box::new(stream), caller, arrival, staying })
    }

    /// A user of this machine, over loopback.
    async fn over_loopback(self, stream: TcpStream, peer: SocketAddr, place: Place<()>) -> io::Result<Entered> {
        let (local, roles, users) = (stream.local_addr()?, self.roles.clone(), self.database.clone());
        let turn = self.asking.acquire().await;
        let uid = tokio::task::spawn_blocking(move || uid_of_socket(peer, local)).await.map_err(io::Error::other)?;
        drop((turn, place));
        // It has been this connection all the time: no other user has got its port meanwhile.
        stream.peer_addr()?;
        let place = self.user(uid)?;
        let (connected, identity) = asked(move || Connected::over_tcp(uid, roles, users)).await?;
        self.entered(stream, place, uid, connected, identity)
    }

    /// A user elsewhere, who has shown a certificate in the handshake, or shows a bearer with each request.
    async fn over_tls(self, stream: TcpStream, stranger: Silent) -> io::Result<Entered> {
        let (visit, eviction) = stranger.begun(&stream).await?;
        let (guest, mut staying) = Guest::elsewhere(visit, eviction);
        let shaken = tokio::time::timeout(HANDSHAKE_TIMEOUT, handshake(stream, &self));
        let (stream, shown) = tokio::select! {
            shaken = shaken => shaken.map_err(|_| refused("the handshake took too long"))??,
            () = staying.ended() => return Err(io::ErrorKind::ConnectionAborted.into()),
        };
        let caller = match shown {
            Some((name, key)) => {
                _ = self.tokens.shown(&name, key, UnixTime::now());
                let tokens = self.tokens.clone();
                let now = move || tokens.certified(&name, key, UnixTime::now()).unwrap_or_else(Identity::unknown);
                Caller::credential(move || std::future::ready(now()))
            }
            None => Caller::known(Identity::unknown()),
        };
        let arrival = Some(guest.arrival(self.bearers));
        Ok(Entered { stream, caller, arrival, staying })
    }
}

fn refused(why: &'static str) -> io::Error {
    Limit::Connections.refuse();
    io::Error::other(why)
}

/// The next connection; `None`: one for which there is no place.
pub(crate) async fn accept(listener: &Listener, door: &Door) -> io::Result<Option<Entering>> {
    match listener {
        Listener::Tcp(l) if door.is_local(l) => {
            let (stream, peer) = l.accept().await?;
            stream.set_nodelay(true)?;
            let Some(place) = door.asked_for.take(()) else {
                Limit::Connections.refuse();
                return Ok(None);
            };
            Ok(Some(Box::pin(door.clone().over_loopback(stream, peer, place))))
        }
        Listener::Tcp(l) => {
            let (stream, peer) = l.accept().await?;
            let Some(stranger) = door.strangers.enter(peer.ip()) else { return Ok(None) };
            Ok(Some(Box::pin(door.clone().over_tls(stream, stranger))))
        }
        Listener::Unix(l, _) => {
            let (stream, _) = l.accept().await?;
            let uid = stream.peer_cred()?.uid();
            let Ok(place) = door.user(Some(uid)) else { return Ok(None) };
            let door = door.clone();
            Ok(Some(Box::pin(async move {
                let connected = Connected::over_unix(&stream, door.roles.clone(), door.database.clone());
                let (connected, identity) = asked(connected).await?;
                door.entered(stream, place, Some(uid), connected, identity)
            })))
        }
    }
}

/// With name and key of the operator's certificate that the client has shown.
async fn handshake(stream: TcpStream, door: &Door) -> io::Result<(Box<dyn Stream>, Option<(String, KeyHash)>)> {
    stream.set_nodelay(true)?;
    let config = match (&door.browsers, &door.registrar) {
        (Some(browsers), _) => browsers.get(),
        (None, Some(registrar)) => registrar.configs().operators,
        (None, None) => return Err(io::Error::other("there is no authority for TLS")),
    };
    let stream = TlsAcceptor::from(config).accept(stream).await?;
    let shown = stream.get_ref().1.peer_certificates().and_then(|chain| Certificate::read(chain.first()?).ok());
    let of_operator = shown.and_then(|Certificate { subject, key, .. }| match subject {
        Subject::Operator(name) => Some((name, key)),
        _ => None,
    });
    Ok((Box::new(stream), of_operator))
}

/// A user of this machine, and who that is now.
async fn asked(connected: impl FnOnce() -> Connected + Send + 'static) -> io::Result<(Connected, Identity)> {
    let ask = move || {
        let connected = connected();
        let identity = connected.identity(None);
        (connected, identity)
    };
    tokio::task::spawn_blocking(ask).await.map_err(io::Error::other)
}
