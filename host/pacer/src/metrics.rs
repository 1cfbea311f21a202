// SPDX-License-Identifier: Apache-2.0
//! `/metrics`: the content of `status`, as OpenMetrics text, read at scrape.

use std::fmt::Error;
use std::net::Ipv6Addr;

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use canopy_control::pb;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;
use tokio::net::TcpListener;

use crate::daemon::Request;
use crate::service::Service;

/// Maximum number of queue pairs in one scrape.
const MAX_QPS: usize = 10_000;

/// Serves until the process ends.
pub(crate) async fn serve(listener: TcpListener, service: Service) {
    let app = Router::new().route("/metrics", get(scrape)).with_state(service);
    if let Err(error) = axum::serve(listener, app).await {
        tracing::error!(%error, "the metrics server stopped");
    }
}

async fn scrape(State(service): State<Service>) -> Response {
    let Ok(list) = service.ask(Request::List).await else {
        return (StatusCode::SERVICE_UNAVAILABLE, "canopy-pacer is stopping").into_response();
    };
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Scrape(list)));
    let mut text = String::new();
    match prometheus_client::encoding::text::encode(&mut text, &registry) {
        Ok(()) => {
            ([(CONTENT_TYPE, "application/openmetrics-text; version=1.0.0; charset=utf-8")], text).into_response()
        }
        Err(_) => (StatusCode::INTERNAL_SERVER_ERROR, "the metrics could not be written").into_response(),
    }
}

#[derive(Debug)]
struct Scrape(pb::ListQpsResponse);

impl Collector for Scrape {
    fn encode(&self, mut out: DescriptorEncoder) -> Result<(), Error> {
        let (out, list) = (&mut out, &self.0);
        let mut build = out.encode_descriptor("canopy_build", "Build information.", None, MetricType::Info)?;
        build.encode_info(&[("version", env!("CARGO_PKG_VERSION"))])?;
        let pacing = match list.pacing() {
            pb::PacingMeans::Edt => "edt",
            pb::PacingMeans::Htb => "htb",
            pb::PacingMeans::None | pb::PacingMeans::Unspecified => "none",
        };
        let labels = [("pacing", pacing), ("interface", list.interface.as_str())];
        gauge(out, "canopy_pacer_means", "1, with the pacing method as label.", [(labels, 1)])?;
        gauge(out, "canopy_pacer_line_rate_bps", "Line rate, in bits per second.", [(NO_LABELS, list.line_rate_bps)])?;
        gauge(out, "canopy_pacer_nodes", "Nodes whose Long-haul CNPs are accepted.", [(NO_LABELS, list.nodes.into())])?;
        gauge(out, "canopy_pacer_qps", "Live queue pairs.", [(NO_LABELS, list.qps.len() as u64)])?;
        let by = |label: &'static str, of: &'_ [pb::Counter]| {
            of.iter().map(|c| ([(label, c.name.clone())], c.value)).collect::<Vec<_>>()
        };
        let received = by("format", &list.received);
        counter(out, "canopy_pacer_received", "Notifications, by format.", received)?;
        let outcomes = by("reason", &list.outcomes);
        counter(out, "canopy_pacer_outcomes", "Outcomes of notifications and of the daemon's own work.", outcomes)?;
        let actions = by("action", &list.actions);
        counter(out, "canopy_pacer_actions", "Changes of queue pairs, by cause.", actions)?;
        type Read = fn(&pb::PacedQp) -> u64;
        const GAUGES: [(&str, &str, Read); 3] = [
            ("canopy_pacer_qp_rate_bps", "Current rate of the queue pair, in bits per second.", |qp| qp.rate_bps),
            ("canopy_pacer_qp_paused", "1 while it is paused.", |qp| u64::from(qp.pause_left_ns > 0)),
            ("canopy_pacer_qp_rtt_ns", "RTT of its path, in nanoseconds.", |qp| qp.rtt_ns),
        ];
        let qps: Vec<_> = list.qps.iter().take(MAX_QPS).map(|qp| (labels_of(qp), qp)).collect();
        for (name, help, read) in GAUGES {
            gauge(out, name, help, qps.iter().map(|(labels, qp)| (labels.clone(), read(qp))))?;
        }
        Ok(())
    }
}

fn labels_of(qp: &pb::PacedQp) -> [(&'static str, String); 2] {
    let peer = <[u8; 16]>::try_from(qp.peer.as_slice()).map(|p| Ipv6Addr::from(p).to_string()).unwrap_or_default();
    [("qpn", qp.qpn.to_string()), ("peer", peer)]
}

const NO_LABELS: [(&str, &str); 0] = [];

fn gauge<L: EncodeLabelSet>(
    out: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    samples: impl IntoIterator<Item = (L, u64)>,
) -> Result<(), Error> {
    family(out, name, help, MetricType::Gauge, samples, |mut metric, value| metric.encode_gauge(&value))
}

fn counter<L: EncodeLabelSet>(
    out: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    samples: impl IntoIterator<Item = (L, u64)>,
) -> Result<(), Error> {
    family(out, name, help, MetricType::Counter, samples, |mut metric, value| {
        metric.encode_counter::<NoLabelSet, _, u64>(&value, None)
    })
}

fn family<L: EncodeLabelSet>(
    out: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    kind: MetricType,
    samples: impl IntoIterator<Item = (L, u64)>,
    write: impl Fn(MetricEncoder<'_>, u64) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut family = out.encode_descriptor(name, help, None, kind)?;
    for (labels, value) in samples {
        write(family.encode_family(&labels)?, value)?;
    }
    Ok(())
}
