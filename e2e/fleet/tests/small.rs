// SPDX-License-Identifier: Apache-2.0
//! The smallest fleet: 192 agents with their real links, and the controller's program.
#![allow(clippy::unwrap_used)]

use std::process::Command;

#[test]
fn all_agents_of_a_small_fleet_come_into_sync_and_again_after_a_kill() {
    let mut fleet = Command::new(env!("CARGO_BIN_EXE_canopy-fleet"));
    let output = fleet.args(["--agents", "1", "--groups", "20", "--receivers", "4"]).output().unwrap();
    let (table, why) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{table}{why}");
    for row in ["| 192 agents connect with 20 groups | ", "| 192 agents connect again, ", "| killed and started: "] {
        assert!(table.contains(row), "{row}: {table}");
    }
    assert_eq!(table.matches("until all nodes are in sync").count(), 2, "{table}");
    // Nothing is sent again to agents that have it: less than a tenth.
    let octets = |row: &str| -> f64 {
        let (_, of) = table.split_once(row).unwrap();
        of.split(" MB").next().unwrap().rsplit(' ').next().unwrap().parse().unwrap()
    };
    let (first, again) = (octets("| 192 agents connect with 20 groups | "), octets("| 192 agents connect again, "));
    assert!(first > 1.0 && again < first / 10.0, "{table}");
}
