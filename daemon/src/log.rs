// SPDX-License-Identifier: Apache-2.0
//! Log lines: JSON, or human-readable on a terminal.

use std::io::IsTerminal;
use std::sync::OnceLock;
use std::time::Duration;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tokio::time::Instant;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::reload::{self, Handle};
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer};

use crate::otlp::{Service, check_endpoint};

mod export;

pub use export::{finish, left_out};

/// Those that the contracts know, too (`canopy_model::log_level`): what every daemon needs knows none of them.
const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

/// The filter of this process, once it writes log lines.
static FILTER: OnceLock<Filter> = OnceLock::new();

/// Section `log` of a daemon's configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LogConfig {
    /// Format of log lines.
    pub format: LogFormat,
    /// A level, or directives such as `info,canopy_datapath=debug`.
    pub level: String,
    /// An OpenTelemetry collector that gets the lines, too, by OTLP over gRPC, `http://host:port`; empty: none.
    pub endpoint: String,
}

impl Default for LogConfig {
    fn default() -> Self {
        Self { format: LogFormat::Auto, level: "info".to_owned(), endpoint: String::new() }
    }
}

/// Format of log lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// `pretty` on a terminal, `json` elsewhere.
    #[default]
    Auto,
    /// Human-readable.
    Pretty,
    /// One JSON object a line.
    Json,
}

impl LogFormat {
    /// As in the configuration.
    pub fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Pretty => "pretty",
            Self::Json => "json",
        }
    }
}

impl LogConfig {
    /// Refuses a level that does not exist: `EnvFilter` accepts any word as a target's name, so that a misspelt level would
    /// silently have another meaning.
    ///
    /// # Errors
    /// The reason, and what to write.
    pub fn check_level(&self) -> Result<(), String> {
        let known = |part: &str| LEVELS.contains(&part.rsplit('=').next().unwrap_or(part).trim());
        if !self.level.split(',').all(known) {
            return Err(format!(
                "{:?} is not a level: use one of {} or target=level,...",
                self.level,
                LEVELS.join(", ")
            ));
        }
        EnvFilter::try_new(&self.level).map(drop).map_err(|error| error.to_string())
    }

    /// Refuses an endpoint that is none.
    ///
    /// # Errors
    /// What to write instead.
    pub fn check_endpoint(&self) -> Result<(), String> {
        check_endpoint(&self.endpoint)
    }

    /// Sends log lines of this program to standard error from now on, and to `endpoint`. Must be called once.
    ///
    /// # Errors
    /// As [`LogConfig::check_level`] and [`LogConfig::check_endpoint`].
    pub fn start(&self, service: &Service<'_>) -> Result<(), String> {
        self.check_level()?;
        self.check_endpoint()?;
        let terminal = std::io::stderr().is_terminal();
        let (enabled, handle) = reload::Layer::new(EnvFilter::new(&self.level));
        let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
        let lines = match self.format {
            LogFormat::Auto | LogFormat::Pretty if terminal => lines.boxed(),
            LogFormat::Pretty => lines.with_ansi(false).boxed(),
            LogFormat::Auto | LogFormat::Json => lines.json().boxed(),
        };
        let exported = Some(self.endpoint.as_str()).filter(|endpoint| !endpoint.is_empty());
        let exported = exported.map(|endpoint| export::start(endpoint, service)).transpose()?;
        tracing_subscriber::registry().with(enabled).with(lines).with(exported).init();
        _ = FILTER.set(Filter::new(&self.level, handle));
        Ok(())
    }
}

/// A filter for a while.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TimedLevel {
    /// A level, or directives; `None`: those of the configuration again, at once.
    pub level: Option<String>,
    /// How long; then those of the configuration again.
    pub within: Duration,
}

/// Applies the filters that come, each until its time has passed or the next one is there; then that of the configuration holds again.
/// Ends with the sender, and at once in a process without log lines.
pub async fn follow<T>(orders: watch::Receiver<Option<T>>, read: fn(&T) -> TimedLevel) {
    if let Some(filter) = FILTER.get() {
        filter.follow(orders, read).await;
    }
}

/// Which log lines are written.
struct Filter {
    configured: String,
    set: Box<dyn Fn(EnvFilter) -> Result<(), String> + Send + Sync>,
}

impl Filter {
    fn new<S: 'static>(configured: &str, handle: Handle<EnvFilter, S>) -> Self {
        let set = move |filter| handle.reload(filter).map_err(|error| error.to_string());
        Self { configured: configured.to_owned(), set: Box::new(set) }
    }

    async fn follow<T>(&self, mut orders: watch::Receiver<Option<T>>, read: fn(&T) -> TimedLevel) {
        let mut ends: Option<Instant> = None;
        loop {
            let order = tokio::select! {
                changed = orders.changed() => match changed {
                    Ok(()) => orders.borrow_and_update().as_ref().map(read),
                    Err(_) => return,
                },
                () = tokio::time::sleep_until(ends.unwrap_or_else(Instant::now)), if ends.is_some() => Some(TimedLevel::default()),
            };
            let TimedLevel { level, within } = order.unwrap_or_default();
            ends = level.as_ref().map(|_| Instant::now() + within);
            let text = level.as_deref().unwrap_or(&self.configured);
            let set = EnvFilter::try_new(text).map_err(|error| error.to_string()).and_then(|filter| (self.set)(filter));
            match set {
                Ok(()) => {
                    tracing::info!(filter = text, within = ?ends.map(|_| within), "the filter of log lines is another one")
                }
                Err(error) => tracing::warn!(filter = text, error, "the filter of log lines stays"),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_level_is_refused() {
        let check = |level: &str| LogConfig { level: level.to_owned(), ..LogConfig::default() }.check_level();
        for good in ["info", "warn,canopy_datapath=trace", "off"] {
            assert_eq!(check(good), Ok(()), "{good}");
        }
        for bad in ["verbose", "info,canopy_datapath=loud", "a=b=c", ""] {
            assert!(check(bad).unwrap_err().contains("debug"), "{bad}");
        }
    }

    /// Catches a filter that stays for ever, and one that is not the configured one again.
    #[tokio::test(start_paused = true)]
    async fn a_filter_holds_for_its_time_or_until_the_next_one() {
        let set = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
        let seen = set.clone();
        let filter = Filter {
            configured: "warn".to_owned(),
            set: Box::new(move |filter| {
                seen.lock().unwrap().push((Instant::now(), filter.to_string()));
                Ok(())
            }),
        };
        let (orders, followed) = watch::channel(None);
        let begun = Instant::now();
        let follows = tokio::spawn(async move { filter.follow(followed, TimedLevel::clone).await });
        let until = |seconds| tokio::time::sleep_until(begun + Duration::from_secs(seconds));
        let order = |level: &str, seconds| {
            let within = Duration::from_secs(seconds);
            orders.send_replace(Some(TimedLevel { level: Some(level.to_owned()), within }));
        };
        order("debug", 600);
        until(100).await;
        order("trace", 60);
        until(1000).await;
        order("debug", 600);
        until(1001).await;
        orders.send_replace(Some(TimedLevel::default()));
        until(3000).await;
        drop(orders);
        follows.await.unwrap();
        let all: Vec<(u64, String)> =
            set.lock().unwrap().iter().map(|(at, text)| ((*at - begun).as_secs(), text.clone())).collect();
        let expected = [(0, "debug"), (100, "trace"), (160, "warn"), (1000, "debug"), (1001, "warn")];
        assert_eq!(all, expected.map(|(at, text)| (at, text.to_owned())));
    }
}
