// SPDX-License-Identifier: Apache-2.0
//! The API's description, generated from the code that serves it. `openapi.json` next to `src` is the checked-in copy.
//!
//! The types have the structure; [`limits`] adds ranges and patterns from the constants of the checks, [`shapes`] what a kind of resource
//! may have, [`refusals`] the problems that each operation may answer, [`roles`] the
//! role that each needs.

mod document;
mod limits;
pub(crate) mod parameters;
mod refusals;
mod roles;
mod shapes;

use std::sync::LazyLock;

use axum::body::Bytes;
use axum::http::HeaderName;
use axum::http::header::CONTENT_TYPE;
use canopy_controller_actor::Controller;
use serde_json::Value;
use utoipa::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::routes::{
    authority, captures, change_sets, charts, commit, controllers, drains, events, flows, groups, history, hmac, hosts,
    identities, incidents, links, log_levels, map, members, nodes, paths, problems, retirements, sign_in, silences,
    single_sign_on, telemetry, tenants, tokens, topology, validate, waited,
};
use crate::{health, metrics, watch};

#[derive(OpenApi)]
#[openapi(info(
    title = "Canopy",
    description = "RDMA multicast over SRv6: topology, groups and members. Errors are problem documents (RFC 9457) with a stable `code`."
))]
struct Header;

/// Every route of the description. A route's path and method are those of its handler's attribute.
pub(crate) fn described() -> OpenApiRouter<Controller> {
    OpenApiRouter::with_openapi(Header::openapi())
        .routes(routes!(topology::get, topology::put, topology::delete))
        .routes(routes!(drains::list, drains::create))
        .routes(routes!(drains::get, drains::put, drains::delete))
        .routes(routes!(silences::list, silences::create))
        .routes(routes!(silences::get, silences::put, silences::delete))
        .routes(routes!(commit::get, commit::begin))
        .routes(routes!(commit::confirm))
        .routes(routes!(commit::cancel))
        .routes(routes!(commit::extend))
        .routes(routes!(change_sets::list, change_sets::create))
        .routes(routes!(change_sets::get))
        .routes(routes!(change_sets::undo))
        .routes(routes!(links::list))
        .routes(routes!(links::get))
        .routes(routes!(flows::list))
        .routes(routes!(map::get))
        .routes(routes!(map::layer))
        .routes(routes!(paths::list))
        .routes(routes!(paths::decode))
        .routes(routes!(nodes::list))
        .routes(routes!(nodes::get))
        .routes(routes!(retirements::retire, retirements::cancel))
        .routes(routes!(telemetry::node))
        .routes(routes!(hosts::list))
        .routes(routes!(hosts::get))
        .routes(routes!(groups::list, groups::create))
        .routes(routes!(groups::get, groups::put, groups::delete))
        .routes(routes!(members::list, members::create))
        .routes(routes!(members::get, members::put, members::delete))
        .routes(routes!(telemetry::group))
        .routes(routes!(waited::get))
        .routes(routes!(waited::strip))
        .routes(routes!(captures::list, captures::create))
        .routes(routes!(captures::expected))
        .routes(routes!(captures::get))
        .routes(routes!(hmac::get))
        .routes(routes!(hmac::rotate))
        .routes(routes!(authority::get, authority::replace))
        .routes(routes!(identities::enroll))
        .routes(routes!(identities::revocations, identities::revoke))
        .routes(routes!(tenants::list))
        .routes(routes!(tokens::caller))
        .routes(routes!(tokens::list, tokens::create))
        .routes(routes!(tokens::revoke))
        .routes(routes!(tokens::rotate))
        .routes(routes!(controllers::list))
        .routes(routes!(log_levels::list, log_levels::set))
        .routes(routes!(problems::status))
        .routes(routes!(problems::list))
        .routes(routes!(problems::get))
        .routes(routes!(problems::codes))
        .routes(routes!(incidents::list))
        .routes(routes!(incidents::get))
        .routes(routes!(charts::get))
        .routes(routes!(events::list))
        .routes(routes!(history::audit))
        .routes(routes!(history::versions))
        .routes(routes!(watch::topics))
        .routes(routes!(validate::validate))
        .routes(routes!(sign_in::create_code))
        .routes(routes!(single_sign_on::ways, sign_in::sign_in, sign_in::sign_out))
        .routes(routes!(single_sign_on::begin))
        .routes(routes!(single_sign_on::end))
        .routes(routes!(sign_in::list))
        .routes(routes!(sign_in::revoke))
        .routes(routes!(health::livez))
        .routes(routes!(health::readyz))
        .routes(routes!(health::version))
        .routes(routes!(metrics::serve))
        .routes(routes!(metrics::targets))
}

/// The OpenAPI 3.1 document. It is as strict as the server: what it permits is refused only for what the request refers to.
pub fn openapi() -> Value {
    // A description has string keys and no serialisation of its own that fails.
    let mut document = serde_json::to_value(described().into_openapi()).unwrap_or_default();
    limits::put(&mut document);
    shapes::put(&mut document);
    refusals::put(&mut document);
    roles::put(&mut document);
    document
}

/// The document, made once.
pub(crate) fn document() -> &'static Value {
    static DOCUMENT: LazyLock<Value> = LazyLock::new(openapi);
    &DOCUMENT
}

/// Its text is made once, too: everybody who reaches the address may ask for it.
pub(crate) async fn serve() -> ([(HeaderName, &'static str); 1], Bytes) {
    static TEXT: LazyLock<Bytes> = LazyLock::new(|| document().to_string().into());
    ([(CONTENT_TYPE, "application/json")], TEXT.clone())
}
