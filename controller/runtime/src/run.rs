// SPDX-License-Identifier: Apache-2.0
//! One controller from start to end, with its store and listeners as arguments.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use canopy_controller_access::{Live, Roles, Tokens};
use canopy_controller_actor::log_levels::LogTarget;
use canopy_controller_authority::Registrar;
use canopy_controller_core::hmac::HmacSettings;
use canopy_controller_core::problem::ProblemCode;
use canopy_controller_core::quota::Quotas;
use canopy_controller_core::threshold::ThresholdSettings;
use canopy_controller_grpc::Leases;
use canopy_controller_kubernetes::Attestor;
use canopy_controller_rest::{Accounts, Credentials, SingleSignOn};
use canopy_daemon::log::TimedLevel;
use canopy_model::addressing::AddressPlan;
use canopy_model::log_level::LogOrder;
use canopy_store::{Store, StoreError};
use canopy_units::UnixTime;
use tokio::sync::{mpsc, watch};
use tokio::task::{JoinError, JoinSet};

use crate::door::Door;
use crate::listen::Listener;
use crate::web::Web;
use crate::{otlp, publishing, retiring, serve};

/// How often a backup of the store and the uses of tokens are written, if something changed.
const CHECKPOINT_INTERVAL: Duration = Duration::from_secs(60);

/// Inputs of a controller.
pub struct Parts {
    /// Store of the intents; this controller must be its only writer.
    pub store: Arc<dyn Store>,
    /// Prefixes of addresses and SIDs.
    pub addressing: AddressPlan,
    /// Default alpha and K_base, for links without their own.
    pub thresholds: ThresholdSettings,
    /// What operators want of the SRH HMAC TLV.
    pub hmac: HmacSettings,
    /// Where traces go: the endpoint of an OpenTelemetry collector; `None` makes none.
    pub traces: Option<String>,
    /// How long a membership with a lease outlasts the connection of its host's agent.
    pub lease_grace: Duration,
    /// Makes the certificates of agents; needed if a southbound listener is TCP, or a northbound one that other machines reach.
    pub registrar: Option<Arc<Registrar>>,
    /// Confirms tokens of agents in Kubernetes; `None`: they need tokens of operators.
    pub attestor: Option<Arc<Attestor>>,
    /// Which users of this machine may do what; it can be read again.
    pub roles: Live<Roles>,
    /// How much tenants may have.
    pub quotas: Quotas,
    /// What programs and other machines authenticate with.
    pub tokens: Arc<Tokens>,
    /// Confirms tokens of service accounts that have a role here; `None`: none has.
    pub accounts: Option<Accounts>,
    /// Southbound listeners.
    pub grpc: Vec<Listener>,
    /// Northbound listeners.
    pub rest: Vec<Listener>,
    /// Northbound listeners for browsers on other machines.
    pub web: Option<Web>,
    /// Their identity provider.
    pub single_sign_on: Option<Arc<SingleSignOn>>,
    /// Set to true to shut the controller down.
    pub shutdown: watch::Receiver<bool>,
    /// Called once all listeners are served.
    pub on_ready: Box<dyn FnOnce() + Send>,
}

/// Runs a controller until `shutdown`. Every change that was answered is durable when this returns, also with an error.
///
/// # Errors
/// The store's records are not a consistent domain, or the store failed: the process must be restarted, because only
/// reading the store reveals its state.
pub async fn run(parts: Parts) -> anyhow::Result<()> {
    let Parts {
        store,
        addressing,
        thresholds,
        hmac,
        traces,
        lease_grace,
        registrar,
        attestor,
        roles,
        quotas,
        tokens,
        accounts,
        grpc,
        rest,
        web,
        single_sign_on,
        mut shutdown,
        on_ready,
    } = parts;
    let exporter = traces.as_deref().map(otlp::exporter).transpose()?;
    let running = canopy_controller_actor::start_with(store.clone(), addressing, thresholds, hmac).await;
    let running = running.context("starting the controller")?;
    let (controller, mut task) = (running.controller, running.task);
    controller.limit_tenants(quotas);
    if let Some(registrar) = registrar.clone() {
        controller.watch_authority(move |now| {
            let overdue = registrar.overdue(now).map(|why| (ProblemCode::AuthorityReplacementLate, why));
            let late = registrar.not_renewed(now).map(|why| (ProblemCode::CertificateNotRenewed, why));
            overdue.into_iter().chain(late).collect()
        });
    }
    tracing::info!(version = env!("CARGO_PKG_VERSION"), term = controller.read(|d| d.term()), "controller started");
    let exporting = exporter.map(|exporter| {
        let (spans, queue) = mpsc::channel(canopy_daemon::otlp::QUEUE);
        controller.traces().export(spans);
        tokio::spawn(otlp::run(exporter, queue))
    });
    let mut levels = controller.log_orders(LogTarget::Controller);
    let (filters, followed) = watch::channel(None);
    let filtering = tokio::spawn(async move {
        loop {
            let LogOrder { filter, within } = levels.next().await;
            let level = filter.map(|filter| filter.as_str().to_owned());
            filters.send_replace(Some(TimedLevel { level, within }));
        }
    });
    tokio::spawn(canopy_daemon::log::follow(followed, TimedLevel::clone));
    let (close, closing) = watch::channel(false);
    let mut servers = JoinSet::new();
    let watches = canopy_controller_rest::Watches::new(closing.clone(), serve::STREAMS);
    let sessions = canopy_controller_rest::Sessions::default();
    let credentials = Credentials { tokens: tokens.clone(), accounts };
    let limits = canopy_controller_rest::Limits::default();
    let door = Door::new(roles, registrar.clone(), tokens.clone());
    let own = rest.into_iter().map(|listener| (listener, None));
    let of_browsers = web.into_iter().flat_map(|web| {
        let Web { listeners, tls, origins } = web;
        listeners.into_iter().map(move |listener| (listener, Some((tls.clone(), origins.clone()))))
    });
    for (listener, browsers) in own.chain(of_browsers) {
        tracing::info!(address = %listener.address()?, for_browsers = browsers.is_some(), "serving REST");
        let (controller, watches) = (controller.clone(), watches.with_slots(serve::STREAMS));
        let (sessions, credentials, registrar) = (sessions.clone(), credentials.clone(), registrar.clone());
        let (limits, single) = (limits.clone(), single_sign_on.clone());
        let router =
            canopy_controller_rest::router_with(controller, watches, limits, sessions, credentials, registrar, single);
        let (router, door) = match browsers {
            Some((tls, origins)) => (canopy_controller_rest::for_browsers(router, origins), door.for_browsers(tls)),
            None => (router, door.clone()),
        };
        let closing = closing.clone();
        servers.spawn(async move {
            serve::http(listener, router, door, closing).await;
            anyhow::Ok(())
        });
    }
    let leases = Leases::start(controller.clone(), lease_grace, closing.clone());
    for listener in grpc {
        tracing::info!(address = %listener.address()?, "serving gRPC");
        servers.spawn(serve::grpc(
            listener,
            controller.clone(),
            registrar.clone(),
            attestor.clone(),
            leases.clone(),
            closing.clone(),
        ));
    }
    let publishing = attestor
        .zip(registrar.clone())
        .map(|(attestor, registrar)| tokio::spawn(publishing::run(attestor, registrar.standing())));
    let retiring = tokio::spawn(retiring::run(controller.clone(), registrar.clone()));
    let renewals = registrar.map(|registrar| tokio::spawn(registrar.maintain()));
    let checkpoints = tokio::spawn(checkpoint_periodically(store.clone()));
    let keeping = tokio::spawn(keep_tokens(tokens.clone()));
    on_ready();
    let mut task_ended = false;
    let mut outcome = tokio::select! {
        _ = shutdown.wait_for(|s| *s) => Ok(()),
        ended = &mut task => {
            task_ended = true;
            flat(ended).and(Err(anyhow::anyhow!("the command task ended by itself")))
        }
        Some(ended) = servers.join_next() => ended.context("a server panicked").and_then(|e| e).and(Err(anyhow::anyhow!("a server ended by itself"))),
    };
    tracing::info!("controller is stopping");
    close.send_replace(true);
    while let Some(ended) = servers.join_next().await {
        outcome = outcome.and(ended.context("a server panicked").and_then(|e| e));
    }
    if !task_ended {
        controller.stop().await;
        outcome = outcome.and(flat(task.await));
    }
    checkpoints.abort();
    retiring.abort();
    keeping.abort();
    write_tokens(tokens).await;
    if let Some(renewals) = renewals {
        renewals.abort();
    }
    if let Some(publishing) = publishing {
        publishing.abort();
    }
    filtering.abort();
    if let Some(exporting) = exporting {
        exporting.abort();
    }
    let last = tokio::task::spawn_blocking(move || store.checkpoint()).await.context("writing the last backup")?;
    outcome.and(last.context("writing the last backup"))
}

async fn checkpoint_periodically(store: Arc<dyn Store>) {
    loop {
        tokio::time::sleep(CHECKPOINT_INTERVAL).await;
        let store = store.clone();
        match tokio::task::spawn_blocking(move || store.checkpoint()).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::error!(%error, "cannot write a backup of the store"),
            Err(error) => tracing::error!(%error, "cannot write a backup of the store"),
        }
    }
}

/// What the file of tokens has not: when they were used last, and what a full disk has kept from it.
async fn keep_tokens(tokens: Arc<Tokens>) {
    loop {
        tokio::time::sleep(CHECKPOINT_INTERVAL).await;
        write_tokens(tokens.clone()).await;
    }
}

async fn write_tokens(tokens: Arc<Tokens>) {
    let written = tokio::task::spawn_blocking(move || tokens.catch_up(UnixTime::now())).await;
    if let Ok(Err(error)) = written {
        tracing::error!(%error, "cannot write tokens.json (identity.directory): until that succeeds, a restart would bring back a token that was revoked meanwhile");
    }
}

fn flat(ended: Result<Result<(), StoreError>, JoinError>) -> anyhow::Result<()> {
    ended.context("the command task panicked")?.context("the command task ended")
}
