// SPDX-License-Identifier: Apache-2.0
//! Which agents have certificates, of which key and authority, and what they trust: what the replacement of an authority waits for.
//!
//! An entry changes when a certificate is made, when another one is shown in a connection, and when the agent reports what it trusts. It is
//! dropped when its certificate cannot be renewed any more.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::sync::{Mutex, MutexGuard, PoisonError};

use canopy_identity::{AuthorityHash, Certificate, FileError, KeyHash, Subject};
use canopy_units::UnixTime;

use crate::holder::Holder;
use crate::holder_files::Files;

/// Entries that are written at the same time.
const WRITERS: usize = 16;

/// All of them, a file each.
pub(crate) struct Holders {
    files: Files,
    since: UnixTime,
    state: Mutex<State>,
    /// Held while an entry of its part is written: who waits for it finds the newer state written.
    writing: [Mutex<()>; WRITERS],
}

#[derive(Default)]
struct State {
    entries: BTreeMap<Subject, Holder>,
    /// Entries whose files have another state.
    unwritten: BTreeSet<Subject>,
    connections: HashMap<Subject, usize>,
}

impl Holders {
    /// Of the authority's directory. One that cannot be written to is read only: a controller starts on a full disk.
    pub(crate) fn load(files: Files, now: UnixTime) -> Result<Self, FileError> {
        let stored = files.read()?;
        let since = stored.since.unwrap_or(now);
        if stored.since.is_none() {
            unlisted(files.begin(now));
        }
        let state = State { entries: stored.holders, ..State::default() };
        Ok(Self { files, since, state: Mutex::new(state), writing: Default::default() })
    }

    /// Since when certificates are listed. One that an earlier version made is listed once it is shown.
    pub(crate) fn since(&self) -> UnixTime {
        self.since
    }

    /// Every agent whose certificate is valid or can be renewed, and whether it is connected.
    pub(crate) fn all(&self, now: UnixTime) -> Vec<(Subject, Holder, bool)> {
        let state = self.state();
        let present = state.entries.iter().filter(|(_, holder)| !holder.is_gone(now));
        present
            .map(|(subject, holder)| (subject.clone(), holder.clone(), state.connections.contains_key(subject)))
            .collect()
    }

    /// Those with a connection that `is_one` is true for, with the end of what they have shown.
    pub(crate) fn connected_where(&self, is_one: impl Fn(&Subject, &Holder) -> bool) -> Vec<(UnixTime, Subject)> {
        let state = self.state();
        let listed = state.connections.keys().filter_map(|subject| Some((subject, state.entries.get(subject)?)));
        let found = listed.filter(|(subject, holder)| is_one(subject, holder));
        found.map(|(subject, holder)| (holder.not_after, subject.clone())).collect()
    }

    /// From when on the certificate of an agent that is listed is valid.
    pub(crate) fn valid_from(&self, subject: &Subject) -> Option<UnixTime> {
        self.state().entries.get(subject).map(|holder| holder.not_before)
    }

    pub(crate) fn is_connected(&self, subject: &Subject) -> bool {
        self.state().connections.contains_key(subject)
    }

    /// Whether that is the key of an agent since its enrollment, or since before `since`, where none was seen here.
    pub(crate) fn has_key(&self, subject: &Subject, key: KeyHash, since: UnixTime) -> bool {
        let state = self.state();
        let is_from_before = |holder: &Holder| holder.key_shown.is_none_or(|shown| shown < since);
        state.entries.get(subject).is_some_and(|holder| holder.key == key && is_from_before(holder))
    }

    /// A first certificate was made for an agent whose answer has these authorities.
    pub(crate) fn enrolled(&self, subject: &Subject, made: Holder) -> Result<(), FileError> {
        self.change(subject, |_| made)
    }

    /// Another certificate was made for an agent. Of one that is listed, only what it shows counts; another key than the known one is not its own.
    pub(crate) fn renewed(&self, subject: &Subject, made: Holder, now: UnixTime) -> Result<(), FileError> {
        self.change(subject, |present| match present {
            Some(holder) if holder.key != made.key => holder.with_other_key(now),
            Some(holder) => Holder { offered: Some((made.not_after, made.trusts)), ..holder.clone() },
            None => Holder { key_shown: Some(now), ..made },
        })
    }

    /// A connection has shown a certificate.
    pub(crate) fn shown(&self, shown: &Certificate, authority: AuthorityHash, now: UnixTime) -> Result<(), FileError> {
        self.change(&shown.subject, |present| {
            // It got its certificate together with the authority that has signed it.
            let mut holder = Holder::with(present, shown, authority, vec![authority], now);
            if let Some(present) = present.filter(|present| present.key == shown.key) {
                holder.trusts.clone_from(&present.trusts);
                match &present.offered {
                    // An agent stores what it trusts before its certificate.
                    Some((end, trusts)) if *end == shown.not_after => holder.trusts.clone_from(trusts),
                    offered => holder.offered.clone_from(offered),
                }
            }
            holder
        })
    }

    /// An agent has reported what it has stored.
    pub(crate) fn reported(
        &self,
        own: &Certificate,
        authority: AuthorityHash,
        trusts: Vec<AuthorityHash>,
        now: UnixTime,
    ) -> Result<(), FileError> {
        self.change(&own.subject, |present| Holder::with(present, own, authority, trusts, now))
    }

    pub(crate) fn connected(&self, subject: &Subject) {
        *self.state().connections.entry(subject.clone()).or_default() += 1;
    }

    pub(crate) fn disconnected(&self, subject: &Subject) {
        let mut state = self.state();
        if let Some(count) = state.connections.get_mut(subject) {
            *count -= 1;
            if *count == 0 {
                state.connections.remove(subject);
            }
        }
    }

    /// Drops those whose certificates cannot be renewed any more. It reads every entry: to be called now and then, when the clock is known to
    /// be right.
    pub(crate) fn forget(&self, now: UnixTime) {
        let gone: Vec<Subject> = {
            let state = self.state();
            state.entries.iter().filter(|(_, holder)| holder.is_gone(now)).map(|(subject, _)| subject.clone()).collect()
        };
        for subject in gone {
            let _writing = self.writing(&subject);
            {
                let mut state = self.state();
                // One that was enrolled again meanwhile stays. One that is enrolled from now on is written behind this removal.
                if !state.entries.get(&subject).is_some_and(|holder| holder.is_gone(now)) {
                    continue;
                }
                state.entries.remove(&subject);
                state.unwritten.remove(&subject);
            }
            if let Err(error) = self.files.remove(&subject) {
                tracing::error!(%subject, %error, "cannot remove the file of an agent whose certificate has ended: the next start tries again");
            }
        }
    }

    /// Writes what could not be written, on a disk that was full.
    pub(crate) fn write_again(&self) -> Result<(), FileError> {
        let unwritten: Vec<Subject> = self.state().unwritten.iter().cloned().collect();
        unwritten.iter().try_for_each(|subject| self.write(subject))
    }

    fn change(&self, subject: &Subject, next: impl FnOnce(Option<&Holder>) -> Holder) -> Result<(), FileError> {
        {
            let mut state = self.state();
            let present = state.entries.get(subject);
            let next = next(present);
            if present != Some(&next) {
                state.entries.insert(subject.clone(), next);
                state.unwritten.insert(subject.clone());
            }
            // An earlier change that could not be written is tried again with this one.
            if !state.unwritten.contains(subject) {
                return Ok(());
            }
        }
        self.write(subject)
    }

    /// Writes what an agent has now, unless another thread has done so.
    fn write(&self, subject: &Subject) -> Result<(), FileError> {
        let _writing = self.writing(subject);
        let holder = {
            let mut state = self.state();
            if !state.unwritten.remove(subject) {
                return Ok(());
            }
            state.entries.get(subject).cloned()
        };
        let written = holder.map_or(Ok(()), |holder| self.files.write(subject, &holder));
        if written.is_err() {
            self.state().unwritten.insert(subject.clone());
        }
        written
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn writing(&self, subject: &Subject) -> MutexGuard<'_, ()> {
        let hash = BuildHasherDefault::<DefaultHasher>::default().hash_one(subject);
        let [first, ..] = &self.writing;
        let part = usize::try_from(hash % WRITERS as u64).ok().and_then(|part| self.writing.get(part)).unwrap_or(first);
        part.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The list of agents is not worth the refusal of one.
pub(crate) fn unlisted(written: Result<(), FileError>) {
    if let Err(error) = written {
        tracing::error!(%error, "cannot write which agents have certificates: after a restart, the replacement of the authority may not wait for one of them");
    }
}
