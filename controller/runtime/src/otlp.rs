// SPDX-License-Identifier: Apache-2.0
//! Sends spans to an OpenTelemetry collector (OTLP over gRPC). A collector that is away or slow costs spans, and nothing else.

use std::time::Duration;

use anyhow::Context;
use canopy_controller_actor::traces::Span;
use canopy_daemon::otlp::{BATCH, GATHER, Service, TIMEOUT};
use opentelemetry::trace::{Link, SpanContext, SpanKind, Status, TraceFlags, TraceState};
use opentelemetry::{InstrumentationScope, KeyValue, SpanId, TraceId};
use opentelemetry_otlp::{SpanExporter, WithExportConfig};
use opentelemetry_sdk::trace::{SpanData, SpanEvents, SpanExporter as _, SpanLinks};
use tokio::sync::mpsc;

/// The controller as collectors know it: there is one.
pub const SERVICE: Service<'static> = Service { name: "canopy-controller", instance: None };

/// An exporter to this endpoint, `http://host:port`.
///
/// # Errors
/// The endpoint is no URL.
pub(crate) fn exporter(endpoint: &str) -> anyhow::Result<SpanExporter> {
    let built = SpanExporter::builder().with_tonic().with_endpoint(endpoint).with_timeout(TIMEOUT).build();
    let mut exporter = built.context("traces.endpoint")?;
    exporter.set_resource(&SERVICE.resource());
    Ok(exporter)
}

/// Sends what arrives until no more can arrive.
pub(crate) async fn run(exporter: SpanExporter, mut spans: mpsc::Receiver<Span>) {
    let scope = InstrumentationScope::builder("canopy").with_version(env!("CARGO_PKG_VERSION")).build();
    let mut is_failing = false;
    loop {
        let mut batch = Vec::new();
        if spans.recv_many(&mut batch, BATCH).await == 0 {
            return;
        }
        let more = async { while batch.len() < BATCH && spans.recv_many(&mut batch, BATCH).await > 0 {} };
        _ = tokio::time::timeout(GATHER, more).await;
        let sent = exporter.export(batch.into_iter().map(|span| data(span, &scope)).collect()).await;
        match sent {
            Err(error) if !std::mem::replace(&mut is_failing, true) => {
                tracing::warn!(%error, "cannot send traces to traces.endpoint: their spans are lost until it answers");
            }
            Ok(()) if std::mem::replace(&mut is_failing, false) => tracing::info!("traces.endpoint takes traces again"),
            _ => {}
        }
    }
}

fn data(span: Span, scope: &InstrumentationScope) -> SpanData {
    let context = |trace: [u8; 16], id: [u8; 8]| {
        let (trace, id) = (TraceId::from_bytes(trace), SpanId::from_bytes(id));
        SpanContext::new(trace, id, TraceFlags::SAMPLED, false, TraceState::default())
    };
    let mut links = SpanLinks::default();
    let linked = |trace: &canopy_controller_core::trace::Trace| context(trace.id.octets(), trace.span.octets());
    links.links = span.links.iter().map(|trace| Link::new(linked(trace), Vec::new(), 0)).collect();
    SpanData {
        span_context: context(span.trace.id.octets(), span.id.octets()),
        parent_span_id: span.parent.map_or(SpanId::INVALID, |parent| SpanId::from_bytes(parent.octets())),
        parent_span_is_remote: span.is_request,
        span_kind: if span.is_request { SpanKind::Server } else { SpanKind::Internal },
        name: span.name.into(),
        start_time: std::time::UNIX_EPOCH + Duration::from_nanos(span.start.nanos()),
        end_time: std::time::UNIX_EPOCH + Duration::from_nanos(span.end.nanos()),
        attributes: span.attributes.into_iter().map(|(key, value)| KeyValue::new(key, value)).collect(),
        dropped_attributes_count: 0,
        events: SpanEvents::default(),
        links,
        status: span.error.map_or(Status::Unset, Status::error),
        instrumentation_scope: scope.clone(),
    }
}
