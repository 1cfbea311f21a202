// SPDX-License-Identifier: Apache-2.0
//! `/api/v1/single-sign-on`: the way of a browser into the API by an identity provider, at the addresses for browsers on other machines.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Extension, State};
use axum::http::header::{CACHE_CONTROL, SET_COOKIE};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{AppendHeaders, IntoResponse, Response};
use canopy_controller_access::Identity;
use canopy_controller_actor::Controller;
use canopy_controller_api::problem::Problem;
use canopy_controller_api::sign_in::{ProviderAddress, ProviderAnswer, Session, SignInWays};
use canopy_controller_oidc::{Answer, Failure, Login, Person};
use canopy_model::FieldError;
use canopy_units::UnixTime;
use serde_json::Value;

use super::sign_in::{answer, begin_audited};
use crate::caller::Caller;
use crate::error::ApiError;
use crate::extract::ApiJson;
use crate::sessions::Sessions;
use crate::single_sign_on::SingleSignOn;
use crate::site::{At, Cookie};

/// The page of the web UI that the provider sends the browser back to.
const SIGNED_IN: &str = "/signed-in";
/// Seconds that a person has for signing in at the provider.
const LASTS: u64 = 600;
/// Longest part of an answer, characters.
pub(crate) const MAX_PART: usize = 2048;

/// How a browser signs in here besides with a code.
#[utoipa::path(get, path = "/api/v1/sign-in", tag = "sign-in", operation_id = "getSignInWays",
    responses((status = 200, body = SignInWays, description = "the ways")))]
pub(crate) async fn ways(
    Extension(single): Extension<Option<Arc<SingleSignOn>>>,
    site: Option<Extension<At>>,
) -> Json<SignInWays> {
    let single = single.filter(|_| site.is_some());
    Json(SignInWays { single_sign_on: single.map(|single| single.provider.issuer().to_owned()) })
}

/// Begins a sign-in: the answer has the address at the identity provider that the browser has to open, and sets a cookie for what comes back.
#[utoipa::path(post, path = "/api/v1/single-sign-on", tag = "sign-in", operation_id = "beginSingleSignOn",
    responses((status = 200, body = ProviderAddress, description = "where to go"), (status = 404, body = Problem, description = "this address has no single sign-on")))]
pub(crate) async fn begin(
    Extension(single): Extension<Option<Arc<SingleSignOn>>>,
    site: Option<Extension<At>>,
) -> Result<Response, ApiError> {
    let (single, At(origin)) = here(single, site)?;
    let login = Login::draw().map_err(|error| {
        let detail = format!("the operating system gives no random numbers: {error}");
        ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "RandomFailed", detail)
    })?;
    let address = single.provider.begin(&login, &format!("{origin}{SIGNED_IN}")).await.map_err(refused)?;
    let cookie = AppendHeaders([(SET_COOKIE, Cookie::SignIn.set(login.reveal(), Some(LASTS)))]);
    Ok(([(CACHE_CONTROL, "no-store")], cookie, Json(ProviderAddress { address })).into_response())
}

/// Ends a sign-in with what the identity provider has sent through the browser, and begins a session with a cookie.
#[utoipa::path(post, path = "/api/v1/single-sign-on/answer", tag = "sign-in", operation_id = "endSingleSignOn", request_body = ProviderAnswer,
    responses((status = 200, body = Session, description = "the session"), (status = 401, body = Problem, description = "the answer is of no use: begin again"),
        (status = 403, body = Problem, description = "no group of this person has a role"), (status = 404, body = Problem, description = "this address has no single sign-on")))]
pub(crate) async fn end(
    State(controller): State<Controller>,
    Extension(single): Extension<Option<Arc<SingleSignOn>>>,
    Extension(sessions): Extension<Sessions>,
    site: Option<Extension<At>>,
    headers: HeaderMap,
    ApiJson(body): ApiJson<Value>,
) -> Result<Response, ApiError> {
    let (single, At(origin)) = here(single, site)?;
    let login = Cookie::SignIn.of(&headers)?.and_then(Login::of).ok_or_else(|| refused(Failure::NotBegun))?;
    let sent = sent(body)?;
    let ended = single.provider.end(&login, &format!("{origin}{SIGNED_IN}"), &sent, UnixTime::now()).await;
    let person = ended.map_err(|failure| {
        tracing::warn!(%failure, "a sign-in by the identity provider was refused");
        refused(failure)
    })?;
    let issuer = single.provider.issuer().to_owned();
    let begun = sessions.begin(origin_of(single, person)).await?.map_err(|by| no_group(&by, &issuer))?;
    begin_audited(&controller, "session", &begun).await;
    // Its cookie is of no use any more: the provider exchanges a code once.
    let clear = AppendHeaders([(SET_COOKIE, Cookie::SignIn.clear())]);
    Ok((clear, answer(begun)).into_response())
}

/// What the provider has sent. A refusal does not repeat it: it may be a code in the wrong place.
fn sent(body: Value) -> Result<Answer, ApiError> {
    // A list would be read as the fields in their order.
    let sent = body.is_object().then(|| serde_json::from_value::<ProviderAnswer>(body).ok()).flatten();
    let sent = sent.map(|ProviderAnswer { code, state, issuer }| Answer { code: code.0, state: state.0, issuer });
    sent.ok_or_else(|| {
        let detail = "send code and state as the identity provider has sent them, and its iss as issuer";
        ApiError::invalid(FieldError::new("code", detail))
    })
}

/// What a person may do, by the groups that the provider named at the sign-in and the roles that these groups have now.
fn origin_of(single: Arc<SingleSignOn>, Person { name, groups }: Person) -> Caller {
    Caller::credential(move || std::future::ready(single.roles.get().identity(&name, &groups)))
}

fn here(single: Option<Arc<SingleSignOn>>, site: Option<Extension<At>>) -> Result<(Arc<SingleSignOn>, At), ApiError> {
    single.zip(site.map(|Extension(at)| at)).ok_or_else(|| {
        let detail = "this address has no single sign-on: [oidc] of the controller's configuration names a provider, and web.listen addresses that have it";
        ApiError::new(StatusCode::NOT_FOUND, "NoSingleSignOn", detail)
    })
}

fn no_group(by: &Identity, issuer: &str) -> ApiError {
    tracing::warn!(by = %by.principal, "a sign-in by the identity provider was refused: no group of this person has a role");
    let detail = format!(
        "{issuer} knows you as {}, and none of your groups has a role on this controller: ask its administrator to give one of them a role ([oidc.roles] or [oidc.tenants]), or to put you into a group that has one",
        by.principal.name
    );
    ApiError::new(StatusCode::FORBIDDEN, "NoGroup", detail)
}

fn refused(failure: Failure) -> ApiError {
    let detail = failure.to_string();
    match failure {
        Failure::Unavailable { .. } => {
            let then = "sessions that there are continue; on the controller's machine, `canopyctl ui --print` signs you in without it";
            ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "ProviderUnavailable", format!("{detail}. {then}"))
        }
        Failure::Busy => ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "Busy", detail).after(1),
        Failure::NotBegun | Failure::OtherIssuer(_) | Failure::Refused { .. } | Failure::Token { .. } => {
            ApiError::new(StatusCode::UNAUTHORIZED, "SignInRefused", detail)
        }
    }
}
