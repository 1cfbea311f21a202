// SPDX-License-Identifier: Apache-2.0
//! Probes of `canopy-steer` in the lab: silent faults of links that no node reports, while the controller and the agents of hosts are away.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::process::Stdio;
use std::time::{SystemTime, UNIX_EPOCH};

use canopy_e2e::capture::{Capture, Way};
use canopy_e2e::{Bed, up_with_host_agents};
use serde_json::{Value, json};

/// Programs with a path id: not those of probes, whose flow label is zero.
const STEERED: &str = "(ip6[6] == 41 or ip6[6] == 43) and ip6[0:4] & 0xfffff != 0";
/// Probes as the edge gets them, and as the host gets them back.
const PROBES: &str = "ip6[6] == 41 and ip6[0:4] & 0xfffff == 0";
const BACK: &str = "ip6 and udp port 862";
const GPUS: [&str; 3] = ["2001:db8:0:2::1", "2001:db8:0:3::1", "2001:db8:0:4::1"];
const GPU3: &str = GPUS[1];

fn steer(bed: &Bed, command: &str, args: &[&str]) -> Value {
    serde_json::from_str(&bed.lab.steer("gpu1", command, &[&["--json"], args].concat()).unwrap()).unwrap()
}

/// Spine, fault and slots of each path.
fn paths(bed: &Bed, to: &str) -> Vec<(String, Value, u64)> {
    let shown = steer(bed, "paths", &[to]);
    let of = |path: &Value| {
        let spine = path["nodes"][1].as_str().unwrap().to_owned();
        (spine, path["fault"].clone(), path["slots"].as_u64().unwrap())
    };
    shown["paths"].as_array().unwrap().iter().map(of).collect()
}

/// Both ends, the sending one first where the direction is known; ways with a fault over it, and all that have one. Those of nine tenths of
/// confidence or more.
fn suspects(bed: &Bed) -> Vec<(String, String, bool, [u64; 2])> {
    let end = |end: &Value| format!("{}/eth{}", end["node"].as_str().unwrap(), end["port"]);
    let count = |of: &Value| of.as_u64().unwrap();
    let of = |link: &Value| {
        let counts = ["faulty", "of"].map(|name| count(&link[name]));
        (end(&link["a"]), end(&link["b"]), link["directed"].as_bool().unwrap(), counts)
    };
    let is_sure = |link: &&Value| link["confidence"].as_f64().unwrap() >= 0.9;
    steer(bed, "status", &[])["suspects"].as_array().unwrap().iter().filter(is_sure).map(of).collect()
}

/// All hosts have programs, every way is probed, none has a fault; then the host is alone.
fn started(settings: &str) -> Bed {
    let mut bed = up_with_host_agents("illustration").unwrap();
    bed.wait_measured().unwrap();
    bed.lab.start_steer("gpu1", settings).unwrap();
    bed.lab
        .wait("canopy-steer to have the fabric", |lab| {
            Ok(lab.steer("gpu1", "status", &["--json"]).is_ok_and(|printed| printed.contains("\"nodes\":6")))
        })
        .unwrap();
    bed.lab.kill_controller().unwrap();
    for host in ["gpu1", "gpu2", "gpu3", "gpu4"] {
        bed.lab.kill_host_agent(host).unwrap();
    }
    GPUS.iter().for_each(|to| assert_eq!(paths(&bed, to).len(), 2));
    are_sound(&bed);
    bed
}

/// Waits until no way has a fault, and each has its share.
fn are_sound(bed: &Bed) {
    let is_sound = |(_, fault, slots): &(String, Value, u64)| fault.is_null() && *slots == 32;
    bed.lab
        .wait("every path to be sound and in use", |_| {
            let probes = &steer(bed, "status", &[])["probes"];
            let is_probed = probes["ways"] == 6 && probes["faulty"] == 0 && probes["back"].as_u64() > Some(100);
            Ok(is_probed && GPUS.iter().all(|to| paths(bed, to).iter().all(is_sound)))
        })
        .unwrap();
}

fn set_loss(bed: &Bed, end: &str, loss: &str) {
    bed.lab.set_loss_from(end, loss.parse().unwrap()).unwrap();
}

fn answered(bed: &Bed) -> String {
    let out =
        bed.lab.command("gpu1", "ping").unwrap().args(["-c", "50", "-i", "0.01", "-W", "10", GPU3]).output().unwrap();
    String::from_utf8(out.stdout).unwrap()
}

/// Catches a fault that the host does not find, one whose packets stay on it, another link as the suspect, and a path that does not come back.
#[test]
fn a_silent_fault_moves_packets_while_controller_and_agents_of_hosts_are_away() {
    let bed = started("[probe]\ninterval = '1ms'\n");
    // One flow, on one of the two spines.
    let mut ping = bed.lab.command("gpu1", "ping").unwrap();
    let mut ping = ping.args(["-i", "0.001", GPU3]).stdout(Stdio::null()).spawn().unwrap();
    let carried = || -> Vec<u64> {
        let shown = steer(&bed, "paths", &[GPU3]);
        shown["paths"].as_array().unwrap().iter().map(|path| path["packets"].as_u64().unwrap()).collect()
    };
    let before = carried();
    let mut at = 0;
    bed.lab
        .wait("the flow to be on a path", |_| {
            let now = carried();
            at = if now[0] > before[0] + 50 { 0 } else { 1 };
            Ok(now[at] > before[at] + 50)
        })
        .unwrap();
    let (spine, other) = if at == 0 { ("spine5", "spine6") } else { ("spine6", "spine5") };
    let uplink = format!("leaf1/eth{}", at + 1);
    let tap = Capture::start_one_way(&bed.lab, "leaf1", "eth3", Way::In, STEERED).unwrap();
    set_loss(&bed, &uplink, "100%");
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64;
    let is_out = |of: &(String, Value, u64)| (of.1 == "blackHole", of.2 == 0) == (of.0 == spine, of.0 == spine);
    bed.lab
        .wait("every path over the link to be out of use", |_| {
            Ok(GPUS.iter().all(|to| paths(&bed, to).iter().all(is_out)))
        })
        .unwrap();
    // The host's ports are the third ones of the leaves, the leaves' ports at a spine have their numbers.
    let expected = vec![(uplink.clone(), format!("{spine}/eth1"), true, [3, 3])];
    bed.lab.wait("the link to be the suspect", |_| Ok(suspects(&bed) == expected)).unwrap();
    let printed = bed.lab.steer("gpu1", "status", &[]).unwrap();
    let line = format!(
        "Suspect: link leaf1:{} to {spine}:1 in this direction, crossed by 3 of 3 paths with a fault (confidence 100 %)\n",
        at + 1
    );
    assert!(printed.contains(&line) && printed.contains("; 3 have faults\n"), "{printed}");
    let out = answered(&bed);
    assert!(out.contains("50 received"), "{out}");
    ping.kill().unwrap();
    ping.wait().unwrap();
    let seen = tap.stop().unwrap();
    let over =
        |spine: &str, packet: &canopy_e2e::capture::Packet| packet.bytes[30] == if spine == "spine5" { 5 } else { 6 };
    let last = seen.iter().filter(|packet| over(spine, packet)).map(|packet| packet.time_ns).max().unwrap();
    let first = seen.iter().filter(|packet| over(other, packet)).map(|packet| packet.time_ns).min().unwrap();
    println!(
        "the last packet over {spine} came to the edge {} us after the fault, the first one over {other} {} us",
        last.saturating_sub(since) / 1000,
        first.saturating_sub(since) / 1000
    );

    set_loss(&bed, &uplink, "0%");
    are_sound(&bed);
    // Behind the spine: the paths to one leaf alone.
    set_loss(&bed, "spine5/eth3", "100%");
    let expected = vec![("spine5/eth3".to_owned(), "leaf3/eth1".to_owned(), true, [1, 1])];
    bed.lab.wait("the link to leaf3 to be the suspect", |_| Ok(suspects(&bed) == expected)).unwrap();
    bed.lab
        .wait("the paths to gpu3 over spine5 to be out of use", |_| {
            let is_out = |of: &(String, Value, u64)| (of.2 == 0) == (of.0 == "spine5");
            let others = [GPUS[0], GPUS[2]].iter().all(|to| paths(&bed, to).iter().all(|path| path.2 == 32));
            Ok(others && paths(&bed, GPU3).iter().all(is_out))
        })
        .unwrap();
    // The other direction of the same link, as well: there is no one direction any more, and then only that one.
    set_loss(&bed, "leaf3/eth1", "100%");
    let expected = vec![("leaf3/eth1".to_owned(), "spine5/eth3".to_owned(), false, [1, 1])];
    bed.lab.wait("both directions to be faulty", |_| Ok(suspects(&bed) == expected)).unwrap();
    set_loss(&bed, "spine5/eth3", "0%");
    let expected = vec![("leaf3/eth1".to_owned(), "spine5/eth3".to_owned(), true, [1, 1])];
    bed.lab.wait("the direction from leaf3 to be the suspect", |_| Ok(suspects(&bed) == expected)).unwrap();
    set_loss(&bed, "leaf3/eth1", "0%");
    set_loss(&bed, "spine5/eth3", "100%");
    // Both spines: the least bad stays in use, which loses some.
    set_loss(&bed, "spine6/eth3", "10%");
    bed.lab
        .wait("packets to take what loses some, before what loses all", |_| {
            let known = paths(&bed, GPU3);
            Ok(known == [("spine5".to_owned(), json!("blackHole"), 0), ("spine6".to_owned(), json!("loss"), 64)])
        })
        .unwrap();
    set_loss(&bed, "spine5/eth3", "0%");
    set_loss(&bed, "spine6/eth3", "0%");
    are_sound(&bed);

    // The host's own link: no other path is better, and all stay as they are.
    set_loss(&bed, "leaf1/eth3", "20%");
    bed.lab
        .wait("the host's own link to be the suspect", |_| {
            let status = steer(&bed, "status", &[]);
            let all_in_use = GPUS.iter().all(|to| paths(&bed, to).iter().all(|path| path.2 == 32));
            Ok(status["suspects"][0]["own"] == true && status["probes"]["faulty"] == 6 && all_in_use)
        })
        .unwrap();
    let printed = bed.lab.steer("gpu1", "status", &[]).unwrap();
    assert!(printed.contains("Suspect: this host's own link or its edge"), "{printed}");
    set_loss(&bed, "leaf1/eth3", "0%");
    are_sound(&bed);
}

/// Octets of both headers are read by tcpdump's captures; the layout of the test packet by tshark. Catches a probe that is none to tools of others,
/// one that takes another class than data, and one that reaches the host's own stack.
#[test]
fn probes_are_stamp_packets_that_end_at_the_host() {
    let bed = started("[probe]\ninterval = '50ms'\ndscp = 46\n");
    let [out, back] = [("leaf1", "eth3", PROBES), ("gpu1", "eth0", BACK)].map(|(device, port, filter)| {
        bed.lab
            .wait("probes to be captured", |_| {
                let mut command = bed.lab.command(device, "tcpdump")?;
                let printed = command.args(["-c", "12", "-w", "-", "-U", "-Q", "in", "-i", port, filter]).output()?;
                std::fs::write(bed.lab.dir().join(format!("probes-{device}.pcap")), &printed.stdout)?;
                Ok(printed.status.success())
            })
            .unwrap();
        let file = bed.lab.dir().join(format!("probes-{device}.pcap"));
        let fields = [
            "ipv6.tclass.dscp",
            "ipv6.tclass.ecn",
            "ipv6.dst",
            "ipv6.plen",
            "udp.srcport",
            "udp.dstport",
            "udp.checksum.status",
        ];
        let fields = fields.iter().flat_map(|field| ["-e", field]);
        let read = std::process::Command::new("tshark")
            .args(["-r", file.to_str().unwrap(), "-o", "udp.check_checksum:TRUE", "-T", "fields"])
            .args(fields)
            .output()
            .unwrap();
        assert!(read.status.success(), "{}", String::from_utf8_lossy(&read.stderr));
        String::from_utf8(read.stdout).unwrap()
    });
    let mut lengths = std::collections::BTreeSet::new();
    for line in out.lines() {
        let fields: Vec<&str> = line.split('\t').collect();
        assert_eq!((fields[0], fields[1]), ("46,46", "2,2"), "{line}");
        let (there, own) = fields[2].split_once(',').unwrap();
        let usids: Vec<&str> = there.split(':').collect();
        let (spine, leaf) = (usids[3], usids[4]);
        assert_eq!(there, format!("5f00:0:100:{spine}:{leaf}:{spine}:100:0"), "{line}");
        assert!(["500", "600"].contains(&spine) && ["200", "300", "400"].contains(&leaf), "{line}");
        assert_eq!((own, fields[4], fields[5], fields[6]), ("2001:db8:0:1::1", "862", "862", "1"), "{line}");
        lengths.insert(fields[3].to_owned());
    }
    assert!(out.lines().count() >= 12 && back.lines().count() >= 12, "{out}{back}");
    // The link's MTU is 9000.
    assert!(lengths.is_subset(&["104,64", "8960,8920"].map(str::to_owned).into()), "{lengths:?}");
    for line in back.lines() {
        let fields: Vec<&str> = line.split('\t').collect();
        assert_eq!((fields[0], fields[1], fields[2]), ("46", "2", "2001:db8:0:1::1"), "{line}");
    }
    // No probe has come to the host's own stack, which would answer for a port that is closed.
    let out = bed.lab.command("gpu1", "cat").unwrap().arg("/proc/net/snmp6").output().unwrap();
    let counts = String::from_utf8(out.stdout).unwrap();
    let of = |name: &str| counts.lines().find(|line| line.split_whitespace().next() == Some(name)).map(str::to_owned);
    assert!(of("Udp6NoPorts").unwrap().ends_with('0'), "{:?}", of("Udp6NoPorts"));
}
