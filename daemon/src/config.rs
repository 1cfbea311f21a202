// SPDX-License-Identifier: Apache-2.0
//! The configuration of a daemon, in one dialect for all of them.
//!
//! Sources: defaults, then the system's file (`/etc/canopy/NAME.toml`, if it exists), the file that `--config` names,
//! environment variables and flags; each takes precedence over the ones before it, key by key. Files are TOML. Keys are in
//! snake_case; `stamp.port` is key `port` of table `[stamp]`, variable `CANOPY__STAMP__PORT`, flag `--stamp-port`. Times have a
//! unit (`500ms`). A list is a TOML list, or its items between commas. An unknown key is an error in every source, and every
//! error names the key and where it comes from. Keys of earlier versions still work and are reported ([`Loaded::notes`]).

mod layer;
mod value;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use figment::Figment;
use serde::Serialize;
use serde::de::DeserializeOwned;

use layer::Layer;
pub use layer::{Flags, VARIABLE_PREFIX};
pub use value::{groups, joined, list, text, users};

/// The settings of a daemon: its fields are the keys.
pub trait Settings: Serialize + DeserializeOwned {
    /// Keys of earlier versions that are called otherwise now: `("log.filter", "log.level")`. camelCase and kebab-case need no
    /// mention.
    const RENAMED: &'static [(&'static str, &'static str)] = &[];

    /// Tables whose keys are names that the user has given, and stay as they are written: `"quotas.tenants"`.
    const NAMED: &'static [&'static str] = &[];

    /// Checks what the types do not express.
    fn check(&self, faults: &mut Faults);
}

/// Where settings come from.
#[derive(Debug, Default)]
pub struct Sources {
    /// Read if it exists.
    pub system_file: PathBuf,
    /// The file of `--config`, which must exist.
    pub file: Option<PathBuf>,
    /// The environment; variables that do not begin with [`VARIABLE_PREFIX`] are ignored.
    pub variables: Vec<(OsString, OsString)>,
    /// The command line.
    pub flags: Flags,
}

/// Valid settings.
#[derive(Debug)]
pub struct Loaded<S> {
    /// The settings.
    pub settings: S,
    /// Keys of earlier versions that were found, with what to write instead; for the log.
    pub notes: Vec<String>,
}

/// Values that are not permitted.
#[derive(Debug, Default)]
pub struct Faults(Vec<(String, String)>);

impl Faults {
    /// Adds the reason why `key` cannot have its value.
    pub fn push(&mut self, key: impl Into<String>, reason: impl Into<String>) {
        self.0.push((key.into(), reason.into()));
    }

    /// Adds the reason, if there is one.
    pub fn check<T>(&mut self, key: &str, checked: Result<T, impl Into<String>>) {
        if let Err(reason) = checked {
            self.push(key, reason);
        }
    }
}

/// The configuration cannot be used; the message names the key, its source and what to do.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// A file could not be read.
    #[error("{}: cannot be read", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// A source that is not TOML, or a variable that is not UTF-8.
    #[error("{source_name}: {reason}")]
    Malformed {
        /// File or variable.
        source_name: String,
        /// The problem.
        reason: String,
    },
    /// Keys that do not exist, and values that are not permitted.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
    Settings(Vec<Fault>),
}

/// A key that does not exist, or a value that is not permitted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{key} (from {source_name}): {reason}")]
pub struct Fault {
    /// The key, with its tables.
    pub key: String,
    /// File, variable, the command line or the defaults.
    pub source_name: String,
    /// The reason and what is permitted.
    pub reason: String,
}

impl Sources {
    /// The files and the environment of this process.
    pub fn new(system_file: impl Into<PathBuf>, file: Option<PathBuf>, flags: Flags) -> Self {
        Self { system_file: system_file.into(), file, variables: std::env::vars_os().collect(), flags }
    }
}

/// Merges all sources over `defaults` and checks the result.
///
/// # Errors
/// The first source that cannot be read or has an unknown key or a value of another type; else all values out of range.
pub fn load<S: Settings>(defaults: &S, sources: Sources) -> Result<Loaded<S>, ConfigError> {
    let Sources { system_file, file, variables, flags } = sources;
    let mut layers = Vec::new();
    match std::fs::read_to_string(&system_file) {
        Ok(text) => layers.push(Layer::file(&system_file, &text)?),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(source) => return Err(ConfigError::Unreadable { path: system_file, source }),
    }
    if let Some(path) = file {
        layers.push(Layer::file(&path, &read(&path)?)?);
    }
    layers.extend(Layer::variables(variables)?);
    layers.push(Layer::flags(flags));

    let mut notes = Vec::new();
    let base = Figment::from(Layer::defaults(defaults)?);
    let mut all = base.clone();
    for mut layer in layers {
        notes.extend(layer.update(S::RENAMED, S::NAMED)?);
        // Each layer is checked over the defaults alone first: an error is then its own.
        base.clone().merge(&layer).extract_lossy::<S>().map_err(|e| refused(e, &layer.name))?;
        all = all.merge(&layer);
    }
    let settings: S = all.extract_lossy().map_err(|e| refused(e, "all sources"))?;
    let mut faults = Faults::default();
    settings.check(&mut faults);
    if faults.0.is_empty() {
        return Ok(Loaded { settings, notes });
    }
    let named = faults.0.into_iter().map(|(key, reason)| {
        let source = all.find_metadata(&key).map_or("the defaults", |found| &*found.name);
        Fault { source_name: source.to_owned(), key, reason }
    });
    Err(ConfigError::Settings(named.collect()))
}

fn read(path: &Path) -> Result<String, ConfigError> {
    std::fs::read_to_string(path).map_err(|source| ConfigError::Unreadable { path: path.to_owned(), source })
}

fn refused(error: figment::Error, source: &str) -> ConfigError {
    let faults = error.into_iter().map(|error| Fault {
        key: error.path.join("."),
        source_name: source.to_owned(),
        reason: error.kind.to_string(),
    });
    ConfigError::Settings(faults.collect())
}

#[cfg(test)]
mod tests;
