// SPDX-License-Identifier: Apache-2.0
//! What the node measured and said, per port and per flow.

use std::collections::BTreeMap;
use std::time::Duration;

use canopy_agent_core::DatapathError;
use canopy_agent_core::congestion::{Action, Assessment, Counts, FlowKey};
use canopy_model::ids::PortIndex;

use super::keys;
use super::object::EgressBpf;

/// DEPTH_KERNEL of egress_shared.h.
const DEPTH_KERNEL: u32 = 1;

/// Where the depth that packets are judged by comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DepthSource {
    /// Read by the program as each packet enters the queue.
    Kernel,
    /// Asked for by netlink, once in this time.
    Sampled(Duration),
}

impl std::fmt::Display for DepthSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Kernel => f.write_str("kernel"),
            Self::Sampled(every) => write!(f, "sampled, {} ms", every.as_millis()),
        }
    }
}

/// Long-haul CNPs sent, by action.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Said {
    /// Notify.
    pub notify: u64,
    /// Pause.
    pub pause: u64,
    /// Rate Reduce.
    pub rate_reduce: u64,
    /// Resume.
    pub resume: u64,
    /// Composed, but the kernel would not send them.
    pub failed: u64,
}

impl Said {
    /// All that were sent.
    pub fn sent(&self) -> u64 {
        self.notify + self.pause + self.rate_reduce + self.resume
    }

    pub(crate) fn count(&mut self, action: Action, sent: bool) {
        *match action {
            _ if !sent => &mut self.failed,
            Action::Notify => &mut self.notify,
            Action::Pause { .. } => &mut self.pause,
            Action::RateReduce(_) => &mut self.rate_reduce,
            Action::Resume(_) => &mut self.resume,
        } += 1;
    }
}

/// An egress port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortReport {
    /// Which.
    pub port: PortIndex,
    /// Octets in the queue at the last look (QD).
    pub queue_bytes: u64,
    /// Where the depth is from that packets are marked by; `None` before the first data packet.
    pub depth_source: Option<DepthSource>,
    /// The last reading with EMR, QGR and Congestion Level; `None` before the first interval ended.
    pub assessment: Option<Assessment>,
    /// Data packets, and their octets from the Ethernet header on.
    pub packets: u64,
    /// Octets.
    pub bytes: u64,
    /// Packets marked CE here.
    pub marked: u64,
    /// Packets that left marked CE, here or before.
    pub ce: u64,
    /// Packets above K_min that are not ECN capable.
    pub not_ect: u64,
    /// Second-level events of the program, and those that it held back: for the flow's sake, and for the port's.
    pub events: u64,
    /// Held back: less than an RTT since the flow's last.
    pub events_flow_limited: u64,
    /// Held back: the port's rate.
    pub events_port_limited: u64,
    /// Lost: the ring buffer was full.
    pub events_lost: u64,
    /// Long-haul CNPs.
    pub said: Said,
}

/// A flow at an egress port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowReport {
    /// Egress port.
    pub port: PortIndex,
    /// Which.
    pub flow: FlowKey,
    /// Data packets.
    pub packets: u64,
    /// Octets.
    pub bytes: u64,
    /// Packets that left marked CE.
    pub ce: u64,
    /// Long-haul CNPs about the flow, for all ports.
    pub said: Said,
}

/// Everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CongestionReport {
    /// Ports that have limits, in order.
    pub ports: Vec<PortReport>,
    /// The flows with most octets on these ports, largest first.
    pub flows: Vec<FlowReport>,
    /// What was sent, held back and suppressed, over all ports.
    pub counts: Counts,
    /// Flows in the kernel's table, all ports.
    pub flows_seen: usize,
}

/// What the watcher leaves for the report.
#[derive(Clone, Debug, Default)]
pub(crate) struct Watched {
    pub(crate) ports: BTreeMap<PortIndex, WatchedPort>,
    pub(crate) flows: BTreeMap<FlowKey, (Said, u64)>,
    pub(crate) counts: Counts,
    /// Time between two looks.
    pub(crate) every: Duration,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct WatchedPort {
    pub(crate) ifindex: u32,
    pub(crate) queue_bytes: u64,
    pub(crate) assessment: Option<Assessment>,
    pub(crate) said: Said,
}

/// The report, with at most `top` flows.
pub(crate) fn report(egress: &EgressBpf, watched: &Watched, top: usize) -> Result<CongestionReport, DatapathError> {
    let mut ports = Vec::new();
    let mut port_of = BTreeMap::new();
    for (index, port) in &watched.ports {
        let stats = egress.stats(port.ifindex)?;
        let source = egress.state(port.ifindex)?.map(|state| match state.source {
            DEPTH_KERNEL => DepthSource::Kernel,
            _ => DepthSource::Sampled(watched.every),
        });
        port_of.insert(port.ifindex, *index);
        ports.push(PortReport {
            port: *index,
            queue_bytes: port.queue_bytes,
            depth_source: source,
            assessment: port.assessment,
            packets: stats.packets,
            bytes: stats.bytes,
            marked: stats.marked,
            ce: stats.ce,
            not_ect: stats.not_ect,
            events: stats.events,
            events_flow_limited: stats.flow_limited,
            events_port_limited: stats.port_limited,
            events_lost: stats.lost,
            said: port.said,
        });
    }
    let all = egress.flows()?;
    let flows_seen = all.len();
    let mut flows: Vec<_> = all
        .into_iter()
        .filter_map(|(key, flow)| Some((*port_of.get(&key.ifindex)?, keys::flow(&key)?, flow)))
        .map(|(port, key, flow)| FlowReport {
            port,
            flow: key,
            packets: flow.packets,
            bytes: flow.bytes,
            ce: flow.ce,
            said: watched.flows.get(&key).map_or_else(Said::default, |(said, _)| *said),
        })
        .collect();
    flows.sort_by(|a, b| b.bytes.cmp(&a.bytes).then_with(|| (a.port, a.flow).cmp(&(b.port, b.flow))));
    flows.truncate(top);
    Ok(CongestionReport { ports, flows, counts: watched.counts, flows_seen })
}
