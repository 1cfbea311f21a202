// SPDX-License-Identifier: Apache-2.0
//! What `doctor` has of a controller that refuses the agent's certificate.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;

use canopy_agent_link::{Target, reach};
use canopy_identity::{CertificateDer, Clients, Credentials, PrivateKey, ServerKey};
use rcgen::{BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, SanType};
use tokio::io::AsyncReadExt;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: CertificateDer<'static>,
}

impl Authority {
    fn new() -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let certificate = params.self_signed(&key).unwrap().der().clone();
        Self { issuer: Issuer::from_ca_cert_der(&certificate, key).unwrap(), certificate }
    }

    fn certify(&self, key: &PrivateKey, name: &str) -> Vec<CertificateDer<'static>> {
        let mut params = CertificateParams::default();
        params.subject_alt_names = vec![SanType::URI(format!("spiffe://canopy/{name}").try_into().unwrap())];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let pair = KeyPair::from_pem(&key.to_pem()).unwrap();
        let made = params.signed_by(&pair, &self.issuer).unwrap().der().clone();
        vec![made]
    }
}

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
    let target = Target::Tls { host: "127.0.0.1".into(), port };
    let why = reach(&target, directory.path()).await.unwrap_err().to_string();
    serving.abort();
    assert!(why.contains("does not accept this certificate") && why.contains("received fatal alert"), "{why}");
}
