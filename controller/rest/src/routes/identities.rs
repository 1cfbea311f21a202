// SPDX-License-Identifier: Apache-2.0
//! `/api/v1/enrollments` and `/api/v1/revocations`: which agents have certificates of the domain.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Extension, State};
use axum::http::header::CACHE_CONTROL;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use canopy_controller_actor::events::Code;
use canopy_controller_actor::{CommandError, Controller, Target};
use canopy_controller_api::identity::{Enrollment, Revocation, SubjectRequest};
use canopy_controller_api::problem::Problem;
use canopy_controller_api::sign_in::Credential;
use canopy_controller_api::{Kind, List};
use canopy_controller_authority::{Refusal, Registrar};
use canopy_controller_core::Command;
use canopy_controller_core::audit::{Action, IntentKind};
use canopy_controller_core::retirement::Retirement;
use canopy_identity::Subject;
use canopy_model::FieldError;
use canopy_units::UnixTime;

use crate::caller::Sender;
use crate::conditions::Conditions;
use crate::error::ApiError;
use crate::extract::ApiJson;
use crate::request;
use crate::sessions::refuse_browsers;

/// A page that a browser was led to must not be able to let a machine in, or lock one out.
pub(super) const FOR_TERMINALS: &str =
    "identities are not changed from a browser or a session: use `canopyctl node` or `canopyctl host`";

type Authority = Extension<Option<Arc<Registrar>>>;

/// Makes a token with which the agent of a node or a host gets its first certificate, within ten minutes. The answer alone has it.
#[utoipa::path(post, path = "/api/v1/enrollments", tag = "identities", operation_id = "createEnrollment", request_body = SubjectRequest,
    responses((status = 201, body = Enrollment, description = "made"), (status = 400, body = Problem, description = "a dry run, or a condition"), (status = 403, body = Problem, description = "sent by a browser, or in a session of one"), (status = 409, body = Problem, description = "no address is served over TLS"), (status = 422, body = Problem, description = "not valid"), (status = 429, body = Problem, description = "too many tokens wait to be used")))]
pub(crate) async fn enroll(
    State(controller): State<Controller>,
    Extension(registrar): Authority,
    headers: HeaderMap,
    Sender(sender): Sender,
    conditions: Conditions,
    ApiJson(SubjectRequest { subject }): ApiJson<SubjectRequest>,
) -> Result<Response, ApiError> {
    let by = conditions.unconditional()?;
    refuse_browsers(&headers, &sender, FOR_TERMINALS)?;
    let (registrar, subject) = (served(registrar)?, agent(&subject)?);
    // No token is made that the audit does not have.
    controller.audited(target(&subject), Action::Enroll, by, request::current()).await?;
    let now = UnixTime::now();
    let made = registrar.hand_out(subject.clone(), now).map_err(|refusal| match refusal {
        Refusal::TooMany(_) => ApiError::new(StatusCode::TOO_MANY_REQUESTS, "TooManyTokens", refusal.to_string()),
        other => ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "Internal", other.to_string()),
    })?;
    if let Subject::Node(node) = &subject
        && controller.read(|d| d.retirement(node).is_some_and(Retirement::has_ended))
    {
        // It comes back; its drain stays until an operator deletes it.
        let forget = Command::CancelRetirement { node: node.clone() };
        controller.execute(forget, None, false).await?;
    }
    let shown = Enrollment {
        subject: subject.to_string(),
        token: Credential(made.token.reveal()),
        expires_in_seconds: made.expires.nanos().saturating_sub(now.nanos()) / 1_000_000_000,
        authority: made.token.authority.to_string(),
    };
    Ok((StatusCode::CREATED, [(CACHE_CONTROL, "no-store")], Json(shown)).into_response())
}

/// Refuses every certificate and token that the agent has, from now on, and ends its connections. It can be enrolled again. What its node
/// forwards does not change.
#[utoipa::path(post, path = "/api/v1/revocations", tag = "identities", operation_id = "createRevocation", request_body = SubjectRequest,
    responses((status = 200, body = Revocation, description = "revoked"), (status = 400, body = Problem, description = "a dry run, or a condition"), (status = 403, body = Problem, description = "sent by a browser, or in a session of one"), (status = 409, body = Problem, description = "no address is served over TLS"), (status = 422, body = Problem, description = "not valid")))]
pub(crate) async fn revoke(
    State(controller): State<Controller>,
    Extension(registrar): Authority,
    headers: HeaderMap,
    Sender(sender): Sender,
    conditions: Conditions,
    ApiJson(SubjectRequest { subject }): ApiJson<SubjectRequest>,
) -> Result<Response, ApiError> {
    let by = conditions.unconditional()?;
    refuse_browsers(&headers, &sender, FOR_TERMINALS)?;
    let (registrar, subject) = (served(registrar)?, agent(&subject)?);
    let audited = controller.audited(target(&subject), Action::Revoke, by.clone(), request::current()).await;
    match audited {
        // Who must be locked out is locked out also while the disk is full.
        Err(CommandError::Store(error)) => {
            tracing::error!(%subject, %by, %error, "the audit does not have this revocation, which is carried out");
        }
        audited => audited?,
    }
    let (revoking, of) = (registrar.clone(), subject.clone());
    let revoked = tokio::task::spawn_blocking(move || revoking.revoke(&of, UnixTime::now())).await;
    let failed = |detail: String| ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "Internal", detail);
    let revoked = revoked.map_err(|error| failed(error.to_string()))?;
    revoked.map_err(|error| failed(format!("nothing is revoked: {error}")))?;
    let node = match &subject {
        Subject::Node(name) => Some(name.as_str()),
        _ => None,
    };
    controller.events().note(Code::IdentityRevoked, node, format!("{by} revoked the certificates of {subject}"));
    let at = registrar.revocations().borrow().at(&subject).unwrap_or_default();
    Ok(([(CACHE_CONTROL, "no-store")], Json(shown(&subject, at))).into_response())
}

/// Every agent whose certificates were revoked, by name. An entry stays, also when the agent is enrolled again.
#[utoipa::path(get, path = "/api/v1/revocations", tag = "identities", operation_id = "listRevocations",
    responses((status = 200, body = List<Revocation>, description = "all of them"), (status = 409, body = Problem, description = "no address is served over TLS")))]
pub(crate) async fn revocations(Extension(registrar): Authority) -> Result<Response, ApiError> {
    let all = served(registrar)?.revocations().borrow().clone();
    let items: Vec<Revocation> = all.iter().map(|(subject, at)| shown(subject, at)).collect();
    Ok(([(CACHE_CONTROL, "no-store")], Json(List::new(Kind::RevocationList, items))).into_response())
}

fn shown(subject: &Subject, at: UnixTime) -> Revocation {
    Revocation { subject: subject.to_string(), before_unix_ns: at.nanos() }
}

fn target(subject: &Subject) -> Target {
    Target { kind: IntentKind::Identity, name: subject.to_string() }
}

pub(super) fn served(registrar: Option<Arc<Registrar>>) -> Result<Arc<Registrar>, ApiError> {
    registrar.ok_or_else(|| {
        let detail = "agents connect through Unix sockets only, and need no certificates: set grpc.listen of the controller to an address, such as [::]:8641";
        ApiError::new(StatusCode::CONFLICT, "NoTls", detail)
    })
}

/// A node or a host; the controller makes its own certificate.
fn agent(subject: &str) -> Result<Subject, ApiError> {
    let invalid = |detail| ApiError::invalid(FieldError::new("subject", detail));
    match subject.parse::<Subject>() {
        Ok(subject) if subject.is_agent() => Ok(subject),
        Ok(other) => Err(invalid(format!("\"{other}\" has no token for agents: use node/NAME or host/NAME"))),
        Err(error) => Err(invalid(format!("{error}"))),
    }
}
