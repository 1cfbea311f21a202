// SPDX-License-Identifier: Apache-2.0
//! `canopy1.<hash of the authority>.<secret>`: what an agent gets its first certificate with.
//!
//! Trust goes both ways: the secret shows the controller that the agent may have the name, and the hash shows the agent that it
//! has reached the right controller, before it sends the secret.

use std::fmt;
use std::str::FromStr;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};

use crate::certificate::AuthorityHash;

const VERSION: &str = "canopy1";

/// A token. It is never logged: it has no `Display`, and `Debug` hides the secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EnrollmentToken {
    /// The authority that the controller's certificate is of.
    pub authority: AuthorityHash,
    /// Shared between the controller and the holder of the token.
    pub secret: Secret,
}

/// 128 random bits.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(pub [u8; 16]);

/// The text is not a token; it is not a part of the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "not an enrollment token: copy all of it, from canopy1. to the end, as `canopyctl node enroll` or `canopyctl host enroll` printed it"
)]
pub struct NotAToken;

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

impl Secret {
    /// What is kept of it: two secrets are compared by their digests, so that the time of the comparison shows nothing.
    pub fn digest(&self) -> [u8; 32] {
        Sha256::digest(self.0).into()
    }
}

impl EnrollmentToken {
    /// The whole token, secret included: for the operator who asked for it.
    pub fn reveal(&self) -> String {
        let [authority, secret] = [&self.authority.0[..], &self.secret.0[..]].map(|part| URL_SAFE_NO_PAD.encode(part));
        format!("{VERSION}.{authority}.{secret}")
    }
}

/// White space around it is ignored.
impl FromStr for EnrollmentToken {
    type Err = NotAToken;

    fn from_str(text: &str) -> Result<Self, NotAToken> {
        let mut parts = text.trim().split('.');
        let (Some(VERSION), Some(authority), Some(secret), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(NotAToken);
        };
        let octets = |part: &str| URL_SAFE_NO_PAD.decode(part).map_err(|_| NotAToken);
        Ok(Self {
            authority: AuthorityHash(octets(authority)?.try_into().map_err(|_| NotAToken)?),
            secret: Secret(octets(secret)?.try_into().map_err(|_| NotAToken)?),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_read_as_it_was_written_and_hides_its_secret() {
        let token = EnrollmentToken { authority: AuthorityHash([7; 32]), secret: Secret([9; 16]) };
        let text = token.reveal();
        assert!(text.starts_with("canopy1.") && text.len() == 8 + 43 + 1 + 22, "{text}");
        assert_eq!(format!(" {text}\n").parse(), Ok(token.clone()));
        let secret = text.rsplit('.').next().unwrap();
        assert!(!format!("{token:?}").contains(secret) && !format!("{token:?}").contains("[9, "));
        for bad in
            ["", "canopy1", "canopy2.a.b", &text[..text.len() - 1], &format!("{text}.x"), &text.replace('1', "0")]
        {
            let error = bad.parse::<EnrollmentToken>().unwrap_err().to_string();
            assert!(!error.contains(secret), "{error}");
        }
    }
}
