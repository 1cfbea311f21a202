// SPDX-License-Identifier: Apache-2.0
//! Writing the next resources of a change set, each with what it was before.

use canopy_controller_core::audit::IntentKind;
use canopy_controller_core::{DomainError, Outcome};
use canopy_store::{Op, StoreError};
use canopy_units::UnixTime;

use super::steps::waits;
use crate::batch::Batch;
use crate::change_sets::{AT_ONCE, Before, Item, MAX_OCTETS, RECORD, State, before_key, item_key, serialized};
use crate::intent::Declared;
use crate::task::{Planned, Task};
use crate::{CommandError, Target};

/// Octets of one record of what resources were, where it has more than one: it is written anew with each.
const MAX_RECORD: usize = 1 << 20;

/// One resource of a set with what is stored beside it, and the set from then on.
struct Step {
    planned: Planned,
    next: State,
    before: Option<Before>,
}

impl Task {
    /// Writes the next resources of a set.
    pub(super) async fn apply_some(&mut self, number: u64, mut set: State) -> Result<(), StoreError> {
        let items: Vec<Item> = match self.read_record(item_key(number, set.chunk)).await? {
            Ok(items) => items,
            Err(detail) => {
                let target = Target { kind: IntentKind::ChangeSet, name: set.id.clone() };
                return self.stop(number, set, &target, &DomainError::Limit(detail).into()).await;
            }
        };
        let (end, from) = (set.chunk + items.len(), set.done.saturating_sub(set.chunk));
        let (mut batch, mut befores) = (Batch::default(), Vec::new());
        let mut refused = None;
        for item in items.iter().skip(from).take(AT_ONCE) {
            let step = match self.plan_item(number, (&set, end), item, &befores) {
                Ok(Some(step)) => step,
                Ok(None) => break,
                Err(why) => {
                    refused = Some((item.target(), why));
                    break;
                }
            };
            let has_room = batch.has_room(&step.planned.ops);
            if !has_room && !batch.is_empty() {
                break;
            }
            if !has_room {
                match self.execute_own(step.planned).await? {
                    Ok(()) => self.controller.with_change_sets(|sets| sets.keep(number, step.next)),
                    Err(why) if waits(&why) => self.set_waits(number, &why),
                    Err(why) => self.stop(number, set, &item.target(), &why).await?,
                }
                return Ok(());
            }
            self.apply_before_commit(step.planned, &mut batch);
            befores.extend(step.before);
            set = step.next;
            if befores.iter().map(|before| serialized(before).len()).sum::<usize>() > RECORD {
                break;
            }
        }
        let has_step = !batch.is_empty();
        self.finish(batch).await?;
        if has_step {
            self.controller.with_change_sets(|sets| sets.keep(number, set.clone()));
        }
        match refused {
            Some((_, why)) if waits(&why) => self.set_waits(number, &why),
            Some((target, why)) => self.stop(number, set, &target, &why).await?,
            None => {}
        }
        Ok(())
    }

    /// A resource that passed every check, with what is stored beside it; `befores` are those of the resources before it in this step.
    /// `None`: there is no room for what it was before beside them.
    fn plan_item(
        &mut self,
        number: u64,
        (set, end): (&State, usize),
        item: &Item,
        befores: &[Before],
    ) -> Result<Option<Step>, CommandError> {
        let target = item.target();
        let unreadable = |e: serde_json::Error| {
            CommandError::from(DomainError::Limit(format!("{target} in the change set cannot be read: {e}")))
        };
        let order = item.order(&set.author).map_err(unreadable)?;
        let order = order.ok_or_else(|| DomainError::Limit(format!("{target} is no resource")))?;
        let old = self.controller.read(|d| target.declared(d));
        let (mut planned, outcome, uid) = self.plan_own(order)?;
        let mut next = set.clone().with(outcome, UnixTime::now());
        let mut before = None;
        if outcome != Outcome::Unchanged {
            let generation = old.as_ref().map_or(1, |(metadata, _)| metadata.generation + 1);
            let tag = uid.map(|uid| format!("{uid}.{generation}")).unwrap_or_default();
            let new = Before::new(target.clone(), old.as_ref().map(Declared::of), tag);
            let mut all = befores.to_vec();
            all.push(new.clone());
            let value = serialized(&all);
            if value.len() > MAX_RECORD && !befores.is_empty() {
                return Ok(None);
            }
            next.octets += serialized(&new).len() as u64;
            if next.octets > MAX_OCTETS {
                let why = format!(
                    "{target} could not be taken back: what a change set replaces is kept up to {MAX_OCTETS} octets; write it alone"
                );
                return Err(DomainError::Limit(why).into());
            }
            if befores.is_empty() {
                next.befores += 1;
            }
            planned.ops.push(Op::Put { key: before_key(number, next.befores), value });
            before = Some(new);
        }
        if next.done == end {
            planned.ops.push(Op::Delete { key: item_key(number, set.chunk) });
            next.chunk = end;
        }
        planned.ops.push(next.op(number));
        Ok(Some(Step { planned, next, before }))
    }
}
