// SPDX-License-Identifier: Apache-2.0
//! The thread that sends probes and judges them. It has a thread of its own, so that no other work of the daemon delays a probe; times of
//! probes are taken by BPF, so that a delay of this thread is none of theirs.

use std::io;
use std::net::{Ipv6Addr, SocketAddrV6};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::Context;
use canopy_bpf::monotonic;
use canopy_bpf::probes::Probes;
use canopy_bpf::steer::MARK;
use canopy_host_core::probing::{Answer, Probe, Probing, RING, Settings, WayNumber};
use canopy_units::Monotonic;
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use tokio::sync::Notify;

use crate::probe::{Content, Secret, Sender, packet};

/// Probes that are sent before what has come back is judged again.
const BATCH: usize = 64;
/// Octets that wait in the socket for the interface.
const BUFFER: usize = 4 << 20;

const _: () = assert!(RING == canopy_bpf::probes::RING);

/// The prober, for the daemon.
#[derive(Debug)]
pub(crate) struct Prober {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    wake: Condvar,
    /// A fault has changed.
    changed: Notify,
    /// Why the system did not take the last probe; empty: it did.
    refused: Mutex<String>,
}

#[derive(Debug)]
struct State {
    probing: Probing,
    /// Where probes come from; nothing is sent without.
    address: Option<Ipv6Addr>,
    is_ended: bool,
}

impl Prober {
    /// Starts the thread. `secret` is in every probe.
    ///
    /// # Errors
    /// The system refuses the socket: this process lacks `CAP_NET_RAW`.
    pub(crate) fn start(
        interface: &str,
        settings: Settings,
        traffic_class: u8,
        secret: Secret,
        cells: Probes,
    ) -> anyhow::Result<Self> {
        let socket = open(interface).context("opening a raw socket for probes (needs CAP_NET_RAW and CAP_NET_ADMIN; `probe.interval = \"0s\"` does without probes)")?;
        let first = u32::from_be_bytes([secret[4], secret[5], secret[6], secret[7]]);
        let shared = Arc::new(Shared {
            state: Mutex::new(State { probing: Probing::new(settings, first), address: None, is_ended: false }),
            wake: Condvar::new(),
            changed: Notify::new(),
            refused: Mutex::default(),
        });
        let of_thread = Arc::clone(&shared);
        let work = move || run(&of_thread, &socket, &cells, traffic_class, secret);
        let thread = std::thread::Builder::new()
            .name("prober".to_owned())
            .spawn(work)
            .context("starting the thread of probes")?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// Reads or changes what is probed.
    pub(crate) fn with<T>(&self, act: impl FnOnce(&mut Probing) -> T) -> T {
        let done = act(&mut self.shared.state().probing);
        self.shared.wake.notify_one();
        done
    }

    /// Probes come from this address.
    pub(crate) fn set_address(&self, address: Ipv6Addr) {
        self.shared.state().address = Some(address);
    }

    /// Completes when a fault may have changed. Cancel safe.
    pub(crate) async fn changed(&self) {
        self.shared.changed.notified().await;
    }

    /// Why the system does not take probes; empty: it does.
    pub(crate) fn refused(&self) -> String {
        self.shared.refused.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The thread has ended, which it does on a panic alone.
    pub(crate) fn has_ended(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }
}

impl Drop for Prober {
    fn drop(&mut self) {
        self.shared.state().is_ended = true;
        self.shared.wake.notify_one();
        if let Some(thread) = self.thread.take() {
            // A panic of it is on standard error.
            _ = thread.join();
        }
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A raw IPv6 socket whose packets have their own headers, and are marked for the BPF program.
fn open(interface: &str) -> io::Result<Socket> {
    let socket = Socket::new(Domain::IPV6, Type::RAW.nonblocking().cloexec(), Some(Protocol::from(RAW)))?;
    socket.bind_device(Some(interface.as_bytes()))?;
    socket.set_mark(MARK)?;
    socket.set_send_buffer_size(BUFFER)?;
    // Nothing is received from it.
    socket.set_recv_buffer_size(0)?;
    Ok(socket)
}

/// IPPROTO_RAW.
const RAW: i32 = 255;

fn run(shared: &Shared, socket: &Socket, cells: &Probes, traffic_class: u8, secret: Secret) {
    let mut batch = Vec::with_capacity(BATCH);
    loop {
        let mut state = shared.state();
        if state.is_ended {
            return;
        }
        let State { probing, address, .. } = &mut *state;
        probing.handle_timeout(monotonic(), |way, sequence| become_of(cells, way, sequence));
        while batch.len() < BATCH
            && let Some(probe) = probing.next_probe()
        {
            batch.push(probe);
        }
        let is_more = batch.len() == BATCH;
        if probing.has_changes() {
            shared.changed.notify_one();
        }
        if let Some(address) = *address {
            let from = Sender { address, traffic_class, secret };
            drop(state);
            send(shared, socket, cells, &from, &batch);
            state = shared.state();
        }
        batch.clear();
        if is_more || state.is_ended {
            continue;
        }
        let due = state.probing.poll_timeout();
        let now = monotonic();
        match due {
            Some(due) if due <= now => {}
            Some(due) => drop(shared.wake.wait_timeout(state, due.since(now))),
            None => drop(shared.wake.wait(state)),
        }
    }
}

fn become_of(cells: &Probes, way: WayNumber, sequence: u32) -> Answer {
    match cells.times(way, sequence) {
        Some(times) => match (times.left_ns, times.back_ns) {
            (Some(left), Some(back)) => match back.checked_sub(left & !1) {
                Some(after) => Answer::Back { after: Duration::from_nanos(after), is_marked: times.is_marked },
                None => Answer::NotSent,
            },
            (Some(left), None) => Answer::OnItsWay { left: Monotonic::from_nanos(left) },
            (None, _) => Answer::NotSent,
        },
        None => Answer::NotSent,
    }
}

fn send(shared: &Shared, socket: &Socket, cells: &Probes, from: &Sender, probes: &[Probe]) {
    for Probe { way, sequence, header, length } in probes {
        let timestamp = ntp(monotonic());
        let length = length.map_or(0, |length| length as usize);
        let content = Content { header, way: *way, sequence: *sequence, timestamp, length };
        let Ok(packet) = packet(from, &content) else { continue };
        cells.prepare(*way, *sequence);
        let to = SockAddr::from(SocketAddrV6::new(header.destination, 0, 0, 0));
        // What is not sent is not lost: BPF does not see it leave.
        let error = socket.send_to(&packet, &to).err().map(|error| error.to_string()).unwrap_or_default();
        let mut known = shared.refused.lock().unwrap_or_else(PoisonError::into_inner);
        if *known != error {
            if known.is_empty() {
                let to = header.destination;
                tracing::warn!(%to, error, "a probe cannot be sent: is there a route to the block of uSIDs over the interface?");
            }
            *known = error;
        }
    }
}

/// In the format of NTP, of a clock that is not synchronised: only this host reads it.
fn ntp(time: Monotonic) -> u64 {
    let (seconds, nanos) = (time.nanos() / 1_000_000_000, time.nanos() % 1_000_000_000);
    (seconds << 32) | ((nanos << 32) / 1_000_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_the_format_of_ntp() {
        assert_eq!(ntp(Monotonic::from_nanos(0)), 0);
        assert_eq!(ntp(Monotonic::from_nanos(1_500_000_000)), 0x0000_0001_8000_0000);
    }
}
