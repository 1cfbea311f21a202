// SPDX-License-Identifier: Apache-2.0
//! The watcher: a thread that polls the queues, reads the program's events, and sends Long-haul CNPs.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

use canopy_agent_core::congestion::{Command, Counters, Settings};
use canopy_units::{Monotonic, Octets};
use libbpf_rs::ErrorKind;

use super::Egress;
use super::cnp::{CnpSender, compose, wall_clock};
use super::config::WatcherConfig;
use super::driver::{Driver, Snapshot};
use super::keys;
use super::queues::Queues;
use super::report::Observations;
use super::rings::{RingEvents, Rings};
use super::window::{FlowTotals, Flows, PortTotals, Window};
use crate::raw_socket::RawSocket;
use canopy_bpf::monotonic;
use canopy_bpf::node::types;
use canopy_bpf::{Context, Result, chain};

/// Time between two polls while no queue is above K_min or was recently; otherwise it is the interval of a reading. An event of the
/// program ends the wait at once.
const IDLE: Duration = Duration::from_millis(10);
/// Time between two checks for a configuration with ports.
const NO_PORTS: Duration = Duration::from_millis(200);
/// Reading a large flow table takes longer than an interval; then half of the time is spent on it. While queues are short, flows are
/// read with 1 % of the time, so that the heaviest flows are known as soon as a queue is long.
const FLOW_POLL_FACTOR: u32 = 100;
/// Shortest time between two reads of the flows while queues are short, and between two reads of the ACKs.
const FLOW_POLL_MIN: Duration = Duration::from_millis(100);

/// Priority of the thread, as of nice(1).
const NICE: libc::c_int = -10;

/// The running thread.
pub(crate) struct Watcher {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    config: Mutex<Option<WatcherConfig>>,
    observations: Mutex<Observations>,
    stop: AtomicBool,
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
    }
}

impl Watcher {
    /// Starts the thread in the network namespace of the caller.
    pub(crate) fn start(egress: Arc<Egress>, settings: Settings) -> Result<Self> {
        let (queues, socket) = (Queues::open()?, RawSocket::open()?);
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
                    socket,
                    driver: Driver::new(settings),
                    busy: settings.interval,
                    window: Window::default(),
                    flows_again: Monotonic::START,
                    acks_again: Monotonic::START,
                };
                if let Err(e) = watch.run(&rings) {
                    watch.clear_observations();
                    tracing::error!(
                        error = chain(&e),
                        "the congestion watcher has ended: restart the agent to send Long-haul CNPs again"
                    );
                }
            })
            .context("starting the congestion watcher")?;
        Ok(Self { shared })
    }

    /// Replaces the configuration.
    pub(crate) fn configure(&self, config: WatcherConfig) {
        *lock(&self.shared.config) = Some(config);
    }

    /// Current observations of the ports.
    pub(crate) fn observations(&self) -> Observations {
        lock(&self.shared.observations).clone()
    }
}

/// Ignores poisoning: the locked values are consistent after every statement.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

struct Watch<'a> {
    egress: &'a Egress,
    shared: &'a Shared,
    queues: Queues,
    socket: RawSocket,
    driver: Driver,
    /// Interval of a reading.
    busy: Duration,
    /// When flows are read next while queues are short.
    flows_again: Monotonic,
    acks_again: Monotonic,
    window: Window,
}

/// Raises the thread's priority if that is permitted (CAP_SYS_NICE): on a busy node a queue can fill while other processes run.
fn raise_priority() {
    // SAFETY: no memory is involved; 0 is the calling thread.
    if unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, NICE) } != 0 {
        let error = std::io::Error::last_os_error();
        tracing::debug!(%error, "cannot raise the priority of the congestion watcher");
    }
}

impl Watch<'_> {
    fn run(&mut self, rings: &Rings) -> Result<()> {
        raise_priority();
        let events = RingEvents::default();
        let ring = rings.into(&events)?;
        let mut wait = IDLE;
        let mut failing = false;
        while !self.shared.stop.load(Ordering::Relaxed) {
            match ring.poll(wait) {
                // A signal ended the wait early, which does no harm.
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                polled => polled.context("polling the ring buffers of the egress program")?,
            }
            let start = monotonic();
            if let Some(config) = lock(&self.shared.config).take() {
                self.configure(config, start);
            }
            events.alarms.borrow_mut().drain(..).for_each(|ifindex| self.driver.alarm(ifindex, start));
            events.cms.borrow_mut().drain(..).for_each(|message| self.driver.cm(message, start));
            let watching = self.driver.config().is_some_and(|c| !c.ports.is_empty());
            let interval = match (watching, self.driver.busy(start)) {
                (false, _) => NO_PORTS,
                (true, true) => self.busy,
                (true, false) => IDLE,
            };
            let polled = if watching { self.poll(interval, start) } else { Ok(()) };
            if let Err(e) = &polled
                && !failing
            {
                tracing::warn!(
                    error = chain(e),
                    "cannot poll the queues, trying again: no Long-haul CNPs until it succeeds"
                );
            }
            failing = polled.is_err();
            if failing {
                self.clear_observations();
            }
            let took = monotonic().since(start);
            wait = interval.max(took);
        }
        Ok(())
    }

    fn configure(&mut self, config: WatcherConfig, now: Monotonic) {
        let mut observations = lock(&self.shared.observations);
        observations.ports.retain(|port, _| config.ports.contains_key(port));
        drop(observations);
        let refused = self.driver.configure(config, now);
        if let Some(first) = refused.first() {
            tracing::warn!(
                flows = refused.len(),
                src = %first.src,
                dst = %first.dst,
                qpn = first.dst_qp.get(),
                "cannot store all provisioned flows, the flow table is full; the first flow without an entry is given"
            );
        }
    }

    /// Reads depths, counters and, if due, flows; sends the resulting CNPs and updates the observations.
    fn poll(&mut self, interval: Duration, now: Monotonic) -> Result<()> {
        let watching: Vec<_> =
            self.driver.config().into_iter().flat_map(|c| &c.ports).map(|(i, p)| (*i, p.ifindex)).collect();
        let queues = self.queues.read()?;
        let depth_of = |ifindex: &u32| Octets(queues.get(ifindex).map_or(0, |queue| queue.depth));
        let (mut snapshot, mut ports) = (Snapshot::default(), BTreeMap::new());
        for (index, ifindex) in watching {
            let queue = depth_of(&ifindex);
            self.egress.set_sampled(ifindex, queue)?;
            let stats = self.egress.stats(ifindex)?;
            let counters = Counters { queue, packets: stats.packets, ce_packets: stats.ce };
            snapshot.ports.insert(ifindex, counters);
            ports.insert(ifindex, PortTotals { index, octets: Octets(stats.bytes) });
        }
        let closing = self.window.has_ended(now);
        let flows_due = self.driver.busy(now) || now >= self.flows_again;
        let flows = if flows_due || closing { Some(Arc::new(self.flows()?)) } else { None };
        if flows_due {
            snapshot.flows.clone_from(&flows);
        }
        // Source QPs change seldom.
        if flows_due && now >= self.acks_again {
            self.acks_again = now + FLOW_POLL_MIN;
            snapshot.acks = self
                .egress
                .acks()?
                .iter()
                .filter_map(|(key, seen)| Some((keys::flow(key)?, Monotonic::from_nanos(*seen))))
                .collect();
        }
        for (command, dst) in self.driver.handle_snapshot(snapshot, now) {
            if !self.send_cnp(&command, dst) {
                self.driver.not_sent(&command);
            }
        }
        let reported = flows.filter(|_| closing).map(|flows| self.window.close(flows, &ports, self.driver.node(), now));
        let mut observations = lock(&self.shared.observations);
        observations.interval = interval;
        for (ifindex, port) in &ports {
            let observation = observations.ports.entry(port.index).or_default();
            observation.ifindex = *ifindex;
            observation.add(depth_of(ifindex), self.driver.node().assessment(port.index));
            observation.counts = self.driver.node().port_counts(port.index);
            if let Some(reported) = &reported {
                observation.close(reported.get(&port.index).cloned().unwrap_or_default());
            }
        }
        Ok(())
    }

    /// Removes the observations, so that stale ones are not reported.
    fn clear_observations(&self) {
        lock(&self.shared.observations).ports.clear();
    }

    fn flows(&mut self) -> Result<Flows> {
        let start = monotonic();
        let of_map = |(key, flow): (types::canopy_flow_key, types::canopy_flow)| {
            let types::canopy_flow { packets, bytes, ce, ce_in_bytes, seen_ns, .. } = flow;
            let (octets, ce_in, seen) = (Octets(bytes), Octets(ce_in_bytes), Monotonic::from_nanos(seen_ns));
            Some(((key.ifindex, keys::flow(&key)?), FlowTotals { packets, octets, ce, ce_in, seen }))
        };
        let flows = self.egress.flows()?.into_iter().filter_map(of_map).collect();
        let now = monotonic();
        let again = (now.since(start) * FLOW_POLL_FACTOR).max(FLOW_POLL_MIN);
        self.flows_again = now + again;
        Ok(flows)
    }

    /// Sends the CNP of a command to `dst`; returns whether it was sent.
    fn send_cnp(&self, command: &Command, dst: std::net::Ipv6Addr) -> bool {
        let Some(config) = self.driver.config() else { return false };
        let sender = CnpSender { address: config.node_address, device: &config.device, time: wall_clock() };
        let sent = compose(command, dst, sender)
            .with_context(|| format!("composing a Long-haul CNP to {dst}"))
            .and_then(|packet| self.socket.send(&packet, dst));
        if let Err(e) = &sent {
            tracing::debug!(error = chain(e), "cannot send a Long-haul CNP");
        }
        sent.is_ok()
    }
}
