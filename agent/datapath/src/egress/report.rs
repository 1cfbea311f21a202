// SPDX-License-Identifier: Apache-2.0
//! What the node measured and said, per port and per flow.

use std::collections::BTreeMap;
use std::time::Duration;

use canopy_agent_core::DatapathError;
use canopy_agent_core::congestion::Assessment;
use canopy_model::congestion::{CnpCounts, DepthSource, FlowTelemetry, PortCongestion, QueueTelemetry};
use canopy_model::ids::PortIndex;

use super::object::EgressBpf;

/// DEPTH_KERNEL of egress_shared.h.
const DEPTH_KERNEL: u32 = 1;

/// What the watcher leaves for the report.
#[derive(Clone, Debug, Default)]
pub(crate) struct Watched {
    pub(crate) ports: BTreeMap<PortIndex, WatchedPort>,
    /// Time between two looks.
    pub(crate) every: Duration,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct WatchedPort {
    pub(crate) ifindex: u32,
    pub(crate) queue_bytes: u64,
    pub(crate) assessment: Option<Assessment>,
    pub(crate) counts: CnpCounts,
    /// Of the last window that closed.
    pub(crate) flows: Vec<FlowTelemetry>,
    peak: Peak,
    peak_before: Peak,
}

/// The worst of a window.
#[derive(Clone, Copy, Debug, Default)]
struct Peak {
    queue_bytes: u64,
    level: u8,
}

impl WatchedPort {
    /// One look.
    pub(crate) fn seen(&mut self, queue_bytes: u64, assessment: Option<Assessment>) {
        (self.queue_bytes, self.assessment) = (queue_bytes, assessment);
        self.peak.queue_bytes = self.peak.queue_bytes.max(queue_bytes);
        self.peak.level = self.peak.level.max(assessment.map_or(0, |a| a.level));
    }

    /// The end of a window.
    pub(crate) fn close(&mut self, flows: Vec<FlowTelemetry>) {
        self.flows = flows;
        self.peak_before = std::mem::take(&mut self.peak);
    }
}

/// Ports that have limits, in order.
pub(crate) fn report(egress: &EgressBpf, watched: Watched) -> Result<Vec<PortCongestion>, DatapathError> {
    let every_ms = u32::try_from(watched.every.as_millis()).unwrap_or(u32::MAX).max(1);
    let of_port = |(port, seen): (PortIndex, WatchedPort)| {
        let stats = egress.stats(seen.ifindex)?;
        let depth_source = egress.state(seen.ifindex)?.map(|state| match state.source {
            DEPTH_KERNEL => DepthSource::Kernel,
            _ => DepthSource::Sampled { every_ms },
        });
        let reading = seen.assessment.map(|a| a.reading).unwrap_or_default();
        let queue = QueueTelemetry {
            queue_bytes: seen.queue_bytes,
            peak_queue_bytes: seen.peak.queue_bytes.max(seen.peak_before.queue_bytes),
            depth_source,
            level: seen.assessment.map_or(0, |a| a.level),
            peak_level: seen.peak.level.max(seen.peak_before.level),
            emr_permille: reading.emr_permille,
            qgr_bytes_per_ms: reading.qgr_bytes_per_ms,
            packets: stats.packets,
            bytes: stats.bytes,
            marked: stats.marked,
            ce: stats.ce,
            not_ect: stats.not_ect,
            counts: seen.counts,
        };
        Ok(PortCongestion { port, queue, flows: seen.flows })
    };
    watched.ports.into_iter().map(of_port).collect()
}
