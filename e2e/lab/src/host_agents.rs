// SPDX-License-Identifier: Apache-2.0
//! Agents of hosts, each on its host: they reach the controller over the management link, and share nothing with the agents of nodes.

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};

use crate::lab::Lab;

impl Lab {
    /// Starts the agent of every host, if the lab has them.
    pub(crate) fn start_host_agents(&mut self) -> Result<()> {
        if !self.state.host_agents {
            return Ok(());
        }
        let hosts: Vec<String> = self.state.file.spec.hosts.iter().map(|h| h.name.clone()).collect();
        hosts.iter().try_for_each(|host| self.start_host_agent(host))?;
        let sockets: Vec<PathBuf> = hosts.iter().map(|host| self.host_socket(host)).collect();
        self.wait("the sockets of the agents of hosts", |_| {
            Ok(sockets.iter().all(|path| std::os::unix::net::UnixStream::connect(path).is_ok()))
        })
    }

    /// Starts the agent of a host, and enrolls it before if it has no certificate.
    ///
    /// # Errors
    /// No such host, no management link, or it runs already.
    pub fn start_host_agent(&mut self, host: &str) -> Result<()> {
        ensure!(self.state.file.spec.hosts.iter().any(|h| h.name == host), "{host:?} is not a host of this lab");
        let address = self.tls_address().context("agents of hosts need a management link")?;
        let (dir, socket) = (self.state.dir.display(), self.host_socket(host));
        let config = format!(
            "host = \"{host}\"\ncontroller = \"https://{address}\"\nstate_dir = \"{dir}/agents/host-{host}\"\n\n[host_socket]\npath = \"{}\"\n",
            socket.display()
        );
        let path = self.write_config(&format!("host-{host}.toml"), &config)?;
        if !self.state.dir.join(format!("agents/host-{host}/identity/certificate.pem")).exists() {
            self.enroll_host(host).with_context(|| format!("enrolling {host}"))?;
        }
        let mut command = self.command(host, self.binary("canopy-agent")?)?;
        command.args(["host", "--config"]).arg(path);
        self.start(&format!("host-{host}"), command)
    }

    /// Gets the agent of a host a certificate, as an operator does.
    ///
    /// # Errors
    /// The controller or the agent refuses.
    pub fn enroll_host(&self, host: &str) -> Result<()> {
        let mut command = self.command(host, self.binary("canopy-agent")?)?;
        command.args(["host", "--config"]).arg(self.state.dir.join(format!("host-{host}.toml"))).arg("enroll");
        self.enroll_as(&format!("host/{host}"), command)
    }

    /// Kills the agent of a host with SIGKILL.
    ///
    /// # Errors
    /// It was not started.
    pub fn kill_host_agent(&mut self, host: &str) -> Result<()> {
        self.kill(&format!("host-{host}"))
    }
}
