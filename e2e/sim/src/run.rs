// SPDX-License-Identifier: Apache-2.0
//! The event loop: one event after the other, until the source has finished or must have finished.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use canopy_controller_core::Command;
use canopy_model::group::{GroupSpec, StallPolicy};
use canopy_model::ids::{Psn, Qpn};
use canopy_model::member::{MemberSpec, Role};
use canopy_model::topology::TopologySpec;

use crate::agent::Node;
use crate::chance::Chance;
use crate::config::{Config, Setup, Window};
use crate::controller::{Controller, GROUP};
use crate::fabric::{Fabric, Place, PortId};
use crate::net::{Event, Frame, Net};
use crate::oracle::{Oracle, Stream};
use crate::receiver::Receiver;
use crate::report::Report;
use crate::schedule;
use crate::shape::{self, SOURCE_HOST};
use crate::source::Source;

/// Timeouts within which the source finishes once faults stop (I4).
pub const TIMEOUTS: u64 = 3;
/// Hosts without a receiver at the start.
const SPARE_HOSTS: u32 = 6;
/// The source's QPN.
const SOURCE_QPN: u64 = 0x11;

/// A run in progress.
pub(crate) struct World<'a> {
    pub(crate) setup: Setup,
    pub(crate) chance: Chance,
    pub(crate) net: Net,
    pub(crate) fabric: Fabric,
    pub(crate) nodes: Vec<Node>,
    pub(crate) controller: Controller,
    /// The network and the group as the operator declared them last.
    pub(crate) topology: TopologySpec,
    pub(crate) group: GroupSpec,
    /// Names of the receivers' hosts.
    pub(crate) hosts: Vec<String>,
    pub(crate) source: Source,
    /// Receivers in the order of joining.
    pub(crate) receivers: Vec<Receiver>,
    /// The member at each host, by its number.
    pub(crate) members: BTreeMap<Place, usize>,
    pub(crate) oracle: Oracle,
    pub(crate) report: Report,
    /// Longest delay, ns, of specs and reports now.
    pub(crate) slowest: u64,
    /// Faults have stopped; everything is in force since `calm`, which also has the deadline of the source.
    pub(crate) calming: bool,
    pub(crate) calm: Option<(u64, u64)>,
    pub(crate) settles_by: u64,
    /// The move whose time runs.
    pub(crate) limited: Option<u64>,
    /// Nodes will report failed receivers again.
    pub(crate) evicts: bool,
    /// Packets that the source had sent by then.
    pub(crate) settled_from: Option<u64>,
    pub(crate) late: Option<Window>,
    pub(crate) late_hosts_stay: bool,
    /// The source posts nothing before this time, ns.
    pub(crate) starts_at: u64,
    /// The source waits until so many receivers have joined and are reported to get data.
    pub(crate) awaited: Option<usize>,
    /// The headend has taken data.
    pub(crate) has_first: bool,
    /// A receiver has joined late.
    pub(crate) has_asked: bool,
    source_port: PortId,
    will_send: bool,
    timer_at: Option<u64>,
    pub(crate) trace: Option<&'a mut dyn FnMut(&str)>,
}

/// Runs `seed`.
///
/// # Errors
/// If the controller or a requester rejects `config`.
pub fn run(seed: u64, config: &Config) -> Result<Report> {
    World::new(seed, config, None)?.run()
}

/// Runs `seed` and traces every event.
///
/// # Errors
/// As [`run`].
pub fn run_traced(seed: u64, config: &Config, trace: &mut dyn FnMut(&str)) -> Result<Report> {
    World::new(seed, config, Some(trace))?.run()
}

impl<'a> World<'a> {
    fn new(seed: u64, config: &Config, trace: Option<&'a mut dyn FnMut(&str)>) -> Result<Self> {
        let mut chance = Chance::new(seed);
        let setup = Setup::draw(config, &mut chance);
        let (topology, hosts) = shape::draw(setup.shape, setup.receivers + SPARE_HOSTS, &mut chance)?;
        let mut net = Net::new(setup.links);
        for (at, action) in schedule::draw(config, &setup, &mut chance) {
            net.at(at + 1, Event::Acts(action));
        }
        let group = GroupSpec {
            path_mtu: setup.path_mtu,
            start_psn: Some(Psn::new("startPsn", setup.start_psn.into())?),
            stall_policy: StallPolicy::Evict,
            ..GroupSpec::default()
        };
        let mut controller = Controller::new()?;
        controller.execute(Controller::put_topology(topology.clone()), 0)?;
        controller.execute(Controller::put_group(group.clone()), 0)?;
        controller.age(setup.epoch)?;
        let mut nodes = Vec::new();
        for (place, node) in topology.nodes.iter().enumerate() {
            nodes.push(Node::new(place, controller.spec(&node.name).context("a node without a spec")?));
            controller.connected(&node.name, true, 0);
        }
        let stream = Stream { packets: setup.packets, message: setup.message.into(), window: setup.window.into() };
        let fabric = Fabric::new(&topology);
        let source_port = fabric.host_port(fabric.place(SOURCE_HOST).context("no source")?);
        let waits = matches!(config.late, Some(Window::BeforeFirst | Window::Awaited));
        let mut world = Self {
            source: Source::new(&setup)?,
            fabric,
            source_port,
            nodes,
            controller,
            topology,
            group,
            hosts,
            receivers: Vec::new(),
            members: BTreeMap::new(),
            oracle: Oracle::new(stream, config.strict_msn),
            report: Report { seed, start_psn: setup.start_psn, ..Report::default() },
            slowest: setup.slowest,
            calming: false,
            calm: config.no_faults.then_some((0, u64::MAX)),
            settles_by: u64::MAX,
            limited: None,
            evicts: false,
            settled_from: None,
            late: config.late,
            late_hosts_stay: config.late_hosts_stay,
            starts_at: if waits { u64::MAX } else { 0 },
            awaited: None,
            has_first: false,
            has_asked: false,
            will_send: true,
            timer_at: None,
            trace,
            setup,
            chance,
            net,
        };
        world.members_join(config)?;
        world.net.at(1, Event::SourceSends);
        Ok(world)
    }

    /// The first members join, the source at any time among them.
    fn members_join(&mut self, config: &Config) -> Result<()> {
        let receivers = self.setup.receivers as usize;
        // With many receivers last, because every change after it plans the whole tree.
        let source_at = if receivers > 100 { receivers } else { self.chance.below(receivers as u64 + 1) as usize };
        for i in 0..=receivers {
            if i == source_at {
                let qpn = Qpn::new("qpn", SOURCE_QPN)?;
                let spec = MemberSpec {
                    host: SOURCE_HOST.into(),
                    role: Role::Source,
                    address: None,
                    qpn,
                    memory: None,
                    start_psn: None,
                };
                let joined = self.command(
                    Command::PutMember { group: GROUP.into(), spec, create_only: true, instance: None, lease: None },
                    0,
                );
                anyhow::ensure!(joined, "the source cannot join");
            }
            if i < receivers {
                let host = self.hosts[i].clone();
                anyhow::ensure!(self.join_host(&host, 0), "receiver {i} cannot join");
            }
        }
        self.receivers.iter_mut().for_each(|r| r.loses = config.all_lose);
        self.report.round_trip = 2 * self.depth() * self.setup.links.delay;
        Ok(())
    }

    /// Links from the source to the farthest receiver.
    fn depth(&self) -> u64 {
        let Some(view) = self.controller.domain().group(GROUP) else { return 1 };
        let mut depths: BTreeMap<&str, u64> = BTreeMap::new();
        // Parents come before their children.
        for node in &view.status.tree {
            let above = node.parent.as_deref().and_then(|parent| depths.get(parent)).copied().unwrap_or(0);
            depths.insert(&node.node, above + 1);
        }
        1 + depths.values().max().copied().unwrap_or(0)
    }

    fn run(mut self) -> Result<Report> {
        let mut last = 0;
        while let Some((now, event)) = self.net.take_next() {
            last = now;
            self.note(now, &event);
            match event {
                Event::Arrives(port, frame) => self.arrives(port, frame, now),
                Event::SourceSends => self.source_sends(now),
                Event::SourceTimer => {
                    self.timer_at = None;
                    self.source.handle_timeout(now);
                    self.wake_source(now);
                }
                Event::Spec(place, spec) => self.spec_arrives(place, spec, now),
                Event::Step(place, life) => self.step(place, life, now),
                Event::Poll(place, life) => self.poll(place, life, now),
                Event::Report(status, term) => self.report_arrives(*status, term, now),
                Event::Sample(place, life) => self.sample(place, life, now),
                Event::Late(sample, term) => self.late_arrives(&sample, term, now),
                Event::Acts(action) => self.act(action, now),
            }
            if self.source.is_complete() {
                self.report.finished = Some(now);
                self.oracle.finished(self.settled_from, now);
                break;
            }
            if self.is_late(now) {
                break;
            }
        }
        if self.report.finished.is_none() && self.oracle.count == 0 {
            self.oracle.violated(last, "I4: nothing happens any more, and the source has not finished");
        }
        Ok(self.finish(last))
    }

    fn is_late(&mut self, now: u64) -> bool {
        if let Some(failure) = self.source.failure() {
            self.oracle.violated(now, &format!("the source failed: {failure}"));
            return true;
        }
        let Some((_, until)) = self.calm else { return false };
        let expired = self.source.counters().timeouts - self.report.timeouts;
        let late = now > until || expired > TIMEOUTS;
        if late {
            let acked = self.source.acked;
            self.oracle
                .violated(now, &format!("I4: {acked} packets acknowledged, {expired} timeouts after faults stopped"));
        }
        late
    }

    fn finish(mut self, now: u64) -> Report {
        for (index, receiver) in self.receivers.iter().enumerate() {
            if let Some(failure) = receiver.failure() {
                self.oracle.violated(now, &format!("receiver {index} failed: {failure}"));
            }
        }
        let counters = self.source.counters();
        if counters.false_acks > 0 {
            self.oracle.violated(
                now,
                &format!("the source saw {} answers to packets that it never sent", counters.false_acks),
            );
        }
        let after = counters.timeouts - self.report.timeouts;
        let late_starts = self.oracle.late_starts();
        Report {
            violations: self.oracle.violations,
            violation_count: self.oracle.count,
            wraps: (u64::from(self.setup.start_psn) + self.source.acked) >> 24,
            calm: self.calm.map(|(at, _)| at),
            timeouts: counters.timeouts,
            timeouts_after: if self.calm.is_some() { after } else { 0 },
            fewest_acks: self.receivers.iter().map(Receiver::acks_sent).min().unwrap_or(0),
            late_starts,
            ..self.report
        }
    }

    /// Adds an event to the hash and to the trace.
    fn note(&mut self, now: u64, event: &Event) {
        self.report.events += 1;
        let mut mix = |value: u64| {
            self.report.trace_hash =
                (self.report.trace_hash.rotate_left(5) ^ value).wrapping_mul(0x517C_C1B7_2722_0A95);
        };
        mix(now);
        match event {
            Event::Arrives(port, Frame::Data(b)) => {
                mix(*port as u64);
                mix(u64::from(b.psn) << 32 | u64::from(b.count) << 3 | u64::from(b.ask));
            }
            Event::Arrives(port, Frame::Feedback(f)) => {
                mix(*port as u64);
                mix(u64::from(f.psn) << 32 | u64::from(f.syndrome) << 24 | u64::from(f.msn));
            }
            Event::SourceSends => mix(1),
            Event::SourceTimer => mix(2),
            Event::Acts(_) => mix(3),
            Event::Spec(place, spec) => mix((*place as u64) << 32 | spec.generation),
            Event::Step(place, _) | Event::Poll(place, _) | Event::Sample(place, _) => mix(*place as u64),
            Event::Late(sample, _) => mix((sample.place as u64) << 32 | sample.receivers.len() as u64),
            Event::Report(status, _) => mix(status.observed_generation),
        }
        if let Some(trace) = &mut self.trace {
            match event {
                Event::Spec(place, spec) => {
                    trace(&format!("{now:>12} Spec({place}, term {}, generation {})", spec.term, spec.generation));
                }
                Event::Report(status, _) => {
                    let generation = status.observed_generation;
                    trace(&format!("{now:>12} Report({}, generation {generation})", status.node));
                }
                event => trace(&format!("{now:>12} {event:?}")),
            }
        }
    }

    /// Adds a remark to the trace.
    pub(crate) fn remark(&mut self, now: u64, what: impl FnOnce() -> String) {
        if let Some(trace) = &mut self.trace {
            trace(&format!("{now:>12}   {}", what()));
        }
    }

    fn source_sends(&mut self, now: u64) {
        self.will_send = false;
        let posts_more = self.post(now);
        if let Some(burst) = self.source.send(now) {
            let count = u64::from(burst.count);
            self.net.send(&mut self.chance, now, self.source_port, Frame::Data(burst));
            self.will_send = true;
            self.net.at(now + self.setup.gap * count, Event::SourceSends);
        } else if let Some(at) = posts_more {
            self.will_send = true;
            self.net.at(at, Event::SourceSends);
        }
        self.watch_timer();
    }

    /// The application posts whole messages, evenly over its time; returns when it posts the next one.
    fn post(&mut self, now: u64) -> Option<u64> {
        if now < self.starts_at {
            return None;
        }
        let Setup { packets, posts, message, rest, .. } = self.setup;
        let packets = packets - rest;
        let due = |at: u64| {
            if at >= posts { packets } else { (u128::from(at) * u128::from(packets) / u128::from(posts)) as u64 + 1 }
        };
        let whole = due(now).div_ceil(message.into()) * u64::from(message);
        self.source.posted = self.source.posted.max(whole.min(self.setup.packets));
        // The packet after the posted ones is due then.
        let next = (u128::from(self.source.posted) * u128::from(posts)).div_ceil(u128::from(packets)) as u64;
        (self.source.posted < packets).then_some(next.max(now + 1))
    }

    pub(crate) fn wake_source(&mut self, now: u64) {
        if !self.will_send {
            self.will_send = true;
            self.net.at(now, Event::SourceSends);
        }
        self.watch_timer();
    }

    fn watch_timer(&mut self) {
        if let Some(at) = self.source.poll_timeout()
            && self.timer_at.is_none_or(|known| at < known)
        {
            self.timer_at = Some(at);
            self.net.at(at, Event::SourceTimer);
        }
    }
}
