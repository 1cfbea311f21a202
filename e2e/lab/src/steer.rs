// SPDX-License-Identifier: Apache-2.0
//! `canopy-steer` on hosts that have an agent of their own.

use std::path::PathBuf;

use anyhow::{Result, bail};

use crate::lab::Lab;

impl Lab {
    /// Starts `canopy-steer` on the interface `eth0` of a host; `settings` are more keys of its configuration.
    ///
    /// # Errors
    /// No such host, or it runs already.
    pub fn start_steer(&mut self, host: &str, settings: &str) -> Result<()> {
        let pins = self.state.instance.agent_pins().join(format!("steer-{host}"));
        let config = format!(
            "interface = \"eth0\"\nagent = \"{}\"\npin_dir = \"{}\"\n{settings}\n[socket]\npath = \"{}\"\n",
            self.host_socket(host).display(),
            pins.display(),
            self.steer_socket(host).display()
        );
        let path = self.write_config(&format!("steer-{host}.toml"), &config)?;
        let mut command = self.command(host, self.binary("canopy-steer")?)?;
        command.args(["run", "--config"]).arg(path);
        self.start(&format!("steer-{host}"), command)
    }

    /// Socket of the `canopy-steer` of a host.
    pub fn steer_socket(&self, host: &str) -> PathBuf {
        self.state.dir.join(format!("steer-{host}.sock"))
    }

    /// Kills the `canopy-steer` of a host with SIGKILL; what it pinned and attached stays.
    ///
    /// # Errors
    /// It was not started.
    pub fn kill_steer(&mut self, host: &str) -> Result<()> {
        self.kill(&format!("steer-{host}"))
    }

    /// What a command of `canopy-steer` prints on a host.
    ///
    /// # Errors
    /// It fails, with what it prints.
    pub fn steer(&self, host: &str, command: &str, args: &[&str]) -> Result<String> {
        let mut steer = self.command(host, self.binary("canopy-steer")?)?;
        let out = steer.args([command, "--socket"]).arg(self.steer_socket(host)).args(args).output()?;
        if !out.status.success() {
            bail!("canopy-steer {command} {args:?}: {}", String::from_utf8_lossy(&out.stderr));
        }
        Ok(String::from_utf8_lossy(&out.stdout).into_owned())
    }
}
