// SPDX-License-Identifier: Apache-2.0
//! Up, down, half-failed and duplicate labs: no leftovers, and nothing of another owner is removed. Needs root.
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used)]

mod common;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use canopy_lab::{Instance, Lab, Options};
use common::{leftovers, options, run, small};

const NOTHING: Vec<String> = Vec::new();

#[test]
fn down_removes_everything_even_what_runs_inside() {
    let lab = Lab::up(small(), options("t-down")).unwrap();
    assert_eq!(leftovers("t-down").len(), 5, "three namespaces, pins and a directory");
    let mut child = lab.command("r1", "sleep").unwrap().arg("1000").spawn().unwrap();
    // nsenter enters before it becomes sleep: only then is the process inside.
    let inside = |pid: u32| fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|c| c.trim() == "sleep");
    common::eventually("sleep", || inside(child.id()));
    let dir = lab.dir().to_owned();
    drop(lab);
    assert_eq!(leftovers("t-down"), NOTHING);
    assert!(child.wait().unwrap().code().is_none(), "a process outlived its namespace");
    assert!(!canopy_lab::down(&dir).unwrap(), "there is nothing left to take down");
}

#[test]
fn another_process_can_open_and_take_down_a_lab_that_was_kept() {
    let mut lab = Lab::up(small(), options("t-keep")).unwrap();
    lab.keep();
    drop(lab);
    let instance = Instance::new(Some("t-keep".into())).unwrap();
    let lab = Lab::open(&instance, None).unwrap();
    assert_eq!(lab.link_counters().unwrap().len(), 2);
    drop(lab);
    assert!(!leftovers("t-keep").is_empty(), "dropping an opened lab took it down");
    assert!(canopy_lab::down(&instance.default_dir()).unwrap());
    assert_eq!(leftovers("t-keep"), NOTHING);
    assert!(Lab::open(&instance, None).unwrap_err().to_string().contains("no lab in"));
}

#[test]
fn a_second_lab_of_the_same_name_is_refused_and_the_first_lives_on() {
    let lab = Lab::up(small(), options("t-twice")).unwrap();
    let before = leftovers("t-twice");
    let e = Lab::up(small(), options("t-twice")).unwrap_err().to_string();
    assert!(e.contains("a lab is up in"), "{e}");
    // With another directory the namespaces, not the state file, show that the instance is up.
    let dir = tempfile::tempdir().unwrap();
    let e = Lab::up(small(), Options { dir: Some(dir.path().into()), ..options("t-twice") }).unwrap_err();
    assert!(format!("{e:#}").contains("cnp-t-twice-n1 exists already"), "{e:#}");
    assert_eq!(leftovers("t-twice"), before);
    assert_eq!(lab.link_counters().unwrap().len(), 2, "the first lab's pins are gone");
}

#[test]
fn a_namespace_of_another_owner_is_left_alone() {
    run(Command::new("ip").args(["netns", "add", "cnp-t-foreign-r1"]));
    let e = format!("{:#}", Lab::up(small(), options("t-foreign")).unwrap_err());
    let left = leftovers("t-foreign");
    run(Command::new("ip").args(["netns", "del", "cnp-t-foreign-r1"]));
    assert!(e.contains("network namespace cnp-t-foreign-r1 exists already"), "{e}");
    assert_eq!(left, ["cnp-t-foreign-r1"]);
}

#[test]
fn a_directory_with_other_things_in_it_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("thesis.tex"), "all my work").unwrap();
    let e = Lab::up(small(), Options { dir: Some(dir.path().into()), ..options("t-dir") }).unwrap_err().to_string();
    assert!(e.contains("is not empty"), "{e}");
    assert!(dir.path().join("thesis.tex").exists());
    assert_eq!(leftovers("t-dir"), NOTHING);
}

#[test]
fn when_the_controller_exits_up_reports_its_log_tail_and_cleans_up() {
    let bin = programs("echo 'store: disk on fire' >&2; exit 3");
    let e = format!(
        "{:#}",
        Lab::up(small(), Options { network_only: false, bin_dir: Some(bin.path().into()), ..options("t-dies") })
            .unwrap_err()
    );
    assert!(e.contains("controller ended") && e.contains("disk on fire"), "{e}");
    assert_eq!(leftovers("t-dies"), NOTHING);
}

#[test]
fn when_the_controller_is_never_ready_up_gives_up_and_kills_it() {
    let bin = programs("echo $$ > \"$0.pid\"; exec sleep 1000");
    let options = Options {
        network_only: false,
        bin_dir: Some(bin.path().into()),
        timeout: Duration::from_millis(300),
        ..options("t-slow")
    };
    let e = format!("{:#}", Lab::up(small(), options).unwrap_err());
    assert!(e.contains("for the controller to be ready"), "{e}");
    assert_eq!(leftovers("t-slow"), NOTHING);
    let pid = fs::read_to_string(bin.path().join("canopy-controller.pid")).unwrap();
    assert!(!Path::new("/proc").join(pid.trim()).exists(), "the controller outlived the lab");
}

#[test]
fn a_missing_program_is_reported_before_anything_is_created() {
    let bin = tempfile::tempdir().unwrap();
    let e = Lab::up(small(), Options { network_only: false, bin_dir: Some(bin.path().into()), ..options("t-nobin") })
        .unwrap_err()
        .to_string();
    assert!(e.contains("canopy-controller does not exist") && e.contains("--bin-dir"), "{e}");
    assert_eq!(leftovers("t-nobin"), NOTHING);
}

/// Programs that only fail, in their own ways.
fn programs(script: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for name in ["canopy-controller", "canopy-agent"] {
        let path = dir.path().join(name);
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    dir
}
