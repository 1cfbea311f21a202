// SPDX-License-Identifier: Apache-2.0
//! `canopy-pacer run`: starts the daemon.

use std::time::Duration;

use anyhow::{Context, bail};
use canopy_control::pb::pacer_service_server::PacerServiceServer;
use canopy_daemon::callers::{Owners, bind};
use canopy_daemon::config::Loaded;
use canopy_daemon::notify::Notifier;
use canopy_daemon::otlp;
use canopy_daemon::signals;
use canopy_units::Rate;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tonic::transport::Server;

use crate::agent;
use crate::bpf::Bpf;
use crate::config::{Config, SocketConfig};
use crate::daemon::Daemon;
use crate::engine::{Defaults, Engine};
use crate::hook::{Hook, Program};
use crate::kernel::{Kernel, Path, Wanted, interface};
use crate::learn::Rules;
use crate::metrics;
use crate::nodes::Nodes;
use crate::service::Service;

/// Requests queued for the daemon.
const CALLS: usize = 256;
/// Concurrent calls on one connection, watches included.
const MAX_STREAMS: u32 = 128;
const MAX_HEADER_BYTES: u32 = 16 << 10;
const MAX_REQUEST_BYTES: usize = 16 << 10;
const MAX_ANSWER_BYTES: usize = 32 << 20;
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(20);
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(10);

pub(super) fn run(Loaded { settings, notes }: Loaded<Config>) -> anyhow::Result<()> {
    let service = otlp::Service { name: "canopy-pacer", instance: Some(&settings.interface) };
    settings.log.start(&service).map_err(anyhow::Error::msg).context("starting the log")?;
    notes.iter().for_each(|note| tracing::warn!("{note}"));
    // One thread for the daemon and one for its clients.
    let built = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let ended = built.context("starting the runtime")?.block_on(daemon(settings));
    canopy_daemon::log::finish();
    ended
}

async fn daemon(settings: Config) -> anyhow::Result<()> {
    let end = signals::end()?;
    let notifier = Notifier::system();
    let found = interface(&settings.interface).await?;
    let (ifindex, mtu) = (found.index, found.mtu);
    let line = settings.line_rate.or(found.speed).with_context(|| {
        format!("line_rate: the speed of {} is unknown: give its rate, such as 100G", settings.interface)
    })?;
    let min = settings.min_rate.unwrap_or(Rate::from_bps((line.bps() / 100).max(1)));
    if min > line {
        bail!("min_rate: {} bit/s is more than the line rate, {} bit/s", min.bps(), line.bps());
    }
    let argv: Vec<String> = settings.on_action.command.split_whitespace().map(str::to_owned).collect();
    let argv = (!argv.is_empty()).then_some(argv);
    let wanted = settings.pacing;
    // Bound first: a second daemon for the same socket exits before it changes the interface.
    let SocketConfig { path, group, uids } = settings.socket;
    let bound = bind(&path, &group, Owners::new(uids)).await;
    let (incoming, file) = bound.with_context(|| format!("socket.path: {}", path.display()))?;
    let listener = match settings.metrics.listen {
        Some(address) => Some(TcpListener::bind(address).await.with_context(|| format!("metrics.listen: {address}"))?),
        None => None,
    };
    let bpf = Bpf::load(ifindex)?;
    let (notices, sightings) = (bpf.notices()?, bpf.sightings()?);
    let kernel = Kernel::open(bpf, Path { ifindex, mtu, line }, wanted, settings.replace_qdisc).await?;
    let pacing = kernel.means().as_str_name();
    tracing::info!(interface = settings.interface, pacing, line_bps = line.bps(), min_bps = min.bps(), mtu, "pacing");
    if wanted == Wanted::None && argv.is_none() {
        tracing::warn!(
            "the kernel does not pace and there is no on_action.command: only clients of `watch` can apply changes"
        );
    }
    let (calls, requests) = mpsc::channel(CALLS);
    let (give, given) = mpsc::channel(1);
    let agent = settings.agent.map(|socket| tokio::spawn(agent::follow(socket, give)));
    let service = Service::new(calls);
    let served = PacerServiceServer::new(service.clone())
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
    let hook = argv.map(|argv| Program {
        argv,
        timeout: settings.on_action.timeout,
        at_once: settings.on_action.at_once.into(),
        interface: settings.interface.clone(),
    });
    let daemon = Daemon {
        engine: Engine::new(Defaults { line, min, rtt: settings.rtt }),
        kernel,
        notices,
        sightings,
        requests,
        given,
        nodes: Nodes::new(settings.nodes.into_iter().collect(), settings.nodes_file),
        hook: hook.map(Hook::new),
        rules: Rules { idle: settings.idle, measure_rtt: !settings.fixed_rtt },
        interface: settings.interface,
        line,
        notifier: Notifier::system(),
    };
    notifier.ready();
    let ended = daemon.run(end).await;
    notifier.stopping();
    server.abort();
    metrics.into_iter().chain(agent).for_each(|task| task.abort());
    drop(file);
    ended?;
    tracing::info!("stopped; the interface is as it was");
    Ok(())
}
