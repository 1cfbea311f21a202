// SPDX-License-Identifier: Apache-2.0
//! The binary's settings: flags over variables over the file, and errors that name their source.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::process::{Command, Output};

fn check(file: &str, variables: &[(&str, &str)], flags: &[&str]) -> Output {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("p.toml");
    std::fs::write(&path, file).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_canopy-pacer"));
    command.env_clear().envs(variables.iter().copied()).args(["config", "check", "--config"]).arg(&path).args(flags);
    command.output().unwrap()
}

#[test]
fn flags_take_precedence_over_variables_and_these_over_the_file() {
    let file =
        "interface = 'eth1'\nline_rate = '100G'\nidle = '30s'\n[on_action]\ntimeout = '1s'\n[socket]\nuids = [1, 2]";
    let variables = [("CANOPY__INTERFACE", "eth2"), ("CANOPY__IDLE", "20s"), ("CANOPY_QPN", "not a setting")];
    let flags = ["--interface", "eth3", "--uid", "7", "--node", "fd00::1", "--no-kernel-pacing", "--log-json"];
    let out = check(file, &variables, &flags);
    let shown = String::from_utf8(out.stdout).unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let shown: toml::Table = shown.parse().unwrap();
    let text = |key: &str| shown[key].to_string();
    assert_eq!((text("interface"), text("idle")), ("\"eth3\"".into(), "\"20s\"".into()));
    assert_eq!((text("line_rate"), text("pacing")), ("100000000000".into(), "\"none\"".into()));
    assert_eq!(shown["nodes"], toml::Value::from(vec!["fd00::1"]));
    assert_eq!(shown["socket"]["uids"], toml::Value::from(vec![7]));
    assert_eq!((shown["on_action"]["timeout"].as_str(), shown["log"]["format"].as_str()), (Some("1s"), Some("json")));
}

#[test]
fn errors_name_the_key_and_its_source() {
    let refused = |file, variables: &[_], flags: &[_]| {
        let out = check(file, variables, flags);
        assert!(!out.status.success());
        String::from_utf8(out.stderr).unwrap()
    };
    let error = refused("interface = 'e'\n[sokcet]\npath = '/x'", &[], &[]);
    assert!(error.contains("sokcet (from /") && error.contains("p.toml"), "{error}");
    let error = refused("interface = 'e'", &[("CANOPY__RTT", "11s")], &[]);
    assert!(error.contains("rtt (from environment variable CANOPY__RTT): "), "{error}");
    let error = refused("interface = 'e'", &[], &["--line-rate", "1P"]);
    assert!(error.contains("line_rate (from the command line): ") && error.contains("25G"), "{error}");
    assert!(refused("", &[], &[]).contains("interface (from the defaults): must be set"));
}
