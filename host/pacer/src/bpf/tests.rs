// SPDX-License-Identifier: Apache-2.0
//! The egress program, packet by packet: its effect on fq is visible even on a kernel without fq. Needs root.

use std::net::Ipv6Addr;

use canopy_packet::aeth::{Aeth, Syndrome};
use canopy_packet::bth::Opcode;
use canopy_packet::frame::RoceBuilder;

use super::*;

const SECOND: u64 = 1_000_000_000;
const HORIZON: u64 = 5 * SECOND;
const DEST: u32 = 0x71;

struct Bench(Bpf);

impl Bench {
    fn new(mode: Mode, lease_ns: u64) -> Self {
        let bpf = Bpf::load(0).expect("loading BPF programs needs root");
        let alive_until_ns = monotonic().nanos() + lease_ns;
        let control = types::pacer_control { alive_until_ns, limit_known: 0, limit_unknown: 0, mode: mode.0, pad: 0 };
        bpf.control(&control).unwrap();
        Self(bpf)
    }

    fn pace(&self, octets_per_s: u64, pause_until_ns: u64) {
        let pace = types::pacer_pace { octets_per_s, pause_until_ns, class_id: 0xca9a_0007, pad: 0 };
        self.0.pace(flow(), &pace).unwrap();
    }

    /// Sends a packet: its departure time, and its priority.
    fn send(&mut self, opcode: Opcode, dest_qpn: u32) -> (u64, u32) {
        let frame = frame(opcode, dest_qpn);
        let done = self.0.pacer.send(&frame).unwrap();
        assert_eq!(done.verdict, -1, "every packet continues to the next filter");
        assert_eq!(done.frame, frame, "and unchanged");
        (done.departs_ns, done.priority)
    }

    fn counter(&self, name: &str) -> u64 {
        let place = COUNTERS.iter().position(|n| *n == name).unwrap();
        self.0.counters().unwrap()[place]
    }
}

fn flow() -> Flow {
    Flow { peer: "fd00::2".parse().unwrap(), qpn: DEST }
}

fn frame(opcode: Opcode, dest_qpn: u32) -> Vec<u8> {
    let mut builder = RoceBuilder::new(Ipv6Addr::LOCALHOST, flow().peer, opcode, dest_qpn, 0);
    let payload = [0; 500];
    builder.payload = if opcode.has_payload() { &payload } else { &[] };
    builder.extensions.aeth = opcode.has_aeth().then_some(Aeth { syndrome: Syndrome(0x1f), msn: 0 });
    [&[0; 12][..], &[0x86, 0xdd], &builder.build().unwrap()].concat()
}

#[test]
fn departures_are_as_far_apart_as_the_rate_wants() {
    let mut bench = Bench::new(Mode::PACE_EDT, HORIZON);
    let octets = frame(Opcode::SEND_ONLY, DEST).len() as u64;
    // One packet in 100 ms: no machine is so slow that a departure time is in the past.
    bench.pace(octets * 10, 0);
    let before = monotonic().nanos();
    let times: Vec<u64> = (0..4).map(|_| bench.send(Opcode::SEND_ONLY, DEST).0).collect();
    assert_eq!(times[0], 0, "the first one goes at once");
    assert!((before + SECOND / 10..monotonic().nanos() + SECOND / 10).contains(&times[1]));
    assert_eq!([times[2] - times[1], times[3] - times[2]], [SECOND / 10; 2]);
    // The new rate applies to later packets.
    bench.pace(octets * 20, 0);
    let next = [(); 2].map(|()| bench.send(Opcode::SEND_ONLY, DEST).0);
    assert_eq!([next[0] - times[3], next[1] - next[0]], [SECOND / 10, SECOND / 20]);
    assert_eq!((bench.counter("paced_packets"), bench.counter("paced_octets")), (6, 6 * octets));
}

#[test]
fn nothing_departs_in_a_pause_and_nothing_is_put_off_for_ever() {
    let mut bench = Bench::new(Mode::PACE_EDT, HORIZON);
    let end = monotonic().nanos() + SECOND;
    bench.pace(u64::MAX, end);
    assert_eq!([(); 2].map(|()| bench.send(Opcode::WRITE_MIDDLE, DEST).0), [end; 2]);
    assert_eq!(bench.counter("departures_clamped"), 0);
    bench.pace(1, 0);
    for _ in 0..3 {
        let (departs, _) = bench.send(Opcode::SEND_ONLY, DEST);
        assert!(departs <= monotonic().nanos() + HORIZON);
    }
    assert_eq!(bench.counter("departures_clamped"), 2);
}

#[test]
fn with_htb_a_packet_has_its_class_and_no_departure_time() {
    let mut bench = Bench::new(Mode::PACE_HTB, HORIZON);
    bench.pace(1, u64::MAX);
    assert_eq!(bench.send(Opcode::SEND_ONLY, DEST), (0, 0xca9a_0007));
}

#[test]
fn what_is_not_meant_goes_as_it_is() {
    let mut bench = Bench::new(Mode::PACE_EDT, HORIZON);
    bench.pace(1, u64::MAX);
    for (opcode, dest) in [(Opcode::SEND_ONLY, DEST + 1), (Opcode::ACKNOWLEDGE, DEST), (Opcode::SEND_ONLY, 0xff_ffff)] {
        assert_eq!(bench.send(opcode, dest), (0, 0), "{opcode:?} to {dest:#x}");
    }
    // The daemon has ended, or the kernel does not pace.
    for mut bench in [Bench::new(Mode::PACE_EDT, 0), Bench::new(Mode::PACE_NOT, HORIZON)] {
        bench.pace(1, u64::MAX);
        assert_eq!(bench.send(Opcode::SEND_ONLY, DEST), (0, 0));
        assert_eq!(bench.counter("paced_packets"), 0);
    }
}
