// SPDX-License-Identifier: Apache-2.0
//! Prometheus for a lab: it scrapes the controller and every agent each second, finds the agents by the controller's service discovery, and
//! evaluates the rules that operators install.

use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};

use crate::http;
use crate::lab::Lab;

const NAME: &str = "prometheus";
/// What operators install.
const RULES: &str = include_str!("../../../deploy/prometheus/canopy.rules.yaml");

impl Lab {
    /// Starts Prometheus and waits until it has scraped the controller and, if the lab has a management link, every agent. Returns its port
    /// on 127.0.0.1.
    ///
    /// # Errors
    /// It is not installed (`make tools`), ends, or does not get there in time.
    pub fn start_prometheus(&mut self) -> Result<u16> {
        let rest = self.rest_port()?;
        let dir = self.state.dir.join(NAME);
        fs::create_dir_all(&dir).with_context(|| format!("creating {}", dir.display()))?;
        let (rules, config) = (dir.join("canopy.rules.yaml"), dir.join("prometheus.yml"));
        fs::write(&rules, RULES).with_context(|| format!("writing {}", rules.display()))?;
        let agents = self.state.management.map_or(0, |_| self.state.file.spec.nodes.len());
        fs::write(&config, configuration(rest, agents > 0)).with_context(|| format!("writing {}", config.display()))?;
        // Another program could take the port until Prometheus binds it; then it does not start.
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
        let mut command = Command::new(self.program()?);
        command.args([
            format!("--config.file={}", config.display()),
            format!("--storage.tsdb.path={}", dir.join("data").display()),
            format!("--web.listen-address=127.0.0.1:{port}"),
            "--log.level=warn".to_owned(),
        ]);
        self.start(NAME, command)?;
        self.state.prometheus_port = Some(port);
        self.state.save()?;
        let wanted = 1 + agents;
        self.wait("Prometheus to scrape the controller and the agents", |_| {
            let Ok((200, body)) = http::request(port, "GET", "/api/v1/query?query=count(up%3D%3D1)", None) else {
                return Ok(false);
            };
            let body: serde_json::Value = serde_json::from_slice(&body).context("Prometheus sent no JSON")?;
            let up = body.pointer("/data/result/0/value/1").and_then(|v| v.as_str()).map(str::parse::<usize>);
            Ok(up == Some(Ok(wanted)))
        })?;
        Ok(port)
    }

    /// The installed program, else the one that `make tools` has unpacked next to the directory of the binaries.
    fn program(&self) -> Result<PathBuf> {
        let unpacked = self.state.bin_dir.join("../prometheus/usr/bin/prometheus");
        let path = std::env::var_os("PATH").unwrap_or_default();
        let mut all = std::env::split_paths(&path).map(|dir| dir.join(NAME)).chain([unpacked]);
        all.find(|p| p.is_file()).context("prometheus is missing: run `make tools`")
    }
}

fn configuration(rest: u16, with_agents: bool) -> String {
    let controller = format!(
        "global: {{scrape_interval: 1s, evaluation_interval: 1s}}\nrule_files: [canopy.rules.yaml]\nscrape_configs:\n\
         - job_name: canopy-controller\n  static_configs: [{{targets: ['127.0.0.1:{rest}']}}]\n"
    );
    if !with_agents {
        return controller;
    }
    format!(
        "{controller}- job_name: canopy-agent\n  http_sd_configs:\n  - url: http://127.0.0.1:{rest}/api/v1/prometheus/targets\n    \
         refresh_interval: 1s\n"
    )
}
