// SPDX-License-Identifier: Apache-2.0
//! Replacing the topology: every group is replanned before anything changes, so that an update that makes a group
//! infeasible is refused as a whole.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use canopy_model::FieldErrors;
use canopy_model::ids::Generation;
use canopy_model::node_spec::GroupProgram;
use canopy_model::topology::{Endpoint, TopologySpec};

use super::Domain;
use super::apply::{Effect, Replan, TopologyEffect};
use super::prepare::{check_generation, in_group, intent, settle};
use crate::command::{Outcome, Prepared, Write};
use crate::error::DomainError;
use crate::metadata::{Labels, Metadata, check_labels};
use crate::plan::{Intent, Planned, plan_group};
use crate::resource::{Group, GroupState, TOPOLOGY_NAME, Topology, TopologyRecord, put, topology_key};
use crate::routes::node_base;
use crate::topology::Network;

impl Domain {
    pub(super) fn prepare_put_topology(
        &self,
        labels: Labels,
        spec: TopologySpec,
        if_match: Option<Generation>,
    ) -> Result<Prepared, DomainError> {
        match (&self.topology, if_match) {
            (Some(t), _) => check_generation("topology", TOPOLOGY_NAME, if_match, t.metadata.generation)?,
            (None, Some(_)) => return Err(DomainError::NotFound { kind: "topology", name: TOPOLOGY_NAME.to_owned() }),
            (None, None) => {}
        }
        let mut errors = FieldErrors::default();
        check_labels(&labels, &mut errors);
        errors.into_result()?;
        if let Some(t) = self.topology.as_ref().filter(|t| t.metadata.labels == labels && t.network.spec == spec) {
            return Ok(self.noop(t.metadata.generation));
        }
        // Ports that are no longer declared are dropped from the list of ports without carrier.
        let there: BTreeSet<&Endpoint> = spec.links.iter().flat_map(|l| [&l.a, &l.b]).collect();
        let down: BTreeSet<Endpoint> = self.down().iter().filter(|p| there.contains(p)).cloned().collect();
        let network = Network::build_around(spec, &self.addresses, &down)?;
        self.check_members(&network)?;
        let replans = self.replan_all(&network, |name, group, e| match group.state {
            // The group was infeasible before: no reason to refuse a topology that may repair others.
            GroupState::Infeasible(_) => Ok(e.to_string()),
            _ => Err(in_group(name, e)),
        })?;
        super::multicast::check_all(&network, &replans)?;
        let metadata = self
            .topology
            .as_ref()
            .map_or_else(|| Metadata::created(TOPOLOGY_NAME, labels.clone()), |t| t.metadata.changed(labels.clone()));
        let outcome = if self.topology.is_some() { Outcome::Updated } else { Outcome::Created };
        Ok(self.prepared_topology(metadata, network, down, replans, outcome))
    }

    /// Another network and the resulting plans of the groups.
    pub(super) fn prepared_topology(
        &self,
        metadata: Metadata,
        network: Network,
        down: BTreeSet<Endpoint>,
        replans: Vec<Replan>,
        outcome: Outcome,
    ) -> Prepared {
        let generation = metadata.generation;
        let record = TopologyRecord {
            metadata: metadata.clone(),
            revision: self.revision + 1,
            spec: network.spec.clone(),
            moved: self.moved(&replans),
            down: down.clone(),
        };
        let writes = vec![put(topology_key(), &record), self.state_write(self.pools.cursors())];
        let base = |node| self.with_thresholds(node_base(&network, &self.addresses, node));
        let bases = (0..network.len()).map(base).collect();
        let topology = Some(Topology { metadata, network: Arc::new(network), down });
        let effect = Effect::Topology(Box::new(TopologyEffect { topology, bases, replans }));
        Prepared { writes, base_revision: self.revision, outcome, generation, effect }
    }

    /// Ports without a carrier.
    pub(super) fn down(&self) -> &BTreeSet<Endpoint> {
        static NONE: BTreeSet<Endpoint> = BTreeSet::new();
        self.topology.as_ref().map_or(&NONE, |t| &t.down)
    }

    pub(super) fn prepare_delete_topology(&self) -> Result<Prepared, DomainError> {
        let Some(t) = &self.topology else {
            return Err(DomainError::NotFound { kind: "topology", name: TOPOLOGY_NAME.to_owned() });
        };
        if let Some((name, group)) = self.groups.iter().find(|(_, g)| !g.members.is_empty()) {
            let detail = format!("group {name} has {} members: remove them first", group.members.len());
            return Err(DomainError::InUse { kind: "topology", name: TOPOLOGY_NAME.to_owned(), detail });
        }
        let writes = vec![Write::Delete { key: topology_key() }, self.state_write(self.pools.cursors())];
        let generation = t.metadata.generation;
        let effect =
            Effect::Topology(Box::new(TopologyEffect { topology: None, bases: Vec::new(), replans: Vec::new() }));
        Ok(Prepared { writes, base_revision: self.revision, outcome: Outcome::Deleted, generation, effect })
    }

    /// Every member's host must still be declared, and its prefix must still contain the member's address.
    fn check_members(&self, network: &Network) -> Result<(), DomainError> {
        for (name, group) in &self.groups {
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

    /// Plans every group that has members over `network`. A group whose programs do not change keeps its epoch.
    /// `on_error` turns a group's planning error into the reason of its infeasibility, or refuses.
    pub(super) fn replan_all(
        &self,
        network: &Network,
        on_error: impl Fn(&str, &Group, DomainError) -> Result<String, DomainError>,
    ) -> Result<Vec<Replan>, DomainError> {
        let mut replans = Vec::new();
        for (name, group) in self.groups.iter().filter(|(_, g)| !g.members.is_empty()) {
            let plan = |intent| match plan_group(&self.addresses, Some(network), intent) {
                Ok(planned) => Ok(Ok(planned)),
                Err(e) => Ok::<_, DomainError>(Err(on_error(name, group, e)?)),
            };
            let mut planned = plan(Intent { before: None, ..intent(group) })?;
            let moved = match &planned {
                Ok(Planned::Live(_, programs)) => {
                    group.plan().is_some() && !self.are_installed(network, group, &planned, programs)
                }
                _ => group.plan().is_some(),
            };
            if let Some(made) = planned.as_ref().ok().filter(|_| moved).and_then(|p| self.make(network, group, p)) {
                replans.push(Replan { name: name.clone(), epoch: group.epoch, ..made });
                continue;
            }
            let epoch = group.epoch + u32::from(moved || group.making.is_some());
            if epoch != group.epoch {
                // Every child sends its state again: the receivers behind it may have changed.
                planned = plan(Intent { before: None, epoch, moved: epoch, ..intent(group) })?;
            }
            let (state, programs) = settle(planned);
            replans.push(Replan { name: name.clone(), epoch, state, making: None, programs });
        }
        Ok(replans)
    }

    /// True when exactly these programs are in the nodes' present specs.
    fn are_installed(
        &self,
        network: &Network,
        group: &Group,
        planned: &Result<Planned, String>,
        programs: &[GroupProgram],
    ) -> bool {
        let (Ok(Planned::Live(plan, _)), Some(present)) = (planned, group.plan()) else { return false };
        let installed = |(at, p): (&crate::tree::TreeNode, &GroupProgram)| {
            self.node_entry(network.name(at.node)).and_then(|n| n.spec.groups.get(&p.group_id)) == Some(p)
        };
        present.tree.nodes.len() == plan.tree.nodes.len() && plan.tree.nodes.iter().zip(programs).all(installed)
    }

    /// Epochs, by group id, that are newer than those in the groups' own records.
    fn moved(&self, replans: &[Replan]) -> BTreeMap<u32, u32> {
        let mut epochs: BTreeMap<&str, u32> = self.groups.iter().map(|(name, g)| (name.as_str(), g.epoch)).collect();
        // A node that restarts while a move is in progress uses the new tree at once.
        epochs.extend(replans.iter().map(|r| (r.name.as_str(), r.epoch + u32::from(r.making.is_some()))));
        let ahead = self.groups.iter().filter_map(|(name, g)| {
            let epoch = epochs[name.as_str()];
            (epoch > g.recorded_epoch).then_some((g.allocation.group_id.get(), epoch))
        });
        ahead.collect()
    }
}
