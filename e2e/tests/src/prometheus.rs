// SPDX-License-Identifier: Apache-2.0
//! A lab's Prometheus, as a client of its API.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use canopy_lab::{Lab, http};
use serde_json::Value;

/// A Prometheus that evaluates the rules that operators install, every second; it ends with its lab.
#[derive(Clone, Copy, Debug)]
pub struct Prometheus {
    port: u16,
}

impl Prometheus {
    /// Starts it, see [`Lab::start_prometheus`].
    ///
    /// # Errors
    /// It is not installed (`make tools`), or does not start.
    pub fn start(lab: &mut Lab) -> Result<Self> {
        Ok(Self { port: lab.start_prometheus()? })
    }

    /// The result of a query, now.
    ///
    /// # Errors
    /// It does not answer, or refuses the query.
    pub fn query(&self, promql: &str) -> Result<Vec<Value>> {
        let data = self.get(&format!("/api/v1/query?query={}", encoded(promql)))?;
        Ok(data["result"].as_array().context("no result")?.clone())
    }

    /// Values of a label of the series that match.
    ///
    /// # Errors
    /// It does not answer, or refuses the selector.
    pub fn label_values(&self, selector: &str, label: &str) -> Result<BTreeSet<String>> {
        let data = self.get(&format!("/api/v1/series?match[]={}", encoded(selector)))?;
        let series = data.as_array().context("no series")?;
        Ok(series.iter().filter_map(|s| s[label].as_str()).map(str::to_owned).collect())
    }

    /// Every rule by name, with its health: `ok`, or why it cannot be evaluated.
    ///
    /// # Errors
    /// It does not answer.
    pub fn rules(&self) -> Result<Vec<(String, String)>> {
        let data = self.get("/api/v1/rules")?;
        let groups = data["groups"].as_array().context("no groups")?;
        let text = |rule: &Value, field: &str| rule[field].as_str().unwrap_or_default().to_owned();
        let rule = |rule: &Value| (text(rule, "name"), format!("{}{}", text(rule, "health"), text(rule, "lastError")));
        Ok(groups.iter().flat_map(|group| group["rules"].as_array().into_iter().flatten()).map(rule).collect())
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

fn encoded(text: &str) -> String {
    text.bytes().map(|b| format!("%{b:02X}")).collect()
}
