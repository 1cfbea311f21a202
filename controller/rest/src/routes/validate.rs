// SPDX-License-Identifier: Apache-2.0
//! `/api/v1/validate`: checks whether resources, applied one after the other, would all be accepted.
//!
//! A dry run of a single PUT cannot show this: a member's group may be in the same file. Here each resource is checked
//! on a copy that the resources before it have changed.

use axum::Json;
use axum::extract::State;
use canopy_controller_actor::Controller;
use canopy_controller_actor::change_sets::MAX_ITEMS;
use canopy_controller_api::check::{Validate, Validated};
use canopy_controller_api::problem::Problem;
use canopy_controller_api::{Input, Kind};
use canopy_controller_core::role::Role;
use canopy_controller_core::tenant::Scope;
use canopy_controller_core::{Command, Outcome};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{drains, groups, members, silences, topology};
use crate::authorization::of_domain;
use crate::caller::Sender;
use crate::error::ApiError;
use crate::extract::{ApiJson, from_value};

/// Checks resources without changing anything; the answer is the first refusal, its fields under `items[i]`.
#[utoipa::path(post, path = "/api/v1/validate", tag = "validate", operation_id = "validate", request_body = Validate,
    responses((status = 200, body = Validated, description = "all would be accepted"), (status = 404, body = Problem, description = "an item refers to something that is not there"),
        (status = 422, body = Problem, description = "an item is not valid")))]
pub(crate) async fn validate(
    State(controller): State<Controller>,
    Sender(by): Sender,
    ApiJson(request): ApiJson<Validate>,
) -> Result<Json<Validated>, ApiError> {
    if request.items.len() > MAX_ITEMS {
        return Err(ApiError::bad_request(
            "items",
            format!("{} items, at most {MAX_ITEMS} are possible", request.items.len()),
        ));
    }
    // What the caller could write.
    let scope = by.scope(Role::Viewer);
    let commands = commands(&controller, &scope, request.items)?;
    Ok(Json(Validated::new(check(&controller, scope, commands).await?)))
}

/// What writes these resources.
///
/// # Errors
/// The first that is not one, its fields under `items[i]`.
pub(super) fn commands(controller: &Controller, scope: &Scope, items: Vec<Value>) -> Result<Vec<Command>, ApiError> {
    let items = items.into_iter().enumerate();
    items.map(|(i, item)| command(controller, scope, item).map_err(|e| e.inside(&at(i)))).collect()
}

/// What these commands would do, one after the other.
///
/// # Errors
/// The first refusal, under `items[i]`.
pub(super) async fn check(
    controller: &Controller,
    scope: Scope,
    commands: Vec<Command>,
) -> Result<Vec<Outcome>, ApiError> {
    controller.validate(commands, scope).await.map_err(|(i, e)| ApiError::from(e).inside(&at(i)))
}

fn at(i: usize) -> String {
    format!("items[{i}]")
}

fn command(controller: &Controller, scope: &Scope, item: Value) -> Result<Command, ApiError> {
    let kind = item.get("kind").and_then(|kind| Kind::deserialize(kind).ok());
    if !scope.is_domain() && matches!(kind, Some(Kind::Topology | Kind::Drain | Kind::Silence)) {
        return Err(of_domain("kind"));
    }
    match kind {
        Some(Kind::Topology) => topology::command(input(item)?),
        Some(Kind::Drain) => {
            let input: Input<_> = input(item)?;
            let name = input.metadata.name.clone().unwrap_or_default();
            drains::command(&name, input, false)
        }
        Some(Kind::Silence) => {
            let input: Input<_> = input(item)?;
            let name = input.metadata.name.clone().unwrap_or_default();
            silences::command(controller, &name, input, false)
        }
        Some(Kind::Group) => {
            let input: Input<_> = input(item)?;
            let name = input.metadata.name.clone().unwrap_or_default();
            groups::command(&name, input, false, scope)
        }
        Some(Kind::Member) => {
            let input: Input<_> = input(item)?;
            let Some(group) = input.metadata.group.clone() else {
                return Err(ApiError::invalid(canopy_model::FieldError::new(
                    "metadata.group",
                    "is missing: name the group to join",
                )));
            };
            members::command(controller, scope, &group, None, input, false)
        }
        _ => Err(ApiError::invalid(canopy_model::FieldError::new(
            "kind",
            "must be Topology, Drain, Silence, Group or Member",
        ))),
    }
}

fn input<S: DeserializeOwned>(item: Value) -> Result<Input<S>, ApiError> {
    from_value(item)
}
