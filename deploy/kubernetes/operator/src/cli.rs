// SPDX-License-Identifier: Apache-2.0
//! The command line.

use std::net::SocketAddr;

use anyhow::Context;
use canopy_ctl::client::Client;
use canopy_daemon::log::{LogConfig, LogFormat};
use canopy_daemon::otlp::Service;
use canopy_daemon::signals;
use clap::{Args, Parser, Subcommand};
use tokio::net::TcpListener;

use crate::manager::Cluster;
use crate::{crd, run};

/// Declares at Canopy's controller what is declared as resources of Kubernetes, and shows its state as their status.
///
/// Kubernetes is found as by other programs: by the pod's service account, or by KUBECONFIG.
#[derive(Debug, Parser)]
#[command(name = "canopy-operator", version)]
pub struct Cli {
    #[command(flatten)]
    flags: Flags,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Args)]
struct Flags {
    /// The controller's REST API: unix:/path, where the operator runs as the controller's own user.
    #[arg(
        long,
        global = true,
        env = "CANOPY_OPERATOR_REST",
        default_value = "unix:/run/canopy/rest.sock",
        value_name = "ADDRESS"
    )]
    rest: String,
    /// Name of this cluster among those that declare at the same controller, 1 to 15 of a-z, 0-9 and '-'.
    #[arg(long, global = true, env = "CANOPY_OPERATOR_CLUSTER", default_value = "kubernetes", value_name = "NAME")]
    cluster: Cluster,
    /// Drain nodes of the topology that are cordoned in Kubernetes, and end that when they are uncordoned.
    #[arg(long, global = true, env = "CANOPY_OPERATOR_DRAIN_CORDONED")]
    drain_cordoned: bool,
    /// Address of http://ADDRESS/metrics, for Prometheus; not served without one. Every program that reaches it can read them.
    #[arg(long, global = true, env = "CANOPY_OPERATOR_METRICS", value_name = "ADDRESS")]
    metrics: Option<SocketAddr>,
    /// Format of log lines.
    #[arg(long, global = true, env = "CANOPY_OPERATOR_LOG_FORMAT", default_value = "auto", value_name = "FORMAT")]
    log_format: LogFormat,
    /// Log level, or directives such as info,canopy_operator=debug.
    #[arg(long, global = true, env = "CANOPY_OPERATOR_LOG_LEVEL", default_value = "info", value_name = "LEVEL")]
    log_level: String,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Runs the operator (the default). SIGTERM stops it.
    Run,
    /// Prints the descriptions of the resources, for Kubernetes, as YAML.
    Crds,
}

/// Executes one command line.
///
/// # Errors
/// Kubernetes cannot be found, or an argument cannot be used.
pub async fn start(Cli { flags, command }: Cli) -> anyhow::Result<()> {
    match command.unwrap_or(Command::Run) {
        Command::Crds => {
            for (_, text) in crd::documents() {
                print!("---\n{text}");
            }
            Ok(())
        }
        Command::Run => {
            let log = LogConfig { format: flags.log_format, level: flags.log_level, ..LogConfig::default() };
            log.start(&Service { name: "canopy-operator", instance: None })
                .map_err(anyhow::Error::msg)
                .context("--log-level")?;
            let rest = Client::new(&flags.rest, None).context("--rest")?;
            let kubernetes = kube::Client::try_default().await.context("finding Kubernetes")?;
            tracing::info!(version = env!("CARGO_PKG_VERSION"), rest = rest.name(), cluster = %flags.cluster, "starting");
            let scraped = match flags.metrics {
                Some(address) => {
                    Some(TcpListener::bind(address).await.with_context(|| format!("--metrics {address}"))?)
                }
                None => None,
            };
            run::run(kubernetes, rest, flags.cluster, flags.drain_cordoned, scraped, signals::end()?).await;
            tracing::info!("stopped; what is declared stays");
            Ok(())
        }
    }
}
