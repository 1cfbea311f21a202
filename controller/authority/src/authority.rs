// SPDX-License-Identifier: Apache-2.0
//! The key that signs every certificate of the domain, and what the certificates contain (RFC 5280; X.509-SVID).

use std::time::Duration;

use canopy_identity::{AuthorityHash, AuthorityName, CertificateDer, FileError, PrivateKey, Subject, TrustDomain};
use canopy_units::UnixTime;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, PublicKeyData, SanType, SerialNumber,
};
use rustls::pki_types::pem::PemObject;
use time::OffsetDateTime;

use crate::{AuthorityError, BACKDATED, Settings};

/// Files of one authority.
pub(crate) struct Files {
    pub(crate) key: &'static str,
    pub(crate) certificate: &'static str,
}

/// Of the one that signs.
pub(crate) const PRESENT: Files = Files { key: "authority-key.pem", certificate: "authority.pem" };
/// Of the one that is to replace it.
pub(crate) const NEXT: Files = Files { key: "next-authority-key.pem", certificate: "next-authority.pem" };
/// How long the authority's own certificate is valid.
const LIFE: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

/// Key and certificate of the authority.
pub(crate) struct Authority {
    domain: TrustDomain,
    issuer: Issuer<'static, KeyPair>,
    certificate: CertificateDer<'static>,
    hash: AuthorityHash,
}

impl Authority {
    /// Of the directory, or a new one in it.
    pub(crate) fn open(settings: &Settings, files: &Files, now: UnixTime) -> Result<Self, AuthorityError> {
        let Settings { directory, domain, .. } = settings;
        canopy_identity::private_directory(directory)?;
        let paths = (directory.join(files.key), directory.join(files.certificate));
        let key = match canopy_identity::read_secret(&paths.0)? {
            Some(pem) => PrivateKey::from_pem(&pem)
                .map_err(|error| FileError::new(&paths.0, format!("not a private key: {error}")))?,
            None if paths.1.exists() => {
                let why = "is missing, but the certificate of the authority is there: put the key back, or move both away and enroll every agent again";
                return Err(FileError::new(&paths.0, why).into());
            }
            None => {
                let key = PrivateKey::generate()?;
                canopy_identity::replace(&paths.0, key.to_pem().as_bytes())?;
                key
            }
        }
        .into_pair();
        // The key without its certificate is what a power cut at the first start leaves.
        let certificate = match canopy_identity::read(&paths.1)? {
            Some(pem) => CertificateDer::from_pem_slice(pem.as_bytes())
                .map_err(|error| FileError::new(&paths.1, format!("not a certificate in PEM: {error}")))?,
            None => {
                let made = of_authority(domain, now)?.self_signed(&key)?;
                canopy_identity::replace(&paths.1, made.pem().as_bytes())?;
                made.der().clone()
            }
        };
        let hash = AuthorityHash::of(&certificate).map_err(|error| FileError::new(&paths.1, error))?;
        if canopy_identity::KeyHash::of(&key.subject_public_key_info()).0 != hash.0 {
            return Err(FileError::new(&paths.1, format!("is of another key than {}", files.key)).into());
        }
        let issuer = Issuer::from_ca_cert_der(&certificate, key)?;
        Ok(Self { domain: domain.clone(), issuer, certificate, hash })
    }

    pub(crate) fn certificate(&self) -> &CertificateDer<'static> {
        &self.certificate
    }

    pub(crate) fn hash(&self) -> AuthorityHash {
        self.hash
    }

    /// Whether the controller made it: one that an operator has put there has another name, or another issuer.
    pub(crate) fn is_own(&self) -> bool {
        let wanted = format!("CN={}", common_name(&self.domain));
        AuthorityName::read(&self.certificate).is_ok_and(|found| found.subject == wanted && found.issuer == wanted)
    }

    /// A certificate of the key of `next` that this authority signs: who trusts this one alone accepts what `next` signs.
    pub(crate) fn bridge(&self, next: &Self, now: UnixTime) -> Result<CertificateDer<'static>, rcgen::Error> {
        Ok(of_authority(&self.domain, now)?.signed_by(next.issuer.key(), &self.issuer)?.der().clone())
    }

    /// A certificate of this key for `subject`, valid until `not_after`.
    pub(crate) fn certify(
        &self,
        key: &impl PublicKeyData,
        subject: &Subject,
        not_before: UnixTime,
        not_after: UnixTime,
    ) -> Result<CertificateDer<'static>, rcgen::Error> {
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        let uri = subject.uri(&self.domain).try_into()?;
        params.subject_alt_names = vec![SanType::URI(uri)];
        (params.not_before, params.not_after) = (at(not_before), at(not_after));
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![match subject {
            Subject::Controller => ExtendedKeyUsagePurpose::ServerAuth,
            Subject::Node(_) | Subject::Host(_) | Subject::Operator(_) => ExtendedKeyUsagePurpose::ClientAuth,
        }];
        params.serial_number = Some(serial()?);
        params.use_authority_key_identifier_extension = true;
        Ok(params.signed_by(key, &self.issuer)?.der().clone())
    }
}

fn of_authority(domain: &TrustDomain, now: UnixTime) -> Result<CertificateParams, rcgen::Error> {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, common_name(domain));
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    (params.not_before, params.not_after) = (at(before(now, BACKDATED)), at(now + LIFE));
    params.serial_number = Some(serial()?);
    Ok(params)
}

fn common_name(domain: &TrustDomain) -> String {
    format!("Canopy authority of {domain}")
}

pub(crate) fn before(now: UnixTime, span: Duration) -> UnixTime {
    UnixTime::from_nanos(now.nanos().saturating_sub(canopy_units::nanos(span)))
}

/// Certificates count whole seconds.
fn at(time: UnixTime) -> OffsetDateTime {
    let seconds = i64::try_from(time.nanos() / 1_000_000_000).unwrap_or(i64::MAX);
    OffsetDateTime::from_unix_timestamp(seconds).unwrap_or(OffsetDateTime::UNIX_EPOCH)
}

/// 127 random bits: positive, and never the same twice.
fn serial() -> Result<SerialNumber, rcgen::Error> {
    let mut octets = [0; 16];
    getrandom::fill(&mut octets).map_err(|_| rcgen::Error::RingUnspecified)?;
    octets[0] &= 0x7f;
    Ok(SerialNumber::from_slice(&octets))
}
