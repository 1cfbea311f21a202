// SPDX-License-Identifier: Apache-2.0
//! A change of one group: planned, and on its way to be [`Prepared`].

use canopy_model::ids::Generation;

use super::bound::{MAX_BEHIND, MAX_FORCED, exceeded, is_far, note};
use super::change::{Effect, GroupEffect, Prepared};
use super::multicast::check_ports;
use super::staging::stage;
use super::state::State;
use crate::alloc::Cursors;
use crate::command::{Outcome, Write};
use crate::error::DomainError;
use crate::metadata::{BRANCHES, METRICS_LABEL};
use crate::plan::{Intent, Planned, Way, plan_group};
use crate::program::TreePrograms;
use crate::programs::{Trees, changed as changed_programs};
use crate::record::{GroupRecord, Record, TreeRecord};
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

    /// The command, with the group planned as it is now; refused if there is no plan, or a node has not confirmed its program for too
    /// many changes.
    ///
    /// # Errors
    /// Those of [`plan`].
    pub(super) fn prepare(mut self, state: &State) -> Result<Prepared, DomainError> {
        note(state, &mut self.group);
        let planned = plan(state, &mut self.group)?;
        if let (GroupState::Infeasible(reason), true) = (&planned, self.is_live(state)) {
            let detail = format!("{reason}; this would stop the receivers that get data: try again then");
            return Err(DomainError::InUse { kind: "group", name: self.group.metadata.name, detail });
        }
        if let Some(detail) = self.exceeded(state, &planned, MAX_BEHIND) {
            return Err(DomainError::InUse { kind: "group", name: self.group.metadata.name, detail });
        }
        Ok(self.prepare_with(state, Ok(planned)))
    }

    /// Whether the group has a tree before the command.
    fn is_live(&self, state: &State) -> bool {
        old_with_tree(state, &self.group.metadata.name).is_some()
    }

    /// The command, where planning may have failed, and which waits for no node.
    pub(super) fn prepare_if_planned(mut self, state: &State) -> Prepared {
        note(state, &mut self.group);
        let before = is_far(&self.group).then(|| self.group.clone());
        let planned = plan(state, &mut self.group).map_err(|e| e.to_string());
        let planned = match (planned, before) {
            (Ok(planned), Some(before)) => self.without_waiting(state, planned, before),
            (planned, _) => planned,
        };
        self.prepare_with(state, planned)
    }

    /// The command, if the group has a tree now that can come into force; changes nothing otherwise.
    pub(super) fn prepare_if_live(mut self, state: &State) -> Prepared {
        note(state, &mut self.group);
        match plan(state, &mut self.group) {
            Ok(planned)
                if matches!(planned, GroupState::Live(_)) && self.exceeded(state, &planned, MAX_FORCED).is_none() =>
            {
                self.prepare_with(state, Ok(planned))
            }
            _ => Prepared::noop(state, self.generation),
        }
    }

    /// What becomes of the plan, where a node may be too far behind; `before`: the group before it was planned.
    fn without_waiting(&mut self, state: &State, planned: GroupState, before: Group) -> Result<GroupState, String> {
        if self.exceeded(state, &planned, MAX_BEHIND).is_none() {
            return Ok(planned);
        }
        let moves = self.group.moved.max(planned.moved(0)) > before.moved;
        if let Some(old) = state.groups.get(&before.metadata.name).filter(|_| !moves) {
            // Without the receiver that leaves every program means less than before: that needs no epoch of its own.
            self.group = Group { epoch: old.epoch, ..before };
            return plan(state, &mut self.group).map_err(|e| e.to_string());
        }
        self.exceeded(state, &planned, MAX_FORCED).map_or(Ok(planned), Err)
    }

    /// Why the tree cannot come into force, if a node of it could be more than `most` epochs behind.
    fn exceeded(&self, state: &State, planned: &GroupState, most: u32) -> Option<String> {
        let (old, GroupState::Live(plan)) = (state.groups.get(&self.group.metadata.name)?, planned) else {
            return None;
        };
        let network = state.network().filter(|_| self.group.epoch > old.epoch)?;
        exceeded(state, &self.group, self.group.epoch, plan.tree.nodes().map(|t| network.name(t.node)), most)
    }

    fn prepare_with(mut self, state: &State, planned: Result<GroupState, String>) -> Prepared {
        let group = &mut self.group;
        let group_state = planned.unwrap_or_else(|reason| {
            group.behind = None;
            GroupState::Infeasible(reason)
        });
        group.moved = group.moved.max(group_state.moved(group.epoch));
        if let (GroupState::Infeasible(_), Some(old)) = (&group_state, old_with_tree(state, &group.metadata.name)) {
            group.displaced = old.epoch + 1;
        }
        group.state = group_state;
        group.recorded_epoch = group.durable_epoch();
        let tree = group.plan().zip(state.network()).map(|(plan, network)| TreeRecord {
            epoch: group.epoch,
            moved: group.moved,
            uplinks: plan.tree.uplinks(network),
            epochs: plan.epochs.recorded(network, &plan.tree),
        });
        group.recorded_tree = tree.as_ref().map(|tree| tree.epoch);
        group.forget_ended();
        let record = GroupRecord {
            metadata: group.metadata.clone(),
            revision: state.revision + 1,
            epoch: group.recorded_epoch,
            // A version without `tree` moves one that is behind when it starts.
            moved: if group.behind.is_some() { group.recorded_epoch } else { group.moved },
            displaced: Some(group.displaced),
            opened: Some(group.opened),
            session: group.session,
            ended: group.ended.clone(),
            tree,
            confirmed: group.confirmed,
            spec: group.spec.clone(),
            allocation: group.allocation,
            failed: group.failed.clone(),
            deleting: group.deleting,
            evicted: group.evicted.clone(),
        };
        self.writes.push(Write::Put(Record::Group(Box::new(record))));
        let name = self.group.metadata.name.clone();
        let cursors = self.cursors;
        let old = state.groups.get(&name).map(Trees::of_group).unwrap_or_default();
        let new = Trees::of_group(&self.group);
        let programs = state.ground().map(|ground| changed_programs(old, Some(ground), new, ground));
        let programs = programs.unwrap_or_default();
        let effect = Effect::Group(Box::new(GroupEffect { name, group: Some(self.group), programs, cursors }));
        Prepared::change(state, self.outcome, self.generation, self.writes, self.cursors, effect)
    }
}

/// The group before the command, if it has a tree.
fn old_with_tree<'a>(state: &'a State, name: &str) -> Option<&'a Group> {
    state.groups.get(name).filter(|old| old.plan().is_some())
}

/// Plans `group` as it is now. One that is behind keeps its tree, and if it moves the next tree beside it (decisions 3.14); where the two
/// do not go together any longer it moves at once, in an epoch of its own.
///
/// # Errors
/// Those of [`plan_group`], and a node with too few multicast interfaces.
pub(super) fn plan(state: &State, group: &mut Group) -> Result<GroupState, DomainError> {
    if let Some(behind) = group.behind.clone() {
        if let Some((settled, step)) = plan_behind(state, group, behind.step)? {
            group.behind = step.map(|step| Behind { step });
            return Ok(settled);
        }
        group.behind = None;
        start_over(state, group);
    }
    let mut planned = plan_group(state.common(), state.network(), changed(state, group))?;
    check_ports(state, &planned)?;
    if is_back(group, &planned) {
        start_over(state, group);
        planned = plan_group(state.common(), state.network(), changed(state, group))?;
    }
    Ok(settle(planned))
}

/// Every child starts over, in an epoch that the group did not have before. Where the command has brought a new epoch already, it is that
/// one: a receiver that joins with the command was counted by no tree before.
fn start_over(state: &State, group: &mut Group) {
    let before = state.groups.get(&group.metadata.name).map_or(0, |old| old.epoch);
    group.epoch = group.epoch.max(before + 1);
    group.moved = group.epoch;
}

/// Whether a group that was infeasible has a tree again. A node may still run its program of before: it never counts what other nodes
/// sent it for that, because every child starts over in a new epoch.
pub(super) fn is_back(group: &Group, planned: &Planned) -> bool {
    matches!((&group.state, planned), (GroupState::Infeasible(_), Planned::Live(..)))
}

/// The state of a group that was behind, and its step; no step if its tree is the wanted one by now, `None` if it cannot stay behind.
fn plan_behind(state: &State, group: &Group, step: Step) -> Result<Option<(GroupState, Option<Step>)>, DomainError> {
    let (Some(network), Some(plan)) = (state.network(), group.plan()) else { return Ok(None) };
    let kept = plan.tree.uplinks(network);
    let wanted = changed(state, group);
    let present = plan_group(state.common(), Some(network), Intent { way: Way::Ports(&kept), ..wanted });
    let Ok(Planned::Live(plan)) = present else { return Ok(None) };
    let programs = TreePrograms { addresses: &state.addresses, network, plan: &plan };
    let next = plan_group(state.common(), Some(network), Intent { before: None, ..wanted });
    if matches!(step, Step::GivenUp(_)) {
        let is_there =
            matches!(&next, Ok(Planned::Live(next)) if programs.are_same(&TreePrograms { plan: next, ..programs }));
        return Ok(Some((GroupState::Live(plan), Some(step).filter(|_| !is_there))));
    }
    let since = group.making().map_or(state.revision + 1, |making| making.since);
    let step = match next? {
        Planned::NoWay(reason) => Some(Step::NoWay(reason)),
        Planned::Live(next) => match stage(group, since, programs, &next) {
            Some(step) => step,
            None => return Ok(None),
        },
        Planned::Waiting(_) | Planned::Failed(_) => return Ok(None),
    };
    Ok(Some((GroupState::Live(plan), step)))
}

/// `group`, which is about to change, as input of the planner.
fn changed<'a>(state: &State, group: &'a Group) -> Intent<'a> {
    let starts_over = state.groups.get(&group.metadata.name).is_none_or(|old| group.moved > old.moved);
    let intent = intent(group);
    Intent { epochs: intent.epochs.filter(|_| !starts_over), ..intent }
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
        displaced: group.displaced,
        epochs: group.plan().map(|plan| &plan.epochs),
        way: Way::Paths,
        open: group.is_open(),
        held: group.is_held(),
        failed: group.failed.as_deref(),
        deleting: group.deleting,
        branch_metrics: group.metadata.labels.get(METRICS_LABEL).is_some_and(|value| value == BRANCHES),
    }
}

/// The state that a plan gives a group.
pub(super) fn settle(planned: Planned) -> GroupState {
    match planned {
        Planned::Waiting(reason) => GroupState::Waiting(reason),
        Planned::Failed(reason) => GroupState::Failed(reason),
        Planned::NoWay(reason) => GroupState::Infeasible(reason),
        Planned::Live(plan) => GroupState::Live(plan),
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
