// SPDX-License-Identifier: Apache-2.0
//! Durable intents behind one trait: revisioned compare-and-swap transactions over ordered keys.
//!
//! - [`Store`]: the trait, its operations and limits. Transactions and what an engine keeps of a value are within the limits of etcd with default
//!   settings, so that support for several controllers needs one more file and no change above.
//! - [`EmbeddedStore`]: the default. One atomic batch and one fdatasync per commit, checksummed logical backups next to the database,
//!   quarantine and restore after damage, read-only on a full disk; over one of two [engines](EngineKind). Large values are kept in pages,
//!   of which a change writes those that it changes.
//! - [`MemStore`]: the same behaviour in memory, for tests and simulation.
//! - [`Files`]: small files beside the store, for what is useful and not an intent.
//! - [`Journal`]: lines in files of which the oldest are removed, likewise.
//! - [`snapshot`]: the logical backup format, also that of export and import.
//!
//! Every call may block on the disk: an async caller runs it in `spawn_blocking`.

mod embedded;
mod engine;
mod error;
mod files;
mod format;
mod journal;
mod mark;
mod mem;
mod pages;
mod recovery;
mod replace;
mod reserve;
mod returning;
pub mod snapshot;
mod store;

pub use embedded::EmbeddedStore;
pub use engine::EngineKind;
pub use error::StoreError;
pub use files::Files;
pub use journal::{Journal, JournalFiles};
pub use mem::MemStore;
pub use recovery::{Recovery, acknowledge_recovery};
pub use snapshot::Snapshot;
pub use store::{
    Backup, MAX_KEY_BYTES, MAX_OPS, MAX_VALUE_BYTES, ORDINARY_OCTETS, Op, RESTORE_GAP, Revision, Store, check_ops,
};
