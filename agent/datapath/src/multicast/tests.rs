// SPDX-License-Identifier: Apache-2.0
//! The programs together with the kernel's multicast forwarding, in a network namespace.

use std::collections::BTreeMap;
use std::net::Ipv6Addr;

use canopy_agent_core::mroute::Command;
use canopy_packet::bth::Opcode;
use canopy_packet::ipv6::Ipv6;
use canopy_packet::srh::SrhView;

use crate::mroute::{Socket, is_on};
use crate::testbed::*;
use crate::tests::copy_for;

fn shape(receivers: u32, children: u32, headend: bool) -> Shape {
    Shape { receivers, children, headend, multicast: true, ..Shape::default() }
}

/// Lines of `/proc/net/FILE` of this thread's namespace, without the header line.
fn kernel(file: &str) -> Vec<String> {
    let text = std::fs::read_to_string(format!("/proc/thread-self/net/{file}")).unwrap();
    text.lines().skip(1).map(str::to_owned).collect()
}

/// Packets that the kernel's only route has forwarded. The peers of the ports are in this namespace too: packets that arrive there
/// are also counted, as received on the wrong interface.
fn forwarded() -> u64 {
    let routes = kernel("ip6_mr_cache");
    assert_eq!(routes.len(), 1, "{routes:?}");
    let count = |field| routes[0].split_whitespace().nth(field).unwrap().parse::<u64>().unwrap();
    count(3) - count(5)
}

/// Waits until the kernel has forwarded `n` packets: a reinjected copy is queued in the port's backlog first.
fn wait_forwarded(n: u64) {
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(10);
    while forwarded() != n {
        assert!(std::time::Instant::now() < deadline, "the kernel forwarded {} of {n}", forwarded());
        std::thread::yield_now();
    }
}

#[test]
fn the_headend_hands_the_kernel_one_packet_to_the_groups_address() {
    let mut bed = Testbed::new(&shape(0, 2, true));
    let sent = data(Opcode::SEND_ONLY, 100, &[1, 2, 3]);
    let (action, out, _) = bed.run("u0", &sent);
    let (ip, srh) = (Ipv6::parse(&out).unwrap(), SrhView::parse(&out[40..]).unwrap());
    assert_eq!((action, ip.src, ip.dst), (OK, plan().node_address(node(1)), group_address()));
    assert_eq!(
        (ip.hop_limit, usize::from(ip.payload_len)),
        (64, out.len() - 40),
        "the kernel decrements the hop limit itself"
    );
    assert_eq!((srh.segments_left(), srh.segments().collect::<Vec<_>>()), (1, vec![proxy(), group_address()]));
    let mut inner = sent.clone();
    inner[7] -= 1;
    assert_eq!(srh.payload(), inner);
    let t = bed.telemetry();
    assert_eq!((t.data_packets, t.branches.iter().map(|b| b.packets).collect::<Vec<_>>()), (1, vec![1, 1]));
}

#[test]
fn receivers_at_the_headend_are_served_next_to_the_kernels_copy() {
    let mut bed = Testbed::new(&shape(2, 1, true));
    let sent = data(Opcode::SEND_ONLY, 100, &[1, 2, 3]);
    let (action, out, _) = bed.run("u0", &sent);
    assert_eq!((action, out), (REDIRECT, copy_for(1, &sent)));
    // Each packet is reinjected into its port, bypasses the program and is routed. This takes frames, because the kernel does not
    // route the packets of a test run.
    let packets: Vec<_> = (101..111).map(|psn| data(Opcode::SEND_ONLY, psn, &[1, 2, 3])).collect();
    bed.traffic("u0", &packets);
    wait_forwarded(10);
    assert_eq!(
        bed.telemetry().data_packets,
        11,
        "the packets of the kernel's copies are counted in the group's state too"
    );
    assert!(bed.drops().is_empty(), "{:?}", bed.port_drops());
}

#[test]
fn the_groups_address_is_an_end_mt_sid_and_a_transit_node_leaves_the_packet_as_it_is() {
    let sent = data(Opcode::SEND_ONLY, 100, b"abc");
    let edge = Testbed::new(&shape(1, 0, false));
    let (action, out, _) = edge.run("u0", &encapsulated(&sent, group_address(), list(0..1), 0));
    assert_eq!((action, out), (REDIRECT, copy_for(0, &sent)));
    drop(edge);

    let transit = Testbed::new(&shape(0, 2, false));
    let packet = encapsulated(&sent, group_address(), list(0..1), 0);
    let (action, out, _) = transit.run("u0", &packet);
    assert_eq!((action, out), (OK, packet.clone()));
    assert_eq!(transit.mark("u0", &packet), MARK_FABRIC, "only what has the mark is forwarded");
    drop(transit);

    let both = Testbed::new(&shape(1, 1, false));
    let (action, out, _) = both.run("u0", &encapsulated(&sent, group_address(), list(0..1), 0));
    assert_eq!((action, out), (REDIRECT, copy_for(0, &sent)));
    both.traffic("u0", &[encapsulated(&sent, group_address(), list(0..1), 0)]);
    wait_forwarded(1);
}

#[test]
fn real_frames_are_forwarded_by_the_kernel() {
    let bed = Testbed::new(&shape(0, 2, false));
    let packets: Vec<_> =
        (100..120).map(|psn| encapsulated(&data(Opcode::SEND_ONLY, psn, b"abc"), group_address(), vec![], 0)).collect();
    bed.traffic("u0", &packets);
    wait_forwarded(20);
}

/// Frames that the boundary's program has not checked, with the headend's source address, on the port of the group's parent.
#[test]
fn without_the_filter_nothing_is_forwarded() {
    let mut bed = Testbed::new(&shape(0, 2, false));
    let packets: Vec<_> =
        (100..110).map(|psn| encapsulated(&data(Opcode::SEND_ONLY, psn, b"abc"), group_address(), vec![], 0)).collect();
    bed.traffic("u0", &packets);
    wait_forwarded(10);
    let run = |program: &str, args: &str| {
        let done = std::process::Command::new(program).args(args.split(' ')).status().unwrap();
        assert!(done.success(), "{program} {args}");
    };
    run("tc", "qdisc del dev u0 clsact");
    let received = || {
        let path = "/proc/thread-self/net/dev_snmp6/u0";
        let text = std::fs::read_to_string(path).unwrap();
        let line = text.lines().find(|l| l.starts_with("Ip6InMcastPkts")).unwrap().to_owned();
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap()
    };
    let before = received();
    let socket = PacketSocket::open(bed.ifindex("u0p"));
    for packet in &packets {
        socket.send(&[&[0xFF; 6], &[2, 0, 0, 0, 0, 9, 0x86, 0xDD][..], packet].concat());
    }
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(10);
    while received() < before + 10 {
        assert!(std::time::Instant::now() < deadline, "the kernel received {} of 10", received() - before);
        std::thread::yield_now();
    }
    // The receiving processor routes a packet before it takes the next one: the marked ones are behind all of these.
    assert_eq!(bed.reconcile(|_| ()), []);
    let packets: Vec<_> =
        (110..115).map(|psn| encapsulated(&data(Opcode::SEND_ONLY, psn, b"abc"), group_address(), vec![], 0)).collect();
    bed.traffic("u0", &packets);
    wait_forwarded(15);
}

#[test]
fn without_policy_rules_of_multicast_routing_no_group_uses_it() {
    let mut bed = Testbed::new(&shape(1, 2, false));
    assert_eq!(kernel("ip6_mr_cache").len(), 1);
    bed.datapath.machine.multicast_rules = false;
    let errors = bed.reconcile(|_| ());
    assert!(
        errors.len() == 1
            && errors[0].group.is_some()
            && errors[0].detail.contains("CONFIG_IPV6_MROUTE_MULTIPLE_TABLES"),
        "{errors:#?}"
    );
    assert_eq!(kernel("ip6_mr_cache").len(), 0);
    is_off_soon();
    bed.datapath.machine.multicast_rules = true;
    assert_eq!(bed.reconcile(|_| ()), []);
    assert_eq!(kernel("ip6_mr_cache").len(), 1);
}

#[test]
fn what_comes_another_way_is_dropped_and_counted() {
    let sent = data(Opcode::SEND_ONLY, 100, b"abc");
    let mut bed = Testbed::new(&shape(1, 1, false));
    let refused = |bed: &mut Testbed, port: &str, packet: &[u8], reason: &str| {
        assert_eq!(bed.run(port, packet).0, SHOT, "{reason}");
        assert_eq!(bed.drops().get(reason), Some(&1), "{reason}: {:?}", bed.drops());
    };
    let to = |dst: Ipv6Addr| encapsulated(&sent, dst, list(0..1), 0);
    refused(&mut bed, "d1", &to(group_address()), "wrong_port");
    refused(&mut bed, "u0", &to(end_mt()), "group_unknown");
    let mut bare = to(group_address());
    bare[6] = 17;
    refused(&mut bed, "u0", &bare, "no_srh");
    let mut cut = to(group_address());
    cut.truncate(60);
    refused(&mut bed, "u0", &cut, "truncated");
    let mut last_hop = to(group_address());
    last_hop[7] = 1;
    refused(&mut bed, "u0", &last_hop, "hop_limit");
    assert_eq!(
        bed.run("u0", &to("ff3e::8000:99".parse().unwrap())).0,
        OK,
        "an address of no group is passed to the kernel"
    );
    assert_eq!(bed.telemetry().data_packets, 0);
    drop(bed);

    // The multicast address of one group with the Proxy Address of another one that uses SRv6 replication.
    let mut bed = Testbed::new(&Shape::default());
    assert_eq!(bed.run("u0", &to(group_address())).0, OK);
    bed.reconcile(|s| {
        let mut other = s.groups.values().next().unwrap().clone();
        other.group_id = canopy_model::ids::GroupId::new("id", 6).unwrap();
        other.proxy = plan().proxy(2).unwrap();
        other.designated_qpn = canopy_model::ids::Qpn::new("qpn", 0x77).unwrap();
        other.replication_sid = None;
        let (source, group) = (plan().node_address(node(9)), group_address());
        other.multicast = Some(canopy_model::node_spec::Multicast { source, group });
        s.groups.insert(other.group_id, other);
    });
    refused(&mut bed, "u0", &to(group_address()), "group_unknown");
}

#[test]
fn routes_follow_the_spec_survive_the_agent_and_end_with_the_group() {
    let mut bed = Testbed::new(&shape(1, 3, false));
    let outputs = || kernel("ip6_mr_cache").first().map_or(0, |r| r.split_whitespace().count().saturating_sub(6));
    assert_eq!((kernel("ip6_mr_vif").len(), outputs(), is_on()), (4, 3, true));
    let branches = bed.spec.groups.values().next().unwrap().branches.clone();
    assert_eq!(bed.reconcile(|s| s.groups.for_each_mut(|g| _ = g.branches.pop())), []);
    assert_eq!((kernel("ip6_mr_vif").len(), outputs()), (3, 2));
    bed.reopen();
    assert_eq!((kernel("ip6_mr_vif").len(), outputs()), (3, 2), "routes outlive the socket that added them");
    assert_eq!(bed.reconcile(|_| ()), []);
    assert_eq!((kernel("ip6_mr_vif").len(), outputs(), is_on()), (3, 2, true));
    assert_eq!(bed.reconcile(|s| s.groups.for_each_mut(|g| g.branches = branches.clone())), []);
    assert_eq!((kernel("ip6_mr_vif").len(), outputs()), (4, 3));
    assert_eq!(bed.reconcile(|s| s.groups.clear()), []);
    assert_eq!((kernel("ip6_mr_vif").len(), kernel("ip6_mr_cache").len()), (0, 0));
    is_off_soon();
    assert_eq!(bed.entries(), 0);
}

/// Multicast routing is off, or will be: the kernel switches it off when the last reference to the holder's socket goes.
fn is_off_soon() {
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(10);
    while is_on() {
        assert!(std::time::Instant::now() < deadline, "multicast routing stays on");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

#[test]
fn another_routing_daemon_is_an_error_of_the_group_and_keeps_what_it_has() {
    let mut bed = Testbed::new(&Shape { children: 1, ..Shape::default() });
    let daemon = crate::mroute::Socket::open().unwrap();
    daemon.switch_on().unwrap();
    let to_multicast = |s: &mut canopy_model::node_spec::NodeSpec| {
        s.groups.for_each_mut(|g| {
            g.multicast = Some(canopy_model::node_spec::Multicast {
                source: plan().node_address(node(9)),
                group: group_address(),
            });
            g.replication_sid = None;
        });
    };
    let errors = bed.reconcile(to_multicast);
    assert!(
        errors.len() == 1 && errors[0].group.is_some() && errors[0].detail.contains("routing daemon"),
        "{errors:#?}"
    );
    assert!(is_on() && kernel("ip6_mr_vif").is_empty());
    drop(daemon);
    assert_eq!(bed.reconcile(|_| ()), []);
    assert_eq!(kernel("ip6_mr_cache").len(), 1);
}

/// Static like the agent's own, and of a port that a group used before.
#[test]
fn a_foreign_multicast_interface_stays_also_where_no_route_uses_it() {
    let mut bed = Testbed::new(&shape(0, 2, false));
    let socket = Socket::open().unwrap();
    let foreign = Command::AddInterface(20, bed.ifindex("d0"));
    socket.execute(&foreign, &mut BTreeMap::new()).unwrap();
    assert_eq!(kernel("ip6_mr_vif").len(), 4);
    bed.reopen();
    assert_eq!(bed.reconcile(|s| s.groups.clear()), []);
    let left = kernel("ip6_mr_vif");
    assert!(left.len() == 1 && left[0].split_whitespace().take(2).eq(["20", "d0"]), "{left:?}");
    assert_eq!(bed.datapath.bpf.mifs().entries().unwrap().len(), 0);
}
