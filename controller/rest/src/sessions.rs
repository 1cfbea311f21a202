// SPDX-License-Identifier: Apache-2.0
//! Which requests of browsers are answered: those with the bearer of a session.
//!
//! A program on this machine acts with the rights of its user, as the socket shows them. A browser also acts for pages that its user has
//! not written, so that what it sends below `/api/` needs a bearer, which no page of another origin can have: it is kept by the tab of
//! this origin, and the code that it was exchanged for was made by a program of the user. `docs/web-ui.md` has the threats.

mod book;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::extract::{Request, State};
use axum::http::header::{AUTHORIZATION, ORIGIN, WWW_AUTHENTICATE};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use canopy_controller_access::{Identity, PREFIX, Tokens};
use canopy_controller_api::sign_in::{Credential, Session, SignInCode};
use canopy_controller_core::principal::Via;
use canopy_units::UnixTime;
use sha2::{Digest, Sha256};
use tokio::time::Instant;

use self::book::{Book, CODE_LASTS, SESSION_LASTS};
use crate::caller::{Arrival, Caller};
use crate::error::ApiError;

pub(crate) use self::book::Refused;

/// Where a code is exchanged for a bearer.
const SIGN_IN: &str = "/api/v1/sign-in";
/// Header of requests that `canopyctl ui` forwards for a browser: they have the rights of their bearer, and none of the user that runs it. A
/// client that sends it without need has fewer rights, never more. Its value is drawn by each `canopyctl ui`: a session that it has begun works
/// by it alone, so that who takes its port when it has ended gets a bearer of no use.
const FORWARDED: &str = "canopy-forwarded";
/// Octets of a code: 128 bits.
const CODE_OCTETS: usize = 16;
/// Octets of a bearer: 256 bits.
const BEARER_OCTETS: usize = 32;
/// Characters of a code.
pub(crate) const CODE_LENGTH: usize = (CODE_OCTETS * 4).div_ceil(3);

/// The codes and sessions of a controller: one for all its listeners, in memory only.
#[derive(Clone, Default)]
pub struct Sessions(Arc<Mutex<Book>>);

impl Sessions {
    /// Makes a code whose session acts for `by`.
    pub(crate) fn make_code(&self, by: Identity) -> Result<SignInCode, ApiError> {
        let code = draw::<CODE_OCTETS>()?;
        self.book().add_code(digest(&code.0), by, Instant::now());
        Ok(SignInCode { code, expires_in_seconds: CODE_LASTS.as_secs() })
    }

    /// Uses a code up and begins a session of the browser that sends these headers.
    pub(crate) fn exchange(
        &self,
        code: &Credential,
        headers: &HeaderMap,
    ) -> Result<Result<Session, Refused>, ApiError> {
        let bearer = draw::<BEARER_OCTETS>()?;
        let begun = self.book().exchange(&digest(&code.0), digest(&bearer.0), through(headers), Instant::now());
        Ok(begun.map(|Identity { principal: by, role, tenants, .. }| {
            tracing::info!(%by, "signed in to the web UI");
            Session { bearer, expires_in_seconds: SESSION_LASTS.as_secs(), by: by.into(), role, tenants }
        }))
    }

    /// Ends the session of these headers.
    pub(crate) fn end(&self, headers: &HeaderMap) {
        if let Some(bearer) = bearer(headers) {
            self.book().end(&digest(bearer));
        }
    }

    /// Ends every session and code of a token.
    pub(crate) fn end_of_token(&self, name: &str) {
        self.book().end_of_token(name);
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What authenticates a request besides its connection.
#[derive(Clone)]
pub(crate) struct Bearers {
    pub(crate) sessions: Sessions,
    pub(crate) tokens: Arc<Tokens>,
}

impl Bearers {
    /// The identity of a bearer; `None` if it does not work.
    fn identity(&self, bearer: &str, headers: &HeaderMap) -> Option<Identity> {
        let now = UnixTime::now();
        if bearer.starts_with(PREFIX) {
            return self.tokens.identity(bearer, now);
        }
        let identity = self.sessions.book().identity(&digest(bearer), through(headers), Instant::now());
        identity.filter(|by| by.secret.is_none_or(|secret| self.tokens.works(&secret, now)))
    }
}

/// Answers 401 to what needs a session and has none, and to a bearer that does not work. What a request with a bearer does is by the
/// principal of that, whatever the connection.
pub(crate) async fn require(State(bearers): State<Bearers>, mut request: Request, next: Next) -> Response {
    let is_sign_in = request.uri().path() == SIGN_IN && request.method() == Method::POST;
    let is_api = request.uri().path().starts_with("/api/");
    match bearer(request.headers()) {
        Some(bearer) if !is_sign_in => match bearers.identity(bearer, request.headers()) {
            Some(identity) if Arrival::admit(request.extensions(), &identity) => {
                _ = request.extensions_mut().insert(Caller::known(identity));
            }
            Some(identity) => return crate::limits::too_many_connections(&identity),
            None if bearer.starts_with(PREFIX) => return bad_token(),
            None => return unauthorized("the session has ended"),
        },
        // The user of the connection has only forwarded it.
        _ if request.headers().contains_key(FORWARDED) => {
            request.extensions_mut().insert(Caller::known(Identity::unknown()));
            if is_api && !is_sign_in {
                return unauthorized("a browser has to sign in first");
            }
        }
        _ if is_api && !is_sign_in && is_browser(request.headers()) => {
            return unauthorized("a browser has to sign in first");
        }
        _ => {}
    }
    next.run(request).await
}

fn bad_token() -> Response {
    let detail =
        "this token does not work: it was revoked, has ended, or is not whole; `canopyctl token list` shows the others";
    let error = ApiError::new(StatusCode::UNAUTHORIZED, "TokenNotValid", detail);
    ([(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer error=\"invalid_token\""))], error).into_response()
}

/// Refuses a request of a browser or of a session of one, where a page that a browser was led to must have no way in.
pub(crate) fn refuse_browsers(headers: &HeaderMap, by: &Identity, what: &str) -> Result<(), ApiError> {
    let is_other_bearer = headers.contains_key(AUTHORIZATION) && by.principal.token.is_none();
    if is_browser(headers) || is_other_bearer || by.principal.via == Some(Via::Ui) {
        return Err(ApiError::new(StatusCode::FORBIDDEN, "NotForBrowsers", what));
    }
    Ok(())
}

/// The answer to a request without a session.
pub(crate) fn unauthorized(why: &str) -> Response {
    let detail = format!("{why}: `canopyctl ui` opens the web UI");
    let error = ApiError::new(StatusCode::UNAUTHORIZED, "SignInRequired", detail);
    ([(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"))], error).into_response()
}

/// Whether a browser sends this request. A browser names the relation of the page to this address, and the page's origin if the request is
/// no GET; no page can remove these headers. `Sec-Fetch-Mode` alone is no sign of a browser: Node sends it.
pub(crate) fn is_browser(headers: &HeaderMap) -> bool {
    headers.contains_key(ORIGIN) || headers.contains_key("sec-fetch-site") || headers.contains_key("sec-fetch-dest")
}

/// Whether these headers have a bearer, valid or not.
pub(crate) fn has_bearer(headers: &HeaderMap) -> bool {
    bearer(headers).is_some()
}

/// By which `canopyctl ui` a request comes.
fn through(headers: &HeaderMap) -> Option<[u8; 32]> {
    headers.get(FORWARDED).map(|value| Sha256::digest(value.as_bytes()).into())
}

/// What `Authorization: Bearer` has (RFC 6750 section 2.1).
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, bearer) = headers.get(AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| bearer.trim())
}

fn digest(secret: &str) -> [u8; 32] {
    Sha256::digest(secret.as_bytes()).into()
}

fn draw<const OCTETS: usize>() -> Result<Credential, ApiError> {
    let mut octets = [0; OCTETS];
    getrandom::fill(&mut octets).map_err(|error| {
        let detail = format!("the operating system gives no random numbers: {error}");
        ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "RandomFailed", detail)
    })?;
    Ok(Credential(BASE64_URL_SAFE_NO_PAD.encode(octets)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_have_their_length_and_do_not_repeat() {
        let [code, other] = [draw::<CODE_OCTETS>().unwrap().0, draw::<CODE_OCTETS>().unwrap().0];
        assert_eq!((code.len(), draw::<BEARER_OCTETS>().unwrap().0.len()), (CODE_LENGTH, 43));
        assert_ne!(code, other);
    }

    #[test]
    fn a_browser_is_recognised_by_headers_that_no_page_can_remove() {
        let is = |name: &'static str| {
            is_browser(&HeaderMap::from_iter([(name.parse().unwrap(), HeaderValue::from_static("x"))]))
        };
        assert!(is("origin") && is("sec-fetch-site") && is("sec-fetch-dest"));
        assert!(!is("sec-fetch-mode") && !is("user-agent") && !is("referer"));
    }
}
