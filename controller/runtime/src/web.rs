// SPDX-License-Identifier: Apache-2.0
//! Section `web`: addresses for browsers on other machines, with a certificate that they know.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, ensure};
use canopy_controller_access::{Live, Origin};
use canopy_daemon::config::{Faults, list};
use serde::{Deserialize, Serialize};
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::NoServerSessionStorage;
use tokio_rustls::rustls::{ServerConfig, version};

use crate::listen::{Listen, Listener};

/// Origins, at most: each request of a browser is compared with all.
const MAX_ORIGINS: usize = 16;

/// Section `web`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WebConfig {
    /// Addresses with ports, for TLS; one or a list, empty: none.
    #[serde(deserialize_with = "list")]
    pub listen: Vec<Listen>,
    /// PEM file of the certificate and those that have signed it.
    pub certificate: PathBuf,
    /// PEM file of its private key, which only its owner can read.
    pub key: PathBuf,
    /// What browsers have in their address bar: `https://host`, `https://host:port`.
    #[serde(deserialize_with = "list")]
    pub origins: Vec<Origin>,
}

/// Listeners for browsers on other machines.
pub struct Web {
    /// Bound.
    pub listeners: Vec<Listener>,
    /// With the certificate; connections from then on have another one that is set.
    pub tls: Live<ServerConfig>,
    /// Where browsers find them.
    pub origins: Vec<Origin>,
}

impl WebConfig {
    /// Pushes what is wrong.
    pub(crate) fn check(&self, faults: &mut Faults) {
        if self.listen.is_empty() {
            return;
        }
        if self.listen.iter().any(|listen| matches!(listen, Listen::Unix(_))) {
            faults.push("web.listen", "a browser reaches no Unix socket: use address:port");
        }
        for (key, path) in [("web.certificate", &self.certificate), ("web.key", &self.key)] {
            if !path.is_absolute() {
                let why = format!(
                    "{:?} is not an absolute path, and browsers are served over TLS (web.listen)",
                    path.display()
                );
                faults.push(key, why);
            }
        }
        if self.origins.is_empty() || self.origins.len() > MAX_ORIGINS {
            let why = format!(
                "name 1 to {MAX_ORIGINS} origins, such as \"https://canopy.example:8643\": web.listen serves no others"
            );
            faults.push("web.origins", why);
        }
    }

    /// Binds and reads everything; `None` if there are no addresses.
    ///
    /// # Errors
    /// The key that is wrong, and why.
    pub async fn open(&self) -> anyhow::Result<Option<Web>> {
        if self.listen.is_empty() {
            return Ok(None);
        }
        let tls = tls(&self.certificate, &self.key)?.into();
        let mut listeners = Vec::new();
        for listen in &self.listen {
            listeners.push(listen.bind().await.context("web.listen")?);
        }
        Ok(Some(Web { listeners, tls, origins: self.origins.clone() }))
    }

    /// The certificate and the key as they are in the files now.
    ///
    /// # Errors
    /// The file that is wrong, and why.
    pub fn tls(&self) -> anyhow::Result<ServerConfig> {
        tls(&self.certificate, &self.key)
    }
}

fn tls(certificate: &Path, key: &Path) -> anyhow::Result<ServerConfig> {
    let named = |key: &str, path: &Path| format!("{key} ({})", path.display());
    let chain = CertificateDer::pem_file_iter(certificate)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .with_context(|| named("web.certificate", certificate))?;
    ensure!(!chain.is_empty(), "{}: has no certificate in PEM", named("web.certificate", certificate));
    let secret = canopy_identity::read_secret(key).context("web.key")?;
    let secret = secret.with_context(|| format!("{}: there is no such file", named("web.key", key)))?;
    let private = PrivateKeyDer::from_pem_slice(secret.as_bytes()).with_context(|| named("web.key", key))?;
    let builder = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()));
    let builder = builder.with_protocol_versions(&[&version::TLS13])?.with_no_client_auth();
    let mut config = builder.with_single_cert(chain, private).context("web.certificate and web.key")?;
    // As at the other addresses: nothing of a connection outlives it.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}
