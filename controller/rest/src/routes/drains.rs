// SPDX-License-Identifier: Apache-2.0
//! `/api/v1/drains`: links and nodes that operators take out of service.

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use canopy_controller_actor::Controller;
use canopy_controller_api::check::DryRun;
use canopy_controller_api::problem::Problem;
use canopy_controller_api::query::{DrainQuery, WatchQuery, WriteHeaders, WriteQuery};
use canopy_controller_api::{DrainResource, Input, Kind, List};
use canopy_controller_core::tenant::Scope;
use canopy_controller_core::{Command, Domain};
use canopy_model::drain::DrainSpec;
use canopy_units::UnixTime;

use super::{filter, tagged};
use crate::conditions::Conditions;
use crate::error::ApiError;
use crate::extract::{ApiJson, ApiPath, ApiQuery};
use crate::watch::{Topic, Watches, only_with_watch};

/// Drains in name order: all that pass the filter.
#[utoipa::path(get, path = "/api/v1/drains", tag = "drains", operation_id = "listDrains", params(DrainQuery),
    responses((status = 200, description = "all drains that pass the filter; with `watch` a stream of changes", content((List<DrainResource> = "application/json"), (String = "text/event-stream"))), (status = 400, body = Problem, description = "a parameter is wrong"), (status = 429, body = Problem, description = "too many streams are open")))]
pub(crate) async fn list(
    State(controller): State<Controller>,
    Extension(watches): Extension<Watches>,
    ApiQuery(query): ApiQuery<DrainQuery>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let stream = WatchQuery { watch: query.watch, after: query.after, timeout_seconds: query.timeout_seconds };
    if stream.watch {
        let others =
            [("labelSelector", !query.label_selector.is_empty()), ("fieldSelector", !query.field_selector.is_empty())];
        return watches.open(&controller, Topic::Drains, Scope::Domain, &stream, &headers, &others);
    }
    only_with_watch(&stream)?;
    let (labels, fields) = (filter::labels(&query.label_selector)?, filter::fields(&query.field_selector)?);
    let drains = controller.read(|d| d.drains()).into_iter();
    let drains = drains.filter(|drain| filter::drain_passes(&labels, &fields, drain));
    let drains: Vec<DrainResource> = drains.map(Into::into).collect();
    Ok(Json(List::new(Kind::DrainList, drains)).into_response())
}

/// Takes a link or node out of service; 409 when there is a drain of this name, or hosts behind the node are members of groups.
#[utoipa::path(post, path = "/api/v1/drains", tag = "drains", operation_id = "createDrain", params(WriteQuery, WriteHeaders), request_body = Input<DrainSpec>,
    responses((status = 200, body = DryRun, description = "with `dryRun`: what it would do"), (status = 201, body = DrainResource, description = "created; see the Location header"), (status = 412, body = Problem, description = "a condition does not hold"), (status = 404, body = Problem, description = "there is no topology"),
        (status = 409, body = Problem, description = "exists, or the node serves hosts"), (status = 422, body = Problem, description = "not valid")))]
pub(crate) async fn create(
    State(controller): State<Controller>,
    conditions: Conditions,
    ApiJson(input): ApiJson<Input<DrainSpec>>,
) -> Result<Response, ApiError> {
    let name = input.metadata.name.clone().unwrap_or_default();
    let command = command(&name, input, true)?;
    super::write(&controller, command, conditions, format!("/api/v1/drains/{name}"), move |d| read(d, &name)).await
}

/// One drain.
#[utoipa::path(get, path = "/api/v1/drains/{drain}", tag = "drains", operation_id = "getDrain", params(("drain" = String, Path)),
    responses((status = 200, body = DrainResource, description = "the drain"), (status = 404, body = Problem, description = "no such drain")))]
pub(crate) async fn get(
    State(controller): State<Controller>,
    ApiPath(drain): ApiPath<String>,
) -> Result<Response, ApiError> {
    let (tag, resource) = controller.read(|d| read(d, &drain))?;
    Ok(tagged(StatusCode::OK, &tag, resource))
}

/// Creates or changes a drain.
#[utoipa::path(put, path = "/api/v1/drains/{drain}", tag = "drains", operation_id = "putDrain", params(("drain" = String, Path), WriteQuery, WriteHeaders),
    request_body = Input<DrainSpec>,
    responses((status = 200, body = DrainResource, description = "changed or unchanged"), (status = 201, body = DrainResource, description = "created"),
        (status = 404, body = Problem, description = "there is no topology"), (status = 409, body = Problem, description = "the node serves hosts"),
        (status = 412, body = Problem, description = "changed meanwhile"), (status = 422, body = Problem, description = "not valid")))]
pub(crate) async fn put(
    State(controller): State<Controller>,
    ApiPath(drain): ApiPath<String>,
    conditions: Conditions,
    ApiJson(input): ApiJson<Input<DrainSpec>>,
) -> Result<Response, ApiError> {
    let command = command(&drain, input, false)?;
    super::write(&controller, command, conditions, format!("/api/v1/drains/{drain}"), move |d| read(d, &drain)).await
}

/// Puts the link or node back into service, unless the topology or another drain has it drained.
#[utoipa::path(delete, path = "/api/v1/drains/{drain}", tag = "drains", operation_id = "deleteDrain", params(("drain" = String, Path), WriteQuery, WriteHeaders),
    responses((status = 200, body = DryRun, description = "with `dryRun`: what it would do"), (status = 204, description = "removed"), (status = 404, body = Problem, description = "no such drain"), (status = 412, body = Problem, description = "changed meanwhile")))]
pub(crate) async fn delete(
    State(controller): State<Controller>,
    ApiPath(drain): ApiPath<String>,
    conditions: Conditions,
) -> Result<Response, ApiError> {
    super::delete(&controller, Command::DeleteDrain { name: drain }, conditions).await
}

pub(crate) fn command(name: &str, input: Input<DrainSpec>, create_only: bool) -> Result<Command, ApiError> {
    input.check(Kind::Drain, Some(name))?;
    input.spec.check_until(UnixTime::now()).map_err(ApiError::invalid)?;
    Ok(Command::PutDrain {
        name: name.to_owned(),
        labels: input.metadata.labels,
        spec: input.spec,
        if_match: None,
        create_only,
    })
}

fn read(domain: &Domain, drain: &str) -> Result<(String, DrainResource), ApiError> {
    let view = domain.drain(drain).ok_or_else(|| ApiError::not_found("drain", drain))?;
    Ok((view.metadata.tag(), view.into()))
}
