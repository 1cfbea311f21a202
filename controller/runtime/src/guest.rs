// SPDX-License-Identifier: Apache-2.0
//! How long a connection may stay: that of a stranger has its place among strangers until a request shows a bearer that works.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use canopy_controller_rest::Arrival;
use canopy_daemon::limits::{Admitted, Eviction, HolderPlace, HolderPlaces, Limit, Place, Visit};
use tokio::time::{Instant, sleep_until};

/// A connection without a bearer lasts no longer.
const UNKNOWN_LIFE: Duration = Duration::from_secs(30);

/// Places that a user of this machine has.
pub(crate) enum UserPlace {
    Root(#[allow(dead_code, reason = "held, not read")] Place<()>),
    Other(#[allow(dead_code, reason = "held, not read")] Place<u32>),
}

/// A connection whose user has no role of its own, as far as it is known.
#[derive(Clone)]
pub(crate) struct Guest(Arc<Mutex<State>>);

enum State {
    Stranger(Among),
    #[allow(dead_code, reason = "held, not read")]
    Known(Option<Admitted>, HolderPlace),
    /// Refused, or evicted while it was asked for.
    Gone,
}

/// Where a stranger has its place.
#[allow(dead_code, reason = "held, not read")]
enum Among {
    /// In the lobby of a TLS listener.
    Addresses(Visit),
    /// Among users of this machine without a role.
    Users(Place<u32>),
}

impl Among {
    /// Leaves it; `None` if the connection has been evicted.
    fn leave(self) -> Option<Option<Admitted>> {
        match self {
            Self::Addresses(visit) => visit.admit().map(Some),
            Self::Users(_) => Some(None),
        }
    }
}

impl Guest {
    /// A connection over TLS.
    pub(crate) fn elsewhere(visit: Visit, eviction: Eviction) -> (Self, Staying) {
        let guest = Self(Arc::new(Mutex::new(State::Stranger(Among::Addresses(visit)))));
        let until = Instant::now() + UNKNOWN_LIFE;
        (guest.clone(), Staying(Kind::Guest { guest, eviction: Some(eviction), user: None, until }))
    }

    /// Of a user of this machine without a role.
    pub(crate) fn here(user: UserPlace, place: Place<u32>) -> (Self, Staying) {
        let guest = Self(Arc::new(Mutex::new(State::Stranger(Among::Users(place)))));
        let until = Instant::now() + UNKNOWN_LIFE;
        (guest.clone(), Staying(Kind::Guest { guest, eviction: None, user: Some(user), until }))
    }

    /// What makes it known: the caller of its first bearer that works takes a place of `bearers`, once for the whole connection.
    pub(crate) fn arrival(self, bearers: HolderPlaces) -> Arrival {
        Arrival::new(move |holder| {
            let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let State::Stranger(_) = *state else { return matches!(*state, State::Known(..)) };
            let place = bearers.take(holder);
            if place.is_none() {
                Limit::Connections.refuse();
            }
            let admitted = match std::mem::replace(&mut *state, State::Gone) {
                State::Stranger(among) if place.is_some() => among.leave(),
                _ => None,
            };
            let known = admitted.zip(place).map(|(admitted, place)| State::Known(admitted, place));
            let is_known = known.is_some();
            *state = known.unwrap_or(State::Gone);
            is_known
        })
    }

    fn is_known(&self) -> bool {
        matches!(*self.0.lock().unwrap_or_else(PoisonError::into_inner), State::Known(..))
    }
}

/// What a connection holds while it is served, and what ends it.
pub(crate) struct Staying(Kind);

#[allow(dead_code, reason = "places are held, not read")]
enum Kind {
    User(UserPlace),
    Guest { guest: Guest, eviction: Option<Eviction>, user: Option<UserPlace>, until: Instant },
}

impl Staying {
    /// A user of this machine with a role.
    pub(crate) fn user(place: UserPlace) -> Self {
        Self(Kind::User(place))
    }

    /// Returns once the connection has to end. It can be dropped and awaited again.
    pub(crate) async fn ended(&mut self) {
        let Kind::Guest { guest, eviction, until, .. } = &mut self.0 else { return std::future::pending().await };
        let evicted = async {
            match eviction {
                Some(eviction) => eviction.await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = evicted => Limit::UnknownConnections.refuse(),
            () = sleep_until(*until) => if guest.is_known() {
                std::future::pending().await
            },
        }
    }
}
