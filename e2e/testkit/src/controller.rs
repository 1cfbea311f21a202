// SPDX-License-Identifier: Apache-2.0
//! A controller driven by a test, behind a real gRPC server on a Unix socket.

use std::future::Future;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use canopy_control::pb;
use canopy_control::pb::node_service_server::{NodeService, NodeServiceServer};
use tokio::net::UnixListener;
use tokio::sync::{Mutex, mpsc};
use tokio_stream::wrappers::{ReceiverStream, UnixListenerStream};
use tonic::{Request, Response, Status, Streaming};

/// Everything that happens in these tests happens well within this.
pub async fn soon<F: Future>(what: &str, future: F) -> F::Output {
    match tokio::time::timeout(Duration::from_secs(60), future).await {
        Ok(output) => output,
        Err(_) => panic!("{what} did not happen"),
    }
}

/// One Watch call: what the agent asked, and where the answers go. Dropping it ends the stream.
pub struct Watch {
    /// What the agent asked.
    pub request: pb::WatchRequest,
    updates: mpsc::Sender<Result<pb::WatchResponse, Status>>,
}

impl Watch {
    /// Answers.
    pub async fn send(&self, update: pb::WatchResponse) {
        self.updates.send(Ok(update)).await.unwrap();
    }
}

/// The test's hold on its controller; dropping it is a crash.
pub struct Controller {
    runtime: Option<tokio::runtime::Runtime>,
    watches: mpsc::UnboundedReceiver<Watch>,
    /// Reports that the agent sent.
    pub reports: mpsc::UnboundedReceiver<pb::ReportRequest>,
    /// Telemetry that the agent sent.
    pub telemetry: mpsc::UnboundedReceiver<pb::StreamTelemetryRequest>,
    service: Arc<Service>,
}

struct Service {
    watches: mpsc::UnboundedSender<Watch>,
    reports: mpsc::UnboundedSender<pb::ReportRequest>,
    telemetry: mpsc::UnboundedSender<pb::StreamTelemetryRequest>,
    refuse_reports: AtomicU32,
    read_telemetry: AtomicBool,
    stalled: Mutex<Vec<Streaming<pb::StreamTelemetryRequest>>>,
}

impl Controller {
    /// Serves at `path`, in a runtime of its own so that a crash takes everything with it.
    pub fn start(path: &Path) -> Self {
        let _ = std::fs::remove_file(path);
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let (watches, watches_rx) = mpsc::unbounded_channel();
        let (reports, reports_rx) = mpsc::unbounded_channel();
        let (telemetry, telemetry_rx) = mpsc::unbounded_channel();
        let service = Arc::new(Service {
            watches,
            reports,
            telemetry,
            refuse_reports: AtomicU32::new(0),
            read_telemetry: AtomicBool::new(true),
            stalled: Mutex::new(vec![]),
        });
        let incoming = {
            let _context = runtime.enter();
            UnixListenerStream::new(UnixListener::bind(path).unwrap())
        };
        let server = NodeServiceServer::from_arc(Arc::clone(&service));
        runtime.spawn(tonic::transport::Server::builder().add_service(server).serve_with_incoming(incoming));
        Self { runtime: Some(runtime), watches: watches_rx, reports: reports_rx, telemetry: telemetry_rx, service }
    }

    /// The next Watch call.
    pub async fn watch(&mut self) -> Watch {
        soon("a Watch", self.watches.recv()).await.unwrap()
    }

    /// The next report.
    pub async fn report(&mut self) -> pb::ReportRequest {
        soon("a Report", self.reports.recv()).await.unwrap()
    }

    /// The first report that has `observed_generation`.
    pub async fn report_of(&mut self, generation: u64) -> pb::ReportRequest {
        loop {
            let report = self.report().await;
            if report.observed_generation == generation {
                return report;
            }
        }
    }

    /// The next telemetry message.
    pub async fn sample(&mut self) -> pb::StreamTelemetryRequest {
        soon("a telemetry message", self.telemetry.recv()).await.unwrap()
    }

    /// Refuses the next `count` reports.
    pub fn refuse_reports(&self, count: u32) {
        self.service.refuse_reports.store(count, Ordering::SeqCst);
    }

    /// Refusals not yet used up.
    pub fn reports_to_refuse(&self) -> u32 {
        self.service.refuse_reports.load(Ordering::SeqCst)
    }

    /// Accepts telemetry streams but reads nothing from them.
    pub fn stall_telemetry(&self) {
        self.service.read_telemetry.store(false, Ordering::SeqCst);
    }
}

impl Drop for Controller {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

#[tonic::async_trait]
impl NodeService for Service {
    type WatchStream = ReceiverStream<Result<pb::WatchResponse, Status>>;

    async fn watch(&self, request: Request<pb::WatchRequest>) -> Result<Response<Self::WatchStream>, Status> {
        let (updates, stream) = mpsc::channel(16);
        let watch = Watch { request: request.into_inner(), updates };
        self.watches.send(watch).map_err(|_| Status::unavailable("the test has ended"))?;
        Ok(Response::new(ReceiverStream::new(stream)))
    }

    async fn report(&self, request: Request<pb::ReportRequest>) -> Result<Response<pb::ReportResponse>, Status> {
        let one_less = |left: u32| left.checked_sub(1);
        if self.refuse_reports.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less).is_ok() {
            return Err(Status::unavailable("the test refuses reports"));
        }
        self.reports.send(request.into_inner()).map_err(|_| Status::unavailable("the test has ended"))?;
        Ok(Response::new(pb::ReportResponse {}))
    }

    async fn stream_telemetry(
        &self,
        request: Request<Streaming<pb::StreamTelemetryRequest>>,
    ) -> Result<Response<pb::StreamTelemetryResponse>, Status> {
        let mut stream = request.into_inner();
        if !self.read_telemetry.load(Ordering::SeqCst) {
            self.stalled.lock().await.push(stream);
            std::future::pending::<()>().await;
            unreachable!("pending never completes");
        }
        while let Some(message) = stream.message().await? {
            let _ = self.telemetry.send(message);
        }
        Ok(Response::new(pb::StreamTelemetryResponse {}))
    }
}
