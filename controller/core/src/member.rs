// SPDX-License-Identifier: Apache-2.0
//! A membership as the domain holds it; part of its durable record.

use std::num::NonZeroU64;
use std::sync::Arc;

use canopy_model::member::{LateStart, MemberSpec};
use imbl::OrdMap;
use serde::{Deserialize, Serialize};

use crate::metadata::Metadata;

/// Memberships of a group by the names of their hosts. Each change of a group begins with a copy of it, which costs nothing.
pub(crate) type Members = OrdMap<Arc<str>, Arc<Member>>;

/// One membership.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Member {
    pub(crate) metadata: Metadata,
    pub(crate) spec: MemberSpec,
    /// Epoch in which it joined, or replaced its QP.
    #[serde(default)]
    pub(crate) since: u32,
    /// It joined when the group was open (decisions 3.13).
    #[serde(default)]
    pub(crate) late: bool,
    /// Its queue pair answered a probe as one that expects the start PSN: the next message is its first one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) answered: bool,
    /// Where it started then, once its edge has reported it; its program has it from then on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) start: Option<LateStart>,
    /// Which queue pair of the host it is; see [`Command::PutMember`](crate::Command::PutMember).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) instance: Option<NonZeroU64>,
    /// It ends when the agent of the host, which holds it, is gone.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) lease: bool,
}
