// SPDX-License-Identifier: Apache-2.0
//! Tokens, certificates and revocations behind one lock, and the TLS configuration that follows from them.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

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

/// The authority, its tokens and its revocations.
pub struct Registrar {
    settings: Settings,
    authority: Authority,
    tokens: Mutex<Tokens>,
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
            tokens: Mutex::default(),
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
        let expires = self.tokens().add(&secret, subject, now)?;
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
        self.tokens().check(secret, now)?;
        let key = key_of_request(request).map_err(|error| Refusal::Request(error.to_string()))?;
        let hash = KeyHash::of(&key.subject_public_key_info());
        self.tokens().take(secret, subject, hash, now)?;
        self.certify(&key, subject, now)
    }

    /// The next certificate of the subject that has shown `present`, for the same key.
    ///
    /// # Errors
    /// The request is not acceptable.
    pub fn renew(&self, present: &Certificate, request: &[u8], now: UnixTime) -> Result<Certified, Refusal> {
        let key = key_of_request(request).map_err(|error| Refusal::Request(error.to_string()))?;
        if KeyHash::of(&key.subject_public_key_info()) != present.key {
            return Err(Refusal::OtherKey);
        }
        self.certify(&key, &present.subject, now)
    }

    /// Refuses every certificate that `subject` has, and every token for it, from now on and durably.
    ///
    /// # Errors
    /// The file cannot be written: nothing is revoked then.
    pub fn revoke(&self, subject: &Subject, now: UnixTime) -> Result<(), AuthorityError> {
        let mut tokens = self.tokens();
        let present = self.revocations.borrow().clone();
        // A clock that was set back makes no certificate acceptable again.
        let now = present.at(subject).unwrap_or_default().max(now);
        let next = present.with(subject, now, &self.settings)?;
        tokens.forget(subject);
        self.revocations.send_replace(Arc::new(next));
        Ok(())
    }

    /// Renews the controller's own certificate at half of its life, for ever.
    pub async fn maintain(self: Arc<Self>) {
        loop {
            tokio::time::sleep(self.settings.lifetime / 2).await;
            let renewed = server_config(&self.authority, &self.settings, self.revocations.subscribe(), UnixTime::now());
            match renewed {
                Ok(config) => _ = self.config.send_replace(Arc::new(config)),
                Err(error) => {
                    tracing::error!(%error, "cannot renew the controller's certificate: agents cannot connect once it has expired")
                }
            }
        }
    }

    fn certify(&self, key: &impl PublicKeyData, subject: &Subject, now: UnixTime) -> Result<Certified, Refusal> {
        let not_after = now + self.settings.lifetime;
        // Not earlier than the subject was revoked.
        let revoked = self.revocations.borrow().at(subject);
        let not_before = before(now, BACKDATED).max(revoked.unwrap_or_default());
        let made = self.authority.certify(key, subject, not_before, not_after);
        let made = made.map_err(|error| Refusal::Failed(error.to_string()))?;
        Ok(Certified {
            chain: vec![made.to_vec()],
            authorities: vec![self.authority.certificate().to_vec()],
            not_after,
        })
    }

    fn tokens(&self) -> MutexGuard<'_, Tokens> {
        self.tokens.lock().unwrap_or_else(PoisonError::into_inner)
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
