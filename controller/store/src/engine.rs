// SPDX-License-Identifier: Apache-2.0
//! What an embedded database has to do for [`EmbeddedStore`](crate::EmbeddedStore), and the databases that there are.

mod redb;
mod sled;

use std::io::ErrorKind;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::{Op, Revision, StoreError};

/// An embedded database (`store.engine`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EngineKind {
    /// sled 0.34: a log of changes.
    #[default]
    Sled,
    /// redb: a B-tree that is copied on write, in one file.
    Redb,
}

impl EngineKind {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Sled, Self::Redb];

    /// As in `store.engine`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Sled => "sled",
            Self::Redb => "redb",
        }
    }

    /// The directory of its files in that of the store.
    pub(crate) fn dir(self) -> &'static str {
        match self {
            Self::Sled => "db",
            Self::Redb => "redb",
        }
    }

    /// Opens the database in directory `dir`, which is made if it is not there; all that this writes is on the disk then.
    pub(crate) fn open(self, dir: &Path) -> Result<Box<dyn Engine>, EngineError> {
        guarded(|| match self {
            Self::Sled => Ok(Box::new(sled::Sled::open(dir)?) as Box<dyn Engine>),
            Self::Redb => Ok(Box::new(redb::Redb::open(dir)?)),
        })
    }
}

impl std::fmt::Display for EngineKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// An open database: values by key, and a revision. A panic inside is an error: see [`guarded`].
pub(crate) trait Engine: Send {
    /// Of the last transaction; 0 without one.
    fn revision(&self) -> Result<Revision, EngineError>;

    /// In the order of the keys.
    fn entries(&self, prefix: &str) -> Result<Vec<(String, Vec<u8>)>, EngineError>;

    /// See [`Store::newest`](crate::Store::newest); `from..to` are its keys.
    fn newest(&self, from: &str, to: &str, limit: usize) -> Result<Vec<(String, Vec<u8>)>, EngineError>;

    /// Takes the disk space that the next [`Engine::write`] of values of `octets` needs, as far as the engine can; changes nothing else.
    fn prepare(&mut self, octets: u64) -> Result<(), EngineError>;

    /// Carries out all of `ops`, and takes revision `next`, or does neither; a later operation on a key wins. What is written is on the
    /// disk when this returns `Ok`. After an error it is not known which of the two is the case, and the database must be opened again.
    fn write(&mut self, next: Revision, ops: &[Op]) -> Result<(), EngineError>;

    /// Whether this process can open the database again after a write that failed.
    fn opens_again(&self) -> bool;
}

/// Why a database did not do something.
#[derive(Debug, thiserror::Error)]
#[error("{detail}")]
pub(crate) struct EngineError {
    pub(crate) cause: Cause,
    pub(crate) detail: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// The file system, or the owner's quota, has no space left.
    Full,
    /// The system does not let this process use files that may be whole.
    Refused,
    /// The files do not hold what they should, or the database does not work.
    Damage,
}

impl EngineError {
    pub(crate) fn damage(detail: impl Into<String>) -> Self {
        Self { cause: Cause::Damage, detail: detail.into() }
    }

    /// An error of the operating system.
    pub(crate) fn io(error: &std::io::Error, doing: &str) -> Self {
        let cause = match error.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => Cause::Full,
            ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem | ErrorKind::OutOfMemory => Cause::Refused,
            _ if matches!(error.raw_os_error(), Some(nix::libc::EMFILE | nix::libc::ENFILE)) => Cause::Refused,
            _ => Cause::Damage,
        };
        Self { cause, detail: if doing.is_empty() { error.to_string() } else { format!("{doing}: {error}") } }
    }

    /// Of the store, while `doing` something.
    pub(crate) fn of_store(self, doing: &'static str, path: &Path) -> StoreError {
        match self.cause {
            Cause::Full => StoreError::Full { path: path.to_owned() },
            Cause::Refused | Cause::Damage => StoreError::failed(doing, self.detail),
        }
    }
}

/// Runs a call of an engine and turns a panic into an error: databases assert on damaged files.
pub(crate) fn guarded<T>(call: impl FnOnce() -> Result<T, EngineError>) -> Result<T, EngineError> {
    catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
        Err(EngineError::damage(format!("it panicked: {}", text.unwrap_or("no message"))))
    })
}
