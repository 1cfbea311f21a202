// SPDX-License-Identifier: Apache-2.0
//! Memberships as the domain holds them.
//!
//! There are more of them than of anything else. So what a membership has in common with others is shared, and what follows from its group is
//! left out: [`MemberRecord`](crate::record::MemberRecord) is what is durable of it.

use std::borrow::Borrow;
use std::net::Ipv6Addr;
use std::num::NonZeroU64;
use std::sync::Arc;

use canopy_model::ids::{Generation, Psn, Qpn};
use canopy_model::member::{LateStart, MemberSpec, MemoryRegion, Role};
use imbl::OrdSet;
use imbl::ordset::DiffItem;

use crate::metadata::{Labels, Metadata};
use crate::principal::Stamp;
use crate::uid::Uid;

/// One membership.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Member {
    /// Name of its host, shared with the host's other memberships.
    pub(crate) host: Arc<str>,
    /// See [`MemberSpec`], as what follows.
    pub(crate) role: Role,
    pub(crate) address: Option<Ipv6Addr>,
    pub(crate) qpn: Qpn,
    pub(crate) memory: Option<MemoryRegion>,
    pub(crate) start_psn: Option<Psn>,
    /// See [`Metadata`], as what follows.
    pub(crate) generation: Generation,
    pub(crate) uid: Uid,
    pub(crate) created: Option<Stamp>,
    pub(crate) changed: Option<Stamp>,
    /// Epoch in which it joined, or replaced its QP.
    pub(crate) since: u32,
    /// It joined when the group was open (decisions 3.13).
    pub(crate) late: bool,
    /// Its queue pair answered a probe as one that expects the start PSN: the next message is its first one.
    pub(crate) answered: bool,
    /// Where it started then, once its edge has reported it; its program has it from then on.
    pub(crate) start: Option<LateStart>,
    /// Which queue pair of the host it is; see [`Command::PutMember`](crate::Command::PutMember).
    pub(crate) instance: Option<NonZeroU64>,
    /// It ends when the agent of the host, which holds it, is gone.
    pub(crate) lease: bool,
}

impl Member {
    /// That of a host with this name, of which nothing is known but what was declared.
    pub(crate) fn new(host: Arc<str>, metadata: Metadata, spec: MemberSpec) -> Self {
        let Metadata { name: _, tenant: _, labels: _, generation, uid, created, changed } = metadata;
        let MemberSpec { host: _, role, address, qpn, memory, start_psn } = spec;
        Self {
            host,
            role,
            address,
            qpn,
            memory,
            start_psn,
            generation,
            uid,
            created,
            changed,
            since: 0,
            late: false,
            answered: false,
            start: None,
            instance: None,
            lease: false,
        }
    }

    /// What was declared.
    pub(crate) fn spec(&self) -> MemberSpec {
        let Self { address, role, qpn, memory, start_psn, .. } = *self;
        MemberSpec { host: self.host.as_ref().to_owned(), role, address, qpn, memory, start_psn }
    }

    /// The metadata of a membership of a group of this tenant.
    pub(crate) fn metadata(&self, tenant: &str) -> Metadata {
        Metadata {
            name: self.host.as_ref().to_owned(),
            tenant: tenant.to_owned(),
            labels: Labels::new(),
            generation: self.generation,
            uid: self.uid,
            created: self.created.clone(),
            changed: self.changed.clone(),
        }
    }
}

/// Memberships of a group in the order of their hosts' names, of each host one. Each change of a group begins with a copy of it, which costs
/// nothing.
#[derive(Clone, Debug, Default)]
pub(crate) struct Members(OrdSet<OfHost>);

impl Members {
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn get(&self, host: &str) -> Option<&Arc<Member>> {
        self.0.get(host).map(|of| &of.0)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<Member>> {
        self.0.iter().map(|of| &of.0)
    }

    /// Puts a membership into the place of its host's.
    pub(crate) fn insert(&mut self, member: Member) {
        self.0.insert(OfHost(Arc::new(member)));
    }

    pub(crate) fn remove(&mut self, host: &str) {
        self.0.remove(host);
    }

    /// The hosts that have a membership in one of the two only; true: in `new`. Costs what differs, if one is a changed copy of the other.
    pub(crate) fn changed<'a>(&'a self, new: &'a Self) -> impl Iterator<Item = (&'a Arc<str>, bool)> {
        self.0.diff(&new.0).map(|change| match change {
            DiffItem::Add(of) => (&of.0.host, true),
            DiffItem::Remove(of) => (&of.0.host, false),
        })
    }
}

impl PartialEq for Members {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for Members {}

/// A membership as its host's: the name of the host decides which of two comes first, and whether they are in each other's place.
#[derive(Clone, Debug)]
struct OfHost(Arc<Member>);

impl Borrow<str> for OfHost {
    fn borrow(&self) -> &str {
        &self.0.host
    }
}

impl PartialEq for OfHost {
    fn eq(&self, other: &Self) -> bool {
        self.0.host == other.0.host
    }
}

impl Eq for OfHost {}

impl PartialOrd for OfHost {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for OfHost {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.host.cmp(&other.0.host)
    }
}
