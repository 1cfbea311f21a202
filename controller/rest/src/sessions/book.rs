// SPDX-License-Identifier: Apache-2.0
//! Codes and sessions as their digests, on `now`: no secret is kept, and only digests are compared.
//!
//! ```text
//! code: made --exchanged--> used up, and a session begins
//!         \--- 60 s, 4 newer ones of its user, or 16 --> gone
//! session: begun --12 h, sign-out, 16 newer ones of its user, or 64--> gone
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
/// Codes and sessions of one user at once; one more ends the oldest of that user.
const MAX_OWN: (usize, usize) = (4, 16);
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
    /// By which `canopyctl ui` alone it is sent, as the digest of what that sends along; `None`: by a browser itself.
    through: Option<Digest>,
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
        let code = Held { digest, ends: now + CODE_LASTS, by, through: None };
        add(&mut self.codes, MAX_CODES, MAX_OWN.0, code, now);
    }

    /// Uses a code up and begins a session with this bearer. A code that works does so whatever others send.
    pub(super) fn exchange(
        &mut self,
        code: &Digest,
        bearer: Digest,
        through: Option<Digest>,
        now: Instant,
    ) -> Result<Identity, Refused> {
        let at = self.codes.iter().position(|held| held.digest == *code && held.ends > now);
        let Some(Held { by, .. }) = at.and_then(|at| self.codes.remove(at)) else {
            self.failures.check(now)?;
            self.failures.note(now);
            return Err(Refused::NotValid);
        };
        let by = by.in_ui();
        let session = Held { digest: bearer, ends: now + SESSION_LASTS, by: by.clone(), through };
        add(&mut self.sessions, MAX_SESSIONS, MAX_OWN.1, session, now);
        Ok(by)
    }

    /// Who the session with this bearer belongs to, if it comes the way that it was begun.
    pub(super) fn identity(&self, bearer: &Digest, through: Option<Digest>, now: Instant) -> Option<Identity> {
        let is_it = |held: &&Held| held.digest == *bearer && held.ends > now && held.through == through;
        let session = self.sessions.iter().find(is_it);
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

/// Adds the newest of `most`, and of `most_own` of its user, without those that have ended.
fn add(all: &mut VecDeque<Held>, most: usize, most_own: usize, held: Held, now: Instant) {
    all.retain(|held| held.ends > now);
    let is_own = |other: &Held| other.by.principal.is_same(&held.by.principal);
    if all.iter().filter(|other| is_own(other)).count() >= most_own {
        let oldest = all.iter().position(is_own);
        oldest.and_then(|at| all.remove(at));
    }
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

    fn of(uid: u32) -> Identity {
        Identity::new(Principal::operator("", Some(uid)), Some(Role::Viewer))
    }

    fn alice() -> Identity {
        of(1000)
    }

    /// Catches a code that works twice, one that works for ever, and a session that outlives its time.
    #[test]
    fn a_code_works_once_and_in_time_and_a_session_ends() {
        let (mut book, start) = (Book::default(), Instant::now());
        book.add_code(digest(1), alice(), start);
        assert_eq!(book.exchange(&digest(2), digest(9), None, start), Err(Refused::NotValid));
        let in_time = start + CODE_LASTS - Duration::from_nanos(1);
        assert_eq!(book.exchange(&digest(1), digest(9), None, in_time), Ok(alice().in_ui()));
        assert_eq!(book.exchange(&digest(1), digest(8), None, in_time), Err(Refused::NotValid));
        assert_eq!(book.identity(&digest(8), None, in_time), None);
        book.add_code(digest(3), alice(), start);
        assert_eq!(book.exchange(&digest(3), digest(7), None, start + CODE_LASTS), Err(Refused::NotValid));
        let last = in_time + SESSION_LASTS - Duration::from_nanos(1);
        assert_eq!(book.identity(&digest(9), None, last), Some(alice().in_ui()));
        assert_eq!(book.identity(&digest(9), None, in_time + SESSION_LASTS), None);
        book.end(&digest(9));
        assert_eq!(book.identity(&digest(9), None, in_time), None);
    }

    /// Catches memory that grows with requests, a flood that keeps the newest code from working, and a user who ends the sessions of others.
    #[test]
    fn codes_and_sessions_are_bounded_and_the_newest_stay() {
        let (mut book, now) = (Book::default(), Instant::now());
        for code in 0..=u8::try_from(MAX_CODES).unwrap() {
            book.add_code(digest(code), of(code.into()), now);
        }
        assert_eq!(book.codes.len(), MAX_CODES);
        assert_eq!(book.exchange(&digest(0), digest(200), None, now), Err(Refused::NotValid));
        assert!(book.exchange(&digest(1), digest(200), None, now).is_ok());
        for session in 0..u8::try_from(MAX_SESSIONS).unwrap() {
            book.add_code(digest(100), of(u32::from(session) + 2), now);
            book.exchange(&digest(100), digest(session), None, now).unwrap();
        }
        assert_eq!(book.sessions.len(), MAX_SESSIONS);
        assert_eq!(book.identity(&digest(200), None, now), None);
        assert!(book.identity(&digest(0), None, now).is_some());
        // Those that have ended make room first.
        book.add_code(digest(101), alice(), now + CODE_LASTS);
        assert_eq!(book.codes.len(), 1);
        let mut book = Book::default();
        for (number, uid) in [1, 2, 2, 2, 2, 2].into_iter().enumerate() {
            book.add_code(digest(number as u8), of(uid), now);
        }
        assert!(book.exchange(&digest(0), digest(100), None, now).is_ok(), "another user's code is gone");
        assert!(book.exchange(&digest(1), digest(101), None, now).is_err() && book.codes.len() == MAX_OWN.0);
        for number in 0..=u8::try_from(MAX_OWN.1).unwrap() {
            book.add_code(digest(200), of(2), now);
            book.exchange(&digest(200), digest(number), None, now).unwrap();
        }
        assert_eq!(book.sessions.len(), MAX_OWN.1 + 1);
        assert!(book.identity(&digest(100), None, now).is_some() && book.identity(&digest(0), None, now).is_none());
    }

    /// Catches a bearer that works for a program that takes the port of a `canopyctl ui` that has ended.
    #[test]
    fn a_session_works_only_the_way_that_it_was_begun() {
        let (mut book, now) = (Book::default(), Instant::now());
        let ways = [None, Some(digest(50)), Some(digest(51))];
        for way in ways {
            book.add_code(digest(1), alice(), now);
            book.exchange(&digest(1), digest(9), way, now).unwrap();
            for other in ways {
                assert_eq!(book.identity(&digest(9), other, now).is_some(), way == other);
            }
            book.end(&digest(9));
        }
    }

    /// Catches guessing without a limit, a limit that uses a code up, and one that lasts.
    #[test]
    fn wrong_codes_are_limited_and_forgiven_one_by_one() {
        let (mut book, start) = (Book::default(), Instant::now());
        for _ in 0..MAX_FAILURES {
            assert_eq!(book.exchange(&digest(0), digest(9), None, start), Err(Refused::NotValid));
        }
        book.add_code(digest(1), alice(), start);
        let second = Duration::from_secs(1);
        let early = start + FORGIVEN_AFTER - second;
        assert_eq!(book.exchange(&digest(0), digest(9), None, early), Err(Refused::Later(second)));
        let forgiven = start + FORGIVEN_AFTER;
        assert_eq!(book.exchange(&digest(0), digest(9), None, forgiven), Err(Refused::NotValid));
        assert!(matches!(book.exchange(&digest(0), digest(9), None, forgiven), Err(Refused::Later(_))));
        // Others that guess keep no operator out.
        assert!(book.exchange(&digest(1), digest(9), None, forgiven).is_ok());
    }
}
