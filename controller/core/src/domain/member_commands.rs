// SPDX-License-Identifier: Apache-2.0
//! Commands on memberships: joining and leaving.

use std::num::NonZeroU64;
use std::sync::Arc;

use canopy_model::FieldError;
use canopy_model::group::Replication;
use canopy_model::ids::Psn;
use canopy_model::member::{LateStart, MemberSpec, Role};
use ipnet::Ipv6Net;

use super::change::Prepared;
use super::group_change::{GroupChange, in_group};
use super::group_commands::being_deleted;
use super::leaving::check_member;
use super::state::State;
use super::tenants::{QuotaBounds, check_room};
use crate::alloc::Cursors;
use crate::command::{Outcome, Write};
use crate::error::DomainError;
use crate::limits::{MAX_EVICTED, MAX_MEMBERS};
use crate::member::Member;
use crate::metadata::{Labels, Metadata};
use crate::principal::Written;
use crate::record::{MemberRecord, Record, member_key};
use crate::resource::Group;
use crate::view::Evicted;

/// Checks commands on memberships against a state.
pub(super) struct MemberCommands<'a>(pub(super) &'a State, pub(super) QuotaBounds);

impl MemberCommands<'_> {
    /// [`crate::Command::PutMember`].
    pub(super) fn put(
        &self,
        group: &str,
        spec: MemberSpec,
        create_only: bool,
        instance: Option<NonZeroU64>,
        lease: Option<bool>,
        written: &Written,
    ) -> Result<Prepared, DomainError> {
        let old =
            self.0.groups.get(group).ok_or_else(|| DomainError::NotFound { kind: "group", name: group.to_owned() })?;
        spec.validate()?;
        if old.deleting {
            return Err(being_deleted(old));
        }
        if let Some(reason) = &old.failed {
            let detail = format!("it failed: {reason}; let every member leave, or delete the group, and join again");
            return Err(DomainError::InUse { kind: "group", name: group.to_owned(), detail });
        }
        let host = self.check_address(&spec)?;
        check_member(self.0, &spec.host)?;
        let present = old.members.get(spec.host.as_str());
        // A receiver of an ended session joins as if it were new.
        if let Some(present) = present.filter(|m| old.takes_part(m)) {
            let is_known = instance.is_none() || instance == present.instance;
            let lease = lease.unwrap_or(present.lease);
            let is_same = present.spec() == spec;
            if is_same && is_known {
                return Ok(self.store_changed(old, present, Member { lease, ..(**present).clone() }));
            }
            // Nothing of this session has reached its queue pair, or left it: which one it is makes no difference yet.
            if is_same && !old.is_open() {
                return Ok(self.store(old, Member { instance, lease, ..(**present).clone() }));
            }
            if create_only && !is_same {
                let detail = format!(
                    "it joined as {} with QPN {}: leave first, or join with the same content",
                    role(present.role),
                    present.qpn
                );
                return Err(DomainError::AlreadyExists {
                    kind: "member",
                    name: format!("{group}/{}", spec.host),
                    detail,
                });
            }
        } else if present.is_none() && old.members.len() >= MAX_MEMBERS {
            return Err(DomainError::Limit(format!(
                "group {group} has {MAX_MEMBERS} members already, no more are supported"
            )));
        }
        check_source(old, &spec)?;
        if spec.role == Role::Receiver {
            check_in_time(old)?;
            let is_one = present.is_some_and(|m| m.role == Role::Receiver);
            check_room(self.0, &old.metadata.tenant, 0, usize::from(!is_one), self.1)?;
        }

        let metadata = match present {
            Some(m) => m.metadata(&old.metadata.tenant).changed(Labels::new(), written),
            None => Metadata::created(&host, Labels::new(), self.0.new_uid(), written),
        };
        let generation = metadata.generation;
        let outcome = if present.is_some() { Outcome::Updated } else { Outcome::Created };
        let late = old.is_open() && spec.role == Role::Receiver;
        let mut new = old.clone();
        let start_psn = check_start_psn(old, &spec)?;
        let mut cursors = self.0.pools.cursors();
        if present.is_some_and(|m| m.role == Role::Source) {
            cursors = self.end_session(&mut new, start_psn)?;
        } else if let Some(psn) = start_psn {
            new.allocation.session.start_psn = psn;
        }
        new.epoch += 1;
        let member = Member {
            since: new.epoch,
            late,
            instance,
            lease: lease.unwrap_or(false),
            ..Member::new(host, metadata, spec)
        };
        let record = MemberRecord::of(&old.metadata, self.0.revision + 1, &member);
        let write = Write::Put(Record::Member(Box::new(record)));
        new.evicted.retain(|e| *e.host != *member.host);
        new.members.insert(member);
        let change = GroupChange::new(self.0, new, outcome, generation).with(write).drawn(cursors);
        change.prepare(self.0).map_err(|e| in_group(group, e))
    }

    /// [`crate::Command::StartMember`].
    pub(super) fn start(&self, group: &str, host: &str, since: u32, start: LateStart) -> Result<Prepared, DomainError> {
        let old =
            self.0.groups.get(group).ok_or_else(|| DomainError::NotFound { kind: "group", name: group.to_owned() })?;
        let Some(member) = old.members.get(host) else {
            return Err(DomainError::NotFound { kind: "member", name: format!("{group}/{host}") });
        };
        let known = Member { start: Some(start), answered: true, ..(**member).clone() };
        Ok(self.learn(old, member, since, known))
    }

    /// [`crate::Command::AnswerMember`].
    pub(super) fn answer(&self, group: &str, host: &str, since: u32) -> Result<Prepared, DomainError> {
        let old =
            self.0.groups.get(group).ok_or_else(|| DomainError::NotFound { kind: "group", name: group.to_owned() })?;
        let Some(member) = old.members.get(host) else {
            return Err(DomainError::NotFound { kind: "member", name: format!("{group}/{host}") });
        };
        Ok(self.learn(old, member, since, Member { answered: true, ..(**member).clone() }))
    }

    /// Stores what became `known` about the late receiver that joined at `since`, if `member` is that one.
    fn learn(&self, old: &Group, member: &Member, since: u32, known: Member) -> Prepared {
        let is_it = member.late && member.since == since && old.takes_part(member);
        self.store_changed(old, member, if is_it { known } else { member.clone() })
    }

    /// [`Self::store`], if anything became known.
    fn store_changed(&self, old: &Group, present: &Member, known: Member) -> Prepared {
        if known == *present {
            return Prepared::noop(self.0, present.generation);
        }
        self.store(old, known)
    }

    /// Stores what became known about a membership, which stays the same one.
    fn store(&self, old: &Group, member: Member) -> Prepared {
        let generation = member.generation;
        let record = MemberRecord::of(&old.metadata, self.0.revision + 1, &member);
        let mut new = old.clone();
        new.members.insert(member);
        let write = Write::Put(Record::Member(Box::new(record)));
        GroupChange::new(self.0, new, Outcome::Updated, generation).with(write).prepare_if_planned(self.0)
    }

    /// [`crate::Command::EvictMember`].
    pub(super) fn evict(&self, group: &str, host: &str, since: u32, reason: String) -> Result<Prepared, DomainError> {
        let present = self.0.groups.get(group).and_then(|g| g.members.get(host));
        match present.filter(|m| m.since != since) {
            // Another membership of the host, of which nothing is known.
            Some(another) => Ok(Prepared::noop(self.0, another.generation)),
            None => self.delete(group, host, Some(reason)),
        }
    }

    /// [`crate::Command::DeleteMember`], and the end of an eviction, with the reason in `evicted`.
    pub(super) fn delete(&self, group: &str, host: &str, evicted: Option<String>) -> Result<Prepared, DomainError> {
        let old =
            self.0.groups.get(group).ok_or_else(|| DomainError::NotFound { kind: "group", name: group.to_owned() })?;
        let Some(member) = old.members.get(host) else {
            return Err(DomainError::NotFound { kind: "member", name: format!("{group}/{host}") });
        };
        let mut new = old.clone();
        let mut cursors = self.0.pools.cursors();
        if member.role == Role::Source {
            cursors = self.end_session(&mut new, None)?;
        }
        new.epoch += 1;
        new.members.remove(host);
        if let Some(reason) = evicted {
            new.evicted.retain(|e| e.host != host);
            let excess = (new.evicted.len() + 1).saturating_sub(MAX_EVICTED);
            new.evicted.drain(..excess);
            new.evicted.push(Evicted { host: host.to_owned(), reason });
        }
        if member.role == Role::Source {
            // Evictions are reported to this source only.
            new.evicted.clear();
        }
        if new.members.is_empty() {
            // No member is left whose QP belongs to the failed group.
            new.failed = None;
        }
        // A member can always leave, even if the rest of the group becomes infeasible.
        let write = Write::Delete { key: member_key(group, host) };
        let change = GroupChange::new(self.0, new, Outcome::Deleted, member.generation).with(write).drawn(cursors);
        Ok(change.prepare_if_planned(self.0))
    }

    /// Ends the session of the group's source: packets of the next one carry another Designated QPN and start at another PSN, so that
    /// nothing that is left of this one counts there (decisions 3.11, 6.5). Returns the cursors behind the new numbers.
    fn end_session(&self, group: &mut Group, start_psn: Option<Psn>) -> Result<Cursors, DomainError> {
        let (numbers, cursors) = self.0.pools.draw_session(start_psn.or(group.spec.start_psn))?;
        group.end_session(numbers);
        Ok(cursors)
    }

    /// The member's address is inside its host's prefix, and outside the fabric's own prefixes. No two members of a group have one
    /// address, because the prefixes of hosts do not overlap.
    /// Returns the name of the host, as others have it.
    fn check_address(&self, spec: &MemberSpec) -> Result<Arc<str>, FieldError> {
        let network = self.0.network();
        let found = network.and_then(|network| Some((network.shared_name(&spec.host)?, network.host(&spec.host)?)));
        let (name, at) = found.ok_or_else(|| {
            let hint =
                if self.0.topology.is_some() { "the topology does not declare it" } else { "there is no topology yet" };
            FieldError::new("spec.host", format!("unknown host {:?}: {hint}", spec.host))
        })?;
        let address = spec.address.unwrap_or(at.address);
        let refuse = |why: String| Err(FieldError::new("spec.address", format!("{address} {why}")));
        if address.is_multicast()
            || address.is_unspecified()
            || address.is_loopback()
            || address.is_unicast_link_local()
        {
            return refuse("is not a global unicast address: use an address of the host's RDMA interface".to_owned());
        }
        let plan = &self.0.addresses;
        let own: [(&Ipv6Net, &str); 3] = [
            (&plan.block, "is a SID of this domain"),
            (&plan.node_prefix, "is a node's address"),
            (&plan.proxy_prefix, "is a Proxy Address"),
        ];
        if let Some((net, what)) = own.iter().find(|(net, _)| net.contains(&address)) {
            return refuse(format!("{what} (in {net}): use an address of the host"));
        }
        if !at.prefix.contains(&address) {
            return refuse(format!("is outside {} of host {:?}", at.prefix, spec.host));
        }
        Ok(name)
    }
}

/// At most one source per group.
fn check_source(group: &Group, spec: &MemberSpec) -> Result<(), FieldError> {
    let is_another = |other: &&Arc<Member>| other.role == Role::Source && *other.host != *spec.host;
    let Some(other) = group.members.iter().find(is_another).filter(|_| spec.role == Role::Source) else {
        return Ok(());
    };
    let name = &group.metadata.name;
    let detail =
        format!("host {:?} is the source of group {name} already, and a group has one: let it leave first", other.host);
    Err(FieldError::new("spec.role", detail))
}

/// The start PSN that a source fixes with its join; `None` if it takes the session's.
fn check_start_psn(group: &Group, spec: &MemberSpec) -> Result<Option<Psn>, FieldError> {
    let present = group.allocation.session.start_psn;
    let Some(psn) = spec.start_psn.filter(|psn| *psn != present) else { return Ok(spec.start_psn) };
    if let Some(fixed) = group.spec.start_psn {
        let detail =
            format!("{psn} is not {fixed}, which spec.startPsn of the group fixes: leave it out, or change the group");
        return Err(FieldError::new("spec.startPsn", detail));
    }
    // A source that joins again begins a session in which it is alone.
    let again = group.members.get(spec.host.as_str()).is_some_and(|m| m.role == Role::Source);
    let receivers = group.receivers();
    if receivers > 0 && !again {
        let detail = format!(
            "{psn} is not {present}, with which {receivers} receivers have set up their QPs: use that, or join before them"
        );
        return Err(FieldError::new("spec.startPsn", detail));
    }
    Ok(Some(psn))
}

/// A parent cannot withhold data from one child when the kernel copies to all: late receivers need SRv6 replication.
fn check_in_time(group: &Group) -> Result<(), DomainError> {
    if group.spec.replication == Replication::Multicast && group.is_open() {
        let name = group.metadata.name.clone();
        let detail = "it replicates by IP multicast and takes data: let all receivers join first (spec.minReceivers), or use replication srv6 for groups that grow";
        return Err(DomainError::InUse { kind: "group", name, detail: detail.to_owned() });
    }
    Ok(())
}

fn role(role: Role) -> &'static str {
    match role {
        Role::Source => "source",
        Role::Receiver => "receiver",
    }
}
