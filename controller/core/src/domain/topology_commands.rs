// SPDX-License-Identifier: Apache-2.0
//! Commands on the topology: every group is replanned before anything changes, so that an update that makes a group
//! infeasible is refused as a whole.

use std::collections::BTreeSet;
use std::sync::Arc;

use canopy_model::FieldErrors;
use canopy_model::ids::Generation;
use canopy_model::topology::{Endpoint, TopologySpec};

use super::change::{Effect, Prepared, Replan, TopologyEffect};
use super::drains::Drains;
use super::group_change::{check_generation, in_group};
use super::leaving::check_nodes;
use super::multicast::check_all;
use super::replan::{Replanner, Unrecorded};
use super::state::State;
use crate::command::{Outcome, Write};
use crate::error::DomainError;
use crate::metadata::{Labels, Metadata, check_labels};
use crate::principal::Written;
use crate::record::{Record, TOPOLOGY_NAME, TopologyRecord, topology_key};
use crate::resource::{GroupState, Topology};
use crate::routes::node_base;
use crate::topology::{Network, PortInfo};

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
        spec: TopologySpec,
        if_match: Option<Generation>,
        written: &Written,
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
        // Ports that are no longer declared are dropped from the list of those that carry nothing.
        let there: BTreeSet<&Endpoint> = spec.links.iter().flat_map(|l| [&l.a, &l.b]).collect();
        let still = |ports: &BTreeSet<Endpoint>| ports.iter().filter(|p| there.contains(p)).cloned().collect();
        let avoided = Avoided { down: still(self.0.down()), silent: still(self.0.silent()) };
        let network = Network::build_around(spec, &self.0.addresses, &avoided.down, &self.0.drains.targets())?;
        self.check_members(&network)?;
        check_nodes(self.0, |node| network.node(node).is_some())?;
        let replanner = Replanner::new(self.0, &network);
        let replans = replanner.all(|name, group, e| match group.state {
            // The group was infeasible before: no reason to refuse a topology that may repair others.
            GroupState::Infeasible(_) => Ok(e.to_string()),
            _ => Err(in_group(name, e)),
        })?;
        check_all(&network, &replans)?;
        let metadata = match &self.0.topology {
            Some(t) => t.metadata.changed(labels, written),
            None => Metadata::created(TOPOLOGY_NAME, labels, self.0.new_uid(), written),
        };
        let outcome = if self.0.topology.is_some() { Outcome::Updated } else { Outcome::Created };
        Ok(self.prepared(metadata, network, avoided, replans, outcome))
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
        let writes = vec![Write::Delete { key: topology_key() }];
        let generation = t.metadata.generation;
        let effect = Effect::Topology(Box::new(TopologyEffect {
            topology: None,
            bases: Vec::new(),
            replans: Vec::new(),
            drains: None,
            retirements: None,
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
        let network = self.rebuilt(topology, &avoided.down, &self.0.drains)?;
        // A broken link must not take down groups that do not use it.
        let replans = Replanner::new(self.0, &network).all(|_, _, e| Ok(e.to_string()))?;
        Ok(self.prepared(topology.metadata.clone(), network, avoided, replans, Outcome::Updated))
    }

    /// The same topology with other drains, of which `write` makes the changed one durable, at its `generation`.
    pub(super) fn with_drains(
        &self,
        drains: Drains,
        write: Write,
        generation: Generation,
        outcome: Outcome,
    ) -> Result<Prepared, DomainError> {
        let Some(topology) = &self.0.topology else {
            let effect = Effect::Drains(drains);
            return Ok(Prepared::change(self.0, outcome, generation, vec![write], self.0.pools.cursors(), effect));
        };
        let network = self.rebuilt(topology, &topology.down, &drains)?;
        // A drained link is used where there is no other way, so no group is refused.
        let replans = Replanner::new(self.0, &network).all(|_, _, e| Ok(e.to_string()))?;
        let avoided = Avoided { down: topology.down.clone(), silent: topology.silent.clone() };
        let mut prepared = self.prepared(topology.metadata.clone(), network, avoided, replans, outcome);
        prepared.writes.push(write);
        prepared.generation = generation;
        if let Effect::Topology(effect) = &mut prepared.effect {
            effect.drains = Some(drains);
        }
        Ok(prepared)
    }

    fn rebuilt(&self, topology: &Topology, down: &BTreeSet<Endpoint>, drains: &Drains) -> Result<Network, DomainError> {
        Ok(Network::build_around(topology.network.spec.clone(), &self.0.addresses, down, &drains.targets())?)
    }

    /// Another network and the resulting plans of the groups.
    fn prepared(
        &self,
        metadata: Metadata,
        network: Network,
        avoided: Avoided,
        replans: Vec<Replan>,
        outcome: Outcome,
    ) -> Prepared {
        let generation = metadata.generation;
        let Avoided { down, silent } = avoided;
        let Unrecorded { moved, behind, digests } = Replanner::new(self.0, &network).unrecorded(&replans);
        let record = TopologyRecord {
            metadata: metadata.clone(),
            revision: self.0.revision + 1,
            spec: network.spec.clone(),
            moved,
            behind,
            digests,
            down: down.clone(),
            silent: silent.clone(),
        };
        let writes = vec![Write::Put(Record::Topology(Box::new(record)))];
        let base =
            |node| self.0.with_thresholds(node_base(&network, &self.0.addresses, self.0.hmac.keys.as_ref(), node));
        let bases = (0..network.len()).map(base).collect();
        let topology = Some(Topology { metadata, network: Arc::new(network), down, silent });
        let effect =
            Effect::Topology(Box::new(TopologyEffect { topology, bases, replans, drains: None, retirements: None }));
        Prepared::change(self.0, outcome, generation, writes, self.0.pools.cursors(), effect)
    }

    /// Every member's host must still be declared, and its prefix must still contain the member's address.
    fn check_members(&self, network: &Network) -> Result<(), DomainError> {
        for (name, group) in self.0.groups.with_members() {
            for (host, member) in &group.members {
                let in_use = |detail: String| Err(DomainError::InUse { kind: "host", name: host.clone(), detail });
                match (network.host(host), member.spec.address) {
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
