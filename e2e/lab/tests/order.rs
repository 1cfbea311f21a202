// SPDX-License-Identifier: Apache-2.0
//! A link delivers a flow in order, whichever CPU sends. Needs root; with a single CPU there is nothing to reorder.
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used)]

mod common;

use std::fs::File;
use std::net::UdpSocket;
use std::os::fd::AsFd;
use std::time::Duration;

use canopy_lab::Lab;
use common::{forward_by_hand, options, ping, small};
use nix::sched::{CloneFlags, CpuSet, sched_getaffinity, sched_setaffinity, setns};
use nix::sys::socket::{setsockopt, sockopt};
use nix::unistd::Pid;

const PACKETS: u32 = 100_000;
/// Packets that the sender sends from one CPU before it moves to the next.
const STAY: u32 = 64;
const CALLING_THREAD: Pid = Pid::from_raw(0);

/// A UDP socket in the device's namespace.
fn socket(lab: &Lab, device: &str, address: &str) -> UdpSocket {
    let ns = File::open(format!("/run/netns/{}", lab.state().instance.namespace(device))).unwrap();
    let open = || {
        setns(ns.as_fd(), CloneFlags::CLONE_NEWNET).unwrap();
        UdpSocket::bind(address).unwrap()
    };
    std::thread::scope(|s| s.spawn(open).join()).unwrap()
}

fn cpus() -> Vec<CpuSet> {
    let allowed = sched_getaffinity(CALLING_THREAD).unwrap();
    let one = |cpu| {
        let mut set = CpuSet::new();
        set.set(cpu).unwrap();
        set
    };
    (0..CpuSet::count()).filter(|&cpu| allowed.is_set(cpu).unwrap()).map(one).collect()
}

#[test]
fn a_flow_arrives_in_order_while_its_sender_moves_between_the_cpus() {
    let mut file = small();
    // Slower than the sender: the bucket's timer sends as well, on the CPU on which it was armed last.
    file.spec.links[0].rate = Some("300Mbit".parse().unwrap());
    let lab = Lab::up(file, options("t-order")).unwrap();
    forward_by_hand(&lab);
    // Neighbours are resolved first: what waits for a neighbour advertisement may be overtaken behind any link.
    common::eventually("an answer", || ping(&lab, 5, &[]) == 5);

    let (from, to) = (socket(&lab, "s1", "[2001:db8:1::1]:9000"), socket(&lab, "r1", "[2001:db8:2::1]:9000"));
    setsockopt(&to, sockopt::RcvBufForce, &(256 << 20)).unwrap();
    to.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    from.connect(to.local_addr().unwrap()).unwrap();
    let cpus = cpus();
    let send = || {
        let mut packet = [0; 1400];
        for (n, cpu) in (0..PACKETS).zip((0..cpus.len()).cycle().flat_map(|c| [c; STAY as usize])) {
            if n % STAY == 0 {
                sched_setaffinity(CALLING_THREAD, &cpus[cpu]).unwrap();
            }
            packet[..4].copy_from_slice(&n.to_be_bytes());
            from.send(&packet).unwrap();
        }
    };
    let arrived: Vec<u32> = std::thread::scope(|s| {
        s.spawn(send);
        let mut packet = [0; 1400];
        let mut receive = |_| {
            to.recv(&mut packet).expect("a packet is missing");
            u32::from_be_bytes(packet[..4].try_into().unwrap())
        };
        (0..PACKETS).map(&mut receive).collect()
    });
    let late: Vec<_> = arrived.windows(2).filter(|w| w[0] > w[1]).collect();
    assert!(late.is_empty(), "{} packets came after a later one: {late:?}", late.len());
}
