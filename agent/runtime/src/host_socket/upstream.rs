// SPDX-License-Identifier: Apache-2.0
//! Leases that the agent of a host holds at the controller, one stream for each that processes hold here: when the machine is gone, the
//! controller ends its memberships. While it runs, the agent itself leaves for processes that have ended. The same streams bring how the
//! packets of sources leave the machine.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use canopy_agent_link::{Backoff, Random};
use canopy_control::pb;
use canopy_control::pb::membership_service_client::MembershipServiceClient;
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tonic::transport::Channel;
use tonic::{Code, Status};

use super::closed;
use super::leases::Leases;
use super::owners::Key;

/// Most leases: the controller permits 1,024 streams on a connection.
const MAX_HELD: usize = 1000;
/// Time between two attempts to hold a lease; the controller waits for a minute by default.
const RETRY: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

/// How packets of the sources among the held memberships leave.
#[derive(Default)]
pub(super) struct Flows {
    pub(super) known: BTreeMap<Key, pb::SourceFlow>,
    /// Leases of the agent before, and of joins that were repeated, for which the controller has not answered yet: what is known is not all.
    awaited: HashSet<Key>,
}

impl Flows {
    /// Whether nothing is missing that the agent before had.
    pub(super) fn is_complete(&self) -> bool {
        self.awaited.is_empty()
    }

    fn answered(&mut self, key: &Key, flow: Option<pb::SourceFlow>) -> bool {
        let was_awaited = self.awaited.remove(key);
        match flow {
            Some(flow) => self.known.insert(key.clone(), flow.clone()) != Some(flow) || was_awaited,
            None => self.known.remove(key).is_some() || was_awaited,
        }
    }

    fn ended(&mut self, key: &Key) -> bool {
        let was_awaited = self.awaited.remove(key);
        self.known.remove(key).is_some() || was_awaited
    }
}

/// Holds leases at the controller.
pub(super) struct Upstream {
    controller: MembershipServiceClient<Channel>,
    leases: Arc<Leases>,
    random: Random,
    closing: watch::Receiver<bool>,
    tasks: Mutex<HashMap<Key, AbortHandle>>,
    flows: watch::Sender<Flows>,
}

impl Upstream {
    pub(super) fn new(holds: Channel, leases: Arc<Leases>, random: Random, closing: watch::Receiver<bool>) -> Self {
        let controller = MembershipServiceClient::new(holds);
        Self { controller, leases, random, closing, tasks: Mutex::default(), flows: watch::Sender::default() }
    }

    /// The flows, and their changes.
    pub(super) fn flows(&self) -> watch::Receiver<Flows> {
        self.flows.subscribe()
    }

    /// Whether one more lease can be held.
    ///
    /// # Errors
    /// There are too many.
    pub(super) fn check_place(&self, key: &Key) -> Result<(), Status> {
        let tasks = self.tasks();
        if tasks.len() < MAX_HELD || tasks.contains_key(key) {
            return Ok(());
        }
        Err(Status::resource_exhausted(format!(
            "{MAX_HELD} memberships with a lease were made through this agent, which is the limit: leave some, or join without a lease"
        )))
    }

    /// Takes up the leases of the agent before.
    pub(super) fn resume<'a>(self: &Arc<Self>, keys: impl Iterator<Item = &'a Key> + Clone) {
        self.flows.send_modify(|flows| flows.awaited = keys.clone().cloned().collect());
        keys.for_each(|key| self.hold(key));
    }

    /// Holds a lease until it ends here, or its membership ends at the controller.
    pub(super) fn hold(self: &Arc<Self>, key: &Key) {
        let Some(mut lease) = self.leases.follow(key) else { return };
        let (this, held, mut closing) = (Arc::clone(self), key.clone(), self.closing.clone());
        let task = tokio::spawn(async move {
            tokio::select! {
                () = this.keep(&held) => {}
                () = ended(&mut lease) => {}
                // The next agent has them, too.
                () = closed(&mut closing) => return,
            }
            this.flows.send_if_modified(|flows| flows.ended(&held));
        });
        // One of an earlier join may be about to find that its membership has ended.
        if let Some(before) = self.tasks().insert(key.clone(), task.abort_handle()) {
            before.abort();
            // It may be another membership by now, a receiver's for one.
            self.flows.send_if_modified(|flows| !flows.awaited.insert(key.clone()));
        }
    }

    async fn keep(&self, (group, host): &Key) {
        let mut backoff = Backoff::new(RETRY.0, RETRY.1);
        let mut is_reported = false;
        loop {
            let lost = self.stream(group, host, &mut backoff).await;
            if lost.code() == Code::NotFound {
                return tracing::info!(group, host, "the membership has ended at the controller");
            }
            // Once per lease, not at each attempt.
            if std::mem::replace(&mut is_reported, true) {
                tracing::debug!(group, host, reason = lost.message(), "the membership is not held at the controller");
            } else {
                tracing::warn!(
                    group,
                    host,
                    reason = lost.message(),
                    "no longer holding the membership at the controller"
                );
            }
            tokio::time::sleep(backoff.next_delay((self.random)())).await;
        }
    }

    /// Holds it by one stream, until that ends.
    async fn stream(&self, group: &str, host: &str, backoff: &mut Backoff) -> Status {
        let request = pb::HoldMembershipRequest { group: group.to_owned(), host: host.to_owned() };
        let mut stream = match self.controller.clone().hold_membership(request).await {
            Ok(answer) => answer.into_inner(),
            Err(refused) => return refused,
        };
        loop {
            match stream.message().await {
                Ok(Some(held)) => {
                    backoff.reset();
                    let key = (group.to_owned(), host.to_owned());
                    self.flows.send_if_modified(|flows| flows.answered(&key, held.flow));
                }
                Ok(None) => return Status::unavailable("it ended the stream without a status"),
                Err(status) => return status,
            }
        }
    }

    fn tasks(&self) -> MutexGuard<'_, HashMap<Key, AbortHandle>> {
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        tasks.retain(|_, task| !task.is_finished());
        tasks
    }
}

/// Waits until the lease has ended here.
async fn ended(lease: &mut watch::Receiver<()>) {
    // An error means that the lease was removed.
    while lease.changed().await.is_ok() {}
}
