// SPDX-License-Identifier: Apache-2.0
//! The demonstration: one source sends to every other host of a lab; the counters of all hosts and links are
//! compared.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::file::LabFile;
use crate::lab::Lab;
use crate::paths::{self, LinkUse};
use crate::report::TransferReport;
use crate::transfer::{Op, TransferSpec};

/// Figure 1 of the draft, the default lab of a demonstration.
const FIGURE_1: &str = include_str!("../../topologies/figure1.yaml");

/// The group that a demonstration creates.
pub const GROUP: &str = "demo";

/// What to demonstrate.
#[derive(Clone, Debug)]
pub struct Demo {
    /// Bytes to send.
    pub bytes: u64,
    /// RDMA path MTU, bytes.
    pub path_mtu: u32,
    /// The RDMA operation.
    pub op: Op,
    /// Time limit of the transfer.
    pub timeout: Duration,
    /// Let the sender draw its progress on standard error.
    pub progress: bool,
}

/// Result of a demonstration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Demonstration {
    /// Sending host.
    pub source: String,
    /// The counters of the source and of every receiver.
    pub transfer: TransferReport,
    /// Every link, compared with what unicasts would have carried on it.
    pub links: Vec<LinkUse>,
}

/// The lab file of Figure 1, built in.
///
/// # Errors
/// Never for the file that is built in.
pub fn figure1() -> Result<LabFile> {
    LabFile::parse(FIGURE_1).context("the built-in figure1.yaml")
}

impl Lab {
    /// Creates group `demo` anew, sends from host `s1` (the first host if there is none of that name) to all others,
    /// and compares. The group stays, with its members.
    ///
    /// # Errors
    /// The lab has fewer than two hosts, the controller refuses the group, or the transfer fails. Content that
    /// differs is not an error here: see [`TransferReport::mismatches`].
    pub fn demonstrate(&self, demo: &Demo) -> Result<Demonstration> {
        let hosts: Vec<&str> = self.state.file.spec.hosts.iter().map(|h| h.name.as_str()).collect();
        ensure!(
            hosts.len() >= 2,
            "a demonstration needs a source and a receiver: lab {} has {} hosts",
            self.state.file.metadata.name,
            hosts.len()
        );
        let source = if hosts.contains(&"s1") { "s1" } else { hosts[0] };
        let receivers: Vec<&str> = hosts.iter().copied().filter(|&h| h != source).collect();

        // An interrupted run may have left members whose QPs no longer exist.
        let (status, answer) = self.rest("DELETE", &format!("/api/v1/groups/{GROUP}"), None)?;
        ensure!(
            (200..300).contains(&status) || status == 404,
            "the controller refuses to delete group {GROUP} ({status}): {answer}"
        );
        self.create_group(GROUP, json!({"pathMtu": demo.path_mtu}))?;

        // The members stay, so that the group and its tree can be inspected afterwards.
        let spec = TransferSpec {
            op: demo.op,
            timeout: demo.timeout,
            progress: demo.progress,
            leave: false,
            ..TransferSpec::new(GROUP, source, &receivers, demo.bytes)
        };
        let transfer = self.transfer(spec).context("the transfer")?;
        let names: Vec<String> = receivers.iter().map(|&r| r.into()).collect();
        let links = paths::compare(&transfer.links, source, &names)?;
        Ok(Demonstration { source: source.to_owned(), transfer, links })
    }
}
