// SPDX-License-Identifier: Apache-2.0
//! Three receivers join late in every window of a session: before, with and after its first packets, and while the controller or an
//! agent restarts, or a node has lost its pins.

use std::fs;
use std::process::Child;
use std::time::Duration;

use canopy_e2e::capture::{ACKS, Capture, Way, check_no_false_ack};
use canopy_e2e::{Bed, deep, up};
use canopy_lab::TransferSpec;
use serde_json::json;

use super::{MESSAGE, MIB, join, lose_state, member, out};

/// When the receivers join.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Window {
    /// The group is open, and the source waits for them.
    BeforeFirst,
    /// The group has just been opened, and the source starts.
    WithFirst,
    /// Data flows.
    AfterFirst,
    /// There is no controller, and then there is one.
    ControllerRestart,
    /// The node has no agent, and then it has one.
    AgentRestart(&'static str),
    /// The node's agent starts on nothing, as after a reboot.
    LostPins(&'static str),
}

/// What a receiver is asked to do whose start is lost.
const AGAIN: &str = ": reset the queue pair, then join";
const LATE: [&str; 3] = ["r2", "r4", "r5"];
/// Every late receiver leaves after so many octets.
const WANTED: u64 = 8 * MESSAGE as u64;
/// Headend, transit, and the edges of one receiver that is there from the start and of two that are not.
const NODES: [&str; 4] = ["n6", "n4", "n1", "n3"];

fn is_open(bed: &Bed) -> bool {
    let conditions = bed.group("g").unwrap()["conditions"].as_array().unwrap().clone();
    conditions.iter().any(|c| c["type"] == "Open" && c["status"] == "True")
}

/// Whether the application was asked to join again, because a node lost where its receiver started.
fn is_asked_again(bed: &Bed, host: &str) -> bool {
    let evicted = bed.group("g").unwrap()["evicted"].as_array().unwrap().clone();
    evicted.iter().any(|e| e["host"] == host && e["reason"].as_str().is_some_and(|why| why.ends_with(AGAIN)))
}

/// The late receiver gets its octets; where it started is lost with the pins of a node, after it has joined again.
fn receives(bed: &Bed, window: Window, host: &str, mut late: Child) {
    let ended = |late: &mut Child| {
        let what = format!("{window:?}: {host} to get its octets");
        let ended = bed.lab.wait(&what, |_| {
            let is_removed = matches!(window, Window::LostPins(_)) && is_asked_again(bed, host);
            Ok(is_removed || late.try_wait()?.is_some())
        });
        ended.unwrap_or_else(|e| {
            panic!("{e}: {}\n{:#}\n{:#}", log(bed, host), member(bed, host), bed.group("g").unwrap())
        });
        late.try_wait().unwrap()
    };
    while ended(&mut late).is_none_or(|status| !status.success()) {
        assert!(matches!(window, Window::LostPins(_)), "{window:?}: {host} did not get its octets: {}", log(bed, host));
        _ = late.kill();
        late.wait().unwrap();
        late = join(bed, host, WANTED);
        bed.lab.wait("it to be a member again", |_| Ok(!is_asked_again(bed, host))).unwrap();
    }
}

fn log(bed: &Bed, host: &str) -> String {
    fs::read_to_string(bed.lab.dir().join(format!("log/late-{host}.log"))).unwrap()
}

/// What the late receiver got is what the source sent from a message on.
fn is_in(bed: &Bed, window: Window, host: &str) {
    let (all, got) = (fs::read(out(bed, "r1")).unwrap(), fs::read(out(bed, host)).unwrap());
    assert!(got.len() as u64 >= WANTED);
    let starts = |at: usize| all[at..].starts_with(&got);
    // A source that waits for late receivers sends its first message for them too.
    let is_right = match window {
        Window::BeforeFirst => starts(0),
        _ => (0..all.len()).step_by(MESSAGE).any(starts),
    };
    assert!(is_right, "{window:?}: {host} got something else");
}

fn session(bed: &mut Bed, window: Window) {
    for host in LATE.iter().chain(&["r1"]) {
        _ = fs::remove_file(out(bed, host));
    }
    let acks = |host: &str, way| Capture::start_one_way(&bed.lab, host, "eth0", way, ACKS).unwrap();
    let (at_source, at_r1) = (acks("s1", Way::In), acks("r1", Way::Out));
    let mut spec =
        TransferSpec { timeout: Duration::from_secs(180), ..TransferSpec::new("g", "s1", &["r1"], 12 * MIB) };
    let wait_for = if window == Window::BeforeFirst { "4" } else { "1" };
    let source = ["--message-size", "64KiB", "--timeout", "50ms", "--wait-receivers", wait_for];
    spec.args.insert("s1".into(), source.map(Into::into).into());
    spec.args.insert("r1".into(), vec!["--out".into(), out(bed, "r1").display().to_string()]);
    let before = bed.sent_by("s1").unwrap();
    let transfer = bed.lab.start_transfer(spec).unwrap();
    bed.lab.wait("the group to be open", |_| Ok(is_open(bed))).unwrap();
    let start = bed.group("g").unwrap()["connection"]["startPsn"].as_u64().unwrap();
    if !matches!(window, Window::BeforeFirst | Window::WithFirst) {
        bed.lab.wait("data to flow", |_| Ok(bed.sent_by("s1")? > before + MIB)).unwrap();
    }
    let join_all = |bed: &Bed| LATE.map(|host| join(bed, host, WANTED));
    let late = match window {
        Window::BeforeFirst | Window::WithFirst | Window::AfterFirst => join_all(bed),
        Window::ControllerRestart => {
            bed.lab.kill_controller().unwrap();
            let late = join_all(bed);
            bed.lab.start_controller().unwrap();
            late
        }
        Window::AgentRestart(node) => {
            bed.lab.kill_agent(node).unwrap();
            let late = join_all(bed);
            bed.lab.start_agent(node).unwrap();
            late
        }
        Window::LostPins(node) => {
            let late = join_all(bed);
            // The source still sends when those whose start is lost have joined again.
            bed.limit("s1", 2).unwrap();
            lose_state(bed, node);
            late
        }
    };
    for (host, late) in LATE.into_iter().zip(late) {
        receives(bed, window, host, late);
    }
    bed.limit("s1", 50).unwrap();
    let report = transfer.finish(&bed.lab).unwrap();
    assert!(report.mismatches().is_empty(), "{window:?}: {:?}", report.mismatches());
    LATE.iter().for_each(|host| is_in(bed, window, host));
    let acks = check_no_false_ack(start, &at_source.stop().unwrap(), &[at_r1.stop().unwrap()]);
    println!(
        "{window:?}: {} ACKs at the source, none of them false",
        acks.unwrap_or_else(|e| panic!("{window:?}: {e}"))
    );
}

#[test]
fn receivers_join_late_in_every_window() {
    let mut bed = up("figure1").unwrap();
    bed.lab.create_group("g", json!({"pathMtu": 1024})).unwrap();
    bed.limit("s1", 50).unwrap();
    for round in 0..if deep() { NODES.len() } else { 1 } {
        let node = |i: usize| NODES[(round + i) % NODES.len()];
        for window in [
            Window::BeforeFirst,
            Window::WithFirst,
            Window::AfterFirst,
            Window::ControllerRestart,
            Window::AgentRestart(node(3)),
            Window::LostPins(node(0)),
        ] {
            session(&mut bed, window);
        }
    }
}
