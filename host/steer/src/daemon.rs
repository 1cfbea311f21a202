// SPDX-License-Identifier: Apache-2.0
//! The task that owns the state machine and the maps. It wakes for destinations, reports of the agent, requests and timeouts.

use std::collections::BTreeSet;
use std::net::Ipv6Addr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use canopy_bpf::monotonic;
use canopy_bpf::ring::Records;
use canopy_control::fabric::Held;
use canopy_control::pb;
use canopy_daemon::notify::Notifier;
use canopy_host_core::probing::{Fault, Wanted};
use canopy_host_core::steering::{DestinationView, Map, Refused, Steering};
use canopy_model::fabric::{HostFabric, Sender};
use canopy_paths::fabric::PortOf;
use canopy_paths::program::Header;
use canopy_units::Monotonic;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};

use crate::agent::News;
use crate::kernel::{Kernel, Steered};
use crate::probe::Secret;
use crate::prober::Prober;
use crate::shown;

/// Interval at which the counters of all programs in use are read, a system call each, and the program's place is checked.
const TICK: Duration = Duration::from_secs(5);
/// Destinations that are taken before other events get their turn.
const BATCH: usize = 64;
/// Interval at which congestion of paths is compared, and, while faults seem to be those of this host's own link, whether they still do.
const COMPARE: Duration = Duration::from_millis(100);
/// Changes of paths that are logged within [`LOGGED_WITHIN`], each in a line.
const LOGGED: usize = 8;
const LOGGED_WITHIN: Duration = Duration::from_secs(1);

/// Changes of paths that were logged of late.
pub(crate) struct Reported {
    since: Monotonic,
    logged: usize,
    left_out: usize,
}

impl Default for Reported {
    fn default() -> Self {
        Self { since: Monotonic::START, logged: 0, left_out: 0 }
    }
}

/// A request to the daemon.
pub(crate) enum Request {
    Get(oneshot::Sender<pb::GetSteeringResponse>),
    Paths(Ipv6Addr, oneshot::Sender<Result<pb::GetSteeredPathsResponse, Refused>>),
    Pin(Ipv6Addr, Option<usize>, oneshot::Sender<Result<pb::SteeredDestination, Refused>>),
}

/// The daemon with its inputs.
pub(crate) struct Daemon {
    pub(crate) steering: Steering,
    pub(crate) kernel: Kernel,
    pub(crate) unknown: Records<Ipv6Addr>,
    pub(crate) news: mpsc::Receiver<News>,
    pub(crate) requests: mpsc::Receiver<Request>,
    pub(crate) interface: String,
    pub(crate) mode: pb::SteerMode,
    pub(crate) fabric: Known,
    /// `None`: paths are not probed.
    pub(crate) prober: Option<Prober>,
    /// Of probes.
    pub(crate) secret: Secret,
    /// Faults are those of this host's own link, as it was logged.
    pub(crate) is_own: bool,
    pub(crate) reported: Reported,
    /// The kernel has refused the next command.
    pub(crate) is_stuck: bool,
    pub(crate) notifier: Notifier,
}

/// What the agent has reported.
#[derive(Default)]
pub(crate) struct Known {
    fabric: Option<Arc<HostFabric>>,
    sender: Option<Arc<Sender>>,
    /// Outer source of the programs in the kernel.
    source: Option<Ipv6Addr>,
    /// Why the last fabric was not taken.
    refused: Option<String>,
    /// Since when the agent does not answer, and why.
    away: Option<(Monotonic, String)>,
}

impl Known {
    /// Nothing yet; the programs that an earlier daemon has written have this outer source.
    pub(crate) fn of(source: Option<Ipv6Addr>) -> Self {
        Self { source, ..Self::default() }
    }
}

impl Daemon {
    /// Runs until `end`. What is in the kernel stays.
    pub(crate) async fn run(mut self, end: impl Future<Output = ()>) -> anyhow::Result<()> {
        tokio::pin!(end);
        let mut tick = interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut compare = interval(COMPARE);
        compare.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut watchdog = self.notifier.alive_interval().map(interval);
        let mut batch = Vec::with_capacity(BATCH);
        self.fabric.away = Some((monotonic(), "it has not answered yet".to_owned()));
        loop {
            let due = self.steering.poll_timeout().filter(|_| !self.is_stuck);
            tokio::select! {
                () = &mut end => return Ok(()),
                count = self.unknown.next_batch(&mut batch, BATCH) => {
                    if count == 0 {
                        bail!("the reader of the ring buffer ended");
                    }
                    batch.drain(..).for_each(|address| self.asked(address));
                }
                Some(news) = self.news.recv() => self.take(news),
                request = self.requests.recv() => {
                    let request = request.context("the channel of requests was closed")?;
                    self.answer(request);
                }
                () = found(self.prober.as_ref()) => self.take_faults(),
                _ = compare.tick(), if self.is_own || self.prober.is_some() && self.steering.balances() => self.compare(),
                () = wait(due) => self.steering.handle_timeout(monotonic()),
                _ = tick.tick() => self.tick()?,
                () = fed(watchdog.as_mut()) => self.notifier.alive(),
            }
            self.carry_out();
            self.probe();
        }
    }

    fn asked(&mut self, address: Ipv6Addr) {
        match self.steering.asked(address, monotonic()) {
            Ok(()) => tracing::debug!(%address, "packets get path programs"),
            Err(Some(why)) => tracing::warn!(%address, reason = %why, "packets leave without a path program"),
            // No host of the fabric, or reported before.
            Err(None) => {}
        }
    }

    fn take(&mut self, news: News) {
        match news {
            News::Away(reason) => {
                let since = self.fabric.away.as_ref().map_or_else(monotonic, |(since, _)| *since);
                if self.fabric.away.as_ref().is_none_or(|(_, known)| *known != reason) {
                    tracing::warn!(reason, "the host's agent does not answer; its last report stays in force");
                }
                self.fabric.away = Some((since, reason));
            }
            News::Held(held) => {
                self.fabric.away = None;
                self.fabric.refused = self.hold(&held).err().map(|error| format!("{error:#}"));
                if let Some(error) = &self.fabric.refused {
                    tracing::error!(
                        error,
                        "the fabric that the agent has sent is not taken; the one before stays in force"
                    );
                }
            }
        }
    }

    /// Takes a fabric, and what the host may send in it.
    fn hold(&mut self, Held { fabric, sender, .. }: &Held) -> anyhow::Result<()> {
        let now = monotonic();
        let is_known = self.fabric.fabric.as_ref().is_some_and(|known| Arc::ptr_eq(known, fabric));
        let structure = |sender: &Sender| Sender { unusable: Vec::new(), reason: String::new(), ..sender.clone() };
        let is_same = self.fabric.sender.as_ref().is_some_and(|before| structure(before) == structure(sender));
        let is_on = is_on(sender, self.steers());
        if is_known && is_same && is_on == self.steering.map().is_some() {
            self.fabric.sender = Some(Arc::clone(sender));
            let unusable = self.steering.map().map(|map| map.links_at(&ports(sender))).unwrap_or_default();
            for why in self.steering.set_unusable(unusable, now) {
                tracing::warn!(reason = %why, "a destination keeps paths that are out of service");
            }
            return Ok(());
        }
        let map = if is_on { Some(Arc::new(Map::of(fabric, sender)?)) } else { None };
        let steered = match &map {
            None => None,
            Some(map) => Some(Steered {
                own: map.own_prefix().context("it has no host at the port of this host")?,
                hosts: map.covering().context("it has no hosts")?,
                block: sender.block,
            }),
        };
        if steered.is_none() {
            // Before the programs are gone.
            self.kernel.set_control(None)?;
        }
        // Programs have the host's address as their source: those of another address are not known any more.
        if self.fabric.source.is_some_and(|source| source != sender.address) {
            self.steering.set_map(None, BTreeSet::new(), now);
            self.carry_out();
        }
        self.fabric.source = Some(sender.address);
        if let Some(prober) = &self.prober {
            self.kernel.set_probing(steered.is_some().then_some((sender.address, self.secret)))?;
            prober.set_address(sender.address);
        }
        self.kernel.set_source(sender.address);
        let unusable = map.as_ref().map(|map| map.links_at(&ports(sender))).unwrap_or_default();
        let (hosts, nodes) = map.as_ref().map(|map| map.size()).unwrap_or_default();
        for why in self.steering.set_map(map, unusable, now) {
            tracing::warn!(reason = %why, "a destination has no programs any more, or keeps old ones");
        }
        self.carry_out();
        self.kernel.set_control(steered)?;
        // Last: what has failed before is done again with the next report.
        (self.fabric.fabric, self.fabric.sender) = (Some(Arc::clone(fabric)), Some(Arc::clone(sender)));
        tracing::info!(nodes, hosts, permitted = sender.permitted, reason = sender.reason, "fabric");
        Ok(())
    }

    fn tick(&mut self) -> anyhow::Result<()> {
        if self.prober.as_ref().is_some_and(Prober::has_ended) {
            bail!("the thread that probes paths has ended");
        }
        if !self.kernel.is_attached() {
            tracing::warn!(
                interface = self.interface,
                "the BPF program was taken off the interface; attaching it again"
            );
            self.kernel.attach()?;
        }
        let kernel = &self.kernel;
        self.steering.used(|id| kernel.traffic(id).0, monotonic());
        Ok(())
    }

    fn answer(&mut self, request: Request) {
        // A caller that has gone does not need an answer.
        match request {
            Request::Get(to) => _ = to.send(self.steered()),
            Request::Paths(address, to) => {
                let asked = self.steering.add(address, monotonic());
                // The programs are in force before the answer is sent.
                self.carry_out();
                self.probe();
                let probed = |way: &Header| self.prober.as_ref()?.with(|probing| probing.way(way));
                let paths = || shown::paths(&self.steering, address, |id| self.kernel.traffic(id), probed);
                _ = to.send(asked.and_then(|_| paths().ok_or(Refused::NotAHost(address))));
            }
            Request::Pin(address, number, to) => {
                let pinned = self.steering.pin(address, number, monotonic());
                self.carry_out();
                if let Ok(prefix) = &pinned {
                    tracing::info!(%prefix, path = number, "pin");
                }
                let view = self.steering.destination(address).map(|view| self.destination(&view));
                _ = to.send(pinned.and_then(|_| view.ok_or(Refused::NotAHost(address))));
            }
        }
    }

    fn steered(&self) -> pb::GetSteeringResponse {
        let (hosts, nodes) = self.steering.map().map(Map::size).unwrap_or_default();
        let reason = match (&self.fabric.refused, &self.fabric.sender, &self.fabric.away) {
            (Some(refused), ..) => format!("the fabric that the agent has sent is not taken: {refused}"),
            (None, Some(sender), _) => sender.reason.clone(),
            (None, None, Some((_, why))) => format!("no fabric is known: the host's agent does not answer: {why}"),
            (None, None, None) => {
                "no fabric is known: the host's agent has not received it from the controller".to_owned()
            }
        };
        let away = self.fabric.away.as_ref().map(|(since, _)| monotonic().since(*since));
        pb::GetSteeringResponse {
            interface: self.interface.clone(),
            mode: self.mode.into(),
            reason,
            nodes: nodes as u32,
            hosts: hosts as u32,
            agent_away_ns: away.map_or(0, canopy_units::nanos),
            destinations: self.steering.destinations().map(|view| self.destination(&view)).collect(),
            counters: shown::counters(&self.kernel),
            steers: self.steers(),
            probes: self.prober.as_ref().map(|prober| {
                let refused = prober.refused();
                prober.with(|probing| shown::probes(&self.steering, probing, refused))
            }),
            suspects: self.suspects(),
        }
    }

    fn suspects(&self) -> Vec<pb::SteerSuspect> {
        let Some(prober) = &self.prober else { return Vec::new() };
        let of_late = prober.with(|probing| probing.of_late());
        shown::suspects(&self.steering, |way| of_late.get(way).copied())
    }

    /// Has the prober know which ways there are. The prober is held up for no longer than that takes.
    fn probe(&mut self) {
        let changes: Vec<_> = std::iter::from_fn(|| self.steering.next_way()).collect();
        let Some(prober) = self.prober.as_ref().filter(|_| !changes.is_empty()) else { return };
        let now = monotonic();
        let known: Vec<(Header, Option<Fault>)> = prober.with(|probing| {
            let set = |(way, wanted): (Header, Option<Wanted>)| {
                let fault = probing.set(&way, wanted.as_ref(), now)?;
                Some((way, Some(fault)))
            };
            changes.into_iter().filter_map(set).collect()
        });
        // A way that was gone for a moment has kept its fault there.
        if !known.is_empty() {
            self.set_faults(known);
        }
    }

    /// Takes what the prober has found: packets of the faulty paths take others.
    fn take_faults(&mut self) {
        let Some(prober) = &self.prober else { return };
        let changes = prober.with(|probing| std::iter::from_fn(|| probing.next_change()).collect::<Vec<_>>());
        // Those by which a direction is found have no path.
        let known = |(way, fault): &(Header, Option<Fault>)| {
            let path = self.steering.path_of(way)?;
            Some((self.steering.map()?.names(path).collect::<Vec<_>>().join(" "), *fault))
        };
        let named: Vec<_> = changes.iter().filter_map(known).collect();
        self.set_faults(changes);
        for (path, fault) in named {
            self.report(match fault {
                Some(Fault::BlackHole) => format!("path {path}: no probe comes back"),
                Some(Fault::Loss) => format!("path {path}: some probes are lost"),
                None => format!("path {path}: probes come back again"),
            });
        }
    }

    /// Compares paths by what their probes have shown of late.
    fn compare(&mut self) {
        if self.is_own {
            self.set_faults(Vec::new());
        }
        let Some(prober) = self.prober.as_ref().filter(|_| self.steering.balances()) else { return };
        let compared = self.steering.compared();
        let counts: Vec<Vec<_>> = prober.with(|probing| {
            let counts = |way: &Header| probing.way(way).map(|way| way.counts);
            compared.iter().map(|ways| ways.iter().map(counts).collect()).collect()
        });
        self.steering.balance(&counts);
    }

    fn set_faults(&mut self, changes: Vec<(Header, Option<Fault>)>) {
        let of_late = self.prober.as_ref().map(|prober| prober.with(|probing| probing.of_late())).unwrap_or_default();
        let refused = self.steering.set_faults(changes, |way| of_late.get(way).copied(), monotonic());
        // Before anything is logged of it.
        self.carry_out();
        refused.into_iter().for_each(|why| self.report(format!("a destination keeps paths with a fault: {why}")));
        let is_own = self.steering.is_own();
        if std::mem::replace(&mut self.is_own, is_own) != is_own {
            match is_own {
                true => tracing::warn!(
                    "probes of all paths are lost alike, as by this host's own link or its edge: packets stay on their paths"
                ),
                false => tracing::info!("probes are not lost on all paths alike any more"),
            }
        }
    }

    /// Logs a change of a path, unless [`LOGGED`] were logged within a second: further ones are counted, and their count is logged.
    fn report(&mut self, change: String) {
        let now = monotonic();
        let Reported { since, logged, left_out } = &mut self.reported;
        if now.since(*since) >= LOGGED_WITHIN {
            if *left_out > 0 {
                tracing::warn!(
                    left_out,
                    "more changes of paths than are logged: `canopy-steer status` has the links that explain them"
                );
            }
            (*since, *logged, *left_out) = (now, 0, 0);
        }
        if *logged < LOGGED {
            *logged += 1;
            tracing::warn!("{change}");
        } else {
            *left_out += 1;
        }
    }

    /// Packets get programs, if only those of an earlier daemon.
    fn steers(&self) -> bool {
        self.steering.map().is_some() || self.steering.destinations().next().is_some()
    }

    fn destination(&self, view: &DestinationView<'_>) -> pb::SteeredDestination {
        shown::destination(view, |id| self.kernel.traffic(id))
    }

    /// Writes what is to be written. What fails is tried again with the next event, and before everything behind it: an id names another
    /// program only after the slots that named it are written.
    fn carry_out(&mut self) {
        while let Some(command) = self.steering.next_command() {
            if let Err(error) = self.kernel.carry_out(&command) {
                if !self.is_stuck {
                    tracing::error!(
                        ?command,
                        error = format!("{error:#}"),
                        "a path program cannot be written to the kernel; trying again"
                    );
                }
                self.is_stuck = true;
                return self.steering.put_back(command);
            }
            self.is_stuck = false;
        }
    }
}

/// Whether packets are to get programs. While agents of an earlier version would drop them, a host does not begin; one that has begun, before
/// a restart too, does not end because of them.
fn is_on(sender: &Sender, steers: bool) -> bool {
    sender.permitted && (sender.reason.is_empty() || steers)
}

fn ports(sender: &Sender) -> BTreeSet<PortOf> {
    sender.unusable.iter().map(|&(node, port)| PortOf { node, port }).collect()
}

/// When the prober has found something; never without one.
async fn found(prober: Option<&Prober>) {
    match prober {
        Some(prober) => prober.changed().await,
        None => std::future::pending().await,
    }
}

/// When the service manager's watchdog is due; never without one.
async fn fed(watchdog: Option<&mut tokio::time::Interval>) {
    match watchdog {
        Some(watchdog) => _ = watchdog.tick().await,
        None => std::future::pending().await,
    }
}

async fn wait(due: Option<Monotonic>) {
    match due {
        Some(at) => sleep_until(Instant::now() + at.since(monotonic())).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use canopy_model::ids::{NodeId, PortIndex};
    use canopy_model::usid::UsidBlock;

    use super::*;

    #[test]
    fn a_host_begins_when_all_nodes_forward_and_ends_with_its_permission() {
        let sender = |permitted: bool, reason: &str| Sender {
            block: UsidBlock::at_front("5f00::".parse().unwrap()),
            permitted,
            reason: reason.to_owned(),
            edge: NodeId::new("edge", 1).unwrap(),
            edge_port: PortIndex::new("port", 1).unwrap(),
            most_nodes: 5,
            address: "2001:db8::1".parse().unwrap(),
            unusable: Vec::new(),
        };
        assert!(is_on(&sender(true, ""), false) && is_on(&sender(true, ""), true));
        assert!(!is_on(&sender(true, "an earlier agent"), false) && is_on(&sender(true, "an earlier agent"), true));
        assert!(!is_on(&sender(false, "not permitted"), true));
    }
}
