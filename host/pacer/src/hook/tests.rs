// SPDX-License-Identifier: Apache-2.0

use std::net::Ipv6Addr;
use std::path::Path;
use std::time::Instant;

use canopy_host_core::pacing::{Command as PacingCommand, QpSpec};
use canopy_units::Rate;

use super::*;
use crate::engine::{Flow, Live, Origin, RttFrom};

const DEADLINE: Duration = Duration::from_secs(20);

fn change(qpn: u64, rate_bps: u64) -> Change {
    let qpn = Qpn::new("qpn", qpn).unwrap();
    let peer = Ipv6Addr::LOCALHOST;
    let spec = QpSpec { peer, line: Rate::from_bps(100), min: Rate::from_bps(1), rtt: Duration::from_nanos(1_500) };
    let command = PacingCommand {
        qp: qpn,
        rate: Rate::from_bps(rate_bps),
        paused_until: Some(Monotonic::NEVER),
        limited_by: Some(Issuer::Peer),
    };
    let flow = Flow { peer, qpn: 9 };
    let live = Live { flow, origin: Origin::Learned, spec, rtt_from: RttFrom::Given, command };
    Change { cause: Cause::Pause, qpn, live, received_at: None }
}

fn hook(script: &str, timeout: Duration) -> Hook {
    let argv = ["sh", "-c", script].map(str::to_owned).to_vec();
    Hook::new(Program { argv, timeout, at_once: 2, interface: "e".into() })
}

async fn until(what: &str, mut done: impl FnMut() -> bool) {
    let end = Instant::now() + DEADLINE;
    while !done() {
        assert!(Instant::now() < end, "not in time: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn lines(file: &Path) -> Vec<String> {
    std::fs::read_to_string(file).unwrap_or_default().lines().map(str::to_owned).collect()
}

/// Two queue pairs occupy both slots, a third waits, and of the changes meanwhile only the newest is passed on.
#[tokio::test]
async fn only_the_newest_change_of_each_queue_pair_waits() {
    let dir = tempfile::tempdir().unwrap();
    let (out, go) = (dir.path().join("out"), dir.path().join("go"));
    let script = format!(
        "echo $CANOPY_QPN $CANOPY_RATE_BPS >> {}; while [ ! -e {} ]; do sleep 0.01; done",
        out.display(),
        go.display()
    );
    let hook = hook(&script, DEADLINE);
    hook.run(&change(17, 1));
    hook.run(&change(18, 1));
    until("two run", || lines(&out).len() == 2).await;
    for rate in 2..50 {
        hook.run(&change(17, rate));
        hook.run(&change(19, rate));
    }
    assert_eq!(lines(&out).len(), 2, "no more than two at once");
    std::fs::write(&go, "").unwrap();
    until("all ran", || lines(&out).len() == 4).await;
    let mut last = lines(&out).split_off(2);
    last.sort();
    assert_eq!(last, ["17 49", "19 49"]);
    until("all ended", || hook.shared.state().running.is_empty()).await;
    assert_eq!(hook.counters(), [("hook_runs", 4), ("hook_failures", 0), ("hook_coalesced", 94)]);
}

#[tokio::test]
async fn failures_are_counted_and_nothing_runs_for_ever() {
    let dir = tempfile::tempdir().unwrap();
    let pid = dir.path().join("pid");
    let endless = format!("sleep 1000 & echo $! > {}; wait", pid.display());
    for script in ["exit 3", &endless] {
        let hook = hook(script, Duration::from_secs(1));
        hook.run(&change(17, 1));
        until(script, || hook.counters()[1].1 == 1).await;
    }
    let left = lines(&pid).pop().unwrap();
    until("what it started is gone too", || {
        !std::fs::read_to_string(format!("/proc/{left}/comm")).is_ok_and(|c| c == "sleep\n")
    })
    .await;
    let missing = Program { argv: vec!["/none".into()], timeout: DEADLINE, at_once: 1, interface: String::new() };
    let hook = Hook::new(missing);
    hook.run(&change(17, 1));
    until("it cannot be started", || hook.counters()[1].1 == 1).await;
}

#[test]
fn the_variables_are_in_microseconds_rounded_up() {
    let mut change = change(17, 5);
    change.live.command.paused_until = Some(Monotonic::from_nanos(2_001));
    let command: BTreeMap<_, _> = variables(&change, Monotonic::from_nanos(1_000)).into();
    assert_eq!((command["CANOPY_PAUSE_US"].as_str(), command["CANOPY_RTT_US"].as_str()), ("2", "2"));
    assert_eq!((command["CANOPY_ACTION"].as_str(), command["CANOPY_LIMITED_BY"].as_str()), ("pause", "peer"));
}
