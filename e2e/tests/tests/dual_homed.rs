// SPDX-License-Identifier: Apache-2.0
//! Hosts with two links each: the illustration of the draft, packet by packet, with the kernel's own H.Encaps.Red as the source; routes to such
//! hosts, and what their edges let in.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::net::Ipv6Addr;

use canopy_e2e::capture::{Capture, Packet, Way};
use canopy_e2e::{Bed, up, up_with_host_agents};
use serde_json::Value;

/// Outer headers of programs: IPv6 in IPv6, and with an SRH.
const PROGRAMS: &str = "ip6[6] == 41 or ip6[6] == 43";
const ECHO_REQUEST: &str = "icmp6 and ip6[40] == 128";
const PACKETS: usize = 20;
const GPU3: &str = "2001:db8:0:3::1";

/// A path of the draft: who sends, by which of its ports, over which nodes, and the port at which each of these and the receiver get packets.
struct Way7 {
    host: &'static str,
    /// Destination at each node.
    addresses: [&'static str; 3],
    hops: [(&'static str, &'static str); 3],
    arrival: &'static str,
    /// The other spine, and its port where packets of the first leaf would come in.
    elsewhere: (&'static str, &'static str),
}

/// Section 7.2, GPU1 and GPU2 to GPU3, and section 7.3, GPU1 after the switch to Spine6.
const WAYS: [Way7; 3] = [
    Way7 {
        host: "gpu1",
        addresses: ["5f00:0:100:500:300::", "5f00:0:500:300::", "5f00:0:300::"],
        hops: [("leaf1", "eth3"), ("spine5", "eth1"), ("leaf3", "eth1")],
        arrival: "eth0",
        elsewhere: ("spine6", "eth1"),
    },
    Way7 {
        host: "gpu2",
        addresses: ["5f00:0:200:600:400::", "5f00:0:600:400::", "5f00:0:400::"],
        hops: [("leaf2", "eth4"), ("spine6", "eth2"), ("leaf4", "eth2")],
        arrival: "eth1",
        elsewhere: ("spine5", "eth2"),
    },
    Way7 {
        host: "gpu1",
        addresses: ["5f00:0:100:600:300::", "5f00:0:600:300::", "5f00:0:300::"],
        hops: [("leaf1", "eth3"), ("spine6", "eth1"), ("leaf3", "eth2")],
        arrival: "eth0",
        elsewhere: ("spine5", "eth1"),
    },
];

fn run(bed: &Bed, device: &str, script: &str) -> (bool, String) {
    let out = bed.lab.command(device, "sh").unwrap().args(["-ec", script]).output().unwrap();
    (out.status.success(), String::from_utf8_lossy(&[out.stdout, out.stderr].concat()).into_owned())
}

/// Echo requests; how many were answered.
fn ping(bed: &Bed, host: &str, to: &str, wait: u32) -> usize {
    let (_, printed) = run(bed, host, &format!("ping -c {PACKETS} -i 0.01 -W {wait} {to}"));
    let received = printed.split(" packets transmitted, ").nth(1).and_then(|rest| rest.split(' ').next());
    received.unwrap_or_else(|| panic!("{printed}")).parse().unwrap()
}

/// Number, destination and hop limit of the outer headers, if all are alike.
fn headers(packets: &[Packet]) -> (usize, Option<(Ipv6Addr, u8)>) {
    let of = |p: &Packet| (Ipv6Addr::from(<[u8; 16]>::try_from(&p.bytes[24..40]).unwrap()), p.bytes[7]);
    let first = packets.first().map(of);
    assert!(packets.iter().all(|p| Some(of(p)) == first), "{first:?} is not the only one");
    (packets.len(), first)
}

fn tap(bed: &Bed, (device, port): (&str, &str), filter: &str) -> Capture {
    Capture::start_one_way(&bed.lab, device, port, Way::In, filter).unwrap()
}

fn dropped(bed: &Bed, node: &str, port: &str, reason: &str) -> u64 {
    bed.port_drops(node).unwrap().get(&(port.to_owned(), reason.to_owned())).copied().unwrap_or(0)
}

/// The places of the paths from one host to another, by destination address.
fn numbers(bed: &Bed, from: &str, to: &str) -> Vec<String> {
    let listed: Value =
        serde_json::from_str(&bed.canopyctl(&["get", "paths", from, to, "-o", "json"]).unwrap()).unwrap();
    let items = listed["items"].as_array().unwrap().iter();
    items.map(|path| path["destination"].as_str().unwrap().to_owned()).collect()
}

/// Catches a hop that is left out, another address than the draft's at one, a packet that leaves by another port of the host or arrives at another
/// one, and a path change that takes more than a route at the source.
#[test]
fn the_draft_s_illustration_packet_by_packet() {
    let bed = up("dual-homed").unwrap();
    bed.wait_measured().unwrap();
    let described = bed.canopyctl(&["describe", "host", "gpu3"]).unwrap();
    assert!(described.contains("leaf3") && described.contains("leaf4"), "{described}");
    for Way7 { host, addresses, hops, arrival, elsewhere } in WAYS {
        let paths = numbers(&bed, host, "gpu3");
        assert_eq!(paths.len(), 8, "two leaves, two spines, two leaves: {paths:?}");
        let number = paths.iter().position(|path| path == addresses[0]).unwrap() + 1;
        let routes = bed.canopyctl(&["route", host, "gpu3", "--path", &number.to_string()]).unwrap();
        let (is_done, printed) = run(&bed, host, &routes);
        assert!(is_done, "{routes}: {printed}");
        let taps = hops.map(|hop| tap(&bed, hop, PROGRAMS));
        let (arrived, other) = (tap(&bed, ("gpu3", arrival), ECHO_REQUEST), tap(&bed, elsewhere, PROGRAMS));
        assert_eq!(ping(&bed, host, GPU3, 10), PACKETS, "{routes}");
        let passed = taps.map(|tap| headers(&tap.stop().unwrap()));
        let wanted = [64, 63, 62].into_iter().zip(addresses).map(|(hop_limit, address)| {
            let address: Ipv6Addr = address.parse().unwrap();
            (PACKETS, Some((address, hop_limit)))
        });
        assert_eq!(passed.to_vec(), wanted.collect::<Vec<_>>(), "{routes}");
        let arrived = arrived.stop().unwrap();
        assert_eq!((arrived.len(), other.stop().unwrap().len()), (PACKETS, 0));
        // Without the outer header; the last leaf has forwarded it.
        assert!(arrived.iter().all(|p| p.bytes[6] == 58 && p.bytes[7] == 63), "{:x?}", arrived[0].bytes);
    }
}

/// What canopy-steer of gpu1 has of its paths to gpu3: destination address, and whether packets take it.
fn steered(bed: &Bed) -> BTreeMap<String, bool> {
    let shown: Value = serde_json::from_str(&bed.lab.steer("gpu1", "paths", &["--json", GPU3]).unwrap()).unwrap();
    let of = |path: &Value| (path["destination"].as_str().unwrap().to_owned(), !path["pathId"].is_null());
    shown["paths"].as_array().unwrap().iter().map(of).collect()
}

/// Catches a source that sends by the interface of another link, one that knows only one of the destination's, and one whose packets take a link
/// of the destination that has failed.
#[test]
fn a_source_sends_to_both_links_of_a_host_and_around_the_one_that_fails() {
    let mut bed = up_with_host_agents("dual-homed").unwrap();
    bed.wait_measured().unwrap();
    bed.lab.start_steer("gpu1", "").unwrap();
    bed.lab
        .wait("canopy-steer to have the fabric", |lab| {
            Ok(lab.steer("gpu1", "status", &["--json"]).is_ok_and(|printed| printed.contains("\"nodes\":6")))
        })
        .unwrap();
    assert_eq!(ping(&bed, "gpu1", GPU3, 10), PACKETS);
    let wanted = |ends: &[&str]| -> BTreeMap<String, bool> {
        let all = ["500", "600"].into_iter().flat_map(|spine| ends.iter().map(move |end| (spine, end)));
        all.map(|(spine, end)| (format!("5f00:0:100:{spine}:{end}::"), true)).collect()
    };
    assert_eq!(steered(&bed), wanted(&["300", "400"]));
    run(&bed, "gpu3", "ip link set eth1 down");
    bed.lab.wait("gpu1 to take paths to leaf3 alone", |_| Ok(steered(&bed) == wanted(&["300"]))).unwrap();
    let arrived = tap(&bed, ("leaf4", "eth1"), PROGRAMS);
    assert_eq!(ping(&bed, "gpu1", GPU3, 10), PACKETS);
    let probes = arrived.stop().unwrap().into_iter().filter(|p| p.bytes[6] == 41 && p.bytes[40 + 6] != 17);
    assert_eq!(probes.count(), 0, "programs with data to leaf4");
    // Without programs: what would be led to leaf4 goes to leaf3, also what leaf4 has taken out of a program that was on its way.
    bed.lab
        .wait("routes around the link", |_| {
            Ok(ping(&bed, "gpu2", GPU3, 1) == PACKETS && ping(&bed, "gpu4", GPU3, 1) == PACKETS)
        })
        .unwrap();
    let late = "ip -6 route replace 5f00:0:100::/48 via fe80::1 dev eth0; ip -6 route replace 2001:db8:0:3::/64 encap seg6 mode encap.red segs 5f00:0:100:500:400:: via fe80::1 dev eth0";
    run(&bed, "gpu2", late);
    assert_eq!(ping(&bed, "gpu2", GPU3, 10), PACKETS);
    let why = bed.canopyctl(&["why", "host", "gpu3"]);
    let why = why.unwrap_or_else(|e| e.to_string());
    assert!(why.contains("host gpu3: port leaf4/eth3 is Down") && why.contains("PortDown"), "{why}");
    run(&bed, "gpu3", "ip link set eth1 up; ip -6 addr add 2001:db8:0:3::1/64 dev eth1 nodad");
    bed.lab.wait("gpu1 to take all paths again", |_| Ok(steered(&bed) == wanted(&["300", "400"]))).unwrap();
}

/// Catches a program that ends at a leaf which the receiver is not behind, an edge that takes the source of another port's host, a route that is
/// missing at the second leaf, and one that leads to a leaf which has been cut off while the other has not.
#[test]
fn either_leaf_leads_to_its_hosts_and_lets_in_what_is_theirs() {
    let bed = up("dual-homed").unwrap();
    bed.wait_measured().unwrap();
    for (from, to) in [("gpu1", 2), ("gpu1", 3), ("gpu1", 4), ("gpu4", 1), ("gpu3", 2)] {
        assert_eq!(ping(&bed, from, &format!("2001:db8:0:{to}::1"), 10), PACKETS, "{from} to gpu{to}");
    }
    let set = |host: &str, routes: &str| {
        let (is_done, printed) = run(&bed, host, routes);
        assert!(is_done, "{routes}: {printed}");
    };
    // By the second port, without a program: what is no group's leaves and comes back by any leaf.
    set("gpu1", &format!("ip -6 route replace {GPU3}/128 via fe80::1 dev eth1"));
    let second = tap(&bed, ("leaf2", "eth3"), ECHO_REQUEST);
    assert_eq!(ping(&bed, "gpu1", GPU3, 10), PACKETS);
    assert_eq!(second.stop().unwrap().len(), PACKETS);
    // leaf2 is no leaf of gpu3.
    let wrong = "ip -6 route replace 5f00:0:100::/48 via fe80::1 dev eth0; ip -6 route replace 2001:db8:0:3::1/128 encap seg6 mode encap.red segs 5f00:0:100:500:200:: via fe80::1 dev eth0";
    set("gpu1", wrong);
    assert_eq!(ping(&bed, "gpu1", GPU3, 1), 0);
    // leaf2's program by the port to leaf1.
    assert_eq!(dropped(&bed, "leaf1", "eth3", "edge_program_end"), PACKETS as u64);
    set(
        "gpu1",
        &wrong.replace("5f00:0:100:500:200::", "5f00:0:200:500:300::").replace("5f00:0:100::/48", "5f00:0:200::/48"),
    );
    assert_eq!(ping(&bed, "gpu1", GPU3, 1), 0);
    assert_eq!(dropped(&bed, "leaf1", "eth3", "edge_program"), PACKETS as u64);
    // Another host's address at a port of the same leaf.
    set(
        "gpu1",
        "ip -6 addr add 2001:db8:0:2::66/128 dev eth1 nodad; ip -6 route replace 2001:db8:0:3::1/128 via fe80::1 dev eth1 src 2001:db8:0:2::66",
    );
    assert_eq!(ping(&bed, "gpu1", GPU3, 1), 0);
    assert!(dropped(&bed, "leaf2", "eth3", "edge_source") >= PACKETS as u64);
    // leaf3 loses both of its links to spines: packets to gpu3 arrive by leaf4 once the controller knows.
    set("leaf3", "ip link set eth1 down; ip link set eth2 down");
    let arrives_by_leaf4 = |bed: &Bed| {
        let arrived = tap(bed, ("gpu3", "eth1"), ECHO_REQUEST);
        ping(bed, "gpu2", GPU3, 1);
        arrived.stop().unwrap().len()
    };
    bed.lab.wait("packets to gpu3 to take leaf4", |_| Ok(arrives_by_leaf4(&bed) == PACKETS)).unwrap();
    // Between hosts that are still connected nothing is lost in both directions.
    set("gpu3", "ip -6 route replace default via fe80::1 dev eth1");
    bed.lab.wait("gpu2 and gpu3 to reach each other", |_| Ok(ping(&bed, "gpu2", GPU3, 1) == PACKETS)).unwrap();
}
