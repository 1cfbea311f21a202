// SPDX-License-Identifier: Apache-2.0
//! Receivers join and leave and the tree moves while one transfer runs (decisions 3.9).
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use canopy_e2e::capture::{ACKS, Capture, check_no_false_ack};
use canopy_e2e::{Bed, deep, up};
use canopy_lab::{Lab, TransferSpec};
use serde_json::{Value, json};

/// Receivers that stay to the end, one behind each of two leaves; none stays behind the third.
const STAY: [&str; 2] = ["r1", "r3"];
/// Receivers that join and leave repeatedly.
const CHURN: [&str; 8] = ["r7", "r2", "r4", "r5", "r6", "r8", "r9", "r10"];
const SPINES: [&str; 2] = ["spine1", "spine2"];
/// Interval at which the link of a spine is set down and up in turn.
const CUT_EVERY: Duration = Duration::from_millis(300);

/// Hosts that join late, receive some messages and leave, over and over.
struct Churn {
    running: BTreeMap<&'static str, (Child, Instant)>,
    joins: u32,
    leaves: u32,
    failed: Vec<String>,
}

impl Churn {
    /// Starts the hosts that are not running unless `restart` is false, and counts those that have left.
    fn turn(&mut self, lab: &Lab, restart: bool) {
        for host in CHURN {
            if let Some((child, _)) = self.running.get_mut(host) {
                let Some(status) = child.try_wait().unwrap() else { continue };
                self.running.remove(host);
                match status.success() {
                    true => self.leaves += 1,
                    false => self.failed.push(format!("{host}: {status}: {}", last_line(lab, host))),
                }
            }
            if restart {
                self.running.insert(host, (join(lab, host), Instant::now()));
                self.joins += 1;
            }
        }
    }
}

/// What a receiver wrote last: why it failed. The next one of the host writes behind it.
fn last_line(lab: &Lab, host: &str) -> String {
    let log = std::fs::read_to_string(lab.dir().join(format!("log/churn-{host}.log"))).unwrap();
    log.lines().last().unwrap_or_default().to_owned()
}

/// Why the controller removed receivers, by its events.
fn removals(lab: &Lab) -> Vec<String> {
    let (_, events) = lab.rest("GET", "/api/v1/events?limit=1000&group=g", None).unwrap();
    let removals = events["items"].as_array().unwrap().iter().filter(|event| event["code"] == "MemberEvicted");
    removals.map(|event| event["detail"].as_str().unwrap().to_owned()).collect()
}

/// A receiver that leaves after four messages.
fn join(lab: &Lab, host: &str) -> Child {
    let mut c: Command = lab.command(host, lab.binary("canopy-rc").unwrap()).unwrap();
    c.args(["receive", "--controller", &format!("unix:{}/controller.sock", lab.dir().display())]);
    c.args([
        "--group",
        "g",
        "--host",
        host,
        "--bytes",
        "64KiB",
        "--linger",
        "0ms",
        "--deadline",
        "60s",
        "--leave",
        "--json",
    ]);
    let log =
        std::fs::OpenOptions::new().create(true).append(true).open(lab.dir().join(format!("log/churn-{host}.log")));
    let log = log.unwrap();
    c.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap()
}

/// Drains the links of the given spines, and no others.
fn drain(bed: &Bed, spines: &[&str]) {
    let drained = |link: &Value| spines.iter().any(|s| format!("{} {}", link["a"], link["b"]).contains(s));
    bed.change_links(|link| link["drained"] = json!(drained(link))).unwrap();
}

/// Sets a spine's link to `leaf` down or up.
fn cut(bed: &Bed, spine: &str, leaf: u32, down: bool) {
    let ns = bed.lab.state().instance.namespace(spine);
    let to = if down { "down" } else { "up" };
    assert!(Command::new("ip").args(["-n", &ns, "link", "set", &format!("eth{leaf}"), to]).status().unwrap().success());
}

fn epoch(status: &Value) -> u64 {
    status["epoch"].as_u64().unwrap()
}

#[test]
fn members_come_and_go_and_the_tree_moves_while_one_transfer_runs() {
    let (changes, bytes) = if deep() { (1000, 1536 << 20) } else { (150, 320 << 20) };
    let bed = up("churn").unwrap();
    let before: Vec<usize> = nodes().map(|n| bed.map_entries(n).unwrap()).collect();
    bed.lab.create_group("g", json!({"pathMtu": 1024, "stallAfterMs": 1000})).unwrap();
    let start = bed.group("g").unwrap()["connection"]["startPsn"].as_u64().unwrap();
    let address = |host: &str| format!("2001:db8:0:{:x}::1", host[1..].parse::<u32>().unwrap());
    let tap = |host: &str, filter: String| Capture::start(&bed.lab, host, "eth0", &filter).unwrap();
    let stayed: Vec<_> = STAY.iter().map(|r| tap(r, format!("{ACKS} and src host {}", address(r)))).collect();
    let source = tap("s1", format!("{ACKS} and dst host 2001:db8:0:100::1"));
    let mut spec = TransferSpec { timeout: Duration::from_secs(900), ..TransferSpec::new("g", "s1", &STAY, bytes) };
    spec.args.insert("s1".into(), ["--message-size", "1MiB", "--timeout", "50ms"].map(Into::into).into());
    let transfer = bed.lab.start_transfer(spec).unwrap();
    let at_s1 = |bed: &Bed| {
        bed.lab.link_counters().unwrap().iter().find(|l| l.a.device == "s1").unwrap().a_to_b.passed_octets.get()
    };
    bed.lab.wait("the transfer to be under way", |_| Ok(at_s1(&bed) > 1 << 20)).unwrap();

    let first = epoch(&bed.group("g").unwrap());
    let mut churn = Churn { running: BTreeMap::new(), joins: 0, leaves: 0, failed: vec![] };
    let (mut moves, mut due) = (0u32, Instant::now());
    let mut status = bed.group("g").unwrap();
    while epoch(&status) - first < changes {
        churn.turn(&bed.lab, true);
        if Instant::now() >= due {
            // In turn: one spine drained, both in service, a link down, up again.
            match moves % 6 {
                0 => drain(&bed, &SPINES[..1]),
                1 => drain(&bed, &SPINES[1..]),
                2 => drain(&bed, &[]),
                3 => cut(&bed, "spine1", 2, true),
                4 => cut(&bed, "spine1", 2, false),
                _ => {}
            }
            moves += 1;
            due = Instant::now() + CUT_EVERY;
        }
        assert!(
            at_s1(&bed) < bytes,
            "the transfer was over after {} changes: this proves nothing",
            epoch(&status) - first
        );
        std::thread::sleep(Duration::from_millis(20));
        status = bed.group("g").unwrap();
    }
    drain(&bed, &[]);
    bed.lab
        .wait("the last to leave", |lab| {
            churn.turn(lab, false);
            Ok(churn.running.is_empty())
        })
        .unwrap_or_else(|e| panic!("{e:#}; {} still there: {}", churn.running.len(), bed.group("g").unwrap()));
    println!(
        "{} epochs: {} joins, {} left, {moves} moves of links; {} receivers failed: {:?}",
        epoch(&status) - first,
        churn.joins,
        churn.leaves,
        churn.failed.len(),
        churn.failed
    );
    let report = transfer.finish(&bed.lab).unwrap();
    assert!(report.mismatches().is_empty(), "{:?}", report.mismatches());
    let stayed: Vec<_> = stayed.into_iter().map(|c| c.stop().unwrap()).collect();
    let acks = check_no_false_ack(start, &source.stop().unwrap(), &stayed).unwrap();
    println!("{acks} acknowledgements at s1, none of them false; goodput {:.0} Mb/s", report.source.goodput_bps / 1e6);
    assert!(churn.failed.is_empty(), "{:?}, removed by the controller: {:?}", churn.failed, removals(&bed.lab));
    bed.lab.rest("DELETE", "/api/v1/groups/g", None).unwrap();
    bed.lab.wait_synced().unwrap();
    let after: Vec<usize> = nodes().map(|n| bed.map_entries(n).unwrap()).collect();
    assert_eq!(before, after, "something was left behind");
}

fn nodes() -> impl Iterator<Item = &'static str> {
    ["spine1", "spine2", "leaf1", "leaf2", "leaf3"].into_iter()
}
