// SPDX-License-Identifier: Apache-2.0
//! Tokens that can still be used: each certifies one key of one subject, as often as that key asks within the token's life.

use std::collections::HashMap;

use canopy_identity::{KeyHash, Secret, Subject};
use canopy_units::UnixTime;

use crate::{Refusal, TOKEN_LIFE};

/// Tokens at once.
const MAX_TOKENS: usize = 16_384;

/// Tokens by the digest of their secret.
#[derive(Default)]
pub(crate) struct Tokens(HashMap<[u8; 32], Token>);

struct Token {
    subject: Subject,
    expires: UnixTime,
    /// The key that it certified.
    key: Option<KeyHash>,
}

impl Tokens {
    /// Returns when it expires.
    pub(crate) fn add(&mut self, secret: &Secret, subject: Subject, now: UnixTime) -> Result<UnixTime, Refusal> {
        self.0.retain(|_, token| token.expires > now);
        if self.0.len() >= MAX_TOKENS {
            return Err(Refusal::TooMany(MAX_TOKENS));
        }
        let expires = now + TOKEN_LIFE;
        self.0.insert(secret.digest(), Token { subject, expires, key: None });
        Ok(expires)
    }

    /// Whether there is such a token.
    pub(crate) fn check(&self, secret: &Secret, now: UnixTime) -> Result<(), Refusal> {
        let is_there = self.0.get(&secret.digest()).is_some_and(|token| token.expires > now);
        if is_there { Ok(()) } else { Err(Refusal::Unknown) }
    }

    /// Uses a token for this key of this subject.
    pub(crate) fn take(
        &mut self,
        secret: &Secret,
        subject: &Subject,
        key: KeyHash,
        now: UnixTime,
    ) -> Result<(), Refusal> {
        let token = self.0.get_mut(&secret.digest()).filter(|token| token.expires > now).ok_or(Refusal::Unknown)?;
        if token.subject != *subject {
            return Err(Refusal::OtherSubject { wanted: token.subject.to_string(), found: subject.to_string() });
        }
        match token.key {
            Some(used) if used != key => Err(Refusal::Used(subject.to_string())),
            _ => {
                token.key = Some(key);
                Ok(())
            }
        }
    }

    /// Drops the subject's tokens: they were handed out before it was revoked.
    pub(crate) fn forget(&mut self, subject: &Subject) {
        self.0.retain(|_, token| token.subject != *subject);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_of_one_subject_and_one_key_and_ten_minutes() {
        let (n4, n5) = (Subject::Node("n4".into()), Subject::Node("n5".into()));
        let [a, b] = [KeyHash([1; 32]), KeyHash([2; 32])];
        let (secret, start) = (Secret([7; 16]), UnixTime::from_nanos(1_000_000_000));
        let mut tokens = Tokens::default();
        let expires = tokens.add(&secret, n4.clone(), start).unwrap();
        assert_eq!(expires, start + TOKEN_LIFE);
        assert!(matches!(tokens.take(&secret, &n5, a, start), Err(Refusal::OtherSubject { .. })));
        assert_eq!(tokens.take(&Secret([8; 16]), &n4, a, start), Err(Refusal::Unknown));
        // A refused try uses nothing up.
        assert_eq!(tokens.take(&secret, &n4, a, start), Ok(()));
        assert_eq!(tokens.take(&secret, &n4, a, start + TOKEN_LIFE / 2), Ok(()), "the answer was lost: asked again");
        assert_eq!(tokens.take(&secret, &n4, b, start), Err(Refusal::Used("node/n4".into())));
        assert_eq!(tokens.take(&secret, &n4, a, expires), Err(Refusal::Unknown));
        tokens.forget(&n4);
        assert_eq!(tokens.take(&secret, &n4, a, start), Err(Refusal::Unknown));
    }

    #[test]
    fn tokens_are_bounded_and_those_that_expired_make_room() {
        let mut tokens = Tokens::default();
        let secret = |i: usize| Secret((i as u128).to_be_bytes());
        for i in 0..MAX_TOKENS {
            tokens.add(&secret(i), Subject::Node("n4".into()), UnixTime::default()).unwrap();
        }
        let add = |tokens: &mut Tokens, now| tokens.add(&secret(MAX_TOKENS), Subject::Node("n4".into()), now);
        assert_eq!(add(&mut tokens, UnixTime::default()), Err(Refusal::TooMany(MAX_TOKENS)));
        add(&mut tokens, UnixTime::default() + TOKEN_LIFE).unwrap();
        assert_eq!(tokens.0.len(), 1);
    }
}
