// SPDX-License-Identifier: Apache-2.0
//! What operators have taken out of service, and which problems are silenced: drains, retirements and silences.

use canopy_model::retirement::CleanedUp;
use canopy_units::UnixTime;

use super::retire_commands::RetireCommands;
use super::{Domain, drain_commands, leaving};
use crate::error::DomainError;
use crate::health::ProblemKey;
use crate::retirement::Retirement;
use crate::view::{DrainView, SilenceView};

impl Domain {
    /// All drains, in name order.
    pub fn drains(&self) -> Vec<DrainView> {
        self.state.drains.all().map(|drain| drain_commands::view(&self.state, drain)).collect()
    }

    /// The drain that ends first by itself, and when.
    pub fn next_drain_end(&self) -> Option<(UnixTime, &str)> {
        self.state.drains.next_end()
    }

    /// True when [`Command::AdvanceRetirements`] would take a step.
    pub fn retirement_is_due(&self) -> bool {
        RetireCommands(&self.state).is_due()
    }

    /// Nodes that leave for good, or have left, by name.
    pub fn retirements(&self) -> impl Iterator<Item = &Retirement> {
        self.state.retirements.values().filter(|of| !of.enrolled)
    }

    /// That of a node.
    pub fn retirement(&self, node: &str) -> Option<&Retirement> {
        self.state.retirements.get(node).filter(|of| !of.enrolled)
    }

    /// Whether the report of a node's agent is of the retirement that is under way, if one is.
    ///
    /// # Errors
    /// `InUse`: it is of another one.
    pub fn check_cleaned_up(&self, node: &str, report: &CleanedUp) -> Result<(), DomainError> {
        leaving::check_report(&self.state, node, report.retirement)
    }

    /// Notes that the agent of a node cleans up, for whichever retirement: such an agent sends no other report, which would show that it can.
    pub fn agent_leaves(&mut self, node: &str) {
        if let Some(retirement) = self.state.retirements.get_mut(node) {
            retirement.agent_leaves = true;
        }
    }

    /// Notes why the agent of a node could not remove everything. Of another retirement it is ignored.
    pub fn clean_up_failed(&mut self, node: &str, report: CleanedUp) {
        let retirement = self.state.retirements.get_mut(node);
        if let Some(retirement) = retirement.filter(|of| of.id == report.retirement) {
            retirement.failed = report.failed;
        }
    }

    /// All silences, in name order.
    pub fn silences(&self) -> Vec<SilenceView> {
        self.state.silences.all().map(Into::into).collect()
    }

    /// One silence.
    pub fn silence(&self, name: &str) -> Option<SilenceView> {
        self.state.silences.get(name).map(Into::into)
    }

    /// The silence that is in force for a problem: of several the one that ends last.
    pub fn silence_of(&self, problem: &ProblemKey, now: UnixTime) -> Option<SilenceView> {
        self.state.silences.of(problem, now).map(Into::into)
    }

    /// Names of the silences whose time has passed.
    pub fn ended_silences(&self, now: UnixTime) -> impl Iterator<Item = &str> {
        self.state.silences.ended(now)
    }

    /// Another number whenever another problem may be silenced.
    pub fn silences_version(&self, now: UnixTime) -> u64 {
        self.state.silences.version(now)
    }

    /// One drain.
    pub fn drain(&self, name: &str) -> Option<DrainView> {
        self.state.drains.get(name).map(|drain| drain_commands::view(&self.state, drain))
    }
}
