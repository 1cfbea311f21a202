// SPDX-License-Identifier: Apache-2.0
//! What one caller can take of a daemon, so that something is left for the others: connections, calls, octets in flight.
//!
//! - [`Lobby`]: connections of callers that are not known yet; the newest displaces the oldest of the source that has the most.
//! - [`Strangers`]: the two lobbies of a TCP port.
//! - [`Places`]: connections, calls or streams of known callers; one that has all of its own is refused more.
//! - [`Budget`]: octets of requests and answers that are held; one caller never gets more than is left for all others.
//! - [`Holder`]: a caller by its credential, with places and octets of its own among those of its maker.
//! - [`Limit`] names each of them, and counts what it has refused.

mod budget;
mod holder;
mod lobby;
mod places;
mod strangers;

use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicU64, Ordering};

pub use budget::{Account, Budget, OverBudget};
pub use holder::{Holder, HolderAccount, HolderBudget, HolderPlace, HolderPlaces};
pub use lobby::{Admitted, Eviction, Lobby, Visit};
pub use places::{Place, Places};
pub use strangers::{Silent, Strangers};

/// A limit at which something was refused or ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// Connections whose caller is not known yet.
    UnknownConnections,
    /// Connections of one known caller, or of all.
    Connections,
    /// Calls at once of one caller.
    Calls,
    /// Streams of changes at once of one caller, or of all.
    Streams,
    /// Octets of requests that are not answered yet.
    RequestOctets,
    /// Octets of answers that are not taken yet.
    AnswerOctets,
    /// Items in one message.
    MessageItems,
    /// How long a message may take to arrive.
    MessageTime,
}

impl Limit {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::UnknownConnections,
        Self::Connections,
        Self::Calls,
        Self::Streams,
        Self::RequestOctets,
        Self::AnswerOctets,
        Self::MessageItems,
        Self::MessageTime,
    ];

    /// As metrics name it.
    pub fn name(self) -> &'static str {
        match self {
            Self::UnknownConnections => "unknown_connections",
            Self::Connections => "connections",
            Self::Calls => "calls",
            Self::Streams => "streams",
            Self::RequestOctets => "request_octets",
            Self::AnswerOctets => "answer_octets",
            Self::MessageItems => "message_items",
            Self::MessageTime => "message_time",
        }
    }

    /// Counts one refusal.
    pub fn refuse(self) {
        REFUSED[self as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// How many there were in this process.
    pub fn refused(self) -> u64 {
        REFUSED[self as usize].load(Ordering::Relaxed)
    }
}

/// Of the process: its limits are of all its listeners.
static REFUSED: [AtomicU64; Limit::ALL.len()] = [const { AtomicU64::new(0) }; Limit::ALL.len()];

/// What counts as one address: a machine has a whole /64 of IPv6 addresses.
pub fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => Ipv6Addr::from(u128::from(v6) & !u128::from(u64::MAX)).into(),
        v4 => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_counts_its_own_refusals_under_its_own_name() {
        for (place, limit) in Limit::ALL.into_iter().enumerate() {
            assert_eq!(limit as usize, place, "the counter of {}", limit.name());
            let same = Limit::ALL.iter().filter(|other| other.name() == limit.name());
            assert_eq!(same.count(), 1);
        }
    }
}
