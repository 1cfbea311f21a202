// SPDX-License-Identifier: Apache-2.0
//! What is known of one agent with a certificate.

use canopy_identity::{AuthorityHash, Certificate, KeyHash, RENEWABLE};
use canopy_units::UnixTime;

use crate::MAX_LIFETIME;

pub(crate) const SECOND: u64 = 1_000_000_000;

/// What an agent had when it was last seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Holder {
    pub(crate) not_before: UnixTime,
    pub(crate) not_after: UnixTime,
    pub(crate) key: KeyHash,
    /// When its key was shown first, if that is how it is known and not by an enrollment.
    pub(crate) key_shown: Option<UnixTime>,
    /// When a certificate of its name with another key was shown first.
    pub(crate) other_key: Option<UnixTime>,
    /// Which authority has signed its certificate.
    pub(crate) authority: AuthorityHash,
    /// What it trusts.
    pub(crate) trusts: Vec<AuthorityHash>,
    /// A certificate that was made for it and not shown yet: when that ends, and what the answer had to trust.
    pub(crate) offered: Option<(UnixTime, Vec<AuthorityHash>)>,
}

impl Holder {
    /// Of an agent that was sent a certificate of this key with these authorities.
    pub(crate) fn new(
        not_before: UnixTime,
        not_after: UnixTime,
        key: KeyHash,
        authority: AuthorityHash,
        trusts: Vec<AuthorityHash>,
    ) -> Self {
        let whole = |at: UnixTime| UnixTime::from_nanos(at.nanos() / SECOND * SECOND);
        let (not_before, not_after) = (whole(not_before), whole(not_after));
        Self { not_before, not_after, key, key_shown: None, other_key: None, authority, trusts, offered: None }
    }

    pub(crate) fn trusts(&self, authority: AuthorityHash) -> bool {
        self.trusts.contains(&authority)
    }

    /// What is known of an agent that has this certificate at `now`. Another key than the known one is not the agent's: that it
    /// was shown is all that changes.
    pub(crate) fn with(
        present: Option<&Self>,
        own: &Certificate,
        authority: AuthorityHash,
        trusts: Vec<AuthorityHash>,
        now: UnixTime,
    ) -> Self {
        // No certificate that was made here lasts longer, and one of a thief is not to be listed for ever.
        let not_after = own.not_after.min(now + MAX_LIFETIME);
        let next = Self::new(own.not_before, not_after, own.key, authority, trusts);
        match present {
            None => Self { key_shown: Some(now), ..next },
            Some(present) if present.key != own.key => present.with_other_key(now),
            Some(present) => Self { key_shown: present.key_shown, other_key: present.other_key, ..next },
        }
    }

    /// A certificate of its name with another key was shown.
    pub(crate) fn with_other_key(&self, now: UnixTime) -> Self {
        Self { other_key: self.other_key.or(Some(now)), ..self.clone() }
    }

    /// Its certificate cannot be renewed any more.
    pub(crate) fn is_gone(&self, now: UnixTime) -> bool {
        self.not_after + RENEWABLE <= now
    }
}
