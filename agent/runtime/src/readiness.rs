// SPDX-License-Identifier: Apache-2.0
//! Whether the node is in sync, for a manager that replaces agents one after the other, such as Kubernetes: `canopy-agent ready` asks the
//! running agent at a socket in its state directory.

use std::io::{Read as _, Result as IoResult};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use canopy_agent_link::{Link, Session};
use canopy_control::HeldSpec;
use canopy_daemon::socket;
use canopy_model::status::NodeStatus;
use tokio::io::AsyncWriteExt as _;
use tokio::sync::watch;

/// How long `canopy-agent ready` waits for an answer.
const PATIENCE: Duration = Duration::from_secs(3);
/// Longest answer that is read.
const MAX_ANSWER: u64 = 4096;
/// The answer of an agent that is in sync.
const READY: &str = "ready";
/// Only the agent's user.
const OWN: u32 = 0o600;

/// What is known of the node: all of it is somewhere else, and is judged at each question.
#[derive(Clone)]
pub struct Readiness {
    session: watch::Receiver<Session>,
    specs: watch::Receiver<Option<Arc<HeldSpec>>>,
    reported: watch::Receiver<Option<NodeStatus>>,
}

impl Readiness {
    /// That of the agent with this link.
    pub fn of(link: &Link) -> Self {
        Self { session: link.session.clone(), specs: link.specs.clone(), reported: link.reported() }
    }

    /// Where an agent with this state directory answers.
    pub fn socket(state_dir: &Path) -> PathBuf {
        state_dir.join("ready.sock")
    }

    /// Whether the kernel has what the controller desires. A node that has never had a configuration has nothing to forward, and is in sync: it
    /// may not be in the topology yet.
    ///
    /// # Errors
    /// It is not; the reason is for a person. Links that carry nothing are no reason: no agent can mend them.
    pub fn judge(&self) -> Result<(), String> {
        let Some(newest) = self.specs.borrow().clone() else { return Ok(()) };
        let session = *self.session.borrow();
        // Before the first update of a session the newest configuration may not be the controller's.
        if !session.up || session.minor_version == 0 {
            return Err("the agent is not connected to the controller".into());
        }
        let reported = self.reported.borrow();
        let Some(status) = reported.as_ref() else { return Err("the agent has not read its kernel yet".into()) };
        let (spec, digest) = (newest.spec(), newest.digest());
        let observed = (status.observed_term, status.observed_generation, status.observed_digest);
        if observed != (spec.term, spec.generation, digest) {
            return Err(format!("generation {} of term {} is not applied yet", spec.generation, spec.term));
        }
        match status.errors.iter().find(|error| !error.kind.is_dead_link()) {
            Some(error) => Err(format!("{} {} is not as desired: {}", error.kind, error.name, error.detail)),
            None => Ok(()),
        }
    }

    /// Answers every connection until dropped. Without the socket the agent forwards all the same.
    pub async fn serve(self, path: PathBuf) {
        let (listener, _file) = match socket::bind(&path, None, OWN).await {
            Ok(bound) => bound,
            Err(error) => {
                let (path, error) = (path.display(), error.text());
                return tracing::warn!(%path, error, "`canopy-agent ready` finds no agent: it has no socket");
            }
        };
        loop {
            let Ok((mut stream, _)) = listener.accept().await else { continue };
            let answer = self.judge().err().unwrap_or_else(|| READY.to_owned());
            // A new socket takes this much at once.
            _ = stream.write_all(answer.as_bytes()).await;
        }
    }
}

/// Asks the agent with this state directory.
///
/// # Errors
/// The reason why its node is not in sync, or that no agent answers.
pub fn ask(state_dir: &Path) -> Result<(), String> {
    let path = Readiness::socket(state_dir);
    let answer = read(&path).map_err(|error| format!("no agent answers at {}: {error}", path.display()))?;
    if answer == READY { Ok(()) } else { Err(answer) }
}

fn read(path: &Path) -> IoResult<String> {
    let stream = UnixStream::connect(path)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut answer = String::new();
    stream.take(MAX_ANSWER).read_to_string(&mut answer)?;
    Ok(answer)
}
