// SPDX-License-Identifier: Apache-2.0
//! `/api/v1/change-sets`: many resources at once, written by the controller in small transactions and taken back as a whole.

use axum::Json;
use axum::extract::State;
use axum::http::header::LOCATION;
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use canopy_controller_access::Identity;
use canopy_controller_actor::change_sets::{Act, ChangeOrder, ChangeSet, MAX_ITEMS, Stage};
use canopy_controller_actor::commit::Refused;
use canopy_controller_actor::{Controller, Manager, Precondition};
use canopy_controller_api::change_set::{ChangeSetInput, ChangeSetPhase, ChangeSetRefusal, ChangeSetResource};
use canopy_controller_api::problem::Problem;
use canopy_controller_api::query::{KeyHeader, ManagerHeader};
use canopy_controller_api::{ApiVersion, Kind, List};
use canopy_controller_core::Command;
use canopy_controller_core::role::Role;
use serde_json::Value;

use super::validate;
use crate::caller::Sender;
use crate::conditions::Conditions;
use crate::error::ApiError;
use crate::extract::{ApiJson, ApiPath};
use crate::request;

/// The last change sets, the newest first.
#[utoipa::path(get, path = "/api/v1/change-sets", tag = "change sets", operation_id = "listChangeSets",
    responses((status = 200, body = List<ChangeSetResource>, description = "those that are kept")))]
pub(crate) async fn list(State(controller): State<Controller>, Sender(by): Sender) -> Json<List<ChangeSetResource>> {
    let sets = controller.change_sets(&by.scope(Role::Viewer));
    Json(List::new(Kind::ChangeSetList, sets.into_iter().map(resource).collect()))
}

/// One change set.
#[utoipa::path(get, path = "/api/v1/change-sets/{set}", tag = "change sets", operation_id = "getChangeSet", params(("set" = String, Path)),
    responses((status = 200, body = ChangeSetResource, description = "the change set"), (status = 404, body = Problem, description = "no such change set is kept")))]
pub(crate) async fn get(
    State(controller): State<Controller>,
    Sender(by): Sender,
    ApiPath(set): ApiPath<String>,
) -> Result<Json<ChangeSetResource>, ApiError> {
    let found = controller.change_set(&set, &by.scope(Role::Viewer));
    found.map(|set| Json(resource(set))).ok_or_else(|| ApiError::not_found("change set", set))
}

/// Writes many resources: all are checked first, as by `/api/v1/validate`; then the controller writes them in their order, also after a
/// restart, and stops at the first that is refused.
#[utoipa::path(post, path = "/api/v1/change-sets", tag = "change sets", operation_id = "createChangeSet", params(ManagerHeader, KeyHeader), request_body = ChangeSetInput,
    responses((status = 202, body = ChangeSetResource, description = "begun; see the Location header"), (status = 400, body = Problem, description = "a dry run, or a condition"), (status = 404, body = Problem, description = "an item refers to something that is not there"),
        (status = 409, body = Problem, description = "another one is not finished, or a commit is pending"), (status = 422, body = Problem, description = "an item is not valid")))]
pub(crate) async fn create(
    State(controller): State<Controller>,
    Sender(sender): Sender,
    conditions: Conditions,
    ApiJson(input): ApiJson<ChangeSetInput>,
) -> Result<Response, ApiError> {
    let items = input.items;
    if !(1..=MAX_ITEMS).contains(&items.len()) {
        let detail = format!("{} items: 1 to {MAX_ITEMS} are possible", items.len());
        return Err(ApiError::invalid(canopy_model::FieldError::new("items", detail)));
    }
    let tags: Vec<Precondition> = items.iter().map(precondition).collect();
    let commands = validate::commands(&controller, &conditions.scope, items)?;
    if commands.iter().any(|command| matches!(command, Command::PutTopology { .. })) {
        may_write_topology(&sender)?;
    }
    let checked = validate::check(&controller, conditions.scope.clone(), commands.clone()).await;
    let all: Vec<(Command, Precondition)> = commands.into_iter().zip(tags).collect();
    match checked {
        Ok(_) => act_on(&controller, Act::Apply(all), conditions).await,
        // What was carried out may not pass the check any more, and is answered all the same.
        Err(refused) if conditions.key.is_some() => {
            act_on(&controller, Act::Again(all), conditions).await.map_err(|_| refused)
        }
        Err(refused) => Err(refused),
    }
}

/// Takes back what a change set has written, the last first; one that is not finished stops. What others have changed since stays, and is
/// named in `refused`.
#[utoipa::path(post, path = "/api/v1/change-sets/{set}/undo", tag = "change sets", operation_id = "undoChangeSet", params(("set" = String, Path), ManagerHeader, KeyHeader),
    responses((status = 202, body = ChangeSetResource, description = "begun"), (status = 400, body = Problem, description = "a dry run, or a condition"), (status = 404, body = Problem, description = "no such change set is kept"),
        (status = 409, body = Problem, description = "it was taken back, or a commit is pending")))]
pub(crate) async fn undo(
    State(controller): State<Controller>,
    Sender(sender): Sender,
    ApiPath(set): ApiPath<String>,
    conditions: Conditions,
) -> Result<Response, ApiError> {
    let found = controller.change_set(&set, &sender.scope(Role::Operator));
    if found.is_some_and(|set| set.state.has_topology) {
        may_write_topology(&sender)?;
    }
    act_on(&controller, Act::Undo(set), conditions).await
}

async fn act_on(controller: &Controller, act: Act, mut conditions: Conditions) -> Result<Response, ApiError> {
    if conditions.commit.is_some() {
        let detail = "a change set is no part of a commit, and is taken back by itself: leave it out";
        return Err(ApiError::bad_request("Canopy-Commit", detail));
    }
    let (key, scope) = (conditions.key.take(), conditions.scope.clone());
    let manager = std::mem::replace(&mut conditions.manager, Manager::None);
    let by = conditions.unconditional()?;
    let order = ChangeOrder { act, by, request: request::current(), key, scope, manager };
    let (set, replayed) = controller.do_with_change_set(order).await?;
    let location = HeaderValue::from_str(&format!("/api/v1/change-sets/{}", set.state.id));
    let mut response = (StatusCode::ACCEPTED, Json(resource(set))).into_response();
    if let Ok(location) = location {
        response.headers_mut().insert(LOCATION, location);
    }
    Ok(super::marked(response, replayed))
}

/// As for the topology itself.
fn may_write_topology(by: &Identity) -> Result<(), ApiError> {
    if by.role < Some(Role::Admin) {
        let detail = format!("the change set has a topology, which needs admin: {} has not", by.principal);
        return Err(ApiError::new(StatusCode::FORBIDDEN, "RoleNeeded", detail));
    }
    Ok(())
}

/// A resource that was read replaces what was read.
fn precondition(item: &Value) -> Precondition {
    let uid = item.pointer("/metadata/uid").and_then(Value::as_str);
    let generation = item.pointer("/metadata/generation").and_then(Value::as_u64);
    match uid.zip(generation) {
        Some((uid, generation)) => Precondition::Tag(format!("{uid}.{generation}")),
        None => Precondition::None,
    }
}

fn resource(ChangeSet { state, waits }: ChangeSet) -> ChangeSetResource {
    let written = state.author.written;
    let (undone_by, undone_at) = state.undone.map(|undone| (undone.written.by, undone.written.at)).unzip();
    let refusal = |Refused { kind, name, detail, .. }: Refused| ChangeSetRefusal::new(kind, name, detail);
    ChangeSetResource {
        api_version: ApiVersion,
        kind: Kind::ChangeSet,
        id: state.id,
        phase: match state.stage {
            Stage::Applying => ChangeSetPhase::Applying,
            Stage::Applied => ChangeSetPhase::Applied,
            Stage::Stopped => ChangeSetPhase::Stopped,
            Stage::Undoing => ChangeSetPhase::Undoing,
            Stage::Undone => ChangeSetPhase::Undone,
        },
        by: written.by.into(),
        begun_unix_ns: written.at.nanos(),
        request_id: written.request.map(|id| id.to_string()),
        items: state.items as u64,
        done: state.done as u64,
        created: state.created as u64,
        updated: state.updated as u64,
        waits_for: waits,
        undone_by: undone_by.map(Into::into),
        undone_unix_ns: undone_at.map(|at| at.nanos()),
        put_back: state.put_back as u64,
        ended_unix_ns: state.ended.map(|at| at.nanos()),
        refused: state.refused.into_iter().map(refusal).collect(),
    }
}
