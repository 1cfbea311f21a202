// SPDX-License-Identifier: Apache-2.0
//! The Watch stream: snapshot, deltas, and what to do when one does not fit.

use std::sync::Arc;
use std::time::Duration;

use canopy_control::pb;
use canopy_control::pb::node_service_client::NodeServiceClient;
use canopy_control::{Accepted, HeldSpec, MINOR_VERSION, Staged, UpdateError, apply_update};
use canopy_model::capture::CaptureOrder;
use canopy_model::log_level::LogOrder;
use canopy_model::retirement::CleanUpOrder;
use tokio::sync::watch;
use tonic::Status;
use tonic::transport::Channel;

use crate::{Backoff, MAX_SPEC_BYTES, Random, Refusal, Session};

/// How long the controller may take to open the stream. Silence later on is the keepalive's business.
const OPEN_WITHIN: Duration = Duration::from_secs(10);

/// Where what the controller sends goes.
pub(crate) struct News {
    pub(crate) specs: watch::Sender<Option<Arc<HeldSpec>>>,
    pub(crate) refusal: watch::Sender<Option<Refusal>>,
    pub(crate) captures: watch::Sender<Option<CaptureOrder>>,
    pub(crate) log_levels: watch::Sender<Option<LogOrder>>,
    pub(crate) clean_up: watch::Sender<Option<CleanUpOrder>>,
    pub(crate) session: watch::Sender<Session>,
}

/// Follows the node's spec.
pub(crate) struct Watcher {
    node: String,
    agent_version: String,
    news: News,
    /// Pages of a snapshot that is not complete: the next stream continues it.
    staged: Option<Staged>,
    /// The last update did not fit what is held: ask for a snapshot instead of a delta.
    from_scratch: bool,
}

/// Why a session ended.
#[derive(Debug, thiserror::Error)]
enum Ended {
    #[error("the controller closed the stream")]
    Closed,
    #[error("{}", crate::brief(.0))]
    Broken(#[from] Status),
    #[error("an update was refused: {0}")]
    Refused(String),
}

impl Watcher {
    pub(crate) fn new(node: String, agent_version: String, news: News) -> Self {
        Self { node, agent_version, news, staged: None, from_scratch: false }
    }

    /// Watches until every receiver of the specs is dropped.
    pub(crate) async fn run(mut self, channel: Channel, random: Random) {
        let mut client = NodeServiceClient::new(channel).max_decoding_message_size(MAX_SPEC_BYTES);
        let mut backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(15));
        let unread = self.news.specs.clone();
        let follow = async {
            loop {
                let ended = self.session(&mut client, &mut backoff).await;
                self.news.session.send_if_modified(|session| std::mem::take(&mut session.up));
                let delay = backoff.next_delay(random());
                tracing::warn!(reason = %ended, retry_in = ?delay, "no longer following the controller");
                tokio::time::sleep(delay).await;
            }
        };
        tokio::select! {
            () = unread.closed() => {}
            () = follow => {}
        }
    }

    /// One stream, until it ends. The back-off starts over only once an update was accepted: a controller
    /// that merely answers is not yet a controller that works.
    async fn session(&mut self, client: &mut NodeServiceClient<Channel>, backoff: &mut Backoff) -> Ended {
        let mut stream = match tokio::time::timeout(OPEN_WITHIN, client.watch(self.request())).await {
            Ok(Ok(answer)) => answer.into_inner(),
            Ok(Err(status)) => return status.into(),
            Err(_) => return Status::deadline_exceeded("the controller did not open the stream in time").into(),
        };
        tracing::info!("following the controller");
        self.news
            .session
            .send_modify(|session| *session = Session { opened: session.opened + 1, up: true, minor_version: 0 });
        loop {
            match stream.message().await {
                Ok(Some(update)) => {
                    self.agree(update.minor_version);
                    match self.accept(update) {
                        Ok(()) => backoff.reset(),
                        Err(detail) => return Ended::Refused(detail),
                    }
                }
                Ok(None) => return Ended::Closed,
                Err(status) => return status.into(),
            }
        }
    }

    fn request(&self) -> pb::WatchRequest {
        let known = if self.from_scratch { None } else { self.news.specs.borrow().clone() };
        pb::WatchRequest {
            node: self.node.clone(),
            known_term: known.as_ref().map_or(0, |held| held.spec().term),
            known_generation: known.as_ref().map_or(0, |held| held.spec().generation),
            known_digest: known.map(|held| held.digest().into()).unwrap_or_default(),
            agent_version: self.agent_version.clone(),
            minor_version: MINOR_VERSION,
            resume: self.staged.as_ref().map(Staged::position),
        }
    }

    /// Notes the minor version that both sides implement.
    fn agree(&self, minor_version: u32) {
        let minor_version = minor_version.min(MINOR_VERSION);
        self.news
            .session
            .send_if_modified(|session| std::mem::replace(&mut session.minor_version, minor_version) != minor_version);
    }

    /// Applies `update` to the known spec and publishes the result, or returns the reason for the refusal. A refusal changes
    /// neither the known spec nor the highest accepted term.
    fn accept(&mut self, mut update: pb::WatchResponse) -> Result<(), String> {
        let known = self.news.specs.borrow().clone();
        // Whatever a controller sends gets into the log only as a trace.
        if update.traceparent.len() == 55 && update.traceparent.bytes().all(|b| b.is_ascii_hexdigit() || b == b'-') {
            tracing::info!(
                term = update.term,
                generation = update.generation,
                traceparent = update.traceparent,
                "update of a traced request"
            );
        }
        let (capture, log_level, clean_up) = (update.capture, update.log_level.take(), update.clean_up);
        let accepted = apply_update(known.as_deref(), &mut self.staged, update).map_err(|error| {
            // From a controller that is merely behind, a snapshot would be no better.
            let behind = matches!(error, UpdateError::LowerTerm { .. } | UpdateError::OlderGeneration { .. });
            self.from_scratch |= !behind;
            self.staged = None;
            error.to_string()
        });
        match accepted.and_then(|accepted| self.check_name(accepted)) {
            Ok(Accepted::Page) => Ok(()),
            Ok(Accepted::Spec(held)) => {
                self.from_scratch = false;
                self.stand(None);
                let name = |held: &HeldSpec| (held.spec().term, held.spec().generation, held.digest());
                self.news.specs.send_if_modified(|current| {
                    let changed = current.as_deref().map(name) != Some(name(&held));
                    if changed {
                        *current = Some(Arc::from(held));
                    }
                    changed
                });
                self.arm(capture);
                self.filter(log_level);
                self.leave(clean_up);
                Ok(())
            }
            Err(detail) => {
                self.stand(Some(Refusal { detail: detail.clone() }));
                Err(detail)
            }
        }
    }

    /// Passes on a packet to capture. One that makes no sense is left out: it is no reason to give up the stream.
    fn arm(&self, capture: Option<pb::Capture>) {
        match capture.map(CaptureOrder::try_from) {
            Some(Ok(order)) => _ = self.news.captures.send_replace(Some(order)),
            Some(Err(error)) => tracing::warn!(%error, "the packet to capture is not valid"),
            None => {}
        }
    }

    /// Passes on a filter of log lines. One that makes no sense is left out, too.
    fn filter(&self, log_level: Option<pb::LogLevel>) {
        match log_level.map(LogOrder::try_from) {
            Some(Ok(order)) => _ = self.news.log_levels.send_replace(Some(order)),
            Some(Err(error)) => tracing::warn!(%error, "the filter of log lines is not valid"),
            None => {}
        }
    }

    /// Passes on that this node leaves for good.
    fn leave(&self, clean_up: Option<pb::CleanUp>) {
        match clean_up.map(CleanUpOrder::try_from) {
            Some(Ok(order)) => _ = self.news.clean_up.send_replace(Some(order)),
            Some(Err(error)) => tracing::warn!(%error, "the order to clean up is not valid"),
            None => {}
        }
    }

    /// Sets the current refusal; receivers are notified only if it changed.
    fn stand(&self, refusal: Option<Refusal>) {
        self.news.refusal.send_if_modified(|standing| {
            let changed = *standing != refusal;
            *standing = refusal;
            changed
        });
    }

    fn check_name(&self, accepted: Accepted) -> Result<Accepted, String> {
        match &accepted {
            Accepted::Spec(held) if held.spec().base.name != self.node => Err(format!(
                "base.name: the spec is for node {:?} but this node is {:?}; check `node` in the agent's configuration",
                held.spec().base.name,
                self.node
            )),
            _ => Ok(accepted),
        }
    }
}
