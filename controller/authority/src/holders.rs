// SPDX-License-Identifier: Apache-2.0
//! Which agents have certificates, of which authority, and what they trust: what the replacement of an authority waits for.
//!
//! An entry changes when a certificate is made, when another one is shown in a connection, and when the agent reports what it trusts. It is
//! dropped when its certificate cannot be renewed any more.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use canopy_identity::{AuthorityHash, Certificate, FileError, RENEWABLE, Subject};
use canopy_units::UnixTime;
use serde::{Deserialize, Serialize};

const FILE: &str = "holders.json";
const SECOND: u64 = 1_000_000_000;

/// What an agent had when it was last seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Holder {
    pub(crate) not_before: UnixTime,
    pub(crate) not_after: UnixTime,
    /// Which authority has signed its certificate.
    pub(crate) authority: AuthorityHash,
    /// What it trusts.
    pub(crate) trusts: Vec<AuthorityHash>,
    /// A certificate that was made for it and not shown yet: when that ends, and what the answer had to trust.
    offered: Option<(UnixTime, Vec<AuthorityHash>)>,
}

/// All of them, in `holders.json`.
pub(crate) struct Holders {
    path: PathBuf,
    state: Mutex<State>,
    /// Version of the state that the file has. Held while it is written: who waits finds its change written.
    written: Mutex<u64>,
}

struct State {
    since: UnixTime,
    entries: BTreeMap<Subject, Holder>,
    connections: HashMap<Subject, usize>,
    version: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Stored {
    /// Seconds since 1970, as all times here.
    since: u64,
    holders: Vec<StoredHolder>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct StoredHolder {
    subject: String,
    not_before: u64,
    not_after: u64,
    authority: String,
    trusts: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    offered: Option<(u64, Vec<String>)>,
}

impl Holders {
    /// Of the authority's directory.
    pub(crate) fn load(directory: &Path, now: UnixTime) -> Result<Self, FileError> {
        let path = directory.join(FILE);
        let (since, entries) = match canopy_identity::read(&path)? {
            Some(text) => read(&text).map_err(|why| {
                let why = format!("is damaged: move it away, and agents are listed again as they connect: {why}");
                FileError::new(&path, why)
            })?,
            None => (now, BTreeMap::new()),
        };
        // What the file has need not be written again: a controller starts on a full disk.
        let is_written = path.exists();
        let state = State { since, entries, connections: HashMap::new(), version: 1 };
        let holders = Self { path, state: Mutex::new(state), written: Mutex::new(is_written.into()) };
        unlisted(holders.write(1, now));
        Ok(holders)
    }

    /// Since when certificates are listed. One that an earlier version made is listed once it is shown.
    pub(crate) fn since(&self) -> UnixTime {
        self.state().since
    }

    /// Every agent whose certificate is valid or can be renewed, and whether it is connected.
    pub(crate) fn all(&self, now: UnixTime) -> Vec<(Subject, Holder, bool)> {
        let state = self.state();
        let present = state.entries.iter().filter(|(_, holder)| holder.not_after + RENEWABLE > now);
        present
            .map(|(subject, holder)| (subject.clone(), holder.clone(), state.connections.contains_key(subject)))
            .collect()
    }

    /// A certificate was made for an agent whose answer has these authorities. Of one that is listed, only what it shows counts.
    pub(crate) fn made(&self, subject: &Subject, made: Holder, is_first: bool, now: UnixTime) -> Result<(), FileError> {
        self.change(subject, now, |present| match present {
            Some(holder) if !is_first => Holder { offered: Some((made.not_after, made.trusts)), ..holder.clone() },
            _ => made,
        })
    }

    /// A connection has shown a certificate.
    pub(crate) fn shown(&self, shown: &Certificate, authority: AuthorityHash, now: UnixTime) -> Result<(), FileError> {
        self.change(&shown.subject, now, |present| {
            // It got its certificate together with the authority that has signed it.
            let mut holder = of(shown, authority, vec![authority]);
            if let Some(present) = present {
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
        self.change(&own.subject, now, |_| of(own, authority, trusts))
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

    fn change(
        &self,
        subject: &Subject,
        now: UnixTime,
        next: impl FnOnce(Option<&Holder>) -> Holder,
    ) -> Result<(), FileError> {
        let version = {
            let mut state = self.state();
            let present = state.entries.get(subject);
            let next = next(present);
            if present == Some(&next) {
                return Ok(());
            }
            state.entries.insert(subject.clone(), next);
            state.version += 1;
            state.version
        };
        self.write(version, now)
    }

    /// Writes this version or a later one. Many changes at once are one file.
    fn write(&self, version: u64, now: UnixTime) -> Result<(), FileError> {
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        if *written >= version {
            return Ok(());
        }
        let (stored, version) = {
            let mut state = self.state();
            state.entries.retain(|_, holder| holder.not_after + RENEWABLE > now);
            (stored(&state), state.version)
        };
        canopy_identity::replace(&self.path, &serde_json::to_vec(&stored).unwrap_or_default())?;
        *written = version;
        Ok(())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Holder {
    /// Of an agent that was sent a certificate with these authorities.
    pub(crate) fn new(
        not_before: UnixTime,
        not_after: UnixTime,
        authority: AuthorityHash,
        trusts: Vec<AuthorityHash>,
    ) -> Self {
        let whole = |at: UnixTime| UnixTime::from_nanos(at.nanos() / SECOND * SECOND);
        Self { not_before: whole(not_before), not_after: whole(not_after), authority, trusts, offered: None }
    }

    pub(crate) fn trusts(&self, authority: AuthorityHash) -> bool {
        self.trusts.contains(&authority)
    }
}

/// The list of agents is not worth the refusal of one.
pub(crate) fn unlisted(written: Result<(), FileError>) {
    if let Err(error) = written {
        tracing::error!(%error, "cannot write which agents have certificates: after a restart, the replacement of the authority may not wait for one of them");
    }
}

fn of(certificate: &Certificate, authority: AuthorityHash, trusts: Vec<AuthorityHash>) -> Holder {
    Holder::new(certificate.not_before, certificate.not_after, authority, trusts)
}

fn stored(state: &State) -> Stored {
    let seconds = |at: UnixTime| at.nanos() / SECOND;
    let texts = |hashes: &[AuthorityHash]| hashes.iter().map(ToString::to_string).collect();
    let one = |(subject, holder): (&Subject, &Holder)| StoredHolder {
        subject: subject.to_string(),
        not_before: seconds(holder.not_before),
        not_after: seconds(holder.not_after),
        authority: holder.authority.to_string(),
        trusts: texts(&holder.trusts),
        offered: holder.offered.as_ref().map(|(end, trusts)| (seconds(*end), texts(trusts))),
    };
    Stored { since: seconds(state.since), holders: state.entries.iter().map(one).collect() }
}

fn read(text: &str) -> Result<(UnixTime, BTreeMap<Subject, Holder>), String> {
    let at = |seconds: u64| UnixTime::from_nanos(seconds.saturating_mul(SECOND));
    let hash = |text: &String| text.parse().map_err(|error: canopy_identity::NotAnAuthority| error.to_string());
    let hashes = |texts: &[String]| texts.iter().map(hash).collect::<Result<Vec<AuthorityHash>, String>>();
    let stored: Stored = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let one = |one: StoredHolder| {
        let subject = one.subject.parse().map_err(|error: canopy_identity::NotASubject| error.to_string())?;
        let offered = one.offered.map(|(end, trusts)| hashes(&trusts).map(|trusts| (at(end), trusts))).transpose()?;
        let (not_before, not_after) = (at(one.not_before), at(one.not_after));
        let (authority, trusts) = (hash(&one.authority)?, hashes(&one.trusts)?);
        Ok((subject, Holder { not_before, not_after, authority, trusts, offered }))
    };
    let entries = stored.holders.into_iter().map(one).collect::<Result<_, String>>()?;
    Ok((at(stored.since), entries))
}
