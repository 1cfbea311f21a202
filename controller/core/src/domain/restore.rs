// SPDX-License-Identifier: Apache-2.0
//! The domain from its durable records.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use canopy_model::addressing::AddressPlan;
use serde::de::DeserializeOwned;

use super::Domain;
use super::apply::TopologyEffect;
use crate::alloc::Pools;
use crate::error::RestoreError;
use crate::resource::{
    Group, GroupRecord, GroupState, Member, MemberRecord, STATE_KEY, StateRecord, Topology, TopologyRecord, group_key,
    member_key, topology_key,
};
use crate::routes::node_base;
use crate::topology::Network;

impl Domain {
    /// Builds the domain that wrote `records` (key and JSON, in any order). No records are an empty domain; keys that
    /// are not the domain's (see [`crate::Write`]) are left to their owners.
    ///
    /// Every node's spec gets the highest revision ever committed as its generation, so that none goes back; `term` is
    /// the caller's, higher than that of every leader before.
    ///
    /// A group that this version cannot plan although an earlier one could is not refused: its status contains the reason.
    ///
    /// # Errors
    /// [`RestoreError`] when the plan is impossible, or a record is unreadable or contradicts another.
    pub fn restore(
        plan: AddressPlan,
        term: u64,
        records: impl IntoIterator<Item = (String, Vec<u8>)>,
    ) -> Result<Domain, RestoreError> {
        plan.validate().map_err(RestoreError::AddressPlan)?;
        let mut read = Records::default();
        for (key, value) in records {
            read.add(key, &value)?;
        }
        let pools = Pools::new(&plan);
        let names = HashMap::new();
        let mut domain = Domain {
            addresses: plan,
            term,
            revision: read.revision,
            pools,
            topology: None,
            nodes: Vec::new(),
            groups: BTreeMap::new(),
            names,
            labels: Default::default(),
            links: Default::default(),
        };
        for (name, record) in read.groups {
            domain.restore_group(name, record, &read.moved)?;
        }
        if let Some(state) = read.state {
            domain.pools.resume(&state.cursors);
        }
        for (key, record) in read.members {
            let group = domain.groups.get_mut(&record.group).ok_or_else(|| RestoreError::Inconsistent {
                key,
                detail: format!("there is no group {:?}", record.group),
            })?;
            group.members.insert(record.member.spec.host.clone(), record.member);
        }
        domain.restore_topology(read.topology)?;
        Ok(domain)
    }

    fn restore_group(
        &mut self,
        name: String,
        record: GroupRecord,
        moved: &BTreeMap<u32, u32>,
    ) -> Result<(), RestoreError> {
        let GroupRecord { metadata, epoch, moved: recorded, spec, allocation, failed, evicted, .. } = record;
        let inconsistent = |detail: String| RestoreError::Inconsistent { key: group_key(&name), detail };
        self.pools
            .claim(&allocation)
            .map_err(|what| inconsistent(format!("its {what} is out of range or belongs to another group")))?;
        if self.addresses.proxy(allocation.proxy_index).is_none() {
            return Err(inconsistent(format!(
                "its Proxy Address {} is outside {}",
                allocation.proxy_index, self.addresses.proxy_prefix
            )));
        }
        self.pools.resume(&self.pools.cursors_behind(&allocation));
        let ahead = moved.get(&allocation.group_id.get()).copied().unwrap_or(0);
        self.labels.insert(&name, &metadata.labels);
        self.names.insert(allocation.group_id, name.clone());
        let state = GroupState::Waiting("waiting for a source to join");
        let group = Group {
            metadata,
            spec,
            allocation,
            epoch: epoch.max(ahead),
            recorded_epoch: epoch,
            members: BTreeMap::<String, Member>::new(),
            started: false,
            // Whatever a topology change did to the tree counts as a move.
            moved: recorded.max(ahead),
            failed,
            evicted,
            state,
            making: None,
        };
        self.groups.insert(name, group);
        Ok(())
    }

    fn restore_topology(&mut self, record: Option<TopologyRecord>) -> Result<(), RestoreError> {
        let Some(record) = record else {
            return match self.groups.values().find(|g| !g.members.is_empty()) {
                None => Ok(()),
                Some(g) => Err(RestoreError::Inconsistent {
                    key: group_key(&g.metadata.name),
                    detail: "it has members, but there is no topology".to_owned(),
                }),
            };
        };
        let network = Network::build_around(record.spec, &self.addresses, &record.down)
            .map_err(|e| RestoreError::Inconsistent { key: topology_key(), detail: e.to_string() })?;
        let replans = self
            .replan_all(&network, |_, _, e| Ok(e.to_string()))
            .map_err(|e| RestoreError::Inconsistent { key: topology_key(), detail: e.to_string() })?;
        let bases = (0..network.len()).map(|node| node_base(&network, &self.addresses, node)).collect();
        let down = record.down;
        let topology = Some(Topology { metadata: record.metadata, network: Arc::new(network), down });
        self.apply_topology(TopologyEffect { topology, bases, replans });
        Ok(())
    }
}

/// Records by kind.
#[derive(Default)]
struct Records {
    revision: u64,
    state: Option<StateRecord>,
    topology: Option<TopologyRecord>,
    moved: BTreeMap<u32, u32>,
    groups: BTreeMap<String, GroupRecord>,
    members: Vec<(String, MemberRecord)>,
}

impl Records {
    fn add(&mut self, key: String, value: &[u8]) -> Result<(), RestoreError> {
        let kind = key.split_once('/').map_or("", |(kind, _)| kind);
        let (expected, revision) = match kind {
            "topology" => {
                let mut record: TopologyRecord = read(&key, value)?;
                self.moved = std::mem::take(&mut record.moved);
                let revision = record.revision;
                self.topology = Some(record);
                (topology_key(), revision)
            }
            "group" => {
                let record: GroupRecord = read(&key, value)?;
                let (name, revision) = (record.metadata.name.clone(), record.revision);
                self.groups.insert(name.clone(), record);
                (group_key(&name), revision)
            }
            "member" => {
                let record: MemberRecord = read(&key, value)?;
                let (expected, revision) = (member_key(&record.group, &record.member.spec.host), record.revision);
                self.members.push((key.clone(), record));
                (expected, revision)
            }
            "domain" if key == STATE_KEY => {
                let record: StateRecord = read(&key, value)?;
                let revision = record.revision;
                self.state = Some(record);
                (STATE_KEY.to_owned(), revision)
            }
            _ => return Ok(()),
        };
        if key != expected {
            return Err(RestoreError::Inconsistent { key, detail: format!("its content belongs at {expected:?}") });
        }
        self.revision = self.revision.max(revision);
        Ok(())
    }
}

fn read<T: DeserializeOwned>(key: &str, value: &[u8]) -> Result<T, RestoreError> {
    serde_json::from_slice(value).map_err(|source| RestoreError::Record { key: key.to_owned(), source })
}
