// SPDX-License-Identifier: Apache-2.0
//! What is known of one agent with a certificate.

use canopy_identity::{AuthorityHash, Certificate, KeyHash, RENEWABLE};
use canopy_units::UnixTime;

pub(crate) const SECOND: u64 = 1_000_000_000;

/// What an agent had when it was last seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Holder {
    pub(crate) not_before: UnixTime,
    pub(crate) not_after: UnixTime,
    /// That of its enrollment; of an agent from before the list, the one that it has shown first.
    pub(crate) key: KeyHash,
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
        Self { not_before: whole(not_before), not_after: whole(not_after), key, authority, trusts, offered: None }
    }

    pub(crate) fn trusts(&self, authority: AuthorityHash) -> bool {
        self.trusts.contains(&authority)
    }

    /// Of an agent that has this certificate.
    pub(crate) fn of(certificate: &Certificate, authority: AuthorityHash, trusts: Vec<AuthorityHash>) -> Self {
        Self::new(certificate.not_before, certificate.not_after, certificate.key, authority, trusts)
    }

    /// Its certificate cannot be renewed any more.
    pub(crate) fn is_gone(&self, now: UnixTime) -> bool {
        self.not_after + RENEWABLE <= now
    }
}
