// SPDX-License-Identifier: Apache-2.0
//! The flows that sent most in the last window, by the difference of their totals at its ends.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use canopy_agent_core::congestion::{FlowKey, Node, Origin};
use canopy_model::congestion::{CnpCounts, FlowOrigin, FlowTelemetry, MAX_REPORTED_FLOWS};
use canopy_model::ids::PortIndex;
use canopy_units::{Monotonic, Octets, Rate};

/// Minimum length of a window.
const WINDOW: Duration = Duration::from_secs(1);

/// Totals of the flows in the kernel's tables, by interface and flow.
pub(crate) type Flows = BTreeMap<(u32, FlowKey), FlowTotals>;

/// Totals of a flow at a port.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FlowTotals {
    pub(crate) packets: u64,
    pub(crate) octets: Octets,
    pub(crate) ce: u64,
    /// Octets received with CE.
    pub(crate) ce_in: Octets,
    /// Time of the last packet.
    pub(crate) seen: Monotonic,
}

/// A port at the end of a window: its index, and the octets of all its data packets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PortTotals {
    pub(crate) index: PortIndex,
    pub(crate) octets: Octets,
}

/// The open window.
#[derive(Debug, Default)]
pub(crate) struct Window {
    start: Option<WindowStart>,
}

#[derive(Debug)]
struct WindowStart {
    at: Monotonic,
    flows: Arc<Flows>,
    /// By interface.
    ports: BTreeMap<u32, Octets>,
}

impl Window {
    /// Whether the window has reached its length.
    pub(crate) fn has_ended(&self, now: Monotonic) -> bool {
        self.start.as_ref().is_none_or(|start| now.since(start.at) >= WINDOW)
    }

    /// Closes the window and opens the next one. Returns the flows to report, at most [`MAX_REPORTED_FLOWS`]: those that sent most, then
    /// those for which most CNPs were counted. `ports` is by interface; flows at other interfaces are left out.
    pub(crate) fn close(
        &mut self,
        flows: Arc<Flows>,
        ports: &BTreeMap<u32, PortTotals>,
        node: &Node,
        now: Monotonic,
    ) -> BTreeMap<PortIndex, Vec<FlowTelemetry>> {
        let octets = ports.iter().map(|(ifindex, port)| (*ifindex, port.octets)).collect();
        let before = self.start.replace(WindowStart { at: now, flows: Arc::clone(&flows), ports: octets });
        let of_ports = ports.values().map(|port| (port.index, node.flow_counts(port.index).collect()));
        let counts: BTreeMap<PortIndex, BTreeMap<FlowKey, CnpCounts>> = of_ports.collect();
        let mut reported = Vec::new();
        for ((ifindex, key), flow) in &*flows {
            let Some(port) = ports.get(ifindex) else { continue };
            let sent = before.as_ref().map_or(Octets::ZERO, |before| before.sent(*ifindex, key, flow));
            let counts = counts.get(&port.index).and_then(|of_port| of_port.get(key)).copied().unwrap_or_default();
            if sent > Octets::ZERO || counts.total() > 0 {
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
                octets: flow.octets,
                ce: flow.ce,
                rate: before.as_ref().map_or(Rate::ZERO, |before| before.rate(sent, now)),
                share_permille: before.as_ref().map_or(0, |before| before.share(sent, ifindex, port.octets)),
                counts,
            });
        }
        by_port
    }
}

impl WindowStart {
    /// Octets of a flow since the window start. A flow that left the table and was added again counts from zero.
    fn sent(&self, ifindex: u32, key: &FlowKey, flow: &FlowTotals) -> Octets {
        let old = self.flows.get(&(ifindex, *key)).map_or(Octets::ZERO, |old| old.octets);
        flow.octets.checked_sub(old).unwrap_or(flow.octets)
    }

    fn rate(&self, sent: Octets, now: Monotonic) -> Rate {
        Rate::of(sent, now.since(self.at))
    }

    /// The counters are not read at the same time, so a share can be slightly too large.
    fn share(&self, sent: Octets, ifindex: u32, of_port: Octets) -> u16 {
        let all = of_port.saturating_sub(self.ports.get(&ifindex).copied().unwrap_or_default());
        (u128::from(sent.get()) * 1_000).checked_div(u128::from(all.get())).unwrap_or(0).min(1_000) as u16
    }
}

fn flow_origin(origin: Origin) -> FlowOrigin {
    match origin {
        Origin::Learned => FlowOrigin::Learned,
        Origin::Cm => FlowOrigin::Cm,
        Origin::Provisioned => FlowOrigin::Provisioned,
    }
}
