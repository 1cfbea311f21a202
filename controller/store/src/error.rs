// SPDX-License-Identifier: Apache-2.0
//! Errors of a store.

use std::path::PathBuf;

use crate::{EngineKind, Revision};

/// Why a store call failed.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Another writer committed in between.
    #[error("store is at revision {actual}, the transaction expected {expected}: another controller writes to it")]
    Conflict {
        /// Revision that the caller expected.
        expected: Revision,
        /// Revision of the store.
        actual: Revision,
    },
    /// The transaction is too large.
    #[error("{0}")]
    Limit(String),
    /// Import into a store that is not empty.
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
        /// The operation.
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// The file system, or the quota of the store's owner, has no space left. Nothing was changed.
    #[error(
        "the disk of {path} is full: the store is read-only until there are 32 MiB of free space; free some, or give the file system more"
    )]
    Full {
        /// The store's directory.
        path: PathBuf,
    },
    /// The store's database is one of another engine.
    #[error(
        "store {path} has a database of {found}, and store.engine is {wanted}: use {found}; or export the store with {found} and import it \
         with {wanted} into another store.path"
    )]
    OtherEngine {
        /// The store's directory.
        path: PathBuf,
        /// The engine of its database.
        found: EngineKind,
        /// The engine that it was opened with.
        wanted: EngineKind,
    },
    /// A later version of the controller has written what this one cannot read.
    #[error(
        "store {path} has format {format}, which canopy-controller {version} has written, and this version reads {known} at most: start that version again; {way_back}"
    )]
    LaterFormat {
        /// The store's directory.
        path: PathBuf,
        /// Its format.
        format: u32,
        /// The version that has written it first.
        version: String,
        /// The latest format that this version reads.
        known: u32,
        /// How this version can be used all the same.
        way_back: String,
    },
    /// A return to an earlier format was cut off.
    #[error(
        "the return of store {path} to an earlier format has not ended: do it again: canopy-controller store return"
    )]
    Returning {
        /// The store's directory.
        path: PathBuf,
    },
    /// A backup or export is invalid.
    #[error("snapshot {0}")]
    Snapshot(String),
    /// The engine failed; the store must be opened again.
    #[error("store engine failed while {doing}: {detail}; the store has to be opened again")]
    Failed {
        /// The operation.
        doing: &'static str,
        /// The engine's error message.
        detail: String,
    },
}

impl StoreError {
    pub(crate) fn io(doing: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        move |source| match crate::reserve::is_full(&source) {
            true => Self::Full { path },
            false => Self::Io { doing, path, source },
        }
    }

    pub(crate) fn failed(doing: &'static str, detail: impl std::fmt::Display) -> Self {
        Self::Failed { doing, detail: detail.to_string() }
    }
}
