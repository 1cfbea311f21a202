// SPDX-License-Identifier: Apache-2.0
//! `/metrics` of the agent: what the kernel counts at this node. The controller has what it alone knows, and no family is on both.
//!
//! The event loop hands over what it samples for telemetry anyway, once per `telemetry_interval`; a scrape shows the last sample and its
//! age, reads nothing from the kernel, and holds up nothing. No family has a label for the node: Prometheus adds it from service discovery
//! (`/api/v1/prometheus/targets` of the controller).

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use canopy_agent_link::{Session, TelemetryQueue};
use canopy_control::HeldSpec;
use canopy_identity::Credentials;
use canopy_metrics::{Bound, Description, Family, Kind, Page, Source};
use canopy_model::telemetry::{DropCount, LinkLoss, LinkRtt};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::ledger::Ledger;
use groups::{GroupRows, Groups};
use ports::Ports;

mod groups;
mod ports;

/// Series in one scrape, at most.
pub const BOUND: Bound = Bound { most: 20_000, left_out: &LEFT_OUT };

/// Time between attempts to listen.
const RETRY: Duration = Duration::from_secs(5);

static LEFT_OUT: Family<0> =
    Family::gauge("canopy_agent_series_left_out", "Series beyond the 20,000 that one scrape shows.", []);
static BUILD: Family<2> = Family::new(Kind::Info, "canopy_agent_build", "Versions.", ["version", "kernel"]);
static SESSION: Family<0> =
    Family::gauge("canopy_agent_session_up", "1 while the agent receives its configuration from a controller.", []);
static SAMPLE_AGE: Family<0> =
    Family::gauge("canopy_agent_sample_age_seconds", "Age of the sample that this scrape shows.", []);
static SAMPLE_TIME: Family<0> =
    Family::gauge("canopy_agent_sample_duration_seconds", "Time that the sample took to read from the kernel.", []);
static SAMPLE_FAILURES: Family<0> =
    Family::counter("canopy_agent_sample_failures", "Samples that could not be read from the kernel.", []);
static DROPPED: Family<0> = Family::counter(
    "canopy_agent_telemetry_dropped",
    "Samples and events that were dropped because the controller did not take them.",
    [],
);
static LINES_LEFT_OUT: Family<0> = Family::counter(
    "canopy_agent_log_lines_left_out",
    "Log lines that `log.endpoint` of the agent did not take in time; standard error has them.",
    [],
);
static CERTIFICATE: Family<0> = Family::gauge(
    "canopy_agent_certificate_expiry_timestamp_seconds",
    "When the agent's certificate ends, seconds since 1970; renewed at half of its life. Absent without one.",
    [],
);
static LEDGER_BYTES: Family<0> = Family::gauge("canopy_ledger_size_bytes", "Size of the ledger's log.", []);
static LEDGER_TERM: Family<0> = Family::gauge("canopy_ledger_term", "Term of the configuration in the ledger.", []);
static LEDGER_GENERATION: Family<0> =
    Family::gauge("canopy_ledger_generation", "Generation of the configuration in the ledger.", []);
static DROPS: Family<3> = Family::counter(
    "canopy_drops",
    "Packets dropped, by reason; an empty group means that the packet belongs to no group. The port is that of arrival, for drops at the boundary of the domain and of packets to path SIDs, and else empty. Of `event_lost` and `flow_uncounted` no packet is dropped, and the port is that of departure.",
    ["group", "port", "reason"],
);

/// Every family of the agent.
pub fn families() -> Vec<Description> {
    let own =
        [&LEFT_OUT, &SESSION, &SAMPLE_AGE, &SAMPLE_TIME, &SAMPLE_FAILURES, &DROPPED, &LINES_LEFT_OUT, &CERTIFICATE];
    let ledger = [&LEDGER_BYTES, &LEDGER_TERM, &LEDGER_GENERATION];
    let mut all = vec![BUILD.describe(), DROPS.describe()];
    all.extend(own.iter().chain(&ledger).map(|family| family.describe()));
    all.extend(groups::families());
    all.extend(ports::families());
    all
}

/// What the event loop hands over, and what scrapes show of it. Clones share one.
#[derive(Clone, Default)]
pub struct Exporter {
    shared: Arc<Mutex<Shared>>,
}

/// What one sample has for metrics.
pub(crate) struct Sampled<'a> {
    pub(crate) spec: &'a HeldSpec,
    pub(crate) sample: &'a canopy_agent_core::Sample,
    pub(crate) rtts: &'a [LinkRtt],
    pub(crate) losses: &'a [LinkLoss],
    pub(crate) took: Duration,
}

#[derive(Default)]
struct Shared {
    groups: Groups,
    ports: Ports,
    last: Option<Arc<Last>>,
    failures: u64,
}

/// The last sample, as scrapes show it.
struct Last {
    at: Instant,
    took: Duration,
    groups: GroupRows,
    ports: Ports,
    drops: Vec<DropCount>,
}

impl Exporter {
    pub(crate) fn sampled(&self, sampled: &Sampled<'_>, now: Instant) {
        let spec = sampled.spec.spec();
        let mut shared = self.lock();
        shared.groups.update(&sampled.sample.groups);
        shared.ports.update(&spec.base.ports, sampled.sample, sampled.rtts, sampled.losses);
        let last = Last {
            at: now,
            took: sampled.took,
            groups: shared.groups.rows(&sampled.sample.groups, spec),
            ports: shared.ports.clone(),
            drops: sampled.sample.node_drops.clone(),
        };
        shared.last = Some(Arc::new(last));
    }

    pub(crate) fn failed(&self) {
        self.lock().failures += 1;
    }

    /// Serves scrapes at `address` until dropped. An address that cannot be bound, because it is not there yet, is tried again: forwarding
    /// does not wait for metrics.
    pub async fn serve(self, address: SocketAddr, about: About) {
        let about = Arc::new(about);
        let listener = loop {
            match TcpListener::bind(address).await {
                Ok(listener) => break listener,
                Err(error) => {
                    tracing::error!(%address, %error, retry_in = ?RETRY, "metrics.listen: cannot serve metrics");
                    tokio::time::sleep(RETRY).await;
                }
            }
        };
        tracing::info!(%address, "serving metrics");
        let prepare = move || std::future::ready(Some(self.scrape(&about)));
        canopy_metrics::server::serve(listener, BOUND, prepare).await;
    }

    /// What a scrape shows now.
    pub fn scrape(&self, about: &Arc<About>) -> impl Source + use<> {
        let shared = self.lock();
        Scrape { about: Arc::clone(about), last: shared.last.clone(), failures: shared.failures, now: Instant::now() }
    }

    /// Nothing panics while the lock is held, so what is behind a poisoned one is whole.
    fn lock(&self) -> std::sync::MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a scrape shows beside samples.
pub struct About {
    /// Version of the agent.
    pub version: String,
    /// Kernel release.
    pub kernel: String,
    /// The ledger.
    pub ledger: Arc<Ledger>,
    /// The newest configuration.
    pub specs: watch::Receiver<Option<Arc<HeldSpec>>>,
    /// The connection to the controller.
    pub session: watch::Receiver<Session>,
    /// What waits for the controller.
    pub telemetry: TelemetryQueue,
    /// Directory of the agent's certificate.
    pub identity: PathBuf,
}

struct Scrape {
    about: Arc<About>,
    last: Option<Arc<Last>>,
    failures: u64,
    now: Instant,
}

impl Source for Scrape {
    fn scrape(&self, page: &mut Page<'_>) -> std::fmt::Result {
        let About { version, kernel, ledger, specs, session, telemetry, identity } = &*self.about;
        page.write(&BUILD, [([version.as_str(), kernel], 1)])?;
        page.one(&SESSION, u64::from(session.borrow().up))?;
        page.one(&DROPPED, telemetry.dropped())?;
        page.one(&LINES_LEFT_OUT, canopy_daemon::log::left_out())?;
        page.one(&SAMPLE_FAILURES, self.failures)?;
        let certificate = Credentials::certificate(identity);
        page.write(&CERTIFICATE, certificate.map(|own| ([], own.not_after.nanos() / 1_000_000_000)))?;
        page.write(&LEDGER_BYTES, ledger.octets().map(|octets| ([], octets)))?;
        let name = specs.borrow().as_ref().map(|held| (held.spec().term, held.spec().generation));
        page.write(&LEDGER_TERM, name.map(|(term, _)| ([], term)))?;
        page.write(&LEDGER_GENERATION, name.map(|(_, generation)| ([], generation)))?;
        let Some(last) = &self.last else { return Ok(()) };
        page.one(&SAMPLE_AGE, self.now.duration_since(last.at).as_secs_f64())?;
        page.one(&SAMPLE_TIME, last.took.as_secs_f64())?;
        last.ports.write(page)?;
        last.groups.write(page)?;
        let of_node =
            last.drops.iter().map(|d| (["", d.port.as_deref().unwrap_or_default(), d.name.as_str()], d.packets));
        page.write(&DROPS, of_node.chain(last.groups.drops()))?;
        last.groups.write_branches(page)
    }
}
