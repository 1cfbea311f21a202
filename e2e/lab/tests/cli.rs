// SPDX-License-Identifier: Apache-2.0
//! The files that come with the lab, and the command line. Needs root.
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used)]

mod common;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use canopy_lab::LabFile;
use common::leftovers;
use serde_json::Value;

fn topology(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../topologies").join(name)
}

fn canopy_lab(args: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_canopy-lab")).args(args.split_whitespace()).output().unwrap()
}

fn good(args: &str) -> String {
    let out = canopy_lab(args);
    assert!(out.status.success(), "canopy-lab {args}: {}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8(out.stdout).unwrap()
}

fn bad(args: &str) -> String {
    let out = canopy_lab(args);
    assert!(!out.status.success(), "canopy-lab {args} succeeded");
    String::from_utf8(out.stderr).unwrap()
}

#[test]
fn the_files_are_the_networks_that_they_claim_to_be() {
    let behind = |file: &LabFile, node: &str| {
        file.spec
            .links
            .iter()
            .filter(|l| {
                (l.a.device == node && l.b.device.starts_with('r'))
                    || (l.b.device == node && l.a.device.starts_with('r'))
            })
            .count()
    };
    let figure1 = LabFile::read(&topology("figure1.yaml")).unwrap();
    assert_eq!((figure1.spec.nodes.len(), figure1.spec.hosts.len(), figure1.spec.links.len()), (6, 6, 12));
    assert_eq!(["n1", "n2", "n3"].map(|n| behind(&figure1, n)), [2, 1, 2]);
    let clos = LabFile::read(&topology("clos-2x4.yaml")).unwrap();
    assert_eq!((clos.spec.nodes.len(), clos.spec.hosts.len(), clos.spec.links.len()), (6, 101, 109));
    assert_eq!(["leaf1", "leaf2", "leaf3", "leaf4"].map(|n| behind(&clos, n)), [25; 4]);
    let fan = LabFile::read(&topology("fan64.yaml")).unwrap();
    assert_eq!((fan.spec.nodes.len(), fan.spec.hosts.len(), behind(&fan, "n2")), (2, 65, 64));
    let longhaul = LabFile::read(&topology("longhaul.yaml")).unwrap();
    let ways: Vec<_> = longhaul.links().filter_map(|l| l.delay.map(|d| (l.label(), d.to_string()))).collect();
    assert_eq!(ways, [("n1/eth1--n2/eth1".into(), "10ms".into()), ("n2/eth2--n3/eth1".into(), "40ms".into())]);
    assert_eq!((behind(&longhaul, "n1"), behind(&longhaul, "n3")), (0, 3));
    assert!([figure1, clos, fan, longhaul].iter().all(|f| f.links().all(|l| l.mtu == 9000)));
}

#[test]
fn a_lab_goes_up_is_changed_and_goes_down_from_the_command_line() {
    let file = topology("figure1.yaml").display().to_string();
    good(&format!("up {file} --network-only --instance t-cli --mtu 2000 --loss 2%"));
    let status = || serde_json::from_str::<Value>(&good("status --json --instance t-cli")).unwrap();
    assert_eq!(status()["links"].as_array().unwrap().len(), 12);
    let text = good("status --instance t-cli");
    let line = |t: &str| t.lines().find(|l| l.contains("n6/eth2 <> n4/eth1")).unwrap().to_owned();
    assert!(line(&text).contains("2000") && line(&text).contains("2%"), "{text}");
    good("loss n6/eth2 0.5% --instance t-cli");
    assert!(line(&good("status --instance t-cli")).contains("0.5%"));
    assert!(bad("loss n6/eth9 0.5% --instance t-cli").contains("no link \"n6/eth9\""));
    assert!(bad(&format!("up {file} --network-only --instance t-cli")).contains("a lab is up in"));
    good("down --instance t-cli");
    assert_eq!(leftovers("t-cli"), Vec::<String>::new());
    assert!(String::from_utf8_lossy(&canopy_lab("down --instance t-cli").stderr).contains("no lab was up"));
    assert!(bad("status --instance t-cli").contains("no lab in"));
}

#[test]
fn an_up_that_was_killed_half_way_can_be_taken_down() {
    let file = topology("clos-2x4.yaml").display().to_string();
    let mut up = Command::new(env!("CARGO_BIN_EXE_canopy-lab"))
        .args(["up", &file, "--network-only", "--instance", "t-killed"])
        .spawn()
        .unwrap();
    common::eventually("some namespaces", || leftovers("t-killed").len() > 10);
    up.kill().unwrap();
    assert!(!up.wait().unwrap().success(), "it was too quick to be killed half way");
    // The `ip` process that it started keeps running for a moment.
    let running = || {
        std::fs::read_dir("/proc")
            .unwrap()
            .flatten()
            .filter_map(|p| std::fs::read_to_string(p.path().join("cmdline")).ok())
            .any(|c| c.starts_with("ip\0") && c.contains("cnp-t-killed-"))
    };
    common::eventually("ip to end", || !running());
    good("down --instance t-killed");
    assert_eq!(leftovers("t-killed"), Vec::<String>::new());
}

#[test]
fn mistakes_on_the_command_line_are_named() {
    assert!(bad("up /no/such/file.yaml").contains("/no/such/file.yaml"));
    let file = topology("figure1.yaml").display().to_string();
    assert!(bad(&format!("up {file} --network-only --instance t-mtu --mtu 100")).contains("mtu"));
    assert!(bad(&format!("up {file} --loss 200%")).contains("is not a loss"));
    assert!(bad("status --instance ../x").contains("--instance"));
    assert!(bad("run --op atomic").contains("atomic"));
    assert_eq!(leftovers("t-mtu"), Vec::<String>::new());
}

#[test]
fn a_guided_fault_needs_a_lab_and_is_one_of_three() {
    for args in ["--instance t-none demo break link", "--instance t-none demo mend"] {
        assert!(bad(args).contains("no lab in"), "{args}");
    }
    assert!(bad("demo break nothing").contains("link, receiver, mtu"));
}
