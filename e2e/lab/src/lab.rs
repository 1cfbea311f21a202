// SPDX-License-Identifier: Apache-2.0
//! A running lab: the operations of tests and of the command line.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail, ensure};

use crate::file::{LabFile, Link};
use crate::names::Instance;
use crate::process::beside_this_program;
use crate::state::State;
use crate::{delay, down, host, netns, network};

/// The controller's REST port in the default instance.
pub const DEFAULT_REST_PORT: u16 = 8640;

/// How to bring a lab up.
#[derive(Clone, Debug)]
pub struct Options {
    /// The instance on this machine.
    pub instance: Instance,
    /// State, configuration and logs; must not exist or be empty. `/run/canopy-lab/<instance>` when absent.
    pub dir: Option<PathBuf>,
    /// Directory of `canopy-controller`, `canopy-agent` and `canopy-rc`; that of the running program if absent.
    pub bin_dir: Option<PathBuf>,
    /// The controller's REST port; when absent 8640 in the default instance and a free one in others.
    pub rest_port: Option<u16>,
    /// A management link to every node, at which its agent serves metrics, and over which it connects to the controller by TLS.
    pub management: bool,
    /// An agent on each host, by which its applications join; needs the management link.
    pub host_agents: bool,
    /// Only namespaces and links, no controller and no agents.
    pub network_only: bool,
    /// Time limit for the controller and the agents to become ready.
    pub timeout: Duration,
}

impl Default for Options {
    fn default() -> Self {
        let instance = Instance::default();
        Self {
            instance,
            dir: None,
            bin_dir: None,
            rest_port: None,
            management: false,
            host_agents: false,
            network_only: false,
            timeout: Duration::from_secs(60),
        }
    }
}

/// A lab that is up. Dropping one that [`Lab::up`] made takes it down, unless [`Lab::keep`] was called.
#[derive(Debug)]
pub struct Lab {
    pub(crate) state: State,
    pub(crate) timeout: Duration,
    /// By name of the program.
    pub(crate) environment: BTreeMap<String, Vec<(String, String)>>,
    /// Where the program is instead, by its name.
    pub(crate) elsewhere: BTreeMap<String, PathBuf>,
    owned: bool,
}

impl Lab {
    /// Creates the network, starts the controller and the agents, applies the topology and waits until every node
    /// runs it. What was created is taken down again if anything fails.
    ///
    /// # Errors
    /// Not root; the file does not validate; the lab, a namespace or the port is taken; a program is missing, exits,
    /// or is not ready in time (the end of its log is in the message); the kernel refuses something.
    pub fn up(file: LabFile, options: Options) -> Result<Self> {
        file.validate()?;
        host::check()?;
        let dir = claim_dir(&options)?;
        let bin_dir = options.bin_dir.map_or_else(beside_this_program, Ok)?;
        let rest_port =
            if options.network_only { None } else { Some(rest_port(&options.instance, options.rest_port)?) };
        let state = State {
            instance: options.instance,
            file,
            dir,
            bin_dir,
            rest_port,
            claimed: false,
            namespaces: Vec::new(),
            management: None,
            host_agents: options.host_agents,
            prometheus_port: None,
            delay_means: None,
            processes: Default::default(),
        };
        let mut lab = Self {
            state,
            timeout: options.timeout,
            environment: BTreeMap::new(),
            elsewhere: BTreeMap::new(),
            owned: false,
        };
        if rest_port.is_some() {
            for program in ["canopy-controller", "canopy-agent"] {
                lab.binary(program)?;
            }
        }
        fs::create_dir_all(&lab.state.dir).with_context(|| format!("creating {}", lab.state.dir.display()))?;
        lab.state.save()?;
        lab.owned = true;
        if let Err(e) = lab.build(options.management) {
            lab.owned = false;
            return Err(match down::down(&lab.state.dir) {
                Ok(_) => e,
                Err(more) => e.context(format!("and it could not be taken down again: {more:#}")),
            });
        }
        Ok(lab)
    }

    fn build(&mut self, management: bool) -> Result<()> {
        network::create(&mut self.state, management).context("making the network")?;
        delay::start_lines(&mut self.state).context("starting delay lines")?;
        if self.state.rest_port.is_some() {
            self.start_control_plane()?;
        }
        Ok(())
    }

    /// The lab that another process brought up; dropping it leaves it up.
    ///
    /// # Errors
    /// There is none in the directory.
    pub fn open(instance: &Instance, dir: Option<PathBuf>) -> Result<Self> {
        let dir = dir.unwrap_or_else(|| instance.default_dir());
        let state = State::load(&dir)?
            .ok_or_else(|| anyhow!("no lab in {}: bring one up with `canopy-lab up FILE`", dir.display()))?;
        Ok(Self {
            state,
            timeout: Options::default().timeout,
            environment: BTreeMap::new(),
            elsewhere: BTreeMap::new(),
            owned: false,
        })
    }

    /// Leaves the lab up when this is dropped.
    pub fn keep(&mut self) {
        self.owned = false;
    }

    /// Takes the lab down now.
    ///
    /// # Errors
    /// The kernel or the file system refuses something.
    pub fn down(mut self) -> Result<()> {
        self.owned = false;
        down::down(&self.state.dir).map(drop)
    }

    /// `program` inside the namespace of a node or host, with the machine's mounts.
    ///
    /// # Errors
    /// The lab has no such device.
    pub fn command(&self, device: &str, program: impl AsRef<OsStr>) -> Result<Command> {
        let spec = &self.state.file.spec;
        let known = spec.nodes.iter().map(|n| &n.name).chain(spec.hosts.iter().map(|h| &h.name)).any(|n| n == device);
        ensure!(known, "{device:?} is neither a node nor a host of lab {}", self.state.file.metadata.name);
        Ok(netns::command(&self.state.instance.namespace(device), program))
    }

    /// Path of one of the programs under test.
    ///
    /// # Errors
    /// It is not there.
    pub fn binary(&self, name: &str) -> Result<PathBuf> {
        self.binary_in(&self.state.bin_dir, name)
    }

    pub(crate) fn binary_in(&self, directory: &Path, name: &str) -> Result<PathBuf> {
        let path = directory.join(name);
        ensure!(
            path.is_file(),
            "{} does not exist: build it (cargo build) or give its directory with --bin-dir",
            path.display()
        );
        Ok(path)
    }

    /// Address of a node on the management link; `None` without one.
    pub fn management_address(&self, node: &str) -> Option<Ipv4Addr> {
        let index = self.state.file.spec.nodes.iter().position(|n| n.name == node)?;
        self.state.management?.of_node(index)
    }

    /// What was created and where it is.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// The directory with state, configuration and logs.
    pub fn dir(&self) -> &Path {
        &self.state.dir
    }

    /// Links with the file's defaults filled in, in its order.
    pub fn links(&self) -> Vec<Link> {
        self.state.file.links().collect()
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        if self.owned
            && let Err(e) = down::down(&self.state.dir)
        {
            eprintln!("canopy-lab: taking down {}: {e:#}", self.state.dir.display());
        }
    }
}

/// A directory that this lab may fill and later remove whole.
fn claim_dir(options: &Options) -> Result<PathBuf> {
    let dir = options.dir.clone().unwrap_or_else(|| options.instance.default_dir());
    let dir = std::path::absolute(&dir).with_context(|| format!("--dir {}", dir.display()))?;
    if State::load(&dir)?.is_some() {
        bail!("a lab is up in {}: take it down with `canopy-lab down` or choose another --instance", dir.display());
    }
    if dir.exists() && fs::read_dir(&dir).with_context(|| format!("--dir {}", dir.display()))?.next().is_some() {
        bail!("--dir {} is not empty: `down` would remove what is in it, choose a new directory", dir.display());
    }
    // sun_path holds 108 bytes and a NUL, and the controller's socket is in here.
    ensure!(
        dir.as_os_str().len() <= 90,
        "--dir {} is too long for a Unix socket in it: use at most 90 bytes",
        dir.display()
    );
    ensure!(
        dir.to_str().is_some_and(|d| !d.contains(['"', '\\', '\n'])),
        "--dir {} cannot be written into a configuration file",
        dir.display()
    );
    Ok(dir)
}

fn rest_port(instance: &Instance, asked: Option<u16>) -> Result<u16> {
    let wanted = asked.unwrap_or(if instance.is_default() { DEFAULT_REST_PORT } else { 0 });
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, wanted))
        .with_context(|| format!("port {wanted} on 127.0.0.1 is not free: choose another with --rest-port"))?;
    Ok(listener.local_addr()?.port())
}
