// SPDX-License-Identifier: Apache-2.0
//! `/api/v1/sign-in-codes` and `/api/v1/sign-in`: the way of a browser into the API.

use axum::Json;
use axum::extract::Extension;
use axum::http::header::{CACHE_CONTROL, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use canopy_controller_api::problem::Problem;
use canopy_controller_api::sign_in::{Credential, Session, SignIn, SignInCode};
use canopy_model::FieldError;
use serde_json::Value;

use crate::caller::Sender;
use crate::error::ApiError;
use crate::extract::ApiJson;
use crate::sessions::{CODE_LENGTH, Refused, Sessions, has_bearer, refuse_browsers, unauthorized};

/// Makes a code with which a browser signs in once, within a minute, for the sender of this request. Of more than 16 the oldest are
/// dropped.
#[utoipa::path(post, path = "/api/v1/sign-in-codes", tag = "sign-in", operation_id = "createSignInCode",
    responses((status = 201, body = SignInCode, description = "made"), (status = 403, body = Problem, description = "sent by a browser, or in a session of one")))]
pub(crate) async fn create_code(
    Extension(sessions): Extension<Sessions>,
    Sender(by): Sender,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    refuse_browsers(&headers, &by, "a browser and a session make no codes: use `canopyctl ui`")?;
    let made = sessions.make_code(by)?;
    Ok((StatusCode::CREATED, [(CACHE_CONTROL, "no-store")], Json(made)).into_response())
}

/// Exchanges a code for the bearer of a session. The answer to a wrong code is the same whether there ever was such a code.
#[utoipa::path(post, path = "/api/v1/sign-in", tag = "sign-in", operation_id = "signIn", request_body = SignIn,
    responses((status = 200, body = Session, description = "the session"), (status = 401, body = Problem, description = "the code is wrong, used or too old"),
        (status = 429, body = Problem, description = "too many wrong codes")))]
pub(crate) async fn sign_in(
    Extension(sessions): Extension<Sessions>,
    headers: HeaderMap,
    ApiJson(body): ApiJson<Value>,
) -> Result<Response, ApiError> {
    Ok(match sessions.exchange(&code(body)?, &headers)? {
        Ok(session) => ([(CACHE_CONTROL, "no-store")], Json(session)).into_response(),
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

/// Ends the session of the bearer that is sent.
#[utoipa::path(delete, path = "/api/v1/sign-in", tag = "sign-in", operation_id = "signOut",
    responses((status = 204, description = "ended"), (status = 401, body = Problem, description = "no bearer, or its session has ended")))]
pub(crate) async fn sign_out(Extension(sessions): Extension<Sessions>, headers: HeaderMap) -> Response {
    if !has_bearer(&headers) {
        return unauthorized("only a session can be ended, by its bearer");
    }
    sessions.end(&headers);
    StatusCode::NO_CONTENT.into_response()
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
