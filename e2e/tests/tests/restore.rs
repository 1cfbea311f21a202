// SPDX-License-Identifier: Apache-2.0
//! Stores that come back from an export, an old copy or a backup: every agent follows without anyone touching its ledger.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use canopy_e2e::{Bed, up};
use canopy_lab::{Lab, TransferSpec};
use serde_json::{Value, json};

const RECEIVERS: [&str; 5] = ["r1", "r2", "r3", "r4", "r5"];
const NODES: [&str; 6] = ["n1", "n2", "n3", "n4", "n5", "n6"];

fn store(bed: &Bed) -> PathBuf {
    bed.lab.dir().join("store")
}

fn copy_dir(from: &Path, to: &Path) {
    let status = Command::new("cp").args(["-a", "--"]).args([from, to]).status().unwrap();
    assert!(status.success(), "copying {} to {}", from.display(), to.display());
}

fn store_command(bed: &Bed, args: &[&str], file: &Path) {
    let mut command = Command::new(bed.lab.binary("canopy-controller").unwrap());
    command.arg("--config").arg(bed.lab.dir().join("controller.toml")).arg("store").args(args).arg(file);
    let out = command.output().unwrap();
    assert!(out.status.success(), "store {args:?}: {}", String::from_utf8_lossy(&out.stderr));
}

/// Makes changes that every node accepts, and that no store has when it comes back.
fn changes_that_will_be_lost(bed: &Bed, name: &str) {
    for i in 0..3 {
        bed.lab.create_group(&format!("{name}-{i}"), json!({})).unwrap();
        let spec =
            TransferSpec { leave: false, ..TransferSpec::new(&format!("{name}-{i}"), "s1", &RECEIVERS, 64 << 10) };
        assert!(bed.lab.transfer(spec).unwrap().mismatches().is_empty());
    }
    bed.lab.wait_synced().unwrap();
}

fn is_reconciled(node: &Value) -> bool {
    let conditions = node["status"]["conditions"].as_array().unwrap();
    conditions.iter().any(|c| c["type"] == "Synced" && c["reason"] == "Reconciled")
}

/// Starts the controller; every agent must be in sync, the kept group must be as it was, and a new one must carry data.
fn everyone_follows(bed: &mut Bed, what: &str, kept: &Value) {
    bed.lab.start_controller().unwrap();
    let ready = Instant::now();
    bed.lab.wait_synced().unwrap();
    println!("{what}: every agent in sync {:.2} s after the controller was ready", ready.elapsed().as_secs_f64());
    // A link whose RTT is measured meanwhile makes one more generation.
    let reconciled = |lab: &Lab| {
        Ok(lab.rest("GET", "/api/v1/nodes", None)?.1["items"].as_array().unwrap().iter().all(is_reconciled))
    };
    bed.lab.wait("every node to report Reconciled", reconciled).unwrap();
    bed.wait_phase("kept", "Ready").unwrap();
    assert_eq!(bed.group("kept").unwrap()["connection"], *kept, "{what}");
    let (_, groups) = bed.lab.rest("GET", "/api/v1/groups", None).unwrap();
    assert_eq!(groups["items"].as_array().unwrap().len(), 1, "{what}: {groups}");
    bed.lab.create_group("fresh", json!({})).unwrap();
    let report = bed.lab.transfer(TransferSpec::new("fresh", "s1", &RECEIVERS, 256 << 10)).unwrap();
    assert!(report.mismatches().is_empty(), "{what}: {:?}", report.mismatches());
    assert_eq!(bed.lab.rest("DELETE", "/api/v1/groups/fresh", None).unwrap().0 / 100, 2);
    bed.lab.wait_synced().unwrap();
    for node in NODES {
        let log = fs::read_to_string(bed.lab.dir().join(format!("log/agent-{node}.log"))).unwrap();
        let is_error = |line: &&str| line.contains("\"ERROR\"") || line.contains("ledger");
        assert_eq!(log.lines().find(is_error), None, "{what}: {node}");
    }
}

#[test]
fn every_agent_follows_a_store_that_was_imported_put_back_or_restored() {
    let mut bed = up("figure1").unwrap();
    bed.lab.create_group("kept", json!({})).unwrap();
    let spec = TransferSpec { leave: false, ..TransferSpec::new("kept", "s1", &RECEIVERS, 256 << 10) };
    assert!(bed.lab.transfer(spec).unwrap().mismatches().is_empty());
    bed.wait_phase("kept", "Ready").unwrap();
    let kept = bed.group("kept").unwrap()["connection"].clone();
    let (export, copy) = (bed.lab.dir().join("export"), bed.lab.dir().join("copy"));
    bed.lab.kill_controller().unwrap();
    store_command(&bed, &["export"], &export);
    copy_dir(&store(&bed), &copy);
    bed.lab.start_controller().unwrap();
    bed.lab.wait_synced().unwrap();

    changes_that_will_be_lost(&bed, "import");
    bed.lab.kill_controller().unwrap();
    fs::remove_dir_all(store(&bed)).unwrap();
    store_command(&bed, &["import"], &export);
    everyone_follows(&mut bed, "export and import", &kept);

    changes_that_will_be_lost(&bed, "old");
    bed.lab.kill_controller().unwrap();
    fs::remove_dir_all(store(&bed)).unwrap();
    copy_dir(&copy, &store(&bed));
    everyone_follows(&mut bed, "a store older than what the agents saw", &kept);

    // Opening writes a backup; what follows is only in the database, which is damaged then.
    bed.lab.kill_controller().unwrap();
    bed.lab.start_controller().unwrap();
    bed.lab.wait_synced().unwrap();
    changes_that_will_be_lost(&bed, "damage");
    bed.lab.kill_controller().unwrap();
    for file in ["db/db", "db/conf"] {
        let path = store(&bed).join(file);
        let length = fs::metadata(&path).unwrap().len();
        fs::write(&path, vec![0x5A; usize::try_from(length).unwrap()]).unwrap();
    }
    everyone_follows(&mut bed, "the automatic restore of a backup", &kept);
    assert!(store(&bed).join("damaged-1").exists());
}
