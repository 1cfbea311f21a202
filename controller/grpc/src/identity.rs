// SPDX-License-Identifier: Apache-2.0
//! IdentityService: certificates for agents.

use std::sync::Arc;

use canopy_control::pb;
use canopy_control::pb::identity_service_server::IdentityService;
use canopy_controller_actor::Controller;
use canopy_controller_actor::events::Code;
use canopy_controller_authority::{Certified, Refusal, Registrar};
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
}

impl Identities {
    pub(crate) fn new(controller: Controller, registrar: Option<Arc<Registrar>>) -> Self {
        Self { controller, registrar }
    }

    fn registrar(&self) -> Result<&Arc<Registrar>, Status> {
        self.registrar.as_ref().ok_or_else(|| {
            Status::failed_precondition("this controller serves no agent over TLS: set grpc.listen to an address")
        })
    }
}

#[tonic::async_trait]
impl IdentityService for Identities {
    async fn enroll(&self, request: Request<pb::EnrollRequest>) -> Result<Response<pb::EnrollResponse>, Status> {
        let caller = Caller::of(&request)?;
        let pb::EnrollRequest { secret, subject, request } = request.into_inner();
        let invalid = |field, detail| error::field(FieldError::new(field, detail));
        let subject: Subject = subject.parse().map_err(|error| invalid("subject", format!("{error}")))?;
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
        | Refusal::Ahead(_) => Status::permission_denied(text),
        Refusal::Request(_) => Status::invalid_argument(text),
        Refusal::TooMany(_) => Status::resource_exhausted(text),
        Refusal::Failed(_) => Status::internal(text),
    }
}
