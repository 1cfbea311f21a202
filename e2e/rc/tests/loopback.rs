// SPDX-License-Identifier: Apache-2.0
//! The program against itself over the loopback interface, which tests the kernel's part of the data path. Both ends
//! are at `::1` and differ in their QPNs. Raw sockets need CAP_NET_RAW, so these tests need root.
#![allow(clippy::unwrap_used)] // A test that cannot continue panics.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

const PROGRAM: &str = env!("CARGO_BIN_EXE_canopy-rc");

fn spawn(line: &str) -> Child {
    let arguments = line.split_whitespace().chain(["--address", "::1", "--json"]);
    Command::new(PROGRAM).args(arguments).stdout(Stdio::piped()).spawn().unwrap()
}

/// A receiver that is ready.
fn receiver(folder: &Path, line: &str) -> Child {
    let ready = folder.join("ready");
    let child = spawn(&format!("receive {line} --ready-file {}", ready.display()));
    let deadline = Instant::now() + Duration::from_secs(20);
    while !ready.exists() {
        assert!(Instant::now() < deadline, "the receiver is not ready");
        std::thread::yield_now();
    }
    child
}

/// The reports that a program printed until its end, and whether it succeeded.
fn finish(mut child: Child) -> (Vec<Value>, bool) {
    let mut text = String::new();
    child.stdout.take().unwrap().read_to_string(&mut text).unwrap();
    let reports = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    (reports, child.wait().unwrap().success())
}

fn one(child: Child) -> Value {
    let (mut reports, success) = finish(child);
    assert!(success, "{reports:?}");
    assert_eq!(reports.len(), 1);
    reports.remove(0)
}

#[test]
fn a_file_arrives_by_send_with_delays_by_rnr() {
    let folder = tempfile::tempdir().unwrap();
    let (source, copy) = (folder.path().join("source"), folder.path().join("copy"));
    let content: Vec<u8> = (0..3_000_001_u32).map(|i| (i * 7 / 8) as u8).collect();
    std::fs::write(&source, &content).unwrap();
    let far = receiver(
        folder.path(),
        &format!(
            "--unicast ::1,0x1001,0xfffff0 --qpn 0x1002 --mtu 4096 --bytes {} --out {} --rnr-every 5",
            content.len(),
            copy.display()
        ),
    );
    let sent = one(spawn(&format!(
        "send --unicast ::1,0x1002,0xfffff0 --qpn 0x1001 --mtu 4096 --file {} --message-size 64KiB --imm",
        source.display()
    )));
    let (reports, success) = finish(far);
    assert!(success, "{reports:?}");
    assert_eq!(reports[0]["event"], "complete");
    assert_eq!(reports[1]["event"], "exit");
    assert_eq!(reports[1]["immediates"], 46);
    assert_eq!(reports[1]["sha256"], sent["sha256"]);
    assert_eq!(reports[1]["bad_icrc"], 0);
    assert_eq!(sent["bad_icrc"], 0);
    assert_eq!(sent["false_acks"], 0);
    assert_eq!(sent["rnr_received"], reports[1]["rnr_sent"]);
    assert!(std::fs::read(&copy).unwrap() == content);
}

#[test]
fn writes_fill_the_memory_and_a_lingering_receiver_stops_on_sigterm() {
    let folder = tempfile::tempdir().unwrap();
    let mut far = receiver(
        folder.path(),
        "--unicast ::1,0x2001,0x7fffff --qpn 0x2002 --bytes 5MB --op write --va 0x123 --rkey 77 --linger 5m",
    );
    let sent =
        one(spawn("send --unicast ::1,0x2002,0x7fffff --qpn 0x2001 --bytes 5MB --op write --va 0x123 --rkey 77"));
    let mut stdout = BufReader::new(far.stdout.take().unwrap());
    let mut line = String::new();
    stdout.read_line(&mut line).unwrap();
    let complete: Value = serde_json::from_str(&line).unwrap();
    assert_eq!(complete["event"], "complete");
    assert_eq!(complete["sha256"], sent["sha256"]);
    assert_eq!(complete["memory_sha256"], sent["sha256"]);
    kill(Pid::from_raw(far.id() as i32), Signal::SIGTERM).unwrap();
    let mut rest = String::new();
    stdout.read_to_string(&mut rest).unwrap();
    let exit: Value = serde_json::from_str(&rest).unwrap();
    assert_eq!((&exit["event"], &exit["complete"]), (&"exit".into(), &true.into()));
    assert!(far.wait().unwrap().success());
}

#[test]
fn a_wrong_key_fails_both_ends() {
    let folder = tempfile::tempdir().unwrap();
    let far = receiver(folder.path(), "--unicast ::1,0x3001,0 --qpn 0x3002 --bytes 1MB --op write --va 0 --rkey 77");
    let near = spawn("send --unicast ::1,0x3002,0 --qpn 0x3001 --bytes 1MB --op write --va 0 --rkey 78");
    let (near, near_success) = finish(near);
    let (far, far_success) = finish(far);
    assert!(!near_success && !far_success);
    assert_eq!(near[0]["event"], "failed");
    assert!(near[0]["error"].as_str().unwrap().contains("RemoteAccess"), "{near:?}");
    assert!(far[0]["error"].as_str().unwrap().contains("RemoteAccess"), "{far:?}");
}

#[test]
fn a_receiver_that_died_is_given_up_on() {
    let folder = tempfile::tempdir().unwrap();
    let far = receiver(folder.path(), "--unicast ::1,0x4001,0 --qpn 0x4002 --bytes 1MB --stop-after 100kB");
    let near = spawn("send --unicast ::1,0x4002,0 --qpn 0x4001 --bytes 1MB --timeout 1ms --retries 3");
    let (near, success) = finish(near);
    assert!(!success);
    assert!(near[0]["error"].as_str().unwrap().contains("retransmitted 3 times"), "{near:?}");
    assert!(near[0]["bytes"].as_u64().unwrap() >= 90_000);
    kill(Pid::from_raw(far.id() as i32), Signal::SIGTERM).unwrap();
    let (far, success) = finish(far);
    assert!(!success);
    assert_eq!(far[0]["complete"], false);
}

#[test]
fn ce_is_read_from_the_traffic_class_and_comes_back_as_cnp() {
    let folder = tempfile::tempdir().unwrap();
    let far = receiver(folder.path(), "--unicast ::1,0x5001,0 --qpn 0x5002 --bytes 1MB");
    let near = one(spawn("send --unicast ::1,0x5002,0 --qpn 0x5001 --bytes 1MB --traffic-class 3"));
    let (far, success) = finish(far);
    assert!(success, "{far:?}");
    assert_eq!(far[1]["ce_marked"], far[1]["packets"]);
    assert!(far[1]["cnps_sent"].as_u64().unwrap() > 0);
    assert!(near["cnps_received"].as_u64().unwrap() > 0);
}
