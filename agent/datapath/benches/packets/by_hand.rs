// SPDX-License-Identifier: Apache-2.0
//! End.MT beside a TC program that makes the same copies of one fixed stream by hand: without a check, a counter or a lookup, and with
//! clones that leave through a port without an egress program. Both take turns in one run; a ratio is of two medians of one round.

use std::time::Duration;

use canopy_bpf::by_hand::{ByHand, Copy};
use canopy_datapath::testbed::*;
use canopy_packet::bth::Opcode;

const ROUNDS: usize = 40;
const PACKETS: u32 = 100;
const PAYLOADS: [usize; 2] = [64, 1024];
const FAN_OUT: [u32; 4] = [1, 4, 8, 16];
/// Headers before the payload of a plain packet, from its Ethernet header on.
const BEFORE_PAYLOAD: usize = 14 + 40 + 8 + 12;

/// Prints the table.
pub(crate) fn run() {
    println!(
        "\n{:<8} {:>7} {:>8} {:>9} {:>9}   {:>6} {:>6} {:>6}",
        "entry", "payload", "fan-out", "End.MT ns", "by hand", "q1", "ratio", "q3"
    );
    for payload in PAYLOADS {
        for fan_out in FAN_OUT {
            compare(payload, fan_out);
        }
    }
}

fn compare(payload: usize, fan_out: u32) {
    let bed = Testbed::without_far_boundary(&Shape { receivers: fan_out, ..Shape::default() });
    let aside = bed.port_aside();
    let plain = data(Opcode::SEND_MIDDLE, 100, &vec![7; payload]);
    let packet = |psn| encapsulated(&data(Opcode::SEND_MIDDLE, psn, &vec![7; payload]), end_mt(), list(0..fan_out), 0);
    let copies: Vec<_> = (0..fan_out)
        .map(|i| Copy { ifindex: aside, addresses: (proxy(), receiver(i)), qpn: receiver_qpn(i), icrc_xor: i })
        .collect();
    let outer = (packet(100).len() - plain.len()) as u32;
    let by_hand = ByHand::load(outer, (BEFORE_PAYLOAD + payload) as u32, &copies);
    let by_hand = by_hand.unwrap_or_else(|e| panic!("{}", canopy_bpf::chain(&e)));
    let (mut psn, mut ours, mut theirs) = (100, Vec::new(), Vec::new());
    // The first round fills the caches.
    for round in 0..=ROUNDS {
        let packets: Vec<_> = (0..PACKETS).map(|i| packet(psn + i)).collect();
        psn += PACKETS;
        let end_mt = median(packets.iter().map(|p| bed.run("u0", p).2));
        let hand = median(packets.iter().map(|p| by_hand.run(p).map_or(Duration::ZERO, |run| run.took)));
        if round > 0 {
            ours.push(end_mt);
            theirs.push(hand);
        }
    }
    let mut ratios: Vec<f64> = ours.iter().zip(&theirs).map(|(a, b)| a / b).collect();
    ratios.sort_by(f64::total_cmp);
    let q = |n: usize| ratios[ratios.len() * n / 4];
    ours.sort_by(f64::total_cmp);
    theirs.sort_by(f64::total_cmp);
    let (mine, hand) = (ours[ROUNDS / 2], theirs[ROUNDS / 2]);
    println!(
        "{:<8} {payload:>7} {fan_out:>8} {mine:>9.0} {hand:>9.0}   {:>6.2} {:>6.2} {:>6.2}",
        "End.MT",
        q(1),
        q(2),
        q(3)
    );
}

fn median(all: impl Iterator<Item = Duration>) -> f64 {
    let mut all: Vec<_> = all.collect();
    all.sort_unstable();
    all[all.len() / 2].as_nanos() as f64
}
