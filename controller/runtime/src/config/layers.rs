// SPDX-License-Identifier: Apache-2.0
//! Sources of the configuration, and the source that an error refers to.

use std::path::Path;

use anyhow::{Context, bail};
use toml::{Table, Value};

use super::Config;

/// Variables with this prefix are settings; unknown ones are errors.
const ENV_PREFIX: &str = "CANOPY__";

/// Settings from one source.
#[derive(Debug)]
pub struct Layer {
    /// For messages: a file, a variable, `flags`.
    pub source: String,
    /// `section.key = value`.
    pub table: Table,
}

impl Layer {
    /// A file that must exist.
    ///
    /// # Errors
    /// It cannot be read or is not TOML.
    pub fn file(path: &Path) -> anyhow::Result<Self> {
        let text = std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
        let table = text.parse::<Table>().with_context(|| format!("in {}", path.display()))?;
        Ok(Self { source: path.display().to_string(), table })
    }

    /// One layer per `CANOPY__SECTION__KEY` variable; `NODE_PREFIX` is `nodePrefix`, a value that begins with `[` is a list.
    ///
    /// # Errors
    /// A variable's name or list cannot be parsed.
    pub fn env(vars: impl Iterator<Item = (String, String)>) -> anyhow::Result<Vec<Self>> {
        let mut ours: Vec<_> = vars.filter(|(name, _)| name.starts_with(ENV_PREFIX)).collect();
        ours.sort();
        ours.into_iter().map(|(name, value)| Self::variable(&name, &value)).collect()
    }

    fn variable(name: &str, value: &str) -> anyhow::Result<Self> {
        let Some((section, key)) =
            name[ENV_PREFIX.len()..].split_once("__").filter(|(s, k)| !s.is_empty() && !k.is_empty())
        else {
            bail!("{name}: a setting is written {ENV_PREFIX}SECTION__KEY");
        };
        let value = if value.starts_with('[') {
            let list = format!("v = {value}").parse::<Table>().with_context(|| format!("{name}: not a list"))?;
            list.into_iter().next().map_or(Value::Array(vec![]), |(_, v)| v)
        } else {
            Value::String(value.to_owned())
        };
        Ok(Self { source: name.to_owned(), table: setting(&camel(section), &camel(key), value) })
    }

    /// Adds a setting.
    pub fn set(&mut self, section: &str, key: &str, value: Value) {
        merge(&mut self.table, setting(section, key, value));
    }
}

/// Merges the layers, later ones taking precedence, and checks the result.
///
/// # Errors
/// Names source and field.
pub fn load(layers: Vec<Layer>) -> anyhow::Result<Config> {
    let mut all = Table::new();
    for Layer { source, table } in layers {
        // Each layer is checked alone first: after merging, the source of an unknown key is lost.
        table
            .clone()
            .try_into::<Config>()
            .map_err(|e| anyhow::anyhow!("{source}: {}", e.message()))
            .with_context(|| "reading the configuration")?;
        merge(&mut all, table);
    }
    let config: Config =
        all.try_into().map_err(|e: toml::de::Error| anyhow::anyhow!("reading the configuration: {}", e.message()))?;
    config.validate().context("the configuration is not valid")?;
    Ok(config)
}

fn setting(section: &str, key: &str, value: Value) -> Table {
    let inner = Table::from_iter([(key.to_owned(), value)]);
    Table::from_iter([(section.to_owned(), Value::Table(inner))])
}

fn merge(into: &mut Table, from: Table) {
    for (key, value) in from {
        match (into.get_mut(&key), value) {
            (Some(Value::Table(old)), Value::Table(new)) => merge(old, new),
            (_, value) => _ = into.insert(key, value),
        }
    }
}

fn camel(upper_snake: &str) -> String {
    let mut out = String::new();
    for (i, word) in upper_snake.to_ascii_lowercase().split('_').enumerate() {
        match word.split_at_checked(1) {
            Some((first, rest)) if i > 0 => out.extend([first.to_ascii_uppercase().as_str(), rest]),
            _ => out.push_str(word),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layer(source: &str, text: &str) -> Layer {
        Layer { source: source.into(), table: text.parse().unwrap() }
    }

    fn env(vars: &[(&str, &str)]) -> anyhow::Result<Vec<Layer>> {
        Layer::env(vars.iter().map(|(k, v)| (k.to_string(), v.to_string())))
    }

    #[test]
    fn later_layers_win_key_by_key() {
        let mut layers = vec![
            layer("system", "store.path = \"/a\"\nlog.filter = \"warn\"\ngrpc.listen = \"unix:/a\""),
            layer("file", "store.path = \"/b\""),
        ];
        layers.extend(
            env(&[
                ("CANOPY__ADDRESSING__NODE_PREFIX", "fcfd::/48"),
                ("CANOPY__GRPC__LISTEN", "[\"unix:/x\", \"127.0.0.1:1\"]"),
                ("HOME", "/"),
            ])
            .unwrap(),
        );
        let mut flags = Layer { source: "flags".into(), table: Table::new() };
        flags.set("store", "path", "/c".into());
        layers.push(flags);
        let config = load(layers).unwrap();
        assert_eq!(config.store.path, Path::new("/c"));
        assert_eq!(config.log.filter, "warn");
        assert_eq!(config.grpc.listen.len(), 2);
        assert_eq!(config.addressing.node_prefix, "fcfd::/48".parse().unwrap());
    }

    #[test]
    fn unknown_keys_are_errors_that_name_their_source() {
        let problem = |l: Layer| format!("{:#}", load(vec![l]).unwrap_err());
        let p = problem(layer("/etc/x.toml", "store.pth = \"/a\""));
        assert!(p.contains("/etc/x.toml") && p.contains("pth"), "{p}");
        assert!(problem(layer("f", "[sotre]\npath = \"/a\"")).contains("sotre"));
        let p = problem(env(&[("CANOPY__STORE__PTH", "/a")]).unwrap().remove(0));
        assert!(p.contains("CANOPY__STORE__PTH") && p.contains("pth"), "{p}");
        assert!(env(&[("CANOPY__STORE", "x")]).unwrap_err().to_string().contains("CANOPY__SECTION__KEY"));
        assert!(problem(layer("f", "rest.listen = \"nonsense\"")).contains("nonsense"));
    }
}
