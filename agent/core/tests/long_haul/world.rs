// SPDX-License-Identifier: Apache-2.0
//! A path: sources, a chain of nodes, a receiver, and the messages back to the sources.

use std::collections::BTreeMap;

use canopy_agent_core::congestion::{Action, Command, FourTuple};

use crate::fluid::{Link, MS, STEP};
use crate::hop::Hop;
use crate::host::{Message, Receiver, Source, four_tuple};
use crate::record::{Instruction, Received, Record};
use crate::spec::PathSpec;

pub(crate) struct World {
    flows: Vec<FourTuple>,
    /// Which source sends each flow.
    source_of: Vec<usize>,
    pub(crate) sources: Vec<Source>,
    pub(crate) hops: Vec<Hop>,
    links: Vec<Link>,
    pub(crate) receiver: Receiver,
    /// Messages in flight to sources, by arrival time and sequence number.
    messages: BTreeMap<(u64, u64), (usize, Message)>,
    sequence: u64,
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
        let (messages, record) = (BTreeMap::new(), Record::default());
        Self { flows, source_of, sources, hops, links, receiver, messages, sequence: 0, now: 0, record }
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
            self.send(flow, Message::Cnp, now + back);
        }
        for hop in 0..self.hops.len() {
            self.poll(hop);
        }
        if now.is_multiple_of(MS) {
            self.record.depths.push(self.hops.iter().map(|hop| hop.fifo.depth).collect());
            self.record.carried.push(self.hops.iter().map(|hop| hop.carried).collect());
            self.record.rates.push(self.sources.iter_mut().flat_map(|s| s.rates(now)).map(|(_, rate)| rate).collect());
        }
    }

    fn poll(&mut self, hop: usize) {
        let polled = self.hops[hop].poll(self.now);
        let back: u64 = self.links[..=hop].iter().map(|link| link.delay_ns).sum();
        let lost = self.hops[hop].spec.cnps_lost;
        let reductions = polled.by_node.iter().filter(|c| !matches!(c.action, Action::Resume(_))).count() as u64;
        let all = polled.escalated > 0 && polled.escalated == reductions;
        for command in &polled.by_node {
            let mut instruction = self.instruction(hop, command);
            instruction.escalated |= all && !matches!(instruction.action, Action::Resume(_));
            self.record.sent.push(instruction);
            if !lost {
                self.send(instruction.flow, Message::Node(hop, instruction.action), self.now + back);
            }
        }
        let shadow: Vec<_> = polled.by_shadow.iter().map(|command| self.instruction(hop, command)).collect();
        self.record.shadow.extend(shadow);
    }

    fn instruction(&self, hop: usize, command: &Command) -> Instruction {
        let flow = self.flows.iter().position(|flow| *flow == command.flow).unwrap();
        let (level, action) = (command.level, command.action);
        let (found, limits) = (self.hops[hop].assessment().unwrap(), self.hops[hop].spec.limits);
        let plain = found.action(found.level, false, limits.rtt);
        let escalated = !matches!(action, Action::Resume(_)) && action != plain;
        Instruction { at_ns: self.now, hop, flow, level, action, escalated }
    }

    fn send(&mut self, flow: usize, message: Message, at_ns: u64) {
        self.sequence += 1;
        self.messages.insert((at_ns, self.sequence), (flow, message));
    }

    fn deliver(&mut self) {
        while let Some(first) = self.messages.first_entry().filter(|first| first.key().0 <= self.now) {
            let (flow, message) = first.remove();
            let outcome = self.sources[self.source_of[flow]].receive(self.flows[flow].src_qp, message, self.now);
            self.record.received.push(Received { at_ns: self.now, flow, message, outcome });
        }
    }
}
