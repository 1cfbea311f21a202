// SPDX-License-Identifier: Apache-2.0
//! `/api/v1/nodes/{node}/retire`: a node leaves for good.

use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use canopy_controller_actor::{Controller, Order, Target};
use canopy_controller_api::NodeResource;
use canopy_controller_api::problem::Problem;
use canopy_controller_core::Command;
use canopy_controller_core::audit::{Action, IntentKind};
use canopy_controller_core::principal::Principal;
use canopy_model::retirement::RetireSpec;

use crate::caller::Sender;
use crate::conditions::Conditions;
use crate::error::ApiError;
use crate::extract::{ApiJson, ApiPath};
use crate::request;
use crate::sessions::refuse_browsers;

/// It ends with certificates that are revoked: see the routes of identities.
const FOR_TERMINALS: &str = "nodes are not retired from a browser or a session: use `canopyctl node retire`";

/// Begins to retire a node: it is drained; once nothing uses it, its agent removes what it programmed into the kernel, and its certificates
/// are revoked. The controller does the steps, also after a restart; the node's `status.retirement` has which one, and what that waits for.
/// Sent again, it changes how the retirement continues.
#[utoipa::path(post, path = "/api/v1/nodes/{node}/retire", tag = "nodes", operation_id = "retireNode", params(("node" = String, Path)), request_body = RetireSpec,
    responses((status = 200, body = NodeResource, description = "begun, or changed"), (status = 400, body = Problem, description = "a dry run, or a condition"), (status = 403, body = Problem, description = "sent by a browser, or in a session of one"), (status = 404, body = Problem, description = "no such node"), (status = 409, body = Problem, description = "hosts behind the node are members of groups"), (status = 422, body = Problem, description = "not valid")))]
pub(crate) async fn retire(
    State(controller): State<Controller>,
    ApiPath(node): ApiPath<String>,
    headers: HeaderMap,
    Sender(sender): Sender,
    conditions: Conditions,
    ApiJson(spec): ApiJson<RetireSpec>,
) -> Result<Json<NodeResource>, ApiError> {
    let by = conditions.unconditional()?;
    refuse_browsers(&headers, &sender, FOR_TERMINALS)?;
    carry_out(&controller, &node, Action::Retire, Command::Retire { node: node.clone(), spec }, by).await
}

/// Takes a retirement back while its node is drained and has not begun to clean up, with the drain that it made; forgets one that has ended.
#[utoipa::path(delete, path = "/api/v1/nodes/{node}/retire", tag = "nodes", operation_id = "cancelRetirement", params(("node" = String, Path)),
    responses((status = 200, body = NodeResource, description = "taken back, or forgotten"), (status = 400, body = Problem, description = "a dry run, or a condition"), (status = 403, body = Problem, description = "sent by a browser, or in a session of one"), (status = 404, body = Problem, description = "no such node, or it is not being retired"), (status = 409, body = Problem, description = "its agent has begun to clean up")))]
pub(crate) async fn cancel(
    State(controller): State<Controller>,
    ApiPath(node): ApiPath<String>,
    headers: HeaderMap,
    Sender(sender): Sender,
    conditions: Conditions,
) -> Result<Json<NodeResource>, ApiError> {
    let by = conditions.unconditional()?;
    refuse_browsers(&headers, &sender, FOR_TERMINALS)?;
    carry_out(&controller, &node, Action::Cancel, Command::CancelRetirement { node: node.clone() }, by).await
}

async fn carry_out(
    controller: &Controller,
    node: &str,
    action: Action,
    command: Command,
    by: Principal,
) -> Result<Json<NodeResource>, ApiError> {
    // The audit has nothing that was refused, and what is carried out only after it has that.
    controller.check_retiring(node)?;
    let is_noop = controller.read(|d| d.prepare(command.clone()).map(|prepared| prepared.is_noop()))?;
    if !is_noop {
        let target = Target { kind: IntentKind::Identity, name: format!("node/{node}") };
        controller.audited(target, action, by.clone(), request::current()).await?;
    }
    controller.carry_out(Order::new(command, by)).await?;
    let view = controller.read(|d| d.node(node)).ok_or_else(|| ApiError::not_found("node", node))?;
    Ok(Json(view.into()))
}
