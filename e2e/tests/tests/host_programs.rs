// SPDX-License-Identifier: Apache-2.0
//! Hosts that send path programs through the lab: with the kernel's own H.Encaps.Red as the source, along the addresses of the draft's
//! illustration, and what a compromised host tries.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::net::Ipv6Addr;

use canopy_e2e::capture::{Capture, Packet, Way};
use canopy_e2e::{Bed, up};
use serde_json::{Value, json};

/// Outer headers of programs: IPv6 in IPv6, and with an SRH.
const PROGRAMS: &str = "ip6[6] == 41 or ip6[6] == 43";
/// To the block, or from the link-layer source of the frames that the attack makes.
const FORGED: &str = "ip6 and (dst net 5f00::/32 or ether src 02:00:00:00:00:66)";
const ECHO_REQUEST: &str = "icmp6 and ip6[40] == 128";
const PACKETS: usize = 20;
const GPU3: &str = "2001:db8:0:3::1";

/// Whether the command succeeds, and what it prints.
fn run(bed: &Bed, device: &str, program: &str, args: &str) -> (bool, String) {
    let out = bed.lab.command(device, program).unwrap().args(args.split(' ')).output().unwrap();
    (out.status.success(), String::from_utf8_lossy(&[out.stdout, out.stderr].concat()).into_owned())
}

fn run_shell(bed: &Bed, device: &str, script: &str) -> (bool, String) {
    let out = bed.lab.command(device, "sh").unwrap().args(["-ec", script]).output().unwrap();
    (out.status.success(), String::from_utf8_lossy(&[out.stdout, out.stderr].concat()).into_owned())
}

/// The host's kernel sends what is for gpu3 with these segments in front: one is the destination address, others go into an SRH.
fn pin(bed: &Bed, host: &str, segments: &str) {
    let route = format!("-6 route replace {GPU3}/128 encap seg6 mode encap.red segs {segments} via fe80::1 dev eth0");
    let (is_done, printed) = run(bed, host, "ip", &route);
    assert!(is_done, "{route}: {printed}");
}

/// Echo requests to gpu3; how many were answered.
fn ping(bed: &Bed, host: &str, deadline: u32) -> usize {
    let (_, printed) = run(bed, host, "ping", &format!("-c {PACKETS} -i 0.01 -W {deadline} {GPU3}"));
    let received = printed.split(" packets transmitted, ").nth(1).and_then(|rest| rest.split(' ').next());
    received.unwrap_or_else(|| panic!("{printed}")).parse().unwrap()
}

/// Number, destination and hop limit of the outer headers, if all are alike.
fn headers(packets: &[Packet]) -> (usize, Option<Ipv6Addr>, Option<u8>) {
    let of = |p: &Packet| (Ipv6Addr::from(<[u8; 16]>::try_from(&p.bytes[24..40]).unwrap()), p.bytes[7]);
    let first = packets.first().map(of);
    assert!(packets.iter().all(|p| Some(of(p)) == first), "{first:?} is not the only one");
    (packets.len(), first.map(|f| f.0), first.map(|f| f.1))
}

/// What is at each place of a path from gpu1 to gpu3 over one spine, and at gpu3.
fn taps(bed: &Bed, spine: &str, uplink: &str) -> [Capture; 4] {
    let tap = |node: &str, port: &str, filter| Capture::start_one_way(&bed.lab, node, port, Way::In, filter).unwrap();
    [
        tap("leaf1", "eth3", PROGRAMS),
        tap(spine, "eth1", PROGRAMS),
        tap("leaf3", uplink, PROGRAMS),
        tap("gpu3", "eth0", ECHO_REQUEST),
    ]
}

/// The generation of each node's state beside its thresholds, which change with measured round-trip times.
fn generations(bed: &Bed) -> BTreeMap<String, (Value, Value)> {
    let nodes = bed.wait_measured().unwrap();
    let of = |node: &Value| {
        let thresholds: Value =
            node["spec"]["ports"].as_array().unwrap().iter().map(|p| p["thresholds"].clone()).collect();
        (node["metadata"]["name"].as_str().unwrap().to_owned(), (thresholds, node["spec"]["generation"].clone()))
    };
    nodes.iter().map(of).collect()
}

fn dropped(bed: &Bed, node: &str, port: &str, reason: &str) -> u64 {
    bed.port_drops(node).unwrap().get(&(port.to_owned(), reason.to_owned())).copied().unwrap_or(0)
}

/// Catches a hop that is left out, another address than the draft's at one, a path change that takes more than a route at the source, and
/// programs of a host that may not send any.
#[test]
fn an_unmodified_kernel_sends_along_the_addresses_of_the_draft() {
    let bed = up("illustration").unwrap();
    let before = generations(&bed);
    let listed = bed.canopyctl(&["get", "paths", "gpu1", "gpu3"]).unwrap();
    assert!(!listed.contains("may not send") && listed.contains("5f00:0:100:500:300::"), "{listed}");
    let listed = bed.canopyctl(&["get", "paths", "gpu2", "gpu3"]).unwrap();
    assert!(
        listed.ends_with("gpu2 may not send path programs: its pathPrograms in the topology is not true\n"),
        "{listed}"
    );
    // Another default route of the host, which is better: without a route to the block it would take what is encapsulated.
    let elsewhere = "link add aside type veth peer name beside,link set aside up,link set beside up,-6 route add default dev aside metric 1";
    elsewhere.split(',').for_each(|args| assert!(run(&bed, "gpu1", "ip", args).0, "{args}"));
    let routes = bed.canopyctl(&["route", "gpu1", "gpu3", "--path", "2"]).unwrap();
    let (is_done, printed) = run_shell(&bed, "gpu1", &routes);
    assert!(is_done, "{routes}: {printed}");
    // The path's MTU is 8960: 8912 octets behind IPv6 and ICMPv6 fit.
    for (octets, fits) in [(8_912, true), (8_913, false)] {
        let (is_answered, printed) = run(&bed, "gpu1", "ping", &format!("-c 1 -M do -W 10 -s {octets} {GPU3}"));
        assert_eq!(is_answered, fits, "{printed}");
        assert!(fits || printed.contains("8960"), "{printed}");
    }
    assert_eq!(ping(&bed, "gpu1", 10), PACKETS);
    assert!(bed.canopyctl(&["route", "gpu2", "gpu3"]).unwrap_err().to_string().contains("gpu2 may not send"));
    let addresses = |all: [&str; 3]| all.map(|address| address.parse().ok());
    let by5 = addresses(["5f00:0:100:500:300::", "5f00:0:500:300::", "5f00:0:300::"]);
    let by6 = addresses(["5f00:0:100:600:300::", "5f00:0:600:300::", "5f00:0:300::"]);
    // Over spine6, leaf2 and spine5, with the uA of each link: nine uSIDs, of which leaf2 loads the last three.
    let long = "5f00:0:100:e002:600:e002:200:e001,5f00:0:500:e003:300::";
    for (segments, spine, uplink, wanted) in
        [("5f00:0:100:500:300::", "spine5", "eth1", by5), ("5f00:0:100:600:300::", "spine6", "eth2", by6)]
    {
        let other = if spine == "spine5" { "spine6" } else { "spine5" };
        let elsewhere = Capture::start_one_way(&bed.lab, other, "eth1", Way::In, PROGRAMS).unwrap();
        let taps = taps(&bed, spine, uplink);
        pin(&bed, "gpu1", segments);
        assert_eq!(ping(&bed, "gpu1", 10), PACKETS);
        let [host, at_spine, at_leaf, arrived] = taps.map(|tap| tap.stop().unwrap());
        let passed = [host, at_spine, at_leaf].map(|packets| headers(&packets));
        let wanted = [0, 1, 2].map(|hop| (PACKETS, wanted[hop], Some(64 - hop as u8)));
        assert_eq!(passed, wanted, "{segments}");
        assert_eq!(arrived.len(), PACKETS);
        assert_eq!(elsewhere.stop().unwrap().len(), 0);
    }
    let taps = taps(&bed, "spine6", "eth1");
    pin(&bed, "gpu1", long);
    assert_eq!(ping(&bed, "gpu1", 10), PACKETS);
    let [_, at_spine, at_leaf, arrived] = taps.map(|tap| tap.stop().unwrap());
    assert_eq!((headers(&at_spine).0, headers(&at_leaf)), (PACKETS, (PACKETS, "5f00:0:300::".parse().ok(), Some(60))));
    assert!(at_spine.iter().all(|p| p.bytes[6] == 43) && at_leaf.iter().all(|p| p.bytes[6] == 41), "PSP");
    assert_eq!(arrived.len(), PACKETS);
    let (mut compared, after) = (0, generations(&bed));
    for (node, (thresholds, generation)) in after.iter().filter(|(node, after)| after.0 == before[*node].0) {
        assert_eq!((generation, thresholds), (&before[node].1, &before[node].0), "a change of the path changed {node}");
        compared += 1;
    }
    assert!(compared > 0, "the thresholds of every node changed: {before:?} {after:?}");

    // gpu2 may not send programs, and gpu1 no longer may.
    pin(&bed, "gpu2", "5f00:0:200:500:300::");
    assert_eq!(ping(&bed, "gpu2", 1), 0);
    bed.lab
        .wait("leaf2 to count them", |_| Ok(dropped(&bed, "leaf2", "eth3", "edge_tunnel") == PACKETS as u64))
        .unwrap();
    let (_, mut topology) = bed.lab.rest("GET", "/api/v1/topology", None).unwrap();
    topology["spec"]["hosts"][0]["pathPrograms"] = json!(false);
    topology.as_object_mut().unwrap().remove("status");
    let (status, answer) = bed.lab.rest("PUT", "/api/v1/topology", Some(&topology)).unwrap();
    assert_eq!(status, 200, "{answer}");
    // Until leaf1 has it, another node may drop them first.
    let is_refused =
        |_: &_| Ok(ping(&bed, "gpu1", 1) == 0 && dropped(&bed, "leaf1", "eth3", "edge_tunnel") >= PACKETS as u64);
    bed.lab.wait("leaf1 to refuse programs and to count them", is_refused).unwrap();
}

/// Catches one of 1,000,000 packets with a program that the host may not send, of which every place is forged, outside its edge.
#[test]
fn nothing_that_a_compromised_host_forges_leaves_its_edge() {
    let bed = up("illustration").unwrap();
    let taps = ["eth1", "eth2"].map(|port| Capture::start_one_way(&bed.lab, "leaf1", port, Way::Out, FORGED).unwrap());
    let elsewhere = ["gpu2", "gpu3", "gpu4"]
        .map(|host| Capture::start_one_way(&bed.lab, host, "eth0", Way::In, "ip6 and udp").unwrap());
    let before = bed.port_drops("leaf1").unwrap();
    let what = json!({"interface": "eth0", "mac": bed.mac("leaf1", "eth3").unwrap(), "packets": 1_000_000, "seed": 19});
    let sent = bed.attack("gpu1", "forged_programs.py", &what).unwrap();
    let sent: u64 = sent.as_object().unwrap().values().filter_map(Value::as_u64).sum();
    assert_eq!(sent, 1_000_000);
    let counted = || -> u64 {
        let now = bed.port_drops("leaf1").unwrap();
        // The host's kernel sends MLD reports when it likes.
        let is_edges = |reason: &str| reason.starts_with("edge_") && reason != "edge_link_local";
        let of_host = now.iter().filter(|((port, reason), _)| port == "eth3" && is_edges(reason));
        of_host.map(|(key, packets)| packets - before.get(key).copied().unwrap_or(0)).sum()
    };
    bed.lab.wait("leaf1 to count what it dropped", |_| Ok(counted() >= sent)).unwrap();
    let drops = bed.port_drops("leaf1").unwrap();
    println!("{drops:?}");
    assert_eq!(counted(), sent);
    assert!(drops.keys().all(|(port, reason)| port != "eth3" || reason.starts_with("edge_")), "it passed the port");
    for tap in taps.into_iter().chain(elsewhere) {
        let path = tap.path().to_owned();
        assert_eq!(tap.stop().unwrap().len(), 0, "{}", path.display());
    }
    // The same host's own programs pass.
    pin(&bed, "gpu1", "5f00:0:100:500:300::");
    assert_eq!(ping(&bed, "gpu1", 10), PACKETS);
}
