// SPDX-License-Identifier: Apache-2.0
//! Owners of the memberships that were made through this agent.
//!
//! `host-owners` in the state directory is a line `canopy-host-owners 1 CRC32` and a line `GROUP HOST UID` per
//! membership. It is written before the call to the controller, so that no crash leaves a membership without its owner.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use canopy_model::ids::check_name;
use tonic::Status;

use super::access::ROOT;

/// Maximum number of memberships made through one agent; the file stays below 3 MB.
const MAX_OWNED: usize = 16_384;
const MAX_BYTES: u64 = 4 << 20;
const FORMAT: &str = "canopy-host-owners 1";

type Key = (String, String);

/// The owners, in memory and on disk.
pub(super) struct Owners {
    path: PathBuf,
    state: Mutex<OwnersState>,
}

#[derive(Default)]
struct OwnersState {
    owned: BTreeMap<Key, u32>,
    /// Memberships with a call in progress.
    busy: BTreeSet<Key>,
}

/// Exclusive access to a membership until dropped.
pub(super) struct Claim<'a> {
    owners: &'a Owners,
    key: Key,
    uid: u32,
    /// Owner before this call.
    was: Option<u32>,
}

impl Owners {
    /// Renames an unusable file and logs an error: then only root can end the memberships made before.
    pub(super) fn load(state_dir: &Path) -> Self {
        let path = state_dir.join("host-owners");
        let owned = match read(&path) {
            Ok(owned) => owned,
            Err(reason) => {
                let aside = path.with_extension("damaged");
                let moved = fs::rename(&path, &aside);
                tracing::error!(file = %path.display(), %reason, ?moved,
                    "cannot use the file of membership owners: only root can end memberships made before");
                BTreeMap::new()
            }
        };
        Self { path, state: Mutex::new(OwnersState { owned, busy: BTreeSet::new() }) }
    }

    /// Locks a membership for a call of `uid`.
    ///
    /// # Errors
    /// Another user made the membership, or another call for it is in progress.
    pub(super) fn claim(&self, group: &str, host: &str, uid: u32) -> Result<Claim<'_>, Status> {
        let key = (group.to_owned(), host.to_owned());
        let mut state = self.state();
        let was = state.owned.get(&key).copied();
        if was.is_some_and(|owner| owner != uid) && uid != ROOT {
            return Err(Status::permission_denied(format!(
                "host: the membership of {host} in group {group} was made by another user: uid {uid} can neither change \
                 nor end it; its owner or root can"
            )));
        }
        if !state.busy.insert(key.clone()) {
            return Err(Status::aborted(format!(
                "host: another call for {host} in group {group} is in progress: call again"
            )));
        }
        Ok(Claim { owners: self, key, uid, was })
    }

    /// Removes the memberships of a deleted group.
    pub(super) fn forget_group(&self, group: &str) {
        let mut state = self.state();
        let before = state.owned.len();
        state.owned.retain(|(of, _), _| of != group);
        if state.owned.len() != before {
            self.store_or_warn(&state.owned);
        }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, OwnersState> {
        // Nothing panics while the lock is held, so the state of a poisoned lock is consistent.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Replaces the file; after an error the old one is intact.
    fn store(&self, owned: &BTreeMap<Key, u32>) -> io::Result<()> {
        let lines: String = owned.iter().map(|((group, host), uid)| format!("{group} {host} {uid}\n")).collect();
        let temporary = self.path.with_extension("tmp");
        let mut file = File::create(&temporary)?;
        write!(file, "{FORMAT} {:08x}\n{lines}", crc32fast::hash(lines.as_bytes()))?;
        file.sync_all()?;
        fs::rename(&temporary, &self.path)?;
        self.path.parent().map_or(Ok(()), |dir| File::open(dir)?.sync_all())
    }

    fn store_or_warn(&self, owned: &BTreeMap<Key, u32>) {
        if let Err(error) = self.store(owned) {
            tracing::warn!(file = %self.path.display(), %error, "the file still lists an ended membership");
        }
    }
}

impl Claim<'_> {
    /// The owner before this call.
    pub(super) fn owner(&self) -> Option<u32> {
        self.was
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
        state.owned.insert(self.key.clone(), self.uid);
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

fn read(path: &Path) -> Result<BTreeMap<Key, u32>, String> {
    match fs::metadata(path) {
        Ok(found) if found.len() > MAX_BYTES => return Err(format!("it is larger than {MAX_BYTES} bytes")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
        _ => {}
    }
    let text = fs::read_to_string(path).map_err(|error| error.to_string())?;
    let (head, lines) = text.split_once('\n').ok_or("it has no first line")?;
    if head != format!("{FORMAT} {:08x}", crc32fast::hash(lines.as_bytes())) {
        return Err("its first line does not match its content".to_owned());
    }
    lines.lines().map(|line| entry(line).ok_or_else(|| format!("line {line:?}"))).collect()
}

fn entry(line: &str) -> Option<(Key, u32)> {
    let mut words = line.split(' ');
    let (group, host, uid) = (words.next()?, words.next()?, words.next()?.parse().ok()?);
    let good = words.next().is_none() && check_name("group", group).is_ok() && check_name("host", host).is_ok();
    good.then(|| ((group.to_owned(), host.to_owned()), uid))
}

#[cfg(test)]
mod tests;
