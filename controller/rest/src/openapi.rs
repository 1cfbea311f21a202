// SPDX-License-Identifier: Apache-2.0
//! The API's description, generated from the code that serves it. `openapi.json` next to `src` is the checked-in copy.

use std::sync::LazyLock;

use axum::Json;
use utoipa::OpenApi;

use crate::router::described;

#[derive(OpenApi)]
#[openapi(info(
    title = "Canopy",
    description = "RDMA multicast over SRv6: topology, groups and members. Errors are problem documents (RFC 9457) with a stable `code`."
))]
struct Header;

/// The description before any route is registered.
pub(crate) fn header() -> utoipa::openapi::OpenApi {
    Header::openapi()
}

/// The OpenAPI 3.1 document.
pub fn openapi() -> utoipa::openapi::OpenApi {
    described().into_openapi()
}

pub(crate) async fn serve() -> Json<&'static utoipa::openapi::OpenApi> {
    static DOCUMENT: LazyLock<utoipa::openapi::OpenApi> = LazyLock::new(openapi);
    Json(&DOCUMENT)
}
