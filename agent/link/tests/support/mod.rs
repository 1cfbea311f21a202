// SPDX-License-Identifier: Apache-2.0
//! A controller driven by a test, behind a real gRPC server on a Unix socket; and specs.

#![allow(dead_code, unreachable_pub, missing_docs, clippy::unwrap_used, reason = "shared by several test binaries")]

use std::collections::BTreeMap;
use std::future::Future;
use std::net::Ipv6Addr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use canopy_control::pb;
use canopy_control::pb::node_service_server::{NodeService, NodeServiceServer};
use canopy_control::{HeldSpec, Items, delta_response, snapshot_responses};
use canopy_model::ids::{GroupId, NodeId, PortIndex, Psn, Qpn, TreeId};
use canopy_model::node_spec::*;
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
    pub request: pb::WatchRequest,
    updates: mpsc::Sender<Result<pb::WatchResponse, Status>>,
}

impl Watch {
    pub async fn send(&self, update: pb::WatchResponse) {
        self.updates.send(Ok(update)).await.unwrap();
    }
}

/// The test's hold on its controller; dropping it is a crash.
pub struct Controller {
    runtime: Option<tokio::runtime::Runtime>,
    watches: mpsc::UnboundedReceiver<Watch>,
    pub reports: mpsc::UnboundedReceiver<pb::ReportRequest>,
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

    pub async fn watch(&mut self) -> Watch {
        soon("a Watch", self.watches.recv()).await.unwrap()
    }

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

    pub async fn sample(&mut self) -> pb::StreamTelemetryRequest {
        soon("a telemetry message", self.telemetry.recv()).await.unwrap()
    }

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

/// The only page of a snapshot of `spec`.
pub fn snapshot(spec: &NodeSpec) -> pb::WatchResponse {
    snapshot_responses(&HeldSpec::encode(spec.clone())).remove(0)
}

/// The delta from the content of `from` to `to`.
pub fn delta(from: &NodeSpec, to: &NodeSpec) -> pb::WatchResponse {
    delta_response((to.term, to.generation), &Items::encode(from), &Items::encode(to))
}

/// A spec for `leaf-1` with the given groups.
pub fn spec(term: u64, generation: u64, groups: &[u64]) -> NodeSpec {
    let programs = groups.iter().map(|id| program(*id));
    NodeSpec {
        term,
        generation,
        base: base("leaf-1"),
        groups: programs.map(|p| (p.group_id, p)).collect::<BTreeMap<_, _>>(),
    }
}

fn base(name: &str) -> NodeBase {
    let link = |n: u16| Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, n);
    let host = Peer::Host {
        name: "h1".into(),
        prefix: "2001:db8:1::/64".parse().unwrap(),
        address: "2001:db8:1::2".parse().unwrap(),
        gateway: "2001:db8:1::1".parse().unwrap(),
    };
    let spine = Peer::Node { name: "spine-1".into(), link_local: link(2) };
    NodeBase {
        name: name.into(),
        node_id: NodeId::new("id", 1).unwrap(),
        node_address: "fcff:0:0:1::1".parse().unwrap(),
        un: "5f00:0:1::/48".parse().unwrap(),
        end_mt: "5f00:0:1:f001::".parse().unwrap(),
        ports: vec![
            Port { index: port(1), name: "eth1".into(), mtu: 9000, link_local: link(1), peer: spine, thresholds: None },
            Port { index: port(2), name: "eth2".into(), mtu: 4500, link_local: link(3), peer: host, thresholds: None },
        ],
        routes: vec![Route { prefix: "5f00:0:2::/48".parse().unwrap(), port: port(1), next_hop: link(2) }],
    }
}

fn port(index: u64) -> PortIndex {
    PortIndex::new("port", index).unwrap()
}

fn program(id: u64) -> GroupProgram {
    let receiver = "2001:db8:1::2".parse().unwrap();
    let qpn = |n| Qpn::new("qpn", n).unwrap();
    GroupProgram {
        group_id: GroupId::new("id", id).unwrap(),
        name: format!("g{id}"),
        epoch: 1,
        tree_id: TreeId::new("tree", id).unwrap(),
        proxy: Ipv6Addr::new(0xfcfe, 0, 0, 0, 0, 0, 0, 1),
        designated_qpn: qpn(0x8000 + id),
        start_psn: Psn::new("psn", 100).unwrap(),
        source: SourceQp { address: "2001:db8:9::2".parse().unwrap(), qpn: qpn(0x11), accepts_roce: false },
        replication_sid: None,
        multicast: None,
        headend: None,
        upstream: Upstream {
            source_address: "fcff:0:0:1::1".parse().unwrap(),
            destination: "fcff:0:0:2::1".parse().unwrap(),
            dest_qp: qpn(0x8000 + id),
            port: port(1),
            next_hop: "fe80::2".parse().unwrap(),
        },
        alternate_upstream: None,
        branches: vec![Branch {
            address: receiver,
            port: port(2),
            next_hop: receiver,
            kind: BranchKind::Receiver { qpn: qpn(0x21), memory: None },
            at_boundary: false,
            since: 1,
            standby: false,
        }],
        receivers_provisioned: true,
        write_base_va: 0,
        write_rkey: 0,
        params: AggregationParams::default(),
    }
}
