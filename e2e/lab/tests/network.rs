// SPDX-License-Identifier: Apache-2.0
//! Namespaces, links, loss and counters, with a plain Linux router in place of the agent. Needs root.
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used)]

mod common;

use std::io::ErrorKind;
use std::net::TcpStream;
use std::process::Command;
use std::time::Duration;

use canopy_lab::{Lab, Options};
use common::{forward_by_hand, ip, leftovers, options, ping, run, small};
use serde_json::Value;

#[test]
fn what_two_hosts_exchange_is_counted_on_both_links_in_both_directions() {
    let lab = Lab::up(small(), options("t-count")).unwrap();
    forward_by_hand(&lab);
    assert_eq!(ping(&lab, 20, &[]), 20);
    let before = lab.link_counters().unwrap();
    // 1000 bytes of ICMPv6 data + 8 ICMPv6 + 40 IPv6 + 14 Ethernet = 1062.
    assert_eq!(ping(&lab, 50, &["-s", "1000"]), 50);
    for link in lab.link_counters_since(&before).unwrap() {
        for (direction, c) in [("a", link.a_to_b), ("b", link.b_to_a)] {
            assert_eq!((c.dropped_packets, c.dropped_octets.get()), (0, 0));
            // A few neighbour solicitations may be among them, never another echo.
            assert!((50..60).contains(&c.passed_packets), "{} from {direction}: {c:?}", link.a);
            assert!((53_100..54_100).contains(&c.passed_octets.get()), "{} from {direction}: {c:?}", link.a);
        }
    }
}

/// Two labs at once: each reaches its own node from the machine's namespace, and leaves nothing behind.
#[test]
fn a_management_link_reaches_the_node_and_ends_with_the_lab() {
    let up = |instance| Lab::up(small(), Options { management: true, ..options(instance) }).unwrap();
    let labs = [up("t-mgmt"), up("t-mgmt2")];
    let mut bridges = Vec::new();
    for lab in labs {
        let address = lab.management_address("n1").unwrap();
        assert_eq!(lab.management_address("s1"), None);
        assert!(ip(&lab, "n1", "-4 addr show dev mgmt0").contains(&format!("{address}/24")));
        // No program listens there: only the node itself can refuse.
        let refused = TcpStream::connect_timeout(&(address, 9).into(), Duration::from_secs(10)).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ConnectionRefused, "{address}");
        bridges.push(format!("cnpmgmt{}", address.octets()[2]));
        lab.down().unwrap();
    }
    assert_ne!(bridges[0], bridges[1]);
    for bridge in bridges {
        let shown = Command::new("ip").args(["link", "show", "dev", &bridge]).output().unwrap();
        assert!(!shown.status.success(), "{bridge} is still there");
    }
}

#[test]
fn loss_changes_while_the_lab_runs_and_hits_the_named_link_only() {
    let mut file = small();
    file.override_loss("100%".parse().unwrap());
    let lab = Lab::up(file, options("t-loss")).unwrap();
    forward_by_hand(&lab);
    assert_eq!(ping(&lab, 3, &[]), 0, "the file's loss is not in force");
    assert_eq!(lab.link_counters().unwrap()[0].a_to_b.passed_packets, 0);
    lab.set_loss("all", "0%".parse().unwrap()).unwrap();
    common::eventually("an answer", || ping(&lab, 5, &[]) == 5);

    lab.set_loss("n1/eth2.5--r1/eth0", "25%".parse().unwrap()).unwrap();
    let before = lab.link_counters().unwrap();
    let answers = ping(&lab, 1000, &[]);
    let links = lab.link_counters_since(&before).unwrap();
    // Each of both directions loses a quarter: 562 of 1000 expected, standard deviation 16; 8 of them is never.
    assert!((434..=690).contains(&answers), "{answers} answers");
    let (to, from) = (links[1].b_to_a, links[1].a_to_b);
    assert!((140..=360).contains(&to.dropped_packets), "{to:?}");
    assert!((90..=290).contains(&from.dropped_packets), "{from:?}");
    assert_eq!(links[0].a_to_b.dropped_packets + links[0].b_to_a.dropped_packets, 0);

    lab.set_loss("all", "0%".parse().unwrap()).unwrap();
    lab.set_loss_from("r1/eth0", "100%".parse().unwrap()).unwrap();
    let before = lab.link_counters().unwrap();
    assert_eq!(ping(&lab, 5, &[]), 0);
    let links = lab.link_counters_since(&before).unwrap();
    assert_eq!(links[1].b_to_a.dropped_packets, 0);
    assert!(links[1].a_to_b.dropped_packets >= 5);

    let e = lab.set_loss("n1/eth9", "0%".parse().unwrap()).unwrap_err().to_string();
    assert!(e.contains("no link \"n1/eth9\"") && e.contains("s1/eth0"), "{e}");
}

#[test]
fn interfaces_match_the_file_and_a_node_owns_its_addresses() {
    let lab = Lab::up(small(), options("t-shape")).unwrap();
    let json = |device: &str, args: &str| serde_json::from_str::<Value>(&ip(&lab, device, args)).unwrap();
    assert_eq!(json("n1", "-j link show dev eth1")[0]["mtu"], 4500);
    let text = json("n1", "-j -6 addr show scope link").to_string();
    assert!(!text.contains("fe80"), "the kernel gave the node addresses: {text}");
    assert!(json("n1", "-j -6 route show default").as_array().unwrap().is_empty());
    for port in ["lo", "eth1", "eth2.5"] {
        let flags = json("n1", &format!("-j link show dev {port}"))[0]["flags"].to_string();
        assert!(flags.contains("\"UP\""), "{port}: {flags}");
    }
    let host = json("r1", "-j -6 addr show dev eth0 scope global");
    assert_eq!(host[0]["addr_info"][0]["local"], "2001:db8:2::1");
    assert_eq!(host[0]["addr_info"][0]["prefixlen"], 64);
    assert!(!host.to_string().contains("tentative"), "duplicate address detection is on: {host}");
    assert_eq!(json("r1", "-j -6 route show default")[0]["gateway"], "fe80::1");

    // The rate is on both ends of its link and nowhere else.
    let qdiscs =
        |device: &str, port: &str| run(lab.command(device, "tc").unwrap().args(["qdisc", "show", "dev", port]));
    assert!(qdiscs("s1", "eth0").contains("rate 1Gbit") && qdiscs("n1", "eth1").contains("rate 1Gbit"));
    assert!(!qdiscs("n1", "eth2.5").contains("tbf"));
}

#[test]
fn what_a_rate_allows_is_what_passes() {
    let mut file = small();
    file.spec.links[1].rate = Some("8Mbit".parse().unwrap());
    let lab = Lab::up(file, options("t-rate")).unwrap();
    forward_by_hand(&lab);
    assert_eq!(ping(&lab, 5, &[]), 5);
    // 300 x 4 kB at once are 1.2 MB; the slow link lets 66 kB go and 210 kB wait, and sends 1 MB a second.
    let answers = ping(&lab, 300, &["-s", "4000", "-l", "300"]);
    assert!((10..250).contains(&answers), "{answers} of 300 echoes were answered");
    drop(lab);
    assert_eq!(leftovers("t-rate"), Vec::<String>::new());
}
