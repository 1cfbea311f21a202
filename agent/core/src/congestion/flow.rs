// SPDX-License-Identifier: Apache-2.0
//! The flow table, section 5.2.
//!
//! The draft's key is a four-tuple with the source QP, but an RC packet does not carry its source QP. An RC QP has one peer,
//! so (source, destination, destination QP) determines the source QP, which is learned separately (decisions 4.1). A table
//! with this triple as key holds the same entries as one with the four-tuple.

use std::collections::BTreeMap;
use std::net::Ipv6Addr;
use std::time::Duration;

use canopy_model::ids::Qpn;
use canopy_units::Monotonic;

/// The fields of a data packet that identify its flow; with SRv6, of the inner headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowKey {
    /// Source address.
    pub src: Ipv6Addr,
    /// Destination address.
    pub dst: Ipv6Addr,
    /// Destination QP.
    pub dst_qp: Qpn,
}

/// A whole flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FourTuple {
    /// The fields that its packets carry.
    pub key: FlowKey,
    /// Source QP.
    pub src_qp: Qpn,
}

/// Origin of a source QP, the least trusted first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    /// From the DestQP of reverse ACKs.
    Learned,
    /// From RDMA-CM messages on QP1.
    Cm,
    /// From the controller's registry.
    Provisioned,
}

/// All entries are provisioned, so the table has no room for another flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the flow table is full with {capacity} provisioned flows: withdraw some, or increase its capacity")]
pub struct TableFull {
    /// Capacity of the table.
    pub capacity: usize,
}

/// The flows that a node forwards, each with state `T`. Every operation is logarithmic in the capacity.
#[derive(Debug)]
pub struct FlowTable<T> {
    flows: BTreeMap<FlowKey, FlowEntry<T>>,
    /// Flows that are not provisioned, by the time of their last packet.
    order: BTreeMap<u64, FlowKey>,
    tick: u64,
    capacity: usize,
    age: Duration,
}

#[derive(Debug)]
struct FlowEntry<T> {
    src_qp: Option<(Qpn, Origin)>,
    seen: Monotonic,
    /// Key in `order`; `None` for a provisioned flow.
    tick: Option<u64>,
    state: T,
}

impl<T: Default> FlowTable<T> {
    /// An empty table of at most `capacity` flows. Flows that are not provisioned expire `age` after their last packet.
    pub fn new(capacity: usize, age: Duration) -> Self {
        Self { flows: BTreeMap::new(), order: BTreeMap::new(), tick: 0, capacity, age }
    }

    /// Records a packet of a flow. Adds a new flow and sets `evicted` to the flow removed for it, if any. `None` when the table
    /// is full with provisioned flows.
    pub fn observe(&mut self, key: FlowKey, now: Monotonic, evicted: &mut Option<FlowKey>) -> Option<&mut T> {
        if !self.flows.contains_key(&key) {
            *evicted = self.make_room().ok()?;
            let tick = Some(self.next_tick(key));
            self.flows.insert(key, FlowEntry { src_qp: None, seen: now, tick, state: T::default() });
        } else if let Some(old) = self.flows.get(&key).and_then(|flow| flow.tick) {
            self.order.remove(&old);
            let tick = self.next_tick(key);
            self.flows.get_mut(&key)?.tick = Some(tick);
        }
        let flow = self.flows.get_mut(&key)?;
        flow.seen = now;
        Some(&mut flow.state)
    }

    /// Records the source QP of a flow; it never replaces one from a more trusted origin. An unknown flow is ignored if the
    /// source QP was learned from an ACK. A flow from RDMA-CM is added as if by a packet, because CM messages precede the first
    /// one. A provisioned flow is added and neither expires nor is evicted. Returns the evicted flow, if any.
    pub fn learn(&mut self, flow: FourTuple, origin: Origin, now: Monotonic) -> Result<Option<FlowKey>, TableFull> {
        let mut evicted = None;
        if origin == Origin::Provisioned && !self.flows.contains_key(&flow.key) {
            evicted = self.make_room()?;
            self.flows.insert(flow.key, FlowEntry { src_qp: None, seen: now, tick: None, state: T::default() });
        }
        if origin == Origin::Cm && !self.flows.contains_key(&flow.key) {
            self.observe(flow.key, now, &mut evicted);
        }
        let Some(entry) = self.flows.get_mut(&flow.key) else { return Ok(None) };
        if entry.src_qp.is_none_or(|(_, known)| known <= origin) {
            entry.src_qp = Some((flow.src_qp, origin));
        }
        if origin == Origin::Provisioned
            && let Some(tick) = entry.tick.take()
        {
            self.order.remove(&tick);
        }
        Ok(evicted)
    }

    /// Removes a provisioned flow; returns whether the table held it.
    pub fn withdraw(&mut self, key: FlowKey) -> bool {
        match self.flows.get(&key) {
            Some(flow) if flow.tick.is_none() => self.flows.remove(&key).is_some(),
            _ => false,
        }
    }

    /// Removes one expired flow; call it until `None`.
    pub fn expire(&mut self, now: Monotonic) -> Option<FlowKey> {
        self.next_expiry().filter(|at| *at <= now)?;
        let (_, key) = self.order.pop_first()?;
        self.flows.remove(&key);
        Some(key)
    }

    /// When the next flow expires.
    pub fn next_expiry(&self) -> Option<Monotonic> {
        let (_, key) = self.order.first_key_value()?;
        Some(self.flows.get(key)?.seen + self.age)
    }

    /// State of a flow.
    pub fn get_mut(&mut self, key: &FlowKey) -> Option<&mut T> {
        self.flows.get_mut(key).map(|flow| &mut flow.state)
    }

    /// Source QP of a flow and its origin; `None` while unknown.
    pub fn src_qp(&self, key: &FlowKey) -> Option<(Qpn, Origin)> {
        self.flows.get(key)?.src_qp
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.flows.len()
    }

    /// Whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.flows.is_empty()
    }

    fn make_room(&mut self) -> Result<Option<FlowKey>, TableFull> {
        if self.flows.len() < self.capacity {
            return Ok(None);
        }
        let (_, oldest) = self.order.pop_first().ok_or(TableFull { capacity: self.capacity })?;
        self.flows.remove(&oldest);
        Ok(Some(oldest))
    }

    fn next_tick(&mut self, key: FlowKey) -> u64 {
        self.tick += 1;
        self.order.insert(self.tick, key);
        self.tick
    }
}
