// SPDX-License-Identifier: Apache-2.0
//! IdentityService: certificates for agents.

use std::sync::Arc;

use canopy_control::pb;
use canopy_control::pb::identity_service_server::IdentityService;
use canopy_controller_actor::Controller;
use canopy_controller_actor::events::Code;
use canopy_controller_authority::{Certified, Refusal, Registrar};
use canopy_controller_kubernetes::{self as kubernetes, Attestor};
use canopy_identity::{Secret, Subject};
use canopy_model::FieldError;
use canopy_units::UnixTime;
use tonic::{Request, Response, Status};

use crate::caller::Caller;
use crate::error;

pub(crate) struct Identities {
    controller: Controller,
    /// `None` if no address is served over TLS.
    registrar: Option<Arc<Registrar>>,
    /// `None` if agents in Kubernetes have no other way than tokens of operators.
    attestor: Option<Arc<Attestor>>,
}

impl Identities {
    pub(crate) fn new(
        controller: Controller,
        registrar: Option<Arc<Registrar>>,
        attestor: Option<Arc<Attestor>>,
    ) -> Self {
        Self { controller, registrar, attestor }
    }

    fn registrar(&self) -> Result<&Arc<Registrar>, Status> {
        self.registrar.as_ref().ok_or_else(|| {
            Status::failed_precondition("this controller serves no agent over TLS: set grpc.listen to an address")
        })
    }
}

impl Identities {
    /// Enrolls an agent that shows a token of its service account.
    async fn attest(
        &self,
        caller: &Caller,
        token: &str,
        subject: &Subject,
        request: &[u8],
    ) -> Result<Response<pb::EnrollResponse>, Status> {
        let registrar = self.registrar()?;
        let attestor = self.attestor.as_ref().ok_or_else(|| {
            Status::failed_precondition(
                "kubernetes_token: this controller confirms no tokens of Kubernetes: set kubernetes.api of the controller, or enroll with a token of `canopyctl`",
            )
        })?;
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
        let made = registrar.attest(subject, request, now).map_err(|refusal| {
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
        let answer = self.registrar()?.enroll(&Secret(secret), &subject, &request, now);
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
        let made = self.registrar()?.renew(certificate, &request.get_ref().request, now).map_err(status)?;
        let (subject, not_after) = (&certificate.subject, made.not_after.nanos() / 1_000_000_000);
        tracing::info!(%subject, %caller, is_expired, not_after, "renewed a certificate");
        Ok(Response::new(pb::RenewResponse { certified: Some(wire(made, now)) }))
    }
}

fn node_of(subject: &Subject) -> Option<&str> {
    match subject {
        Subject::Node(name) => Some(name),
        Subject::Host(_) | Subject::Controller => None,
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
        | kubernetes::Refusal::Other { .. } => Status::permission_denied(text),
    }
}
