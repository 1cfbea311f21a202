// SPDX-License-Identifier: Apache-2.0
//! Reads counters and aggregation state from the maps: a summary of every group, and the states of those that changed. A state has about 10 kB,
//! and of most groups nothing moves in a second.

use std::collections::BTreeMap;
use std::net::Ipv6Addr;
use std::time::Duration;

use canopy_agent_core::Sample;
use canopy_bpf::node::Node;
use canopy_bpf::node::types::{self, canopy_drop as D, canopy_min_kind as Kind};
use canopy_bpf::{Result, monotonic};
use canopy_model::ids::GroupId;
use canopy_model::member::LateStart;
use canopy_model::node_spec::GroupProgram;
use canopy_model::telemetry::{BranchTelemetry, DropCount, FatalNak, GroupTelemetry, LateState};
use canopy_units::{Monotonic, Octets, UnwrappedPsn};

use crate::groups::Groups;
use crate::paths;
use crate::render::{Slots, same};

/// Leaves of the minimum tree; the first half of its array are inner nodes, and the root is node 1.
const LEAVES: usize = 128;
/// Key of an empty leaf: all ones.
const EMPTY: u64 = u64::MAX;
/// PROBE_LOST of shared.h.
const LOST: u64 = 1;
/// SHIFT_STARTED of shared.h.
const STARTED: u32 = 1 << 31;
/// PROBE_STALE of shared.h.
const STALE: u64 = 2;

/// A group of which nothing has moved for so long is at rest: what a controller makes of samples reaches back less far, its shares of
/// waiting above all.
const REST: Duration = Duration::from_secs(15);

/// Reads counters and states; what a group's state was as long as nothing changes it.
pub(crate) struct Sampler {
    groups: BTreeMap<u32, Read>,
    rest: Duration,
}

#[cfg(test)]
impl Sampler {
    /// A group that moved in a sample is at rest from the second one after it on.
    pub(crate) fn rest_at_once(&mut self) {
        self.rest = Duration::from_nanos(1);
    }
}

impl Default for Sampler {
    fn default() -> Self {
        Self { groups: BTreeMap::new(), rest: REST }
    }
}

/// A group as it was read last.
struct Read {
    summary: types::canopy_summary,
    /// When something of it moved or waited last.
    moved_at: Monotonic,
    /// Samples since then. The first of them reads it again and has to be sent: before, it may have been read between a counter of its
    /// summary and what is changed after that counter.
    still: u32,
    /// Nothing waits for a receiver, a node or the controller.
    is_settled: bool,
    telemetry: GroupTelemetry,
    /// When feedback of each branch last came, by the clock of the programs; 0 = none.
    received: Vec<u64>,
}

impl Sampler {
    /// One sample. It reads a summary of each group, all drops, and the states of groups that changed. `names` are those of the interfaces.
    pub(crate) fn sample(&mut self, bpf: &Node, names: &BTreeMap<u32, String>, groups: &mut Groups) -> Result<Sample> {
        let mut drops: BTreeMap<u32, Vec<DropCount>> = BTreeMap::new();
        for (key, packets) in bpf.drops().entries()? {
            let types::canopy_drop_key { group_id, reason } = key;
            let packets = packets.into_iter().sum();
            let count = DropCount { reason, name: reason_name(reason), packets, port: None };
            drops.entry(group_id).or_default().push(count);
        }
        drops.values_mut().for_each(|d| d.sort_by_key(|c| c.reason));
        let mut node_drops = drops.remove(&0).unwrap_or_default();
        let now = monotonic();
        self.read_groups(bpf, drops, groups, now)?;
        let of_groups = self.groups.values().map(|read| read.at(now)).collect();
        let at_rest = self
            .groups
            .values()
            .filter(|read| read.still > 1 && read.is_settled && now.since(read.moved_at) >= self.rest);
        let at_rest = at_rest.map(|read| read.telemetry.group_id).collect();
        for (key, packets) in bpf.port_drops().entries()? {
            let Some(port) = names.get(&key.ifindex) else { continue };
            let (reason, packets) = (key.reason, packets.into_iter().sum());
            node_drops.push(DropCount { reason, name: reason_name(reason), packets, port: Some(port.clone()) });
        }
        node_drops.sort_by(|a, b| (a.reason, &a.port).cmp(&(b.reason, &b.port)));
        let paths = paths::packets(bpf, names)?;
        Ok(Sample { groups: of_groups, at_rest, node_drops, congestion: vec![], paths })
    }

    fn read_groups(
        &mut self,
        bpf: &Node,
        mut drops: BTreeMap<u32, Vec<DropCount>>,
        groups: &mut Groups,
        now: Monotonic,
    ) -> Result<()> {
        let touched = groups.take_touched();
        self.groups.retain(|id, _| !touched.contains(id));
        // Read once, for groups of which it is not known what the maps have: those of an agent that has just started.
        let mut in_maps: Option<BTreeMap<u32, Slots>> = None;
        let mut before = std::mem::take(&mut self.groups);
        for summary in bpf.summaries()? {
            let id = summary.group_id;
            let drops = drops.remove(&id).unwrap_or_default();
            let known = before.remove(&id);
            let since = known.as_ref().map(|known| (known.moved_at, known.still.saturating_add(1)));
            let moved =
                known.as_ref().is_none_or(|known| !same(&known.summary, &summary) || known.telemetry.drops != drops);
            let read = match known.filter(|known| !moved && known.still > 0 && summary.waits == 0) {
                Some(known) => Read { still: known.still.saturating_add(1), ..known },
                None => {
                    let Ok(group) = GroupId::new("group", id.into()) else { continue };
                    let slots = match groups.branches(id) {
                        Some(slots) => slots,
                        None => {
                            let all = match &mut in_maps {
                                Some(all) => all,
                                none => none.insert(by_group(bpf.peers().entries()?)),
                            };
                            all.remove(&id).unwrap_or_default()
                        }
                    };
                    let Some(state) = bpf.states().get(&id)? else { continue };
                    let cnp = bpf.cnps().get(&id)?.unwrap_or_default();
                    let (moved_at, still) = since.filter(|_| !moved && summary.waits == 0).unwrap_or((now, 0));
                    let telemetry = telemetry(group, &summary, &slots, (&state, &cnp), drops);
                    Read {
                        summary,
                        moved_at,
                        still,
                        is_settled: is_settled(&telemetry, groups.program(id)),
                        received: slots.values().map(|slot| state.stats[at(*slot)].last_received_ns).collect(),
                        telemetry,
                    }
                }
            };
            self.groups.insert(id, read);
        }
        Ok(())
    }
}

impl Read {
    fn at(&self, now: Monotonic) -> GroupTelemetry {
        let mut telemetry = self.telemetry.clone();
        for (branch, received) in telemetry.branches.iter_mut().zip(&self.received) {
            branch.last_feedback = (*received != 0).then(|| now.since(Monotonic::from_nanos(*received)));
        }
        telemetry
    }
}

/// Whether nothing of a group waits: data for its acknowledgement, the start of a late receiver or a fatal NAK for the controller.
fn is_settled(telemetry: &GroupTelemetry, program: Option<&GroupProgram>) -> bool {
    let is_stored = |at: &BranchTelemetry| {
        let of_program =
            program.and_then(|program| program.branches.iter().find(|branch| branch.address == at.address));
        of_program.is_some_and(|branch| branch.start.is_some() && branch.start == at.start)
    };
    let is_known = |branch: &BranchTelemetry| branch.fatal.is_none() && (branch.late.is_none() || is_stored(branch));
    let high = telemetry.high;
    (high.get() == 0 || telemetry.min_next == Some(high)) && telemetry.branches.iter().all(is_known)
}

/// The index of a branch in a state.
fn at(slot: u32) -> usize {
    slot as usize % LEAVES
}

/// What a group's state means; without the times of the last feedback.
fn telemetry(
    group_id: GroupId,
    summary: &types::canopy_summary,
    slots: &Slots,
    (s, cnp): (&types::canopy_state, &types::canopy_cnp),
    drops: Vec<DropCount>,
) -> GroupTelemetry {
    GroupTelemetry {
        group_id,
        epoch: summary.epoch,
        high: UnwrappedPsn(s.high),
        min_next: (s.high != 0 && s.unconfirmed.word == [0; 2] && s.tree[1].key != EMPTY)
            .then_some(UnwrappedPsn(s.tree[1].key >> Kind::KIND_BITS.0)),
        acks_in: s.acks_in,
        acks_out: s.acks_out,
        naks_in: s.naks_in,
        naks_out: s.naks_out,
        cnps_in: cnp.cnps_in,
        cnps_out: cnp.cnps_out,
        data_packets: s.data_packets,
        // Programs of another layout count theirs elsewhere.
        fresh_packets: (s.carrying == 0).then_some(s.fresh_packets),
        data_octets: Octets(s.data_bytes),
        branches: slots.iter().map(|(address, slot)| branch(*address, at(*slot), s, cnp)).collect(),
        drops,
    }
}

/// The addresses and slots of the branches of each group.
fn by_group(peers: Vec<(types::canopy_peer_key, types::canopy_peer)>) -> BTreeMap<u32, Slots> {
    let mut all: BTreeMap<u32, Slots> = BTreeMap::new();
    for (key, peer) in peers {
        all.entry(key.group_id).or_default().insert(key.address.into(), peer.slot);
    }
    all
}

/// Without the time of its last feedback.
fn branch(address: Ipv6Addr, slot: usize, s: &types::canopy_state, cnp: &types::canopy_cnp) -> BranchTelemetry {
    let (key, stats) = (s.tree[LEAVES + slot].key, s.stats[slot]);
    let unconfirmed = s.unconfirmed.word[slot / 64] >> (slot % 64) & 1 == 1;
    let next = (key != EMPTY && s.high != 0 && !unconfirmed).then_some(UnwrappedPsn(key >> Kind::KIND_BITS.0));
    BranchTelemetry {
        address,
        next,
        unconfirmed: unconfirmed && key != EMPTY,
        ack_psn: next.map(|next| UnwrappedPsn(next.get() - 1).wire()),
        epsn: next
            .filter(|_| key & u64::from(Kind::KIND_NONE.0) != u64::from(Kind::KIND_NONE.0))
            .map(UnwrappedPsn::wire),
        late: late(s, slot),
        start: (late(s, slot) == Some(LateState::Started))
            .then(|| LateStart { shift: s.shift[slot] & 0xFF_FFFF, msn_base: s.msn_base[slot] & 0xFF_FFFF }),
        fatal: Some(s.fatal[slot])
            .filter(|nak| *nak != 0)
            .map(|nak| FatalNak { syndrome: (nak >> 24) as u8, psn: nak & 0xFF_FFFF }),
        ccount: if cnp.slot_window[slot] == cnp.window { cnp.slot_count[slot] } else { 0 },
        last_feedback: None,
        packets: stats.packets,
        octets: Octets(stats.bytes),
        // Programs of another layout count theirs elsewhere.
        completed_min: (s.carrying == 0).then_some(stats.completed_min),
    }
}

/// How far a late receiver is (decisions 3.13).
fn late(s: &types::canopy_state, slot: usize) -> Option<LateState> {
    let has = |slots: &types::canopy_slots| slots.word[slot / 64] >> (slot % 64) & 1 == 1;
    if !has(&s.receivers) {
        return None;
    }
    let answered = s.nak_received_ns[slot];
    match (has(&s.probing), has(&s.pending)) {
        (true, _) if answered == LOST => Some(LateState::Lost),
        (true, _) if answered == STALE => Some(LateState::NotFresh),
        (true, _) => Some(LateState::Probing),
        (_, true) => Some(LateState::Pending),
        _ => (has(&s.active) && s.shift[slot] & STARTED != 0).then_some(LateState::Started),
    }
}

/// Name of a drop reason of shared.h in metrics.
fn reason_name(reason: u32) -> String {
    let name = match D(reason) {
        D::DROP_TRUNCATED => "truncated",
        D::DROP_NO_SRH => "no_srh",
        D::DROP_SRH_MALFORMED => "srh_malformed",
        D::DROP_TLV_MALFORMED => "tlv_malformed",
        D::DROP_TLV_NONE => "tlv_none",
        D::DROP_TLV_UNPROVISIONED => "tlv_unprovisioned",
        D::DROP_GROUP_UNKNOWN => "group_unknown",
        D::DROP_INNER_MALFORMED => "inner_malformed",
        D::DROP_SOURCE_UNREGISTERED => "source_unregistered",
        D::DROP_WRONG_PORT => "wrong_port",
        D::DROP_OPCODE_REFUSED => "opcode_refused",
        D::DROP_PSN_WINDOW => "psn_window",
        D::DROP_HOP_LIMIT => "hop_limit",
        D::DROP_ECN => "ecn",
        D::DROP_NO_NEIGHBOUR => "no_neighbour",
        D::DROP_NO_ROUTE => "no_route",
        D::DROP_MTU => "mtu",
        D::DROP_NO_ROOM => "no_room",
        D::DROP_BRANCH_UNKNOWN => "branch_unknown",
        D::DROP_FEEDBACK_MALFORMED => "feedback_malformed",
        D::DROP_FEEDBACK_ICRC => "feedback_icrc",
        D::DROP_FEEDBACK_WINDOW => "feedback_window",
        D::DROP_NAK_GHOST => "nak_ghost",
        D::DROP_NAK_FATAL => "nak_fatal",
        D::DROP_CNP_RATE => "cnp_rate",
        D::DROP_WRITE_REFUSED => "write_refused",
        D::DROP_STATE_MISSING => "state_missing",
        D::DROP_BRANCH_INACTIVE => "branch_inactive",
        D::DROP_EPOCH_OLD => "epoch_old",
        D::DROP_CNP_TIMER => "cnp_timer",
        D::DROP_EPOCH_AHEAD => "epoch_ahead",
        D::DROP_ROLE_MISSING => "role_missing",
        D::DROP_EDGE_FRAME => "edge_frame",
        D::DROP_EDGE_SOURCE => "edge_source",
        D::DROP_EDGE_LINK_LOCAL => "edge_link_local",
        D::DROP_EDGE_NEIGHBOUR => "edge_neighbour_discovery",
        D::DROP_EDGE_SID => "edge_sid",
        D::DROP_EDGE_NODE => "edge_node_address",
        D::DROP_EDGE_PROXY => "edge_proxy_prefix",
        D::DROP_EDGE_TUNNEL => "edge_tunnel",
        D::DROP_EDGE_HEADERS => "edge_headers",
        D::DROP_FABRIC_SOURCE => "fabric_source",
        D::DROP_OUTSIDE => "outside",
        D::DROP_PSN_FLIGHT => "psn_flight",
        D::DROP_EVENT_LOST => "event_lost",
        D::DROP_NOT_OPEN => "not_open",
        D::DROP_NO_RECEIVER => "no_receiver",
        D::DROP_EDGE_OTHER_MAC => "edge_other_mac",
        D::DROP_GSO => "gso",
        D::DROP_HMAC_MISSING => "hmac_missing",
        D::DROP_HMAC_KEY => "hmac_key",
        D::DROP_HMAC_MISMATCH => "hmac_mismatch",
        D::DROP_EDGE_ICMP_ERROR => "edge_icmp_error",
        D::DROP_EDGE_OWN_ADDRESS => "edge_own_address",
        D::DROP_PATH_SID => "path_sid",
        D::DROP_PATH_NO_LINK => "path_no_link",
        D::DROP_PATH_LINK_DOWN => "path_link_down",
        D::DROP_PATH_END => "path_end",
        D::DROP_PATH_INNER => "path_inner",
        D::DROP_PATH_MTU => "path_mtu",
        D::DROP_EDGE_PROGRAM => "edge_program",
        D::DROP_EDGE_PROGRAM_END => "edge_program_end",
        D::DROP_FLOW_UNCOUNTED => "flow_uncounted",
        D(other) => return format!("reason_{other}"),
    };
    name.into()
}
