// SPDX-License-Identifier: Apache-2.0
//! Follows what the controller has for the host to compose path programs from, and keeps the last of it in a file: after a restart the host
//! composes by that until the controller answers.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use canopy_agent_link::{Backoff, MAX_SPEC_BYTES, Random};
use canopy_control::fabric::{Held, Received};
use canopy_control::pb;
use canopy_control::pb::fabric_service_client::FabricServiceClient;
use tokio::sync::watch;
use tokio::task::spawn_blocking;
use tonic::transport::Channel;
use tonic::{Code, Status};

use super::{closed, stored};

const FILE: &str = "fabric";
/// First word of the file.
const FORMAT: &str = "canopy-fabric-1";
/// The largest fabric that is received, and what surrounds it.
const MAX_FILE_OCTETS: u64 = 96 << 20;
/// Time between two attempts to watch.
const RETRY: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(15));
/// The same where the controller is of a version that does not have the service.
const RETRY_UNKNOWN: Duration = Duration::from_secs(300);
/// Time between two writes of the file: links may come and go more often than a disk is to be written.
const STORE_AFTER: Duration = Duration::from_secs(5);

/// The agent's end of the controller's stream.
pub(super) struct Follower {
    host: String,
    controller: FabricServiceClient<Channel>,
    random: Random,
    file: PathBuf,
    received: Mutex<Received>,
    held: watch::Sender<Option<Held>>,
    closing: watch::Receiver<bool>,
}

/// Why a stream has ended, for the log.
enum Ended {
    /// By the controller, or by the way to it.
    Status(Status),
    /// What it sent cannot be used.
    Unusable(String),
}

impl Follower {
    /// With what the agent before has kept.
    pub(super) fn load(
        host: &str,
        state_dir: &Path,
        controller: Channel,
        random: Random,
        closing: watch::Receiver<bool>,
    ) -> Self {
        let file = state_dir.join(FILE);
        let controller = FabricServiceClient::new(controller).max_decoding_message_size(MAX_SPEC_BYTES);
        let received = stored::load_octets(
            &file,
            FORMAT,
            MAX_FILE_OCTETS,
            |octets| Received::restore(octets).map_err(|e| e.to_string()),
            "canopy-steer composes no path programs before the controller answers",
        );
        let received = received.unwrap_or_default();
        let held = watch::Sender::new(received.held().cloned());
        Self { host: host.to_owned(), controller, random, file, received: Mutex::new(received), held, closing }
    }

    /// What is in force, and its changes; `None` before there is anything.
    pub(super) fn held(&self) -> watch::Receiver<Option<Held>> {
        self.held.subscribe()
    }

    /// Follows the controller, and writes the file, until the agent ends.
    pub(super) async fn run(&self) {
        let mut closing = self.closing.clone();
        tokio::select! {
            () = self.follow() => {}
            () = self.store_changes() => {}
            () = closed(&mut closing) => {}
        }
        // What came since the last write.
        let held = self.held.borrow().clone();
        self.store(held).await;
    }

    async fn follow(&self) {
        let mut backoff = Backoff::new(RETRY.0, RETRY.1);
        let mut reported = None;
        loop {
            let ended = self.stream(&mut backoff).await;
            let (code, reason) = match &ended {
                Ended::Status(status) => (Some(status.code()), status.message()),
                Ended::Unusable(why) => (None, why.as_str()),
            };
            // Once per kind of end, not at each attempt.
            if reported.replace(code) == Some(code) {
                tracing::debug!(reason, "not following the fabric");
            } else if code == Some(Code::Unimplemented) {
                tracing::warn!(
                    "the controller is of a version that has no fabric for hosts: canopy-steer gets none from it"
                );
            } else {
                tracing::warn!(
                    reason,
                    "not following the fabric: canopy-steer composes path programs from what was received last"
                );
            }
            match code {
                Some(Code::NotFound) => self.withdraw(reason),
                Some(Code::Unimplemented) => {
                    tokio::time::sleep(RETRY_UNKNOWN.mul_f64(0.5 + (self.random)() / 2.0)).await
                }
                _ => {}
            }
            tokio::time::sleep(backoff.next_delay((self.random)())).await;
        }
    }

    /// One stream, until it ends.
    async fn stream(&self, backoff: &mut Backoff) -> Ended {
        let digest = self.received.lock().unwrap_or_else(PoisonError::into_inner).digest();
        let request = pb::WatchFabricRequest { host: self.host.clone(), digest };
        let mut stream = match self.controller.clone().watch_fabric(request).await {
            Ok(answer) => answer.into_inner(),
            Err(refused) => return Ended::Status(refused),
        };
        loop {
            let page = match stream.message().await {
                Ok(Some(page)) => page,
                Ok(None) => return Ended::Status(Status::unavailable("it ended the stream without a status")),
                Err(status) => return Ended::Status(status),
            };
            let applied = self.received.lock().unwrap_or_else(PoisonError::into_inner).apply(page);
            match applied {
                Ok(Some(held)) => {
                    backoff.reset();
                    self.set(Some(held));
                }
                Ok(None) => {}
                Err(error) => return Ended::Unusable(error.to_string()),
            }
        }
    }

    /// The topology does not have this host any more: its edge drops programs.
    fn withdraw(&self, reason: &str) {
        let held = self.held.borrow().clone();
        self.set(held.map(|held| {
            let mut sender = held.sender.as_ref().clone();
            (sender.permitted, sender.reason) = (false, reason.to_owned());
            Held { sender: Arc::new(sender), ..held }
        }));
    }

    fn set(&self, next: Option<Held>) {
        self.held.send_if_modified(|held| {
            let is_new = *held != next;
            *held = next;
            is_new
        });
    }

    /// Writes the file after changes, for good.
    async fn store_changes(&self) {
        let mut changes = self.held.subscribe();
        while changes.changed().await.is_ok() {
            let held = changes.borrow_and_update().clone();
            self.store(held).await;
            tokio::time::sleep(STORE_AFTER).await;
        }
    }

    async fn store(&self, held: Option<Held>) {
        let (Some(held), file) = (held, self.file.clone()) else { return };
        let stored = spawn_blocking(move || stored::store(&file, FORMAT, held.to_octets())).await;
        if let Ok(Err(error)) = stored {
            tracing::error!(file = %self.file.display(), %error,
                "cannot keep the fabric: after a restart, canopy-steer composes no path programs before the controller answers");
        }
    }
}
