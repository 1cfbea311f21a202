// SPDX-License-Identifier: Apache-2.0
//! One destination: its candidates, which of them are active, and its slots.

use std::collections::{BTreeMap, BTreeSet};

use canopy_model::ids::NodeId;
use canopy_paths::path::Path;
use canopy_paths::program::Header;
use canopy_units::Monotonic;
use ipnet::Ipv6Net;

use super::PathId;
use super::slots::{SLOTS, distribute};
use crate::probing::Fault;

/// A path that packets may take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Candidate {
    /// Place among all paths to the host, from 1; some are no candidates.
    pub(super) number: usize,
    pub(super) path: Path,
    pub(super) header: Header,
    /// Longest inner packet, octets.
    pub(super) most: u32,
    /// The program there and back, and the longest inner packet that it takes. `None`: the path has no link between nodes, or the edge lets no
    /// such program in.
    pub(super) probe: Option<(Header, u32)>,
}

impl Candidate {
    /// A link of it is unusable.
    pub(super) fn is_out(&self, unusable: &BTreeSet<usize>) -> bool {
        self.path.links().any(|link| unusable.contains(&link))
    }
}

/// The candidates of a host.
#[derive(Debug, Default)]
pub(super) struct Candidates {
    /// In the order in which the first ones share least.
    pub(super) list: Vec<Candidate>,
    /// How many paths they were chosen from.
    pub(super) total: usize,
    /// Which paths these are depends on the destination's links in service.
    pub(super) has_several_links: bool,
}

/// A program in use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Active {
    pub(super) id: PathId,
    pub(super) header: Header,
    pub(super) most: u32,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Destination {
    /// In the order in which the first ones share least. Empty until the fabric is known, after a restart.
    candidates: Vec<Candidate>,
    /// Paths that they were chosen from.
    total: usize,
    has_several_links: bool,
    /// Of each candidate.
    conditions: Vec<Condition>,
    pub(super) active: Vec<Active>,
    /// Of each active path the edge that it leads to, and the program of its probes.
    taken: Vec<Option<(NodeId, Header)>>,
    /// As written, and whether as those of a pin.
    slots: Option<([PathId; SLOTS], bool)>,
    /// Some of the wanted paths have no id.
    pub(super) is_short: bool,
    pub(super) last_used: Monotonic,
    packets: BTreeMap<PathId, u64>,
}

/// Whether a path should be taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Condition {
    /// A link is out of service.
    is_out: bool,
    /// Of its probes.
    fault: Option<Fault>,
}

impl Condition {
    /// The less, the better. What passes nothing is worse than a link that is drained, and a dead one is worse than that.
    fn badness(self) -> u8 {
        match (self.fault, self.is_out) {
            (None, false) => 0,
            (Some(Fault::Loss), false) => 1,
            (None, true) => 2,
            (Some(Fault::Loss), true) => 3,
            (Some(Fault::BlackHole), false) => 4,
            (Some(Fault::BlackHole), true) => 5,
        }
    }
}

/// A destination as it is now.
#[derive(Debug)]
pub struct DestinationView<'a> {
    /// Prefix of inner destinations.
    pub prefix: Ipv6Net,
    /// Number of the path that a user has chosen, if there is such a path now.
    pub pinned: Option<usize>,
    /// Its paths, in the order of their numbers.
    pub paths: Vec<CandidateView<'a>>,
}

/// A path of a destination.
#[derive(Debug)]
pub struct CandidateView<'a> {
    /// Among all paths to the host, from 1: that of `canopyctl get paths`.
    pub number: usize,
    /// The path.
    pub path: &'a Path,
    /// Destination address and segments.
    pub header: &'a Header,
    /// Longest inner packet, octets.
    pub most: u32,
    /// A link of it is out of service.
    pub is_out: bool,
    /// What its probes have found.
    pub fault: Option<Fault>,
    /// The program of its probes, there and back.
    pub probe: Option<&'a Header>,
    /// By which packets are shared among the active paths: above 0, less than 1 because of congestion, or of a fault that has ended.
    pub weight: f64,
    /// What it carries; `None`: nothing.
    pub share: Option<Share>,
}

/// What a path carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// Its id.
    pub id: PathId,
    /// Of [`SLOTS`].
    pub slots: usize,
}

impl Destination {
    pub(super) fn new(now: Monotonic) -> Self {
        Self {
            candidates: Vec::new(),
            total: 0,
            has_several_links: false,
            conditions: Vec::new(),
            active: Vec::new(),
            taken: Vec::new(),
            slots: None,
            is_short: false,
            last_used: now,
            packets: BTreeMap::new(),
        }
    }

    pub(super) fn restored(active: Vec<Active>, slots: [PathId; SLOTS], is_pinned: bool, now: Monotonic) -> Self {
        Self { active, slots: Some((slots, is_pinned)), ..Self::new(now) }
    }

    /// The datapath has its slots.
    pub(super) fn is_written(&self) -> bool {
        self.slots.is_some()
    }

    pub(super) fn set_candidates(&mut self, candidates: Candidates) {
        let Candidates { list, total, has_several_links } = candidates;
        (self.candidates, self.total, self.has_several_links) = (list, total, has_several_links);
    }

    pub(super) fn candidates(&self) -> &[Candidate] {
        &self.candidates
    }

    /// How many paths it has, of which candidates are chosen.
    pub(super) fn total(&self) -> usize {
        self.total
    }

    /// Other paths may be candidates once other links are in service, or another path is pinned.
    pub(super) fn has_choice(&self) -> bool {
        self.total > self.candidates.len() || self.has_several_links
    }

    /// The programs of its probes, and the longest inner packets.
    pub(super) fn probes(&self) -> impl Iterator<Item = &(Header, u32)> {
        self.candidates.iter().filter_map(|candidate| candidate.probe.as_ref())
    }

    /// Its paths that are probed.
    pub(super) fn probed(&self) -> impl Iterator<Item = (&Path, &Header)> {
        self.candidates.iter().filter_map(|candidate| Some((&candidate.path, &candidate.probe.as_ref()?.0)))
    }

    /// The path of this probe.
    pub(super) fn path_of(&self, probe: &Header) -> Option<&Path> {
        let of = |candidate: &&Candidate| candidate.probe.as_ref().is_some_and(|(header, _)| header == probe);
        self.candidates.iter().find(of).map(|candidate| &candidate.path)
    }

    /// Whether packets take the path of this probe.
    pub(super) fn is_taken(&self, probe: &Header) -> bool {
        let of = |candidate: &&Candidate| candidate.probe.as_ref().is_some_and(|(header, _)| header == probe);
        let mut found = self.candidates.iter().filter(of);
        found.any(|candidate| self.active.iter().any(|active| active.header == candidate.header))
    }

    /// The programs that packets are to take: the pinned one, otherwise the first ones of those in the best condition.
    pub(super) fn wanted(
        &mut self,
        most: usize,
        unusable: &BTreeSet<usize>,
        faults: &BTreeMap<Header, Fault>,
        pin: Option<&Header>,
    ) -> Vec<(Header, u32)> {
        let condition = |candidate: &Candidate| Condition {
            is_out: candidate.is_out(unusable),
            fault: candidate.probe.as_ref().and_then(|(probe, _)| faults.get(probe).copied()),
        };
        self.conditions = self.candidates.iter().map(condition).collect();
        let program = |candidate: &Candidate| (candidate.header.clone(), candidate.most);
        let is_pinned = |candidate: &&Candidate| Some(&candidate.header) == pin;
        if let Some(pinned) = self.candidates.iter().find(is_pinned) {
            return vec![program(pinned)];
        }
        let best = self.conditions.iter().map(|condition| condition.badness()).min();
        let both = self.candidates.iter().zip(&self.conditions);
        let wanted = both.filter(|(_, condition)| Some(condition.badness()) == best);
        wanted.take(most).map(|(candidate, _)| program(candidate)).collect()
    }

    /// Returns the ids that no slot will name.
    pub(super) fn set_active(&mut self, active: Vec<Active>) -> Vec<PathId> {
        let is_kept = |id: PathId| active.iter().any(|active| active.id == id);
        let gone: Vec<PathId> = self.active.iter().map(|active| active.id).filter(|id| !is_kept(*id)).collect();
        gone.iter().for_each(|id| _ = self.packets.remove(id));
        self.active = active;
        let taken = |active: &Active| {
            let candidate = self.candidates.iter().find(|candidate| candidate.header == active.header)?;
            Some((candidate.path.to.edge.node, candidate.probe.as_ref()?.0.clone()))
        };
        self.taken = self.active.iter().map(taken).collect();
        gone
    }

    /// Whether one of its paths has this program.
    pub(super) fn has(&self, program: &Header) -> bool {
        self.candidates.iter().any(|candidate| candidate.header == *program)
    }

    /// The ways of the active paths, each with the edge that it leads to.
    pub(super) fn taken(&self) -> impl Iterator<Item = (NodeId, &Header)> {
        self.taken.iter().flatten().map(|(edge, way)| (*edge, way))
    }

    /// The slots and whether they are those of a pin, if anything of it has changed.
    pub(super) fn distribute(
        &mut self,
        is_pinned: bool,
        weight: impl Fn(&Header) -> f64,
    ) -> Option<([PathId; SLOTS], bool)> {
        let weights = self.taken.iter().map(|taken| taken.as_ref().map_or(1.0, |(_, way)| weight(way)));
        // Until the fabric is known, all are alike.
        let weights = weights.chain(std::iter::repeat(1.0));
        let ids: Vec<(PathId, f64)> = self.active.iter().map(|active| active.id).zip(weights).collect();
        let slots = (distribute(self.slots.as_ref().map(|(slots, _)| slots), &ids)?, is_pinned);
        (self.slots.replace(slots) != Some(slots)).then_some(slots)
    }

    /// Takes how many packets each program has had.
    pub(super) fn count(&mut self, packets: impl Fn(PathId) -> u64, now: Monotonic) {
        for active in &self.active {
            let count = packets(active.id);
            if self.packets.insert(active.id, count) != Some(count) {
                self.last_used = now;
            }
        }
    }

    pub(super) fn view(
        &self,
        prefix: Ipv6Net,
        pin: Option<&Header>,
        faults: &BTreeMap<Header, Fault>,
        weight: impl Fn(&Header) -> f64,
    ) -> DestinationView<'_> {
        let conditions = self.conditions.iter().copied().chain(std::iter::repeat(Condition::default()));
        let paths = self.candidates.iter().zip(conditions).map(|(candidate, condition)| {
            let Candidate { number, path, header, most, probe } = candidate;
            let active = self.active.iter().find(|active| active.header == *header && active.most == *most);
            let share = active.map(|active| Share {
                id: active.id,
                slots: self.slots.iter().flat_map(|(slots, _)| slots).filter(|slot| **slot == active.id).count(),
            });
            CandidateView {
                number: *number,
                path,
                header,
                most: *most,
                is_out: condition.is_out,
                fault: probe.as_ref().and_then(|(header, _)| faults.get(header).copied()),
                probe: probe.as_ref().map(|(header, _)| header),
                weight: probe.as_ref().map_or(1.0, |(header, _)| weight(header)),
                share,
            }
        });
        let pinned = self.candidates.iter().find(|candidate| Some(&candidate.header) == pin);
        DestinationView { prefix, pinned: pinned.map(|candidate| candidate.number), paths: paths.collect() }
    }
}
