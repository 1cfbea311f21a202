// SPDX-License-Identifier: Apache-2.0
//! `/api/v1/map`: where nodes stand; `/api/v1/map/layers/{layer}`: what is drawn over it.

use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CACHE_CONTROL;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use canopy_controller_actor::Controller;
use canopy_controller_api::map::{Map, MapLayer};
use canopy_controller_api::problem::Problem;
use canopy_controller_api::query::LayerQuery;
use canopy_controller_core::map::Layer;

use crate::error::ApiError;
use crate::extract::{ApiPath, ApiQuery};
use crate::watch::Watches;

/// Name of the one topology.
const TOPOLOGY: &str = "default";

fn undeclared() -> ApiError {
    ApiError::not_found("topology", TOPOLOGY)
}

/// Nodes, hosts and links with their places: less than the topology, and the same until `version` changes.
#[utoipa::path(get, path = "/api/v1/map", tag = "map", operation_id = "getMap",
    responses((status = 200, body = Map, description = "the map"), (status = 404, body = Problem, description = "no topology is declared")))]
pub(crate) async fn get(State(controller): State<Controller>) -> Result<Response, ApiError> {
    let map = controller.read(|d| d.map()).ok_or_else(undeclared)?;
    Ok(([(CACHE_CONTROL, "no-store")], Json(Map::from(map))).into_response())
}

/// One octet per link direction or node, at most a second old; with `since` only what changed.
#[utoipa::path(get, path = "/api/v1/map/layers/{layer}", tag = "map", operation_id = "getMapLayer", params(("layer" = String, Path), LayerQuery),
    responses((status = 200, body = MapLayer, description = "the layer"), (status = 400, body = Problem, description = "`since` is no revision"), (status = 404, body = Problem, description = "no such layer, or no topology is declared")))]
pub(crate) async fn layer(
    State(controller): State<Controller>,
    Extension(watches): Extension<Watches>,
    ApiPath(layer): ApiPath<String>,
    ApiQuery(query): ApiQuery<LayerQuery>,
) -> Result<Response, ApiError> {
    let layer: Layer = layer.parse().map_err(|()| {
        let all = Layer::ALL.map(Layer::name).join(", ");
        ApiError::new(StatusCode::NOT_FOUND, "NotFound", format!("there is no layer {layer:?}: use one of {all}"))
    })?;
    let answer = watches.layers().read(&controller, layer, query.since.as_deref()).await?.ok_or_else(undeclared)?;
    Ok(([(CACHE_CONTROL, "no-store")], Json(answer)).into_response())
}
