// SPDX-License-Identifier: Apache-2.0
//! Receiver lists in-band, provisioned and mixed; the packets on the wire match what `describe` shows.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::process::Command;
use std::time::Duration;

use canopy_e2e::capture::{Capture, Packet};
use canopy_e2e::{Bed, up};
use canopy_lab::TransferSpec;
use canopy_packet::srh::{Srh, Tlv};
use serde_json::{Value, json};

fn transfer(bed: &Bed, receivers: &[String], bytes: u64) {
    let names: Vec<&str> = receivers.iter().map(String::as_str).collect();
    let spec = TransferSpec { timeout: Duration::from_secs(300), ..TransferSpec::new("g", "s1", &names, bytes) };
    let report = bed.lab.transfer(spec).unwrap();
    assert!(report.mismatches().is_empty(), "{:?}", report.mismatches());
}

/// Runs a group of all receivers with `encoding`, captures behind the headend, and compares.
fn check(bed: &Bed, encoding: &str, mode: &str, taps: &[(&str, &str)]) {
    let receivers: Vec<String> =
        bed.lab.state().file.spec.hosts.iter().map(|h| h.name.clone()).filter(|h| h != "s1").collect();
    bed.lab.create_group("g", json!({"encoding": encoding, "pathMtu": 1024})).unwrap();
    let captures: Vec<_> = taps.iter().map(|t| Capture::start(&bed.lab, t.0, t.1, "ip6 proto 43").unwrap()).collect();
    let status = std::thread::scope(|s| {
        let running = s.spawn(|| transfer(bed, &receivers, 1 << 20));
        let deadline = std::time::Instant::now() + Duration::from_secs(120);
        // The SRH is described only while the members have joined.
        let mut last = Value::Null;
        while !running.is_finished() && std::time::Instant::now() < deadline {
            let now = bed.group("g").unwrap();
            if now["phase"] == "Ready" && now["receivers"] == receivers.len() {
                last = now;
            }
        }
        running.join().unwrap();
        last
    });
    // The tree uses one of the headend's uplinks: the others carry nothing.
    let taken: Vec<_> = captures
        .into_iter()
        .map(|c| (c.path().to_path_buf(), c.stop().unwrap()))
        .filter(|(_, p)| !p.is_empty())
        .collect();
    assert_eq!(taken.len(), 1, "encapsulated packets on {:?}", taken.iter().map(|t| &t.0).collect::<Vec<_>>());
    let (file, packets) = &taken[0];
    assert_eq!(status["encoding"]["mode"], mode, "{}", status["encoding"]);
    println!(
        "{} receivers, {encoding}: {} — {}",
        receivers.len(),
        status["encoding"]["mode"],
        status["encoding"]["reason"]
    );
    compare(&status, packets);
    tshark_reads(file);
    bed.lab.rest("DELETE", "/api/v1/groups/g", None).unwrap();
}

fn compare(status: &Value, packets: &[Packet]) {
    assert!(packets.len() > 900, "only {} encapsulated packets were captured", packets.len());
    for p in packets {
        let srh = Srh::parse(&p.bytes[40..]).unwrap();
        let e = &status["encoding"];
        assert_eq!(srh.segments_left, 1);
        let segments: Vec<Value> = srh.segments.iter().map(|s| json!(s.to_string())).collect();
        assert_eq!(json!(segments), e["segments"]);
        assert_eq!(json!(srh.to_vec().unwrap().len()), e["srhBytes"]);
        let in_band = e["inBandEdges"].as_array().unwrap();
        let edges: std::collections::BTreeSet<_> =
            srh.tlvs.iter().map(|t| if let Tlv::EndMt(m) = t { m.edge } else { panic!("{t:?}") }).collect();
        assert_eq!(edges.len(), in_band.len(), "{edges:?} against {in_band:?}");
    }
}

/// An independent dissector finds no fault and the same routing header. RoCEv2 sends UDP checksum 0 over IPv6.
fn tshark_reads(file: &std::path::Path) {
    let out = Command::new("tshark")
        .arg("-r")
        .arg(file)
        .args([
            "-o",
            "udp.ignore_ipv6_zero_checksum:TRUE",
            "-c",
            "200",
            "-T",
            "fields",
            "-e",
            "ipv6.routing.type",
            "-e",
            "ipv6.routing.segleft",
            "-e",
            "_ws.malformed",
            "-e",
            "_ws.expert.message",
        ])
        .output()
        .expect("tshark");
    let text = String::from_utf8_lossy(&out.stdout);
    assert!(
        out.status.success() && text.lines().count() > 100,
        "{} lines; {}",
        text.lines().count(),
        String::from_utf8_lossy(&out.stderr)
    );
    for line in text.lines() {
        assert_eq!(line.trim_end(), "4\t1", "tshark reports an error");
    }
}

#[test]
fn sixty_four_receivers_behind_one_edge() {
    let bed = up("fan64").unwrap();
    check(&bed, "auto", "inBand", &[("n1", "eth2")]);
    check(&bed, "provisioned", "provisioned", &[("n1", "eth2")]);
}

#[test]
fn a_hundred_receivers_over_a_clos() {
    let bed = up("clos-2x4").unwrap();
    let links = bed.lab.links();
    let leaf = links
        .iter()
        .find(|l| l.a.device == "s1" || l.b.device == "s1")
        .map(|l| if l.a.device == "s1" { &l.b.device } else { &l.a.device })
        .unwrap();
    let uplinks: Vec<_> = links
        .iter()
        .filter(|l| l.a.device.starts_with("spine") || l.b.device.starts_with("spine"))
        .flat_map(|l| [&l.a, &l.b])
        .filter(|e| e.device == *leaf)
        .map(|e| (e.device.as_str(), e.port.as_str()))
        .collect();
    assert_eq!(uplinks.len(), 2);
    check(&bed, "auto", "hybrid", &uplinks);
    check(&bed, "provisioned", "provisioned", &uplinks);
}
