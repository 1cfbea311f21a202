// SPDX-License-Identifier: Apache-2.0
//! The flows that sent most in the last window, by the difference of their totals at its ends.

use std::collections::BTreeMap;
use std::sync::Arc;

use canopy_agent_core::congestion::{FlowKey, Node, Origin};
use canopy_model::congestion::{CnpCounts, FlowOrigin, FlowTelemetry, MAX_REPORTED_FLOWS};
use canopy_model::ids::PortIndex;

/// Minimum length of a window.
const WINDOW_NS: u64 = 1_000_000_000;

/// Totals of the flows in the kernel's tables, by interface and flow.
pub(crate) type Flows = BTreeMap<(u32, FlowKey), FlowTotals>;

/// Totals of a flow at a port.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FlowTotals {
    pub(crate) packets: u64,
    pub(crate) bytes: u64,
    pub(crate) ce: u64,
    /// Octets received with CE.
    pub(crate) ce_in_bytes: u64,
    /// CLOCK_MONOTONIC.
    pub(crate) seen_ns: u64,
}

/// A port at the end of a window: its index, and the octets of all its data packets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PortTotals {
    pub(crate) index: PortIndex,
    pub(crate) bytes: u64,
}

/// The open window.
#[derive(Debug, Default)]
pub(crate) struct Window {
    start: Option<WindowStart>,
}

#[derive(Debug)]
struct WindowStart {
    at_ns: u64,
    flows: Arc<Flows>,
    /// Octets, by interface.
    ports: BTreeMap<u32, u64>,
}

impl Window {
    /// Whether the window has reached its length.
    pub(crate) fn has_ended(&self, now_ns: u64) -> bool {
        self.start.as_ref().is_none_or(|start| now_ns.saturating_sub(start.at_ns) >= WINDOW_NS)
    }

    /// Closes the window and opens the next one. Returns the flows to report, at most [`MAX_REPORTED_FLOWS`]: those that sent most, then
    /// those for which most CNPs were counted. `ports` is by interface; flows at other interfaces are left out.
    pub(crate) fn close(
        &mut self,
        flows: Arc<Flows>,
        ports: &BTreeMap<u32, PortTotals>,
        node: &Node,
        now_ns: u64,
    ) -> BTreeMap<PortIndex, Vec<FlowTelemetry>> {
        let octets = ports.iter().map(|(ifindex, port)| (*ifindex, port.bytes)).collect();
        let before = self.start.replace(WindowStart { at_ns: now_ns, flows: Arc::clone(&flows), ports: octets });
        let of_ports = ports.values().map(|port| (port.index, node.flow_counts(port.index).collect()));
        let counts: BTreeMap<PortIndex, BTreeMap<FlowKey, CnpCounts>> = of_ports.collect();
        let mut reported = Vec::new();
        for ((ifindex, key), flow) in &*flows {
            let Some(port) = ports.get(ifindex) else { continue };
            let sent = before.as_ref().map_or(0, |before| before.sent(*ifindex, key, flow));
            let counts = counts.get(&port.index).and_then(|of_port| of_port.get(key)).copied().unwrap_or_default();
            if sent > 0 || counts.total() > 0 {
                reported.push((sent, counts, *ifindex, *key, *flow));
            }
        }
        reported.sort_by(|a, b| {
            let most = b.0.cmp(&a.0).then_with(|| b.1.total().cmp(&a.1.total()));
            most.then_with(|| (a.2, a.3).cmp(&(b.2, b.3)))
        });
        let mut by_port: BTreeMap<PortIndex, Vec<FlowTelemetry>> = BTreeMap::new();
        for (sent, counts, ifindex, key, flow) in reported.into_iter().take(MAX_REPORTED_FLOWS) {
            let Some(port) = ports.get(&ifindex) else { continue };
            let (src_qp, origin) = node.src_qp(&key).map(|(qp, origin)| (qp, flow_origin(origin))).unzip();
            by_port.entry(port.index).or_default().push(FlowTelemetry {
                src: key.src,
                dst: key.dst,
                dst_qp: key.dst_qp,
                src_qp,
                origin: origin.unwrap_or_default(),
                packets: flow.packets,
                bytes: flow.bytes,
                ce: flow.ce,
                rate_bps: before.as_ref().map_or(0, |before| before.rate_bps(sent, now_ns)),
                share_permille: before.as_ref().map_or(0, |before| before.share(sent, ifindex, port.bytes)),
                counts,
            });
        }
        by_port
    }
}

impl WindowStart {
    /// Octets of a flow since the window start. A flow that left the table and was added again counts from zero.
    fn sent(&self, ifindex: u32, key: &FlowKey, flow: &FlowTotals) -> u64 {
        let old = self.flows.get(&(ifindex, *key)).map_or(0, |old| old.bytes);
        flow.bytes.checked_sub(old).unwrap_or(flow.bytes)
    }

    fn rate_bps(&self, sent: u64, now_ns: u64) -> u64 {
        let elapsed = u128::from(now_ns.saturating_sub(self.at_ns).max(1));
        u64::try_from(u128::from(sent) * 8_000_000_000 / elapsed).unwrap_or(u64::MAX)
    }

    /// The counters are not read at the same time, so a share can be slightly too large.
    fn share(&self, sent: u64, ifindex: u32, port_bytes: u64) -> u16 {
        let all = port_bytes.saturating_sub(self.ports.get(&ifindex).copied().unwrap_or(0));
        (u128::from(sent) * 1_000).checked_div(u128::from(all)).unwrap_or(0).min(1_000) as u16
    }
}

fn flow_origin(origin: Origin) -> FlowOrigin {
    match origin {
        Origin::Learned => FlowOrigin::Learned,
        Origin::Cm => FlowOrigin::Cm,
        Origin::Provisioned => FlowOrigin::Provisioned,
    }
}
