// SPDX-License-Identifier: Apache-2.0
//! The provider: what it has at its addresses, the beginning of a sign-in and its end.

use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use canopy_units::UnixTime;
use http_body_util::Full;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use hyper::{Request, StatusCode};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio::sync::{Mutex, Semaphore};
use tokio::time::Instant;
use tokio_rustls::rustls::RootCertStore;

use crate::https::{Address, Https};
use crate::keys::{Keys, Set, Unknown};
use crate::login::Login;
use crate::token::{self, Expected, Person};

/// What the provider has at its well-known address is kept for so long, as is that it does not answer: strangers who begin sign-ins make the
/// controller ask no more often.
const KEPT: Duration = Duration::from_secs(5);
/// Sign-ins that are ended at the same time.
const AT_ONCE: usize = 16;
/// Longest code, state and issuer that a browser sends, octets.
const MAX_ANSWER: usize = 2048;

/// The secret by which the provider recognizes the controller. Its `Debug` form does not show it.
#[derive(Clone)]
pub struct ClientSecret(pub String);

impl std::fmt::Debug for ClientSecret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ClientSecret(..)")
    }
}

/// Which provider, and what the controller is for it.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Its issuer, an https address.
    pub issuer: String,
    /// The controller's name there.
    pub client_id: String,
    /// The controller's secret there.
    pub client_secret: ClientSecret,
    /// Scopes besides `openid`.
    pub scopes: Vec<String>,
    /// The claim with the name of who has signed in.
    pub username_claim: String,
    /// The claim with the names of groups.
    pub groups_claim: String,
}

/// Why a sign-in does not begin or end well. None of the texts has a secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// The provider does not answer, or not as one.
    #[error("the identity provider {issuer} cannot be used: {why}")]
    Unavailable {
        /// Which.
        issuer: String,
        /// Why.
        why: String,
    },
    /// The answer is not that of a sign-in of this browser.
    #[error(
        "this answer of the identity provider does not belong to a sign-in that this browser has begun: begin again"
    )]
    NotBegun,
    /// The answer is another provider's.
    #[error("this answer is of another identity provider than {0}: begin again")]
    OtherIssuer(String),
    /// The provider does not exchange the code.
    #[error("the identity provider {issuer} does not accept this sign-in ({error}): begin again")]
    Refused {
        /// Which.
        issuer: String,
        /// Its error code.
        error: String,
    },
    /// The ID token.
    #[error("the ID token of the identity provider {issuer} is not accepted: {why}")]
    Token {
        /// Which.
        issuer: String,
        /// Why.
        why: String,
    },
    /// Too many at once.
    #[error("too many sign-ins end at the same time: try again in a second")]
    Busy,
}

/// What the provider sends back through the browser.
pub struct Answer {
    /// The code.
    pub code: String,
    /// What the sign-in was begun with.
    pub state: String,
    /// The issuer, of providers that name it (RFC 9207).
    pub issuer: Option<String>,
}

/// An OpenID Connect provider.
pub struct Provider {
    settings: Settings,
    configuration: Address,
    https: Https,
    metadata: Mutex<Option<(Instant, Result<Metadata, Failure>)>>,
    keys: Mutex<Keys>,
    ending: Semaphore,
}

/// What the provider has at its well-known address (OpenID Connect Discovery 1.0 section 3).
#[derive(Clone, Debug, Deserialize)]
struct Metadata {
    issuer: String,
    authorization_endpoint: String,
    token_endpoint: String,
    jwks_uri: String,
    #[serde(default)]
    authorization_response_iss_parameter_supported: bool,
    #[serde(default)]
    token_endpoint_auth_methods_supported: Option<Vec<String>>,
}

/// The part of an answer to a code that is used.
#[derive(Deserialize)]
struct Tokens {
    id_token: String,
}

#[derive(Deserialize)]
struct Refusal {
    error: String,
}

impl Provider {
    /// Known by certificates of these authorities. Nothing is sent.
    ///
    /// # Errors
    /// The issuer is no https address.
    pub fn new(settings: Settings, authorities: RootCertStore) -> Result<Self, String> {
        let configuration =
            format!("{}/.well-known/openid-configuration", settings.issuer.trim_end_matches('/')).parse()?;
        let https = Https::new(authorities)?;
        let ending = Semaphore::new(AT_ONCE);
        Ok(Self { settings, configuration, https, metadata: Mutex::default(), keys: Mutex::default(), ending })
    }

    /// The issuer.
    pub fn issuer(&self) -> &str {
        &self.settings.issuer
    }

    /// Where the browser goes to sign in, from where it comes back to `redirect`.
    ///
    /// # Errors
    /// The provider does not answer.
    pub async fn begin(&self, login: &Login, redirect: &str) -> Result<String, Failure> {
        let metadata = self.metadata().await?;
        let scope = ["openid"].into_iter().chain(self.settings.scopes.iter().map(String::as_str));
        let scope = scope.collect::<Vec<_>>().join(" ");
        let query = serde_urlencoded::to_string([
            ("response_type", "code"),
            ("client_id", self.settings.client_id.as_str()),
            ("redirect_uri", redirect),
            ("scope", &scope),
            ("state", &login.state()),
            ("nonce", &login.nonce()),
            ("code_challenge", &login.challenge()),
            ("code_challenge_method", "S256"),
        ]);
        let query = query.map_err(|error| self.unavailable(error.to_string()))?;
        let endpoint = self.address(&metadata.authorization_endpoint)?;
        let separator = if endpoint.as_str().contains('?') { '&' } else { '?' };
        Ok(format!("{}{separator}{query}", endpoint.as_str()))
    }

    /// Who has signed in, from what the provider has sent through the browser that began `login`.
    ///
    /// # Errors
    /// See [`Failure`].
    pub async fn end(&self, login: &Login, redirect: &str, answer: &Answer, now: UnixTime) -> Result<Person, Failure> {
        let sizes = [&answer.code, &answer.state].map(String::len);
        if answer.state != login.state() || sizes.iter().any(|size| *size > MAX_ANSWER) {
            return Err(Failure::NotBegun);
        }
        let _turn = self.ending.try_acquire().map_err(|_| Failure::Busy)?;
        let metadata = self.metadata().await?;
        let is_ours = match &answer.issuer {
            Some(issuer) => *issuer == self.settings.issuer,
            None => !metadata.authorization_response_iss_parameter_supported,
        };
        if !is_ours {
            return Err(Failure::OtherIssuer(self.settings.issuer.clone()));
        }
        let token = self.exchange(&metadata, login, redirect, &answer.code).await?;
        let refused = |why: String| Failure::Token { issuer: self.settings.issuer.clone(), why };
        let header = token::header(&token).map_err(|why| refused(why.to_owned()))?;
        let key = self.key(&metadata, header.kid.as_deref(), header.alg).await?;
        let expected = Expected {
            issuer: &self.settings.issuer,
            client: &self.settings.client_id,
            nonce: &login.nonce(),
            username_claim: &self.settings.username_claim,
            groups_claim: &self.settings.groups_claim,
        };
        token::person(&token, header.alg, &key, &expected, now).map_err(refused)
    }

    /// The ID token for a code (RFC 6749 section 4.1.3).
    async fn exchange(
        &self,
        metadata: &Metadata,
        login: &Login,
        redirect: &str,
        code: &str,
    ) -> Result<String, Failure> {
        let Settings { client_id, client_secret: ClientSecret(secret), .. } = &self.settings;
        let verifier = login.verifier();
        let mut form = vec![
            ("grant_type", "authorization_code"),
            ("code", code),
            ("redirect_uri", redirect),
            ("code_verifier", &verifier),
        ];
        // Without a list, it is the first (OpenID Connect Discovery 1.0 section 3).
        let methods = metadata.token_endpoint_auth_methods_supported.as_deref();
        let is_basic = methods.is_none_or(|methods| methods.iter().any(|method| method == "client_secret_basic"));
        if !is_basic {
            form.extend([("client_id", client_id.as_str()), ("client_secret", secret)]);
        }
        let failed = |error: String| self.unavailable(error);
        let body = serde_urlencoded::to_string(form).map_err(|error| failed(error.to_string()))?;
        let to = self.address(&metadata.token_endpoint)?;
        let mut request = Request::post(to.path()).body(Full::from(body)).map_err(|error| failed(error.to_string()))?;
        let headers = request.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-www-form-urlencoded"));
        if is_basic {
            headers.insert(AUTHORIZATION, basic(client_id, secret).map_err(failed)?);
        }
        let (status, body) = self.https.send(&to, request).await.map_err(failed)?;
        if status == StatusCode::OK {
            let tokens: Tokens = self.read("the answer to the code", &body)?;
            return Ok(tokens.id_token);
        }
        let refusal = serde_json::from_slice::<Refusal>(&body).ok().filter(|_| status.is_client_error());
        let refusal = refusal.ok_or_else(|| failed(format!("the code was answered with {status}")))?;
        Err(Failure::Refused { issuer: self.settings.issuer.clone(), error: word(&refusal.error) })
    }

    /// The key of this id; the provider is asked for unknown ones, at a bounded rate.
    async fn key(
        &self,
        metadata: &Metadata,
        id: Option<&str>,
        algorithm: jsonwebtoken::Algorithm,
    ) -> Result<jsonwebtoken::DecodingKey, Failure> {
        let why = "it is signed with a key that the provider does not have";
        let unknown = || Failure::Token { issuer: self.settings.issuer.clone(), why: why.to_owned() };
        // One asks at a time.
        let mut keys = self.keys.lock().await;
        match keys.find(id, algorithm, Instant::now()) {
            Ok(key) => return Ok(key),
            Err(Unknown::Surely) => return Err(unknown()),
            Err(Unknown::Ask) => {}
        }
        let set = self.json("its keys", &self.address(&metadata.jwks_uri)?).await;
        let (set, failure) = match set {
            Ok(set) => (Some::<Set>(set), None),
            Err(failure) => (None, Some(failure)),
        };
        keys.replace(set, Instant::now());
        failure.map_or(Ok(()), Err)?;
        keys.find(id, algorithm, Instant::now()).map_err(|_| unknown())
    }

    async fn metadata(&self) -> Result<Metadata, Failure> {
        // One asks at a time.
        let mut kept = self.metadata.lock().await;
        if let Some((at, metadata)) = &*kept
            && at.elapsed() < KEPT
        {
            return metadata.clone();
        }
        let metadata = self.json::<Metadata>("its configuration", &self.configuration).await.and_then(|metadata| {
            let is_ours = metadata.issuer == self.settings.issuer;
            let why = || self.unavailable(format!("it names itself {:?}, which is not oidc.issuer", metadata.issuer));
            if is_ours { Ok(metadata) } else { Err(why()) }
        });
        if let Err(failure) = &metadata {
            tracing::warn!(%failure, "single sign-on does not work");
        }
        *kept = Some((Instant::now(), metadata.clone()));
        metadata
    }

    async fn json<T: DeserializeOwned>(&self, what: &str, from: &Address) -> Result<T, Failure> {
        let failed = |error: String| self.unavailable(format!("{what}: {error}"));
        let (status, body) = self.https.get(from).await.map_err(failed)?;
        if status != StatusCode::OK {
            return Err(failed(format!("the answer is {status}")));
        }
        self.read(what, &body)
    }

    fn read<T: DeserializeOwned>(&self, what: &str, body: &Bytes) -> Result<T, Failure> {
        // The cause may have a part of the body, which may have a token.
        serde_json::from_slice(body).map_err(|_| self.unavailable(format!("{what} is not what a provider answers")))
    }

    fn address(&self, text: &str) -> Result<Address, Failure> {
        text.parse().map_err(|error| self.unavailable(error))
    }

    fn unavailable(&self, why: String) -> Failure {
        Failure::Unavailable { issuer: self.settings.issuer.clone(), why }
    }
}

/// `Authorization` of a client with a secret (RFC 6749 section 2.3.1).
fn basic(id: &str, secret: &str) -> Result<HeaderValue, String> {
    let encode = |text: &str| serde_urlencoded::to_string([("", text)]).map(|pair| pair[1..].to_owned());
    let (id, secret) = (encode(id).map_err(|e| e.to_string())?, encode(secret).map_err(|e| e.to_string())?);
    let text = format!("Basic {}", BASE64_STANDARD.encode(format!("{id}:{secret}")));
    let mut value = HeaderValue::from_str(&text).map_err(|error| error.to_string())?;
    value.set_sensitive(true);
    Ok(value)
}

/// An error code, which others have written.
fn word(error: &str) -> String {
    error.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '_').take(64).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Catches a secret with a colon or a sign that is sent as it is, and one that a log shows.
    #[test]
    fn a_secret_is_encoded_before_it_is_sent_and_not_shown() {
        let value = basic("a b", "c:d%").unwrap();
        let text = value.to_str().unwrap().strip_prefix("Basic ").unwrap().to_owned();
        assert_eq!(BASE64_STANDARD.decode(text).unwrap(), b"a+b:c%3Ad%25");
        assert!(!format!("{value:?} {:?}", ClientSecret("planted".into())).contains("planted"));
        assert_eq!(word("invalid_grant\n<b>"), "invalid_grantb");
    }
}
