// SPDX-License-Identifier: Apache-2.0
//! ICMPv6 Echo Requests on one link, and their answers.

use std::io;
use std::net::{Ipv6Addr, SocketAddrV6};
use std::sync::{Arc, Mutex};

use canopy_agent_core::echo::{Echo, EchoCounts, interval};
use canopy_agent_core::stamp::StampLink;
use canopy_units::Monotonic;
use nix::net::if_::if_nametoindex;
use socket2::{Domain, Protocol, SockRef, Socket, Type};
use tokio::net::UdpSocket;
use tokio::sync::{Notify, watch};
use tokio::task::AbortHandle;
use tokio::time::Instant;

use crate::link::since;
use crate::locked;

/// ICMPv6 types (RFC 4443 section 4).
pub(crate) const REQUEST: u8 = 128;
pub(crate) const REPLY: u8 = 129;
/// Type, code, checksum, identifier, sequence number.
pub(crate) const LEN: usize = 8;
/// Most answers that are read before the timer is polled again.
const BURST: usize = 64;

/// Watches one link until it is dropped.
#[derive(Debug)]
pub(crate) struct Watch {
    shown: Arc<Mutex<Shown>>,
    /// How many links the node has: their requests share its rate.
    links: watch::Sender<usize>,
    task: AbortHandle,
}

/// What the task has found so far.
#[derive(Clone, Copy, Debug, Default)]
struct Shown {
    is_silent: bool,
    counts: EchoCounts,
}

impl Watch {
    /// Starts; notifies `changed` when the link falls silent and when it answers again.
    pub(crate) fn start(link: &StampLink, links: usize, start: Instant, changed: &Arc<Notify>) -> Self {
        let shown = Arc::<Mutex<Shown>>::default();
        let (sender, receiver) = watch::channel(links);
        let task = Task {
            link: link.clone(),
            echo: Echo::new(interval(links), since(start)),
            links: receiver,
            start,
            // The socket receives from the neighbour only, and no two of this process share a link.
            identifier: std::process::id() as u16,
            shown: Arc::clone(&shown),
            changed: Arc::clone(changed),
        };
        Self { shown, links: sender, task: tokio::spawn(task.run()).abort_handle() }
    }

    /// The node has so many links from now on. What is known of this one stays known.
    pub(crate) fn set_links(&self, links: usize) {
        self.links.send_if_modified(|now| std::mem::replace(now, links) != links);
    }

    pub(crate) fn is_silent(&self) -> bool {
        locked(&self.shown).is_silent
    }

    pub(crate) fn counts(&self) -> EchoCounts {
        locked(&self.shown).counts
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

struct Task {
    link: StampLink,
    echo: Echo,
    links: watch::Receiver<usize>,
    start: Instant,
    identifier: u16,
    shown: Arc<Mutex<Shown>>,
    changed: Arc<Notify>,
}

impl Task {
    /// Runs until it is aborted. A request that cannot be sent is none, and the next one gets another socket. Answers are handled before the
    /// timer: what has arrived is not lost.
    async fn run(mut self) {
        let (mut socket, mut logged) = (None, String::new());
        loop {
            let due = self.start + self.echo.poll_timeout().since(Monotonic::START);
            let done = tokio::select! {
                biased;
                arrived = arrived(socket.as_ref()) => arrived.and_then(|()| self.receive(socket.as_ref())),
                () = changed(&mut self.links) => {
                    let links = *self.links.borrow_and_update();
                    self.echo.set_interval(interval(links), since(self.start));
                    Ok(())
                }
                () = tokio::time::sleep_until(due) => self.tick(&mut socket),
            };
            match done {
                Err(error) => {
                    socket = None;
                    let reason = error.to_string();
                    if reason != logged {
                        let interface = &self.link.interface;
                        tracing::warn!(interface, reason, "cannot send Echo Requests on the link, trying again");
                        logged = reason;
                    }
                }
                Ok(()) if self.echo.answers() => logged.clear(),
                Ok(()) => {}
            }
        }
    }

    fn tick(&mut self, socket: &mut Option<EchoSocket>) -> io::Result<()> {
        let received = self.receive(socket.as_ref());
        let sequence = self.echo.handle_timeout(since(self.start));
        let shown = Shown { is_silent: self.echo.is_silent(), counts: self.echo.counts() };
        let before = std::mem::replace(&mut *locked(&self.shown), shown);
        if before.is_silent != shown.is_silent {
            self.changed.notify_one();
        }
        let Some(sequence) = sequence else { return received };
        let sent = received.and_then(|()| self.send(socket, sequence));
        if sent.is_err() {
            self.echo.not_sent();
        }
        sent
    }

    /// Sends on the interface that has the name now: one that went and came back is another, which the socket before does not reach.
    fn send(&self, socket: &mut Option<EchoSocket>, sequence: u16) -> io::Result<()> {
        let scope = if_nametoindex(self.link.interface.as_str())?;
        if socket.as_ref().is_none_or(|socket| socket.scope != scope) {
            *socket = Some(EchoSocket::open(&self.link, scope)?);
        }
        socket.as_ref().map_or(Ok(()), |socket| socket.send(self.identifier, sequence))
    }

    fn receive(&mut self, socket: Option<&EchoSocket>) -> io::Result<()> {
        for _ in 0..BURST {
            let Some((identifier, sequence)) = socket.map_or(Ok(None), EchoSocket::receive)? else { break };
            if identifier == self.identifier {
                self.echo.handle_answer(sequence);
            }
        }
        Ok(())
    }
}

/// Waits for another value; for ever if there will be none. Cancel safe.
async fn changed(links: &mut watch::Receiver<usize>) {
    if links.changed().await.is_err() {
        std::future::pending().await
    }
}

/// Waits for a datagram; for ever without a socket. Cancel safe.
async fn arrived(socket: Option<&EchoSocket>) -> io::Result<()> {
    match socket {
        Some(socket) => socket.socket.readable().await,
        None => std::future::pending().await,
    }
}

/// A raw ICMPv6 socket on one link, connected to the neighbour: the kernel computes checksums. Datagrams are datagrams: tokio's type for
/// UDP serves.
struct EchoSocket {
    socket: UdpSocket,
    scope: u32,
}

impl EchoSocket {
    fn open(link: &StampLink, scope: u32) -> io::Result<Self> {
        let socket = Socket::new(Domain::IPV6, Type::RAW.nonblocking().cloexec(), Some(Protocol::ICMPV6))?;
        socket.bind_device(Some(link.interface.as_bytes()))?;
        let at = |address: Ipv6Addr| SocketAddrV6::new(address, 0, 0, scope);
        socket.bind(&at(link.own).into())?;
        // From now on it receives from the neighbour only.
        socket.connect(&at(link.neighbour).into())?;
        Ok(Self { socket: UdpSocket::from_std(socket.into())?, scope })
    }

    fn send(&self, identifier: u16, sequence: u16) -> io::Result<()> {
        let mut packet = [0; LEN];
        packet[0] = REQUEST;
        packet[4..6].copy_from_slice(&identifier.to_be_bytes());
        packet[6..8].copy_from_slice(&sequence.to_be_bytes());
        // Bypasses tokio, which treats a new socket as not writable until it has polled it once.
        match SockRef::from(&self.socket).send(&packet) {
            Ok(_) => Ok(()),
            // A full buffer or a neighbour that does not resolve loses it, like the link.
            Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => Ok(()),
            Err(e) if matches!(e.raw_os_error(), Some(libc::ENOBUFS | libc::EHOSTUNREACH | libc::ENETUNREACH)) => {
                Ok(())
            }
            Err(e) => Err(e),
        }
    }

    /// Identifier and sequence number of the next answer; `None` if nothing has arrived.
    fn receive(&self) -> io::Result<Option<(u16, u16)>> {
        loop {
            let mut octets = [0; 64];
            match self.socket.try_recv(&mut octets) {
                Ok(len) if len >= LEN && octets[0] == REPLY => {
                    let at = |i: usize| u16::from_be_bytes([octets[i], octets[i + 1]]);
                    return Ok(Some((at(4), at(6))));
                }
                // Neighbour discovery and others.
                Ok(_) => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if is_loss(&e) => {}
                Err(e) => return Err(e),
            }
        }
    }
}

/// True for errors that concern one request.
pub(crate) fn is_loss(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
        || matches!(error.raw_os_error(), Some(libc::ENOBUFS | libc::EHOSTUNREACH | libc::ENETUNREACH))
}
