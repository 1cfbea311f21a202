// SPDX-License-Identifier: Apache-2.0
//! Which pod a call is of, by the token that it has: the controller has the API server confirm it.
//!
//! `host-tokens` in the state directory is a line `canopy-host-tokens 1 CRC32` and a line `BOOT SHA256 CONFIRMED-NS NAMESPACE/NAME POD-UID` per
//! token, mode 0600: an agent that starts while the controller or the API server is away knows the pods of the agent before. No token is in
//! it, nor in a log or a message.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use canopy_control::pb;
use canopy_control::pb::identity_service_client::IdentityServiceClient;
use canopy_units::Monotonic;
use tokio::sync::{Semaphore, watch};
use tokio::task::block_in_place;
use tonic::metadata::MetadataMap;
use tonic::transport::Channel;
use tonic::{Code, Status};

use super::known::{Digest, Known, Line};
use super::owner::Pod;
use super::stored;

const FORMAT: &str = "canopy-host-tokens 1";
/// Where Linux has the number of this start of the machine.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";
/// Longest token, octets; the controller takes no longer one.
const MAX_TOKEN: usize = 3 << 10;
/// Tokens that nothing is known of that are asked for at once: every program that can open the socket can send them.
const OF_STRANGERS: usize = 2;
/// Calls with such tokens that wait, more than which are refused.
const WAITING: usize = 64;
/// Known tokens that are asked for again at once.
const OF_KNOWN: usize = 16;
/// Time for an answer; the controller gives the API server 5 s for it, after 5 s in its queue.
const ANSWER_WITHIN: Duration = Duration::from_secs(12);

/// The clock that continues while the machine sleeps, since its start.
pub type Clock = Arc<dyn Fn() -> Monotonic + Send + Sync>;

/// The pods that call.
pub(super) struct Tokens {
    controller: IdentityServiceClient<Channel>,
    /// Its address, for messages.
    target: String,
    clock: Clock,
    path: PathBuf,
    /// `None` if it cannot be read: then nothing is stored.
    boot: Option<String>,
    known: Mutex<Known>,
    /// What the controller is asked now: all calls with a token wait for one answer.
    asked: Mutex<HashMap<Digest, watch::Receiver<Answer>>>,
    waiting: Semaphore,
    of_strangers: Semaphore,
    of_known: Semaphore,
}

type Answer = Option<Result<Pod, Status>>;

impl Tokens {
    /// With what the agent before has stored.
    pub(super) fn load(state_dir: &Path, controller: Channel, target: String, clock: Clock) -> Arc<Self> {
        let path = state_dir.join("host-tokens");
        let lines = stored::load(&path, FORMAT, Line::read, "every pod has to be confirmed again");
        let boot = std::fs::read_to_string(BOOT_ID).ok().map(|id| id.trim().to_owned()).filter(|id| !id.is_empty());
        let mut known = Known::default();
        match &boot {
            Some(boot) => known.restore(lines, boot, clock()),
            None => tracing::warn!(
                file = BOOT_ID,
                "cannot be read: pods that the controller has confirmed are not known after a restart of the agent"
            ),
        }
        Arc::new(Self {
            controller: IdentityServiceClient::new(controller),
            target,
            clock,
            path,
            boot,
            known: Mutex::new(known),
            asked: Mutex::default(),
            waiting: Semaphore::new(WAITING),
            of_strangers: Semaphore::new(OF_STRANGERS),
            of_known: Semaphore::new(OF_KNOWN),
        })
    }

    /// Whose call it is.
    ///
    /// # Errors
    /// It has no token, or one that is not valid, of another node, or cannot be confirmed now: UNAVAILABLE.
    pub(super) async fn identify(self: &Arc<Self>, call: &MetadataMap) -> Result<Pod, Status> {
        let token = token(call)?;
        let digest = Digest::of(token);
        let known = self.known().fresh(digest, (self.clock)());
        if let Some(pod) = known {
            return Ok(pod);
        }
        let is_known = self.known().has(digest);
        let _waiting = match is_known {
            true => None,
            false => Some(self.waiting.try_acquire().map_err(|_| {
                Status::resource_exhausted(format!(
                    "{WAITING} calls with tokens that are not known wait for an answer: call again"
                ))
            })?),
        };
        let mut answer = self.ask(digest, token, is_known);
        let answered = match answer.wait_for(Option::is_some).await {
            Ok(answer) => answer.clone(),
            // The task has panicked.
            Err(_) => None,
        };
        answered.unwrap_or_else(|| Err(Status::internal("confirming the pod's token failed")))
    }

    /// The controller's answer about a token, asked for once for all calls that wait for it.
    fn ask(self: &Arc<Self>, digest: Digest, token: &str, is_known: bool) -> watch::Receiver<Answer> {
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(present) = asked.get(&digest) {
            return present.clone();
        }
        let (sender, receiver) = watch::channel(None);
        asked.insert(digest, receiver.clone());
        let (this, token) = (Arc::clone(self), token.to_owned());
        tokio::spawn(async move {
            let answer = this.confirm(digest, token, is_known).await;
            // Before the answer: who comes from now on asks again, or finds what is known.
            this.asked.lock().unwrap_or_else(PoisonError::into_inner).remove(&digest);
            sender.send_replace(Some(answer));
        });
        receiver
    }

    async fn confirm(&self, digest: Digest, token: String, is_known: bool) -> Result<Pod, Status> {
        let places = if is_known { &self.of_known } else { &self.of_strangers };
        let asking = async {
            // Semaphores here are never closed.
            let _place = places.acquire().await.map_err(|_| Status::unavailable("the agent is stopping"))?;
            let request = pb::IdentifyPodRequest { kubernetes_token: token };
            self.controller.clone().identify_pod(request).await
        };
        let answer = tokio::time::timeout(ANSWER_WITHIN, asking).await;
        let answer = answer.unwrap_or_else(|_| Err(Status::unavailable(format!("no answer within {ANSWER_WITHIN:?}"))));
        let now = (self.clock)();
        match answer {
            Ok(answer) => {
                let pb::IdentifyPodResponse { account, pod_uid, pod: _ } = answer.into_inner();
                let pod = Pod::new(&account, &pod_uid)
                    .ok_or_else(|| Status::internal("the controller's answer about a token names no pod"))?;
                self.change(|known| known.confirm(digest, pod.clone(), now));
                Ok(pod)
            }
            Err(status) if matches!(status.code(), Code::PermissionDenied | Code::InvalidArgument) => {
                self.change(|known| known.refuse(digest));
                Err(Status::permission_denied(status.message()))
            }
            Err(status) => {
                let stale = self.known().unanswered(digest, now);
                if let Some(pod) = &stale {
                    tracing::warn!(
                        account = pod.account(),
                        reason = status.message(),
                        "cannot confirm a pod's token again: it counts until an hour after the last answer"
                    );
                }
                stale.ok_or_else(|| self.unanswered(&status))
            }
        }
    }

    /// The caller's status if nothing is known of its token.
    fn unanswered(&self, status: &Status) -> Status {
        let (target, why) = (&self.target, status.message());
        match status.code() {
            Code::Unimplemented => Status::failed_precondition(format!(
                "the controller at {target} is of a version that does not know pods by their tokens (southbound contract 1.7): upgrade it, or set host_socket.kubernetes = false"
            )),
            Code::FailedPrecondition => {
                Status::failed_precondition(format!("the controller at {target} cannot confirm the pod's token: {why}"))
            }
            _ => Status::unavailable(format!(
                "the pod's token cannot be confirmed now by the controller at {target} ({why}): nothing has changed, memberships stay; call again"
            )),
        }
    }

    /// Changes what is known, and writes the file if that is needed.
    fn change(&self, change: impl FnOnce(&mut Known) -> bool) {
        let mut known = self.known();
        if !change(&mut known) {
            return;
        }
        let Some(boot) = &self.boot else { return };
        // Written under the lock, so that the file does not go back.
        let lines = known.lines(boot);
        if let Err(error) = block_in_place(|| stored::store(&self.path, FORMAT, &lines)) {
            tracing::warn!(file = %self.path.display(), %error, "cannot be written: after a restart of the agent, pods have to be confirmed again");
        }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        // Nothing panics while the lock is held, so the state of a poisoned lock is consistent.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The token of a call.
fn token(call: &MetadataMap) -> Result<&str, Status> {
    let bearer = call.get("authorization").and_then(|value| value.to_str().ok());
    let token = bearer.and_then(|value| value.strip_prefix("Bearer ")).unwrap_or_default();
    if token.is_empty() {
        return Err(Status::unauthenticated(
            "this agent knows its callers by the tokens of their pods, and the call has none: mount a projected token of the pod's service account, and set CANOPY_TOKEN_FILE to its path; see docs/kubernetes.md#pods-that-receive",
        ));
    }
    // Those of operators, for one, go no further.
    is_token(token).then_some(token).ok_or_else(|| {
        Status::unauthenticated(format!(
            "the bearer of the call is no token of Kubernetes, which is a JWT of at most {MAX_TOKEN} octets: is CANOPY_TOKEN_FILE the path of the pod's projected token?"
        ))
    })
}

/// Whether it is one of Kubernetes: a JWT (RFC 7519), three parts in base64url.
fn is_token(text: &str) -> bool {
    let is_part =
        |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_');
    text.len() <= MAX_TOKEN && text.split('.').count() == 3 && text.split('.').all(is_part)
}

#[cfg(test)]
mod tests;
