// SPDX-License-Identifier: Apache-2.0
//! How a transfer is run, with a script in place of canopy-rc: which programs are waited for, which are ended, what
//! is reported. Needs root.
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used)]

mod common;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use canopy_lab::{Lab, Options, TransferSpec};
use common::{options, small};

/// A receiver completes at once and prints its exit event only on SIGTERM; the sender reports.
const GOOD: &str = r#"
if [ "$1" = receive ]; then
    trap 'echo "{\"event\":\"exit\",\"acks_sent\":7}"; exit 0' TERM
    echo '{"event":"complete","bytes":5,"sha256":"ab"}'
    while :; do sleep 0.01; done
fi
echo "$@" > "$0.args"
echo '{"event":"complete","bytes":5,"sha256":"ab","seconds":1,"goodput_bps":40,"acks_received":3}'
"#;

fn lab(instance: &str, script: &str) -> (Lab, tempfile::TempDir) {
    let bin = tempfile::tempdir().unwrap();
    let path = bin.path().join("canopy-rc");
    fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    let lab = Lab::up(small(), Options { bin_dir: Some(bin.path().into()), ..options(instance) }).unwrap();
    fs::create_dir_all(lab.dir().join("log")).unwrap();
    (lab, bin)
}

fn spec() -> TransferSpec {
    TransferSpec { timeout: Duration::from_secs(10), ..TransferSpec::new("g", "s1", &["r1"], 5) }
}

#[test]
fn receivers_are_ended_after_all_are_done_and_their_last_words_count() {
    let (lab, bin) = lab("t-tgood", GOOD);
    let report = lab.transfer(spec()).unwrap();
    assert_eq!((report.source.acks_received, report.acks_sent(), report.links.len()), (3, 7, 2));
    assert!(report.mismatches().is_empty());
    let args = fs::read_to_string(bin.path().join("canopy-rc.args")).unwrap();
    assert!(args.contains("--group g --host s1 --bytes 5") && args.contains("--wait-receivers 1"), "{args}");
}

#[test]
fn the_error_event_of_a_program_becomes_the_error() {
    let (lab, _bin) = lab(
        "t-tbad",
        &GOOD.replace(
            r#"{"event":"complete","bytes":5,"sha256":"ab","seconds""#,
            r#"{"event":"failed","error":"no path to the moon","seconds""#,
        ),
    );
    let e = format!("{:#}", lab.transfer(spec()).unwrap_err());
    assert!(e.contains("canopy-rc at s1") && e.contains("no path to the moon"), "{e}");
}

#[test]
fn one_that_ends_early_is_named_with_its_log() {
    let (lab, _bin) = lab(
        "t-tend",
        &GOOD.replace("echo '{\"event\":\"complete\",\"bytes\":5,\"sha256\":\"ab\"}'", "echo 'no memory' >&2; exit 4"),
    );
    let e = format!("{:#}", lab.transfer(spec()).unwrap_err());
    assert!(e.contains("canopy-rc at r1 ended with exit status: 4") && e.contains("rc-r1.log"), "{e}");
    assert_eq!(fs::read_to_string(lab.dir().join("log/rc-r1.log")).unwrap(), "no memory\n");
}

#[test]
fn one_that_is_lost_on_purpose_is_not_waited_for() {
    let (lab, _bin) =
        lab("t-tlost", &GOOD.replace("echo '{\"event\":\"complete\",\"bytes\":5,\"sha256\":\"ab\"}'", "exit 4"));
    let report = lab.transfer(TransferSpec { lost: vec!["r1".into()], ..spec() }).unwrap();
    assert!(report.receivers.is_empty());
}

#[test]
fn on_timeout_the_unfinished_hosts_are_named_and_ended() {
    let (lab, _bin) = lab("t-tslow", "echo $$ >> \"$0.pids\"; exec sleep 1000");
    let e = format!("{:#}", lab.transfer(TransferSpec { timeout: Duration::from_millis(300), ..spec() }).unwrap_err());
    assert!(e.contains("waiting for canopy-rc at r1, s1") && e.contains("not done within"), "{e}");
    let pids = fs::read_to_string(_bin.path().join("canopy-rc.pids")).unwrap_or_default();
    for pid in pids.lines() {
        assert!(!fs::exists(format!("/proc/{pid}")).unwrap(), "process {pid} outlived its transfer");
    }
}
