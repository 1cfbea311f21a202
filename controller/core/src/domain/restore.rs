// SPDX-License-Identifier: Apache-2.0
//! The state from its durable records.

use std::collections::BTreeMap;
use std::sync::Arc;

use canopy_model::addressing::AddressPlan;

use super::change::TopologyEffect;
use super::drains::Drains;
use super::recorded_rtts::RecordedRtts;
use super::replan::{InForce, Replanner};
use super::silences::Silences;
use super::state::{Hmac, State};
use crate::error::RestoreError;
use crate::hmac::HmacSettings;
use crate::member::Members;
use crate::record::{
    Common, GroupRecord, HmacRecord, LinksRecord, MemberRecord, Record, StateRecord, TopologyRecord, group_key,
    hmac_key, links_key, topology_key,
};
use crate::resource::{Group, GroupState, Topology};
use crate::retirement::{Retirements, left};
use crate::routes::node_base;
use crate::secret::Secret;
use crate::topology::Network;

/// See [`super::Domain::restore`]. The nodes' specs are without thresholds; those follow from the round-trip times, which are returned too.
pub(super) fn restore(
    plan: AddressPlan,
    hmac: HmacSettings,
    secret: Secret,
    term: u64,
    records: impl IntoIterator<Item = (String, Record)>,
) -> Result<(State, RecordedRtts), RestoreError> {
    plan.validate().map_err(RestoreError::AddressPlan)?;
    let mut read = Records::default();
    for (key, mut record) in records {
        record.name_for_ever(&secret);
        read.add(key, record)?;
    }
    let is_apart = read.links.is_some();
    let links = match (&mut read.topology, read.links.take()) {
        (None, Some(_)) => {
            let detail = "there is no topology that has these links".to_owned();
            return Err(RestoreError::Inconsistent { key: links_key(), detail });
        }
        (topology, links) => links.or_else(|| topology.as_mut().map(TopologyRecord::take_links)),
    };
    let mut state = State::empty(plan, secret, term, read.revision);
    state.drains = read.drains;
    state.silences = read.silences;
    state.retirements = read.retirements;
    let since = read.hmac.as_ref().map_or(0, |record| record.revision);
    let keys = read.hmac.map(HmacRecord::read).transpose();
    let keys = keys.map_err(|e| RestoreError::Inconsistent { key: hmac_key(), detail: e.to_string() })?;
    let has_room = hmac.enabled || keys.is_some();
    state.hmac = Hmac { settings: hmac, keys, since, waits_for: 0, has_room };
    // Data may have passed in groups of a version that did not open them: their sessions count as open.
    let unrecorded = |record: &&GroupRecord| record.opened.is_none();
    let before_opening: Vec<String> =
        read.groups.values().filter(unrecorded).map(|r| r.metadata.name.clone()).collect();
    let mut recorded = BTreeMap::new();
    let mut common = Common::default();
    for mut record in read.groups.into_values() {
        common.share(&mut record.metadata);
        let name = record.metadata.name.clone();
        let in_force = in_force(&record, links.as_ref());
        recorded.extend(restore_group(&mut state, record, in_force, links.as_ref())?.map(|in_force| (name, in_force)));
    }
    if let Some(record) = read.state {
        state.pools.resume(&record.cursors);
    }
    for (key, record) in read.members {
        let group = record.group.clone();
        if !state.groups.add_member(&group, record.read(&mut common)) {
            let detail = format!("there is no group {group:?}");
            return Err(RestoreError::Inconsistent { key, detail });
        }
    }
    for name in before_opening {
        if let Some(group) = state.groups.get_mut(&name) {
            group.opened = group.source_since().unwrap_or(0);
        }
    }
    restore_topology(&mut state, read.topology, links.map(|links| (links, is_apart)), recorded)?;
    Ok((state, read.rtts))
}

/// What the records have of the tree in force: the group's own is older than that of the links if that has something of the group.
fn in_force(record: &GroupRecord, links: Option<&LinksRecord>) -> Option<InForce> {
    let id = record.allocation.group_id.get();
    if let Some(links) = links.filter(|links| links.revision > record.revision) {
        if let Some(tree) = links.behind.get(&id) {
            return tree.clone().or_else(|| record.tree.clone()).map(InForce::Tree);
        }
        if links.moved.contains_key(&id) {
            return links.digests.get(&id).copied().map(InForce::Digest);
        }
    }
    record.tree.clone().map(InForce::Tree)
}

/// Returns the tree in force, if it is known.
fn restore_group(
    state: &mut State,
    record: GroupRecord,
    in_force: Option<InForce>,
    links: Option<&LinksRecord>,
) -> Result<Option<InForce>, RestoreError> {
    let recorded_tree = record.tree.as_ref().map(|tree| tree.epoch);
    let GroupRecord {
        metadata,
        epoch,
        moved: recorded,
        displaced,
        opened,
        session,
        ended,
        confirmed,
        spec,
        allocation,
        failed,
        deleting,
        evicted,
        ..
    } = record;
    let name = metadata.name.clone();
    let inconsistent = |detail: String| RestoreError::Inconsistent { key: group_key(&name), detail };
    state
        .pools
        .claim(&allocation)
        .map_err(|what| inconsistent(format!("its {what} is out of range or belongs to another group")))?;
    if !ended.values().all(|qpn| state.pools.claim_qpn(*qpn)) {
        return Err(inconsistent("the Designated QPN of a session that ended belongs to another group".to_owned()));
    }
    if state.addresses.proxy(allocation.proxy_index).is_none() {
        return Err(inconsistent(format!(
            "its Proxy Address {} is outside {}",
            allocation.proxy_index, state.addresses.proxy_prefix
        )));
    }
    let ahead = links.and_then(|links| links.moved.get(&allocation.group_id.get())).copied().unwrap_or(0);
    let (present, moved) = match &in_force {
        Some(InForce::Tree(tree)) => (tree.epoch, tree.moved),
        // Whatever a topology change did to the tree counts as a move.
        Some(InForce::Digest(_)) | None => (epoch.max(ahead), recorded.max(ahead)),
    };
    // The links of a version that did not know it count as others of the receivers' edges.
    let ahead = match links.map(|links| &links.displaced) {
        Some(Some(displaced)) => displaced.get(&allocation.group_id.get()).copied().unwrap_or(0),
        Some(None) => ahead,
        None => 0,
    };
    let displaced = displaced.unwrap_or(moved).max(ahead);
    let group = Group {
        metadata,
        spec,
        allocation,
        epoch: present,
        recorded_epoch: epoch,
        recorded_tree,
        members: Members::default(),
        opened: opened.unwrap_or(0),
        session,
        ended,
        moved,
        displaced,
        confirmed,
        confirming: None,
        failed,
        deleting,
        evicted,
        state: GroupState::Waiting("waiting for a source to join"),
        behind: None,
    };
    let name = group.metadata.name.clone();
    state.groups.replace(&name, Some(group));
    Ok(in_force)
}

fn restore_topology(
    state: &mut State,
    record: Option<TopologyRecord>,
    links: Option<(LinksRecord, bool)>,
    recorded: BTreeMap<String, InForce>,
) -> Result<(), RestoreError> {
    let Some((record, (links, is_apart))) = record.zip(links) else {
        return match state.groups.with_members().next() {
            None => Ok(()),
            Some((_, g)) => Err(RestoreError::Inconsistent {
                key: group_key(&g.metadata.name),
                detail: "it has members, but there is no topology".to_owned(),
            }),
        };
    };
    let network = Network::build_around(
        record.spec,
        &state.addresses,
        &links.down,
        &state.drains.targets(),
        &left(&state.retirements),
    )
    .map_err(|e| RestoreError::Inconsistent { key: topology_key(), detail: e.to_string() })?;
    let replanner = Replanner { state, network: &network, recorded };
    let replans = replanner
        .all(|_, _, e| Ok(e.to_string()))
        .map_err(|e| RestoreError::Inconsistent { key: topology_key(), detail: e.to_string() })?;
    let unrecorded = replanner.unrecorded(&replans);
    let bases =
        (0..network.len()).map(|node| node_base(&network, &state.addresses, state.hmac.keys.as_ref(), node)).collect();
    let LinksRecord { down, silent, .. } = links;
    let topology = Some(Topology { metadata: record.metadata, network: Arc::new(network), down, silent, is_apart });
    state.apply_topology(TopologyEffect { topology, bases, replans, unrecorded });
    Ok(())
}

/// Records by kind.
#[derive(Default)]
struct Records {
    revision: u64,
    state: Option<StateRecord>,
    topology: Option<TopologyRecord>,
    links: Option<LinksRecord>,
    drains: Drains,
    silences: Silences,
    retirements: Retirements,
    groups: BTreeMap<String, GroupRecord>,
    members: Vec<(String, MemberRecord)>,
    rtts: RecordedRtts,
    hmac: Option<HmacRecord>,
}

impl Records {
    fn add(&mut self, key: String, record: Record) -> Result<(), RestoreError> {
        let expected = record.key();
        if key != expected {
            return Err(RestoreError::Inconsistent { key, detail: format!("its content belongs at {expected:?}") });
        }
        self.revision = self.revision.max(record.revision());
        match record {
            Record::Topology(record) => self.topology = Some(*record),
            Record::Links(record) => self.links = Some(*record),
            Record::Drain(record) => self.drains.insert(record.into_drain()),
            Record::Silence(record) => self.silences.insert(record.silence),
            Record::Retirement(record) => {
                self.retirements.insert(record.retirement.node.clone(), record.retirement);
            }
            Record::Group(record) => _ = self.groups.insert(record.metadata.name.clone(), *record),
            Record::Member(record) => self.members.push((key, *record)),
            Record::Rtt(record) => self.rtts.set(record.node, record.rtts),
            Record::Hmac(record) => self.hmac = Some(record),
            Record::State(record) => self.state = Some(record),
        }
        Ok(())
    }
}
