// SPDX-License-Identifier: Apache-2.0
//! The thread that looks at the queues, hears the program's events, and speaks.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

use canopy_agent_core::DatapathError;
use canopy_agent_core::congestion::{Command, Counters, FlowKey};
use libbpf_rs::{MapHandle, RingBuffer, RingBufferBuilder};

use super::driver::{Driver, FlowShown, Shown};
use super::keys;
use super::object::EgressBpf;
use super::orders::Orders;
use super::queues::Queues;
use super::report::Watched;
use super::speak::{Mouth, Speaker, compose, wall_clock};
use crate::egress_skel::types;
use crate::error::{Doing, chain};
use crate::events::monotonic_ns;
use crate::plain::read;

/// Between two looks while a queue is, or lately was, above K_min; otherwise; and without a port to watch. An event of the
/// program ends the wait at once.
const BUSY: Duration = Duration::from_millis(1);
const IDLE: Duration = Duration::from_millis(10);
const NOTHING: Duration = Duration::from_millis(200);
/// A look at a large flow table takes longer than an interval: then half of the time is spent on it. While the queues are short,
/// flows are looked at only where that takes less than this: whoever is to blame when they are long is then known at once.
const CHEAP: Duration = Duration::from_micros(500);
/// After this, a large flow table is looked at again, to see whether it still is.
const TRY_AGAIN_NS: u64 = 1_000_000_000;
/// Flows of which it is kept what was said about them.
const REMEMBERED: usize = 4096;

/// The running thread.
pub(crate) struct Watcher {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    orders: Mutex<Option<Orders>>,
    watched: Mutex<Watched>,
    stop: AtomicBool,
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
    }
}

impl Watcher {
    /// Starts in the network namespace of the caller.
    pub(crate) fn start(egress: Arc<EgressBpf>) -> Result<Self, DatapathError> {
        let (queues, mouth) = (Queues::open()?, Mouth::open()?);
        let path = egress.events_path();
        let map = MapHandle::from_pinned_path(&path).doing(format!("opening {}", path.display()))?;
        let shared = Arc::new(Shared::default());
        let of_thread = Arc::clone(&shared);
        thread::Builder::new()
            .name("long-haul".into())
            .spawn(move || {
                let mut watch = Watch {
                    egress: &egress,
                    shared: &of_thread,
                    queues,
                    mouth,
                    driver: Driver::new(),
                    flows_took: Duration::ZERO,
                    try_flows_ns: 0,
                };
                if let Err(e) = watch.run(&map) {
                    tracing::error!(
                        error = chain(&e),
                        "no Long-haul CNP will be sent until the agent is started again"
                    );
                }
            })
            .doing("starting the congestion watcher")?;
        Ok(Self { shared })
    }

    /// What to watch from now on.
    pub(crate) fn order(&self, orders: Orders) {
        *lock(&self.shared.orders) = Some(orders);
    }

    /// What was seen and said.
    pub(crate) fn watched(&self) -> Watched {
        lock(&self.shared.watched).clone()
    }
}

/// What a lock guards is whole after every statement, so a panic elsewhere spoils nothing.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

struct Watch<'a> {
    egress: &'a EgressBpf,
    shared: &'a Shared,
    queues: Queues,
    mouth: Mouth,
    driver: Driver,
    /// How long the last look at the flows took, and when to see whether it is shorter by now.
    flows_took: Duration,
    try_flows_ns: u64,
}

impl Watch<'_> {
    fn run(&mut self, map: &MapHandle) -> Result<(), DatapathError> {
        let alarms = RefCell::new(Vec::new());
        let ring = ring(map, &alarms).doing("reading the ring buffer of second-level events")?;
        let mut wait = IDLE;
        let mut failing = false;
        while !self.shared.stop.load(Ordering::Relaxed) {
            ring.poll(wait).doing("polling the ring buffer of second-level events")?;
            let began = monotonic_ns();
            if let Some(orders) = lock(&self.shared.orders).take() {
                self.take(orders, began);
            }
            for event in alarms.borrow_mut().drain(..) {
                self.driver.alarm(event.flow.ifindex, began);
            }
            let watching = self.driver.orders().is_some_and(|o| !o.ports.is_empty());
            let every = match (watching, self.driver.busy(began)) {
                (false, _) => NOTHING,
                (true, true) => BUSY,
                (true, false) => IDLE,
            };
            let looked = if watching { self.look(every, began) } else { Ok(()) };
            if let Err(e) = &looked
                && !failing
            {
                tracing::warn!(error = chain(e), "the queues cannot be looked at");
            }
            failing = looked.is_err();
            let took = Duration::from_nanos(monotonic_ns().saturating_sub(began));
            wait = every.max(took);
        }
        Ok(())
    }

    fn take(&mut self, orders: Orders, now_ns: u64) {
        let mut watched = lock(&self.shared.watched);
        watched.ports.retain(|port, _| orders.ports.contains_key(port));
        drop(watched);
        let refused = self.driver.order(orders, now_ns);
        if let Some(first) = refused.first() {
            tracing::warn!(flows = refused.len(), ?first, "provisioned flows find no room in the node's table");
        }
    }

    /// Depths, counters, flows while they matter; then what the node says of them.
    fn look(&mut self, every: Duration, now_ns: u64) -> Result<(), DatapathError> {
        let ports: Vec<_> =
            self.driver.orders().into_iter().flat_map(|o| &o.ports).map(|(i, p)| (*i, p.ifindex)).collect();
        let depths = self.queues.depths()?;
        let mut shown = Shown::default();
        for (_, ifindex) in &ports {
            let queue_bytes = depths.get(ifindex).copied().unwrap_or(0);
            self.egress.set_sampled(*ifindex, queue_bytes)?;
            let stats = self.egress.stats(*ifindex)?;
            let counters = Counters { queue_bytes, packets: stats.packets, ce_packets: stats.ce };
            shown.ports.insert(*ifindex, counters);
        }
        if self.driver.busy(now_ns) || self.flows_took < CHEAP || now_ns >= self.try_flows_ns {
            let began = monotonic_ns();
            shown.flows = Some(self.flows()?);
            shown.acks = self.egress.acks()?.iter().filter_map(|(key, seen)| Some((keys::flow(key)?, *seen))).collect();
            let now = monotonic_ns();
            self.flows_took = Duration::from_nanos(now.saturating_sub(began));
            self.try_flows_ns = now.saturating_add(TRY_AGAIN_NS);
        }
        let depth_of = |ifindex: &u32| shown.ports.get(ifindex).map_or(0, |c| c.queue_bytes);
        let depths: BTreeMap<_, _> =
            ports.iter().map(|(index, ifindex)| (*index, (*ifindex, depth_of(ifindex)))).collect();
        let said = self.driver.look(shown, now_ns);
        let spoken: Vec<_> = said.iter().map(|(command, tell)| (command, self.speak(command, *tell))).collect();
        let mut watched = lock(&self.shared.watched);
        for (index, (ifindex, queue_bytes)) in depths {
            let port = watched.ports.entry(index).or_default();
            (port.ifindex, port.queue_bytes) = (ifindex, queue_bytes);
            port.assessment = self.driver.assessment(index);
        }
        (watched.counts, watched.every) = (self.driver.counts(), every);
        for (command, sent) in spoken {
            remember(&mut watched, command, sent, now_ns);
        }
        Ok(())
    }

    fn flows(&self) -> Result<BTreeMap<(u32, FlowKey), FlowShown>, DatapathError> {
        let of_map = |(key, flow): (types::canopy_flow_key, types::canopy_flow)| {
            Some(((key.ifindex, keys::flow(&key)?), FlowShown { bytes: flow.bytes, seen_ns: flow.seen_ns }))
        };
        Ok(self.egress.flows()?.into_iter().filter_map(of_map).collect())
    }

    /// Whether it was sent.
    fn speak(&self, command: &Command, tell: std::net::Ipv6Addr) -> bool {
        let Some(orders) = self.driver.orders() else { return false };
        let by = Speaker { address: orders.node_address, device: &orders.device, time: wall_clock() };
        let sent = compose(command, tell, by)
            .doing(format!("composing a Long-haul CNP to {tell}"))
            .and_then(|packet| self.mouth.send(&packet, tell));
        if let Err(e) = &sent {
            tracing::debug!(error = chain(e), "a Long-haul CNP was not sent");
        }
        sent.is_ok()
    }
}

fn remember(watched: &mut Watched, command: &Command, sent: bool, now_ns: u64) {
    watched.ports.entry(command.port).or_default().said.count(command.action, sent);
    let key = command.flow.key;
    if !watched.flows.contains_key(&key) && watched.flows.len() >= REMEMBERED {
        let oldest = watched.flows.iter().min_by_key(|(_, (_, at))| *at).map(|(key, _)| *key);
        oldest.map(|key| watched.flows.remove(&key));
    }
    let (said, at) = watched.flows.entry(key).or_default();
    said.count(command.action, sent);
    *at = now_ns;
}

/// Events of the ring buffer go to `alarms`, oldest first.
fn ring<'a>(
    map: &'a MapHandle,
    alarms: &'a RefCell<Vec<types::canopy_second_level>>,
) -> libbpf_rs::Result<RingBuffer<'a>> {
    let mut builder = RingBufferBuilder::new();
    builder.add(map, move |data| {
        alarms.borrow_mut().extend(read::<types::canopy_second_level>(data));
        0
    })?;
    builder.build()
}
