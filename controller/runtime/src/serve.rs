// SPDX-License-Identifier: Apache-2.0
//! HTTP/1.1 and gRPC on bound listeners, until `closing` is set.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use axum::Router;
use canopy_controller_actor::Controller;
use canopy_controller_authority::Registrar;
use canopy_controller_grpc::Leases;
use canopy_controller_kubernetes::Attestor;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::sync::watch;
use tokio_stream::wrappers::UnixListenerStream;

use crate::door::{Door, Entered, accept};
use crate::listen::Listener;
use crate::patient::Patient;

/// Streams of changes at once per listener: fewer than connections, so that others can always connect.
pub(crate) const STREAMS: usize = 512;
/// A request's headers must arrive within this time.
const HEADER_TIMEOUT: Duration = Duration::from_secs(15);
const MAX_HEADER_BYTES: usize = 32 << 10;
const MAX_HEADERS: usize = 100;
/// A connection whose client takes no octet for so long is closed. Streams send one every few seconds.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);
/// Time that open connections get to finish on shutdown.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);
/// Pause after a failed accept, most likely for lack of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves HTTP until `closing` is true and open requests are answered. Users of this machine have `roles`; those elsewhere come over TLS.
pub(crate) async fn http(listener: Listener, router: Router, door: Door, mut closing: watch::Receiver<bool>) {
    let router = match &listener {
        Listener::Tcp(l) if door.is_local(l) => canopy_controller_rest::only_local_names(router),
        Listener::Tcp(_) | Listener::Unix(..) => router,
    };
    let graceful = GracefulShutdown::new();
    loop {
        let accepted = tokio::select! {
            accepted = accept(&listener, &door) => accepted,
            () = closed(&mut closing) => break,
        };
        let entering = match accepted {
            Ok(Some(entering)) => entering,
            // One that has taken its places already: closed, and others are served.
            Ok(None) => continue,
            Err(error) => {
                tracing::warn!(%error, "cannot accept an HTTP connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let (watcher, router) = (graceful.watcher(), router.clone());
        tokio::spawn(async move {
            let Entered { stream, caller, arrival, mut staying } = match entering.await {
                Ok(entered) => entered,
                // Not louder: everybody who reaches the port can cause it.
                Err(error) => return tracing::debug!(%error, "refused an HTTP connection"),
            };
            let mut server = http1::Builder::new();
            server.timer(TokioTimer::new()).header_read_timeout(HEADER_TIMEOUT);
            server.max_buf_size(MAX_HEADER_BYTES).max_headers(MAX_HEADERS);
            let connection = server.serve_connection(
                TokioIo::new(Patient::new(stream, WRITE_TIMEOUT)),
                TowerToHyperService::new(caller.serve(router, arrival)),
            );
            tokio::select! {
                ended = watcher.watch(connection) => if let Err(error) = ended {
                    tracing::debug!(%error, "HTTP connection ended");
                },
                () = staying.ended() => tracing::debug!("an HTTP connection has had its time, or another one needed its place"),
            }
        });
    }
    if tokio::time::timeout(DRAIN_TIMEOUT, graceful.shutdown()).await.is_err() {
        tracing::warn!("HTTP connections did not end within {DRAIN_TIMEOUT:?} and are closed");
    }
}

/// Serves gRPC until `closing` is true and open calls have ended.
pub(crate) async fn grpc(
    listener: Listener,
    controller: Controller,
    registrar: Option<Arc<Registrar>>,
    attestor: Option<Arc<Attestor>>,
    leases: Leases,
    closing: watch::Receiver<bool>,
) -> anyhow::Result<()> {
    let router = canopy_controller_grpc::server(controller, registrar.clone(), attestor, leases, closing.clone()).await;
    let mut until = closing.clone();
    let signal = async move { closed(&mut until).await };
    let served = async {
        match listener {
            Listener::Tcp(l) => {
                let registrar =
                    registrar.context("an address of grpc.listen is served over TLS, which needs an authority")?;
                let incoming = canopy_controller_grpc::incoming(l, registrar);
                anyhow::Ok(router.serve_with_incoming_shutdown(incoming, signal).await?)
            }
            Listener::Unix(l, _file) => {
                Ok(router.serve_with_incoming_shutdown(UnixListenerStream::new(l), signal).await?)
            }
        }
    };
    let mut closing = closing;
    let late = async {
        closed(&mut closing).await;
        tokio::time::sleep(DRAIN_TIMEOUT).await;
    };
    tokio::select! {
        served = served => served,
        () = late => {
            tracing::warn!("gRPC connections did not end within {DRAIN_TIMEOUT:?} and are closed");
            Ok(())
        }
    }
}

async fn closed(closing: &mut watch::Receiver<bool>) {
    // An error means that the sender was dropped, which is treated as closing.
    _ = closing.wait_for(|c| *c).await;
}
