// SPDX-License-Identifier: Apache-2.0
//! Links: round-trip times, losses and queue reports in; one command that pushes changed thresholds to all nodes concerned out.

use canopy_controller_core::view::FlowView;
use canopy_controller_core::{Command, Domain, LossNews};
use canopy_model::congestion::PortCongestion;
use canopy_model::telemetry::{GroupTelemetry, LinkLoss, LinkRtt};
use canopy_units::UnixTime;

use crate::Controller;
use crate::due::Due;
use crate::events::Code;

static PUSH: Due = Due {
    is_due: Domain::thresholds_are_due,
    command: || Command::PushThresholds,
    done: |_| {},
    attempts: Controller::threshold_pushes,
    failure: Code::ThresholdsNotPushed,
    meanwhile: "nodes keep their present thresholds",
};

impl Controller {
    /// Processes the round-trip times that a node's agent measured. Returns at once; new thresholds are pushed by a
    /// command behind those that wait. Must be called on the tokio runtime.
    pub fn link_rtts(&self, node: &str, rtts: &[LinkRtt]) {
        if rtts.is_empty() {
            return;
        }
        let now = self.now();
        self.write(|d| d.link_rtts(node, rtts, now));
        self.push_thresholds();
    }

    /// Processes what became of the Echo Requests of a node's agent: links that lose packets are named in an event and in the condition of
    /// their groups. Must be called on the tokio runtime.
    pub fn link_losses(&self, node: &str, losses: &[LinkLoss]) {
        if losses.is_empty() {
            return;
        }
        let now = self.now();
        for LossNews { link, node, is_lossy, detail, groups } in self.write(|d| d.link_losses(node, losses, now)) {
            let code = if is_lossy { Code::LinkLossy } else { Code::LinkLossEnded };
            tracing::warn!(%code, link, node, "{detail}");
            self.events().note(code, Some(&node), detail);
            if !groups.is_empty() {
                self.groups_changed(&groups);
            }
        }
        // One that may have been silent because a queue dropped everything is led around when no queue drops any more.
        if self.read(|d| d.reports_silence(node)) {
            self.ports_reported(node);
        }
    }

    /// A stream of telemetry of a node begins: its first sample, which follows, has all groups that the node has.
    pub fn telemetry_begins(&self, node: &str) {
        let now = self.now();
        self.write(|d| d.telemetry_begins(node, now));
    }

    /// Processes what a node counted of its groups' data, behind the losses of the same sample: links on which none arrives are led around.
    /// Must be called on the tokio runtime.
    /// `others_at_rest`: of the node's other groups nothing has changed.
    pub fn data_samples<'a>(
        &self,
        node: &str,
        samples: impl Iterator<Item = &'a GroupTelemetry>,
        others_at_rest: bool,
    ) {
        let now = self.now();
        for changed in self.write(|d| d.data_samples(node, samples, others_at_rest, now)) {
            self.ports_reported(&changed);
        }
    }

    /// Stores the queue state that a node's agent reported, and when by its clock.
    pub fn queues(&self, node: &str, reports: Vec<PortCongestion>, taken: UnixTime) {
        let now = self.now();
        self.write(|d| d.queues(node, reports, taken, now));
    }

    /// The flows that agents reported, restricted to `node` and `port` where given.
    pub fn flows(&self, node: Option<&str>, port: Option<&str>) -> Vec<FlowView> {
        let now = self.now();
        self.read(|d| d.flows(node, port, now))
    }

    /// Pushes the thresholds that are due. Must be called on the tokio runtime.
    pub(crate) fn push_thresholds(&self) {
        self.execute_due(&PUSH);
    }
}
