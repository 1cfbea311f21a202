// SPDX-License-Identifier: Apache-2.0
//! `/api/v1/sign-in-codes` and `/api/v1/sign-in`: the way of a browser into the API.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Extension, State};
use axum::http::header::{CACHE_CONTROL, RETRY_AFTER, SET_COOKIE, WWW_AUTHENTICATE};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{AppendHeaders, IntoResponse, Response};
use canopy_controller_access::Identity;
use canopy_controller_actor::{Controller, Target};
use canopy_controller_api::problem::Problem;
use canopy_controller_api::sign_in::{Credential, Session, SessionItem, SignIn, SignInCode};
use canopy_controller_api::{Kind, List};
use canopy_controller_core::audit::{Action, IntentKind};
use canopy_controller_core::role::Role;
use canopy_model::FieldError;
use serde_json::Value;

use crate::caller::{Caller, Sender};
use crate::conditions::Conditions;
use crate::error::ApiError;
use crate::extract::{ApiJson, ApiPath};
use crate::request;
use crate::sessions::{
    Begun, CODE_LENGTH, Refused, SESSION_LASTS, Sessions, Shown, has_secret, refuse_browsers, through, unauthorized,
};
use crate::single_sign_on::SingleSignOn;
use crate::site::{At, Cookie};

/// Makes a code with which a browser signs in once, within a minute, for the sender of this request. Of more than 16 the oldest are
/// dropped.
#[utoipa::path(post, path = "/api/v1/sign-in-codes", tag = "sign-in", operation_id = "createSignInCode",
    responses((status = 201, body = SignInCode, description = "made"), (status = 403, body = Problem, description = "sent by a browser, or in a session of one")))]
pub(crate) async fn create_code(
    Extension(sessions): Extension<Sessions>,
    Sender(by): Sender,
    origin: Caller,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    refuse_browsers(&headers, &by, "a browser and a session make no codes: use `canopyctl ui`")?;
    let made = sessions.make_code(by, origin)?;
    Ok((StatusCode::CREATED, [(CACHE_CONTROL, "no-store")], Json(made)).into_response())
}

/// Exchanges a code for a session: for its bearer, or, at the addresses for browsers on other machines, for a cookie. The answer to a wrong code
/// is the same whether there ever was such a code.
#[utoipa::path(post, path = "/api/v1/sign-in", tag = "sign-in", operation_id = "signIn", request_body = SignIn,
    responses((status = 200, body = Session, description = "the session"), (status = 401, body = Problem, description = "the code is wrong, used or too old"),
        (status = 429, body = Problem, description = "too many wrong codes")))]
pub(crate) async fn sign_in(
    State(controller): State<Controller>,
    Extension(sessions): Extension<Sessions>,
    Extension(single): Extension<Option<Arc<SingleSignOn>>>,
    site: Option<Extension<At>>,
    headers: HeaderMap,
    ApiJson(body): ApiJson<Value>,
) -> Result<Response, ApiError> {
    let shown = if site.is_some() { Shown::Cookie } else { Shown::Bearer(through(&headers)) };
    Ok(match sessions.exchange(&code(body)?, shown)? {
        Ok(begun) => {
            if site.is_some() {
                // Where people sign in by an identity provider, a code is the way past it.
                let kind = if single.is_some() { "break-glass-session" } else { "session" };
                begin_audited(&controller, kind, &begun).await;
            }
            answer(begun)
        }
        Err(Refused::NotValid) => {
            let detail = "this code does not work, or not any more: it is for one sign-in within a minute, `canopyctl ui` makes another";
            let error = ApiError::new(StatusCode::UNAUTHORIZED, "CodeNotValid", detail);
            ([(WWW_AUTHENTICATE, "Bearer")], error).into_response()
        }
        Err(Refused::Later(wait)) => {
            let seconds = wait.as_secs() + 1;
            let detail = format!("too many wrong codes were sent: try again in {seconds} s");
            let error = ApiError::new(StatusCode::TOO_MANY_REQUESTS, "TooManyCodes", detail);
            ([(RETRY_AFTER, seconds.to_string())], error).into_response()
        }
    })
}

/// Ends the session of the bearer or cookie that is sent.
#[utoipa::path(delete, path = "/api/v1/sign-in", tag = "sign-in", operation_id = "signOut",
    responses((status = 204, description = "ended"), (status = 401, body = Problem, description = "no bearer or cookie, or its session has ended")))]
pub(crate) async fn sign_out(
    Extension(sessions): Extension<Sessions>,
    site: Option<Extension<At>>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    if !has_secret(&headers, site.is_some()) {
        return Ok(unauthorized("only a session can be ended, by its bearer or cookie"));
    }
    sessions.end(&headers, site.is_some())?;
    let clear = AppendHeaders(site.map(|_| (SET_COOKIE, Cookie::Session.clear())));
    Ok((StatusCode::NO_CONTENT, clear).into_response())
}

/// Your sessions of the web UI, the oldest first; the list of an administrator of the domain has those of all.
#[utoipa::path(get, path = "/api/v1/sessions", tag = "sign-in", operation_id = "listSessions",
    responses((status = 200, body = List<SessionItem>, description = "the sessions")))]
pub(crate) async fn list(Extension(sessions): Extension<Sessions>, Sender(by): Sender) -> Response {
    let all = sessions.list().await.into_iter().filter(|session| has_power_over(&by, &session.by));
    let items = all.map(|session| SessionItem {
        id: session.id,
        by: session.by.principal.into(),
        role: session.by.role,
        tenants: session.by.tenants,
        is_cookie: session.is_cookie,
        age_seconds: session.age.as_secs(),
        unused_seconds: session.unused.as_secs(),
        expires_in_seconds: session.left.as_secs(),
    });
    let list = List::new(Kind::SessionList, items.collect());
    ([(CACHE_CONTROL, "no-store")], Json(list)).into_response()
}

/// Ends a session of the web UI at once, with the streams that it has open: yours, or any as an administrator of the domain.
#[utoipa::path(delete, path = "/api/v1/sessions/{session}", tag = "sign-in", operation_id = "revokeSession", params(("session" = u64, Path, description = "its id in the list")),
    responses((status = 204, description = "ended"), (status = 400, body = Problem, description = "a dry run, or a condition"), (status = 404, body = Problem, description = "you have no such session")))]
pub(crate) async fn revoke(
    State(controller): State<Controller>,
    Extension(sessions): Extension<Sessions>,
    Sender(by): Sender,
    conditions: Conditions,
    ApiPath(id): ApiPath<u64>,
) -> Result<StatusCode, ApiError> {
    conditions.unconditional()?;
    let all = sessions.list().await;
    if !all.iter().any(|session| session.id == id && has_power_over(&by, &session.by)) {
        return Err(ApiError::not_found("session", id.to_string()));
    }
    sessions.end_by_id(id);
    let target = Target { kind: IntentKind::Identity, name: format!("session/{id}") };
    if let Err(error) = controller.audited(target, Action::Revoke, by.principal.clone(), request::current()).await {
        // A session that has leaked is ended also while the disk is full.
        tracing::error!(session = id, by = %by.principal, ?error, "the audit does not have that this session was ended");
    }
    Ok(StatusCode::NO_CONTENT)
}

/// Whether a session is the caller's own, or the caller is an administrator of the domain.
fn has_power_over(by: &Identity, session: &Identity) -> bool {
    by.role == Some(Role::Admin) || by.principal.is_same(&session.principal)
}

/// Notes in the audit that a session has begun. It begins also while the disk is full.
pub(super) async fn begin_audited(controller: &Controller, kind: &str, begun: &Begun) {
    let (id, by) = (begun.id, begun.by.principal.clone());
    let target = Target { kind: IntentKind::Identity, name: format!("{kind}/{id}") };
    if let Err(error) = controller.audited(target, Action::Create, by.clone(), request::current()).await {
        tracing::error!(session = id, %by, ?error, "the audit does not have that this session has begun");
    }
}

/// The answer to a sign-in. A bearer is in it, a cookie is not.
pub(super) fn answer(begun: Begun) -> Response {
    let Begun { by: Identity { principal, role, tenants, .. }, secret, shown, .. } = begun;
    let (bearer, cookie) = match shown {
        Shown::Bearer(_) => (Some(secret), None),
        Shown::Cookie => (None, Some(Cookie::Session.set(&secret.0, None))),
    };
    let session = Session { bearer, expires_in_seconds: SESSION_LASTS.as_secs(), by: principal.into(), role, tenants };
    let cookie = AppendHeaders(cookie.map(|cookie| (SET_COOKIE, cookie)));
    ([(CACHE_CONTROL, "no-store")], cookie, Json(session)).into_response()
}

/// The code in a body. A refusal does not repeat what was sent: it may be a code in the wrong place.
fn code(body: Value) -> Result<Credential, ApiError> {
    let is_code = |code: &Credential| {
        code.0.len() == CODE_LENGTH && code.0.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'))
    };
    // A list would be read as the fields in their order.
    let sent = body.is_object().then(|| serde_json::from_value::<SignIn>(body).ok()).flatten();
    let sent = sent.map(|sign_in| sign_in.code).filter(is_code);
    sent.ok_or_else(|| {
        let detail =
            format!("send it alone, {CODE_LENGTH} characters of base64url as `canopyctl ui --print` has them behind #");
        ApiError::invalid(FieldError::new("code", detail))
    })
}
