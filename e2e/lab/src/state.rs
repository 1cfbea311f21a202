// SPDX-License-Identifier: Apache-2.0
//! `lab.json`: everything that exists because of a lab, written before it exists, so that `down` finds it.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::file::LabFile;
use crate::management::Management;
use crate::means::Means;
use crate::names::Instance;
use crate::process::Process;

/// Name of the state file in the lab's directory.
pub(crate) const FILE: &str = "lab.json";

/// What was created so far.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct State {
    /// Which lab.
    pub instance: Instance,
    /// The lab file with its overrides.
    pub file: LabFile,
    /// State, configuration and logs.
    pub dir: PathBuf,
    /// Where the programs under test are.
    pub bin_dir: PathBuf,
    /// The controller's REST port on 127.0.0.1; `None` = network only.
    pub rest_port: Option<u16>,
    /// The instance's pins are this lab's, not those of one in another directory.
    pub claimed: bool,
    /// Namespaces that belong to this lab.
    pub namespaces: Vec<String>,
    /// The management link, if there is one.
    #[serde(default)]
    pub management: Option<Management>,
    /// Every host has an agent, by which its applications join.
    #[serde(default)]
    pub host_agents: bool,
    /// Port of Prometheus on 127.0.0.1, if it was started.
    #[serde(default)]
    pub prometheus_port: Option<u16>,
    /// How links are delayed, if any is.
    #[serde(default)]
    pub delay_means: Option<Means>,
    /// `controller`, `agent-<node>`, `host-<host>`, `prometheus` and `delay-line <link>`.
    pub processes: BTreeMap<String, Process>,
}

impl State {
    /// Reads the state of the lab in `dir`; `None` when there is no lab.
    ///
    /// # Errors
    /// The file is there and cannot be read.
    pub(crate) fn load(dir: &Path) -> Result<Option<Self>> {
        let path = dir.join(FILE);
        match fs::read(&path) {
            Ok(text) => serde_json::from_slice(&text)
                .map(Some)
                .with_context(|| format!("{} is not this program's", path.display())),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(e).with_context(|| format!("reading {}", path.display())),
        }
    }

    /// Writes the state atomically: a reader sees the old or the new state.
    ///
    /// # Errors
    /// The file system refuses.
    pub(crate) fn save(&self) -> Result<()> {
        let (path, new) = (self.dir.join(FILE), self.dir.join("lab.json.new"));
        fs::write(&new, serde_json::to_vec_pretty(self)?).with_context(|| format!("writing {}", new.display()))?;
        fs::rename(&new, &path).with_context(|| format!("writing {}", path.display()))
    }
}
