// SPDX-License-Identifier: Apache-2.0
//! What an agent in a pod of Kubernetes enrolls with: the token of its service account, and the hashes of the controller's authority.

use std::path::{Path, PathBuf};

use canopy_identity::{AuthorityHash, Credentials, RENEWABLE, Subject};
use canopy_units::UnixTime;

/// Longest file, octets.
const MAX_FILE: u64 = 16 << 10;

/// How an agent gets its first certificate by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attestation {
    /// What the agent is.
    pub subject: Subject,
    /// The token, which Kubernetes replaces: it is read for each try.
    pub token_file: PathBuf,
    /// Hashes of authorities, one a line; the controller publishes them.
    pub authority_file: PathBuf,
}

/// A file cannot be used; no message has a part of its content.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {why}", path = path.display())]
pub struct Unusable {
    path: PathBuf,
    why: String,
}

impl Unusable {
    fn new(path: &Path, why: impl std::fmt::Display) -> Self {
        Self { path: path.to_owned(), why: why.to_string() }
    }
}

impl Attestation {
    /// Whether this agent has to enroll: it has no certificate, or one that cannot be renewed any more because it ended too long ago or its
    /// authority is another one now. Without the file of authorities, a certificate is believed.
    pub(crate) fn is_needed(&self, own: Option<&Credentials>, now: UnixTime) -> bool {
        let Some(own) = own else { return true };
        let has_ended = !self.is_of(own, now);
        let trusted: Vec<_> = own.authorities.iter().filter_map(|der| AuthorityHash::of(der).ok()).collect();
        has_ended || self.authorities().is_ok_and(|known| !known.iter().any(|hash| trusted.contains(hash)))
    }

    /// Whether a certificate is this agent's, and can be renewed.
    pub(crate) fn is_of(&self, own: &Credentials, now: UnixTime) -> bool {
        own.certificate.not_after + RENEWABLE >= now && own.certificate.subject == self.subject
    }

    /// The token.
    pub(crate) fn token(&self) -> Result<String, Unusable> {
        let token = read(&self.token_file)?.trim().to_owned();
        if token.is_empty() { Err(Unusable::new(&self.token_file, "is empty")) } else { Ok(token) }
    }

    /// Authorities that the controller's certificate may be of; at least one.
    pub(crate) fn authorities(&self) -> Result<Vec<AuthorityHash>, Unusable> {
        let unusable = |why: String| Unusable::new(&self.authority_file, why);
        let text = read(&self.authority_file)?;
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        let hashes: Result<Vec<AuthorityHash>, _> = lines.map(str::parse).collect();
        let hashes = hashes.map_err(|error| unusable(error.to_string()))?;
        if hashes.is_empty() { Err(unusable("has no hash of an authority".into())) } else { Ok(hashes) }
    }
}

fn read(path: &Path) -> Result<String, Unusable> {
    let size = std::fs::metadata(path).map_err(|error| Unusable::new(path, error))?.len();
    if size > MAX_FILE {
        return Err(Unusable::new(path, format_args!("{size} octets, at most {MAX_FILE} are read")));
    }
    std::fs::read_to_string(path).map_err(|error| Unusable::new(path, error))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn files_are_read_each_time_and_faults_name_the_file_alone() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        let attestation = Attestation {
            subject: Subject::Node("n1".into()),
            token_file: path("token"),
            authority_file: path("authorities"),
        };
        assert!(attestation.token().unwrap_err().to_string().contains("token: "));
        assert!(attestation.is_needed(None, UnixTime::default()));
        std::fs::write(path("token"), "eyJ.a.b\n").unwrap();
        assert_eq!(attestation.token().unwrap(), "eyJ.a.b");
        std::fs::write(path("token"), " \n").unwrap();
        assert!(attestation.token().is_err());
        let hash = AuthorityHash([7; 32]);
        std::fs::write(path("authorities"), format!("{hash}\n\n{}\n", AuthorityHash([8; 32]))).unwrap();
        assert_eq!(attestation.authorities().unwrap(), [hash, AuthorityHash([8; 32])]);
        for bad in ["", "\n", "abc", &format!("{hash} x")] {
            std::fs::write(path("authorities"), bad).unwrap();
            assert!(attestation.authorities().is_err(), "{bad:?}");
        }
        std::fs::write(path("token"), "x".repeat(MAX_FILE as usize + 1)).unwrap();
        assert!(attestation.token().unwrap_err().to_string().contains("16385 octets"));
    }
}
