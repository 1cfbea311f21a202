// SPDX-License-Identifier: Apache-2.0
//! Certificates and requests as text (RFC 7468).

use base64::Engine;
use rustls::pki_types::pem::{Error, PemObject};
use rustls::pki_types::{CertificateDer, CertificateSigningRequestDer};

/// A certificate as text.
pub fn to_pem(der: &CertificateDer<'_>) -> String {
    armor("CERTIFICATE", der)
}

/// A certificate request as text.
pub fn request_to_pem(der: &[u8]) -> String {
    armor("CERTIFICATE REQUEST", der)
}

/// The first certificate request in a text, in DER.
///
/// # Errors
/// The text has none.
pub fn request_of_pem(text: &str) -> Result<Vec<u8>, Error> {
    CertificateSigningRequestDer::from_pem_slice(text.as_bytes()).map(|der| der.to_vec())
}

fn armor(label: &str, der: &[u8]) -> String {
    let text = base64::engine::general_purpose::STANDARD.encode(der);
    let lines: Vec<&str> = text.as_bytes().chunks(64).filter_map(|line| std::str::from_utf8(line).ok()).collect();
    format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", lines.join("\n"))
}
