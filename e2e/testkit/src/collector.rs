// SPDX-License-Identifier: Apache-2.0
//! An OpenTelemetry collector behind a real socket (OTLP over gRPC), in a thread of its own.

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{TraceService, TraceServiceServer};
use opentelemetry_proto::tonic::collector::trace::v1::{ExportTraceServiceRequest, ExportTraceServiceResponse};
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
pub use opentelemetry_proto::tonic::trace::v1::Span;
use tokio::sync::oneshot;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::{Request, Response, Status};

/// A collector that runs until it is dropped.
pub struct Collector {
    endpoint: String,
    received: mpsc::Receiver<ExportTraceServiceRequest>,
    /// Spans that have arrived, by trace and by name.
    traces: BTreeMap<Vec<u8>, BTreeMap<String, Span>>,
    _stop: oneshot::Sender<()>,
}

struct Service {
    received: mpsc::Sender<ExportTraceServiceRequest>,
    is_stalled: bool,
}

#[tonic::async_trait]
impl TraceService for Service {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        _ = self.received.send(request.into_inner());
        if self.is_stalled {
            std::future::pending::<()>().await;
        }
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

impl Collector {
    /// On a free port of loopback; one that is stalled receives and never answers.
    pub fn start(is_stalled: bool) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        listener.set_nonblocking(true).unwrap();
        let (sender, received) = mpsc::channel();
        let (stop, stopped) = oneshot::channel();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let incoming = TcpListenerStream::new(tokio::net::TcpListener::from_std(listener).unwrap());
                let service = TraceServiceServer::new(Service { received: sender, is_stalled });
                let serving = tonic::transport::Server::builder().add_service(service).serve_with_incoming(incoming);
                tokio::select! {
                    served = serving => served.unwrap(),
                    _ = stopped => {}
                }
            });
        });
        Self { endpoint, received, traces: BTreeMap::new(), _stop: stop }
    }

    /// Its URL.
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// Waits for a message.
    pub fn message(&self, deadline: Duration) -> ExportTraceServiceRequest {
        self.received.recv_timeout(deadline).expect("nothing was sent to the collector")
    }

    /// Whether a span of this trace was among what [`Collector::trace`] has taken in.
    pub fn has_seen(&self, trace: &[u8]) -> bool {
        self.traces.contains_key(trace)
    }

    /// The spans by name of a trace that `is_complete`, as soon as there is one. Every span is sent once.
    pub fn trace(
        &mut self,
        deadline: Duration,
        is_complete: impl Fn(&BTreeMap<String, Span>) -> bool,
    ) -> BTreeMap<String, Span> {
        let until = Instant::now() + deadline;
        loop {
            if let Some(complete) = self.traces.values().find(|spans| is_complete(spans)) {
                return complete.clone();
            }
            let left = until.saturating_duration_since(Instant::now());
            let message = self.received.recv_timeout(left).unwrap_or_else(|_| {
                let names: Vec<Vec<&String>> = self.traces.values().map(|spans| spans.keys().collect()).collect();
                panic!("no trace is complete: {names:?}")
            });
            for resource in message.resource_spans {
                let service = attribute(&resource.resource.unwrap().attributes, "service.name");
                assert_eq!(service.as_deref(), Some("canopy-controller"));
                for span in resource.scope_spans.into_iter().flat_map(|scope| scope.spans) {
                    let known = self.traces.entry(span.trace_id.clone()).or_default();
                    let twice = known.insert(span.name.clone(), span);
                    assert!(twice.is_none(), "a part of a request has two spans: {twice:?}");
                }
            }
        }
    }
}

/// A text attribute.
pub fn attribute(all: &[KeyValue], key: &str) -> Option<String> {
    match all.iter().find(|a| a.key == key)?.value.as_ref()?.value.as_ref()? {
        Value::StringValue(text) => Some(text.clone()),
        _ => None,
    }
}

/// Checks that the spans are what a change does at these nodes: one tree under the request named `request`, each part once, in the order
/// of time.
pub fn check_change(spans: &BTreeMap<String, Span>, request: &str, nodes: &[&str]) {
    let root = &spans[request];
    let parts = nodes.iter().flat_map(|node| ["push", "apply", "read back"].map(|what| format!("{what} {node}")));
    let mut wanted: Vec<String> =
        [request, "wait", "plan", "store"].into_iter().map(str::to_owned).chain(parts).collect();
    wanted.sort();
    assert_eq!(spans.keys().cloned().collect::<Vec<_>>(), wanted);
    assert_eq!(root.kind, 2, "a server's span: {root:?}");
    for span in spans.values().filter(|span| span.name != request) {
        assert_eq!(span.parent_span_id, root.span_id, "{}", span.name);
        assert!(span.start_time_unix_nano <= span.end_time_unix_nano, "{span:?}");
        assert_ne!(span.span_id, root.span_id);
    }
    let at = |name: &str| (spans[name].start_time_unix_nano, spans[name].end_time_unix_nano);
    assert!(root.start_time_unix_nano <= at("wait").0 && at("store").1 <= root.end_time_unix_nano);
    assert!(at("wait").1 <= at("plan").1 && at("plan").1 <= at("store").1);
    for node in nodes {
        let [push, apply, read_back] = ["push", "apply", "read back"].map(|what| at(&format!("{what} {node}")));
        assert!(at("store").1 <= push.0 && at("store").1 <= apply.0, "{node}: nothing is sent before it is durable");
        assert_eq!(apply.1, read_back.0, "{node}: one follows the other");
        let named = attribute(&spans[&format!("apply {node}")].attributes, "canopy.node");
        assert_eq!(named.as_deref(), Some(*node));
    }
}
