// SPDX-License-Identifier: Apache-2.0
//! One file per resource: extract, build a command, execute it, answer.

pub(crate) mod authority;
pub(crate) mod captures;
pub(crate) mod change_sets;
pub(crate) mod charts;
pub(crate) mod commit;
pub(crate) mod controllers;
pub(crate) mod drains;
pub(crate) mod events;
mod filter;
pub(crate) mod flows;
pub(crate) mod groups;
pub(crate) mod history;
pub(crate) mod hmac;
pub(crate) mod hosts;
pub(crate) mod identities;
pub(crate) mod incidents;
pub(crate) mod links;
pub(crate) mod log_levels;
pub(crate) mod map;
pub(crate) mod members;
pub(crate) mod nodes;
pub(crate) mod page;
pub(crate) mod paths;
pub(crate) mod problems;
pub(crate) mod retirements;
pub(crate) mod sign_in;
pub(crate) mod silences;
pub(crate) mod single_sign_on;
pub(crate) mod telemetry;
pub(crate) mod tenants;
pub(crate) mod tokens;
pub(crate) mod topology;
pub(crate) mod validate;
pub(crate) mod waited;

use axum::Json;
use axum::http::header::{ETAG, LOCATION};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use canopy_controller_actor::once::Replayed;
use canopy_controller_actor::{Controller, Done};
use canopy_controller_core::{Command, Domain, Outcome};
use serde::Serialize;

use crate::conditions::Conditions;
use crate::error::ApiError;
use crate::preview::dry_run;

/// Header of an answer to a write that was carried out before.
const REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");

/// A resource with its ETag.
fn tagged<T: Serialize>(status: StatusCode, tag: &str, resource: T) -> Response {
    let mut headers = HeaderMap::new();
    if let Ok(value) = HeaderValue::from_str(&format!("\"{tag}\"")) {
        headers.insert(ETAG, value);
    }
    (status, headers, Json(resource)).into_response()
}

/// Executes a write; `read` returns tag and resource for the answer, `path` is its location.
async fn write<T>(
    controller: &Controller,
    command: Command,
    conditions: Conditions,
    path: String,
    read: impl FnOnce(&Domain) -> Result<(String, T), ApiError> + Send + 'static,
) -> Result<Response, ApiError>
where
    T: Serialize + Send + 'static,
{
    // What this write has made, not what others have made of it since: its tag is the ground of the client's next write.
    let (done, shown) = controller.carry_out_and_show(conditions.order(command), read).await?;
    let Some(shown) = shown else { return Ok(Json(dry_run(done)).into_response()) };
    let (tag, resource) = shown?;
    if done.outcome != Outcome::Created {
        return Ok(marked(tagged(StatusCode::OK, &tag, resource), done.replayed));
    }
    let mut response = tagged(StatusCode::CREATED, &tag, resource);
    if let Ok(location) = HeaderValue::from_str(&path) {
        response.headers_mut().insert(LOCATION, location);
    }
    Ok(marked(response, done.replayed))
}

/// Marks the answer to a write that was carried out before, and not again.
fn marked(mut response: Response, replayed: Option<Replayed>) -> Response {
    if replayed.is_some() {
        response.headers_mut().insert(REPLAYED, HeaderValue::from_static("true"));
    }
    response
}

/// Executes a deletion.
async fn delete(controller: &Controller, command: Command, conditions: Conditions) -> Result<Response, ApiError> {
    Ok(deleted(controller.carry_out(conditions.order(command)).await?))
}

/// The answer to a deletion whose resource is gone, or to its dry run.
fn deleted(done: Done) -> Response {
    match done {
        done @ Done { applied: None, replayed: None, .. } => Json(dry_run(done)).into_response(),
        done => marked(StatusCode::NO_CONTENT.into_response(), done.replayed),
    }
}
