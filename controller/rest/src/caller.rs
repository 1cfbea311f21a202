// SPDX-License-Identifier: Apache-2.0
//! Who is at the other end of a connection, as an extension of its requests.

use std::sync::Arc;

use axum::Router;
use axum::extract::FromRequestParts;
use axum::http::Extensions;
use axum::http::request::Parts;
use canopy_controller_access::Identity;
use canopy_controller_core::principal::Principal;
use canopy_daemon::limits::Holder;
use tokio::sync::OnceCell;
use tower_http::add_extension::AddExtension;

/// The caller of a connection, or of one request that has a credential of its own.
#[derive(Clone)]
pub struct Caller {
    identity: Arc<OnceCell<Identity>>,
    ask: Arc<dyn Fn() -> Identity + Send + Sync>,
}

impl Caller {
    /// `ask` may block; it is called at the first request of the connection that needs a role.
    pub fn new(ask: impl Fn() -> Identity + Send + Sync + 'static) -> Self {
        Self { identity: Arc::default(), ask: Arc::new(ask) }
    }

    /// A caller that is known already.
    pub fn known(identity: Identity) -> Self {
        let identity = Arc::new(OnceCell::new_with(Some(identity)));
        Self { identity, ask: Arc::new(Identity::unknown) }
    }

    /// The identity of a request with these extensions; without a caller it may do nothing.
    pub(crate) async fn of(extensions: &Extensions) -> Identity {
        match extensions.get::<Self>() {
            Some(caller) => caller.identity().await,
            None => Identity::unknown(),
        }
    }

    /// `router` for the requests of this caller, over a connection that a bearer makes known, if it has an arrival.
    pub fn serve(
        self,
        router: Router,
        arrival: Option<Arrival>,
    ) -> AddExtension<AddExtension<Router, Option<Arrival>>, Self> {
        AddExtension::new(AddExtension::new(router, arrival), self)
    }

    async fn identity(&self) -> Identity {
        let ask = self.ask.clone();
        let asked = async { tokio::task::spawn_blocking(move || ask()).await.unwrap_or_else(|_| Identity::unknown()) };
        self.identity.get_or_init(|| asked).await.clone()
    }
}

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
