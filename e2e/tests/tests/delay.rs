// SPDX-License-Identifier: Apache-2.0
//! A long-haul link in the tree: it delays each way, keeps order and bytes, and its delay can be increased while in
//! use.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;
use std::process::Command;

use canopy_e2e::{Bed, up_changed};
use canopy_lab::TransferSpec;
use serde_json::json;

const LINK: &str = "n6/eth2--n4/eth1";
const RECEIVERS: [&str; 5] = ["r1", "r2", "r3", "r4", "r5"];

/// Pings r1 from s1, across the link: round-trip times in milliseconds. Fails unless all come back in order.
fn pings(bed: &Bed, count: usize) -> Vec<f64> {
    let mut c = bed.lab.command("s1", "ping").unwrap();
    let out = c.args(["-6", "-i", "0.01", "-W", "5", "-c", &count.to_string(), "2001:db8:0:1::1"]).output().unwrap();
    let text = String::from_utf8_lossy(&out.stdout);
    let field = |line: &str, name: &str| line.split(' ').find_map(|w| w.strip_prefix(name)?.parse::<f64>().ok());
    let answers: Vec<(f64, f64)> =
        text.lines().filter_map(|l| Some((field(l, "icmp_seq=")?, field(l, "time=")?))).collect();
    let order: Vec<usize> = answers.iter().map(|(n, _)| *n as usize).collect();
    assert_eq!(order, (1..=count).collect::<Vec<_>>(), "lost or out of order: {text}");
    answers.into_iter().map(|(_, ms)| ms).collect()
}

fn summary(times: &[f64]) -> (f64, f64, f64) {
    let sum: f64 = times.iter().sum();
    let (min, max) = times.iter().fold((f64::INFINITY, 0.0f64), |(a, b), &t| (a.min(t), b.max(t)));
    (min, sum / times.len() as f64, max)
}

fn transfer(bed: &Bed, group: &str) -> f64 {
    bed.lab.create_group(group, json!({"pathMtu": 4096})).unwrap();
    let mut spec = TransferSpec::new(group, "s1", &RECEIVERS, 64 << 20);
    // More than rate x RTT in flight, and a timer that is longer than the RTT: nothing has to be retransmitted.
    spec.args.insert("s1".into(), ["--window", "2048", "--timeout", "1s"].map(String::from).into());
    let report = bed.lab.transfer(spec).unwrap();
    assert_eq!(report.mismatches(), Vec::<&str>::new());
    report.source.goodput_bps / 1e6
}

#[test]
fn a_long_link_takes_its_time_and_changes_nothing_else() {
    let bed = up_changed("figure1", |file| {
        file.spec.links[1].delay = Some("10ms".parse().map_err(anyhow::Error::msg)?);
        Ok(())
    })
    .unwrap();
    let by = bed.lab.state().delay_means.unwrap().name();
    pings(&bed, 3);
    let (min, mean, max) = summary(&pings(&bed, 100));
    println!("10 ms by {by}: RTT {min} / {mean:.3} / {max} ms");
    assert!((20.0..60.0).contains(&min), "RTT {min} ms across a link of 10 ms");
    println!("transfer: {:.0} Mbit/s", transfer(&bed, "short"));

    bed.lab.set_delay(LINK, "40ms".parse().unwrap()).unwrap();
    let (min, mean, max) = summary(&pings(&bed, 100));
    println!("40 ms by {by}: RTT {min} / {mean:.3} / {max} ms");
    assert!((80.0..160.0).contains(&min), "RTT {min} ms across a link of 40 ms");
    println!("transfer: {:.0} Mbit/s", transfer(&bed, "long"));
    for line in bed.lab.delays().unwrap().into_iter().flatten().filter_map(|d| d.line) {
        println!("{line:?}");
        for c in [line.a_to_b, line.b_to_a] {
            assert_eq!((c.dropped_full, c.dropped_overrun, c.dropped_down), (0, 0, 0), "the line lost frames");
        }
    }

    let (state, mut left) = (bed.lab.state().clone(), Vec::new());
    drop(bed);
    left.extend(state.processes.iter().filter(|(_, p)| p.is_alive()).map(|(name, _)| name.clone()));
    left.extend(
        [state.dir, state.instance.pins(), state.instance.agent_pins()]
            .iter()
            .filter(|p| p.exists())
            .map(|p| p.display().to_string()),
    );
    left.extend(state.namespaces.into_iter().filter(|n| Path::new("/run/netns").join(n).exists()));
    assert!(left.is_empty(), "left behind: {left:?}");
    let out = Command::new("ip").args(["-o", "link"]).output().unwrap();
    assert!(!String::from_utf8_lossy(&out.stdout).contains(": d1a"), "an interface of the line came to the machine");
}
