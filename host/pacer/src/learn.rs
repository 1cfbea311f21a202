// SPDX-License-Identifier: Apache-2.0
//! Learns unregistered queue pairs from the packets of this host and their answers. An RC packet does not contain its
//! source QP, but its answer does: if one flow goes to a peer and the peer answers one QP, they belong together.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv6Addr;
use std::time::Duration;

use canopy_model::ids::Qpn;
use canopy_units::{Monotonic, nanos};

use crate::bpf::Seen;
use crate::engine::{Engine, Flow, Open, Origin, RttFrom};

/// A measured RTT that differs by less than this is ignored.
const RTT_PERCENT: u64 = 10;
/// Minimum RTT: the rate changes in steps of one RTT.
const LEAST_RTT: Duration = Duration::from_micros(100);

/// A sample of the kernel's tables.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sighted {
    /// Flows of this host's requesters, by peer and DestQP.
    pub(crate) flows: BTreeMap<Flow, Seen>,
    /// Answers to them, by peer and local QP.
    pub(crate) answers: BTreeMap<Flow, Seen>,
}

/// Configuration of learning.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    /// A learned queue pair without packets for this time is removed.
    pub(crate) idle: Duration,
    /// Measure RTTs that are not configured.
    pub(crate) measure_rtt: bool,
}

/// Removes idle learned queue pairs, learns unambiguous ones, and applies measured RTTs.
pub(crate) fn learn(engine: &mut Engine, seen: &Sighted, rules: Rules, now: Monotonic) {
    let awake = |seen: Option<&Seen>| seen.is_some_and(|s| now.since(s.last) < rules.idle);
    let answers_of = |qpn: Qpn, flow: Flow| seen.answers.get(&Flow { qpn: qpn.get(), ..flow });
    let silent = engine.live().iter().filter(|(qpn, live)| {
        let quiet = !awake(seen.flows.get(&live.flow)) && !awake(answers_of(**qpn, live.flow));
        live.origin == Origin::Learned && quiet
    });
    for qpn in silent.map(|(qpn, _)| *qpn).collect::<Vec<_>>() {
        engine.close(qpn, now);
    }
    for (flow, qpn) in unambiguous(engine, seen, awake) {
        let open = Open { qpn, flow, line: None, min: None, rtt: None };
        if let Err(why) = engine.open(open, Origin::Learned, now) {
            tracing::warn!(%qpn, peer = %flow.peer, dest_qpn = flow.qpn, ?why, "a queue pair cannot be learned");
        }
    }
    if !rules.measure_rtt {
        return;
    }
    let measured = engine.live().iter().filter_map(|(qpn, live)| {
        let rtt = answers_of(*qpn, live.flow)?.rtt?.max(LEAST_RTT);
        let (old, new) = (nanos(live.spec.rtt), nanos(rtt));
        let off = new.abs_diff(old).saturating_mul(100) >= old.saturating_mul(RTT_PERCENT);
        (live.rtt_from != RttFrom::Given && (off || live.rtt_from == RttFrom::Assumed)).then_some((*qpn, rtt))
    });
    for (qpn, rtt) in measured.collect::<Vec<_>>() {
        engine.measured(qpn, rtt, now);
    }
}

/// Peers with exactly one unassigned flow, that answer exactly one QP without a flow.
fn unambiguous(engine: &Engine, seen: &Sighted, awake: impl Fn(Option<&Seen>) -> bool) -> Vec<(Flow, Qpn)> {
    let usable = |qpn: u32| Qpn::new("qpn", qpn.into()).ok();
    let mut flows: BTreeMap<Ipv6Addr, Vec<Flow>> = BTreeMap::new();
    for (flow, _) in seen.flows.iter().filter(|(flow, s)| awake(Some(s)) && engine.of_flow(**flow).is_none()) {
        flows.entry(flow.peer).or_default().push(*flow);
    }
    let mut answered: BTreeMap<Ipv6Addr, BTreeSet<Qpn>> = BTreeMap::new();
    for (answer, _) in seen.answers.iter().filter(|(_, s)| awake(Some(s))) {
        if let Some(qpn) = usable(answer.qpn).filter(|qpn| !engine.live().contains_key(qpn)) {
            answered.entry(answer.peer).or_default().insert(qpn);
        }
    }
    let pairs = flows.into_iter().filter_map(|(peer, flows)| match flows.as_slice() {
        [one] if answered.get(&peer).is_some_and(|qps| qps.len() == 1) => Some((*one, *answered[&peer].first()?)),
        _ => None,
    });
    // An answer from before the flow's first packet belongs to another flow.
    let causal = |(flow, qpn): &(Flow, Qpn)| {
        let answer = seen.answers.get(&Flow { peer: flow.peer, qpn: qpn.get() });
        answer.zip(seen.flows.get(flow)).is_some_and(|(answer, flow)| answer.last >= flow.first)
    };
    pairs.filter(causal).collect()
}

#[cfg(test)]
mod tests;
