// SPDX-License-Identifier: Apache-2.0
//! The list of agents with certificates on the disk: a file an agent in `holders/`, so that a change writes one.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use canopy_identity::{AuthorityHash, FileError, KeyHash, Subject};
use canopy_units::UnixTime;
use serde::{Deserialize, Serialize};

use crate::holder::{Holder, SECOND};

const DIRECTORY: &str = "holders";
/// Has the time since when there is a list.
const SINCE: &str = "listed-since";
const EXTENSION: &str = "json";

/// Files in the directory `holders/` of an authority.
pub(crate) struct Files(PathBuf);

/// What they have.
pub(crate) struct List {
    pub(crate) since: Option<UnixTime>,
    pub(crate) holders: BTreeMap<Subject, Holder>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Stored {
    subject: String,
    /// Seconds since 1970, as all times here.
    not_before: u64,
    not_after: u64,
    key: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    key_shown: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    other_key: Option<u64>,
    authority: String,
    trusts: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    offered: Option<(u64, Vec<String>)>,
}

impl Files {
    /// In the directory of an authority.
    pub(crate) fn of(authority: &Path) -> Self {
        Self(authority.join(DIRECTORY))
    }

    /// Everything that is there.
    pub(crate) fn read(&self) -> Result<List, FileError> {
        let since = self.0.join(SINCE);
        let time = canopy_identity::read(&since)?.map(|text| text.trim().parse().map(at));
        let time = time.transpose().map_err(|error| damaged(&since, error))?;
        let mut holders = BTreeMap::new();
        for path in self.paths()? {
            let Some(text) = canopy_identity::read(&path)? else { continue };
            let (subject, holder) = read(&text).map_err(|why| damaged(&path, why))?;
            if path != self.path(&subject) {
                return Err(damaged(&path, format!("it is the file of {subject}")));
            }
            holders.insert(subject, holder);
        }
        Ok(List { since: time, holders })
    }

    /// Makes the directory of an empty list.
    pub(crate) fn begin(&self, now: UnixTime) -> Result<(), FileError> {
        canopy_identity::private_directory(&self.0)?;
        canopy_identity::replace(&self.0.join(SINCE), seconds(now).to_string().as_bytes())
    }

    pub(crate) fn write(&self, subject: &Subject, holder: &Holder) -> Result<(), FileError> {
        let stored = serde_json::to_vec(&stored(subject, holder)).unwrap_or_default();
        // It is missing after a start on a full disk.
        canopy_identity::private_directory(&self.0)?;
        canopy_identity::replace(&self.path(subject), &stored)
    }

    pub(crate) fn remove(&self, subject: &Subject) -> Result<(), FileError> {
        canopy_identity::remove(&self.path(subject))
    }

    /// A kind has no '-', so no two subjects have one path.
    fn path(&self, subject: &Subject) -> PathBuf {
        self.0.join(subject.to_string().replace('/', "-")).with_extension(EXTENSION)
    }

    fn paths(&self) -> Result<Vec<PathBuf>, FileError> {
        let list = || -> io::Result<Vec<PathBuf>> {
            fs::read_dir(&self.0)?.map(|entry| entry.map(|entry| entry.path())).collect()
        };
        let is_one = |path: &PathBuf| path.extension() == Some(OsStr::new(EXTENSION));
        match list() {
            Ok(paths) => Ok(paths.into_iter().filter(is_one).collect()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(vec![]),
            Err(error) => Err(FileError::new(&self.0, error)),
        }
    }
}

fn damaged(path: &Path, why: impl std::fmt::Display) -> FileError {
    let why = format!("is damaged: move it away, and agents are listed again as they connect: {why}");
    FileError::new(path, why)
}

fn stored(subject: &Subject, holder: &Holder) -> Stored {
    let texts = |hashes: &[AuthorityHash]| hashes.iter().map(ToString::to_string).collect();
    Stored {
        subject: subject.to_string(),
        not_before: seconds(holder.not_before),
        not_after: seconds(holder.not_after),
        key: hex::encode(holder.key.0),
        key_shown: holder.key_shown.map(seconds),
        other_key: holder.other_key.map(seconds),
        authority: holder.authority.to_string(),
        trusts: texts(&holder.trusts),
        offered: holder.offered.as_ref().map(|(end, trusts)| (seconds(*end), texts(trusts))),
    }
}

fn read(text: &str) -> Result<(Subject, Holder), String> {
    let hash = |text: &String| text.parse().map_err(|error: canopy_identity::NotAnAuthority| error.to_string());
    let hashes = |texts: &[String]| texts.iter().map(hash).collect::<Result<Vec<AuthorityHash>, String>>();
    let stored: Stored = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let subject = stored.subject.parse().map_err(|error: canopy_identity::NotASubject| error.to_string())?;
    let mut key = [0; 32];
    hex::decode_to_slice(&stored.key, &mut key).map_err(|error| format!("key: {error}"))?;
    let offered = stored.offered.map(|(end, trusts)| hashes(&trusts).map(|trusts| (at(end), trusts))).transpose()?;
    let (not_before, not_after) = (at(stored.not_before), at(stored.not_after));
    let (authority, trusts) = (hash(&stored.authority)?, hashes(&stored.trusts)?);
    let (key, key_shown, other_key) = (KeyHash(key), stored.key_shown.map(at), stored.other_key.map(at));
    Ok((subject, Holder { not_before, not_after, key, key_shown, other_key, authority, trusts, offered }))
}

fn seconds(at: UnixTime) -> u64 {
    at.nanos() / SECOND
}

fn at(seconds: u64) -> UnixTime {
    UnixTime::from_nanos(seconds.saturating_mul(SECOND))
}
