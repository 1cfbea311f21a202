// SPDX-License-Identifier: Apache-2.0
//! What users of the node itself may send into the fabric: source, port and epoch of feedback are no secret to them.

use std::io::ErrorKind;
use std::net::{Ipv6Addr, UdpSocket};
use std::process::Command;

use canopy_packet::bth::Opcode;

use super::copy_for;
use crate::testbed::*;

fn ip(args: &str) -> String {
    let out = Command::new("ip").args(args.split(' ')).output().unwrap();
    assert!(out.status.success(), "ip {args}: {}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8(out.stdout).unwrap()
}

/// Sends from the node's address to `to` as `user`.
fn send(user: u32, to: Ipv6Addr) -> std::io::Result<usize> {
    // SAFETY: setfsuid(2) changes credentials of this thread only; the sockets that it makes belong to `user`.
    unsafe { libc::setfsuid(user) };
    let socket = UdpSocket::bind((plan().node_address(node(1)), 0));
    // SAFETY: as above.
    unsafe { libc::setfsuid(0) };
    socket?.send_to(&[0; 28], (to, 4791))
}

#[test]
fn only_root_sends_from_the_node_into_the_fabric() {
    let bed = Testbed::new(&Shape { receivers: 1, children: 1, ..Shape::default() });
    for to in [plan().node_address(node(2)), plan().node_address(node(10)), receiver(0)] {
        assert_eq!(send(0, to).unwrap(), 28, "{to} has a route: this proves something");
        assert_eq!(send(65534, to).unwrap_err().kind(), ErrorKind::NetworkUnreachable, "{to}");
    }
    // What the programs ask for is the kernel's.
    let sent = data(Opcode::SEND_ONLY, 100, b"abc");
    let (action, out, _) = bed.run("u0", &encapsulated(&sent, end_mt(), list(0..1), 0));
    assert_eq!((action, out), (REDIRECT, copy_for(0, &sent)));
}

#[test]
fn the_rule_of_earlier_agents_which_was_for_every_user_is_replaced() {
    let mut bed = Testbed::new(&Shape { children: 1, ..Shape::default() });
    let rules = || ip("-6 rule show priority 4793").lines().map(|l| l.trim().to_owned()).collect::<Vec<_>>();
    let ours = rules();
    assert!(ours.len() == 1 && ours[0].contains("uidrange 0-0"), "{ours:?}");
    ip("-6 rule del priority 4793");
    ip("-6 rule add priority 4793 iif lo lookup 4791");
    let to = plan().node_address(node(10));
    assert_eq!(send(65534, to).unwrap(), 28, "the rule of earlier agents");
    assert_eq!(bed.reconcile(|_| ()), []);
    assert_eq!(rules(), ours);
    assert_eq!(send(65534, to).unwrap_err().kind(), ErrorKind::NetworkUnreachable);
}
