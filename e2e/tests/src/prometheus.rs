// SPDX-License-Identifier: Apache-2.0
//! A real Prometheus that scrapes a lab's controller and evaluates the rules that operators install, every second.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, ensure};
use canopy_lab::{Lab, http};
use serde_json::Value;

/// Ends with its value.
#[derive(Debug)]
pub struct Prometheus {
    child: Child,
    port: u16,
}

impl Prometheus {
    /// Starts it and waits until it has scraped the controller.
    ///
    /// # Errors
    /// It is not installed (`make tools`), or does not start.
    pub fn start(lab: &Lab) -> Result<Self> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let dir = lab.dir().join("prometheus");
        std::fs::create_dir_all(&dir)?;
        let rules = root.join("deploy/prometheus/canopy.rules.yaml").canonicalize()?;
        let config = format!(
            "global: {{scrape_interval: 1s, evaluation_interval: 1s}}\nrule_files: ['{}']\nscrape_configs:\n- job_name: canopy-controller\n  static_configs:\n  - targets: \
             ['127.0.0.1:{}']\n",
            rules.display(),
            lab.rest_port()?
        );
        let file = dir.join("prometheus.yml");
        std::fs::write(&file, config)?;
        // Another program could take the port until Prometheus binds it; then it does not start.
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
        let log = std::fs::File::create(lab.dir().join("log/prometheus.log"))?;
        let child = Command::new(program(&root)?)
            .args([
                format!("--config.file={}", file.display()),
                format!("--storage.tsdb.path={}", dir.join("data").display()),
            ])
            .args([format!("--web.listen-address=127.0.0.1:{port}"), "--log.level=warn".to_owned()])
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()?;
        let this = Self { child, port };
        let scraped =
            |_: &Lab| Ok(this.query("up{job=\"canopy-controller\"} == 1").is_ok_and(|found| !found.is_empty()));
        lab.wait("Prometheus to scrape the controller", scraped)?;
        Ok(this)
    }

    /// The result of a query, now.
    ///
    /// # Errors
    /// It does not answer, or refuses the query.
    pub fn query(&self, promql: &str) -> Result<Vec<Value>> {
        let encoded: String = promql.bytes().map(|b| format!("%{b:02X}")).collect();
        let data = self.get(&format!("/api/v1/query?query={encoded}"))?;
        Ok(data["result"].as_array().context("no result")?.clone())
    }

    /// Alerts that fire: `Name object`.
    ///
    /// # Errors
    /// It does not answer.
    pub fn firing(&self) -> Result<BTreeSet<String>> {
        let data = self.get("/api/v1/alerts")?;
        let firing = data["alerts"].as_array().context("no alerts")?.iter().filter(|a| a["state"] == "firing");
        let label = |a: &Value, name: &str| a["labels"][name].as_str().unwrap_or_default().to_owned();
        Ok(firing.map(|a| format!("{} {}", label(a, "alertname"), label(a, "object"))).collect())
    }

    fn get(&self, path: &str) -> Result<Value> {
        let (status, body) = http::request(self.port, "GET", path, None)?;
        let mut answer: Value = serde_json::from_slice(&body).context("Prometheus sent no JSON")?;
        ensure!(status == 200 && answer["status"] == "success", "{path}: {status} {answer}");
        Ok(answer["data"].take())
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        // It has ended already if this fails.
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

/// The installed program, else the one that `make tools` has unpacked.
fn program(root: &Path) -> Result<PathBuf> {
    let unpacked = root.join("target/prometheus/usr/bin/prometheus");
    let installed =
        std::env::var_os("PATH").into_iter().flat_map(|path| std::env::split_paths(&path).collect::<Vec<_>>());
    let mut all = installed.map(|dir| dir.join("prometheus")).chain([unpacked]);
    all.find(|p| p.is_file()).context("prometheus is missing: run `make tools`")
}
