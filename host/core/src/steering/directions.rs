// SPDX-License-Identifier: Apache-2.0
//! In which direction a faulty way has its fault: a probe that goes there by it and comes back by a sound way finds the one, a probe
//! that goes there by the sound way and comes back by it the other.

use std::collections::BTreeMap;

use canopy_paths::program::Header;

use crate::probing::Fault;

/// A direction of a way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Direction {
    /// From this host.
    There,
    /// To this host.
    Back,
}

/// The two programs of a faulty way: there by it, and back by it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pair {
    /// The sound way.
    pub(super) sound: Header,
    pub(super) there: (Header, u32),
    pub(super) back: (Header, u32),
}

/// Of all faulty ways to whose edges a sound one leads.
#[derive(Debug, Default)]
pub(super) struct Directions {
    pairs: BTreeMap<Header, Pair>,
    /// The faulty way of each program, and whether the program has a fault itself.
    programs: BTreeMap<Header, (Header, Direction, Option<Fault>)>,
}

impl Directions {
    /// Has the pair of a faulty way, or none. Returns the programs that are to be probed otherwise.
    pub(super) fn set(&mut self, way: &Header, pair: Option<Pair>) -> Vec<Header> {
        if self.pairs.get(way) == pair.as_ref() {
            return Vec::new();
        }
        let mut changed = Vec::new();
        if let Some(Pair { there: (there, _), back: (back, _), .. }) = self.pairs.remove(way) {
            for header in [there, back] {
                self.programs.remove(&header);
                changed.push(header);
            }
        }
        if let Some(pair) = pair {
            for ((header, _), direction) in [(&pair.there, Direction::There), (&pair.back, Direction::Back)] {
                self.programs.insert(header.clone(), (way.clone(), direction, None));
                changed.push(header.clone());
            }
            self.pairs.insert(way.clone(), pair);
        }
        changed
    }

    /// Faulty ways whose pair leads over this way.
    pub(super) fn with(&self, sound: &Header) -> Vec<Header> {
        self.pairs.iter().filter(|(_, pair)| pair.sound == *sound).map(|(way, _)| way.clone()).collect()
    }

    /// Faulty ways without a pair, of these.
    pub(super) fn without<'a>(&self, faulty: impl Iterator<Item = &'a Header>) -> Vec<Header> {
        faulty.filter(|way| !self.pairs.contains_key(*way)).cloned().collect()
    }

    /// The longest packet of a program; `None`: it is none of these.
    pub(super) fn most(&self, program: &Header) -> Option<u32> {
        let (way, direction, _) = self.programs.get(program)?;
        let pair = self.pairs.get(way)?;
        Some(if *direction == Direction::There { pair.there.1 } else { pair.back.1 })
    }

    /// What probes of a program have found. Returns whether it is one of these.
    pub(super) fn set_fault(&mut self, program: &Header, fault: Option<Fault>) -> bool {
        let Some((_, _, known)) = self.programs.get_mut(program) else { return false };
        *known = fault;
        true
    }

    /// The one direction in which a way has its fault; `None`: both, or not known.
    pub(super) fn of(&self, way: &Header) -> Option<Direction> {
        let pair = self.pairs.get(way)?;
        let is_faulty =
            |(header, _): &(Header, u32)| self.programs.get(header).is_some_and(|(_, _, fault)| fault.is_some());
        match (is_faulty(&pair.there), is_faulty(&pair.back)) {
            (true, false) => Some(Direction::There),
            (false, true) => Some(Direction::Back),
            _ => None,
        }
    }
}
