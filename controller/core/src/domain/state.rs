// SPDX-License-Identifier: Apache-2.0
//! What commands change and records restore. Only `change` writes the desired part of it.

use std::collections::BTreeSet;
use std::sync::Arc;

use canopy_model::addressing::AddressPlan;
use canopy_model::ids::GroupId;
use canopy_model::node_spec::{NodeBase, NodeSpec, Port};
use canopy_model::srh_hmac::SrhHmac;
use canopy_model::status::ItemKind;
use canopy_model::topology::Endpoint;

use super::drains::Drains;
use super::groups::Groups;
use super::silences::Silences;
use super::unrecorded::Unrecorded;
use crate::alloc::Pools;
use crate::desired::DesiredNode;
use crate::hmac::HmacSettings;
use crate::plan::Common;
use crate::programs::{Ground, Program};
use crate::quota::Quotas;
use crate::record::APART_ABOVE;
use crate::resource::{Group, Node, Topology};
use crate::retirement::Retirements;
use crate::secret::Secret;
use crate::status::Nodes;
use crate::topology::{Network, NodeIx};
use crate::uid::Uid;

/// A topology, its nodes and the groups over it.
#[derive(Clone, Debug)]
pub(super) struct State {
    pub(super) addresses: AddressPlan,
    pub(super) term: u64,
    pub(super) revision: u64,
    pub(super) pools: Pools,
    pub(super) topology: Option<Topology>,
    /// See [`APART_ABOVE`]; tests have less.
    pub(super) apart_above: usize,
    /// Links and nodes that operators take out of service.
    pub(super) drains: Drains,
    /// Which problems operators know of.
    pub(super) silences: Silences,
    /// Nodes that leave for good, or have left.
    pub(super) retirements: Retirements,
    /// By node index of the topology's network.
    pub(super) nodes: Vec<Node>,
    pub(super) groups: Groups,
    /// What groups' own records do not have, and the topology's has.
    pub(super) unrecorded: Unrecorded,
    pub(super) hmac: Hmac,
    /// How much tenants may have.
    pub(super) quotas: Quotas,
}

/// The keys of the SRH HMAC TLV.
#[derive(Clone, Debug, Default)]
pub(super) struct Hmac {
    pub(super) settings: HmacSettings,
    pub(super) keys: Option<SrhHmac>,
    /// Revision in which the keys became these.
    pub(super) since: u64,
    /// A node that has not confirmed these keys, as far as is known: until it has, no other one is checked.
    pub(super) waits_for: NodeIx,
    /// Room for the TLV is counted when groups are planned: it was wanted, or there were keys, when this controller started.
    pub(super) has_room: bool,
}

impl State {
    /// Neither topology nor groups.
    pub(super) fn empty(addresses: AddressPlan, secret: Secret, term: u64, revision: u64) -> Self {
        let pools = Pools::new(&addresses, secret);
        Self {
            addresses,
            term,
            revision,
            pools,
            topology: None,
            apart_above: APART_ABOVE,
            drains: Drains::default(),
            silences: Silences::default(),
            retirements: Retirements::default(),
            nodes: Vec::new(),
            groups: Groups::default(),
            unrecorded: Unrecorded::default(),
            hmac: Hmac::default(),
            quotas: Quotas::default(),
        }
    }

    /// That of a resource which the next change creates.
    pub(super) fn new_uid(&self) -> Uid {
        Uid::of(self.pools.secret(), self.term, self.revision + 1, 0)
    }

    /// What all groups have in common.
    pub(super) fn common(&self) -> Common<'_> {
        Common { addresses: &self.addresses, signed: self.hmac.has_room }
    }

    pub(super) fn network(&self) -> Option<&Network> {
        self.topology.as_ref().map(|t| &*t.network)
    }

    /// What trees are planned over, if there is a topology.
    pub(super) fn ground(&self) -> Option<Ground<'_>> {
        self.network().map(|network| Ground { network, addresses: &self.addresses })
    }

    /// All nodes, with what the programs there follow from.
    pub(super) fn on_ground(&self) -> Nodes<'_> {
        Nodes { all: &self.nodes, ground: self.ground() }
    }

    /// The group's program at a node; `None`: it has none.
    pub(super) fn program<'a>(&'a self, group: &'a Group, at: NodeIx) -> Option<Program<'a>> {
        self.on_ground().program(group, at)
    }

    /// The same of the group with this identifier. That is looked up in all groups.
    pub(super) fn program_of(&self, id: GroupId, at: NodeIx) -> Option<Program<'_>> {
        self.program(self.groups.by_id(id)?, at)
    }

    /// The same of all groups at the node, in the order of their identifiers.
    pub(super) fn programs_at(&self, at: NodeIx) -> impl Iterator<Item = (GroupId, Program<'_>)> {
        self.nodes[at].spec.groups.ids().filter_map(move |id| Some((id, self.program_of(id, at)?)))
    }

    /// All that a node is to have.
    pub(super) fn whole_spec(&self, at: NodeIx) -> NodeSpec {
        let DesiredNode { term, generation, base, .. } = &*self.nodes[at].spec;
        let groups = self.programs_at(at).map(|(id, program)| (id, program.make())).collect();
        NodeSpec { term: *term, generation: *generation, base: Arc::clone(base), groups }
    }

    pub(super) fn index(&self, node: &str) -> Option<NodeIx> {
        self.network()?.node(node)
    }

    pub(super) fn node(&self, name: &str) -> Option<&Node> {
        self.nodes.get(self.index(name)?)
    }

    /// Ports whose links carry nothing.
    pub(super) fn down(&self) -> &BTreeSet<Endpoint> {
        static NONE: BTreeSet<Endpoint> = BTreeSet::new();
        self.topology.as_ref().map_or(&NONE, |t| &t.down)
    }

    /// Those of them whose links lost every packet although their carriers were up.
    pub(super) fn silent(&self) -> &BTreeSet<Endpoint> {
        static NONE: BTreeSet<Endpoint> = BTreeSet::new();
        self.topology.as_ref().map_or(&NONE, |t| &t.silent)
    }

    /// Those of a node.
    pub(super) fn silent_of(&self, node: &str) -> impl Iterator<Item = &Endpoint> {
        let first = Endpoint { device: node.to_owned(), port: String::new() };
        self.silent().range(first..).take_while(move |p| p.device == node)
    }

    /// Whether the link of this port loses every packet although its carrier is up: the node last reported so, or no data arrives.
    pub(super) fn is_silent(&self, node: NodeIx, port: &str) -> bool {
        let errors = self.nodes[node].status.iter().flat_map(|s| &s.errors);
        errors.into_iter().any(|e| e.kind == ItemKind::Silence && e.name == port) || self.withholds(node, port)
    }

    /// Whether no data arrives at the far end of this port.
    pub(super) fn withholds(&self, node: NodeIx, port: &str) -> bool {
        self.nodes[node].withholding.get(port).is_some_and(|w| w.until.is_some())
    }

    /// See [`super::Domain::ports_down`].
    pub(super) fn ports_down(&self, node: &str) -> Option<(BTreeSet<String>, BTreeSet<String>)> {
        let entry = self.node(node)?;
        let errors = entry.status.as_ref()?.errors.iter().filter(|e| e.kind.is_dead_link()).map(|e| &e.name);
        let withholding = entry.withholding.iter().filter(|(_, w)| w.until.is_some()).map(|(port, _)| port);
        let reported = errors.chain(withholding).cloned();
        let known = self.down().iter().filter(|p| p.device == node).map(|p| p.port.clone()).collect();
        let ports: BTreeSet<&str> = entry.spec.base.ports.iter().map(|p| p.name.as_str()).collect();
        Some((known, reported.filter(|name| ports.contains(name.as_str())).collect()))
    }

    /// A rebuilt base with the present thresholds of its ports; changes are pushed by the next command.
    pub(super) fn with_thresholds(&self, mut base: NodeBase) -> NodeBase {
        let Some(node) = self.node(&base.name) else { return base };
        let before: std::collections::HashMap<&str, &Port> =
            node.spec.base.ports.iter().map(|p| (p.name.as_str(), p)).collect();
        for port in &mut base.ports {
            port.thresholds = before.get(port.name.as_str()).and_then(|old| old.thresholds);
        }
        base
    }

    /// See [`super::Domain::raise_term`].
    pub(super) fn raise_term(&mut self, term: u64) -> Vec<String> {
        self.term = term;
        for node in &mut self.nodes {
            node.spec = Arc::new(DesiredNode { term, ..(*node.spec).clone() });
        }
        self.nodes.iter().map(|node| node.spec.base.name.clone()).collect()
    }
}
