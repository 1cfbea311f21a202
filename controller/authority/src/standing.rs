// SPDX-License-Identifier: Apache-2.0
//! Which authorities there are, and how one replaces another: durable steps, each a change of files that is then read as at a start.
//!
//! ```text
//! one authority -- announce --> announced -- issue --> issuing -- finish --> one authority
//!       ^                           |
//!       +--------- cancel ----------+
//! ```
//!
//! `rotation.json` decides which step it is. What a killed process left besides is completed or removed when the directory is read.

use canopy_identity::{AuthorityHash, CertificateDer, FileError, is_signed_by};
use canopy_units::UnixTime;
use rustls::pki_types::pem::PemObject;
use serde::{Deserialize, Serialize};

use crate::authority::{Authority, NEXT, PRESENT};
use crate::{AuthorityError, Settings};

const FILE: &str = "rotation.json";
const SECOND: u64 = 1_000_000_000;

/// The authorities of the domain.
pub struct Standing {
    /// The one that signs.
    pub(crate) signing: Authority,
    rotation: Option<Rotation>,
}

struct Rotation {
    since: UnixTime,
    stage: Stage,
}

enum Stage {
    /// Agents get the next authority, which signs nothing yet.
    Announced { next: Box<Authority> },
    /// The next one signs. The former one is trusted, and its key is gone.
    Issuing {
        former: (AuthorityHash, CertificateDer<'static>),
        /// The present authority's key, signed by the former one.
        bridge: CertificateDer<'static>,
    },
}

/// How far the replacement of an authority is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Step {
    /// Agents learn to trust the next authority, which signs nothing yet.
    Announced,
    /// The next authority signs; the former one is trusted still.
    Issuing,
}

/// A replacement that is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Its step.
    pub step: Step,
    /// When that began.
    pub since: UnixTime,
    /// The authority that is replaced.
    pub from: AuthorityHash,
    /// The one that replaces it.
    pub to: AuthorityHash,
}

#[derive(Serialize, Deserialize)]
struct Stored {
    step: Step,
    /// Seconds since 1970.
    since: u64,
    /// The hash of the authority that replaces the other.
    to: String,
    /// Certificate of the former authority, in PEM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    former: Option<String>,
    /// Certificate of the new authority by the former one, in PEM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    bridge: Option<String>,
}

impl Standing {
    /// Reads the directory, or makes an authority in it, and completes the step that was taken last.
    pub(crate) fn open(settings: &Settings, now: UnixTime) -> Result<Self, AuthorityError> {
        let Some(stored) = stored(settings)? else {
            // Of a replacement that was not announced yet, or was cancelled.
            canopy_identity::remove(&settings.directory.join(NEXT.key))?;
            canopy_identity::remove(&settings.directory.join(NEXT.certificate))?;
            return Ok(Self { signing: Authority::open(settings, &PRESENT, now)?, rotation: None });
        };
        let since = UnixTime::from_nanos(stored.since.saturating_mul(SECOND));
        let path = settings.directory.join(FILE);
        let (signing, new, stage) = match stored.step {
            Step::Announced => {
                let signing = Authority::open(settings, &PRESENT, now)?;
                if !settings.directory.join(NEXT.certificate).exists() {
                    let why = "is missing, but its replacement is announced: put it back with its key";
                    return Err(FileError::new(&settings.directory.join(NEXT.certificate), why).into());
                }
                let next = Box::new(Authority::open(settings, &NEXT, now)?);
                (signing, next.hash(), Stage::Announced { next })
            }
            Step::Issuing => {
                for (from, to) in [(NEXT.key, PRESENT.key), (NEXT.certificate, PRESENT.certificate)] {
                    canopy_identity::rename(&settings.directory.join(from), &settings.directory.join(to))?;
                }
                let read = |pem: Option<String>| {
                    CertificateDer::from_pem_slice(pem.unwrap_or_default().as_bytes())
                        .map_err(|error| FileError::new(&path, format!("is damaged: {error}")))
                };
                let (former, bridge) = (read(stored.former)?, read(stored.bridge)?);
                let hash = AuthorityHash::of(&former).map_err(|error| FileError::new(&path, error))?;
                let signing = Authority::open(settings, &PRESENT, now)?;
                let new = signing.hash();
                (signing, new, Stage::Issuing { former: (hash, former), bridge })
            }
        };
        if new.to_string() != stored.to {
            let why = format!("the authority that replaces the other is {}, and that of the files is {new}", stored.to);
            return Err(FileError::new(&path, why).into());
        }
        Ok(Self { signing, rotation: Some(Rotation { since, stage }) })
    }

    /// Makes the next authority, which agents are to trust.
    pub(crate) fn announce(settings: &Settings, now: UnixTime) -> Result<Self, AuthorityError> {
        // It replaces what a killed process left: nothing has been announced of that.
        for file in [NEXT.key, NEXT.certificate] {
            canopy_identity::remove(&settings.directory.join(file))?;
        }
        let next = Authority::open(settings, &NEXT, now)?;
        let to = next.hash().to_string();
        let stored = Stored { step: Step::Announced, since: now.nanos() / SECOND, to, former: None, bridge: None };
        write(settings, &stored)?;
        Self::open(settings, now)
    }

    /// Lets the next authority sign from now on. The key of the former one is gone then: it has signed the bridge, and nothing after it.
    pub(crate) fn issue(&self, settings: &Settings, now: UnixTime) -> Result<Self, AuthorityError> {
        let Some(Rotation { stage: Stage::Announced { next }, .. }) = &self.rotation else {
            return Self::open(settings, now);
        };
        let bridge = self.signing.bridge(next, now)?;
        let stored = Stored {
            step: Step::Issuing,
            since: now.nanos() / SECOND,
            to: next.hash().to_string(),
            former: Some(canopy_identity::to_pem(self.signing.certificate())),
            bridge: Some(canopy_identity::to_pem(&bridge)),
        };
        write(settings, &stored)?;
        Self::open(settings, now)
    }

    /// Forgets the former authority, or the next one that has signed nothing.
    pub(crate) fn end(settings: &Settings, now: UnixTime) -> Result<Self, AuthorityError> {
        canopy_identity::remove(&settings.directory.join(FILE))?;
        Self::open(settings, now)
    }

    pub(crate) fn progress(&self) -> Option<Progress> {
        let Rotation { since, stage } = self.rotation.as_ref()?;
        let (step, from, to) = match stage {
            Stage::Announced { next } => (Step::Announced, self.signing.hash(), next.hash()),
            Stage::Issuing { former, .. } => (Step::Issuing, former.0, self.signing.hash()),
        };
        Some(Progress { step, since: *since, from, to })
    }

    /// What agents are to trust: the one that signs first.
    pub(crate) fn trusted(&self) -> Vec<(AuthorityHash, CertificateDer<'static>)> {
        let other = self.rotation.as_ref().map(|rotation| match &rotation.stage {
            Stage::Announced { next } => (next.hash(), next.certificate().clone()),
            Stage::Issuing { former, .. } => former.clone(),
        });
        std::iter::once((self.signing.hash(), self.signing.certificate().clone())).chain(other).collect()
    }

    /// Their hashes: by each of them an agent recognizes the controller.
    pub fn hashes(&self) -> Vec<AuthorityHash> {
        self.trusted().into_iter().map(|(hash, _)| hash).collect()
    }

    /// Those whose certificates agents may show.
    pub(crate) fn accepted(&self) -> Vec<(AuthorityHash, CertificateDer<'static>)> {
        let is_announced = matches!(self.rotation, Some(Rotation { stage: Stage::Announced { .. }, .. }));
        let mut all = self.trusted();
        all.truncate(if is_announced { 1 } else { 2 });
        all
    }

    /// What follows the controller's own certificate: a client that trusts one of [`Standing::trusted`], or has the hash of one that has
    /// signed, finds its way.
    pub(crate) fn above(&self) -> Vec<CertificateDer<'static>> {
        let signing = self.signing.certificate().clone();
        match &self.rotation {
            Some(Rotation { stage: Stage::Issuing { former, bridge }, .. }) => {
                vec![bridge.clone(), former.1.clone(), signing]
            }
            _ => vec![signing],
        }
    }

    /// Which accepted authority has signed an agent's certificate.
    pub fn signer(&self, der: &CertificateDer<'_>) -> Option<AuthorityHash> {
        self.accepted().into_iter().find(|(_, authority)| is_signed_by(der, authority)).map(|(hash, _)| hash)
    }

    /// Whether agents may show certificates of this authority.
    pub fn accepts(&self, authority: AuthorityHash) -> bool {
        self.accepted().iter().any(|(hash, _)| *hash == authority)
    }
}

fn stored(settings: &Settings) -> Result<Option<Stored>, FileError> {
    let path = settings.directory.join(FILE);
    let Some(text) = canopy_identity::read(&path)? else { return Ok(None) };
    let damaged = |error| {
        FileError::new(
            &path,
            format!(
                "is damaged, and without it agents would be refused: put it back from a backup of this directory: {error}"
            ),
        )
    };
    serde_json::from_str(&text).map(Some).map_err(damaged)
}

fn write(settings: &Settings, stored: &Stored) -> Result<(), FileError> {
    let text = serde_json::to_vec_pretty(stored).unwrap_or_default();
    canopy_identity::replace(&settings.directory.join(FILE), &text)
}
