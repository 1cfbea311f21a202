// SPDX-License-Identifier: Apache-2.0
//! Which role each request needs, and whether a role in a tenant is enough: the only place of the northbound API that decides it.
//!
//! What is not named here needs a viewer to read and an operator to write, of the domain. Files of the web UI are not behind it: they show
//! nothing of the domain.
//!
//! For a caller whose role is one in a tenant, a group of another tenant is a group that there is not: the same answer, here, before anything
//! of the request is read; of a write with an `Idempotency-Key`, where it is prepared, because that may have been done and the group be gone. What names no group (lists, streams, a group that is created) has the caller's
//! [`Scope`](canopy_controller_core::tenant::Scope): what is read is filtered by it, and commands are checked against it where they are
//! prepared, in their order.

use axum::body::Body;
use axum::extract::{FromRequestParts, MatchedPath, RawPathParams, Request, State};
use axum::http::header::WWW_AUTHENTICATE;
use axum::http::{Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use canopy_controller_access::Identity;
use canopy_controller_actor::Controller;
use canopy_controller_core::role::Role;
use canopy_controller_core::uid::Uid;
use http_body_util::Limited;

use crate::caller::{Caller, Decided};
use crate::conditions::IDEMPOTENCY_KEY;
use crate::error::ApiError;
use crate::lasting;

/// Needs no role: probes, the description of the API, and the way in.
const OPEN: [(&str, &str); 9] = [
    ("GET", "/livez"),
    ("GET", "/readyz"),
    ("GET", "/version"),
    ("GET", "/api/v1/openapi.json"),
    ("GET", "/api/v1/sign-in"),
    ("POST", "/api/v1/sign-in"),
    ("POST", "/api/v1/single-sign-on"),
    ("POST", "/api/v1/single-sign-on/answer"),
    ("DELETE", "/api/v1/sign-in"),
];

/// Largest body of what needs no role, octets; that of an answer of an identity provider has a code of the provider's length.
const OPEN_BODY: usize = 1024;
/// See [`OPEN_BODY`].
const ANSWER_BODY: (&str, usize) = ("/api/v1/single-sign-on/answer", 8 << 10);

/// What needs another role than its method has it.
const OTHERS: [(&str, &str, Role); 14] = [
    ("GET", "/metrics", Role::Metrics),
    ("GET", "/api/v1/prometheus/targets", Role::Metrics),
    ("GET", "/api/v1/caller", Role::Metrics),
    ("POST", "/api/v1/validate", Role::Viewer),
    ("POST", "/api/v1/sign-in-codes", Role::Viewer),
    ("DELETE", "/api/v1/sessions/{session}", Role::Viewer),
    ("PUT", "/api/v1/topology", Role::Admin),
    ("DELETE", "/api/v1/topology", Role::Admin),
    ("POST", "/api/v1/hmac/rotate", Role::Admin),
    ("POST", "/api/v1/authority", Role::Admin),
    ("POST", "/api/v1/enrollments", Role::Admin),
    ("POST", "/api/v1/revocations", Role::Admin),
    ("POST", "/api/v1/nodes/{node}/retire", Role::Admin),
    ("DELETE", "/api/v1/nodes/{node}/retire", Role::Admin),
];

/// How far a role in a tenant goes in an operation. What is not named here is the domain's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reach {
    /// What it shows or changes is filtered by the caller's scope.
    Scoped,
    /// It is about the group in its path, which is one of the tenant.
    Group,
}

/// A packet is captured by a write that reads.
const CAPTURES: &str = "/api/v1/groups/{group}/captures";

const OF_TENANTS: [(&str, &str, Reach); 40] = [
    ("GET", "/api/v1/caller", Reach::Scoped),
    ("POST", "/api/v1/sign-in-codes", Reach::Scoped),
    ("GET", "/api/v1/sessions", Reach::Scoped),
    ("DELETE", "/api/v1/sessions/{session}", Reach::Scoped),
    ("GET", "/api/v1/problem-codes", Reach::Scoped),
    ("GET", "/api/v1/tokens", Reach::Scoped),
    ("POST", "/api/v1/tokens", Reach::Scoped),
    ("POST", "/api/v1/tokens/{token}/rotate", Reach::Scoped),
    ("DELETE", "/api/v1/tokens/{token}", Reach::Scoped),
    ("GET", "/api/v1/audit", Reach::Scoped),
    ("GET", "/api/v1/change-sets", Reach::Scoped),
    ("POST", "/api/v1/change-sets", Reach::Scoped),
    ("GET", "/api/v1/change-sets/{set}", Reach::Scoped),
    ("POST", "/api/v1/change-sets/{set}/undo", Reach::Scoped),
    ("GET", "/api/v1/charts", Reach::Scoped),
    ("GET", "/api/v1/events", Reach::Scoped),
    ("GET", "/api/v1/problems", Reach::Scoped),
    ("GET", "/api/v1/problems/{id}", Reach::Scoped),
    ("GET", "/api/v1/versions", Reach::Scoped),
    ("GET", "/api/v1/watch", Reach::Scoped),
    ("GET", "/api/v1/groups", Reach::Scoped),
    ("POST", "/api/v1/groups", Reach::Scoped),
    ("PUT", "/api/v1/groups/{group}", Reach::Scoped),
    ("GET", "/api/v1/groups/{group}", Reach::Group),
    ("DELETE", "/api/v1/groups/{group}", Reach::Group),
    ("GET", "/api/v1/groups/{group}/captures", Reach::Group),
    ("POST", "/api/v1/groups/{group}/captures", Reach::Group),
    ("GET", "/api/v1/groups/{group}/captures/{capture}", Reach::Group),
    ("GET", "/api/v1/groups/{group}/members", Reach::Group),
    ("POST", "/api/v1/groups/{group}/members", Reach::Group),
    ("GET", "/api/v1/groups/{group}/members/{host}", Reach::Group),
    ("PUT", "/api/v1/groups/{group}/members/{host}", Reach::Group),
    ("DELETE", "/api/v1/groups/{group}/members/{host}", Reach::Group),
    ("GET", "/api/v1/groups/{group}/packet", Reach::Group),
    ("GET", "/api/v1/groups/{group}/telemetry", Reach::Group),
    ("GET", "/api/v1/groups/{group}/waited-for", Reach::Group),
    ("GET", "/api/v1/groups/{group}/waited-for/strip", Reach::Group),
    ("POST", "/api/v1/validate", Reach::Scoped),
    ("GET", "/api/v1/tenants", Reach::Scoped),
    ("GET", "/metrics", Reach::Scoped),
];

/// The lowest role that a request needs; `None`: it needs none. `path` is the route's, with its parameters in braces.
pub(crate) fn needed(method: &Method, path: &str, query: Option<&str>) -> Option<Role> {
    let method = as_read(method);
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

/// How far a role in a tenant goes; `None`: the operation needs a role of the domain.
fn reach(method: &Method, path: &str) -> Option<Reach> {
    let method = as_read(method).as_str();
    OF_TENANTS.iter().find(|(m, p, _)| (*m, *p) == (method, path)).map(|(.., reach)| *reach)
}

/// Whether a role in a tenant is enough for an operation, as far as it goes.
pub(crate) fn is_of_tenants(method: &Method, path: &str) -> bool {
    reach(method, path).is_some()
}

/// A HEAD is a GET without the body.
fn as_read(method: &Method) -> &Method {
    if method == Method::HEAD { &Method::GET } else { method }
}

/// Answers 401 to a caller without a role and 403 to one whose role is not enough, before anything else is read of the request; 404 to one
/// with a role in a tenant, for a group that it has not. A stream ends when the caller's roles change.
pub(crate) async fn authorize(State(controller): State<Controller>, mut request: Request, next: Next) -> Response {
    let path = request.extensions().get::<MatchedPath>().map_or_else(String::new, |path| path.as_str().to_owned());
    let Some(needed) = needed(request.method(), &path, request.uri().query()) else {
        // Strangers make it read no more than a code has.
        let most = if path == ANSWER_BODY.0 { ANSWER_BODY.1 } else { OPEN_BODY };
        return next.run(request.map(|body| Body::new(Limited::new(body, most)))).await;
    };
    let caller = Caller::behind(request.extensions());
    let identity = caller.identity().await;
    request.extensions_mut().insert(Decided(identity.clone()));
    let response = match reach(request.method(), &path) {
        _ if identity.role >= Some(needed) => next.run(request).await,
        None => refuse(&identity, needed, true),
        Some(_) if identity.highest() < Some(needed) => refuse(&identity, needed, false),
        Some(Reach::Scoped) => next.run(request).await,
        Some(Reach::Group) => of_group(&controller, &identity, needed, request, next).await,
    };
    lasting::while_permitted(response, caller, identity)
}

/// A request about the group in its path, for a caller whose role for it is one in a tenant.
async fn of_group(
    controller: &Controller,
    identity: &Identity,
    needed: Role,
    request: Request,
    next: Next,
) -> Response {
    let (mut parts, body) = request.into_parts();
    let named = RawPathParams::from_request_parts(&mut parts, &())
        .await
        .ok()
        .and_then(|all| all.iter().find(|(parameter, _)| *parameter == "group").map(|(_, name)| name.to_owned()));
    let name = named.unwrap_or_default();
    let find = || controller.read(|d| d.declared_group(&name).map(|(m, _)| (m.tenant.clone(), m.uid)));
    let seen = |(tenant, _): &(String, Uid)| identity.role_in(tenant) >= Some(Role::Viewer);
    let is_capture = parts.extensions.get::<MatchedPath>().is_some_and(|path| path.as_str() == CAPTURES);
    let is_read = as_read(&parts.method) == Method::GET || is_capture;
    let Some(found) = find().filter(seen) else {
        // What was done and is sent again gets its answer, also if the group is gone by that; where it is prepared, the group is there or not.
        let is_again = !is_read && parts.headers.contains_key(IDEMPOTENCY_KEY);
        return if is_again { next.run(Request::from_parts(parts, body)).await } else { not_found(name) };
    };
    if identity.role_in(&found.0) < Some(needed) {
        return refuse(identity, needed, false);
    }
    let response = next.run(Request::from_parts(parts, body)).await;
    // What was read meanwhile may be of another group that has got this name. Commands are checked when they are prepared.
    if is_read && find() != Some(found) {
        return not_found(name);
    }
    response
}

fn not_found(group: String) -> Response {
    ApiError::not_found("group", group).into_response()
}

/// The refusal to a caller with roles in tenants alone of what is not theirs.
pub(crate) fn of_domain(what: &str) -> ApiError {
    let detail = format!(
        "{what}: this is of the whole domain, and your roles are in single tenants: ask an administrator of the domain"
    );
    ApiError::new(StatusCode::FORBIDDEN, "RoleNeeded", detail)
}

fn refuse(identity: &Identity, needed: Role, is_of_domain: bool) -> Response {
    let Identity { principal, role, tenants, .. } = identity;
    if identity.highest().is_none() {
        let detail = format!(
            "{principal} has no role on this controller: an administrator adds the user to a group of authorization.unix (canopy-view, canopy or canopy-admin), or gives you a token, which is sent as `Authorization: Bearer` (canopyctl: CANOPY_TOKEN_FILE)"
        );
        let error = ApiError::new(StatusCode::UNAUTHORIZED, "Unauthenticated", detail);
        return ([(WWW_AUTHENTICATE, "Bearer")], error).into_response();
    }
    let own = role.iter().map(|role| format!("the role {role}"));
    let own: Vec<String> =
        own.chain(tenants.iter().map(|(tenant, role)| format!("the role {role} in tenant {tenant}"))).collect();
    let place = if is_of_domain && !tenants.is_empty() { " in the whole domain" } else { "" };
    let detail = format!("{principal} has {}, and this needs {needed}{place}: ask an administrator", own.join(" and "));
    ApiError::new(StatusCode::FORBIDDEN, "RoleNeeded", detail).into_response()
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
        for (method, path, reach) in OF_TENANTS {
            assert!(is_route(method, path), "{method} {path}");
            assert!(reach != Reach::Group || path.contains("{group}"), "{method} {path}");
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
