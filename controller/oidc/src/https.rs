// SPDX-License-Identifier: Apache-2.0
//! Requests to the provider: over TLS 1.3, one connection each, within a time and a size, to where they are sent and nowhere else.

use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::header::{ACCEPT, CONNECTION, HOST};
use hyper::{Request, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, RootCertStore, crypto::aws_lc_rs};

/// Time for a whole request.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Octets of an answer; the largest is a set of keys.
const MAX_ANSWER: usize = 256 << 10;

/// An address over TLS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    text: String,
    host: String,
    port: u16,
    /// What `Host` has.
    authority: String,
    path: String,
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is no https address");
        let uri: Uri = text.parse().map_err(|_| wrong())?;
        let authority = uri.authority().filter(|authority| !authority.as_str().contains('@')).ok_or_else(wrong)?;
        if uri.scheme_str() != Some("https") || text.contains('#') || authority.host().is_empty() {
            return Err(wrong());
        }
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        let path = uri.path_and_query().map_or("/", |path| path.as_str()).to_owned();
        let (authority, port) = (authority.to_string(), authority.port_u16().unwrap_or(443));
        Ok(Self { text: text.to_owned(), host, port, authority, path })
    }
}

impl Address {
    pub(crate) fn as_str(&self) -> &str {
        &self.text
    }

    /// What a request has as its target.
    pub(crate) fn path(&self) -> &str {
        &self.path
    }
}

/// A client that knows the provider's certificate by these authorities.
pub(crate) struct Https(Arc<ClientConfig>);

impl Https {
    pub(crate) fn new(roots: RootCertStore) -> Result<Self, String> {
        let builder = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()));
        let builder = builder.with_safe_default_protocol_versions().map_err(|error| error.to_string())?;
        let mut config = builder.with_root_certificates(roots).with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self(Arc::new(config)))
    }

    /// The answer to a GET.
    pub(crate) async fn get(&self, from: &Address) -> Result<(StatusCode, Bytes), String> {
        let request = Request::get(&from.path).body(Full::default());
        self.send(from, request.map_err(|error| error.to_string())?).await
    }

    /// The answer to `request`, whose target is the path of `to`.
    pub(crate) async fn send(
        &self,
        to: &Address,
        request: Request<Full<Bytes>>,
    ) -> Result<(StatusCode, Bytes), String> {
        let answer = tokio::time::timeout(TIMEOUT, self.answer(to, request)).await;
        let (status, body) = answer.unwrap_or_else(|_| Err(format!("no answer within {TIMEOUT:?}")))?;
        // It would be another server that gets our secrets.
        if status.is_redirection() {
            return Err(format!("the answer is a redirect ({status}), which is not followed"));
        }
        Ok((status, body))
    }

    async fn answer(&self, to: &Address, mut request: Request<Full<Bytes>>) -> Result<(StatusCode, Bytes), String> {
        let name = ServerName::try_from(to.host.clone()).map_err(|error| error.to_string())?;
        let stream = TcpStream::connect((to.host.as_str(), to.port)).await.map_err(|error| error.to_string())?;
        let stream =
            TlsConnector::from(self.0.clone()).connect(name, stream).await.map_err(|error| error.to_string())?;
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(|error| error.to_string())?;
        // It ends with the sender.
        let driving = tokio::spawn(connection);
        let fixed = [(HOST, to.authority.as_str()), (ACCEPT, "application/json"), (CONNECTION, "close")];
        for (header, value) in fixed {
            request.headers_mut().insert(header, value.parse().map_err(|_| format!("{value:?} is no header"))?);
        }
        let answer = sender.send_request(request).await.map_err(|error| error.to_string())?;
        let status = answer.status();
        let body = Limited::new(answer.into_body(), MAX_ANSWER).collect().await.map_err(|error| error.to_string());
        driving.abort();
        Ok((status, body?.to_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Catches a request without TLS, and one whose credentials are in the address.
    #[test]
    fn addresses_are_over_tls() {
        let address: Address = "https://idp.example:8443/a/b?c=d".parse().unwrap();
        assert_eq!((address.host.as_str(), address.port, address.path.as_str()), ("idp.example", 8443, "/a/b?c=d"));
        let address: Address = "https://[2001:db8::1]".parse().unwrap();
        assert_eq!((address.host.as_str(), address.port, address.path.as_str()), ("2001:db8::1", 443, "/"));
        for bad in [
            "",
            "http://idp.example",
            "idp.example",
            "https://",
            "https://a@b",
            "https://a/#b",
            "https:///a",
            "file:///etc",
        ] {
            assert!(bad.parse::<Address>().is_err(), "{bad}");
        }
    }
}
