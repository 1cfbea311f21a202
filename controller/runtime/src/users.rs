// SPDX-License-Identifier: Apache-2.0
//! The machine's database of users and groups (nsswitch.conf(5)), which may be on another machine: an answer is kept for a second, so that many
//! connections and streams of a user ask once.

use std::collections::HashMap;
use std::ffi::CString;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use nix::unistd::{Gid, Group, Uid, User as Entry, getgrouplist};

/// All answers are forgotten this long after the first of them.
const KEPT: Duration = Duration::from_secs(1);

/// A user that there is.
pub(crate) struct User {
    pub(crate) name: String,
    pub(crate) groups: Vec<Gid>,
}

/// The database does not answer.
pub(crate) type UsersError = nix::Error;

/// See the module.
#[derive(Clone, Default)]
pub(crate) struct Users(Arc<Mutex<Answers>>);

#[derive(Default)]
struct Answers {
    since: Option<Instant>,
    users: HashMap<u32, Option<Arc<User>>>,
    groups: HashMap<String, Option<Gid>>,
}

impl Users {
    /// A user, if there is one with this number. Blocks.
    ///
    /// # Errors
    /// The database does not answer.
    pub(crate) fn user(&self, uid: u32) -> Result<Option<Arc<User>>, UsersError> {
        if let Some(known) = self.answers().users.get(&uid) {
            return Ok(known.clone());
        }
        let entry = found(Entry::from_uid(Uid::from_raw(uid)))?;
        let user = entry.map(|entry| groups_of(&entry).map(|groups| Arc::new(User { groups, name: entry.name })));
        let user = user.transpose()?;
        self.answers().users.insert(uid, user.clone());
        Ok(user)
    }

    /// The number of a group, if there is one with this name. Blocks.
    pub(crate) fn group(&self, name: &str) -> Option<Gid> {
        if let Some(known) = self.answers().groups.get(name) {
            return *known;
        }
        let gid = Group::from_name(name).ok().flatten().map(|group| group.gid);
        self.answers().groups.insert(name.to_owned(), gid);
        gid
    }

    /// Never locked while the database is asked.
    fn answers(&self) -> MutexGuard<'_, Answers> {
        let mut answers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if answers.since.is_none_or(|since| since.elapsed() >= KEPT) {
            *answers = Answers { since: Some(Instant::now()), ..Answers::default() };
        }
        answers
    }
}

/// An entry, if there is one. A machine without a user database has none, and that is no failure: the image of the controller is such a machine.
fn found(answer: Result<Option<Entry>, UsersError>) -> Result<Option<Entry>, UsersError> {
    match answer {
        Err(UsersError::ENOENT | UsersError::ESRCH) => Ok(None),
        answer => answer,
    }
}

fn groups_of(user: &Entry) -> Result<Vec<Gid>, UsersError> {
    let name = CString::new(user.name.as_str()).map_err(|_| UsersError::EINVAL)?;
    getgrouplist(&name, user.gid)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Catches a controller in a container, where there is no user database, that gives its own user no role, and one that takes a database that
    /// does not answer for one without the user.
    #[test]
    fn a_user_database_that_is_not_there_has_no_user_and_one_that_fails_is_not_believed() {
        assert!(matches!(found(Err(UsersError::ENOENT)), Ok(None)));
        assert!(matches!(found(Ok(None)), Ok(None)));
        assert_eq!(found(Err(UsersError::EIO)).err(), Some(UsersError::EIO));
    }
}
