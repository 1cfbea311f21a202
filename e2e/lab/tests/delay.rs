// SPDX-License-Identifier: Apache-2.0
//! Links with a delay, with a plain Linux router in place of the agent. Needs root.
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used)]

mod common;

use std::process::{Command, Output};

use canopy_lab::{Lab, Means};
use common::{delayed, eventually, forward_by_hand, ip, leftovers, options, ping, run};

/// Round-trip times in milliseconds and sequence numbers, in the order of the answers.
fn answers(out: &Output) -> (Vec<f64>, Vec<u32>) {
    let text = String::from_utf8_lossy(&out.stdout);
    let field =
        |line: &str, name: &str| line.split(' ').find_map(|w| w.strip_prefix(name)).map(|v| v.parse::<f64>().unwrap());
    let lines = || text.lines().filter(|l| l.contains("icmp_seq="));
    let times = lines().filter_map(|l| field(l, "time=")).collect();
    (times, lines().filter_map(|l| field(l, "icmp_seq=")).map(|n| n as u32).collect())
}

fn pings(lab: &Lab, count: u32) -> Command {
    let mut c = lab.command("s1", "ping").unwrap();
    c.args(["-6", "-i", "0.002", "-W", "2", "-c", &count.to_string(), "2001:db8:2::1"]);
    c
}

fn shortest(lab: &Lab) -> f64 {
    answers(&pings(lab, 30).output().unwrap()).0.into_iter().fold(f64::INFINITY, f64::min)
}

#[test]
fn a_frame_takes_the_delay_each_way_and_a_change_neither_loses_nor_reorders() {
    let lab = Lab::up(delayed("10ms"), options("t-delay")).unwrap();
    forward_by_hand(&lab);
    assert_eq!(ping(&lab, 5, &[]), 5);
    let rtt = shortest(&lab);
    let by = lab.state().delay_means.unwrap();
    println!("10 ms by {}: shortest RTT {rtt} ms", by.name());
    assert!((20.0..60.0).contains(&rtt), "RTT {rtt} ms over a link of 10 ms");

    // Up and down while frames are under way: the shorter delay would let later ones overtake.
    let flow = pings(&lab, 1000).stdout(std::process::Stdio::piped()).spawn().unwrap();
    let sent = || lab.link_counters().unwrap()[0].a_to_b.passed_packets;
    let start = sent();
    for (packets, delay) in [(200, "40ms"), (400, "10ms"), (600, "40ms"), (800, "0ms")] {
        eventually("pings", || sent() > start + packets);
        lab.set_delay("n1/eth2.5", delay.parse().unwrap()).unwrap();
    }
    let (times, order) = answers(&flow.wait_with_output().unwrap());
    assert_eq!(order, (1..=1000).collect::<Vec<_>>(), "lost or out of order");
    assert!(times.iter().any(|t| *t >= 80.0), "40 ms was never seen");

    lab.set_delay("all", "40ms".parse().unwrap()).unwrap();
    let rtt = shortest(&lab);
    assert!((80.0..160.0).contains(&rtt), "RTT {rtt} ms over a link of 40 ms");
    let delays = lab.delays().unwrap();
    assert!(delays[0].is_none(), "the link of s1 has no delay");
    assert_eq!((delays[1].unwrap().delay.to_string().as_str(), delays[1].unwrap().by), ("40ms", by));
    if let Some(line) = delays[1].unwrap().line {
        for c in [line.a_to_b, line.b_to_a] {
            assert!(c.forwarded > 1000 && c.dropped_full + c.dropped_overrun + c.dropped_down == 0, "{c:?}");
        }
    }
    let e = lab.set_delay("s1/eth0", "1ms".parse().unwrap()).unwrap_err().to_string();
    assert!(e.contains("s1/eth0 came up as a plain wire"), "{e}");

    let processes: Vec<_> = lab.state().processes.values().cloned().collect();
    assert_eq!(processes.len(), usize::from(by == Means::UserSpace));
    drop(lab);
    assert!(processes.iter().all(|p| !p.is_alive()), "a delay line outlived the lab");
    assert_eq!(leftovers("t-delay"), Vec::<String>::new());
}

#[test]
fn large_frames_with_their_checksums_pass() {
    let lab = Lab::up(delayed("1ms"), options("t-large")).unwrap();
    forward_by_hand(&lab);
    // 4452 + 8 + 40 is the MTU: not a byte may be missing.
    assert_eq!(ping(&lab, 50, &["-s", "4452", "-p", "a55a"]), 50);
    // Restores what `ip link set down` removed: addresses and routes.
    let routes = ip(&lab, "r1", "-6 route show");
    if !routes.contains("default") {
        ip(&lab, "r1", "-6 route add default via fe80::1 dev eth0");
        ip(&lab, "r1", "-6 addr replace 2001:db8:2::1/64 dev eth0");
    }
    for args in ["-6 addr replace fe80::1/64 dev eth2.5", "-6 route replace 2001:db8:2::/64 dev eth2.5"] {
        ip(&lab, "n1", args);
    }
    eventually("an answer", || ping(&lab, 5, &[]) == 5);
}

#[test]
fn the_command_line_shows_and_changes_delays() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("lab.yaml");
    std::fs::write(&file, serde_yaml_ng::to_string(&delayed("250us")).unwrap()).unwrap();
    let lab = |args: &str| {
        let mut c = Command::new(env!("CARGO_BIN_EXE_canopy-lab"));
        c.args(args.split_whitespace()).args(["--instance", "t-dcli"]);
        c
    };
    run(&mut lab(&format!("up {} --network-only", file.display())));
    let text = run(&mut lab("status"));
    let line = |t: &str| t.lines().rfind(|l| l.contains("r1/eth0 <> n1/eth2.5")).unwrap().to_owned();
    assert!(line(&text).contains("250us"), "{text}");
    assert!(
        line(&text).contains("user space") && text.contains("delay-line r1/eth0--n1/eth2.5")
            || line(&text).contains("netem")
    );
    run(&mut lab("set delay n1/eth2.5--r1/eth0 40ms"));
    assert!(line(&run(&mut lab("status"))).contains("40ms"));
    let json: serde_json::Value = serde_json::from_str(&run(&mut lab("status --json"))).unwrap();
    assert_eq!((&json["delays"][0], &json["delays"][1]["delay"]), (&serde_json::Value::Null, &"40ms".into()));
    for (args, word) in
        [("set delay all 11s", "is not a delay"), ("set delay all=-1ms", "delay"), ("set delay n1/eth9 1ms", "no link")]
    {
        let out = lab(args).output().unwrap();
        let error = String::from_utf8_lossy(&out.stderr).into_owned();
        assert!(!out.status.success() && error.contains(word), "{args}: {error}");
    }
    assert!(line(&run(&mut lab("status"))).contains("40ms"), "a refused change was made");
    run(&mut lab("down"));
    assert_eq!(leftovers("t-dcli"), Vec::<String>::new());
}
