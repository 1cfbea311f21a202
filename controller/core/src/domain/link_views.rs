// SPDX-License-Identifier: Apache-2.0
//! Link directions as the northbound API shows them.

use std::time::Duration;

use canopy_model::topology::Endpoint;
use canopy_units::{Monotonic, Rate};

use super::links::{Declared, Links, Queue, label};
use super::state::State;
use crate::view::{FlowView, LinkCongestion, LinkDesired, LinkLossView, LinkObserved, LinkRttView, LinkView};

/// Reports older than this are not shown. Agents report once per telemetry interval, 1 s by default.
pub(super) const STALE: Duration = Duration::from_secs(60);

/// Views at a time.
pub(super) struct LinkViews<'a> {
    pub(super) state: &'a State,
    pub(super) links: &'a Links,
    pub(super) now: Monotonic,
}

impl LinkViews<'_> {
    /// See [`super::Domain::links`].
    pub(super) fn all(&self) -> Vec<LinkView> {
        self.links.declared(self.state).into_iter().filter_map(|declared| self.view(declared)).collect()
    }

    /// See [`super::Domain::link`].
    pub(super) fn one(&self, node: &str, port: &str) -> Option<LinkView> {
        self.view(self.links.declared_from(self.state, node, port)?)
    }

    /// See [`super::Domain::flows`].
    pub(super) fn flows(&self, node: Option<&str>, port: Option<&str>) -> Vec<FlowView> {
        let mut flows = Vec::new();
        let declared = match (node, port) {
            (Some(node), Some(port)) => self.links.declared_from(self.state, node, port).into_iter().collect(),
            _ => self.links.declared(self.state),
        };
        for Declared { from, .. } in &declared {
            if node.is_some_and(|node| node != from.device) || port.is_some_and(|port| port != from.port) {
                continue;
            }
            let Some((queue, reported_ago)) = self.fresh_queue(from) else { continue };
            let of_port = queue.report.flows.iter().map(|flow| FlowView {
                node: from.device.clone(),
                port: from.port.clone(),
                flow: *flow,
                reported_ago,
            });
            flows.extend(of_port);
        }
        flows
    }

    /// The queue of a direction, if its agent reported it lately.
    pub(super) fn fresh_queue(&self, from: &Endpoint) -> Option<(&Queue, Duration)> {
        let queue = self.links.direction(from)?.queue.as_ref()?;
        let ago = self.now.since(queue.at);
        (ago <= STALE).then_some((queue, ago))
    }

    fn view(&self, declared: Declared) -> Option<LinkView> {
        let topology = self.state.topology.as_ref()?;
        let Declared { link, from, to, settings, port, source } = declared;
        let configured = source.configured();
        let direction = self.links.direction(&from);
        let machine = direction.and_then(|d| d.machine.as_ref());
        let report = direction.and_then(|d| d.report);
        let pushed = machine.and_then(|m| m.pushed());
        let rtt = LinkRttView {
            configured,
            measured: report.and_then(|r| r.rtt),
            filtered: machine.and_then(|m| m.measured()),
            estimate: machine.map_or(configured, |m| m.estimate()),
            samples: report.map_or(0, |r| r.samples),
            lost: report.map_or(0, |r| r.lost),
            refused: direction.map_or(0, |d| d.refused),
            reported_ago: report.map(|r| self.now.since(r.at)),
        };
        let reason = match (pushed, port.rate) {
            (Some(_), _) => String::new(),
            (None, Rate::ZERO) => "the rate is not known: set rateBps of the link".to_owned(),
            (None, _) => format!(
                "no round-trip time yet: the agents of {} and {} measure it when both run, or set rttUs of the link",
                from.device, to.device
            ),
        };
        let spec = LinkDesired {
            link: label(&topology.network, link),
            to: to.to_string(),
            drained: topology.network.is_drained(link),
            rate: port.rate,
            buffer: port.buffer,
            alpha: settings.alpha_permille,
            k_base: settings.k_base,
            v_ecn: settings.v_ecn_permille,
            v_growth: settings.v_growth,
            rtt: configured,
        };
        let status = LinkObserved {
            rtt,
            thresholds: pushed.map(|p| p.thresholds),
            reason,
            pushes: machine.map_or(0, |m| m.pushes()),
            pushed_ago: pushed.map(|p| self.now.since(p.at)),
            pushed_rtt: pushed.map(|p| p.rtt),
            congestion: self.fresh_queue(&from).map(|(queue, reported_ago)| LinkCongestion {
                queue: queue.report.queue,
                load: queue.load.rate,
                reported_ago,
            }),
            loss: direction.and_then(|d| Some((d.losses.newest()?, d.carried))).map(|(newest, carried)| LinkLossView {
                requests: newest.requests,
                lost: newest.lost,
                queue_drops: newest.queue_drops,
                data_packets: carried.packets,
                data_lost: carried.lost,
                permille: self.state.node(&from.device).and_then(|n| n.lossy.get(&from.port)).map(|l| l.permille),
            }),
        };
        Some(LinkView { name: from.to_string(), generation: topology.metadata.generation, spec, status })
    }
}
