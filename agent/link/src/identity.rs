// SPDX-License-Identifier: Apache-2.0
//! The agent's certificate: enrolled once with a token or by attestation, renewed at half of its life for ever.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use canopy_control::pb;
use canopy_control::pb::identity_service_client::IdentityServiceClient;
use canopy_control::pb::membership_service_client::MembershipServiceClient;
use canopy_identity::{
    AuthorityHash, Certificate, Credentials, CredentialsError, EnrollmentToken, FileError, PrivateKey, Subject, Trust,
};
use canopy_units::UnixTime;
use tokio::io::AsyncReadExt;
use tokio::time::Instant;
use tonic::transport::Channel;
use tonic::{Code, Status};

use crate::addresses::{self, Address};
use crate::answer::within;
use crate::attestation::{Attestation, Unusable};
use crate::authorities::Authorities;
use crate::target::{over, own_stream};
use crate::{Backoff, Random, Target, brief};

/// An answer to [`reach`] comes within this: a service that starts waits for it.
const REACHED_WITHIN: Duration = Duration::from_secs(3);
/// The controller's certificates are valid from so long before they are made.
const BACKDATED: Duration = Duration::from_secs(300);
/// Shortest time between two renewals.
const PAUSE: Duration = Duration::from_secs(10);
/// A clock that differs more from the controller's is reported.
const CLOCK_TOLERANCE: Duration = Duration::from_secs(120);

/// The agent got no certificate.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// Agents have no certificates at this address.
    #[error(
        "{0} is a socket on this machine, where agents need no certificate: enroll with --controller https://HOST:PORT"
    )]
    Local(Target),
    /// The key or the certificates cannot be stored.
    #[error(transparent)]
    File(#[from] FileError),
    /// What it enrolls with in Kubernetes cannot be read.
    #[error(transparent)]
    Attestation(#[from] Unusable),
    /// The key cannot be used.
    #[error("making a certificate request: {0}")]
    Request(String),
    /// The controller's answer is not usable.
    #[error("the controller's answer: {0}")]
    Answer(String),
    /// The controller refused, or was not reached.
    #[error("{}", brief(.0))]
    Refused(#[from] Status),
}

/// Gets the first certificate for `subject` and stores it in `directory`. Can be repeated with the same token: the key stays the same.
///
/// # Errors
/// The controller is not reached, is another one than the token's, or refuses; or the directory cannot be written.
pub async fn enroll(
    target: &Target,
    directory: &Path,
    subject: &Subject,
    token: EnrollmentToken,
) -> Result<Certificate, IdentityError> {
    let proof = pb::EnrollRequest { secret: token.secret.0.to_vec(), ..Default::default() };
    enroll_with(target, directory, subject, token.authority, proof).await
}

/// The same, with the token of a service account.
async fn attest(target: &Target, directory: &Path, attestation: &Attestation) -> Result<Certificate, IdentityError> {
    let kubernetes_token = attestation.token()?;
    let mut failure = None;
    // Several while one replaces the other.
    for authority in attestation.authorities()? {
        let proof = pb::EnrollRequest { kubernetes_token: kubernetes_token.clone(), ..Default::default() };
        match enroll_with(target, directory, &attestation.subject, authority, proof).await {
            Ok(certificate) => return Ok(certificate),
            Err(error) => failure = failure.or(Some(error)),
        }
    }
    Err(failure.unwrap_or_else(|| IdentityError::Answer("no authority is known".into())))
}

async fn enroll_with(
    target: &Target,
    directory: &Path,
    subject: &Subject,
    authority: AuthorityHash,
    proof: pb::EnrollRequest,
) -> Result<Certificate, IdentityError> {
    let Target::Tls(addresses) = target else { return Err(IdentityError::Local(target.clone())) };
    let key = Credentials::key(directory)?;
    let request = key.request().map_err(|error| IdentityError::Request(error.to_string()))?;
    let kept = directory.to_owned();
    let channel = over(addresses, move |addresses| {
        let kept = kept.clone();
        async move { addresses::connect(&addresses, &kept, Trust::Token(authority), None).await }
    });
    let channel = channel.map_err(|error| Status::from_error(Box::new(error)))?;
    let request = pb::EnrollRequest { subject: subject.to_string(), request, ..proof };
    let answer = within(IdentityServiceClient::new(channel).enroll(request)).await?.certified.unwrap_or_default();
    let is_its = |der: &Vec<u8>| AuthorityHash::of(&der.as_slice().into()).is_ok_and(|of| of == authority);
    if !answer.authorities.iter().any(is_its) {
        return Err(IdentityError::Answer("it does not have the authority that was expected".into()));
    }
    store(directory, key, answer, subject)
}

/// Whether a controller answers the agent whose certificate is in `directory`.
///
/// # Errors
/// Why it does not.
pub async fn reach(target: &Target, directory: &Path) -> Result<(), IdentityError> {
    let Err(status) = reach_once(target, directory).await else { return Ok(()) };
    if let (Code::Cancelled | Code::Unknown, Target::Tls(addresses)) = (status.code(), target) {
        refusal(addresses, directory).await?;
    }
    Err(status.into())
}

/// Why the controller closes connections. In TLS 1.3 the refusal of a certificate follows the handshake: a call that is sent before it is
/// received fails as one on a closed connection, so nothing is sent here.
async fn refusal(addresses: &[Address], directory: &Path) -> Result<(), Status> {
    let opened = own_stream(addresses, directory.to_owned()).await;
    let mut stream = opened.map_err(|error| Status::unavailable(error.to_string()))?;
    let closes = "it closes the connection after the handshake: it does not accept this certificate, which is of another authority or revoked";
    match tokio::time::timeout(REACHED_WITHIN, stream.read(&mut [0])).await {
        Ok(Ok(0)) => Err(Status::unavailable(format!("{closes}, or it is stopping"))),
        Ok(Err(error)) => Err(Status::unavailable(format!("{closes}: {error}"))),
        Ok(Ok(_)) | Err(_) => Ok(()),
    }
}

async fn reach_once(target: &Target, directory: &Path) -> Result<(), Status> {
    let channel = target.channel(directory).map_err(|error| Status::from_error(Box::new(error)))?;
    // A call that every agent may make; the group does not have to exist.
    let request = pb::WatchGroupRequest { group: "canopy-doctor".into(), ..Default::default() };
    let within = match target {
        Target::Tls(addresses) if addresses.len() > 1 => REACHED_WITHIN + addresses::limit(addresses.len()),
        _ => REACHED_WITHIN,
    };
    match tokio::time::timeout(within, MembershipServiceClient::new(channel).watch_group(request)).await {
        Ok(Err(status)) if status.code() != Code::NotFound => Err(status),
        Ok(_) => Ok(()),
        Err(_) => Err(Status::deadline_exceeded(format!("no answer within {within:?}"))),
    }
}

/// Renews the certificate in `directory` whenever it is due or the controller wants it, and trusts what the controller instructs over `channel`;
/// gets the first one by attestation, where the agent has one. Never ends and never fails: each failure is retried.
pub async fn renew(
    target: Target,
    directory: PathBuf,
    channel: Channel,
    attestation: Option<Attestation>,
    random: Random,
) {
    if matches!(target, Target::Unix(_)) {
        return std::future::pending().await;
    }
    let mut backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(60));
    let authorities = Authorities::new(channel, Arc::clone(&random));
    let mut keeper = Keeper {
        target,
        directory,
        authorities,
        attestation,
        random: Arc::clone(&random),
        wanted: None,
        earliest: None,
    };
    loop {
        match keeper.step().await {
            Ok(()) => backoff.reset(),
            Err(error) => {
                let retry_in = backoff.next_delay(random());
                if Credentials::certificate(&keeper.directory).is_some() {
                    tracing::error!(%error, ?retry_in, "cannot renew this agent's certificate: its connections end with it");
                } else {
                    tracing::warn!(%error, ?retry_in, "cannot enroll this agent yet");
                }
                tokio::time::sleep(retry_in).await;
            }
        }
    }
}

/// What keeps one directory; it alone writes to it, one after the other: what the controller knows to be stored is.
struct Keeper {
    target: Target,
    directory: PathBuf,
    authorities: Authorities,
    attestation: Option<Attestation>,
    random: Random,
    /// When to renew because the controller wants it.
    wanted: Option<Instant>,
    /// A clock that is far ahead has every certificate due at once.
    earliest: Option<Instant>,
}

impl Keeper {
    /// Waits for what comes first, and does it.
    async fn step(&mut self) -> Result<(), IdentityError> {
        /// How often the due time is compared with the wall clock, which may be set, and the directory with what was read of it.
        const CLOCK: Duration = Duration::from_secs(10);
        let unreadable = |error: CredentialsError| IdentityError::Answer(error.to_string());
        let loaded = Credentials::load(&self.directory).map_err(unreadable)?;
        let needed = self.attestation.as_ref().filter(|of| of.is_needed(loaded.as_ref(), UnixTime::now()));
        if let Some(attestation) = needed {
            match attest(&self.target, &self.directory, attestation).await {
                Ok(made) => {
                    tracing::info!(subject = %made.subject, valid_for = ?left(made.not_after, UnixTime::now()), "enrolled this agent by attestation");
                    // A clock that is far ahead needs one every time.
                    tokio::time::sleep(PAUSE).await;
                    return Ok(());
                }
                // The file of authorities may be behind the controller, which still knows this agent.
                Err(error) if loaded.as_ref().is_some_and(|own| attestation.is_of(own, UnixTime::now())) => {
                    tracing::warn!(%error, "the controller's authority is not in authority_file, and this agent cannot enroll again: it keeps its certificate");
                }
                Err(error) => return Err(error),
            }
        }
        // Not enrolled yet is no failure of a renewal: connections report it.
        let Some(own) = loaded else {
            tokio::time::sleep(CLOCK).await;
            return Ok(());
        };
        let now = Instant::now();
        let until = |at: Instant| at.saturating_duration_since(now);
        let due = left(due(&own.certificate), UnixTime::now());
        let wait = self.wanted.map_or(due, |at| due.min(until(at))).max(self.earliest.map_or(Duration::ZERO, until));
        if wait.is_zero() {
            renew_now(&self.target, &self.directory, own).await?;
            self.wanted = None;
            self.earliest = Some(Instant::now() + PAUSE);
            return Ok(());
        }
        tokio::select! {
            () = tokio::time::sleep(wait.min(CLOCK)) => {}
            instructed = self.authorities.next(&own, &self.directory) => {
                if let Some(within) = instructed.map_err(unreadable)? && self.wanted.is_none() {
                    let renewal_in = within.mul_f64((self.random)().clamp(0.0, 1.0));
                    tracing::info!(?renewal_in, "the controller wants this agent's certificate renewed");
                    self.wanted = Some(Instant::now() + renewal_in);
                }
            }
        }
        Ok(())
    }
}

async fn renew_now(target: &Target, directory: &Path, own: Credentials) -> Result<(), IdentityError> {
    let request = own.key.request().map_err(|error| IdentityError::Request(error.to_string()))?;
    // A connection of its own: it shows the certificate that is in the directory now.
    let channel = target.channel(directory).map_err(|error| Status::from_error(Box::new(error)))?;
    let mut client: IdentityServiceClient<Channel> = IdentityServiceClient::new(channel);
    let answer = within(client.renew(pb::RenewRequest { request })).await?.certified.unwrap_or_default();
    let subject = own.certificate.subject.clone();
    let renewed = store(directory, own.key, answer, &subject)?;
    tracing::info!(%subject, valid_for = ?left(renewed.not_after, UnixTime::now()), "renewed this agent's certificate");
    Ok(())
}

/// The middle of a certificate's life, as the controller counts it.
fn due(certificate: &Certificate) -> UnixTime {
    let start = (certificate.not_before + BACKDATED).min(certificate.not_after).nanos();
    UnixTime::from_nanos(start + (certificate.not_after.nanos() - start) / 2)
}

fn left(until: UnixTime, now: UnixTime) -> Duration {
    Duration::from_nanos(until.nanos().saturating_sub(now.nanos()))
}

fn store(
    directory: &Path,
    key: PrivateKey,
    answer: pb::Certified,
    subject: &Subject,
) -> Result<Certificate, IdentityError> {
    let pb::Certified { chain, authorities, time_unix_ns } = answer;
    let own = Credentials::new(key, chain, authorities).map_err(|error| IdentityError::Answer(error.to_string()))?;
    if own.certificate.subject != *subject {
        let found = &own.certificate.subject;
        return Err(IdentityError::Answer(format!("it has a certificate of {found}, not of {subject}")));
    }
    own.save(directory)?;
    report_clock(subject, time_unix_ns);
    Ok(own.certificate)
}

fn report_clock(subject: &Subject, controller_ns: u64) {
    let own = UnixTime::now().nanos();
    let (difference, side) = match own.checked_sub(controller_ns) {
        Some(ahead) => (ahead, "ahead of"),
        None => (controller_ns - own, "behind"),
    };
    let difference = Duration::from_nanos(difference);
    if difference > CLOCK_TOLERANCE {
        tracing::error!(%subject, "the clock of this machine is {difference:?} {side} the controller's: certificates end early or late, set it right");
    }
}

#[cfg(test)]
mod tests {
    use canopy_identity::KeyHash;

    use super::*;

    /// Catches a short certificate that is renewed only after its end, because its start is backdated.
    #[test]
    fn a_certificate_is_due_in_the_middle_of_what_is_left_when_it_is_made() {
        let second = |s: u64| UnixTime::from_nanos(s * 1_000_000_000);
        let of = |not_before, not_after| Certificate {
            domain: "canopy".parse().unwrap(),
            subject: Subject::Node("n4".into()),
            not_before: second(not_before),
            not_after: second(not_after),
            key: KeyHash([0; 32]),
        };
        assert_eq!(due(&of(1000, 1360)), second(1330));
        assert_eq!(due(&of(1000, 1300 + 604_800)), second(1300 + 302_400));
        // After a revocation nothing is backdated.
        assert_eq!(due(&of(1300, 1360)), second(1360));
    }
}
