// SPDX-License-Identifier: Apache-2.0
//! What an agent shows and trusts: `key.pem`, `certificate.pem` and `authorities.pem` in one directory.

use std::path::{Path, PathBuf};

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use crate::certificate::{AuthorityHash, Certificate, NotACertificate};
use crate::files::{self, FileError};
use crate::request::PrivateKey;

const KEY: &str = "key.pem";
const CERTIFICATE: &str = "certificate.pem";
const AUTHORITIES: &str = "authorities.pem";

/// A private key, its certificate, and the authorities whose certificates are trusted.
#[derive(Debug)]
pub struct Credentials {
    /// The key.
    pub key: PrivateKey,
    /// Its certificate first, then those of authorities between it and a trusted one.
    pub chain: Vec<CertificateDer<'static>>,
    /// Trusted authorities; two while one replaces the other.
    pub authorities: Vec<CertificateDer<'static>>,
    /// The first of `chain`, read.
    pub certificate: Certificate,
}

/// The directory has no usable credentials.
#[derive(Debug, thiserror::Error)]
pub enum CredentialsError {
    /// A file cannot be read or written.
    #[error(transparent)]
    File(#[from] FileError),
    /// A certificate is of no program of Canopy.
    #[error("{path}: {source}", path = path.display())]
    Certificate {
        /// The file.
        path: PathBuf,
        /// Why.
        source: NotACertificate,
    },
    /// The certificate is of another key.
    #[error("{directory}: the certificate is of another key than key.pem: enroll again", directory = directory.display())]
    OtherKey {
        /// The directory.
        directory: PathBuf,
    },
}

impl Credentials {
    /// From certificates in DER that belong to `key`.
    ///
    /// # Errors
    /// The first is of no program of Canopy, or of another key.
    pub fn new(key: PrivateKey, chain: Vec<Vec<u8>>, authorities: Vec<Vec<u8>>) -> Result<Self, CredentialsError> {
        let ders = |list: Vec<Vec<u8>>| list.into_iter().map(CertificateDer::from).collect::<Vec<_>>();
        Self::of(Path::new("the controller's answer"), key, ders(chain), ders(authorities))
    }

    fn of(
        directory: &Path,
        key: PrivateKey,
        chain: Vec<CertificateDer<'static>>,
        authorities: Vec<CertificateDer<'static>>,
    ) -> Result<Self, CredentialsError> {
        let first = chain.first().cloned().unwrap_or_else(|| CertificateDer::from(Vec::new()));
        let path = || directory.join(CERTIFICATE);
        let certificate =
            Certificate::read(&first).map_err(|source| CredentialsError::Certificate { path: path(), source })?;
        if certificate.key != key.hash() {
            return Err(CredentialsError::OtherKey { directory: directory.to_owned() });
        }
        if authorities.is_empty() {
            return Err(FileError::new(&directory.join(AUTHORITIES), "has no certificate of an authority").into());
        }
        Ok(Self { key, chain, authorities, certificate })
    }

    /// The key of the directory, or a new one in it: an enrollment that is repeated certifies the same key.
    ///
    /// # Errors
    /// The directory or the file cannot be used.
    pub fn key(directory: &Path) -> Result<PrivateKey, FileError> {
        files::private_directory(directory)?;
        let path = directory.join(KEY);
        let unusable = |error| FileError::new(&path, format!("not a private key: {error}"));
        if let Some(pem) = files::read_secret(&path)? {
            return PrivateKey::from_pem(&pem).map_err(unusable);
        }
        let key = PrivateKey::generate().map_err(unusable)?;
        files::replace(&path, key.to_pem().as_bytes())?;
        Ok(key)
    }

    /// Reads the directory; `None` if it has no certificate: nothing was enrolled.
    ///
    /// # Errors
    /// A file is missing, damaged, readable by others, or does not fit the others.
    pub fn load(directory: &Path) -> Result<Option<Self>, CredentialsError> {
        let path = directory.join(CERTIFICATE);
        let Some(chain) = files::read(&path)? else { return Ok(None) };
        let chain = certificates(&path, &chain)?;
        let path = directory.join(AUTHORITIES);
        let authorities = certificates(&path, &files::read(&path)?.unwrap_or_default())?;
        let path = directory.join(KEY);
        let pem = files::read_secret(&path)?.ok_or_else(|| FileError::new(&path, "is missing: enroll again"))?;
        let key =
            PrivateKey::from_pem(&pem).map_err(|error| FileError::new(&path, format!("not a private key: {error}")))?;
        Self::of(directory, key, chain, authorities).map(Some)
    }

    /// The certificate of the directory, without its key; `None` if there is none, or none that can be read.
    pub fn certificate(directory: &Path) -> Option<Certificate> {
        let path = directory.join(CERTIFICATE);
        let chain = certificates(&path, &files::read(&path).ok().flatten()?).ok()?;
        Certificate::read(chain.first()?).ok()
    }

    /// Writes the certificates; the key is there already ([`Credentials::key`]). Authorities first: a power cut in between leaves the
    /// former certificate, which the new authorities still cover.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn save(&self, directory: &Path) -> Result<(), FileError> {
        save_authorities(directory, &self.authorities)?;
        files::replace(&directory.join(CERTIFICATE), pem(&self.chain).as_bytes())
    }

    /// Trusts other authorities, in DER, from now on, durably; key and certificate stay.
    ///
    /// # Errors
    /// There is none among them, one is no certificate, or the file cannot be written.
    pub fn trust(directory: &Path, authorities: Vec<Vec<u8>>) -> Result<(), CredentialsError> {
        let path = directory.join(AUTHORITIES);
        let authorities: Vec<_> = authorities.into_iter().map(CertificateDer::from).collect();
        if authorities.is_empty() {
            return Err(FileError::new(&path, "the controller has sent no certificate of an authority").into());
        }
        for authority in &authorities {
            AuthorityHash::of(authority).map_err(|error| FileError::new(&path, error))?;
        }
        Ok(save_authorities(directory, &authorities)?)
    }

    /// Of an operator: one file of its owner's alone with the key, its certificate, and after that the authorities to trust, in PEM.
    ///
    /// # Errors
    /// The file is missing, damaged, readable by others, has no certificate yet, or one of another key.
    pub fn read_file(path: &Path) -> Result<Self, CredentialsError> {
        let unusable = |why: &str| FileError::new(path, why);
        let text = files::read_secret(path)?.ok_or_else(|| unusable("is missing"))?;
        let key = PrivateKey::from_pem(&text).map_err(|error| unusable(&format!("has no private key: {error}")))?;
        let mut chain = certificates(path, &text)?;
        if chain.is_empty() {
            return Err(unusable("has a key and no certificate yet: `canopyctl certificate store` adds it").into());
        }
        let authorities = chain.split_off(1);
        Self::of_file(path, key, chain, authorities)
    }

    fn of_file(
        path: &Path,
        key: PrivateKey,
        chain: Vec<CertificateDer<'static>>,
        authorities: Vec<CertificateDer<'static>>,
    ) -> Result<Self, CredentialsError> {
        Self::of(path, key, chain, authorities).map_err(|error| match error {
            CredentialsError::OtherKey { .. } => FileError::new(path, "the certificate is of another key").into(),
            CredentialsError::Certificate { source, .. } => FileError::new(path, source).into(),
            CredentialsError::File(_) => FileError::new(path, "has no certificate of an authority").into(),
        })
    }

    /// Adds the certificates of an answer, in PEM, to the file with their key.
    ///
    /// # Errors
    /// As [`Credentials::read_file`], for the file that it would be; it stays as it was.
    pub fn complete_file(path: &Path, answer: &str) -> Result<Self, CredentialsError> {
        let text = files::read_secret(path)?.ok_or_else(|| FileError::new(path, "is missing"))?;
        let unusable = |error| FileError::new(path, format!("has no private key: {error}"));
        let key = PrivateKey::from_pem(&text).map_err(unusable)?;
        let mut chain = certificates(Path::new("the answer"), answer)?;
        let authorities = chain.split_off(chain.len().min(1));
        let own = Self::of_file(path, key, chain, authorities)?;
        let content = own.key.to_pem() + &pem(&own.chain) + &pem(&own.authorities);
        files::replace(path, content.as_bytes())?;
        Ok(own)
    }

    /// The hashes of the trusted authorities, in their order.
    ///
    /// # Errors
    /// One is no certificate.
    pub fn trusted(&self) -> Result<Vec<AuthorityHash>, NotACertificate> {
        self.authorities.iter().map(AuthorityHash::of).collect()
    }
}

fn save_authorities(directory: &Path, authorities: &[CertificateDer<'_>]) -> Result<(), FileError> {
    files::replace(&directory.join(AUTHORITIES), pem(authorities).as_bytes())
}

fn certificates(path: &Path, pem: &str) -> Result<Vec<CertificateDer<'static>>, FileError> {
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem.as_bytes()).collect();
    read.map_err(|error| FileError::new(path, format!("not certificates in PEM: {error}")))
}

fn pem(list: &[CertificateDer<'_>]) -> String {
    list.iter().map(crate::pem::to_pem).collect()
}
