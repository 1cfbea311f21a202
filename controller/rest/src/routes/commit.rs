// SPDX-License-Identifier: Apache-2.0
//! `/api/v1/commit`: changes that are taken back unless they are confirmed in time.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use canopy_controller_access::Identity;
use canopy_controller_actor::Controller;
use canopy_controller_actor::commit::{Act, Commit, End, Refused};
use canopy_controller_api::commit::{
    CommitBegin, CommitChange, CommitEnd, CommitExtend, CommitPhase, CommitQuery, CommitResource, PendingCommit,
    RollbackRefusal,
};
use canopy_controller_api::problem::Problem;
use canopy_controller_api::query::KeyHeader;
use canopy_controller_api::{ApiVersion, Kind};
use canopy_controller_core::audit::IntentKind;
use canopy_controller_core::role::Role;
use canopy_units::UnixTime;

use crate::caller::Sender;
use crate::conditions::Conditions;
use crate::error::ApiError;
use crate::extract::{ApiJson, ApiQuery};
use crate::request;

/// The commit that is pending, or how the last one ended.
#[utoipa::path(get, path = "/api/v1/commit", tag = "commit", operation_id = "getCommit", params(CommitQuery),
    responses((status = 200, body = CommitResource, description = "the pending commit, or the last one"), (status = 400, body = Problem, description = "a parameter is wrong"), (status = 404, body = Problem, description = "there was never one")))]
pub(crate) async fn get(
    State(controller): State<Controller>,
    ApiQuery(query): ApiQuery<CommitQuery>,
) -> Result<Json<CommitResource>, ApiError> {
    let mut commit = resource(controller.commit().ok_or_else(never)?);
    if query.check && commit.phase == CommitPhase::Pending {
        commit.refused = controller.try_rollback().await?.into_iter().map(refusal).collect();
    }
    Ok(Json(commit))
}

/// Begins a commit: writes of operators that name it are rolled back unless it is confirmed in time, also by a controller that restarts
/// meanwhile. Until it ends, other writes of operators are refused; hosts join and leave, and trees are repaired, as always.
#[utoipa::path(post, path = "/api/v1/commit", tag = "commit", operation_id = "beginCommit", params(KeyHeader), request_body = CommitBegin,
    responses((status = 201, body = CommitResource, description = "begun"), (status = 400, body = Problem, description = "a dry run, or a condition"), (status = 409, body = Problem, description = "another one is pending"), (status = 422, body = Problem, description = "not valid")))]
pub(crate) async fn begin(
    State(controller): State<Controller>,
    conditions: Conditions,
    ApiJson(CommitBegin { timeout_seconds }): ApiJson<CommitBegin>,
) -> Result<Response, ApiError> {
    let act = Act::Begin(Duration::from_secs(timeout_seconds));
    act_on(&controller, act, conditions, StatusCode::CREATED).await
}

/// Confirms the pending commit: its changes stay.
#[utoipa::path(post, path = "/api/v1/commit/confirm", tag = "commit", operation_id = "confirmCommit", params(KeyHeader), request_body = CommitEnd,
    responses((status = 200, body = CommitResource, description = "confirmed"), (status = 400, body = Problem, description = "a dry run, or a condition"), (status = 409, body = Problem, description = "not pending"), (status = 422, body = Problem, description = "not valid")))]
pub(crate) async fn confirm(
    State(controller): State<Controller>,
    Sender(sender): Sender,
    conditions: Conditions,
    ApiJson(CommitEnd { id }): ApiJson<CommitEnd>,
) -> Result<Response, ApiError> {
    may_end(&controller, &sender)?;
    act_on(&controller, Act::Confirm(id), conditions, StatusCode::OK).await
}

/// Rolls the pending commit back now.
#[utoipa::path(post, path = "/api/v1/commit/cancel", tag = "commit", operation_id = "cancelCommit", params(KeyHeader), request_body = CommitEnd,
    responses((status = 200, body = CommitResource, description = "rolled back; `refused` has what could not be put back"), (status = 400, body = Problem, description = "a dry run, or a condition"), (status = 409, body = Problem, description = "not pending"), (status = 422, body = Problem, description = "not valid")))]
pub(crate) async fn cancel(
    State(controller): State<Controller>,
    Sender(sender): Sender,
    conditions: Conditions,
    ApiJson(CommitEnd { id }): ApiJson<CommitEnd>,
) -> Result<Response, ApiError> {
    may_end(&controller, &sender)?;
    act_on(&controller, Act::Cancel(id), conditions, StatusCode::OK).await
}

/// Gives the pending commit another time from now.
#[utoipa::path(post, path = "/api/v1/commit/extend", tag = "commit", operation_id = "extendCommit", params(KeyHeader), request_body = CommitExtend,
    responses((status = 200, body = CommitResource, description = "extended"), (status = 400, body = Problem, description = "a dry run, or a condition"), (status = 409, body = Problem, description = "not pending"), (status = 422, body = Problem, description = "not valid")))]
pub(crate) async fn extend(
    State(controller): State<Controller>,
    Sender(sender): Sender,
    conditions: Conditions,
    ApiJson(CommitExtend { id, timeout_seconds }): ApiJson<CommitExtend>,
) -> Result<Response, ApiError> {
    may_end(&controller, &sender)?;
    act_on(&controller, Act::Extend(id, Duration::from_secs(timeout_seconds)), conditions, StatusCode::OK).await
}

/// The pending commit in short.
pub(crate) fn pending(controller: &Controller) -> Option<PendingCommit> {
    controller.with_commit(|pending| {
        let Commit { state, changes, .. } = pending?;
        Some(PendingCommit {
            id: state.id.clone(),
            by: state.begun.by.clone().into(),
            deadline_unix_ns: state.deadline.nanos(),
            changes: changes.len() as u64,
        })
    })
}

/// Whether the caller may decide about the pending commit: with a topology in it, an administrator, as for the topology itself.
fn may_end(controller: &Controller, by: &Identity) -> Result<(), ApiError> {
    let has_topology = controller.with_commit(|pending| {
        pending.is_some_and(|commit| commit.changes.iter().any(|(target, _)| target.kind == IntentKind::Topology))
    });
    if has_topology && by.role < Some(Role::Admin) {
        let detail = format!("the pending commit changes the topology, which needs admin: {} has not", by.principal);
        return Err(ApiError::new(StatusCode::FORBIDDEN, "RoleNeeded", detail));
    }
    Ok(())
}

async fn act_on(
    controller: &Controller,
    act: Act,
    mut conditions: Conditions,
    success: StatusCode,
) -> Result<Response, ApiError> {
    let key = conditions.key.take();
    let by = conditions.unconditional()?;
    let (commit, replayed) = controller.do_once_with_commit(act, by, request::current(), key).await?;
    Ok(super::marked((success, Json(resource(commit))).into_response(), replayed))
}

/// A commit as clients see it now.
pub(crate) fn resource(Commit { state, changes, .. }: Commit) -> CommitResource {
    let phase = match state.ended.as_ref().map(|ended| ended.how) {
        None => CommitPhase::Pending,
        Some(End::Confirmed) => CommitPhase::Confirmed,
        Some(End::Cancelled) => CommitPhase::Cancelled,
        Some(End::Expired) => CommitPhase::Expired,
    };
    let change = |(target, change): (canopy_controller_actor::Target, canopy_controller_actor::commit::Change)| {
        CommitChange::new(target.kind, target.name, change.existed)
    };
    let (ended, refused) = state.ended.map(|ended| (ended.written, ended.refused)).unzip();
    CommitResource {
        api_version: ApiVersion,
        kind: Kind::Commit,
        id: state.id,
        phase,
        by: state.begun.by.into(),
        begun_unix_ns: state.begun.at.nanos(),
        deadline_unix_ns: state.deadline.nanos(),
        time_unix_ns: UnixTime::now().nanos(),
        ended_unix_ns: ended.as_ref().map(|ended| ended.at.nanos()),
        ended_by: ended.map(|ended| ended.by.into()),
        changes: changes.into_iter().map(change).collect(),
        refused: refused.unwrap_or_default().into_iter().map(refusal).collect(),
    }
}

fn never() -> ApiError {
    ApiError::new(StatusCode::NOT_FOUND, "NotFound", "no commit was begun in this domain")
}

fn refusal(Refused { kind, name, detail, .. }: Refused) -> RollbackRefusal {
    RollbackRefusal { kind: kind.into(), name, detail }
}
