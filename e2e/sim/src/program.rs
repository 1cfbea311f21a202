// SPDX-License-Identifier: Apache-2.0
//! From a node's program to the entries of its maps and the inputs of its aggregation, in the order in which the agent
//! writes them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::Ipv6Addr;
use std::sync::Arc;

use canopy_agent_core::slots;
use canopy_model::ids::PortIndex;
use canopy_model::node_spec::{BranchKind, GroupProgram};
use canopy_reference::aggregate::{Entry, Params, Start};

use crate::fabric::PortId;
use crate::kernel::{Branch, Conf, Kernel, Peer, Step};
use crate::net::Lists;

/// PSNs are unwrapped one turn above zero.
const TURN: u64 = 1 << 24;

/// The steps from what the maps have to what `program` wants; `None` if the node does not have one of its ports. `cold`: nothing was
/// pinned when the agent started.
pub fn steps(
    kernel: &Kernel,
    program: Option<&GroupProgram>,
    port: impl Fn(PortIndex) -> Option<PortId>,
    cold: bool,
) -> Option<VecDeque<Step>> {
    let Some(program) = program else {
        return Some(if kernel.is_empty() { VecDeque::new() } else { VecDeque::from([Step::Gone]) });
    };
    let held: BTreeMap<Ipv6Addr, u32> = kernel.peers.iter().map(|(address, peer)| (*address, peer.slot)).collect();
    let (slots, _) = slots::assign(program.branches.iter().map(|b| b.address), &held);
    let conf = conf(program, &slots, &port)?;
    let (mut branches, mut peers) = (BTreeMap::new(), BTreeMap::new());
    for b in &program.branches {
        let (slot, at) = (slots[&b.address], port(b.port)?);
        let (qpn, replicates) = match b.kind {
            BranchKind::Receiver { qpn, .. } => (Some(qpn.get()), false),
            BranchKind::Node { sid } => (None, is_replication(sid)),
        };
        branches.insert(slot, Branch { port: at, address: b.address, qpn, replicates });
        // A standby branch has a slot, but no port on which its feedback is accepted.
        peers.insert(b.address, Peer { slot, port: (!b.standby).then_some(at) });
    }
    let lists = program.headend.as_ref().map(|h| {
        let list = |tlv: &canopy_model::node_spec::EndMtList| {
            (tlv.edge, tlv.receivers.iter().map(|(address, qpn)| (*address, qpn.get())).collect())
        };
        Arc::new(h.tlvs.iter().map(list).collect::<Lists>())
    });
    let mut steps = VecDeque::new();
    leave_formers(kernel, program, &slots, &mut steps);
    if branches.iter().any(|(slot, b)| kernel.branches.get(slot) != Some(b))
        || peers.iter().any(|(a, p)| kernel.peers.get(a) != Some(p))
    {
        steps.push_back(Step::Branches(branches, peers));
    }
    if lists != kernel.lists {
        steps.push_back(Step::Lists(lists));
    }
    if kernel.machine.is_none() {
        steps.push_back(Step::State(params(program, cold), program.epoch));
    }
    joins(kernel, program, &slots, cold, &mut steps);
    if kernel.conf.as_ref() != Some(&conf) {
        steps.push_back(Step::Conf(Box::new(conf)));
    }
    let standby: BTreeSet<Ipv6Addr> = program.branches.iter().filter(|b| b.standby).map(|b| b.address).collect();
    for (address, slot) in &held {
        let counts = kernel.machine.as_ref().is_some_and(|m| m.inner.since(*slot).is_some());
        if !slots.contains_key(address) || (standby.contains(address) && counts) {
            steps.push_back(Step::Remove(*slot));
        }
    }
    let used: BTreeSet<u32> = slots.values().copied().collect();
    let left: BTreeSet<u32> = kernel.branches.keys().filter(|slot| !used.contains(slot)).copied().collect();
    let gone: BTreeSet<Ipv6Addr> = held.keys().filter(|address| !slots.contains_key(address)).copied().collect();
    if !left.is_empty() || !gone.is_empty() {
        steps.push_back(Step::Sweep(left, gone));
    }
    Some(steps)
}

/// Receivers that left, where another membership has their address.
fn leave_formers(kernel: &Kernel, program: &GroupProgram, slots: &BTreeMap<Ipv6Addr, u32>, steps: &mut VecDeque<Step>) {
    let receivers = program.branches.iter().filter(|b| matches!(b.kind, BranchKind::Receiver { .. }) && !b.standby);
    for b in receivers {
        let slot = slots[&b.address];
        let since = kernel.machine.as_ref().and_then(|m| m.inner.since(slot));
        if since.is_some_and(|since| since != b.since) {
            steps.push_back(Step::Remove(slot));
        }
    }
}

/// New branches, and branches behind which receivers moved.
fn joins(
    kernel: &Kernel,
    program: &GroupProgram,
    slots: &BTreeMap<Ipv6Addr, u32>,
    cold: bool,
    steps: &mut VecDeque<Step>,
) {
    for b in program.branches.iter().filter(|b| !b.standby) {
        let slot = slots[&b.address];
        let receiver = matches!(b.kind, BranchKind::Receiver { .. });
        let there = kernel.machine.as_ref().and_then(|m| m.inner.since(slot));
        if there == Some(b.since) {
            continue;
        }
        let counts = kernel.machine.as_ref().is_some_and(|m| m.inner.active().any(|active| active == slot));
        let at_boundary = b.at_boundary && if receiver { b.start.is_none() } else { !cold && !counts };
        let start = b.start.map_or(Start::default(), |s| Start { shift: s.shift, msn_base: s.msn_base });
        let lost = (cold || b.lost) && at_boundary;
        steps.push_back(Step::Join(slot, Entry { at_boundary, receiver, since: b.since, start, lost }));
    }
}

fn conf(
    program: &GroupProgram,
    slots: &BTreeMap<Ipv6Addr, u32>,
    port: &impl Fn(PortIndex) -> Option<PortId>,
) -> Option<Conf> {
    let of = |wanted: &dyn Fn(&canopy_model::node_spec::Branch) -> bool| -> BTreeSet<u32> {
        program.branches.iter().filter(|b| wanted(b)).map(|b| slots[&b.address]).collect()
    };
    let alternate = match program.alternate_upstream {
        None => None,
        Some(index) => Some(port(index)?),
    };
    let headend = match &program.headend {
        None => None,
        Some(h) => Some((port(h.source_port)?, h.open && !h.held)),
    };
    Some(Conf {
        epoch: program.epoch,
        up: port(program.upstream.port)?,
        up_from: program.upstream.source_address,
        alternate,
        headend,
        held: program.headend.as_ref().is_some_and(|h| h.held),
        replicates: program.replication_sid.is_some(),
        provisioned: program.receivers_provisioned,
        children: of(&|b| matches!(b.kind, BranchKind::Node { .. })),
        receivers: of(&|b| matches!(b.kind, BranchKind::Receiver { .. })),
        standby: of(&|b| b.standby),
    })
}

fn params(program: &GroupProgram, cold: bool) -> Params {
    // No data has passed a headend that is closed.
    let lost = program.headend.as_ref().map_or(cold, |h| h.open);
    Params {
        start: TURN + u64::from(program.start_psn.get()),
        window: program.params.window.into(),
        reack: program.params.reack_interval,
        nak_merge: program.params.nak_merge,
        psn_bits: 24,
        lost,
    }
}

fn is_replication(sid: Ipv6Addr) -> bool {
    sid.segments()[3] == canopy_model::addressing::FUNCTION_REPLICATE
}
