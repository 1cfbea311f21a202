// SPDX-License-Identifier: Apache-2.0
//! The agent's line to its controller: gRPC on one side, channels on the other.
//!
//! [`channels`] makes the two ends. The event loop keeps [`Link`]; [`Worker::run`] is spawned with connections to the
//! controller ([`Target::channels`]) and a source of randomness, and ends when the [`Link`] is dropped. Between them:
//!
//! - `specs`: `watch`, the newest accepted [`HeldSpec`]; it changes with its term, generation or digest only.
//! - `refusal`: `watch`, why the controller's last update was not accepted; `None` once one is.
//! - `captures`: `watch`, the packet to capture that the controller named last; `log_levels`, the filter of log lines.
//! - `clean_up`: `watch`, the order to leave for good.
//! - `session`: `watch`, whether a Watch stream is open and how many have been; a new one means (re)connected.
//! - `status`: `watch` the other way, the newest [`NodeStatus`]; reported when it changes and on every session.
//! - `announced`: `watch`, whether the controller knows that this agent ends.
//! - `telemetry`: a small queue that drops its oldest, so that telemetry never holds up forwarding.
//!
//! Nothing here gives up: every failure is followed by a jittered, bounded back-off, for ever.

mod addresses;
mod answer;
mod attestation;
mod authorities;
mod backoff;
mod identity;
mod report;
mod target;
mod telemetry;
mod watch;

use std::sync::Arc;

use canopy_control::HeldSpec;
use canopy_model::capture::CaptureOrder;
use canopy_model::log_level::LogOrder;
use canopy_model::retirement::CleanUpOrder;
use canopy_model::status::NodeStatus;
use tokio::sync::watch as state;
use tonic::transport::Channel;

pub use addresses::Address;
pub use attestation::{Attestation, Unusable};
pub use backoff::Backoff;
pub use identity::{IdentityError, enroll, reach, renew};
pub use target::{Target, TargetError};
pub use telemetry::{TelemetryQueue, TelemetrySample};

/// Largest Watch message accepted, bytes: a page of 1 MiB, or one program that is longer, and what surrounds it.
pub const MAX_SPEC_BYTES: usize = 16 << 20;

/// Largest message sent, bytes: the default limit of tonic's servers, 4 MiB.
pub const MAX_SENT_BYTES: usize = 4 << 20;

/// Uniform in `[0, 1)`; passed in so that a run can be replayed.
pub type Random = Arc<dyn Fn() -> f64 + Send + Sync>;

/// Why an update was refused; it stands until an update is accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// For a person: what was wrong with the update.
    pub detail: String,
}

/// The Watch streams, as others need to know of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Session {
    /// Streams opened since the start; 0 = never connected.
    pub opened: u64,
    /// The last of them is still open.
    pub up: bool,
    /// Minor version of the contract that both sides implement; 0 before the first update.
    pub minor_version: u32,
}

/// The event loop's end.
#[derive(Debug)]
pub struct Link {
    /// Newest accepted spec; starts as the ledger's.
    pub specs: state::Receiver<Option<Arc<HeldSpec>>>,
    /// Standing refusal, if any.
    pub refusal: state::Receiver<Option<Refusal>>,
    /// The newest packet to capture.
    pub captures: state::Receiver<Option<CaptureOrder>>,
    /// The newest filter of log lines.
    pub log_levels: state::Receiver<Option<LogOrder>>,
    /// The order to remove everything and to stay stopped.
    pub clean_up: state::Receiver<Option<CleanUpOrder>>,
    /// Whether a controller is there.
    pub session: state::Receiver<Session>,
    /// Where samples and events go.
    pub telemetry: TelemetryQueue,
    /// The controller has taken a status with `back_within`, or that nothing is left of what this agent programmed.
    pub announced: state::Receiver<bool>,
    status: state::Sender<Option<NodeStatus>>,
}

impl Link {
    /// The newest status that was offered.
    pub fn reported(&self) -> state::Receiver<Option<NodeStatus>> {
        self.status.subscribe()
    }

    /// Offers `status` to the controller: sent if it differs from the last, and again after every reconnect.
    pub fn report(&self, status: NodeStatus) {
        self.status.send_if_modified(|last| {
            let changed = last.as_ref() != Some(&status);
            if changed {
                *last = Some(status);
            }
            changed
        });
    }
}

/// Connections to one controller.
#[derive(Clone, Debug)]
pub struct Channels {
    /// For Watch and Report.
    pub control: Channel,
    /// For telemetry. Not the same connection: streams share their connection's flow-control window (RFC 9113,
    /// 5.2), so telemetry that the controller does not read would hold up reports.
    pub telemetry: Channel,
}

/// The controller's end, before it runs. Public fields let a test stand in for [`Worker::run`].
#[derive(Debug)]
pub struct Worker {
    /// Name of this node: what it watches, and the only name it accepts in a spec.
    pub node: String,
    /// Where accepted specs go.
    pub specs: state::Sender<Option<Arc<HeldSpec>>>,
    /// Where refusals go.
    pub refusal: state::Sender<Option<Refusal>>,
    /// Where packets to capture go.
    pub captures: state::Sender<Option<CaptureOrder>>,
    /// Where filters of log lines go.
    pub log_levels: state::Sender<Option<LogOrder>>,
    /// Where an order to clean up goes.
    pub clean_up: state::Sender<Option<CleanUpOrder>>,
    /// Where session changes go.
    pub session: state::Sender<Session>,
    /// The newest status.
    pub status: state::Receiver<Option<NodeStatus>>,
    /// Whether the controller has taken the last one that this agent has to send.
    pub announced: state::Sender<bool>,
    /// Samples and events to send.
    pub telemetry: TelemetryQueue,
}

/// Makes both ends for `node`; `known` is the ledger's spec, presented to the controller on the first Watch.
pub fn channels(node: &str, known: Option<Arc<HeldSpec>>) -> (Link, Worker) {
    let (specs_tx, specs_rx) = state::channel(known);
    let (refusal_tx, refusal_rx) = state::channel(None);
    let (captures_tx, captures_rx) = state::channel(None);
    let (levels_tx, levels_rx) = state::channel(None);
    let (clean_up_tx, clean_up_rx) = state::channel(None);
    let (session_tx, session_rx) = state::channel(Session::default());
    let (status_tx, status_rx) = state::channel(None);
    let (announced_tx, announced_rx) = state::channel(false);
    let telemetry = TelemetryQueue::default();
    let link = Link {
        specs: specs_rx,
        refusal: refusal_rx,
        captures: captures_rx,
        log_levels: levels_rx,
        clean_up: clean_up_rx,
        session: session_rx,
        telemetry: telemetry.clone(),
        announced: announced_rx,
        status: status_tx,
    };
    let worker = Worker {
        node: node.to_owned(),
        specs: specs_tx,
        refusal: refusal_tx,
        captures: captures_tx,
        log_levels: levels_tx,
        clean_up: clean_up_tx,
        session: session_tx,
        status: status_rx,
        announced: announced_tx,
        telemetry,
    };
    (link, worker)
}

impl Worker {
    /// Talks to the controller until the [`Link`] is dropped; `agent_version` goes into every Watch. Never fails:
    /// an unreachable controller is retried for ever.
    pub async fn run(self, channels: Channels, agent_version: &str, random: Random) {
        let Self { node, specs, refusal, captures, log_levels, clean_up, session, status, announced, telemetry } = self;
        let reports =
            report::run(channels.control.clone(), status, announced, session.subscribe(), Arc::clone(&random));
        let samples =
            telemetry::run(channels.telemetry, node.clone(), telemetry, session.subscribe(), Arc::clone(&random));
        let news = watch::News { specs, refusal, captures, log_levels, clean_up, session };
        let specs = watch::Watcher::new(node, agent_version.to_owned(), news).run(channels.control, random);
        // The watcher alone notices that the Link is gone; the other two serve it until then.
        tokio::select! {
            () = specs => {}
            () = async { tokio::join!(reports, samples); } => {}
        }
    }
}

/// A gRPC error in one line, with its causes: why a connection was not made is in them only.
fn brief(status: &tonic::Status) -> String {
    let mut text = format!("{}: {}", status.code(), status.message());
    let mut cause = std::error::Error::source(status);
    while let Some(error) = cause {
        let next = error.to_string();
        if !text.contains(&next) {
            text.push_str(": ");
            text.push_str(&next);
        }
        cause = error.source();
    }
    text
}
