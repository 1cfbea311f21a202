// SPDX-License-Identifier: Apache-2.0
//! Link directions as the northbound API shows them.

use canopy_model::topology::Endpoint;

use super::Domain;
use super::links::{Declared, Queue, label};
use crate::view::{FlowView, LinkCongestion, LinkDesired, LinkObserved, LinkRttView, LinkView};

/// Reports older than this are not shown. Agents report once per telemetry interval, 1 s by default.
const STALE_NS: u64 = 60_000_000_000;

impl Domain {
    /// Every link direction out of a node's port, in the topology's order; `now_ns` is on the clock of
    /// [`Domain::link_rtts`].
    pub fn links(&self, now_ns: u64) -> Vec<LinkView> {
        self.declared_links().into_iter().filter_map(|declared| self.link_view(declared, now_ns)).collect()
    }

    /// The direction out of `port` of `node`.
    pub fn link(&self, node: &str, port: &str, now_ns: u64) -> Option<LinkView> {
        let mut all = self.declared_links().into_iter();
        let declared = all.find(|d| d.from.device == node && d.from.port == port)?;
        self.link_view(declared, now_ns)
    }

    /// The flows that agents reported, in the topology's order, each port's in the agent's order; restricted to `node`
    /// and `port` where given.
    pub fn flows(&self, node: Option<&str>, port: Option<&str>, now_ns: u64) -> Vec<FlowView> {
        let mut flows = Vec::new();
        for declared in self.declared_links() {
            let from = &declared.from;
            if node.is_some_and(|node| node != from.device) || port.is_some_and(|port| port != from.port) {
                continue;
            }
            let Some((queue, reported_ago_ns)) = self.fresh_queue(from, now_ns) else { continue };
            let of_port = queue.report.flows.iter().map(|flow| FlowView {
                node: from.device.clone(),
                port: from.port.clone(),
                flow: *flow,
                reported_ago_ns,
            });
            flows.extend(of_port);
        }
        flows
    }

    fn fresh_queue(&self, from: &Endpoint, now_ns: u64) -> Option<(&Queue, u64)> {
        let queue = self.direction(from)?.queue.as_ref()?;
        let ago_ns = now_ns.saturating_sub(queue.at_ns);
        (ago_ns <= STALE_NS).then_some((queue, ago_ns))
    }

    fn link_view(&self, declared: Declared, now_ns: u64) -> Option<LinkView> {
        let topology = self.topology.as_ref()?;
        let Declared { link, from, to, settings, port, rtt_us } = declared;
        let direction = self.direction(&from);
        let machine = direction.and_then(|d| d.machine.as_ref());
        let report = direction.and_then(|d| d.report);
        let pushed = machine.and_then(|m| m.pushed());
        let configured_ns = rtt_us.map(|us| us * 1_000);
        let rtt = LinkRttView {
            configured_ns,
            measured_ns: report.and_then(|r| r.rtt_ns),
            filtered_ns: machine.and_then(|m| m.measured_ns()),
            estimate_ns: machine.map_or(configured_ns, |m| m.estimate_ns()),
            samples: report.map_or(0, |r| r.samples),
            lost: report.map_or(0, |r| r.lost),
            reported_ago_ns: report.map(|r| now_ns.saturating_sub(r.at_ns)),
        };
        let reason = match (pushed, port.rate_bps) {
            (Some(_), _) => String::new(),
            (None, 0) => "the rate is not known: set rateBps of the link".to_owned(),
            (None, _) if topology.network.node(&to.device).is_none() => {
                format!("no round-trip time: {} is a host and does not answer STAMP: set rttUs of the link", to.device)
            }
            (None, _) => format!(
                "no round-trip time yet: the agents of {} and {} measure it when both run, or set rttUs of the link",
                from.device, to.device
            ),
        };
        let spec = LinkDesired {
            link: label(&topology.network, link),
            to: to.to_string(),
            rate_bps: port.rate_bps,
            buffer_bytes: port.buffer_bytes,
            alpha: settings.alpha_permille,
            k_base_bytes: settings.k_base_bytes,
            rtt_us,
        };
        let status = LinkObserved {
            rtt,
            thresholds: pushed.map(|p| p.thresholds),
            reason,
            pushes: machine.map_or(0, |m| m.pushes()),
            pushed_ago_ns: pushed.map(|p| now_ns.saturating_sub(p.at_ns)),
            pushed_rtt_ns: pushed.map(|p| p.rtt_ns),
            congestion: self
                .fresh_queue(&from, now_ns)
                .map(|(queue, reported_ago_ns)| LinkCongestion { queue: queue.report.queue, reported_ago_ns }),
        };
        Some(LinkView { name: from.to_string(), generation: topology.metadata.generation, spec, status })
    }
}
