// SPDX-License-Identifier: Apache-2.0
//! Counters and aggregation state: `/api/v1/groups/{group}/telemetry`, `/api/v1/nodes/{node}/telemetry`.

use axum::Json;
use axum::extract::State;
use canopy_controller_actor::Controller;
use canopy_controller_api::problem::Problem;
use canopy_controller_api::telemetry::{GroupSample, NodeSample};
use canopy_controller_api::{ApiVersion, Kind, List};

use crate::error::ApiError;
use crate::extract::ApiPath;

/// The last counters of a group at every node.
#[utoipa::path(get, path = "/api/v1/groups/{group}/telemetry", tag = "groups", operation_id = "getGroupTelemetry", params(("group" = String, Path)),
    responses((status = 200, body = List<GroupSample>, description = "per node"), (status = 404, body = Problem, description = "no such group")))]
pub(crate) async fn group(
    State(controller): State<Controller>,
    ApiPath(group): ApiPath<String>,
) -> Result<Json<List<GroupSample>>, ApiError> {
    let Some(id) = controller.read(|d| d.group(&group)).map(|g| g.status.group_id) else {
        return Err(ApiError::not_found("group", group));
    };
    let samples = controller.telemetry().group(id).into_iter();
    let items = samples
        .map(|(node, (time, counters))| GroupSample {
            node,
            group: group.clone(),
            time_unix_ns: time.nanos(),
            counters,
        })
        .collect();
    Ok(Json(List::new(Kind::GroupTelemetryList, items)))
}

/// The last counters of a node.
#[utoipa::path(get, path = "/api/v1/nodes/{node}/telemetry", tag = "nodes", operation_id = "getNodeTelemetry", params(("node" = String, Path)),
    responses((status = 200, body = NodeSample, description = "the node's counters"), (status = 404, body = Problem, description = "no such node")))]
pub(crate) async fn node(
    State(controller): State<Controller>,
    ApiPath(node): ApiPath<String>,
) -> Result<Json<NodeSample>, ApiError> {
    if controller.read(|d| d.desired(&node)).is_none() {
        return Err(ApiError::not_found("node", node));
    }
    let mut sample = NodeSample {
        api_version: ApiVersion,
        kind: Kind::NodeTelemetry,
        node: node.clone(),
        time_unix_ns: None,
        drops: vec![],
        groups: vec![],
    };
    if let Some(known) = controller.telemetry().node(&node) {
        sample.time_unix_ns = Some(known.time.nanos());
        sample.drops = known.drops;
        sample.groups = controller.read(|d| {
            let named =
                known.groups.into_iter().filter_map(|(id, counters)| Some((d.group_name(id)?.to_owned(), counters)));
            named
                .map(|(group, counters)| GroupSample {
                    node: node.clone(),
                    group,
                    time_unix_ns: known.time.nanos(),
                    counters,
                })
                .collect()
        });
    }
    Ok(Json(sample))
}
