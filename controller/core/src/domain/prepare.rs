// SPDX-License-Identifier: Apache-2.0
//! Checking commands and planning their effects; groups here, topology and members in their own files.

use canopy_model::FieldErrors;
use canopy_model::group::GroupSpec;
use canopy_model::ids::{Generation, check_name};

use super::Domain;
use super::apply::{Effect, GroupEffect};
use crate::alloc::Cursors;
use crate::command::{Command, MAX_WRITES, Outcome, Prepared, Write};
use crate::error::DomainError;
use crate::limits::MAX_GROUPS;
use crate::metadata::{Labels, Metadata, check_labels};
use crate::plan::{Intent, Planned, plan_group};
use crate::resource::{Group, GroupRecord, GroupState, STATE_KEY, StateRecord, group_key, member_key, put};

impl Domain {
    /// Checks `command` against the present state and plans it; nothing changes. Commit the returned writes in one
    /// transaction, then call [`Domain::apply`].
    ///
    /// # Errors
    /// Any [`DomainError`] but `Stale`. Fields are named as in the API (`spec.qpn`); fields of a group that the command
    /// touches indirectly have the group as a prefix (`groups[g1].spec.pathMtu`).
    pub fn prepare(&self, command: Command) -> Result<Prepared, DomainError> {
        match command {
            Command::PutTopology { labels, spec, if_match } => self.prepare_put_topology(labels, spec, if_match),
            Command::DeleteTopology => self.prepare_delete_topology(),
            Command::PutGroup { name, labels, spec, if_match, create_only } => match self.groups.get(&name) {
                Some(_) if create_only => Err(DomainError::AlreadyExists {
                    kind: "group",
                    name,
                    detail: "choose another name, or update it".to_owned(),
                }),
                Some(group) => self.prepare_update_group(group, labels, spec, if_match),
                None if if_match.is_some() => Err(DomainError::NotFound { kind: "group", name }),
                None => self.prepare_create_group(&name, labels, spec),
            },
            Command::DeleteGroup { name } => self.prepare_delete_group(name),
            Command::PutMember { group, spec, create_only } => self.prepare_put_member(&group, spec, create_only),
            Command::DeleteMember { group, host } => self.prepare_delete_member(&group, &host, None),
            Command::EvictMember { group, host, reason } => self.prepare_delete_member(&group, &host, Some(reason)),
            Command::FailGroup { name, reason } => self.prepare_fail_group(name, reason),
            Command::PortsDown { node, ports } => self.prepare_ports_down(&node, ports),
            Command::FinishMove { group } => self.prepare_finish_move(group),
            Command::PushThresholds => Ok(self.prepare_push_thresholds()),
        }
    }

    fn prepare_create_group(&self, name: &str, labels: Labels, spec: GroupSpec) -> Result<Prepared, DomainError> {
        let mut errors = FieldErrors::default();
        if let Err(e) = check_name("metadata.name", name) {
            errors.0.push(e);
        }
        check_group(&labels, &spec, errors)?;
        if self.groups.len() >= MAX_GROUPS {
            return Err(DomainError::Limit(format!(
                "there are {MAX_GROUPS} groups already, no more are supported: delete groups that are not needed"
            )));
        }
        let mut allocation = self.pools.peek()?;
        allocation.start_psn = spec.start_psn.unwrap_or(allocation.start_psn);
        let group = Group {
            metadata: Metadata::created(name, labels),
            spec,
            allocation,
            epoch: 1,
            recorded_epoch: 1,
            members: Default::default(),
            started: false,
            moved: 0,
            failed: None,
            evicted: Vec::new(),
            state: GroupState::Waiting("waiting for a source to join"),
            making: None,
        };
        let cursors = self.pools.cursors_behind(&allocation);
        let planned = self.plan(&group)?;
        Ok(self.prepared_group(group, planned, Outcome::Created, 1, Vec::new(), cursors))
    }

    fn prepare_update_group(
        &self,
        old: &Group,
        labels: Labels,
        spec: GroupSpec,
        if_match: Option<Generation>,
    ) -> Result<Prepared, DomainError> {
        let name = old.metadata.name.as_str();
        check_generation("group", name, if_match, old.metadata.generation)?;
        check_group(&labels, &spec, FieldErrors::default())?;
        let start_psn = spec.start_psn.unwrap_or(old.allocation.start_psn);
        if !old.members.is_empty() {
            let mut errors = FieldErrors::default();
            let fixed = |field: &str| {
                (field.to_owned(), "members have set up their QPs with it: remove the members first".to_owned())
            };
            if start_psn != old.allocation.start_psn {
                let (field, detail) = fixed("spec.startPsn");
                errors.push(field, format!("{start_psn} is not {}, and {detail}", old.allocation.start_psn));
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
            return Ok(self.noop(old.metadata.generation));
        }
        let mut group = old.unsettled();
        group.metadata = old.metadata.changed(labels);
        group.allocation.start_psn = start_psn;
        if spec.encoding != old.spec.encoding {
            group.epoch += 1;
        }
        let same_spec = spec == old.spec;
        group.spec = spec;
        let planned = match self.plan(&group) {
            // A group that was infeasible before may still get new labels.
            Err(e) if same_spec => Err(e.to_string()),
            other => Ok(other?),
        };
        let generation = group.metadata.generation;
        Ok(self.prepared_group_or(group, planned, Outcome::Updated, generation, Vec::new(), self.pools.cursors()))
    }

    fn prepare_delete_group(&self, name: String) -> Result<Prepared, DomainError> {
        let Some(group) = self.groups.get(&name) else { return Err(DomainError::NotFound { kind: "group", name }) };
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
        writes.push(self.state_write(self.pools.cursors()));
        let generation = group.metadata.generation;
        let effect = Effect::Group(Box::new(GroupEffect { name, group: None, programs: Vec::new() }));
        Ok(Prepared { writes, base_revision: self.revision, outcome: Outcome::Deleted, generation, effect })
    }

    fn prepare_fail_group(&self, name: String, reason: String) -> Result<Prepared, DomainError> {
        let Some(old) = self.groups.get(&name) else { return Err(DomainError::NotFound { kind: "group", name }) };
        let generation = old.metadata.generation;
        // A group without members has nothing to stop, and its failure could never be cleared.
        if old.failed.is_some() || old.members.is_empty() {
            return Ok(self.noop(generation));
        }
        let mut group = old.unsettled();
        group.epoch += 1;
        group.failed = Some(reason);
        let planned = self.plan(&group)?;
        Ok(self.prepared_group(group, planned, Outcome::Updated, generation, Vec::new(), self.pools.cursors()))
    }

    /// Plans `group` in its present state.
    pub(super) fn plan(&self, group: &Group) -> Result<Planned, DomainError> {
        let planned = plan_group(&self.addresses, self.topology.as_ref().map(|t| &*t.network), intent(group))?;
        self.check_multicast_ports(&planned)?;
        Ok(planned)
    }

    /// A change of one group: `writes`, the group's record, and the state record.
    pub(super) fn prepared_group(
        &self,
        group: Group,
        planned: Planned,
        outcome: Outcome,
        generation: Generation,
        writes: Vec<Write>,
        cursors: Cursors,
    ) -> Prepared {
        self.prepared_group_or(group, Ok(planned), outcome, generation, writes, cursors)
    }

    /// The same, where planning may have failed with the given reason.
    pub(super) fn prepared_group_or(
        &self,
        mut group: Group,
        planned: Result<Planned, String>,
        outcome: Outcome,
        generation: Generation,
        mut writes: Vec<Write>,
        cursors: Cursors,
    ) -> Prepared {
        let (state, programs) = settle(planned);
        group.moved = group.moved.max(moved_in(&state));
        group.state = state;
        group.recorded_epoch = group.epoch;
        let name = group.metadata.name.clone();
        let record = GroupRecord {
            metadata: group.metadata.clone(),
            revision: self.revision + 1,
            epoch: group.epoch,
            moved: group.moved,
            spec: group.spec.clone(),
            allocation: group.allocation,
            failed: group.failed.clone(),
            evicted: group.evicted.clone(),
        };
        writes.push(put(group_key(&name), &record));
        writes.push(self.state_write(cursors));
        let effect = Effect::Group(Box::new(GroupEffect { name, group: Some(group), programs }));
        Prepared { writes, base_revision: self.revision, outcome, generation, effect }
    }

    /// The state record, which every change writes.
    pub(super) fn state_write(&self, cursors: Cursors) -> Write {
        put(STATE_KEY.to_owned(), &StateRecord { revision: self.revision + 1, cursors })
    }

    /// A command that changes nothing.
    pub(super) fn noop(&self, generation: Generation) -> Prepared {
        Prepared {
            writes: Vec::new(),
            base_revision: self.revision,
            outcome: Outcome::Unchanged,
            generation,
            effect: Effect::None,
        }
    }
}

/// `group` as input of the planner.
pub(super) fn intent(group: &Group) -> Intent<'_> {
    Intent {
        name: &group.metadata.name,
        spec: &group.spec,
        allocation: &group.allocation,
        epoch: group.epoch,
        members: &group.members,
        before: group.plan(),
        moved: group.moved,
        failed: group.failed.as_deref(),
    }
}

/// Epoch in which receivers of the group last moved between nodes.
fn moved_in(state: &GroupState) -> u32 {
    if let GroupState::Live(plan) = state { plan.moved } else { 0 }
}

/// A group's state and programs after planning, whether it succeeded or failed.
pub(super) fn settle(planned: Result<Planned, String>) -> (GroupState, Vec<canopy_model::node_spec::GroupProgram>) {
    match planned {
        Ok(Planned::Waiting(reason)) => (GroupState::Waiting(reason), Vec::new()),
        Ok(Planned::Failed(reason)) => (GroupState::Failed(reason), Vec::new()),
        Ok(Planned::Live(plan, programs)) => (GroupState::Live(plan), programs),
        Err(reason) => (GroupState::Infeasible(reason), Vec::new()),
    }
}

/// Planning errors name the group's fields. This adds the group as a prefix, for commands on another resource.
pub(super) fn in_group(group: &str, e: DomainError) -> DomainError {
    match e {
        DomainError::Invalid(mut errors) => {
            errors.0.iter_mut().for_each(|e| e.field = format!("groups[{group}].{}", e.field));
            DomainError::Invalid(errors)
        }
        other => other,
    }
}

/// Checks the caller's precondition, if any.
pub(super) fn check_generation(
    kind: &'static str,
    name: &str,
    expected: Option<Generation>,
    actual: Generation,
) -> Result<(), DomainError> {
    match expected {
        Some(expected) if expected != actual => {
            Err(DomainError::Conflict { kind, name: name.to_owned(), expected, actual })
        }
        _ => Ok(()),
    }
}

fn check_group(labels: &Labels, spec: &GroupSpec, mut errors: FieldErrors) -> Result<(), FieldErrors> {
    check_labels(labels, &mut errors);
    if let Err(more) = spec.validate() {
        errors.0.extend(more.0);
    }
    errors.into_result()
}
