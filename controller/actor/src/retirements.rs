// SPDX-License-Identifier: Apache-2.0
//! Nodes that leave for good: their steps, the order to their agents, and their agents' reports. Certificates are revoked by a caller
//! ([`Controller::retirements_to_revoke`]), which has the authority.

use std::collections::BTreeMap;

use canopy_controller_core::retirement::{RetireStep, Retirement};
use canopy_controller_core::{Command, Domain};
use canopy_model::retirement::{CleanUpOrder, CleanedUp};
use tokio::sync::watch;

use crate::attempts::Attempts;
use crate::due::Due;
use crate::events::Code;
use crate::{CommandError, Controller};

static STEP: Due = Due {
    is_due: Domain::retirement_is_due,
    command: || Command::AdvanceRetirements,
    done: |_| (),
    attempts: |controller| &controller.retire_book().attempts,
    failure: Code::RetirementNotAdvanced,
    meanwhile: "a retirement stays in its step",
};

/// Steps by node, as they were published.
type Steps = BTreeMap<String, (u64, RetireStep)>;

/// What follows from retirements.
#[derive(Default)]
pub(crate) struct RetireBook {
    steps: watch::Sender<Steps>,
    attempts: Attempts,
}

/// Orders to one agent to clean up.
pub struct CleanUpOrders {
    node: String,
    steps: watch::Receiver<Steps>,
    /// The order that this stream has.
    sent: Option<u64>,
}

impl CleanUpOrders {
    /// The next order; waits for ever if there is none. Cancel safe.
    pub async fn next(&mut self) -> CleanUpOrder {
        loop {
            let present = self.steps.borrow_and_update().get(&self.node).copied();
            match present {
                Some((retirement, RetireStep::CleaningUp)) if self.sent != Some(retirement) => {
                    self.sent = Some(retirement);
                    return CleanUpOrder { retirement };
                }
                _ => {}
            }
            if self.steps.changed().await.is_err() {
                return std::future::pending().await;
            }
        }
    }
}

impl Controller {
    /// Orders to the agent of a node, from the one in force on: a new stream gets it again.
    pub fn clean_up_orders(&self, node: &str) -> CleanUpOrders {
        CleanUpOrders { node: node.to_owned(), steps: self.retire_book().steps.subscribe(), sent: None }
    }

    /// Takes in that the agent of a node has cleaned up, or could not. Durable when this returns: the agent does not repeat it.
    ///
    /// # Errors
    /// It is of another retirement than the one that is under way; the store takes no changes, or the controller is stopping.
    pub async fn cleaned_up(&self, node: &str, report: CleanedUp) -> Result<(), CommandError> {
        if let Err(refused) = self.read(|d| d.check_cleaned_up(node, &report)) {
            // It is in the place of the report that a drained node's step waits for.
            self.write(|d| d.agent_leaves(node));
            self.advance_retirements();
            return Err(refused.into());
        }
        if let Some(why) = &report.failed {
            let detail = format!("the agent could not remove everything, and tries again: {why}");
            let is_news = self.write(|d| {
                let before = d.retirement(node).and_then(|retirement| retirement.failed.clone());
                d.clean_up_failed(node, report.clone());
                before.as_ref() != Some(why)
            });
            if is_news {
                self.events().note(Code::NodeRetirement, Some(node), detail);
            }
            self.node_changed(node);
            return Ok(());
        }
        self.execute(Command::NodeCleanedUp { node: node.to_owned(), report }, None, false).await.map(drop)
    }

    /// Nodes whose certificates are to be revoked, with their retirements.
    pub fn retirements_to_revoke(&self) -> Vec<(String, u64)> {
        let is_revoking = |of: &&Retirement| of.reached.step == RetireStep::Revoking;
        self.read(|d| d.retirements().filter(is_revoking).map(|of| (of.node.clone(), of.id)).collect())
    }

    /// Changes whenever a retirement takes a step.
    pub fn follow_retirements(&self) -> watch::Receiver<impl Sized + use<>> {
        self.retire_book().steps.subscribe()
    }

    /// Refuses to begin or cancel a retirement while a commit is pending.
    ///
    /// # Errors
    /// `NotReversible`.
    pub fn check_retiring(&self, node: &str) -> Result<(), CommandError> {
        if self.with_commit(|pending| pending.is_none()) {
            return Ok(());
        }
        let why = "its steps cannot be taken back, and its node may be one that the commit changes".to_owned();
        Err(CommandError::NotReversible { resource: format!("the retirement of node {node}"), why })
    }

    /// Takes the next steps that are due. Must be called on the tokio runtime.
    pub(crate) fn advance_retirements(&self) {
        // What a pending commit has made of the topology may be taken back: no step that cannot be is taken on it.
        if self.with_commit(|pending| pending.is_some()) {
            return;
        }
        self.execute_due(&STEP);
    }

    /// Publishes what has changed of retirements since the last call, with an event for each step.
    pub(crate) fn retirements_changed(&self) {
        let is_idle = self.retire_book().steps.borrow().is_empty();
        let steps =
            |d: &Domain| -> Steps { d.retirements().map(|of| (of.node.clone(), (of.id, of.reached.step))).collect() };
        let now = self.read(steps);
        if is_idle && now.is_empty() {
            return;
        }
        let mut events = Vec::new();
        self.retire_book().steps.send_if_modified(|before| {
            events.extend(
                now.iter()
                    .filter(|(node, step)| before.get(*node) != Some(*step))
                    .map(|(node, (_, step))| (node.clone(), self.described(node, *step))),
            );
            let gone = before.iter().filter(|(node, _)| !now.contains_key(*node));
            events.extend(gone.map(|(node, (_, step))| {
                let detail = if *step == RetireStep::Draining { "cancelled" } else { "forgotten" };
                (node.clone(), detail.to_owned())
            }));
            let changed = *before != now;
            *before = now;
            changed
        });
        for (node, detail) in events {
            self.events().note(Code::NodeRetirement, Some(&node), detail);
        }
    }

    /// The same at the start of a controller, without events.
    pub(crate) fn retirements_restored(&self) {
        let steps = self.read(|d| d.retirements().map(|of| (of.node.clone(), (of.id, of.reached.step))).collect());
        self.retire_book().steps.send_replace(steps);
        self.advance_retirements();
    }

    fn described(&self, node: &str, step: RetireStep) -> String {
        let Some(retirement) = self.read(|d| d.retirement(node).cloned()) else { return step.to_string() };
        match step {
            RetireStep::Draining => {
                format!("{step}: {} retires the node: {}", retirement.begun.by, retirement.spec.reason)
            }
            RetireStep::CleaningUp => {
                format!("{step}: nothing uses the node, and its agent is to remove what it programmed")
            }
            RetireStep::Revoking if retirement.removed.is_empty() => {
                format!("{step}: without a report of its agent: what it programmed may be left on its machine")
            }
            RetireStep::Revoking => format!("{step}: its agent has removed {}", retirement.removed.join(", ")),
            RetireStep::Retired => format!("{step}: the node has left; take it out of the topology"),
        }
    }
}
