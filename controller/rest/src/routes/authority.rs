// SPDX-License-Identifier: Apache-2.0
//! `/api/v1/authority`: the authority that signs the certificates of agents, and how another one replaces it.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Extension, State};
use axum::http::header::CACHE_CONTROL;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use canopy_controller_actor::events::Code;
use canopy_controller_actor::{Controller, Target};
use canopy_controller_api::authority::{
    Authority, AuthorityAgent, AuthorityReplacement, AuthorityRequest, AuthorityStep, ReplacementStep,
};
use canopy_controller_api::problem::Problem;
use canopy_controller_authority::{Act, HolderStatus, Registrar, RotationError, RotationStatus, Step};
use canopy_controller_core::audit::{Action, IntentKind};
use canopy_identity::Subject;
use canopy_model::FieldError;
use canopy_units::UnixTime;

use super::identities::{FOR_TERMINALS, served};
use crate::caller::Sender;
use crate::conditions::Conditions;
use crate::error::ApiError;
use crate::extract::ApiJson;
use crate::request;
use crate::sessions::refuse_browsers;

/// What signs certificates, if an address is served over TLS.
pub(crate) type Signing = Extension<Option<Arc<Registrar>>>;

/// The authority that signs the certificates of agents, how far its replacement is, and what that waits for.
#[utoipa::path(get, path = "/api/v1/authority", tag = "identities", operation_id = "getAuthority",
    responses((status = 200, body = Authority, description = "the authority"), (status = 409, body = Problem, description = "no address is served over TLS")))]
pub(crate) async fn get(Extension(registrar): Signing) -> Result<Response, ApiError> {
    let registrar = served(registrar)?;
    Ok(answer(&registrar))
}

/// Takes a step of the replacement of the authority: `rotate` makes the next one, which agents learn to trust; `issue` lets it sign, and
/// agents renew; `finish` ends the trust in the former one; `cancel` drops the next one, until it signs. A step that would leave agents
/// behind is refused with their names, unless they are in `acceptLoss`.
#[utoipa::path(post, path = "/api/v1/authority", tag = "identities", operation_id = "replaceAuthority", request_body = AuthorityRequest,
    responses((status = 200, body = Authority, description = "the step is taken"), (status = 400, body = Problem, description = "a dry run, or a condition"), (status = 403, body = Problem, description = "sent by a browser, or in a session of one"), (status = 409, body = Problem, description = "it is not the next step, or would leave agents behind; or no address is served over TLS"), (status = 422, body = Problem, description = "not valid")))]
pub(crate) async fn replace(
    State(controller): State<Controller>,
    Extension(registrar): Signing,
    headers: HeaderMap,
    Sender(sender): Sender,
    conditions: Conditions,
    ApiJson(AuthorityRequest { step, accept_loss }): ApiJson<AuthorityRequest>,
) -> Result<Response, ApiError> {
    let by = conditions.unconditional()?;
    refuse_browsers(&headers, &sender, FOR_TERMINALS)?;
    let (registrar, accepted) = (served(registrar)?, subjects(&accept_loss)?);
    let (act, action, name) = match step {
        AuthorityStep::Rotate => (Act::Announce, Action::Rotate, "authority/rotate"),
        AuthorityStep::Issue => (Act::Issue, Action::Rotate, "authority/issue"),
        AuthorityStep::Finish => (Act::Finish, Action::Rotate, "authority/finish"),
        AuthorityStep::Cancel => (Act::Cancel, Action::Cancel, "authority/cancel"),
    };
    // The audit has no step that is refused, and every one that is taken.
    registrar.permits(act, &accepted, UnixTime::now()).map_err(refused)?;
    let target = Target { kind: IntentKind::Identity, name: name.to_owned() };
    controller.audited(target, action, by.clone(), request::current()).await?;
    let rotating = registrar.clone();
    let taken = tokio::task::spawn_blocking(move || rotating.rotate(act, &accepted, UnixTime::now())).await;
    let failed = |detail: String| ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "Internal", detail);
    let left = taken.map_err(|error| failed(error.to_string()))?.map_err(refused)?;
    let done = match act {
        Act::Announce => "made the next authority",
        Act::Issue => "let the next authority sign",
        Act::Finish => "ended the trust in the former authority",
        Act::Cancel => "dropped the next authority",
    };
    let behind: Vec<String> = left.iter().map(ToString::to_string).collect();
    let loss = if behind.is_empty() { String::new() } else { format!("; left behind: {}", behind.join(", ")) };
    tracing::info!(%by, step = name, left_behind = ?behind, "replacing the authority");
    controller.events().note(Code::AuthorityReplacement, None, format!("{by} {done}{loss}"));
    Ok(answer(&registrar))
}

fn subjects(names: &[String]) -> Result<Vec<Subject>, ApiError> {
    let one = |(index, name): (usize, &String)| {
        let invalid = |detail| ApiError::invalid(FieldError::new(format!("acceptLoss[{index}]"), detail));
        match name.parse::<Subject>() {
            Ok(subject) if subject.is_agent() => Ok(subject),
            Ok(other) => Err(invalid(format!("\"{other}\" is not an agent: use node/NAME or host/NAME"))),
            Err(error) => Err(invalid(format!("{error}"))),
        }
    };
    names.iter().enumerate().map(one).collect()
}

fn refused(error: RotationError) -> ApiError {
    let (status, code) = match &error {
        RotationError::Order(_) => (StatusCode::CONFLICT, "NotTheNextStep"),
        RotationError::Foreign => (StatusCode::CONFLICT, "ForeignAuthority"),
        RotationError::Loss(_) => (StatusCode::CONFLICT, "AgentsLeftBehind"),
        RotationError::Failed(_) => (StatusCode::INTERNAL_SERVER_ERROR, "Internal"),
    };
    ApiError::new(status, code, error.to_string())
}

fn answer(registrar: &Registrar) -> Response {
    ([(CACHE_CONTROL, "no-store")], Json(shown(registrar.rotation(UnixTime::now())))).into_response()
}

fn shown(status: RotationStatus) -> Authority {
    let replacement = status.progress.map(|progress| {
        let (step, next) = match progress.step {
            Step::Announced => (ReplacementStep::Announced, Act::Issue),
            Step::Issuing => (ReplacementStep::Issuing, Act::Finish),
        };
        AuthorityReplacement {
            step,
            since_unix_ns: progress.since.nanos(),
            from: progress.from.to_string(),
            to: progress.to.to_string(),
            waits_for: status.left_by(next).into_iter().map(ToString::to_string).collect(),
        }
    });
    let agent = |holder: HolderStatus| AuthorityAgent {
        subject: holder.subject.to_string(),
        connected: holder.is_connected,
        ready: holder.is_ready,
        trusts: holder.trusts,
        authority: holder.authority.to_string(),
        not_after_unix_ns: holder.not_after.nanos(),
        enrolled: holder.is_enrolled,
        other_key_unix_ns: holder.other_key.map(|at| at.nanos()),
    };
    Authority {
        authority: status.authority.to_string(),
        replacement,
        listed_since_unix_ns: status.listed_since.nanos(),
        agents: status.holders.into_iter().map(agent).collect(),
    }
}
