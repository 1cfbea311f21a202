// SPDX-License-Identifier: Apache-2.0
//! A node's data path: the maps of the group, and what happens to a frame. A frame that cannot be processed whole is
//! dropped whole (I5).

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv6Addr;
use std::sync::Arc;

use canopy_reference::aggregate::{self, Entry, Input, Nak, Params, Refusal};

use crate::fabric::PortId;
use crate::machine::{Machine, Mutant};
use crate::net::{Address, Burst, Feedback, Frame, Lists};

/// Largest distance of a PSN that is ahead of another.
const FAR_AHEAD: u32 = (1 << 23) - 1;

/// The group's entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conf {
    /// Of the active program; feedback carries it.
    pub epoch: u32,
    /// Port of the parent, or of the source.
    pub up: PortId,
    /// Source Address of feedback.
    pub up_from: Ipv6Addr,
    /// Port of the future parent.
    pub alternate: Option<PortId>,
    /// The source's port, and whether its data is taken.
    pub headend: Option<(PortId, bool)>,
    /// No receiver gets data: the source gets no answer.
    pub held: bool,
    /// It has a Replication-SID.
    pub replicates: bool,
    /// Its receivers are provisioned rather than listed in packets.
    pub provisioned: bool,
    /// Slots of child nodes.
    pub children: BTreeSet<u32>,
    /// Slots of receivers.
    pub receivers: BTreeSet<u32>,
    /// Slots of child nodes that get copies but do not count yet.
    pub standby: BTreeSet<u32>,
}

/// Where a branch's copies go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Branch {
    /// Output port.
    pub port: PortId,
    /// The address that it answers from.
    pub address: Ipv6Addr,
    /// A receiver's QPN; `None` for a child node.
    pub qpn: Option<u32>,
    /// A child node's SID is a Replication-SID.
    pub replicates: bool,
}

/// Which branch has an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its slot.
    pub slot: u32,
    /// Port on which its feedback is accepted; `None` on standby.
    pub port: Option<PortId>,
}

/// Why a frame was dropped, or refused by the aggregation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drop {
    /// The node has no such group, or does not use this SID.
    GroupUnknown,
    /// Received on another port than the one towards its sender.
    WrongPort,
    /// The headend does not take data yet.
    NotOpen,
    /// No list for this edge.
    NoList,
    /// A listed receiver that was not provisioned.
    Unprovisioned,
    /// The source of feedback is no branch.
    BranchUnknown,
    /// The aggregation refused it.
    Refused(Refusal),
}

impl From<Refusal> for Drop {
    fn from(why: Refusal) -> Self {
        Self::Refused(why)
    }
}

/// A change of a node's maps. Frames are forwarded between two of them.
#[derive(Clone, Debug)]
pub enum Step {
    /// Branches, and the addresses that their feedback comes from.
    Branches(BTreeMap<u32, Branch>, BTreeMap<Ipv6Addr, Peer>),
    /// The outer header of a headend.
    Lists(Option<Arc<Lists>>),
    /// The state of a group that has none.
    State(Params, u32),
    /// A branch joins.
    Join(u32, Entry),
    /// A branch leaves.
    Remove(u32),
    /// The group's entry: feedback carries its epoch from now on.
    Conf(Box<Conf>),
    /// Entries that the program has no more.
    Sweep(BTreeSet<u32>, BTreeSet<Ipv6Addr>),
    /// Everything of the group.
    Gone,
}

/// What is pinned of the group.
#[derive(Clone, Default, PartialEq)]
pub struct Kernel {
    /// The state.
    pub machine: Option<Machine>,
    /// The group's entry.
    pub conf: Option<Conf>,
    /// Branches by slot.
    pub branches: BTreeMap<u32, Branch>,
    /// Branches by address.
    pub peers: BTreeMap<Ipv6Addr, Peer>,
    /// A headend's outer header.
    pub lists: Option<Arc<Lists>>,
    /// Probed receivers that answered, but not as a fresh queue pair does, and when first and last, ns.
    pub answered: BTreeMap<u32, (u64, u64)>,
}

impl Kernel {
    /// Nothing of the group is there.
    pub fn is_empty(&self) -> bool {
        self.machine.is_none() && self.conf.is_none() && self.peers.is_empty()
    }

    /// Carries out one step of the agent; returns the feedback that follows from it.
    pub fn carry_out(&mut self, step: Step, mutant: Mutant, now: u64) -> Option<(PortId, Frame)> {
        match step {
            Step::Branches(branches, peers) => {
                self.branches.extend(branches);
                self.peers.extend(peers);
            }
            Step::Lists(lists) => self.lists = lists,
            Step::State(params, epoch) => self.machine = Some(Machine::new(params, mutant, epoch)),
            Step::Join(slot, entry) => return self.control(Input::Join(slot, entry), now),
            Step::Remove(slot) => {
                self.answered.remove(&slot);
                return self.control(Input::Leave(slot), now);
            }
            Step::Conf(conf) => {
                let epoch = conf.epoch;
                self.conf = Some(*conf);
                return self.control(Input::Adopt(epoch), now);
            }
            Step::Sweep(slots, addresses) => {
                self.branches.retain(|slot, _| !slots.contains(slot));
                self.peers.retain(|address, _| !addresses.contains(address));
            }
            Step::Gone => *self = Self::default(),
        }
        None
    }

    /// Passes an input of the agent to the aggregation; returns the feedback that follows from it.
    pub fn control(&mut self, input: Input, now: u64) -> Option<(PortId, Frame)> {
        let out = self.machine.as_mut()?.handle(input, now).ok().flatten()?;
        self.upstream(out)
    }

    fn upstream(&self, out: aggregate::Feedback) -> Option<(PortId, Frame)> {
        let conf = self.conf.as_ref().filter(|conf| !conf.held)?;
        let aggregate::Feedback { syndrome, psn, msn } = out;
        let epoch = conf.epoch;
        Some((conf.up, Frame::Feedback(Feedback { from: conf.up_from, syndrome, psn, msn, epoch })))
    }

    /// Data arrives at a port of the node with this address; returns its copies.
    ///
    /// # Errors
    /// Why it was dropped.
    pub fn data(&mut self, own: Ipv6Addr, port: PortId, burst: &Burst, now: u64) -> Result<Vec<(PortId, Frame)>, Drop> {
        let conf = self.conf.as_ref().ok_or(Drop::GroupUnknown)?;
        let (here, lists) = match &burst.to {
            Address::Qp(_) => return Err(Drop::GroupUnknown),
            Address::Proxy => {
                let (source, open) = conf.headend.ok_or(Drop::GroupUnknown)?;
                if port != source {
                    return Err(Drop::WrongPort);
                }
                if !open {
                    return Err(Drop::NotOpen);
                }
                (conf.receivers.clone(), self.lists.clone().unwrap_or_default())
            }
            Address::Sid(replication, lists) => {
                if *replication && !conf.replicates {
                    return Err(Drop::GroupUnknown);
                }
                if port != conf.up && Some(port) != conf.alternate {
                    return Err(Drop::WrongPort);
                }
                let here = if conf.receivers.is_empty() { BTreeSet::new() } else { self.listed(own, lists, conf)? };
                (here, Arc::clone(lists))
            }
        };
        let machine = self.machine.as_mut().ok_or(Drop::GroupUnknown)?;
        for i in 0..burst.count {
            let psn = burst.psn.wrapping_add(i) & 0xFF_FFFF;
            machine.handle(Input::Data { psn, begins: burst.begins && i == 0 }, now)?;
        }
        let mut copies = Vec::new();
        let active: Vec<(u32, u64)> = machine.inner.copies().collect();
        let standby = conf.standby.iter().filter(|slot| active.iter().all(|(a, _)| a != *slot)).map(|slot| (*slot, 0));
        for (slot, shift) in active.iter().copied().chain(standby) {
            let Some(branch) = self.branches.get(&slot) else { continue };
            let to = match branch.qpn {
                None if conf.children.contains(&slot) => Address::Sid(branch.replicates, Arc::clone(&lists)),
                Some(qpn) if here.contains(&slot) => Address::Qp(qpn),
                _ => continue,
            };
            let psn = u64::from(burst.psn).wrapping_sub(shift) as u32 & 0xFF_FFFF;
            copies.push((branch.port, Frame::Data(Burst { psn, to, ..burst.clone() })));
        }
        Ok(copies)
    }

    /// The receivers here that a packet is for.
    fn listed(&self, own: Ipv6Addr, lists: &Lists, conf: &Conf) -> Result<BTreeSet<u32>, Drop> {
        let mut here = BTreeSet::new();
        let mut found = false;
        for (address, qpn) in lists.iter().filter(|(edge, _)| *edge == own).flat_map(|(_, receivers)| receivers) {
            found = true;
            let slot = self.peers.get(address).map(|peer| peer.slot).ok_or(Drop::Unprovisioned)?;
            let provisioned = self.branches.get(&slot).is_some_and(|b| b.qpn == Some(*qpn));
            here.insert(provisioned.then_some(slot).ok_or(Drop::Unprovisioned)?);
        }
        match found {
            true => Ok(here),
            false if conf.provisioned => Ok(conf.receivers.clone()),
            false => Err(Drop::NoList),
        }
    }

    /// The probes of late receivers whose queue pair has not proved to be fresh: far ahead of the start PSN, and just before it.
    pub fn probes(&self, start_psn: u32) -> Vec<(PortId, Frame)> {
        let Some(machine) = &self.machine else { return Vec::new() };
        let probed = machine.inner.probing().filter(|slot| !machine.inner.is_lost(*slot));
        let branches = probed.filter_map(|slot| self.branches.get(&slot)).filter_map(|b| Some((b.port, b.qpn?)));
        let probe = |(port, qpn): (PortId, u32), psn: u32| {
            let to = Address::Qp(qpn);
            let psn = psn & 0xFF_FFFF;
            (port, Frame::Data(Burst { psn, number: u64::MAX, count: 1, begins: true, ends: true, ask: true, to }))
        };
        let psns = [start_psn.wrapping_add(FAR_AHEAD), start_psn.wrapping_sub(1)];
        branches.flat_map(|to| psns.map(|psn| probe(to, psn))).collect()
    }

    /// Feedback arrives at a port; returns what goes upstream.
    ///
    /// # Errors
    /// Why it was dropped.
    pub fn feedback(&mut self, port: PortId, feedback: &Feedback, now: u64) -> Result<Option<(PortId, Frame)>, Drop> {
        if self.conf.is_none() {
            return Err(Drop::GroupUnknown);
        }
        let peer = self.peers.get(&feedback.from).ok_or(Drop::BranchUnknown)?;
        if peer.port != Some(port) {
            return Err(Drop::WrongPort);
        }
        let Feedback { syndrome, psn, msn, epoch, .. } = *feedback;
        let branch = peer.slot;
        let input = match syndrome {
            0..0x20 => Input::Ack { branch, epoch, psn, msn, credits: syndrome },
            0x20..0x40 => Input::Nak { branch, epoch, psn, msn, nak: Nak::Rnr(syndrome & 0x1F) },
            0x61..=0x64 => Input::Fatal { branch, epoch, psn, syndrome },
            _ => Input::Nak { branch, epoch, psn, msn, nak: Nak::Sequence },
        };
        let machine = self.machine.as_mut().ok_or(Drop::GroupUnknown)?;
        let is_probed = machine.inner.probing().any(|slot| slot == branch);
        let out = machine.handle(input, now);
        if is_probed {
            match out {
                Ok(_) => _ = self.answered.remove(&branch),
                Err(_) => self.answered.entry(branch).or_insert((now, now)).1 = now,
            }
        }
        Ok(out?.and_then(|out| self.upstream(out)))
    }
}
