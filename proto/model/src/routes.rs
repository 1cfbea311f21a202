// SPDX-License-Identifier: Apache-2.0
//! The unicast routes of a node. Nodes of one domain have routes to the same prefixes, so that they share these: of its own a node has one
//! number per place that prefixes lie behind.

use std::cmp::Ordering;
use std::fmt::{Debug, Formatter};
use std::net::Ipv6Addr;
use std::sync::{Arc, OnceLock};

use ipnet::Ipv6Net;

use crate::ids::PortIndex;

/// A unicast route.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Route {
    /// Destination.
    pub prefix: Ipv6Net,
    /// Output port.
    pub port: PortIndex,
    /// Neighbour's link-local address.
    pub next_hop: Ipv6Addr,
}

/// A first hop: output port, and the neighbour's link-local address.
pub type FirstHop = (PortIndex, Ipv6Addr);

/// Prefixes, each with the place that it lies behind, as a number below the number of places.
pub type Destinations = Arc<[(Ipv6Net, u32)]>;

/// Routes in the order of their destinations.
#[derive(Clone)]
pub struct Routes {
    to: Destinations,
    /// By place: the number of its first hop plus one; 0 = there is no route.
    places: Box<[u32]>,
    /// In order, each once, and none that leads nowhere.
    first_hops: Box<[FirstHop]>,
    /// Routes in the place of those above to the same prefixes, or to others, in order.
    exceptions: Box<[Route]>,
    /// Counted when it is first asked for.
    len: OnceLock<usize>,
}

impl Routes {
    /// Routes to those `to` whose place has a first hop. `places` has, for every place, the number of its first hop among `first_hops` plus
    /// one; 0, or a number that none has: there is none. `first_hops` are in any order.
    pub fn new(to: Destinations, mut places: Vec<u32>, first_hops: &[FirstHop]) -> Self {
        // By number: 1 if a place has this first hop, and then its number here.
        let mut numbers = vec![0; first_hops.len() + 1];
        places.iter_mut().for_each(|number| match numbers.get_mut(*number as usize) {
            Some(is_used) => *is_used = 1,
            None => *number = 0,
        });
        let mut by_hop: Vec<(FirstHop, usize)> = first_hops.iter().copied().zip(1..).collect();
        by_hop.retain(|(_, number)| numbers[*number] > 0);
        by_hop.sort_unstable();
        let mut sorted: Vec<FirstHop> = Vec::with_capacity(by_hop.len());
        for (hop, number) in by_hop {
            if sorted.last() != Some(&hop) {
                sorted.push(hop);
            }
            numbers[number] = sorted.len() as u32;
        }
        numbers[0] = 0;
        places.iter_mut().for_each(|number| *number = numbers[*number as usize]);
        let exceptions = Box::default();
        Self { to, places: places.into(), first_hops: sorted.into(), exceptions, len: OnceLock::new() }
    }

    /// The same with these exceptions in the place of all earlier ones, in any order: one is the route to its prefix, whatever its place has.
    #[must_use]
    pub fn except(mut self, mut exceptions: Vec<Route>) -> Self {
        exceptions.sort_unstable();
        exceptions.dedup_by_key(|route| route.prefix);
        (self.exceptions, self.len) = (exceptions.into(), OnceLock::new());
        self
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        *self.len.get_or_init(|| self.iter().count())
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = Route> + '_ {
        let mut shared = self.to.iter().filter_map(|(prefix, place)| self.route(*prefix, *place)).peekable();
        let mut exceptions = self.exceptions.iter().copied().peekable();
        std::iter::from_fn(move || {
            let Some(exception) = exceptions.peek() else { return shared.next() };
            match shared.peek().map(|route| route.prefix.cmp(&exception.prefix)) {
                Some(Ordering::Less) => shared.next(),
                Some(Ordering::Equal) => {
                    shared.next();
                    exceptions.next()
                }
                Some(Ordering::Greater) | None => exceptions.next(),
            }
        })
    }

    /// What [`Routes::except`] has set, in order.
    pub fn exceptions(&self) -> &[Route] {
        &self.exceptions
    }

    /// The route to exactly this prefix, where destinations are in the order of their prefixes.
    pub fn to(&self, prefix: Ipv6Net) -> Option<Route> {
        if let Ok(at) = self.exceptions.binary_search_by(|route| route.prefix.cmp(&prefix)) {
            return self.exceptions.get(at).copied();
        }
        let at = self.to.binary_search_by(|(known, _)| known.cmp(&prefix)).ok()?;
        self.route(prefix, self.to[at].1)
    }

    fn route(&self, prefix: Ipv6Net, place: u32) -> Option<Route> {
        let number = self.places.get(place as usize)?.checked_sub(1)?;
        let (port, next_hop) = *self.first_hops.get(number as usize)?;
        Some(Route { prefix, port, next_hop })
    }
}

impl Default for Routes {
    fn default() -> Self {
        Self::new(Arc::new([]), Vec::new(), &[])
    }
}

impl FromIterator<Route> for Routes {
    /// Routes in any order; each prefix is a place of its own.
    fn from_iter<I: IntoIterator<Item = Route>>(routes: I) -> Self {
        let routes: Vec<Route> = routes.into_iter().collect();
        let to = routes.iter().zip(0..).map(|(route, place)| (route.prefix, place)).collect();
        let hop = |route: &Route| (route.port, route.next_hop);
        let mut first_hops: Vec<FirstHop> = routes.iter().map(hop).collect();
        first_hops.sort_unstable();
        first_hops.dedup();
        let number = |route| first_hops.binary_search(&hop(route)).map_or(0, |at| at as u32 + 1);
        Self::new(to, routes.iter().map(number).collect(), &first_hops)
    }
}

impl PartialEq for Routes {
    /// Of nodes that share their destinations in time of the places, not of the routes.
    fn eq(&self, other: &Self) -> bool {
        let has_same = || {
            self.places == other.places && self.first_hops == other.first_hops && self.exceptions == other.exceptions
        };
        (Arc::ptr_eq(&self.to, &other.to) && has_same()) || self.iter().eq(other.iter())
    }
}

impl Eq for Routes {}

impl Debug for Routes {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hop(port: u64) -> FirstHop {
        (PortIndex::new("port", port).unwrap(), Ipv6Addr::from_bits(port.into()))
    }

    fn net(number: u16) -> Ipv6Net {
        Ipv6Net::new_assert(Ipv6Addr::new(0x2001, 0xdb8, number, 0, 0, 0, 0, 0), 48)
    }

    /// Catches a prefix behind the wrong place, one at the node itself that gets a route, and a number of routes that counts it.
    #[test]
    fn a_prefix_has_the_first_hop_of_its_place() {
        let to: Destinations = [(net(1), 2), (net(2), 0), (net(3), 1), (net(4), 2)].into();
        let routes = Routes::new(to.clone(), vec![1, 0, 2], &[hop(7), hop(3)]);
        let all: Vec<_> = routes.iter().map(|r| (r.prefix, (r.port, r.next_hop))).collect();
        assert_eq!(all, [(net(1), hop(3)), (net(2), hop(7)), (net(4), hop(3))]);
        assert_eq!((routes.len(), routes.is_empty(), Routes::default().is_empty()), (3, false, true));
        assert_eq!([2, 3, 9].map(|n| routes.to(net(n)).map(|r| r.port.get())), [Some(7), None, None]);
        // Equal is what leads to the same prefixes in the same order, however it was made.
        let same: Routes = routes.iter().collect();
        assert_eq!(same, routes);
        let with_unused = Routes::new(to.clone(), vec![3, 9, 4], &[hop(1), hop(8), hop(7), hop(3)]);
        assert_eq!(with_unused, routes);
        assert_eq!((with_unused.places, with_unused.first_hops), (routes.places.clone(), routes.first_hops.clone()));
        let twice = Routes::new(to.clone(), vec![2, 0, 3], &[hop(3), hop(7), hop(3)]);
        assert_eq!((twice.places, twice.first_hops), (routes.places.clone(), routes.first_hops.clone()));
        let other = Routes::new(to.clone(), vec![1, 0, 2], &[hop(7), hop(4)]);
        assert_ne!(other, routes);
        let more = Routes::new(to, vec![1, 1, 2], &[hop(7), hop(3)]);
        assert_ne!(more, routes);
        assert_ne!(routes.iter().skip(1).collect::<Routes>(), routes);
    }

    /// Catches an exception beside the route that it is in the place of, one that is behind routes of greater prefixes, and one that does not count.
    #[test]
    fn an_exception_is_the_route_to_its_prefix() {
        let to: Destinations = [(net(2), 1), (net(4), 0), (net(6), 1)].into();
        let shared = Routes::new(to, vec![0, 1], &[hop(3)]);
        let other = |n: u16| Route { prefix: net(n), port: hop(9).0, next_hop: hop(9).1 };
        let routes = shared.clone().except(vec![other(7), other(2), other(1), other(4)]);
        let all: Vec<_> = routes.iter().map(|route| (route.prefix, route.port.get())).collect();
        assert_eq!(all, [(net(1), 9), (net(2), 9), (net(4), 9), (net(6), 3), (net(7), 9)]);
        assert_eq!((routes.len(), shared.len()), (5, 2));
        assert_eq!([1, 2, 6, 5].map(|n| routes.to(net(n)).map(|r| r.port.get())), [Some(9), Some(9), Some(3), None]);
        assert_ne!(routes, shared);
        assert_eq!(routes, routes.iter().collect());
        assert_eq!(routes.except(Vec::new()), shared);
    }

    /// Catches first hops beyond a number that is too small for them: those routes would be missing without a sign.
    #[test]
    fn every_route_has_a_first_hop_however_many_there_are() {
        let many = 70_000u32;
        let route = |at: u32| {
            let prefix = Ipv6Net::new_assert(Ipv6Addr::from_bits((0x2001_0db8_u128 << 96) | u128::from(at)), 128);
            Route { prefix, port: PortIndex::new("port", 1).unwrap(), next_hop: Ipv6Addr::from_bits(at.into()) }
        };
        let routes: Routes = (0..many).map(route).collect();
        assert!(routes.len() == many as usize && routes.iter().eq((0..many).map(route)));
    }
}
