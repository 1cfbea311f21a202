// SPDX-License-Identifier: Apache-2.0
//! The binary: arguments, configuration, logging, signals.

use std::io::{BufReader, IsTerminal};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context;
use canopy_controller_runtime::config::{self, Config, Layer, LogConfig, LogFormat, SYSTEM_FILE};
use canopy_controller_runtime::{Parts, notify, run};
use canopy_store::{SledStore, Snapshot, Store};
use clap::{Args, Parser, Subcommand};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tracing_subscriber::EnvFilter;

/// Canopy's controller: RDMA multicast over SRv6.
///
/// Settings: defaults < /etc/canopy/controller.toml < --config FILE < CANOPY__SECTION__KEY < flags. Unknown settings are errors.
#[derive(Parser)]
#[command(name = "canopy-controller", version)]
struct Cli {
    #[command(flatten)]
    settings: Settings,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Args)]
struct Settings {
    /// Settings file, takes precedence over /etc/canopy/controller.toml.
    #[arg(long, value_name = "FILE", global = true)]
    config: Option<PathBuf>,
    /// store.path: directory of the store.
    #[arg(long, value_name = "DIR", global = true)]
    store_path: Option<PathBuf>,
    /// grpc.listen: unix:/path or loopback:port, for agents; may be repeated.
    #[arg(long, value_name = "ADDRESS", global = true)]
    grpc_listen: Vec<String>,
    /// rest.listen: unix:/path or loopback:port, for operators; may be repeated.
    #[arg(long, value_name = "ADDRESS", global = true)]
    rest_listen: Vec<String>,
    /// log.format: auto, pretty or json.
    #[arg(long, value_name = "FORMAT", global = true)]
    log_format: Option<String>,
    /// log.filter: for example info,canopy_controller_grpc=debug.
    #[arg(long, value_name = "FILTER", global = true)]
    log_filter: Option<String>,
}

#[derive(Subcommand)]
enum Command {
    /// Run the controller (the default).
    Run,
    /// Check the settings.
    Config {
        #[command(subcommand)]
        command: ConfigCommand,
    },
    /// Export or import the store, while no controller uses it.
    Store {
        #[command(subcommand)]
        command: StoreCommand,
    },
}

#[derive(Subcommand)]
enum ConfigCommand {
    /// Check the settings and print the result of merging all sources.
    Check,
}

#[derive(Subcommand)]
enum StoreCommand {
    /// Write the store's content to FILE, with a checksum.
    Export {
        /// File to create.
        file: PathBuf,
    },
    /// Fill an empty store from FILE.
    Import {
        /// A file that `store export` wrote, or one of the store's own backups.
        file: PathBuf,
    },
}

fn main() -> ExitCode {
    match start(Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("canopy-controller: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn start(cli: Cli) -> anyhow::Result<()> {
    let config = settings(cli.settings)?;
    match cli.command {
        Some(Command::Config { command: ConfigCommand::Check }) => {
            print!("{}", toml::to_string(&config)?);
            Ok(())
        }
        Some(Command::Store { command }) => {
            log(&config.log)?;
            maintain(&config.store.path, command)
        }
        None | Some(Command::Run) => {
            log(&config.log)?;
            tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(serve(config))
        }
    }
}

fn settings(flags: Settings) -> anyhow::Result<Config> {
    let mut layers = Vec::new();
    if Path::new(SYSTEM_FILE).exists() {
        layers.push(Layer::file(Path::new(SYSTEM_FILE))?);
    }
    if let Some(file) = &flags.config {
        layers.push(Layer::file(file)?);
    }
    layers.extend(Layer::env(std::env::vars())?);
    let mut over = Layer { source: "flags".into(), table: toml::Table::new() };
    if let Some(path) = flags.store_path {
        let absolute = std::path::absolute(&path).with_context(|| format!("--store-path {}", path.display()))?;
        over.set("store", "path", absolute.to_str().context("--store-path is not UTF-8")?.into());
    }
    for (section, listen) in [("grpc", flags.grpc_listen), ("rest", flags.rest_listen)] {
        if !listen.is_empty() {
            over.set(section, "listen", listen.into());
        }
    }
    for (key, value) in [("format", flags.log_format), ("filter", flags.log_filter)] {
        if let Some(value) = value {
            over.set("log", key, value.into());
        }
    }
    layers.push(over);
    config::load(layers)
}

fn log(config: &LogConfig) -> anyhow::Result<()> {
    let filter: EnvFilter = config.filter.parse().context("log.filter")?;
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    let terminal = std::io::stderr().is_terminal();
    match config.format {
        LogFormat::Pretty => builder.with_ansi(terminal && std::env::var_os("NO_COLOR").is_none()).init(),
        LogFormat::Auto if terminal => builder.with_ansi(std::env::var_os("NO_COLOR").is_none()).init(),
        LogFormat::Auto | LogFormat::Json => builder.json().init(),
    }
    Ok(())
}

async fn serve(config: Config) -> anyhow::Result<()> {
    let (stop, shutdown) = watch::channel(false);
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        notify::notify("STOPPING=1");
        stop.send_replace(true);
    });
    let path = config.store.path.clone();
    let store =
        tokio::task::spawn_blocking(move || SledStore::open(&path)).await?.context("opening the store (store.path)")?;
    let (mut grpc, mut rest) = (Vec::new(), Vec::new());
    for listen in &config.grpc.listen {
        grpc.push(listen.bind().await.context("grpc.listen")?);
    }
    for listen in &config.rest.listen {
        rest.push(listen.bind().await.context("rest.listen")?);
    }
    let on_ready = Box::new(|| notify::notify("READY=1"));
    let (addressing, thresholds) = (config.addressing, config.thresholds.into());
    run(Parts { store: Arc::new(store), addressing, thresholds, grpc, rest, shutdown, on_ready }).await
}

fn maintain(path: &Path, command: StoreCommand) -> anyhow::Result<()> {
    let store = SledStore::open(path).context("opening the store (store.path)")?;
    match command {
        StoreCommand::Export { file } => {
            let mut out = std::fs::File::create_new(&file).with_context(|| format!("creating {}", file.display()))?;
            let snapshot = store.scan("")?;
            snapshot.write(&mut out)?;
            out.sync_all()?;
            println!(
                "{} entries at revision {} written to {}",
                snapshot.entries.len(),
                snapshot.revision,
                file.display()
            );
        }
        StoreCommand::Import { file } => {
            let input = std::fs::File::open(&file).with_context(|| format!("reading {}", file.display()))?;
            let snapshot =
                Snapshot::read(&mut BufReader::new(input)).with_context(|| format!("reading {}", file.display()))?;
            let revision = store.import(&snapshot)?;
            println!("{} entries imported, the store is at revision {revision}", snapshot.entries.len());
        }
    }
    Ok(())
}
