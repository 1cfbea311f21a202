// SPDX-License-Identifier: Apache-2.0
//! Commands on the topology: every group is replanned before another one is declared, so that an update that makes a group
//! infeasible is refused as a whole. Links that go out of service or come back concern the groups and nodes that use them, or could.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use canopy_model::FieldErrors;
use canopy_model::ids::Generation;
use canopy_model::node_spec::NodeBase;
use canopy_model::topology::{Endpoint, TopologySpec};

use super::affected::affected;
use super::change::{Effect, LinksEffect, Prepared, Replan, TopologyEffect};
use super::drains::Drains;
use super::group_change::{check_generation, in_group};
use super::leaving::check_nodes;
use super::multicast::check_all;
use super::replan::Replanner;
use super::state::State;
use super::topology_draft::{BuiltTopology, TopologyDraft};
use super::unrecorded::Unrecorded;
use crate::command::{Outcome, Write};
use crate::error::DomainError;
use crate::homes::Exceptions;
use crate::metadata::{Labels, Metadata, check_labels};
use crate::principal::Written;
use crate::programs::Ground;
use crate::record::{LinksRecord, Record, TOPOLOGY_NAME, TopologyRecord, least_octets, links_key, topology_key};
use crate::rerouted::rerouted;
use crate::resource::{GroupState, Topology};
use crate::retirement::{Retirements, left};
use crate::routes::node_base;
use crate::topology::{Network, NodeIx, PortInfo};

/// Ports whose links carry nothing: all, and those of them whose links lost every packet although their carriers were up.
struct Avoided {
    down: BTreeSet<Endpoint>,
    silent: BTreeSet<Endpoint>,
}

/// Checks commands on the topology against a state.
pub(super) struct TopologyCommands<'a>(pub(super) &'a State);

impl TopologyCommands<'_> {
    /// [`crate::Command::PutTopology`].
    pub(super) fn put(
        &self,
        labels: Labels,
        spec: Arc<TopologySpec>,
        if_match: Option<Generation>,
        written: &Written,
        built: Option<BuiltTopology>,
    ) -> Result<Prepared, DomainError> {
        match (&self.0.topology, if_match) {
            (Some(t), _) => check_generation("topology", TOPOLOGY_NAME, if_match, t.metadata.generation)?,
            (None, Some(_)) => return Err(DomainError::NotFound { kind: "topology", name: TOPOLOGY_NAME.to_owned() }),
            (None, None) => {}
        }
        let mut errors = FieldErrors::default();
        check_labels(&labels, &mut errors);
        errors.into_result()?;
        if let Some(t) = self.0.topology.as_ref().filter(|t| t.metadata.labels == labels && t.network.spec == spec) {
            return Ok(Prepared::noop(self.0, t.metadata.generation));
        }
        let built = built.filter(|built| built.is_of(self.0, &spec));
        let built = built.unwrap_or_else(|| TopologyDraft::new(self.0, spec).build());
        let (network, bases) = built.network?;
        // Ports that are no longer declared are dropped from the list of those that carry nothing.
        let still =
            |ports: &BTreeSet<Endpoint>| ports.iter().filter(|p| network.link_at(p).is_some()).cloned().collect();
        let avoided = Avoided { down: still(self.0.down()), silent: still(self.0.silent()) };
        self.check_members(&network)?;
        check_nodes(self.0, |node| network.node(node).is_some())?;
        let replanner = Replanner::new(self.0, &network);
        let replans = replanner.all(|name, group, e| match group.state {
            // The group was infeasible before: no reason to refuse a topology that may repair others.
            GroupState::Infeasible(_) => Ok(e.to_string()),
            _ => Err(in_group(name, e)),
        })?;
        check_all(Ground { network: &network, addresses: &self.0.addresses }, &replans)?;
        let metadata = match &self.0.topology {
            Some(t) => t.metadata.changed(labels, written),
            None => Metadata::created(TOPOLOGY_NAME, labels, self.0.new_uid(), written),
        };
        let outcome = if self.0.topology.is_some() { Outcome::Updated } else { Outcome::Created };
        Ok(self.prepared(metadata, (network, bases), avoided, replans, outcome))
    }

    /// [`crate::Command::DeleteTopology`].
    pub(super) fn delete(&self) -> Result<Prepared, DomainError> {
        let Some(t) = &self.0.topology else {
            return Err(DomainError::NotFound { kind: "topology", name: TOPOLOGY_NAME.to_owned() });
        };
        if let Some((name, group)) = self.0.groups.with_members().next() {
            let detail = format!("group {name} has {} members: remove them first", group.members.len());
            return Err(DomainError::InUse { kind: "topology", name: TOPOLOGY_NAME.to_owned(), detail });
        }
        check_nodes(self.0, |_| false)?;
        let mut writes = vec![Write::Delete { key: topology_key() }];
        if t.is_apart {
            writes.push(Write::Delete { key: links_key() });
        }
        let generation = t.metadata.generation;
        let effect = Effect::Topology(Box::new(TopologyEffect {
            topology: None,
            bases: Vec::new(),
            replans: Vec::new(),
            unrecorded: Unrecorded::default(),
        }));
        Ok(Prepared::change(self.0, Outcome::Deleted, generation, writes, self.0.pools.cursors(), effect))
    }

    /// [`crate::Command::PortsDown`].
    pub(super) fn ports_down(&self, node: &str, ports: BTreeSet<String>) -> Result<Prepared, DomainError> {
        let unknown = || DomainError::NotFound { kind: "node", name: node.to_owned() };
        let topology = self.0.topology.as_ref().ok_or_else(unknown)?;
        let index = topology.network.node(node).ok_or_else(unknown)?;
        let own = |p: &&PortInfo| ports.contains(topology.network.port_name(index, p.index));
        let endpoint = |p: &PortInfo| Endpoint {
            device: node.to_owned(),
            port: topology.network.port_name(index, p.index).to_owned(),
        };
        let mut down: BTreeSet<Endpoint> = topology.down.iter().filter(|p| p.device != node).cloned().collect();
        down.extend(topology.network.ports(index).iter().filter(own).map(endpoint));
        // A port stays silent until it is used again, also where its carrier goes meanwhile or its agent has forgotten it.
        let was_silent = |p: &&Endpoint| topology.silent.contains(p);
        let is_silent = |p: &&Endpoint| p.device == node && self.0.is_silent(index, &p.port);
        let silent = down.iter().filter(|p| was_silent(p) || is_silent(p)).cloned().collect();
        let avoided = Avoided { down, silent };
        if avoided.down == topology.down && avoided.silent == topology.silent {
            return Ok(Prepared::noop(self.0, topology.metadata.generation));
        }
        self.with_links(topology, avoided, None, None, Outcome::Updated)
    }

    /// The same topology with other drains, of which `write` makes the changed one durable, at its `generation`; and with other retirements,
    /// if they change too.
    pub(super) fn with_drains(
        &self,
        drains: Drains,
        retirements: Option<Retirements>,
        write: Write,
        generation: Generation,
        outcome: Outcome,
    ) -> Result<Prepared, DomainError> {
        let Some(topology) = &self.0.topology else {
            let effect = Effect::Drains { drains, retirements };
            return Ok(Prepared::change(self.0, outcome, generation, vec![write], self.0.pools.cursors(), effect));
        };
        let avoided = Avoided { down: topology.down.clone(), silent: topology.silent.clone() };
        let mut prepared = self.with_links(topology, avoided, Some(drains), retirements, outcome)?;
        prepared.writes.push(write);
        prepared.generation = generation;
        Ok(prepared)
    }

    /// The same topology with other retirements, at the next revision. Links of nodes that have begun to clean up are out of service.
    pub(super) fn with_retirements(
        &self,
        retirements: Retirements,
        writes: Vec<Write>,
        outcome: Outcome,
    ) -> Result<Prepared, DomainError> {
        let generation = self.0.revision + 1;
        let topology = self.0.topology.as_ref().filter(|_| left(&retirements) != left(&self.0.retirements));
        let Some(topology) = topology else {
            let effect = Effect::Retirements(retirements);
            return Ok(Prepared::change(self.0, outcome, generation, writes, self.0.pools.cursors(), effect));
        };
        let avoided = Avoided { down: topology.down.clone(), silent: topology.silent.clone() };
        let mut prepared = self.with_links(topology, avoided, None, Some(retirements), outcome)?;
        prepared.writes.extend(writes);
        prepared.generation = generation;
        Ok(prepared)
    }

    /// The same topology with other links in service. A broken or drained link takes down no group that does not use it, and a drained one
    /// is used where there is no other way, so no group is refused.
    fn with_links(
        &self,
        topology: &Topology,
        avoided: Avoided,
        drains: Option<Drains>,
        retirements: Option<Retirements>,
        outcome: Outcome,
    ) -> Result<Prepared, DomainError> {
        let old = &*topology.network;
        let targets = drains.as_ref().unwrap_or(&self.0.drains).targets();
        let left = left(retirements.as_ref().unwrap_or(&self.0.retirements));
        let network = old.with_links(&avoided.down, &targets, &left);
        let difference = old.difference(&network);
        let mut groups = affected(self.0, old, &network, &difference);
        if drains.is_some() {
            // Those whose trees stay on drained links, for operators to see.
            let drained = targets.into_iter().flat_map(|target| network.links_of(target));
            groups.extend(drained.flat_map(|link| self.0.groups.trees().over(link)));
        }
        let replanner = Replanner::new(self.0, &network);
        let replans = replanner.some(&groups)?;
        let unrecorded = replanner.unrecorded_with(&replans);
        let links = self.links_record(&avoided, &unrecorded);
        let write = match topology.is_apart {
            true => Record::Links(Box::new(links)),
            false => self.topology_record(&topology.metadata, &network, Some(links)),
        };
        let nodes = &self.0.nodes;
        let routes = |node: NodeIx| &nodes[node].spec.base.routes;
        let rerouted = rerouted([old, &network], &self.0.addresses, &difference.paths, routes);
        let mut bases: BTreeMap<NodeIx, NodeBase> =
            rerouted.into_iter().map(|node| (node, self.base(&network, node))).collect();
        if old.partly_cut() != network.partly_cut() {
            let exceptions = Exceptions::new(&network, &self.0.addresses);
            for (node, known) in nodes.iter().enumerate() {
                let routes = &known.spec.base.routes;
                let exceptions = exceptions.of(node, routes);
                if routes.exceptions() != exceptions {
                    let base = || NodeBase { routes: routes.clone().except(exceptions), ..(*known.spec.base).clone() };
                    bases.entry(node).or_insert_with(base);
                }
            }
        }
        let bases = bases.into_iter().filter(|(node, base)| *nodes[*node].spec.base != *base).collect();
        let Avoided { down, silent } = avoided;
        let (metadata, is_apart) = (topology.metadata.clone(), topology.is_apart);
        let topology = Topology { metadata, network: Arc::new(network), down, silent, is_apart };
        let generation = topology.metadata.generation;
        let effect = LinksEffect { topology, bases, replans, unrecorded, drains, retirements };
        let effect = Effect::Links(Box::new(effect));
        Ok(Prepared::change(self.0, outcome, generation, vec![Write::Put(write)], self.0.pools.cursors(), effect))
    }

    fn links_record(&self, avoided: &Avoided, unrecorded: &Unrecorded) -> LinksRecord {
        let Unrecorded { moved, behind, digests, displaced } = unrecorded.clone();
        let (down, silent) = (avoided.down.clone(), avoided.silent.clone());
        LinksRecord { revision: self.0.revision + 1, moved, behind, digests, displaced: Some(displaced), down, silent }
    }

    /// With what changes with links, or without it.
    fn topology_record(&self, metadata: &Metadata, network: &Network, links: Option<LinksRecord>) -> Record {
        let revision = self.0.revision + 1;
        let (metadata, spec) = (metadata.clone(), Arc::clone(&network.spec));
        Record::Topology(Box::new(TopologyRecord::new(metadata, revision, spec, links)))
    }

    /// A node's base over `network`, with its present thresholds.
    fn base(&self, network: &Network, node: NodeIx) -> NodeBase {
        self.0.with_thresholds(node_base(network, &self.0.addresses, self.0.hmac.keys.as_ref(), node))
    }

    /// Another network and the resulting plans of the groups.
    fn prepared(
        &self,
        metadata: Metadata,
        (network, bases): (Network, Vec<NodeBase>),
        avoided: Avoided,
        replans: Vec<Replan>,
        outcome: Outcome,
    ) -> Prepared {
        let generation = metadata.generation;
        let unrecorded = Replanner::new(self.0, &network).unrecorded(&replans);
        let links = self.links_record(&avoided, &unrecorded);
        let is_apart = least_octets(&network.spec) > self.0.apart_above;
        let was_apart = self.0.topology.as_ref().is_some_and(|topology| topology.is_apart);
        let writes = match is_apart {
            true => vec![
                Write::Put(self.topology_record(&metadata, &network, None)),
                Write::Put(Record::Links(Box::new(links))),
            ],
            false => vec![Write::Put(self.topology_record(&metadata, &network, Some(links)))],
        };
        let gone = (was_apart && !is_apart).then(|| Write::Delete { key: links_key() });
        let writes = writes.into_iter().chain(gone).collect();
        let bases = bases.into_iter().map(|base| self.0.with_thresholds(base)).collect();
        let Avoided { down, silent } = avoided;
        let topology = Some(Topology { metadata, network: Arc::new(network), down, silent, is_apart });
        let effect = Effect::Topology(Box::new(TopologyEffect { topology, bases, replans, unrecorded }));
        Prepared::change(self.0, outcome, generation, writes, self.0.pools.cursors(), effect)
    }

    /// Every member's host must still be declared, and its prefix must still contain the member's address. Costs the memberships of hosts that are
    /// gone or have another prefix.
    fn check_members(&self, network: &Network) -> Result<(), DomainError> {
        let prefix = |network: &Network, host: &str| network.host(host).map(|at| at.prefix);
        let is_other = |host: &&str| self.0.network().is_none_or(|old| prefix(old, host) != prefix(network, host));
        let groups = &self.0.groups;
        let mut others: Vec<&str> = groups.hosts().filter(is_other).collect();
        others.sort_unstable();
        for host in others {
            for (name, group) in groups.of_host(host).filter_map(|name| Some((name, groups.get(name)?))) {
                let in_use = |detail: String| Err(DomainError::InUse { kind: "host", name: host.to_owned(), detail });
                let address = group.members.get(host).and_then(|member| member.address);
                match (network.host(host), address) {
                    (None, _) => {
                        return in_use(format!(
                            "it is a member of group {name}: let it leave first, or keep it under spec.hosts"
                        ));
                    }
                    (Some(at), Some(address)) if !at.prefix.contains(&address) => {
                        return in_use(format!(
                            "it is a member of group {name} with address {address}, which is outside the new prefix {}: let it leave first",
                            at.prefix
                        ));
                    }
                    _ => {}
                }
            }
        }
        Ok(())
    }
}
