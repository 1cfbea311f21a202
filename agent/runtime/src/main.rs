// SPDX-License-Identifier: Apache-2.0
//! The `canopy-agent` binary: wires the real datapath, controller and clock into the event loop.

mod cli;

use std::hash::{BuildHasher, Hasher, RandomState};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use canopy_agent_core::congestion::Settings;
use canopy_agent_runtime::config::{Config, MulticastHolder};
use canopy_agent_runtime::host_socket::Hosts;
use canopy_agent_runtime::ledger::Ledger;
use canopy_agent_runtime::metrics::{About, Exporter};
use canopy_agent_runtime::{Parts, doctor, run};
use canopy_daemon::config::Loaded;
use canopy_daemon::log::TimedLevel;
use canopy_daemon::notify::Notifier;
use canopy_daemon::signals;
use canopy_datapath::{Hold, LinuxDatapath, Options};
use canopy_identity::Subject;
use canopy_model::log_level::LogOrder;
use canopy_stamp::{Prober, StampSettings};
use clap::Parser;

use cli::{Cli, Command, ConfigCommand, Flags};

/// How long calls of applications may take to finish at shutdown.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(2);

const VERSION: &str = env!("CARGO_PKG_VERSION");

fn main() -> ExitCode {
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
            settings.log.start().map_err(anyhow::Error::msg).context("log.level")?;
            notes.iter().for_each(|note| tracing::warn!("{note}"));
            runtime()?.block_on(run_agent(settings))?;
        }
        // Needs no configuration.
        Command::HoldMulticast { socket } => {
            match canopy_datapath::hold_multicast(&socket).context("keeping multicast routing enabled")? {}
        }
        Command::Config(ConfigCommand::Check) => print!("{}", toml::to_string(&settings(flags)?)?),
        Command::Enroll { token_file } => runtime()?.block_on(enroll(&settings(flags)?, &token_file))?,
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

/// One thread for the event loop, which makes blocking system calls, and one for the link.
fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    let built = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    built.context("starting the runtime")
}

async fn run_agent(config: Config) -> anyhow::Result<()> {
    let shutdown = signals::end()?;
    let kernel = doctor::kernel_release();
    tracing::info!(version = VERSION, node = config.node, controller = %config.controller, kernel, "starting");
    let ledger = Arc::new(Ledger::open(&config.state_dir)?);
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
    tokio::spawn(worker.run(channels, VERSION, Arc::new(random)));
    tokio::spawn(canopy_agent_link::renew(config.controller.clone(), identity.clone(), Arc::new(random)));
    tokio::spawn(canopy_daemon::log::follow(link.log_levels.clone(), timed));
    let hosts = Hosts {
        config: config.host_socket,
        node: config.node.clone(),
        target: config.controller.to_string(),
        controller: config.controller.channels(&identity).context("controller")?.control,
        specs: link.specs.clone(),
        state_dir: config.state_dir,
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
        node: config.node,
        kernel,
        agent_version: VERSION.to_owned(),
        datapath,
        prober: Box::new(Prober::new(StampSettings { port: config.stamp.port, interval: config.stamp.interval })),
        host_prober: Box::new(canopy_stamp::Hosts::default()),
        link,
        ledger,
        known,
        clock: Box::new(canopy_units::UnixTime::now),
        notifier: Notifier::system(),
        telemetry_interval: config.telemetry_interval,
        metrics,
    };
    let ended = run(parts, shutdown).await;
    close.send_replace(true);
    if tokio::time::timeout(SHUTDOWN_GRACE, hosts).await.is_err() {
        tracing::warn!("calls of applications did not finish within {SHUTDOWN_GRACE:?} and are aborted");
    }
    ended?;
    tracing::info!("stopped; the kernel continues to forward (`canopy-agent cleanup` removes its state)");
    Ok(())
}

/// Gets this agent's first certificate.
async fn enroll(config: &Config, token_file: &Path) -> anyhow::Result<()> {
    let read = match token_file.to_str() {
        Some("-") => std::io::read_to_string(std::io::stdin()),
        _ => std::fs::read_to_string(token_file),
    };
    let token = read.with_context(|| format!("--token-file {}", token_file.display()))?.parse()?;
    let subject = Subject::Node(config.node.clone());
    let certificate = canopy_agent_link::enroll(&config.controller, &config.identity(), &subject, token).await;
    let certificate = certificate.with_context(|| format!("enrolling {subject} at {}", config.controller))?;
    give_to_owner(&config.state_dir, &config.identity()).context("giving the certificate to the agent's user")?;
    let days = left(certificate.not_after).as_secs_f64() / 86_400.0;
    println!(
        "enrolled as {subject} of domain {}; the certificate in {} is valid for {days:.1} days, and a running agent renews it",
        certificate.domain,
        config.identity().display()
    );
    Ok(())
}

/// What root enrolls is read by the user whose state directory it is.
fn give_to_owner(state_dir: &Path, identity: &Path) -> std::io::Result<()> {
    let owner = std::fs::metadata(state_dir)?;
    let files = std::fs::read_dir(identity)?.map(|entry| entry.map(|entry| entry.path()));
    for path in files.collect::<Result<Vec<_>, _>>()?.iter().map(PathBuf::as_path).chain([identity]) {
        // Of an earlier enrollment the directory may have its owner already, and the new files not.
        if std::fs::symlink_metadata(path)?.uid() != owner.uid() {
            std::os::unix::fs::lchown(path, Some(owner.uid()), Some(owner.gid()))?;
        }
    }
    Ok(())
}

fn left(until: canopy_units::UnixTime) -> Duration {
    Duration::from_nanos(until.nanos().saturating_sub(canopy_units::UnixTime::now().nanos()))
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
    let pin_dir = match std::fs::canonicalize(&config.pin_dir) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            println!("nothing is pinned at {}", config.pin_dir.display());
            return Ok(());
        }
        found => found.with_context(|| format!("pin_dir: {}", config.pin_dir.display()))?,
    };
    doctor::check_pin_dir(Path::new("/"), &pin_dir).map_err(anyhow::Error::msg)?;
    let _alone = config.state_dir.exists().then(|| Ledger::open(&config.state_dir)).transpose()?;
    canopy_datapath::cleanup(&pin_dir, hold(config)?).await.context("cleaning up")?;
    println!(
        "removed everything pinned at {}; the ledger in {} is kept, so an agent that starts again restores it",
        pin_dir.display(),
        config.state_dir.display()
    );
    Ok(())
}

/// Fails if a requirement of every node is not met; that of multicast replication is printed.
fn print_examination(config: &Config) -> anyhow::Result<ExitCode> {
    let mut required = doctor::examine(Path::new("/"), &config.pin_dir, &config.sysctl_dir);
    let maps = canopy_datapath::map_memory().map_err(|error| format!("{:#}", anyhow::Error::from(error)));
    required.push(doctor::memory(Path::new("/"), maps));
    let multicast = runtime()?.block_on(canopy_datapath::has_multicast_rules());
    let optional = doctor::multicast(multicast.map_err(|error| format!("{:#}", anyhow::Error::from(error))));
    for check in required.iter().chain([&optional]) {
        println!("{}  {}: {}", if check.fix.is_none() { "ok     " } else { "MISSING" }, check.name, check.found);
        if let Some(fix) = &check.fix {
            println!("         to get it: {fix}");
        }
    }
    Ok(if required.iter().all(|check| check.fix.is_none()) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// A filter of log lines as the daemon's log takes it.
fn timed(order: &LogOrder) -> TimedLevel {
    TimedLevel { level: order.filter.as_ref().map(|filter| filter.as_str().to_owned()), within: order.within }
}

/// Uniform in `[0, 1)`, from the random keys of a hasher: sufficient to spread the agents' reconnects.
fn random() -> f64 {
    (RandomState::new().build_hasher().finish() >> 11) as f64 / (1_u64 << 53) as f64
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    /// Catches files of a second enrollment that stay with root because the directory has its owner already. Needs root, as the agent does.
    #[test]
    fn what_root_enrolls_belongs_to_the_owner_of_the_state_directory() {
        const AGENT: u32 = 54_321;
        let state = tempfile::tempdir().unwrap();
        std::os::unix::fs::chown(state.path(), Some(AGENT), Some(AGENT)).unwrap();
        let identity = state.path().join("identity");
        std::fs::create_dir(&identity).unwrap();
        for file in ["key.pem", "certificate.pem"] {
            std::fs::write(identity.join(file), "").unwrap();
            give_to_owner(state.path(), &identity).unwrap();
            for path in [identity.clone(), identity.join(file)] {
                let found = std::fs::metadata(&path).unwrap();
                assert_eq!((found.uid(), found.gid()), (AGENT, AGENT), "{}", path.display());
            }
        }
    }
}
