// SPDX-License-Identifier: Apache-2.0
//! An authority, and certificates of it.

use canopy_identity::{CertificateDer, PrivateKey};
use rcgen::{BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, SanType};

pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pub(crate) certificate: CertificateDer<'static>,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let certificate = params.self_signed(&key).unwrap().der().clone();
        Self { issuer: Issuer::from_ca_cert_der(&certificate, key).unwrap(), certificate }
    }

    pub(crate) fn certify(&self, key: &PrivateKey, name: &str) -> Vec<CertificateDer<'static>> {
        let mut params = CertificateParams::default();
        params.subject_alt_names = vec![SanType::URI(format!("spiffe://canopy/{name}").try_into().unwrap())];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let pair = KeyPair::from_pem(&key.to_pem()).unwrap();
        let made = params.signed_by(&pair, &self.issuer).unwrap().der().clone();
        vec![made]
    }
}
