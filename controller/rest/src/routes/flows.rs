// SPDX-License-Identifier: Apache-2.0
//! `/api/v1/flows`: the flows that agents report, at most 64 of each node.

use axum::Json;
use axum::extract::State;
use canopy_controller_actor::Controller;
use canopy_controller_api::link::FlowView;
use canopy_controller_api::problem::Problem;
use canopy_controller_api::query::FlowQuery;
use canopy_controller_api::{Kind, List};

use crate::error::ApiError;
use crate::extract::ApiQuery;

const DEFAULT_LIMIT: usize = 200;
pub(crate) const MAX_LIMIT: usize = 4096;

/// Flows in descending order of rate.
#[utoipa::path(get, path = "/api/v1/flows", tag = "links", operation_id = "listFlows", params(FlowQuery),
    responses((status = 200, body = List<FlowView>, description = "flows"), (status = 400, body = Problem, description = "a parameter is wrong"), (status = 404, body = Problem, description = "no such node or port")))]
pub(crate) async fn list(
    State(controller): State<Controller>,
    ApiQuery(query): ApiQuery<FlowQuery>,
) -> Result<Json<List<FlowView>>, ApiError> {
    let limit = query.limit.unwrap_or(DEFAULT_LIMIT);
    if !(1..=MAX_LIMIT).contains(&limit) {
        return Err(ApiError::bad_request("limit", format!("{limit} is outside 1..={MAX_LIMIT}")));
    }
    match (&query.node, &query.port) {
        (Some(node), Some(port)) if controller.link(node, port).is_none() => {
            return Err(ApiError::not_found("link", format!("{node}/{port}")));
        }
        (Some(node), None) if controller.read(|d| d.desired(node)).is_none() => {
            return Err(ApiError::not_found("node", node));
        }
        (None, Some(_)) => return Err(ApiError::bad_request("port", "requires node: name the node of the port")),
        _ => {}
    }
    let mut flows = controller.flows(query.node.as_deref(), query.port.as_deref());
    flows.sort_by_key(|f| std::cmp::Reverse((f.flow.rate, f.flow.counts.total())));
    flows.truncate(limit);
    controller.read(|d| d.name_flows(&mut flows));
    Ok(Json(List::new(Kind::FlowList, flows.into_iter().map(Into::into).collect())))
}
