// SPDX-License-Identifier: Apache-2.0
//! An OpenTelemetry collector behind a real socket (OTLP over gRPC), in a thread of its own.

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use opentelemetry_proto::tonic::collector::logs::v1::logs_service_server::{LogsService, LogsServiceServer};
use opentelemetry_proto::tonic::collector::logs::v1::{ExportLogsServiceRequest, ExportLogsServiceResponse};
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{TraceService, TraceServiceServer};
use opentelemetry_proto::tonic::collector::trace::v1::{ExportTraceServiceRequest, ExportTraceServiceResponse};
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
pub use opentelemetry_proto::tonic::logs::v1::LogRecord;
pub use opentelemetry_proto::tonic::trace::v1::Span;
use tokio::sync::oneshot;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::{Request, Response, Status};

/// A collector that runs until it is dropped.
pub struct Collector {
    endpoint: String,
    received: mpsc::Receiver<ExportTraceServiceRequest>,
    logs: mpsc::Receiver<ExportLogsServiceRequest>,
    /// Spans that have arrived, by trace and by name.
    traces: BTreeMap<Vec<u8>, BTreeMap<String, Span>>,
    _stop: oneshot::Sender<()>,
}

struct Service<T> {
    received: mpsc::Sender<T>,
    is_stalled: bool,
}

impl<T> Service<T> {
    async fn take(&self, message: T) {
        _ = self.received.send(message);
        if self.is_stalled {
            std::future::pending::<()>().await;
        }
    }
}

#[tonic::async_trait]
impl TraceService for Service<ExportTraceServiceRequest> {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        self.take(request.into_inner()).await;
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

#[tonic::async_trait]
impl LogsService for Service<ExportLogsServiceRequest> {
    async fn export(
        &self,
        request: Request<ExportLogsServiceRequest>,
    ) -> Result<Response<ExportLogsServiceResponse>, Status> {
        self.take(request.into_inner()).await;
        Ok(Response::new(ExportLogsServiceResponse::default()))
    }
}

/// A log line as it has arrived, with who sent it.
#[derive(Clone, Debug)]
pub struct Line {
    /// `service.name`, `service.version` and `service.instance.id` of the sender.
    pub service: [Option<String>; 3],
    /// Module that logged it.
    pub target: String,
    /// The line.
    pub record: LogRecord,
}

impl Line {
    /// Its message.
    pub fn message(&self) -> String {
        match self.record.body.as_ref().and_then(|body| body.value.as_ref()) {
            Some(Value::StringValue(text)) => text.clone(),
            other => panic!("a line has a text: {other:?}"),
        }
    }
}

impl Collector {
    /// On a free port of loopback; one that is stalled receives and never answers.
    pub fn start(is_stalled: bool) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        listener.set_nonblocking(true).unwrap();
        let (sender, received) = mpsc::channel();
        let (of_lines, logs) = mpsc::channel();
        let (stop, stopped) = oneshot::channel();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let incoming = TcpListenerStream::new(tokio::net::TcpListener::from_std(listener).unwrap());
                let service = TraceServiceServer::new(Service { received: sender, is_stalled });
                let lines = LogsServiceServer::new(Service { received: of_lines, is_stalled });
                let server = tonic::transport::Server::builder().add_service(service).add_service(lines);
                let serving = server.serve_with_incoming(incoming);
                tokio::select! {
                    served = serving => served.unwrap(),
                    _ = stopped => {}
                }
            });
        });
        Self { endpoint, received, logs, traces: BTreeMap::new(), _stop: stop }
    }

    /// Its URL.
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// The log lines that arrive until one `is_last`, it included.
    pub fn lines(&self, deadline: Duration, is_last: impl Fn(&Line) -> bool) -> Vec<Line> {
        let until = Instant::now() + deadline;
        let mut all: Vec<Line> = Vec::new();
        while !all.iter().any(&is_last) {
            let left = until.saturating_duration_since(Instant::now());
            let message =
                self.logs.recv_timeout(left).unwrap_or_else(|_| panic!("that line has not arrived: {all:#?}"));
            for resource in message.resource_logs {
                let attributes = resource.resource.unwrap().attributes;
                let of = |key| attribute(&attributes, key);
                let service = [of("service.name"), of("service.version"), of("service.instance.id")];
                let lines = resource.scope_logs.into_iter().flat_map(|scope| {
                    let target = scope.scope.unwrap_or_default().name;
                    scope.log_records.into_iter().map(move |record| (target.clone(), record))
                });
                all.extend(lines.map(|(target, record)| Line { service: service.clone(), target, record }));
            }
        }
        all
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
