// SPDX-License-Identifier: Apache-2.0
//! Between controller and agents: specs go down, each with its own delay; agents carry them out step by step, and report.

use std::collections::BTreeSet;
use std::sync::Arc;

use canopy_controller_core::Command;
use canopy_model::node_spec::NodeSpec;
use canopy_model::status::NodeStatus;
use canopy_reference::aggregate::Input;

use crate::action::Action;
use crate::controller::{Controller, Effects, GROUP};
use crate::fabric::Place;
use crate::kernel::Step;
use crate::machine::Mutant;
use crate::net::{Event, Sample};
use crate::run::World;

/// Interval and duration, ns, of the repetition of a node's last feedback after it has adopted a program (3.9).
const REPEAT: (u64, u64) = (10_000_000, 2_000_000_000);
/// Interval, ns, at which an agent acknowledges for groups that have only pending branches.
const POLL_PENDING: u64 = 2_000_000;
/// Interval, ns, at which an agent probes late receivers.
const PROBE: u64 = 20_000_000;
/// Interval, ns, of samples.
const SAMPLE: u64 = 100_000_000;
/// Reports, in millionths, that are lost until the agent connects again.
const REPORTS_LOST: u64 = 50_000;

/// The defect of [`Mutant::EpochFirst`]: the group's entry is written before the branches of its epoch are counted.
fn epoch_first<'a>(steps: impl Iterator<Item = &'a mut Step>) {
    let mut steps: Vec<&mut Step> = steps.collect();
    let join = steps.iter().position(|step| matches!(step, Step::Join(..)));
    let conf = steps.iter().position(|step| matches!(step, Step::Conf(_)));
    if let (Some(join), Some(conf)) = (join, conf) {
        for at in (join..conf).rev() {
            let (left, right) = steps.split_at_mut(at + 1);
            std::mem::swap(left[at], right[0]);
        }
    }
}

impl World<'_> {
    /// Sends the specs that a command changed.
    pub(crate) fn publish(&mut self, effects: Effects, now: u64) {
        if effects.moved {
            self.report.moves += 1;
        }
        if effects.opened {
            self.opens(now);
        }
        if effects.lost_tree {
            self.report.infeasible += 1;
        }
        self.limit_move(now);
        self.send_specs(&effects.nodes, now);
    }

    /// A next tree that is made is given up if that takes too long.
    pub(crate) fn limit_move(&mut self, now: u64) {
        let since = self.controller.domain().moving(GROUP).map(|m| m.since);
        if let Some(since) = since.filter(|since| self.limited.replace(*since) != Some(*since)) {
            self.net.at(now + self.setup.making, Event::Acts(Action::MakingEnds(since)));
        }
    }

    /// Sends the present specs of nodes, each with a delay of its own.
    pub(crate) fn send_specs(&mut self, names: &BTreeSet<String>, now: u64) {
        for name in names {
            let (Some(spec), Some(place)) = (self.controller.spec(name), self.fabric.place(name)) else { continue };
            let delay = self.chance.below(self.slowest + 1);
            let node = &mut self.nodes[place];
            node.last_arrival = (now + delay).max(node.last_arrival + 1);
            self.net.at(node.last_arrival, Event::Spec(place, spec));
        }
    }

    /// A spec arrives at an agent.
    pub(crate) fn spec_arrives(&mut self, place: Place, spec: Arc<NodeSpec>, now: u64) {
        self.nodes[place].receive(spec);
        self.reconcile(place, now);
    }

    /// The agent brings its node to the newest spec, or fails to.
    pub(crate) fn reconcile(&mut self, place: Place, now: u64) {
        let node = &mut self.nodes[place];
        let same = !node.cold && node.applied.is_some() && node.applied == node.newest;
        if !node.begin(&self.fabric) {
            return;
        }
        if same && node.work.as_ref().is_some_and(|work| !work.is_empty()) {
            let what = format!("{} changes its maps although its spec is the same: {:?}", node.name, node.work);
            self.oracle.violated(now, &what);
        }
        let node = &mut self.nodes[place];
        if node.refusals > 0 {
            node.refusals -= 1;
            self.report.refused_specs += 1;
            let Some(work) = &mut node.work else { return };
            // It fails after some of its steps, which the read-back finds, or at once.
            work.truncate(self.chance.below(work.len() as u64 + 1) as usize);
            if work.is_empty() {
                return self.fails(place, now);
            }
        }
        if self.setup.mutant == Mutant::EpochFirst {
            epoch_first(node.work.iter_mut().flatten());
        }
        let life = node.life;
        let gap = self.step_gap();
        self.net.at(now + gap, Event::Step(place, life));
    }

    /// The agent could not carry out its spec: it reports that, and tries again.
    fn fails(&mut self, place: Place, now: u64) {
        self.nodes[place].finish(true);
        self.report_status(place, true, now);
        let again = self.chance.between(10_000_000, 1_000_000_000).min(self.slowest.max(10_000_000));
        self.net.at(now + again, Event::Acts(Action::Retry(place)));
    }

    fn step_gap(&mut self) -> u64 {
        1 + self.chance.below(self.setup.step.max(1))
    }

    /// The agent carries out the next step of its reconciliation, or has finished it.
    pub(crate) fn step(&mut self, place: Place, life: u64, now: u64) {
        let node = &mut self.nodes[place];
        if node.life != life || node.is_down {
            return;
        }
        // A stopped process continues where it was.
        if !node.awake {
            self.net.at(now + 1_000_000, Event::Step(place, life));
            return;
        }
        let Some(work) = &mut node.work else { return };
        let Some(step) = work.pop_front() else {
            // It reads back what it wrote: a branch may have started between two steps.
            if node.differences(&self.fabric).is_none_or(|steps| !steps.is_empty()) {
                return self.fails(place, now);
            }
            node.finish(false);
            let behind = node.newest != node.ledger;
            self.report_status(place, false, now);
            if behind {
                self.reconcile(place, now);
            }
            return;
        };
        let before = node.kernel.conf.as_ref().map(|c| (c.epoch, c.up));
        let adopts = matches!(&step, Step::Conf(c) if c.headend.is_none() && before != Some((c.epoch, c.up)));
        if self.trace.is_some() {
            self.remark(now, || format!("node {place}: {step:?}"));
        }
        let node = &mut self.nodes[place];
        let out = node.kernel.carry_out(step, self.setup.mutant, now);
        let has_data = node.kernel.machine.as_ref().is_some_and(|m| m.inner.high().is_some());
        if adopts && has_data {
            node.repeats = (now + REPEAT.1, now + REPEAT.0);
        }
        if let Some((port, frame)) = out {
            self.net.send(&mut self.chance, now, port, frame);
        }
        self.polls(place, now);
        let gap = self.step_gap();
        self.net.at(now + gap, Event::Step(place, life));
    }

    /// Schedules the agent's next poll if it has to poll.
    pub(crate) fn polls(&mut self, place: Place, now: u64) {
        let node = &mut self.nodes[place];
        if !node.samples && !node.late().is_empty() {
            node.samples = true;
            self.net.at(now + SAMPLE, Event::Sample(place, node.life));
        }
        let waits =
            |m: &crate::machine::Machine| m.inner.pending().next().is_some() || m.inner.probing().next().is_some();
        let pending = node.kernel.machine.as_ref().is_some_and(waits);
        let next = match (pending, now < node.repeats.0) {
            (true, _) => POLL_PENDING,
            (false, true) => REPEAT.0,
            (false, false) => return,
        };
        if node.awake && !node.is_down && !std::mem::replace(&mut node.polls, true) {
            let life = node.life;
            self.net.at(now + next, Event::Poll(place, life));
        }
    }

    /// The agent polls its groups.
    pub(crate) fn poll(&mut self, place: Place, life: u64, now: u64) {
        let node = &mut self.nodes[place];
        if node.life != life {
            return;
        }
        node.polls = false;
        if !node.awake || node.is_down {
            return;
        }
        let mut out = Vec::new();
        let only_pending = |m: &crate::machine::Machine| m.inner.active().next().is_none();
        if node.kernel.machine.as_ref().is_some_and(only_pending) {
            out.extend(node.kernel.control(Input::PendingOnly, now));
        }
        if now < node.repeats.0 && now >= node.repeats.1 {
            node.repeats.1 = now + REPEAT.0;
            out.extend(node.kernel.control(Input::Repeat, now));
        }
        if now >= node.probes {
            node.probes = now + PROBE;
            out.extend(node.kernel.probes(self.setup.start_psn));
        }
        for (port, frame) in out {
            self.net.send(&mut self.chance, now, port, frame);
        }
        self.polls(place, now);
    }

    /// The agent samples its late receivers, and reports them while there is something to know about them.
    pub(crate) fn sample(&mut self, place: Place, life: u64, now: u64) {
        let node = &mut self.nodes[place];
        if node.life != life {
            return;
        }
        node.samples = false;
        let receivers = node.late();
        if let Some(conf) = node.kernel.conf.as_ref().filter(|_| node.awake && !receivers.is_empty()) {
            let sample = Sample { place, epoch: conf.epoch, receivers };
            let delay = self.chance.below(self.slowest + 1);
            self.net.at(now + delay, Event::Late(Box::new(sample), self.controller.term()));
        }
        self.polls(place, now);
    }

    /// A sample of late receivers arrives, unless the controller has restarted since. It counts in the present epoch of the program.
    pub(crate) fn late_arrives(&mut self, sample: &Sample, term: u64, now: u64) {
        let name = self.nodes[sample.place].name.clone();
        for (address, news) in &sample.receivers {
            let spec = self.controller.spec(&name);
            let epoch = spec.as_ref().and_then(|spec| Controller::program(spec)).map(|p| p.epoch);
            if term != self.controller.term() || epoch != Some(sample.epoch) {
                return;
            }
            let Some(command) = self.controller.late_receiver(&name, *address, *news) else { continue };
            let removes = matches!(command, Command::EvictMember { .. });
            if self.command(command, now) && removes {
                self.report.evictions += 1;
                let index = self.receivers.iter().position(|r| !r.gone && r.address == *address);
                index.into_iter().for_each(|index| self.gone(index));
            }
        }
        self.starts_if_ready(now);
    }

    /// The agent reports; the report may be late, or lost until the agent connects again.
    pub(crate) fn report_status(&mut self, place: Place, refused: bool, now: u64) {
        let Some(status) = self.nodes[place].report(refused) else { return };
        self.send_report(place, status, now);
    }

    fn send_report(&mut self, place: Place, status: NodeStatus, now: u64) {
        let delay = self.chance.below(self.slowest + 1);
        if self.slowest > 0 && !self.calming && self.chance.happens(REPORTS_LOST) {
            let again = delay + self.chance.below(1_000_000_000);
            self.net.at(now + again, Event::Acts(Action::Reconnects(place)));
            return;
        }
        let (term, node) = (self.controller.term(), &mut self.nodes[place]);
        node.last_report = (now + delay).max(node.last_report + 1);
        self.net.at(node.last_report, Event::Report(Box::new(status), term));
    }

    /// The agent reports again what it reported last.
    pub(crate) fn report_again(&mut self, place: Place, now: u64) {
        if let Some(status) = self.nodes[place].status.clone().filter(|_| self.nodes[place].awake) {
            self.send_report(place, status, now);
        }
    }

    /// A report arrives at the controller, unless that has restarted since: then the agent reports again.
    pub(crate) fn report_arrives(&mut self, status: NodeStatus, term: u64, now: u64) {
        if term != self.controller.term() {
            return;
        }
        match self.controller.report(status, now) {
            Ok(effects) => self.publish(effects, now),
            Err(e) => self.oracle.violated(now, &format!("the controller refuses a report: {e}")),
        }
        self.starts_if_ready(now);
    }
}
