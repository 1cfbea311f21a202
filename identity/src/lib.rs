// SPDX-License-Identifier: Apache-2.0
//! Which program is at the other end of a connection: names, certificates, and TLS 1.3 between Canopy's programs.
//!
//! - [`Subject`]: the controller, a node, a host or an operator; a certificate names one, as a SPIFFE ID.
//! - [`Certificate`]: what is read of an X.509 certificate, after or before its signature was verified.
//! - [`EnrollmentToken`]: what an agent gets its first certificate with, and recognizes its controller by.
//! - [`Credentials`]: a private key, its certificate and the authorities to trust, in a directory or file of their owner's alone.
//! - [`client`] and [`server`]: configurations of rustls with verifiers that know these names; [`connect`] opens a connection.
//!
//! Host names of the network play no part: a certificate is good for its subject wherever that is reached.

mod certificate;
mod credentials;
mod files;
mod pem;
mod request;
mod subject;
mod tls;
mod token;

pub use certificate::{AuthorityHash, AuthorityName, Certificate, KeyHash, NotACertificate, NotAnAuthority};
pub use credentials::{Credentials, CredentialsError};
pub use files::{FileError, private_directory, read, read_secret, remove, rename, replace};
pub use pem::{request_of_pem, request_to_pem, to_pem};
pub use request::{PrivateKey, key_hash_of_request, key_of_request};
pub use rustls::pki_types::CertificateDer;
pub use rustls::{ClientConfig, Error as TlsError};
pub use subject::{NotASubject, Subject, TrustDomain};
pub use tls::{
    ClientStream, Clients, ConnectError, Revoked, ServerKey, Trust, client, connect, is_signed_by, operator, secure,
    server,
};
pub use token::{EnrollmentToken, NotAToken, Secret};

use std::time::Duration;

/// How long a certificate that has expired still identifies its subject, for its renewal and for nothing else.
pub const RENEWABLE: Duration = Duration::from_secs(30 * 24 * 3600);
