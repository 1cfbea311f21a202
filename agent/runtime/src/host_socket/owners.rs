// SPDX-License-Identifier: Apache-2.0
//! Which user made which membership through this agent.
//!
//! `host-owners` in the state directory is a line `canopy-host-owners 1 CRC32` and a line `GROUP HOST UID` per
//! membership. It is written before the controller is asked, so that no crash leaves a membership without its owner.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use canopy_model::ids::check_name;
use tonic::Status;

use super::access::ROOT;

/// Most memberships made through one agent; the file stays below 3 MB.
const MAX_OWNED: usize = 16_384;
const MAX_BYTES: u64 = 4 << 20;
const FORMAT: &str = "canopy-host-owners 1";

type Key = (String, String);

/// The book, in memory and on disk.
pub(super) struct Owners {
    path: PathBuf,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    owned: BTreeMap<Key, u32>,
    /// Memberships that a call is about right now.
    busy: BTreeSet<Key>,
}

/// A membership under change: nobody else changes it until this is dropped.
pub(super) struct Claim<'a> {
    owners: &'a Owners,
    key: Key,
    uid: u32,
    /// Its owner before.
    was: Option<u32>,
}

impl Owners {
    /// A file that cannot be used is set aside with a warning: then only root can end what was made before.
    pub(super) fn load(state_dir: &Path) -> Self {
        let path = state_dir.join("host-owners");
        let owned = match read(&path) {
            Ok(owned) => owned,
            Err(reason) => {
                let aside = path.with_extension("damaged");
                let moved = fs::rename(&path, &aside);
                tracing::error!(file = %path.display(), %reason, ?moved,
                    "who made which membership is forgotten: only root can end those made before");
                BTreeMap::new()
            }
        };
        Self { path, state: Mutex::new(State { owned, busy: BTreeSet::new() }) }
    }

    /// Takes hold of a membership for `uid`.
    ///
    /// # Errors
    /// It is somebody else's, or a call about it is under way.
    pub(super) fn claim(&self, group: &str, host: &str, uid: u32) -> Result<Claim<'_>, Status> {
        let key = (group.to_owned(), host.to_owned());
        let mut state = self.state();
        let was = state.owned.get(&key).copied();
        if was.is_some_and(|owner| owner != uid) && uid != ROOT {
            return Err(Status::permission_denied(format!(
                "host: the membership of {host} in group {group} was made by another user: uid {uid} can neither change \
                 nor end it, its owner or root can"
            )));
        }
        if !state.busy.insert(key.clone()) {
            return Err(Status::aborted(format!(
                "host: another call about {host} in group {group} is under way: call again"
            )));
        }
        Ok(Claim { owners: self, key, uid, was })
    }

    /// Forgets what was made in a group that does not exist any more.
    pub(super) fn forget_group(&self, group: &str) {
        let mut state = self.state();
        let before = state.owned.len();
        state.owned.retain(|(of, _), _| of != group);
        if state.owned.len() != before {
            self.store_or_warn(&state.owned);
        }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        // Nothing panics while the lock is held, so a poisoned book is still whole.
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
            tracing::warn!(file = %self.path.display(), %error, "an ended membership is still written down");
        }
    }
}

impl Claim<'_> {
    /// The owner before this call.
    pub(super) fn owner(&self) -> Option<u32> {
        self.was
    }

    /// Writes the owner down; a membership that root changes stays its owner's.
    ///
    /// # Errors
    /// There are too many, or the disk refuses: then the membership must not be made.
    pub(super) fn own(&self) -> Result<(), Status> {
        if self.was.is_some() {
            return Ok(());
        }
        let mut state = self.owners.state();
        if state.owned.len() >= MAX_OWNED {
            return Err(Status::resource_exhausted(format!(
                "{MAX_OWNED} memberships were made through this agent, no more are supported: leave some"
            )));
        }
        state.owned.insert(self.key.clone(), self.uid);
        self.owners.store(&state.owned).map_err(|error| {
            state.owned.remove(&self.key);
            Status::internal(format!("the agent cannot write {}: {error}", self.owners.path.display()))
        })
    }

    /// The membership is over.
    pub(super) fn end(&self) {
        let mut state = self.owners.state();
        if state.owned.remove(&self.key).is_some() {
            self.owners.store_or_warn(&state.owned);
        }
    }

    /// The controller refused the join for good: it is as before.
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
