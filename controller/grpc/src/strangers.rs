// SPDX-License-Identifier: Apache-2.0
//! Connections that have not shown a valid certificate: few at once, and fewer from one address, so that one machine that opens many does
//! not keep agents on other machines out.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// At once, of all addresses.
const MAX: usize = 1024;
/// At once, of one IPv4 address or one /64 of IPv6 addresses: a machine chooses the rest by itself.
const MAX_OF_ONE: usize = 64;

/// How many there are.
#[derive(Clone, Default)]
pub(crate) struct Strangers(Arc<Mutex<HashMap<IpAddr, usize>>>);

/// The place of one of them, until it is dropped.
pub(crate) struct Place {
    of: IpAddr,
    all: Strangers,
}

impl Strangers {
    /// A place for a connection from this address; `None` if there is none.
    pub(crate) fn enter(&self, address: IpAddr) -> Option<Place> {
        let of = source(address);
        let mut all = self.lock();
        let total: usize = if all.len() >= MAX { MAX } else { all.values().sum() };
        let own = all.get(&of).copied().unwrap_or(0);
        if total >= MAX || own >= MAX_OF_ONE {
            return None;
        }
        all.insert(of, own + 1);
        Some(Place { of, all: self.clone() })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<IpAddr, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut all = self.all.lock();
        match all.get_mut(&self.of) {
            Some(own) if *own > 1 => *own -= 1,
            _ => _ = all.remove(&self.of),
        }
    }
}

fn source(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => Ipv6Addr::from(u128::from(v6) & !u128::from(u64::MAX)).into(),
        v4 => v4,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn one_address_does_not_take_the_places_of_others() {
        let strangers = Strangers::default();
        let at = |text: &str| strangers.enter(text.parse().unwrap());
        // A machine has its whole /64, and the mapped form of an IPv4 address is that address.
        let mut held: Vec<Place> = (0..MAX_OF_ONE).map(|i| at(&format!("2001:db8::{i:x}")).unwrap()).collect();
        assert!(at("2001:db8::ffff:1").is_none() && at("2001:db8:0:1::1").is_some());
        held.extend((0..MAX_OF_ONE).map(|_| at("192.0.2.1").unwrap()));
        assert!(at("::ffff:192.0.2.1").is_none() && at("192.0.2.2").is_some());
        held.pop();
        assert!(at("192.0.2.1").is_some());
        drop(held);
        assert!(strangers.lock().is_empty());
    }

    #[test]
    fn all_together_are_bounded() {
        let strangers = Strangers::default();
        let at = |i: usize| strangers.enter(IpAddr::V4((0x0A00_0000 + i as u32).into()));
        let held: Vec<Place> = (0..MAX).map(|i| at(i).unwrap()).collect();
        assert!(at(MAX).is_none());
        drop(held);
        assert!(at(MAX).is_some());
    }
}
