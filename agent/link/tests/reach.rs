// SPDX-License-Identifier: Apache-2.0
//! What `doctor` has of a controller that refuses the agent's certificate.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod authority;

use std::sync::Arc;

use authority::Authority;
use canopy_agent_link::{Target, reach};
use canopy_identity::{CertificateDer, Clients, Credentials, PrivateKey, ServerKey};
use tokio::io::AsyncReadExt;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

/// Catches a reason that depends on which came first, the refusal or the end of the call on the closed connection.
#[tokio::test]
async fn a_certificate_that_is_refused_is_named_whatever_the_first_call_fails_with() {
    let (own, other) = (Authority::new(), Authority::new());
    let directory = tempfile::tempdir().unwrap();
    let key = Credentials::key(directory.path()).unwrap();
    let chain = other.certify(&key, "host/r1");
    let octets = |der: &CertificateDer<'_>| der.to_vec();
    let credentials = Credentials::new(key, chain.iter().map(octets).collect(), vec![own.certificate.to_vec()]);
    credentials.unwrap().save(directory.path()).unwrap();

    let acceptor = |clients: &Authority| {
        let key = PrivateKey::generate().unwrap();
        let chain = own.certify(&key, "controller");
        let (trusted, domain) = (std::slice::from_ref(&clients.certificate), "canopy".parse().unwrap());
        let agents = Clients::Agents(Arc::new(|_| false));
        TlsAcceptor::from(Arc::new(
            canopy_identity::server(&ServerKey { key, chain }, trusted, domain, agents).unwrap(),
        ))
    };
    let (closes, refuses) = (acceptor(&other), acceptor(&own));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let serving = tokio::spawn(async move {
        // The first connection ends after the handshake, as one whose refusal is not read in time.
        let mut stream = closes.accept(listener.accept().await.unwrap().0).await.unwrap();
        stream.read_u8().await.unwrap();
        drop(stream);
        let mut refused = 0;
        while let Ok((stream, _)) = listener.accept().await {
            refused += u32::from(refuses.accept(stream).await.is_err());
        }
        refused
    });
    let target: Target = format!("https://127.0.0.1:{port}").parse().unwrap();
    let why = reach(&target, directory.path()).await.unwrap_err().to_string();
    serving.abort();
    assert!(why.contains("does not accept this certificate") && why.contains("received fatal alert"), "{why}");
}
