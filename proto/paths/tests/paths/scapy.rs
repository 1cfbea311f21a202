// SPDX-License-Identifier: Apache-2.0
//! Headers of programs as scapy writes and reads them, an independent implementation. Without it the test fails.

use std::io::Write;
use std::process::{Command, Stdio};

use canopy_model::usid::Usid;
use canopy_packet::ipv6::{Ipv6, NEXT_HEADER_IPV6, NEXT_HEADER_ROUTING};
use canopy_packet::srh::Srh;
use canopy_paths::program::{Header, Program};

use crate::net::{address, block};

/// One line of scapy's answer for each line.
fn scapy(input: &[String]) -> Vec<String> {
    let mut child = Command::new("python3")
        .args(["-c", include_str!("scapy.py")])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|e| panic!("python3 does not start ({e}): install it"));
    // A few lines: they fit into the pipe.
    child.stdin.take().unwrap().write_all(input.join("\n").as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "install the Python package scapy >= 2.6: {stderr}");
    let answer = String::from_utf8(output.stdout).unwrap();
    answer.lines().map(str::to_owned).collect()
}

fn line(header: &Header) -> String {
    let segments: Vec<String> = header.segments.iter().map(ToString::to_string).collect();
    let list = if segments.is_empty() { "-".to_owned() } else { segments.join(",") };
    format!("{} {} {list}", header.destination, header.segments_left)
}

/// The octets of a packet with this header, and an inner header without payload.
fn octets(header: &Header) -> Vec<u8> {
    let ipv6 = |dst, next_header, payload_len: usize| {
        let src = address("2001:db8::1");
        let payload_len = payload_len as u16;
        let header = Ipv6 { traffic_class: 0, flow_label: 0, payload_len, next_header, hop_limit: 64, src, dst };
        let mut octets = vec![0; Ipv6::LEN];
        header.emit(&mut octets).unwrap();
        octets
    };
    let inner = ipv6(address("2001:db8::3"), 59, 0);
    if header.segments.is_empty() {
        return [ipv6(header.destination, NEXT_HEADER_IPV6, inner.len()), inner].concat();
    }
    let srh = Srh {
        next_header: NEXT_HEADER_IPV6,
        segments_left: header.segments_left,
        flags: 0,
        tag: 0,
        segments: header.segments.clone(),
        tlvs: Vec::new(),
        hmac: None,
    };
    let srh = srh.to_vec().unwrap();
    [ipv6(header.destination, NEXT_HEADER_ROUTING, srh.len() + inner.len()), srh, inner].concat()
}

/// Catches a segment list in another order, a Segments Left or Last Entry that is not that of a reduced SRH, and an overhead that is not that
/// of the octets.
#[test]
fn scapy_writes_and_reads_the_same_headers() {
    let mut headers = Vec::new();
    for usids in [1, 3, 6, 7, 12, 13, 20] {
        let program = (1..=usids).map(|value| Usid::try_from(0x100 * value + 1).unwrap()).collect();
        let mut header = Some(Program::new(program).unwrap().encode(block()));
        while let Some(now) = header {
            header = now.carried_out();
            headers.push(now);
        }
    }
    let lines: Vec<String> = headers.iter().map(line).collect();
    let answers = scapy(&lines);
    assert_eq!(answers.len(), headers.len());
    for ((header, line), answer) in headers.iter().zip(&lines).zip(answers) {
        let octets = octets(header);
        let hex: String = octets.iter().map(|octet| format!("{octet:02x}")).collect();
        assert_eq!(answer, format!("{hex} {line}"));
        assert_eq!(header.overhead().get(), octets.len() as u64 - Ipv6::LEN as u64);
    }
}
