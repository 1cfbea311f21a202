// SPDX-License-Identifier: Apache-2.0
//! Which place each destination's choice has. A place that a destination has left rests as long as it can: packets that have found it may
//! still be about to read it.

use std::collections::{BTreeMap, VecDeque};

use ipnet::Ipv6Net;

/// See the module.
#[derive(Debug)]
pub(crate) struct Places {
    of: BTreeMap<Ipv6Net, u32>,
    /// The one that rests longest is the first.
    free: VecDeque<u32>,
}

impl Places {
    /// The places below `capacity`, of which these destinations have some.
    pub(crate) fn new(capacity: u32, of: BTreeMap<Ipv6Net, u32>) -> Self {
        let mut used: Vec<u32> = of.values().copied().collect();
        used.sort_unstable();
        let free = (0..capacity).filter(|place| used.binary_search(place).is_err()).collect();
        Self { of, free }
    }

    /// Destinations with their places.
    pub(crate) fn all(&self) -> Vec<(Ipv6Net, u32)> {
        self.of.iter().map(|(prefix, place)| (*prefix, *place)).collect()
    }

    /// The place of a destination that has one.
    pub(crate) fn get(&self, prefix: Ipv6Net) -> Option<u32> {
        self.of.get(&prefix).copied()
    }

    /// A place for a destination that has none; `None`: all are in use.
    pub(crate) fn take(&mut self, prefix: Ipv6Net) -> Option<u32> {
        let place = self.free.pop_front()?;
        self.of.insert(prefix, place);
        Some(place)
    }

    /// The destination needs its place no more.
    pub(crate) fn leave(&mut self, prefix: Ipv6Net) {
        self.free.extend(self.of.remove(&prefix));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn net(n: u32) -> Ipv6Net {
        format!("2001:db8:{n}::/64").parse().unwrap()
    }

    /// Catches a place that two destinations have, and one that the next destination takes while packets may still read it.
    #[test]
    fn a_place_that_is_left_is_the_last_to_be_taken() {
        let mut places = Places::new(4, [(net(7), 1)].into());
        assert_eq!([1, 2].map(|n| places.take(net(n))), [Some(0), Some(2)]);
        places.leave(net(7));
        places.leave(net(8));
        assert_eq!([7, 1].map(|n| places.get(net(n))), [None, Some(0)]);
        assert_eq!([3, 4, 5].map(|n| places.take(net(n))), [Some(3), Some(1), None]);
    }
}
