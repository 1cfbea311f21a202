// SPDX-License-Identifier: Apache-2.0
//! Commands on groups.

use std::sync::Arc;

use canopy_model::group::GroupSpec;
use canopy_model::ids::{Generation, check_name};
use canopy_model::{FieldError, FieldErrors};

use super::bound::waits_for_nodes;
use super::change::{Effect, GroupEffect, Prepared};
use super::group_change::{GroupChange, check_generation};
use super::staging::moving;
use super::state::State;
use super::tenants::{QuotaBounds, check_room};
use crate::command::{MAX_WRITES, Outcome, Write};
use crate::error::DomainError;
use crate::limits::MAX_GROUPS;
use crate::metadata::{DEFAULT_TENANT, Labels, Metadata, check_labels};
use crate::principal::Written;
use crate::record::{group_key, member_key};
use crate::resource::{Behind, Confirmed, GivenUp, Group, GroupState, Making, Step};
use crate::status::{is_confirmed_in_force, lacking};

/// Members that one transaction removes: the group's record and the state record take one write each.
const MOST_REMOVED: usize = MAX_WRITES - 2;

/// Checks commands on groups against a state.
pub(super) struct GroupCommands<'a>(pub(super) &'a State, pub(super) QuotaBounds);

impl GroupCommands<'_> {
    /// [`crate::Command::PutGroup`].
    pub(super) fn put(
        &self,
        (name, tenant): (String, Option<String>),
        labels: Labels,
        spec: GroupSpec,
        if_match: Option<Generation>,
        create_only: bool,
        written: &Written,
    ) -> Result<Prepared, DomainError> {
        match self.0.groups.get(&name) {
            Some(group) if group.deleting => Err(being_deleted(group)),
            Some(_) if create_only => {
                let detail = "choose another name, or update it".to_owned();
                Err(DomainError::AlreadyExists { kind: "group", name, detail })
            }
            Some(group) => {
                check_tenant(group, tenant.as_deref())?;
                self.update(group, labels, spec, if_match, written)
            }
            None if if_match.is_some() => Err(DomainError::NotFound { kind: "group", name }),
            None => self.create(&name, tenant.as_deref().unwrap_or(DEFAULT_TENANT), labels, spec, written),
        }
    }

    /// [`crate::Command::DeleteGroup`].
    pub(super) fn delete(&self, name: String) -> Result<Prepared, DomainError> {
        let Some(old) = self.0.groups.get(&name) else { return Err(DomainError::NotFound { kind: "group", name }) };
        let generation = old.metadata.generation;
        if old.deleting {
            return Ok(Prepared::noop(self.0, generation));
        }
        if old.members.len() <= MOST_REMOVED {
            return Ok(self.remove(old));
        }
        let mut group = old.clone();
        group.epoch += 1;
        group.deleting = true;
        Ok(GroupChange::new(self.0, group, Outcome::Deleted, generation).prepare_if_planned(self.0))
    }

    /// [`crate::Command::ContinueDeletion`].
    pub(super) fn continue_deletion(&self, name: String) -> Result<Prepared, DomainError> {
        let Some(old) = self.0.groups.get(&name) else { return Err(DomainError::NotFound { kind: "group", name }) };
        let generation = old.metadata.generation;
        if !old.deleting {
            return Ok(Prepared::noop(self.0, generation));
        }
        if old.members.len() <= MOST_REMOVED {
            return Ok(self.remove(old));
        }
        let mut group = old.clone();
        let removed: Vec<Arc<str>> = old.members.iter().map(|m| m.host.clone()).take(MOST_REMOVED).collect();
        for host in &removed {
            group.members.remove(host);
        }
        group.epoch += 1;
        let mut change = GroupChange::new(self.0, group, Outcome::Updated, generation);
        for host in &removed {
            change = change.with(Write::Delete { key: member_key(&name, host) });
        }
        Ok(change.prepare_if_planned(self.0))
    }

    /// Removes a group with all its members, which one transaction can.
    fn remove(&self, group: &Group) -> Prepared {
        let name = group.metadata.name.clone();
        let mut writes = vec![Write::Delete { key: group_key(&name) }];
        writes.extend(group.members.iter().map(|m| Write::Delete { key: member_key(&name, &m.host) }));
        let cursors = self.0.pools.cursors();
        let effect = Effect::Group(Box::new(GroupEffect { name, group: None, programs: Vec::new(), cursors }));
        Prepared::change(self.0, Outcome::Deleted, group.metadata.generation, writes, cursors, effect)
    }

    /// [`crate::Command::FailGroup`].
    pub(super) fn fail(&self, name: String, host: &str, since: u32, reason: String) -> Result<Prepared, DomainError> {
        let Some(old) = self.0.groups.get(&name) else { return Err(DomainError::NotFound { kind: "group", name }) };
        let generation = old.metadata.generation;
        let is_there = old.members.get(host).is_some_and(|m| m.since == since);
        if old.failed.is_some() || !is_there {
            return Ok(Prepared::noop(self.0, generation));
        }
        let mut group = old.clone();
        group.epoch += 1;
        group.failed = Some(reason);
        GroupChange::new(self.0, group, Outcome::Updated, generation).prepare(self.0)
    }

    /// [`crate::Command::FinishMove`].
    pub(super) fn finish_move(&self, name: String) -> Result<Prepared, DomainError> {
        let Some(old) = self.0.groups.get(&name) else { return Err(DomainError::NotFound { kind: "group", name }) };
        let generation = old.metadata.generation;
        if !moving(self.0, &name).is_some_and(|m| m.is_made) {
            return Ok(Prepared::noop(self.0, generation));
        }
        let mut group = old.clone();
        group.behind = None;
        // Every node of the tree that comes into force has confirmed its present program.
        group.confirmed = group.confirmed.map(|_| Confirmed { epoch: old.epoch, revision: self.0.revision });
        group.confirming = None;
        group.epoch += 1;
        group.moved = group.epoch;
        Ok(GroupChange::new(self.0, group, Outcome::Updated, generation).prepare_if_planned(self.0))
    }

    /// [`crate::Command::GiveUpMove`].
    pub(super) fn give_up_move(&self, name: String, since: u64) -> Result<Prepared, DomainError> {
        let Some(old) = self.0.groups.get(&name) else { return Err(DomainError::NotFound { kind: "group", name }) };
        let making = old.making().filter(|m| m.since == since);
        let given_up = making.and_then(|making| Some((lacking(old, self.0.on_ground())?, making.next.clone())));
        let step = given_up.map(|((node, reason), next)| Step::GivenUp(GivenUp { node, reason, next }));
        self.take_step(old, step)
    }

    /// [`crate::Command::RetryMove`].
    pub(super) fn retry_move(&self, name: String) -> Result<Prepared, DomainError> {
        let Some(old) = self.0.groups.get(&name) else { return Err(DomainError::NotFound { kind: "group", name }) };
        if waits_for_nodes(old) {
            let change = GroupChange::new(self.0, old.clone(), Outcome::Updated, old.metadata.generation);
            return Ok(change.prepare_if_live(self.0));
        }
        let is_given_up = old.behind.as_ref().is_some_and(|b| matches!(b.step, Step::GivenUp(_)));
        let since = self.0.revision + 1;
        let making = Making { since, added: Vec::new(), leaving: Default::default(), next: Vec::new(), plan: None };
        self.take_step(old, is_given_up.then_some(Step::Making(making)))
    }

    /// Takes another step of a group's move.
    fn take_step(&self, old: &Group, step: Option<Step>) -> Result<Prepared, DomainError> {
        let generation = old.metadata.generation;
        let (Some(step), mut group) = (step, old.clone()) else { return Ok(Prepared::noop(self.0, generation)) };
        group.behind = Some(Behind { step });
        Ok(GroupChange::new(self.0, group, Outcome::Updated, generation).prepare_if_planned(self.0))
    }

    /// [`crate::Command::OpenGroup`].
    pub(super) fn open(&self, name: String) -> Result<Prepared, DomainError> {
        let Some(old) = self.0.groups.get(&name) else { return Err(DomainError::NotFound { kind: "group", name }) };
        let generation = old.metadata.generation;
        if !may_open(self.0, old) {
            return Ok(Prepared::noop(self.0, generation));
        }
        let mut group = old.clone();
        group.opened = old.source_since().unwrap_or(0);
        GroupChange::new(self.0, group, Outcome::Updated, generation).prepare(self.0)
    }

    fn create(
        &self,
        name: &str,
        tenant: &str,
        labels: Labels,
        spec: GroupSpec,
        written: &Written,
    ) -> Result<Prepared, DomainError> {
        let mut errors = FieldErrors::default();
        for (field, value) in [("metadata.name", name), ("metadata.tenant", tenant)] {
            errors.0.extend(check_name(field, value).err());
        }
        check_group(&labels, &spec, errors)?;
        if self.0.groups.len() >= MAX_GROUPS {
            return Err(DomainError::Limit(format!(
                "there are {MAX_GROUPS} groups already, no more are supported: delete groups that are not needed"
            )));
        }
        check_room(self.0, tenant, 1, 0, self.1)?;
        let (allocation, cursors) = self.0.pools.draw(spec.start_psn)?;
        let group = Group {
            metadata: Metadata::created(name, labels, self.0.new_uid(), written).in_tenant(tenant),
            spec,
            allocation,
            epoch: 1,
            recorded_epoch: 1,
            recorded_tree: None,
            members: Default::default(),
            session: 0,
            ended: Default::default(),
            opened: 0,
            moved: 0,
            displaced: 0,
            confirmed: None,
            confirming: None,
            failed: None,
            deleting: false,
            evicted: Vec::new(),
            state: GroupState::Waiting("waiting for a source to join"),
            behind: None,
        };
        GroupChange::new(self.0, group, Outcome::Created, 1).drawn(cursors).prepare(self.0)
    }

    fn update(
        &self,
        old: &Group,
        labels: Labels,
        spec: GroupSpec,
        if_match: Option<Generation>,
        written: &Written,
    ) -> Result<Prepared, DomainError> {
        let name = old.metadata.name.as_str();
        check_generation("group", name, if_match, old.metadata.generation)?;
        check_group(&labels, &spec, FieldErrors::default())?;
        let start_psn = spec.start_psn.unwrap_or(old.allocation.session.start_psn);
        if old.members.iter().any(|m| old.takes_part(m)) {
            let mut errors = FieldErrors::default();
            let fixed = |field: &str| {
                (field.to_owned(), "members have set up their QPs with it: remove the members first".to_owned())
            };
            if start_psn != old.allocation.session.start_psn {
                let (field, detail) = fixed("spec.startPsn");
                errors.push(field, format!("{start_psn} is not {}, and {detail}", old.allocation.session.start_psn));
            }
            if spec.path_mtu != old.spec.path_mtu {
                let (field, detail) = fixed("spec.pathMtu");
                errors.push(field, format!("{} is not {}, and {detail}", spec.path_mtu, old.spec.path_mtu));
            }
            if spec.replication != old.spec.replication {
                let detail = "cannot change while the group has members, whose packets are on their way: remove the members first";
                errors.push("spec.replication", detail);
            }
            errors.into_result()?;
        }
        if labels == old.metadata.labels && spec == old.spec {
            return Ok(Prepared::noop(self.0, old.metadata.generation));
        }
        let mut group = old.clone();
        group.metadata = old.metadata.changed(labels, written);
        group.allocation.session.start_psn = start_psn;
        if spec.encoding != old.spec.encoding {
            group.epoch += 1;
        }
        let same_spec = spec == old.spec;
        group.spec = spec;
        let generation = group.metadata.generation;
        let change = GroupChange::new(self.0, group, Outcome::Updated, generation);
        // A group that was infeasible before may still get new labels.
        if same_spec { Ok(change.prepare_if_planned(self.0)) } else { change.prepare(self.0) }
    }
}

/// A group stays in its tenant; a command without one changes nothing about that.
fn check_tenant(group: &Group, wanted: Option<&str>) -> Result<(), FieldError> {
    let present = group.metadata.tenant.as_str();
    match wanted {
        Some(wanted) if wanted != present => {
            let detail = format!(
                "{wanted:?} is not {present:?}: a group stays in its tenant: leave it out, or delete the group and create it in the other one"
            );
            Err(FieldError::new("metadata.tenant", detail))
        }
        _ => Ok(()),
    }
}

/// A change of a group that is being deleted is refused.
pub(super) fn being_deleted(group: &Group) -> DomainError {
    let detail = format!(
        "it is being deleted, and {} members are left: wait until it is gone, then create it again",
        group.members.len()
    );
    DomainError::InUse { kind: "group", name: group.metadata.name.clone(), detail }
}

/// Whether every node has confirmed its program of the present session, enough receivers have joined, and the headend takes no data yet
/// (decisions 3.13).
pub(super) fn may_open(state: &State, group: &Group) -> bool {
    let waits = group.plan().is_some() && !group.is_open();
    waits && group.receivers() >= group.spec.min_receivers as usize && is_confirmed_in_force(group, state.on_ground())
}

fn check_group(labels: &Labels, spec: &GroupSpec, mut errors: FieldErrors) -> Result<(), FieldErrors> {
    check_labels(labels, &mut errors);
    if let Err(more) = spec.validate() {
        errors.0.extend(more.0);
    }
    errors.into_result()
}
