// SPDX-License-Identifier: Apache-2.0
//! Reads counters and aggregation state from the maps.

use std::collections::BTreeMap;

use canopy_agent_core::Sample;
use canopy_bpf::node::Node;
use canopy_bpf::node::types::{self, canopy_drop as D, canopy_min_kind as Kind};
use canopy_bpf::{Result, monotonic};
use canopy_model::ids::GroupId;
use canopy_model::member::LateStart;
use canopy_model::telemetry::{BranchTelemetry, DropCount, FatalNak, GroupTelemetry, LateState};
use canopy_units::{Monotonic, Octets, UnwrappedPsn};

use crate::paths;

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

/// One sample of all counters and states of the groups; each map is read once, in batches. `names` are those of the interfaces.
pub(crate) fn sample(bpf: &Node, names: &BTreeMap<u32, String>) -> Result<Sample> {
    let mut drops: BTreeMap<u32, Vec<DropCount>> = BTreeMap::new();
    for (key, packets) in bpf.drops().entries()? {
        let types::canopy_drop_key { group_id, reason } = key;
        let packets = packets.into_iter().sum();
        drops.entry(group_id).or_default().push(DropCount { reason, name: reason_name(reason), packets, port: None });
    }
    drops.values_mut().for_each(|d| d.sort_by_key(|c| c.reason));
    let mut branches: BTreeMap<u32, Vec<BranchTelemetry>> = BTreeMap::new();
    let mut groups = Vec::new();
    let now = monotonic();
    let epochs: BTreeMap<u32, u32> = bpf.groups().entries()?.into_iter().map(|(id, g)| (id, g.epoch)).collect();
    let mut cnps: BTreeMap<u32, types::canopy_cnp> = bpf.cnps().entries()?.into_iter().collect();
    let states = bpf.states().entries()?.into_iter().filter(|(id, _)| epochs.contains_key(id));
    let states: BTreeMap<u32, _> = states.map(|(id, s)| (id, (s, cnps.remove(&id).unwrap_or_default()))).collect();
    for (k, peer) in bpf.peers().entries()? {
        let Some((state, cnp)) = states.get(&k.group_id) else { continue };
        branches.entry(k.group_id).or_default().push(branch(&k, peer.slot as usize % LEAVES, state, cnp, now));
    }
    branches.values_mut().for_each(|of_group| of_group.sort_by_key(|b| b.address));
    for (id, (s, cnp)) in &states {
        let Ok(group_id) = GroupId::new("group", (*id).into()) else { continue };
        let epoch = epochs.get(id).copied().unwrap_or(0);
        groups.push(GroupTelemetry {
            group_id,
            epoch,
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
            branches: branches.remove(id).unwrap_or_default(),
            drops: drops.remove(id).unwrap_or_default(),
        });
    }
    let mut node_drops = drops.remove(&0).unwrap_or_default();
    for (key, packets) in bpf.port_drops().entries()? {
        let Some(port) = names.get(&key.ifindex) else { continue };
        let (reason, packets) = (key.reason, packets.into_iter().sum());
        node_drops.push(DropCount { reason, name: reason_name(reason), packets, port: Some(port.clone()) });
    }
    node_drops.sort_by(|a, b| (a.reason, &a.port).cmp(&(b.reason, &b.port)));
    let paths = paths::packets(bpf, names)?;
    Ok(Sample { groups, node_drops, congestion: vec![], paths })
}

fn branch(
    k: &types::canopy_peer_key,
    slot: usize,
    s: &types::canopy_state,
    cnp: &types::canopy_cnp,
    now: Monotonic,
) -> BranchTelemetry {
    let (key, stats) = (s.tree[LEAVES + slot].key, s.stats[slot]);
    let unconfirmed = s.unconfirmed.word[slot / 64] >> (slot % 64) & 1 == 1;
    let next = (key != EMPTY && s.high != 0 && !unconfirmed).then_some(UnwrappedPsn(key >> Kind::KIND_BITS.0));
    BranchTelemetry {
        address: k.address.into(),
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
        last_feedback: (stats.last_received_ns != 0).then(|| now.since(Monotonic::from_nanos(stats.last_received_ns))),
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
        D::DROP_FLOW_UNCOUNTED => "flow_uncounted",
        D(other) => return format!("reason_{other}"),
    };
    name.into()
}
