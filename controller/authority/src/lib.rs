// SPDX-License-Identifier: Apache-2.0
//! The authority of a Canopy domain: it certifies agents that show an enrollment token, renews their certificates, and revokes them.
//!
//! - [`Registrar`] is what the rest of the controller uses.
//! - `authority`: the key that signs, created at the first start, a file that only the controller can read.
//! - `standing`: which authority signs and which are trusted, while one replaces another; `holders`: which agents that waits for, on the disk
//!   in `holder_files`.
//! - `renewals`: which agents do not renew.
//! - `tokens`: what was handed out, for ten minutes, in memory only: a restart makes all of them worthless.
//! - `revocations`: a file next to the key, not a record of the store: restoring a backup of the store does not take one back.

mod authority;
mod holder;
mod holder_files;
mod holders;
mod registrar;
mod renewals;
mod revocations;
mod rotating;
mod standing;
mod tokens;

use std::path::PathBuf;
use std::time::Duration;

use canopy_identity::{FileError, TrustDomain};

pub use registrar::{Certified, Configs, Handed, Registrar};
pub use revocations::Revocations;
pub use rotating::{Act, Connected, HolderStatus, Instruction, RotationError, RotationStatus};
pub use standing::{Progress, Standing, Step};

/// How long a token can be used.
pub const TOKEN_LIFE: Duration = Duration::from_secs(600);
/// Longest life of a certificate that can be configured.
pub const MAX_LIFETIME: Duration = Duration::from_secs(30 * 24 * 3600);
/// How far the clock of an agent may be behind the controller's: certificates are valid from so long before they are made.
pub const BACKDATED: Duration = Duration::from_secs(300);

/// Settings of the authority.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Of key, certificate and revocations.
    pub directory: PathBuf,
    /// The domain in which names mean something.
    pub domain: TrustDomain,
    /// How long a certificate is valid; agents renew it at half of that.
    pub lifetime: Duration,
}

/// The authority cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum AuthorityError {
    /// A file cannot be read or written, or is damaged.
    #[error(transparent)]
    File(#[from] FileError),
    /// A certificate cannot be made.
    #[error("making a certificate: {0}")]
    Certificate(#[from] rcgen::Error),
    /// A configuration of TLS cannot be made.
    #[error("configuring TLS: {0}")]
    Tls(#[from] rustls::Error),
}

/// Why no certificate or token was given out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// No token with this secret can be used.
    #[error(
        "the token is not known: it has expired after {} minutes, or the controller was restarted since: get another one with `canopyctl`",
        TOKEN_LIFE.as_secs() / 60
    )]
    Unknown,
    /// It certified another key.
    #[error(
        "the token of {0} was used already, for another key: if that was not you, revoke {0}; get another one with `canopyctl`"
    )]
    Used(String),
    /// It is another name's.
    #[error("the token is for {wanted}, and {found} has asked with it")]
    OtherSubject {
        /// Of the token.
        wanted: String,
        /// In the request.
        found: String,
    },
    /// It was revoked at a time that has not come.
    #[error("{0} was revoked while the controller's clock was ahead: set the clock right, or wait until that time")]
    Ahead(String),
    /// It was revoked while it asked.
    #[error("the certificates of {0} are revoked: enroll again")]
    Revoked(String),
    /// It was revoked, and has nothing that an operator gave out since.
    #[error(
        "{0} was revoked, and its service account alone does not bring it back: get a token with `canopyctl`, and enroll with that"
    )]
    StaysRevoked(String),
    /// The request asks to certify another key than that of the certificate in use.
    #[error("the request is for another key than the certificate that it came with: enroll again for a new key")]
    OtherKey,
    /// Its certificate is of another key than that of its enrollment, while one authority replaces another.
    #[error(
        "the certificate of {0} has another key than the one it was enrolled with: a thief of the former authority's key makes such certificates, so none is renewed until the authority is replaced; if this is the machine of {0}, enroll it again"
    )]
    NotItsKey(String),
    /// It is no certificate request.
    #[error("request: not a certificate request (PKCS #10 in DER) that is signed with its own key: {0}")]
    Request(String),
    /// Too many tokens wait to be used.
    #[error("{0} tokens were made in the last {minutes} minutes and are not used: wait, or restart the controller to drop them", minutes = TOKEN_LIFE.as_secs() / 60)]
    TooMany(usize),
    /// The authority cannot sign.
    #[error("the controller cannot make the certificate: {0}")]
    Failed(String),
}
