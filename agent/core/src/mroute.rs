// SPDX-License-Identifier: Apache-2.0
//! The kernel's IPv6 multicast routes of groups with IP multicast replication (decisions 2.3): desired and observed state, and
//! the commands from one to the other.
//!
//! The commands run in two parts, before and after the change of the BPF programs' state: a child becomes a branch before packets
//! are sent to its port, and its port is removed before the branch is. Otherwise the node would acknowledge data for receivers
//! that it does not count.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv6Addr;

use canopy_model::node_spec::{MAX_MULTICAST_PORTS, MulticastRoute, NodeSpec};
use canopy_model::status::{ItemError, ItemKind};

use crate::net::Interface;

/// Index of a multicast interface (MIF), 0..32.
pub type Mif = u16;

/// The (S, G) of a route.
pub type Flow = (Ipv6Addr, Ipv6Addr);

/// Input and outputs of a route, by interface index.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Route {
    /// Interface on which packets arrive.
    pub input: u32,
    /// Interfaces to which copies are sent.
    pub outputs: BTreeSet<u32>,
}

/// Multicast routing state of the kernel, including foreign routes and interfaces.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Observed {
    /// The multicast routing holder process keeps multicast routing enabled in this network namespace.
    pub held: bool,
    /// Multicast interfaces: interface index, by MIF.
    pub interfaces: BTreeMap<Mif, u32>,
    /// MIFs that the agent made; others stay as they are.
    pub made: BTreeSet<Mif>,
    /// Routes; their outputs do not include removed MIFs.
    pub routes: BTreeMap<Flow, Route>,
}

/// One change of the kernel's multicast routing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Enable multicast routing and keep it enabled.
    Hold,
    /// Make an interface a multicast interface.
    AddInterface(Mif, u32),
    /// Remove a multicast interface.
    RemoveInterface(Mif),
    /// Add or replace a route.
    SetRoute(Flow, Route),
    /// Remove a route.
    RemoveRoute(Flow),
    /// Disable multicast routing.
    Release,
}

/// Desired routes, and the groups whose routes the agent manages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Desired {
    /// Routes of the groups that can be served.
    pub routes: BTreeMap<Flow, Route>,
    /// G of every route that the agent ever made; all others are foreign.
    pub ours: BTreeSet<Ipv6Addr>,
    /// G of groups that stay unchanged because their desired state could not be computed.
    pub kept: BTreeSet<Ipv6Addr>,
}

/// The desired routes, and an error for each group without a free multicast interface. `recorded` are the group addresses that
/// the programs already hold, `kept` the groups (by number) that stay unchanged.
pub fn desired(
    spec: &NodeSpec,
    interfaces: &BTreeMap<String, Interface>,
    recorded: &BTreeMap<Ipv6Addr, u32>,
    kept: &BTreeSet<u32>,
) -> (Desired, Vec<ItemError>) {
    let index_of: BTreeMap<_, _> =
        spec.base.ports.iter().filter_map(|p| Some((p.index, interfaces.get(&p.name)?.index))).collect();
    let mut d = Desired {
        ours: recorded.keys().copied().collect(),
        kept: recorded.iter().filter(|(_, id)| kept.contains(id)).map(|(g, _)| *g).collect(),
        ..Desired::default()
    };
    let (mut used, mut errors): (BTreeSet<u32>, _) = (BTreeSet::new(), Vec::new());
    for g in spec.groups.values() {
        let Some(MulticastRoute { flow, input, outputs }) = g.multicast_route() else { continue };
        d.ours.insert(flow.group);
        if kept.contains(&g.group_id.get()) {
            d.kept.insert(flow.group);
            continue;
        }
        // A port without an interface is already reported as an error of its group, and the group is kept.
        let Some(input) = index_of.get(&input).copied() else { continue };
        let outputs: BTreeSet<u32> = outputs.iter().filter_map(|p| index_of.get(p).copied()).collect();
        let with: BTreeSet<u32> = used.iter().chain(&outputs).copied().chain([input]).collect();
        let mut fail = |detail| {
            errors.push(ItemError { kind: ItemKind::Group, name: g.name.clone(), group: Some(g.group_id), detail });
        };
        if with.len() > MAX_MULTICAST_PORTS {
            fail(format!(
                "group {} would need {} multicast interfaces on {} together with the groups before it, but Linux supports \
                 {MAX_MULTICAST_PORTS}: use replication srv6",
                g.name,
                with.len(),
                spec.base.name
            ));
        } else if let Some(big) = with.iter().find(|i| **i > u32::from(u16::MAX)) {
            // struct mif6ctl holds 16 bits of the index.
            fail(format!(
                "interface index {big} on {} is above 65535, the limit of multicast interfaces: recreate the interface, or \
                 use replication srv6",
                spec.base.name
            ));
        } else {
            used = with;
            d.routes.insert((flow.source, flow.group), Route { input, outputs });
        }
    }
    (d, errors)
}

/// Commands to run before branches are removed from the programs' state: remove unwanted routes and outputs.
pub fn plan_before(desired: &Desired, observed: &Observed) -> Vec<Command> {
    let mut out = Vec::new();
    for (flow, have) in ours(desired, observed) {
        match desired.routes.get(flow) {
            Some(want) if want.input == have.input => {
                let both: BTreeSet<u32> = have.outputs.intersection(&want.outputs).copied().collect();
                if both != have.outputs {
                    out.push(Command::SetRoute(*flow, Route { input: have.input, outputs: both }));
                }
            }
            _ => out.push(Command::RemoveRoute(*flow)),
        }
    }
    out
}

/// Commands to run after every branch is in the programs' state; `observed` was read after [`plan_before`].
pub fn plan_after(desired: &Desired, observed: &Observed) -> Vec<Command> {
    let mut out = Vec::new();
    let wanted: BTreeSet<u32> =
        desired.routes.values().flat_map(|r| r.outputs.iter().copied().chain([r.input])).collect();
    if !wanted.is_empty() && !observed.held {
        out.push(Command::Hold);
    }
    // Any route keeps the interfaces that it uses, foreign routes included.
    let used: BTreeSet<u32> =
        observed.routes.values().flat_map(|r| r.outputs.iter().copied().chain([r.input])).collect();
    let mut interfaces = observed.interfaces.clone();
    for (mif, index) in &observed.interfaces {
        if observed.made.contains(mif) && !wanted.contains(index) && !used.contains(index) {
            out.push(Command::RemoveInterface(*mif));
            interfaces.remove(mif);
        }
    }
    let present: BTreeSet<u32> = interfaces.values().copied().collect();
    let missing: Vec<u32> = wanted.difference(&present).copied().collect();
    for index in &missing {
        // Foreign interfaces may occupy MIFs: an interface without a free MIF is found missing when the kernel is read back.
        let free = (0..MAX_MULTICAST_PORTS as Mif).find(|m| !interfaces.contains_key(m));
        if let Some(mif) = free {
            interfaces.insert(mif, *index);
            out.push(Command::AddInterface(mif, *index));
        }
    }
    for (flow, want) in &desired.routes {
        // A route stores its outputs by MIF: a MIF that was added again may refer to another interface than before.
        if observed.routes.get(flow) != Some(want) || !missing.is_empty() {
            out.push(Command::SetRoute(*flow, want.clone()));
        }
    }
    let nothing_left = wanted.is_empty() && desired.kept.is_empty() && ours(desired, observed).next().is_none();
    if nothing_left && observed.held {
        out.push(Command::Release);
    }
    out
}

/// Routes that the agent manages and may change.
fn ours<'a>(desired: &'a Desired, observed: &'a Observed) -> impl Iterator<Item = (&'a Flow, &'a Route)> {
    observed.routes.iter().filter(|((_, g), _)| desired.ours.contains(g) && !desired.kept.contains(g))
}

#[cfg(test)]
mod tests;
