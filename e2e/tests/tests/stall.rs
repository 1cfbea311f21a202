// SPDX-License-Identifier: Apache-2.0
//! One of sixteen receivers dies or sleeps in the middle of a transfer, while another group runs (decisions 3.10).
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use canopy_e2e::{Bed, up};
use canopy_lab::{Transfer, TransferSpec};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

const RECEIVERS: [&str; 16] =
    ["r1", "r2", "r3", "r4", "r5", "r6", "r7", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "r16"];
const OTHER_RECEIVERS: [&str; 3] = ["r20", "r21", "r22"];
const VICTIM: &str = "r7";
const BYTES: u64 = 48 << 20;
/// The source's retransmission timeout; a stall is detected after 2.5 timeouts, so that it is reported within three.
const RTO_MS: u64 = 100;
/// Upper limit of the octets that the source keeps in flight.
const WINDOW: u64 = 128 * 1200;

/// Starts a group with this policy and a second group; both transfers are in progress on return.
fn start(bed: &Bed, policy: &str, lost: &[&str]) -> (Transfer, Transfer) {
    bed.lab.create_group("g", json!({"pathMtu": 1024, "stallPolicy": policy, "stallAfterMs": RTO_MS * 5 / 2})).unwrap();
    bed.lab.create_group("second", json!({"pathMtu": 1024, "stallPolicy": "evict", "stallAfterMs": 2000})).unwrap();
    let spec = |group: &str, source, receivers: &[&str], lost: &[&str]| TransferSpec {
        timeout: Duration::from_secs(240),
        lost: lost.iter().map(|&h| h.into()).collect(),
        leave: false,
        ..TransferSpec::new(group, source, receivers, BYTES)
    };
    let mut of_g = spec("g", "s1", &RECEIVERS, lost);
    of_g.args.insert("s1".into(), vec!["--timeout".into(), format!("{RTO_MS}ms")]);
    let main = bed.lab.start_transfer(of_g).unwrap();
    let second = bed.lab.start_transfer(spec("second", "r64", &OTHER_RECEIVERS, &[])).unwrap();
    bed.lab.wait("a quarter of the transfer", |_| Ok(at_edge(bed)?["dataBytes"].as_u64() > Some(BYTES / 4))).unwrap();
    (main, second)
}

/// Counters of group `g` at the edge.
fn at_edge(bed: &Bed) -> anyhow::Result<Value> {
    let (_, body) = bed.lab.rest("GET", "/api/v1/groups/g/telemetry", None)?;
    Ok(body["items"].as_array().and_then(|a| a.iter().find(|n| n["node"] == "n2")).cloned().unwrap_or_default())
}

/// The victim's `canopy-rc`, identified by its command line.
fn victim(bed: &Bed) -> Pid {
    let socket = format!("unix:{}/controller.sock", bed.lab.dir().display());
    let is_it = |pid: i32| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let args: Vec<&[u8]> = line.split(|b| *b == 0).collect();
        let has = |a: &str| args.contains(&a.as_bytes());
        let is_rc = args.first().is_some_and(|a| a.ends_with(b"canopy-rc"));
        is_rc && has("receive") && has(VICTIM) && has(&socket)
    };
    let pids = std::fs::read_dir("/proc").unwrap().filter_map(|e| e.unwrap().file_name().to_str()?.parse().ok());
    let found: Vec<i32> = pids.filter(|pid| is_it(*pid)).collect();
    assert_eq!(found.len(), 1, "{found:?}");
    Pid::from_raw(found[0])
}

/// Octets that s1 has sent: reads one namespace only, because it is polled often.
fn sent(bed: &Bed) -> u64 {
    let out = bed.lab.command("s1", "cat").unwrap().arg("/proc/net/dev").output().unwrap();
    let text = String::from_utf8(out.stdout).unwrap();
    let line = text.lines().find_map(|l| l.trim().strip_prefix("eth0:")).unwrap();
    line.split_whitespace().nth(8).unwrap().parse().unwrap()
}

/// Wall clock, the clock of event timestamps.
fn now() -> u64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos() as u64
}

/// Waits for an event of this group and returns its text.
fn event(bed: &Bed, group: &str, code: &str) -> String {
    let mut found = None;
    let poll = |found: &mut Option<String>| {
        *found = events(bed, group).into_iter().find(|e| e["code"] == code).map(|e| e.to_string());
        Ok(found.is_some())
    };
    bed.lab.wait(code, |_| poll(&mut found)).unwrap();
    let found = found.unwrap();
    println!("{found}");
    found
}

fn events(bed: &Bed, group: &str) -> Vec<Value> {
    let (_, body) = bed.lab.rest("GET", &format!("/api/v1/events?limit=1000&group={group}"), None).unwrap();
    body["items"].as_array().unwrap().clone()
}

/// The second group finished with the right content, and has no events about its branches.
fn undisturbed(bed: &Bed, second: Transfer) {
    let report = second.finish(&bed.lab).unwrap();
    assert!(report.mismatches().is_empty(), "{:?}", report.mismatches());
    assert_eq!(report.receivers.len(), OTHER_RECEIVERS.len());
    let others = events(bed, "second");
    assert!(others.iter().all(|e| e["code"] == "GroupPhase" || e["code"] == "FirstData"), "{others:?}");
}

#[test]
fn evict_removes_a_dead_receiver_and_the_others_continue() {
    let bed = up("fan64").unwrap();
    let (main, second) = start(&bed, "evict", &[VICTIM]);
    kill(victim(&bed), Signal::SIGKILL).unwrap();
    let died = now();
    let evicted = event(&bed, "g", "MemberEvicted");
    assert!(evicted.contains(VICTIM) && evicted.contains("n2"), "{evicted}");
    // The source's window is closed: it sends again only because of the eviction.
    let (stood, mut resumed) = (sent(&bed), now());
    while sent(&bed) <= stood + WINDOW {
        resumed = now();
        assert!(resumed < died + 60_000_000_000, "the source does not continue");
    }
    event(&bed, "g", "BranchStalled");
    let at = |code: &str| {
        let first =
            events(&bed, "g").into_iter().filter(|e| e["code"] == code).filter_map(|e| e["timeUnixNs"].as_u64()).min();
        first.unwrap().saturating_sub(died) / 1_000_000
    };
    println!(
        "RTO {RTO_MS} ms: stall reported {} ms after the death, evicted after {} ms, the source sends again after {} ms",
        at("BranchStalled"),
        at("MemberEvicted"),
        resumed.saturating_sub(died) / 1_000_000
    );
    let report = main.finish(&bed.lab).unwrap();
    assert_eq!(report.receivers.len(), RECEIVERS.len() - 1);
    assert!(report.mismatches().is_empty(), "{:?}", report.mismatches());
    let status = bed.group("g").unwrap();
    assert_eq!((&status["receivers"], &status["evicted"][0]["host"]), (&json!(15), &json!(VICTIM)));
    let evicted = events(&bed, "g").iter().filter(|e| e["code"] == "MemberEvicted").count();
    assert_eq!(evicted, 1, "only the dead one is evicted");
    undisturbed(&bed, second);
}

#[test]
fn a_receiver_that_never_answers_is_evicted_too() {
    let bed = up("fan64").unwrap();
    bed.lab
        .create_group("g", json!({"pathMtu": 1024, "stallPolicy": "evict", "stallAfterMs": RTO_MS * 5 / 2}))
        .unwrap();
    // A member whose queue pair does not exist.
    let member = json!({"apiVersion": "canopy/v1", "kind": "Member", "metadata": {"name": VICTIM}, "spec": {"host": VICTIM, "role": "receiver", "qpn": 0x77}});
    let (status, body) = bed.lab.rest("POST", "/api/v1/groups/g/members", Some(&member)).unwrap();
    assert_eq!(status, 201, "{body}");
    let report = bed.lab.transfer(TransferSpec::new("g", "s1", &["r1", "r2", "r3"], 1 << 20)).unwrap();
    assert!(report.mismatches().is_empty(), "{:?}", report.mismatches());
    let stalled = event(&bed, "g", "BranchStalled");
    let of_node = events(&bed, "g").into_iter().filter(|e| e["code"] == "BranchStalled").map(|e| e.to_string());
    assert!(of_node.into_iter().any(|e| e.contains("it never did")), "{stalled}");
    assert!(event(&bed, "g", "MemberEvicted").contains(VICTIM));
}

#[test]
fn wait_loses_nothing_when_the_receiver_comes_back() {
    let bed = up("fan64").unwrap();
    let (main, second) = start(&bed, "wait", &[]);
    let sleeper = victim(&bed);
    kill(sleeper, Signal::SIGSTOP).unwrap();
    event(&bed, "g", "BranchStalled");
    // The parent detects its child's stall first; the edge names the receiver.
    let mut alarm = String::new();
    let named = |alarm: &mut String| {
        let status = bed.group("g")?;
        let stalled = status["conditions"].as_array().into_iter().flatten().find(|c| c["type"] == "Stalled");
        *alarm = stalled.map(Value::to_string).unwrap_or_default();
        Ok(alarm.contains("True") && alarm.contains(VICTIM) && alarm.contains("n2"))
    };
    bed.lab.wait("the alarm to name the receiver", |_| named(&mut alarm)).unwrap_or_else(|e| panic!("{alarm}: {e:#}"));
    kill(sleeper, Signal::SIGCONT).unwrap();
    let report = main.finish(&bed.lab).unwrap();
    assert_eq!(report.receivers.len(), RECEIVERS.len());
    assert!(report.mismatches().is_empty(), "{:?}", report.mismatches());
    event(&bed, "g", "BranchRecovered");
    undisturbed(&bed, second);
}

#[test]
fn fail_stops_only_its_group() {
    let bed = up("fan64").unwrap();
    let (main, second) = start(&bed, "fail", &[VICTIM]);
    kill(victim(&bed), Signal::SIGKILL).unwrap();
    bed.wait_phase("g", "Failed").unwrap();
    let reason = bed.group("g").unwrap()["reason"].to_string();
    assert!(reason.contains(VICTIM) && reason.contains("n2"), "{reason}");
    undisturbed(&bed, second);
    drop(main);
}
