// SPDX-License-Identifier: Apache-2.0
//! `/api/v1/tokens`: what programs and other machines send instead of being a user of this one. `/api/v1/caller`: who a caller is.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::{Extension, State};
use axum::http::header::CACHE_CONTROL;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use canopy_controller_access::{
    Identity, MAX_CERTIFICATE_LIFE, MAX_LIFE, MIN_LIFE, Token, TokenError, TokenRequest, TokenSecret, Tokens,
};
use canopy_controller_actor::{Controller, Target};
use canopy_controller_api::problem::Problem;
use canopy_controller_api::sign_in::Credential;
use canopy_controller_api::token::{CallerItem, NewToken, TokenInput, TokenItem};
use canopy_controller_api::{Kind, List};
use canopy_controller_authority::Registrar;
use canopy_controller_core::audit::{Action, IntentKind};
use canopy_controller_core::role::Role;
use canopy_identity::KeyHash;
use canopy_model::FieldError;
use canopy_units::UnixTime;

use crate::caller::Sender;
use crate::conditions::Conditions;
use crate::error::ApiError;
use crate::extract::{ApiJson, ApiPath};
use crate::request;
use crate::routes::identities::served;
use crate::sessions::{Sessions, refuse_browsers};

/// Seconds that a token can work.
pub(crate) const LIVES: RangeInclusive<u64> = MIN_LIFE.as_secs()..=MAX_LIFE.as_secs();
const DEFAULT: Duration = Duration::from_secs(30 * 24 * 3600);
/// Octets of a certificate request: one of the largest RSA key that is used, with some names, has a third of it.
pub(crate) const MAX_REQUEST: usize = 8 << 10;
/// A page must not be able to leave itself a way in, nor a token to outlive its revocation by one that it has made.
const FOR_USERS: &str = "tokens are made, rotated and revoked by users themselves, not from a browser nor with a token or a certificate: use `canopyctl token` and `canopyctl certificate` on the controller's machine, without CANOPY_TOKEN_FILE";

/// Who sends this request, as the controller sees it, and with which role.
#[utoipa::path(get, path = "/api/v1/caller", tag = "tokens", operation_id = "getCaller",
    responses((status = 200, body = CallerItem, description = "the caller")))]
pub(crate) async fn caller(Sender(Identity { principal, role, tenants, .. }): Sender) -> Json<CallerItem> {
    Json(CallerItem { principal: principal.into(), role, tenants })
}

/// Your tokens by name, without their secrets; an administrator's list has those of all.
#[utoipa::path(get, path = "/api/v1/tokens", tag = "tokens", operation_id = "listTokens",
    responses((status = 200, body = List<TokenItem>, description = "the tokens")))]
pub(crate) async fn list(Extension(tokens): Extension<Arc<Tokens>>, Sender(by): Sender) -> Response {
    let items = tokens.list(&by, UnixTime::now()).into_iter().map(item).collect();
    ([(CACHE_CONTROL, "no-store")], Json(List::new(Kind::TokenList, items))).into_response()
}

/// Makes a token with at most your role in the domain, or in the tenant that it is for: a secret, which the answer alone has, or a certificate for `certificateRequest`.
#[utoipa::path(post, path = "/api/v1/tokens", tag = "tokens", operation_id = "createToken", request_body = TokenInput,
    responses((status = 201, body = NewToken, description = "made"), (status = 400, body = Problem, description = "a dry run, or a condition"), (status = 403, body = Problem, description = "more than your role, or sent by a browser or with a bearer"), (status = 409, body = Problem, description = "the name is in use, or a certificate is wanted and no address is served over TLS"), (status = 422, body = Problem, description = "not valid"), (status = 429, body = Problem, description = "too many tokens")))]
pub(crate) async fn create(
    State(controller): State<Controller>,
    Extension(tokens): Extension<Arc<Tokens>>,
    Extension(registrar): Extension<Option<Arc<Registrar>>>,
    Sender(by): Sender,
    headers: HeaderMap,
    conditions: Conditions,
    ApiJson(TokenInput { name, tenant, role, for_seconds, certificate_request }): ApiJson<TokenInput>,
) -> Result<Response, ApiError> {
    conditions.unconditional()?;
    for_users(&headers, &by)?;
    let wanted = certificate_request.map(|text| Wanted::read(&text, registrar.clone())).transpose()?;
    let default = if wanted.is_some() { MAX_CERTIFICATE_LIFE } else { DEFAULT };
    let life = for_seconds.map_or(default, |seconds| Duration::from_secs(seconds.into()));
    let request = TokenRequest { name, tenant, role, life };
    makes_tokens(&by, request.tenant.as_deref())?;
    tokens.check(&request, wanted.as_ref().map(|wanted| wanted.key), &by, UnixTime::now()).map_err(refused)?;
    audited(&controller, &request.name, Action::Create, &by).await?;
    let made = match wanted {
        None => {
            let (secret, token) = on_disk(move || tokens.make(request, &by, UnixTime::now())).await?;
            shown(StatusCode::CREATED, token, Some(secret), None, registrar.as_deref())
        }
        Some(wanted) => {
            let now = UnixTime::now();
            // It is worth nothing until the token is there.
            let certificate = wanted.certify(&request.name, now + life, now)?;
            let token = on_disk(move || tokens.make_certificate(request, wanted.key, &by, now)).await?;
            shown(StatusCode::CREATED, token, None, Some(certificate), registrar.as_deref())
        }
    };
    Ok(made)
}

/// The certificate that a caller wants.
struct Wanted {
    registrar: Arc<Registrar>,
    /// In DER.
    request: Vec<u8>,
    key: KeyHash,
}

impl Wanted {
    fn read(text: &str, registrar: Option<Arc<Registrar>>) -> Result<Self, ApiError> {
        let registrar = served(registrar)?;
        let invalid = |why: String| ApiError::invalid(FieldError::new("certificateRequest", why));
        if text.len() > MAX_REQUEST {
            return Err(invalid(format!("has {} octets: at most {MAX_REQUEST}", text.len())));
        }
        let unreadable = |why: &dyn std::fmt::Display| {
            invalid(format!("not a certificate request in PEM, as `canopyctl certificate request` makes it: {why}"))
        };
        let request = canopy_identity::request_of_pem(text).map_err(|error| unreadable(&error))?;
        let key = canopy_identity::key_hash_of_request(&request).map_err(|error| unreadable(&error))?;
        Ok(Self { registrar, request, key })
    }

    /// The certificate, and the controller's authorities, in PEM.
    fn certify(&self, name: &str, until: UnixTime, now: UnixTime) -> Result<String, ApiError> {
        let made = self.registrar.certify_operator(name, &self.request, until, now);
        let made = made.map_err(|error| {
            ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "Internal", format!("cannot certify the key: {error}"))
        })?;
        let all = made.chain.into_iter().chain(made.authorities);
        Ok(all.map(|der| canopy_identity::to_pem(&der.into())).collect())
    }
}

/// Gives a token of yours another secret, and its whole life again. The answer alone has it; the secret before works for ten minutes more.
#[utoipa::path(post, path = "/api/v1/tokens/{token}/rotate", tag = "tokens", operation_id = "rotateToken", params(("token" = String, Path, description = "its name")),
    responses((status = 200, body = NewToken, description = "rotated"), (status = 400, body = Problem, description = "a dry run, or a condition"), (status = 403, body = Problem, description = "more than your role, another user's, or sent by a browser or with a bearer"), (status = 404, body = Problem, description = "you have no such token"), (status = 409, body = Problem, description = "it is a certificate")))]
pub(crate) async fn rotate(
    State(controller): State<Controller>,
    Extension(tokens): Extension<Arc<Tokens>>,
    Extension(registrar): Extension<Option<Arc<Registrar>>>,
    Sender(by): Sender,
    headers: HeaderMap,
    conditions: Conditions,
    ApiPath(name): ApiPath<String>,
) -> Result<Response, ApiError> {
    conditions.unconditional()?;
    for_users(&headers, &by)?;
    let token = tokens.rotatable(&name, &by, UnixTime::now()).map_err(refused)?;
    makes_tokens(&by, token.tenant.as_deref())?;
    audited(&controller, &name, Action::Rotate, &by).await?;
    let (secret, token) = on_disk(move || tokens.rotate(&name, &by, UnixTime::now())).await?;
    Ok(shown(StatusCode::OK, token, Some(secret), None, registrar.as_deref()))
}

/// Ends a token at once, and the sessions of the web UI that it began: yours, or any as an administrator. Streams that it has open end within 5 s.
#[utoipa::path(delete, path = "/api/v1/tokens/{token}", tag = "tokens", operation_id = "revokeToken", params(("token" = String, Path, description = "its name")),
    responses((status = 204, description = "it does not work any more"), (status = 400, body = Problem, description = "a dry run, or a condition"), (status = 403, body = Problem, description = "sent by a browser or with a bearer"), (status = 404, body = Problem, description = "you have no such token")))]
pub(crate) async fn revoke(
    State(controller): State<Controller>,
    Extension(tokens): Extension<Arc<Tokens>>,
    Extension(sessions): Extension<Sessions>,
    Sender(by): Sender,
    headers: HeaderMap,
    conditions: Conditions,
    ApiPath(name): ApiPath<String>,
) -> Result<StatusCode, ApiError> {
    conditions.unconditional()?;
    for_users(&headers, &by)?;
    tokens.find(&name, &by, UnixTime::now()).map_err(refused)?;
    if let Err(error) = audited(&controller, &name, Action::Revoke, &by).await {
        // A token that has leaked is revoked also while the disk is full.
        tracing::error!(token = name, by = %by.principal, ?error, "the audit does not have this revocation, which is carried out");
    }
    // Its sessions do not work any more either; they are kept no longer than it.
    sessions.end_of_token(&name);
    on_disk(move || tokens.revoke(&name, &by, UnixTime::now())).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Refuses who is no operator where the token is for: another role elsewhere gives no right to make tokens here.
fn makes_tokens(by: &Identity, tenant: Option<&str>) -> Result<(), ApiError> {
    if by.scope(Role::Operator).has_of(tenant) {
        return Ok(());
    }
    let place = tenant.map_or_else(|| "the whole domain".to_owned(), |tenant| format!("tenant {tenant}"));
    let detail = format!("a token for {place} is made by its operators and administrators: ask one of them");
    Err(ApiError::new(StatusCode::FORBIDDEN, "RoleNeeded", detail))
}

fn for_users(headers: &HeaderMap, by: &Identity) -> Result<(), ApiError> {
    if by.principal.token.is_some() {
        return Err(ApiError::new(StatusCode::FORBIDDEN, "NotForBrowsers", FOR_USERS));
    }
    refuse_browsers(headers, by, FOR_USERS)
}

async fn audited(controller: &Controller, name: &str, action: Action, by: &Identity) -> Result<(), ApiError> {
    let target = Target { kind: IntentKind::Identity, name: format!("token/{name}") };
    Ok(controller.audited(target, action, by.principal.clone(), request::current()).await?)
}

async fn on_disk<T: Send + 'static>(
    act: impl FnOnce() -> Result<T, TokenError> + Send + 'static,
) -> Result<T, ApiError> {
    let failed =
        |error: tokio::task::JoinError| ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "Internal", error.to_string());
    tokio::task::spawn_blocking(act).await.map_err(failed)?.map_err(refused)
}

fn shown(
    status: StatusCode,
    token: Token,
    secret: Option<TokenSecret>,
    certificate: Option<String>,
    registrar: Option<&Registrar>,
) -> Response {
    let shown = NewToken {
        token: secret.map(|secret| Credential(secret.reveal().to_owned())),
        certificate,
        name: token.name,
        tenant: token.tenant,
        role: token.role,
        expires_unix_ns: token.expires.nanos(),
        authority: registrar.map(|registrar| registrar.authority().to_string()),
    };
    (status, [(CACHE_CONTROL, "no-store")], Json(shown)).into_response()
}

fn item(token: Token) -> TokenItem {
    let Token { name, tenant, role, maker, created, expires, used, is_certificate } = token;
    TokenItem {
        name,
        tenant,
        role,
        maker: maker.into(),
        created_unix_ns: created.nanos(),
        expires_unix_ns: expires.nanos(),
        used_unix_ns: used.map(UnixTime::nanos),
        certificate: is_certificate,
    }
}

fn refused(error: TokenError) -> ApiError {
    let detail = error.to_string();
    match error {
        TokenError::Invalid { field, why } => ApiError::invalid(FieldError::new(field, why)),
        TokenError::NotYours(_) => ApiError::new(StatusCode::FORBIDDEN, "NotYours", detail),
        TokenError::AboveMaker { .. } => ApiError::new(StatusCode::FORBIDDEN, "RoleNeeded", detail),
        TokenError::Exists(_) => ApiError::new(StatusCode::CONFLICT, "AlreadyExists", detail),
        TokenError::Certificate(_) => ApiError::new(StatusCode::CONFLICT, "IsCertificate", detail),
        TokenError::NotFound(name) => ApiError::not_found("token", name),
        TokenError::TooMany => ApiError::new(StatusCode::TOO_MANY_REQUESTS, "TooManyTokens", detail),
        TokenError::Random(_) | TokenError::File(_) => {
            ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "Internal", detail)
        }
    }
}
