// SPDX-License-Identifier: Apache-2.0
//! Where browsers on other machines reach this controller: at the origins that its administrator has named, over TLS, with a cookie.
//!
//! A browser sends a cookie with requests of any page, so that a request with it, or of a browser that has none yet, is taken for that of our
//! own page only if everything shows it: `Host` and `Origin` are those that were named, `Sec-Fetch-Site` is same-origin, and the body is JSON,
//! which no form can send. Reading with GET and HEAD changes nothing, and no page of another origin sees the answer.
//!
//! At every other address of the controller, cookies are ignored.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::header::{COOKIE, HOST, ORIGIN};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use canopy_controller_access::Origin;

use crate::browser::is_browser;
use crate::error::ApiError;
use crate::extract::check_content_type;
use crate::request;

/// The cookie of a session. Browsers keep one of this name only if it is `Secure`, has the path `/`, and is of exactly this host.
const SESSION: &str = "__Host-canopy";
/// The cookie of a sign-in that has begun: until its end.
const SIGN_IN: &str = "__Host-canopy-sign-in";

/// The origin at which a request has come. A request that has none comes another way than from a browser over TLS.
#[derive(Clone)]
pub(crate) struct At(pub(crate) Origin);

/// `router` for a listener of browsers over TLS, with these origins.
pub fn for_browsers(router: Router, origins: Vec<Origin>) -> Router {
    let origins: Arc<[Origin]> = origins.into();
    router.layer(from_fn_with_state(origins, check)).layer(from_fn(request::identify))
}

async fn check(State(origins): State<Arc<[Origin]>>, mut request: Request, next: Next) -> Response {
    match permitted(&origins, &request) {
        Ok(origin) => {
            request.extensions_mut().insert(At(origin));
            next.run(request).await
        }
        Err(error) => error.into_response(),
    }
}

/// The origin of a request that may come in.
fn permitted(origins: &[Origin], request: &Request) -> Result<Origin, ApiError> {
    let headers = request.headers();
    let host = headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let Some(origin) = origins.iter().find(|origin| origin.host().eq_ignore_ascii_case(host)) else {
        let detail = format!("Host is {host:?}, which is none of web.origins of this controller");
        return Err(ApiError::new(StatusCode::MISDIRECTED_REQUEST, "ForeignHost", detail));
    };
    let has_cookie = headers.contains_key(COOKIE);
    let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
    match (is_read, has_cookie || is_browser(headers)) {
        (false, true) => check_write(origins, headers)?,
        (true, _) if has_cookie && request.uri().path().starts_with("/api/") => check_read(headers)?,
        _ => {}
    }
    Ok(origin.clone())
}

fn check_write(origins: &[Origin], headers: &HeaderMap) -> Result<(), ApiError> {
    let named: Vec<_> = headers.get_all(ORIGIN).iter().collect();
    let is_ours = |value: &HeaderValue| origins.iter().any(|origin| value == origin.as_str());
    match named[..] {
        [origin] if is_ours(origin) => {}
        [origin] => return Err(foreign(format!("Origin is {origin:?}, which is none of web.origins"))),
        _ => return Err(foreign("a browser's write has exactly one Origin".to_owned())),
    }
    match sites(headers)[..] {
        [b"same-origin"] => {}
        _ => return Err(foreign("a browser's write has Sec-Fetch-Site: same-origin".to_owned())),
    }
    // Also without a body.
    check_content_type(headers)
}

/// An answer is shown to our own page, and to who opens its address; old browsers send no header.
fn check_read(headers: &HeaderMap) -> Result<(), ApiError> {
    match sites(headers)[..] {
        [] | [b"same-origin" | b"none"] => Ok(()),
        _ => Err(foreign("a page of another origin reads nothing".to_owned())),
    }
}

fn sites(headers: &HeaderMap) -> Vec<&[u8]> {
    headers.get_all("sec-fetch-site").iter().map(HeaderValue::as_bytes).collect()
}

fn foreign(detail: String) -> ApiError {
    ApiError::new(StatusCode::FORBIDDEN, "ForeignOrigin", detail)
}

/// A cookie of ours.
#[derive(Clone, Copy)]
pub(crate) enum Cookie {
    /// Of a session.
    Session,
    /// Of a sign-in that has begun.
    SignIn,
}

impl Cookie {
    fn name(self) -> &'static str {
        match self {
            Self::Session => SESSION,
            Self::SignIn => SIGN_IN,
        }
    }

    /// What a request has of it.
    ///
    /// # Errors
    /// It has several, of which none is known to be the browser's own.
    pub(crate) fn of(self, headers: &HeaderMap) -> Result<Option<&str>, ApiError> {
        let all = headers.get_all(COOKIE).iter().filter_map(|cookies| cookies.to_str().ok());
        let pairs = all.flat_map(|cookies| cookies.split(';')).filter_map(|pair| pair.trim().split_once('='));
        let mut values = pairs.filter(|(name, _)| *name == self.name()).map(|(_, value)| value);
        let first = values.next();
        match values.next() {
            Some(_) => Err(ApiError::bad_request("Cookie", format!("has {} more than once", self.name()))),
            None => Ok(first),
        }
    }

    /// `Set-Cookie` with a value that is a token (RFC 6265 section 4.1.1), until the browser ends or `lasts` seconds have passed.
    pub(crate) fn set(self, value: &str, lasts: Option<u64>) -> HeaderValue {
        let name = self.name();
        let lasts = lasts.map_or_else(String::new, |seconds| format!("; Max-Age={seconds}"));
        let text = format!("{name}={value}; Path=/; Secure; HttpOnly; SameSite=Lax{lasts}");
        let mut value = HeaderValue::from_str(&text).unwrap_or_else(|_| HeaderValue::from_static(""));
        value.set_sensitive(true);
        value
    }

    /// `Set-Cookie` that removes it.
    pub(crate) fn clear(self) -> HeaderValue {
        self.set("", Some(0))
    }
}
