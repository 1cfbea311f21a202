// SPDX-License-Identifier: Apache-2.0
//! What a node keeps of an egress port, and of each flow through it.

use std::collections::{BTreeMap, BTreeSet};

use canopy_model::congestion::CnpCounts;

use super::flow::FlowKey;
use super::meter::Meter;
use super::trigger::{Assessment, Limits};

/// An egress port.
#[derive(Debug)]
pub(super) struct Port {
    pub(super) limits: Limits,
    pub(super) meter: Meter,
    /// Octets of each flow since the last reading: its share of what entered the queue.
    pub(super) shares: BTreeMap<FlowKey, u64>,
    /// Flows that were asked for less, and not told since that they may have more.
    pub(super) told: BTreeSet<FlowKey>,
    pub(super) low_since_ns: Option<u64>,
    pub(super) bucket: Bucket,
    pub(super) last: Option<Assessment>,
    /// What was said and held back, of all flows and of each in the table.
    pub(super) counts: CnpCounts,
    pub(super) flows: BTreeMap<FlowKey, CnpCounts>,
}

impl Port {
    pub(super) fn new(limits: Limits) -> Self {
        let (shares, told) = (BTreeMap::new(), BTreeSet::new());
        let (meter, bucket) = (Meter::default(), Bucket::default());
        let (counts, flows) = (CnpCounts::default(), BTreeMap::new());
        Self { limits, meter, shares, told, low_since_ns: None, bucket, last: None, counts, flows }
    }

    /// The flows with the highest shares that together make more than half, at most `most` of them, largest first.
    pub(super) fn guilty(&self, most: usize) -> Vec<FlowKey> {
        let total: u128 = self.shares.values().map(|bytes| u128::from(*bytes)).sum();
        let mut flows: Vec<_> = self.shares.iter().map(|(key, bytes)| (*bytes, *key)).collect();
        flows.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(&b.1)));
        let mut sum = 0;
        let enough = |(bytes, _): &(u64, FlowKey)| {
            let more = sum * 2 <= total;
            sum += u128::from(*bytes);
            more
        };
        flows.into_iter().take(most).take_while(enough).map(|(_, key)| key).collect()
    }

    pub(super) fn forget(&mut self, key: &FlowKey) {
        self.shares.remove(key);
        self.told.remove(key);
        self.flows.remove(key);
    }
}

/// A limit on packets per second, with a burst: a bucket of nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Bucket {
    /// Full at `full_ns`; further behind the present than a burst is the same as full.
    full_ns: u64,
}

impl Bucket {
    /// Takes one; `false` when the limit is reached.
    pub(super) fn take(&mut self, per_second: u32, burst: u32, now_ns: u64) -> bool {
        let cost = 1_000_000_000 / u64::from(per_second.max(1));
        let full = self.full_ns.max(now_ns) + cost;
        let ok = full <= now_ns.saturating_add(cost * u64::from(burst));
        if ok {
            self.full_ns = full;
        }
        ok
    }
}

/// What a node keeps of a flow besides its addresses.
#[derive(Clone, Debug, Default)]
pub(super) struct FlowState {
    /// The endpoint accepts the RoCEv2 format.
    pub(super) accepts_roce: bool,
    /// When it was last told something.
    pub(super) spoke_ns: Option<u64>,
    window: Option<(u64, u64)>,
    previous: Option<u128>,
    fell_ns: Option<u64>,
    watch: Option<Watch>,
}

/// Silence because the arrival rate fell: how bad it was, and when to look again.
#[derive(Clone, Copy, Debug)]
struct Watch {
    level: u8,
    until_ns: u64,
}

/// Whether to speak to a flow's source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Yes.
    Speak,
    /// Yes, more strictly than the metrics alone ask for, and at least at this level: a node upstream was not enough.
    Escalate(u8),
    /// No: its rate fell within the last RTT.
    Defer,
}

impl FlowState {
    /// Octets arrived. The rate is taken over half an RTT; lower by more than a tenth, it fell.
    pub(super) fn arrive(&mut self, bytes: u64, rtt_ns: u64, now_ns: u64) {
        let Some((start, sum)) = self.window else {
            // These arrived before the window, how long before is not known.
            self.window = Some((now_ns, 0));
            return;
        };
        let elapsed = now_ns.saturating_sub(start);
        if elapsed < (rtt_ns / 2).max(1) {
            self.window = Some((start, sum.saturating_add(bytes)));
            return;
        }
        // Octets arrived after the last sample and up to this one: they belong to the window that ends.
        let rate = (u128::from(sum) + u128::from(bytes)) * 1_000_000_000 / u128::from(elapsed);
        if self.previous.is_some_and(|previous| rate * 10 < previous * 9) {
            self.fell_ns = Some(now_ns);
        }
        self.previous = Some(rate);
        self.window = Some((now_ns, 0));
    }

    /// Whether to speak at `level`, decisions 4.6.
    pub(super) fn verdict(&mut self, level: u8, rtt_ns: u64, now_ns: u64) -> Verdict {
        if let Some(watch) = self.watch {
            if now_ns < watch.until_ns {
                return Verdict::Defer;
            }
            self.watch = None;
            // Much later, it is another congestion.
            let fresh = now_ns - watch.until_ns <= rtt_ns;
            if fresh && (level > watch.level || level == u8::MAX) {
                return Verdict::Escalate(watch.level.saturating_add(1));
            }
        }
        match self.fell_ns.filter(|fell| now_ns.saturating_sub(*fell) < rtt_ns) {
            Some(fell) => {
                self.watch = Some(Watch { level, until_ns: fell.saturating_add(rtt_ns) });
                Verdict::Defer
            }
            None => Verdict::Speak,
        }
    }
}
