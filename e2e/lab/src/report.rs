// SPDX-License-Identifier: Apache-2.0
//! The counters of the source, the receivers and the links during one transfer.

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::wires::LinkCounters;

/// Counters of the source.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SourceReport {
    /// Bytes sent and acknowledged.
    pub bytes: u64,
    /// SHA-256 of what was sent, hexadecimal.
    pub sha256: String,
    /// Time from the first packet to the last acknowledgement.
    pub seconds: f64,
    /// Bits acknowledged per second.
    pub goodput_bps: f64,
    /// ACKs that arrived at the source.
    pub acks_received: u64,
    /// Every other field of the report of `canopy-rc send`.
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

/// Counters of one receiver.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReceiverReport {
    /// Name of the host.
    pub host: String,
    /// Bytes received in order.
    pub bytes: u64,
    /// SHA-256 of what was received, in the order of delivery, hexadecimal.
    pub sha256: String,
    /// SHA-256 of the memory that RDMA WRITEs filled, if it holds the whole stream.
    pub memory_sha256: Option<String>,
    /// ACKs that it sent.
    pub acks_sent: u64,
    /// Its `complete` event, unchanged.
    pub complete: Value,
    /// Its `exit` event, whole: the counters after the last acknowledgement.
    pub exit: Value,
}

impl ReceiverReport {
    /// Builds the report from the events of `canopy-rc receive`.
    pub(crate) fn from_events(host: &str, complete: Value, exit: Value) -> Result<Self> {
        let missing = |field: &str| format!("canopy-rc receive at {host} did not report {field:?}");
        let text = |field: &str| complete[field].as_str().map(str::to_owned);
        Ok(Self {
            host: host.to_owned(),
            bytes: complete["bytes"].as_u64().with_context(|| missing("bytes"))?,
            sha256: text("sha256").with_context(|| missing("sha256"))?,
            memory_sha256: text("memory_sha256"),
            acks_sent: exit["acks_sent"].as_u64().with_context(|| missing("acks_sent"))?,
            complete,
            exit,
        })
    }

    /// True when this receiver holds exactly what the source sent.
    pub fn matches(&self, source: &SourceReport) -> bool {
        self.bytes == source.bytes
            && self.sha256 == source.sha256
            && self.memory_sha256.as_ref().is_none_or(|m| *m == source.sha256)
    }
}

/// A successful transfer: every program completed. Use [`TransferReport::mismatches`] to check the content.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TransferReport {
    /// The source's side.
    pub source: SourceReport,
    /// The receivers, in the order of the specification.
    pub receivers: Vec<ReceiverReport>,
    /// What each link carried during the transfer, in the file's order.
    pub links: Vec<LinkCounters>,
}

impl TransferReport {
    /// Receivers whose content differs from the source's.
    pub fn mismatches(&self) -> Vec<&str> {
        self.receivers.iter().filter(|r| !r.matches(&self.source)).map(|r| r.host.as_str()).collect()
    }

    /// ACKs sent by all receivers.
    pub fn acks_sent(&self) -> u64 {
        self.receivers.iter().map(|r| r.acks_sent).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_receiver_with_other_content_or_less_of_it_is_a_mismatch() {
        let source =
            json!({"bytes": 9, "sha256": "ab", "seconds": 1.0, "goodput_bps": 72.0, "acks_received": 1, "naks": 0});
        let receiver =
            |host: &str, complete: Value| ReceiverReport::from_events(host, complete, json!({"acks_sent": 2})).unwrap();
        let receivers = vec![
            receiver("r1", json!({"bytes": 9, "sha256": "ab"})),
            receiver("r2", json!({"bytes": 9, "sha256": "ac"})),
            receiver("r3", json!({"bytes": 8, "sha256": "ab"})),
            receiver("r4", json!({"bytes": 9, "sha256": "ab", "memory_sha256": "ab"})),
            receiver("r5", json!({"bytes": 9, "sha256": "ab", "memory_sha256": "zz"})),
        ];
        let report = TransferReport { source: serde_json::from_value(source).unwrap(), receivers, links: vec![] };
        assert_eq!(report.mismatches(), ["r2", "r3", "r5"]);
        assert_eq!(report.acks_sent(), 10);
        assert_eq!(report.source.more["naks"], 0);
    }

    #[test]
    fn a_receiver_that_hides_its_hash_is_an_error() {
        let e =
            ReceiverReport::from_events("r1", json!({"bytes": 9}), json!({"acks_sent": 2})).unwrap_err().to_string();
        assert!(e.contains("r1") && e.contains("\"sha256\""), "{e}");
    }
}
