// SPDX-License-Identifier: Apache-2.0
//! The trait and its limits.

use std::ops::Range;
use std::path::Path;
use std::time::SystemTime;

use crate::pages::OWN;
use crate::{Recovery, Snapshot, StoreError};

/// Increment of the revision after a restore or an import: larger than the number of commits possible after the backup.
pub const RESTORE_GAP: Revision = 1 << 32;

/// Counts commits of one store; 0 = no commit yet. Never decreases, not even after a restore.
pub type Revision = u64;

/// Operations in one transaction, at most (etcd's default `--max-txn-ops`).
pub const MAX_OPS: usize = 128;
/// Bytes of one value, at most. An engine keeps a value above 1 MiB in pages: etcd's limit of a request is 1.5 MiB.
pub const MAX_VALUE_BYTES: usize = 256 << 20;
/// Bytes of one key, at most.
pub const MAX_KEY_BYTES: usize = 512;

/// Values of one transaction for which a store that is [ready](Store::ready) has space, octets.
pub const ORDINARY_OCTETS: usize = 2 << 20;

/// A backup that a store keeps of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backup {
    /// The revision of what it holds.
    pub revision: Revision,
    /// When it was written, by the clock of its file system.
    pub at: SystemTime,
}

/// One write of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// Sets `key` to `value`.
    Put {
        /// Non-empty, at most [`MAX_KEY_BYTES`]; what begins with `store/` is the store's own.
        key: String,
        /// At most [`MAX_VALUE_BYTES`].
        value: Vec<u8>,
    },
    /// Removes `key`; removing an absent key is not an error.
    Delete {
        /// Non-empty, at most [`MAX_KEY_BYTES`].
        key: String,
    },
}

impl Op {
    /// The key written.
    pub fn key(&self) -> &str {
        match self {
            Op::Put { key, .. } | Op::Delete { key } => key,
        }
    }

    /// Octets of the value written; 0 for a deletion.
    pub fn octets(&self) -> usize {
        match self {
            Op::Put { value, .. } => value.len(),
            Op::Delete { .. } => 0,
        }
    }
}

/// Revisioned compare-and-swap transactions. All calls may block.
///
/// One revision covers the whole store: sufficient for a single writing controller, and it fences off a second one,
/// whose commit no longer expects the right revision. In etcd this is a compare on the `mod_revision` of one key that
/// every transaction rewrites, and a watch from a [`Snapshot::revision`] on.
pub trait Store: Send + Sync {
    /// Revision of the last commit.
    ///
    /// # Errors
    /// The engine failed.
    fn revision(&self) -> Result<Revision, StoreError>;

    /// Applies all of `ops` or none, if the store is still at `expected`. When this returns `Ok`, the writes
    /// survive the death of the process and of the machine.
    ///
    /// # Errors
    /// [`StoreError::Conflict`] if the revision is another one, [`StoreError::Limit`] if the transaction is too large, [`StoreError::Full`]
    /// if the disk is full (these change nothing), [`StoreError::Failed`] if the engine failed: it is then unknown whether the writes are
    /// stored, every later commit fails too, and the store must be opened again.
    fn commit(&self, expected: Revision, ops: &[Op]) -> Result<Revision, StoreError>;

    /// All entries whose key begins with `prefix`, in key order, at one revision.
    ///
    /// # Errors
    /// The engine failed.
    fn scan(&self, prefix: &str) -> Result<Snapshot, StoreError>;

    /// Up to `limit` entries whose key begins with `prefix` and is lower than `below`, the one with the highest key first.
    ///
    /// # Errors
    /// The engine failed.
    fn newest(&self, prefix: &str, below: Option<&str>, limit: usize) -> Result<Vec<(String, Vec<u8>)>, StoreError>;

    /// Fills an empty store with an exported one; the revision becomes the larger of both, plus [`RESTORE_GAP`]: whatever was
    /// committed after the export and reached an agent lies before it.
    ///
    /// # Errors
    /// [`StoreError::NotEmpty`], or the engine failed.
    fn import(&self, snapshot: &Snapshot) -> Result<Revision, StoreError>;

    /// Writes a logical backup if this engine keeps its own and something changed since the last one.
    ///
    /// # Errors
    /// The backup could not be written; the store itself is unaffected.
    fn checkpoint(&self) -> Result<(), StoreError> {
        Ok(())
    }

    /// Whether the next commit of up to [`ORDINARY_OCTETS`] will be written. May take disk space for it, so it is for the writer.
    ///
    /// # Errors
    /// [`StoreError::Full`] if the disk is full: commits are refused until there is space.
    fn ready(&self) -> Result<(), StoreError> {
        Ok(())
    }

    /// Directory for files that are kept beside the store and may be lost with the machine; `None` of a store in memory.
    fn beside(&self) -> Option<&Path> {
        None
    }

    /// The newest backup that the store keeps of itself beside its database; `None` without one.
    fn last_backup(&self) -> Option<Backup> {
        None
    }

    /// Name of the engine.
    fn engine(&self) -> &'static str {
        "memory"
    }

    /// Octets of the files of its database; `None` of a store in memory, or if they cannot be read.
    fn octets(&self) -> Option<u64> {
        None
    }

    /// What was lost when the store was opened, now or at an earlier start, until an operator has taken note of it.
    fn recovery(&self) -> Option<Recovery> {
        None
    }
}

/// The keys that begin with `prefix` and are lower than `below`; `None` if there can be none.
pub(crate) fn keys_below(prefix: &str, below: Option<&str>) -> Option<Range<String>> {
    // Keys are text, and no text has this character behind the prefix.
    let end = format!("{prefix}{}", char::MAX);
    let to = below.map_or(end.as_str(), |below| below.min(end.as_str()));
    (prefix < to).then(|| prefix.to_owned()..to.to_owned())
}

/// Checks a transaction against the limits, so that all engines refuse the same transactions.
///
/// # Errors
/// [`StoreError::Limit`] naming the operation.
pub fn check_ops(ops: &[Op]) -> Result<(), StoreError> {
    if ops.len() > MAX_OPS {
        return Err(StoreError::Limit(format!(
            "{} operations in one transaction, at most {MAX_OPS} are possible",
            ops.len()
        )));
    }
    for op in ops {
        let key = op.key();
        if key.is_empty() || key.len() > MAX_KEY_BYTES {
            return Err(StoreError::Limit(format!(
                "key {key:?} has {} bytes, 1..={MAX_KEY_BYTES} are possible",
                key.len()
            )));
        }
        if key.starts_with(OWN) {
            return Err(StoreError::Limit(format!("key {key:?} is the store's own: {OWN} is kept for its pages")));
        }
        if op.octets() > MAX_VALUE_BYTES {
            return Err(StoreError::Limit(format!(
                "value of {key:?} has {} bytes, at most {MAX_VALUE_BYTES} are possible",
                op.octets()
            )));
        }
    }
    Ok(())
}
