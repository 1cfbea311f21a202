// SPDX-License-Identifier: Apache-2.0
//! Steering of a source host (decisions 5.2, 5.5, 5.7): which path programs its packets get. Pure: inputs and the time come in,
//! [`Steering::next_command`] returns what to write next.
//!
//! - A **destination** is the prefix of a host of the fabric that this host sends to. Its [`SLOTS`] slots name path programs; a flow, a
//!   flowlet or a packet takes one slot.
//! - Its **candidates** are its paths; of more than [`MAX_CANDIDATES`] those without a link out of service first, and of these the ones that
//!   share least with each other.
//! - Of its candidates, the first usable ones are active. If none is usable, all stay in use: the controller may be mistaken, and the host has
//!   no better path.
//! - A **fault** that probes have found ([`crate::probing`]) takes a path out of use, as a link out of service does. If every path has one, those
//!   that are least bad stay in use. Further probes find its direction, there by one way and back by another.
//! - **Congestion** that probes have met on some paths and not on others leads part of the packets to the others ([`balance`]), where a mode
//!   permits that flows take another path.
//! - A user may **pin** a destination to one of its paths, usable or not.
//! - A change moves the slots of paths that left, and as many others as the balance needs. The rest keep their paths.
//! - A **path id** names one program from when it is written until no slot has named it for [`REST`]. It is in the outer flow label.
//!
//! ```text
//! asked ──> candidates ──> active ──> slots ──> Command::Program ... Command::Destination
//!              ▲              ▲                  (each program before the slots that name it)
//!           fabric     links out of service, faults, pin
//! ```

mod balance;
mod destination;
mod directions;
mod ids;
mod map;
mod slots;
mod suspects;
#[cfg(test)]
mod tests;
mod ways;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::Ipv6Addr;
use std::sync::Arc;
use std::time::Duration;

use canopy_model::ids::NodeId;
use canopy_paths::fabric::PortOf;
use canopy_paths::path::Path;
use canopy_paths::program::Header;
use canopy_units::Monotonic;
use ipnet::Ipv6Net;

use balance::Balance;
use destination::{Active, Destination};
pub use destination::{CandidateView, DestinationView, Share};
use directions::{Direction, Directions, Pair};
use ids::Ids;
pub use ids::{PathId, REST};
pub use map::{Map, MapHost, MapLink};
pub use slots::SLOTS;
use ways::Ways;

use suspects::{Evidence, OWN, Ranked};

use crate::probing::{Counts, Fault, OfLate, Role, Wanted};

/// Destinations at once.
pub const MAX_DESTINATIONS: usize = 4096;
/// Candidates of a destination, at most.
pub const MAX_CANDIDATES: usize = 64;
/// A destination with packets within this time does not make room for another.
const BUSY: Duration = Duration::from_secs(10);

/// How packets of one destination are distributed over its active paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// A flow keeps its path.
    Pinned,
    /// A flow may take another path after a gap between two of its packets.
    Flowlet,
    /// Each packet takes the next path if what receives it takes reordering; other packets as with [`Mode::Flowlet`].
    Spray,
}

/// Settings of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Distribution over the active paths.
    pub mode: Mode,
    /// Gap after which a flow may take another path.
    pub gap: Duration,
    /// Active paths of a destination, 1 ..= [`MAX_CANDIDATES`].
    pub paths: usize,
    /// A destination without packets for this time is forgotten.
    pub idle: Duration,
}

/// A link over which paths have faults.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Suspect {
    /// Of the link; `None`: it is this host's own one, or its edge.
    pub ends: Option<(PortOf, PortOf)>,
    /// The fault is of packets from the first end to the second; otherwise of both directions, or it is not known of which.
    pub is_directed: bool,
    /// Ways with a fault over it.
    pub faulty: usize,
    /// Ways with a fault that no better explanation explains.
    pub of: usize,
    /// Among the links that explain the same faults, 0 ..= 1.
    pub confidence: f64,
}

/// What to write, in this order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// A program, under an id that no slot names.
    Program {
        /// Its id.
        id: PathId,
        /// Destination address and segments.
        header: Header,
        /// Longest inner packet, octets.
        most: u32,
    },
    /// The slots of a destination.
    Destination {
        /// Prefix of inner destinations.
        prefix: Ipv6Net,
        /// Path ids.
        slots: Box<[PathId; SLOTS]>,
        /// A user has chosen the path; for the process after this one.
        is_pinned: bool,
    },
    /// A destination has no programs any more.
    Forget(Ipv6Net),
    /// No slot names this id any more: flowlets on it end.
    Leave(PathId),
    /// No slot has named this id for [`REST`].
    Clear(PathId),
}

/// A destination that an earlier process has written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restored {
    /// Prefix of inner destinations.
    pub prefix: Ipv6Net,
    /// Path ids.
    pub slots: Box<[PathId; SLOTS]>,
    /// The programs of the slots' ids.
    pub programs: BTreeMap<PathId, (Header, u32)>,
    /// A user has chosen the path.
    pub is_pinned: bool,
}

/// Why a destination has no programs.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// The controller has sent no fabric yet.
    #[error("the fabric is not known yet: the agent of the host has not received it from the controller")]
    NoFabric,
    /// No host of the fabric has the address.
    #[error("{0} is no address of a host of the fabric")]
    NotAHost(Ipv6Addr),
    /// No path that the edge lets in.
    #[error("no path leads to {0} whose program a host may send")]
    NoPath(Ipv6Net),
    /// Too many destinations with traffic.
    #[error("{MAX_DESTINATIONS} destinations have programs and traffic: packets to further ones leave without")]
    Full,
    /// Every id is in use or rests.
    #[error("all {} path ids are in use, or were less than {} s ago: use fewer paths for each destination (`paths`)", PathId::LAST, REST.as_secs())]
    NoIds,
    /// The destination has no such path, or its edge refuses its program.
    #[error("path {number}: no path of {prefix} that packets may take has this number, of {count}")]
    NoSuchPath {
        /// As given.
        number: usize,
        /// The destination.
        prefix: Ipv6Net,
        /// Its paths.
        count: usize,
    },
}

/// See the module.
#[derive(Debug)]
pub struct Steering {
    settings: Settings,
    map: Option<Arc<Map>>,
    /// Links that no new packet should take.
    unusable: BTreeSet<usize>,
    destinations: BTreeMap<Ipv6Net, Destination>,
    ways: Ways,
    directions: Directions,
    balance: Balance,
    /// See [`Steering::compared`]; `None`: it may be others than before.
    compared: Option<Arc<[Vec<Header>]>>,
    /// Paths that users have chosen, also of destinations that are not there now.
    pins: BTreeMap<Ipv6Net, Header>,
    /// Destinations that have no programs, for reasons that may have ended with the next fabric or the next free id.
    refused: BTreeSet<Ipv6Net>,
    ids: Ids,
    commands: VecDeque<Command>,
}

impl Steering {
    /// Without destinations.
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            map: None,
            unusable: BTreeSet::new(),
            destinations: BTreeMap::new(),
            ways: Ways::default(),
            directions: Directions::default(),
            balance: Balance::default(),
            compared: None,
            pins: BTreeMap::new(),
            refused: BTreeSet::new(),
            ids: Ids::default(),
            commands: VecDeque::new(),
        }
    }

    /// Takes over what an earlier process has written. It stays as it is until the fabric is known. `unused` are ids with a program that no
    /// slot names: they rest.
    pub fn restore(&mut self, restored: Vec<Restored>, unused: BTreeSet<PathId>, now: Monotonic) {
        let used = restored.iter().flat_map(|restored| restored.programs.keys().copied());
        self.ids.take(&used.chain(unused.iter().copied()).collect());
        unused.into_iter().for_each(|id| self.leave(id, now));
        for Restored { prefix, slots, programs, is_pinned } in restored {
            if is_pinned && let Some((header, _)) = programs.values().next() {
                self.pins.insert(prefix, header.clone());
            }
            let active = programs.into_iter().map(|(id, (header, most))| Active { id, header, most }).collect();
            self.destinations.insert(prefix, Destination::restored(active, *slots, is_pinned, now));
        }
    }

    /// A fabric, or that the host may send no programs. Work is in the order of the destinations.
    pub fn set_map(&mut self, map: Option<Arc<Map>>, unusable: BTreeSet<usize>, now: Monotonic) -> Vec<Refused> {
        (self.map, self.unusable) = (map, unusable);
        self.refused.clear();
        let prefixes: Vec<Ipv6Net> = self.destinations.keys().copied().collect();
        let mut refused = Vec::new();
        for prefix in prefixes {
            match self.renew(prefix, now) {
                Ok(()) => {}
                // It keeps what it has until ids are free.
                Err(why @ Refused::NoIds) => refused.push(why),
                Err(why) => {
                    self.forget(prefix, now);
                    // Without a fabric there is one reason for all.
                    if self.map.is_some() {
                        refused.push(why);
                    }
                }
            }
        }
        refused
    }

    /// Links that no new packet should take, of the present fabric. Work is in the order of the destinations.
    pub fn set_unusable(&mut self, unusable: BTreeSet<usize>, now: Monotonic) -> Vec<Refused> {
        if unusable == self.unusable {
            return Vec::new();
        }
        self.unusable = unusable;
        let prefixes: Vec<Ipv6Net> = self.destinations.keys().copied().collect();
        prefixes.into_iter().filter_map(|prefix| self.choose(prefix, now).err()).collect()
    }

    /// What probes have found about ways, by their programs, and what those of each way have shown of late. Work is in the order of the destinations
    /// that the ways lead to, and of all ways if one has a fault. Called again without changes while [`Steering::is_own`], because what explains
    /// the faults may be another link meanwhile.
    pub fn set_faults(
        &mut self,
        changes: impl IntoIterator<Item = (Header, Option<Fault>)>,
        of_late: impl Fn(&Header) -> Option<OfLate>,
        now: Monotonic,
    ) -> Vec<Refused> {
        let mut prefixes = BTreeSet::new();
        for (way, fault) in changes {
            if self.directions.set_fault(&way, fault) {
                continue;
            }
            let concerned = self.ways.set_fault(&way, fault);
            if concerned.is_empty() {
                continue;
            }
            prefixes.extend(concerned);
            match fault {
                // Flows keep their shares; or another path would not help.
                _ if !self.balances() || self.ways.is_own() => {}
                Some(_) => self.balance.begin_fault(&way, now),
                None => self.balance.end_fault(&way, now),
            }
            self.find_direction(&way);
            let concerned = match fault {
                Some(_) => self.directions.with(&way),
                None => self.directions.without(self.ways.faults().keys()),
            };
            concerned.iter().for_each(|way| self.find_direction(way));
        }
        let is_own = self.rank(of_late).first().is_some_and(|first| first.link == OWN);
        if self.ways.set_own(is_own) {
            self.balance = Balance::default();
            prefixes.extend(self.ways.faulty_prefixes());
        }
        prefixes.into_iter().filter_map(|prefix| self.settle(prefix, now).err()).collect()
    }

    /// Losses are best explained by what all ways have in common, this host's link or its edge: another path would not help, and faults of ways
    /// move no packets.
    pub fn is_own(&self) -> bool {
        self.ways.is_own()
    }

    /// Whether congestion moves packets: a flow keeps its path otherwise.
    pub fn balances(&self) -> bool {
        self.settings.mode != Mode::Pinned
    }

    /// The ways that carry packets, those to each edge together. Work is in the order of the destinations after a change, and none otherwise.
    pub fn compared(&mut self) -> Arc<[Vec<Header>]> {
        let groups = self.compared.get_or_insert_with(|| {
            let mut edges: BTreeMap<NodeId, BTreeSet<&Header>> = BTreeMap::new();
            for (edge, way) in self.destinations.values().flat_map(Destination::taken) {
                edges.entry(edge).or_default().insert(way);
            }
            let alternatives = edges.into_values().filter(|ways| ways.len() > 1);
            alternatives.map(|ways| ways.into_iter().cloned().collect()).collect()
        });
        Arc::clone(groups)
    }

    /// Compares the ways to each edge by their probes, and has those that met less congestion carry more. `counts` are those of
    /// [`Steering::compared`], in its order. Work is in the order of these ways, and of the destinations whose shares change.
    pub fn balance(&mut self, counts: &[Vec<Option<Counts>>]) {
        let mut prefixes = BTreeSet::new();
        for (ways, counts) in self.compared().iter().zip(counts) {
            let counted: Vec<(&Header, Counts)> =
                ways.iter().zip(counts).filter_map(|(way, counts)| Some((way, (*counts)?))).collect();
            for way in self.balance.compare(&counted) {
                prefixes.extend(self.ways.prefixes(way));
            }
        }
        prefixes.into_iter().for_each(|prefix| self.distribute(prefix));
    }

    /// Has the direction of a way's fault probed, if it has one and a sound way leads to its edge.
    fn find_direction(&mut self, way: &Header) {
        let pair = self.pair_of(way);
        let changed = self.directions.set(way, pair);
        self.ways.changed(changed.iter());
    }

    fn pair_of(&self, way: &Header) -> Option<Pair> {
        let (prefix, fault) = self.ways.of(way)?;
        fault?;
        let (map, destination) = (self.map.as_ref()?, self.destinations.get(prefix)?);
        let path = destination.path_of(way)?;
        let is_sound = |probe: &Header| !self.ways.faults().contains_key(probe);
        let mut sound =
            destination.probed().filter(|(other, probe)| is_sound(probe) && other.to.edge.node == path.to.edge.node);
        sound.find_map(|(other, probe)| {
            let (there, back) = (map.probe(path, other)?, map.probe(other, path)?);
            Some(Pair { sound: probe.clone(), there, back })
        })
    }

    /// A way that is to be probed otherwise from now on; `None`: no more. Work is in the order of the hosts behind its edge.
    pub fn next_way(&mut self) -> Option<(Header, Option<Wanted>)> {
        let (way, to) = self.ways.next_change()?;
        if to.is_none()
            && let Some(most) = self.directions.most(&way)
        {
            return Some((way, Some(Wanted { role: Role::Active, most })));
        }
        let wanted = to.map(|to| {
            let mut destinations = to.prefixes.iter().filter_map(|prefix| self.destinations.get(prefix));
            let role = if destinations.any(|to| to.is_taken(&way)) { Role::Active } else { Role::Standby };
            Wanted { role, most: to.most }
        });
        Some((way, wanted))
    }

    /// Ways, and how many of them have a fault.
    pub fn ways(&self) -> (usize, usize) {
        (self.ways.all().count(), self.ways.faults().len())
    }

    /// The path of a way, for what is shown.
    pub fn path_of(&self, way: &Header) -> Option<&Path> {
        let (prefix, _) = self.ways.of(way)?;
        self.destinations.get(prefix)?.path_of(way)
    }

    /// Links that explain the faults of ways, the best explanation first, by what probes of all ways have shown of late. Work is in the order of
    /// all ways, if one has a fault.
    pub fn suspects(&self, of_late: impl Fn(&Header) -> Option<OfLate>) -> Vec<Suspect> {
        let Some(map) = &self.map else { return Vec::new() };
        let suspect = |Ranked { link, faulty, of, confidence }| {
            let ends = if link == OWN { None } else { Some(map.ends_of(link)?) };
            let (ends, is_directed) = match ends {
                None => (None, false),
                Some((a, b)) => match self.sends_into(link, a) {
                    Some(is_a) => (Some(if is_a { (a, b) } else { (b, a) }), true),
                    None => (Some((a, b)), false),
                },
            };
            Some(Suspect { ends, is_directed, faulty, of, confidence })
        };
        self.rank(of_late).into_iter().filter_map(suspect).collect()
    }

    fn rank(&self, of_late: impl Fn(&Header) -> Option<OfLate>) -> Vec<Ranked> {
        if self.ways.faults().is_empty() {
            return Vec::new();
        }
        let evidence = |(way, fault): (&Header, Option<Fault>)| {
            let links = self.path_of(way)?.hops.iter().map(|hop| hop.link).collect();
            let OfLate { lost, back } = of_late(way).unwrap_or_default();
            Some(Evidence { links, has_fault: fault.is_some(), lost, back })
        };
        suspects::rank(self.ways.all().filter_map(evidence).collect())
    }

    /// Whether the end `a` of a link is the one that sends into its fault; `None`: both do, or it is not known.
    fn sends_into(&self, link: usize, a: PortOf) -> Option<bool> {
        let of = |way: &Header| {
            let hop = self.path_of(way)?.hops.iter().find(|hop| hop.link == link)?;
            Some(self.directions.of(way).map(|direction| (direction == Direction::There) == (hop.from == a)))
        };
        let all: BTreeSet<Option<bool>> = self.ways.faults().keys().filter_map(of).collect();
        all.first().copied().flatten().filter(|_| all.len() == 1)
    }

    /// A packet to this address has left without a program.
    ///
    /// # Errors
    /// Further ones will, too. Of one destination a reason is returned once.
    pub fn asked(&mut self, address: Ipv6Addr, now: Monotonic) -> Result<(), Option<Refused>> {
        let place = |map: &Arc<Map>| map.host(address).map(|(prefix, _)| prefix);
        let Some(prefix) = self.map.as_ref().and_then(place) else { return Err(None) };
        if self.refused.contains(&prefix) {
            return Err(None);
        }
        self.add(address, now).map(drop).map_err(|why| {
            self.refused.insert(prefix);
            Some(why)
        })
    }

    /// Gives the host with this address programs.
    ///
    /// # Errors
    /// It has none.
    pub fn add(&mut self, address: Ipv6Addr, now: Monotonic) -> Result<Ipv6Net, Refused> {
        let map = self.map.as_ref().ok_or(Refused::NoFabric)?;
        let (prefix, _) = map.host(address).ok_or(Refused::NotAHost(address))?;
        if !self.destinations.contains_key(&prefix) {
            self.make_room(now)?;
            self.destinations.insert(prefix, Destination::new(now));
            if let Err(why) = self.renew(prefix, now) {
                self.forget(prefix, now);
                return Err(why);
            }
        }
        Ok(prefix)
    }

    /// Has all packets to the host with this address take one of its paths, by its number, also while a link of it is out of service. While
    /// the fabric has no such path, they take the others. `None`: all active paths again.
    ///
    /// # Errors
    /// There is no such path.
    pub fn pin(&mut self, address: Ipv6Addr, number: Option<usize>, now: Monotonic) -> Result<Ipv6Net, Refused> {
        let prefix = self.add(address, now)?;
        let Some(destination) = self.destinations.get(&prefix) else { return Err(Refused::NotAHost(address)) };
        let before = self.pins.get(&prefix).cloned();
        match number {
            None => _ = self.pins.remove(&prefix),
            Some(number) => {
                let count = destination.total();
                let numbered = self.map.as_ref().and_then(|map| map.numbered(prefix, number, &self.unusable));
                let header = numbered.ok_or(Refused::NoSuchPath { number, prefix, count })?.header;
                if before.is_none() && self.pins.len() >= MAX_DESTINATIONS {
                    return Err(Refused::Full);
                }
                self.pins.insert(prefix, header);
            }
        }
        let chosen = self.choose(prefix, now);
        if chosen.is_err() {
            match before {
                Some(before) => _ = self.pins.insert(prefix, before),
                None => _ = self.pins.remove(&prefix),
            }
            // What it had needs no new id.
            _ = self.choose(prefix, now);
        }
        chosen.map(|()| prefix)
    }

    /// Takes how many packets each program has had, and forgets destinations that have had none for the configured time.
    pub fn used(&mut self, packets: impl Fn(PathId) -> u64, now: Monotonic) {
        let mut idle = Vec::new();
        for (prefix, destination) in &mut self.destinations {
            destination.count(&packets, now);
            if !self.pins.contains_key(prefix) && now.since(destination.last_used) >= self.settings.idle {
                idle.push(*prefix);
            }
        }
        idle.into_iter().for_each(|prefix| self.forget(prefix, now));
    }

    /// When to call [`Steering::handle_timeout`].
    pub fn poll_timeout(&self) -> Option<Monotonic> {
        self.ids.poll_timeout()
    }

    /// Ends the rest of ids that have rested.
    pub fn handle_timeout(&mut self, now: Monotonic) {
        let rested = self.ids.handle_timeout(now);
        if rested.is_empty() {
            return;
        }
        self.commands.extend(rested.into_iter().map(Command::Clear));
        self.refused.clear();
        let short = self.destinations.iter().filter(|(_, destination)| destination.is_short);
        let short: Vec<Ipv6Net> = short.map(|(prefix, _)| *prefix).collect();
        // Those that still have too few are settled again with the next ids.
        short.into_iter().for_each(|prefix| _ = self.settle(prefix, now));
    }

    /// What to write next.
    pub fn next_command(&mut self) -> Option<Command> {
        self.commands.pop_front()
    }

    /// Gives a command back that could not be carried out: it is the next one again.
    pub fn put_back(&mut self, command: Command) {
        self.commands.push_front(command);
    }

    /// The destinations, in order.
    pub fn destinations(&self) -> impl Iterator<Item = DestinationView<'_>> {
        self.destinations.iter().map(|(prefix, destination)| self.view(*prefix, destination))
    }

    /// The destination that an address belongs to.
    pub fn destination(&self, address: Ipv6Addr) -> Option<DestinationView<'_>> {
        let (prefix, _) = self.map.as_ref()?.host(address)?;
        Some(self.view(prefix, self.destinations.get(&prefix)?))
    }

    fn view<'a>(&self, prefix: Ipv6Net, destination: &'a Destination) -> DestinationView<'a> {
        let weight = |way: &Header| self.balance.weight(way);
        destination.view(prefix, self.pins.get(&prefix), self.ways.faults(), weight)
    }

    /// The present fabric.
    pub fn map(&self) -> Option<&Map> {
        self.map.as_deref()
    }

    /// Finds a destination's candidates anew.
    fn renew(&mut self, prefix: Ipv6Net, now: Monotonic) -> Result<(), Refused> {
        let map = self.map.clone().ok_or(Refused::NoFabric)?;
        let candidates = map.candidates(prefix, &self.unusable, self.pins.get(&prefix));
        if candidates.list.is_empty() {
            return Err(Refused::NoPath(prefix));
        }
        if let Some(destination) = self.destinations.get_mut(&prefix) {
            self.ways.add(prefix, candidates.list.iter().filter_map(|candidate| candidate.probe.as_ref()));
            let kept: BTreeSet<&Header> = candidates.list.iter().filter_map(|to| Some(&to.probe.as_ref()?.0)).collect();
            let gone: Vec<(Header, u32)> =
                destination.probes().filter(|(header, _)| !kept.contains(header)).cloned().collect();
            self.ways.remove(prefix, gone.iter()).iter().for_each(|way| self.balance.forget(way));
            let faults = self.ways.faults();
            let faulty = kept.iter().filter(|header| faults.contains_key(**header)).map(|header| (*header).clone());
            let led_over = gone.iter().flat_map(|(header, _)| self.directions.with(header));
            let concerned: Vec<Header> =
                faulty.chain(led_over).chain(gone.iter().map(|(header, _)| header.clone())).collect();
            destination.set_candidates(candidates);
            self.compared = None;
            concerned.iter().for_each(|way| self.find_direction(way));
        }
        self.settle(prefix, now)
    }

    /// After another pin, or with other unusable links: which paths are candidates depends on them where there are too many for all to be some, and
    /// where the destination has several links.
    fn choose(&mut self, prefix: Ipv6Net, now: Monotonic) -> Result<(), Refused> {
        match self.destinations.get(&prefix) {
            Some(destination) if destination.has_choice() => self.renew(prefix, now),
            _ => self.settle(prefix, now),
        }
    }

    /// Makes the right candidates active, and distributes the slots over them.
    fn settle(&mut self, prefix: Ipv6Net, now: Monotonic) -> Result<(), Refused> {
        let Some(destination) = self.destinations.get_mut(&prefix) else { return Ok(()) };
        if destination.candidates().is_empty() {
            return Ok(());
        }
        let pin = self.pins.get(&prefix);
        let wanted = destination.wanted(self.settings.paths, &self.unusable, self.ways.faults_to_avoid(), pin);
        let mut active = Vec::with_capacity(wanted.len());
        let mut programs = Vec::new();
        destination.is_short = false;
        for (header, most) in wanted {
            let known = destination.active.iter().find(|known| known.header == header && known.most == most);
            let id = match known {
                Some(known) => known.id,
                None => {
                    let Some(id) = self.ids.next() else {
                        destination.is_short = true;
                        continue;
                    };
                    programs.push((id, header.clone(), most));
                    id
                }
            };
            active.push(Active { id, header, most });
        }
        if active.is_empty() {
            return Err(Refused::NoIds);
        }
        if !programs.is_empty() || active.len() != destination.active.len() {
            self.ways.changed(destination.probes().map(|(header, _)| header));
            self.compared = None;
        }
        self.commands.extend(programs.into_iter().map(|(id, header, most)| Command::Program { id, header, most }));
        let gone = destination.set_active(active);
        self.distribute(prefix);
        gone.into_iter().for_each(|id| self.leave(id, now));
        Ok(())
    }

    /// Distributes a destination's slots over its active paths.
    fn distribute(&mut self, prefix: Ipv6Net) {
        let Some(destination) = self.destinations.get_mut(&prefix) else { return };
        let is_pinned = self.pins.get(&prefix).is_some_and(|pin| destination.has(pin));
        let weight = |way: &Header| self.balance.weight(way);
        if let Some((slots, is_pinned)) = destination.distribute(is_pinned, weight) {
            self.commands.push_back(Command::Destination { prefix, slots: Box::new(slots), is_pinned });
        }
    }

    /// No slot names the id any more.
    fn leave(&mut self, id: PathId, now: Monotonic) {
        self.ids.rest(id, now);
        self.commands.push_back(Command::Leave(id));
    }

    fn forget(&mut self, prefix: Ipv6Net, now: Monotonic) {
        let Some(destination) = self.destinations.remove(&prefix) else { return };
        self.compared = None;
        self.ways.remove(prefix, destination.probes()).iter().for_each(|way| self.balance.forget(way));
        // Of ways that are gone.
        let probes: Vec<Header> = destination.probes().map(|(header, _)| header.clone()).collect();
        probes.iter().for_each(|way| self.find_direction(way));
        if destination.is_written() {
            self.commands.push_back(Command::Forget(prefix));
        }
        destination.active.into_iter().for_each(|active| self.leave(active.id, now));
    }

    /// Forgets the destination that has had no packets for longest, if there is no place for another. It reads all of them then.
    fn make_room(&mut self, now: Monotonic) -> Result<(), Refused> {
        if self.destinations.len() < MAX_DESTINATIONS {
            return Ok(());
        }
        let unpinned = self.destinations.iter().filter(|(prefix, _)| !self.pins.contains_key(prefix));
        let oldest = unpinned.min_by_key(|(_, destination)| destination.last_used);
        match oldest.map(|(prefix, destination)| (*prefix, destination.last_used)) {
            Some((prefix, last_used)) if now.since(last_used) >= BUSY => {
                self.forget(prefix, now);
                Ok(())
            }
            _ => Err(Refused::Full),
        }
    }
}
