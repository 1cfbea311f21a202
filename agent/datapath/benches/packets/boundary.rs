// SPDX-License-Identifier: Apache-2.0
//! What the boundary of the domain costs a packet that no role concerns. All rows take turns in every round, and a difference is of two
//! medians of one round, so that other load on the machine affects both. The packet is the same in every row but the last two.

use std::net::Ipv6Addr;

use canopy_datapath::testbed::*;
use canopy_model::host_programs::HostPrograms;
use canopy_model::ids::PortIndex;
use ipnet::Ipv6Net;

use crate::quartiles;

const ROUNDS: usize = 60;
const PACKETS: u32 = 200;
const UDP: u8 = 17;
const DESTINATION_OPTIONS: u8 = 60;

/// Prints the table.
pub(crate) fn run() {
    let mut bed = Testbed::without_far_boundary(&Shape { children: 1, ..Shape::default() });
    bed.port_aside();
    let far = Ipv6Addr::new(0x2001, 0xdb8, 0xa, 0, 0, 0, 0, 1);
    assert_eq!(bed.reconcile(|spec| spec.base_mut().host_programs = Some(programs())), []);
    let peer = Ipv6Addr::new(0x2001, 0xdb8, 2, 0, 0, 0, 0, 1);
    let datagram = [&[0xC0, 0, 0, 80, 0, 72, 0, 0][..], &[7; 64]].concat();
    let plain = packet(peer, UDP, &datagram);
    let options = |next: u8| [next, 0, 1, 4, 0, 0, 0, 0];
    let [to_next, last] = [options(DESTINATION_OPTIONS), options(UDP)];
    let chain = [&to_next[..], &to_next, &to_next, &last, &datagram].concat();
    let rows = [
        ("fabric port", "u0", OK, plain.clone()),
        ("edge port", "d0", OK, plain.clone()),
        ("outside", "a0", OK, plain),
        ("edge port, chain of 4 headers", "d0", OK, packet(peer, DESTINATION_OPTIONS, &chain)),
        ("edge port, to a SID: dropped", "d0", SHOT, packet(end_mt(), UDP, &datagram)),
        // The same packet: what they differ in is the check at the edge.
        ("fabric port, path program", "u0", REDIRECT, program(&packet(far, UDP, &datagram))),
        ("edge port, path program", "d0", REDIRECT, program(&packet(far, UDP, &datagram))),
    ];
    let mut rounds: Vec<[f64; 7]> = Vec::new();
    // The first round fills the caches.
    for round in 0..=ROUNDS {
        let medians = rows.each_ref().map(|(name, port, verdict, packet)| {
            let mut ns: Vec<_> = (0..PACKETS)
                .map(|_| {
                    let (action, _, took) = bed.run(port, packet);
                    assert_eq!(action, *verdict, "{name}");
                    took.as_nanos()
                })
                .collect();
            ns.sort_unstable();
            ns[ns.len() / 2] as f64
        });
        if round > 0 {
            rounds.push(medians);
        }
    }
    println!(
        "\n{:<32} {:>6} {:>6} {:>6}   {:>6} {:>6} {:>6}",
        "boundary", "q1 ns", "median", "q3 ns", "q1", "more", "q3"
    );
    for (i, (name, ..)) in rows.iter().enumerate() {
        let [a, b, c] = quartiles(rounds.iter().map(|round| round[i]));
        let [x, y, z] = quartiles(rounds.iter().map(|round| round[i] - round[0]));
        println!("{name:<32} {a:>6.0} {b:>6.0} {c:>6.0}   {x:>6.0} {y:>6.0} {z:>6.0}");
    }
    println!("`more` is the difference to a fabric port in the same round.");
}

/// The host may send programs, which end at 1,000 nodes.
fn programs() -> HostPrograms {
    let end = |n: u64| {
        let network = Ipv6Addr::new(0x2001, 0xdb8, n as u16, 0, 0, 0, 0, 0);
        (Ipv6Net::new_assert(network, 64), node(n))
    };
    let nodes = (1..=1_000).map(node).collect();
    HostPrograms {
        ports: PortIndex::new("port", 2).into_iter().collect(),
        ends: (1..=1_000).map(end).collect(),
        nodes,
        most_nodes: 9,
    }
}

/// A path program over n10 and another node, of the host behind the edge port.
fn program(carried: &[u8]) -> Vec<u8> {
    packet(Ipv6Addr::new(0x5F00, 0, 1, 10, 11, 10, 0, 0), 41, carried)
}

/// An IPv6 packet of the host behind the edge port.
fn packet(dst: Ipv6Addr, next: u8, payload: &[u8]) -> Vec<u8> {
    let mut out = vec![0x60, 0, 0, 0];
    out.extend((payload.len() as u16).to_be_bytes());
    out.extend([next, 64]);
    out.extend(receiver(0).octets());
    out.extend(dst.octets());
    out.extend(payload);
    out
}
