// SPDX-License-Identifier: Apache-2.0
//! `canopy-agent host`: the host socket alone, for a host that shares no file system with its node. The binary `canopy-host-agent` is the
//! same.

mod cli;
pub mod config;

use std::ffi::OsString;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context;
use canopy_daemon::config::Loaded;
use canopy_daemon::notify::Notifier;
use canopy_daemon::otlp::Service;
use canopy_daemon::signals;
use canopy_identity::Subject;
use canopy_machine::Check;
use clap::{CommandFactory, FromArgMatches};

use crate::doctor;
use crate::host_socket::{Hosts, Served};
use crate::ledger::Ledger;
use crate::program::{ConfigCommand, SHUTDOWN_GRACE, VERSION, enroll, print_checks, random, runtime, since_boot};
use cli::{HostCli, HostCommand, HostFlags};
use config::HostConfig;

/// Runs the program with these arguments, the first of which is not read; `name` is how it was called.
pub fn main(name: &'static str, arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let matches = HostCli::command().name(name).bin_name(name).get_matches_from(arguments);
    let started = HostCli::from_arg_matches(&matches).map_err(anyhow::Error::from).and_then(|cli| start(cli, name));
    started.unwrap_or_else(|error| {
        eprintln!("{name}: {error:#}");
        ExitCode::FAILURE
    })
}

fn start(HostCli { flags, command }: HostCli, name: &str) -> anyhow::Result<ExitCode> {
    match command.unwrap_or(HostCommand::Run) {
        HostCommand::Run => {
            let Loaded { settings, notes } = flags.load()?;
            let service = Service { name: "canopy-host-agent", instance: Some(&settings.host) };
            settings.log.start(&service).map_err(anyhow::Error::msg).context("starting the log")?;
            notes.iter().for_each(|note| tracing::warn!("{note}"));
            let ended = runtime()?.block_on(run(settings));
            canopy_daemon::log::finish();
            ended?;
        }
        HostCommand::Config(ConfigCommand::Check) => print!("{}", toml::to_string(&settings(flags, name)?)?),
        HostCommand::Enroll { token_file } => {
            let config = settings(flags, name)?;
            let subject = Subject::Host(config.host.clone());
            runtime()?.block_on(enroll(
                &config.controller,
                &config.state_dir,
                &config.identity(),
                &subject,
                &token_file,
            ))?;
        }
        HostCommand::Doctor => {
            let checks = runtime()?.block_on(doctor::host(&settings(flags, name)?));
            print_checks(&checks);
            return Ok(if checks.iter().all(Check::is_met) { ExitCode::SUCCESS } else { ExitCode::FAILURE });
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// For commands without a log.
fn settings(flags: HostFlags, name: &str) -> anyhow::Result<HostConfig> {
    let Loaded { settings, notes } = flags.load()?;
    notes.iter().for_each(|note| eprintln!("{name}: {note}"));
    Ok(settings)
}

async fn run(config: HostConfig) -> anyhow::Result<()> {
    let shutdown = signals::end()?;
    tracing::info!(version = VERSION, host = config.host, controller = %config.controller, "starting");
    // The directory is this process's alone.
    let _alone = Ledger::open(&config.state_dir)?;
    let identity = config.identity();
    let channels = config.controller.channels(&identity).context("controller")?;
    let renewing = channels.control.clone();
    let attestation = config.kubernetes.attestation(Subject::Host(config.host.clone()));
    tokio::spawn(canopy_agent_link::renew(
        config.controller.clone(),
        identity,
        renewing,
        attestation,
        Arc::new(random),
    ));
    let notifier = Arc::new(Notifier::system());
    let ready = Arc::clone(&notifier);
    let hosts = Hosts {
        config: config.host_socket,
        served: Served::Host { name: config.host, holds: channels.telemetry, random: Arc::new(random) },
        target: config.controller.to_string(),
        controller: channels.control,
        state_dir: config.state_dir,
        clock: Arc::new(since_boot),
        on_ready: Box::new(move || ready.ready()),
    };
    let (close, closing) = tokio::sync::watch::channel(false);
    let mut hosts = tokio::spawn(hosts.run(closing));
    let alive = async {
        let Some(interval) = notifier.alive_interval() else { return std::future::pending().await };
        loop {
            notifier.alive();
            tokio::time::sleep(interval).await;
        }
    };
    tokio::select! {
        () = shutdown => {}
        () = alive => {}
        ended = &mut hosts => ended.context("serving the host socket")?,
    }
    notifier.stopping();
    close.send_replace(true);
    if !hosts.is_finished() && tokio::time::timeout(SHUTDOWN_GRACE, hosts).await.is_err() {
        tracing::warn!("calls of applications did not finish within {SHUTDOWN_GRACE:?} and are aborted");
    }
    tracing::info!("stopped; memberships last, and those with a lease if their processes hold them again in time");
    Ok(())
}
