// SPDX-License-Identifier: Apache-2.0
//! Serves the web UI at 127.0.0.1 and forwards every request to the controller, as `kubectl proxy` does.
//!
//! What it forwards is marked: it has the rights of the session that the browser sends, and none of the user that runs this program. So
//! another user of this machine, who can connect too, gets nothing from it. Pages of other origins are refused here, as the controller
//! refuses them at its own address.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONNECTION, CONTENT_TYPE, HOST, HeaderMap, HeaderName, HeaderValue, ORIGIN, UPGRADE};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

use crate::client::Client;
use crate::failure::{Exit, Failure};

/// Connections at once: one browser has six, and a stream for each tab.
const MAX_CONNECTIONS: usize = 32;
/// A request's headers must arrive within this time.
const HEADER_TIMEOUT: Duration = Duration::from_secs(15);
/// The controller's answer must begin within this time; it has 30 s itself.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(35);
/// By it the controller does not take the sender for the user that runs this program.
const FORWARDED: HeaderName = HeaderName::from_static("canopy-forwarded");

type Answer = Response<BoxBody<Bytes, hyper::Error>>;

/// A listener and the controller behind it.
pub(crate) struct Proxy {
    listener: TcpListener,
    /// `127.0.0.1:port`.
    authority: Arc<str>,
    client: Client,
    /// Drawn by this proxy, and sent with every request: a session that it begins works by it alone.
    mark: HeaderValue,
}

impl Proxy {
    /// At this port of 127.0.0.1; 0 selects a free one.
    ///
    /// # Errors
    /// It cannot be served at.
    pub(crate) async fn bind(client: Client, port: u16) -> Result<Self, Failure> {
        let failure = |e: std::io::Error| Failure::new(Exit::Error, format!("listening on 127.0.0.1:{port}: {e}"));
        let listener = TcpListener::bind(("127.0.0.1", port)).await.map_err(failure)?;
        let authority = listener.local_addr().map_err(failure)?.to_string().into();
        let mut octets = [0; 16];
        let random = getrandom::fill(&mut octets);
        random.map_err(|e| Failure::new(Exit::Error, format!("the operating system gives no random numbers: {e}")))?;
        let mark = octets.iter().map(|octet| format!("{octet:02x}")).collect::<String>();
        let mut mark = HeaderValue::try_from(mark).map_err(|e| Failure::new(Exit::Error, e.to_string()))?;
        mark.set_sensitive(true);
        Ok(Self { listener, authority, client, mark })
    }

    /// For the address bar of a browser.
    pub(crate) fn address(&self) -> String {
        format!("http://{}", self.authority)
    }

    /// Serves for ever.
    pub(crate) async fn serve(self) {
        let Self { listener, authority, client, mark } = self;
        let slots = Arc::new(Semaphore::new(MAX_CONNECTIONS));
        loop {
            let slot = slots.clone().acquire_owned().await;
            let Ok((stream, _)) = listener.accept().await else {
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            };
            let (authority, client, mark) = (authority.clone(), client.clone(), mark.clone());
            tokio::spawn(async move {
                let _slot = slot;
                let answer = service_fn(|request| {
                    let (authority, client, mark) = (authority.clone(), client.clone(), mark.clone());
                    async move { Ok::<_, Infallible>(answer(request, &authority, &client, mark).await) }
                });
                let mut server = http1::Builder::new();
                server.timer(TokioTimer::new()).header_read_timeout(HEADER_TIMEOUT);
                // A browser that goes away is no failure.
                _ = server.serve_connection(TokioIo::new(stream), answer).await;
            });
        }
    }
}

async fn answer(mut request: Request<Incoming>, authority: &str, client: &Client, mark: HeaderValue) -> Answer {
    if let Err((status, why)) = check(request.method(), request.headers(), authority) {
        return plain(status, why);
    }
    let headers = request.headers_mut();
    hop_by_hop(headers);
    headers.insert(FORWARDED, mark);
    let forwarded = tokio::time::timeout(ANSWER_TIMEOUT, client.forward(request)).await;
    let late = |_| Failure::new(Exit::Timeout, format!("{} did not answer within {ANSWER_TIMEOUT:?}", client.name()));
    match forwarded.map_err(late).and_then(|answered| answered) {
        Ok(mut answer) => {
            hop_by_hop(answer.headers_mut());
            answer.map(BodyExt::boxed)
        }
        Err(failure) => plain(StatusCode::BAD_GATEWAY, failure.message),
    }
}

/// Whether this address is meant, and no page of another one writes.
fn check(method: &Method, headers: &HeaderMap, authority: &str) -> Result<(), (StatusCode, String)> {
    let host = headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or("");
    if host != authority {
        return Err((StatusCode::MISDIRECTED_REQUEST, format!("Host is {host:?}: use http://{authority}")));
    }
    if method == Method::GET || method == Method::HEAD {
        return Ok(());
    }
    let foreign = || Err((StatusCode::FORBIDDEN, format!("pages of http://{authority} only")));
    let own = format!("http://{authority}");
    if headers.get_all(ORIGIN).iter().any(|origin| origin.as_bytes() != own.as_bytes()) {
        return foreign();
    }
    match headers.get("sec-fetch-site").map(HeaderValue::as_bytes) {
        None | Some(b"same-origin" | b"none") => Ok(()),
        Some(_) => foreign(),
    }
}

/// Removes the headers of one connection (RFC 9110 section 7.6.1).
fn hop_by_hop(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    for name in named.iter().chain(&[CONNECTION, UPGRADE]) {
        headers.remove(name);
    }
    for name in ["keep-alive", "proxy-connection", "proxy-authorization", "te", "trailer"] {
        headers.remove(name);
    }
}

fn plain(status: StatusCode, why: String) -> Answer {
    let body = Full::new(Bytes::from(why + "\n")).map_err(|never| match never {});
    let mut answer = Response::new(body.boxed());
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: &str = "127.0.0.1:4000";

    fn headers(all: &[(&'static str, &'static str)]) -> HeaderMap {
        all.iter().map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value))).collect()
    }

    /// Catches another name for this address (DNS rebinding), and a page of another origin or port that writes.
    #[test]
    fn only_pages_of_this_address_write_and_only_its_name_is_answered() {
        let status = |method: Method, all: &[(&'static str, &'static str)]| {
            check(&method, &headers(all), OWN).err().map(|(status, _)| status.as_u16())
        };
        assert_eq!(status(Method::GET, &[("host", OWN)]), None);
        assert_eq!(status(Method::POST, &[("host", OWN), ("origin", "http://127.0.0.1:4000")]), None);
        assert_eq!(status(Method::POST, &[("host", OWN), ("sec-fetch-site", "same-origin")]), None);
        for host in ["", "localhost:4000", "127.0.0.1", "127.0.0.1:4001", "evil.example:4000"] {
            assert_eq!(status(Method::GET, &[("host", host)]), Some(421), "{host}");
        }
        for origin in ["http://127.0.0.1:4001", "https://127.0.0.1:4000", "http://evil.example", "null", ""] {
            assert_eq!(status(Method::DELETE, &[("host", OWN), ("origin", origin)]), Some(403), "{origin}");
        }
        for site in ["cross-site", "same-site"] {
            assert_eq!(status(Method::PUT, &[("host", OWN), ("sec-fetch-site", site)]), Some(403), "{site}");
        }
    }

    #[test]
    fn headers_of_one_connection_are_not_forwarded() {
        let mut all = headers(&[
            ("connection", "close, x-own"),
            ("x-own", "1"),
            ("keep-alive", "5"),
            ("te", "trailers"),
            ("accept", "a"),
            ("authorization", "Bearer b"),
        ]);
        hop_by_hop(&mut all);
        let mut left: Vec<&str> = all.keys().map(HeaderName::as_str).collect();
        left.sort_unstable();
        assert_eq!(left, ["accept", "authorization"]);
    }
}
