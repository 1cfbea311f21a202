// SPDX-License-Identifier: Apache-2.0
//! A datapath in memory, and an agent around it.

#![allow(dead_code, unreachable_pub, missing_docs, clippy::unwrap_used, reason = "shared by several test binaries")]

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use canopy_agent_core::reach::{HostProber, HostTarget};
use canopy_agent_core::{Datapath, DatapathError, DatapathEvent, Sample, Scope};
use canopy_agent_link::Link;
use canopy_agent_runtime::ledger::Ledger;
use canopy_agent_runtime::metrics::{About, BOUND, Exporter};
use canopy_agent_runtime::{Ended, LinkGone, Parts, run};
use canopy_control::HeldSpec;
use canopy_daemon::notify::Notifier;
use canopy_metrics::format::Format;
use canopy_model::capture::CaptureOrder;
use canopy_model::congestion::{CnpCounts, FlowOrigin, FlowTelemetry, PortCongestion, QueueTelemetry};
use canopy_model::ids::{GroupId, PortIndex, Qpn};
use canopy_model::node_spec::NodeSpec;
use canopy_model::reach::{EchoTally, HostReach};
use canopy_model::status::{ItemError, ItemKind};
use canopy_model::telemetry::{BranchTelemetry, DropCount, GroupTelemetry};
use canopy_units::{Octets, Rate, UnwrappedPsn};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// One call of `reconcile`.
#[derive(Debug)]
pub struct Reconcile {
    pub at: Instant,
    pub spec: NodeSpec,
    /// What the ledger file held at that moment.
    pub ledger: Option<Vec<u8>>,
}

/// The test's hold on the datapath.
pub struct Kernel {
    pub reconciles: mpsc::UnboundedReceiver<Reconcile>,
    pub events: mpsc::UnboundedSender<DatapathEvent>,
    /// Answers of the next reconciles; none left = as desired.
    pub errors: Arc<Mutex<VecDeque<Vec<ItemError>>>>,
    /// The groups of every sample from now on; their data counters grow by one with each.
    pub groups: Arc<Mutex<Vec<GroupTelemetry>>>,
    /// The kernel does not list its queues.
    pub queues_fail: Arc<AtomicBool>,
    /// Hosts that were probed: every one answers small requests only.
    pub probed: mpsc::UnboundedReceiver<HostTarget>,
    /// What is captured from then on.
    pub captures: mpsc::UnboundedReceiver<Option<CaptureOrder>>,
}

/// Hosts with an MTU of 1280.
struct SmallHosts {
    probed: mpsc::UnboundedSender<HostTarget>,
    found: VecDeque<HostTarget>,
}

impl HostProber for SmallHosts {
    fn probe(&mut self, target: HostTarget) {
        let _ = self.probed.send(target.clone());
        self.found.push_back(target);
    }

    fn found(&mut self) -> Pin<Box<dyn Future<Output = (HostTarget, Option<HostReach>)> + Send + '_>> {
        Box::pin(async {
            let Some(target) = self.found.pop_front() else { return std::future::pending().await };
            let tally = |bytes, requests, replies| EchoTally { bytes, requests, replies };
            let reach = HostReach::new(tally(64, 1, 1), tally(target.large, 2, 0)).unwrap();
            (target, Some(reach))
        })
    }
}

struct Memory {
    ledger: PathBuf,
    reconciles: mpsc::UnboundedSender<Reconcile>,
    events: mpsc::UnboundedReceiver<DatapathEvent>,
    errors: Arc<Mutex<VecDeque<Vec<ItemError>>>>,
    groups: Arc<Mutex<Vec<GroupTelemetry>>>,
    queues_fail: Arc<AtomicBool>,
    captures: mpsc::UnboundedSender<Option<CaptureOrder>>,
    /// Groups of the last reconcile: others cannot be captured.
    configured: BTreeSet<GroupId>,
}

impl Datapath for Memory {
    async fn follow(&mut self, spec: &NodeSpec, _: Scope) -> Vec<ItemError> {
        let ledger = std::fs::read(&self.ledger).ok();
        self.configured = spec.groups.keys().copied().collect();
        let _ = self.reconciles.send(Reconcile { at: Instant::now(), spec: spec.clone(), ledger });
        self.errors.lock().unwrap().pop_front().unwrap_or_default()
    }

    async fn sample(&mut self) -> Result<Sample, DatapathError> {
        let drop = DropCount { reason: 3, name: "branch_unknown".into(), packets: 4, port: None };
        let mut groups = self.groups.lock().unwrap();
        groups.iter_mut().for_each(|g| g.data_packets += 1);
        Ok(Sample { groups: groups.clone(), node_drops: vec![drop], congestion: vec![queue()], ..Sample::default() })
    }

    fn queue_drops(&mut self) -> Result<BTreeMap<String, u64>, DatapathError> {
        if self.queues_fail.load(Relaxed) {
            return Err(DatapathError { doing: "reading the queues".into(), source: "no memory".into() });
        }
        Ok(BTreeMap::new())
    }

    fn capture(&mut self, order: Option<&CaptureOrder>) -> Result<(), DatapathError> {
        if order.is_some_and(|order| !self.configured.contains(&order.group)) {
            return Err(DatapathError { doing: "arming".into(), source: "no such group".into() });
        }
        self.captures.send(order.copied()).map_err(|e| DatapathError { doing: "arming".into(), source: Box::new(e) })
    }

    async fn next_event(&mut self) -> DatapathEvent {
        match self.events.recv().await {
            Some(event) => event,
            None => std::future::pending().await,
        }
    }
}

/// A port with a queue and a flow.
pub fn queue() -> PortCongestion {
    let qp = |n| Qpn::new("qp", n).unwrap();
    let flow = FlowTelemetry {
        src: "2001:db8::1".parse().unwrap(),
        dst: "2001:db8::2".parse().unwrap(),
        dst_qp: qp(18),
        src_qp: Some(qp(17)),
        origin: FlowOrigin::Learned,
        packets: 1,
        octets: Octets(2),
        ce: 1,
        rate: Rate::from_bps(16),
        share_permille: 1_000,
        counts: CnpCounts { unknown_source_qp: 3, ..CnpCounts::default() },
    };
    let queue = QueueTelemetry { queue: Octets(7_000), level: 20, counts: flow.counts, ..QueueTelemetry::default() };
    PortCongestion { port: PortIndex::new("port", 2).unwrap(), queue, flows: vec![flow] }
}

/// A running event loop for `leaf-1`.
pub struct Agent {
    pub kernel: Kernel,
    stop: oneshot::Sender<()>,
    task: JoinHandle<Result<Ended, LinkGone>>,
    exporter: Exporter,
    about: Arc<About>,
}

/// Where Prometheus finds the agent's metrics.
pub const METRICS_ADDRESS: &str = "leaf-1.example:9464";

impl Agent {
    /// Starts the loop on `state_dir`; `link` makes the line to the controller from what the ledger holds.
    pub fn start(state_dir: &Path, notifier: Notifier, link: impl FnOnce(Option<Arc<HeldSpec>>) -> Link) -> Self {
        let ledger = Ledger::open(state_dir).unwrap();
        let known = ledger.load("leaf-1").unwrap().map(Arc::new);
        let (reconciles, reconciles_rx) = mpsc::unbounded_channel();
        let (events, events_rx) = mpsc::unbounded_channel();
        let (captures_tx, captures) = mpsc::unbounded_channel();
        let (probed_tx, probed) = mpsc::unbounded_channel();
        let (errors, groups, queues_fail) = (Arc::default(), Arc::default(), Arc::default());
        let datapath = Memory {
            ledger: state_dir.join("spec.log"),
            reconciles,
            events: events_rx,
            errors: Arc::clone(&errors),
            groups: Arc::clone(&groups),
            queues_fail: Arc::clone(&queues_fail),
            captures: captures_tx,
            configured: BTreeSet::new(),
        };
        let exporter = Exporter::default();
        let parts = Parts {
            prober: Box::new(canopy_agent_core::stamp::NoProber),
            host_prober: Box::new(SmallHosts { probed: probed_tx, found: VecDeque::new() }),
            node: "leaf-1".into(),
            kernel: "6.8.0".into(),
            agent_version: "0.1.0".into(),
            datapath,
            link: link(known.clone()),
            ledger: Arc::new(ledger),
            known,
            clock: Box::new(|| canopy_units::UnixTime::from_nanos(1_700_000_000_000_000_000)),
            notifier,
            telemetry_interval: Duration::from_secs(1),
            metrics: Some((exporter.clone(), METRICS_ADDRESS.to_owned())),
        };
        let about = About {
            version: parts.agent_version.clone(),
            kernel: parts.kernel.clone(),
            ledger: Arc::clone(&parts.ledger),
            specs: parts.link.specs.clone(),
            session: parts.link.session.clone(),
            telemetry: parts.link.telemetry.clone(),
            identity: std::path::PathBuf::new(),
        };
        let (stop, stopped) = oneshot::channel::<()>();
        let task = tokio::spawn(run(parts, async {
            let _ = stopped.await;
        }));
        Self {
            kernel: Kernel { reconciles: reconciles_rx, events, errors, groups, queues_fail, probed, captures },
            stop,
            task,
            exporter,
            about: Arc::new(about),
        }
    }

    /// What Prometheus would get now, as text.
    pub fn metrics(&self) -> String {
        Format::Text.write(self.exporter.scrape(&self.about), BOUND).unwrap()
    }

    /// What SIGTERM does; afterwards `state_dir` is free.
    pub async fn stop(self) {
        self.stop.send(()).unwrap();
        assert_eq!(self.task.await.unwrap().unwrap(), Ended::Stopped);
    }

    /// Waits until it ends by itself.
    #[allow(dead_code, reason = "not every test of this module lets a node leave")]
    pub async fn ended(self) -> Ended {
        self.task.await.unwrap().unwrap()
    }
}

/// Group 1 with the one receiver that `spec` gives it.
pub fn group(high: u64, next: u64) -> GroupTelemetry {
    let branch = BranchTelemetry {
        address: "2001:db8:1::2".parse().unwrap(),
        next: Some(UnwrappedPsn(next)),
        unconfirmed: false,
        ack_psn: None,
        epsn: None,
        fatal: None,
        late: None,
        start: None,
        ccount: 0,
        last_feedback: None,
        packets: 0,
        octets: Octets::ZERO,
        completed_min: None,
    };
    GroupTelemetry {
        group_id: GroupId::new("group", 1).unwrap(),
        epoch: 1,
        high: UnwrappedPsn(high),
        min_next: Some(UnwrappedPsn(next)),
        acks_in: 0,
        acks_out: 0,
        naks_in: 0,
        naks_out: 0,
        cnps_in: 0,
        cnps_out: 0,
        data_packets: 0,
        fresh_packets: None,
        data_octets: Octets::ZERO,
        branches: vec![branch],
        drops: vec![],
    }
}

pub fn error(name: &str) -> ItemError {
    ItemError { kind: ItemKind::Port, name: name.into(), group: None, detail: "is down".into() }
}
