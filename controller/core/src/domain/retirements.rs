// SPDX-License-Identifier: Apache-2.0
//! Commands on nodes that leave for good, and what each step waits for.

use std::collections::BTreeMap;

use canopy_model::drain::{DrainSpec, DrainTarget};
use canopy_model::ids::Generation;
use canopy_model::member::Role;
use canopy_model::node_spec::Peer;
use canopy_model::retirement::{CleanedUp, MINOR_VERSION, RetireSpec};

use super::change::{Effect, Prepared};
use super::drains::Drains;
use super::member_commands::MemberCommands;
use super::state::State;
use super::topology_commands::TopologyCommands;
use crate::command::{Outcome, Write};
use crate::error::DomainError;
use crate::limits::MAX_DRAINS;
use crate::metadata::{Labels, Metadata};
use crate::principal::Written;
use crate::record::{DrainRecord, Record, RetirementRecord, TOPOLOGY_NAME, drain_key, retirement_key};
use crate::resource::{Drain, Node};
use crate::retirement::{Reached, RetireStep as Step, Retirement};
use crate::view::RetirementView;

/// Retirements by node.
pub(super) type Retirements = BTreeMap<String, Retirement>;

/// Names that a text lists, at most.
const MAX_NAMED: usize = 5;

/// Checks commands on retirements against a state.
pub(super) struct RetireCommands<'a>(pub(super) &'a State);

/// What [`crate::Command::AdvanceRetirements`] does next.
enum Due<'a> {
    /// The node has left the topology.
    Forget(&'a Retirement),
    /// A host behind the node leaves a group.
    Remove(Membership),
    /// The next step begins.
    Take(&'a Retirement, Step),
}

/// A membership of a host behind the node.
struct Membership {
    group: String,
    host: String,
    role: Role,
}

impl RetireCommands<'_> {
    /// [`crate::Command::Retire`].
    pub(super) fn begin(&self, node: String, spec: RetireSpec, written: &Written) -> Result<Prepared, DomainError> {
        spec.validate()?;
        let network = self.0.network();
        let network =
            network.ok_or_else(|| DomainError::NotFound { kind: "topology", name: TOPOLOGY_NAME.to_owned() })?;
        if network.node(&node).is_none() {
            return Err(DomainError::NotFound { kind: "node", name: node });
        }
        let hosts = hosts(self.0, &node);
        if let Some(hosts) = hosts.filter(|_| !spec.accept_loss) {
            let detail = format!(
                "{hosts} and have no other node: let them leave first, or set acceptLoss, which removes them from their groups (canopyctl node retire --accept-loss)"
            );
            return Err(DomainError::InUse { kind: "node", name: node, detail });
        }
        if let Some(old) = self.0.retirements.get(&node) {
            if old.spec == spec || old.has_ended() {
                return Ok(Prepared::noop(self.0, old.id));
            }
            return Ok(self.stored(Retirement { spec, ..old.clone() }, Outcome::Updated));
        }
        let id = self.0.revision + 1;
        let (drain, made) = match self.drains(&node) {
            true => (None, None),
            false => {
                let made = self.drain(&node, &spec, written)?;
                (Some(made.metadata.name.clone()), Some(made))
            }
        };
        let retirement = Retirement {
            reached: Reached { step: Step::Draining, at: written.at },
            begun: written.of_resource(),
            node,
            id,
            spec,
            drain,
            removed: Vec::new(),
            failed: None,
            known: Default::default(),
        };
        let Some(made) = made else { return Ok(self.stored(retirement, Outcome::Created)) };
        let write = Write::Put(Record::Drain(Box::new(DrainRecord::new(id, made.clone()))));
        let mut drains = self.0.drains.clone();
        drains.insert(made);
        let mut retirements = self.0.retirements.clone();
        let put = put(id, &retirement);
        retirements.insert(retirement.node.clone(), retirement);
        self.with_drains(drains, vec![write, put], retirements, Outcome::Created)
    }

    /// [`crate::Command::CancelRetirement`].
    pub(super) fn cancel(&self, node: String) -> Result<Prepared, DomainError> {
        let Some(old) = self.0.retirements.get(&node) else {
            return Err(DomainError::NotFound { kind: "retirement", name: node });
        };
        if old.is_beyond_return() && !old.has_ended() {
            let detail = "its agent may have begun to clean up: there is no way back. Let the retirement end, then enroll the node again (canopyctl node enroll)".to_owned();
            return Err(DomainError::InUse { kind: "retirement", name: node, detail });
        }
        let mut retirements = self.0.retirements.clone();
        retirements.remove(&node);
        let delete = Write::Delete { key: retirement_key(&node) };
        let made = old.drain.as_ref().filter(|_| !old.has_ended());
        let mut drains = self.0.drains.clone();
        match made.and_then(|drain| drains.remove(drain)) {
            Some(drain) => {
                let writes = vec![Write::Delete { key: drain_key(&drain.metadata.name) }, delete];
                self.with_drains(drains, writes, retirements, Outcome::Deleted)
            }
            None => Ok(self.change(vec![delete], retirements, Outcome::Deleted)),
        }
    }

    /// [`crate::Command::AdvanceRetirements`].
    pub(super) fn advance(&self, written: &Written) -> Result<Prepared, DomainError> {
        match self.due() {
            None => Ok(Prepared::noop(self.0, self.0.revision)),
            Some(Due::Forget(retirement)) => {
                let mut retirements = self.0.retirements.clone();
                retirements.remove(&retirement.node);
                let delete = Write::Delete { key: retirement_key(&retirement.node) };
                Ok(self.change(vec![delete], retirements, Outcome::Updated))
            }
            Some(Due::Remove(Membership { group, host, role })) => {
                let reason = (role == Role::Receiver).then(|| "its node is retired".to_owned());
                let mut prepared = MemberCommands(self.0).delete(&group, &host, reason)?;
                prepared.outcome = Outcome::Updated;
                Ok(prepared)
            }
            Some(Due::Take(retirement, step)) => {
                let next = Retirement { reached: Reached { step, at: written.at }, ..retirement.clone() };
                Ok(self.stored(next, Outcome::Updated))
            }
        }
    }

    /// [`crate::Command::NodeCleanedUp`].
    pub(super) fn cleaned_up(&self, node: &str, report: CleanedUp, written: &Written) -> Prepared {
        let old = self.0.retirements.get(node);
        let is_it = |old: &&Retirement| {
            old.id == report.retirement && old.reached.step == Step::CleaningUp && report.failed.is_none()
        };
        let Some(old) = old.filter(is_it) else { return Prepared::noop(self.0, self.0.revision) };
        let reached = Reached { step: Step::Revoking, at: written.at };
        self.stored(Retirement { reached, removed: report.removed, failed: None, ..old.clone() }, Outcome::Updated)
    }

    /// [`crate::Command::NodeRevoked`].
    pub(super) fn revoked(&self, node: &str, retirement: u64, written: &Written) -> Prepared {
        let old = self.0.retirements.get(node);
        let is_it = |old: &&Retirement| old.id == retirement && old.reached.step == Step::Revoking;
        let Some(old) = old.filter(is_it) else { return Prepared::noop(self.0, self.0.revision) };
        let reached = Reached { step: Step::Retired, at: written.at };
        self.stored(Retirement { reached, ..old.clone() }, Outcome::Updated)
    }

    /// See [`super::Domain::retirement_is_due`].
    pub(super) fn is_due(&self) -> bool {
        self.due().is_some()
    }

    fn due(&self) -> Option<Due<'_>> {
        // Few at a time.
        self.0.retirements.values().find_map(|retirement| {
            let node = &retirement.node;
            if self.0.network().is_none_or(|network| network.node(node).is_none()) {
                return Some(Due::Forget(retirement));
            }
            let is_draining = retirement.reached.step == Step::Draining;
            if is_draining
                && retirement.spec.accept_loss
                && let Some(membership) = memberships(self.0, node).next()
            {
                return Some(Due::Remove(membership));
            }
            next(self.0, retirement).ok().map(|step| Due::Take(retirement, step))
        })
    }

    /// Whether the node is drained for as long as no operator changes that.
    fn drains(&self, node: &str) -> bool {
        covers(&self.0.drains, node)
    }

    fn drain(&self, node: &str, spec: &RetireSpec, written: &Written) -> Result<Drain, DomainError> {
        if let Some(other) = self.0.drains.get(node) {
            let detail = format!("it drains something else, or ends by itself ({:?}): delete it", other.spec.reason);
            return Err(DomainError::AlreadyExists { kind: "drain", name: node.to_owned(), detail });
        }
        if self.0.drains.len() >= MAX_DRAINS {
            return Err(DomainError::Limit(format!("there are {MAX_DRAINS} drains already: delete some")));
        }
        let metadata = Metadata::created(node, Labels::new(), self.0.new_uid(), written);
        let (node, reason) = (Some(node.to_owned()), spec.reason.clone());
        let spec = DrainSpec { node, reason, accept_loss: spec.accept_loss, ..DrainSpec::default() };
        Ok(Drain { metadata, spec })
    }

    fn with_drains(
        &self,
        drains: Drains,
        writes: Vec<Write>,
        retirements: Retirements,
        outcome: Outcome,
    ) -> Result<Prepared, DomainError> {
        let mut writes = writes.into_iter();
        let first = writes.next().ok_or_else(|| DomainError::Limit("nothing is written".to_owned()))?;
        let generation = self.0.revision + 1;
        let mut prepared = TopologyCommands(self.0).with_drains(drains, first, generation, outcome)?;
        prepared.writes.extend(writes);
        if let Effect::Topology(effect) = &mut prepared.effect {
            effect.retirements = Some(retirements);
        }
        Ok(prepared)
    }

    /// Stores one retirement.
    fn stored(&self, retirement: Retirement, outcome: Outcome) -> Prepared {
        let mut retirements = self.0.retirements.clone();
        let write = put(self.0.revision + 1, &retirement);
        retirements.insert(retirement.node.clone(), retirement);
        self.change(vec![write], retirements, outcome)
    }

    fn change(&self, writes: Vec<Write>, retirements: Retirements, outcome: Outcome) -> Prepared {
        let generation: Generation = self.0.revision + 1;
        let effect = Effect::Retirements(retirements);
        Prepared::change(self.0, outcome, generation, writes, self.0.pools.cursors(), effect)
    }
}

fn put(revision: u64, retirement: &Retirement) -> Write {
    Write::Put(Record::Retirement(Box::new(RetirementRecord { revision, retirement: retirement.clone() })))
}

/// Whether a drain without an end takes this node out of service.
fn covers(drains: &Drains, node: &str) -> bool {
    drains.all().any(|drain| drain.spec.until.is_none() && drain.spec.target() == Some(DrainTarget::Node(node)))
}

/// Refuses drains that put a node back into service that is being retired, or was.
pub(super) fn check_drains(state: &State, drains: &Drains) -> Result<(), DomainError> {
    let lost = |retirement: &&Retirement| {
        let node = &retirement.node;
        covers(&state.drains, node) && !covers(drains, node)
    };
    let Some(Retirement { node, .. }) = state.retirements.values().find(lost) else { return Ok(()) };
    let detail = format!("it is being retired, or was: `canopyctl node retire {node} --cancel` ends that");
    Err(DomainError::InUse { kind: "node", name: node.clone(), detail })
}

/// Refuses a topology without a node that cleans up, or whose certificates are being revoked: neither would end.
pub(super) fn check_nodes(state: &State, stays: impl Fn(&str) -> bool) -> Result<(), DomainError> {
    let lost = |of: &&Retirement| of.is_beyond_return() && !of.has_ended() && !stays(&of.node);
    let Some(Retirement { node, reached, .. }) = state.retirements.values().find(lost) else { return Ok(()) };
    let step = reached.step;
    let detail = format!("it is being retired, in step {step}: keep it in the topology until it has left");
    Err(DomainError::InUse { kind: "node", name: node.clone(), detail })
}

/// Refuses a member behind a node that cleans up, or has.
pub(super) fn check_member(state: &State, host: &str) -> Result<(), DomainError> {
    let Some(network) = state.network() else { return Ok(()) };
    let Some(node) = network.host(host).map(|at| network.name(at.node)) else { return Ok(()) };
    match state.retirements.get(node).filter(|retirement| retirement.is_beyond_return()) {
        None => Ok(()),
        Some(_) => {
            let detail = format!("it is retired, and host {host} has no other node: enroll the node again first");
            Err(DomainError::InUse { kind: "node", name: node.to_owned(), detail })
        }
    }
}

/// The next step, or what it waits for, for operators.
pub(super) fn next(state: &State, retirement: &Retirement) -> Result<Step, String> {
    let node = &retirement.node;
    match retirement.reached.step {
        Step::Draining => {
            let Some(at) = state.node(node) else { return Err("the node is not in the topology".to_owned()) };
            is_left(state, at, retirement)?;
            if retirement.spec.without_agent {
                return Ok(Step::Revoking);
            }
            is_able(at)?;
            Ok(Step::CleaningUp)
        }
        Step::CleaningUp if retirement.spec.without_agent => Ok(Step::Revoking),
        Step::CleaningUp => {
            let able = state.node(node).map_or(Ok(()), is_able);
            Err(match (&retirement.failed, able) {
                (Some(why), _) => format!("its agent could not remove everything, and tries again: {why}"),
                (None, Ok(())) => "its agent to clean up".to_owned(),
                (None, Err(why)) => why,
            })
        }
        Step::Revoking => Err("its certificates to be revoked".to_owned()),
        Step::Retired => Err(String::new()),
    }
}

/// Whether nothing leads over the node any more. A few instructions per node of the topology, only while one is drained to leave.
fn is_left(state: &State, at: &Node, retirement: &Retirement) -> Result<(), String> {
    let name = &retirement.node;
    if let Some(hosts) = hosts(state, name) {
        return Err(format!("{hosts}: let them leave, or retire it with --accept-loss"));
    }
    let groups: Vec<&str> = at.spec.groups.keys().filter_map(|id| state.groups.name(*id)).collect();
    if !groups.is_empty() {
        let named = named(&groups);
        return Err(format!("{named} to leave it: a move is not finished, or there is no other way"));
    }
    // From its last change on nothing leads there; a node that has an older spec has not changed since.
    let since = at.spec.generation.max(retirement.id);
    let late = |node: &&Node| {
        let is_other = node.spec.base.name != *name && !node.retired;
        let is_waited_for = node.connected || !retirement.spec.accept_loss;
        is_other && is_waited_for && node.observed().is_none_or(|observed| observed < node.spec.generation.min(since))
    };
    let late: Vec<&str> = state.nodes.iter().filter(late).map(|node| node.spec.base.name.as_str()).collect();
    if !late.is_empty() {
        return Err(format!("{} to confirm the routes around it", named(&late)));
    }
    Ok(())
}

/// Whether the agent can take the order to clean up.
fn is_able(at: &Node) -> Result<(), String> {
    const BY_HAND: &str = "or stop it, run `canopy-agent cleanup` on its machine, and continue with --without-agent";
    if !at.connected {
        return Err(format!("its agent, which is not connected: start it, {BY_HAND}"));
    }
    match at.status.as_ref().map(|status| status.minor_version) {
        None => Err("its agent to report".to_owned()),
        Some(minor) if minor < MINOR_VERSION => Err(format!(
            "its agent, which has contract 1.{minor} and cleans up from 1.{MINOR_VERSION} on: upgrade it, {BY_HAND}"
        )),
        Some(_) => Ok(()),
    }
}

/// Memberships of hosts behind the node, by host.
fn memberships<'a>(state: &'a State, node: &str) -> impl Iterator<Item = Membership> + use<'a> {
    let ports = state.node(node).map(|at| at.spec.base.ports.as_slice()).unwrap_or_default();
    let hosts = ports.iter().filter_map(|port| match &port.peer {
        Peer::Host { name, .. } => Some(name.as_str()),
        Peer::Node { .. } => None,
    });
    hosts.flat_map(move |host| {
        let of_host = state.groups.of_host(host);
        of_host.filter_map(move |group| {
            let role = state.groups.get(group)?.members.get(host)?.spec.role;
            Some(Membership { group: group.to_owned(), host: host.to_owned(), role })
        })
    })
}

/// Hosts behind the node that are members of groups, for operators; `None` if there are none.
fn hosts(state: &State, node: &str) -> Option<String> {
    let mut hosts: Vec<String> = memberships(state, node).map(|membership| membership.host).collect();
    hosts.sort_unstable();
    hosts.dedup();
    let hosts: Vec<&str> = hosts.iter().map(String::as_str).collect();
    (!hosts.is_empty()).then(|| format!("{} are members of groups", named(&hosts)))
}

/// The first few names, and how many more there are.
fn named(names: &[&str]) -> String {
    let first = names[..names.len().min(MAX_NAMED)].join(", ");
    match names.len().saturating_sub(MAX_NAMED) {
        0 => first,
        more => format!("{first} and {more} more"),
    }
}

/// A retirement with what it waits for.
pub(super) fn view(state: &State, retirement: &Retirement) -> RetirementView {
    let waits_for = next(state, retirement).err().unwrap_or_default();
    RetirementView { retirement: retirement.clone(), waits_for }
}
