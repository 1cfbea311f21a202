// SPDX-License-Identifier: Apache-2.0
//! The `canopy-agent` binary: wires the real datapath, controller and clock into the event loop.

mod cli;

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context;
use canopy_agent_core::congestion::Settings;
use canopy_agent_runtime::config::{Config, MulticastHolder};
use canopy_agent_runtime::host_socket::{Hosts, Served};
use canopy_agent_runtime::leaving::{self, Leaving, Mark};
use canopy_agent_runtime::ledger::Ledger;
use canopy_agent_runtime::metrics::{About, Exporter};
use canopy_agent_runtime::program::{
    ConfigCommand, SHUTDOWN_GRACE, VERSION, enroll, print_checks, random, runtime, since_boot,
};
use canopy_agent_runtime::readiness::{self, Readiness};
use canopy_agent_runtime::{Ended, Parts, doctor, host_agent, run};
use canopy_daemon::config::Loaded;
use canopy_daemon::log::TimedLevel;
use canopy_daemon::notify::Notifier;
use canopy_daemon::otlp::Service;
use canopy_daemon::signals;
use canopy_datapath::{Hold, LinuxDatapath, Options};
use canopy_identity::Subject;
use canopy_machine::{Check, Machine};
use canopy_model::log_level::LogOrder;
use canopy_stamp::{Prober, StampSettings};
use clap::Parser;

use cli::{Cli, Command, Flags};

fn main() -> ExitCode {
    canopy_daemon::memory::keep_private();
    // It has options of its own.
    if std::env::args_os().nth(1).is_some_and(|mode| mode == "host") {
        return host_agent::main("canopy-agent host", std::env::args_os().skip(1));
    }
    match start(Cli::parse()) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("canopy-agent: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn start(Cli { flags, command }: Cli) -> anyhow::Result<ExitCode> {
    match command.unwrap_or(Command::Run) {
        Command::Run => {
            let Loaded { settings, notes } = flags.load()?;
            let service = Service { name: "canopy-agent", instance: Some(&settings.node) };
            settings.log.start(&service).map_err(anyhow::Error::msg).context("starting the log")?;
            notes.iter().for_each(|note| tracing::warn!("{note}"));
            let ended = runtime()?.block_on(run_agent(settings));
            canopy_daemon::log::finish();
            return ended;
        }
        // Needs no configuration.
        Command::HoldMulticast { socket, wanted } => {
            let held = match wanted {
                None => canopy_datapath::hold_multicast(&socket),
                Some(request) => canopy_datapath::hold_multicast_on_request(&request, &socket),
            };
            match held.context("keeping multicast routing enabled")? {}
        }
        Command::Ready => {
            readiness::ask(&settings(flags)?.state_dir).map_err(anyhow::Error::msg)?;
            println!("ready");
        }
        Command::Config(ConfigCommand::Check) => print!("{}", toml::to_string(&settings(flags)?)?),
        Command::Enroll { token_file } => {
            let config = settings(flags)?;
            let subject = Subject::Node(config.node.clone());
            let identity = config.identity();
            let enrolling = enroll(&config.controller, &config.state_dir, &identity, &subject, &token_file);
            runtime()?.block_on(enrolling)?;
        }
        Command::Host => {
            anyhow::bail!("options of a host's agent are written behind `host`: canopy-agent host --config FILE")
        }
        Command::Doctor => return print_examination(&settings(flags)?),
        Command::Cleanup => runtime()?.block_on(clean_up(&settings(flags)?))?,
    }
    Ok(ExitCode::SUCCESS)
}

/// For commands without a log.
fn settings(flags: Flags) -> anyhow::Result<Config> {
    let Loaded { settings, notes } = flags.load()?;
    notes.iter().for_each(|note| eprintln!("canopy-agent: {note}"));
    Ok(settings)
}

async fn run_agent(config: Config) -> anyhow::Result<ExitCode> {
    let shutdown = signals::end()?;
    let kernel = Machine::at(Path::new("/")).kernel_release();
    tracing::info!(version = VERSION, node = config.node, controller = %config.controller, kernel, "starting");
    let ledger = Arc::new(Ledger::open(&config.state_dir)?);
    match Mark::read(&config.state_dir)? {
        None => {}
        Some(Mark::Gone(_)) => return Ok(gone(&config)),
        Some(Mark::CleaningUp(retirement)) => {
            let notifier = Notifier::system();
            return leave(&config, &ledger, &notifier, retirement, shutdown).await;
        }
    }
    let known = ledger.load(&config.node)?.map(Arc::new);
    let hold_multicast = hold(&config)?;
    let congestion =
        Settings { interval: config.congestion.interval, disclose: config.congestion.disclose, ..Settings::default() };
    let options =
        Options { pin_dir: config.pin_dir.clone(), hold_multicast, congestion, sysctl_dir: config.sysctl_dir.clone() };
    let datapath = LinuxDatapath::open(options).await;
    let datapath = datapath.context("opening the datapath (`canopy-agent doctor` lists missing kernel features)")?;
    let identity = config.identity();
    let channels = config.controller.channels(&identity).context("controller")?;
    let (link, worker) = canopy_agent_link::channels(&config.node, known.clone());
    let renewing = channels.control.clone();
    tokio::spawn(worker.run(channels, VERSION, Arc::new(random)));
    let attestation = config.kubernetes.attestation(Subject::Node(config.node.clone()));
    tokio::spawn(canopy_agent_link::renew(
        config.controller.clone(),
        identity.clone(),
        renewing,
        attestation,
        Arc::new(random),
    ));
    tokio::spawn(canopy_daemon::log::follow(link.log_levels.clone(), timed));
    tokio::spawn(Readiness::of(&link).serve(Readiness::socket(&config.state_dir)));
    let hosts = Hosts {
        config: config.host_socket.clone(),
        served: Served::Node { name: config.node.clone(), specs: link.specs.clone() },
        target: config.controller.to_string(),
        controller: config.controller.channels(&identity).context("controller")?.control,
        state_dir: config.state_dir.clone(),
        clock: Arc::new(since_boot),
        on_ready: Box::new(|| ()),
    };
    let (close, closing) = tokio::sync::watch::channel(false);
    let hosts = tokio::spawn(hosts.run(closing));
    let metrics = config.metrics.address().map(|address| (Exporter::default(), address));
    if let (Some((exporter, _)), Some(listen)) = (&metrics, config.metrics.listen) {
        let about = About {
            version: VERSION.to_owned(),
            kernel: kernel.clone(),
            ledger: Arc::clone(&ledger),
            specs: link.specs.clone(),
            session: link.session.clone(),
            telemetry: link.telemetry.clone(),
            identity,
        };
        tokio::spawn(exporter.clone().serve(listen, about));
    }
    let parts = Parts {
        node: config.node.clone(),
        kernel,
        agent_version: VERSION.to_owned(),
        datapath,
        prober: Box::new(Prober::new(StampSettings { port: config.stamp.port, interval: config.stamp.interval })),
        host_prober: Box::new(canopy_stamp::Hosts::default()),
        link,
        ledger: Arc::clone(&ledger),
        known,
        clock: Box::new(canopy_units::UnixTime::now),
        notifier: Notifier::system(),
        telemetry_interval: config.telemetry_interval,
        metrics,
    };
    tokio::pin!(shutdown);
    let ended = run(parts, &mut shutdown).await;
    close.send_replace(true);
    if tokio::time::timeout(SHUTDOWN_GRACE, hosts).await.is_err() {
        tracing::warn!("calls of applications did not finish within {SHUTDOWN_GRACE:?} and are aborted");
    }
    match ended? {
        Ended::Stopped => {
            tracing::info!("stopped; the kernel continues to forward (`canopy-agent cleanup` removes its state)");
            Ok(ExitCode::SUCCESS)
        }
        Ended::Leaves(order) => leave(&config, &ledger, &Notifier::system(), order.retirement, shutdown).await,
    }
}

/// Removes everything, reports it, and ends for good.
async fn leave(
    config: &Config,
    ledger: &Ledger,
    notifier: &Notifier,
    retirement: u64,
    shutdown: impl Future<Output = ()>,
) -> anyhow::Result<ExitCode> {
    tracing::info!(retirement, "this node leaves the domain for good");
    let identity = config.identity();
    let channels = config.controller.channels(&identity).context("controller")?;
    let (link, worker) = canopy_agent_link::channels(&config.node, None);
    let renewing = channels.control.clone();
    tokio::spawn(worker.run(channels, VERSION, Arc::new(random)));
    // A node that leaves has a certificate, and gets no other one.
    tokio::spawn(canopy_agent_link::renew(config.controller.clone(), identity, renewing, None, Arc::new(random)));
    let (node, state_dir) = (&*config.node, &*config.state_dir);
    let leaving = Leaving { node, state_dir, ledger, link, notifier, retirement, agent_version: VERSION };
    let clean = async || remove_all(config, Some(ledger)).await.map_err(|error| format!("{error:#}"));
    if leaving::leave(leaving, clean, shutdown).await? {
        return Ok(gone(config));
    }
    tracing::info!(
        "this node has not left: the next start continues with it, or programs the node if it was enrolled again"
    );
    Ok(ExitCode::SUCCESS)
}

/// The end of an agent whose node has left.
fn gone(config: &Config) -> ExitCode {
    let mark = Mark::path(&config.state_dir);
    tracing::info!(
        mark = %mark.display(),
        "this node has left the domain, and its agent stays stopped: enroll it again to use it (canopyctl node enroll), or remove the mark where agents need no certificate"
    );
    ExitCode::from(leaving::GONE)
}

/// The process that keeps multicast routing enabled.
fn hold(config: &Config) -> anyhow::Result<Hold> {
    let socket = config.state_dir.join("multicast.sock");
    Ok(match config.multicast.holder {
        MulticastHolder::Child => {
            let program = std::env::current_exe().context("finding this program's path")?;
            Hold::Process { program, socket }
        }
        MulticastHolder::Unit => Hold::Unit { request: config.state_dir.join("multicast.wanted"), socket },
    })
}

/// Removes the pinned state; refused while an agent runs, which would restore it.
async fn clean_up(config: &Config) -> anyhow::Result<()> {
    let ledger = config.state_dir.exists().then(|| Ledger::open(&config.state_dir)).transpose()?;
    let removed = remove_all(config, ledger.as_ref()).await?;
    if removed.is_empty() {
        println!("nothing is pinned at {}", config.pin_dir.display());
        return Ok(());
    }
    println!(
        "removed {}; the ledger in {} is kept, so an agent that starts again restores it",
        removed.join(", "),
        config.state_dir.display()
    );
    Ok(())
}

/// Removes what an agent with this configuration programmed into the kernel; the caller is the only one. Returns what it was.
async fn remove_all(config: &Config, ledger: Option<&Ledger>) -> anyhow::Result<Vec<String>> {
    let pin_dir = match std::fs::canonicalize(&config.pin_dir) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        found => found.with_context(|| format!("pin_dir: {}", config.pin_dir.display()))?,
    };
    Machine::at(Path::new("/")).check_pin_dir(&pin_dir).map_err(anyhow::Error::msg)?;
    // Its addresses are known by it alone.
    let held = ledger.map(|ledger| ledger.load(&config.node)).transpose()?.flatten();
    let base = held.as_ref().map(|held| &*held.spec().base);
    canopy_datapath::cleanup(&pin_dir, hold(config)?, base).await.context("cleaning up")
}

/// Fails if a requirement of every node is not met; that of multicast replication is printed.
fn print_examination(config: &Config) -> anyhow::Result<ExitCode> {
    let mut required = doctor::examine(Path::new("/"), &config.pin_dir, &config.sysctl_dir);
    let maps = canopy_datapath::map_memory().map_err(|error| format!("{:#}", anyhow::Error::from(error)));
    required.push(doctor::memory(Path::new("/"), maps));
    let multicast = runtime()?.block_on(canopy_datapath::has_multicast_rules());
    let optional = doctor::multicast(multicast.map_err(|error| format!("{:#}", anyhow::Error::from(error))));
    print_checks(required.iter().chain([&optional]));
    Ok(if required.iter().all(Check::is_met) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// A filter of log lines as the daemon's log takes it.
fn timed(order: &LogOrder) -> TimedLevel {
    TimedLevel { level: order.filter.as_ref().map(|filter| filter.as_str().to_owned()), within: order.within }
}
