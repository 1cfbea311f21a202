// SPDX-License-Identifier: Apache-2.0
//! Commands on groups.

use canopy_model::FieldErrors;
use canopy_model::group::GroupSpec;
use canopy_model::ids::{Generation, check_name};

use super::change::{Effect, GroupEffect, Prepared};
use super::group_change::{GroupChange, check_generation, intent, plan};
use super::state::State;
use crate::command::{MAX_WRITES, Outcome, Write};
use crate::error::DomainError;
use crate::limits::MAX_GROUPS;
use crate::metadata::{Labels, Metadata, check_labels};
use crate::plan::{Intent, plan_group};
use crate::record::{group_key, member_key};
use crate::resource::{Group, GroupState};
use crate::status::{assess, is_programmed};

/// Checks commands on groups against a state.
pub(super) struct GroupCommands<'a>(pub(super) &'a State);

impl GroupCommands<'_> {
    /// [`crate::Command::PutGroup`].
    pub(super) fn put(
        &self,
        name: String,
        labels: Labels,
        spec: GroupSpec,
        if_match: Option<Generation>,
        create_only: bool,
    ) -> Result<Prepared, DomainError> {
        match self.0.groups.get(&name) {
            Some(_) if create_only => {
                let detail = "choose another name, or update it".to_owned();
                Err(DomainError::AlreadyExists { kind: "group", name, detail })
            }
            Some(group) => self.update(group, labels, spec, if_match),
            None if if_match.is_some() => Err(DomainError::NotFound { kind: "group", name }),
            None => self.create(&name, labels, spec),
        }
    }

    /// [`crate::Command::DeleteGroup`].
    pub(super) fn delete(&self, name: String) -> Result<Prepared, DomainError> {
        let Some(group) = self.0.groups.get(&name) else { return Err(DomainError::NotFound { kind: "group", name }) };
        // The group's record and the state record take one write each.
        let most = MAX_WRITES - 2;
        if group.members.len() > most {
            let detail = format!(
                "it has {} members, and at most {most} can be removed with it: remove members first",
                group.members.len()
            );
            return Err(DomainError::InUse { kind: "group", name, detail });
        }
        let mut writes = vec![Write::Delete { key: group_key(&name) }];
        writes.extend(group.members.keys().map(|host| Write::Delete { key: member_key(&name, host) }));
        let generation = group.metadata.generation;
        let cursors = self.0.pools.cursors();
        let effect = Effect::Group(Box::new(GroupEffect { name, group: None, programs: Vec::new(), cursors }));
        Ok(Prepared::change(self.0, Outcome::Deleted, generation, writes, cursors, effect))
    }

    /// [`crate::Command::FailGroup`].
    pub(super) fn fail(&self, name: String, reason: String) -> Result<Prepared, DomainError> {
        let Some(old) = self.0.groups.get(&name) else { return Err(DomainError::NotFound { kind: "group", name }) };
        let generation = old.metadata.generation;
        // A group without members has nothing to stop, and its failure could never be cleared.
        if old.failed.is_some() || old.members.is_empty() {
            return Ok(Prepared::noop(self.0, generation));
        }
        let mut group = old.unsettled();
        group.epoch += 1;
        group.failed = Some(reason);
        GroupChange::new(self.0, group, Outcome::Updated, generation).prepare(self.0)
    }

    /// [`crate::Command::FinishMove`].
    pub(super) fn finish_move(&self, name: String) -> Result<Prepared, DomainError> {
        let Some(old) = self.0.groups.get(&name) else { return Err(DomainError::NotFound { kind: "group", name }) };
        let generation = old.metadata.generation;
        if old.making.is_none() {
            return Ok(Prepared::noop(self.0, generation));
        }
        let group = old.unsettled();
        let intent = Intent { before: None, moved: group.epoch, ..intent(&group) };
        let planned = plan_group(&self.0.addresses, self.0.network(), intent);
        let planned = planned.map_err(|e| e.to_string());
        Ok(GroupChange::new(self.0, group, Outcome::Updated, generation).prepare_with(self.0, planned))
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

    fn create(&self, name: &str, labels: Labels, spec: GroupSpec) -> Result<Prepared, DomainError> {
        let mut errors = FieldErrors::default();
        if let Err(e) = check_name("metadata.name", name) {
            errors.0.push(e);
        }
        check_group(&labels, &spec, errors)?;
        if self.0.groups.len() >= MAX_GROUPS {
            return Err(DomainError::Limit(format!(
                "there are {MAX_GROUPS} groups already, no more are supported: delete groups that are not needed"
            )));
        }
        let (allocation, cursors) = self.0.pools.draw(spec.start_psn)?;
        let group = Group {
            metadata: Metadata::created(name, labels),
            spec,
            allocation,
            epoch: 1,
            recorded_epoch: 1,
            members: Default::default(),
            session: 0,
            ended: Default::default(),
            opened: 0,
            moved: 0,
            failed: None,
            evicted: Vec::new(),
            state: GroupState::Waiting("waiting for a source to join"),
            making: None,
        };
        GroupChange::new(self.0, group, Outcome::Created, 1).drawn(cursors).prepare(self.0)
    }

    fn update(
        &self,
        old: &Group,
        labels: Labels,
        spec: GroupSpec,
        if_match: Option<Generation>,
    ) -> Result<Prepared, DomainError> {
        let name = old.metadata.name.as_str();
        check_generation("group", name, if_match, old.metadata.generation)?;
        check_group(&labels, &spec, FieldErrors::default())?;
        let start_psn = spec.start_psn.unwrap_or(old.allocation.session.start_psn);
        if old.members.values().any(|m| old.takes_part(m)) {
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
        let mut group = old.unsettled();
        group.metadata = old.metadata.changed(labels);
        group.allocation.session.start_psn = start_psn;
        if spec.encoding != old.spec.encoding {
            group.epoch += 1;
        }
        let same_spec = spec == old.spec;
        group.spec = spec;
        let planned = match plan(self.0, &group) {
            // A group that was infeasible before may still get new labels.
            Err(e) if same_spec => Err(e.to_string()),
            other => Ok(other?),
        };
        let generation = group.metadata.generation;
        Ok(GroupChange::new(self.0, group, Outcome::Updated, generation).prepare_with(self.0, planned))
    }
}

/// Whether every node has confirmed its program of the present session, enough receivers have joined, and the headend takes no data yet
/// (decisions 3.13). Not while a tree moves, which ends soon.
pub(super) fn may_open(state: &State, group: &Group) -> bool {
    let waits = group.plan().is_some() && group.making.is_none() && !group.is_open();
    waits && group.receivers() >= group.spec.min_receivers as usize && is_programmed(&assess(group, &state.nodes))
}

fn check_group(labels: &Labels, spec: &GroupSpec, mut errors: FieldErrors) -> Result<(), FieldErrors> {
    check_labels(labels, &mut errors);
    if let Err(more) = spec.validate() {
        errors.0.extend(more.0);
    }
    errors.into_result()
}
