// SPDX-License-Identifier: Apache-2.0
//! What one caller may have in flight: calls, and octets of messages that are not whole.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use canopy_daemon::limits::{Budget, Limit, Place, Places};
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::{Service, http};
use tonic::server::NamedService;

use crate::caller::Source;
use crate::whole::{Held, Whole};

/// Calls of agents with a certificate to one service at once, together and with one key. A host has one per group that it watches and per
/// membership that it holds: a million memberships are held, and calls of hosts leave those of nodes their places.
const CALLS: (usize, usize) = (1 << 20, 2048);
/// Calls without a valid certificate at once, together and from one network.
const CALLS_OF_STRANGERS: (usize, usize) = (1024, 32);
/// Octets of messages that are not whole, together and of one caller, who gets two of the largest.
const MESSAGES: (usize, usize) = (32 << 20, 8 << 20);

/// The budgets of one listener.
#[derive(Clone)]
pub(crate) struct Guard {
    known: Places<Source>,
    strangers: Places<Source>,
    messages: Budget<Source>,
}

impl Default for Guard {
    fn default() -> Self {
        Self {
            known: Places::new(CALLS.0, CALLS.1),
            strangers: Places::new(CALLS_OF_STRANGERS.0, CALLS_OF_STRANGERS.1),
            messages: Budget::new(MESSAGES.0, MESSAGES.1),
        }
    }
}

impl Guard {
    /// For another service, whose calls and messages are counted apart.
    pub(crate) fn apart(&self) -> Self {
        let Self { strangers, .. } = self.clone();
        Self { strangers, ..Self::default() }
    }

    /// A place for a call; programs of the machine need none.
    fn call(&self, source: &Source) -> Result<Option<Place<Source>>, Status> {
        let place = match source {
            Source::Machine => return Ok(None),
            Source::Key(_) => self.known.take(source.clone()),
            Source::Stranger(_) => self.strangers.take(source.clone()),
        };
        place.map(Some).ok_or_else(|| {
            Limit::Calls.refuse();
            let (most, of) = match source {
                Source::Stranger(_) => (CALLS_OF_STRANGERS.1, "one network without a certificate"),
                _ => (CALLS.1, "one certificate"),
            };
            Status::resource_exhausted(format!("calls: {most} at once are what {of} may have: end one first"))
        })
    }
}

/// A service whose callers have what the guard leaves them.
#[derive(Clone)]
pub(crate) struct Guarded<S> {
    service: S,
    guard: Guard,
}

impl<S> Guarded<S> {
    pub(crate) fn new(service: S, guard: &Guard) -> Self {
        Self { service, guard: guard.clone() }
    }
}

impl<S: NamedService> NamedService for Guarded<S> {
    const NAME: &'static str = S::NAME;
}

type Answer = Result<http::Response<Body>, Infallible>;

impl<S> Service<http::Request<Body>> for Guarded<S>
where
    S: Service<http::Request<Body>, Response = http::Response<Body>, Error = Infallible>,
    S::Future: Send + 'static,
{
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Answer> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.service.poll_ready(cx)
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let source = Source::of(request.extensions());
        let place = match self.guard.call(&source) {
            Ok(place) => place,
            Err(refused) => return Box::pin(std::future::ready(Ok(refused.into_http()))),
        };
        let (head, body) = request.into_parts();
        let whole = Whole::new(body, head.uri.path(), self.guard.messages.open(source));
        let answering = self.service.call(http::Request::from_parts(head, Body::new(whole)));
        Box::pin(async move {
            let answer = answering.await?;
            Ok(answer.map(|body| Body::new(Held::new(body, place))))
        })
    }
}
