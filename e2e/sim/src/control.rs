// SPDX-License-Identifier: Apache-2.0
//! Faults, and commands to the controller.

use std::collections::BTreeSet;

use canopy_controller_core::{BranchNews, Command};
use canopy_model::group::EncodingChoice;
use canopy_model::ids::Qpn;
use canopy_model::member::{MemberSpec, Role};
use canopy_model::status::GroupPhase;

use crate::action::Action;
use crate::config::Window;
use crate::controller::{Controller, GROUP};
use crate::fabric::{Place, far};
use crate::net::{Event, Links};
use crate::receiver::{Habits, Health, Receiver};
use crate::run::{TIMEOUTS, World};

/// Interval, ns, of the checks whether everything is in force after faults stopped.
const SETTLES: u64 = 1_000_000;
/// Longest time, ns, from the last fault until everything is in force, beyond that in which a move may be given up.
const MAX_SETTLING: u64 = 20_000_000_000;
/// Time, ns, after which an application asks again whose join was refused.
const ASKS_AGAIN: u64 = 100_000_000;
/// MTUs of a link that an operator chooses from.
const MTUS: [u32; 2] = [9000, 1500];

impl World<'_> {
    pub(crate) fn act(&mut self, action: Action, now: u64) {
        match action {
            Action::LinkDown(n, noticed) => self.link_down((n % self.fabric.links as u64) as usize, noticed, now),
            Action::LinkUp(n) => drop(self.net.down.remove(&((n % self.fabric.links as u64) as usize))),
            Action::Pause(n, lasts) => {
                let place = self.draw_node(n);
                self.nodes[place].awake = false;
                self.net.at(now + lasts, Event::Acts(Action::Awake(place)));
            }
            Action::AgentRestarts(n, lasts) => {
                let place = self.draw_node(n);
                self.stop(place, now);
                self.report.restarts += 1;
                self.net.at(now + lasts, Event::Acts(Action::Awake(place)));
            }
            Action::PinsLost(n, lasts) => {
                let place = self.draw_node(n);
                self.stop(place, now);
                let node = &mut self.nodes[place];
                (node.kernel, node.applied) = (Default::default(), None);
                (node.is_down, node.cold) = (true, true);
                self.report.states_lost += 1;
                self.net.at(now + lasts, Event::Acts(Action::Awake(place)));
            }
            Action::Awake(place) => self.awake(place, now),
            Action::Retry(place) => self.reconcile(place, now),
            Action::Refuses(n, times) => {
                let place = self.draw_node(n);
                self.nodes[place].refusals = times;
            }
            Action::Reconnects(place) => self.report_again(place, now),
            Action::ControllerRestarts => {
                let restarted = self.controller.restart();
                self.controller_restarted(restarted, now);
            }
            Action::Ages => {
                let restarted = self.controller.age_further();
                self.controller_restarted(restarted, now);
            }
            Action::Join(n) => {
                let joined = self.join(n, now);
                self.has_asked |= joined;
                // A join waits for a node that is far behind (decisions 3.15): the application asks again.
                if !joined && self.late.is_some() {
                    self.net.at(now + ASKS_AGAIN, Event::Acts(Action::Join(n)));
                }
            }
            Action::Leave(n) => self.leave(n, now),
            Action::Dies(n, fatal) => {
                if let Some(index) = self.draw_receiver(n) {
                    self.receivers[index].health = if fatal { Health::Fails } else { Health::Dead };
                    self.remark(now, || format!("receiver {index} fails"));
                }
            }
            Action::Evict => self.evict(now),
            Action::Drain(n) => self.change_link(n, now, |link| link.drained = !link.drained),
            Action::Mtu(n) => self.change_link(n, now, |link| {
                link.mtu = if link.mtu == MTUS[0] { MTUS[1] } else { MTUS[0] };
            }),
            Action::Rewire(n, to, first) => self.rewire(n, to, first, now),
            Action::Encoding(n) => {
                let choices = [EncodingChoice::Auto, EncodingChoice::Provisioned, EncodingChoice::InBand];
                self.group.encoding = choices[(n % 3) as usize];
                self.command(Controller::put_group(self.group.clone()), now);
            }
            Action::MakingEnds(since) => {
                if self.controller.domain().moving(GROUP).is_some_and(|m| m.since == since) {
                    self.command(Command::GiveUpMove { group: GROUP.into(), since }, now);
                    self.report.given_up += u64::from(self.controller.domain().given_up_because_of(GROUP).is_some());
                }
            }
            Action::Calm => self.calm_down(now),
            Action::Settle => self.settle(now),
        }
    }

    /// Carries out a command; false if the controller refused it.
    pub(crate) fn command(&mut self, command: Command, now: u64) -> bool {
        self.remark(now, || format!("controller: {:.200}", format!("{command:?}")));
        match self.controller.execute(command, now) {
            Ok(effects) => {
                self.publish(effects, now);
                // A change after faults stopped has to come into force first.
                if self.calming && self.calm.take().is_some() {
                    self.settled_from = None;
                    self.net.at(now + SETTLES, Event::Acts(Action::Settle));
                }
            }
            Err(e) => {
                self.remark(now, || format!("controller refuses: {e}"));
                return false;
            }
        }
        true
    }

    /// The group was opened: receivers that join from now on are late.
    pub(crate) fn opens(&mut self, now: u64) {
        if self.late == Some(Window::BeforeFirst) {
            let first = now + self.chance.between(1, self.setup.slowest.max(1_000));
            for _ in 0..self.chance.between(1, 3) {
                let at = self.chance.between(now, first);
                let n = self.chance.below(1 << 32);
                self.net.at(at, Event::Acts(Action::Join(n)));
            }
            self.starts_at = first;
            self.net.at(first, Event::SourceSends);
        } else if self.late == Some(Window::Awaited) {
            let more = self.chance.between(1, 3);
            for _ in 0..more {
                let (after, n) = (self.chance.below(self.setup.slowest + 1), self.chance.below(1 << 32));
                self.net.at(now + after, Event::Acts(Action::Join(n)));
            }
            self.awaited = Some(self.receivers.len() + more as usize);
        } else if self.late.is_none() && self.setup.slowest > 0 {
            // Late joins are more frequent soon after the group was opened, and some meet a move.
            for _ in 0..self.chance.below(5) {
                let after = self.chance.below(2 * self.setup.slowest + 5_000_000);
                let (n, link) = (self.chance.below(1 << 32), self.chance.below(1 << 32));
                self.net.at(now + after, Event::Acts(Action::Join(n)));
                let later = after + self.chance.below(self.setup.slowest + 1_000_000);
                if self.chance.below(2) == 0 {
                    self.net.at(now + later, Event::Acts(Action::Drain(link)));
                }
            }
        }
    }

    /// The source begins to send once as many receivers as it waits for are reported to get data, as applications do (`wait_ready`).
    pub(crate) fn starts_if_ready(&mut self, now: u64) {
        if self.awaited.is_none_or(|awaited| self.receivers.len() < awaited) {
            return;
        }
        let Some(status) = self.controller.domain().group(GROUP).map(|group| group.status) else { return };
        if status.phase != GroupPhase::Ready || !status.probing.is_empty() {
            return;
        }
        self.remark(now, || "the source begins".to_owned());
        (self.awaited, self.starts_at) = (None, now);
        self.oracle.begins();
        self.wake_source(now);
    }

    fn draw_node(&self, n: u64) -> Place {
        (n % self.nodes.len() as u64) as Place
    }

    fn link_down(&mut self, link: usize, noticed: bool, now: u64) {
        self.net.down.insert(link);
        for port in [2 * link, 2 * link + 1].into_iter().filter(|_| noticed) {
            let place = self.fabric.owner(port);
            let Some(node) = self.nodes.get_mut(place) else { continue };
            let name = self.fabric.port_name(port);
            if !node.no_carrier.contains(&name) {
                node.no_carrier.push(name);
            }
            if node.awake && node.work.is_none() {
                self.report_status(place, false, now);
            }
        }
    }

    fn stop(&mut self, place: Place, now: u64) {
        let node = &mut self.nodes[place];
        node.stop();
        // What is not in the ledger is forgotten.
        (node.newest, node.polls, node.samples) = (node.ledger.clone(), false, false);
        self.controller.connected(&node.name, false, now);
    }

    /// An agent continues or starts: it carries out what is in its ledger, and the controller sends it its spec.
    fn awake(&mut self, place: Place, now: u64) {
        let node = &mut self.nodes[place];
        (node.awake, node.is_down) = (true, false);
        let name = node.name.clone();
        self.controller.connected(&name, true, now);
        self.reconcile(place, now);
        self.polls(place, now);
        self.send_specs(&BTreeSet::from([name]), now);
    }

    fn controller_restarted(&mut self, restarted: anyhow::Result<()>, now: u64) {
        if let Err(e) = restarted {
            self.oracle.violated(now, &format!("the controller does not restart: {e}"));
            return;
        }
        self.report.controller_restarts += 1;
        self.limited = None;
        self.limit_move(now);
        let all = self.nodes.iter().map(|node| node.name.clone()).collect();
        self.send_specs(&all, now);
    }

    /// A host that is no member joins with a new queue pair.
    pub(crate) fn join(&mut self, n: u64, now: u64) -> bool {
        let count = self.hosts.len() as u64;
        let free = |name: &String| self.fabric.place(name).is_some_and(|host| !self.members.contains_key(&host));
        let name = (0..count).map(|i| self.hosts[((n + i) % count) as usize].clone()).find(free);
        let joined = name.is_some_and(|name| self.join_host(&name, now));
        self.report.joins += u64::from(joined);
        joined
    }

    /// A receiver at this host joins; false if the controller refuses it.
    pub(crate) fn join_host(&mut self, name: &str, now: u64) -> bool {
        let Some(host) = self.fabric.place(name) else { return false };
        let Some(address) = self.fabric.address(host) else { return false };
        let number = 0x100 + self.receivers.len() as u64;
        let Ok(qpn) = Qpn::new("qpn", number) else { return false };
        let spec = MemberSpec {
            host: name.to_owned(),
            role: Role::Receiver,
            address: None,
            qpn,
            memory: None,
            start_psn: None,
        };
        // Its queue pair is ready before it joins; nothing else decides who is late.
        let late = self.controller.opened;
        let port = self.fabric.host_port(host);
        let mut receiver = Receiver::new((host, port, name), address, qpn.get(), self.setup.start_psn);
        if self.setup.habits.credits > 0 {
            receiver.credits = self.chance.pick(&[0, 1, 17, 31]).unwrap_or(31);
        }
        let index = self.receivers.len();
        if !self.command(
            Command::PutMember { group: GROUP.into(), spec, create_only: true, instance: None, lease: None },
            now,
        ) {
            return false;
        }
        self.receivers.push(receiver);
        self.members.insert(host, index);
        self.oracle.joins(late, self.setup.start_psn);
        true
    }

    /// A receiver that may leave: never the first one, so that the group is never empty.
    fn draw_receiver(&self, n: u64) -> Option<usize> {
        let index = 1 + (n % (self.receivers.len() as u64 - 1).max(1)) as usize;
        self.receivers.get(index).filter(|r| !r.gone && r.health == Health::Works).map(|_| index)
    }

    fn leave(&mut self, n: u64, now: u64) {
        let Some(index) = self.draw_receiver(n) else { return };
        let host = self.receivers[index].name.clone();
        if self.command(Command::DeleteMember { group: GROUP.into(), host }, now) {
            self.report.leaves += 1;
            self.gone(index);
        }
    }

    pub(crate) fn gone(&mut self, index: usize) {
        self.receivers[index].gone = true;
        self.members.remove(&self.receivers[index].host);
        self.oracle.leaves(index);
    }

    /// Nodes report their failed receivers in their present epoch, and the controller carries out the group's policy.
    fn evict(&mut self, now: u64) {
        self.evicts = false;
        let mut unreported = false;
        for index in 0..self.receivers.len() {
            let receiver = &self.receivers[index];
            if receiver.gone || receiver.health == Health::Works {
                continue;
            }
            let (address, host) = (receiver.address, receiver.name.clone());
            let edge = &self.nodes[self.fabric.owner(far(receiver.port))];
            let program = self.controller.spec(&edge.name);
            let program = program.as_ref().and_then(|spec| Controller::program(spec));
            let epoch = program.map(|p| p.epoch);
            let of_branch = |p: &canopy_model::node_spec::GroupProgram| {
                p.branches.iter().find(|b| b.address == address).map(|b| b.since)
            };
            let since = program.and_then(of_branch);
            let present = epoch.is_some() && edge.kernel.conf.as_ref().map(|c| c.epoch) == epoch;
            let name = edge.name.clone();
            let command = match (self.calm.is_some() || self.calming, present) {
                (true, _) => since.map(|since| {
                    let reason = "failed".into();
                    Command::EvictMember { group: GROUP.into(), host, since, reason }
                }),
                (false, true) => self.controller.branch_news(&name, address, BranchNews::Stalled),
                (false, false) => None,
            };
            if command.is_some_and(|command| self.command(command, now)) {
                self.report.evictions += 1;
                self.gone(index);
            } else {
                unreported = true;
            }
        }
        if unreported && !std::mem::replace(&mut self.evicts, true) {
            let again = self.chance.between(1_000_000, 100_000_000);
            self.net.at(now + again, Event::Acts(Action::Evict));
        }
    }

    /// The operator changes a link between nodes.
    fn change_link(&mut self, n: u64, now: u64, change: impl FnOnce(&mut canopy_model::topology::LinkDecl)) {
        let links = self.topology.links.len() as u64;
        let nodes = self.nodes.len();
        let between_nodes =
            |link: &usize| self.fabric.owner(2 * link) < nodes && self.fabric.owner(2 * link + 1) < nodes;
        let Some(link) = (0..links).map(|i| ((n + i) % links) as usize).find(between_nodes) else { return };
        let before = self.topology.clone();
        change(&mut self.topology.links[link]);
        if !self.command(Controller::put_topology(self.topology.clone()), now) {
            self.topology = before;
        }
    }

    /// The host of a receiver moves.
    fn rewire(&mut self, n: u64, to: u64, first: bool, now: u64) {
        let (receivers, nodes) = (self.receivers.len() as u64, self.nodes.len() as u64);
        let stays = |i: &usize| self.late_hosts_stay && self.oracle.is_late(*i);
        let movable = |i: &usize| !self.receivers[*i].gone && !stays(i);
        let Some(index) = (0..receivers).map(|i| ((n + i) % receivers) as usize).find(movable) else { return };
        let link = self.receivers[index].port / 2;
        let to = (to % nodes) as Place;
        if self.fabric.owner(2 * link) == to {
            return;
        }
        let before = self.topology.clone();
        self.topology.links[link].a.device = self.fabric.name(to).to_owned();
        if first && !self.command(Controller::put_topology(self.topology.clone()), now) {
            self.topology = before;
            return;
        }
        self.report.rewired += 1;
        self.fabric.rewire(link, to);
        self.remark(now, || format!("receiver {index} is connected to node {to}"));
        // If the controller refuses it, the host is back where it was.
        if !first && !self.command(Controller::put_topology(self.topology.clone()), now) {
            let place = self.fabric.place(&before.links[link].a.device).unwrap_or(to);
            self.fabric.rewire(link, place);
            self.topology = before;
        }
    }

    fn calm_down(&mut self, now: u64) {
        self.calming = true;
        self.evict(now);
        self.net.links = Links { delay: self.net.links.delay, ..Links::default() };
        self.net.down.clear();
        self.setup.habits = Habits::default();
        self.slowest = self.slowest.min(1_000_000);
        for place in 0..self.nodes.len() {
            let node = &mut self.nodes[place];
            node.refusals = 0;
            node.no_carrier.clear();
            self.awake(place, now);
        }
        // What a broken link left to links that are too small gets a tree again.
        if self.topology.links.iter().any(|link| link.mtu < self.setup.path_mtu) {
            self.topology.links.iter_mut().for_each(|link| link.mtu = MTUS[0]);
            self.command(Controller::put_topology(self.topology.clone()), now);
        }
        self.settles_by = now + self.setup.slowest + self.setup.making + MAX_SETTLING;
        self.net.at(now + SETTLES, Event::Acts(Action::Settle));
    }

    /// Once everything is in force, the source has to finish within three of its timeouts (I4).
    fn settle(&mut self, now: u64) {
        let controller = &self.controller;
        let in_force = |node: &crate::agent::Node| controller.spec(&node.name).is_some_and(|spec| node.runs(&spec));
        // A late receiver whose queue pair is still probed starts later.
        let probes = |node: &crate::agent::Node| {
            node.kernel.machine.as_ref().is_some_and(|machine| machine.inner.probing().next().is_some())
        };
        let joined = self.late != Some(Window::WhileFirst) || self.has_asked;
        let settled = joined
            && now >= self.starts_at
            && controller.opened
            && controller.has_tree()
            && controller.domain().moving(GROUP).is_none()
            && controller.domain().given_up_because_of(GROUP).is_none()
            && self.nodes.iter().all(|node| in_force(node) && !probes(node));
        if !settled {
            if now > self.settles_by {
                let lacks = |node: &&crate::agent::Node| !in_force(node);
                let nodes: Vec<&str> = self.nodes.iter().filter(lacks).map(|node| node.name.as_str()).collect();
                let reason = controller.domain().group(GROUP).map_or(String::new(), |g| g.status.reason);
                let what =
                    format!("I4: not in force long after faults stopped; behind: {nodes:?}; the group: {reason}");
                self.oracle.violated(now, &what);
                self.settles_by = u64::MAX;
                self.calm = Some((now, now));
            }
            self.net.at(now + SETTLES, Event::Acts(Action::Settle));
            return;
        }
        self.settled_from = Some(self.source.sent);
        (self.setup.posts, self.setup.rest) = (0, 0);
        self.report.timeouts = self.source.counters().timeouts;
        self.calm = Some((now, now + TIMEOUTS * self.source.timer.max(self.setup.timeout)));
        self.wake_source(now);
    }
}
