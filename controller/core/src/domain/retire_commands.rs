// SPDX-License-Identifier: Apache-2.0
//! Commands on nodes that leave for good.

use canopy_model::drain::{DrainSpec, DrainTarget};
use canopy_model::member::Role;
use canopy_model::retirement::{CleanedUp, RetireSpec};

use super::change::Prepared;
use super::drains::Drains;
use super::leaving::{Membership, check_report, covers, due, hosts, memberships};
use super::member_commands::MemberCommands;
use super::state::State;
use super::tenants::QuotaBounds;
use super::topology_commands::TopologyCommands;
use crate::command::{Outcome, Write};
use crate::error::DomainError;
use crate::limits::MAX_DRAINS;
use crate::metadata::{Labels, Metadata};
use crate::principal::Written;
use crate::record::{DrainRecord, Record, RetirementRecord, TOPOLOGY_NAME, drain_key, retirement_key};
use crate::resource::{Drain, Node};
use crate::retirement::{Reached, RetireStep as Step, Retirement, Retirements};

/// Checks commands on retirements against a state.
pub(super) struct RetireCommands<'a>(pub(super) &'a State);

/// What [`crate::Command::AdvanceRetirements`] does next.
enum Due<'a> {
    /// The node has left the topology, or is back.
    Forget(&'a Retirement),
    /// A host behind the node leaves a group.
    Remove(Membership),
    /// The next step begins.
    Take(&'a Retirement, Step),
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
        // One that has an agent again is not the one that left.
        let is_back = self.0.node(&node).is_some_and(|at| at.connected);
        let present = self.0.retirements.get(&node);
        let without_programs = present.is_some_and(|old| old.enrolled) && !is_back;
        if let Some(old) = present.filter(|old| !(old.has_ended() && (is_back || old.enrolled))) {
            if old.spec == spec || old.has_ended() {
                return Ok(Prepared::noop(self.0, old.id));
            }
            return self.stored(Retirement { spec, ..old.clone() }, Outcome::Updated);
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
            begun: written.stamp(),
            node,
            id,
            spec,
            drain,
            removed: Vec::new(),
            enrolled: false,
            without_programs,
            agent_leaves: false,
            failed: None,
            known: Default::default(),
            waits_for: 0,
        };
        let Some(made) = made else { return self.stored(retirement, Outcome::Created) };
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
        let Some(old) = self.0.retirements.get(&node).filter(|old| !old.enrolled) else {
            return Err(DomainError::NotFound { kind: "retirement", name: node });
        };
        if old.is_beyond_return() && !old.has_ended() {
            let detail = "its agent may have begun to clean up: there is no way back. Let the retirement end, then enroll the node again (canopyctl node enroll)".to_owned();
            return Err(DomainError::InUse { kind: "retirement", name: node, detail });
        }
        if (old.has_ended() || old.without_programs) && self.0.node(&node).is_some_and(|at| !at.connected) {
            // It forwards nothing before its agent is there.
            let reached = Reached { step: Step::Retired, ..old.reached };
            let taken_back = Retirement { enrolled: true, without_programs: false, reached, ..old.clone() };
            return self.stored(taken_back, Outcome::Deleted);
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
            None => self.change(vec![delete], retirements, Outcome::Deleted),
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
                let is_back = self.0.node(&retirement.node).is_some();
                let Some(drain) = self.made(retirement).filter(|_| !is_back) else {
                    return self.change(vec![delete], retirements, Outcome::Updated);
                };
                let writes = vec![Write::Delete { key: drain_key(drain) }, delete];
                let mut drains = self.0.drains.clone();
                drains.remove(drain);
                self.with_drains(drains, writes, retirements, Outcome::Updated)
            }
            Some(Due::Remove(Membership { group, host, role })) => {
                let reason = (role == Role::Receiver).then(|| "its node is retired".to_owned());
                let mut prepared = MemberCommands(self.0, QuotaBounds::WhatIsAdded).delete(&group, &host, reason)?;
                prepared.outcome = Outcome::Updated;
                Ok(prepared)
            }
            Some(Due::Take(retirement, step)) => {
                let next = Retirement { reached: Reached { step, at: written.at }, ..retirement.clone() };
                self.stored(next, Outcome::Updated)
            }
        }
    }

    /// [`crate::Command::NodeCleanedUp`].
    pub(super) fn cleaned_up(&self, node: &str, report: CleanedUp, written: &Written) -> Result<Prepared, DomainError> {
        check_report(self.0, node, report.retirement)?;
        let old = self.0.retirements.get(node);
        let is_it = |old: &&Retirement| {
            old.id == report.retirement && old.reached.step == Step::CleaningUp && report.failed.is_none()
        };
        let Some(old) = old.filter(is_it) else { return Ok(Prepared::noop(self.0, self.0.revision)) };
        let reached = Reached { step: Step::Revoking, at: written.at };
        self.stored(Retirement { reached, removed: report.removed, failed: None, ..old.clone() }, Outcome::Updated)
    }

    /// [`crate::Command::NodeRevoked`].
    pub(super) fn revoked(&self, node: &str, retirement: u64, written: &Written) -> Result<Prepared, DomainError> {
        let old = self.0.retirements.get(node);
        let is_it = |old: &&Retirement| old.id == retirement && old.reached.step == Step::Revoking;
        let Some(old) = old.filter(is_it) else { return Ok(Prepared::noop(self.0, self.0.revision)) };
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
            let is_back = |at: &Node| retirement.enrolled && at.connected;
            if self.0.node(node).is_none_or(is_back) {
                return Some(Due::Forget(retirement));
            }
            let is_draining = retirement.reached.step == Step::Draining;
            if is_draining
                && retirement.spec.accept_loss
                && let Some(membership) = memberships(self.0, node).next()
            {
                return Some(Due::Remove(membership));
            }
            due(self.0, retirement).map(|step| Due::Take(retirement, step))
        })
    }

    /// Whether the node is drained for as long as no operator changes that.
    fn drains(&self, node: &str) -> bool {
        covers(&self.0.drains, node)
    }

    /// The name of the drain that the retirement made, as long as no operator has changed it or made another one of that name.
    fn made<'b>(&self, retirement: &'b Retirement) -> Option<&'b str> {
        let name = retirement.drain.as_deref()?;
        let drain = self.0.drains.get(name)?;
        let is_it = drain.spec.target() == Some(DrainTarget::Node(&retirement.node))
            && drain.metadata.generation == 1
            && drain.metadata.created.as_ref() == Some(&retirement.begun);
        is_it.then_some(name)
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
        let mut prepared =
            TopologyCommands(self.0).with_drains(drains, Some(retirements), first, generation, outcome)?;
        prepared.writes.extend(writes);
        Ok(prepared)
    }

    /// Stores one retirement.
    fn stored(&self, retirement: Retirement, outcome: Outcome) -> Result<Prepared, DomainError> {
        let mut retirements = self.0.retirements.clone();
        let write = put(self.0.revision + 1, &retirement);
        retirements.insert(retirement.node.clone(), retirement);
        self.change(vec![write], retirements, outcome)
    }

    fn change(&self, writes: Vec<Write>, retirements: Retirements, outcome: Outcome) -> Result<Prepared, DomainError> {
        TopologyCommands(self.0).with_retirements(retirements, writes, outcome)
    }
}

fn put(revision: u64, retirement: &Retirement) -> Write {
    Write::Put(Record::Retirement(Box::new(RetirementRecord { revision, retirement: retirement.clone() })))
}
