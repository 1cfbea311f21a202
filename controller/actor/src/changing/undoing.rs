// SPDX-License-Identifier: Apache-2.0
//! Taking back what a change set has written, the last first.

use canopy_controller_core::DomainError;
use canopy_controller_core::audit::IntentKind;
use canopy_store::{Op, StoreError};
use canopy_units::UnixTime;

use super::steps::waits;
use crate::Target;
use crate::batch::Batch;
use crate::change_sets::{AT_ONCE, Before, MAX_REFUSED, Stage, State, before_key, serialized};
use crate::committing::refusal;
use crate::order::Precondition;
use crate::task::Task;

impl Task {
    /// Takes back some of what a set has written, the last first.
    pub(super) async fn undo_some(&mut self, number: u64, mut set: State) -> Result<(), StoreError> {
        let Some(author) = set.undone.clone().filter(|_| set.befores > 0) else {
            (set.stage, set.ended) = (Stage::Undone, Some(UnixTime::now()));
            return self.keep_change_set(number, set).await;
        };
        let key = before_key(number, set.befores);
        let mut befores: Vec<Before> = match self.read_record(key.clone()).await? {
            Ok(befores) => befores,
            Err(detail) => {
                let target = Target { kind: IntentKind::ChangeSet, name: set.id.clone() };
                let why = DomainError::Limit(detail).into();
                set.refused.push(self.controller.read(|d| refusal(d, &target, &why)));
                Vec::new()
            }
        };
        let (mut batch, mut waiting) = (Batch::default(), None);
        for _ in 0..AT_ONCE {
            let Some(before) = befores.pop() else { break };
            let target = before.target();
            let command = self.controller.read(|d| before.command(d));
            let planned = command.and_then(|command| match command {
                Some(command) => self.plan_own(author.order(command, Precondition::None)).map(Some),
                None => Ok(None),
            });
            let mut next = set.clone();
            match planned {
                Err(why) if waits(&why) => {
                    befores.push(before);
                    waiting = Some(why);
                    break;
                }
                Err(why) => {
                    if next.refused.len() < MAX_REFUSED {
                        next.refused.push(self.controller.read(|d| refusal(d, &target, &why)));
                    }
                    tracing::warn!(set = set.id, resource = %target, %why, "a change set could not put a resource back");
                    let ops = undo_ops(number, &mut next, &key, &befores);
                    batch.add(ops);
                }
                Ok(None) => batch.add(undo_ops(number, &mut next, &key, &befores)),
                Ok(Some((mut planned, ..))) => {
                    next.put_back += 1;
                    planned.ops.extend(undo_ops(number, &mut next, &key, &befores));
                    if !batch.has_room(&planned.ops) {
                        if !batch.is_empty() {
                            break;
                        }
                        match self.execute_own(planned).await? {
                            Ok(()) => self.controller.with_change_sets(|sets| sets.keep(number, next)),
                            Err(why) => self.set_waits(number, &why),
                        }
                        return Ok(());
                    }
                    self.apply_before_commit(planned, &mut batch);
                }
            }
            set = next;
        }
        if befores.is_empty() && batch.is_empty() {
            // A record that cannot be read.
            batch.add(undo_ops(number, &mut set, &key, &befores));
        }
        let has_step = !batch.is_empty();
        self.finish(batch).await?;
        if has_step {
            self.controller.with_change_sets(|sets| sets.keep(number, set));
        }
        if let Some(why) = waiting {
            self.set_waits(number, &why);
        }
        Ok(())
    }
}

/// What is stored when the last of a record was taken back: `left` are those that follow.
fn undo_ops(number: u64, set: &mut State, key: &str, left: &[Before]) -> Vec<Op> {
    let record = if left.is_empty() {
        set.befores -= 1;
        Op::Delete { key: key.to_owned() }
    } else {
        Op::Put { key: key.to_owned(), value: serialized(&left) }
    };
    vec![record, set.op(number)]
}
