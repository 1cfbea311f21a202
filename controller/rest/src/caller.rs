// SPDX-License-Identifier: Apache-2.0
//! Who is at the other end of a connection, as an extension of its requests. What a caller may do can change while the connection, a session
//! or a stream lasts, so that it is asked for again.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::FromRequestParts;
use axum::http::Extensions;
use axum::http::request::Parts;
use canopy_controller_access::Identity;
use canopy_controller_core::principal::Principal;
use canopy_daemon::limits::Holder;
use tokio::sync::Mutex;
use tokio::time::Instant;
use tower_http::add_extension::AddExtension;

/// An identity that blocks to be asked for is asked for again after this time.
const FRESH: Duration = Duration::from_secs(1);

type Asking = Pin<Box<dyn Future<Output = Identity> + Send>>;

/// The caller of a connection, or of one request that has a credential of its own.
#[derive(Clone)]
pub struct Caller(Arc<Source>);

enum Source {
    /// It never changes.
    Known(Identity),
    /// A user of this machine: asking blocks.
    User { ask: Arc<dyn Fn(&Identity) -> Identity + Send + Sync>, last: Mutex<(Instant, Identity)> },
    /// A credential.
    Credential(Box<dyn Fn() -> Asking + Send + Sync>),
}

impl Caller {
    /// A caller that is `first` now. `ask` returns who it is later, from the last answer, and may block.
    pub fn new(first: Identity, ask: impl Fn(&Identity) -> Identity + Send + Sync + 'static) -> Self {
        Self(Arc::new(Source::User { ask: Arc::new(ask), last: Mutex::new((Instant::now(), first)) }))
    }

    /// A caller that stays what it is.
    pub fn known(identity: Identity) -> Self {
        Self(Arc::new(Source::Known(identity)))
    }

    /// The caller that a credential shows, of a request or in the handshake of its connection; `ask` is short.
    pub fn credential<F: Future<Output = Identity> + Send + 'static>(
        ask: impl Fn() -> F + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(Source::Credential(Box::new(move || Box::pin(ask())))))
    }

    /// The identity of a request with these extensions; without a caller it may do nothing. Once it was decided about, it stays what it was then.
    pub(crate) async fn of(extensions: &Extensions) -> Identity {
        match extensions.get::<Decided>() {
            Some(Decided(identity)) => identity.clone(),
            None => Self::behind(extensions).identity().await,
        }
    }

    /// The caller of a request with these extensions.
    pub(crate) fn behind(extensions: &Extensions) -> Self {
        extensions.get::<Self>().cloned().unwrap_or_else(|| Self::known(Identity::unknown()))
    }

    /// `router` for the requests of this caller, over a connection that a bearer makes known, if it has an arrival.
    pub fn serve(
        self,
        router: Router,
        arrival: Option<Arrival>,
    ) -> AddExtension<AddExtension<Router, Option<Arrival>>, Self> {
        AddExtension::new(AddExtension::new(router, arrival), self)
    }

    /// Whether the connection has shown a certificate in its handshake.
    pub(crate) fn is_of_certificate(&self) -> bool {
        matches!(*self.0, Source::Credential(_))
    }

    /// Who has shown that, if it is worth something.
    pub(crate) async fn of_certificate(&self) -> Option<Identity> {
        let Source::Credential(ask) = &*self.0 else { return None };
        Some(ask().await).filter(|identity| identity.highest().is_some())
    }

    /// Whether it stays what it is.
    pub(crate) fn is_known(&self) -> bool {
        matches!(*self.0, Source::Known(_))
    }

    /// Who it is now, or was a second ago.
    pub(crate) async fn identity(&self) -> Identity {
        match &*self.0 {
            Source::Known(identity) => identity.clone(),
            Source::Credential(ask) => ask().await,
            Source::User { ask, last } => {
                // One asks at a time.
                let mut last = last.lock().await;
                if last.0.elapsed() >= FRESH {
                    let (ask, before) = (ask.clone(), last.1.clone());
                    let asked = tokio::task::spawn_blocking(move || ask(&before)).await;
                    *last = (Instant::now(), asked.unwrap_or_else(|_| Identity::unknown()));
                }
                last.1.clone()
            }
        }
    }
}

/// The identity that a request was permitted for.
#[derive(Clone)]
pub(crate) struct Decided(pub(crate) Identity);

/// By which a caller's limits are counted.
pub(crate) fn holder(principal: &Principal) -> Holder {
    let own = Principal { via: None, ..principal.clone() };
    let maker = Principal { token: None, ..own.clone() };
    Holder { maker: maker.to_string(), own: own.to_string() }
}

/// The way of a connection of a stranger to become that of a known caller.
#[derive(Clone)]
pub struct Arrival(Arc<dyn Fn(&Holder) -> bool + Send + Sync>);

impl Arrival {
    /// `admit` gets the caller of each request with a bearer that works, and returns false if there is no place for its connection.
    pub fn new(admit: impl Fn(&Holder) -> bool + Send + Sync + 'static) -> Self {
        Self(Arc::new(admit))
    }

    /// The connection of this request is that of a known caller from now on; false if it has no place as that.
    pub(crate) fn admit(request: &Extensions, by: &Identity) -> bool {
        let arrival = request.get::<Option<Self>>().and_then(Option::as_ref);
        arrival.is_none_or(|arrival| (arrival.0)(&holder(&by.principal)))
    }
}

/// The identity of a request, for handlers.
pub(crate) struct Sender(pub(crate) Identity);

impl<S: Send + Sync> FromRequestParts<S> for Sender {
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Self::Rejection> {
        Ok(Self(Caller::of(&parts.extensions).await))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Caller {
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Self::Rejection> {
        Ok(Self::behind(&parts.extensions))
    }
}
