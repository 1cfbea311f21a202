// SPDX-License-Identifier: Apache-2.0
//! Link directions as the northbound API shows them.

use std::borrow::Cow;
use std::time::Duration;

use canopy_model::topology::{Endpoint, LinkDecl};
use canopy_units::{Monotonic, Rate};

use super::links::{Declared, Direction, Links, Queue, label};
use super::paging::{self, EXAMINED};
use super::state::State;
use crate::fields::{FieldSelector, LinkField, truth};
use crate::limits::MAX_PAGE;
use crate::states::{LinkState, QueueState, Trouble, Troubles};
use crate::threshold::Thresholds;
use crate::topology::{Network, PortInfo};
use crate::view::{LinkCongestion, LinkDesired, LinkLossView, LinkObserved, LinkRttView, LinkView, Page};

/// Reports older than this are not shown. Agents report once per telemetry interval, 1 s by default.
pub(super) const STALE: Duration = Duration::from_secs(60);

/// Views at a time.
pub(super) struct LinkViews<'a> {
    pub(super) state: &'a State,
    pub(super) links: &'a Links,
    pub(super) now: Monotonic,
    /// Open problems of links and ports.
    pub(super) troubles: &'a Troubles,
}

impl LinkViews<'_> {
    /// See [`super::Domain::first_links`].
    pub(super) fn first(&self, most: usize) -> (Vec<LinkView>, usize) {
        let Some(network) = self.state.network() else { return (Vec::new(), 0) };
        let links = 0..network.spec.links.len();
        let declared = links.flat_map(|link| self.links.declared_of(self.state, link));
        let first: Vec<LinkView> = declared.filter_map(|declared| self.view(declared)).take(most).collect();
        // A direction leaves through each port of a node.
        let all: usize = (0..network.len()).map(|node| network.ports(node).len()).sum();
        let others = all - first.len();
        (first, others)
    }

    /// See [`super::Domain::links`]. A page sorts the names of all nodes, and the ports of its own.
    pub(super) fn page(
        &self,
        filter: &FieldSelector<LinkField>,
        after: Option<(&str, &str)>,
        limit: usize,
    ) -> Page<LinkView> {
        let Some(network) = self.state.network() else { return Page { items: Vec::new(), next: None } };
        let is_left = |node: &str| after.is_none_or(|(of, _)| node >= of);
        let mut nodes: Vec<&str> = match filter.required(LinkField::Node) {
            Some(node) => vec![node],
            None => network.spec.nodes.iter().map(|node| node.name.as_str()).collect(),
        };
        nodes.retain(|node| is_left(node));
        nodes.sort_unstable();
        let ports = |node| {
            let at = network.node(node);
            let named = |of: &PortInfo| (network.port_name(at.unwrap_or_default(), of.index), of.link);
            let infos = at.map(|at| network.ports(at)).unwrap_or_default();
            let mut ports: Vec<(&str, usize)> = infos.iter().map(named).collect();
            ports.retain(|(port, _)| after.is_none_or(|after| (node, *port) > after));
            ports.sort_unstable();
            ports.into_iter().map(move |(port, link)| (node, port, link))
        };
        let read = |(node, _, link): (&str, &str, usize)| {
            let LinkDecl { a, b, .. } = &network.spec.links[link];
            let (from, to) = if a.device == node { (a, b) } else { (b, a) };
            if !self.passes(filter, network, link, from, to) {
                return None;
            }
            self.view(self.links.declared_of(self.state, link).find(|declared| declared.from == *from)?)
        };
        let limit = limit.clamp(1, MAX_PAGE);
        let (items, next) = paging::page(nodes.into_iter().flat_map(ports), limit, EXAMINED, read);
        Page { items, next: next.map(|(node, port, _)| format!("{node}/{port}")) }
    }

    /// See [`super::Domain::link`].
    pub(super) fn one(&self, node: &str, port: &str) -> Option<LinkView> {
        self.view(self.links.declared_from(self.state, node, port)?)
    }

    /// The queue of a direction, if its agent reported it lately.
    pub(super) fn fresh_queue(&self, from: &Endpoint) -> Option<(&Queue, Duration)> {
        let queue = self.links.direction(from)?.reported().queue.as_ref()?;
        let ago = self.now.since(queue.at);
        (ago <= STALE).then_some((queue, ago))
    }

    /// Copies no more than the fields that are compared.
    fn passes(
        &self,
        filter: &FieldSelector<LinkField>,
        network: &Network,
        link: usize,
        from: &Endpoint,
        to: &Endpoint,
    ) -> bool {
        filter.matches(|field| match field {
            LinkField::Drained => truth(network.is_drained(link)),
            LinkField::Link => Cow::Owned(label(network, link)),
            LinkField::Name => Cow::Owned(from.to_string()),
            LinkField::Node => Cow::Borrowed(from.device.as_str()),
            LinkField::Queue => Cow::Borrowed(self.queue(from).name()),
            LinkField::State => Cow::Borrowed(self.state_of(link, from).0.name()),
            LinkField::To => Cow::Owned(to.to_string()),
        })
    }

    /// Whether the direction of this link out of `from` carries what it is asked to, and the problem if there is one.
    fn state_of(&self, link: usize, from: &Endpoint) -> (LinkState, Option<Trouble>) {
        match self.trouble(link, from) {
            Some(trouble) => (LinkState::Problem, Some(trouble)),
            None => (self.service(link, from), None),
        }
    }

    /// Whether it is in service, whatever problems it has.
    pub(super) fn service(&self, link: usize, from: &Endpoint) -> LinkState {
        let is_drained = self.state.network().is_some_and(|network| network.is_drained(link));
        match self.state.node(&from.device) {
            _ if is_drained => LinkState::Drained,
            // Of a host, nothing is to be known.
            None => LinkState::InService,
            Some(node) if node.status.is_none() => LinkState::NotReported,
            // While an agent restarts, what it reported is what holds.
            Some(node) if node.connected || node.is_restarting() => LinkState::InService,
            Some(_) => LinkState::AgentNotConnected,
        }
    }

    /// The worst problem of the link, or of its port `from`.
    pub(super) fn trouble(&self, link: usize, from: &Endpoint) -> Option<Trouble> {
        // A healthy fabric has none: then no name of a link or port is made.
        if self.troubles.is_empty() {
            return None;
        }
        let of_link = self.troubles.get(&label(self.state.network()?, link)).copied();
        let of_port = self.troubles.get(&from.to_string()).copied();
        of_link.into_iter().chain(of_port).reduce(Trouble::worse)
    }

    /// The thresholds in force at a port.
    pub(super) fn thresholds(&self, from: &Endpoint) -> Option<Thresholds> {
        Some(self.links.direction(from)?.machine.as_ref()?.pushed()?.thresholds)
    }

    fn queue(&self, from: &Endpoint) -> QueueState {
        match self.fresh_queue(from).zip(self.thresholds(from)) {
            Some(((queue, _), thresholds)) => queue_state(queue, thresholds),
            None => QueueState::Unknown,
        }
    }

    fn view(&self, declared: Declared) -> Option<LinkView> {
        let topology = self.state.topology.as_ref()?;
        let Declared { link, from, to, settings, port, source } = declared;
        let configured = source.configured();
        let direction = self.links.direction(&from);
        let machine = direction.and_then(|d| d.machine.as_ref());
        let reported = direction.map(Direction::reported);
        let report = reported.and_then(|r| r.report);
        let pushed = machine.and_then(|m| m.pushed());
        let rtt = LinkRttView {
            configured,
            measured: report.and_then(|r| r.rtt),
            filtered: machine.and_then(|m| m.measured()),
            estimate: machine.map_or(configured, |m| m.estimate()),
            samples: report.map_or(0, |r| r.samples),
            lost: report.map_or(0, |r| r.lost),
            refused: reported.map_or(0, |r| r.refused),
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
        let (state, trouble) = self.state_of(link, &from);
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
            state,
            trouble,
            rtt,
            thresholds: pushed.map(|p| p.thresholds),
            reason,
            pushes: machine.map_or(0, |m| m.pushes()),
            pushed_ago: pushed.map(|p| self.now.since(p.at)),
            pushed_rtt: pushed.map(|p| p.rtt),
            congestion: self.fresh_queue(&from).map(|(queue, reported_ago)| LinkCongestion {
                queue: queue.report.queue,
                state: pushed.map_or(QueueState::Unknown, |pushed| queue_state(queue, pushed.thresholds)),
                load: queue.load.rate,
                reported_ago,
            }),
            loss: reported.and_then(|r| Some((r.losses.newest()?, r.carried))).map(|(newest, carried)| LinkLossView {
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

fn queue_state(queue: &Queue, thresholds: Thresholds) -> QueueState {
    let of = &queue.report.queue;
    let cnps = &of.counts.cnps;
    let notified = [cnps.notify, cnps.rate_reduce, cnps.pause, cnps.resume].iter().any(|sent| *sent > 0);
    QueueState::of(of.queue.max(of.peak_queue), thresholds, of.marked > 0 || notified)
}
