// SPDX-License-Identifier: Apache-2.0
//! Reading what operators wrote.

use canopy_controller_core::audit::{Action, AuditEntry, IntentKind};
use canopy_controller_core::request_id::RequestId;
use canopy_controller_core::tenant::Scope;
use canopy_store::StoreError;
use canopy_units::UnixTime;
use serde::de::DeserializeOwned;

use crate::books::{Version, audit_key, audit_prefix, audit_sequence, version_prefix};
use crate::joins::{joins_key, joins_prefix, sequence_of};
use crate::{CommandError, Controller, Target};

/// Entries of the audit that one request reads, at most: beyond them, the answer has where to continue.
const MAX_READ: usize = 10_000;
/// Entries read from the store at once.
const CHUNK: usize = 500;

/// Which entries of the audit are wanted; the default selects all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditFilter {
    /// What a caller sees.
    pub scope: Scope,
    /// The joins and leaves of hosts, instead of what operators wrote.
    pub hosts: bool,
    /// Of resources of this kind.
    pub kind: Option<IntentKind>,
    /// Of resources of this name.
    pub name: Option<String>,
    /// Of the principal with this name.
    pub by: Option<String>,
    /// Of this kind of write.
    pub action: Option<Action>,
    /// Written at this instant or later, on the controller's wall clock.
    pub since: Option<UnixTime>,
    /// Of this request: of a change set, that which sent it.
    pub request: Option<RequestId>,
}

impl AuditFilter {
    fn takes(&self, entry: &AuditEntry) -> bool {
        self.scope.has_of(entry.tenant())
            && self.kind.is_none_or(|kind| kind == entry.kind)
            && self.name.as_ref().is_none_or(|name| *name == entry.name)
            && self.by.as_ref().is_none_or(|by| *by == entry.written.by.name)
            && self.action.is_none_or(|action| action == entry.action)
            && self.since.is_none_or(|since| since <= entry.written.at)
            && self.request.is_none_or(|request| entry.written.request == Some(request))
    }
}

impl Controller {
    /// Up to `limit` entries of the audit, the newest first, all with a sequence below `before`; and, if there may be more, the `before`
    /// with which they continue.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn audit(
        &self,
        filter: AuditFilter,
        before: Option<u64>,
        limit: usize,
    ) -> Result<(Vec<AuditEntry>, Option<u64>), CommandError> {
        let store = self.0.store.clone();
        let read = move || {
            let (mut found, mut below, mut read_so_far) = (Vec::new(), before, 0);
            let book = Book::of(filter.hosts);
            loop {
                let key = below.map(book.key);
                let page = store.newest(book.prefix, key.as_deref(), CHUNK)?;
                for (key, value) in &page {
                    if found.len() == limit {
                        return Ok((found, below));
                    }
                    // By the key: the page also ends behind an entry that cannot be read.
                    below = (book.sequence)(key);
                    read_so_far += 1;
                    found.extend(parsed::<AuditEntry>(value).filter(|entry| filter.takes(entry)));
                }
                if page.len() < CHUNK {
                    return Ok((found, None));
                }
                if read_so_far >= MAX_READ {
                    return Ok((found, below));
                }
            }
        };
        blocking(read).await
    }

    /// The versions of a resource, the newest first: the one in force, if it is there, and those that were replaced.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn versions(&self, target: Target) -> Result<Vec<Version>, CommandError> {
        let present = self.read(|d| target.declared(d)).map(|(metadata, intent)| Version::present(metadata, intent));
        let store = self.0.store.clone();
        let replaced = blocking(move || store.newest(&version_prefix(&target), None, CHUNK)).await?;
        let replaced = replaced.iter().filter_map(|(_, value)| parsed::<Version>(value));
        // What was in force a moment ago may have been replaced since.
        let is_present = |v: &Version| present.as_ref().is_some_and(|p| (p.uid, p.generation) == (v.uid, v.generation));
        let replaced: Vec<Version> = replaced.filter(|version| !is_present(version)).collect();
        Ok(present.into_iter().chain(replaced).collect())
    }
}

/// Where entries are: their keys, and the sequences in these.
struct Book {
    prefix: &'static str,
    key: fn(u64) -> String,
    sequence: fn(&str) -> Option<u64>,
}

impl Book {
    /// That of hosts, or that of operators.
    fn of(hosts: bool) -> Self {
        if hosts {
            Self { prefix: joins_prefix(), key: joins_key, sequence: sequence_of }
        } else {
            Self { prefix: audit_prefix(), key: audit_key, sequence: audit_sequence }
        }
    }
}

/// `None` for a record of a later version that this one cannot read.
fn parsed<T: DeserializeOwned>(value: &[u8]) -> Option<T> {
    serde_json::from_slice(value).ok()
}

async fn blocking<T: Send + 'static>(
    read: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, CommandError> {
    let read = tokio::task::spawn_blocking(read).await.map_err(|_| CommandError::Stopping)?;
    read.map_err(CommandError::Store)
}
