// SPDX-License-Identifier: Apache-2.0
//! Connections of callers that are not known yet, which everybody who reaches the port can make as many of as they like.
//!
//! ```text
//! enters --is known--> Admitted        (bounded elsewhere, as what it is)
//!    |  \--ends------> gone
//!    +---a newcomer needs the place--> evicted
//! ```
//!
//! A full lobby lets a newcomer in at the cost of the source that has the most, so that who fills it is who is evicted: the network with the
//! most connections, in it the address with the most, of that the oldest. Among equals a connection is safe for a
//! while, or many that come at once would evict each other and none would become known.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;

use super::network;

/// Connections that are not known yet: so many at once, and fewer of one network.
#[derive(Clone)]
pub struct Lobby(Arc<Bounded>);

struct Bounded {
    most: usize,
    most_of_network: usize,
    /// How long a connection is not evicted for an equal source.
    safe: Duration,
    waiting: Mutex<Waiting>,
}

#[derive(Default)]
struct Waiting {
    all: usize,
    next: u64,
    networks: HashMap<IpAddr, usize>,
    /// By network and address, oldest first.
    sources: BTreeMap<(IpAddr, IpAddr), VecDeque<Waiter>>,
}

struct Waiter {
    id: u64,
    since: Instant,
    /// Dropped to evict it.
    stay: oneshot::Sender<()>,
}

/// A connection in the lobby, until it is dropped.
pub struct Visit {
    source: (IpAddr, IpAddr),
    id: u64,
    lobby: Lobby,
}

/// Ends when the connection is evicted, and while it is not admitted when its [`Visit`] is dropped.
pub struct Eviction(oneshot::Receiver<()>);

/// A connection that has left the lobby because it is known. It is not evicted.
#[allow(dead_code, reason = "held, not read")]
pub struct Admitted(Option<oneshot::Sender<()>>);

impl Lobby {
    /// For so many connections together, and of one network; none is evicted for an equal source while it is `safe`.
    pub fn new(most: usize, most_of_network: usize, safe: Duration) -> Self {
        Self(Arc::new(Bounded { most, most_of_network, safe, waiting: Mutex::default() }))
    }

    /// A connection from this address; `None` if there is no place for it.
    pub fn enter(&self, address: IpAddr, now: Instant) -> Option<(Visit, Eviction)> {
        let source = (network(address), address.to_canonical());
        let mut waiting = self.lock();
        let since = now.checked_sub(self.0.safe).unwrap_or(now);
        if waiting.of_network(source.0) >= self.0.most_of_network {
            waiting.make_room_in_network(source, since)?;
        } else if waiting.all >= self.0.most {
            waiting.make_room(source.0, since)?;
        }
        let (stay, evicted) = oneshot::channel();
        let id = waiting.next;
        waiting.next += 1;
        waiting.all += 1;
        *waiting.networks.entry(source.0).or_default() += 1;
        waiting.sources.entry(source).or_default().push_back(Waiter { id, since: now, stay });
        Some((Visit { source, id, lobby: self.clone() }, Eviction(evicted)))
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.0.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Scans are of at most as many sources as the lobby has places, and only where it is full.
impl Waiting {
    fn of_network(&self, network: IpAddr) -> usize {
        self.networks.get(&network).copied().unwrap_or(0)
    }

    /// Evicts one of the newcomer's own network; of an equal source, one that has been there since this time.
    fn make_room_in_network(&mut self, (network, address): (IpAddr, IpAddr), since: Instant) -> Option<()> {
        let of_network = || self.sources.iter().filter(|((of, _), _)| *of == network);
        let own = self.sources.get(&(network, address)).map_or(0, VecDeque::len);
        let (heaviest, most) = of_network().map(|(source, own)| (*source, own.len())).max_by_key(|(_, most)| *most)?;
        let victim = if most > own + 1 { heaviest } else { oldest(of_network(), since)? };
        self.evict(victim)
    }

    /// Evicts one of any network, alike.
    fn make_room(&mut self, network: IpAddr, since: Instant) -> Option<()> {
        let (&heaviest, &most) = self.networks.iter().max_by_key(|(_, most)| **most)?;
        let victim = if most > self.of_network(network) + 1 {
            let of_heaviest = self.sources.iter().filter(|((of, _), _)| *of == heaviest);
            *of_heaviest.max_by_key(|(_, own)| own.len())?.0
        } else {
            oldest(self.sources.iter(), since)?
        };
        self.evict(victim)
    }

    fn evict(&mut self, source: (IpAddr, IpAddr)) -> Option<()> {
        let id = self.sources.get(&source)?.front()?.id;
        self.remove(source, id).map(drop)
    }

    fn remove(&mut self, source: (IpAddr, IpAddr), id: u64) -> Option<oneshot::Sender<()>> {
        let own = self.sources.get_mut(&source)?;
        let waiter = own.remove(own.iter().position(|waiter| waiter.id == id)?)?;
        if own.is_empty() {
            self.sources.remove(&source);
        }
        self.all -= 1;
        match self.networks.get_mut(&source.0) {
            Some(more) if *more > 1 => *more -= 1,
            _ => _ = self.networks.remove(&source.0),
        }
        Some(waiter.stay)
    }
}

/// Whose oldest connection is the oldest, if that has been there since this time.
fn oldest<'a>(
    sources: impl Iterator<Item = (&'a (IpAddr, IpAddr), &'a VecDeque<Waiter>)>,
    since: Instant,
) -> Option<(IpAddr, IpAddr)> {
    let fronts = sources.filter_map(|(source, own)| Some((*source, own.front()?.since)));
    let (source, entered) = fronts.min_by_key(|(_, entered)| *entered)?;
    (entered <= since).then_some(source)
}

impl Visit {
    /// Leaves the lobby as a known caller; `None` if it has been evicted.
    pub fn admit(self) -> Option<Admitted> {
        let stay = self.lobby.lock().remove(self.source, self.id)?;
        Some(Admitted(Some(stay)))
    }
}

impl Drop for Visit {
    fn drop(&mut self) {
        _ = self.lobby.lock().remove(self.source, self.id);
    }
}

impl Future for Eviction {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        Pin::new(&mut self.0).poll(cx).map(|_| ())
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot::error::TryRecvError;

    use super::*;

    const SAFE: Duration = Duration::from_secs(1);

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn is_evicted(eviction: &mut Eviction) -> bool {
        eviction.0.try_recv() == Err(TryRecvError::Closed)
    }

    /// Catches connections of one network that keep those of others out, and a newcomer that displaces one of a lighter source.
    #[test]
    fn a_newcomer_displaces_the_oldest_of_the_heaviest_source() {
        let (lobby, now) = (Lobby::new(8, 6, SAFE), Instant::now());
        let enter = |text: &str| lobby.enter(address(text), now);
        let mut heavy: Vec<_> = (0..4).map(|_| enter("2001:db8::1").unwrap()).collect();
        heavy.extend((2..4).map(|n| enter(&format!("2001:db8::{n}")).unwrap()));
        // Of the same /64: at its bound, the address with the most gives way, and not for itself.
        assert!(enter("2001:db8::1").is_none());
        let neighbor = enter("2001:db8::ffff").unwrap();
        assert!(is_evicted(&mut heavy[0].1) && !is_evicted(&mut heavy[1].1));
        let mut others: Vec<_> = (1..=2).map(|n| enter(&format!("192.0.2.{n}")).unwrap()).collect();
        // All places are taken: the heaviest network gives way, in it again the heaviest address.
        let other = enter("192.0.2.3").unwrap();
        assert!(is_evicted(&mut heavy[1].1) && !is_evicted(&mut heavy[2].1));
        assert!(others.iter_mut().all(|(_, eviction)| !is_evicted(eviction)));
        drop((heavy, neighbor, others, other));
        let waiting = lobby.lock();
        assert!(waiting.all == 0 && waiting.networks.is_empty() && waiting.sources.is_empty());
    }

    /// Catches many equal sources that evict each other before any is known, and those that stay for good.
    #[test]
    fn among_equals_a_connection_has_its_time() {
        let (lobby, now) = (Lobby::new(4, 2, SAFE), Instant::now());
        let at = |n: u8, after: Duration| lobby.enter(IpAddr::from([192, 0, 2, n]), now + after);
        let mut held: Vec<_> = (0..4).map(|n| at(n, Duration::from_millis(u64::from(n))).unwrap()).collect();
        assert!(at(4, SAFE / 2).is_none());
        let newcomer = at(4, SAFE).unwrap();
        assert!(is_evicted(&mut held[0].1) && !is_evicted(&mut held[1].1));
        drop(newcomer);
        // In one network alike.
        let lobby = Lobby::new(4, 2, SAFE);
        let at = |after: Duration| lobby.enter(address("192.0.2.1"), now + after);
        let mut held: Vec<_> = (0..2).map(|_| at(Duration::ZERO).unwrap()).collect();
        assert!(at(SAFE / 2).is_none() && at(SAFE).is_some());
        assert!(is_evicted(&mut held[0].1) && !is_evicted(&mut held[1].1));
    }

    /// Catches a known caller that still can be evicted, and one that keeps its place in the lobby.
    #[test]
    fn a_known_caller_has_left_the_lobby() {
        let (lobby, now) = (Lobby::new(1, 1, SAFE), Instant::now());
        let enter = |after: Duration| lobby.enter(address("192.0.2.1"), now + after);
        let (visit, mut eviction) = enter(Duration::ZERO).unwrap();
        let admitted = visit.admit().unwrap();
        let (late, mut evicted) = enter(Duration::ZERO).unwrap();
        let _next = enter(SAFE).unwrap();
        assert!(is_evicted(&mut evicted) && late.admit().is_none());
        assert!(!is_evicted(&mut eviction));
        drop(admitted);
        assert!(is_evicted(&mut eviction));
    }
}
