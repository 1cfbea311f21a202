// SPDX-License-Identifier: Apache-2.0
//! The Watch stream: snapshot, deltas, and what to do when one does not fit.

use std::sync::Arc;
use std::time::Duration;

use canopy_control::pb;
use canopy_control::pb::node_service_client::NodeServiceClient;
use canopy_control::{Digest, UpdateError, apply_update};
use canopy_model::node_spec::NodeSpec;
use tokio::sync::watch;
use tonic::Status;
use tonic::transport::Channel;

use crate::{Backoff, MAX_SPEC_BYTES, Random, Refusal, Session};

/// How long the controller may take to open the stream. Silence later on is the keepalive's business.
const OPEN_WITHIN: Duration = Duration::from_secs(10);

/// Follows the node's spec.
pub(crate) struct Watcher {
    node: String,
    agent_version: String,
    specs: watch::Sender<Option<Arc<NodeSpec>>>,
    refusal: watch::Sender<Option<Refusal>>,
    session: watch::Sender<Session>,
    /// The last update did not fit what is known: ask for a snapshot instead of a delta.
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
    pub(crate) fn new(
        node: String,
        agent_version: String,
        specs: watch::Sender<Option<Arc<NodeSpec>>>,
        refusal: watch::Sender<Option<Refusal>>,
        session: watch::Sender<Session>,
    ) -> Self {
        Self { node, agent_version, specs, refusal, session, from_scratch: false }
    }

    /// Watches until nobody reads the specs any more.
    pub(crate) async fn run(mut self, channel: Channel, random: Random) {
        let mut client = NodeServiceClient::new(channel).max_decoding_message_size(MAX_SPEC_BYTES);
        let mut backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(15));
        let unread = self.specs.clone();
        let follow = async {
            loop {
                let ended = self.session(&mut client, &mut backoff).await;
                self.session.send_if_modified(|session| std::mem::take(&mut session.up));
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
        self.session.send_modify(|session| *session = Session { opened: session.opened + 1, up: true });
        loop {
            match stream.message().await {
                Ok(Some(update)) => match self.accept(update) {
                    Ok(()) => backoff.reset(),
                    Err(detail) => return Ended::Refused(detail),
                },
                Ok(None) => return Ended::Closed,
                Err(status) => return status.into(),
            }
        }
    }

    fn request(&self) -> pb::WatchRequest {
        let known = if self.from_scratch { None } else { self.specs.borrow().clone() };
        pb::WatchRequest {
            node: self.node.clone(),
            known_generation: known.as_ref().map_or(0, |spec| spec.generation),
            known_digest: known.map(|spec| Digest::of(&spec).into()).unwrap_or_default(),
            agent_version: self.agent_version.clone(),
        }
    }

    /// Applies `update` to what is known, publishes the result, or says why not. What is known, and with it the
    /// highest accepted term, is the same after a refusal.
    fn accept(&mut self, update: pb::WatchResponse) -> Result<(), String> {
        let known = self.specs.borrow().clone();
        let accepted = apply_update(known.as_deref().cloned(), update).map_err(|error| {
            // From a controller that is merely behind, a snapshot would be no better.
            let behind = matches!(error, UpdateError::LowerTerm { .. } | UpdateError::OlderGeneration { .. });
            self.from_scratch |= !behind;
            error.to_string()
        });
        match accepted.and_then(|spec| self.check_name(spec)) {
            Ok(spec) => {
                self.from_scratch = false;
                self.stand(None);
                self.specs.send_if_modified(|current| {
                    let changed = current.as_deref() != Some(&spec);
                    if changed {
                        *current = Some(Arc::new(spec));
                    }
                    changed
                });
                Ok(())
            }
            Err(detail) => {
                self.stand(Some(Refusal { detail: detail.clone() }));
                Err(detail)
            }
        }
    }

    /// Makes `refusal` the standing one; the same one again wakes nobody.
    fn stand(&self, refusal: Option<Refusal>) {
        self.refusal.send_if_modified(|standing| {
            let changed = *standing != refusal;
            *standing = refusal;
            changed
        });
    }

    fn check_name(&self, spec: NodeSpec) -> Result<NodeSpec, String> {
        if spec.base.name == self.node {
            return Ok(spec);
        }
        Err(format!(
            "base.name: the spec is for node {:?} but this node is {:?}; check `node` in the agent's configuration",
            spec.base.name, self.node
        ))
    }
}
