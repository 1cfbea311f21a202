// SPDX-License-Identifier: Apache-2.0
//! Nanoseconds per packet of every entry of the datapath: median over many runs, with the quartiles.
//!
//! Sizes are of the payload. If a frame does not fit a test run (a page less its overhead), the figure is of frames sent
//! through a veth pair, measured by the kernel's program statistics; these rows are marked `traffic`.
//! `cargo bench .. -- by-hand` prints only the comparison with a program that does nothing but copy, `-- flat` only the table of
//! feedback by branches, `-- flows` only that of the egress by flows, `-- boundary` only the cost of the domain's boundary, `-- hmac` only
//! that of the SRH HMAC TLV, `-- un` only the forwarding by a uN beside that of the kernel.

mod boundary;
mod by_hand;
mod flat;
mod flows;
mod hmac;
mod un;

use canopy_datapath::testbed::*;
use canopy_packet::bth::Opcode;

const RUNS: u32 = 4000;
const TEST_RUN_FRAME: usize = 3500;

fn main() {
    let only = |table: &str| std::env::args().any(|a| a == table);
    if only("flat") {
        return flat::run();
    }
    if only("by-hand") {
        return by_hand::run();
    }
    if only("flows") {
        return flows::run();
    }
    if only("boundary") {
        return boundary::run();
    }
    if only("hmac") {
        return hmac::run();
    }
    if only("un") {
        return un::run();
    }
    println!("{:<34} {:>7} {:>8} {:>8} {:>8} {:>8}  how", "entry", "payload", "fan-out", "q1 ns", "median", "q3 ns");
    for payload in [64, 1024, 4096] {
        headend(payload);
        replicate(payload);
        for fan_out in [1, 2, 4, 8, 16] {
            end_mt_entry(payload, fan_out);
        }
    }
    boundary::run();
    by_hand::run();
    flat::run();
    flows::run();
    hmac::run();
    un::run();
}

fn row(entry: &str, payload: usize, fan_out: u32, bed: &Testbed, port: &str, packet: impl Fn(u32) -> Vec<u8>) {
    let packets: Vec<_> = (0..RUNS).map(|i| packet(100 + i)).collect();
    if packets[0].len() <= TEST_RUN_FRAME {
        let mut ns: Vec<u128> = packets.iter().map(|p| bed.run(port, p).2.as_nanos()).collect();
        ns.sort_unstable();
        let at = |q: usize| ns[ns.len() * q / 4];
        println!("{entry:<34} {payload:>7} {fan_out:>8} {:>8} {:>8} {:>8}  test-run", at(1), at(2), at(3));
    } else {
        let mut ns: Vec<u64> =
            packets.chunks(200).map(|c| bed.traffic(port, c)).map(|(ns, runs)| ns / runs.max(1)).collect();
        ns.sort_unstable();
        let at = |q: usize| ns[ns.len() * q / 4];
        println!("{entry:<34} {payload:>7} {fan_out:>8} {:>8} {:>8} {:>8}  traffic", at(1), at(2), at(3));
    }
}

fn headend(payload: usize) {
    let bed = Testbed::without_far_boundary(&Shape { receivers: 0, children: 2, headend: true, ..Shape::default() });
    row("headend, two children", payload, 2, &bed, "u0", |psn| data(Opcode::SEND_MIDDLE, psn, &vec![7; payload]));
}

fn replicate(payload: usize) {
    let bed = Testbed::without_far_boundary(&Shape { receivers: 0, children: 2, ..Shape::default() });
    row("End.Replicate, two children", payload, 2, &bed, "u0", |psn| {
        encapsulated(&data(Opcode::SEND_MIDDLE, psn, &vec![7; payload]), replication(), vec![], 0)
    });
}

fn end_mt_entry(payload: usize, fan_out: u32) {
    let bed = Testbed::without_far_boundary(&Shape { receivers: fan_out, ..Shape::default() });
    row("End.MT", payload, fan_out, &bed, "u0", |psn| {
        encapsulated(&data(Opcode::SEND_MIDDLE, psn, &vec![7; payload]), end_mt(), list(0..fan_out), 0)
    });
}

/// First quartile, median and third quartile.
fn quartiles(values: impl Iterator<Item = f64>) -> [f64; 3] {
    let mut all: Vec<_> = values.collect();
    all.sort_by(f64::total_cmp);
    [1, 2, 3].map(|q| all[all.len() * q / 4])
}
