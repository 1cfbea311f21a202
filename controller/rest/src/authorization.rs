// SPDX-License-Identifier: Apache-2.0
//! Which role each request needs: the only place of the northbound API that decides it.
//!
//! What is not named here needs a viewer to read and an operator to write. Files of the web UI are not behind it: they show nothing of the
//! domain.

use axum::body::Body;
use axum::extract::{MatchedPath, Request};
use axum::http::header::WWW_AUTHENTICATE;
use axum::http::{Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use canopy_controller_access::Identity;
use canopy_controller_core::role::Role;
use http_body_util::Limited;

use crate::caller::Caller;
use crate::error::ApiError;

/// Needs no role: probes, the description of the API, and the way in.
const OPEN: [(&str, &str); 6] = [
    ("GET", "/livez"),
    ("GET", "/readyz"),
    ("GET", "/version"),
    ("GET", "/api/v1/openapi.json"),
    ("POST", "/api/v1/sign-in"),
    ("DELETE", "/api/v1/sign-in"),
];

/// Largest body of what needs no role, octets.
const OPEN_BODY: usize = 1024;

/// What needs another role than its method has it.
const OTHERS: [(&str, &str, Role); 12] = [
    ("GET", "/metrics", Role::Metrics),
    ("GET", "/api/v1/prometheus/targets", Role::Metrics),
    ("GET", "/api/v1/caller", Role::Metrics),
    ("POST", "/api/v1/validate", Role::Viewer),
    ("POST", "/api/v1/sign-in-codes", Role::Viewer),
    ("PUT", "/api/v1/topology", Role::Admin),
    ("DELETE", "/api/v1/topology", Role::Admin),
    ("POST", "/api/v1/hmac/rotate", Role::Admin),
    ("POST", "/api/v1/enrollments", Role::Admin),
    ("POST", "/api/v1/revocations", Role::Admin),
    ("POST", "/api/v1/nodes/{node}/retire", Role::Admin),
    ("DELETE", "/api/v1/nodes/{node}/retire", Role::Admin),
];

/// The lowest role that a request needs; `None`: it needs none. `path` is the route's, with its parameters in braces.
pub(crate) fn needed(method: &Method, path: &str, query: Option<&str>) -> Option<Role> {
    let method = if method == Method::HEAD { &Method::GET } else { method };
    // The names of checks that fail show the domain.
    let is_verbose = path == "/readyz" && query.is_some_and(|query| !query.is_empty());
    if OPEN.contains(&(method.as_str(), path)) && !is_verbose {
        return None;
    }
    let other = OTHERS.iter().find(|(m, p, _)| (*m, *p) == (method.as_str(), path));
    Some(match other {
        Some((.., role)) => *role,
        None if method == Method::GET => Role::Viewer,
        None => Role::Operator,
    })
}

/// Answers 401 to a caller without a role and 403 to one whose role is not enough, before anything else is read of the request.
pub(crate) async fn authorize(request: Request, next: Next) -> Response {
    let path = request.extensions().get::<MatchedPath>().map_or_else(String::new, |path| path.as_str().to_owned());
    let role = needed(request.method(), &path, request.uri().query());
    if let Some(needed) = role {
        let identity = Caller::of(request.extensions()).await;
        if identity.role.is_none_or(|role| role < needed) {
            return refuse(&identity, needed);
        }
    }
    // Strangers make it read no more than a code has.
    let request = if role.is_none() { request.map(|body| Body::new(Limited::new(body, OPEN_BODY))) } else { request };
    next.run(request).await
}

fn refuse(Identity { principal, role, .. }: &Identity, needed: Role) -> Response {
    match role {
        None => {
            let detail = format!(
                "{principal} has no role on this controller: an administrator adds the user to a group of authorization.unix (canopy-view, canopy or canopy-admin), or gives you a token, which is sent as `Authorization: Bearer` (canopyctl: CANOPY_TOKEN_FILE)"
            );
            let error = ApiError::new(StatusCode::UNAUTHORIZED, "Unauthenticated", detail);
            ([(WWW_AUTHENTICATE, "Bearer")], error).into_response()
        }
        Some(role) => {
            let detail = format!("{principal} has the role {role}, and this needs {needed}: ask an administrator");
            ApiError::new(StatusCode::FORBIDDEN, "RoleNeeded", detail).into_response()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Catches an entry for a route that there is not, which would protect nothing.
    #[test]
    fn every_entry_is_a_route() {
        let document = crate::openapi::openapi();
        let is_route = |method: &str, path: &str| {
            document["paths"][path].get(method.to_ascii_lowercase()).is_some() || path == "/api/v1/openapi.json"
        };
        for (method, path) in OPEN {
            assert!(is_route(method, path), "{method} {path}");
        }
        for (method, path, _) in OTHERS {
            assert!(is_route(method, path), "{method} {path}");
            assert!(!OPEN.contains(&(method, path)));
        }
    }

    #[test]
    fn what_is_not_named_needs_a_viewer_to_read_and_an_operator_to_write() {
        assert_eq!(needed(&Method::GET, "/api/v1/anything", None), Some(Role::Viewer));
        assert_eq!(needed(&Method::HEAD, "/metrics", None), Some(Role::Metrics));
        assert_eq!(needed(&Method::PATCH, "/api/v1/anything", None), Some(Role::Operator));
        assert_eq!(needed(&Method::POST, "/livez", None), Some(Role::Operator));
        assert_eq!(needed(&Method::GET, "/readyz", None), None);
        assert_eq!(needed(&Method::GET, "/readyz", Some("verbose")), Some(Role::Viewer));
        assert_eq!(needed(&Method::GET, "", None), Some(Role::Viewer));
    }
}
