// SPDX-License-Identifier: Apache-2.0
//! Notifications sent to the host, and their effect on its packets, with HTB, which every kernel has here. `edt.rs` has the same with EDT.

use crate::paced::{self, DEST, LONG_MS, OTHER, OTHER_DEST, QP, daemon, reduce};
use crate::support::packets::{cnp, icmp, roce};
use crate::support::{LINE_BPS, N1, N2, PEER, Wire, at, wait};
use canopy_host::pacing::LimitedBy;

#[test]
fn a_rate_reduce_in_either_format_is_what_the_packets_do() {
    paced::rate_reduce(&Wire::new(), "htb");
}

#[test]
fn a_pause_stops_one_queue_pair_and_ends_by_itself() {
    paced::pause(&Wire::new(), "htb");
}

#[test]
fn a_resume_gives_back_once() {
    paced::resume(&Wire::new(), "htb");
}

#[test]
fn a_cnp_of_the_peer_and_a_long_haul_cnp_in_one_rtt_are_one_reduction() {
    let wire = Wire::new();
    let daemon = daemon(&wire, "");
    daemon.open(QP, DEST, LONG_MS);
    daemon.open(OTHER, OTHER_DEST, LONG_MS);
    wire.to_host(&[icmp(N1, QP, reduce(30)), cnp(PEER, QP), cnp(PEER, OTHER), roce(N2, OTHER, reduce(30))]);
    wait("all four were received", || (daemon.outcome("applied") + daemon.outcome("absorbed") == 4).then_some(()));
    let seventy = (LINE_BPS * 7 / 10, Some(LimitedBy::Node(at(N1))));
    assert_eq!(daemon.qp(QP).map(|qp| (qp.rate.bps(), qp.limited_by)).unwrap(), seventy);
    // The stricter one applies, in any order.
    let seventy = (LINE_BPS * 7 / 10, Some(LimitedBy::Node(at(N2))));
    assert_eq!(daemon.qp(OTHER).map(|qp| (qp.rate.bps(), qp.limited_by)).unwrap(), seventy);
    daemon.open(0x13, 0x73, LONG_MS);
    wire.to_host(&[cnp(PEER, 0x13)]);
    let qp = wait("a CNP alone", || daemon.qp(0x13).filter(|qp| qp.rate.bps() < LINE_BPS));
    assert_eq!((qp.rate.bps(), qp.limited_by), (LINE_BPS * 3 / 4, Some(LimitedBy::Peer(at(PEER)))));
}
