// SPDX-License-Identifier: Apache-2.0
//! What the steps of change sets have in common.

use canopy_controller_core::uid::Uid;
use canopy_controller_core::{Command, Outcome};
use canopy_store::StoreError;
use canopy_units::UnixTime;
use serde::de::DeserializeOwned;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::RETRY;
use crate::change_sets::State;
use crate::commit::Refused;
use crate::committing::refusal;
use crate::order::Order;
use crate::task::{Change, Planned, Task, beside_others, is_refusal};
use crate::{CommandError, Target};

pub(super) const READING: &str = "reading a change set";

impl Task {
    /// An order of a set that passed every check.
    pub(super) fn plan_own(&mut self, order: Order) -> Result<(Planned, Outcome, Option<Uid>), CommandError> {
        self.controller.read(|d| order.check_scope(d))?;
        self.check_rate(&order)?;
        let rewires = matches!(order.command, Command::PutTopology { .. } | Command::DeleteTopology);
        let built = self.built(&order);
        let order = Order { by: self.principals.share(order.by), ..order };
        let checked = beside_others(rewires, || self.controller.read(|d| self.prepare(d, order, false, built)))?;
        let (outcome, uid) = (checked.prepared.outcome(), checked.uid);
        let intent = Some(self.controller.now());
        let change = Change {
            prepared: checked.prepared,
            note: checked.note,
            joined: None,
            touch: None,
            once: None,
            intent,
            show: None,
            trace: None,
        };
        // No caller waits for it.
        let (answer, _) = oneshot::channel();
        Ok((Planned { ops: change.ops(), change, rewires, answer }, outcome, uid))
    }

    /// Carries out what has no room beside others: it is stored before it is applied.
    pub(super) async fn execute_own(&mut self, mut planned: Planned) -> Result<Result<(), CommandError>, StoreError> {
        let (answer, mut done) = oneshot::channel();
        planned.answer = answer;
        self.execute(planned).await?;
        Ok(done.try_recv().unwrap_or(Err(CommandError::Stopping)).map(drop))
    }

    /// Ends a set whose next resource is refused.
    pub(super) async fn stop(
        &mut self,
        number: u64,
        set: State,
        target: &Target,
        why: &CommandError,
    ) -> Result<(), StoreError> {
        let Refused { kind, name, detail, tag } = self.controller.read(|d| refusal(d, target, why));
        tracing::warn!(set = set.id, %kind, name, detail, done = set.done, items = set.items, "a change set was stopped by a resource that is refused");
        let set = set.stopped(Refused { kind, name, detail, tag }, UnixTime::now());
        self.keep_change_set(number, set).await
    }

    pub(super) async fn keep_change_set(&mut self, number: u64, set: State) -> Result<(), StoreError> {
        self.commit(vec![set.op(number)]).await?;
        self.controller.with_change_sets(|sets| sets.keep(number, set));
        Ok(())
    }

    pub(super) fn set_waits(&self, number: u64, why: &CommandError) {
        let after = match why {
            CommandError::TooFast { too_fast, .. } => too_fast.wait,
            _ => RETRY,
        };
        let retry = Instant::now() + after;
        self.controller.with_change_sets(|sets| sets.waits(number, why.to_string(), retry));
    }

    /// The record with this key; `Err` inside if it is not there or cannot be read.
    pub(super) async fn read_record<T: DeserializeOwned>(&self, key: String) -> Result<Result<T, String>, StoreError> {
        let (store, wanted) = (self.store.clone(), key.clone());
        let read = tokio::task::spawn_blocking(move || store.scan(&wanted)).await;
        let read = read.unwrap_or_else(|e| Err(StoreError::Failed { doing: READING, detail: e.to_string() }))?;
        let Some((_, value)) = read.entries.first() else { return Ok(Err(format!("record {key:?} is not there"))) };
        Ok(serde_json::from_slice(value).map_err(|e| format!("record {key:?} cannot be read: {e}")))
    }
}

/// A refusal that is not the resource's.
pub(super) fn waits(why: &CommandError) -> bool {
    match why {
        CommandError::CommitPending { .. }
        | CommandError::DomainCommitPending { .. }
        | CommandError::TooFast { .. }
        | CommandError::Stopping => true,
        CommandError::Store(error) => is_refusal(error),
        _ => false,
    }
}
