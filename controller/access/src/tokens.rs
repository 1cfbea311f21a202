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
mod tests;
