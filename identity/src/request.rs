// SPDX-License-Identifier: Apache-2.0
//! Private keys, and requests to certify them (RFC 2986). A request names nothing: the controller writes the name.

use rcgen::{CertificateParams, CertificateSigningRequestParams, KeyPair, PublicKeyData};
use rustls::pki_types::{CertificateSigningRequestDer, PrivateKeyDer, PrivatePkcs8KeyDer};

use crate::certificate::KeyHash;

/// An ECDSA key on P-256. `Debug` shows nothing of it.
pub struct PrivateKey(KeyPair);

impl std::fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PrivateKey(..)")
    }
}

impl PrivateKey {
    /// A new key.
    ///
    /// # Errors
    /// The system has no randomness.
    pub fn generate() -> Result<Self, rcgen::Error> {
        KeyPair::generate().map(Self)
    }

    /// PKCS #8 in PEM.
    ///
    /// # Errors
    /// It is another text.
    pub fn from_pem(pem: &str) -> Result<Self, rcgen::Error> {
        KeyPair::from_pem(pem).map(Self)
    }

    /// PKCS #8 in PEM, for a file of its owner's alone.
    pub fn to_pem(&self) -> String {
        self.0.serialize_pem()
    }

    /// A request to certify the key, in DER.
    ///
    /// # Errors
    /// It cannot be signed.
    pub fn request(&self) -> Result<Vec<u8>, rcgen::Error> {
        Ok(CertificateParams::default().serialize_request(&self.0)?.der().to_vec())
    }

    /// Which key it is.
    pub fn hash(&self) -> KeyHash {
        KeyHash::of(&self.0.subject_public_key_info())
    }

    /// For rustls.
    pub fn der(&self) -> PrivateKeyDer<'static> {
        PrivatePkcs8KeyDer::from(self.0.serialize_der()).into()
    }

    /// For the authority's own signatures.
    pub fn into_pair(self) -> KeyPair {
        self.0
    }
}

/// Which key a request asks to certify. The request is signed with it.
///
/// # Errors
/// It is not a request, or its signature does not match.
pub fn key_hash_of_request(der: &[u8]) -> Result<KeyHash, rcgen::Error> {
    key_of_request(der).map(|key| KeyHash::of(&key.subject_public_key_info()))
}

/// The key that a request asks to certify, as a SubjectPublicKeyInfo in DER. The request is signed with it.
///
/// # Errors
/// It is not a request, or its signature does not match.
pub fn key_of_request(der: &[u8]) -> Result<rcgen::PublicKey, rcgen::Error> {
    Ok(CertificateSigningRequestParams::from_der(&CertificateSigningRequestDer::from(der))?.public_key)
}
