// SPDX-License-Identifier: Apache-2.0
//! A controller with several addresses: which one an agent connects to.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod authority;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use authority::Authority;
use canopy_agent_link::{Target, reach};
use canopy_identity::{CertificateDer, Clients, Credentials, PrivateKey, ServerKey};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

/// An address of the controller; it ends each connection after the handshake.
struct Place {
    port: u16,
    connections: Arc<AtomicUsize>,
    serving: JoinHandle<()>,
}

impl Place {
    async fn open(authority: &Authority, port: u16) -> Self {
        let key = PrivateKey::generate().unwrap();
        let chain = authority.certify(&key, "controller");
        let agents = Clients::Agents(Arc::new(|_| false));
        let trusted = std::slice::from_ref(&authority.certificate);
        let config =
            canopy_identity::server(&ServerKey { key, chain }, trusted, "canopy".parse().unwrap(), agents).unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind(("127.0.0.1", port)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let connections = Arc::new(AtomicUsize::new(0));
        let counted = connections.clone();
        let serving = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                if acceptor.accept(stream).await.is_ok() {
                    counted.fetch_add(1, Ordering::SeqCst);
                }
            }
        });
        Self { port, connections, serving }
    }

    /// Connections since the last time.
    fn taken(&self) -> usize {
        self.connections.swap(0, Ordering::SeqCst)
    }

    async fn close(self) {
        self.serving.abort();
        _ = self.serving.await;
    }
}

fn enrolled(authority: &Authority, directory: &Path) {
    let key = Credentials::key(directory).unwrap();
    let octets = |der: &CertificateDer<'_>| der.to_vec();
    let chain = authority.certify(&key, "host/r1").iter().map(octets).collect();
    Credentials::new(key, chain, vec![authority.certificate.to_vec()]).unwrap().save(directory).unwrap();
}

/// A port where nothing listens.
async fn closed_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port()
}

fn target(hosts: &[(&str, u16)]) -> Target {
    let texts: Vec<String> = hosts.iter().map(|(host, port)| format!("https://{host}:{port}")).collect();
    texts.join(",").parse().unwrap()
}

/// Catches an agent that asks dead addresses first for ever, one that knows a single address, and one that loses its way when it is restarted.
#[tokio::test]
async fn the_address_that_worked_last_is_tried_first_and_the_others_after_it() {
    let (authority, directory) = (Authority::new(), tempfile::tempdir().unwrap());
    enrolled(&authority, directory.path());
    let dead = closed_port().await;
    let second = Place::open(&authority, 0).await;
    let both = target(&[("127.0.0.1", dead), ("127.0.0.1", second.port)]);
    let connect = async || _ = reach(&both, directory.path()).await;
    connect().await;
    assert!(second.taken() > 0, "the first address is dead, the second one works");

    // Only the disk has which one that was.
    let first = Place::open(&authority, dead).await;
    connect().await;
    assert_eq!((first.taken(), second.taken() > 0), (0, true), "the last one that worked is first");

    // It moves: the one that worked is dead, and the other one works.
    second.close().await;
    connect().await;
    assert!(first.taken() > 0);
    let kept = std::fs::read_to_string(directory.path().join("controllers")).unwrap();
    assert!(kept.starts_with(&format!("https://127.0.0.1:{dead} 127.0.0.1:{dead}\n")), "{kept}");
    let why = {
        first.close().await;
        reach(&both, directory.path()).await.unwrap_err().to_string()
    };
    assert!(why.contains(&format!("https://127.0.0.1:{dead}: ")) && why.matches("https://").count() == 2, "{why}");
}

/// Catches an agent that is lost when the cluster's DNS is.
#[tokio::test]
async fn a_name_that_is_not_resolved_any_more_leads_to_where_it_led() {
    let (authority, directory) = (Authority::new(), tempfile::tempdir().unwrap());
    enrolled(&authority, directory.path());
    let place = Place::open(&authority, 0).await;
    // No resolver knows names below `invalid` (RFC 6761).
    let named = target(&[("canopy-controller.invalid", place.port)]);
    _ = reach(&named, directory.path()).await;
    assert_eq!(place.taken(), 0);
    let kept = format!("https://canopy-controller.invalid:{0} 127.0.0.1:{0}\n", place.port);
    std::fs::write(directory.path().join("controllers"), kept).unwrap();
    _ = reach(&named, directory.path()).await;
    assert!(place.taken() > 0);
    // Another program there is not taken for the controller.
    let port = place.port;
    place.close().await;
    let other = Place::open(&Authority::new(), port).await;
    let why = reach(&named, directory.path()).await.unwrap_err().to_string();
    assert_eq!((other.taken(), why.contains("another authority")), (0, true), "{why}");
}
