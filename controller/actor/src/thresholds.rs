// SPDX-License-Identifier: Apache-2.0
//! Links: round-trip times and queues in; one command for all nodes that have to be told thresholds out.

use std::sync::atomic::Ordering;

use canopy_controller_core::Command;
use canopy_controller_core::view::{FlowView, LinkView};
use canopy_model::congestion::PortCongestion;
use canopy_model::telemetry::LinkRtt;

use crate::Controller;

impl Controller {
    /// Takes in what a node's agent measured. Returns at once; what follows is told behind the commands that wait. Call it
    /// on the tokio runtime.
    pub fn link_rtts(&self, node: &str, rtts: &[LinkRtt]) {
        if rtts.is_empty() {
            return;
        }
        let now_ns = self.now_ns();
        self.write(|d| d.link_rtts(node, rtts, now_ns));
        self.push_thresholds();
    }

    /// Takes in what a node's agent told of its queues.
    pub fn queues(&self, node: &str, told: Vec<PortCongestion>) {
        let now_ns = self.now_ns();
        self.write(|d| d.queues(node, told, now_ns));
    }

    /// The flows that agents told of, only of `node` and only of `port` where these are given.
    pub fn flows(&self, node: Option<&str>, port: Option<&str>) -> Vec<FlowView> {
        let now_ns = self.now_ns();
        self.read(|d| d.flows(node, port, now_ns))
    }

    /// Every link direction that a node sends in.
    pub fn links(&self) -> Vec<LinkView> {
        let now_ns = self.now_ns();
        self.read(|d| d.links(now_ns))
    }

    /// The direction that `port` of `node` sends in.
    pub fn link(&self, node: &str, port: &str) -> Option<LinkView> {
        let now_ns = self.now_ns();
        self.read(|d| d.link(node, port, now_ns))
    }

    /// Takes in what a new topology says of links.
    pub(crate) fn tune_links(&self) {
        let now_ns = self.now_ns();
        self.write(|d| d.tune_links(now_ns));
        self.push_thresholds();
    }

    /// One task pushes for everybody: what becomes due while a commit is under way goes with the next.
    fn push_thresholds(&self) {
        if !self.read(|d| d.thresholds_are_due()) || self.pushing().swap(true, Ordering::AcqRel) {
            return;
        }
        let this = self.clone();
        tokio::spawn(async move {
            loop {
                let done = this.execute(Command::PushThresholds, None, false).await;
                this.pushing().store(false, Ordering::Release);
                if let Err(e) = done {
                    // The next sample tries again.
                    this.events().note("ThresholdsNotPushed", None, None, format!("nodes keep what they have: {e}"));
                    return;
                }
                if !this.read(|d| d.thresholds_are_due()) || this.pushing().swap(true, Ordering::AcqRel) {
                    return;
                }
            }
        });
    }
}
