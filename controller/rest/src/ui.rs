// SPDX-License-Identifier: Apache-2.0
//! The web UI: the files of `web/dist`, and its page for every path that a browser opens in it; below `/docs`, the API with Swagger UI, which
//! is apart from it and has a policy of its own.
//!
//! It needs no store and no command, so that it is there when they are not.

use axum::http::header::{
    ACCEPT, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, Uri};
use axum::response::{IntoResponse, Response};

use crate::error::ApiError;

/// Paths and contents.
static FILES: &[(&str, &[u8])] = include!(concat!(env!("OUT_DIR"), "/ui_files.rs"));
const INDEX: &str = "/index.html";
const DOCS: &str = "/docs/";
const DOCS_INDEX: &str = "/docs/index.html";

/// Scripts, styles and requests of this origin only; nothing inline, no frame around it, no form, and no text that becomes a script.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; worker-src 'self'; \
base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'";

/// For `/docs`: as [`POLICY`], but Swagger UI sets styles from its scripts, has its icons in `data:` URLs of its style sheet, and makes no
/// difference between text and trusted types. Still nothing of another origin.
const DOCS_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; connect-src 'self'; \
base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// What no other route serves: a file of the UI, its page, or an error.
pub(crate) async fn fallback(method: Method, uri: Uri, headers: HeaderMap) -> Result<Response, ApiError> {
    let path = uri.path();
    if method != Method::GET && method != Method::HEAD {
        return Err(ApiError::no_route(&uri));
    }
    let path = if path == "/docs" || path == DOCS { DOCS_INDEX } else { path };
    if let Some(file) = file(path) {
        return Ok(answer(path, file));
    }
    let is_other = ["/api/", "/assets/", DOCS].iter().any(|other| path.starts_with(other));
    let is_page = path == "/" || (accepts_html(&headers) && !is_other);
    match file(INDEX) {
        Some(index) if is_page => Ok(answer(INDEX, index)),
        _ => Err(ApiError::no_route(&uri)),
    }
}

fn file(path: &str) -> Option<&'static [u8]> {
    FILES.iter().find(|(name, _)| *name == path).map(|(_, content)| *content)
}

/// A browser that opens a page names HTML; a script that requests data does not.
fn accepts_html(headers: &HeaderMap) -> bool {
    headers.get_all(ACCEPT).iter().any(|value| value.to_str().is_ok_and(|value| value.contains("text/html")))
}

fn answer(path: &str, content: &'static [u8]) -> Response {
    // The names of assets contain a digest of their content.
    let is_asset = path.starts_with("/assets/") || path.starts_with("/docs/assets/");
    let cache = if is_asset { "public, max-age=31536000, immutable" } else { "no-store" };
    let value = HeaderValue::from_static;
    let headers = [
        (CONTENT_TYPE, value(content_type(path))),
        (CACHE_CONTROL, value(cache)),
        (CONTENT_SECURITY_POLICY, value(if path.starts_with(DOCS) { DOCS_POLICY } else { POLICY })),
        (X_CONTENT_TYPE_OPTIONS, value("nosniff")),
        (REFERRER_POLICY, value("no-referrer")),
        (HeaderName::from_static("cross-origin-opener-policy"), value("same-origin")),
        (HeaderName::from_static("cross-origin-resource-policy"), value("same-origin")),
    ];
    (headers, content).into_response()
}

fn content_type(path: &str) -> &'static str {
    match path.rsplit_once('.').map_or("", |(_, suffix)| suffix) {
        "html" => "text/html; charset=utf-8",
        "js" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "svg" => "image/svg+xml",
        _ => "application/octet-stream",
    }
}
