// SPDX-License-Identifier: Apache-2.0
//! `/api/v1/nodes`: each node's desired state from the topology, and its agent's reports.

use axum::Json;
use axum::extract::State;
use canopy_controller_actor::Controller;
use canopy_controller_api::problem::Problem;
use canopy_controller_api::{Kind, List, NodeResource};

use crate::error::ApiError;
use crate::extract::ApiPath;

/// All nodes, in name order.
#[utoipa::path(get, path = "/api/v1/nodes", tag = "nodes", operation_id = "listNodes", responses((status = 200, body = List<NodeResource>, description = "all nodes")))]
pub(crate) async fn list(State(controller): State<Controller>) -> Json<List<NodeResource>> {
    let nodes = controller.read(|d| d.nodes());
    Json(List::new(Kind::NodeList, nodes.into_iter().map(Into::into).collect()))
}

/// One node.
#[utoipa::path(get, path = "/api/v1/nodes/{node}", tag = "nodes", operation_id = "getNode", params(("node" = String, Path)),
    responses((status = 200, body = NodeResource, description = "the node"), (status = 404, body = Problem, description = "no such node")))]
pub(crate) async fn get(
    State(controller): State<Controller>,
    ApiPath(node): ApiPath<String>,
) -> Result<Json<NodeResource>, ApiError> {
    let view = controller.read(|d| d.node(&node)).ok_or_else(|| ApiError::not_found("node", node))?;
    Ok(Json(view.into()))
}
