// SPDX-License-Identifier: Apache-2.0
//! The catalogue of faults in four classes: each is made in the lab under load, named by its cause, explained, raises its alert alone,
//! and closes when it is mended. Faults of a test share a lab; each test prints a table with the seconds that it took.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "faults/bench.rs"]
mod bench;
#[path = "faults/degraded.rs"]
mod degraded;
#[path = "faults/limit.rs"]
mod limit;
#[path = "faults/mended.rs"]
mod mended;
#[path = "faults/outage.rs"]
mod outage;
#[path = "faults/registry.rs"]
mod registry;

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use canopy_e2e::deep;
use canopy_lab::Lab;
use serde_json::Value;

use bench::{Fault, Watched, causes, watched};

/// Every host but the source.
const ALL: [&str; 5] = ["r1", "r2", "r3", "r4", "r5"];
/// `canopyctl status` names an outage this long after it began.
const NAMED_WITHIN: Duration = Duration::from_secs(5);

fn prove(class: &str, mut watched: Watched, faults: &[Fault]) -> Watched {
    assert_eq!(causes(&watched.bed), BTreeSet::new());
    faults.iter().for_each(|fault| watched.prove(fault));
    watched.print(class);
    watched
}

fn prove_outages(faults: &[Fault]) -> Watched {
    let watched = prove("outage", watched(&ALL, |_| ()), faults);
    watched.opened_within(NAMED_WITHIN);
    watched
}

#[test]
fn outages_of_receivers_are_named_and_nothing_else() {
    prove_outages(&outage::RECEIVERS);
}

#[test]
fn outages_of_the_fabric_are_named_and_nothing_else() {
    let mut watched = prove_outages(&outage::FABRIC);
    watched.prove_open(&outage::INTERFACE_GONE);
    watched.print("outage");
    watched.bed.wait_phase("g", "Ready").unwrap();
}

#[test]
fn outages_of_programs_and_of_the_store_are_named_and_nothing_else() {
    prove_outages(&outage::PROGRAMS);
}

#[test]
fn what_is_degraded_is_named_and_nothing_else() {
    prove("degraded", watched(&degraded::RECEIVERS, |_| ()), &degraded::FAULTS);
}

#[test]
fn what_the_domain_mends_by_itself_leaves_no_alarm() {
    let mut watched = watched(&ALL, |_| ());
    for (name, shown, make) in mended::FAULTS {
        watched.proves_mended(name, shown, make);
    }
    watched.settle();
    watched.closed("all of them");
    watched.print("self-mended");
}

#[test]
fn limits_are_shown_and_raise_no_alert() {
    let small = |file: &mut canopy_lab::LabFile| file.override_mtu(limit::MTU);
    let mut watched = prove("limit", watched(&ALL, small), &limit::FAULTS);
    limit::tlvs_too_long(&mut watched);
    watched.print("limit");
}

/// In `make test-deep`, for thirty minutes.
#[test]
fn load_and_a_rolling_restart_raise_no_alert() {
    let mut watched = watched(&ALL, |_| ());
    let bed = &mut watched.bed;
    let lasts = if deep() { Duration::from_secs(1800) } else { Duration::ZERO };
    let since = Instant::now();
    let mut late = BTreeSet::new();
    for n in 1..=6 {
        let node = format!("n{n}");
        let killed = Instant::now();
        bed.lab.kill_agent(&node).unwrap();
        bed.lab.start_agent(&node).unwrap();
        let is_back =
            |lab: &Lab| Ok(lab.rest("GET", &format!("/api/v1/nodes/{node}"), None)?.1["status"]["connected"] == true);
        bed.lab.wait("the agent to connect", is_back).unwrap();
        // On a machine that takes longer to start it, the alert is right.
        if killed.elapsed() > Duration::from_secs(2) {
            late.insert(node);
        }
    }
    bed.lab.wait_synced().unwrap();
    while since.elapsed() < lasts {
        std::thread::sleep(Duration::from_secs(1));
    }
    bed.wait_phase("g", "Ready").unwrap();
    watched.settle();
    let fired = watched.prometheus.query("max_over_time(ALERTS{alertstate=\"firing\"}[2h])").unwrap();
    let is_late = |a: &Value| a["metric"]["object"].as_str().is_some_and(|node| late.contains(node));
    let unexplained: Vec<&Value> = fired.iter().filter(|a| !is_late(a)).collect();
    println!("{} alerts in {:?}, agents that were back late: {late:?}", fired.len(), since.elapsed());
    assert!(unexplained.is_empty(), "{unexplained:?}");
}
