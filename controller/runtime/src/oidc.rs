// SPDX-License-Identifier: Apache-2.0
//! Section `oidc`: single sign-on at the addresses of section `web`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Context, anyhow, ensure};
use canopy_controller_access::{GroupRoles, TenantRoles};
use canopy_controller_core::role::Role;
use canopy_controller_oidc::{ClientSecret, Provider, Settings};
use canopy_controller_rest::SingleSignOn;
use canopy_daemon::config::{Faults, list};
use serde::{Deserialize, Serialize};
use tokio_rustls::rustls::RootCertStore;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject;

/// Groups with one role, at most, and tenants.
const MOST: usize = 64;

/// Section `oidc`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OidcConfig {
    /// The provider's issuer, an https address; empty: no single sign-on.
    pub issuer: String,
    /// The controller's name there.
    pub client_id: String,
    /// File with the controller's secret there, which only its owner can read.
    pub client_secret_file: PathBuf,
    /// Scopes besides `openid`; one or a list.
    #[serde(deserialize_with = "list")]
    pub scopes: Vec<String>,
    /// The claim of the ID token with the name of who has signed in: unique, and not the person's to change.
    pub username_claim: String,
    /// The claim with the names of groups.
    pub groups_claim: String,
    /// PEM file of the authorities that may have signed the provider's certificate.
    pub ca_file: PathBuf,
    /// Groups with a role in the domain.
    pub roles: TenantRoles,
    /// Groups with a role in a single tenant, by its name.
    #[serde(default)]
    pub tenants: BTreeMap<String, TenantRoles>,
}

impl Default for OidcConfig {
    fn default() -> Self {
        Self {
            issuer: String::new(),
            client_id: String::new(),
            client_secret_file: PathBuf::new(),
            scopes: vec!["profile".to_owned()],
            username_claim: "sub".to_owned(),
            groups_claim: "groups".to_owned(),
            ca_file: "/etc/ssl/certs/ca-certificates.crt".into(),
            roles: TenantRoles::default(),
            tenants: BTreeMap::new(),
        }
    }
}

impl OidcConfig {
    /// Pushes what is wrong. `has_web`: there are addresses for browsers.
    pub(crate) fn check(&self, has_web: bool, faults: &mut Faults) {
        if self.tenants.len() > MOST {
            faults.push("oidc.tenants", format!("{} tenants, at most {MOST} can have groups", self.tenants.len()));
        }
        for role in Role::ALL {
            let in_tenants = self.tenants.iter().map(|(tenant, roles)| (format!("oidc.tenants.{tenant}"), roles));
            for (section, roles) in in_tenants.chain([("oidc.roles".to_owned(), &self.roles)]) {
                let groups = roles.groups(role);
                if groups.len() > MOST || groups.iter().any(String::is_empty) {
                    let why = format!("use at most {MOST} names of groups, none of them empty");
                    faults.push(format!("{section}.{role}_groups"), why);
                }
            }
        }
        if self.issuer.is_empty() {
            return;
        }
        if let Err(why) = self.provider(String::new(), RootCertStore::empty()) {
            faults.push("oidc.issuer", format!("{why}: use the issuer of the provider, as it names itself"));
        }
        if !has_web {
            faults.push("oidc.issuer", "browsers sign in by it at the addresses of web.listen, and there are none");
        }
        let texts = [
            ("oidc.client_id", &self.client_id),
            ("oidc.username_claim", &self.username_claim),
            ("oidc.groups_claim", &self.groups_claim),
        ];
        texts.iter().filter(|(_, text)| text.is_empty()).for_each(|(key, _)| faults.push(*key, "is empty"));
        for (key, path) in [("oidc.client_secret_file", &self.client_secret_file), ("oidc.ca_file", &self.ca_file)] {
            if !path.is_absolute() {
                faults.push(key, format!("{:?} is not an absolute path", path.display()));
            }
        }
    }

    /// Roles of groups.
    pub fn roles(&self) -> GroupRoles {
        GroupRoles { domain: self.roles.clone(), tenants: self.tenants.clone() }
    }

    /// Reads the files; `None` without a provider. The provider is not asked.
    ///
    /// # Errors
    /// The key that is wrong, and why.
    pub fn open(&self) -> anyhow::Result<Option<SingleSignOn>> {
        if self.issuer.is_empty() {
            return Ok(None);
        }
        let secret = canopy_identity::read_secret(&self.client_secret_file).context("oidc.client_secret_file")?;
        let secret = secret
            .with_context(|| format!("oidc.client_secret_file: there is no {}", self.client_secret_file.display()))?;
        let secret = secret.trim_end_matches(['\r', '\n']).to_owned();
        ensure!(!secret.is_empty(), "oidc.client_secret_file: {} is empty", self.client_secret_file.display());
        let named = || format!("oidc.ca_file ({})", self.ca_file.display());
        let mut authorities = RootCertStore::empty();
        let all = CertificateDer::pem_file_iter(&self.ca_file).and_then(Iterator::collect::<Result<Vec<_>, _>>);
        let (added, _) = authorities.add_parsable_certificates(all.with_context(named)?);
        ensure!(added > 0, "{}: has no certificate of an authority", named());
        let provider = self.provider(secret, authorities).map_err(|why| anyhow!("oidc.issuer: {why}"))?;
        Ok(Some(SingleSignOn { provider, roles: self.roles().into() }))
    }

    fn provider(&self, secret: String, authorities: RootCertStore) -> Result<Provider, String> {
        let settings = Settings {
            issuer: self.issuer.clone(),
            client_id: self.client_id.clone(),
            client_secret: ClientSecret(secret),
            scopes: self.scopes.clone(),
            username_claim: self.username_claim.clone(),
            groups_claim: self.groups_claim.clone(),
        };
        Provider::new(settings, authorities)
    }
}
