// SPDX-License-Identifier: Apache-2.0
//! Commands on drains: links and nodes that operators take out of service. Trees leave them by make-before-break (decisions 3.14).

use std::collections::BTreeSet;

use canopy_model::FieldErrors;
use canopy_model::drain::{DrainSpec, DrainTarget};
use canopy_model::ids::{Generation, GroupId};
use canopy_model::node_spec::{BranchKind, Peer};

use super::change::Prepared;
use super::group_change::check_generation;
use super::leaving::check_drains;
use super::links::{label, link_named};
use super::state::State;
use super::topology_commands::TopologyCommands;
use crate::command::{Outcome, Write};
use crate::error::DomainError;
use crate::limits::MAX_DRAINS;
use crate::metadata::{Labels, Metadata, check_labels};
use crate::principal::Written;
use crate::programs::Program;
use crate::record::{DrainRecord, Record, TOPOLOGY_NAME, drain_key};
use crate::resource::Drain;
use crate::topology::NodeIx;
use crate::view::{DrainStatus, DrainView};

/// Hosts that a refusal names, at most.
const MAX_NAMED: usize = 5;

/// Checks commands on drains against a state.
pub(super) struct DrainCommands<'a>(pub(super) &'a State);

impl DrainCommands<'_> {
    /// [`crate::Command::PutDrain`].
    pub(super) fn put(
        &self,
        name: String,
        labels: Labels,
        spec: DrainSpec,
        if_match: Option<Generation>,
        create_only: bool,
        written: &Written,
    ) -> Result<Prepared, DomainError> {
        let old = self.0.drains.get(&name);
        match (old, if_match) {
            (Some(old), _) if create_only => {
                let detail = format!(
                    "it drains {} ({:?}): choose another name, or delete it",
                    target(&old.spec),
                    old.spec.reason
                );
                return Err(DomainError::AlreadyExists { kind: "drain", name, detail });
            }
            (Some(old), _) => check_generation("drain", &name, if_match, old.metadata.generation)?,
            (None, Some(_)) => return Err(DomainError::NotFound { kind: "drain", name }),
            (None, None) => {}
        }
        let mut errors = FieldErrors::default();
        check_labels(&labels, &mut errors);
        errors.into_result()?;
        spec.validate(&name)?;
        let spec = self.resolved(spec)?;
        if let Some(old) = old.filter(|old| old.metadata.labels == labels && old.spec == spec) {
            return Ok(Prepared::noop(self.0, old.metadata.generation));
        }
        if old.is_none() && self.0.drains.len() >= MAX_DRAINS {
            return Err(DomainError::Limit(format!("there are {MAX_DRAINS} drains already: delete some")));
        }
        if let (Some(DrainTarget::Node(node)), false) = (spec.target(), spec.accept_loss) {
            self.check_hosts(node)?;
        }
        let (metadata, outcome) = match old {
            Some(old) => (old.metadata.changed(labels, written), Outcome::Updated),
            None => (Metadata::created(&name, labels, self.0.new_uid(), written), Outcome::Created),
        };
        let drain = Drain { metadata, spec };
        let record = DrainRecord::new(self.0.revision + 1, drain.clone());
        let generation = drain.metadata.generation;
        let mut drains = self.0.drains.clone();
        drains.insert(drain);
        check_drains(self.0, &drains)?;
        TopologyCommands(self.0).with_drains(
            drains,
            None,
            Write::Put(Record::Drain(Box::new(record))),
            generation,
            outcome,
        )
    }

    /// [`crate::Command::DeleteDrain`].
    pub(super) fn delete(&self, name: String) -> Result<Prepared, DomainError> {
        let mut drains = self.0.drains.clone();
        let Some(old) = drains.remove(&name) else { return Err(DomainError::NotFound { kind: "drain", name }) };
        check_drains(self.0, &drains)?;
        let write = Write::Delete { key: drain_key(&name) };
        TopologyCommands(self.0).with_drains(drains, None, write, old.metadata.generation, Outcome::Deleted)
    }

    /// With the link as the topology lists it.
    fn resolved(&self, spec: DrainSpec) -> Result<DrainSpec, DomainError> {
        let absent = || DomainError::NotFound { kind: "topology", name: TOPOLOGY_NAME.to_owned() };
        let network = self.0.network().ok_or_else(absent)?;
        match spec.target() {
            Some(DrainTarget::Node(node)) if network.node(node).is_none() => {
                Err(DomainError::field("spec.node", format!("the topology has no node {node:?}")))
            }
            Some(DrainTarget::Link(wanted)) => {
                let Some(index) = link_named(network, wanted) else {
                    let detail = format!("the topology has no link {wanted:?}: `canopyctl get links` lists them");
                    return Err(DomainError::field("spec.link", detail));
                };
                let link = &network.spec.links[index];
                if network.node(&link.a.device).is_none() || network.node(&link.b.device).is_none() {
                    let detail = format!(
                        "{wanted:?} leads to a host: links between nodes are drained. Let the host leave its groups instead"
                    );
                    return Err(DomainError::field("spec.link", detail));
                }
                Ok(DrainSpec { link: Some(label(network, index)), ..spec })
            }
            _ => Ok(spec),
        }
    }

    /// Refuses to drain a node behind which there are members of groups.
    fn check_hosts(&self, node: &str) -> Result<(), DomainError> {
        let Some(at) = self.0.index(node) else { return Ok(()) };
        let hosts = hosts_with_members(self.0, at);
        if hosts.is_empty() {
            return Ok(());
        }
        let named: Vec<&str> = hosts.iter().take(MAX_NAMED).copied().collect();
        let more = match hosts.len() - named.len() {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let detail = format!(
            "{}{more} are members of groups and have no other node: let them leave first, or set spec.acceptLoss (canopyctl drain node --accept-loss)",
            named.join(", ")
        );
        Err(DomainError::InUse { kind: "node", name: node.to_owned(), detail })
    }
}

/// A drain with its state.
pub(super) fn view(state: &State, drain: &Drain) -> DrainView {
    let network = state.network();
    let target = drain.spec.target();
    let links = network.zip(target).map(|(network, target)| network.links_of(target)).unwrap_or_default();
    let mut groups: BTreeSet<GroupId> = links.iter().flat_map(|link| state.groups.trees().using(*link)).collect();
    let mut hosts = Vec::new();
    if let Some(DrainTarget::Node(node)) = target
        && let Some(at) = state.index(node)
    {
        hosts = hosts_with_members(state, at).into_iter().map(str::to_owned).collect();
        // What hosts behind the node need stays.
        groups.retain(|id| state.program_of(*id, at).is_some_and(|program| !serves_hosts(&program)));
    }
    let links = links.into_iter().filter_map(|link| network.map(|network| label(network, link))).collect();
    let status = DrainStatus { links, groups: groups.len() as u32, hosts };
    DrainView { metadata: drain.metadata.clone(), spec: drain.spec.clone(), status }
}

fn target(spec: &DrainSpec) -> String {
    match spec.target() {
        Some(DrainTarget::Link(link)) => format!("link {link}"),
        Some(DrainTarget::Node(node)) => format!("node {node}"),
        None => "nothing".to_owned(),
    }
}

fn serves_hosts(program: &Program<'_>) -> bool {
    program.is_headend() || program.has_receivers()
}

/// Hosts behind the node that are members of groups, by name.
fn hosts_with_members(state: &State, at: NodeIx) -> BTreeSet<&str> {
    let node = &state.nodes[at];
    let host = |index| {
        let port = node.spec.base.ports.iter().find(|p| p.index == index)?;
        match &port.peer {
            Peer::Host { name, .. } => Some(name.as_str()),
            Peer::Node { .. } => None,
        }
    };
    let ports = state.programs_at(at).flat_map(|(_, program)| {
        let receivers = program.branches().filter(|b| matches!(b.kind, BranchKind::Receiver { .. })).map(|b| b.port);
        receivers.chain(program.source_port()).collect::<BTreeSet<_>>()
    });
    ports.filter_map(host).collect()
}
