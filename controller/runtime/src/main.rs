// SPDX-License-Identifier: Apache-2.0
//! The binary: arguments, configuration, logging, signals.

use std::io::BufReader;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context;
use canopy_controller_access::{Live, Roles, Tokens};
use canopy_controller_authority::Registrar;
use canopy_controller_kubernetes::Attestor;
use canopy_controller_rest::SingleSignOn;
use canopy_controller_runtime::config::{Config, SYSTEM_FILE, StoreConfig};
use canopy_controller_runtime::{Parts, SERVICE, accounts, run};
use canopy_daemon::config::{Flags, Loaded, Sources, load};
use canopy_daemon::log::{LogConfig, LogFormat};
use canopy_daemon::notify::Notifier;
use canopy_daemon::signals;
use canopy_machine::OPEN_FILES;
use canopy_store::{EmbeddedStore, Snapshot, Store, acknowledge_recovery};
use canopy_units::UnixTime;
use clap::{Args, Parser, Subcommand};
use mimalloc::MiMalloc;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;
use tokio_rustls::rustls::ServerConfig;

/// glibc's keeps what a thread freed for the threads of the same arena: of a topology with a million links that was a third of the
/// controller's memory.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// Canopy's controller: RDMA multicast over SRv6.
///
/// Settings come from defaults, /etc/canopy/controller.toml, --config FILE, CANOPY__SECTION__KEY variables and flags; each
/// takes precedence over the ones before it. Unknown settings are errors.
#[derive(Parser)]
#[command(name = "canopy-controller", version)]
struct Cli {
    #[command(flatten)]
    settings: Settings,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Args, Clone)]
struct Settings {
    /// Settings file, takes precedence over /etc/canopy/controller.toml.
    #[arg(long, value_name = "FILE", global = true)]
    config: Option<PathBuf>,
    /// store.path: directory of the store.
    #[arg(long, value_name = "DIR", global = true)]
    store_path: Option<PathBuf>,
    /// store.engine: sled or redb.
    #[arg(long, value_name = "ENGINE", global = true)]
    store_engine: Option<String>,
    /// grpc.listen: unix:/path, or address:port for TLS, for agents; may be repeated.
    #[arg(long, value_name = "ADDRESS", global = true)]
    grpc_listen: Vec<String>,
    /// rest.listen: unix:/path, loopback:port, or address:port for TLS, for operators; may be repeated.
    #[arg(long, value_name = "ADDRESS", global = true)]
    rest_listen: Vec<String>,
    /// log.format [default: auto].
    #[arg(long, value_name = "FORMAT", global = true)]
    log_format: Option<LogFormat>,
    /// log.level: a level, or directives such as info,canopy_controller_grpc=debug [default: info].
    #[arg(long, alias = "log-filter", value_name = "LEVEL", global = true)]
    log_level: Option<String>,
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
    /// Export or import the store while no controller uses it, or take note of a loss.
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
    /// Return to the copy that a later version made before it changed the store's format: every change since then is given up, and what is there
    /// is set aside.
    Return,
    /// Take note that changes were lost: /readyz and the metrics no longer show it. Prints what was lost; a controller may be running.
    Acknowledge,
}

fn main() -> ExitCode {
    canopy_daemon::memory::keep_private();
    let ended = start(Cli::parse());
    canopy_daemon::log::finish();
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("canopy-controller: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn start(cli: Cli) -> anyhow::Result<()> {
    let flags = cli.settings.clone();
    let Loaded { settings: config, notes } = settings(cli.settings)?;
    let start_log = |log: &LogConfig| {
        let started = log.start(&SERVICE).map_err(anyhow::Error::msg).context("starting the log");
        notes.iter().for_each(|note| tracing::warn!("{note}"));
        started
    };
    match cli.command {
        Some(Command::Config { command: ConfigCommand::Check }) => {
            notes.iter().for_each(|note| eprintln!("{note}"));
            print!("{}", toml::to_string(&config)?);
            Ok(())
        }
        Some(Command::Store { command }) => {
            start_log(&config.log)?;
            maintain(&config.store, command)
        }
        None | Some(Command::Run) => {
            start_log(&config.log)?;
            tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(serve(config, flags))
        }
    }
}

fn settings(flags: Settings) -> anyhow::Result<Loaded<Config>> {
    let store_path = flags.store_path.map(|path| {
        let absolute = std::path::absolute(&path).with_context(|| format!("--store-path {}", path.display()))?;
        absolute.into_os_string().into_string().map_err(|_| anyhow::anyhow!("--store-path is not UTF-8"))
    });
    let layer = Flags::default()
        .with("store.path", store_path.transpose()?)
        .with("store.engine", flags.store_engine)
        .with_all("grpc.listen", &flags.grpc_listen)
        .with_all("rest.listen", &flags.rest_listen)
        .with("log.format", flags.log_format.map(LogFormat::name))
        .with("log.level", flags.log_level);
    Ok(load(&Config::default(), Sources::new(SYSTEM_FILE, flags.config, layer))?)
}

/// As many open files as the system permits: what callers may have together must not be what ends the accepting of all.
fn raise_open_files() {
    let raised = getrlimit(Resource::RLIMIT_NOFILE).and_then(|(soft, hard)| {
        let wanted = hard.min(OPEN_FILES.max(soft));
        setrlimit(Resource::RLIMIT_NOFILE, wanted, hard).map(|()| wanted)
    });
    match raised {
        Ok(most) if most >= OPEN_FILES => {}
        Ok(most) => tracing::info!(
            most,
            wanted = OPEN_FILES,
            "fewer open files than connections are permitted: raise the limit (LimitNOFILE=) before many agents connect"
        ),
        Err(error) => tracing::warn!(%error, "cannot raise the limit of open files"),
    }
}

async fn serve(config: Config, flags: Settings) -> anyhow::Result<()> {
    raise_open_files();
    let (stop, shutdown) = watch::channel(false);
    let end = signals::end()?;
    tokio::spawn(async move {
        end.await;
        Notifier::system().stopping();
        stop.send_replace(true);
    });
    let (path, engine) = (config.store.path.clone(), config.store.engine);
    let opened = tokio::task::spawn_blocking(move || EmbeddedStore::open(&path, engine)).await?;
    let store = opened.context("opening the store (store.path)")?;
    let directory = config.identity.directory.clone();
    let registrar = config.has_tls().then(|| Registrar::open(config.identity.into(), UnixTime::now()));
    let registrar = registrar.transpose().context("opening the authority (identity.directory)")?;
    let roles_of_accounts = config.kubernetes.roles().context("kubernetes.roles")?;
    let attestor = config.kubernetes.settings().context("kubernetes.api")?.map(|of| Arc::new(Attestor::new(of)));
    let accounts = accounts::of(attestor.clone(), roles_of_accounts);
    let tokens = Tokens::open(&directory, UnixTime::now()).context("opening the tokens (identity.directory)")?;
    let (mut grpc, mut rest) = (Vec::new(), Vec::new());
    for listen in &config.grpc.listen {
        grpc.push(listen.bind().await.context("grpc.listen")?);
    }
    for listen in &config.rest.listen {
        rest.push(listen.bind_for_all().await.context("rest.listen")?);
    }
    let web = config.web.open().await?;
    let single_sign_on = config.oidc.open()?.map(Arc::new);
    let roles: Live<Roles> = Roles::from(config.authorization).into();
    let of_browsers = web.as_ref().map(|web| web.tls.clone());
    let again = Again { flags, roles: roles.clone(), single_sign_on: single_sign_on.clone(), of_browsers };
    tokio::spawn(again.at_each(signal(SignalKind::hangup())?));
    let on_ready = Box::new(|| Notifier::system().ready());
    let (addressing, thresholds, hmac) = (config.addressing, config.thresholds.into(), config.hmac.into());
    let traces = Some(config.traces.endpoint).filter(|endpoint| !endpoint.is_empty());
    run(Parts {
        store: Arc::new(store),
        addressing,
        thresholds,
        hmac,
        traces,
        lease_grace: config.grpc.lease_grace,
        registrar,
        attestor,
        roles,
        quotas: config.quotas,
        tokens: Arc::new(tokens),
        accounts,
        grpc,
        rest,
        web,
        single_sign_on,
        shutdown,
        on_ready,
    })
    .await
}

/// What is read again while the controller runs: who has which role, and the certificate for browsers.
struct Again {
    flags: Settings,
    roles: Live<Roles>,
    single_sign_on: Option<Arc<SingleSignOn>>,
    of_browsers: Option<Live<ServerConfig>>,
}

impl Again {
    /// Reads the settings at each SIGHUP; those that are not valid change nothing.
    async fn at_each(self, mut hangup: Signal) {
        while hangup.recv().await.is_some() {
            let flags = self.flags.clone();
            let has_browsers = self.of_browsers.is_some();
            let read = move || {
                let config = settings(flags)?.settings;
                let tls = has_browsers.then(|| config.web.tls());
                anyhow::Ok((config, tls))
            };
            match tokio::task::spawn_blocking(read).await {
                Ok(Ok((config, tls))) => {
                    // Roles that are taken away do not wait for a certificate.
                    match self.of_browsers.as_ref().zip(tls) {
                        Some((of_browsers, Ok(tls))) => of_browsers.set(tls),
                        Some((_, Err(error))) => {
                            tracing::error!(
                                "the certificate for browsers is not read again, the one before stays: {error:#}"
                            );
                        }
                        None => {}
                    }
                    if let Some(single) = &self.single_sign_on {
                        single.roles.set(config.oidc.roles());
                    }
                    self.roles.set(config.authorization.into());
                    tracing::info!(
                        "read again: authorization, oidc.roles, oidc.tenants, and the files of web.certificate and web.key; other settings count after a restart"
                    );
                }
                Ok(Err(error)) => {
                    tracing::error!("the settings are not read again, and nothing changes: {error:#}");
                }
                Err(error) => tracing::error!(%error, "the settings are not read again, and nothing changes"),
            }
        }
    }
}

fn maintain(config: &StoreConfig, command: StoreCommand) -> anyhow::Result<()> {
    let open = || EmbeddedStore::open(&config.path, config.engine).context("opening the store (store.path)");
    match command {
        StoreCommand::Acknowledge => match acknowledge_recovery(&config.path)? {
            Some(recovery) => println!("{recovery}"),
            None => println!("no loss is recorded in {}", config.path.display()),
        },
        StoreCommand::Return => {
            let (revision, aside) = EmbeddedStore::return_to_copy(&config.path, config.engine)?;
            println!("the store is at revision {revision}; what it was is in {}", aside.display());
        }
        StoreCommand::Export { file } => {
            let mut out = std::fs::File::create_new(&file).with_context(|| format!("creating {}", file.display()))?;
            let snapshot = open()?.scan("")?;
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
            let revision = open()?.import(&snapshot)?;
            println!("{} entries imported, the store is at revision {revision}", snapshot.entries.len());
        }
    }
    Ok(())
}
