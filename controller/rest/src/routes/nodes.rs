// SPDX-License-Identifier: Apache-2.0
//! `/api/v1/nodes`: each node's desired state from the topology, and its agent's reports.

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use canopy_controller_actor::Controller;
use canopy_controller_api::problem::Problem;
use canopy_controller_api::query::WatchQuery;
use canopy_controller_api::{Kind, List, NodeResource};

use crate::error::ApiError;
use crate::extract::{ApiPath, ApiQuery};
use crate::watch::{Topic, Watches, only_with_watch};

/// All nodes, in name order.
#[utoipa::path(get, path = "/api/v1/nodes", tag = "nodes", operation_id = "listNodes", params(WatchQuery),
    responses((status = 200, description = "all nodes; with `watch` a stream of changes", content((List<NodeResource> = "application/json"), (String = "text/event-stream"))), (status = 400, body = Problem, description = "a parameter is wrong"), (status = 429, body = Problem, description = "too many streams are open")))]
pub(crate) async fn list(
    State(controller): State<Controller>,
    Extension(watches): Extension<Watches>,
    ApiQuery(query): ApiQuery<WatchQuery>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    if query.watch {
        return watches.open(&controller, Topic::Nodes, &query, &headers, &[]);
    }
    only_with_watch(&query)?;
    let nodes: Vec<NodeResource> = controller.read(|d| d.nodes()).into_iter().map(Into::into).collect();
    Ok(Json(List::new(Kind::NodeList, nodes)).into_response())
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
