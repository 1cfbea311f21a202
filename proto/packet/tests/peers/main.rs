// SPDX-License-Identifier: Apache-2.0
//! Independent implementations read what this crate writes, and write what it reads: scapy (RoCEv2 with ICRC, SRH with
//! TLVs), tshark (both), and the Linux kernel (SRH). A missing peer is a failure, not a skip.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod long_haul;
mod roce;
mod sample;
mod srh;

use std::io::Write;
use std::process::{Command, Stdio};
use std::thread;

use canopy_testkit::captures;

/// Runs a peer over `input` and returns its standard output; panics, naming the package, when it is missing or fails.
fn run(program: &str, args: &[&str], package: &str, input: Vec<u8>) -> String {
    let mut child = Command::new(program)
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|e| panic!("{program} does not start ({e}): install {package}"));
    let mut stdin = child.stdin.take().unwrap();
    // The peer writes while it still reads, so both pipes are served concurrently.
    let writer = thread::spawn(move || stdin.write_all(&input));
    let output = child.wait_with_output().unwrap();
    let written = writer.join().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} failed (is {package} installed?): {stderr}");
    written.unwrap_or_else(|e| panic!("{program} did not read its input: {e}: {stderr}"));
    String::from_utf8(output.stdout).unwrap()
}

/// One line of scapy's answer for each line of `input`.
fn scapy(mode: &str, input: &[String]) -> Vec<String> {
    let script = include_str!("scapy.py");
    let package = "python3 and the Python package scapy >= 2.6";
    let answer = run("python3", &["-c", script, mode], package, lines(input));
    let answer: Vec<_> = answer.lines().map(str::to_owned).collect();
    assert_eq!(answer.len(), input.len(), "scapy answered with another number of lines");
    answer
}

/// The given fields of every packet as decoded by tshark: one row per packet, one column per field, all occurrences of
/// the field joined by commas.
fn tshark(packets: &[Vec<u8>], fields: &[&str]) -> Vec<Vec<String>> {
    let zero_checksum = "udp.ignore_ipv6_zero_checksum:TRUE"; // RoCEv2 uses it, RFC 6936
    let mut args = vec!["-r", "-", "-o", zero_checksum, "-T", "fields"];
    fields.iter().for_each(|field| args.extend(["-e", field]));
    let answer = run("tshark", &args, "the Debian package tshark", captures::write(packets));
    let rows: Vec<Vec<_>> = answer.lines().map(|line| line.split('\t').map(str::to_owned).collect()).collect();
    assert_eq!(rows.len(), packets.len(), "tshark answered with another number of packets");
    rows
}

fn lines(input: &[String]) -> Vec<u8> {
    input.iter().flat_map(|line| [line.as_bytes(), b"\n"].concat()).collect()
}

fn hex(octets: &[u8]) -> String {
    octets.iter().map(|octet| format!("{octet:02x}")).collect()
}
