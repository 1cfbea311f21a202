// SPDX-License-Identifier: Apache-2.0
//! Codes and sessions as their digests, on `now`: no secret is kept, and only digests are compared.
//!
//! ```text
//! code: made --exchanged--> used up, and a session begins
//!         \--- 60 s, 4 newer ones of its user, or 16 --> gone
//! session: begun --12 h, sign-out, revoked, other roles, 16 newer ones of its user, or 1,024--> gone
//!          with a cookie: also 30 min without a request
//! ```

use std::collections::VecDeque;
use std::time::Duration;

use canopy_controller_access::Identity;
use tokio::time::Instant;

use crate::caller::Caller;

/// Time in which a code works.
pub(crate) const CODE_LASTS: Duration = Duration::from_secs(60);
/// Time that a session lasts.
pub(crate) const SESSION_LASTS: Duration = Duration::from_secs(12 * 60 * 60);
/// Time that a session with a cookie lasts without a request. There is none for those with a bearer, which end with their tab; a tab that shows
/// the domain reads it all the time.
pub(crate) const IDLE_LASTS: Duration = Duration::from_secs(30 * 60);
/// Codes at once; one more replaces the oldest, so that the newest code always works.
const MAX_CODES: usize = 16;
/// Sessions at once; one more ends the oldest.
const MAX_SESSIONS: usize = 1024;
/// Codes and sessions of one user at once; one more ends the oldest of that user.
const MAX_OWN: (usize, usize) = (4, 16);
/// Wrong codes in a row after which every code is refused for a while.
const MAX_FAILURES: u32 = 10;
/// Time after which one wrong code is forgiven.
const FORGIVEN_AFTER: Duration = Duration::from_secs(6);

/// SHA-256 of a code or a bearer.
pub(crate) type Digest = [u8; 32];

/// Why a code is not exchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// There is no such code: it never was, was used, or is too old.
    NotValid,
    /// Too many wrong codes were sent; this long from now one is checked again.
    Later(Duration),
}

/// How a browser shows its session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shown {
    /// By a bearer; the digest of what `canopyctl ui` sends along, by which alone it works then.
    Bearer(Option<Digest>),
    /// By a cookie, over TLS.
    Cookie,
}

/// A code or a session.
struct Held {
    /// Of a session: what it is named by, which is no secret.
    id: u64,
    digest: Digest,
    begun: Instant,
    used: Instant,
    ends: Instant,
    /// Who it acts for, with the roles of its beginning.
    by: Identity,
    /// What that principal may do now.
    origin: Caller,
    shown: Shown,
}

impl Held {
    fn is_open(&self, now: Instant) -> bool {
        self.ends > now && (self.shown != Shown::Cookie || self.used + IDLE_LASTS > now)
    }
}

/// A session that is to begin.
pub(crate) struct Beginning {
    /// Digest of its secret.
    pub(crate) digest: Digest,
    /// Who it acts for.
    pub(crate) by: Identity,
    /// What that principal may do later.
    pub(crate) origin: Caller,
    pub(crate) shown: Shown,
}

/// A session, without its secret.
#[derive(Clone)]
pub(crate) struct Listed {
    pub(crate) id: u64,
    pub(crate) by: Identity,
    pub(crate) origin: Caller,
    pub(crate) is_cookie: bool,
    pub(crate) age: Duration,
    pub(crate) unused: Duration,
    pub(crate) left: Duration,
}

/// The codes and sessions of a controller, the oldest first.
#[derive(Default)]
pub(super) struct Book {
    codes: VecDeque<Held>,
    sessions: VecDeque<Held>,
    /// Sessions that have begun.
    count: u64,
    failures: Failures,
}

impl Book {
    /// Keeps a code that `by` had made.
    pub(super) fn add_code(&mut self, digest: Digest, by: Identity, origin: Caller, now: Instant) {
        let shown = Shown::Bearer(None);
        let code = Held { id: 0, digest, begun: now, used: now, ends: now + CODE_LASTS, by, origin, shown };
        add(&mut self.codes, MAX_CODES, MAX_OWN.0, code, now);
    }

    /// Uses a code up and begins a session. A code that works does so whatever others send.
    pub(super) fn exchange(
        &mut self,
        code: &Digest,
        secret: Digest,
        shown: Shown,
        now: Instant,
    ) -> Result<(u64, Identity), Refused> {
        let at = self.codes.iter().position(|held| held.digest == *code && held.ends > now);
        let Some(Held { by, origin, .. }) = at.and_then(|at| self.codes.remove(at)) else {
            self.failures.check(now)?;
            self.failures.note(now);
            return Err(Refused::NotValid);
        };
        let by = by.in_ui();
        let id = self.begin(Beginning { digest: secret, by: by.clone(), origin, shown }, now);
        Ok((id, by))
    }

    /// Begins a session, and returns its id.
    pub(super) fn begin(&mut self, session: Beginning, now: Instant) -> u64 {
        let Beginning { digest, by, origin, shown } = session;
        self.count += 1;
        let (id, ends) = (self.count, now + SESSION_LASTS);
        let session = Held { id, digest, begun: now, used: now, ends, by, origin, shown };
        add(&mut self.sessions, MAX_SESSIONS, MAX_OWN.1, session, now);
        id
    }

    /// The session with this secret, if it is shown as it was begun: who it acts for, and what that principal may do now. `is_use`: by a request,
    /// which keeps it.
    pub(super) fn find(
        &mut self,
        secret: &Digest,
        shown: Shown,
        is_use: bool,
        now: Instant,
    ) -> Option<(Identity, Caller)> {
        let is_it = |held: &&mut Held| held.digest == *secret && held.is_open(now) && held.shown == shown;
        let session = self.sessions.iter_mut().find(is_it)?;
        if is_use {
            session.used = now;
        }
        Some((session.by.clone(), session.origin.clone()))
    }

    /// All sessions, the oldest first.
    pub(super) fn list(&self, now: Instant) -> Vec<Listed> {
        let item = |held: &Held| Listed {
            id: held.id,
            by: held.by.clone(),
            origin: held.origin.clone(),
            is_cookie: held.shown == Shown::Cookie,
            age: now - held.begun,
            unused: now - held.used,
            left: held.ends - now,
        };
        self.sessions.iter().filter(|held| held.is_open(now)).map(item).collect()
    }

    /// Ends every session and code of a token that a user has made. Those of Kubernetes have a name in common, and no secret that is known here.
    pub(super) fn end_of_token(&mut self, name: &str) {
        let is_other = |held: &Held| held.by.secret.is_none() || held.by.principal.token.as_deref() != Some(name);
        self.codes.retain(is_other);
        self.sessions.retain(is_other);
    }

    /// Ends the session with this secret, if there is one.
    pub(super) fn end(&mut self, secret: &Digest) {
        self.sessions.retain(|held| held.digest != *secret);
    }

    /// Ends the session with this id, if there is one.
    pub(super) fn end_by_id(&mut self, id: u64) {
        self.sessions.retain(|held| held.id != id);
    }
}

/// Adds the newest of `most`, and of `most_own` of its user, without those that have ended.
fn add(all: &mut VecDeque<Held>, most: usize, most_own: usize, held: Held, now: Instant) {
    all.retain(|held| held.is_open(now));
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

    const BEARER: Shown = Shown::Bearer(None);

    fn add_code(book: &mut Book, code: Digest, by: Identity, now: Instant) {
        book.add_code(code, by.clone(), Caller::known(by), now);
    }

    fn exchange(
        book: &mut Book,
        code: Digest,
        secret: Digest,
        shown: Shown,
        now: Instant,
    ) -> Result<Identity, Refused> {
        book.exchange(&code, secret, shown, now).map(|(_, by)| by)
    }

    fn identity(book: &mut Book, secret: Digest, shown: Shown, now: Instant) -> Option<Identity> {
        book.find(&secret, shown, true, now).map(|(by, _)| by)
    }

    fn alice() -> Identity {
        of(1000)
    }

    /// Catches a code that works twice, one that works for ever, and a session that outlives its time.
    #[test]
    fn a_code_works_once_and_in_time_and_a_session_ends() {
        let (mut book, start) = (Book::default(), Instant::now());
        add_code(&mut book, digest(1), alice(), start);
        assert_eq!(exchange(&mut book, digest(2), digest(9), BEARER, start), Err(Refused::NotValid));
        let in_time = start + CODE_LASTS - Duration::from_nanos(1);
        assert_eq!(exchange(&mut book, digest(1), digest(9), BEARER, in_time), Ok(alice().in_ui()));
        assert_eq!(exchange(&mut book, digest(1), digest(8), BEARER, in_time), Err(Refused::NotValid));
        assert_eq!(identity(&mut book, digest(8), BEARER, in_time), None);
        add_code(&mut book, digest(3), alice(), start);
        assert_eq!(exchange(&mut book, digest(3), digest(7), BEARER, start + CODE_LASTS), Err(Refused::NotValid));
        let last = in_time + SESSION_LASTS - Duration::from_nanos(1);
        assert_eq!(identity(&mut book, digest(9), BEARER, last), Some(alice().in_ui()));
        assert_eq!(identity(&mut book, digest(9), BEARER, in_time + SESSION_LASTS), None);
        book.end(&digest(9));
        assert_eq!(identity(&mut book, digest(9), BEARER, in_time), None);
    }

    /// Catches memory that grows with requests, a flood that keeps the newest code from working, and a user who ends the sessions of others.
    #[test]
    fn codes_and_sessions_are_bounded_and_the_newest_stay() {
        let (mut book, now) = (Book::default(), Instant::now());
        for code in 0..=u8::try_from(MAX_CODES).unwrap() {
            add_code(&mut book, digest(code), of(code.into()), now);
        }
        assert_eq!(book.codes.len(), MAX_CODES);
        assert_eq!(exchange(&mut book, digest(0), digest(200), BEARER, now), Err(Refused::NotValid));
        assert!(exchange(&mut book, digest(1), digest(200), BEARER, now).is_ok());
        let numbered = |number: u32| {
            let mut digest = digest(201);
            digest[..4].copy_from_slice(&number.to_be_bytes());
            digest
        };
        for session in 0..u32::try_from(MAX_SESSIONS).unwrap() {
            add_code(&mut book, digest(100), of(session + 2), now);
            exchange(&mut book, digest(100), numbered(session), BEARER, now).unwrap();
        }
        assert_eq!(book.sessions.len(), MAX_SESSIONS);
        assert_eq!(identity(&mut book, digest(200), BEARER, now), None);
        assert!(identity(&mut book, numbered(0), BEARER, now).is_some());
        // Those that have ended make room first.
        add_code(&mut book, digest(101), alice(), now + CODE_LASTS);
        assert_eq!(book.codes.len(), 1);
        let mut book = Book::default();
        for (number, uid) in [1, 2, 2, 2, 2, 2].into_iter().enumerate() {
            add_code(&mut book, digest(number as u8), of(uid), now);
        }
        assert!(exchange(&mut book, digest(0), digest(100), BEARER, now).is_ok(), "another user's code is gone");
        assert!(exchange(&mut book, digest(1), digest(101), BEARER, now).is_err() && book.codes.len() == MAX_OWN.0);
        for number in 0..=u8::try_from(MAX_OWN.1).unwrap() {
            add_code(&mut book, digest(200), of(2), now);
            exchange(&mut book, digest(200), digest(number), BEARER, now).unwrap();
        }
        assert_eq!(book.sessions.len(), MAX_OWN.1 + 1);
        assert!(
            identity(&mut book, digest(100), BEARER, now).is_some()
                && identity(&mut book, digest(0), BEARER, now).is_none()
        );
    }

    /// Catches a bearer that works for a program that takes the port of a `canopyctl ui` that has ended.
    #[test]
    fn a_session_works_only_the_way_that_it_was_begun() {
        let (mut book, now) = (Book::default(), Instant::now());
        let ways = [BEARER, Shown::Bearer(Some(digest(50))), Shown::Bearer(Some(digest(51))), Shown::Cookie];
        for way in ways {
            add_code(&mut book, digest(1), alice(), now);
            exchange(&mut book, digest(1), digest(9), way, now).unwrap();
            for other in ways {
                assert_eq!(identity(&mut book, digest(9), other, now).is_some(), way == other);
            }
            book.end(&digest(9));
        }
    }

    /// Catches guessing without a limit, a limit that uses a code up, and one that lasts.
    #[test]
    fn wrong_codes_are_limited_and_forgiven_one_by_one() {
        let (mut book, start) = (Book::default(), Instant::now());
        for _ in 0..MAX_FAILURES {
            assert_eq!(exchange(&mut book, digest(0), digest(9), BEARER, start), Err(Refused::NotValid));
        }
        add_code(&mut book, digest(1), alice(), start);
        let second = Duration::from_secs(1);
        let early = start + FORGIVEN_AFTER - second;
        assert_eq!(exchange(&mut book, digest(0), digest(9), BEARER, early), Err(Refused::Later(second)));
        let forgiven = start + FORGIVEN_AFTER;
        assert_eq!(exchange(&mut book, digest(0), digest(9), BEARER, forgiven), Err(Refused::NotValid));
        assert!(matches!(exchange(&mut book, digest(0), digest(9), BEARER, forgiven), Err(Refused::Later(_))));
        // Others that guess keep no operator out.
        assert!(exchange(&mut book, digest(1), digest(9), BEARER, forgiven).is_ok());
    }

    /// Catches a cookie that works although no request used it, and a stream that is open and counts as a use.
    #[test]
    fn a_session_with_a_cookie_ends_when_it_is_not_used() {
        let (mut book, start) = (Book::default(), Instant::now());
        for (secret, shown) in [(1, BEARER), (2, Shown::Cookie), (3, Shown::Cookie)] {
            let (by, origin) = (alice(), Caller::known(alice()));
            book.begin(Beginning { digest: digest(secret), by, origin, shown }, start);
        }
        let late = start + IDLE_LASTS - Duration::from_nanos(1);
        assert!(identity(&mut book, digest(2), Shown::Cookie, late).is_some());
        assert!(book.find(&digest(3), Shown::Cookie, false, late).is_some());
        let later = start + IDLE_LASTS;
        assert_eq!(
            book.list(later).iter().map(|of| (of.id, of.is_cookie)).collect::<Vec<_>>(),
            [(1, false), (2, true)]
        );
        assert!(identity(&mut book, digest(1), BEARER, later).is_some());
        assert!(identity(&mut book, digest(2), Shown::Cookie, later).is_some());
        assert_eq!(identity(&mut book, digest(3), Shown::Cookie, later), None);
        book.end_by_id(2);
        assert_eq!(identity(&mut book, digest(2), Shown::Cookie, later), None);
        assert!(identity(&mut book, digest(1), BEARER, later).is_some());
    }
}
