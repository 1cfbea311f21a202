// SPDX-License-Identifier: Apache-2.0
//! What can go wrong in a store.

use std::path::PathBuf;

use crate::Revision;

/// Why a store call failed.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Someone else committed in between.
    #[error("store is at revision {actual}, the transaction expected {expected}: another controller writes to it")]
    Conflict {
        /// What the caller expected.
        expected: Revision,
        /// What the store is at.
        actual: Revision,
    },
    /// The transaction is too large.
    #[error("{0}")]
    Limit(String),
    /// Import into a store that holds something.
    #[error("store holds {0} entries: import needs an empty store, give it another store.path")]
    NotEmpty(usize),
    /// Another process has the store open.
    #[error("store {path} is in use by {holder}: stop that process or give this one another store.path")]
    Locked {
        /// The store's directory.
        path: PathBuf,
        /// `process 1234`, or `another process` when its id could not be read.
        holder: String,
    },
    /// A file of the store could not be read or written.
    #[error("{doing} {path}")]
    Io {
        /// What was being done.
        doing: &'static str,
        /// To which file.
        path: PathBuf,
        /// Why it failed.
        source: std::io::Error,
    },
    /// A backup or export does not check out.
    #[error("snapshot {0}")]
    Snapshot(String),
    /// The engine failed; only opening the store again helps.
    #[error("store engine failed while {doing}: {detail}; the store has to be opened again")]
    Failed {
        /// What was being done.
        doing: &'static str,
        /// What the engine said.
        detail: String,
    },
}

impl StoreError {
    pub(crate) fn io(doing: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { doing, path, source }
    }

    pub(crate) fn failed(doing: &'static str, detail: impl std::fmt::Display) -> Self {
        Self::Failed { doing, detail: detail.to_string() }
    }
}
