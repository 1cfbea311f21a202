// SPDX-License-Identifier: Apache-2.0
//! `canopyctl packet` in Figure 1 while data flows: the captured octets are those that tcpdump sees at every hop, and tshark reads the
//! pcapng.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use canopy_e2e::capture::{Capture, Packet, Way};
use canopy_e2e::{Bed, up};
use canopy_lab::TransferSpec;
use serde_json::{Value, json};

const RECEIVERS: [&str; 5] = ["r1", "r2", "r3", "r4", "r5"];
/// Where a packet may arrive and leave: n2 is behind n4 or n5.
const ARRIVES: [&str; 7] = ["n6/eth1", "n4/eth1", "n5/eth1", "n1/eth1", "n2/eth1", "n2/eth2", "n3/eth1"];
const LEAVES: [&str; 11] = [
    "n6/eth2", "n6/eth3", "n4/eth2", "n4/eth3", "n5/eth2", "n5/eth3", "n1/eth2", "n1/eth3", "n2/eth3", "n3/eth2",
    "n3/eth3",
];
/// Places of the tree: 6 arrivals, 5 copies to child nodes, 5 to receivers.
const PLACES: usize = 16;
const ETHERNET: usize = 14;
/// IPv6, UDP and BTH.
const INNER: usize = 60;

/// Data and feedback of groups, and nothing that the agents send to measure: that never ends.
const GROUPS: &str = "ip6 proto 43 or (ip6 proto 17 and ip6[42:2] == 4791)";

/// Captures at every place, by node, port and direction.
fn tcpdumps(bed: &Bed) -> BTreeMap<String, Capture> {
    let start = |place: &str, way: Way, direction: &str| {
        let (node, port) = place.split_once('/').unwrap();
        let capture = Capture::start_one_way(&bed.lab, node, port, way, GROUPS).unwrap();
        (format!("{place} {direction}"), capture)
    };
    let arrives = ARRIVES.iter().map(|place| start(place, Way::In, "in"));
    let leaves = LEAVES.iter().map(|place| start(place, Way::Out, "out"));
    arrives.chain(leaves).collect()
}

/// `canopyctl packet g` as JSON, with the frames in `file`, once the group has a tree and every node waited for the packet before it came.
///
/// A source that begins in the very millisecond in which its next packet is waited for is ahead of some of the nodes, and so is one whose
/// rate is not known yet: those captures end without the frames, and another one is made.
fn packet(bed: &Bed, file: &Path) -> Value {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        match bed.canopyctl(&["packet", "g", "-o", "json", "--pcapng", file.to_str().unwrap()]) {
            Ok(text) => {
                let capture: Value = serde_json::from_str(&text).unwrap();
                if capture["state"] != "expired" || Instant::now() >= deadline {
                    return capture;
                }
            }
            // Before the members have joined, and before the first packet.
            Err(e) => assert!(
                ["has no tree", "sent nothing"].iter().any(|why| e.to_string().contains(why))
                    && Instant::now() < deadline,
                "{e:#}"
            ),
        }
    }
}

fn octets(hex: &Value) -> Vec<u8> {
    let digits = hex.as_str().unwrap().as_bytes().chunks(2);
    digits.map(|two| u8::from_str_radix(std::str::from_utf8(two).unwrap(), 16).unwrap()).collect()
}

/// Where the packet of the source is in one from its first IPv6 header on.
fn inner_at(packet: &[u8]) -> usize {
    if packet[6] == 43 { 40 + 8 * (usize::from(packet[41]) + 1) } else { 0 }
}

/// The data packet with this PSN that was captured first.
fn with_psn(packets: &[Packet], psn: u64) -> &[u8] {
    let psn = &(psn as u32).to_be_bytes()[1..];
    let found = packets.iter().find(|p| {
        let inner = inner_at(&p.bytes);
        p.bytes.get(inner + 48).is_some_and(|opcode| *opcode < 0x0C)
            && p.bytes[inner + INNER - 3..inner + INNER] == *psn
    });
    &found.expect("tcpdump has the packet").bytes
}

/// The name of the interface and the octets of each frame, as tshark reads them.
fn tshark(file: &Path) -> Vec<(String, Vec<u8>)> {
    let run = |args: &[&str]| {
        let out = Command::new("tshark").arg("-r").arg(file).args(args).output().expect("tshark (make tools)");
        assert!(out.status.success(), "tshark: {}", String::from_utf8_lossy(&out.stderr));
        String::from_utf8(out.stdout).unwrap()
    };
    let malformed = run(&["-Y", "_ws.malformed"]);
    assert_eq!(malformed, "", "tshark cannot dissect these");
    let names = run(&["-T", "fields", "-e", "frame.interface_name"]);
    let raw: Vec<Value> = serde_json::from_str(&run(&["-T", "jsonraw"])).unwrap();
    let frames = raw.iter().map(|packet| octets(&packet["_source"]["layers"]["frame_raw"][0]));
    names.lines().map(str::to_owned).zip(frames).collect()
}

fn every_hop(replication: &str) {
    let bed = up("figure1").unwrap();
    bed.lab.create_group("g", json!({"pathMtu": 1024, "replication": replication, "minReceivers": 5})).unwrap();
    // For as long as captures are tried again: the packet is one that the source is about to send.
    bed.limit("s1", 4).unwrap();
    let taps = tcpdumps(&bed);
    let file = bed.lab.dir().join("packet.pcapng");
    let patient = TransferSpec {
        // A receiver that has all bytes and leaves would be missing in the capture.
        leave: false,
        timeout: Duration::from_secs(300),
        args: [("s1".into(), vec!["--timeout".into(), "1s".into()])].into(),
        ..TransferSpec::new("g", "s1", &RECEIVERS, 20 << 20)
    };
    let transfer = bed.lab.start_transfer(patient).unwrap();
    // The places of a capture are those of the tree when it is armed.
    bed.wait_phase("g", "Ready").unwrap();
    let capture = packet(&bed, &file);
    bed.limit("s1", 1000).unwrap();
    let report = transfer.finish(&bed.lab).unwrap();
    assert!(report.mismatches().is_empty(), "{:?}", report.mismatches());
    let hops = capture["hops"].as_array().unwrap();
    assert_eq!((capture["state"].as_str(), hops.len()), (Some("complete"), PLACES), "{capture:#}");

    let seen: BTreeMap<String, Vec<Packet>> =
        taps.into_iter().map(|(place, tap)| (place, tap.stop().unwrap())).collect();
    let psn = capture["psn"].as_u64().unwrap();
    let mut frames = Vec::new();
    for hop in hops {
        let text = |field: &str| hop[field].as_str().unwrap();
        let place = format!("{}/{} {}", text("node"), text("port"), text("direction"));
        let (head, inner) = (octets(&hop["frame"]["head"]), octets(&hop["frame"]["inner"]));
        let on_the_wire = with_psn(&seen[&place], psn);
        let at = inner_at(on_the_wire);
        assert_eq!(head[ETHERNET..], on_the_wire[..(at + INNER).min(192 - ETHERNET)], "{place}");
        assert_eq!(inner, on_the_wire[at..at + INNER], "{place}");
        assert_eq!(hop["frame"]["lengthBytes"], json!(ETHERNET + on_the_wire.len()), "{place}");
        let changes = hop["frame"]["changes"].as_array().unwrap();
        assert!(
            changes.iter().all(|c| !c["why"].as_str().unwrap().starts_with("not expected")),
            "{place}: {changes:?}"
        );
        assert_eq!(hop["frame"]["unexpected"], json!([]), "{place}: the programs have it otherwise");
        frames.push((place, head));
    }
    assert_eq!(tshark(&file), frames);
    let why = |host: &str, field: &str| {
        let to = hops.iter().find(|hop| hop["peer"] == host && hop["direction"] == "out").unwrap();
        let changes = to["frame"]["changes"].as_array().unwrap();
        changes.iter().find(|c| c["field"] == field).unwrap()["why"].as_str().unwrap().to_owned()
    };
    assert_eq!(why("r2", "destination"), "End.MT: TLV entry 2, r2");
    assert_eq!(why("r2", "destQp"), "End.MT: QPN of r2");
    bed.lab.rest("DELETE", "/api/v1/groups/g", None).unwrap();
}

#[test]
fn a_packet_is_captured_at_every_hop_as_tcpdump_sees_it() {
    every_hop("srv6");
}

#[test]
fn copies_of_the_kernels_multicast_routes_are_captured_too() {
    every_hop("multicast");
}

#[test]
fn an_idle_group_is_named_as_one() {
    let bed = up("figure1").unwrap();
    bed.lab.create_group("g", json!({"pathMtu": 1024})).unwrap();
    let stays = TransferSpec { leave: false, ..TransferSpec::new("g", "s1", &RECEIVERS, 1 << 16) };
    bed.lab.transfer(stays).unwrap();
    // The headend reports once a second: its last sample is from behind the transfer then.
    bed.lab.wait("the group to be idle", |_| Ok(bed.group("g")?["delivery"]["state"] == "Idle")).unwrap();
    let error = bed.canopyctl(&["packet", "g", "--timeout", "1s"]).unwrap_err().to_string();
    assert!(error.contains("its source sent nothing within 1s"), "{error}");
}
