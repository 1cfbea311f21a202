// SPDX-License-Identifier: Apache-2.0
//! `/api/v1/nodes`: each node's desired state from the topology, and its agent's reports.

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use canopy_controller_actor::Controller;
use canopy_controller_api::problem::Problem;
use canopy_controller_api::query::{NodeQuery, WatchQuery};
use canopy_controller_api::{Kind, List, NodeResource};
use canopy_controller_core::NameFilter;
use canopy_controller_core::tenant::Scope;

use super::filter;
use super::page::{self, Wanted};
use crate::error::ApiError;
use crate::extract::{ApiPath, ApiQuery};
use crate::watch::{Topic, Watches, only_with_watch};

/// Nodes in name order. A page under a filter may be short: only one without `metadata.continue` is the last.
#[utoipa::path(get, path = "/api/v1/nodes", tag = "nodes", operation_id = "listNodes", params(NodeQuery),
    responses((status = 200, description = "one page; with `watch` a stream of changes", content((List<NodeResource> = "application/json"), (String = "text/event-stream"))), (status = 400, body = Problem, description = "a parameter is wrong"), (status = 429, body = Problem, description = "too many streams are open")))]
pub(crate) async fn list(
    State(controller): State<Controller>,
    Extension(watches): Extension<Watches>,
    ApiQuery(query): ApiQuery<NodeQuery>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let stream = WatchQuery { watch: query.watch, after: query.after, timeout_seconds: query.timeout_seconds };
    if stream.watch {
        let others = [
            ("labelSelector", !query.label_selector.is_empty()),
            ("fieldSelector", !query.field_selector.is_empty()),
            ("nameContains", !query.name_contains.is_empty()),
            ("summary", query.summary),
            ("limit", query.limit.is_some()),
            ("continue", query.next.is_some()),
        ];
        return watches.open(&controller, Topic::Nodes, Scope::Domain, &stream, &headers, &others);
    }
    only_with_watch(&stream)?;
    let wanted = Wanted::new(query.limit, query.next.as_deref())?;
    let fields = filter::fields(&query.field_selector)?;
    let filter = NameFilter { fields, labels: filter::labels(&query.label_selector)?, contains: query.name_contains };
    let page = controller.read(|d| d.nodes(&filter, wanted.after.as_deref(), wanted.limit, !query.summary));
    let mut list = List::new(Kind::NodeList, page.items.into_iter().map(NodeResource::from).collect());
    list.metadata.next = page.next.map(page::token);
    Ok(Json(list).into_response())
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
