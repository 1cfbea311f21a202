// SPDX-License-Identifier: Apache-2.0
//! `canopy-steer` on a host of the lab: an unmodified host's packets get path programs, by what its agent knows of the fabric alone.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv6Addr;

use canopy_e2e::capture::{Capture, Packet, Way};
use canopy_e2e::{Bed, up_with_host_agents};
use serde_json::{Value, json};

/// Outer headers of programs, IPv6 in IPv6 and with an SRH, that have a path id: not those of probes, whose flow label is zero.
const PROGRAMS: &str = "(ip6[6] == 41 or ip6[6] == 43) and ip6[0:4] & 0xfffff != 0";
const PACKETS: usize = 20;
const NODES: [&str; 6] = ["leaf1", "leaf2", "leaf3", "leaf4", "spine5", "spine6"];
const GPU3: &str = "2001:db8:0:3::1";
const GPU4: &str = "2001:db8:0:4::1";

/// How many of [`PACKETS`] echo requests were answered, and what ping printed. Where some were not, what the nodes dropped is printed.
fn ping(bed: &Bed, to: &str, more: &str) -> (usize, String) {
    let args = format!("-c {PACKETS} -i 0.01 -W 10 {more} {to}");
    let out = bed.lab.command("gpu1", "ping").unwrap().args(args.split_whitespace()).output().unwrap();
    let printed = String::from_utf8_lossy(&[out.stdout, out.stderr].concat()).into_owned();
    let received = printed.split(" packets transmitted, ").nth(1).and_then(|rest| rest.split(' ').next());
    let received = received.unwrap_or_else(|| panic!("{printed}")).parse().unwrap();
    if received < PACKETS {
        let drops = NODES.map(|node| (node, bed.port_drops(node)));
        println!("{printed}dropped so far: {drops:?}");
    }
    (received, printed)
}

fn status(bed: &Bed) -> Value {
    serde_json::from_str(&bed.lab.steer("gpu1", "status", &["--json"]).unwrap()).unwrap()
}

fn paths(bed: &Bed, to: &str) -> Vec<Value> {
    let printed = bed.lab.steer("gpu1", "paths", &["--json", to]).unwrap();
    let shown: Value = serde_json::from_str(&printed).unwrap();
    shown["paths"].as_array().unwrap().clone()
}

/// Its path id and number of each path, by destination address.
fn ids(bed: &Bed, to: &str) -> BTreeMap<String, (Option<u64>, u64)> {
    let of = |path: &Value| {
        let number = path["path"].as_u64().unwrap();
        (path["destination"].as_str().unwrap().to_owned(), (path["pathId"].as_u64(), number))
    };
    paths(bed, to).iter().map(of).collect()
}

/// Destination, flow label and hop limit of the outer headers, each once.
fn headers(packets: &[Packet]) -> BTreeSet<(Ipv6Addr, u64, u8)> {
    let of = |p: &Packet| {
        let label = u64::from(u32::from_be_bytes([0, p.bytes[1] & 0xf, p.bytes[2], p.bytes[3]]));
        (Ipv6Addr::from(<[u8; 16]>::try_from(&p.bytes[24..40]).unwrap()), label, p.bytes[7])
    };
    packets.iter().map(of).collect()
}

fn tap(bed: &Bed, node: &str, port: &str) -> Capture {
    Capture::start_one_way(&bed.lab, node, port, Way::In, PROGRAMS).unwrap()
}

fn started() -> Bed {
    let mut bed = up_with_host_agents("illustration").unwrap();
    bed.wait_measured().unwrap();
    bed.lab.start_steer("gpu1", "").unwrap();
    let has_fabric = |bed: &Bed| status(bed)["nodes"] == 6;
    bed.lab
        .wait("canopy-steer to have the fabric", |lab| {
            Ok(lab.steer("gpu1", "status", &["--json"]).is_ok_and(|printed| printed.contains("\"nodes\":6")))
        })
        .unwrap();
    assert!(has_fabric(&bed));
    bed
}

/// Catches an address that is not the draft's at a hop, a flow label that is not the path id or that a node changes, a path change that
/// takes more than a map write at the source, and packets that leave without a program although they have one.
#[test]
fn packets_of_an_unmodified_host_take_the_path_that_its_steering_chooses() {
    let mut bed = started();
    let known = ids(&bed, GPU3);
    let (by5, by6) = ("5f00:0:100:500:300::", "5f00:0:100:600:300::");
    assert_eq!(known.keys().collect::<Vec<_>>(), [by5, by6]);
    let mut marked = BTreeSet::new();
    for (address, spine, uplink) in [(by5, "spine5", "eth1"), (by6, "spine6", "eth2"), (by5, "spine5", "eth1")] {
        let number = known[address].1.to_string();
        let printed = bed.lab.steer("gpu1", "pin", &[GPU3, &number]).unwrap();
        assert_eq!(printed, format!("packets to 2001:db8:0:3::/64 take path {number}\n"));
        let id = ids(&bed, GPU3)[address].0.unwrap();
        marked.insert(id);
        let other = if spine == "spine5" { "spine6" } else { "spine5" };
        let elsewhere = tap(&bed, other, "eth1");
        let taps = [tap(&bed, "leaf1", "eth3"), tap(&bed, spine, "eth1"), tap(&bed, "leaf3", uplink)];
        let plain = Capture::start_one_way(&bed.lab, "gpu1", "eth0", Way::Out, "icmp6 and ip6[40] == 128").unwrap();
        assert_eq!(ping(&bed, GPU3, "").0, PACKETS);
        let seen = taps.map(|tap| tap.stop().unwrap());
        let [leaf, at_spine, last] = [0, 1, 2].map(|hop| (seen[hop].len(), headers(&seen[hop])));
        let at = |address: &str, hop: u8| BTreeSet::from([(address.parse().unwrap(), id, 64 - hop)]);
        let shifted = address.replace("100:", "");
        assert_eq!(leaf, (PACKETS, at(address, 0)));
        assert_eq!(at_spine, (PACKETS, at(&shifted, 1)));
        assert_eq!(last, (PACKETS, at("5f00:0:300::", 2)));
        assert_eq!(plain.stop().unwrap().len(), 0, "without a program");
        assert_eq!(elsewhere.stop().unwrap().len(), 0, "over {other}");
    }
    // The path that comes again has an id that no program had in the last minute.
    assert_eq!(marked.len(), 3);

    // The path's MTU is 8960: 8912 octets behind IPv6 and ICMPv6 fit.
    assert_eq!(ping(&bed, GPU3, "-M do -s 8912").0, PACKETS);
    let (answered, printed) = ping(&bed, GPU3, "-M do -s 8913 -W 1");
    assert!(answered == 0 && printed.contains("8960"), "{printed}");

    // A daemon that is killed leaves its programs, and the next one has them.
    let before = ids(&bed, GPU3);
    bed.lab.kill_steer("gpu1").unwrap();
    let at_spine = tap(&bed, "spine5", "eth1");
    assert_eq!((ping(&bed, GPU3, "").0, at_spine.stop().unwrap().len()), (PACKETS, PACKETS));
    bed.lab.start_steer("gpu1", "").unwrap();
    bed.lab
        .wait("the next canopy-steer to have the fabric", |lab| {
            Ok(lab.steer("gpu1", "status", &["--json"]).is_ok_and(|printed| printed.contains("\"nodes\":6")))
        })
        .unwrap();
    assert_eq!(ids(&bed, GPU3), before);

    // With controller and agents of hosts away, a destination that was never used gets its programs.
    bed.lab.kill_controller().unwrap();
    for host in ["gpu1", "gpu2", "gpu3", "gpu4"] {
        bed.lab.kill_host_agent(host).unwrap();
    }
    assert_eq!(ping(&bed, GPU4, "").0, PACKETS);
    bed.lab
        .wait("packets to gpu4 to have programs", |_| {
            Ok(status(&bed)["destinations"].as_array().unwrap().iter().any(|to| to["prefix"] == "2001:db8:0:4::/64"))
        })
        .unwrap();
    let at_leaf = tap(&bed, "leaf1", "eth3");
    assert_eq!((ping(&bed, GPU4, "").0, at_leaf.stop().unwrap().len()), (PACKETS, PACKETS));
}

/// Catches a path over a drained link that stays in use, one that never comes back, and programs of a host whose permission has ended.
#[test]
fn drained_links_and_permissions_reach_the_source() {
    let bed = started();
    let carrying = |bed: &Bed| -> Vec<String> {
        let of = |path: &Value| path["destination"].as_str().unwrap().to_owned();
        paths(bed, GPU3).iter().filter(|path| path["slots"].as_u64() > Some(0)).map(of).collect()
    };
    assert_eq!(carrying(&bed).len(), 2);
    let set_drained = |is_drained: bool| {
        bed.change_links(|link| {
            let is_of_spine6 = format!("{} {}", link["a"], link["b"]).contains("spine6");
            link["drained"] = json!(is_drained && is_of_spine6);
        })
        .unwrap();
    };
    set_drained(true);
    bed.lab.wait("spine6 to be out of use", |_| Ok(carrying(&bed) == ["5f00:0:100:500:300::"])).unwrap();
    let [at_5, at_6] = ["spine5", "spine6"].map(|spine| tap(&bed, spine, "eth1"));
    assert_eq!(ping(&bed, GPU3, "").0, PACKETS);
    assert_eq!([at_5, at_6].map(|tap| tap.stop().unwrap().len()), [PACKETS, 0]);
    set_drained(false);
    bed.lab.wait("spine6 to be in use again", |_| Ok(carrying(&bed).len() == 2)).unwrap();

    let (_, mut topology) = bed.lab.rest("GET", "/api/v1/topology", None).unwrap();
    topology["spec"]["hosts"][0]["pathPrograms"] = json!(false);
    topology.as_object_mut().unwrap().remove("status");
    let (code, answer) = bed.lab.rest("PUT", "/api/v1/topology", Some(&topology)).unwrap();
    assert_eq!(code, 200, "{answer}");
    bed.lab
        .wait("canopy-steer to have no destinations", |_| {
            let now = status(&bed);
            Ok(now["destinations"] == json!([]) && now["reason"].as_str().unwrap().contains("pathPrograms"))
        })
        .unwrap();
    let at_leaf = tap(&bed, "leaf1", "eth3");
    assert_eq!((ping(&bed, GPU3, "").0, at_leaf.stop().unwrap().len()), (PACKETS, 0));
}
