// SPDX-License-Identifier: Apache-2.0
//! Frames as real NICs and kernels make them, from host ports of the lab, with checksum offload on everywhere: the same bytes arrive, and
//! what is not a packet of its own or not for this node is refused under its reason.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use canopy_e2e::capture::{Capture, DATA, Way};
use canopy_e2e::{Bed, up};
use canopy_lab::TransferSpec;
use serde_json::{Value, json};

const MIB: u64 = 1 << 20;
/// Hosts, and the ports of their nodes.
const HOSTS: [(&str, &str, &str); 4] =
    [("s1", "n6", "eth1"), ("r1", "n1", "eth2"), ("r3", "n2", "eth3"), ("r4", "n3", "eth2")];
/// RoCEv2, from the source's or a receiver's end of it.
const ROCE: &str = "ip6 proto 17 and ip6[42:2] == 4791";

/// The node and the port that a host is connected to.
fn node_of(bed: &Bed, host: &str) -> (String, String) {
    let link = bed.lab.links().into_iter().find(|l| l.a.device == host || l.b.device == host).unwrap();
    let node = if link.a.device == host { link.b } else { link.a };
    (node.device, node.port)
}

/// A transfer in which every host sends frames of this shape.
fn transfer(bed: &Bed, group: &str, shape: &str) -> Value {
    let receivers: Vec<_> = HOSTS[1..].iter().map(|h| h.0).collect();
    let mut spec = TransferSpec::new(group, "s1", &receivers, 4 * MIB);
    for (host, ..) in HOSTS {
        let (node, port) = node_of(bed, host);
        let args = ["--frames", shape, "--next-hop", &bed.mac(&node, &port).unwrap()].map(Into::into);
        spec.args.insert(host.into(), args.into());
    }
    let report = bed.lab.transfer(spec).unwrap();
    assert!(report.mismatches().is_empty(), "{shape}: {:?}", report.mismatches());
    assert_eq!(report.source.more["false_acks"], 0, "{shape}");
    report.source.more.clone().into_iter().collect::<serde_json::Map<_, _>>().into()
}

/// Drops of data and feedback, without those that have to do with time or with retransmissions.
fn drops(bed: &Bed, group: &str) -> BTreeMap<String, u64> {
    let mut all = BTreeMap::new();
    for (_, reason, packets) in bed.drops(group).unwrap() {
        *all.entry(reason).or_default() += packets;
    }
    for expected in ["cnp_rate", "nak_ghost", "feedback_window", "branch_inactive", "not_open", "no_neighbour"] {
        all.remove(expected);
    }
    all
}

fn ethtool(bed: &Bed, device: &str, args: &[&str]) -> String {
    let out = bed.lab.command(device, "ethtool").unwrap().args(args).output().unwrap();
    assert!(out.status.success(), "ethtool {args:?} at {device}: {}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8(out.stdout).unwrap()
}

/// What tshark finds the UDP checksums of a capture to be: 0 is wrong, 1 is right, 3 is none.
fn checksums(capture: &Path) -> BTreeMap<String, u64> {
    let out = Command::new("tshark")
        .args(["-r", &capture.display().to_string(), "-o", "udp.check_checksum:TRUE"])
        .args(["-T", "fields", "-e", "udp.checksum.status"])
        .output()
        .unwrap();
    assert!(out.status.success(), "tshark: {}", String::from_utf8_lossy(&out.stderr));
    let mut all = BTreeMap::new();
    String::from_utf8_lossy(&out.stdout).lines().for_each(|status| *all.entry(status.to_owned()).or_default() += 1);
    all
}

#[test]
fn the_same_bytes_arrive_whatever_the_frames_of_the_hosts_are_like() {
    let bed = up("figure1").unwrap();
    for (host, ..) in HOSTS {
        assert!(ethtool(&bed, host, &["-k", "eth0"]).contains("tx-checksumming: on"), "{host}: offload is off");
    }
    // Retransmissions and NAKs take the same ways.
    bed.lab.set_loss("r3/eth0", "0.5%".parse().unwrap()).unwrap();
    for shape in ["raw", "tagged", "padded", "udp"] {
        let group = format!("g-{shape}");
        bed.lab.create_group(&group, json!({"pathMtu": 1024})).unwrap();
        let behind = format!("{ROCE} and len > 14 + 40 + ip6[4:2]");
        let padded = [("r1", Way::In), ("s1", Way::In)]
            .map(|(host, way)| Capture::start_one_way(&bed.lab, host, "eth0", way, &behind).unwrap());
        let tagged = Capture::start_one_way(&bed.lab, "r4", "eth0", Way::In, "vlan").unwrap();
        let own = match shape {
            "padded" => &behind,
            "tagged" => "vlan and ip6",
            _ => ROCE,
        };
        let own = Capture::start_one_way(&bed.lab, "s1", "eth0", Way::Out, own).unwrap();
        transfer(&bed, &group, shape);
        assert_eq!(drops(&bed, &group), BTreeMap::new(), "{shape}");
        assert!(
            own.stop().unwrap().len() > 4000,
            "{shape}: the source's frames are not like that, so this proves nothing"
        );
        let extra = padded.into_iter().chain([tagged]).map(|c| c.stop().unwrap().len()).sum::<usize>();
        assert_eq!(extra, 0, "{shape}: padding or tags went further");
    }
}

#[test]
fn checksums_that_were_left_to_the_hardware_are_right_wherever_they_are_filled_in() {
    let bed = up("figure1").unwrap();
    bed.lab.create_group("g", json!({"pathMtu": 1024})).unwrap();
    // These ports fill the checksums in; those to r3 and r4 leave them out as far as the receiver.
    for host in ["s1", "r1"] {
        let (node, port) = node_of(&bed, host);
        ethtool(&bed, &node, &["-K", &port, "tx", "off"]);
    }
    let taps = [("r1", Way::In), ("s1", Way::In), ("s1", Way::Out)]
        .map(|(host, way)| Capture::start_one_way(&bed.lab, host, "eth0", way, ROCE).unwrap());
    transfer(&bed, "g", "udp");
    assert_eq!(drops(&bed, "g"), BTreeMap::new());
    let [data, feedback, left_out] = taps.map(|tap| {
        let path = tap.path().to_owned();
        let packets = tap.stop().unwrap().len() as u64;
        let found = checksums(&path);
        assert_eq!(found.values().sum::<u64>(), packets, "{found:?}");
        found
    });
    assert!(data["1"] > 4000 && data.len() == 1, "data at r1: {data:?}");
    assert!(feedback["1"] > 100 && feedback.len() == 1, "feedback at s1: {feedback:?}");
    assert!(left_out["0"] > 4000, "the source's kernel left no checksum out, so this proves nothing: {left_out:?}");
}

#[test]
fn buffers_of_several_packets_other_vlans_and_frames_for_others_are_refused_beside_a_transfer() {
    let bed = up("figure1").unwrap();
    bed.limit("s1", 50).unwrap();
    bed.lab.create_group("g", json!({"pathMtu": 1024})).unwrap();
    let receivers: Vec<_> = HOSTS[1..].iter().map(|h| h.0).collect();
    let spec = TransferSpec { leave: false, ..TransferSpec::new("g", "s1", &receivers, 16 * MIB) };
    let transfer = bed.lab.start_transfer(spec).unwrap();
    bed.wait_phase("g", "Ready").unwrap();
    bed.lab.wait("the transfer to begin", |_| Ok(bed.sent_by("s1")? > MIB)).unwrap();
    let connection = bed.group("g").unwrap()["connection"].clone();
    let (node, port) = node_of(&bed, "s1");
    // Marked by a payload that no transfer has.
    let forged = "ip6[60:4] == 0x464f5247";
    let taps: Vec<_> = receivers
        .iter()
        .map(|host| Capture::start_one_way(&bed.lab, host, "eth0", Way::In, &format!("{DATA} and {forged}")).unwrap())
        .collect();
    let out = Capture::start_one_way(&bed.lab, "s1", "eth0", Way::Out, &format!("{DATA} and {forged}")).unwrap();
    let sent = bed
        .attack("s1", "frames.py", &json!({
            "proxy": connection["proxyAddress"], "qpn": connection["designatedQpn"], "psn": connection["startPsn"],
            "source": "2001:db8:0:100::1", "mac": bed.mac(&node, &port).unwrap(), "interface": "eth0", "packets": 100,
        }))
        .unwrap();
    let counted = |reason: &str| -> u64 {
        let of_port = bed.port_drops(&node).unwrap().get(&(port.clone(), reason.into())).copied().unwrap_or(0);
        let of_group =
            bed.drops("g").unwrap().into_iter().filter(|(n, r, _)| *n == node && r == reason).map(|(.., n)| n);
        of_port + of_group.sum::<u64>()
    };
    for (reason, packets) in [("gso", &sent["gso"]), ("edge_frame", &sent["vlan"]), ("edge_other_mac", &sent["other"])]
    {
        let packets = packets.as_u64().unwrap();
        assert!(packets >= 100, "{sent}");
        bed.lab.wait("the frames to be counted", |_| Ok(counted(reason) >= packets)).unwrap();
        assert_eq!(counted(reason), packets, "{reason}");
    }
    let report = transfer.finish(&bed.lab).unwrap();
    assert!(report.mismatches().is_empty(), "{:?}", report.mismatches());
    // The buffers, and the frames to another address: one copy of either would be seen.
    assert!(out.stop().unwrap().len() >= 200, "the source did not send the frames, so this proves nothing");
    assert_eq!(taps.into_iter().map(|tap| tap.stop().unwrap().len()).sum::<usize>(), 0, "copies of refused frames");
}
