// SPDX-License-Identifier: Apache-2.0
//! One request to the API server: TLS 1.3 with the cluster's authority, HTTP/1.1, bounded in time and size.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue};
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::TokioIo;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore, version};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::Settings;

/// An answer comes within this.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);
/// Largest answer, octets.
const MAX_ANSWER: usize = 256 << 10;

/// The API server did not answer; the text has no token.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Unanswered(String);

fn because(what: impl std::fmt::Display) -> Unanswered {
    Unanswered(what.to_string())
}

/// Sends one request. Files are read each time: Kubernetes replaces them.
pub(crate) async fn call(
    settings: &Settings,
    method: Method,
    path: &str,
    content_type: &'static str,
    body: Vec<u8>,
) -> Result<(StatusCode, Bytes), Unanswered> {
    let answered = tokio::time::timeout(ANSWER_WITHIN, exchange(settings, method, path, content_type, body)).await;
    answered.unwrap_or_else(|_| Err(because(format_args!("no answer within {ANSWER_WITHIN:?}"))))
}

async fn exchange(
    settings: &Settings,
    method: Method,
    path: &str,
    content_type: &'static str,
    body: Vec<u8>,
) -> Result<(StatusCode, Bytes), Unanswered> {
    let address = &settings.api;
    let token = read(&settings.token_file).await?;
    let mut bearer = HeaderValue::try_from(format!("Bearer {}", token.trim()))
        .map_err(|_| because(format_args!("{}: not a token", settings.token_file.display())))?;
    bearer.set_sensitive(true);
    let config = config(&read(&settings.ca_file).await?, &settings.ca_file)?;
    let name = ServerName::try_from(address.host.clone()).map_err(because)?;
    let stream = TcpStream::connect((address.host.as_str(), address.port)).await.map_err(because)?;
    let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await.map_err(because)?;
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(because)?;
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header(HOST, address.to_string().trim_start_matches("https://"))
        .header(ACCEPT, "application/json")
        .header(AUTHORIZATION, bearer)
        .header(CONTENT_TYPE, content_type)
        .body(Full::new(Bytes::from(body)))
        .map_err(because)?;
    let answering = async {
        let answer = sender.send_request(request).await.map_err(because)?;
        let status = answer.status();
        let body = Limited::new(answer.into_body(), MAX_ANSWER).collect().await;
        Ok((status, body.map_err(because)?.to_bytes()))
    };
    tokio::pin!(answering, connection);
    tokio::select! {
        answer = &mut answering => answer,
        // What a connection that has ended has delivered is read.
        ended = &mut connection => match ended {
            Ok(()) => answering.await,
            Err(error) => Err(because(error)),
        },
    }
}

async fn read(path: &Path) -> Result<String, Unanswered> {
    tokio::fs::read_to_string(path).await.map_err(|error| because(format_args!("{}: {error}", path.display())))
}

fn config(pem: &str, path: &Path) -> Result<ClientConfig, Unanswered> {
    let unusable = |error: &dyn std::fmt::Display| because(format_args!("{}: {error}", path.display()));
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem.as_bytes()) {
        let certificate = certificate.map_err(|error| unusable(&error))?;
        roots.add(certificate).map_err(|error| unusable(&error))?;
    }
    if roots.is_empty() {
        return Err(unusable(&"no certificate in PEM"));
    }
    let builder = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_protocol_versions(&[&version::TLS13])
        .map_err(because)?;
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}
