// SPDX-License-Identifier: Apache-2.0
//! HTTP/1.1 over a Unix socket, TLS, or TCP to this machine; one connection per request.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use canopy_controller_api::GroupResource;
use canopy_controller_api::check::DryRun;
use canopy_controller_api::sign_in::Credential;
use canopy_identity::{AuthorityHash, ClientConfig, Credentials, Trust};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Body, Bytes, Incoming};
use hyper::client::conn::http1::SendRequest;
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue};
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};

use crate::failure::{Exit, Failure};
use crate::stream::Stream;

/// A request that takes longer than this fails.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum size of an answer, bytes.
const MAX_ANSWER: usize = 256 << 20;

/// The manager that writes what another one manages: it has no manager from then on.
pub const TAKE_OVER: &str = "take-over";

/// Port of the REST API over TLS, unless the address has one.
const TLS_PORT: u16 = 8642;

/// Address of the controller.
#[derive(Clone, Debug)]
enum Target {
    Tcp { authority: String },
    Unix { path: String },
    Tls { host: String, port: u16, config: Arc<ClientConfig> },
}

/// Sends requests to one controller.
#[derive(Clone)]
pub struct Client {
    target: Target,
    /// The confirmed commit that changes are a part of.
    commit: Option<String>,
    /// Whose what is written is: see [`Client::managing`].
    manager: Option<String>,
    /// What authenticates the requests, instead of the user that runs this program.
    token: Option<Credential>,
}

/// Status and body of an answer.
pub struct Answer {
    /// HTTP status code.
    pub status: u16,
    /// Body, whole.
    pub body: Bytes,
}

impl Client {
    /// As [`Client::showing`], without a certificate.
    ///
    /// # Errors
    /// As there.
    pub fn new(server: &str, authority: Option<AuthorityHash>) -> Result<Self, Failure> {
        Self::showing(server, authority, None)
    }

    /// `server` is `http://host:port`, `unix:/path/of/socket`, or `https://host:port` of the controller with this authority, or that of `own`,
    /// which is shown to it.
    ///
    /// # Errors
    /// A usage failure when it is neither, the authority is missing, or a certificate cannot be shown there.
    pub fn showing(server: &str, authority: Option<AuthorityHash>, own: Option<&Credentials>) -> Result<Self, Failure> {
        let usage = |why: &str| {
            let forms = "use unix:/path, http://host:port or https://host:port";
            Failure::new(Exit::Usage, format!("--server {server:?} {why}: {forms}"))
        };
        if own.is_some() && !server.starts_with("https://") {
            let why = "is not https: a certificate is shown over TLS only";
            return Err(Failure::new(Exit::Usage, format!("--server {server:?} {why}")));
        }
        let target = if let Some(path) = server.strip_prefix("unix:") {
            if !path.starts_with('/') {
                return Err(usage("needs an absolute path"));
            }
            Target::Unix { path: path.into() }
        } else if let Some(rest) = server.strip_prefix("http://") {
            let authority = rest.trim_end_matches('/');
            if authority.is_empty() || authority.contains(['/', '?', '#', '@']) {
                return Err(usage("is not a server address"));
            }
            let has_port = authority.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
            Target::Tcp { authority: if has_port { authority.into() } else { format!("{authority}:8640") } }
        } else if let Some(rest) = server.strip_prefix("https://") {
            let of_own = || own.map(|own| Trust::Authorities(own.authorities.clone(), own.certificate.domain.clone()));
            let trust = authority.map(Trust::Token).or_else(of_own).ok_or_else(|| {
                let why = "needs the hash of its authority, by which it is recognized: --authority or CANOPY_AUTHORITY, as `canopyctl token create` prints it; or a certificate: --certificate-file";
                Failure::new(Exit::Usage, format!("--server {server:?} {why}"))
            })?;
            let rest = rest.trim_end_matches('/');
            if rest.is_empty() || rest.contains(['/', '?', '#', '@']) {
                return Err(usage("is not a server address"));
            }
            let with_port = rest.rsplit_once(':').and_then(|(host, port)| Some((host, port.parse().ok()?)));
            let (host, port) = with_port.unwrap_or((rest, TLS_PORT));
            let config = canopy_identity::operator(trust, own);
            let config = config.map_err(|e| Failure::new(Exit::Error, format!("cannot use TLS: {e}")))?;
            Target::Tls { host: host.to_owned(), port, config: Arc::new(config) }
        } else {
            return Err(usage("has an unknown scheme"));
        };
        Ok(Self { target, commit: None, manager: None, token: None })
    }

    /// The same controller; changes are a part of this confirmed commit.
    pub fn within(self, commit: Option<String>) -> Self {
        Self { commit, ..self }
    }

    /// The same controller; changes are those of this manager, which alone may write what it manages.
    pub fn managing(self, manager: Option<String>) -> Self {
        Self { manager, ..self }
    }

    /// The same controller; requests are sent with this token.
    ///
    /// # Errors
    /// Others could read it on its way: the controller is on another machine, and its address is plain http.
    pub fn with_token(self, token: Option<Credential>) -> Result<Self, Failure> {
        let is_local = match &self.target {
            Target::Unix { .. } | Target::Tls { .. } => true,
            Target::Tcp { authority } => {
                let host = authority.rsplit_once(':').map_or(authority.as_str(), |(host, _)| host);
                let address = host.trim_start_matches('[').trim_end_matches(']').parse::<std::net::IpAddr>();
                host == "localhost" || address.is_ok_and(|address| address.is_loopback())
            }
        };
        if token.is_some() && !is_local {
            let why = format!("a token is not sent to {}, which is not this machine, without encryption", self.name());
            return Err(Failure::new(Exit::Usage, why));
        }
        Ok(Self { token, ..self })
    }

    /// The controller's address for browsers; `None` where they cannot use it.
    pub fn web(&self) -> Option<String> {
        matches!(self.target, Target::Tcp { .. }).then(|| self.name())
    }

    /// A GET whose answer must be a success; `doing` is the prefix of the error message.
    ///
    /// # Errors
    /// The controller cannot be reached or refused the request, or the answer is not a `T`.
    pub async fn get<T: DeserializeOwned>(&self, doing: &str, path: &str) -> Result<T, Failure> {
        parse(doing, &self.succeed(doing, Method::GET, path, None).await?)
    }

    /// A request that changes something, and whose answer must be a success.
    ///
    /// # Errors
    /// The controller cannot be reached or refused the request.
    pub async fn change(&self, doing: &str, method: Method, path: &str, body: Option<&Value>) -> Result<(), Failure> {
        let answer = self.succeed(doing, method, path, body).await?;
        if answer.is_empty() { Ok(()) } else { parse::<IgnoredAny>(doing, &answer).map(drop) }
    }

    /// [`Client::change`] with a header that is its condition.
    ///
    /// # Errors
    /// As [`Client::change`], and the condition does not hold.
    pub async fn change_if(
        &self,
        doing: &str,
        method: Method,
        path: &str,
        body: Option<&Value>,
        condition: (&str, &str),
    ) -> Result<(), Failure> {
        self.succeed_if(doing, method, path, body, Some(condition)).await.map(drop)
    }

    /// A deletion, with a header that is its condition if there is one. Returns what is left of a group that takes longer.
    ///
    /// # Errors
    /// As [`Client::change_if`].
    pub async fn delete(
        &self,
        doing: &str,
        path: &str,
        condition: Option<(&str, &str)>,
    ) -> Result<Option<GroupResource>, Failure> {
        let answer = self.succeed_if(doing, Method::DELETE, path, None, condition).await?;
        (!answer.is_empty()).then(|| parse(doing, &answer)).transpose()
    }

    /// Another client of the same controller, for changes in this confirmed commit.
    pub fn inside(&self, commit: &str) -> Self {
        Self { commit: Some(commit.to_owned()), ..self.clone() }
    }

    /// Changes are a part of a confirmed commit.
    pub fn is_within_commit(&self) -> bool {
        self.commit.is_some()
    }

    /// A request that changes something and answers with a `T`.
    ///
    /// # Errors
    /// As [`Client::change`], or the answer is not a `T`.
    pub async fn post<T: DeserializeOwned>(&self, doing: &str, path: &str, body: &Value) -> Result<T, Failure> {
        parse(doing, &self.succeed(doing, Method::POST, path, Some(body)).await?)
    }

    /// What a write would do.
    ///
    /// # Errors
    /// As [`Client::change`].
    pub async fn dry_run(
        &self,
        doing: &str,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<DryRun, Failure> {
        parse(doing, &self.succeed(doing, method, &format!("{path}?dryRun=true"), body).await?)
    }

    /// A GET whose answer may be anything; `doing` is the prefix of the error message.
    ///
    /// # Errors
    /// The controller cannot be reached or refused the request.
    pub async fn octets(&self, doing: &str, path: &str) -> Result<Bytes, Failure> {
        self.succeed(doing, Method::GET, path, None).await
    }

    async fn succeed(&self, doing: &str, method: Method, path: &str, body: Option<&Value>) -> Result<Bytes, Failure> {
        self.succeed_if(doing, method, path, body, None).await
    }

    async fn succeed_if(
        &self,
        doing: &str,
        method: Method,
        path: &str,
        body: Option<&Value>,
        condition: Option<(&str, &str)>,
    ) -> Result<Bytes, Failure> {
        let sent = self.send_if(method, path, body, condition).await;
        let answer = sent.map_err(|e| Failure::new(e.exit, format!("{doing}: {e}")))?;
        if !(200..300).contains(&answer.status) {
            return Err(Failure::refused(doing, answer.status, &answer.body));
        }
        Ok(answer.body)
    }

    /// Any request; returns any answer, whatever its status.
    ///
    /// # Errors
    /// The controller cannot be reached, or did not answer in time.
    pub async fn send(&self, method: Method, path: &str, body: Option<&Value>) -> Result<Answer, Failure> {
        self.send_if(method, path, body, None).await
    }

    async fn send_if(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
        condition: Option<(&str, &str)>,
    ) -> Result<Answer, Failure> {
        self.in_time(async {
            let (answer, _connection) = self.exchange(method, path, body, condition).await?;
            self.whole(answer).await
        })
        .await
    }

    /// Opens a stream of server-sent events; `doing` is the prefix of the error message.
    ///
    /// # Errors
    /// The controller cannot be reached or refused the request.
    pub async fn open(&self, doing: &str, path: &str) -> Result<Stream, Failure> {
        let opened = async {
            let (answer, connection) = self.exchange(Method::GET, path, None, None).await?;
            if answer.status().is_success() {
                return Ok(Stream::new(answer.into_body(), connection));
            }
            let refused = self.whole(answer).await?;
            Err(Failure::refused(doing, refused.status, &refused.body))
        };
        self.in_time(opened).await
    }

    async fn in_time<T>(&self, exchange: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
        let late =
            |_| Failure::new(Exit::Timeout, format!("{} did not answer within {REQUEST_TIMEOUT:?}", self.name()));
        tokio::time::timeout(REQUEST_TIMEOUT, exchange).await.map_err(late)?
    }

    async fn whole(&self, answer: Response<Incoming>) -> Result<Answer, Failure> {
        let status = answer.status().as_u16();
        let body = Limited::new(answer.into_body(), MAX_ANSWER).collect().await.map_err(|e| self.broken(&e))?;
        Ok(Answer { status, body: body.to_bytes() })
    }

    fn broken(&self, why: &dyn std::fmt::Display) -> Failure {
        Failure::new(Exit::Error, format!("sending the request to {}: {why}", self.name()))
    }

    /// Sends a request as it is, but for its Host; the answer has its body yet to come.
    ///
    /// # Errors
    /// The controller cannot be reached.
    pub async fn forward(&self, mut request: Request<Incoming>) -> Result<Response<Incoming>, Failure> {
        let host = HeaderValue::from_str(&self.host()).map_err(|e| self.broken(&e))?;
        request.headers_mut().insert(HOST, host);
        let (answer, connection) = self.connected(request).await?;
        // The connection lasts as long as its body is read.
        drop(connection);
        Ok(answer)
    }

    /// The answer without its body, and the connection, which lasts as long as the second value.
    async fn exchange(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
        condition: Option<(&str, &str)>,
    ) -> Result<(Response<Incoming>, SendRequest<Full<Bytes>>), Failure> {
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header(HOST, self.host())
            .header(ACCEPT, "application/json, application/problem+json, text/event-stream");
        if let Some((name, value)) = condition {
            request = request.header(name, value);
        }
        if let Some(id) = &self.commit {
            request = request.header("canopy-commit", id);
        }
        if let Some(manager) = &self.manager {
            request = request.header("canopy-manager", manager);
        }
        if let Some(Credential(token)) = &self.token {
            request = request.header(AUTHORIZATION, format!("Bearer {token}"));
        }
        let bytes = match body {
            None => Bytes::new(),
            Some(value) => {
                request = request.header(CONTENT_TYPE, "application/json");
                Bytes::from(value.to_string())
            }
        };
        let request = request
            .body(Full::new(bytes))
            .map_err(|e| Failure::new(Exit::Usage, format!("{path:?} is not a request path: {e}")))?;
        self.connected(request).await
    }

    async fn connected<B>(&self, request: Request<B>) -> Result<(Response<Incoming>, SendRequest<B>), Failure>
    where
        B: Body<Data: Send, Error: Into<Box<dyn std::error::Error + Send + Sync>>> + Send + 'static,
    {
        let unreachable = |e: &dyn std::fmt::Display| {
            let why = format!(
                "cannot reach the controller at {}: {e}; is canopy-controller running? (--server, --context or CANOPY_SERVER names another)",
                self.name()
            );
            Failure::new(Exit::Error, why)
        };
        match &self.target {
            Target::Tcp { authority } => {
                self.over(TcpStream::connect(authority).await.map_err(|e| unreachable(&e))?, request).await
            }
            Target::Unix { path } => {
                self.over(UnixStream::connect(path).await.map_err(|e| unreachable(&e))?, request).await
            }
            Target::Tls { host, port, config } => {
                let stream = canopy_identity::connect(host, *port, config.clone()).await;
                self.over(stream.map_err(|e| unreachable(&e))?, request).await
            }
        }
    }

    async fn over<B>(
        &self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        request: Request<B>,
    ) -> Result<(Response<Incoming>, SendRequest<B>), Failure>
    where
        B: Body<Data: Send, Error: Into<Box<dyn std::error::Error + Send + Sync>>> + Send + 'static,
    {
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(|e| self.broken(&e))?;
        // The task ends when `sender` and the body are dropped.
        tokio::spawn(connection);
        let answer = sender.send_request(request).await.map_err(|e| self.broken(&e))?;
        Ok((answer, sender))
    }

    fn host(&self) -> String {
        match &self.target {
            Target::Tcp { authority } => authority.clone(),
            Target::Unix { .. } => "localhost".to_owned(),
            Target::Tls { host, port, .. } => format!("{host}:{port}"),
        }
    }

    /// Its address, for people.
    pub fn name(&self) -> String {
        match &self.target {
            Target::Tcp { authority } => format!("http://{authority}"),
            Target::Unix { path } => format!("unix:{path}"),
            Target::Tls { host, port, .. } => format!("https://{host}:{port}"),
        }
    }
}

/// The content of a successful answer; `doing` is the prefix of the error message.
///
/// # Errors
/// It is not JSON, or not a `T`.
pub fn parse<T: DeserializeOwned>(doing: &str, body: &[u8]) -> Result<T, Failure> {
    serde_json::from_slice(body).map_err(|e| {
        let what =
            if e.is_data() { "the answer differs from the API of this canopyctl" } else { "the answer is not JSON" };
        Failure::new(Exit::Error, format!("{doing}: {what}: {e}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn new(server: &str) -> Result<Client, Failure> {
        Client::new(server, None)
    }

    #[test]
    fn servers_are_understood_or_refused_with_the_reason() {
        let tls = |server| Client::new(server, Some(AuthorityHash([7; 32]))).map(|client| client.name());
        assert_eq!(tls("https://controller.example").unwrap(), "https://controller.example:8642");
        assert_eq!(tls("https://[2001:db8::1]:99/").unwrap(), "https://[2001:db8::1]:99");
        assert_eq!(tls("https://[2001:db8::1]").unwrap(), "https://[2001:db8::1]:8642");
        for bad in ["https://", "https://x/api", "https://a@x"] {
            assert_eq!(tls(bad).unwrap_err().exit, Exit::Usage, "{bad}");
        }
        let missing = new("https://x").err().unwrap();
        assert!(missing.message.contains("--authority") && missing.exit == Exit::Usage, "{missing}");
        assert_eq!(new("http://127.0.0.1").unwrap().name(), "http://127.0.0.1:8640");
        assert_eq!(new("http://[::1]:99/").unwrap().name(), "http://[::1]:99");
        assert_eq!(new("unix:/run/x.sock").unwrap().name(), "unix:/run/x.sock");
        for bad in ["unix:run", "127.0.0.1:8640", "http://", "http://x/api"] {
            let f = new(bad).err().unwrap();
            assert_eq!(f.exit, Exit::Usage, "{bad}");
        }
    }

    /// Catches a token that others on the way can read.
    #[test]
    fn a_token_is_sent_in_plain_text_to_this_machine_only() {
        let with = |server: &str| new(server).unwrap().with_token(Some(Credential("t".into())));
        for local in
            ["unix:/run/x.sock", "http://127.0.0.1:1", "http://[::1]:1", "http://localhost", "http://127.9.9.9"]
        {
            assert!(with(local).is_ok(), "{local}");
        }
        for other in
            ["http://192.0.2.1:1", "http://[2001:db8::1]:1", "http://localhost.example:1", "http://127.0.0.1.example"]
        {
            let failure = with(other).err().unwrap();
            assert!(
                failure.exit == Exit::Usage && failure.message.contains("without encryption"),
                "{other}: {failure}"
            );
            assert!(new(other).unwrap().with_token(None).is_ok());
        }
    }

    #[tokio::test]
    async fn an_absent_controller_is_named_with_what_to_do() {
        let f = new("unix:/nonexistent/canopy.sock").unwrap().get::<Value>("listing groups", "/").await.unwrap_err();
        assert!(
            f.message.starts_with("listing groups: cannot reach the controller at unix:/nonexistent/canopy.sock"),
            "{f}"
        );
        assert_eq!(f.exit, Exit::Error);
    }
}
