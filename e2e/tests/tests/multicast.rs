// SPDX-License-Identifier: Apache-2.0
//! Groups that the nodes' kernels replicate by IP multicast: same bytes, one copy on every link, no leftovers.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::process::{Command, Stdio};
use std::time::Duration;

use canopy_e2e::capture::Capture;
use canopy_e2e::{Bed, deep, up};
use canopy_lab::TransferSpec;
use canopy_lab::transfer::Op;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::json;

const RECEIVERS: [&str; 5] = ["r1", "r2", "r3", "r4", "r5"];
const NODES: [&str; 6] = ["n1", "n2", "n3", "n4", "n5", "n6"];
const MIB: u64 = 1 << 20;
/// Ethernet, IPv6, UDP, BTH and ICRC around each payload.
const HEADERS: u64 = 14 + 40 + 8 + 12 + 4;

fn spec(bytes: u64) -> TransferSpec {
    TransferSpec { timeout: Duration::from_secs(300), ..TransferSpec::new("g", "s1", &RECEIVERS, bytes) }
}

/// The node's multicast routes, one per line, from `ip`; outgoing interfaces sorted, because the kernel has them in the order of their first use.
fn routes(bed: &Bed, node: &str) -> Vec<String> {
    let ns = bed.lab.state().instance.namespace(node);
    let out = Command::new("ip").args(["-n", &ns, "-6", "mroute", "show"]).output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let sorted = |line: &str| {
        let mut words: Vec<&str> = line.split_whitespace().collect();
        let at = |words: &[&str], name| words.iter().position(|w| *w == name).unwrap();
        let outgoing = at(&words, "Oifs:") + 1..at(&words, "State:");
        words[outgoing].sort_unstable();
        words.join(" ")
    };
    String::from_utf8_lossy(&out.stdout).lines().map(sorted).collect()
}

/// Processes that hold multicast routing in the lab's namespaces: (node, process).
fn mroute_holders(bed: &Bed) -> Vec<(&'static str, i32)> {
    let id = |path: &str| fs::metadata(path).map(|m| (m.dev(), m.ino())).ok();
    let namespaces = NODES.map(|n| (n, id(&format!("/run/netns/{}", bed.lab.state().instance.namespace(n))).unwrap()));
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|n| n.parse::<i32>().ok()) else { continue };
        let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        if line.split(|b| *b == 0).any(|a| a == b"hold-multicast") {
            let at = id(&format!("/proc/{pid}/ns/net"));
            found.extend(namespaces.iter().filter(|(_, ns)| Some(*ns) == at).map(|(n, _)| (*n, pid)));
        }
    }
    found.sort_unstable();
    found
}

#[test]
fn one_copy_on_every_link_and_killed_agents_stop_nothing() {
    let mut bed = up("figure1").unwrap();
    let group =
        bed.lab.create_group("g", json!({"replication": "multicast", "pathMtu": 1024, "minReceivers": 5})).unwrap();
    assert_eq!(group["spec"]["replication"], "multicast");
    let bytes = if deep() { 256 * MIB } else { 64 * MIB };
    let mut patient = TransferSpec { leave: false, ..spec(bytes) };
    // A busy machine must not cause a retransmission, so every retransmission means that a packet was lost.
    patient.args.insert("s1".into(), vec!["--timeout".into(), "1s".into()]);
    let capture = Capture::start(&bed.lab, "n5", "eth1", "ip6 proto 43").unwrap();
    let transfer = bed.lab.start_transfer(patient).unwrap();
    bed.wait_phase("g", "Ready").unwrap();
    let moved = |bed: &Bed| {
        bed.lab.link_counters().unwrap().iter().find(|l| l.a.device == "s1").unwrap().a_to_b.passed_octets.get()
    };
    bed.lab.wait("the transfer to begin", |_| Ok(moved(&bed) > MIB)).unwrap();
    let segments = bed.group("g").unwrap()["encoding"]["segments"].clone();
    let address = segments[1].as_str().unwrap().to_owned();
    assert!(address.starts_with("ff3e::8000:"), "{segments}");
    // n2 is reached over n4 or n5; the other edges have no children in the tree.
    println!("{:#?}", NODES.map(|n| (n, routes(&bed, n))));
    let shown = |node: &str| routes(&bed, node).first().cloned().unwrap_or_default();
    let n6 = shown("n6");
    assert!(n6.starts_with(&format!("(fcff:0:0:6::1,{address}) Iif: eth1 Oifs: eth2 eth3")), "{n6}");
    assert!(shown("n4").contains("Iif: eth1 Oifs: eth2") && shown("n5").contains("Iif: eth1 Oifs:"));
    for edge in ["n1", "n2", "n3"] {
        assert_eq!(routes(&bed, edge), [""; 0]);
    }
    let nodes: Vec<&str> = mroute_holders(&bed).iter().map(|h| h.0).collect();
    assert_eq!(nodes, ["n4", "n5", "n6"]);

    // The group is open.
    let late = json!({"apiVersion": "canopy/v1", "kind": "Member", "metadata": {"name": "r5"}, "spec": {"host": "r5", "role": "receiver", "qpn": 0x999}});
    let (status, body) = bed.lab.rest("PUT", "/api/v1/groups/g/members/r5", Some(&late)).unwrap();
    assert!(status == 409 && body.to_string().contains("let all receivers join first"), "{status} {body}");

    for (i, node) in ["n6", "n4", "n5", "n1"].iter().enumerate() {
        bed.lab.wait("the transfer to continue", |_| Ok(moved(&bed) > bytes / 6 * (i as u64 + 1))).unwrap();
        bed.lab.kill_agent(node).unwrap();
        let then = moved(&bed);
        assert!(then < bytes, "the transfer was over before the kill of {node}: this proves nothing");
        bed.lab.wait("data to flow without the agent", |_| Ok(moved(&bed) > then + MIB)).unwrap();
        bed.lab.start_agent(node).unwrap();
    }
    let report = transfer.finish(&bed.lab).unwrap();
    assert!(report.mismatches().is_empty(), "{:?}", report.mismatches());
    assert_eq!(report.source.more.get("retransmitted"), Some(&json!(0)), "a packet was lost");
    for link in &report.links {
        // Down the tree: the payload once, on one of the two links to n2.
        let carried = link.a_to_b.passed_octets.get() as f64 / bytes as f64;
        println!("{} -> {}: {carried:.3} x payload", link.a.device, link.b.device);
        assert!(carried < 1.35, "{} -> {} carried {carried} copies", link.a.device, link.b.device);
    }
    let uplink = report.links.iter().find(|l| l.a.device == "s1").unwrap().a_to_b.passed_octets.get();
    let ratio = (uplink as f64 - (bytes.div_ceil(1024) * HEADERS) as f64) / bytes as f64;
    println!("source link {ratio:.4} x payload; goodput {:.0} Mb/s", report.source.goodput_bps / 1e6);
    assert!(ratio <= 1.02, "source link carried {ratio} copies");

    let packets = capture.stop().unwrap();
    assert!(packets.len() > 1000, "{} packets captured", packets.len());
    let destination: std::net::Ipv6Addr = address.parse().unwrap();
    // The headend sends 64, and its kernel decrements it.
    assert!(packets.iter().all(|p| p.bytes[24..40] == destination.octets() && p.bytes[7] == 63));
    assert!(bed.drops("g").unwrap().is_empty(), "{:?}", bed.drops("g"));

    let body =
        json!({"apiVersion": "canopy/v1", "kind": "Group", "metadata": {"name": "g"}, "spec": {"pathMtu": 1024}});
    let (status, answer) = bed.lab.rest("PUT", "/api/v1/groups/g", Some(&body)).unwrap();
    assert!(status == 422 || status == 400, "{status} {answer}");
    assert!(answer.to_string().contains("spec.replication"), "{answer}");
    for host in RECEIVERS.iter().chain(&["s1"]) {
        bed.lab.rest("DELETE", &format!("/api/v1/groups/g/members/{host}"), None).unwrap();
    }
    let quiet = |bed: &Bed| mroute_holders(bed).is_empty() && NODES.iter().all(|n| routes(bed, n).is_empty());
    bed.lab.wait("the kernels to forget the group", |_| Ok(quiet(&bed))).unwrap();
}

#[test]
fn with_loss_on_every_link_the_bytes_are_the_same() {
    let bed = up("figure1").unwrap();
    for (path_mtu, loss, op, mib) in [(1024, "1%", Op::Send, 8), (4096, "1%", Op::Write, 8), (4096, "5%", Op::Send, 4)]
    {
        bed.lab.create_group("g", json!({"replication": "multicast", "pathMtu": path_mtu, "minReceivers": 5})).unwrap();
        bed.lab.set_loss("all", loss.parse().unwrap()).unwrap();
        let bytes = mib * MIB * if deep() { 16 } else { 1 };
        let report = bed.lab.transfer(TransferSpec { op, ..spec(bytes) }).unwrap();
        println!(
            "MTU {path_mtu}, {loss} loss, {op:?} {mib} MiB: {:.1} s, {:?} retransmitted",
            report.source.seconds,
            report.source.more.get("retransmitted")
        );
        assert!(report.mismatches().is_empty(), "{:?}", report.mismatches());
        assert_eq!(report.source.more.get("false_acks"), Some(&json!(0)));
        let lost: u64 = report.links.iter().map(|l| l.a_to_b.dropped_packets + l.b_to_a.dropped_packets).sum();
        assert!(lost > 0, "the links lost nothing: this proves nothing");
        bed.lab.set_loss("all", "0%".parse().unwrap()).unwrap();
        bed.lab.rest("DELETE", "/api/v1/groups/g", None).unwrap();
    }
}

fn join_all(bed: &Bed) {
    for (i, host) in ["s1", "r1", "r3", "r5"].iter().enumerate() {
        let role = if i == 0 { "source" } else { "receiver" };
        let member = json!({"apiVersion": "canopy/v1", "kind": "Member", "metadata": {"name": host}, "spec": {"host": host, "role": role, "qpn": 0x100 + i}});
        let (status, body) = bed.lab.rest("POST", "/api/v1/groups/g/members", Some(&member)).unwrap();
        assert_eq!(status, 201, "{body}");
    }
}

#[test]
fn a_dead_holder_is_replaced_a_routing_daemon_is_named_and_down_leaves_no_process() {
    let bed = up("figure1").unwrap();
    // Another routing daemon owns multicast routing at n4, as pim6sd would.
    let program = "import socket, time\n\
        s = socket.socket(socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_ICMPV6)\n\
        s.setsockopt(socket.IPPROTO_IPV6, 200, 1)\n\
        print('on', flush=True)\n\
        time.sleep(1000)";
    let mut daemon = bed.lab.command("n4", "python3").unwrap();
    let mut daemon = daemon.args(["-c", program]).stdout(Stdio::piped()).spawn().unwrap();
    let mut on = [0; 3];
    std::io::Read::read_exact(daemon.stdout.as_mut().unwrap(), &mut on).unwrap();
    bed.lab.create_group("g", json!({"replication": "multicast", "minReceivers": 3})).unwrap();
    join_all(&bed);
    // The cause comes to the top once the neighbours that were not yet asked have answered.
    let named = |reason: &str| reason.contains("node n4") && reason.contains("routing daemon");
    let degraded = |bed: &Bed| {
        let group = bed.group("g")?;
        Ok(group["phase"] == "Degraded" && named(group["reason"].as_str().unwrap_or_default()))
    };
    bed.lab.wait("the group to be Degraded by n4's routing daemon", |_| degraded(&bed)).unwrap();
    daemon.kill().unwrap();
    daemon.wait().unwrap();
    bed.wait_phase("g", "Ready").unwrap();

    let first = mroute_holders(&bed);
    assert_eq!(first.len(), 3, "{first:?}");
    let (node, pid) = first[0];
    kill(Pid::from_raw(pid), Signal::SIGKILL).unwrap();
    let replaced = |now: &[(&str, i32)]| now.iter().any(|(n, p)| *n == node && *p != pid);
    bed.lab.wait("another holder", |_| Ok(replaced(&mroute_holders(&bed)))).unwrap();
    bed.wait_phase("g", "Ready").unwrap();

    let left: Vec<i32> = mroute_holders(&bed).into_iter().map(|h| h.1).collect();
    let Bed { lab, .. } = bed;
    lab.down().unwrap();
    for pid in left {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        assert!(!line.windows(14).any(|w| w == b"hold-multicast"), "holder {pid} outlived the lab");
    }
}
