// SPDX-License-Identifier: Apache-2.0
//! `/metrics`: the nodes' last reports, read at scrape. Base units; labels are bounded by what operators declared.

use std::fmt::Error;

use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use canopy_controller_actor::Controller;
use canopy_controller_core::health::ProblemKey;
use canopy_model::telemetry::{BranchTelemetry, DropCount, GroupTelemetry};
use canopy_units::nanos;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;

use crate::error::ApiError;

mod links;

/// Branches in one scrape, at most; `canopy_scrape_branches_left_out` counts the others.
const MAX_BRANCHES: usize = 50_000;
/// Root problems in one scrape, at most; `canopy_scrape_problems_left_out` counts the others.
const MAX_PROBLEMS: usize = 1000;

/// Metrics in OpenMetrics text.
#[utoipa::path(get, path = "/metrics", tag = "health", operation_id = "metrics", responses((status = 200, description = "OpenMetrics text", body = String)))]
pub(crate) async fn serve(State(controller): State<Controller>) -> Result<Response, ApiError> {
    let store = controller.store_state().await;
    let text = tokio::task::spawn_blocking(move || {
        let mut registry = Registry::default();
        let writable = matches!(store, Ok((_, None)));
        registry.register_collector(Box::new(Scrape { controller, writable }));
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).map(|()| text)
    });
    match text.await {
        Ok(Ok(text)) => {
            Ok(([(CONTENT_TYPE, "application/openmetrics-text; version=1.0.0; charset=utf-8")], text).into_response())
        }
        _ => Err(ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "Internal", "the metrics could not be written")),
    }
}

struct Scrape {
    controller: Controller,
    /// The store takes changes.
    writable: bool,
}

impl std::fmt::Debug for Scrape {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Scrape")
    }
}

impl Collector for Scrape {
    fn encode(&self, mut out: DescriptorEncoder) -> Result<(), Error> {
        self.controller(&mut out)?;
        self.problems(&mut out)?;
        self.nodes(&mut out)?;
        links::encode(&self.controller, &mut out)?;
        let rows = self.rows();
        groups(&mut out, &rows)?;
        branches(&mut out, &rows)?;
        self.drops(&mut out, &rows)
    }
}

/// One group at one node.
struct Row {
    node: String,
    group: String,
    counters: GroupTelemetry,
}

impl Scrape {
    fn controller(&self, out: &mut DescriptorEncoder) -> Result<(), Error> {
        let (term, revision) = self.controller.read(|d| (d.term(), d.revision()));
        let mut build = out.encode_descriptor("canopy_build", "Version of the controller.", None, MetricType::Info)?;
        build.encode_info(&[("version", env!("CARGO_PKG_VERSION"))])?;
        gauge(out, "canopy_controller_term", "Term that this controller took at its start.", [(NO_LABELS, term)])?;
        gauge(
            out,
            "canopy_controller_domain_revision",
            "Commands that changed the domain since the start.",
            [(NO_LABELS, revision)],
        )?;
        gauge(
            out,
            "canopy_store_writable",
            "1 while the store takes changes; 0 on a full disk, or when it has failed.",
            [(NO_LABELS, u64::from(self.writable))],
        )?;
        let lost = self.controller.store_recovery();
        gauge(
            out,
            "canopy_store_lost_commits",
            "1 from the start that found acknowledged commits missing until an operator has taken note.",
            [(NO_LABELS, u64::from(lost.is_some()))],
        )?;
        let phases = self.controller.phases();
        gauge(
            out,
            "canopy_groups",
            "Groups in each phase.",
            phases.iter().map(|(phase, n)| ([("phase", phase.as_str())], *n as u64)),
        )
    }

    /// Root problems alone: what they affect is counted, and would be as many series as there are groups.
    fn problems(&self, out: &mut DescriptorEncoder) -> Result<(), Error> {
        let roots = self.controller.root_problems();
        let labels = |key: &ProblemKey| {
            let info = key.code.info();
            [
                ("code", key.code.to_string()),
                ("severity", info.severity.to_string()),
                ("kind", info.object.to_string()),
                ("object", key.object.name()),
            ]
        };
        let shown = || roots.iter().take(MAX_PROBLEMS);
        gauge(
            out,
            "canopy_problem_active",
            "1 for each problem that no other one explains.",
            shown().map(|(key, _)| (labels(key), 1)),
        )?;
        gauge(
            out,
            "canopy_problem_affected",
            "Problems that this one explains.",
            shown().map(|(key, affected)| (labels(key), *affected)),
        )?;
        gauge(
            out,
            "canopy_scrape_problems_left_out",
            "Root problems beyond what one scrape shows, and symptoms that were not kept.",
            [(NO_LABELS, roots.len().saturating_sub(MAX_PROBLEMS) as u64 + self.controller.problems_left_out())],
        )
    }

    fn nodes(&self, out: &mut DescriptorEncoder) -> Result<(), Error> {
        let nodes = self.controller.read(|d| d.nodes());
        let label = |name: &str| [("node", name.to_owned())];
        gauge(
            out,
            "canopy_node_connected",
            "1 while the node's agent is connected.",
            nodes.iter().map(|n| (label(&n.name), u64::from(n.status.connected))),
        )?;
        gauge(
            out,
            "canopy_node_desired_generation",
            "Generation of the node's desired state.",
            nodes.iter().map(|n| (label(&n.name), n.spec.generation)),
        )?;
        let observed = nodes.iter().filter_map(|n| Some((label(&n.name), n.status.observed_generation?)));
        gauge(
            out,
            "canopy_node_observed_generation",
            "Generation that the node's agent last read back from its kernel.",
            observed,
        )?;
        gauge(
            out,
            "canopy_node_errors",
            "Items that are not in the node's kernel as desired.",
            nodes.iter().map(|n| (label(&n.name), n.status.errors.len() as u64)),
        )
    }

    fn rows(&self) -> Vec<Row> {
        let mut rows = Vec::new();
        self.controller.read(|d| {
            self.controller.telemetry().for_each(|node, known| {
                rows.extend(known.groups.iter().filter_map(|(id, counters)| {
                    Some(Row { node: node.into(), group: d.group_name(*id)?.into(), counters: counters.clone() })
                }));
            });
        });
        rows.sort_by(|a, b| (&a.node, &a.group).cmp(&(&b.node, &b.group)));
        rows
    }

    fn drops(&self, out: &mut DescriptorEncoder, rows: &[Row]) -> Result<(), Error> {
        let mut all = Vec::new();
        let of = |node: &str, group: &str, d: &DropCount| {
            let port = d.port.clone().unwrap_or_default();
            let labels =
                [("node", node.to_owned()), ("group", group.to_owned()), ("port", port), ("reason", d.name.clone())];
            (labels, d.packets)
        };
        self.controller.telemetry().for_each(|node, known| all.extend(known.drops.iter().map(|d| of(node, "", d))));
        for row in rows {
            all.extend(row.counters.drops.iter().map(|d| of(&row.node, &row.group, d)));
        }
        all.sort();
        counter(
            out,
            "canopy_drops",
            "Packets dropped, by reason; an empty group means that the packet belongs to no group, an empty port that the boundary of the domain did not drop it.",
            all,
        )
    }
}

type GroupLabels<'a> = [(&'static str, &'a str); 2];

fn groups(out: &mut DescriptorEncoder, rows: &[Row]) -> Result<(), Error> {
    type Read = fn(&GroupTelemetry) -> u64;
    const COUNTERS: [(&str, &str, Read); 8] = [
        ("canopy_group_data_packets", "Data packets from upstream.", |t| t.data_packets),
        ("canopy_group_data_bytes", "Bytes of data packets from upstream.", |t| t.data_octets.get()),
        ("canopy_group_acks_received", "ACKs from branches.", |t| t.acks_in),
        ("canopy_group_acks_sent", "ACKs sent upstream.", |t| t.acks_out),
        ("canopy_group_naks_received", "NAKs from branches.", |t| t.naks_in),
        ("canopy_group_naks_sent", "NAKs sent upstream.", |t| t.naks_out),
        ("canopy_group_cnps_received", "CNPs from branches.", |t| t.cnps_in),
        ("canopy_group_cnps_sent", "CNPs sent upstream.", |t| t.cnps_out),
    ];
    fn labels(r: &Row) -> GroupLabels<'_> {
        [("node", &r.node), ("group", &r.group)]
    }
    for (name, help, read) in COUNTERS {
        counter(out, name, help, rows.iter().map(|r| (labels(r), read(&r.counters))))?;
    }
    gauge(
        out,
        "canopy_group_epoch",
        "Epoch of the program in force.",
        rows.iter().map(|r| (labels(r), u64::from(r.counters.epoch))),
    )?;
    gauge(
        out,
        "canopy_group_high_psn",
        "Highest data PSN sent down + 1, unwrapped.",
        rows.iter().map(|r| (labels(r), r.counters.high.get())),
    )?;
    let minima = rows.iter().filter_map(|r| Some((labels(r), r.counters.min_next?.get())));
    gauge(out, "canopy_group_min_next_psn", "Smallest next PSN of the branches, unwrapped.", minima)
}

fn branches(out: &mut DescriptorEncoder, rows: &[Row]) -> Result<(), Error> {
    let every = || rows.iter().flat_map(|r| r.counters.branches.iter().map(move |b| (r, b)));
    let shown: Vec<(&Row, &BranchTelemetry, String)> =
        every().take(MAX_BRANCHES).map(|(r, b)| (r, b, b.address.to_string())).collect();
    let left_out = every().count() - shown.len();
    gauge(
        out,
        "canopy_scrape_branches_left_out",
        "Branches beyond what one scrape shows.",
        [(NO_LABELS, left_out as u64)],
    )?;
    fn labels<'a>((r, _, address): &'a (&Row, &BranchTelemetry, String)) -> [(&'static str, &'a str); 3] {
        [("node", &r.node), ("group", &r.group), ("branch", address)]
    }
    counter(
        out,
        "canopy_branch_packets",
        "Copies sent to the branch.",
        shown.iter().map(|s| (labels(s), s.1.packets)),
    )?;
    counter(
        out,
        "canopy_branch_bytes",
        "Bytes of the copies sent to the branch.",
        shown.iter().map(|s| (labels(s), s.1.octets.get())),
    )?;
    gauge(
        out,
        "canopy_branch_next_psn",
        "AckPSN + 1 of the branch, unwrapped.",
        shown.iter().filter_map(|s| Some((labels(s), s.1.next?.get()))),
    )?;
    gauge(
        out,
        "canopy_branch_window_cnps",
        "CNPs of the branch in the present window.",
        shown.iter().map(|s| (labels(s), u64::from(s.1.ccount))),
    )?;
    let ages = shown.iter().filter_map(|s| Some((labels(s), nanos(s.1.last_feedback?) as f64 / 1e9)));
    let mut metric = out.encode_descriptor(
        "canopy_branch_last_feedback_seconds",
        "Time since feedback of the branch was last received.",
        None,
        MetricType::Gauge,
    )?;
    for (labels, value) in ages {
        metric.encode_family(&labels)?.encode_gauge(&value)?;
    }
    Ok(())
}

const NO_LABELS: [(&str, &str); 0] = [];

fn gauge<L: EncodeLabelSet>(
    out: &mut DescriptorEncoder,
    name: &str,
    help: &str,
    values: impl IntoIterator<Item = (L, u64)>,
) -> Result<(), Error> {
    let mut metric = out.encode_descriptor(name, help, None, MetricType::Gauge)?;
    // A generation fits: it counts single changes.
    each(&mut metric, values, |mut m, v| m.encode_gauge(&i64::try_from(v).unwrap_or(i64::MAX)))
}

fn counter<L: EncodeLabelSet>(
    out: &mut DescriptorEncoder,
    name: &str,
    help: &str,
    values: impl IntoIterator<Item = (L, u64)>,
) -> Result<(), Error> {
    let mut metric = out.encode_descriptor(name, help, None, MetricType::Counter)?;
    each(&mut metric, values, |mut m, v| m.encode_counter::<NoLabelSet, _, u64>(&v, None))
}

fn each<L: EncodeLabelSet>(
    metric: &mut MetricEncoder,
    values: impl IntoIterator<Item = (L, u64)>,
    write: impl Fn(MetricEncoder, u64) -> Result<(), Error>,
) -> Result<(), Error> {
    for (labels, value) in values {
        write(metric.encode_family(&labels)?, value)?;
    }
    Ok(())
}
