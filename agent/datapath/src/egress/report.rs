// SPDX-License-Identifier: Apache-2.0
//! Telemetry of the ports and flows: measurements, and CNPs sent.

use std::collections::BTreeMap;
use std::time::Duration;

use canopy_agent_core::congestion::Assessment;
use canopy_model::congestion::{CnpCounts, DepthSource, FlowTelemetry, PortCongestion, QueueTelemetry};
use canopy_model::ids::PortIndex;
use canopy_units::Octets;

use canopy_bpf::Result;
use canopy_bpf::node::types::canopy_depth_source as Source;

use super::Egress;

/// Observations of the watcher thread.
#[derive(Clone, Debug, Default)]
pub(crate) struct Observations {
    pub(crate) ports: BTreeMap<PortIndex, PortObservation>,
    /// Time between two polls.
    pub(crate) interval: Duration,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct PortObservation {
    pub(crate) ifindex: u32,
    /// Queue depth.
    pub(crate) queue: Octets,
    pub(crate) assessment: Option<Assessment>,
    pub(crate) counts: CnpCounts,
    /// Flows of the last closed window.
    pub(crate) flows: Vec<FlowTelemetry>,
    peak: Peak,
    peak_before: Peak,
}

/// Maxima of a window.
#[derive(Clone, Copy, Debug, Default)]
struct Peak {
    queue: Octets,
    level: u8,
}

impl PortObservation {
    /// Adds one poll.
    pub(crate) fn add(&mut self, queue: Octets, assessment: Option<Assessment>) {
        (self.queue, self.assessment) = (queue, assessment);
        self.peak.queue = self.peak.queue.max(queue);
        self.peak.level = self.peak.level.max(assessment.map_or(0, |a| a.level));
    }

    /// Ends the window.
    pub(crate) fn close(&mut self, flows: Vec<FlowTelemetry>) {
        self.flows = flows;
        self.peak_before = std::mem::take(&mut self.peak);
    }
}

/// Telemetry of the ports that have limits, in order.
pub(crate) fn report(egress: &Egress, observations: Observations) -> Result<Vec<PortCongestion>> {
    let millis = u32::try_from(observations.interval.as_millis()).unwrap_or(u32::MAX).max(1);
    let every = Duration::from_millis(millis.into());
    let of_port = |(port, observed): (PortIndex, PortObservation)| {
        let stats = egress.stats(observed.ifindex)?;
        // Before the first data packet no depth was read.
        let depth_source = (stats.seen_ns != 0).then_some(match Source(stats.source) {
            Source::DEPTH_KERNEL => DepthSource::Kernel,
            _ => DepthSource::Sampled { every },
        });
        let reading = observed.assessment.map(|a| a.reading).unwrap_or_default();
        let queue = QueueTelemetry {
            queue: observed.queue,
            peak_queue: observed.peak.queue.max(observed.peak_before.queue),
            depth_source,
            level: observed.assessment.map_or(0, |a| a.level),
            peak_level: observed.peak.level.max(observed.peak_before.level),
            emr_permille: reading.emr_permille,
            qgr_per_ms: reading.qgr_per_ms,
            packets: stats.packets,
            octets: Octets(stats.bytes),
            marked: stats.marked,
            ce: stats.ce,
            not_ect: stats.not_ect,
            counts: observed.counts,
        };
        Ok(PortCongestion { port, queue, flows: observed.flows })
    };
    observations.ports.into_iter().map(of_port).collect()
}
