// SPDX-License-Identifier: Apache-2.0
//! Hostile hosts: frames that scapy makes.

use std::io::Write;
use std::path::Path;
use std::process::Stdio;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::Bed;

impl Bed {
    /// Runs `attacks/<script>` at a host with `what` on its standard input; returns what it prints.
    ///
    /// # Errors
    /// It fails, or prints no JSON.
    pub fn attack(&self, host: &str, script: &str, what: &Value) -> Result<Value> {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("attacks").join(script);
        let mut python = self.lab.command(host, "python3")?;
        python.arg(script).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = python.spawn().context("python3")?;
        child.stdin.take().context("standard input")?.write_all(what.to_string().as_bytes())?;
        let out = child.wait_with_output()?;
        ensure!(out.status.success(), "scapy: {}", String::from_utf8_lossy(&out.stderr));
        serde_json::from_slice(&out.stdout).context("what scapy printed")
    }

    /// MAC address of a device's interface.
    ///
    /// # Errors
    /// There is no such interface.
    pub fn mac(&self, device: &str, interface: &str) -> Result<String> {
        let out = self.lab.command(device, "ip")?.args(["-j", "link", "show", "dev", interface]).output()?;
        let links: Value = serde_json::from_slice(&out.stdout)?;
        Ok(links[0]["address"].as_str().with_context(|| format!("no {interface} at {device}"))?.to_owned())
    }
}
