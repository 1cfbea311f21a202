// SPDX-License-Identifier: Apache-2.0
//! What is generated from the registry of problems is checked in and current. `UPDATE_REGISTRY=1 cargo test -p canopy-controller-api
//! --test registry` rewrites it.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fmt::Write;
use std::path::Path;

use canopy_controller_core::problem::{ProblemCode, Severity};

fn check(file: &str, now: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(file);
    if std::env::var_os("UPDATE_REGISTRY").is_some() {
        std::fs::write(&path, now).unwrap();
    }
    let checked_in = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        checked_in == now,
        "{file} differs from the registry: run this test with UPDATE_REGISTRY=1 and commit the result"
    );
}

/// Seconds without a fraction that is zero.
fn seconds(of: std::time::Duration) -> String {
    format!("{} s", of.as_secs_f64())
}

#[test]
fn the_page_of_problems_is_current() {
    let mut page = String::from(
        "# Problems\n\nGenerated from the registry of problems (`controller/core/src/problem.rs`). `canopyctl status` shows the causes that are open, \
         `canopyctl why` what explains a group, link, node or host, `canopyctl explain CODE` one of the sections below.\n\n\
         A *symptom* is what a node reports, or what the controller finds by comparing reports with the desired state. A *problem* opens when its symptom has \
         lasted for a while, and closes when there has been none for a while; if it returns in between, it is the same problem. A problem that another open one \
         explains counts under it: only *causes* are shown first and raise an alert. Its name, 16 hexadecimal digits, depends on code and object alone.\n\n\
         Severities: **critical**: data does not reach a receiver, or nothing can be changed. **warning**: data reaches every receiver; something is slower, less \
         redundant or less observed than it should be. **info**: a limit is in force that was not asked for; no alert.\n",
    );
    for code in ProblemCode::ALL {
        let info = code.info();
        let delays = (seconds(info.opens_after), seconds(info.closes_after));
        write!(
            page,
            "\n## {code}\n\n**{}**: a {} {}. Opens after {}, closes after {}.\n\n{}\n\nWhat to do: {}\n",
            info.severity, info.object, info.title, delays.0, delays.1, info.meaning, info.remedy
        )
        .unwrap();
    }
    check("docs/problems.md", &page);
}

#[test]
fn the_alert_rules_are_current() {
    let mut rules = String::from(
        "# SPDX-License-Identifier: Apache-2.0\n# Generated from the registry of problems: see docs/problems.md. One alert per cause; what a cause affects raises none.\ngroups:\n\
         - name: canopy-problems\n  rules:\n",
    );
    let quoted = |text: &str| format!("'{}'", text.replace('\'', "''"));
    for code in ProblemCode::ALL.iter().filter(|code| code.info().severity != Severity::Info) {
        let info = code.info();
        let summary = format!("{} {{{{ $labels.object }}}} {}", info.object, info.title);
        write!(
            rules,
            "  - alert: Canopy{code}\n    expr: max by (code, severity, kind, object) (canopy_problem_active{{code=\"{code}\"}}) > 0\n    labels:\n      severity: {}\n    \
             annotations:\n      summary: {}\n      description: {}\n      remedy: {}\n      runbook: docs/problems.md#{}\n",
            info.severity,
            quoted(&summary),
            quoted(info.meaning),
            quoted(info.remedy),
            code.to_string().to_lowercase()
        )
        .unwrap();
    }
    let controller = [
        (
            "CanopyControllerDown",
            "up{job=\"canopy-controller\"} == 0",
            "30s",
            "critical",
            "the controller at {{ $labels.instance }} does not answer",
        ),
        (
            "CanopyControllerAbsent",
            "absent(up{job=\"canopy-controller\"})",
            "1m",
            "critical",
            "no controller is scraped",
        ),
        (
            "CanopyProblemsLeftOut",
            "canopy_controller_problems_left_out > 0",
            "0s",
            "warning",
            "there are more problems than are shown",
        ),
        (
            "CanopySeriesLeftOut",
            "max by (job, instance) ({__name__=~\"canopy_(agent|controller|operator|pacer|steer)_series_left_out\"}) > 0",
            "5m",
            "warning",
            "{{ $labels.instance }} has more series than it shows",
        ),
        (
            "CanopyCallersRefused",
            "sum by (instance, limit) (rate(canopy_controller_refused_total[5m])) > 0",
            "10m",
            "warning",
            "the controller at {{ $labels.instance }} refuses callers at the limit {{ $labels.limit }}",
        ),
        (
            "CanopyDrainsRefused",
            "max by (instance) (canopy_operator_drains_refused) > 0",
            "10m",
            "warning",
            "the cordon of {{ $value }} nodes is not followed: kubectl get events --field-selector reason=FabricDrainRefused",
        ),
    ];
    rules.push_str("- name: canopy-controller\n  rules:\n");
    for (alert, expr, lasts, severity, summary) in controller {
        write!(
            rules,
            "  - alert: {alert}\n    expr: {expr}\n    for: {lasts}\n    labels:\n      severity: {severity}\n    annotations:\n      summary: {}\n      runbook: docs/operations.md\n",
            quoted(summary)
        )
        .unwrap();
    }
    // What several dashboards show, and what joins series of agents with those of the controller.
    let recorded = [
        ("canopy:drops:rate5m", "sum by (node, group, port, reason) (rate(canopy_drops_total[5m]))"),
        // Every node of a tree gets all data of a group: the source's own is what the first of them gets.
        ("canopy:group_source_bits:rate1m", "max by (group) (rate(canopy_group_data_bytes_total[1m])) * 8"),
        (
            "canopy:link_load:ratio1m",
            "rate(canopy_link_bytes_total[1m]) * 8 / on (node, port) group_left () max by (node, port) (canopy_link_rate_bits_per_second)",
        ),
    ];
    rules.push_str("- name: canopy-records\n  rules:\n");
    for (record, expr) in recorded {
        write!(rules, "  - record: {record}\n    expr: {expr}\n").unwrap();
    }
    check("deploy/prometheus/canopy.rules.yaml", &rules);
}
