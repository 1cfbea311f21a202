// SPDX-License-Identifier: Apache-2.0
//! Removes groups that are being deleted and have more members than one transaction removes.
//!
//! The operator's deletion marks the group, durably, with its entry of the audit. Each step removes some members, and the last one the
//! group. A step reads from the domain what is left: it is safe to repeat, and the next start continues where a crash has ended it. Steps
//! are taken one at a time between the messages that wait, so that a deletion delays others by one commit.

use std::time::Duration;

use canopy_controller_core::Command;
use canopy_store::StoreError;
use tokio::time::Instant;

use crate::task::{Task, is_refusal};

/// How long after a failure the next step is tried again.
const RETRY: Duration = Duration::from_secs(60);

impl Task {
    /// When [`Task::continue_deletion`] has something to do.
    pub(crate) fn deletion_due(&self) -> Option<Instant> {
        let now = Instant::now();
        self.controller.read(|d| d.next_deletion().is_some()).then(|| self.deletion_retry.unwrap_or(now))
    }

    /// Takes one step of a deletion, if there is one; later, while the store takes no changes.
    pub(crate) async fn continue_deletion(&mut self) -> Result<(), StoreError> {
        if self.read_only.is_some() || self.deletion_retry.is_some_and(|retry| retry > Instant::now()) {
            return Ok(());
        }
        let Some(group) = self.controller.read(|d| d.next_deletion().map(str::to_owned)) else { return Ok(()) };
        let taken = match self.write_own(Command::ContinueDeletion { group: group.clone() }, None).await {
            Err(error @ StoreError::Limit(_)) => {
                tracing::error!(group, %error, "members of a deleted group could not be removed; it is tried again in {RETRY:?}");
                self.deletion_retry = Some(Instant::now() + RETRY);
                return Ok(());
            }
            // Until the disk has room.
            Err(error) if is_refusal(&error) => return Ok(()),
            taken => taken?,
        };
        self.deletion_retry = taken.is_err().then(|| Instant::now() + RETRY);
        if let Err(error) = taken {
            tracing::error!(group, %error, "members of a deleted group could not be removed; it is tried again in {RETRY:?}");
        }
        Ok(())
    }
}
