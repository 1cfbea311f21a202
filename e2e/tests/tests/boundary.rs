// SPDX-License-Identifier: Apache-2.0
//! The boundary of the SRv6 domain under attack, with frames that scapy makes: by hosts from their own ports, from interfaces outside the
//! topology, and where the filter is missing.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "boundary/attack.rs"]
mod attack;
#[path = "boundary/closed.rs"]
mod closed;

use std::collections::BTreeSet;
use std::time::Duration;

use canopy_e2e::capture::{ACKS, Capture, Way, check_no_false_ack};
use canopy_e2e::{Bed, up, up_changed};
use canopy_lab::TransferSpec;
use serde_json::{Value, json};

use attack::{
    Attacker, FORGED, add_outside, attack, forged, from_host, ip, mac, sent_by_source, targets, wait_counted,
};

/// Every attack from an edge port that the boundary counts.
const FROM_HOSTS: [&str; 10] = [
    "encapsulation",
    "steering",
    "names_of_others",
    "nodes",
    "proxy",
    "chains",
    "link_local",
    "discovery",
    "to_outside",
    "too_big",
];
/// A guest, a member of the group, a member of another group, and the source.
const ATTACKERS: [Attacker; 4] =
    [("r5", "n3", "eth3", "5"), ("r1", "n1", "eth2", "1"), ("r2", "n1", "eth3", "2"), ("s1", "n6", "eth1", "100")];
/// Those of them that are not in the group.
const STRANGERS: [&str; 2] = ["r5", "r2"];
const RECEIVERS: [(&str, &str); 3] = [("r1", "1"), ("r3", "3"), ("r4", "4")];
const NODES: [&str; 6] = ["n1", "n2", "n3", "n4", "n5", "n6"];

/// What hosts must not change in the nodes' kernels: the neighbours, and the routes that the kernel has learned. Hosts' own addresses may
/// become neighbours at any time.
fn learned(bed: &Bed) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    for node in NODES {
        let neighbours: Value = serde_json::from_str(&ip(bed, node, "-j -6 neigh show")).unwrap();
        // What is learned from outside the topology is no business of the fabric.
        for n in neighbours.as_array().unwrap().iter().filter(|n| n["dev"] != "x0") {
            all.insert(format!("{node}: {} dev {} lladdr {}", n["dst"], n["dev"], n["lladdr"]));
        }
        let cached = ip(bed, node, "-6 route show cache table all");
        all.extend(cached.lines().map(|line| format!("{node}: {line}")));
    }
    all
}

/// The addresses of the hosts' interfaces, as their nodes may learn them.
fn hosts_own(bed: &Bed) -> BTreeSet<String> {
    let mut own = BTreeSet::new();
    for link in bed.lab.links() {
        let (host, node) = if link.a.device == "s1" { (link.a, link.b) } else { (link.b, link.a) };
        if !host.device.starts_with(['s', 'r']) {
            continue;
        }
        let shown: Value =
            serde_json::from_str(&ip(bed, &host.device, &format!("-j -6 addr show dev {}", host.port))).unwrap();
        for address in shown[0]["addr_info"].as_array().unwrap() {
            let mac = json!(mac(bed, &host.device, &host.port));
            own.insert(format!("{}: {} dev {} lladdr {mac}", node.device, address["local"], json!(node.port)));
            // While it does not answer.
            own.insert(format!("{}: {} dev {} lladdr null", node.device, address["local"], json!(node.port)));
        }
    }
    own
}

/// A single forged frame is the first one.
#[test]
fn a_capture_of_one_way_has_its_first_packet() {
    let bed = up("figure1").unwrap();
    const ECHO: &str = "icmp6 and ip6[40] == 128";
    let tap = |host: &str, way| Capture::start_one_way(&bed.lab, host, "eth0", way, ECHO).unwrap();
    let taps = [tap("r1", Way::Out), tap("r1", Way::In), tap("r3", Way::In), tap("r3", Way::Out)];
    attack::output(bed.lab.command("r1", "ping").unwrap().args(["-c", "1", "-W", "10", "2001:db8:0:3::1"]));
    assert_eq!(taps.map(|tap| tap.stop().unwrap().len()), [1, 0, 1, 0]);
    assert!(Capture::start(&bed.lab, "r1", "eth0", "inbound and icmp6").is_err(), "it would miss the first packet");
}

#[test]
fn hosts_cannot_send_as_the_domain_and_are_counted_at_their_ports() {
    // So slow that the transfer outlasts the attacks.
    let bed = up_changed("figure1", |file| {
        file.spec.defaults.rate = Some("200Mbit".parse().map_err(anyhow::Error::msg)?);
        Ok(())
    })
    .unwrap();
    for group in ["g", "h"] {
        bed.lab.create_group(group, json!({"pathMtu": 1024})).unwrap();
    }
    let spec = |group: &str, receivers: &[&str], bytes| TransferSpec {
        leave: false,
        timeout: Duration::from_secs(300),
        ..TransferSpec::new(group, "s1", receivers, bytes)
    };
    bed.lab.transfer(spec("h", &["r2"], 1 << 20)).unwrap();
    add_outside(&bed, "n1", "r5");
    let of_host = |host: &str, direction: &str, network: &str| {
        let filter = format!("{ACKS} and {direction} host 2001:db8:0:{network}::1 and not {FORGED}");
        Capture::start(&bed.lab, host, "eth0", &filter).unwrap()
    };
    let at_receivers = RECEIVERS.map(|(host, network)| of_host(host, "src", network));
    let at_source = of_host("s1", "dst", "100");
    let hosts = ["r1", "r2", "r3", "r4", "r5", "s1"];
    let mut elsewhere: Vec<_> = hosts.map(|host| forged(&bed, Way::In, host, "eth0")).into();
    elsewhere.push(forged(&bed, Way::In, "r5", "x1"));
    for (node, ports) in [("n1", &["eth1"][..]), ("n3", &["eth1"]), ("n6", &["eth2", "eth3"])] {
        elsewhere.extend(ports.iter().map(|port| forged(&bed, Way::Out, node, port)));
    }

    let names = RECEIVERS.map(|r| r.0);
    let mut long = spec("g", &names, 768 << 20);
    // Without ECN no receiver sends CNPs, of which a node drops those that come too fast.
    long.args.insert("s1".into(), ["--traffic-class", "0"].map(Into::into).into());
    let transfer = bed.lab.start_transfer(long).unwrap();
    bed.wait_phase("g", "Ready").unwrap();
    bed.lab.wait("the transfer to begin", |_| Ok(sent_by_source(&bed) > 2 << 20)).unwrap();
    let targets = targets(&bed, "g");
    let before = learned(&bed);
    let mut counted = Vec::new();
    for attacker in ATTACKERS {
        let (host, node, port, _) = attacker;
        let drops = bed.port_drops(node).unwrap();
        let sent = attack(&bed, host, &from_host(&bed, &targets, &FROM_HOSTS, attacker));
        assert!(sent.len() == 11 && sent.values().sum::<u64>() > 1000, "{sent:?}");
        wait_counted(&bed, node, port, &drops, &sent);
        if STRANGERS.contains(&host) {
            let drops = bed.port_drops(node).unwrap();
            let mut sent = attack(&bed, host, &from_host(&bed, &targets, &["own_name"], attacker));
            counted.push((node.to_owned(), "branch_unknown".to_owned(), sent.remove("branch_unknown").unwrap()));
            wait_counted(&bed, node, port, &drops, &sent);
        }
    }

    // The source's own host, in its own name: a packet of a connection that is gone.
    let drops = bed.port_drops("n6").unwrap();
    let mut strays = targets.clone();
    (strays["attacks"], strays["interface"], strays["mac"]) =
        (json!(["strays"]), json!("eth0"), json!(mac(&bed, "n6", "eth1")));
    let mut sent = attack(&bed, "s1", &strays);
    counted.push(("n6".to_owned(), "psn_flight".to_owned(), sent.remove("psn_flight").unwrap()));
    wait_counted(&bed, "n6", "eth1", &drops, &sent);
    counted.sort();
    let group_drops = || {
        let mut drops = bed.drops("g").unwrap();
        drops.sort();
        drops
    };
    bed.lab.wait("the group's drops to be counted", |_| Ok(group_drops() == counted)).unwrap();

    // An interface of n1 that the topology does not have.
    let drops = bed.port_drops("n1").unwrap();
    let mut what = targets;
    (what["attacks"], what["interface"], what["mac"]) =
        (json!(["outside", "from_outside"]), json!("x1"), json!(mac(&bed, "n1", "x0")));
    what["host"] = what["beyond"].clone();
    let sent = attack(&bed, "r5", &what);
    wait_counted(&bed, "n1", "x0", &drops, &sent);

    // Nothing of it reached a group, a host or a kernel's tables, and the transfer next to it did not notice.
    let then = sent_by_source(&bed);
    bed.lab
        .wait("data to flow after the last attack: if the transfer has ended, this proves nothing", |_| {
            Ok(sent_by_source(&bed) > then + (1 << 20))
        })
        .unwrap();
    let own = hosts_own(&bed);
    let more: Vec<_> = learned(&bed).difference(&before).filter(|n| !own.contains(*n)).cloned().collect();
    assert_eq!(more, [""; 0]);
    let report = transfer.finish(&bed.lab).unwrap();
    assert!(report.mismatches().is_empty(), "{:?}", report.mismatches());
    assert_eq!((group_drops(), bed.drops("h").unwrap()), (counted, vec![]));
    for capture in elsewhere {
        let path = capture.path().to_owned();
        assert_eq!(capture.stop().unwrap().len(), 0, "{}", path.display());
    }
    let start = bed.group("g").unwrap()["connection"]["startPsn"].as_u64().unwrap();
    let acks = check_no_false_ack(start, &at_source.stop().unwrap(), &at_receivers.map(|c| c.stop().unwrap())).unwrap();
    println!("{acks} ACKs at the source, none of them false");
    ip(&bed, "r5", "link del x1");
}
