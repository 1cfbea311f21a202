// SPDX-License-Identifier: Apache-2.0
//! The flow table, section 5.2.
//!
//! The draft's key is a four-tuple with the source QP, but an RC packet does not say its source QP. It does not have to: an
//! RC QP has one peer, so (source, destination, destination QP) has one source QP, which comes from elsewhere (decisions
//! 4.1). A table by that triple holds the same entries as one by four-tuple.

use std::collections::BTreeMap;
use std::net::Ipv6Addr;

use canopy_model::ids::Qpn;

/// What a data packet shows of its flow; inside SRv6, the inner headers.
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
    /// What its packets show.
    pub key: FlowKey,
    /// Source QP.
    pub src_qp: Qpn,
}

/// Where a source QP was learnt, the least trusted first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    /// From the DestQP of reverse ACKs.
    Learned,
    /// From RDMA-CM messages on QP1.
    Cm,
    /// From the controller's registry.
    Provisioned,
}

/// All entries are provisioned, and there is no room for another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the flow table holds {capacity} provisioned flows, its capacity: withdraw some, or make it larger")]
pub struct TableFull {
    /// Entries that the table can hold.
    pub capacity: usize,
}

/// The flows that pass a node, each with what its owner `T` keeps of it. Every operation is logarithmic in the capacity.
#[derive(Debug)]
pub struct FlowTable<T> {
    flows: BTreeMap<FlowKey, Entry<T>>,
    /// Flows that are not provisioned, by when they were last seen.
    order: BTreeMap<u64, FlowKey>,
    tick: u64,
    capacity: usize,
    age_ns: u64,
}

#[derive(Debug)]
struct Entry<T> {
    src_qp: Option<(Qpn, Origin)>,
    seen_ns: u64,
    /// Its place in `order`; `None` for a provisioned flow.
    tick: Option<u64>,
    state: T,
}

impl<T: Default> FlowTable<T> {
    /// An empty table of at most `capacity` flows, of which those that are not provisioned leave `age_ns` after their last
    /// packet.
    pub fn new(capacity: usize, age_ns: u64) -> Self {
        Self { flows: BTreeMap::new(), order: BTreeMap::new(), tick: 0, capacity, age_ns }
    }

    /// A packet of a flow passed. Adds the flow where it is new; `evicted` learns which one had to leave for it. `None` when
    /// there is no room: all entries are provisioned.
    pub fn observe(&mut self, key: FlowKey, now_ns: u64, evicted: &mut Option<FlowKey>) -> Option<&mut T> {
        if !self.flows.contains_key(&key) {
            *evicted = self.make_room().ok()?;
            let tick = Some(self.next_tick(key));
            self.flows.insert(key, Entry { src_qp: None, seen_ns: now_ns, tick, state: T::default() });
        } else if let Some(old) = self.flows.get(&key).and_then(|flow| flow.tick) {
            self.order.remove(&old);
            let tick = self.next_tick(key);
            self.flows.get_mut(&key)?.tick = Some(tick);
        }
        let flow = self.flows.get_mut(&key)?;
        flow.seen_ns = now_ns;
        Some(&mut flow.state)
    }

    /// A source QP became known. What was learnt from a less trusted origin never replaces what a more trusted one said.
    /// Flows that the table does not hold are ignored where ACKs give them away. RDMA-CM speaks before the first packet, so its
    /// flows are added as by one; provisioned ones are added, and neither age nor leave for others. Returns which one had to
    /// leave.
    pub fn learn(&mut self, flow: FourTuple, origin: Origin, now_ns: u64) -> Result<Option<FlowKey>, TableFull> {
        let mut evicted = None;
        if origin == Origin::Provisioned && !self.flows.contains_key(&flow.key) {
            evicted = self.make_room()?;
            self.flows.insert(flow.key, Entry { src_qp: None, seen_ns: now_ns, tick: None, state: T::default() });
        }
        if origin == Origin::Cm && !self.flows.contains_key(&flow.key) {
            self.observe(flow.key, now_ns, &mut evicted);
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

    /// The controller's registry no longer has a flow. Returns whether it was there.
    pub fn withdraw(&mut self, key: FlowKey) -> bool {
        match self.flows.get(&key) {
            Some(flow) if flow.tick.is_none() => self.flows.remove(&key).is_some(),
            _ => false,
        }
    }

    /// Removes one flow whose last packet is too long ago; call it until `None`.
    pub fn expire(&mut self, now_ns: u64) -> Option<FlowKey> {
        self.next_expiry().filter(|at| *at <= now_ns)?;
        let (_, key) = self.order.pop_first()?;
        self.flows.remove(&key);
        Some(key)
    }

    /// When the next flow is too old.
    pub fn next_expiry(&self) -> Option<u64> {
        let (_, key) = self.order.first_key_value()?;
        Some(self.flows.get(key)?.seen_ns.saturating_add(self.age_ns))
    }

    /// What is kept of a flow.
    pub fn get_mut(&mut self, key: &FlowKey) -> Option<&mut T> {
        self.flows.get_mut(key).map(|flow| &mut flow.state)
    }

    /// Source QP of a flow and where it is from; `None` while it is not known.
    pub fn src_qp(&self, key: &FlowKey) -> Option<(Qpn, Origin)> {
        self.flows.get(key)?.src_qp
    }

    /// Entries.
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
