// SPDX-License-Identifier: Apache-2.0
//! Every query of the dashboards and every rule, against the Prometheus of a lab under load: none fails, and no panel is empty.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use canopy_e2e::prometheus::Prometheus;
use canopy_e2e::{Bed, up_managed};
use canopy_lab::{Lab, Transfer, TransferSpec};
use serde_json::{Value, json};

/// Octets that the transfer does not end with.
const ENDLESS: u64 = 1 << 40;

/// Group `g` under load, with metrics of its branches.
fn start(bed: &Bed) -> Transfer {
    let group = json!({"apiVersion": "canopy/v1", "kind": "Group", "spec": {"pathMtu": 4096, "stallAfterMs": 500},
        "metadata": {"name": "g", "labels": {"canopy/metrics": "branches"}}});
    let (status, answer) = bed.lab.rest("PUT", "/api/v1/groups/g", Some(&group)).unwrap();
    assert_eq!(status, 201, "{answer}");
    bed.limit("s1", 50).unwrap();
    let mut spec = TransferSpec {
        timeout: Duration::from_secs(3600),
        leave: false,
        ..TransferSpec::new("g", "s1", &["r1", "r2", "r3", "r4", "r5"], ENDLESS)
    };
    spec.args.insert("s1".into(), ["--timeout", "200ms", "--retries", "0"].map(Into::into).into());
    let transfer = bed.lab.start_transfer(spec).unwrap();
    bed.lab.wait("data to be acknowledged", |_| Ok(bed.group("g")?["delivery"]["state"] == "Flowing")).unwrap();
    transfer
}

/// Title and queries of every panel, with the variables as Grafana sets them for `All`.
fn panels() -> Vec<(String, Vec<String>)> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/grafana");
    let files: BTreeSet<_> = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    let mut all = Vec::new();
    for file in files {
        let board: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
        for panel in board["panels"].as_array().unwrap() {
            let query = |target: &Value| {
                let text = target["expr"].as_str().unwrap().replace("$__rate_interval", "10s");
                ["node", "port", "group"].iter().fold(text, |text, name| text.replace(&format!("${name}"), ".+"))
            };
            let title = format!("{}: {}", board["title"].as_str().unwrap(), panel["title"].as_str().unwrap());
            all.push((title, panel["targets"].as_array().unwrap().iter().map(query).collect()));
        }
    }
    all
}

/// The queries that have no number to show now.
fn empty(prometheus: &Prometheus, queries: &[String]) -> Vec<String> {
    let is_number =
        |sample: &Value| sample["value"][1].as_str().is_some_and(|v| v.parse::<f64>().is_ok_and(f64::is_finite));
    let is_empty = |query: &&String| {
        let found = prometheus.query(query).unwrap_or_else(|e| panic!("{query}: {e:#}"));
        !found.iter().any(is_number)
    };
    queries.iter().filter(is_empty).cloned().collect()
}

#[test]
fn every_panel_shows_something_and_every_rule_is_evaluated() {
    let mut bed = up_managed("figure1").unwrap();
    let prometheus = Prometheus::start(&mut bed.lab).unwrap();
    let _transfer = start(&bed);
    let panels = panels();
    assert!(panels.len() > 40, "{}", panels.len());
    let mut missing = Vec::new();
    let waited = bed.lab.wait("every panel to show something", |_: &Lab| {
        missing = panels
            .iter()
            .flat_map(|(title, queries)| {
                empty(&prometheus, queries).into_iter().map(move |query| format!("{title}: {query}"))
            })
            .collect::<Vec<String>>();
        Ok(missing.is_empty())
    });
    waited.unwrap_or_else(|e| panic!("{e:#}: {}", missing.join("\n")));
    let queries: usize = panels.iter().map(|(_, queries)| queries.len()).sum();
    println!("{} panels with {queries} queries show something", panels.len());

    // Service discovery adds the node to the series of its agent.
    let nodes = prometheus.label_values("canopy_group_epoch{group=\"g\"}", "node").unwrap();
    assert!(nodes.len() >= 5, "{nodes:?}");
    let branches = prometheus.label_values("canopy_branch_next_psn{group=\"g\"}", "branch").unwrap();
    assert!(branches.len() >= 5, "{branches:?}");
    let rules = prometheus.rules().unwrap();
    let bad: Vec<_> = rules.iter().filter(|(_, health)| health != "ok").collect();
    assert!(bad.is_empty() && rules.len() > 30, "{bad:?} of {}", rules.len());
    println!("{} rules are evaluated", rules.len());
    assert_eq!(prometheus.firing().unwrap(), BTreeSet::new(), "a lab without a fault");
    let left_out = prometheus.query("max({__name__=~\"canopy_(agent|controller)_series_left_out\"})").unwrap();
    assert_eq!(left_out[0]["value"][1], "0");
}
