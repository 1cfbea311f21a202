// SPDX-License-Identifier: Apache-2.0
//! The egress program on port `d0` of the test bed, whose queue the test fills.

use std::collections::BTreeMap;
use std::net::Ipv6Addr;
use std::process::Command;
use std::time::Duration;

use canopy_agent_core::congestion::FlowKey;
use canopy_bpf::node::types;
use canopy_model::ids::Qpn;
use canopy_packet::bth::Opcode;
use canopy_packet::frame::{RoceBuilder, RoceFrame};
use canopy_units::{Monotonic, Octets};

use super::{Egress, keys};
use crate::testbed::{PacketSocket, Shape, Tap, Testbed, encapsulated, end_mt};

mod connecting;
mod depths;
mod driving;
mod flows;
mod groups;
mod host;
mod marking;
mod sending;
mod signals;
mod waking;
mod windows;

const ECT0: u8 = 2;
const CE: u8 = 3;
const HOUR_NS: u64 = 3_600_000_000_000;

/// A time of a test, in nanoseconds.
fn instant(ns: u64) -> Monotonic {
    Monotonic::from_nanos(ns)
}

/// The same for a span.
fn span(ns: u64) -> Duration {
    Duration::from_nanos(ns)
}

fn tc(args: &str) {
    let out = Command::new("tc").args(args.split_whitespace()).output().unwrap();
    assert!(out.status.success(), "tc {args}: {}", String::from_utf8_lossy(&out.stderr));
}

/// Source of flow `n`.
fn host(n: u32) -> Ipv6Addr {
    Ipv6Addr::from(0x2001_0db8_00ff_0000_0000_0001_0000_0000_u128 + u128::from(n))
}

fn far() -> Ipv6Addr {
    "2001:db8:1::9".parse().unwrap()
}

/// A data packet of flow `n`, from its IPv6 header on.
fn packet(n: u32, traffic_class: u8, psn: u32, payload: &[u8]) -> Vec<u8> {
    let mut b = RoceBuilder::new(host(n), far(), Opcode::SEND_MIDDLE, 0x77, psn);
    b.traffic_class = traffic_class;
    b.payload = payload;
    b.build().unwrap()
}

fn frame(packet: &[u8]) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 8, 0x86, 0xDD];
    frame.extend_from_slice(packet);
    frame
}

fn flow(n: u32) -> FlowKey {
    FlowKey { src: host(n), dst: far(), dst_qp: Qpn::new("q", 0x77).unwrap() }
}

/// `packet` with another ECN field in the IPv6 header at `at`.
fn with_ecn(packet: &[u8], at: usize, ecn: u8) -> Vec<u8> {
    let mut p = packet.to_vec();
    p[at + 1] = p[at + 1] & !0x30 | ecn << 4;
    p
}

/// The programs with separate maps, so that the agent's watcher does not read their events.
fn own(bed: &Bed) -> Egress {
    let own = bed.bed.pin("own");
    std::fs::create_dir(&own).unwrap();
    Egress::new(std::sync::Arc::new(canopy_bpf::node::Node::load(&own).unwrap().node))
}

/// The records of a ring buffer.
fn records<T: canopy_bpf::Plain>(ring: &libbpf_rs::MapHandle) -> Vec<T> {
    let all = std::cell::RefCell::new(Vec::new());
    let mut builder = libbpf_rs::RingBufferBuilder::new();
    let keep = |data: &[u8]| {
        all.borrow_mut().push(canopy_bpf::read(data).unwrap());
        0
    };
    builder.add(ring, keep).unwrap();
    builder.build().unwrap().consume().unwrap();
    all.into_inner()
}

/// What was counted at a port for a reason.
fn port_drops(program: &Egress, ifindex: u32, reason: types::canopy_drop) -> u64 {
    let all = program.bpf.port_drops().entries().unwrap().into_iter();
    all.filter(|(key, _)| (key.ifindex, key.reason) == (ifindex, reason.0)).flat_map(|(_, packets)| packets).sum()
}

/// Events that were counted at a port because their ring buffer had no room.
fn lost_events(program: &Egress, ifindex: u32) -> u64 {
    port_drops(program, ifindex, types::canopy_drop::DROP_EVENT_LOST)
}

/// Fills the queue of a port with `packets` of some 1000 octets that are not RoCEv2 and not counted.
fn fill(ifindex: u32, packets: usize) {
    let socket = PacketSocket::open(ifindex);
    let mut other = frame(&packet(0, 0, 0, &[0; 938]));
    other[14 + 6] = 59;
    (0..packets).for_each(|_| socket.send(&other));
}

struct Bed {
    bed: Testbed,
    port: u32,
}

impl Bed {
    fn new() -> Self {
        let bed = Testbed::new(&Shape::default());
        let port = bed.ifindex("d0");
        Self { bed, port }
    }

    /// Adds a queue of one megabyte that drains at `rate` (in tc syntax).
    fn queue(&self, rate: &str) {
        tc(&format!("qdisc replace dev d0 root tbf rate {rate} burst 1600 limit 1000000"));
    }

    fn limits(&self, k_min: u64, rtt_ns: u64) {
        let limits = types::canopy_limits { k_min, rtt_ns };
        self.egress().set_limits(&BTreeMap::from([(self.port, limits)])).unwrap();
    }

    fn egress(&self) -> &Egress {
        &self.bed.datapath.egress
    }

    fn stats(&self) -> types::canopy_port_stats {
        self.egress().stats(self.port).unwrap()
    }

    /// Fills the queue with `packets` of some 1000 octets that are not RoCEv2 and not counted.
    fn fill(&self, packets: usize) {
        fill(self.port, packets);
    }

    /// Runs the program on a frame to be sent through the port; returns it without its Ethernet header.
    fn run(&self, packet: &[u8]) -> Vec<u8> {
        self.egress().run(self.port, &frame(packet)).0.split_off(14)
    }

    fn flows(&self) -> Vec<(FlowKey, types::canopy_flow)> {
        let of_port = |(key, flow): (types::canopy_flow_key, types::canopy_flow)| {
            (key.ifindex == self.port).then(|| (keys::flow(&key).unwrap(), flow))
        };
        self.egress().flows().unwrap().into_iter().filter_map(of_port).collect()
    }
}
