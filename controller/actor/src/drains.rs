// SPDX-License-Identifier: Apache-2.0
//! Ends drains whose time has passed.
//!
//! A drain ends at a time of the wall clock. If the clock is set forward, drains end earlier, if it is set back, later; either takes effect
//! within [`CLOCK_READ`], and at once when the controller starts.

use std::time::Duration;

use canopy_controller_core::Command;
use canopy_model::rfc3339;
use canopy_store::StoreError;
use canopy_units::UnixTime;
use tokio::time::Instant;

use crate::Controller;
use crate::events::Code;
use crate::task::{Task, is_refusal};

/// How often the wall clock is read while a drain is to end: it may have been set.
const CLOCK_READ: Duration = Duration::from_secs(60);
/// How long after a failure the drain is ended again.
const RETRY: Duration = Duration::from_secs(60);

impl Task {
    /// When [`Task::end_drain_if_due`] may have something to do.
    pub(crate) fn drain_due(&self) -> Option<Instant> {
        let (until, _) = next_end(&self.controller)?;
        let due = Instant::now() + time_left(until, UnixTime::now());
        Some(self.drain_retry.map_or(due, |retry| retry.max(due)))
    }

    /// Removes the drain that ends first, if its time has passed; later, while the store takes no changes.
    pub(crate) async fn end_drain_if_due(&mut self) -> Result<(), StoreError> {
        if self.read_only.is_some() || self.drain_retry.is_some_and(|retry| retry > Instant::now()) {
            return Ok(());
        }
        let Some((until, name)) = next_end(&self.controller).filter(|(until, _)| *until <= UnixTime::now()) else {
            return Ok(());
        };
        let removed = match self.write_own(Command::DeleteDrain { name: name.clone() }, None).await {
            // Until the disk has room.
            Err(error) if is_refusal(&error) => return Ok(()),
            removed => removed?,
        };
        let events = self.controller.events();
        match removed {
            Ok(()) => {
                self.drain_retry = None;
                events.note(Code::DrainEnded, None, format!("drain {name} ended at {}", rfc3339::format(until)));
            }
            Err(error) => {
                tracing::error!(name, %error, "a drain could not be ended; it is tried again in {RETRY:?}");
                // One event until one is ended.
                if self.drain_retry.replace(Instant::now() + RETRY).is_none() {
                    events.note(
                        Code::DrainNotEnded,
                        None,
                        format!("drain {name} is in force until an attempt succeeds: {error}"),
                    );
                }
            }
        }
        Ok(())
    }
}

fn next_end(controller: &Controller) -> Option<(UnixTime, String)> {
    controller.read(|d| d.next_drain_end().map(|(until, name)| (until, name.to_owned())))
}

/// How long the task may wait for a drain that ends at `until`.
fn time_left(until: UnixTime, now: UnixTime) -> Duration {
    Duration::from_nanos(until.nanos().saturating_sub(now.nanos())).min(CLOCK_READ)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_is_read_again_while_a_drain_is_far_from_its_end() {
        let now = UnixTime::from_nanos(1_000_000_000_000);
        let left = |until| time_left(until, now);
        assert_eq!(left(now + Duration::from_millis(7)), Duration::from_millis(7));
        assert_eq!(left(now + CLOCK_READ * 9), CLOCK_READ);
        assert_eq!([now, UnixTime::default()].map(left), [Duration::ZERO; 2]);
    }
}
