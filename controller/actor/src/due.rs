// SPDX-License-Identifier: Apache-2.0
//! Commands that follow from the state and not from a request.

use canopy_controller_core::{Command, Domain, Outcome};

use crate::Controller;
use crate::attempts::Attempts;
use crate::events::Code;

/// A command that the state makes due.
pub(crate) struct Due {
    pub(crate) is_due: fn(&Domain) -> bool,
    pub(crate) command: fn() -> Command,
    /// Called after a change.
    pub(crate) done: fn(&Controller),
    pub(crate) attempts: fn(&Controller) -> &Attempts,
    /// The event about a failure: one until an attempt succeeds, however many fail.
    pub(crate) failure: Code,
    /// What holds until then, for operators.
    pub(crate) meanwhile: &'static str,
}

impl Due {
    fn take(&self, controller: &Controller) -> bool {
        controller.read(self.is_due) && (self.attempts)(controller).take()
    }
}

impl Controller {
    /// Executes a command as long as it is due. One task does it for all callers; after a failure the next caller tries again. Must be
    /// called on the tokio runtime.
    pub(crate) fn execute_due(&self, due: &'static Due) {
        if !due.take(self) {
            return;
        }
        let this = self.clone();
        tokio::spawn(async move {
            loop {
                let result = this.execute((due.command)(), None, false).await;
                let is_news = (due.attempts)(&this).end(result.is_err());
                match result {
                    Ok(done) if done.outcome == Outcome::Updated => (due.done)(&this),
                    Ok(_) => {}
                    Err(e) => {
                        if is_news {
                            let detail = format!("{} until an attempt succeeds: {e}", due.meanwhile);
                            this.events().note(due.failure, None, detail);
                        }
                        return;
                    }
                }
                if !due.take(&this) {
                    return;
                }
            }
        });
    }
}
