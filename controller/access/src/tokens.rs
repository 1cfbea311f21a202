// SPDX-License-Identifier: Apache-2.0
//! Tokens of operators and their programs, as their digests, in a file next to the authority's key: restoring a backup of the store brings
//! none back that was revoked.
//!
//! A token is a secret that its holder sends, or a certificate: then its digest is that of the certificate's public key, whose private key
//! stays where it was made.
//!
//! ```text
//! token: made --used--> used --revoked, or its time has passed--> gone
//!          \--rotated--> another secret; the one before works for ten minutes more
//! ```

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use canopy_controller_core::principal::Principal;
use canopy_controller_core::role::Role;
use canopy_identity::{FileError, KeyHash};
use canopy_units::UnixTime;
use serde::{Deserialize, Serialize};

use crate::secret::{LENGTH, SecretDigest, digest};
use crate::{Identity, TokenSecret};

const FILE: &str = "tokens.json";
/// Tokens at once.
pub const MAX_TOKENS: usize = 1000;
/// Tokens of one maker at once, so that no user keeps others from theirs.
pub const MAX_OF_MAKER: usize = 100;
/// Shortest and longest life of a token.
pub const MIN_LIFE: Duration = Duration::from_secs(60);
/// See [`MIN_LIFE`].
pub const MAX_LIFE: Duration = Duration::from_secs(90 * 24 * 3600);
/// Longest life of a certificate.
pub const MAX_CERTIFICATE_LIFE: Duration = Duration::from_secs(12 * 3600);
/// How long the secret before a rotation still works, so that every user of it can be given the new one.
const OVERLAP: Duration = Duration::from_secs(600);

/// A token, without its secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Token {
    /// Its name, unique in the domain.
    pub name: String,
    /// The tenant in which it may do that; `None`: in the whole domain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// What it may do.
    pub role: Role,
    /// Who made it: its writes are by this principal, through the token.
    pub maker: Principal,
    /// When it was made.
    pub created: UnixTime,
    /// When it ends.
    pub expires: UnixTime,
    /// When it was used last; `None`: never.
    pub used: Option<UnixTime>,
    /// Shown in the handshake of TLS; otherwise a secret, sent with each request.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_certificate: bool,
}

/// What a token is to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenRequest {
    /// Its name.
    pub name: String,
    /// The tenant that it is for; `None`: the whole domain.
    pub tenant: Option<String>,
    /// What it may do; at most what its maker may there.
    pub role: Role,
    /// How long it works, [`MIN_LIFE`] to [`MAX_LIFE`]; a certificate to [`MAX_CERTIFICATE_LIFE`].
    pub life: Duration,
}

/// Why a token is not made, rotated or revoked.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// A field of the request is out of range.
    #[error("{field}: {why}")]
    Invalid {
        /// The field.
        field: &'static str,
        /// Why, and what is possible.
        why: String,
    },
    /// Tokens have no more than the rights of their makers.
    #[error("a token of the role {wanted} in {} is made by a principal with that role: yours is {}", place(tenant.as_deref()), own.map_or("none", Role::name))]
    AboveMaker {
        /// Where; `None`: in the domain.
        tenant: Option<String>,
        /// The role that was wanted.
        wanted: Role,
        /// The maker's there.
        own: Option<Role>,
    },
    /// It has no secret that another one could replace.
    #[error("{0:?} is a certificate, which ends and is not rotated: make another one")]
    Certificate(String),
    /// The name is in use.
    #[error("there is a token {0:?} already: revoke or rotate it, or use another name")]
    Exists(String),
    /// There is none, or it is another principal's.
    #[error("there is no token {0:?}")]
    NotFound(String),
    /// It acts in the name of its maker.
    #[error("{0} has made this token, and it acts in that name: revoke it, and make one of your own")]
    NotYours(String),
    /// Too many.
    #[error("there are {MAX_TOKENS} tokens, or {MAX_OF_MAKER} of yours, which is the limit: revoke some")]
    TooMany,
    /// No randomness.
    #[error("the operating system gives no random numbers: {0}")]
    Random(getrandom::Error),
    /// The file.
    #[error(transparent)]
    File(#[from] FileError),
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Kept {
    #[serde(with = "hex::serde")]
    digest: SecretDigest,
    /// The secret before the last rotation, and until when it works.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    before: Option<Before>,
    token: Token,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Before {
    #[serde(with = "hex::serde")]
    digest: SecretDigest,
    until: UnixTime,
}

/// Fields of a later version are read over, so that a controller that goes back to an earlier one starts.
///
/// Tokens of tenants are in a list of their own: an earlier version, which would take one for a token of the whole domain, reads over it, and
/// drops it when it writes. So are certificates.
#[derive(Default, Serialize, Deserialize)]
struct Stored {
    tokens: Vec<Kept>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    tokens_of_tenants: Vec<Kept>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    certificates: Vec<Kept>,
}

impl Stored {
    fn of(all: impl Iterator<Item = Kept>) -> Self {
        let (certificates, secrets): (Vec<Kept>, Vec<Kept>) = all.partition(|kept| kept.token.is_certificate);
        let (tokens_of_tenants, tokens) = secrets.into_iter().partition(|kept| kept.token.tenant.is_some());
        Self { tokens, tokens_of_tenants, certificates }
    }
}

#[derive(Default)]
struct Book {
    by_name: BTreeMap<String, Kept>,
    /// Names by the digests that work.
    names: BTreeMap<SecretDigest, String>,
    /// The file has not what is here: uses, or a revocation that could not be written.
    is_dirty: bool,
}

/// All tokens of a controller. The default has none, and keeps them in memory only.
#[derive(Default)]
pub struct Tokens {
    /// Where they are kept; `None`: in memory only.
    directory: Option<PathBuf>,
    /// Never locked while the disk is waited for: every request with a token asks it.
    book: Mutex<Book>,
    /// Held by one change at a time, from what it reads until it is on the disk.
    changing: Mutex<()>,
}

impl Tokens {
    /// Of this directory, without those that have ended. A damaged file is an error: a controller that forgets tokens would surprise every
    /// program that uses one.
    ///
    /// # Errors
    /// The file cannot be read, others can read it, or it is damaged.
    pub fn open(directory: &Path, now: UnixTime) -> Result<Self, FileError> {
        let path = directory.join(FILE);
        let stored: Stored = match canopy_identity::read_secret(&path)? {
            Some(text) => serde_json::from_str(&text).map_err(|error| {
                FileError::new(
                    &path,
                    format!("is damaged: {error}; move it away, and every token has to be made again"),
                )
            })?,
            None => Stored::default(),
        };
        if let Some(kept) = stored.tokens_of_tenants.iter().find(|kept| kept.token.tenant.is_none()) {
            let why = format!("is damaged: token {:?} is among those of tenants, and has none", kept.token.name);
            return Err(FileError::new(&path, why));
        }
        let mut book = Book::of(stored.tokens.into_iter().chain(stored.tokens_of_tenants).chain(stored.certificates));
        book.forget_ended(now);
        Ok(Self { directory: Some(directory.to_owned()), book: Mutex::new(book), changing: Mutex::default() })
    }

    /// Whether this token could be made now, as a certificate of this key if there is one.
    ///
    /// # Errors
    /// Those of [`Tokens::make`], but of the disk.
    pub fn check(
        &self,
        request: &TokenRequest,
        key: Option<KeyHash>,
        by: &Identity,
        now: UnixTime,
    ) -> Result<(), TokenError> {
        self.book().check(request, key, by, now)
    }

    /// Makes a token with a secret, which the answer alone has. Blocks for the disk.
    ///
    /// # Errors
    /// See [`TokenError`]; nothing is made then.
    pub fn make(
        &self,
        request: TokenRequest,
        by: &Identity,
        now: UnixTime,
    ) -> Result<(TokenSecret, Token), TokenError> {
        let _one_at_a_time = self.changing();
        self.book().check(&request, None, by, now)?;
        let secret = TokenSecret::draw().map_err(TokenError::Random)?;
        let token = Token::new(request, by, now, false);
        self.put(Kept { digest: secret.digest(), before: None, token: token.clone() })?;
        Ok((secret, token))
    }

    /// Makes a token of what shows a certificate of this key. Blocks for the disk.
    ///
    /// # Errors
    /// See [`TokenError`]; nothing is made then.
    pub fn make_certificate(
        &self,
        request: TokenRequest,
        key: KeyHash,
        by: &Identity,
        now: UnixTime,
    ) -> Result<Token, TokenError> {
        let _one_at_a_time = self.changing();
        self.book().check(&request, Some(key), by, now)?;
        let token = Token::new(request, by, now, true);
        self.put(Kept { digest: key.0, before: None, token: token.clone() })?;
        Ok(token)
    }

    /// The token of this name, if the caller may see and revoke it.
    ///
    /// # Errors
    /// There is none.
    pub fn find(&self, name: &str, by: &Identity, now: UnixTime) -> Result<Token, TokenError> {
        self.book().of_principal(name, by, now).map(|kept| kept.token.clone())
    }

    /// The token of this name, if the caller has made it, and still has its role.
    ///
    /// # Errors
    /// There is none, or its role is above the caller's now.
    pub fn own(&self, name: &str, by: &Identity, now: UnixTime) -> Result<Token, TokenError> {
        let token = self.find(name, by, now)?;
        // An administrator ends tokens of others, and does not act in their names.
        if !by.principal.is_same(&token.maker) {
            return Err(TokenError::NotYours(token.maker.to_string()));
        }
        by.check_above(token.tenant.as_deref(), token.role).map(|()| token)
    }

    /// The same, if it has a secret that can be rotated.
    ///
    /// # Errors
    /// As [`Tokens::own`], and it is a certificate.
    pub fn rotatable(&self, name: &str, by: &Identity, now: UnixTime) -> Result<Token, TokenError> {
        let token = self.own(name, by, now)?;
        if token.is_certificate { Err(TokenError::Certificate(token.name)) } else { Ok(token) }
    }

    /// Gives a token another secret and its whole life again. The secret before works for ten minutes more. Blocks for the disk.
    ///
    /// # Errors
    /// See [`TokenError`]; nothing changes then.
    pub fn rotate(&self, name: &str, by: &Identity, now: UnixTime) -> Result<(TokenSecret, Token), TokenError> {
        let _one_at_a_time = self.changing();
        self.rotatable(name, by, now)?;
        let kept = self.book().of_principal(name, by, now)?.clone();
        let secret = TokenSecret::draw().map_err(TokenError::Random)?;
        let life = Duration::from_nanos(kept.token.expires.nanos().saturating_sub(kept.token.created.nanos()));
        let until = kept.token.expires.min(now + OVERLAP);
        let token = Token { created: now, expires: now + life, ..kept.token };
        let before = Some(Before { digest: kept.digest, until });
        self.put(Kept { digest: secret.digest(), before, token: token.clone() })?;
        Ok((secret, token))
    }

    /// Ends a token at once, on the disk too. Blocks for the disk.
    ///
    /// # Errors
    /// There is none of this name that the caller may end. After [`TokenError::File`] it does not work any more, and is written again until
    /// that succeeds.
    pub fn revoke(&self, name: &str, by: &Identity, now: UnixTime) -> Result<Token, TokenError> {
        let _one_at_a_time = self.changing();
        let stored = {
            let mut book = self.book();
            let token = book.of_principal(name, by, now)?.token.clone();
            book.remove(name);
            (book.take(), token)
        };
        self.write(&stored.0)?;
        Ok(stored.1)
    }

    /// The tokens that the caller may see, by name: its own, an administrator's are all.
    pub fn list(&self, by: &Identity, now: UnixTime) -> Vec<Token> {
        let book = self.book();
        let seen = book.by_name.values().map(|kept| &kept.token);
        seen.filter(|token| token.expires > now && by.has_power_over(token)).cloned().collect()
    }

    /// Who sends this token, and what it may do; `None` if it does not work.
    pub fn identity(&self, text: &str, now: UnixTime) -> Option<Identity> {
        if text.len() != LENGTH {
            return None;
        }
        self.book().used(&digest(text), false, now)
    }

    /// Who has shown the certificate of this name and key, and what it may do; `None` if it was revoked or has ended.
    pub fn shown(&self, name: &str, key: KeyHash, now: UnixTime) -> Option<Identity> {
        self.certified(name, key, now)?;
        self.book().used(&key.0, true, now)
    }

    /// The same without a use of it: what its connection may do now.
    pub fn certified(&self, name: &str, key: KeyHash, now: UnixTime) -> Option<Identity> {
        // A key that was revoked under one name may have been certified under another one.
        self.standing(&key.0, now).filter(|identity| identity.principal.token.as_deref() == Some(name))
    }

    /// The same by the digest of the secret or key, without a use of it: what a connection, a session or a stream that it has begun may do now.
    pub fn standing(&self, secret: &SecretDigest, now: UnixTime) -> Option<Identity> {
        self.book().standing(secret, now)
    }

    /// Writes what the file has not: when tokens were used last, revocations that could not be written, and that tokens have ended. Blocks for
    /// the disk.
    ///
    /// # Errors
    /// The file cannot be written; it is tried again at the next call.
    pub fn catch_up(&self, now: UnixTime) -> Result<(), FileError> {
        let _one_at_a_time = self.changing();
        let stored = {
            let mut book = self.book();
            book.forget_ended(now);
            book.is_dirty.then(|| book.take())
        };
        stored.map_or(Ok(()), |stored| self.write(&stored))
    }

    /// On the disk first, so that no answer shows a token that a restart does not know.
    fn put(&self, kept: Kept) -> Result<(), TokenError> {
        let stored = self.book().take_with(kept.clone());
        self.write(&stored)?;
        let mut book = self.book();
        book.remove(&kept.token.name);
        book.insert(kept);
        Ok(())
    }

    /// What was noted since `stored` was read stays to be written; so does everything if that fails.
    fn write(&self, stored: &Stored) -> Result<(), FileError> {
        let Some(directory) = &self.directory else { return Ok(()) };
        let written = canopy_identity::private_directory(directory).and_then(|()| {
            canopy_identity::replace(&directory.join(FILE), &serde_json::to_vec_pretty(stored).unwrap_or_default())
        });
        self.book().is_dirty |= written.is_err();
        written
    }

    fn changing(&self) -> MutexGuard<'_, ()> {
        self.changing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Token {
    fn new(request: TokenRequest, by: &Identity, now: UnixTime, is_certificate: bool) -> Self {
        let TokenRequest { name, tenant, role, life } = request;
        let (maker, expires) = (by.principal.clone(), now + life);
        Self { name, tenant, role, maker, created: now, expires, used: None, is_certificate }
    }
}

impl TokenRequest {
    fn check(&self, is_certificate: bool) -> Result<(), TokenError> {
        let invalid = |field, why| Err(TokenError::Invalid { field, why });
        if let Err(error) = canopy_model::ids::check_name("name", &self.name) {
            return invalid("name", error.detail);
        }
        if let Some(tenant) = &self.tenant
            && let Err(error) = canopy_model::ids::check_name("tenant", tenant)
        {
            return invalid("tenant", error.detail);
        }
        let longest = if is_certificate { MAX_CERTIFICATE_LIFE } else { MAX_LIFE };
        if !(MIN_LIFE..=longest).contains(&self.life) {
            let why = format!("{} s: use {} to {}", self.life.as_secs(), MIN_LIFE.as_secs(), longest.as_secs());
            return invalid("forSeconds", why);
        }
        Ok(())
    }
}

impl Identity {
    /// Whether the role is at most the caller's in this tenant; `None`: in the domain.
    ///
    /// # Errors
    /// It is more.
    pub fn check_above(&self, tenant: Option<&str>, wanted: Role) -> Result<(), TokenError> {
        match self.role_at(tenant) {
            Some(own) if own >= wanted => Ok(()),
            own => Err(TokenError::AboveMaker { tenant: tenant.map(str::to_owned), wanted, own }),
        }
    }

    fn role_at(&self, tenant: Option<&str>) -> Option<Role> {
        tenant.map_or(self.role, |tenant| self.role_in(tenant))
    }

    /// Whether the token is this principal's own, or one that an administrator has power over. With a role in a tenant alone, the principal
    /// has power over tokens of that tenant alone.
    fn has_power_over(&self, token: &Token) -> bool {
        let role = self.role_at(token.tenant.as_deref());
        role == Some(Role::Admin) || (role.is_some() && self.principal.is_same(&token.maker))
    }
}

/// A place where roles are, for people.
fn place(tenant: Option<&str>) -> String {
    tenant.map_or_else(|| "the domain".to_owned(), |tenant| format!("tenant {tenant}"))
}

impl Book {
    fn of(tokens: impl Iterator<Item = Kept>) -> Self {
        let mut book = Self::default();
        tokens.for_each(|kept| book.insert(kept));
        book
    }

    fn insert(&mut self, kept: Kept) {
        let name = kept.token.name.clone();
        self.names.insert(kept.digest, name.clone());
        if let Some(before) = &kept.before {
            self.names.insert(before.digest, name.clone());
        }
        self.by_name.insert(name, kept);
    }

    fn used(&mut self, shown: &SecretDigest, is_certificate: bool, now: UnixTime) -> Option<Identity> {
        let name = self.working(shown, now)?.to_owned();
        let token = &mut self.by_name.get_mut(&name)?.token;
        if token.is_certificate != is_certificate {
            return None;
        }
        token.used = Some(now);
        self.is_dirty = true;
        self.standing(shown, now)
    }

    fn standing(&self, secret: &SecretDigest, now: UnixTime) -> Option<Identity> {
        let name = self.working(secret, now)?;
        let token = &self.by_name.get(name)?.token;
        let principal = token.maker.clone().with_token(name);
        let (role, tenants) = match &token.tenant {
            Some(tenant) => (None, BTreeMap::from([(tenant.clone(), token.role)])),
            None => (Some(token.role), BTreeMap::new()),
        };
        Some(Identity { principal, role, tenants, secret: Some(*secret) })
    }

    /// What is to be written; from here on it is not dirty.
    fn take(&mut self) -> Stored {
        self.is_dirty = false;
        Stored::of(self.by_name.values().cloned())
    }

    /// With this token instead of the one of its name.
    fn take_with(&mut self, kept: Kept) -> Stored {
        self.is_dirty = false;
        let others = self.by_name.values().filter(|other| other.token.name != kept.token.name);
        Stored::of(others.cloned().chain([kept.clone()]))
    }

    /// The name of the token that this secret is of, if it works.
    fn working(&self, secret: &SecretDigest, now: UnixTime) -> Option<&str> {
        let Kept { before, token, .. } = self.by_name.get(self.names.get(secret)?)?;
        let ends = match before {
            Some(before) if before.digest == *secret => before.until,
            _ => token.expires,
        };
        (ends > now).then_some(token.name.as_str())
    }

    fn remove(&mut self, name: &str) -> Option<Kept> {
        let kept = self.by_name.remove(name)?;
        self.names.retain(|_, of| of != name);
        Some(kept)
    }

    fn check(
        &mut self,
        request: &TokenRequest,
        key: Option<KeyHash>,
        by: &Identity,
        now: UnixTime,
    ) -> Result<(), TokenError> {
        request.check(key.is_some())?;
        by.check_above(request.tenant.as_deref(), request.role)?;
        self.forget_ended(now);
        if self.by_name.contains_key(&request.name) {
            return Err(TokenError::Exists(request.name.clone()));
        }
        if key.is_some_and(|key| self.names.contains_key(&key.0)) {
            let why = "this key has a certificate already: make another key";
            return Err(TokenError::Invalid { field: "certificateRequest", why: why.to_owned() });
        }
        let own = self.by_name.values().filter(|kept| by.principal.is_same(&kept.token.maker)).count();
        if self.by_name.len() >= MAX_TOKENS || own >= MAX_OF_MAKER {
            return Err(TokenError::TooMany);
        }
        Ok(())
    }

    fn forget_ended(&mut self, now: UnixTime) {
        let ended = self.by_name.values().filter(|kept| kept.token.expires <= now);
        let names: Vec<String> = ended.map(|kept| kept.token.name.clone()).collect();
        self.is_dirty |= !names.is_empty();
        names.iter().for_each(|name| _ = self.remove(name));
    }

    /// The token of this name, if the caller has power over it; another principal's is as good as none.
    fn of_principal(&self, name: &str, by: &Identity, now: UnixTime) -> Result<&Kept, TokenError> {
        let kept = self.by_name.get(name).filter(|kept| kept.token.expires > now && by.has_power_over(&kept.token));
        kept.ok_or_else(|| TokenError::NotFound(name.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PREFIX;

    const DAY: Duration = Duration::from_secs(86_400);

    fn at(seconds: u64) -> UnixTime {
        UnixTime::from_nanos((1_000_000 + seconds) * 1_000_000_000)
    }

    fn open(directory: &tempfile::TempDir) -> Tokens {
        Tokens::open(directory.path(), at(0)).unwrap()
    }

    fn alice(role: Role) -> Identity {
        Identity::new(Principal::operator("alice", Some(1000)), Some(role))
    }

    fn bob(role: Role) -> Identity {
        Identity::new(Principal::operator("bob", Some(1001)), Some(role))
    }

    fn wanted(name: &str, role: Role) -> TokenRequest {
        TokenRequest { name: name.to_owned(), tenant: None, role, life: DAY }
    }

    /// Catches a token that outlives its time, its revocation or a restart that should not matter, and a secret on the disk.
    #[test]
    fn a_token_works_until_it_ends_or_is_revoked_also_over_a_restart() {
        let directory = tempfile::tempdir().unwrap();
        let tokens = open(&directory);
        let (secret, made) = tokens.make(wanted("ci", Role::Viewer), &alice(Role::Operator), at(0)).unwrap();
        assert_eq!((made.expires, made.used), (at(0) + DAY, None));
        let text = std::fs::read_to_string(directory.path().join(FILE)).unwrap();
        assert!(!text.contains(secret.reveal()) && !text.contains(&secret.reveal()[PREFIX.len()..]));
        let tokens = open(&directory);
        let identity = tokens.identity(secret.reveal(), at(86_399)).unwrap();
        tokens.catch_up(at(86_399)).unwrap();
        let tokens = open(&directory);
        assert_eq!((identity.role, identity.principal.to_string().as_str()), (Some(Role::Viewer), "alice (token ci)"));
        assert_eq!(tokens.list(&alice(Role::Operator), at(86_399))[0].used, Some(at(86_399)));
        assert_eq!(tokens.identity(secret.reveal(), at(86_400)), None);
        for wrong in ["", "canopy_pat_", &secret.reveal()[1..], &format!("{}x", secret.reveal())] {
            assert_eq!(tokens.identity(wrong, at(1)), None, "{wrong:?}");
        }
        tokens.revoke("ci", &alice(Role::Viewer), at(2)).unwrap();
        assert_eq!(tokens.identity(secret.reveal(), at(2)), None);
        assert_eq!(open(&directory).identity(secret.reveal(), at(2)), None);
    }

    /// Catches a token with more rights than its maker, and one that a stranger sees, rotates or revokes.
    #[test]
    fn a_token_has_no_more_rights_than_its_maker_and_belongs_to_one_user() {
        let tokens = Tokens::default();
        let refused = tokens.make(wanted("ci", Role::Admin), &alice(Role::Operator), at(0)).unwrap_err();
        assert!(matches!(refused, TokenError::AboveMaker { .. }), "{refused}");
        let none = Identity { role: None, ..alice(Role::Viewer) };
        assert!(matches!(tokens.make(wanted("ci", Role::Metrics), &none, at(0)), Err(TokenError::AboveMaker { .. })));
        let (secret, _) = tokens.make(wanted("ci", Role::Operator), &alice(Role::Operator), at(0)).unwrap();
        let exists = tokens.make(wanted("ci", Role::Viewer), &bob(Role::Viewer), at(0)).unwrap_err();
        assert!(matches!(exists, TokenError::Exists(_)));
        assert_eq!(tokens.list(&bob(Role::Operator), at(0)), []);
        assert_eq!(tokens.list(&bob(Role::Admin), at(0)).len(), 1);
        for by in [bob(Role::Operator), bob(Role::Viewer)] {
            assert!(matches!(tokens.revoke("ci", &by, at(0)), Err(TokenError::NotFound(_))));
            assert!(matches!(tokens.rotate("ci", &by, at(0)), Err(TokenError::NotFound(_))));
        }
        assert!(matches!(tokens.rotate("ci", &bob(Role::Admin), at(0)), Err(TokenError::NotYours(_))));
        // Who has lost the role cannot have the token live on.
        assert!(matches!(tokens.rotate("ci", &alice(Role::Viewer), at(0)), Err(TokenError::AboveMaker { .. })));
        assert!(tokens.identity(secret.reveal(), at(0)).is_some());
        tokens.revoke("ci", &bob(Role::Admin), at(0)).unwrap();
        assert_eq!(tokens.identity(secret.reveal(), at(0)), None);
    }

    /// Catches an old secret that works for ever, one that stops at once, and a life that shrinks with each rotation.
    #[test]
    fn after_a_rotation_both_secrets_work_for_ten_minutes_and_the_new_one_for_its_whole_life() {
        let directory = tempfile::tempdir().unwrap();
        let tokens = open(&directory);
        let by = alice(Role::Viewer);
        let (old, _) = tokens.make(wanted("ci", Role::Viewer), &by, at(0)).unwrap();
        let (new, rotated) = tokens.rotate("ci", &by, at(1000)).unwrap();
        assert_eq!(rotated.expires, at(1000) + DAY);
        let tokens = open(&directory);
        let works = |secret: &TokenSecret, seconds| tokens.identity(secret.reveal(), at(seconds)).is_some();
        assert!(works(&old, 1599) && !works(&old, 1600));
        assert!(works(&new, 1000) && works(&new, 87_399) && !works(&new, 87_400));
        // Near its end, the old one ends as it would have.
        let (last, _) = tokens.rotate("ci", &by, at(87_399)).unwrap();
        assert!(works(&last, 87_400) && !works(&new, 87_400));
        assert!(!works(&old, 1001), "two rotations ago");
    }

    #[test]
    fn requests_out_of_range_name_their_field() {
        let tokens = Tokens::default();
        let by = alice(Role::Admin);
        let field = |request| match tokens.make(request, &by, at(0)).unwrap_err() {
            TokenError::Invalid { field, .. } => field,
            other => panic!("{other}"),
        };
        for name in ["", "A", "a b", &"a".repeat(64)] {
            assert_eq!(field(wanted(name, Role::Viewer)), "name");
        }
        for life in [Duration::ZERO, MIN_LIFE - Duration::from_nanos(1), MAX_LIFE + Duration::from_nanos(1)] {
            assert_eq!(field(TokenRequest { life, ..wanted("a", Role::Viewer) }), "forSeconds");
        }
        tokens.make(TokenRequest { life: MAX_LIFE, ..wanted("a", Role::Viewer) }, &by, at(0)).unwrap();
    }

    /// Catches memory that grows with requests, a user who takes all of it, and ended tokens that keep others out.
    #[test]
    fn tokens_are_bounded_and_those_that_ended_make_room() {
        let tokens = Tokens::default();
        let of = |uid| Identity::new(Principal::operator("", Some(uid)), Some(Role::Viewer));
        for number in 0..MAX_TOKENS {
            let uid = u32::try_from(number / MAX_OF_MAKER).unwrap();
            tokens.make(wanted(&format!("t{number}"), Role::Viewer), &of(uid), at(0)).unwrap();
            if number + 1 == MAX_OF_MAKER {
                let more = tokens.make(wanted("more", Role::Viewer), &of(0), at(0));
                assert!(matches!(more, Err(TokenError::TooMany)));
            }
        }
        assert!(matches!(tokens.make(wanted("more", Role::Viewer), &of(99), at(0)), Err(TokenError::TooMany)));
        tokens.make(wanted("more", Role::Viewer), &of(99), at(86_400)).unwrap();
        assert_eq!(tokens.list(&alice(Role::Admin), at(86_400)).len(), 1);
    }

    /// Catches a revocation that a full disk undoes at the next start, and a token that has ended and a clock that was set back brings back.
    #[test]
    fn a_revocation_that_cannot_be_written_is_written_later_and_ended_tokens_leave_the_file() {
        let directory = tempfile::tempdir().unwrap();
        let mut tokens = open(&directory);
        let by = alice(Role::Viewer);
        let (secret, _) = tokens.make(wanted("ci", Role::Viewer), &by, at(0)).unwrap();
        // A directory where the new file is made first.
        let way = directory.path().join("tokens.json.new");
        std::fs::create_dir(&way).unwrap();
        assert!(matches!(tokens.revoke("ci", &by, at(1)), Err(TokenError::File(_))));
        assert_eq!(tokens.identity(secret.reveal(), at(1)), None);
        assert!(tokens.catch_up(at(1)).is_err());
        std::fs::remove_dir(&way).unwrap();
        tokens.catch_up(at(1)).unwrap();
        tokens = open(&directory);
        assert_eq!(tokens.identity(secret.reveal(), at(1)), None);
        let (ended, _) = tokens.make(wanted("short", Role::Viewer), &by, at(0)).unwrap();
        tokens.catch_up(at(86_400)).unwrap();
        assert_eq!(open(&directory).identity(ended.reveal(), at(1)), None);
    }

    /// Catches a field of a later version that keeps an earlier controller from its start.
    #[test]
    fn a_file_of_a_later_version_is_read() {
        let directory = tempfile::tempdir().unwrap();
        let (secret, _) = open(&directory).make(wanted("ci", Role::Viewer), &alice(Role::Viewer), at(0)).unwrap();
        let path = directory.path().join(FILE);
        let now = std::fs::read_to_string(&path).unwrap();
        let later = now.replacen("\"digest\":", "\"later\": 1, \"digest\":", 1).replacen(
            "\"name\":",
            "\"later\": {}, \"name\":",
            1,
        );
        assert_ne!(now, later);
        canopy_identity::replace(&path, later.as_bytes()).unwrap();
        assert!(open(&directory).identity(secret.reveal(), at(1)).is_some());
    }

    fn of_acme(principal: Identity, role: Role) -> Identity {
        Identity { role: None, tenants: BTreeMap::from([("acme".to_owned(), role)]), ..principal }
    }

    fn in_acme(name: &str, role: Role) -> TokenRequest {
        TokenRequest { tenant: Some("acme".to_owned()), ..wanted(name, role) }
    }

    /// Catches a token of a tenant that has its role elsewhere, that is made by a principal without the role there, or that shows the tokens
    /// that its maker has for more.
    #[test]
    fn a_token_of_a_tenant_is_for_that_tenant_alone() {
        let directory = tempfile::tempdir().unwrap();
        let tokens = open(&directory);
        let by = of_acme(alice(Role::Viewer), Role::Operator);
        for refused in [
            wanted("x", Role::Metrics),
            in_acme("x", Role::Admin),
            TokenRequest { tenant: Some("other".into()), ..wanted("x", Role::Viewer) },
        ] {
            assert!(matches!(tokens.make(refused, &by, at(0)), Err(TokenError::AboveMaker { .. })));
        }
        let bad = TokenRequest { tenant: Some("A b".into()), ..wanted("x", Role::Viewer) };
        assert!(matches!(tokens.make(bad, &by, at(0)), Err(TokenError::Invalid { field: "tenant", .. })));
        let (secret, _) = tokens.make(in_acme("ci", Role::Operator), &by, at(0)).unwrap();
        tokens.make(wanted("all", Role::Viewer), &alice(Role::Viewer), at(0)).unwrap();
        tokens.make(in_acme("by-the-domain", Role::Viewer), &bob(Role::Operator), at(0)).unwrap();
        let tokens = open(&directory);
        let identity = tokens.identity(secret.reveal(), at(1)).unwrap();
        assert_eq!(
            (identity.role, identity.role_in("acme"), identity.role_in("other")),
            (None, Some(Role::Operator), None)
        );
        let names =
            |by: &Identity| tokens.list(by, at(1)).into_iter().map(|token| token.name).collect::<Vec<_>>().join(" ");
        assert_eq!((names(&identity), names(&alice(Role::Viewer))), ("ci".to_owned(), "all ci".to_owned()));
        assert_eq!(names(&of_acme(bob(Role::Viewer), Role::Admin)), "by-the-domain ci");
        let admin_elsewhere = Identity {
            tenants: BTreeMap::from([("other".to_owned(), Role::Admin)]),
            ..of_acme(bob(Role::Viewer), Role::Viewer)
        };
        assert_eq!(names(&admin_elsewhere), "");
        assert!(matches!(tokens.revoke("all", &by, at(1)), Err(TokenError::NotFound(_))));
    }

    /// Catches a file in which an earlier version finds a token of a tenant as one of the whole domain: it reads `tokens`, and fields that it
    /// does not know over.
    #[test]
    fn an_earlier_version_finds_no_token_of_a_tenant() {
        #[derive(Deserialize)]
        struct Before {
            tokens: Vec<serde_json::Value>,
        }
        let directory = tempfile::tempdir().unwrap();
        let tokens = open(&directory);
        let (secret, _) = tokens.make(in_acme("ci", Role::Operator), &bob(Role::Operator), at(0)).unwrap();
        tokens.make(wanted("all", Role::Viewer), &bob(Role::Operator), at(0)).unwrap();
        tokens.rotate("ci", &bob(Role::Operator), at(0)).unwrap();
        let path = directory.path().join(FILE);
        let text = std::fs::read_to_string(&path).unwrap();
        let before: Before = serde_json::from_str(&text).unwrap();
        assert_eq!(before.tokens.len(), 1);
        assert_eq!(before.tokens[0]["token"]["name"], "all");
        assert!(open(&directory).identity(secret.reveal(), at(1)).unwrap().role.is_none());
        // One that has lost its tenant is none of the domain.
        std::fs::write(&path, text.replace("\"tenant\": \"acme\",", "")).unwrap();
        assert!(Tokens::open(directory.path(), at(0)).err().unwrap().to_string().contains("is damaged"));
    }

    /// Catches a certificate that is worth more than its time, its role or its revocation, that an earlier version takes for a token, that can
    /// be sent as a secret, and one key that stands for two.
    #[test]
    fn a_certificate_is_a_token_that_is_shown_and_not_sent() {
        let directory = tempfile::tempdir().unwrap();
        let tokens = open(&directory);
        let (by, key) = (alice(Role::Operator), KeyHash([7; 32]));
        let wanted = |name: &str, hours: u64| TokenRequest {
            life: Duration::from_secs(hours * 3600),
            ..wanted(name, Role::Operator)
        };
        let make = |request, key| tokens.make_certificate(request, key, &by, at(0));
        assert!(matches!(make(wanted("laptop", 13), key), Err(TokenError::Invalid { field: "forSeconds", .. })));
        let above = TokenRequest { role: Role::Admin, ..wanted("laptop", 12) };
        assert!(matches!(make(above, key), Err(TokenError::AboveMaker { .. })));
        make(wanted("laptop", 12), key).unwrap();
        assert!(matches!(make(wanted("laptop", 12), KeyHash([8; 32])), Err(TokenError::Exists(_))));
        let again = make(wanted("other", 12), key).unwrap_err();
        assert!(matches!(again, TokenError::Invalid { field: "certificateRequest", .. }), "{again}");
        assert!(matches!(tokens.rotate("laptop", &by, at(0)), Err(TokenError::Certificate(_))));
        // Of another kind: the digest of a secret is no key that a handshake shows, nor the reverse.
        let (secret, _) = tokens.make(wanted("ci", 12), &by, at(0)).unwrap();
        assert_eq!(tokens.shown("ci", KeyHash(secret.digest()), at(1)), None);
        assert_eq!(tokens.book().used(&key.0, false, at(1)), None);

        let file = std::fs::read_to_string(directory.path().join(FILE)).unwrap();
        let file: serde_json::Value = serde_json::from_str(&file).unwrap();
        assert_eq!(file["tokens"].as_array().unwrap().len(), 1);
        let tokens = open(&directory);
        assert!(tokens.shown("other", key, at(1)).is_none(), "a certificate of another name");
        let shown = tokens.shown("laptop", key, at(1)).unwrap();
        assert_eq!((shown.role, shown.principal.token.as_deref()), (Some(Role::Operator), Some("laptop")));
        assert_eq!(tokens.list(&by, at(1))[1].used, Some(at(1)));
        assert!(tokens.shown("laptop", key, at(12 * 3600)).is_none());
        tokens.revoke("laptop", &by, at(2)).unwrap();
        assert!(tokens.shown("laptop", key, at(2)).is_none() && tokens.standing(&key.0, at(2)).is_none());
        assert!(open(&directory).shown("laptop", key, at(2)).is_none());
    }

    /// Catches a damaged or readable file that is taken for none, and a write that fails and is answered as made.
    #[test]
    fn a_file_that_cannot_be_trusted_is_an_error() {
        use std::os::unix::fs::PermissionsExt;
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(FILE);
        let tokens = open(&directory);
        let (secret, _) = tokens.make(wanted("ci", Role::Viewer), &alice(Role::Viewer), at(0)).unwrap();
        let good = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, &good[..good.len() / 2]).unwrap();
        assert!(Tokens::open(directory.path(), at(0)).err().unwrap().to_string().contains("tokens.json: is damaged"));
        std::fs::write(&path, &good).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        assert!(Tokens::open(directory.path(), at(0)).err().unwrap().to_string().contains("mode 0644"));
        let tokens = Tokens { directory: Some("/proc/nothing".into()), ..Tokens::default() };
        assert!(matches!(
            tokens.make(wanted("ci", Role::Viewer), &alice(Role::Viewer), at(0)),
            Err(TokenError::File(_))
        ));
        assert_eq!(tokens.list(&alice(Role::Admin), at(0)), [], "{secret:?}");
    }
}
