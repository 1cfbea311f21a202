// SPDX-License-Identifier: Apache-2.0
//! What Canopy reads of an X.509 certificate (RFC 5280; X.509-SVID, section 2).

use std::fmt;
use std::str::FromStr;

use canopy_units::UnixTime;
use rustls::pki_types::CertificateDer;
use sha2::{Digest, Sha256};
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::subject::{Subject, TrustDomain};

/// SHA-256 of a SubjectPublicKeyInfo: which key a certificate is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct KeyHash(pub [u8; 32]);

/// SHA-256 of an authority's SubjectPublicKeyInfo: the same for every certificate of that key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AuthorityHash(pub [u8; 32]);

/// Subject, key and validity of a certificate. Reading it verifies no signature.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificate {
    /// Domain of the subject.
    pub domain: TrustDomain,
    /// The only name in it.
    pub subject: Subject,
    /// Not valid before.
    pub not_before: UnixTime,
    /// Not valid after.
    pub not_after: UnixTime,
    /// Its key.
    pub key: KeyHash,
}

/// A certificate that names no program of Canopy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a certificate of a program of Canopy: {0}")]
pub struct NotACertificate(String);

impl AuthorityHash {
    /// Of an authority's certificate.
    ///
    /// # Errors
    /// It is not a certificate.
    pub fn of(der: &CertificateDer<'_>) -> Result<Self, NotACertificate> {
        Ok(Self(hash(parse(der)?.public_key().raw)))
    }
}

/// Hexadecimal.
impl fmt::Display for AuthorityHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

impl FromStr for AuthorityHash {
    type Err = NotAnAuthority;

    fn from_str(text: &str) -> Result<Self, NotAnAuthority> {
        let mut octets = [0; 32];
        hex::decode_to_slice(text, &mut octets).map_err(|_| NotAnAuthority(text.to_owned()))?;
        Ok(Self(octets))
    }
}

/// A text is not the hash of an authority.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not an authority: use its 64 hexadecimal digits, as `canopyctl token create` prints them")]
pub struct NotAnAuthority(pub String);

/// Names in the certificate of an authority, as text (RFC 4514).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthorityName {
    /// Its own.
    pub subject: String,
    /// That of the one that has signed it.
    pub issuer: String,
}

impl AuthorityName {
    /// Of a certificate.
    ///
    /// # Errors
    /// It is not a certificate.
    pub fn read(der: &CertificateDer<'_>) -> Result<Self, NotACertificate> {
        let certificate = parse(der)?;
        Ok(Self { subject: certificate.subject().to_string(), issuer: certificate.issuer().to_string() })
    }
}

impl KeyHash {
    /// Of a SubjectPublicKeyInfo in DER.
    pub fn of(spki: &[u8]) -> Self {
        Self(hash(spki))
    }
}

impl Certificate {
    /// Reads a certificate that has exactly one subject alternative name, a SPIFFE ID.
    ///
    /// # Errors
    /// It is none.
    pub fn read(der: &CertificateDer<'_>) -> Result<Self, NotACertificate> {
        let certificate = parse(der)?;
        let names = certificate.subject_alternative_name().map_err(|error| NotACertificate(error.to_string()))?;
        let names = names.map(|extension| extension.value.general_names.as_slice()).unwrap_or_default();
        let [GeneralName::URI(uri)] = names else {
            return Err(NotACertificate(format!("{} names, one SPIFFE ID is wanted", names.len())));
        };
        let (domain, subject) = Subject::of_uri(uri).map_err(|error| NotACertificate(error.to_string()))?;
        let time = |at: i64| UnixTime::from_nanos(u64::try_from(at).unwrap_or(0).saturating_mul(1_000_000_000));
        let validity = certificate.validity();
        Ok(Self {
            domain,
            subject,
            not_before: time(validity.not_before.timestamp()),
            not_after: time(validity.not_after.timestamp()),
            key: KeyHash::of(certificate.public_key().raw),
        })
    }
}

fn parse<'a>(der: &'a CertificateDer<'_>) -> Result<X509Certificate<'a>, NotACertificate> {
    match X509Certificate::from_der(der) {
        Ok(([], certificate)) => Ok(certificate),
        Ok(_) => Err(NotACertificate("octets follow it".into())),
        Err(error) => Err(NotACertificate(error.to_string())),
    }
}

fn hash(octets: &[u8]) -> [u8; 32] {
    Sha256::digest(octets).into()
}
