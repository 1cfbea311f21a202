// SPDX-License-Identifier: Apache-2.0
//! What one sign-in is recognized by.
//!
//! The browser keeps a secret in a cookie that no page can read, and that no other site can set. Everything else follows from it by SHA-256, so
//! that the controller keeps nothing, and strangers who begin sign-ins take none of its memory: the state that the provider sends back, the nonce
//! that it puts into the ID token, and the verifier without which it exchanges no code.

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};

/// Octets of the secret: 256 bits.
const OCTETS: usize = 32;
/// Characters of it.
const LENGTH: usize = (OCTETS * 4).div_ceil(3);

/// A sign-in that has begun. Its `Debug` form does not show the secret.
#[derive(Clone, PartialEq, Eq)]
pub struct Login(String);

impl Login {
    /// A new one.
    ///
    /// # Errors
    /// The operating system gives no random numbers.
    pub fn draw() -> Result<Self, getrandom::Error> {
        let mut octets = [0; OCTETS];
        getrandom::fill(&mut octets)?;
        Ok(Self(encode(&octets)))
    }

    /// The one of this secret, if it has the form of one.
    pub fn of(secret: &str) -> Option<Self> {
        let is_secret =
            secret.len() == LENGTH && secret.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b));
        is_secret.then(|| Self(secret.to_owned()))
    }

    /// The secret, for the cookie.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// What the provider sends back with the code.
    pub(crate) fn state(&self) -> String {
        self.derived("state")
    }

    /// What the ID token has.
    pub(crate) fn nonce(&self) -> String {
        self.derived("nonce")
    }

    /// What the code is exchanged with: 43 unreserved characters (RFC 7636 section 4.1).
    pub(crate) fn verifier(&self) -> String {
        self.derived("verifier")
    }

    /// What the provider gets of the verifier before: `S256` (RFC 7636 section 4.2).
    pub(crate) fn challenge(&self) -> String {
        encode(&Sha256::digest(self.verifier().as_bytes()))
    }

    fn derived(&self, what: &str) -> String {
        encode(&Sha256::digest(format!("canopy sign-in {what} {}", self.0).as_bytes()))
    }
}

impl std::fmt::Debug for Login {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Login(..)")
    }
}

fn encode(octets: &[u8]) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(octets)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Catches values that follow from one another, or that two sign-ins share.
    #[test]
    fn a_sign_in_has_values_of_its_own() {
        let (one, other) = (Login::draw().unwrap(), Login::draw().unwrap());
        let mut all: Vec<_> = [&one, &other]
            .into_iter()
            .flat_map(|of| [of.reveal().to_owned(), of.state(), of.nonce(), of.verifier(), of.challenge()])
            .collect();
        assert!(all.iter().all(|value| value.len() == LENGTH));
        all.sort();
        all.dedup();
        assert_eq!(all.len(), 10);
        assert_eq!(Login::of(one.reveal()), Some(one.clone()));
        assert_eq!(one.state(), Login::of(one.reveal()).unwrap().state());
        assert!(!format!("{one:?}").contains(one.reveal()));
        for bad in ["", "AAAA", &"A".repeat(44), &"+".repeat(43)] {
            assert_eq!(Login::of(bad), None);
        }
    }

    /// RFC 7636, appendix B.
    #[test]
    fn the_challenge_is_that_of_the_rfc() {
        let verifier = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
        assert_eq!(encode(&Sha256::digest(verifier.as_bytes())), "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM");
    }
}
