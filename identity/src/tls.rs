// SPDX-License-Identifier: Apache-2.0
//! TLS 1.3 (RFC 8446) between programs that know each other by [`Subject`], with HTTP/2 on top between controller and agents, and HTTP/1.1
//! between it and operators.
//!
//! Sessions are not resumed: each connection verifies the certificates that are valid and not revoked now.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{Resumption, verify_server_cert_signed_by_trust_anchor};
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime as TlsTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{NoServerSessionStorage, ParsedCertificate, WebPkiClientVerifier};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, DistinguishedName, Error, RootCertStore, ServerConfig,
    SignatureScheme, version,
};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::RENEWABLE;
use crate::certificate::{AuthorityHash, Certificate};
use crate::credentials::Credentials;
use crate::request::PrivateKey;
use crate::subject::{Subject, TrustDomain};

/// The protocol of agents above TLS.
const HTTP2: &[u8] = b"h2";
/// That of operators.
const HTTP1: &[u8] = b"http/1.1";

/// What a client recognizes the controller by.
#[derive(Clone, Debug)]
pub enum Trust {
    /// The authority of an enrollment token.
    Token(AuthorityHash),
    /// These authorities, in this domain.
    Authorities(Vec<CertificateDer<'static>>, TrustDomain),
}

/// Whose certificates a server accepts. What they may do is decided per call.
pub enum Clients {
    /// Agents, also with a certificate that has ended and can be renewed.
    Agents(Revoked),
    /// Operators, as long as their certificates are valid.
    Operators,
}

/// Which certificates are revoked, as known now.
pub type Revoked = Arc<dyn Fn(&Certificate) -> bool + Send + Sync>;

/// A connection to the controller.
pub type ClientStream = TlsStream<TcpStream>;

/// What the controller shows.
#[derive(Debug)]
pub struct ServerKey {
    /// Its key.
    pub key: PrivateKey,
    /// Its certificate first, the authority's last: an agent with a token finds the authority there.
    pub chain: Vec<CertificateDer<'static>>,
}

/// The controller cannot be connected to.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// It is no name or address.
    #[error("{0:?} is not a host name or an address")]
    Name(String),
    /// Its certificate is of an authority that is not trusted here.
    #[error(
        "what answers has a certificate of another authority than is trusted here: it is not the controller, or the controller's authority was replaced meanwhile (`canopyctl ca status` there): enroll this agent again, or give `canopyctl` the hash of the new authority"
    )]
    Authority,
    /// The network, or TLS.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// A client that accepts the controller alone, and shows `own`, if it has any.
///
/// # Errors
/// A certificate of an authority cannot be used, or the key does not fit.
pub fn client(trust: Trust, own: Option<&Credentials>) -> Result<ClientConfig, Error> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let roots = match &trust {
        Trust::Token(_) => RootCertStore::empty(),
        Trust::Authorities(list, _) => roots(list)?,
    };
    let verifier = Arc::new(ControllerVerifier { trust, roots, provider: provider.clone() });
    let builder = ClientConfig::builder_with_provider(provider).with_protocol_versions(&[&version::TLS13])?;
    let builder = builder.dangerous().with_custom_certificate_verifier(verifier);
    let mut config = match own {
        Some(own) => builder.with_client_auth_cert(own.chain.clone(), own.key.der())?,
        None => builder.with_no_client_auth(),
    };
    config.resumption = Resumption::disabled();
    config.alpn_protocols = vec![HTTP2.to_vec()];
    Ok(config)
}

/// The controller's server. Clients without a certificate are let in, and what they may do is decided per call.
///
/// A certificate of the others is refused: an operator's is worth nothing to agents, and the reverse.
///
/// # Errors
/// A certificate of an authority cannot be used, or the key does not fit.
pub fn server(
    own: &ServerKey,
    authorities: &[CertificateDer<'static>],
    domain: TrustDomain,
    clients: Clients,
) -> Result<ServerConfig, Error> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let chains = WebPkiClientVerifier::builder_with_provider(Arc::new(roots(authorities)?), provider.clone())
        .allow_unauthenticated()
        .build()
        .map_err(|error| Error::General(error.to_string()))?;
    let builder = ServerConfig::builder_with_provider(provider).with_protocol_versions(&[&version::TLS13])?;
    let protocol = match &clients {
        Clients::Agents(_) => HTTP2,
        Clients::Operators => HTTP1,
    };
    let builder = builder.with_client_cert_verifier(Arc::new(ClientVerifier { chains, domain, clients }));
    let mut config = builder.with_single_cert(own.chain.clone(), own.key.der())?;
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    config.alpn_protocols = vec![protocol.to_vec()];
    Ok(config)
}

/// A client of operators: as [`client`], above HTTP/1.1.
///
/// # Errors
/// As [`client`].
pub fn operator(trust: Trust, own: Option<&Credentials>) -> Result<ClientConfig, Error> {
    let mut config = client(trust, own)?;
    config.alpn_protocols = vec![HTTP1.to_vec()];
    Ok(config)
}

/// Whether `authority` has signed a certificate of an agent, valid now or not.
pub fn is_signed_by(der: &CertificateDer<'_>, authority: &CertificateDer<'static>) -> bool {
    let verified = || -> Option<ClientCertVerified> {
        let end = Duration::from_nanos(read(der).ok()?.not_after.nanos());
        let roots = Arc::new(roots(std::slice::from_ref(authority)).ok()?);
        let provider = Arc::new(aws_lc_rs::default_provider());
        let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider).build().ok()?;
        verifier.verify_client_cert(der, &[], TlsTime::since_unix_epoch(end)).ok()
    };
    verified().is_some()
}

/// Connects to `host`, a name or an address.
///
/// # Errors
/// Nothing answers there, or what answers is not the controller.
pub async fn connect(host: &str, port: u16, config: Arc<ClientConfig>) -> Result<ClientStream, ConnectError> {
    let stream = TcpStream::connect((bare(host), port)).await?;
    secure(stream, host, config).await
}

/// TLS over a connection to `host`. The name is sent, and not what the controller is recognized by.
///
/// # Errors
/// What answers is not the controller.
pub async fn secure(stream: TcpStream, host: &str, config: Arc<ClientConfig>) -> Result<ClientStream, ConnectError> {
    let name = ServerName::try_from(bare(host).to_owned()).map_err(|_| ConnectError::Name(host.to_owned()))?;
    stream.set_nodelay(true)?;
    let connected = TlsConnector::from(config).connect(name, stream).await;
    connected.map_err(|error| if is_of_other_authority(&error) { ConnectError::Authority } else { error.into() })
}

/// Without the brackets of an IPv6 address.
fn bare(host: &str) -> &str {
    host.trim_start_matches('[').trim_end_matches(']')
}

fn is_of_other_authority(error: &io::Error) -> bool {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<Error>());
    // Authorities of one domain have one name: it is the signature that differs.
    let other = CertificateError::UnknownIssuer;
    matches!(inner, Some(Error::InvalidCertificate(found)) if *found == other || *found == CertificateError::BadSignature)
}

fn roots(authorities: &[CertificateDer<'static>]) -> Result<RootCertStore, Error> {
    let mut roots = RootCertStore::empty();
    authorities.iter().try_for_each(|authority| roots.add(authority.clone()))?;
    Ok(roots)
}

fn read(der: &CertificateDer<'_>) -> Result<Certificate, Error> {
    Certificate::read(der).map_err(|_| CertificateError::BadEncoding.into())
}

/// Accepts the controller.
#[derive(Debug)]
struct ControllerVerifier {
    trust: Trust,
    roots: RootCertStore,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for ControllerVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        now: TlsTime,
    ) -> Result<ServerCertVerified, Error> {
        let pinned;
        let (roots, domain) = match &self.trust {
            Trust::Authorities(_, domain) => (&self.roots, Some(domain)),
            Trust::Token(hash) => {
                let is_it = |der: &&CertificateDer<'_>| AuthorityHash::of(der).is_ok_and(|of| of == *hash);
                let authority = intermediates.iter().find(is_it).ok_or(CertificateError::UnknownIssuer)?;
                pinned = self::roots(&[authority.clone().into_owned()])?;
                (&pinned, None)
            }
        };
        let parsed = ParsedCertificate::try_from(end_entity)?;
        let algorithms = self.provider.signature_verification_algorithms.all;
        verify_server_cert_signed_by_trust_anchor(&parsed, roots, intermediates, now, algorithms)?;
        let found = read(end_entity)?;
        if found.subject != Subject::Controller || domain.is_some_and(|domain| *domain != found.domain) {
            return Err(CertificateError::NotValidForName.into());
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(Error::General("TLS 1.2 is not offered".into()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

/// Accepts agents, or operators, of the domain.
struct ClientVerifier {
    chains: Arc<dyn ClientCertVerifier>,
    domain: TrustDomain,
    clients: Clients,
}

impl std::fmt::Debug for ClientVerifier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClientVerifier").field("domain", &self.domain).finish_non_exhaustive()
    }
}

impl ClientCertVerifier for ClientVerifier {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.chains.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: TlsTime,
    ) -> Result<ClientCertVerified, Error> {
        let found = read(end_entity)?;
        let is_wanted = match (&self.clients, &found.subject) {
            (Clients::Agents(_), Subject::Node(_) | Subject::Host(_)) | (Clients::Operators, Subject::Operator(_)) => {
                true
            }
            (Clients::Agents(_) | Clients::Operators, _) => false,
        };
        let end = Duration::from_nanos(found.not_after.nanos());
        let past = Duration::from_secs(now.as_secs()).checked_sub(end);
        let is_renewable = matches!(self.clients, Clients::Agents(_)) && past.is_some_and(|past| past <= RENEWABLE);
        let at = if is_renewable { TlsTime::since_unix_epoch(end) } else { now };
        let verified = self.chains.verify_client_cert(end_entity, intermediates, at)?;
        if found.domain != self.domain || !is_wanted {
            return Err(CertificateError::NotValidForName.into());
        }
        match &self.clients {
            Clients::Agents(revoked) if revoked(&found) => Err(CertificateError::Revoked.into()),
            Clients::Agents(_) | Clients::Operators => Ok(verified),
        }
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(Error::General("TLS 1.2 is not offered".into()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.chains.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.chains.supported_verify_schemes()
    }
}
