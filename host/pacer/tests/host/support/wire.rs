// SPDX-License-Identifier: Apache-2.0
//! The veth pair: sends packets onto it, and records those that arrive.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{ErrorKind, IoSliceMut};
use std::net::SocketAddrV6;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use canopy_packet::bth::Opcode;
use canopy_packet::frame::RoceBuilder;
use nix::sched::{CloneFlags, setns};
use nix::sys::socket::sockopt::ReceiveTimestampns;
use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg, setsockopt};
use nix::sys::time::{TimeSpec, TimeValLike};
use socket2::{Domain, Protocol, Socket, Type};

use super::{HOST, N1, N2, PEER, UNTRUSTED, at, monotonic_ns, sh};

/// Payload of a test packet.
const PAYLOAD: usize = 1000;
/// Few packets wait in a socket, so that a measurement shows the current pacing.
const SEND_BUFFER: usize = 16 << 10;

/// Two namespaces, removed when dropped.
pub(crate) struct Wire {
    host: String,
    peer: String,
}

impl Wire {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let tag = format!("{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let wire = Self { host: format!("cpc-h-{tag}"), peer: format!("cpc-p-{tag}") };
        let (host, peer) = (&wire.host, &wire.peer);
        for line in [
            format!("ip netns add {host}"),
            format!("ip netns add {peer}"),
            format!("ip link add eth0 netns {host} mtu 1500 type veth peer name eth0 netns {peer} mtu 1500"),
            format!("ip -n {host} addr add {HOST}/64 dev eth0 nodad"),
            format!("ip -n {peer} addr add {PEER}/64 dev eth0 nodad"),
            format!("ip -n {host} link set eth0 up"),
            format!("ip -n {peer} link set eth0 up"),
            format!("ip -n {host} route add default via {PEER}"),
        ] {
            sh(&line).unwrap();
        }
        for node in [N1, N2, UNTRUSTED] {
            sh(&format!("ip -n {peer} addr add {node}/128 dev eth0 nodad")).unwrap();
        }
        // Neighbours are resolved before any measurement.
        sh(&format!("ip netns exec {peer} ping -6 -c 1 -W 5 {HOST}")).unwrap();
        wire
    }

    pub(crate) fn host(&self) -> &str {
        &self.host
    }

    /// Runs a program in the host's namespace.
    pub(crate) fn on_host(&self, line: &str) -> Result<String, String> {
        sh(&format!("ip netns exec {} {line}", self.host))
    }

    /// Sends packets, each from its IPv6 header on, from the peer's side to the host.
    pub(crate) fn to_host(&self, packets: &[Vec<u8>]) {
        self.send(&self.peer, HOST, packets);
    }

    /// Sends packets from the host to the peer.
    pub(crate) fn out_of_host(&self, packets: &[Vec<u8>]) {
        self.send(&self.host, PEER, packets);
    }

    fn send(&self, ns: &str, to: &str, packets: &[Vec<u8>]) {
        let to = SocketAddrV6::new(at(to), 0, 0, 0).into();
        within(ns, || {
            let socket = raw();
            for packet in packets {
                assert_eq!(socket.send_to(packet, &to).unwrap(), packet.len());
            }
        });
    }

    /// Runs `work` in the host's namespace.
    pub(crate) fn within_host<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        within(&self.host, work)
    }

    /// A requester on the host that sends as fast as possible.
    pub(crate) fn flood(&self, dest_qpn: u32) -> Flood {
        let (stop, ns) = (Arc::new(AtomicBool::new(false)), self.host.clone());
        let stopped = Arc::clone(&stop);
        let run = move || {
            within(&ns, || {
                let socket = raw();
                socket.set_send_buffer_size(SEND_BUFFER).unwrap();
                socket.set_write_timeout(Some(Duration::from_millis(100))).unwrap();
                let packet = request(dest_qpn, 0);
                let to = SocketAddrV6::new(at(PEER), 0, 0, 0).into();
                while !stopped.load(Ordering::Relaxed) {
                    match socket.send_to(&packet, &to) {
                        Err(e) if !matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => panic!("{e}"),
                        _ => {}
                    }
                }
            });
        };
        Flood { stop, thread: Some(std::thread::spawn(run)) }
    }

    /// Records packets that arrive at the peer from now on, and when: as the kernel had them, however late this process reads them.
    pub(crate) fn arrivals(&self) -> Arrivals {
        let (stop, seen) = (Arc::new(AtomicBool::new(false)), Arc::default());
        let (stopped, noted): (_, Arc<Mutex<Seen>>) = (Arc::clone(&stop), Arc::clone(&seen));
        let ns = self.peer.clone();
        let (ready, wait) = std::sync::mpsc::channel();
        let run = move || {
            within(&ns, || {
                let socket = Socket::new(Domain::IPV6, Type::RAW, Some(Protocol::UDP)).unwrap();
                socket.set_recv_buffer_size(4 << 20).unwrap();
                socket.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
                setsockopt(&socket, ReceiveTimestampns, &true).unwrap();
                ready.send(()).unwrap();
                let mut buffer = [0; 2048];
                while !stopped.load(Ordering::Relaxed) {
                    let Some((length, at)) = receive(&socket, &mut buffer) else { continue };
                    // UDP header, BTH: the QPN is its second word.
                    if length < 20 {
                        continue;
                    }
                    let qpn = buffer[13..16].iter().fold(0, |n, o| n << 8 | u32::from(*o));
                    noted.lock().unwrap().entry(qpn).or_default().push((at, length));
                }
            });
        };
        let thread = Some(std::thread::spawn(run));
        wait.recv().unwrap();
        Arrivals { stop, seen, thread }
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        for ns in [&self.host, &self.peer] {
            if let Err(error) = sh(&format!("ip netns del {ns}")) {
                eprintln!("{error}");
            }
        }
    }
}

type Seen = BTreeMap<u32, Vec<(u64, usize)>>;

/// Packets that arrived, by DestQP, with time and octets.
pub(crate) struct Arrivals {
    stop: Arc<AtomicBool>,
    seen: Arc<Mutex<Seen>>,
    thread: Option<JoinHandle<()>>,
}

impl Arrivals {
    /// Octets for a QP since a time.
    pub(crate) fn octets(&self, dest_qpn: u32, since_ns: u64) -> usize {
        let seen = self.seen.lock().unwrap();
        seen.get(&dest_qpn).into_iter().flatten().filter(|(at, _)| *at >= since_ns).map(|(_, octets)| octets).sum()
    }

    /// Arrival times of packets for a QP.
    pub(crate) fn times(&self, dest_qpn: u32) -> Vec<u64> {
        let seen = self.seen.lock().unwrap();
        seen.get(&dest_qpn).into_iter().flatten().map(|(at, _)| *at).collect()
    }
}

impl Drop for Arrivals {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        _ = self.thread.take().map(JoinHandle::join);
    }
}

/// Reads a packet; returns its length, and when the kernel received it, on [`monotonic_ns`]'s clock. `None` if there is none.
fn receive(socket: &Socket, buffer: &mut [u8]) -> Option<(usize, u64)> {
    let mut control = nix::cmsg_space!(TimeSpec);
    let mut parts = [IoSliceMut::new(buffer)];
    let packet = recvmsg::<()>(socket.as_raw_fd(), &mut parts, Some(&mut control), MsgFlags::empty()).ok()?;
    let stamp = packet.cmsgs().unwrap().find_map(|c| match c {
        ControlMessageOwned::ScmTimestampns(at) => Some(at),
        _ => None,
    });
    let age = nix::time::clock_gettime(nix::time::ClockId::CLOCK_REALTIME).unwrap() - stamp.unwrap();
    Some((packet.bytes, monotonic_ns() - age.num_nanoseconds() as u64))
}

/// A requester; it ends when dropped.
pub(crate) struct Flood {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Flood {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let ended = self.thread.take().map(JoinHandle::join);
        assert!(std::thread::panicking() || ended.is_none_or(|e| e.is_ok()), "a requester panicked");
    }
}

/// One RC request with AckReq.
pub(crate) fn request(dest_qpn: u32, psn: u32) -> Vec<u8> {
    let mut builder = RoceBuilder::new(at(HOST), at(PEER), Opcode::SEND_ONLY, dest_qpn, psn);
    builder.bth.ack_req = true;
    builder.payload = &[0x5a; PAYLOAD];
    builder.build().unwrap()
}

fn raw() -> Socket {
    // IPPROTO_RAW: packets contain their own IPv6 header.
    Socket::new(Domain::IPV6, Type::RAW, Some(Protocol::from(255))).unwrap()
}

fn within<T: Send>(ns: &str, work: impl FnOnce() -> T + Send) -> T {
    let enter = || {
        let file = File::open(format!("/run/netns/{ns}")).unwrap();
        setns(&file, CloneFlags::CLONE_NEWNET).expect("entering a network namespace needs root");
        work()
    };
    std::thread::scope(|scope| scope.spawn(enter).join()).unwrap_or_else(|e| std::panic::resume_unwind(e))
}
