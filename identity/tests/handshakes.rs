// SPDX-License-Identifier: Apache-2.0
//! Handshakes with certificates of another authority than Canopy's own, such as SPIRE's: one that serves as client and server alike.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;

use canopy_identity::{CertificateDer, Clients, Credentials, PrivateKey, Revoked, ServerKey, Trust, TrustDomain};
use rcgen::{
    BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose, SanType,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
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
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let certificate = params.self_signed(&key).unwrap().der().clone();
        Self { issuer: Issuer::from_ca_cert_der(&certificate, key).unwrap(), certificate }
    }

    /// For client and server, with these names.
    fn certify(&self, names: &[&str]) -> (PrivateKey, Vec<CertificateDer<'static>>) {
        let key = PrivateKey::generate().unwrap();
        let pair = KeyPair::from_pem(&key.to_pem()).unwrap();
        let mut params = CertificateParams::default();
        params.subject_alt_names = names.iter().map(|name| SanType::URI((*name).try_into().unwrap())).collect();
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let made = params.signed_by(&pair, &self.issuer).unwrap().der().clone();
        (key, vec![made, self.certificate.clone()])
    }

    fn credentials(&self, name: &str) -> Credentials {
        let (key, chain) = self.certify(&[name]);
        let octets = |der: &CertificateDer<'_>| der.to_vec();
        Credentials::new(key, chain.iter().map(octets).collect(), vec![self.certificate.to_vec()]).unwrap()
    }
}

fn domain() -> TrustDomain {
    "canopy".parse().unwrap()
}

/// One octet there and back, or why it did not arrive.
async fn exchange(
    authority: &Authority,
    server: &[&str],
    trust: Trust,
    own: Option<&Credentials>,
    revoked: Revoked,
) -> Result<(), String> {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let (key, chain) = authority.certify(server);
    let config = canopy_identity::server(
        &ServerKey { key, chain },
        std::slice::from_ref(&authority.certificate),
        domain(),
        Clients::Agents(revoked),
    );
    let acceptor = TlsAcceptor::from(Arc::new(config.unwrap()));
    let serving = tokio::spawn(async move {
        let mut stream = acceptor.accept(listener.accept().await.unwrap().0).await.map_err(|e| e.to_string())?;
        let octet = stream.read_u8().await.map_err(|e| e.to_string())?;
        stream.write_u8(octet).await.map_err(|e| e.to_string())
    });
    let config = Arc::new(canopy_identity::client(trust, own).unwrap());
    let calling = async {
        let mut stream = canopy_identity::connect("127.0.0.1", port, config).await.map_err(|e| e.to_string())?;
        stream.write_u8(7).await.map_err(|e| e.to_string())?;
        stream.read_u8().await.map(drop).map_err(|e| e.to_string())
    };
    let answer = calling.await;
    let served = serving.await.unwrap();
    answer.and(served)
}

/// Catches an agent whose certificate would do as a server's and that stands in for the controller.
#[tokio::test]
async fn only_the_controller_of_the_domain_is_the_controller() {
    let authority = Authority::new();
    let trust = || Trust::Authorities(vec![authority.certificate.clone()], domain());
    let none: Revoked = Arc::new(|_| false);
    let with = async |names: &[&str]| exchange(&authority, names, trust(), None, none.clone()).await;
    with(&["spiffe://canopy/controller"]).await.unwrap();
    for names in [
        &["spiffe://canopy/node/n1"][..],
        &["spiffe://canopy/host/controller"],
        &["spiffe://elsewhere/controller"],
        &["spiffe://canopy/controller", "spiffe://canopy/node/n1"],
        &[],
    ] {
        let refused = with(names).await.unwrap_err();
        assert!(refused.contains("certificate"), "{names:?}: {refused}");
    }
}

/// Catches an agent that is not given the reason why it is refused.
#[tokio::test]
async fn a_revoked_agent_gets_the_reason() {
    let authority = Authority::new();
    let own = authority.credentials("spiffe://canopy/node/n1");
    let trust = || Trust::Authorities(vec![authority.certificate.clone()], domain());
    let with = async |revoked: Revoked| {
        exchange(&authority, &["spiffe://canopy/controller"], trust(), Some(&own), revoked).await
    };
    with(Arc::new(|_| false)).await.unwrap();
    let refused = with(Arc::new(|certificate| certificate.subject.to_string() == "node/n1")).await.unwrap_err();
    assert!(refused.contains("CertificateRevoked"), "{refused}");
}
