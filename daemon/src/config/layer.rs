// SPDX-License-Identifier: Apache-2.0
//! One source of settings: its name for messages, and its keys as they are called now.

use std::ffi::OsString;
use std::path::Path;

use figment::value::{Dict, Map, Value as FigmentValue};
use figment::{Metadata, Profile, Provider};
use serde::Serialize;
use toml::{Table, Value};

use super::{ConfigError, Fault};

/// Variables with this prefix are settings; `__` separates tables and keys, as in `CANOPY__LOG__LEVEL`.
pub const VARIABLE_PREFIX: &str = "CANOPY__";

/// Settings of the command line.
#[derive(Clone, Debug, Default)]
pub struct Flags(Table);

impl Flags {
    /// Sets `key`, such as `stamp.port`, if the flag was given.
    #[must_use]
    pub fn with(mut self, key: &str, value: Option<impl Into<Value>>) -> Self {
        if let Some(value) = value {
            merge(&mut self.0, nested(key.rsplit('.'), value.into()));
        }
        self
    }

    /// Sets a list, if the flag was given at least once.
    #[must_use]
    pub fn with_all<T: ToString>(self, key: &str, values: &[T]) -> Self {
        let list: Vec<Value> = values.iter().map(|value| Value::String(value.to_string())).collect();
        self.with(key, (!list.is_empty()).then_some(list))
    }
}

/// One source.
#[derive(Clone, Debug)]
pub(super) struct Layer {
    pub(super) name: String,
    table: Table,
}

impl Layer {
    pub(super) fn defaults(settings: &impl Serialize) -> Result<Self, ConfigError> {
        let name = "the defaults".to_owned();
        match Table::try_from(settings) {
            Ok(table) => Ok(Self { name, table }),
            Err(error) => Err(ConfigError::Malformed { source_name: name, reason: error.to_string() }),
        }
    }

    pub(super) fn file(path: &Path, text: &str) -> Result<Self, ConfigError> {
        let name = path.display().to_string();
        match text.parse() {
            Ok(table) => Ok(Self { name, table }),
            Err(error) => {
                let reason = format!("is not TOML: {}", error.to_string().trim_end());
                Err(ConfigError::Malformed { source_name: name, reason })
            }
        }
    }

    /// One layer per variable, so that an error can name it.
    pub(super) fn variables(variables: Vec<(OsString, OsString)>) -> Result<Vec<Self>, ConfigError> {
        let mut ours = Vec::new();
        for (name, value) in variables {
            let Some(name) = name.to_str().filter(|name| name.starts_with(VARIABLE_PREFIX)) else { continue };
            let Ok(value) = value.into_string() else {
                let source_name = format!("environment variable {name}");
                return Err(ConfigError::Malformed { source_name, reason: "the value is not UTF-8".to_owned() });
            };
            ours.push((name.to_owned(), value));
        }
        ours.sort();
        Ok(ours.into_iter().map(|(name, value)| Self::variable(&name, value)).collect())
    }

    fn variable(name: &str, value: String) -> Self {
        let path = name[VARIABLE_PREFIX.len()..].to_ascii_lowercase();
        let value = a_list(&value).unwrap_or(Value::String(value));
        Self { name: format!("environment variable {name}"), table: nested(path.rsplit("__"), value) }
    }

    pub(super) fn flags(flags: Flags) -> Self {
        Self { name: "the command line".to_owned(), table: flags.0 }
    }

    /// Gives keys of earlier versions their present names; returns what was found.
    ///
    /// # Errors
    /// Both names are there.
    pub(super) fn update(&mut self, renamed: &[(&str, &str)], named: &[&str]) -> Result<Vec<String>, ConfigError> {
        let mut notes = Vec::new();
        self.table = snake_table(std::mem::take(&mut self.table), "", (&self.name, named), &mut notes)?;
        for (old, new) in renamed {
            let Some(value) = take(&mut self.table, old) else { continue };
            if take(&mut self.table, new).is_some() {
                return Err(twice(&self.name, old, new));
            }
            notes.push(note(&self.name, old, new));
            merge(&mut self.table, nested(new.rsplit('.'), value));
        }
        Ok(notes)
    }
}

impl Provider for Layer {
    fn metadata(&self) -> Metadata {
        Metadata::named(self.name.clone())
    }

    fn data(&self) -> figment::Result<Map<Profile, Dict>> {
        let value = FigmentValue::serialize(&self.table)?;
        Ok(Map::from([(Profile::Default, value.into_dict().unwrap_or_default())]))
    }
}

/// A text that is a TOML list; an IPv6 address with a port is none.
fn a_list(text: &str) -> Option<Value> {
    let table = format!("v = {text}").parse::<Table>().ok().filter(|_| text.starts_with('['))?;
    table.into_iter().next().map(|(_, list)| list).filter(Value::is_array)
}

fn snake_table(
    table: Table,
    path: &str,
    (source, named): (&str, &[&str]),
    notes: &mut Vec<String>,
) -> Result<Table, ConfigError> {
    let mut out = Table::new();
    let is_named = named.contains(&path);
    for (key, value) in table {
        let name = if is_named { key.clone() } else { snake(&key) };
        let full = |key: &str| if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
        if name != key {
            notes.push(note(source, &full(&key), &full(&name)));
        }
        let value = match value {
            Value::Table(inner) => Value::Table(snake_table(inner, &full(&name), (source, named), notes)?),
            value => value,
        };
        if out.insert(name.clone(), value).is_some() {
            return Err(twice(source, &full(&key), &full(&name)));
        }
    }
    Ok(out)
}

/// `kBaseBytes` and `k-base-bytes` are `k_base_bytes`.
fn snake(key: &str) -> String {
    let mut out = String::with_capacity(key.len() + 4);
    for (i, c) in key.chars().enumerate() {
        match c {
            '-' => out.push('_'),
            c if c.is_ascii_uppercase() => {
                if i > 0 {
                    out.push('_');
                }
                out.push(c.to_ascii_lowercase());
            }
            c => out.push(c),
        }
    }
    out
}

fn note(source: &str, old: &str, new: &str) -> String {
    format!("{source}: {old} is the name of an earlier version: write {new}")
}

fn twice(source: &str, old: &str, new: &str) -> ConfigError {
    let reason = format!("is there as {new} too, of which it is the earlier name: remove it");
    ConfigError::Settings(vec![Fault { key: old.to_owned(), source_name: source.to_owned(), reason }])
}

/// The tables around a value; its own key comes first.
fn nested<'a>(keys: impl Iterator<Item = &'a str>, value: Value) -> Table {
    let value = keys.fold(value, |inner, key| Value::Table(Table::from_iter([(key.to_owned(), inner)])));
    match value {
        Value::Table(table) => table,
        _ => Table::new(),
    }
}

/// Removes the value at a dotted path.
fn take(table: &mut Table, path: &str) -> Option<Value> {
    match path.split_once('.') {
        Some((first, rest)) => take(table.get_mut(first)?.as_table_mut()?, rest),
        None => table.remove(path),
    }
}

fn merge(into: &mut Table, from: Table) {
    for (key, value) in from {
        match (into.get_mut(&key), value) {
            (Some(Value::Table(old)), Value::Table(new)) => merge(old, new),
            (_, value) => _ = into.insert(key, value),
        }
    }
}
