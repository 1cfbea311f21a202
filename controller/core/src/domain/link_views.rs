// SPDX-License-Identifier: Apache-2.0
//! Link directions as the northbound API shows them.

use canopy_model::topology::Endpoint;

use super::links::{Declared, Links, Queue, label};
use super::state::State;
use crate::view::{FlowView, LinkCongestion, LinkDesired, LinkObserved, LinkRttView, LinkView};

/// Reports older than this are not shown. Agents report once per telemetry interval, 1 s by default.
const STALE_NS: u64 = 60_000_000_000;

/// Views at a time.
pub(super) struct LinkViews<'a> {
    pub(super) state: &'a State,
    pub(super) links: &'a Links,
    pub(super) now_ns: u64,
}

impl LinkViews<'_> {
    /// See [`super::Domain::links`].
    pub(super) fn all(&self) -> Vec<LinkView> {
        self.links.declared(self.state).into_iter().filter_map(|declared| self.view(declared)).collect()
    }

    /// See [`super::Domain::link`].
    pub(super) fn one(&self, node: &str, port: &str) -> Option<LinkView> {
        let mut all = self.links.declared(self.state).into_iter();
        let declared = all.find(|d| d.from.device == node && d.from.port == port)?;
        self.view(declared)
    }

    /// See [`super::Domain::flows`].
    pub(super) fn flows(&self, node: Option<&str>, port: Option<&str>) -> Vec<FlowView> {
        let mut flows = Vec::new();
        for declared in self.links.declared(self.state) {
            let from = &declared.from;
            if node.is_some_and(|node| node != from.device) || port.is_some_and(|port| port != from.port) {
                continue;
            }
            let Some((queue, reported_ago_ns)) = self.fresh_queue(from) else { continue };
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

    fn fresh_queue(&self, from: &Endpoint) -> Option<(&Queue, u64)> {
        let queue = self.links.direction(from)?.queue.as_ref()?;
        let ago_ns = self.now_ns.saturating_sub(queue.at_ns);
        (ago_ns <= STALE_NS).then_some((queue, ago_ns))
    }

    fn view(&self, declared: Declared) -> Option<LinkView> {
        let topology = self.state.topology.as_ref()?;
        let Declared { link, from, to, settings, port, rtt_us } = declared;
        let direction = self.links.direction(&from);
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
            reported_ago_ns: report.map(|r| self.now_ns.saturating_sub(r.at_ns)),
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
            pushed_ago_ns: pushed.map(|p| self.now_ns.saturating_sub(p.at_ns)),
            pushed_rtt_ns: pushed.map(|p| p.rtt_ns),
            congestion: self
                .fresh_queue(&from)
                .map(|(queue, reported_ago_ns)| LinkCongestion { queue: queue.report.queue, reported_ago_ns }),
        };
        Some(LinkView { name: from.to_string(), generation: topology.metadata.generation, spec, status })
    }
}
