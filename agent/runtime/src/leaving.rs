// SPDX-License-Identifier: Apache-2.0
//! A node that leaves for good: its agent removes what it programmed, reports that, and stays stopped.
//!
//! The mark is a file in the state directory. It is there before anything is removed, so that an agent which is killed meanwhile, or
//! started again later, programs nothing:
//!
//! ```text
//! (none) --order--> cleaning up --removed, and the controller has the report--> gone          any --enrolled again--> (none)
//! ```

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use canopy_agent_link::Link;
use canopy_daemon::notify::Notifier;
use canopy_identity::FileError;
use canopy_model::retirement::CleanedUp;
use canopy_model::status::NodeStatus;

use crate::ledger::{Ledger, LedgerError};

/// How a process ends whose node has left: the service manager does not start it again.
pub const GONE: u8 = 3;
/// How long after a failure the agent tries again to remove what is left.
pub const RETRY: Duration = Duration::from_secs(10);

const FILE: &str = "retired";

/// What the state directory has of a retirement, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// Something may be left, or the controller does not know that nothing is.
    CleaningUp(u64),
    /// The controller has the report.
    Gone(u64),
}

/// The mark cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum MarkError {
    /// The file.
    #[error(transparent)]
    File(#[from] FileError),
    /// It was changed by hand, or is of a later version.
    #[error("{}: {text:?} is not a mark of this version: enroll this node again to use it, or remove the file", path.display())]
    Unknown {
        /// The file.
        path: PathBuf,
        /// Its content.
        text: String,
    },
    /// It cannot be removed.
    #[error("cannot remove {}", path.display())]
    Remove {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The ledger cannot be removed.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
}

impl Mark {
    /// The file of a state directory.
    pub fn path(state_dir: &Path) -> PathBuf {
        state_dir.join(FILE)
    }

    /// Reads it; `None` if the node has not left.
    ///
    /// # Errors
    /// It is there, and its content is not known: the node must not be programmed then.
    pub fn read(state_dir: &Path) -> Result<Option<Self>, MarkError> {
        let path = Self::path(state_dir);
        let Some(text) = canopy_identity::read(&path)? else { return Ok(None) };
        let mark = text.trim().split_once(' ').and_then(|(step, number)| {
            let number = number.parse().ok()?;
            match step {
                "cleaning-up" => Some(Self::CleaningUp(number)),
                "gone" => Some(Self::Gone(number)),
                _ => None,
            }
        });
        mark.map(Some).ok_or(MarkError::Unknown { path, text })
    }

    /// Writes it; once this returns, it survives a power cut.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write(self, state_dir: &Path) -> Result<(), MarkError> {
        let text = match self {
            Self::CleaningUp(number) => format!("cleaning-up {number}\n"),
            Self::Gone(number) => format!("gone {number}\n"),
        };
        Ok(canopy_identity::replace(&Self::path(state_dir), text.as_bytes())?)
    }

    /// Takes it away; false if there is none.
    ///
    /// # Errors
    /// It is there and stays.
    pub fn remove(state_dir: &Path) -> Result<bool, MarkError> {
        let path = Self::path(state_dir);
        match fs::remove_file(&path).and_then(|()| fs::File::open(state_dir)?.sync_all()) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(source) => Err(MarkError::Remove { path, source }),
        }
    }
}

/// Inputs of [`leave`].
pub struct Leaving<'a> {
    /// This node.
    pub node: &'a str,
    /// Its state directory, with the mark.
    pub state_dir: &'a Path,
    /// Held by this process: no other agent programs anything meanwhile.
    pub ledger: &'a Ledger,
    /// The line to the controller.
    pub link: Link,
    /// The service manager.
    pub notifier: &'a Notifier,
    /// Number of the retirement.
    pub retirement: u64,
    /// Agent version, for the report.
    pub agent_version: &'a str,
}

/// Removes everything by `clean`, again until nothing is left, and reports that until the controller has it. True if the node has left;
/// false after `shutdown`, when the next start continues with it, and once the node was enrolled again.
///
/// # Errors
/// The mark or the ledger cannot be written.
pub async fn leave(
    mut leaving: Leaving<'_>,
    clean: impl AsyncFnMut() -> Result<Vec<String>, String>,
    shutdown: impl Future<Output = ()>,
) -> Result<bool, MarkError> {
    leaving.notifier.ready();
    let interval = leaving.notifier.alive_interval();
    let notifier = leaving.notifier;
    let alive = async {
        loop {
            tokio::time::sleep(interval.unwrap_or(Duration::MAX)).await;
            notifier.alive();
        }
    };
    tokio::select! {
        left = leaving.run(clean) => left,
        () = alive => Ok(false),
        () = shutdown => Ok(false),
    }
}

impl Leaving<'_> {
    /// Whether the node has left.
    async fn run(&mut self, mut clean: impl AsyncFnMut() -> Result<Vec<String>, String>) -> Result<bool, MarkError> {
        self.follow();
        Mark::CleaningUp(self.retirement).write(self.state_dir)?;
        let removed = loop {
            match clean().await {
                Ok(removed) => break removed,
                Err(why) => {
                    tracing::error!(why, retry_in = ?RETRY, "cannot remove everything that this agent programmed");
                    self.follow_marked()?;
                    self.report(CleanedUp { failed: Some(why), ..CleanedUp::default() });
                    tokio::time::sleep(RETRY).await;
                }
            }
        };
        // What is enrolled again starts with nothing of before.
        self.ledger.forget()?;
        tracing::info!(removed = removed.join(", "), "this node leaves: nothing of what the agent programmed is left");
        loop {
            self.report(CleanedUp { removed: removed.clone(), ..CleanedUp::default() });
            tokio::select! {
                biased;
                taken = async { self.link.announced.wait_for(|announced| *announced).await.is_ok() } => match taken {
                    true => break,
                    // The worker never ends while the link is held.
                    false => return std::future::pending().await,
                },
                Ok(()) = self.link.clean_up.changed() => {
                    self.follow_marked()?;
                }
            }
        }
        // Enrolled again meanwhile: the node is back, and this process makes way for one that programs it.
        if Mark::read(self.state_dir)? != Some(Mark::CleaningUp(self.retirement)) {
            tracing::info!("this node was enrolled again: it does not leave");
            return Ok(false);
        }
        Mark::Gone(self.retirement).write(self.state_dir)?;
        Ok(true)
    }

    /// Takes the number of the newest order, also in the mark.
    fn follow_marked(&mut self) -> Result<(), MarkError> {
        let before = self.retirement;
        if self.follow() && Mark::read(self.state_dir)? == Some(Mark::CleaningUp(before)) {
            Mark::CleaningUp(self.retirement).write(self.state_dir)?;
        }
        Ok(())
    }

    /// Takes the number of the newest order: the controller refuses the report of a retirement that is not the present one. True if it is
    /// another one than before.
    fn follow(&mut self) -> bool {
        let Some(order) = *self.link.clean_up.borrow_and_update() else { return false };
        let is_other = order.retirement != self.retirement;
        if is_other {
            tracing::info!(before = self.retirement, now = order.retirement, "this node leaves by another retirement");
            self.retirement = order.retirement;
        }
        is_other
    }

    fn report(&self, report: CleanedUp) {
        let cleaned_up = Some(CleanedUp { retirement: self.retirement, ..report });
        let (node, agent_version) = (self.node.to_owned(), self.agent_version.to_owned());
        self.link.report(NodeStatus { node, agent_version, cleaned_up, ..NodeStatus::default() });
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use canopy_agent_link::{Worker, channels};

    use super::*;

    fn leaving<'a>(state_dir: &'a Path, ledger: &'a Ledger, notifier: &'a Notifier, link: Link) -> Leaving<'a> {
        Leaving { node: "n4", state_dir, ledger, link, notifier, retirement: 7, agent_version: "1" }
    }

    async fn report(worker: &mut Worker, of: impl Fn(&CleanedUp) -> bool) -> CleanedUp {
        let is_it = |s: &Option<NodeStatus>| s.as_ref().and_then(|s| s.cleaned_up.as_ref()).is_some_and(&of);
        // An hour of the paused clock: what never comes ends the test.
        let reported = tokio::time::timeout(Duration::from_secs(3600), worker.status.wait_for(is_it));
        reported.await.expect("no such report").unwrap().clone().unwrap().cleaned_up.unwrap()
    }

    /// Catches an agent that is marked as gone before the controller knows, and one that gives up after a failure or reports it as done.
    #[tokio::test(start_paused = true)]
    async fn it_tries_until_nothing_is_left_and_is_gone_once_the_controller_has_the_report() {
        let dir = tempfile::tempdir().unwrap();
        let (ledger, notifier) = (Ledger::open(dir.path()).unwrap(), Notifier::default());
        let (link, mut worker) = channels("n4", None);
        let mut tries = 0;
        let clean = async || {
            tries += 1;
            assert_eq!(Mark::read(dir.path()).unwrap(), Some(Mark::CleaningUp(7)));
            if tries == 1 { Err("busy".to_owned()) } else { Ok(vec!["12 routes".to_owned()]) }
        };
        let left = leave(leaving(dir.path(), &ledger, &notifier, link), clean, std::future::pending());
        let controller = async {
            let failed = report(&mut worker, |report| report.failed.is_some()).await;
            assert_eq!((failed.retirement, failed.removed.len()), (7, 0));
            let done = report(&mut worker, |report| report.failed.is_none()).await;
            assert_eq!((done.retirement, done.removed), (7, vec!["12 routes".to_owned()]));
            assert_eq!(Mark::read(dir.path()).unwrap(), Some(Mark::CleaningUp(7)));
            worker.announced.send_replace(true);
            worker
        };
        let (left, _worker) = tokio::join!(left, controller);
        assert!(left.unwrap());
        assert_eq!(Mark::read(dir.path()).unwrap(), Some(Mark::Gone(7)));
    }

    /// Catches an agent that reports a retirement which is not the present one for ever, as the controller refuses it.
    #[tokio::test(start_paused = true)]
    async fn one_that_gets_another_order_meanwhile_reports_that() {
        let dir = tempfile::tempdir().unwrap();
        let (ledger, notifier) = (Ledger::open(dir.path()).unwrap(), Notifier::default());
        let (link, mut worker) = channels("n4", None);
        let clean = async || Ok(vec!["12 routes".to_owned()]);
        let left = leave(leaving(dir.path(), &ledger, &notifier, link), clean, std::future::pending());
        let controller = async {
            assert_eq!(report(&mut worker, |report| report.failed.is_none()).await.retirement, 7);
            worker.clean_up.send_replace(Some(canopy_model::retirement::CleanUpOrder { retirement: 9 }));
            let report = report(&mut worker, |report| report.retirement == 9).await;
            assert_eq!((report.failed, report.removed), (None, vec!["12 routes".to_owned()]));
            assert_eq!(Mark::read(dir.path()).unwrap(), Some(Mark::CleaningUp(9)));
            worker.announced.send_replace(true);
            worker
        };
        let (left, _worker) = tokio::join!(left, controller);
        assert!(left.unwrap());
        assert_eq!(Mark::read(dir.path()).unwrap(), Some(Mark::Gone(9)));
    }

    /// Catches an agent that cannot remove everything and never reports the cause to the retirement that is under way.
    #[tokio::test(start_paused = true)]
    async fn one_that_fails_and_gets_another_order_meanwhile_fails_for_that() {
        let dir = tempfile::tempdir().unwrap();
        let (ledger, notifier) = (Ledger::open(dir.path()).unwrap(), Notifier::default());
        let (link, mut worker) = channels("n4", None);
        let clean = async || Err("busy".to_owned());
        let left = leave(leaving(dir.path(), &ledger, &notifier, link), clean, std::future::pending());
        let controller = async {
            assert_eq!(report(&mut worker, |report| report.failed.is_some()).await.retirement, 7);
            worker.clean_up.send_replace(Some(canopy_model::retirement::CleanUpOrder { retirement: 9 }));
            let report = report(&mut worker, |report| report.retirement == 9).await;
            assert_eq!(report.failed.as_deref(), Some("busy"));
            assert_eq!(Mark::read(dir.path()).unwrap(), Some(Mark::CleaningUp(9)));
        };
        tokio::select! {
            left = left => panic!("it left: {left:?}"),
            () = controller => {}
        }
    }

    /// Catches a process that marks a node as gone which was enrolled again before the controller answered: it would stay stopped.
    #[tokio::test(start_paused = true)]
    async fn one_that_is_enrolled_again_meanwhile_does_not_leave() {
        let dir = tempfile::tempdir().unwrap();
        let (ledger, notifier) = (Ledger::open(dir.path()).unwrap(), Notifier::default());
        let (link, mut worker) = channels("n4", None);
        let clean = async || Ok(vec!["12 routes".to_owned()]);
        let left = leave(leaving(dir.path(), &ledger, &notifier, link), clean, std::future::pending());
        let controller = async {
            report(&mut worker, |report| report.failed.is_none()).await;
            assert!(Mark::remove(dir.path()).unwrap());
            worker.announced.send_replace(true);
            worker
        };
        let (left, _worker) = tokio::join!(left, controller);
        assert!(!left.unwrap());
        assert_eq!(Mark::read(dir.path()).unwrap(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_is_stopped_continues_at_its_next_start() {
        let dir = tempfile::tempdir().unwrap();
        let (ledger, notifier) = (Ledger::open(dir.path()).unwrap(), Notifier::default());
        let (link, _worker) = channels("n4", None);
        let stopped = tokio::time::sleep(Duration::from_secs(60));
        let left = leave(leaving(dir.path(), &ledger, &notifier, link), async || Ok(vec![]), stopped).await;
        assert!(!left.unwrap());
        assert_eq!(Mark::read(dir.path()).unwrap(), Some(Mark::CleaningUp(7)));
    }

    /// Catches a mark that is damaged and counts as none: the agent would program the node.
    #[test]
    fn a_mark_that_is_not_known_is_an_error_and_enrolling_takes_any_away() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!((Mark::read(dir.path()).unwrap(), Mark::remove(dir.path()).unwrap()), (None, false));
        for text in ["", "gone", "gone x\n", "later 7\n"] {
            fs::write(Mark::path(dir.path()), text).unwrap();
            let error = Mark::read(dir.path()).unwrap_err().to_string();
            assert!(error.contains("retired") && error.contains("enroll"), "{error}");
        }
        assert!(Mark::remove(dir.path()).unwrap());
        for mark in [Mark::CleaningUp(7), Mark::Gone(u64::MAX)] {
            mark.write(dir.path()).unwrap();
            assert_eq!(Mark::read(dir.path()).unwrap(), Some(mark));
        }
    }
}
