// SPDX-License-Identifier: Apache-2.0
//! State of an egress port.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use canopy_model::congestion::CnpCounts;
use canopy_units::{Monotonic, Octets};

use super::flow::FlowKey;
use super::meter::Meter;
use super::trigger::{Assessment, Limits};

/// An egress port.
#[derive(Debug)]
pub(super) struct Port {
    pub(super) limits: Limits,
    pub(super) meter: Meter,
    /// Octets of each flow since the last sample: its share of what entered the queue.
    pub(super) shares: BTreeMap<FlowKey, Octets>,
    /// Flows that got an instruction to reduce and no Resume since.
    pub(super) notified: BTreeSet<FlowKey>,
    /// When octets of any flow were last sampled: flows are not polled while the queue is short.
    pub(super) polled_at: Option<Monotonic>,
    pub(super) low_since: Option<Monotonic>,
    pub(super) bucket: Bucket,
    pub(super) last: Option<Assessment>,
    /// Packets sent and suppressed, of all flows and of each flow in the table.
    pub(super) counts: CnpCounts,
    pub(super) flows: BTreeMap<FlowKey, CnpCounts>,
}

impl Port {
    pub(super) fn new(limits: Limits) -> Self {
        let (shares, notified) = (BTreeMap::new(), BTreeSet::new());
        let (meter, bucket) = (Meter::default(), Bucket::default());
        let (counts, flows) = (CnpCounts::default(), BTreeMap::new());
        Self { limits, meter, shares, notified, polled_at: None, low_since: None, bucket, last: None, counts, flows }
    }

    /// The flows with the highest shares that together exceed half of the octets, at most `most`, largest first.
    pub(super) fn heaviest_flows(&self, most: usize) -> Vec<FlowKey> {
        let total: u128 = self.shares.values().map(|octets| u128::from(octets.get())).sum();
        let mut flows: Vec<_> = self.shares.iter().map(|(key, octets)| (*octets, *key)).collect();
        flows.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(&b.1)));
        let mut sum = 0;
        let enough = |(octets, _): &(Octets, FlowKey)| {
            let more = sum * 2 <= total;
            sum += u128::from(octets.get());
            more
        };
        flows.into_iter().take(most).take_while(enough).map(|(_, key)| key).collect()
    }

    pub(super) fn forget(&mut self, key: &FlowKey) {
        self.shares.remove(key);
        self.notified.remove(key);
        self.flows.remove(key);
    }
}

/// A token bucket for packets per second.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Bucket {
    /// Time at which the bucket is full; a time in the past means full.
    full: Monotonic,
}

impl Bucket {
    /// Takes one token; `false` when the limit is reached.
    pub(super) fn take(&mut self, per_second: u32, burst: u32, now: Monotonic) -> bool {
        let cost = Duration::from_secs(1) / per_second.max(1);
        let full = self.full.max(now) + cost;
        let ok = full <= now + cost * burst;
        if ok {
            self.full = full;
        }
        ok
    }
}
