// SPDX-License-Identifier: Apache-2.0
//! The thread that looks at the queues, hears the program's events, and speaks.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

use canopy_agent_core::DatapathError;
use canopy_agent_core::congestion::{Command, Counters, Settings};
use libbpf_rs::ErrorKind;

use super::driver::{Driver, Shown};
use super::heard::{Heard, Rings};
use super::keys;
use super::object::EgressBpf;
use super::orders::Orders;
use super::queues::Queues;
use super::report::Watched;
use super::speak::{Mouth, Speaker, compose, wall_clock};
use super::window::{FlowShown, Flows, PortShown, Window};
use crate::egress_skel::types;
use crate::error::{Doing, chain};
use crate::events::monotonic_ns;

/// Between two looks while no queue is, or lately was, above K_min, then it is the interval of a reading; and without a port to
/// watch. An event of the program ends the wait at once.
const IDLE: Duration = Duration::from_millis(10);
const NOTHING: Duration = Duration::from_millis(200);
/// A look at a large flow table takes longer than an interval: then half of the time is spent on it. While queues are short,
/// flows are looked at so seldom that a hundredth is: whoever is to blame when they are long is then known at once.
const SELDOM: u32 = 100;
const SELDOM_AT_MOST: Duration = Duration::from_millis(100);

/// Priority of the thread, as of nice(1).
const NICE: libc::c_int = -10;

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
    pub(crate) fn start(egress: Arc<EgressBpf>, settings: Settings) -> Result<Self, DatapathError> {
        let (queues, mouth) = (Queues::open()?, Mouth::open()?);
        let rings = Rings::open(&egress)?;
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
                    driver: Driver::new(settings),
                    busy: Duration::from_nanos(settings.interval_ns),
                    window: Window::default(),
                    flows_again_ns: 0,
                    acks_again_ns: 0,
                };
                if let Err(e) = watch.run(&rings) {
                    watch.blind();
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
    /// Interval of a reading.
    busy: Duration,
    /// When flows are looked at although queues are short.
    flows_again_ns: u64,
    acks_again_ns: u64,
    window: Window,
}

/// Before ordinary processes, where that is permitted (CAP_SYS_NICE): on a busy node a queue fills in the time that they run.
fn hurry() {
    // SAFETY: no memory is involved; 0 is the calling thread.
    if unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, NICE) } != 0 {
        let error = std::io::Error::last_os_error();
        tracing::debug!(%error, "queues are looked at with ordinary priority");
    }
}

impl Watch<'_> {
    fn run(&mut self, rings: &Rings) -> Result<(), DatapathError> {
        hurry();
        let heard = Heard::default();
        let ring = rings.into(&heard)?;
        let mut wait = IDLE;
        let mut failing = false;
        while !self.shared.stop.load(Ordering::Relaxed) {
            match ring.poll(wait) {
                // A signal, whatever it is; the time until the next look does not matter that much.
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                polled => polled.doing("polling the ring buffers of the egress program")?,
            }
            let began = monotonic_ns();
            if let Some(orders) = lock(&self.shared.orders).take() {
                self.take(orders, began);
            }
            heard.alarms.borrow_mut().drain(..).for_each(|ifindex| self.driver.alarm(ifindex, began));
            heard.cms.borrow_mut().drain(..).for_each(|message| self.driver.cm(message, began));
            let watching = self.driver.orders().is_some_and(|o| !o.ports.is_empty());
            let every = match (watching, self.driver.busy(began)) {
                (false, _) => NOTHING,
                (true, true) => self.busy,
                (true, false) => IDLE,
            };
            let looked = if watching { self.look(every, began) } else { Ok(()) };
            if let Err(e) = &looked
                && !failing
            {
                tracing::warn!(error = chain(e), "the queues cannot be looked at");
            }
            failing = looked.is_err();
            if failing {
                self.blind();
            }
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
        let watching: Vec<_> =
            self.driver.orders().into_iter().flat_map(|o| &o.ports).map(|(i, p)| (*i, p.ifindex)).collect();
        let depths = self.queues.depths()?;
        let depth_of = |ifindex: &u32| depths.get(ifindex).copied().unwrap_or(0);
        let (mut shown, mut ports) = (Shown::default(), BTreeMap::new());
        for (index, ifindex) in watching {
            let queue_bytes = depth_of(&ifindex);
            self.egress.set_sampled(ifindex, queue_bytes)?;
            let stats = self.egress.stats(ifindex)?;
            let counters = Counters { queue_bytes, packets: stats.packets, ce_packets: stats.ce };
            shown.ports.insert(ifindex, counters);
            ports.insert(ifindex, PortShown { index, bytes: stats.bytes });
        }
        let closing = self.window.is_over(now_ns);
        let judging = self.driver.busy(now_ns) || now_ns >= self.flows_again_ns;
        let flows = if judging || closing { Some(Arc::new(self.flows()?)) } else { None };
        if judging {
            shown.flows.clone_from(&flows);
        }
        // Whose ACKs they are is no matter of milliseconds.
        if judging && now_ns >= self.acks_again_ns {
            self.acks_again_ns = now_ns.saturating_add(SELDOM_AT_MOST.as_nanos() as u64);
            shown.acks = self.egress.acks()?.iter().filter_map(|(key, seen)| Some((keys::flow(key)?, *seen))).collect();
        }
        for (command, tell) in self.driver.look(shown, now_ns) {
            if !self.speak(&command, tell) {
                self.driver.not_sent(&command);
            }
        }
        let told = flows.filter(|_| closing).map(|flows| self.window.close(flows, &ports, self.driver.node(), now_ns));
        let mut watched = lock(&self.shared.watched);
        watched.every = every;
        for (ifindex, port) in &ports {
            let seen = watched.ports.entry(port.index).or_default();
            seen.ifindex = *ifindex;
            seen.seen(depth_of(ifindex), self.driver.node().assessment(port.index));
            seen.counts = self.driver.node().port_counts(port.index);
            if let Some(told) = &told {
                seen.close(told.get(&port.index).cloned().unwrap_or_default());
            }
        }
        Ok(())
    }

    /// Nothing is told rather than something old.
    fn blind(&self) {
        lock(&self.shared.watched).ports.clear();
    }

    fn flows(&mut self) -> Result<Flows, DatapathError> {
        let began = monotonic_ns();
        let of_map = |(key, flow): (types::canopy_flow_key, types::canopy_flow)| {
            let types::canopy_flow { packets, bytes, ce, came, seen_ns, .. } = flow;
            Some(((key.ifindex, keys::flow(&key)?), FlowShown { packets, bytes, ce, came, seen_ns }))
        };
        let flows = self.egress.flows()?.into_iter().filter_map(of_map).collect();
        let now = monotonic_ns();
        let again = (Duration::from_nanos(now.saturating_sub(began)) * SELDOM).max(SELDOM_AT_MOST);
        self.flows_again_ns = now.saturating_add(again.as_nanos() as u64);
        Ok(flows)
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
