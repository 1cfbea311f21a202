// SPDX-License-Identifier: Apache-2.0
//! Bodies, queries, path segments and preconditions; each is refused with a problem document.

use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, FromRequest, FromRequestParts, Path, Query, Request};
use axum::http::header::CONTENT_TYPE;
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode};
use canopy_model::{FieldError, FieldErrors};
use serde::de::DeserializeOwned;

use crate::error::ApiError;
use crate::{body_size, limits};

/// A JSON body; unknown keys, wrong types and numbers out of range are refused with their path.
pub(crate) struct ApiJson<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for ApiJson<T> {
    type Rejection = ApiError;

    async fn from_request(mut request: Request, state: &S) -> Result<Self, ApiError> {
        check_content_type(request.headers())?;
        let most = body_size::most(&request);
        DefaultBodyLimit::max(most).apply(&mut request);
        let bytes = Bytes::from_request(request, state).await.map_err(|e| match e.status() {
            StatusCode::PAYLOAD_TOO_LARGE => ApiError::new(
                StatusCode::PAYLOAD_TOO_LARGE,
                "BodyTooLarge",
                format!("the body is larger than {most} bytes"),
            ),
            _ => limits::refusal(&e).unwrap_or_else(|| ApiError::bad_request("body", e.body_text())),
        })?;
        parse(&bytes).map(Self)
    }
}

/// Also prevents writes by foreign web pages: a browser sends this type to another origin only after a CORS preflight.
pub(crate) fn check_content_type(headers: &HeaderMap) -> Result<(), ApiError> {
    let value = headers.get(CONTENT_TYPE).and_then(|v| v.to_str().ok()).unwrap_or("");
    let essence = value.split(';').next().unwrap_or("").trim();
    if essence.eq_ignore_ascii_case("application/json") {
        return Ok(());
    }
    Err(ApiError::new(
        StatusCode::UNSUPPORTED_MEDIA_TYPE,
        "UnsupportedMediaType",
        format!("Content-Type is {value:?}: send application/json"),
    ))
}

fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, ApiError> {
    let mut json = serde_json::Deserializer::from_slice(bytes);
    let value = serde_path_to_error::deserialize(&mut json).map_err(|e| problem(&e.path().to_string(), e.inner()))?;
    json.end().map_err(|e| problem(".", &e))?;
    // serde takes a list for a struct, element by element.
    if bytes.trim_ascii_start().starts_with(b"[") {
        return Err(ApiError::invalid(FieldError::new("body", "is a list: send an object")));
    }
    Ok(value)
}

/// Invalid JSON is 400, JSON with invalid content is 422.
fn problem(path: &str, e: &serde_json::Error) -> ApiError {
    if !e.is_data() {
        return ApiError::new(StatusCode::BAD_REQUEST, "MalformedJson", format!("the body is not JSON: {e}"));
    }
    let text = e.to_string();
    // serde_json ends its message with a position, which the path makes redundant.
    let detail = text.rsplit_once(" at line ").map_or(text.as_str(), |(before, _)| before);
    let mut errors = FieldErrors::default();
    errors.push(if path == "." { "body" } else { path }, detail);
    ApiError::invalid(errors)
}

/// Query parameters; unknown ones are refused if `T` denies them.
pub(crate) struct ApiQuery<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for ApiQuery<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let Query(value) = Query::from_request_parts(parts, state).await.map_err(|e| parameter(&e.body_text()))?;
        Ok(Self(value))
    }
}

/// axum's message has the parameter's name before its cause, if the cause is of one parameter.
fn parameter(text: &str) -> ApiError {
    let cause = text.strip_prefix("Failed to deserialize query string: ").and_then(|cause| cause.split_once(": "));
    match cause {
        Some((field, detail)) if field.bytes().all(|b| b.is_ascii_alphanumeric()) => {
            ApiError::bad_request(field, detail)
        }
        _ => ApiError::bad_request("query", text),
    }
}

/// Path segments.
pub(crate) struct ApiPath<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned + Send> FromRequestParts<S> for ApiPath<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let Path(value) =
            Path::from_request_parts(parts, state).await.map_err(|e| ApiError::bad_request("path", e.body_text()))?;
        Ok(Self(value))
    }
}

/// Deserializes a value that is already JSON, with the same refusals as a body.
pub(crate) fn from_value<T: DeserializeOwned>(value: serde_json::Value) -> Result<T, ApiError> {
    serde_path_to_error::deserialize(value).map_err(|e| problem(&e.path().to_string(), e.inner()))
}
