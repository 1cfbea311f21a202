// SPDX-License-Identifier: Apache-2.0
//! Which requests of browsers are answered: those with the bearer of a session.
//!
//! A program on this machine acts with the rights of its user, as the socket shows them. A browser also acts for pages that its user has
//! not written, so that what it sends below `/api/` needs a bearer, which no page of another origin can have: it is kept by the tab of
//! this origin, and the code that it was exchanged for was made by a program of the user. At the addresses for browsers on other machines
//! (`site`) the session is in a cookie instead. `docs/web-ui.md` has the threats.

mod book;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::extract::{Request, State};
use axum::http::header::{AUTHORIZATION, SET_COOKIE, WWW_AUTHENTICATE};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use canopy_controller_access::{Identity, PREFIX};
use canopy_controller_api::sign_in::{Credential, SignInCode};
use canopy_controller_core::principal::Via;
use canopy_units::UnixTime;
use futures::future::join_all;
use sha2::{Digest, Sha256};
use tokio::time::Instant;

use self::book::{Beginning, Book, CODE_LASTS, Digest as SecretDigest, Listed};
use crate::accounts::{Accounts, Credentials, refused_token};
use crate::browser::is_browser;
use crate::caller::{Arrival, Caller};
use crate::error::ApiError;
use crate::site::{At, Cookie};

pub(crate) use self::book::{Refused, SESSION_LASTS, Shown};

/// Requests by which a browser comes in: they have no credential yet, and one that they have all the same is not looked up.
const WAYS_IN: [(Method, &str); 4] = [
    (Method::GET, "/api/v1/sign-in"),
    (Method::POST, "/api/v1/sign-in"),
    (Method::POST, "/api/v1/single-sign-on"),
    (Method::POST, "/api/v1/single-sign-on/answer"),
];
/// Header of requests that `canopyctl ui` forwards for a browser: they have the rights of their bearer, and none of the user that runs it. A
/// client that sends it without need has fewer rights, never more. Its value is drawn by each `canopyctl ui`: a session that it has begun works
/// by it alone, so that who takes its port when it has ended gets a bearer of no use.
const FORWARDED: &str = "canopy-forwarded";
/// Octets of a code: 128 bits.
const CODE_OCTETS: usize = 16;
/// Octets of a bearer, and of the value of a cookie: 256 bits.
const SECRET_OCTETS: usize = 32;
/// Characters of a code.
pub(crate) const CODE_LENGTH: usize = (CODE_OCTETS * 4).div_ceil(3);

/// The codes and sessions of a controller: one for all its listeners, in memory only.
#[derive(Clone, Default)]
pub struct Sessions(Arc<Mutex<Book>>);

/// A session that has begun.
pub(crate) struct Begun {
    pub(crate) id: u64,
    pub(crate) by: Identity,
    pub(crate) secret: Credential,
    pub(crate) shown: Shown,
}

impl Sessions {
    /// Makes a code whose session acts for `by`, as long as `origin` has these roles.
    pub(crate) fn make_code(&self, by: Identity, origin: Caller) -> Result<SignInCode, ApiError> {
        let code = draw::<CODE_OCTETS>()?;
        self.book().add_code(digest(&code.0), by, origin, Instant::now());
        Ok(SignInCode { code, expires_in_seconds: CODE_LASTS.as_secs() })
    }

    /// Uses a code up and begins a session that is shown as `shown`.
    pub(crate) fn exchange(&self, code: &Credential, shown: Shown) -> Result<Result<Begun, Refused>, ApiError> {
        let secret = draw::<SECRET_OCTETS>()?;
        let begun = self.book().exchange(&digest(&code.0), digest(&secret.0), shown, Instant::now());
        Ok(begun.map(|(id, by)| {
            tracing::info!(session = id, by = %by.principal, "signed in to the web UI");
            Begun { id, by, secret, shown }
        }))
    }

    /// Begins a session with a cookie for `origin`, with the roles that it has now; without any, it is not begun.
    pub(crate) async fn begin(&self, origin: Caller) -> Result<Result<Begun, Identity>, ApiError> {
        let by = origin.identity().await;
        if by.highest().is_none() {
            return Ok(Err(by));
        }
        let (secret, shown) = (draw::<SECRET_OCTETS>()?, Shown::Cookie);
        let beginning = Beginning { digest: digest(&secret.0), by: by.clone(), origin, shown };
        let id = self.book().begin(beginning, Instant::now());
        tracing::info!(session = id, by = %by.principal, "signed in to the web UI by the identity provider");
        Ok(Ok(Begun { id, by, secret, shown }))
    }

    /// Ends the session of these headers.
    pub(crate) fn end(&self, headers: &HeaderMap, is_at_site: bool) -> Result<(), ApiError> {
        let cookie = if is_at_site { Cookie::Session.of(headers)? } else { None };
        bearer(headers).into_iter().chain(cookie).for_each(|secret| self.book().end(&digest(secret)));
        Ok(())
    }

    /// Ends every session and code of a token.
    pub(crate) fn end_of_token(&self, name: &str) {
        self.book().end_of_token(name);
    }

    /// Ends the session with this id.
    pub(crate) fn end_by_id(&self, id: u64) {
        self.book().end_by_id(id);
    }

    /// The sessions that work, the oldest first.
    pub(crate) async fn list(&self) -> Vec<Listed> {
        let all = self.book().list(Instant::now());
        let working = all.into_iter().map(|session| async move {
            let is_working = session.origin.identity().await.has_roles_of(&session.by);
            is_working.then_some(session)
        });
        // At once: who an origin is of may be asked for on another machine.
        join_all(working).await.into_iter().flatten().collect()
    }

    /// Who a session acts for, if its principal has the roles of its beginning; otherwise it ends.
    async fn identity(&self, secret: SecretDigest, shown: Shown, is_use: bool) -> Option<Identity> {
        let (by, origin) = self.book().find(&secret, shown, is_use, Instant::now())?;
        if origin.identity().await.has_roles_of(&by) {
            return Some(by);
        }
        tracing::info!(by = %by.principal, "a session of the web UI has ended: the roles of its principal have changed");
        self.book().end(&secret);
        None
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What authenticates a request besides its connection.
#[derive(Clone)]
pub(crate) struct Bearers {
    pub(crate) sessions: Sessions,
    pub(crate) credentials: Credentials,
}

/// A credential that a request has.
enum Sent {
    Token(String),
    /// Of a service account, and who confirms it.
    Account(String, Accounts),
    Session(SecretDigest, Shown),
}

impl Bearers {
    /// Who a credential is of now, and who answers that later; the answer where it does not work.
    async fn enter(&self, sent: &Sent) -> Result<(Identity, Caller), Response> {
        match sent {
            Sent::Token(text) => {
                let tokens = self.credentials.tokens.clone();
                let by = tokens.identity(text, UnixTime::now());
                let (by, secret) =
                    by.and_then(|by| by.secret.map(|secret| (by, secret))).ok_or_else(own_token_ended)?;
                let standing = move || tokens.standing(&secret, UnixTime::now()).unwrap_or_else(Identity::unknown);
                Ok((by, Caller::credential(move || std::future::ready(standing()))))
            }
            Sent::Account(text, accounts) => {
                let by = accounts.identity(text).await.map_err(IntoResponse::into_response)?;
                let (text, accounts) = (text.clone(), accounts.clone());
                let caller = Caller::credential(move || {
                    let (text, accounts) = (text.clone(), accounts.clone());
                    async move { accounts.identity(&text).await.unwrap_or_else(|_| Identity::unknown()) }
                });
                Ok((by, caller))
            }
            Sent::Session(secret, shown) => {
                let (sessions, secret, shown) = (self.sessions.clone(), *secret, *shown);
                let by = sessions.identity(secret, shown, true).await.ok_or_else(|| session_ended(shown))?;
                let caller = Caller::credential(move || {
                    let sessions = sessions.clone();
                    async move { sessions.identity(secret, shown, false).await.unwrap_or_else(Identity::unknown) }
                });
                Ok((by, caller))
            }
        }
    }

    /// The caller of these credentials, if there are any, beside the one that the connection has shown.
    async fn caller(&self, sent: Vec<Sent>, connection: Caller) -> Result<Option<(Identity, Caller)>, Response> {
        let shown = connection.of_certificate().await.map(|identity| (identity, connection));
        let mut known: Option<(Identity, Caller)> = None;
        for credential in sent {
            let entered = self.enter(&credential).await?;
            let other = known.as_ref().or(shown.as_ref());
            if other.is_some_and(|(other, _)| !other.principal.is_same(&entered.0.principal)) {
                let detail = "the request has credentials of two principals, and it is not clear whose it is: send one";
                return Err(ApiError::new(StatusCode::BAD_REQUEST, "TwoPrincipals", detail).into_response());
            }
            known = known.or(Some(entered));
        }
        Ok(known.or(shown))
    }
}

impl Sent {
    /// What a request has, bearers first.
    fn all(request: &Request, accounts: Option<&Accounts>) -> Result<Vec<Self>, ApiError> {
        let headers = request.headers();
        if headers.get_all(AUTHORIZATION).iter().count() > 1 {
            return Err(ApiError::bad_request("Authorization", "is there more than once"));
        }
        // The secret of a session has no dot, and a token of Kubernetes has two (RFC 7515 section 3.1).
        let bearer = bearer(headers).map(|bearer| match accounts.filter(|_| bearer.contains('.')) {
            _ if bearer.starts_with(PREFIX) => Self::Token(bearer.to_owned()),
            Some(accounts) => Self::Account(bearer.to_owned(), accounts.clone()),
            None => Self::Session(digest(bearer), Shown::Bearer(through(headers))),
        });
        let is_at_site = request.extensions().get::<At>().is_some();
        let cookie = if is_at_site { Cookie::Session.of(headers)? } else { None };
        let cookie = cookie.map(|secret| Self::Session(digest(secret), Shown::Cookie));
        Ok(bearer.into_iter().chain(cookie).collect())
    }
}

fn session_ended(shown: Shown) -> Response {
    let answer = unauthorized("the session has ended");
    match shown {
        Shown::Bearer(_) => answer,
        Shown::Cookie => ([(SET_COOKIE, Cookie::Session.clear())], answer).into_response(),
    }
}

/// Answers 401 to what needs a session and has none, and to a credential that does not work; 400 to credentials of several principals. What a
/// request with a credential does is by the principal of that, whatever the connection.
pub(crate) async fn require(State(bearers): State<Bearers>, mut request: Request, next: Next) -> Response {
    let is_way_in = WAYS_IN.iter().any(|(method, path)| request.method() == method && request.uri().path() == *path);
    let is_api = request.uri().path().starts_with("/api/");
    let sent = match Sent::all(&request, bearers.credentials.accounts.as_ref()) {
        Ok(sent) if !is_way_in => sent,
        Ok(_) => Vec::new(),
        Err(error) => return error.into_response(),
    };
    // A browser shows its certificate for pages of anywhere, and `canopyctl ui` forwards for every program that reaches it.
    let is_own = !request.headers().contains_key(FORWARDED) && !is_browser(request.headers());
    if !is_own && Caller::behind(request.extensions()).is_of_certificate() {
        request.extensions_mut().insert(Caller::known(Identity::unknown()));
    }
    match bearers.caller(sent, Caller::behind(request.extensions())).await {
        Ok(Some((identity, caller))) if Arrival::admit(request.extensions(), &identity) => {
            _ = request.extensions_mut().insert(caller);
        }
        Ok(Some((identity, _))) => return crate::limits::too_many_connections(&identity),
        // The user of the connection has only forwarded it.
        Ok(None) if request.headers().contains_key(FORWARDED) => {
            request.extensions_mut().insert(Caller::known(Identity::unknown()));
            if is_api && !is_way_in {
                return unauthorized("a browser has to sign in first");
            }
        }
        Ok(None) if is_api && !is_way_in && Caller::behind(request.extensions()).is_of_certificate() => {
            return refused_token(
                "this certificate does not work: it was revoked, or has ended; make another: `canopyctl certificate request --help`",
            );
        }
        Ok(None) if is_api && !is_way_in && is_browser(request.headers()) => {
            return unauthorized("a browser has to sign in first");
        }
        Ok(None) => {}
        Err(refusal) => return refusal,
    }
    next.run(request).await
}

fn own_token_ended() -> Response {
    refused_token(
        "this token does not work: it was revoked, has ended, or is not whole; `canopyctl token list` shows the others",
    )
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

/// Whether a request has the secret of a session, valid or not.
pub(crate) fn has_secret(headers: &HeaderMap, is_at_site: bool) -> bool {
    bearer(headers).is_some() || (is_at_site && matches!(Cookie::Session.of(headers), Ok(Some(_))))
}

/// By which `canopyctl ui` a request comes.
pub(crate) fn through(headers: &HeaderMap) -> Option<[u8; 32]> {
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
        assert_eq!((code.len(), draw::<SECRET_OCTETS>().unwrap().0.len()), (CODE_LENGTH, 43));
        assert_ne!(code, other);
    }
}
