// SPDX-License-Identifier: Apache-2.0
//! Log lines of the real program as a collector receives them.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::process::Command;
use std::time::Duration;

use canopy_testkit::collector::Collector;

const DEADLINE: Duration = Duration::from_secs(30);

/// It ends at once, without a BPF file system: the last lines of a program are those that are needed.
#[test]
fn an_agent_that_ends_at_once_has_sent_its_lines() {
    let collector = Collector::start(false);
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name).display().to_string();
    let ended = Command::new(env!("CARGO_BIN_EXE_canopy-agent"))
        .args(["--node", "n1", "--state-dir", &at("state"), "--pin-dir", &at("no-bpffs"), "--controller"])
        .arg(format!("unix:{}", at("none.sock")))
        .env("CANOPY__LOG__ENDPOINT", collector.endpoint())
        .output()
        .unwrap();
    assert!(!ended.status.success(), "{ended:?}");
    let lines = collector.lines(DEADLINE, |line| line.message() == "starting");
    let [name, version, instance] = lines[0].service.each_ref().map(Option::as_deref);
    assert_eq!((name, version, instance), (Some("canopy-agent"), Some(env!("CARGO_PKG_VERSION")), Some("n1")));
}

#[test]
fn an_endpoint_that_is_none_is_refused() {
    let refused = Command::new(env!("CARGO_BIN_EXE_canopy-agent"))
        .args(["--node", "n1", "config", "check"])
        .env("CANOPY__LOG__ENDPOINT", "https://collector.example:4317")
        .output()
        .unwrap();
    let why = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && why.contains("log.endpoint"), "{why}");
}
