// SPDX-License-Identifier: Apache-2.0
//! Where a packet of a group is to be seen: the places of its tree, from the programs of its nodes.

use std::collections::HashMap;
use std::net::Ipv6Addr;

use canopy_model::capture::MINOR_VERSION;
use canopy_model::ids::PortIndex;
use canopy_model::node_spec::{BranchKind, Peer};

use super::state::State;
use crate::capture::{CapturePlan, Headers, Listed, Place, Seen};
use crate::desired::DesiredNode;
use crate::resource::Group;

/// The places of a group's tree, up to the node that has more than `most` before it; `None` if it has no tree.
pub(super) fn plan(state: &State, group: &Group, most: usize) -> Option<CapturePlan> {
    let tree = &group.plan()?.tree;
    let id = group.allocation.group_id;
    let root = tree.root();
    let program = state.program(group, root)?.make();
    let listed = listed(program.headend.as_ref());
    let mut plan = CapturePlan {
        group_id: id,
        group: program.name.clone(),
        headend: state.nodes[root].spec.base.name.clone(),
        start: program.start_psn,
        places: Vec::new(),
        able: Vec::new(),
        unable: Vec::new(),
        left_out: 0,
    };
    // The copy that arrives at each node.
    let mut sent: Vec<Option<usize>> = vec![None; tree.len()];
    for (position, tree_node) in tree.nodes().enumerate() {
        let node = &state.nodes[tree_node.node];
        let spec = &node.spec;
        let Some(program) = state.on_ground().program_at(group, position) else { continue };
        if plan.places.len() >= most {
            plan.left_out += 1 + program.addresses().count() as u64;
            continue;
        }
        let program = program.make();
        let captures = node.connected && node.status.as_ref().is_some_and(|s| s.minor_version >= MINOR_VERSION);
        if captures { &mut plan.able } else { &mut plan.unable }.push(spec.base.name.clone());
        let place = |port, seen, before, expected| {
            let (port, peer) = port_and_peer(spec, port);
            Place { node: spec.base.name.clone(), port, peer, seen, before, expected }
        };
        let input = program.headend.as_ref().map_or(program.upstream.port, |h| h.source_port);
        let arrives = match sent[position] {
            Some(at) => plan.places[at].expected.clone(),
            None => program.headend.as_ref().map(|_| Headers::sent(&program)),
        };
        plan.places.push(place(input, Seen::Arrival, sent[position], arrives.clone()));
        let arrival = plan.places.len() - 1;
        let mut children = tree_node.children();
        for branch in &program.branches {
            let (seen, leaves) = match branch.kind {
                BranchKind::Node { sid } => {
                    if let Some(child) = children.next() {
                        sent[child] = Some(plan.places.len());
                    }
                    (Seen::ToNode { sid }, arrives.as_ref().and_then(|h| h.to_node(&program, &spec.base, sid)))
                }
                BranchKind::Receiver { qpn, .. } => {
                    let entry = listed.get(&(spec.base.node_address, branch.address));
                    let listed = entry.map_or(Listed::Provisioned, |entry| Listed::Tlv(*entry));
                    let is_late = branch.at_boundary || branch.start.is_some();
                    let copy = arrives.as_ref().map(|h| h.to_receiver(&program, branch.address, qpn, is_late));
                    (Seen::ToReceiver { address: branch.address, listed }, copy)
                }
            };
            plan.places.push(place(branch.port, seen, Some(arrival), leaves));
        }
    }
    Some(plan)
}

/// The number of each receiver in the End.MT TLVs of its edge, from 1 on.
fn listed(headend: Option<&canopy_model::node_spec::Headend>) -> HashMap<(Ipv6Addr, Ipv6Addr), usize> {
    let mut count: HashMap<Ipv6Addr, usize> = HashMap::new();
    let mut entries = HashMap::new();
    for tlv in headend.into_iter().flat_map(|h| &h.tlvs) {
        let last = count.entry(tlv.edge).or_default();
        for (receiver, _) in &tlv.receivers {
            *last += 1;
            entries.insert((tlv.edge, *receiver), *last);
        }
    }
    entries
}

fn port_and_peer(spec: &DesiredNode, index: PortIndex) -> (String, String) {
    let Some(port) = spec.base.ports.iter().find(|port| port.index == index) else { return Default::default() };
    let (Peer::Node { name, .. } | Peer::Host { name, .. }) = &port.peer;
    (port.name.clone(), name.clone())
}
