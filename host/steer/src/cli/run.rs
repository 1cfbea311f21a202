// SPDX-License-Identifier: Apache-2.0
//! `canopy-steer run` and `remove`.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use canopy_bpf::steer;
use canopy_control::pb;
use canopy_control::pb::steer_service_server::SteerServiceServer;
use canopy_daemon::callers::{Owners, bind};
use canopy_daemon::config::Loaded;
use canopy_daemon::notify::Notifier;
use canopy_daemon::otlp;
use canopy_daemon::signals;
use canopy_host_core::steering::{Mode, Steering};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tonic::transport::Server;

use crate::agent;
use crate::config::{Config, SocketConfig};
use crate::daemon::{Daemon, Known, Reported};
use crate::kernel::{Kernel, Written};
use crate::metrics;
use crate::probe::Secret;
use crate::prober::Prober;
use crate::service::Service;

/// Requests queued for the daemon.
const CALLS: usize = 256;
/// Concurrent calls on one connection.
const MAX_STREAMS: u32 = 128;
const MAX_HEADER_BYTES: u32 = 16 << 10;
const MAX_REQUEST_BYTES: usize = 16 << 10;
const MAX_ANSWER_BYTES: usize = 32 << 20;
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(20);
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(10);

pub(super) fn run(Loaded { settings, notes }: Loaded<Config>) -> anyhow::Result<()> {
    let service = otlp::Service { name: "canopy-steer", instance: Some(&settings.interface) };
    settings.log.start(&service).map_err(anyhow::Error::msg).context("starting the log")?;
    notes.iter().for_each(|note| tracing::warn!("{note}"));
    // One thread for the daemon and one for its clients.
    let built = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let ended = built.context("starting the runtime")?.block_on(daemon(settings));
    canopy_daemon::log::finish();
    ended
}

pub(super) fn remove(settings: &Config) -> anyhow::Result<()> {
    let dir = pin_dir(settings);
    if std::os::unix::net::UnixStream::connect(&settings.socket.path).is_ok() {
        bail!("socket.path: a daemon serves {}: end it first", settings.socket.path.display());
    }
    let _alone = alone(&dir, &settings.interface)?;
    // An interface that is gone has lost its program.
    if let Ok(index) = index(&settings.interface) {
        Kernel::load(&dir, index, Mode::Pinned, settings.gap)?.detach()?;
    }
    Ok(steer::unpin(&dir)?)
}

/// Where the maps of the interface are. Names on a BPF file system have no dots.
fn pin_dir(settings: &Config) -> PathBuf {
    settings.pin_dir.join(settings.interface.replace('.', "-"))
}

/// Held for as long as this process is the only one that writes these maps.
fn alone(dir: &Path, interface: &str) -> anyhow::Result<File> {
    std::fs::create_dir_all(dir).with_context(|| {
        format!(
            "pin_dir: creating {} (is a BPF file system mounted there? mount -t bpf bpf /sys/fs/bpf)",
            dir.display()
        )
    })?;
    let opened = File::open(dir).with_context(|| format!("pin_dir: {}", dir.display()))?;
    opened
        .try_lock()
        .map_err(|_| anyhow::anyhow!("interface: another canopy-steer serves {interface}: end it first"))?;
    Ok(opened)
}

fn index(interface: &str) -> anyhow::Result<u32> {
    nix::net::if_::if_nametoindex(interface).with_context(|| format!("interface: there is no {interface}"))
}

async fn daemon(settings: Config) -> anyhow::Result<()> {
    let end = signals::end()?;
    let notifier = Notifier::system();
    let ifindex = index(&settings.interface)?;
    // Bound first: a second daemon for the same socket exits before it changes the interface.
    let SocketConfig { path, group, uids } = settings.socket.clone();
    let bound = bind(&path, &group, Owners::new(uids)).await;
    let (incoming, file) = bound.with_context(|| format!("socket.path: {}", path.display()))?;
    let listener = match settings.metrics.listen {
        Some(address) => Some(TcpListener::bind(address).await.with_context(|| format!("metrics.listen: {address}"))?),
        None => None,
    };
    let steering = settings.steering();
    let dir = pin_dir(&settings);
    let _alone = alone(&dir, &settings.interface)?;
    let mut kernel = Kernel::load(&dir, ifindex, steering.mode, steering.gap)?;
    let Written { destinations, unused, source } =
        kernel.written().context("reading what an earlier daemon has written")?;
    let unknown = kernel.unknown()?;
    kernel.attach()?;
    let mut secret = Secret::default();
    getrandom::fill(&mut secret).context("drawing the secret of probes")?;
    let prober = match settings.probing() {
        Some(probing) => {
            let class = settings.traffic_class();
            let started = Prober::start(&settings.interface, probing, class, secret, kernel.probes()?);
            let failed = |error: &anyhow::Error| tracing::error!(error = format!("{error:#}"), "paths are not probed");
            started.inspect_err(failed).ok()
        }
        None => None,
    };
    let mode = match steering.mode {
        Mode::Pinned => pb::SteerMode::Pinned,
        Mode::Flowlet => pb::SteerMode::Flowlet,
        Mode::Spray => pb::SteerMode::Spray,
    };
    tracing::info!(
        interface = settings.interface,
        ?mode,
        paths = steering.paths,
        destinations = destinations.len(),
        "steering"
    );
    let mut steering = Steering::new(steering);
    steering.restore(destinations, unused, canopy_bpf::monotonic());
    let (calls, requests) = mpsc::channel(CALLS);
    let (give, news) = mpsc::channel(1);
    let agent = tokio::spawn(agent::follow(settings.agent, settings.host, give));
    let service = Service::new(calls);
    let served = SteerServiceServer::new(service.clone())
        .max_decoding_message_size(MAX_REQUEST_BYTES)
        .max_encoding_message_size(MAX_ANSWER_BYTES);
    let server = Server::builder()
        .max_concurrent_streams(MAX_STREAMS)
        .http2_max_header_list_size(MAX_HEADER_BYTES)
        .http2_keepalive_interval(Some(KEEPALIVE_INTERVAL))
        .http2_keepalive_timeout(Some(KEEPALIVE_TIMEOUT))
        .add_service(served);
    let server = tokio::spawn(server.serve_with_incoming(incoming));
    let metrics = listener.map(|listener| tokio::spawn(metrics::serve(listener, service)));
    let daemon = Daemon {
        steering,
        kernel,
        unknown,
        news,
        requests,
        interface: settings.interface,
        mode,
        fabric: Known::of(source),
        prober,
        secret,
        is_own: false,
        reported: Reported::default(),
        is_stuck: false,
        notifier: Notifier::system(),
    };
    notifier.ready();
    let ended = daemon.run(end).await;
    notifier.stopping();
    server.abort();
    metrics.into_iter().chain([agent]).for_each(|task| task.abort());
    drop(file);
    ended?;
    tracing::info!("stopped; packets keep their path programs (`canopy-steer remove` ends that)");
    Ok(())
}
