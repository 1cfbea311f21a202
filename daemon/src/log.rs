// SPDX-License-Identifier: Apache-2.0
//! Log lines: JSON, or human-readable on a terminal.

use std::io::IsTerminal;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use tracing_subscriber::EnvFilter;

const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

/// Section `log` of a daemon's configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LogConfig {
    /// Format of log lines.
    pub format: LogFormat,
    /// A level, or directives such as `info,canopy_datapath=debug`.
    pub level: String,
}

impl Default for LogConfig {
    fn default() -> Self {
        Self { format: LogFormat::Auto, level: "info".to_owned() }
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

    /// Sends log lines to standard error from now on. Must be called once.
    ///
    /// # Errors
    /// As [`LogConfig::check_level`].
    pub fn start(&self) -> Result<(), String> {
        self.check_level()?;
        let terminal = std::io::stderr().is_terminal();
        let builder =
            tracing_subscriber::fmt().with_env_filter(EnvFilter::new(&self.level)).with_writer(std::io::stderr);
        match self.format {
            LogFormat::Auto if terminal => builder.init(),
            LogFormat::Pretty if terminal => builder.init(),
            LogFormat::Pretty => builder.with_ansi(false).init(),
            LogFormat::Auto | LogFormat::Json => builder.json().init(),
        }
        Ok(())
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
}
