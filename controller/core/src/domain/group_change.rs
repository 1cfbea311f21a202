// SPDX-License-Identifier: Apache-2.0
//! A change of one group: planned, and on its way to be [`Prepared`].

use canopy_model::ids::Generation;
use canopy_model::node_spec::GroupProgram;

use super::change::{Effect, GroupEffect, Prepared};
use super::multicast::check_ports;
use super::staging::stage;
use super::state::State;
use crate::alloc::Cursors;
use crate::command::{Outcome, Write};
use crate::error::DomainError;
use crate::plan::{Intent, Planned, plan_group};
use crate::record::{GroupRecord, Record};
use crate::resource::{Behind, Group, GroupState, Step};

/// A group as a command leaves it.
pub(super) struct GroupChange {
    group: Group,
    outcome: Outcome,
    generation: Generation,
    writes: Vec<Write>,
    cursors: Cursors,
}

impl GroupChange {
    /// A change with `outcome` to the resource that the command names, which is then at `generation`.
    pub(super) fn new(state: &State, group: Group, outcome: Outcome, generation: Generation) -> Self {
        Self { group, outcome, generation, writes: Vec::new(), cursors: state.pools.cursors() }
    }

    /// With a write of another record.
    pub(super) fn with(mut self, write: Write) -> Self {
        self.writes.push(write);
        self
    }

    /// With the cursors behind the numbers that were drawn for the group.
    pub(super) fn drawn(mut self, cursors: Cursors) -> Self {
        self.cursors = cursors;
        self
    }

    /// The command, with the group planned as it is now; refused if there is no plan.
    ///
    /// # Errors
    /// Those of [`plan`].
    pub(super) fn prepare(mut self, state: &State) -> Result<Prepared, DomainError> {
        let planned = plan(state, &mut self.group)?;
        Ok(self.prepare_with(state, Ok(planned)))
    }

    /// The command, where planning may have failed.
    pub(super) fn prepare_if_planned(mut self, state: &State) -> Prepared {
        let planned = plan(state, &mut self.group).map_err(|e| e.to_string());
        self.prepare_with(state, planned)
    }

    fn prepare_with(mut self, state: &State, planned: Result<Settled, String>) -> Prepared {
        let group = &mut self.group;
        let (group_state, programs) = planned.unwrap_or_else(|reason| {
            group.behind = None;
            // The nodes forget which receivers they counted, and from where.
            if group.plan().is_some() {
                group.epoch += 1;
                group.moved = group.epoch;
            }
            (GroupState::Infeasible(reason), Vec::new())
        });
        group.moved = group.moved.max(moved_in(&group_state));
        group.state = group_state;
        group.recorded_epoch = group.durable_epoch();
        group.forget_ended();
        let record = GroupRecord {
            metadata: group.metadata.clone(),
            revision: state.revision + 1,
            epoch: group.recorded_epoch,
            // A restart moves a tree that is behind.
            moved: if group.behind.is_some() { group.recorded_epoch } else { group.moved },
            opened: Some(group.opened),
            session: group.session,
            ended: group.ended.clone(),
            spec: group.spec.clone(),
            allocation: group.allocation,
            failed: group.failed.clone(),
            evicted: group.evicted.clone(),
        };
        self.writes.push(Write::Put(Record::Group(Box::new(record))));
        let name = self.group.metadata.name.clone();
        let cursors = self.cursors;
        let effect = Effect::Group(Box::new(GroupEffect { name, group: Some(self.group), programs, cursors }));
        Prepared::change(state, self.outcome, self.generation, self.writes, self.cursors, effect)
    }
}

/// A group's state and programs after planning.
pub(super) type Settled = (GroupState, Vec<GroupProgram>);

/// Plans `group` as it is now. One that is behind gets the plan over its own paths, and if it moves the next tree beside it (decisions
/// 3.14); where the two do not go together any longer it moves at once, in an epoch of its own.
///
/// # Errors
/// Those of [`plan_group`], and a node with too few multicast interfaces.
pub(super) fn plan(state: &State, group: &mut Group) -> Result<Settled, DomainError> {
    if let Some(behind) = group.behind.take() {
        if let Some(settled) = plan_behind(state, group, behind)? {
            return Ok(settled);
        }
        group.epoch += 1;
        group.moved = group.epoch;
    }
    let planned = plan_group(&state.addresses, state.network(), intent(group))?;
    check_ports(state, &planned)?;
    Ok(settle(planned))
}

/// The plan of a group that stays behind; `None` if it cannot.
fn plan_behind(state: &State, group: &mut Group, behind: Behind) -> Result<Option<Settled>, DomainError> {
    let present = plan_group(&state.addresses, Some(&behind.network), intent(group))?;
    let Planned::Live(plan, programs) = present else { return Ok(None) };
    let (step, programs) = match behind.step {
        step @ Step::GivenUp(_) => (step, programs),
        Step::Making(making) => {
            let next = plan_group(&state.addresses, state.network(), Intent { before: None, ..intent(group) })?;
            match stage(&behind.network, group, making.since, (&plan, programs), &next) {
                Some((making, programs)) => (Step::Making(making), programs),
                None => return Ok(None),
            }
        }
    };
    group.behind = Some(Behind { step, ..behind });
    Ok(Some((GroupState::Live(plan), programs)))
}

/// `group` as input of the planner.
pub(super) fn intent(group: &Group) -> Intent<'_> {
    Intent {
        name: &group.metadata.name,
        spec: &group.spec,
        allocation: &group.allocation,
        epoch: group.epoch,
        session: group.session,
        members: &group.members,
        before: group.plan(),
        moved: group.moved,
        open: group.is_open(),
        failed: group.failed.as_deref(),
    }
}

/// Epoch in which receivers of the group last moved between nodes.
fn moved_in(state: &GroupState) -> u32 {
    if let GroupState::Live(plan) = state { plan.moved } else { 0 }
}

/// The state and programs of a plan.
pub(super) fn settle(planned: Planned) -> Settled {
    match planned {
        Planned::Waiting(reason) => (GroupState::Waiting(reason), Vec::new()),
        Planned::Failed(reason) => (GroupState::Failed(reason), Vec::new()),
        Planned::Live(plan, programs) => (GroupState::Live(plan), programs),
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
