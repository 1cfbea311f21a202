// SPDX-License-Identifier: Apache-2.0
//! Packets that `canopy-steer` sprays over four spines of the lab: away from loss and from congestion, while the controller and the agents of
//! hosts are away.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::process::{Child, Stdio};

use canopy_e2e::{Bed, deep, up_with_host_agents};
use serde_json::Value;

const B1: &str = "2001:db8:2:1::1";
/// Sends so many datagrams of so many octets, so many a second, to a port that is closed: the receiver counts each of them as such.
const SEND: &str = "
import socket, sys, time
to, count, size, rate = sys.argv[1], *map(int, sys.argv[2:])
out = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
start, what = time.monotonic(), bytes(size)
for n in range(count):
    ahead = start + n / rate - time.monotonic()
    if ahead > 0.001:
        time.sleep(ahead)
    out.sendto(what, (to, 9))
";

/// Of a path: slots, weight, fault.
#[derive(Clone, Debug, PartialEq)]
struct Path {
    slots: u64,
    weight: f64,
    fault: Value,
}

/// By spine, in order.
fn paths(bed: &Bed, from: &str) -> Vec<Path> {
    let shown: Value = serde_json::from_str(&bed.lab.steer(from, "paths", &["--json", B1]).unwrap()).unwrap();
    let mut all: Vec<(String, Path)> = Vec::new();
    for path in shown["paths"].as_array().unwrap() {
        let (slots, weight) = (path["slots"].as_u64().unwrap(), path["weight"].as_f64().unwrap());
        all.push((path["nodes"][1].to_string(), Path { slots, weight, fault: path["fault"].clone() }));
    }
    all.sort_by(|a, b| a.0.cmp(&b.0));
    all.into_iter().map(|(_, path)| path).collect()
}

fn is_even(paths: &[Path]) -> bool {
    paths.len() == 4 && paths.iter().all(|path| *path == Path { slots: 16, weight: 1.0, fault: Value::Null })
}

/// The hosts have programs to b1 whose ways are all sound; then they are alone.
fn started(hosts: &[&str]) -> Bed {
    let mut bed = up_with_host_agents("spines4").unwrap();
    bed.wait_measured().unwrap();
    for host in hosts {
        bed.lab.start_steer(host, "mode = 'spray'\n[probe]\ninterval = '2ms'\n").unwrap();
        bed.lab
            .wait("canopy-steer to have the fabric", |lab| {
                Ok(lab.steer(host, "status", &["--json"]).is_ok_and(|printed| printed.contains("\"nodes\":7")))
            })
            .unwrap();
    }
    bed.lab.kill_controller().unwrap();
    ["a1", "a2", "b1", "c1"].iter().for_each(|host| bed.lab.kill_host_agent(host).unwrap());
    for host in hosts {
        bed.lab.wait("all paths to carry packets alike", |_| Ok(is_even(&paths(&bed, host)))).unwrap();
    }
    bed
}

fn send(bed: &Bed, from: &str, [count, size, rate]: [u64; 3]) -> Child {
    let numbers = [count, size, rate].map(|number| number.to_string());
    let mut python = bed.lab.command(from, "python3").unwrap();
    python.args(["-c", SEND, B1]).args(numbers).stdin(Stdio::null()).spawn().unwrap()
}

/// Datagrams that have come to b1.
fn arrived(bed: &Bed) -> u64 {
    let out = bed.lab.command("b1", "cat").unwrap().arg("/proc/net/snmp6").output().unwrap();
    let counts = String::from_utf8(out.stdout).unwrap();
    let count = counts.lines().find_map(|line| line.strip_prefix("Udp6NoPorts")).unwrap();
    count.trim().parse().unwrap()
}

/// Gives a port of a node another rate.
fn shape(bed: &Bed, node: &str, interface: &str, rate: &str) {
    let args = format!("qdisc change dev {interface} root tbf rate {rate} burst 125000 limit 4000000");
    let out = bed.lab.command(node, "tc").unwrap().args(args.split(' ')).output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
}

fn kill(mut child: Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

/// A million packets with `CANOPY_DEEP`. Catches a lossy path that stays in use, and one that is taken back too soon, too often.
#[test]
fn a_path_that_loses_a_twentieth_is_out_of_use_and_nearly_nothing_is_lost() {
    let bed = started(&["a1"]);
    bed.lab.set_loss_from("leaf1/eth2", "5%".parse().unwrap()).unwrap();
    bed.lab.wait("the lossy path to be out of use", |_| Ok(paths(&bed, "a1")[1].slots == 0)).unwrap();
    let count = if deep() { 1_000_000 } else { 50_000 };
    let before = arrived(&bed);
    assert!(send(&bed, "a1", [count, 64, 100_000]).wait().unwrap().success());
    let mut lost = count;
    // What is on the way.
    bed.lab
        .wait("the packets to arrive", |_| {
            lost = count - (arrived(&bed) - before);
            Ok(lost * 2000 <= count)
        })
        .unwrap();
    println!("{lost} of {count} packets are lost");
    bed.lab.set_loss_from("leaf1/eth2", "0%".parse().unwrap()).unwrap();
    bed.lab.wait("all paths to carry packets alike", |_| Ok(is_even(&paths(&bed, "a1")))).unwrap();
}

/// Catches a share that does not follow the congestion, a queue that is taken for a fault, and a share that does not come back.
#[test]
fn a_path_whose_queue_grows_gets_fewer_packets() {
    let bed = started(&["a1"]);
    shape(&bed, "spine3", "eth2", "8mbit");
    // 40 Mbit/s, of which each spine gets 10.
    let flood = send(&bed, "a1", [u64::MAX >> 1, 1400, 3500]);
    bed.lab
        .wait("the congested path to have less than its share", |_| {
            let now = paths(&bed, "a1");
            assert!(now.iter().all(|path| path.fault.is_null()), "{now:?}");
            let others = [0, 1, 3].iter().all(|spine| now[*spine].weight > 0.9);
            Ok(others && now[2].slots < 13 && now[2].weight < 0.75)
        })
        .unwrap();
    let printed = bed.lab.steer("a1", "paths", &[B1]).unwrap();
    assert!(printed.lines().any(|line| line.contains("congested") && line.contains("spine3")), "{printed}");
    kill(flood);
    shape(&bed, "spine3", "eth2", "1gbit");
    bed.lab.wait("all paths to carry packets alike", |_| Ok(is_even(&paths(&bed, "a1")))).unwrap();
}
