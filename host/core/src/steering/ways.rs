// SPDX-License-Identifier: Apache-2.0
//! The ways that lead to destinations: what is probed, and what the probes have found.

use std::collections::{BTreeMap, BTreeSet};

use canopy_paths::program::Header;
use ipnet::Ipv6Net;

use crate::probing::Fault;

/// By the programs there and back.
#[derive(Debug, Default)]
pub(super) struct Ways {
    ways: BTreeMap<Header, Way>,
    faults: BTreeMap<Header, Fault>,
    /// Faults are those of this host's own link: none is avoided.
    is_own: bool,
    none: BTreeMap<Header, Fault>,
    /// Ways that may have to be probed otherwise.
    changed: BTreeSet<Header>,
}

#[derive(Debug)]
pub(super) struct Way {
    /// Longest inner packet, octets.
    pub(super) most: u32,
    /// Destinations with a path over it.
    pub(super) prefixes: BTreeSet<Ipv6Net>,
}

impl Ways {
    /// A destination has paths over these.
    pub(super) fn add<'a>(&mut self, prefix: Ipv6Net, probes: impl Iterator<Item = &'a (Header, u32)>) {
        for (header, most) in probes {
            let new = || Way { most: *most, prefixes: BTreeSet::new() };
            let way = self.ways.entry(header.clone()).or_insert_with(new);
            if way.prefixes.insert(prefix) || way.most != *most {
                way.most = *most;
                self.changed.insert(header.clone());
            }
        }
    }

    /// A destination has no paths over these any more. Returns those that no destination has.
    pub(super) fn remove<'a>(
        &mut self,
        prefix: Ipv6Net,
        probes: impl Iterator<Item = &'a (Header, u32)>,
    ) -> Vec<&'a Header> {
        let mut gone = Vec::new();
        for (header, _) in probes {
            let Some(way) = self.ways.get_mut(header) else { continue };
            way.prefixes.remove(&prefix);
            if way.prefixes.is_empty() {
                self.ways.remove(header);
                self.faults.remove(header);
                gone.push(header);
            }
            self.changed.insert(header.clone());
        }
        gone
    }

    /// The role of these may have changed.
    pub(super) fn changed<'a>(&mut self, probes: impl Iterator<Item = &'a Header>) {
        self.changed.extend(probes.cloned());
    }

    /// A way that may have to be probed otherwise; `None`: it is not probed any more.
    pub(super) fn next_change(&mut self) -> Option<(Header, Option<&Way>)> {
        let header = self.changed.pop_first()?;
        let way = self.ways.get(&header);
        Some((header, way))
    }

    /// A destination that it leads to, and its fault.
    pub(super) fn of(&self, header: &Header) -> Option<(&Ipv6Net, Option<Fault>)> {
        let way = self.ways.get(header)?;
        Some((way.prefixes.first()?, self.faults.get(header).copied()))
    }

    /// The destinations that it leads to.
    pub(super) fn prefixes(&self, header: &Header) -> impl Iterator<Item = Ipv6Net> {
        self.ways.get(header).into_iter().flat_map(|way| way.prefixes.iter().copied())
    }

    /// All, with their faults.
    pub(super) fn all(&self) -> impl Iterator<Item = (&Header, Option<Fault>)> {
        self.ways.keys().map(|header| (header, self.faults.get(header).copied()))
    }

    pub(super) fn faults(&self) -> &BTreeMap<Header, Fault> {
        &self.faults
    }

    /// Those that another path has not.
    pub(super) fn faults_to_avoid(&self) -> &BTreeMap<Header, Fault> {
        if self.is_own { &self.none } else { &self.faults }
    }

    pub(super) fn is_own(&self) -> bool {
        self.is_own
    }

    /// Returns whether that has changed.
    pub(super) fn set_own(&mut self, is_own: bool) -> bool {
        std::mem::replace(&mut self.is_own, is_own) != is_own
    }

    /// Destinations with a path that has a fault.
    pub(super) fn faulty_prefixes(&self) -> BTreeSet<Ipv6Net> {
        let ways = self.faults.keys().filter_map(|header| self.ways.get(header));
        ways.flat_map(|way| way.prefixes.iter().copied()).collect()
    }

    /// Returns the destinations to which that matters: none, if it was known or the way is not there any more.
    pub(super) fn set_fault(&mut self, header: &Header, fault: Option<Fault>) -> Vec<Ipv6Net> {
        let Some(way) = self.ways.get(header) else { return Vec::new() };
        let before = match fault {
            Some(fault) => self.faults.insert(header.clone(), fault),
            None => self.faults.remove(header),
        };
        if before == fault { Vec::new() } else { way.prefixes.iter().copied().collect() }
    }
}
