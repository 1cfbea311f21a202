// SPDX-License-Identifier: Apache-2.0
//! Packets without effect: from unknown senders, for unknown QPs, damaged, or of a wrong length.

use crate::support::packets::{cnp, icmp, icmpv6_of_length, roce};
use crate::support::{Daemon, LINE_BPS, N1, PEER, Settings, UNTRUSTED, Wire, wait};
use canopy_packet::icrc;
use canopy_packet::long_haul_cnp::Action;

const QP: u32 = 0x11;
const REDUCE: Action = Action::RateReduce { percent: 50 };

fn damaged(mut packet: Vec<u8>, at: usize) -> Vec<u8> {
    packet[at] ^= 1;
    packet
}

/// Sends packets, waits until each has this outcome, and checks that the QP is unchanged.
fn refused(wire: &Wire, daemon: &Daemon, outcome: &str, packets: &[Vec<u8>]) {
    let before = daemon.outcome(outcome);
    wire.to_host(packets);
    let expected = before + packets.len() as u64;
    wait(outcome, || (daemon.outcome(outcome) >= expected).then_some(()));
    assert_eq!(daemon.outcome(outcome), expected, "{outcome}");
    let qp = daemon.qp(QP).unwrap();
    assert_eq!((qp.rate.bps(), qp.pause_left, qp.limited_by), (LINE_BPS, None, None), "{outcome}");
}

#[test]
fn nothing_that_is_wrong_changes_anything() {
    let wire = Wire::new();
    let more = ["--node", N1].map(str::to_owned).to_vec();
    let daemon = Daemon::start(&wire, &Settings { pacing: "", more });
    daemon.open(QP, 0x71, 10_000);
    let pause = Action::Pause { micros: 60_000 };
    let untrusted =
        [icmp(UNTRUSTED, QP, REDUCE), roce(UNTRUSTED, QP, pause), cnp(UNTRUSTED, QP), icmp(PEER, QP, REDUCE)];
    refused(&wire, &daemon, "unknown_issuer", &untrusted);
    refused(&wire, &daemon, "unknown_qp", &[icmp(N1, 0x99, REDUCE), roce(N1, 0x99, pause), cnp(PEER, 0x99)]);
    // An octet of the percentage, and one of the checksum.
    let good = icmp(N1, QP, REDUCE);
    refused(&wire, &daemon, "checksum", &[damaged(good.clone(), 47), damaged(good, 42)]);
    let good = roce(N1, QP, REDUCE);
    let last = good.len() - icrc::LEN;
    refused(&wire, &daemon, "icrc", &[damaged(good.clone(), 63), damaged(good, last), damaged(cnp(PEER, QP), last)]);
    // Every length of an ICMPv6 message that has a type; all ones are neither an action nor a QP.
    let lengths: Vec<_> = (1..=64).map(|len| icmpv6_of_length(N1, len, 0xff)).collect();
    refused(&wire, &daemon, "malformed", &lengths);
    refused(&wire, &daemon, "too_long", &[icmpv6_of_length(N1, 300, 0xff)]);
    wire.to_host(&[icmpv6_of_length(N1, 0, 0)]);
    assert_eq!((daemon.outcome("applied"), daemon.outcome("absorbed")), (0, 0));
    // The daemon still handles a valid packet.
    wire.to_host(&[icmp(N1, QP, REDUCE)]);
    wait("a good one", || daemon.qp(QP).filter(|qp| qp.rate.bps() == LINE_BPS / 2));
}

/// Decisions 4.7: unknown content in RoCEv2 is handled as a plain CNP.
#[test]
fn a_rocev2_packet_that_is_not_understood_counts_as_a_cnp() {
    let wire = Wire::new();
    let more = ["--node", N1].map(str::to_owned).to_vec();
    let daemon = Daemon::start(&wire, &Settings { pacing: "", more });
    daemon.open(QP, 0x71, 10_000);
    // A percentage of 255, with the right ICRC.
    let mut packet = roce(N1, QP, REDUCE);
    packet.truncate(packet.len() - icrc::LEN);
    packet[63] = 255;
    icrc::append(&mut packet).unwrap();
    wire.to_host(&[packet]);
    wait("the default reduction", || daemon.qp(QP).filter(|qp| qp.rate.bps() == LINE_BPS * 3 / 4));
    assert_eq!((daemon.outcome("not_understood"), daemon.actions("cnp"), daemon.actions("reduce")), (1, 1, 0));
}
