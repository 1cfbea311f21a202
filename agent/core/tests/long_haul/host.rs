// SPDX-License-Identifier: Apache-2.0
//! Sources, each with a real [`Pacing`], and the receiver that answers CE marks with CNPs.

use std::collections::BTreeMap;
use std::net::Ipv6Addr;

use canopy_agent_core::congestion::{FlowKey, FourTuple};
use canopy_host_core::pacing::{Input, Outcome, Pacing, QpSpec, Settings};
use canopy_model::ids::Qpn;
use canopy_units::Rate;

use crate::fluid::{Batch, instant, per_step, span};
use crate::spec::{Accepts, SourceSpec};

/// A message to a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Message {
    Node(usize, canopy_agent_core::congestion::Action),
    Cnp,
}

pub(crate) fn node_address(hop: usize) -> Ipv6Addr {
    Ipv6Addr::new(0xfcff, 0, 0, hop as u16 + 1, 0, 0, 0, 1)
}

fn receiver() -> Ipv6Addr {
    Ipv6Addr::new(0xfd00, 0, 0, 0xff, 0, 0, 0, 1)
}

/// Flow number `flow`, of source number `source`.
pub(crate) fn four_tuple(source: usize, flow: usize) -> FourTuple {
    let src = Ipv6Addr::new(0xfd00, 0, 0, source as u16 + 1, 0, 0, 0, 1);
    let dst_qp = Qpn::new("qp", 20_000 + flow as u64).unwrap();
    FourTuple { key: FlowKey { src, dst: receiver(), dst_qp }, src_qp: Qpn::new("qp", 10_000 + flow as u64).unwrap() }
}

/// A source whose QPs always have data to send.
pub(crate) struct Source {
    pub(crate) spec: SourceSpec,
    pacing: Pacing,
    /// Numbers and QPs of its flows.
    flows: Vec<(usize, Qpn)>,
    eras: BTreeMap<Qpn, u32>,
}

impl Source {
    pub(crate) fn new(spec: SourceSpec, flows: Vec<(usize, Qpn)>, hops: usize) -> Self {
        let mut pacing = Pacing::new(Settings::default());
        if spec.accepts == Accepts::Everything {
            pacing.handle(Input::Nodes((0..hops).map(node_address).collect()), instant(0));
        }
        for (_, qp) in &flows {
            let of_qp = QpSpec {
                peer: receiver(),
                line: Rate::from_bps(spec.line_bps),
                min: Rate::from_bps(spec.min_bps),
                rtt: span(spec.rtt_ns),
            };
            assert_eq!(pacing.handle(Input::Open(*qp, of_qp), instant(0)), Outcome::Applied);
        }
        let eras = flows.iter().map(|(_, qp)| (*qp, 0)).collect();
        Self { spec, pacing, flows, eras }
    }

    /// Processes a message; returns its outcome, and the number of instructions that the QP has received, this one included.
    pub(crate) fn receive(&mut self, qp: Qpn, message: Message, now: u64) -> Option<(Outcome, u32)> {
        let input = match (message, self.spec.accepts) {
            (_, Accepts::Nothing) | (Message::Node(..), Accepts::Cnps) => return None,
            (Message::Node(hop, action), _) => {
                Input::LongHaul { from: node_address(hop), qp, action, timestamp: Some(now + 1) }
            }
            (Message::Cnp, _) => Input::Cnp { from: receiver(), qp },
        };
        let outcome = self.pacing.handle(input, instant(now));
        let era = self.eras.entry(qp).or_default();
        *era += u32::from(matches!(message, Message::Node(..)));
        Some((outcome, *era))
    }

    /// Rates now, as commanded: 0 in a pause.
    pub(crate) fn rates(&mut self, now: u64) -> Vec<(usize, u64)> {
        self.pacing.handle_timeout(instant(now));
        let rate = |qp: Qpn| {
            let state = self.pacing.state(qp).unwrap();
            let paused = state.paused_until.is_some_and(|until| until > instant(now));
            assert!((self.spec.min_bps..=self.spec.line_bps).contains(&state.rate.bps()), "{state:?}");
            if paused { 0 } else { state.rate.bps() }
        };
        self.flows.iter().map(|(flow, qp)| (*flow, rate(*qp))).collect()
    }

    pub(crate) fn send(&mut self, now: u64) -> Vec<Batch> {
        let dips = (self.spec.dip_ns.0..self.spec.dip_ns.1).contains(&now);
        let mut rates = self.rates(now);
        if dips {
            rates.iter_mut().for_each(|(_, rate)| *rate = *rate * 3 / 4);
        }
        let era = |flow| self.flows.iter().find(|f| f.0 == flow).map_or(0, |(_, qp)| self.eras[qp]);
        let batch = |(flow, rate)| Batch { flow: Some(flow), bytes: per_step(rate), ce: false, era: era(flow) };
        rates.into_iter().map(batch).filter(|b| b.bytes > 0).collect()
    }
}

/// Returns the flows that are due a CNP: at most one per QP and interval; none if the interval is 0.
#[derive(Debug, Default)]
pub(crate) struct Receiver {
    pub(crate) interval_ns: u64,
    last: Vec<Option<u64>>,
    pub(crate) received: Vec<u64>,
}

impl Receiver {
    pub(crate) fn new(interval_ns: u64, flows: usize) -> Self {
        Self { interval_ns, last: vec![None; flows], received: vec![0; flows] }
    }

    pub(crate) fn take(&mut self, batches: &[Batch], now: u64) -> Vec<usize> {
        let mut due = Vec::new();
        for (flow, batch) in batches.iter().filter_map(|b| Some((b.flow?, b))) {
            self.received[flow] += batch.bytes;
            if batch.ce && self.interval_ns > 0 && self.last[flow].is_none_or(|at| now - at >= self.interval_ns) {
                self.last[flow] = Some(now);
                due.push(flow);
            }
        }
        due
    }
}
