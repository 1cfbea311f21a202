// SPDX-License-Identifier: Apache-2.0
//! A small network for tests: s1 - n1 - r1, and shared helpers.
#![allow(dead_code, missing_docs, unreachable_pub, clippy::unwrap_used)]

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use canopy_lab::{Instance, Lab, LabFile, Options};

pub const SMALL: &str = "
apiVersion: canopy/v1
kind: Lab
metadata: {name: small}
spec:
  nodes: [{name: n1, id: 1}]
  hosts:
    - {name: s1, prefix: '2001:db8:1::/64', address: '2001:db8:1::1'}
    - {name: r1, prefix: '2001:db8:2::/64', address: '2001:db8:2::1'}
  defaults: {mtu: 4500}
  links:
    - {a: s1/eth0, b: n1/eth1, rate: 1Gbit}
    - {a: r1/eth0, b: n1/eth2.5}
";

pub fn small() -> LabFile {
    LabFile::parse(SMALL).unwrap()
}

/// Every test has an instance of its own, so that tests can run in parallel.
pub fn options(instance: &str) -> Options {
    Options { instance: Instance::new(Some(instance.into())).unwrap(), network_only: true, ..Options::default() }
}

/// Fails with what was printed unless the command succeeds.
pub fn run(command: &mut Command) -> String {
    let out = command.output().unwrap();
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    assert!(out.status.success(), "{command:?}: {text}{}", String::from_utf8_lossy(&out.stderr));
    text
}

pub fn ip(lab: &Lab, device: &str, args: &str) -> String {
    run(lab.command(device, "ip").unwrap().args(args.split(' ')))
}

/// Does what an agent does for plain IPv6: forwards, and answers fe80::1 on host ports.
pub fn forward_by_hand(lab: &Lab) {
    run(lab.command("n1", "sysctl").unwrap().args(["-qw", "net.ipv6.conf.all.forwarding=1"]));
    for (port, net) in [("eth1", "2001:db8:1::/64"), ("eth2.5", "2001:db8:2::/64")] {
        ip(lab, "n1", &format!("addr add fe80::1/64 dev {port}"));
        ip(lab, "n1", &format!("route add {net} dev {port}"));
    }
}

/// Pings r1 from s1; returns the number of answers.
pub fn ping(lab: &Lab, count: u32, more: &[&str]) -> u32 {
    let out = lab
        .command("s1", "ping")
        .unwrap()
        .args(["-6", "-q", "-i", "0.002", "-W", "0.5", "-c", &count.to_string()])
        .args(more)
        .arg("2001:db8:2::1")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&out.stdout);
    let received = text.lines().find_map(|l| l.split(", ").find_map(|p| p.strip_suffix(" received")));
    received.unwrap_or_else(|| panic!("ping printed {text}{}", String::from_utf8_lossy(&out.stderr))).parse().unwrap()
}

/// Everything of an instance that the machine still has.
pub fn leftovers(instance: &str) -> Vec<String> {
    let mut found: Vec<String> = ["/sys/fs/bpf/canopy-lab", "/sys/fs/bpf/canopy", "/run/canopy-lab"]
        .iter()
        .map(|d| format!("{d}/{instance}"))
        .filter(|p| Path::new(p).exists())
        .collect();
    let prefix = format!("cnp-{instance}-");
    found.extend(
        run(Command::new("ip").args(["netns", "list"])).lines().filter(|l| l.starts_with(&prefix)).map(str::to_owned),
    );
    found
}

pub fn eventually(what: &str, mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(10);
    while !done() {
        assert!(Instant::now() < deadline, "{what}: not within 10 s");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The link of r1 has a delay, that of s1 has not.
pub fn delayed(delay: &str) -> LabFile {
    LabFile::parse(
        &SMALL.replace("{a: r1/eth0, b: n1/eth2.5}", &format!("{{a: r1/eth0, b: n1/eth2.5, delay: {delay}}}")),
    )
    .unwrap()
}
