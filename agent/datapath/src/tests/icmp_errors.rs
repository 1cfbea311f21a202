// SPDX-License-Identifier: Apache-2.0
//! ICMPv6 errors about packets that the sender of the error never got: the kernel believes them, and remembers for 10 minutes a path
//! MTU that they name.

use std::net::Ipv6Addr;
use std::time::{Duration, Instant};

use canopy_packet::bth::Opcode;

use super::boundary::{Edge, ICMPV6, UDP, at, extension, fragment, packet, udp};
use crate::testbed::*;

const UNREACHABLE: u8 = 1;
const TOO_BIG: u8 = 2;
const TIME_EXCEEDED: u8 = 3;
const PARAMETER: u8 = 4;
const REASON: &str = "edge_icmp_error";
const ECHO: [u8; 8] = [128, 0, 0, 0, 0, 1, 0, 1];

/// An ICMPv6 error of this type about `about`; its second word is an MTU of 1280.
fn error(kind: u8, about: &[u8]) -> Vec<u8> {
    [&[kind, 0, 0, 0, 0, 0, 5, 0], about].concat()
}

/// An echo request, as an error quotes it.
fn echo(src: Ipv6Addr, dst: Ipv6Addr) -> Vec<u8> {
    packet(src, dst, 64, ICMPV6, &ECHO)
}

/// Fills in the checksum of an ICMPv6 message in a packet without extension headers.
fn checked(mut packet: Vec<u8>) -> Vec<u8> {
    let len = (packet.len() - 40) as u32;
    let pseudo = [&packet[8..40], &len.to_be_bytes(), &[0, 0, 0, ICMPV6], &packet[40..]].concat();
    let mut sum: u32 = pseudo.chunks(2).map(|c| u32::from(c[0]) << 8 | u32::from(*c.get(1).unwrap_or(&0))).sum();
    while sum > 0xFFFF {
        sum = (sum & 0xFFFF) + (sum >> 16);
    }
    packet[42..44].copy_from_slice(&(!(sum as u16)).to_be_bytes());
    packet
}

#[test]
fn a_host_reports_errors_about_packets_to_itself_only() {
    let mut edge = Edge::new();
    let (host, sender, here) = (receiver(0), at("2001:db8:2::1"), plan().node_address(node(1)));
    for to in [sender, at("fe80::1")] {
        for kind in [UNREACHABLE, TOO_BIG, TIME_EXCEEDED, PARAMETER, 0, 100, 127] {
            edge.passes("d0", &packet(host, to, 64, ICMPV6, &error(kind, &echo(sender, host))));
            edge.passes("d0", &packet(host, to, 64, ICMPV6, &error(kind, &echo(proxy(), receiver(7)))));
        }
        for other in [at("2001:db8:9::1"), plan().node_address(node(10)), source(), proxy()] {
            for src in [here, host] {
                edge.refuses("d0", &packet(host, to, 64, ICMPV6, &error(TOO_BIG, &echo(src, other))), REASON);
            }
            let hidden = [extension(ICMPV6, 8), error(UNREACHABLE, &echo(here, other))].concat();
            edge.refuses("d0", &packet(host, to, 64, 60, &hidden), REASON);
        }
        // An error that does not contain the whole header of what it is about, or that is in fragments.
        let whole = error(TOO_BIG, &echo(sender, host));
        edge.refuses("d0", &packet(host, to, 64, ICMPV6, &whole[..47]), REASON);
        edge.passes("d0", &packet(host, to, 64, ICMPV6, &whole[..48]));
        let mut short = packet(host, to, 64, ICMPV6, &whole);
        short[4..6].copy_from_slice(&47u16.to_be_bytes());
        edge.refuses("d0", &short, REASON);
        for more in [true, false] {
            let first = [fragment(ICMPV6, 0, more), whole.clone()].concat();
            edge.refuses("d0", &packet(host, to, 64, 44, &first), REASON);
        }
        edge.passes("d0", &packet(host, to, 64, ICMPV6, &ECHO));
    }
}

#[test]
fn an_interface_outside_reports_no_errors_about_packets_of_the_domain() {
    let mut edge = Edge::new();
    edge.bed.port_aside();
    edge.bed.reconcile(|_| {});
    let (stranger, own) = (at("2001:db8:99::1"), at("2001:db8:98::1"));
    let to = |next, payload: &[u8]| packet(stranger, own, 64, next, payload);
    for inside in [plan().node_address(node(1)), plan().node_address(node(10)), end_mt(), proxy(), group_address()] {
        for about in [echo(inside, stranger), echo(own, inside), echo(own, receiver(0))] {
            edge.refuses("a0", &to(ICMPV6, &error(TOO_BIG, &about)), "outside");
            edge.refuses("a0", &to(60, &[extension(ICMPV6, 8), error(UNREACHABLE, &about)].concat()), "outside");
            edge.refuses(
                "a0",
                &to(44, &[fragment(ICMPV6, 0, true), error(TOO_BIG, &about)[..8].to_vec()].concat()),
                "outside",
            );
        }
    }
    // Errors about its own packets, and everything else, are its own business.
    for payload in [error(TOO_BIG, &echo(own, stranger)), error(TOO_BIG, &[]), ECHO.to_vec()] {
        let passed = to(ICMPV6, &payload);
        assert_eq!((edge.bed.run("a0", &passed).0, edge.bed.mark("a0", &passed)), (OK, 0));
    }
    for (next, payload) in [(44, [fragment(ICMPV6, 8, false), vec![1; 8]].concat()), (UDP, udp(80)), (43, vec![0; 3])] {
        assert_eq!(edge.bed.run("a0", &to(next, &payload)).0, OK);
    }
}

/// The second line: where the kernel believes an error nevertheless, here on an interface whose filter is missing, no group is concerned.
#[test]
fn an_mtu_that_the_kernel_believes_does_not_stop_a_groups_copies() {
    let mut bed = Testbed::new(&Shape { receivers: 2, ..Shape::default() });
    // Without another reconcile the interface has no filter.
    bed.port_aside();
    let ip = |args: &str| {
        let out = std::process::Command::new("ip").args(args.split(' ')).output().unwrap();
        assert!(out.status.success(), "ip {args}: {}", String::from_utf8_lossy(&out.stderr));
        String::from_utf8(out.stdout).unwrap()
    };
    ip("-6 addr add fe80::aa/64 dev a0 nodad");
    let link = ip("-o link show dev a0");
    let mac: Vec<u8> = link.split("link/ether ").nth(1).unwrap()[..17]
        .split(':')
        .map(|octet| u8::from_str_radix(octet, 16).unwrap())
        .collect();
    let socket = PacketSocket::open(bed.ifindex("a0p"));
    let send_error = |i: u32| {
        let about = echo(at("2001:db8:99::1"), receiver(i));
        let forged = checked(packet(at("fe80::bb"), at("fe80::aa"), 64, ICMPV6, &error(TOO_BIG, &about)));
        socket.send(&[&mac[..], &[2, 0, 0, 0, 0, 9, 0x86, 0xDD], &forged].concat());
    };
    let route = |i: u32| ip(&format!("-6 route get {}", receiver(i)));
    let deadline = Instant::now() + Duration::from_secs(10);
    // Until the kernel has noticed that the new interface has a carrier, its queue discards what is sent.
    for i in 0..2 {
        while !route(i).contains(" 1280 ") {
            assert!(Instant::now() < deadline, "the kernel did not believe the error: {}", route(i));
            send_error(i);
        }
    }
    let sent = data(Opcode::SEND_ONLY, 100, &[7; 2000]);
    assert_eq!(bed.run("u0", &encapsulated(&sent, end_mt(), list(0..2), 0)).0, REDIRECT);
    let branches = bed.telemetry().branches;
    assert_eq!((bed.drops().get("mtu"), branches[0].packets, branches[1].packets), (None, 1, 1));
}
