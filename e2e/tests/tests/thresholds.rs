// SPDX-License-Identifier: Apache-2.0
//! Thresholds in the lab: agents measure their links with real STAMP packets, the controller computes, nodes confirm.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::process::Command;
use std::time::{Duration, Instant};

use canopy_e2e::capture::Capture;
use canopy_e2e::{Bed, up, up_changed};
use canopy_packet::stamp::{ErrorEstimate, ReflectorPacket, SenderPacket};
use serde_json::{Value, json};

const RATE: u64 = 100_000_000_000;
/// Node links of Figure 1, both directions.
const DIRECTIONS: usize = 12;

fn links(bed: &Bed) -> Vec<Value> {
    let (status, body) = bed.lab.rest("GET", "/api/v1/links", None).unwrap();
    assert_eq!(status, 200, "{body}");
    let all = body["items"].as_array().unwrap().iter();
    all.filter(|l| l["spec"]["to"].as_str().unwrap().starts_with('n')).cloned().collect()
}

/// Puts the topology with `change` made to every link.
fn put(bed: &Bed, change: impl Fn(&mut Value)) {
    let (_, mut topology) = bed.lab.rest("GET", "/api/v1/topology", None).unwrap();
    topology["spec"]["links"].as_array_mut().unwrap().iter_mut().for_each(change);
    let (status, body) = bed.lab.rest("PUT", "/api/v1/topology", Some(&topology)).unwrap();
    assert_eq!(status, 200, "{body}");
}

fn k_max(link: &Value) -> Option<u64> {
    link["status"]["thresholds"]["kMaxBytes"].as_u64()
}

/// K_max that a node has confirmed: in the thresholds of a port of a spec that its agent has applied.
fn confirmed(bed: &Bed, name: &str) -> Option<u64> {
    let (node, port) = name.split_once('/').unwrap();
    let (_, node) = bed.lab.rest("GET", &format!("/api/v1/nodes/{node}"), None).unwrap();
    if node["status"]["observedGeneration"] != node["spec"]["generation"] {
        return None;
    }
    let ports = node["spec"]["ports"].as_array().unwrap();
    ports.iter().find(|p| p["name"] == port).unwrap()["thresholds"]["kMaxBytes"].as_u64()
}

#[test]
fn every_link_is_measured_and_a_step_of_its_rtt_is_followed_within_5_s() {
    let bed = up("figure1").unwrap();
    let limit = bed.lab.links()[0].buffer().map(|octets| octets.get());
    let declared = links(&bed);
    assert!(declared.iter().all(|l| l["spec"]["bufferBytes"].as_u64() == limit), "{declared:?}");
    put(&bed, |link| {
        link["rateBps"] = json!(0);
        drop(link.as_object_mut().unwrap().remove("bufferBytes"));
    });
    for link in links(&bed) {
        assert!(link["status"]["reason"].as_str().unwrap().contains("rateBps"), "{link}");
    }
    let capture = Capture::start(&bed.lab, "n4", "eth1", "udp port 862").unwrap();
    put(&bed, |link| link["rateBps"] = json!(RATE));
    let measured = |l: &Value| l["status"]["rtt"]["samples"].as_u64() > Some(2) && k_max(l).is_some();
    bed.lab
        .wait("every link to be measured", |_| Ok(links(&bed).iter().filter(|l| measured(l)).count() == DIRECTIONS))
        .unwrap();
    for link in links(&bed) {
        let rtt = link["status"]["pushedRttNs"].as_u64().unwrap();
        assert!((1_000..1_000_000_000).contains(&rtt), "a veth pair: {link}");
        assert_eq!(k_max(&link).unwrap(), (RATE / 8 * rtt / 1_000_000_000).max(64_000), "{link}");
    }
    let path = capture.path().to_owned();
    let packets = capture.stop().unwrap();
    assert!(packets.len() >= 8, "{} packets", packets.len());
    let output = Command::new("tshark")
        .arg("-r")
        .arg(&path)
        .args(["-T", "fields", "-e", "udp.port", "-e", "udp.length"])
        .output()
        .unwrap();
    let output = String::from_utf8(output.stdout).unwrap();
    assert!(!output.is_empty() && output.lines().all(|l| l.contains("862") && l.ends_with("\t52")), "{output}");

    reflects_what_is_sent_by_hand(&bed);

    // At rest: configured thresholds do not change.
    put(&bed, |link| link["rttUs"] = json!(1_000));
    bed.lab.wait("1 ms", |_| Ok(links(&bed).iter().all(|l| k_max(l) == Some(12_500_000)))).unwrap();
    put(&bed, |link| link["rttUs"] = json!(40_000));
    let stepped = Instant::now();
    bed.lab
        .wait("40 ms", |_| {
            let all = links(&bed);
            Ok(all.iter().all(|l| {
                k_max(l) == Some(500_000_000)
                    && confirmed(&bed, l["metadata"]["name"].as_str().unwrap()) == Some(500_000_000)
            }))
        })
        .unwrap();
    assert!(stepped.elapsed() < Duration::from_secs(5), "{:?}", stepped.elapsed());
    // Back to measured RTTs: at most one change in 10 s.
    put(&bed, |link| drop(link.as_object_mut().unwrap().remove("rttUs")));
    bed.lab
        .wait("the samples to count", |_| Ok(links(&bed).iter().all(|l| l["status"]["rtt"]["configuredNs"].is_null())))
        .unwrap();
    let poll =
        || links(&bed).iter().map(|l| (l["status"]["pushes"].as_u64().unwrap(), k_max(l).unwrap())).collect::<Vec<_>>();
    let (mut seen, until) = (poll(), Instant::now() + Duration::from_secs(15));
    // Of each direction, the K_max that were replaced, and when.
    let mut replaced: Vec<Vec<(Instant, u64)>> = vec![Vec::new(); seen.len()];
    while Instant::now() < until {
        std::thread::sleep(Duration::from_millis(100));
        let now = poll();
        for (i, (old, new)) in seen.iter().zip(&now).enumerate().filter(|(_, (old, new))| old.0 != new.0) {
            let soon = replaced[i].last().is_some_and(|(at, _)| at.elapsed() < Duration::from_millis(9_500));
            replaced[i].push((Instant::now(), old.1));
            // A path that changes is not at rest: twofold from what was in force in the last 2.4 s, and the time to see it.
            let recent = replaced[i].iter().filter(|(at, _)| at.elapsed() < Duration::from_secs(4));
            let step = recent.into_iter().any(|(_, was)| *was.max(&new.1) >= 2 * *was.min(&new.1));
            assert!(step || !soon, "direction {i} at rest changed twice in 10 s: {new:?} after {:?}", replaced[i]);
        }
        seen = now;
    }
}

#[test]
fn a_measured_rtt_that_steps_from_1_to_40_ms_is_followed_within_5_s_and_rests() {
    const LINK: &str = "n1/eth1--n2/eth1";
    const ENDS: [&str; 2] = ["n1/eth1", "n2/eth1"];
    let bed = up_changed("longhaul", |file| {
        file.spec.links[0].delay = Some("500us".parse().unwrap());
        Ok(())
    })
    .unwrap();
    // Above K_base, below the buffer.
    put(&bed, |link| {
        link["rateBps"] = json!(RATE);
        drop(link.as_object_mut().unwrap().remove("bufferBytes"));
    });
    let of = |name: &str| links(&bed).into_iter().find(|l| l["metadata"]["name"] == name).unwrap();
    // The configured RTT, plus the delay that the machine adds.
    let is = |k: Option<u64>, ms: u64| {
        k.is_some_and(|k| (RATE / 8_000 * ms..RATE / 8_000 * ms * 5 / 4 + RATE / 8_000).contains(&k))
    };
    let both = |ms: u64| ENDS.iter().all(|end| is(k_max(&of(end)), ms) && is(confirmed(&bed, end), ms));
    bed.lab.wait("1 ms", |_| Ok(both(1))).unwrap();
    let pushes = || ENDS.map(|end| of(end)["status"]["pushes"].as_u64().unwrap());
    let before = pushes();
    bed.lab.set_delay(LINK, "20ms".parse().unwrap()).unwrap();
    let stepped = Instant::now();
    bed.lab.wait("40 ms", |_| Ok(both(40))).unwrap();
    let took = stepped.elapsed();
    println!(
        "K_max followed a step from 1 to 40 ms after {took:?}, in {:?} pushes",
        [0, 1].map(|i| pushes()[i] - before[i])
    );
    assert!(took < Duration::from_secs(5), "{took:?}");
    // At rest.
    let (rest, until) = (pushes(), Instant::now() + Duration::from_secs(10));
    while Instant::now() < until {
        std::thread::sleep(Duration::from_millis(200));
        assert!(pushes().iter().zip(rest).all(|(now, then)| now - then <= 1), "{:?} then {:?}", rest, pushes());
    }
}

/// A hand-made test packet, from n6 over its link to n4, reflected by the agent of n4.
fn reflects_what_is_sent_by_hand(bed: &Bed) {
    let sender = SenderPacket {
        sequence: 77,
        timestamp: 0xe900_0001_8000_0000,
        error_estimate: ErrorEstimate { synchronized: true, ptp: false, scale: 1, multiplier: 2 },
    };
    let mut packet = [0; canopy_packet::stamp::LEN];
    sender.emit(&mut packet).unwrap();
    let (_, node) = bed.lab.rest("GET", "/api/v1/nodes/n4", None).unwrap();
    let ports = node["spec"]["ports"].as_array().unwrap();
    let to = ports.iter().find(|p| p["name"] == "eth1").unwrap()["linkLocal"].as_str().unwrap().to_owned();
    let hex: String = packet.iter().map(|b| format!("{b:02x}")).collect();
    let script = format!(
        "import socket\ns=socket.socket(socket.AF_INET6,socket.SOCK_DGRAM)\ns.settimeout(5)\n\
         s.sendto(bytes.fromhex('{hex}'),('{to}',862,0,socket.if_nametoindex('eth2')))\nprint(s.recv(2048).hex())"
    );
    let out = bed.lab.command("n6", "python3").unwrap().args(["-c", &script]).output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let hex = String::from_utf8(out.stdout).unwrap();
    let octets: Vec<u8> =
        (0..hex.trim().len() / 2).map(|i| u8::from_str_radix(&hex[2 * i..2 * i + 2], 16).unwrap()).collect();
    let answer = ReflectorPacket::parse(&octets).unwrap();
    assert_eq!((answer.sequence, answer.sender, octets.len()), (77, sender, packet.len()));
    assert!(answer.timestamp >= answer.receive_timestamp);
}
