// SPDX-License-Identifier: Apache-2.0
//! IdentityService: certificates for agents.

use std::pin::Pin;
use std::sync::Arc;

use canopy_control::pb;
use canopy_control::pb::identity_service_server::IdentityService;
use canopy_controller_actor::Controller;
use canopy_controller_actor::events::Code;
use canopy_controller_authority::{Certified, Instruction, Refusal, Registrar};
use canopy_controller_kubernetes::{self as kubernetes, Attestor};
use canopy_identity::{AuthorityHash, Secret, Subject};
use canopy_model::FieldError;
use canopy_units::UnixTime;
use futures::Stream;
use tokio::sync::watch;
use tonic::{Request, Response, Status};

use crate::caller::Caller;
use crate::closing::closed;
use crate::error;

/// Authorities that an agent may report; it trusts two while one replaces the other.
const MAX_TRUSTED: usize = 8;

pub(crate) struct Identities {
    controller: Controller,
    /// `None` if no address is served over TLS.
    registrar: Option<Arc<Registrar>>,
    closing: watch::Receiver<bool>,
    /// `None` if agents in Kubernetes have no other way than tokens of operators.
    attestor: Option<Arc<Attestor>>,
}

impl Identities {
    pub(crate) fn new(
        controller: Controller,
        registrar: Option<Arc<Registrar>>,
        closing: watch::Receiver<bool>,
        attestor: Option<Arc<Attestor>>,
    ) -> Self {
        Self { controller, registrar, closing, attestor }
    }

    fn registrar(&self) -> Result<&Arc<Registrar>, Status> {
        self.registrar.as_ref().ok_or_else(|| {
            Status::failed_precondition("this controller serves no agent over TLS: set grpc.listen to an address")
        })
    }
}

impl Identities {
    fn attestor(&self) -> Result<&Arc<Attestor>, Status> {
        self.attestor.as_ref().ok_or_else(|| {
            Status::failed_precondition(
                "kubernetes_token: this controller confirms no tokens of Kubernetes: set kubernetes.api of the controller; an agent enrolls with a token of `canopyctl`, too",
            )
        })
    }

    /// Enrolls an agent that shows a token of its service account.
    async fn attest(
        &self,
        caller: &Caller,
        token: &str,
        subject: &Subject,
        request: &[u8],
    ) -> Result<Response<pb::EnrollResponse>, Status> {
        let registrar = self.registrar()?.clone();
        let attestor = self.attestor()?;
        let events = self.controller.events();
        let attested = attestor.attest(token, subject).await.map_err(|refusal| {
            tracing::debug!(%subject, %caller, reason = %refusal, "refused an enrollment by attestation");
            // Everybody who reaches the port can send what is no token; that of another pod is one that Kubernetes has made.
            if matches!(refusal, kubernetes::Refusal::Other { .. }) {
                events.note(Code::EnrollmentRefused, node_of(subject), format!("{caller}: {refusal}"));
            }
            attestation_status(&refusal)
        })?;
        let now = UnixTime::now();
        let (of, octets) = (subject.clone(), request.to_vec());
        // It writes a file.
        let attesting = tokio::task::spawn_blocking(move || registrar.attest(&of, &octets, now));
        let made = attesting.await.map_err(|error| Status::internal(error.to_string()))?.map_err(|refusal| {
            if matches!(refusal, Refusal::StaysRevoked(_)) {
                events.note(Code::EnrollmentRefused, node_of(subject), format!("{caller}, {attested}: {refusal}"));
            }
            status(refusal)
        })?;
        tracing::info!(%subject, %caller, %attested, pod_uid = attested.pod_uid, not_after = made.not_after.nanos() / 1_000_000_000, "enrolled by attestation");
        events.note(Code::Enrolled, node_of(subject), format!("{subject} was enrolled by {caller}, as {attested}"));
        Ok(Response::new(pb::EnrollResponse { certified: Some(wire(made, now)) }))
    }
}

#[tonic::async_trait]
impl IdentityService for Identities {
    async fn enroll(&self, request: Request<pb::EnrollRequest>) -> Result<Response<pb::EnrollResponse>, Status> {
        let caller = Caller::of(&request)?;
        let pb::EnrollRequest { secret, subject, request, kubernetes_token } = request.into_inner();
        let invalid = |field, detail| error::field(FieldError::new(field, detail));
        let subject: Subject = subject.parse().map_err(|error| invalid("subject", format!("{error}")))?;
        if !kubernetes_token.is_empty() {
            return self.attest(&caller, &kubernetes_token, &subject, &request).await;
        }
        let octets = secret.len();
        let secret = <[u8; 16]>::try_from(secret)
            .map_err(|_| invalid("secret", format!("{octets} octets, a token has 16: was all of it copied?")))?;
        let now = UnixTime::now();
        let (registrar, of) = (self.registrar()?.clone(), subject.clone());
        // It writes a file.
        let enrolling = tokio::task::spawn_blocking(move || registrar.enroll(&Secret(secret), &of, &request, now));
        let answer = enrolling.await.map_err(|error| Status::internal(error.to_string()))?;
        let events = self.controller.events();
        match &answer {
            Ok(made) => {
                tracing::info!(%subject, %caller, not_after = made.not_after.nanos() / 1_000_000_000, "enrolled");
                events.note(Code::Enrolled, node_of(&subject), format!("{subject} was enrolled by {caller}"));
            }
            Err(refusal) => {
                tracing::debug!(%subject, %caller, reason = %refusal, "refused an enrollment");
                // Without a token every machine that reaches the port could fill events and log.
                if !matches!(refusal, Refusal::Unknown | Refusal::Request(_)) {
                    events.note(Code::EnrollmentRefused, node_of(&subject), format!("{caller}: {refusal}"));
                }
            }
        }
        let certified = Some(wire(answer.map_err(status)?, now));
        Ok(Response::new(pb::EnrollResponse { certified }))
    }

    async fn renew(&self, request: Request<pb::RenewRequest>) -> Result<Response<pb::RenewResponse>, Status> {
        let caller = Caller::of(&request)?;
        let Caller::Certified { certificate, is_expired, .. } = &caller else {
            return Err(Status::unauthenticated(
                "there is no certificate to renew: enroll first, with `canopy-agent enroll`",
            ));
        };
        let now = UnixTime::now();
        let (registrar, present) = (self.registrar()?.clone(), certificate.clone());
        let octets = request.into_inner().request;
        let renewing = tokio::task::spawn_blocking(move || registrar.renew(&present, &octets, now));
        let made = renewing.await.map_err(|error| Status::internal(error.to_string()))?.map_err(|refusal| {
            if matches!(refusal, Refusal::NotItsKey(_)) {
                let node = node_of(&certificate.subject);
                self.controller.events().note(Code::RenewalRefused, node, format!("{caller}: {refusal}"));
            }
            status(refusal)
        })?;
        let (subject, not_after) = (&certificate.subject, made.not_after.nanos() / 1_000_000_000);
        tracing::info!(%subject, %caller, is_expired, not_after, "renewed a certificate");
        Ok(Response::new(pb::RenewResponse { certified: Some(wire(made, now)) }))
    }

    async fn identify_pod(
        &self,
        request: Request<pb::IdentifyPodRequest>,
    ) -> Result<Response<pb::IdentifyPodResponse>, Status> {
        let caller = Caller::of(&request)?;
        let agent = caller.as_agent()?;
        let token = request.into_inner().kubernetes_token;
        let identified = self.attestor()?.identify(&token, agent).await.map_err(|refusal| {
            tracing::debug!(%caller, reason = %refusal, "refused a token of a pod");
            attestation_status(&refusal)
        })?;
        let kubernetes::Attested { account, pod, pod_uid, node: _ } = identified;
        Ok(Response::new(pb::IdentifyPodResponse { account: account.to_string(), pod, pod_uid }))
    }

    type FollowAuthoritiesStream = Pin<Box<dyn Stream<Item = Result<pb::FollowAuthoritiesResponse, Status>> + Send>>;

    async fn follow_authorities(
        &self,
        request: Request<pb::FollowAuthoritiesRequest>,
    ) -> Result<Response<Self::FollowAuthoritiesStream>, Status> {
        let caller = Caller::of(&request)?;
        let Caller::Certified { certificate, is_expired: false, .. } = &caller else {
            return Err(Status::unauthenticated("only an agent with a valid certificate follows the authorities"));
        };
        let pb::FollowAuthoritiesRequest { trusted, certificate: own } = request.into_inner();
        let trusts = hashes(trusted)?;
        let registrar = self.registrar()?.clone();
        // Before anything is read of it: a change from then on wakes the stream.
        let mut standing = registrar.standing();
        standing.borrow_and_update();
        let (noting, caller_certificate, reported) = (registrar.clone(), certificate.clone(), trusts.clone());
        let noted = tokio::task::spawn_blocking(move || {
            noting.reported(&caller_certificate, &own.into(), &reported, UnixTime::now())
        });
        let authority = noted.await.map_err(|error| Status::internal(error.to_string()))?;
        let authority = authority.ok_or_else(|| {
            let detail = "not a certificate of the caller that an authority of this domain has signed";
            error::field(FieldError::new("certificate", detail))
        })?;
        let mut closing = self.closing.clone();
        let stream = async_stream::stream! {
            loop {
                let Instruction { trust, renew_within } = registrar.instruction(authority, &trusts);
                let renew_within_ns = renew_within.map_or(0, canopy_units::nanos);
                if !trust.is_empty() || renew_within_ns > 0 {
                    yield Ok(pb::FollowAuthoritiesResponse { authorities: trust, renew_within_ns });
                }
                tokio::select! {
                    changed = standing.changed() => if changed.is_err() { return },
                    () = closed(&mut closing) => {
                        yield Err(error::stopping());
                        return;
                    }
                }
            }
        };
        Ok(Response::new(Box::pin(stream)))
    }
}

fn hashes(trusted: Vec<Vec<u8>>) -> Result<Vec<AuthorityHash>, Status> {
    let invalid = |detail: String| error::field(FieldError::new("trusted", detail));
    if trusted.len() > MAX_TRUSTED {
        return Err(invalid(format!("{} hashes, {MAX_TRUSTED} at most", trusted.len())));
    }
    let one = |octets: Vec<u8>| {
        let count = octets.len();
        <[u8; 32]>::try_from(octets)
            .map(AuthorityHash)
            .map_err(|_| invalid(format!("{count} octets, a SHA-256 has 32")))
    };
    trusted.into_iter().map(one).collect()
}

fn node_of(subject: &Subject) -> Option<&str> {
    match subject {
        Subject::Node(name) => Some(name),
        Subject::Host(_) | Subject::Operator(_) | Subject::Controller => None,
    }
}

fn wire(made: Certified, now: UnixTime) -> pb::Certified {
    pb::Certified { chain: made.chain, authorities: made.authorities, time_unix_ns: now.nanos() }
}

fn status(refusal: Refusal) -> Status {
    let text = refusal.to_string();
    match refusal {
        Refusal::Unknown
        | Refusal::Used(_)
        | Refusal::OtherSubject { .. }
        | Refusal::OtherKey
        | Refusal::NotItsKey(_)
        | Refusal::Revoked(_)
        | Refusal::StaysRevoked(_)
        | Refusal::Ahead(_) => Status::permission_denied(text),
        Refusal::Request(_) => Status::invalid_argument(text),
        Refusal::TooMany(_) => Status::resource_exhausted(text),
        Refusal::Failed(_) => Status::internal(text),
    }
}

fn attestation_status(refusal: &kubernetes::Refusal) -> Status {
    let text = refusal.to_string();
    match refusal {
        kubernetes::Refusal::NotAToken => Status::invalid_argument(text),
        kubernetes::Refusal::Unavailable(..) | kubernetes::Refusal::Busy => Status::unavailable(text),
        kubernetes::Refusal::NotPermitted(_) => Status::failed_precondition(text),
        kubernetes::Refusal::NotAccepted { .. }
        | kubernetes::Refusal::Unbound(_)
        | kubernetes::Refusal::Other { .. }
        | kubernetes::Refusal::Elsewhere { .. } => Status::permission_denied(text),
    }
}
