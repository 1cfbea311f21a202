// SPDX-License-Identifier: Apache-2.0
//! Refuses query parameters of requests that have none. Those that have some refuse others as they parse them.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use axum::extract::{MatchedPath, Request};
use axum::middleware::Next;
use axum::response::Response;

use super::document as description;
use crate::error::ApiError;

/// 400 for a parameter where the description has none. What is not below `/api/` is for probes and scrapers, which have parameters of their
/// own.
pub(crate) async fn refuse_unknown(request: Request, next: Next) -> Result<Response, ApiError> {
    let query = request.uri().query().unwrap_or_default();
    let path = request.extensions().get::<MatchedPath>().map_or("", MatchedPath::as_str);
    let method = request.method().as_str().to_ascii_lowercase();
    if !query.is_empty() && path.starts_with("/api/") && !WITH_SOME.contains(&(path.to_owned(), method)) {
        let name = query.split(['=', '&']).next().unwrap_or_default();
        return Err(ApiError::bad_request(name, "is not a parameter of this request, which has none"));
    }
    Ok(next.run(request).await)
}

/// Operations that have a query parameter. Conditions of a write are parsed where it is only checked that they are absent.
static WITH_SOME: LazyLock<BTreeSet<(String, String)>> = LazyLock::new(|| {
    let mut document = description().clone();
    let with_some = super::document::operations(&mut document).filter(|(path, _, operation)| {
        let parameters = operation.get("parameters").and_then(|all| all.as_array());
        parameters.is_some_and(|all| all.iter().any(|parameter| parameter["in"] == "query"))
            || UNCONDITIONAL.contains(&path.as_str())
    });
    with_some.map(|(path, method, _)| (path, method)).collect()
});

/// Writes that refuse `dryRun` with a reason of their own.
const UNCONDITIONAL: [&str; 13] = [
    "/api/v1/authority",
    "/api/v1/enrollments",
    "/api/v1/revocations",
    "/api/v1/tokens",
    "/api/v1/tokens/{token}",
    "/api/v1/tokens/{token}/rotate",
    "/api/v1/change-sets",
    "/api/v1/change-sets/{set}/undo",
    "/api/v1/commit",
    "/api/v1/commit/confirm",
    "/api/v1/commit/cancel",
    "/api/v1/commit/extend",
    "/api/v1/hmac/rotate",
];
