// SPDX-License-Identifier: Apache-2.0
//! Codes and sessions as their digests, on `now`: no secret is kept, and only digests are compared.
//!
//! ```text
//! code: made --exchanged--> used up, and a session begins
//!         \--- 60 s, or 16 newer ones --> gone
//! session: begun --12 h, sign-out, or 64 newer ones--> gone
//! ```

use std::collections::VecDeque;
use std::time::Duration;

use canopy_controller_access::Identity;
use tokio::time::Instant;

/// Time in which a code works.
pub(crate) const CODE_LASTS: Duration = Duration::from_secs(60);
/// Time that a session lasts. There is no shorter one for idle sessions: a tab that shows the domain reads it all the time.
pub(crate) const SESSION_LASTS: Duration = Duration::from_secs(12 * 60 * 60);
/// Codes at once; one more replaces the oldest, so that the newest code always works.
const MAX_CODES: usize = 16;
/// Sessions at once; one more ends the oldest.
const MAX_SESSIONS: usize = 64;
/// Wrong codes in a row after which every code is refused for a while.
const MAX_FAILURES: u32 = 10;
/// Time after which one wrong code is forgiven.
const FORGIVEN_AFTER: Duration = Duration::from_secs(6);

/// SHA-256 of a code or a bearer.
pub(super) type Digest = [u8; 32];

/// Why a code is not exchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// There is no such code: it never was, was used, or is too old.
    NotValid,
    /// Too many wrong codes were sent; this long from now one is checked again.
    Later(Duration),
}

/// A code or a session.
struct Held {
    digest: Digest,
    ends: Instant,
    by: Identity,
}

/// The codes and sessions of a controller, the oldest first.
#[derive(Default)]
pub(super) struct Book {
    codes: VecDeque<Held>,
    sessions: VecDeque<Held>,
    failures: Failures,
}

impl Book {
    /// Keeps a code that `by` had made.
    pub(super) fn add_code(&mut self, digest: Digest, by: Identity, now: Instant) {
        add(&mut self.codes, MAX_CODES, Held { digest, ends: now + CODE_LASTS, by }, now);
    }

    /// Uses a code up and begins a session with this bearer.
    pub(super) fn exchange(&mut self, code: &Digest, bearer: Digest, now: Instant) -> Result<Identity, Refused> {
        self.failures.check(now)?;
        let at = self.codes.iter().position(|held| held.digest == *code && held.ends > now);
        let Some(Held { by, .. }) = at.and_then(|at| self.codes.remove(at)) else {
            self.failures.note(now);
            return Err(Refused::NotValid);
        };
        let by = by.in_ui();
        let session = Held { digest: bearer, ends: now + SESSION_LASTS, by: by.clone() };
        add(&mut self.sessions, MAX_SESSIONS, session, now);
        Ok(by)
    }

    /// Who the session with this bearer belongs to.
    pub(super) fn identity(&self, bearer: &Digest, now: Instant) -> Option<Identity> {
        let session = self.sessions.iter().find(|held| held.digest == *bearer && held.ends > now);
        session.map(|held| held.by.clone())
    }

    /// Ends every session and code of a token.
    pub(super) fn end_of_token(&mut self, name: &str) {
        let is_other = |held: &Held| held.by.principal.token.as_deref() != Some(name);
        self.codes.retain(is_other);
        self.sessions.retain(is_other);
    }

    /// Ends the session with this bearer, if there is one.
    pub(super) fn end(&mut self, bearer: &Digest) {
        self.sessions.retain(|held| held.digest != *bearer);
    }
}

/// Adds the newest of `most`, without those that have ended.
fn add(all: &mut VecDeque<Held>, most: usize, held: Held, now: Instant) {
    all.retain(|held| held.ends > now);
    if all.len() >= most {
        all.pop_front();
    }
    all.push_back(held);
}

/// Wrong codes of all clients together, by the instant at which all of them are forgiven.
#[derive(Default)]
struct Failures {
    forgiven: Option<Instant>,
}

impl Failures {
    fn check(&self, now: Instant) -> Result<(), Refused> {
        let owed = self.forgiven.map_or(Duration::ZERO, |at| at.saturating_duration_since(now));
        let wait = (owed + FORGIVEN_AFTER).saturating_sub(FORGIVEN_AFTER * MAX_FAILURES);
        if wait.is_zero() { Ok(()) } else { Err(Refused::Later(wait)) }
    }

    fn note(&mut self, now: Instant) {
        let from = self.forgiven.map_or(now, |at| at.max(now));
        self.forgiven = Some(from + FORGIVEN_AFTER);
    }
}

#[cfg(test)]
mod tests {
    use canopy_controller_core::principal::Principal;
    use canopy_controller_core::role::Role;

    use super::*;

    fn digest(of: u8) -> Digest {
        [of; 32]
    }

    fn alice() -> Identity {
        Identity { principal: Principal::operator("alice", Some(1000)), role: Some(Role::Viewer) }
    }

    /// Catches a code that works twice, one that works for ever, and a session that outlives its time.
    #[test]
    fn a_code_works_once_and_in_time_and_a_session_ends() {
        let (mut book, start) = (Book::default(), Instant::now());
        book.add_code(digest(1), alice(), start);
        assert_eq!(book.exchange(&digest(2), digest(9), start), Err(Refused::NotValid));
        let in_time = start + CODE_LASTS - Duration::from_nanos(1);
        assert_eq!(book.exchange(&digest(1), digest(9), in_time), Ok(alice().in_ui()));
        assert_eq!(book.exchange(&digest(1), digest(8), in_time), Err(Refused::NotValid));
        assert_eq!(book.identity(&digest(8), in_time), None);
        book.add_code(digest(3), alice(), start);
        assert_eq!(book.exchange(&digest(3), digest(7), start + CODE_LASTS), Err(Refused::NotValid));
        let last = in_time + SESSION_LASTS - Duration::from_nanos(1);
        assert_eq!(book.identity(&digest(9), last), Some(alice().in_ui()));
        assert_eq!(book.identity(&digest(9), in_time + SESSION_LASTS), None);
        book.end(&digest(9));
        assert_eq!(book.identity(&digest(9), in_time), None);
    }

    /// Catches memory that grows with requests, and a flood that keeps the newest code from working.
    #[test]
    fn codes_and_sessions_are_bounded_and_the_newest_stay() {
        let (mut book, now) = (Book::default(), Instant::now());
        for code in 0..=u8::try_from(MAX_CODES).unwrap() {
            book.add_code(digest(code), alice(), now);
        }
        assert_eq!(book.codes.len(), MAX_CODES);
        assert_eq!(book.exchange(&digest(0), digest(200), now), Err(Refused::NotValid));
        assert!(book.exchange(&digest(1), digest(200), now).is_ok());
        for session in 0..u8::try_from(MAX_SESSIONS).unwrap() {
            book.add_code(digest(100), alice(), now);
            book.exchange(&digest(100), digest(session), now).unwrap();
        }
        assert_eq!(book.sessions.len(), MAX_SESSIONS);
        assert_eq!(book.identity(&digest(200), now), None);
        assert!(book.identity(&digest(0), now).is_some());
        // Those that have ended make room first.
        book.add_code(digest(101), alice(), now + CODE_LASTS);
        assert_eq!(book.codes.len(), 1);
    }

    /// Catches guessing without a limit, a limit that uses a code up, and one that lasts.
    #[test]
    fn wrong_codes_are_limited_and_forgiven_one_by_one() {
        let (mut book, start) = (Book::default(), Instant::now());
        for _ in 0..MAX_FAILURES {
            assert_eq!(book.exchange(&digest(0), digest(9), start), Err(Refused::NotValid));
        }
        book.add_code(digest(1), alice(), start);
        let second = Duration::from_secs(1);
        let early = start + FORGIVEN_AFTER - second;
        assert_eq!(book.exchange(&digest(1), digest(9), early), Err(Refused::Later(second)));
        let forgiven = start + FORGIVEN_AFTER;
        assert_eq!(book.exchange(&digest(0), digest(9), forgiven), Err(Refused::NotValid));
        assert!(matches!(book.exchange(&digest(1), digest(9), forgiven), Err(Refused::Later(_))));
        assert!(book.exchange(&digest(1), digest(9), forgiven + FORGIVEN_AFTER).is_ok());
    }
}
