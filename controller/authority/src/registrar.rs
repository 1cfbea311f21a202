// SPDX-License-Identifier: Apache-2.0
//! Tokens, certificates and revocations, one after the other, and the TLS configuration that follows from them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use canopy_identity::{
    AuthorityHash, Certificate, CertificateDer, EnrollmentToken, KeyHash, PrivateKey, Secret, ServerKey, Subject,
    key_of_request,
};
use canopy_units::UnixTime;
use rcgen::PublicKeyData;
use rustls::ServerConfig;
use tokio::sync::watch;

use crate::authority::{Authority, before};
use crate::revocations::Revocations;
use crate::tokens::Tokens;
use crate::{AuthorityError, BACKDATED, Refusal, Settings};

/// Certificates count whole seconds.
const SECOND: Duration = Duration::from_secs(1);
/// A revocation that is further ahead of the clock was made while that was wrong; each is a second behind the certificates that it covers.
const AHEAD: Duration = Duration::from_secs(10);
/// How often the controller's certificate is compared with the wall clock, which may be set.
const CLOCK: Duration = Duration::from_secs(60);

/// What an agent gets for its request, in DER.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certified {
    /// Its certificate, then those of authorities between it and a trusted one.
    pub chain: Vec<Vec<u8>>,
    /// Authorities to trust from now on.
    pub authorities: Vec<Vec<u8>>,
    /// When the certificate ends.
    pub not_after: UnixTime,
}

/// A token that was made for an operator.
#[derive(Debug)]
pub struct Handed {
    /// The token.
    pub token: EnrollmentToken,
    /// From then on it is not known any more.
    pub expires: UnixTime,
}

/// What was given out.
#[derive(Default)]
struct Issued {
    tokens: Tokens,
    /// By subject: no certificate of this process is valid from this instant or later.
    newest: HashMap<Subject, UnixTime>,
}

impl Issued {
    fn newest(&self, subject: &Subject) -> UnixTime {
        self.newest.get(subject).copied().unwrap_or_default()
    }
}

/// The authority, its tokens and its revocations.
pub struct Registrar {
    settings: Settings,
    authority: Authority,
    issued: Mutex<Issued>,
    /// Held while a revocation is written; callers of every kind wait for `issued`, and not for a disk.
    revoking: Mutex<()>,
    /// When the controller's first certificate was made.
    made: UnixTime,
    revocations: watch::Sender<Arc<Revocations>>,
    config: watch::Sender<Arc<ServerConfig>>,
}

impl Registrar {
    /// Opens the directory, or makes an authority in it.
    ///
    /// # Errors
    /// A file cannot be read or written, or is damaged.
    pub fn open(settings: Settings, now: UnixTime) -> Result<Arc<Self>, AuthorityError> {
        let authority = Authority::open(&settings, now)?;
        let revocations = watch::Sender::new(Arc::new(Revocations::load(&settings.directory)?));
        let config = server_config(&authority, &settings, revocations.subscribe(), now)?;
        Ok(Arc::new(Self {
            settings,
            authority,
            issued: Mutex::default(),
            revoking: Mutex::default(),
            made: now,
            revocations,
            config: watch::Sender::new(Arc::new(config)),
        }))
    }

    /// The hash in every token: which authority it is.
    pub fn authority(&self) -> AuthorityHash {
        self.authority.hash()
    }

    /// What listeners serve with; another one after the controller's certificate was renewed.
    pub fn config(&self) -> watch::Receiver<Arc<ServerConfig>> {
        self.config.subscribe()
    }

    /// What is revoked, and every change of it.
    pub fn revocations(&self) -> watch::Receiver<Arc<Revocations>> {
        self.revocations.subscribe()
    }

    /// Makes a token for `subject`.
    ///
    /// # Errors
    /// [`Refusal::TooMany`], [`Refusal::Failed`] without randomness.
    pub fn hand_out(&self, subject: Subject, now: UnixTime) -> Result<Handed, Refusal> {
        let mut octets = [0; 16];
        getrandom::fill(&mut octets).map_err(|error| Refusal::Failed(error.to_string()))?;
        let secret = Secret(octets);
        let expires = self.issued().tokens.add(&secret, subject, now)?;
        Ok(Handed { token: EnrollmentToken { authority: self.authority(), secret }, expires })
    }

    /// The first certificate of `subject`. The same again for the same key, so that an agent that lost the answer can ask once more.
    ///
    /// # Errors
    /// The token or the request is not acceptable.
    pub fn enroll(
        &self,
        secret: &Secret,
        subject: &Subject,
        request: &[u8],
        now: UnixTime,
    ) -> Result<Certified, Refusal> {
        // Callers without a token cost no signature.
        self.issued().tokens.check(secret, now)?;
        let key = key_of_request(request).map_err(|error| Refusal::Request(error.to_string()))?;
        let hash = KeyHash::of(&key.subject_public_key_info());
        let mut issued = self.issued();
        issued.tokens.take(secret, subject, hash, now)?;
        self.certify(&mut issued, &key, subject, now)
    }

    /// The first certificate of `subject`, whose identity another authority has confirmed; the caller has verified that.
    ///
    /// # Errors
    /// The request is not acceptable, or `subject` was revoked: that was an operator's decision, and only a token that an operator makes
    /// brings it back.
    pub fn attest(&self, subject: &Subject, request: &[u8], now: UnixTime) -> Result<Certified, Refusal> {
        let key = key_of_request(request).map_err(|error| Refusal::Request(error.to_string()))?;
        let mut issued = self.issued();
        if self.revocations.borrow().at(subject).is_some() {
            return Err(Refusal::StaysRevoked(subject.to_string()));
        }
        self.certify(&mut issued, &key, subject, now)
    }

    /// The next certificate of the subject that has shown `present`, for the same key.
    ///
    /// # Errors
    /// The request is not acceptable, or `present` was revoked since its connection was made.
    pub fn renew(&self, present: &Certificate, request: &[u8], now: UnixTime) -> Result<Certified, Refusal> {
        let key = key_of_request(request).map_err(|error| Refusal::Request(error.to_string()))?;
        if KeyHash::of(&key.subject_public_key_info()) != present.key {
            return Err(Refusal::OtherKey);
        }
        let mut issued = self.issued();
        if self.revocations.borrow().has(present) {
            return Err(Refusal::Revoked(present.subject.to_string()));
        }
        self.certify(&mut issued, &key, &present.subject, now)
    }

    /// Refuses every certificate that `subject` has, and every token for it, from now on and durably.
    ///
    /// # Errors
    /// The file cannot be written: nothing is revoked then.
    pub fn revoke(&self, subject: &Subject, now: UnixTime) -> Result<(), AuthorityError> {
        let _one_at_a_time = self.revoking.lock().unwrap_or_else(PoisonError::into_inner);
        let present = self.revocations.borrow().clone();
        loop {
            // A clock that was set back makes no certificate acceptable again, nor spares one from before.
            let at = present.at(subject).unwrap_or_default().max(self.issued().newest(subject)).max(now);
            let next = present.with(subject, at, &self.settings.directory)?;
            let mut issued = self.issued();
            // One that was made meanwhile is covered too.
            if next.at(subject).is_some_and(|at| at >= issued.newest(subject)) {
                issued.tokens.forget(subject);
                self.revocations.send_replace(Arc::new(next));
                return Ok(());
            }
        }
    }

    /// Renews the controller's own certificate at half of its life, and when the clock was set to where it is not valid, for ever.
    pub async fn maintain(self: Arc<Self>) {
        let mut made = self.made;
        loop {
            tokio::time::sleep(CLOCK.min(self.settings.lifetime / 16)).await;
            let now = UnixTime::now();
            if (before(made, BACKDATED)..made + self.settings.lifetime / 2).contains(&now) {
                continue;
            }
            match server_config(&self.authority, &self.settings, self.revocations.subscribe(), now) {
                Ok(config) => {
                    self.config.send_replace(Arc::new(config));
                    made = now;
                }
                Err(error) => {
                    tracing::error!(%error, "cannot renew the controller's certificate: agents cannot connect once it has expired");
                }
            }
        }
    }

    /// `issued` is locked from the check of what permits it on: a revocation is before that, or covers what is made.
    fn certify(
        &self,
        issued: &mut Issued,
        key: &impl PublicKeyData,
        subject: &Subject,
        now: UnixTime,
    ) -> Result<Certified, Refusal> {
        let not_after = now + self.settings.lifetime;
        // Not earlier than the subject was revoked.
        let revoked = self.revocations.borrow().at(subject).unwrap_or_default();
        // A second one, enrolled and revoked again at once, is a moment ahead without a fault.
        if revoked > now + AHEAD {
            return Err(Refusal::Ahead(subject.to_string()));
        }
        let not_before = before(now, BACKDATED).max(revoked);
        let newest = issued.newest.entry(subject.clone()).or_default();
        *newest = (*newest).max(not_before + SECOND);
        let made = self.authority.certify(key, subject, not_before, not_after);
        let made = made.map_err(|error| Refusal::Failed(error.to_string()))?;
        Ok(Certified {
            chain: vec![made.to_vec()],
            authorities: vec![self.authority.certificate().to_vec()],
            not_after,
        })
    }

    fn issued(&self) -> MutexGuard<'_, Issued> {
        self.issued.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn server_config(
    authority: &Authority,
    settings: &Settings,
    revocations: watch::Receiver<Arc<Revocations>>,
    now: UnixTime,
) -> Result<ServerConfig, AuthorityError> {
    let key = PrivateKey::generate()?;
    let request = key_of_request(&key.request()?)?;
    let own = authority.certify(&request, &Subject::Controller, before(now, BACKDATED), now + settings.lifetime)?;
    let authorities: Vec<CertificateDer<'static>> = vec![authority.certificate().clone()];
    let chain = std::iter::once(own).chain(authorities.clone()).collect();
    let revoked = Arc::new(move |certificate: &Certificate| revocations.borrow().has(certificate));
    Ok(canopy_identity::server(&ServerKey { key, chain }, &authorities, settings.domain.clone(), revoked)?)
}
