// SPDX-License-Identifier: Apache-2.0
//! `/api/v1/links`: the queue thresholds of every link direction, their inputs, and the queue's state.

use axum::Json;
use axum::extract::State;
use canopy_controller_actor::Controller;
use canopy_controller_api::problem::Problem;
use canopy_controller_api::query::LinkQuery;
use canopy_controller_api::{Kind, LinkResource, List};

use super::filter;
use super::page::{self, Wanted};
use crate::error::ApiError;
use crate::extract::{ApiPath, ApiQuery};

/// Link directions out of the nodes' ports, in the order of node and port. A page under a filter may be short: only one without
/// `metadata.continue` is the last.
#[utoipa::path(get, path = "/api/v1/links", tag = "links", operation_id = "listLinks", params(LinkQuery),
    responses((status = 200, body = List<LinkResource>, description = "one page"), (status = 400, body = Problem, description = "a parameter is wrong")))]
pub(crate) async fn list(
    State(controller): State<Controller>,
    ApiQuery(query): ApiQuery<LinkQuery>,
) -> Result<Json<List<LinkResource>>, ApiError> {
    let wanted = Wanted::of_ports(query.limit, query.next.as_deref())?;
    let fields = filter::fields(&query.field_selector)?;
    let after = wanted.after.as_deref().and_then(|name| name.split_once('/'));
    let page = controller.links(&fields, after, wanted.limit);
    let mut list = List::new(Kind::LinkList, page.items.into_iter().map(Into::into).collect());
    list.metadata.next = page.next.map(page::token);
    Ok(Json(list))
}

/// The direction out of a node's port.
#[utoipa::path(get, path = "/api/v1/links/{node}/{port}", tag = "links", operation_id = "getLink", params(("node" = String, Path), ("port" = String, Path)),
    responses((status = 200, body = LinkResource, description = "the direction"), (status = 404, body = Problem, description = "no such port of a node")))]
pub(crate) async fn get(
    State(controller): State<Controller>,
    ApiPath((node, port)): ApiPath<(String, String)>,
) -> Result<Json<LinkResource>, ApiError> {
    let view = controller.link(&node, &port).ok_or_else(|| ApiError::not_found("link", format!("{node}/{port}")))?;
    Ok(Json(view.into()))
}
