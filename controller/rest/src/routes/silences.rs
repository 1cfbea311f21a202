// SPDX-License-Identifier: Apache-2.0
//! `/api/v1/silences`: problems that operators know of.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use canopy_controller_actor::Controller;
use canopy_controller_api::check::DryRun;
use canopy_controller_api::problem::Problem;
use canopy_controller_api::query::{WriteHeaders, WriteQuery};
use canopy_controller_api::{Input, Kind, List, SilenceResource};
use canopy_controller_core::{Command, Domain};
use canopy_model::FieldError;
use canopy_model::silence::{SilenceSpec, SilenceTarget};
use canopy_units::UnixTime;

use super::tagged;
use crate::conditions::Conditions;
use crate::error::ApiError;
use crate::extract::{ApiJson, ApiPath};

/// All silences, in name order.
#[utoipa::path(get, path = "/api/v1/silences", tag = "silences", operation_id = "listSilences", responses((status = 200, body = List<SilenceResource>, description = "all silences")))]
pub(crate) async fn list(State(controller): State<Controller>) -> Json<List<SilenceResource>> {
    let (silences, now) = (controller.read(|d| d.silences()), UnixTime::now());
    let items = silences.into_iter().map(|view| SilenceResource::new(view, now)).collect();
    Json(List::new(Kind::SilenceList, items))
}

/// Acknowledges a problem, or begins the maintenance of an object: its problems are listed behind the others, and raise no alert.
#[utoipa::path(post, path = "/api/v1/silences", tag = "silences", operation_id = "createSilence", params(WriteQuery, WriteHeaders), request_body = Input<SilenceSpec>,
    responses((status = 200, body = DryRun, description = "with `dryRun`: what it would do"), (status = 201, body = SilenceResource, description = "created; see the Location header"), (status = 412, body = Problem, description = "a condition does not hold"),
        (status = 409, body = Problem, description = "exists"), (status = 422, body = Problem, description = "not valid, or no such problem or object")))]
pub(crate) async fn create(
    State(controller): State<Controller>,
    conditions: Conditions,
    ApiJson(input): ApiJson<Input<SilenceSpec>>,
) -> Result<Response, ApiError> {
    let name = input.metadata.name.clone().unwrap_or_default();
    let command = command(&controller, &name, input, true)?;
    super::write(&controller, command, conditions, path(&name), move |d| read(d, &name)).await
}

/// One silence.
#[utoipa::path(get, path = "/api/v1/silences/{silence}", tag = "silences", operation_id = "getSilence", params(("silence" = String, Path)),
    responses((status = 200, body = SilenceResource, description = "the silence"), (status = 404, body = Problem, description = "no such silence")))]
pub(crate) async fn get(
    State(controller): State<Controller>,
    ApiPath(silence): ApiPath<String>,
) -> Result<Response, ApiError> {
    let (tag, resource) = controller.read(|d| read(d, &silence))?;
    Ok(tagged(StatusCode::OK, &tag, resource))
}

/// Creates or changes a silence.
#[utoipa::path(put, path = "/api/v1/silences/{silence}", tag = "silences", operation_id = "putSilence", params(("silence" = String, Path), WriteQuery, WriteHeaders),
    request_body = Input<SilenceSpec>,
    responses((status = 200, body = SilenceResource, description = "changed or unchanged"), (status = 201, body = SilenceResource, description = "created"),
        (status = 412, body = Problem, description = "changed meanwhile"), (status = 422, body = Problem, description = "not valid, or no such problem or object")))]
pub(crate) async fn put(
    State(controller): State<Controller>,
    ApiPath(silence): ApiPath<String>,
    conditions: Conditions,
    ApiJson(input): ApiJson<Input<SilenceSpec>>,
) -> Result<Response, ApiError> {
    let command = command(&controller, &silence, input, false)?;
    super::write(&controller, command, conditions, path(&silence), move |d| read(d, &silence)).await
}

/// Ends a silence: its problems raise alerts again.
#[utoipa::path(delete, path = "/api/v1/silences/{silence}", tag = "silences", operation_id = "deleteSilence", params(("silence" = String, Path), WriteQuery, WriteHeaders),
    responses((status = 200, body = DryRun, description = "with `dryRun`: what it would do"), (status = 204, description = "removed"), (status = 404, body = Problem, description = "no such silence"), (status = 412, body = Problem, description = "changed meanwhile")))]
pub(crate) async fn delete(
    State(controller): State<Controller>,
    ApiPath(silence): ApiPath<String>,
    conditions: Conditions,
) -> Result<Response, ApiError> {
    super::delete(&controller, Command::DeleteSilence { name: silence }, conditions).await
}

pub(crate) fn command(
    controller: &Controller,
    name: &str,
    input: Input<SilenceSpec>,
    create_only: bool,
) -> Result<Command, ApiError> {
    input.check(Kind::Silence, Some(name))?;
    let spec = input.spec;
    spec.validate(name)?;
    spec.check_times(UnixTime::now()).map_err(ApiError::invalid)?;
    if let Some(SilenceTarget::Problem(id)) = spec.target()
        && !controller.is_open(id)
    {
        let detail = format!("no problem {id:?} is open: `canopyctl get problems` lists those that are");
        return Err(ApiError::invalid(FieldError::new("spec.problem", detail)));
    }
    Ok(Command::PutSilence { name: name.to_owned(), labels: input.metadata.labels, spec, create_only })
}

fn path(silence: &str) -> String {
    format!("/api/v1/silences/{silence}")
}

fn read(domain: &Domain, silence: &str) -> Result<(String, SilenceResource), ApiError> {
    let view = domain.silence(silence).ok_or_else(|| ApiError::not_found("silence", silence))?;
    Ok((view.metadata.tag(), SilenceResource::new(view, UnixTime::now())))
}
