// SPDX-License-Identifier: Apache-2.0
//! The BPF program and its maps on one interface, in the types of the pure core.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv6Addr;
use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use canopy_bpf::choices::Choices;
use canopy_bpf::left::Left;
use canopy_bpf::probes::Probes;
use canopy_bpf::ring::Records;
use canopy_bpf::steer::{Steer, types};
use canopy_host_core::steering::{Command, Mode, PathId, Restored, SLOTS};
use canopy_model::usid::UsidBlock;
use canopy_units::nanos;
use ipnet::Ipv6Net;

use crate::header;
use crate::places::Places;
use crate::probe::Secret;

/// Destinations that wait for the daemon; more wait in the ring buffer.
const DEPTH: usize = 1024;
/// Longest packet that Linux makes room in for a header, less the longest header: 16 KiB with what it keeps of each packet.
const MOST: u32 = 15_900;

/// Names of the program's counters, in the order of `steer_count`.
pub(crate) const COUNTERS: [&str; types::steer_count::STEER_COUNTERS.0 as usize] =
    ["encapsulated", "no_program", "too_big", "refused", "failed", "not_asked"];

/// What is in the maps.
#[derive(Debug)]
pub(crate) struct Written {
    pub(crate) destinations: Vec<Restored>,
    /// Ids with a program that no destination has.
    pub(crate) unused: BTreeSet<PathId>,
    /// Outer source of the programs.
    pub(crate) source: Option<Ipv6Addr>,
}

/// Packets that get programs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Steered {
    /// From this prefix of the host.
    pub(crate) own: Ipv6Net,
    /// To hosts in this prefix; the daemon is asked for them.
    pub(crate) hosts: Ipv6Net,
    /// And not to the block of uSIDs.
    pub(crate) block: UsidBlock,
}

/// The loaded program.
#[derive(Debug)]
pub struct Kernel {
    steer: Steer,
    choices: Choices,
    left: Left,
    places: Places,
    ifindex: u32,
    mode: types::steer_mode,
    gap_ns: u64,
    /// Outer source of programs that are written.
    source: Option<Ipv6Addr>,
}

impl Kernel {
    /// Loads the program for an interface, with the maps that are pinned in `dir`; [`Kernel::attach`] makes it run.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn load(dir: &Path, ifindex: u32, mode: Mode, gap: Duration) -> anyhow::Result<Self> {
        let mode = match mode {
            Mode::Pinned => types::steer_mode::STEER_PINNED,
            Mode::Flowlet => types::steer_mode::STEER_FLOWLET,
            Mode::Spray => types::steer_mode::STEER_SPRAY,
        };
        let steer = Steer::load(dir)?;
        let (choices, left) = (steer.choices()?, steer.left()?);
        let places = places(&steer, &choices)?;
        Ok(Self { steer, choices, left, places, ifindex, mode, gap_ns: nanos(gap), source: None })
    }

    /// Attaches the programs in place of those of an earlier daemon: at the egress, and at the ingress for probes.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn attach(&self) -> anyhow::Result<()> {
        // First, so that no probe leaves which nothing waits for.
        self.steer.ingress_filter().attach(self.ifindex)?;
        Ok(self.steer.filter().attach(self.ifindex)?)
    }

    /// Whether the programs are attached: another process may have taken them off.
    pub(crate) fn is_attached(&self) -> bool {
        [self.steer.filter(), self.steer.ingress_filter()].iter().all(|filter| filter.is_attached(self.ifindex))
    }

    /// Takes the programs of any daemon off the interface.
    pub(crate) fn detach(&self) -> anyhow::Result<()> {
        for filter in [self.steer.filter(), self.steer.ingress_filter()] {
            if filter.is_present(self.ifindex) {
                filter.detach(self.ifindex)?;
            }
        }
        Ok(())
    }

    /// The cells of probes.
    pub(crate) fn probes(&self) -> anyhow::Result<Probes> {
        Ok(self.steer.probes()?)
    }

    /// Has probes from and to this address end at the interface; `None`: there are none.
    pub(crate) fn set_probing(&self, probes: Option<(Ipv6Addr, Secret)>) -> anyhow::Result<()> {
        Ok(self.steer.set_probing(probes)?)
    }

    /// What an earlier daemon has written. Destinations get this one's mode and gap; those that cannot be read are removed.
    pub(crate) fn written(&mut self) -> anyhow::Result<Written> {
        let (mut all, mut source) = (Vec::new(), None);
        for (prefix, place) in self.places.all() {
            let written = self.choices.get(place).unwrap_or_default();
            match self.destination(prefix, &written)? {
                Some((restored, of)) if source.is_none_or(|source| source == of) => {
                    source = Some(of);
                    let (mode, gap_ns) = (self.mode.0, self.gap_ns);
                    self.choices.put(place, &types::steer_choice { mode, gap_ns, ..written });
                    all.push(restored);
                }
                _ => self.forget(prefix)?,
            }
        }
        let used: BTreeSet<PathId> = all.iter().flat_map(|restored| restored.programs.keys().copied()).collect();
        let mut unused = BTreeSet::new();
        // As many system calls as ids, once.
        for id in (1..=PathId::LAST).filter_map(PathId::new).filter(|id| !used.contains(id)) {
            if self.steer.programs().get(&id.get())?.is_some_and(|program| program.length > 0) {
                unused.insert(id);
            }
        }
        Ok(Written { destinations: all, unused, source })
    }

    fn destination(
        &self,
        prefix: Ipv6Net,
        written: &types::steer_choice,
    ) -> anyhow::Result<Option<(Restored, Ipv6Addr)>> {
        let ids: Option<Vec<PathId>> = written.slots.iter().map(|id| PathId::new(*id)).collect();
        let Some(Ok(slots)) = ids.map(|ids| Box::<[PathId; SLOTS]>::try_from(ids.into_boxed_slice())) else {
            return Ok(None);
        };
        let (mut programs, mut source) = (BTreeMap::new(), None);
        for id in slots.iter() {
            let program = self.steer.programs().get(&id.get())?.unwrap_or_default();
            let Some((of, header)) = header::read(&program) else { return Ok(None) };
            if *source.get_or_insert(of) != of {
                return Ok(None);
            }
            programs.insert(*id, (header, program.most));
        }
        let is_pinned = written.is_pinned != 0;
        Ok(source.map(|source| (Restored { prefix, slots, programs, is_pinned }, source)))
    }

    /// Which packets may be steered; `None`: none.
    pub(crate) fn set_control(&self, steered: Option<Steered>) -> anyhow::Result<()> {
        let net =
            |prefix: Ipv6Net| types::canopy_net { address: prefix.network().into(), mask: prefix.netmask().into() };
        let control = match steered {
            None => types::steer_control::default(),
            Some(Steered { own, hosts, block }) => {
                let block = Ipv6Net::new(block.address([]), 32).context("block")?;
                let [own, hosts, block] = [own, hosts, block].map(net);
                types::steer_control { own, block, hosts, is_on: 1, pad: 0 }
            }
        };
        Ok(self.steer.set_control(&control)?)
    }

    /// Sets the outer source of programs that are written from now on.
    pub(crate) fn set_source(&mut self, source: Ipv6Addr) {
        self.source = Some(source);
    }

    /// Carries a command out.
    pub(crate) fn carry_out(&mut self, command: &Command) -> anyhow::Result<()> {
        match command {
            Command::Program { id, header, most } => {
                let source = self.source.context("no outer source is known")?;
                self.steer.traffic().zero(&id.get())?;
                self.steer.programs().put(&id.get(), &header::program(*id, source, header, (*most).min(MOST))?)?;
            }
            Command::Destination { prefix, slots, is_pinned } => {
                let written = types::steer_choice {
                    gap_ns: self.gap_ns,
                    mode: self.mode.0,
                    slots: slots.map(PathId::get),
                    is_pinned: u32::from(*is_pinned),
                };
                self.direct(*prefix, &written)?;
            }
            Command::Forget(prefix) => self.forget(*prefix)?,
            Command::Leave(id) => self.left.set(id.get()),
            Command::Clear(id) => self.steer.programs().put(&id.get(), &types::steer_program::default())?,
        }
        Ok(())
    }

    /// Has packets to a destination choose so: the known one by a store to memory.
    fn direct(&mut self, prefix: Ipv6Net, written: &types::steer_choice) -> anyhow::Result<()> {
        if let Some(place) = self.places.get(prefix) {
            self.choices.put(place, written);
            return Ok(());
        }
        let place = self.places.take(prefix).context("no destination has left its place yet")?;
        self.choices.put(place, written);
        let is_known = self.steer.destinations().put(&key(prefix), &place);
        is_known.inspect_err(|_| self.places.leave(prefix)).map_err(Into::into)
    }

    fn forget(&mut self, prefix: Ipv6Net) -> anyhow::Result<()> {
        self.steer.destinations().delete(&key(prefix))?;
        self.places.leave(prefix);
        Ok(())
    }

    /// Packets and octets that a program has had since it was written.
    pub(crate) fn traffic(&self, id: PathId) -> (u64, u64) {
        // An array's entries exist.
        let of = self.steer.traffic().get(&id.get()).unwrap_or_default();
        of.iter().fold((0, 0), |(packets, octets), one| (packets + one.packets, octets + one.octets))
    }

    /// The program's counters, in the order of [`COUNTERS`].
    pub(crate) fn counters(&self) -> anyhow::Result<[u64; COUNTERS.len()]> {
        Ok(self.steer.counters()?)
    }

    /// Destinations without an entry, as they are asked for.
    pub(crate) fn unknown(&self) -> anyhow::Result<Records<Ipv6Addr>> {
        let parse = |record: &[u8]| canopy_bpf::read::<types::canopy_addr>(record).map(Ipv6Addr::from);
        Ok(Records::read_all(self.steer.unknown()?, "unknown", DEPTH, parse)?)
    }
}

fn key(prefix: Ipv6Net) -> types::steer_prefix {
    types::steer_prefix { length: prefix.prefix_len().into(), address: prefix.network().octets() }
}

/// The places of destinations in the maps of an earlier daemon. What has none of its own is removed.
fn places(steer: &Steer, choices: &Choices) -> anyhow::Result<Places> {
    let (mut of, mut used) = (BTreeMap::new(), BTreeSet::new());
    for key in steer.destinations().keys() {
        let Some(place) = steer.destinations().get(&key)? else { continue };
        let prefix = u8::try_from(key.length).ok().and_then(|length| Ipv6Net::new(key.address.into(), length).ok());
        match prefix {
            Some(prefix) if place < choices.capacity() && used.insert(place) => {
                of.insert(prefix, place);
            }
            _ => steer.destinations().delete(&key)?,
        }
    }
    Ok(Places::new(choices.capacity(), of))
}

#[cfg(test)]
mod tests;
