// SPDX-License-Identifier: Apache-2.0
//! Long-haul CNPs and STAMP packets against tshark (fields, checksums), over the captures in `testdata/long-haul`, and
//! STAMP against scapy. No peer implements the Long-haul CNP itself: tshark checks the packets that carry it.

use super::sample::sample;
use super::{captures, hex, run, scapy};
use canopy_packet::ipv6::{Ipv6, NEXT_HEADER_ICMPV6, NEXT_HEADER_UDP};
use canopy_packet::long_haul_cnp::extension::Object;
use canopy_packet::long_haul_cnp::icmp::Message;
use canopy_packet::long_haul_cnp::roce::RocePacket;
use canopy_packet::long_haul_cnp::{Action, LongHaulCnp, Metric};
use canopy_packet::stamp::{self, ErrorEstimate, ReflectorPacket, SenderPacket};
use canopy_packet::udp::Udp;
use proptest::prelude::*;
use std::net::Ipv6Addr;

/// Section 7, step 4.
const EXAMPLE: LongHaulCnp = LongHaulCnp {
    level: 180,
    action: Action::RateReduce { percent: 30 },
    source_qp: 100,
    metric: Metric::QueueDepth(130_000),
};

fn node() -> Ipv6Addr {
    "fcff:0:0:1::1".parse().unwrap()
}

fn source() -> Ipv6Addr {
    "fd00:1::1".parse().unwrap()
}

fn objects() -> Vec<Object> {
    vec![Object::Timestamp(0xe900_0001_8000_0000), Object::Device("n1".into()), Object::Path(vec![0x70])]
}

fn ipv6(next_header: u8, payload: &[u8]) -> Vec<u8> {
    let payload_len = payload.len() as u16;
    let (src, dst) = (node(), source());
    let mut packet = vec![0; Ipv6::LEN];
    let header = Ipv6 { traffic_class: 0, flow_label: 0, payload_len, next_header, hop_limit: 64, src, dst };
    header.emit(&mut packet).unwrap();
    [packet, payload.to_vec()].concat()
}

fn icmp(objects: Vec<Object>) -> Vec<u8> {
    let message = Message { cnp: EXAMPLE, objects }.to_vec(node(), source()).unwrap();
    ipv6(NEXT_HEADER_ICMPV6, &message)
}

fn roce(objects: Vec<Object>) -> Vec<u8> {
    let (src, dst) = (node(), source());
    let (traffic_class, hop_limit, src_port, pkey) = (0, 64, 0xc000, 0xffff);
    let packet = RocePacket { traffic_class, hop_limit, src, dst, src_port, pkey, cnp: EXAMPLE, objects };
    packet.to_vec().unwrap()
}

fn sender() -> SenderPacket {
    let error_estimate = ErrorEstimate { synchronized: true, ptp: false, scale: 17, multiplier: 34 };
    SenderPacket { sequence: 0x0102_0304, timestamp: 0xe900_0001_8000_0000, error_estimate }
}

fn reflector() -> ReflectorPacket {
    ReflectorPacket {
        sequence: 0x0a0b_0c0d,
        timestamp: 0xe900_0002_4000_0000,
        error_estimate: ErrorEstimate { synchronized: false, ptp: true, scale: 0, multiplier: 1 },
        receive_timestamp: 0xe900_0002_2000_0000,
        sender: sender(),
        sender_ttl: 63,
    }
}

fn stamp_packets() -> Vec<Vec<u8>> {
    let mut payloads = [[0; stamp::LEN]; 2];
    sender().emit(&mut payloads[0]).unwrap();
    reflector().emit(&mut payloads[1]).unwrap();
    let ports = [(50_000, stamp::PORT), (stamp::PORT, 50_000)];
    let packet = |(payload, (src_port, dst_port)): (&[u8; stamp::LEN], (u16, u16))| {
        let mut udp = vec![0; Udp::LEN];
        let length = (Udp::LEN + stamp::LEN) as u16;
        Udp { src_port, dst_port, length, checksum: 0 }.emit(&mut udp).unwrap();
        ipv6(NEXT_HEADER_UDP, &[udp, payload.to_vec()].concat())
    };
    payloads.iter().zip(ports).map(packet).collect()
}

/// A capture of this directory; written if `CANOPY_WRITE_FIXTURES` is set, compared otherwise.
fn fixture(name: &str, packets: &[Vec<u8>]) -> String {
    let path = captures::path(name);
    let path = path.parent().unwrap().with_file_name("long-haul").join(name).with_extension("pcap");
    let written = captures::write(packets);
    if std::env::var_os("CANOPY_WRITE_FIXTURES").is_some() {
        std::fs::write(&path, &written).unwrap();
    }
    let there = std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    assert!(there == written, "{} is not what is written", path.display());
    path.display().to_string()
}

fn tshark(path: &str, options: &[&str], fields: &[&str]) -> Vec<Vec<String>> {
    let mut args = vec!["-r", path, "-o", "udp.ignore_ipv6_zero_checksum:TRUE", "-T", "fields"];
    args.extend(options);
    fields.iter().for_each(|field| args.extend(["-e", field]));
    let answer = run("tshark", &args, "the Debian package tshark", Vec::new());
    answer.lines().map(|line| line.split('\t').map(str::to_owned).collect()).collect()
}

#[test]
fn tshark_reads_long_haul_cnps_as_they_were_meant() {
    let packets = [icmp(vec![]), icmp(objects()), roce(vec![]), roce(objects())];
    let path = fixture("cnp", &packets);
    let fields = [
        "_ws.malformed",
        "icmpv6.type",
        "icmpv6.code",
        "icmpv6.checksum.status",
        "infiniband.bth.opcode",
        "infiniband.bth.se",
        "infiniband.bth.m",
        "infiniband.bth.padcnt",
        "infiniband.bth.tver",
        "infiniband.bth.p_key",
        "infiniband.bth.destqp",
        "infiniband.bth.a",
        "infiniband.bth.psn",
    ];
    let rows = tshark(&path, &[], &fields);
    let icmp = ["", "200", "0", "1", "", "", "", "", "", "", "", "", ""];
    let roce = ["", "", "", "", "129", "0", "0", "0", "0", "65535", "0x000064", "0", "0"];
    assert_eq!((rows.len(), &rows[0][..], &rows[1][..]), (4, &icmp.map(String::from)[..], &icmp.map(String::from)[..]));
    for row in &rows[2..] {
        assert_eq!(row[..], roce.map(String::from));
    }
    // tshark shows no ICRC of a CNP; scapy computes it.
    let answers = scapy("icrc", &packets[2..].iter().map(|packet| hex(packet)).collect::<Vec<_>>());
    assert_eq!(answers, ["fce43d70", "54cc1779"]);
    assert!(packets[2..].iter().zip(answers).all(|(packet, icrc)| hex(packet).ends_with(&icrc)));
}

/// Shows that the checksum verdict can be negative.
#[test]
fn tshark_refuses_a_wrong_icmpv6_checksum() {
    let mut damaged = icmp(objects());
    *damaged.last_mut().unwrap() ^= 1;
    let rows = super::tshark(&[damaged], &["icmpv6.checksum.status"]);
    assert_eq!(rows, [["0"]]);
}

#[test]
fn tshark_reads_stamp_packets_as_they_were_meant() {
    let path = fixture("stamp", &stamp_packets());
    let fields = [
        "_ws.malformed",
        "twamp.test.seq_number",
        "twamp.test.error_estimate.s",
        "twamp.test.error_estimate.z",
        "twamp.test.error_estimate.scale",
        "twamp.test.error_estimate.multiplier",
        "twamp.test.timestamp",
        "twamp.test.sender_seq_number",
        "twamp.test.sender_ttl",
    ];
    let rows = tshark(&path, &["-d", "udp.port==862,twamp.test"], &fields);
    assert_eq!(rows.len(), 2);
    // tshark cannot know the direction of the first packet, and reads an answer into its MBZ octets.
    assert_eq!(rows[0][..2], ["", "16909060"]);
    assert!(rows[0][2].starts_with('1') && rows[0][3].starts_with('0'), "{:?}", rows[0]);
    assert!(rows[0][4].starts_with("17") && rows[0][5].starts_with("34"), "{:?}", rows[0]);
    assert!(rows[0][6].contains(":09.5"), "half a second: {:?}", rows[0]);
    assert_eq!(rows[1][..2], ["", "168496141"]);
    assert_eq!(rows[1][7..], ["16909060", "63"]);
}

const SCAPY: &str = r"
import sys
from scapy.contrib.stamp import STAMPSessionReflectorTestUnauthenticated as R, STAMPSessionSenderTestUnauthenticated as S
for line in sys.stdin:
    raw = bytes.fromhex(line.strip())
    s, r = S(raw[:44]), R(raw[44:])
    e = lambda x: (int(x.S), int(x.Z), x.scale, x.multiplier)
    print(s.seq, *e(s.err_estimate), r.seq, *e(r.err_estimate), r.seq_sender, *e(r.err_estimate_sender), r.ttl_sender)
";

fn estimate() -> impl Strategy<Value = ErrorEstimate> {
    (any::<(bool, bool)>(), 0_u8..64, 1_u8..).prop_map(|((synchronized, ptp), scale, multiplier)| ErrorEstimate {
        synchronized,
        ptp,
        scale,
        multiplier,
    })
}

#[test]
fn scapy_reads_stamp_packets_as_they_were_meant() {
    let fields = (any::<[u32; 3]>(), any::<[u64; 4]>(), [estimate(), estimate(), estimate()], any::<u8>());
    let samples = sample(100, fields);
    let text =
        |e: ErrorEstimate| format!("{} {} {} {}", u8::from(e.synchronized), u8::from(e.ptp), e.scale, e.multiplier);
    let (mut input, mut expected) = (Vec::new(), Vec::new());
    for ([sequence, other, of_sender], [sent, timestamp, receive_timestamp, sender_sent], [a, b, c], sender_ttl) in
        samples
    {
        let own = SenderPacket { sequence, timestamp: sent, error_estimate: a };
        let sender = SenderPacket { sequence: of_sender, timestamp: sender_sent, error_estimate: c };
        let answer =
            ReflectorPacket { sequence: other, timestamp, error_estimate: b, receive_timestamp, sender, sender_ttl };
        let mut octets = [0; 2 * stamp::LEN];
        own.emit(&mut octets).unwrap();
        answer.emit(&mut octets[stamp::LEN..]).unwrap();
        input.push(hex(&octets));
        expected.push(format!("{sequence} {} {other} {} {of_sender} {} {sender_ttl}", text(a), text(b), text(c)));
    }
    let answer = run("python3", &["-c", SCAPY], "python3 and the Python package scapy >= 2.6", super::lines(&input));
    assert_eq!(answer.lines().collect::<Vec<_>>(), expected);
}
