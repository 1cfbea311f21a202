// SPDX-License-Identifier: Apache-2.0
//! The API's description, generated from the code that serves it. `openapi.json` next to `src` is the checked-in copy.

use axum::Json;
use utoipa::OpenApi;

use crate::{health, metrics, routes};

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Canopy",
        description = "RDMA multicast over SRv6: topology, groups and members. Errors are problem documents (RFC 9457) with a stable `code`."
    ),
    paths(
        routes::topology::get,
        routes::topology::put,
        routes::topology::delete,
        routes::links::list,
        routes::links::get,
        routes::flows::list,
        routes::nodes::list,
        routes::nodes::get,
        routes::telemetry::node,
        routes::groups::list,
        routes::groups::create,
        routes::groups::get,
        routes::groups::put,
        routes::groups::delete,
        routes::members::list,
        routes::members::create,
        routes::members::get,
        routes::members::put,
        routes::members::delete,
        routes::telemetry::group,
        routes::events::list,
        routes::validate::validate,
        health::livez,
        health::readyz,
        health::version,
        metrics::serve,
    )
)]
struct Description;

/// The OpenAPI 3.1 document.
pub fn openapi() -> utoipa::openapi::OpenApi {
    Description::openapi()
}

pub(crate) async fn serve() -> Json<utoipa::openapi::OpenApi> {
    Json(openapi())
}
