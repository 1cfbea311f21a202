// SPDX-License-Identifier: Apache-2.0
//! The provider's keys (RFC 7517), as it has them: read when they are needed, and again for a key that is not among them, at a bounded rate.

use std::time::Duration;

use jsonwebtoken::jwk::{Jwk, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey};
use serde::Deserialize;
use tokio::time::Instant;

/// The keys are read again after this time: one that the provider has taken out is not accepted longer.
const FRESH: Duration = Duration::from_secs(600);
/// They are read again after this time at the earliest.
const AGAIN: Duration = Duration::from_secs(10);

/// The keys as they were last read.
#[derive(Default)]
pub(crate) struct Keys {
    keys: Vec<Jwk>,
    read: Option<Instant>,
    asked: Option<Instant>,
}

/// A key is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unknown {
    /// It may be among the keys that the provider has now.
    Ask,
    /// It is not among those that were read a moment ago.
    Surely,
}

/// A set of keys. Those of other kinds than ours do not spoil it.
#[derive(Deserialize)]
pub(crate) struct Set {
    keys: Vec<serde_json::Value>,
}

impl Keys {
    /// The key with which an ID token of this header is signed.
    pub(crate) fn find(&self, id: Option<&str>, algorithm: Algorithm, now: Instant) -> Result<DecodingKey, Unknown> {
        let may_ask = self.asked.is_none_or(|asked| now.saturating_duration_since(asked) >= AGAIN);
        let unknown = if may_ask { Unknown::Ask } else { Unknown::Surely };
        if self.read.is_none_or(|read| now.saturating_duration_since(read) >= FRESH) {
            return Err(unknown);
        }
        let fits = |key: &&Jwk| {
            let is_named = id.is_none() || key.common.key_id.as_deref() == id;
            let is_for_signatures = !matches!(key.common.public_key_use, Some(PublicKeyUse::Encryption));
            is_named && is_for_signatures && key.common.key_algorithm.is_none_or(|of| of == algorithm.into())
        };
        let mut fitting = self.keys.iter().filter(fits).filter_map(|key| DecodingKey::from_jwk(key).ok());
        let mut fitting = fitting.by_ref().filter(|key| key.family() == algorithm.family());
        let key = fitting.next().ok_or(unknown)?;
        // Without its id, a key is known only if there is no other.
        if id.is_none() && fitting.next().is_some() { Err(Unknown::Surely) } else { Ok(key) }
    }

    /// Notes that the provider was asked, and what it has answered.
    pub(crate) fn replace(&mut self, set: Option<Set>, now: Instant) {
        self.asked = Some(now);
        if let Some(set) = set {
            self.keys = set.keys.into_iter().filter_map(|key| serde_json::from_value(key).ok()).collect();
            self.read = Some(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::token::tests::Signer;

    fn set(keys: &[(&Signer, &str)]) -> Set {
        let mut all = vec![serde_json::json!({"kty": "of a later century"})];
        all.extend(keys.iter().map(|(signer, id)| signer.jwk(id)));
        Set { keys: all }
    }

    /// Catches a provider that is asked for every token with a made-up key, one that is never asked again, and a key that is not there any more.
    #[test]
    fn the_provider_is_asked_again_for_an_unknown_key_at_a_bounded_rate() {
        let (signer, mut keys, start) = (Signer::new(), Keys::default(), Instant::now());
        let find = |keys: &Keys, id, now| keys.find(Some(id), Algorithm::ES256, now).map(|_| ());
        assert_eq!(find(&keys, "a", start), Err(Unknown::Ask));
        keys.replace(Some(set(&[(&signer, "a")])), start);
        assert_eq!((find(&keys, "a", start), find(&keys, "b", start)), (Ok(()), Err(Unknown::Surely)));
        let later = start + AGAIN;
        assert_eq!(find(&keys, "b", later), Err(Unknown::Ask));
        // A provider that does not answer is left alone too, and what was read stays.
        keys.replace(None, later);
        assert_eq!((find(&keys, "a", later), find(&keys, "b", later)), (Ok(()), Err(Unknown::Surely)));
        assert_eq!(find(&keys, "a", start + FRESH), Err(Unknown::Ask));
        keys.replace(Some(set(&[(&signer, "b")])), start + FRESH);
        assert_eq!((find(&keys, "a", start + FRESH), find(&keys, "b", start + FRESH)), (Err(Unknown::Surely), Ok(())));
    }

    /// Catches a key that is taken for another algorithm, and one that is chosen among several without an id.
    #[test]
    fn a_key_is_for_its_algorithm_and_known_by_its_id() {
        let (signer, other, mut keys, now) = (Signer::new(), Signer::new(), Keys::default(), Instant::now());
        keys.replace(Some(set(&[(&signer, "a")])), now);
        assert!(keys.find(None, Algorithm::ES256, now).is_ok());
        for algorithm in [Algorithm::RS256, Algorithm::HS256, Algorithm::ES384, Algorithm::EdDSA] {
            assert!(keys.find(Some("a"), algorithm, now).is_err(), "{algorithm:?}");
        }
        // One that does not name its algorithm is still of one kind.
        let mut unnamed = signer.jwk("a");
        unnamed.as_object_mut().unwrap().remove("alg");
        keys.replace(Some(Set { keys: vec![unnamed] }), now);
        assert!(keys.find(Some("a"), Algorithm::ES256, now).is_ok());
        for algorithm in [Algorithm::RS256, Algorithm::HS256, Algorithm::EdDSA] {
            assert!(keys.find(Some("a"), algorithm, now).is_err(), "{algorithm:?}");
        }
        keys.replace(Some(set(&[(&signer, "a"), (&other, "b")])), now);
        assert!(keys.find(None, Algorithm::ES256, now).is_err());
        assert!(keys.find(Some("b"), Algorithm::ES256, now).is_ok());
    }
}
