// SPDX-License-Identifier: Apache-2.0
//! Subjects of which every certificate from before some instant is refused.
//!
//! A subject can enroll again: what it gets then is valid from after the revocation.

use std::collections::BTreeMap;
use std::path::Path;

use canopy_identity::{Certificate, FileError, Subject};
use canopy_units::UnixTime;
use serde::{Deserialize, Serialize};

const FILE: &str = "revocations.json";
const SECOND: u64 = 1_000_000_000;

/// When each subject was revoked last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Revocations(BTreeMap<Subject, UnixTime>);

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    revoked: Vec<Revocation>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Revocation {
    subject: String,
    /// Seconds since 1970.
    at: u64,
}

impl Revocations {
    /// Of the authority's directory. A damaged file is an error: without it, certificates that were revoked would be accepted.
    pub(crate) fn load(directory: &Path) -> Result<Self, FileError> {
        let path = directory.join(FILE);
        let Some(text) = canopy_identity::read(&path)? else { return Ok(Self::default()) };
        let damaged = |why: String| {
            FileError::new(&path, format!("is damaged, and without it revoked certificates would be accepted: {why}"))
        };
        let stored: Stored = serde_json::from_str(&text).map_err(|error| damaged(error.to_string()))?;
        let read = |one: Revocation| {
            let subject =
                one.subject.parse().map_err(|error: canopy_identity::NotASubject| damaged(error.to_string()))?;
            Ok((subject, UnixTime::from_nanos(one.at.saturating_mul(SECOND))))
        };
        stored.revoked.into_iter().map(read).collect::<Result<_, _>>().map(Self)
    }

    /// With `subject` revoked at `now`, on the disk. There is one entry per name: none is ever dropped, because a clock decides which ones are old.
    pub(crate) fn with(&self, subject: &Subject, now: UnixTime, directory: &Path) -> Result<Self, FileError> {
        let mut revoked = self.0.clone();
        // In whole seconds, as certificates count.
        let at = now.nanos().div_ceil(SECOND).saturating_mul(SECOND);
        revoked.insert(subject.clone(), UnixTime::from_nanos(at));
        let one =
            |(subject, at): (&Subject, &UnixTime)| Revocation { subject: subject.to_string(), at: at.nanos() / SECOND };
        let stored = Stored { revoked: revoked.iter().map(one).collect() };
        let text = serde_json::to_vec_pretty(&stored).unwrap_or_default();
        canopy_identity::replace(&directory.join(FILE), &text)?;
        Ok(Self(revoked))
    }

    /// The certificate is from before its subject was revoked.
    pub fn has(&self, certificate: &Certificate) -> bool {
        self.0.get(&certificate.subject).is_some_and(|at| certificate.not_before < *at)
    }

    /// Every entry, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&Subject, UnixTime)> {
        self.0.iter().map(|(subject, at)| (subject, *at))
    }

    /// When it was revoked last.
    pub fn at(&self, subject: &Subject) -> Option<UnixTime> {
        self.0.get(subject).copied()
    }
}
