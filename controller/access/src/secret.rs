// SPDX-License-Identifier: Apache-2.0
//! The text of a token: `canopy_pat_` and 43 characters of base64url. Its beginning lets scanners find one that was published.

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use sha2::{Digest as _, Sha256};

/// Beginning of every token.
pub const PREFIX: &str = "canopy_pat_";
/// Random octets of a token: 256 bits.
const OCTETS: usize = 32;
/// Octets of a whole token.
pub(crate) const LENGTH: usize = PREFIX.len() + (OCTETS * 4).div_ceil(3);

/// SHA-256 of a token's text: it names a secret, and does not show it.
pub type SecretDigest = [u8; 32];

/// The text of a token. Its `Debug` form does not show it.
#[derive(Clone, PartialEq, Eq)]
pub struct TokenSecret(String);

impl TokenSecret {
    /// A new one.
    ///
    /// # Errors
    /// The operating system gives no random numbers.
    pub fn draw() -> Result<Self, getrandom::Error> {
        let mut octets = [0; OCTETS];
        getrandom::fill(&mut octets)?;
        Ok(Self(format!("{PREFIX}{}", BASE64_URL_SAFE_NO_PAD.encode(octets))))
    }

    /// The text, for the one answer that has it.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    pub(crate) fn digest(&self) -> SecretDigest {
        digest(&self.0)
    }
}

impl std::fmt::Debug for TokenSecret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TokenSecret(..)")
    }
}

pub(crate) fn digest(text: &str) -> SecretDigest {
    Sha256::digest(text.as_bytes()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_have_their_form_do_not_repeat_and_are_not_shown() {
        let [one, other] = [TokenSecret::draw().unwrap(), TokenSecret::draw().unwrap()];
        assert_eq!(one.reveal().len(), PREFIX.len() + 43);
        assert!(one.reveal().starts_with("canopy_pat_") && one != other);
        assert!(!format!("{one:?}").contains(&one.reveal()[PREFIX.len()..]));
    }
}
