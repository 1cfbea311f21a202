// SPDX-License-Identifier: Apache-2.0
//! Tokens, certificates and revocations, one after the other, and the TLS configuration that follows from them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use canopy_identity::{
    AuthorityHash, Certificate, CertificateDer, Clients, EnrollmentToken, FileError, KeyHash, PrivateKey, Secret,
    ServerKey, Subject, key_of_request,
};
use canopy_units::UnixTime;
use rcgen::PublicKeyData;
use rustls::ServerConfig;
use tokio::sync::watch;

use crate::authority::before;
use crate::holder::Holder;
use crate::holder_files::Files;
use crate::holders::{Holders, unlisted};
use crate::renewals::NotRenewed;
use crate::revocations::Revocations;
use crate::standing::{Standing, Step};
use crate::tokens::Tokens;
use crate::{AuthorityError, BACKDATED, Refusal, Settings};

/// Certificates count whole seconds.
const SECOND: Duration = Duration::from_secs(1);
/// A revocation that is further ahead of the clock was made while that was wrong; each is a second behind the certificates that it covers.
const AHEAD: Duration = Duration::from_secs(10);
/// How often the controller's certificate is compared with the wall clock, which may be set.
const CLOCK: Duration = Duration::from_secs(60);
/// A wrong clock, at which no certificate is valid, is noticed within this time.
const NOTICED: Duration = Duration::from_secs(24 * 3600);

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
    pub(crate) settings: Settings,
    /// Which authorities there are; it changes with the files.
    pub(crate) standing: watch::Sender<Arc<Standing>>,
    /// Held while one authority replaces another.
    pub(crate) replacing: Mutex<()>,
    pub(crate) holders: Holders,
    pub(crate) not_renewed: NotRenewed,
    issued: Mutex<Issued>,
    /// Held while a revocation is written; callers of every kind wait for `issued`, and not for a disk.
    revoking: Mutex<()>,
    /// When the controller's first certificate was made.
    made: UnixTime,
    pub(crate) revocations: watch::Sender<Arc<Revocations>>,
    config: watch::Sender<Configs>,
}

/// What listeners serve with.
#[derive(Clone)]
pub struct Configs {
    /// Those for agents.
    pub agents: Arc<ServerConfig>,
    /// Those for operators on other machines.
    pub operators: Arc<ServerConfig>,
}

impl Registrar {
    /// Opens the directory, or makes an authority in it.
    ///
    /// # Errors
    /// A file cannot be read or written, or is damaged.
    pub fn open(settings: Settings, now: UnixTime) -> Result<Arc<Self>, AuthorityError> {
        let standing = Standing::open(&settings, now)?;
        let holders = Holders::load(Files::of(&settings.directory), now)?;
        let revocations = watch::Sender::new(Arc::new(Revocations::load(&settings.directory)?));
        let config = Configs::new(&standing, &settings, revocations.subscribe(), now)?;
        Ok(Arc::new(Self {
            settings,
            standing: watch::Sender::new(Arc::new(standing)),
            replacing: Mutex::default(),
            holders,
            not_renewed: NotRenewed::default(),
            issued: Mutex::default(),
            revoking: Mutex::default(),
            made: now,
            revocations,
            config: watch::Sender::new(config),
        }))
    }

    /// The hash in every token: which authority it is.
    pub fn authority(&self) -> AuthorityHash {
        self.standing.borrow().signing.hash()
    }

    /// Which authorities there are, and every change of them.
    pub fn standing(&self) -> watch::Receiver<Arc<Standing>> {
        self.standing.subscribe()
    }

    /// What listeners serve with; others after the controller's certificate was renewed.
    pub fn configs(&self) -> Configs {
        self.config.borrow().clone()
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
        let (certified, holder) = {
            let mut issued = self.issued();
            issued.tokens.take(secret, subject, hash, now)?;
            self.certify(&mut issued, &key, subject, now)?
        };
        unlisted(self.holders.enrolled(subject, holder));
        Ok(certified)
    }

    /// The first certificate of `subject`, whose identity another authority has confirmed; the caller has verified that.
    ///
    /// # Errors
    /// The request is not acceptable, or `subject` was revoked: that was an operator's decision, and only a token that an operator makes
    /// brings it back.
    pub fn attest(&self, subject: &Subject, request: &[u8], now: UnixTime) -> Result<Certified, Refusal> {
        let key = key_of_request(request).map_err(|error| Refusal::Request(error.to_string()))?;
        let (certified, holder) = {
            let mut issued = self.issued();
            if self.revocations.borrow().at(subject).is_some() {
                return Err(Refusal::StaysRevoked(subject.to_string()));
            }
            self.certify(&mut issued, &key, subject, now)?
        };
        unlisted(self.holders.enrolled(subject, holder));
        Ok(certified)
    }

    /// The next certificate of the subject that has shown `present`, for the same key.
    ///
    /// # Errors
    /// The request is not acceptable, or `present` was revoked since its connection was made; or the former authority may have signed it for a
    /// thief, while another authority replaces that one.
    pub fn renew(&self, present: &Certificate, request: &[u8], now: UnixTime) -> Result<Certified, Refusal> {
        let key = key_of_request(request).map_err(|error| Refusal::Request(error.to_string()))?;
        if KeyHash::of(&key.subject_public_key_info()) != present.key {
            return Err(Refusal::OtherKey);
        }
        let (certified, holder) = {
            let mut issued = self.issued();
            if self.revocations.borrow().has(present) {
                return Err(Refusal::Revoked(present.subject.to_string()));
            }
            // The one that signs is the one by which it is decided.
            let standing = self.standing.borrow().clone();
            let issuing = standing.progress().filter(|progress| progress.step == Step::Issuing);
            if issuing.is_some_and(|issuing| !self.holders.has_key(&present.subject, present.key, issuing.since)) {
                return Err(Refusal::NotItsKey(present.subject.to_string()));
            }
            self.certify_by(&standing, &mut issued, &key, &present.subject, now)?
        };
        unlisted(self.holders.renewed(&present.subject, holder, now));
        Ok(certified)
    }

    /// A certificate for the key of `request`, which an operator has as `name` among the tokens: that decides what it is worth, and revokes it.
    ///
    /// # Errors
    /// The request is not acceptable.
    pub fn certify_operator(
        &self,
        name: &str,
        request: &[u8],
        not_after: UnixTime,
        now: UnixTime,
    ) -> Result<Certified, Refusal> {
        let key = key_of_request(request).map_err(|error| Refusal::Request(error.to_string()))?;
        let standing = self.standing.borrow().clone();
        let subject = Subject::Operator(name.to_owned());
        let made = standing.signing.certify(&key, &subject, before(now, BACKDATED), not_after);
        let made = made.map_err(|error| Refusal::Failed(error.to_string()))?;
        let authorities = standing.trusted().into_iter().map(|(_, der)| der.to_vec()).collect();
        Ok(Certified { chain: vec![made.to_vec()], authorities, not_after })
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

    /// Writes what could not be written of the list of agents, on a disk that was full; and drops agents whose certificates cannot be renewed
    /// any more, by a controller that has been `running` for a day: by then, a clock that is years ahead was noticed.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn tidy(&self, now: UnixTime, running: Duration) -> Result<(), FileError> {
        if running >= NOTICED {
            self.holders.forget(now);
        }
        self.holders.write_again()
    }

    /// Renews the controller's own certificate at half of its life, and when the clock was set to where it is not valid, for ever.
    pub async fn maintain(self: Arc<Self>) {
        let (mut made, started) = (self.made, tokio::time::Instant::now());
        loop {
            tokio::time::sleep(CLOCK.min(self.settings.lifetime / 16)).await;
            let now = UnixTime::now();
            let keeping = self.clone();
            let running = started.elapsed();
            let kept = tokio::task::spawn_blocking(move || keeping.tidy(now, running));
            unlisted(kept.await.unwrap_or(Ok(())));
            if (before(made, BACKDATED)..made + self.settings.lifetime / 2).contains(&now) {
                continue;
            }
            // Not between the parts of a step, whose configuration this one would replace.
            let _no_step = self.replacing.lock().unwrap_or_else(PoisonError::into_inner);
            match self.serve(&self.standing.borrow().clone(), now) {
                Ok(()) => made = now,
                Err(error) => {
                    tracing::error!(%error, "cannot renew the controller's certificate: agents cannot connect once it has expired");
                }
            }
        }
    }

    /// Makes a certificate for the controller, which every connection from now on gets.
    pub(crate) fn serve(&self, standing: &Standing, now: UnixTime) -> Result<(), AuthorityError> {
        let configs = Configs::new(standing, &self.settings, self.revocations.subscribe(), now)?;
        self.config.send_replace(configs);
        Ok(())
    }

    /// `issued` is locked from the check of what permits it on: a revocation is before that, or covers what is made.
    fn certify(
        &self,
        issued: &mut Issued,
        key: &impl PublicKeyData,
        subject: &Subject,
        now: UnixTime,
    ) -> Result<(Certified, Holder), Refusal> {
        let standing = self.standing.borrow().clone();
        self.certify_by(&standing, issued, key, subject, now)
    }

    fn certify_by(
        &self,
        standing: &Standing,
        issued: &mut Issued,
        key: &impl PublicKeyData,
        subject: &Subject,
        now: UnixTime,
    ) -> Result<(Certified, Holder), Refusal> {
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
        let made = standing.signing.certify(key, subject, not_before, not_after);
        let made = made.map_err(|error| Refusal::Failed(error.to_string()))?;
        let (hashes, authorities) = standing.trusted().into_iter().map(|(hash, der)| (hash, der.to_vec())).unzip();
        let key = KeyHash::of(&key.subject_public_key_info());
        let holder = Holder::new(not_before, not_after, key, standing.signing.hash(), hashes);
        Ok((Certified { chain: vec![made.to_vec()], authorities, not_after }, holder))
    }

    fn issued(&self) -> MutexGuard<'_, Issued> {
        self.issued.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Configs {
    fn new(
        standing: &Standing,
        settings: &Settings,
        revocations: watch::Receiver<Arc<Revocations>>,
        now: UnixTime,
    ) -> Result<Self, AuthorityError> {
        let key = PrivateKey::generate()?;
        let request = key_of_request(&key.request()?)?;
        let until = now + settings.lifetime;
        let own = standing.signing.certify(&request, &Subject::Controller, before(now, BACKDATED), until)?;
        let accepted: Vec<CertificateDer<'static>> = standing.accepted().into_iter().map(|(_, der)| der).collect();
        let own = ServerKey { key, chain: std::iter::once(own).chain(standing.above()).collect() };
        let revoked = Arc::new(move |certificate: &Certificate| revocations.borrow().has(certificate));
        let of = |clients| canopy_identity::server(&own, &accepted, settings.domain.clone(), clients).map(Arc::new);
        Ok(Self { agents: of(Clients::Agents(revoked))?, operators: of(Clients::Operators)? })
    }
}
