// SPDX-License-Identifier: Apache-2.0
//! A path: sources, a chain of nodes, a receiver, and what is said the other way.

use std::collections::BTreeMap;

use canopy_agent_core::congestion::{Action, Command, FourTuple};

use crate::fluid::{Link, MS, STEP};
use crate::hop::Hop;
use crate::host::{Receiver, Source, Word, four_tuple};
use crate::record::{Heard, Record, Told};
use crate::spec::PathSpec;

pub(crate) struct World {
    flows: Vec<FourTuple>,
    /// Which source sends each flow.
    source_of: Vec<usize>,
    pub(crate) sources: Vec<Source>,
    pub(crate) hops: Vec<Hop>,
    links: Vec<Link>,
    pub(crate) receiver: Receiver,
    /// On their way to sources, by arrival.
    words: BTreeMap<(u64, u64), (usize, Word)>,
    spoken: u64,
    pub(crate) now: u64,
    pub(crate) record: Record,
}

impl World {
    pub(crate) fn new(spec: &PathSpec) -> Self {
        assert_eq!(spec.delays_ns.len(), spec.hops.len() + 1);
        let (mut flows, mut source_of, mut sources) = (Vec::new(), Vec::new(), Vec::new());
        for (number, source) in spec.sources.iter().enumerate() {
            let first = flows.len();
            flows.extend((first..first + source.qps).map(|flow| four_tuple(number, flow)));
            source_of.resize(flows.len(), number);
            let own = (first..flows.len()).map(|flow| (flow, flows[flow].src_qp)).collect();
            sources.push(Source::new(*source, own, spec.hops.len()));
        }
        let hops = spec.hops.iter().map(|hop| Hop::new(hop.clone(), &flows)).collect();
        let links = spec.delays_ns.iter().map(|delay| Link::new(*delay)).collect();
        let receiver = Receiver::new(spec.cnp_interval_ns, flows.len());
        let (words, record) = (BTreeMap::new(), Record::default());
        Self { flows, source_of, sources, hops, links, receiver, words, spoken: 0, now: 0, record }
    }

    pub(crate) fn run(spec: &PathSpec, until_ns: u64) -> Self {
        let mut world = Self::new(spec);
        while world.now < until_ns {
            world.step();
        }
        world
    }

    pub(crate) fn step(&mut self) {
        self.now += STEP;
        let now = self.now;
        self.deliver();
        for source in &mut self.sources {
            let batches = source.send(now);
            self.links[0].enter(batches, now);
        }
        for hop in 0..self.hops.len() {
            let came = self.links[hop].leave(now);
            self.hops[hop].take(came, &self.flows, now);
            let left = self.hops[hop].send();
            self.links[hop + 1].enter(left, now);
        }
        let came = self.links[self.hops.len()].leave(now);
        for flow in self.receiver.take(&came, now) {
            let back: u64 = self.links.iter().map(|link| link.delay_ns).sum();
            self.say(flow, Word::Cnp, now + back);
        }
        for hop in 0..self.hops.len() {
            self.look(hop);
        }
        if now.is_multiple_of(MS) {
            self.record.depths.push(self.hops.iter().map(|hop| hop.fifo.depth).collect());
            self.record.carried.push(self.hops.iter().map(|hop| hop.carried).collect());
            self.record.rates.push(self.sources.iter_mut().flat_map(|s| s.rates(now)).map(|(_, rate)| rate).collect());
        }
    }

    fn look(&mut self, hop: usize) {
        let said = self.hops[hop].look(self.now);
        let back: u64 = self.links[..=hop].iter().map(|link| link.delay_ns).sum();
        let unheard = self.hops[hop].spec.unheard;
        let asked = said.by_node.iter().filter(|c| !matches!(c.action, Action::Resume(_))).count() as u64;
        let all = said.escalated > 0 && said.escalated == asked;
        for command in &said.by_node {
            let mut told = self.told(hop, command);
            told.escalated |= all && !matches!(told.action, Action::Resume(_));
            self.record.told.push(told);
            if !unheard {
                self.say(told.flow, Word::Node(hop, told.action), self.now + back);
            }
        }
        let shadow: Vec<_> = said.by_shadow.iter().map(|command| self.told(hop, command)).collect();
        self.record.shadow.extend(shadow);
    }

    fn told(&self, hop: usize, command: &Command) -> Told {
        let flow = self.flows.iter().position(|flow| *flow == command.flow).unwrap();
        let (level, action) = (command.level, command.action);
        let (found, limits) = (self.hops[hop].assessment().unwrap(), self.hops[hop].spec.limits);
        let plain = found.action(found.level, false, limits.rtt_ns);
        let escalated = !matches!(action, Action::Resume(_)) && action != plain;
        Told { at_ns: self.now, hop, flow, level, action, escalated }
    }

    fn say(&mut self, flow: usize, word: Word, at_ns: u64) {
        self.spoken += 1;
        self.words.insert((at_ns, self.spoken), (flow, word));
    }

    fn deliver(&mut self) {
        while let Some(first) = self.words.first_entry().filter(|first| first.key().0 <= self.now) {
            let (flow, word) = first.remove();
            let outcome = self.sources[self.source_of[flow]].hear(self.flows[flow].src_qp, word, self.now);
            self.record.heard.push(Heard { at_ns: self.now, flow, word, outcome });
        }
    }
}
