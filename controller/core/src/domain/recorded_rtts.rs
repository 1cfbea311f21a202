// SPDX-License-Identifier: Apache-2.0
//! Which measured round-trip times are durable, by node: what its record in the store contains.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use canopy_model::topology::Endpoint;

use crate::command::Write;
use crate::record::{Record, RecordedRtt, RttRecord, rtt_key};

/// The content of the records, by node.
#[derive(Clone, Debug, Default)]
pub(super) struct RecordedRtts(HashMap<String, BTreeMap<String, RecordedRtt>>);

impl RecordedRtts {
    /// The record of a node contains this now; it has none if this is empty.
    pub(super) fn set(&mut self, node: String, rtts: BTreeMap<String, RecordedRtt>) {
        if rtts.is_empty() {
            self.0.remove(&node);
        } else {
            self.0.insert(node, rtts);
        }
    }

    /// Nodes with a record, in any order.
    pub(super) fn nodes(&self) -> impl Iterator<Item = &String> {
        self.0.keys()
    }

    /// Whether the record of a node contains this.
    pub(super) fn is(&self, node: &str, rtts: &BTreeMap<String, RecordedRtt>) -> bool {
        self.0.get(node).map_or(rtts.is_empty(), |recorded| recorded == rtts)
    }

    /// The recorded round-trip time of the path from a port to another.
    pub(super) fn get(&self, from: &Endpoint, to: &Endpoint) -> Option<Duration> {
        let recorded = self.0.get(&from.device)?.get(&from.port).filter(|recorded| recorded.to == *to)?;
        Some(Duration::from_nanos(recorded.rtt_ns))
    }

    /// The write after which the record of a node contains this.
    pub(super) fn write(node: &str, rtts: &BTreeMap<String, RecordedRtt>, revision: u64) -> Write {
        if rtts.is_empty() {
            return Write::Delete { key: rtt_key(node) };
        }
        Write::Put(Record::Rtt(RttRecord { node: node.to_owned(), revision, rtts: rtts.clone() }))
    }
}
