// SPDX-License-Identifier: Apache-2.0
//! Figure 1: the same bytes at every receiver, one copy on every link, and no false acknowledgement.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use canopy_e2e::capture::{ACKS, Capture, check_no_false_ack};
use canopy_e2e::{deep, up};
use canopy_lab::TransferSpec;
use canopy_lab::transfer::Op;
use serde_json::json;

const RECEIVERS: [&str; 5] = ["r1", "r2", "r3", "r4", "r5"];
const MIB: u64 = 1 << 20;
/// Ethernet, IPv6, UDP, BTH and ICRC around each payload.
const HEADERS: u64 = 14 + 40 + 8 + 12 + 4;

fn spec(bytes: u64) -> TransferSpec {
    TransferSpec { timeout: Duration::from_secs(600), ..TransferSpec::new("g", "s1", &RECEIVERS, bytes) }
}

#[test]
fn without_loss_every_link_carries_one_copy_and_acks_are_few_and_true() {
    let bed = up("figure1").unwrap();
    for path_mtu in [1024, 4096] {
        bed.lab.create_group("g", json!({"pathMtu": path_mtu})).unwrap();
        let start = bed.group("g").unwrap()["connection"]["startPsn"].as_u64().unwrap();
        let bytes = if deep() { 256 * MIB } else { 48 * MIB };
        let captures: Vec<_> = RECEIVERS
            .iter()
            .map(|r| Capture::start(&bed.lab, r, "eth0", &format!("{ACKS} and src host {}", address(r))).unwrap())
            .collect();
        let source = Capture::start(&bed.lab, "s1", "eth0", &format!("{ACKS} and dst host 2001:db8:0:100::1")).unwrap();
        // Nothing is lost, so nothing must be retransmitted: the timeout is longer than any pause of a busy machine.
        let mut patient = spec(bytes);
        patient.args.insert("s1".into(), vec!["--timeout".into(), "1s".into()]);
        let report = bed.lab.transfer(patient).unwrap();
        assert!(report.mismatches().is_empty(), "{:?}", report.mismatches());

        let packets = bytes.div_ceil(path_mtu);
        let uplink = report.links.iter().find(|l| l.a.device == "s1").unwrap().a_to_b.passed_octets.get();
        let ratio = (uplink as f64 - (packets * HEADERS) as f64) / bytes as f64;
        println!(
            "MTU {path_mtu}: source link {ratio:.4} x payload + {HEADERS} B x {packets} packets of headers; goodput {:.0} Mb/s",
            report.source.goodput_bps / 1e6
        );
        assert!(ratio <= 1.02, "source link carried {ratio} copies");

        let (got, sent) = (report.source.acks_received, report.acks_sent());
        println!("MTU {path_mtu}: {got} ACKs at s1 of {sent} sent: {:.3}", got as f64 / sent as f64);
        assert!(got * 4 <= sent, "{got} of {sent} ACKs reached the source");

        let receivers: Vec<_> = captures.into_iter().map(|c| c.stop().unwrap()).collect();
        check_no_false_ack(start, &source.stop().unwrap(), &receivers).unwrap();
        bed.lab.rest("DELETE", "/api/v1/groups/g", None).unwrap();
    }
}

#[test]
fn rdma_write_lands_in_every_receivers_own_memory() {
    let bed = up("figure1").unwrap();
    for (path_mtu, loss) in [(1024, "0%"), (4096, "1%")] {
        bed.lab.create_group("g", json!({"pathMtu": path_mtu})).unwrap();
        bed.lab.set_loss("all", loss.parse().unwrap()).unwrap();
        // Every receiver registers memory at an address and with a key of its own; its hash is compared too.
        let report = bed.lab.transfer(TransferSpec { op: Op::Write, ..spec(4 * MIB) }).unwrap();
        assert!(report.receivers.iter().all(|r| r.memory_sha256.is_some()));
        assert!(report.mismatches().is_empty(), "{:?}", report.mismatches());
        bed.lab.set_loss("all", "0%".parse().unwrap()).unwrap();
        bed.lab.rest("DELETE", "/api/v1/groups/g", None).unwrap();
    }
}

#[test]
fn a_group_is_used_again_by_other_queue_pairs() {
    let bed = up("figure1").unwrap();
    bed.lab.create_group("g", json!({"pathMtu": 1024})).unwrap();
    for seed in 0..10 {
        // All leave at the end and join again at once: an agent may see both as one change.
        let report = bed.lab.transfer(TransferSpec { seed, ..spec(1 << 16) }).unwrap_or_else(|e| {
            let log = std::fs::read_to_string(bed.lab.dir().join("log/rc-r1.log"));
            panic!("transfer {seed}: {e:#}; log of r1: {log:?}")
        });
        assert!(report.mismatches().is_empty(), "{:?}", report.mismatches());
    }
}

fn address(host: &str) -> String {
    format!("2001:db8:0:{}::1", &host[1..])
}

#[test]
fn with_loss_on_every_link_the_bytes_are_the_same() {
    let bed = up("figure1").unwrap();
    for (path_mtu, loss, ci, full) in
        [(1024, "1%", 8, 256), (4096, "1%", 32, 256), (1024, "5%", 2, 32), (4096, "5%", 4, 32)]
    {
        bed.lab.create_group("g", json!({"pathMtu": path_mtu})).unwrap();
        bed.lab.set_loss("all", loss.parse().unwrap()).unwrap();
        let bytes = MIB * if deep() { full } else { ci };
        let report = bed.lab.transfer(spec(bytes)).unwrap();
        println!(
            "MTU {path_mtu}, {loss} loss, {} MiB: {:.1} s, {:.1} Mb/s, {:?} retransmitted",
            bytes / MIB,
            report.source.seconds,
            report.source.goodput_bps / 1e6,
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
