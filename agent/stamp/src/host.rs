// SPDX-License-Identifier: Apache-2.0
//! ICMPv6 Echo Requests to the host of a stalled receiver: a task and a socket for each host, as long as its probe lasts.

use std::future::Future;
use std::io;
use std::net::{Ipv6Addr, SocketAddr, SocketAddrV6};
use std::pin::Pin;

use canopy_agent_core::reach::{EchoAnswer, EchoRequest, EchoSecret, HostProbe, HostProber, HostTarget};
use canopy_model::reach::HostReach;
use canopy_units::Monotonic;
use nix::net::if_::if_nametoindex;
use nix::sys::socket::{setsockopt, sockopt};
use socket2::{Domain, Protocol, SockRef, Socket, Type};
use tokio::net::UdpSocket;
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::echo::{LEN, REPLY, REQUEST, is_loss};
use crate::link::since;

/// Octets of an IPv6 header.
const IPV6_LEN: usize = 40;
/// The token follows the ICMPv6 header.
const TOKEN: std::ops::Range<usize> = LEN..LEN + 8;
/// Results that the event loop has not taken; a probe ends only once there is room.
const RESULTS: usize = 16;
/// Most replies that are read before the timer is polled again.
const BURST: usize = 64;

type Found = (HostTarget, Option<HostReach>);

/// Probes hosts.
#[derive(Debug)]
pub struct Hosts {
    start: Instant,
    sender: mpsc::Sender<Found>,
    results: mpsc::Receiver<Found>,
}

impl Default for Hosts {
    fn default() -> Self {
        let (sender, results) = mpsc::channel(RESULTS);
        Self { start: Instant::now(), sender, results }
    }
}

impl HostProber for Hosts {
    /// Must be called on the tokio runtime.
    fn probe(&mut self, target: HostTarget) {
        let (start, sender) = (self.start, self.sender.clone());
        tokio::spawn(async move {
            let found = probe(&target, start).await.inspect_err(|error| {
                tracing::warn!(interface = target.interface, host = %target.host, %error, "cannot send Echo Requests to the host of a stalled receiver");
            });
            _ = sender.send((target, found.ok())).await;
        });
    }

    fn found(&mut self) -> Pin<Box<dyn Future<Output = Found> + Send + '_>> {
        Box::pin(async {
            match self.results.recv().await {
                Some(found) => found,
                // This holds a sender, so it does not happen.
                None => std::future::pending().await,
            }
        })
    }
}

async fn probe(target: &HostTarget, start: Instant) -> io::Result<HostReach> {
    let secret = secret()?;
    let socket = HostSocket::open(target, secret)?;
    let mut probe = HostProbe::new(target, secret, since(start));
    loop {
        while let Some(request) = probe.next_request() {
            socket.send(request)?;
        }
        if let Some(found) = probe.found() {
            return Ok(found);
        }
        let due = start + probe.poll_timeout().since(Monotonic::START);
        tokio::select! {
            biased;
            readable = socket.socket.readable() => readable?,
            () = tokio::time::sleep_until(due) => {}
        }
        // What has arrived is not lost, whatever woke this.
        for _ in 0..BURST {
            match socket.receive()? {
                Arrived::Nothing => break,
                Arrived::Other => {}
                Arrived::Reply(answer) => probe.handle_answer(&answer),
            }
        }
        probe.handle_timeout(since(start));
    }
}

fn secret() -> io::Result<EchoSecret> {
    let mut octets = [0; 10];
    getrandom::fill(&mut octets)?;
    let [a, b, token @ ..] = octets;
    Ok(EchoSecret { identifier: u16::from_be_bytes([a, b]), token: u64::from_be_bytes(token) })
}

enum Arrived {
    Nothing,
    /// An error of one request, or a message that is no Echo Reply.
    Other,
    Reply(EchoAnswer),
}

/// A raw ICMPv6 socket on the interface towards a host, connected to it: the kernel computes checksums and drops what others send.
struct HostSocket {
    socket: UdpSocket,
    secret: EchoSecret,
    longest: usize,
}

impl HostSocket {
    fn open(target: &HostTarget, secret: EchoSecret) -> io::Result<Self> {
        let scope = if_nametoindex(target.interface.as_str())?;
        let socket = Socket::new(Domain::IPV6, Type::RAW.nonblocking().cloexec(), Some(Protocol::ICMPV6))?;
        socket.bind_device(Some(target.interface.as_bytes()))?;
        // Fragments would pass where packets of data do not.
        setsockopt(&socket, sockopt::Ipv6DontFrag, &true)?;
        let at = |address: Ipv6Addr| SocketAddrV6::new(address, 0, 0, scope);
        socket.bind(&at(target.own).into())?;
        socket.connect(&at(target.host).into())?;
        let longest = usize::from(target.large) - IPV6_LEN;
        Ok(Self { socket: UdpSocket::from_std(socket.into())?, secret, longest })
    }

    fn send(&self, request: EchoRequest) -> io::Result<()> {
        let packet = packet(self.secret, request);
        // Bypasses tokio, which treats a new socket as not writable until it has polled it once.
        match SockRef::from(&self.socket).send(&packet) {
            Ok(_) => Ok(()),
            // The interface or the path does not take it, as it would not take a packet of data.
            Err(error) if is_loss(&error) || error.raw_os_error() == Some(libc::EMSGSIZE) => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn receive(&self) -> io::Result<Arrived> {
        // One octet more than the longest request: a longer reply is no answer to it.
        let mut octets = vec![0; self.longest + 1];
        match self.socket.try_recv_from(&mut octets) {
            Ok((len, SocketAddr::V6(from))) => {
                Ok(parse(&octets[..len], *from.ip()).map_or(Arrived::Other, Arrived::Reply))
            }
            Ok((_, SocketAddr::V4(_))) => Ok(Arrived::Other),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(Arrived::Nothing),
            Err(error) if is_loss(&error) || error.raw_os_error() == Some(libc::EMSGSIZE) => Ok(Arrived::Other),
            Err(error) => Err(error),
        }
    }
}

/// An Echo Request without its checksum, from its ICMPv6 header on.
fn packet(secret: EchoSecret, request: EchoRequest) -> Vec<u8> {
    let mut packet = vec![0; usize::from(request.bytes) - IPV6_LEN];
    packet[0] = REQUEST;
    packet[4..6].copy_from_slice(&secret.identifier.to_be_bytes());
    packet[6..8].copy_from_slice(&request.sequence.to_be_bytes());
    packet[TOKEN].copy_from_slice(&secret.token.to_be_bytes());
    packet
}

/// An Echo Reply, from its ICMPv6 header on; `None` if it is another message, or too short to be an answer.
fn parse(octets: &[u8], source: Ipv6Addr) -> Option<EchoAnswer> {
    let (header, data) = octets.split_first_chunk::<LEN>()?;
    let token = u64::from_be_bytes(*data.first_chunk()?);
    let [REPLY, 0, _, _, i, d, s, q] = *header else { return None };
    let secret = EchoSecret { identifier: u16::from_be_bytes([i, d]), token };
    Some(EchoAnswer { source, secret, sequence: u16::from_be_bytes([s, q]), bytes: IPV6_LEN + octets.len() })
}

#[cfg(test)]
mod tests {
    use canopy_model::reach::HostVerdict;

    use super::*;

    const SECRET: EchoSecret = EchoSecret { identifier: 0x1234, token: 0x0102_0304_0506_0708 };

    fn reply(request: EchoRequest) -> Vec<u8> {
        let mut packet = packet(SECRET, request);
        packet[0] = REPLY;
        packet
    }

    #[test]
    fn a_reply_has_what_the_request_had() {
        for request in [EchoRequest { sequence: 0, bytes: 64 }, EchoRequest { sequence: 0xABCD, bytes: 4180 }] {
            let answer = parse(&reply(request), Ipv6Addr::LOCALHOST).unwrap();
            assert_eq!(
                (answer.secret, answer.sequence, answer.bytes),
                (SECRET, request.sequence, request.bytes.into())
            );
            assert_eq!(parse(&packet(SECRET, request), Ipv6Addr::LOCALHOST), None, "a request is no reply");
        }
    }

    /// Every prefix, and every octet changed, of a good reply: none panics, and none but the padding and the checksum is ignored.
    #[test]
    fn damaged_replies_are_known() {
        let good = reply(EchoRequest { sequence: 3, bytes: 64 });
        let parsed = parse(&good, Ipv6Addr::LOCALHOST);
        for len in 0..good.len() {
            assert_ne!(parse(&good[..len], Ipv6Addr::LOCALHOST), parsed, "{len} octets");
        }
        for at in (0..good.len()).filter(|at| ![2, 3].contains(at) && *at < TOKEN.end) {
            let mut bad = good.clone();
            bad[at] ^= 1;
            assert_ne!(parse(&bad, Ipv6Addr::LOCALHOST), parsed, "octet {at}");
        }
    }

    /// The kernel answers on the loopback interface, as that of a host does; needs root like the agent.
    #[tokio::test]
    async fn a_host_that_answers_is_found() {
        let lo = |interface: &str| HostTarget {
            interface: interface.into(),
            own: Ipv6Addr::LOCALHOST,
            host: Ipv6Addr::LOCALHOST,
            large: 4180,
        };
        let mut hosts = Hosts::default();
        hosts.probe(lo("lo"));
        let (target, reach) = hosts.found().await;
        assert_eq!((target, reach.map(|r| r.verdict())), (lo("lo"), Some(HostVerdict::AnswersData)));
        hosts.probe(lo("no-such-if"));
        assert_eq!(hosts.found().await, (lo("no-such-if"), None));
    }
}
