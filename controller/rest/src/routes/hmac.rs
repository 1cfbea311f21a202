// SPDX-License-Identifier: Apache-2.0
//! `/api/v1/hmac`: the keys of the SRH HMAC TLV.

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use canopy_controller_actor::Controller;
use canopy_controller_api::hmac::Hmac;
use canopy_controller_api::problem::Problem;
use canopy_controller_api::query::KeyHeader;
use canopy_controller_core::Command;

use crate::conditions::Conditions;
use crate::error::ApiError;

/// The keys of the SRH HMAC TLV, without their secrets, and how far a rotation is.
#[utoipa::path(get, path = "/api/v1/hmac", tag = "hmac", operation_id = "getHmac",
    responses((status = 200, body = Hmac, description = "the keys and the phase")))]
pub(crate) async fn get(State(controller): State<Controller>) -> Json<Hmac> {
    Json(controller.read(|d| d.hmac()).into())
}

/// Begins to replace the key. The steps follow by themselves, each once every node has confirmed the one before.
#[utoipa::path(post, path = "/api/v1/hmac/rotate", tag = "hmac", operation_id = "rotateHmac", params(KeyHeader),
    responses((status = 200, body = Hmac, description = "begun"), (status = 400, body = Problem, description = "a dry run, or a condition"), (status = 409, body = Problem, description = "under way already"), (status = 422, body = Problem, description = "the HMAC TLV is not enabled")))]
pub(crate) async fn rotate(State(controller): State<Controller>, conditions: Conditions) -> Result<Response, ApiError> {
    conditions.clone().unconditional()?;
    let done = controller.carry_out(conditions.order(Command::RotateHmac)).await?;
    Ok(super::marked(get(State(controller)).await.into_response(), done.replayed))
}
