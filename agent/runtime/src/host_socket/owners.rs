// SPDX-License-Identifier: Apache-2.0
//! Owners of the memberships that were made through this agent.
//!
//! `host-owners` in the state directory is a line `canopy-host-owners 1 CRC32` and a line `GROUP HOST UID` per
//! membership, or `GROUP HOST NAMESPACE/NAME POD-UID` of a pod's, which an agent of an earlier version does not read. It is written before the
//! call to the controller, so that no crash leaves a membership without its owner.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use canopy_model::ids::check_name;
use tonic::Status;

use super::owner::Owner;
use super::stored;

/// Maximum number of memberships made through one agent; the file stays below 3 MB.
const MAX_OWNED: usize = 16_384;
const FORMAT: &str = "canopy-host-owners 1";

/// Group and host.
pub(super) type Key = (String, String);

/// The owners, in memory and on disk.
pub(super) struct Owners {
    path: PathBuf,
    state: Mutex<OwnersState>,
}

#[derive(Default)]
struct OwnersState {
    owned: BTreeMap<Key, Owner>,
    /// Memberships with a call in progress.
    busy: BTreeSet<Key>,
}

/// Exclusive access to a membership until dropped.
pub(super) struct Claim<'a> {
    owners: &'a Owners,
    key: Key,
    by: Owner,
    /// Owner before this call.
    was: Option<Owner>,
}

impl Owners {
    /// Renames an unusable file and logs an error: then only root or an operator can end the memberships made before.
    pub(super) fn load(state_dir: &Path) -> Self {
        let path = state_dir.join("host-owners");
        let owned = stored::load(&path, FORMAT, entry, "only root or an operator can end memberships made before");
        let owned = owned.into_iter().collect();
        Self { path, state: Mutex::new(OwnersState { owned, busy: BTreeSet::new() }) }
    }

    /// Locks a membership for a call of `by`.
    ///
    /// # Errors
    /// Another user or pod made the membership, or another call for it is in progress.
    pub(super) fn claim(&self, group: &str, host: &str, by: &Owner) -> Result<Claim<'_>, Status> {
        let key = (group.to_owned(), host.to_owned());
        let mut state = self.state();
        let was = state.owned.get(&key).cloned();
        check(was.as_ref(), &key, by)?;
        if !state.busy.insert(key.clone()) {
            return Err(Status::aborted(format!(
                "host: another call for {host} in group {group} is in progress: call again"
            )));
        }
        Ok(Claim { owners: self, key, by: by.clone(), was })
    }

    /// Whether `by` may hold the lease of a membership.
    ///
    /// # Errors
    /// It was not made by this user or pod, at this agent.
    pub(super) fn check(&self, key: &Key, by: &Owner) -> Result<(), Status> {
        match self.state().owned.get(key) {
            None if *by != Owner::ROOT => Err(ended(key)),
            owner => check(owner, key, by),
        }
    }

    /// Removes the memberships of a group that does not exist for `by`, and returns them: those of the whole group if it is a user, and of pods
    /// of its namespace otherwise. For the others the group may exist, as one of their tenant.
    pub(super) fn forget_group(&self, group: &str, by: &Owner) -> Vec<Key> {
        let mut state = self.state();
        // One with a call in progress may be made again at this moment.
        let OwnersState { owned, busy } = &mut *state;
        let is_gone = |key: &Key, owner: &mut Owner| key.0 == group && !busy.contains(key) && by.sees_all_of(owner);
        let gone: Vec<Key> = owned.extract_if(.., is_gone).map(|(key, _)| key).collect();
        if !gone.is_empty() {
            self.store_or_warn(&state.owned);
        }
        gone
    }

    fn state(&self) -> std::sync::MutexGuard<'_, OwnersState> {
        // Nothing panics while the lock is held, so the state of a poisoned lock is consistent.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn store(&self, owned: &BTreeMap<Key, Owner>) -> io::Result<()> {
        let lines: String = owned.iter().map(|((group, host), owner)| format!("{group} {host} {owner}\n")).collect();
        stored::store(&self.path, FORMAT, &lines)
    }

    fn store_or_warn(&self, owned: &BTreeMap<Key, Owner>) {
        if let Err(error) = self.store(owned) {
            tracing::warn!(file = %self.path.display(), %error, "the file still lists an ended membership");
        }
    }
}

impl Claim<'_> {
    /// The owner before this call.
    pub(super) fn owner(&self) -> Option<&Owner> {
        self.was.as_ref()
    }

    /// Stores the caller as owner; a membership that root changes keeps its owner.
    ///
    /// # Errors
    /// There are too many memberships, or the file cannot be written: then the membership must not be made.
    pub(super) fn own(&self) -> Result<(), Status> {
        if self.was.is_some() {
            return Ok(());
        }
        let mut state = self.owners.state();
        if state.owned.len() >= MAX_OWNED {
            return Err(Status::resource_exhausted(format!(
                "{MAX_OWNED} memberships were made through this agent, which is the limit: leave some"
            )));
        }
        state.owned.insert(self.key.clone(), self.by.clone());
        self.owners.store(&state.owned).map_err(|error| {
            state.owned.remove(&self.key);
            Status::internal(format!("the agent cannot write {}: {error}", self.owners.path.display()))
        })
    }

    /// The membership ended.
    pub(super) fn end(&self) {
        let mut state = self.owners.state();
        if state.owned.remove(&self.key).is_some() {
            self.owners.store_or_warn(&state.owned);
        }
    }

    /// The controller refused the join: restores the state before the call.
    pub(super) fn undo(&self) {
        if self.was.is_none() {
            self.end();
        }
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        self.owners.state().busy.remove(&self.key);
    }
}

/// The status of a membership that has no lease here, or has ended.
pub(super) fn ended((group, host): &Key) -> Status {
    Status::not_found(format!("{host} has no membership with a lease in group {group} here"))
}

/// A refusal names the kind of the owner alone: who it is may be nothing for a pod of another tenant.
fn check(owner: Option<&Owner>, (group, host): &Key, by: &Owner) -> Result<(), Status> {
    let Some(owner) = owner.filter(|owner| *owner != by && *by != Owner::ROOT) else { return Ok(()) };
    let (made_by, refused, may) = match (owner, by) {
        (Owner::User(_), Owner::User(uid)) => ("another user", format!("uid {uid}"), "its owner or root"),
        (Owner::Pod(_), Owner::User(uid)) => ("a pod", format!("uid {uid}"), "that pod, root or an operator"),
        (Owner::User(_), Owner::Pod(_)) => ("a user of the machine", "this pod".to_owned(), "an operator"),
        (Owner::Pod(of), Owner::Pod(pod)) if of.account() == pod.account() => {
            ("another pod of this service account", "this pod".to_owned(), "that pod or an operator")
        }
        (Owner::Pod(_), Owner::Pod(_)) => {
            ("a pod of another service account", "this pod".to_owned(), "that pod or an operator")
        }
    };
    Err(Status::permission_denied(format!(
        "host: the membership of {host} in group {group} was made by {made_by}: {refused} can neither change \
         nor end it; {may} can"
    )))
}

fn entry(line: &str) -> Option<(Key, Owner)> {
    let (group, rest) = line.split_once(' ')?;
    let (host, owner) = rest.split_once(' ')?;
    let key = names(&format!("{group} {host}"))?;
    Some((key, owner.parse().ok()?))
}

/// `GROUP HOST`.
pub(super) fn names(line: &str) -> Option<Key> {
    let (group, host) = line.split_once(' ')?;
    let good = check_name("group", group).is_ok() && check_name("host", host).is_ok();
    good.then(|| (group.to_owned(), host.to_owned()))
}

#[cfg(test)]
mod tests;
