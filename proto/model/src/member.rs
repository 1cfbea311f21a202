// SPDX-License-Identifier: Apache-2.0
//! A host's membership of a group.

use std::net::Ipv6Addr;

use serde::{Deserialize, Serialize};

use crate::FieldErrors;
use crate::ids::{Psn, Qpn};

/// Declared membership of a host. One membership per (group, host).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct MemberSpec {
    /// Host name from the topology.
    pub host: String,
    /// Source or receiver.
    pub role: Role,
    /// Address of the QP; the host's default address when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>))]
    pub address: Option<Ipv6Addr>,
    /// The member's local QPN.
    pub qpn: Qpn,
    /// Target memory of RDMA WRITEs; receivers only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<MemoryRegion>,
    /// First PSN of the source's queue pair, where its application cannot choose it; the session's when absent. Source only, and
    /// refused when receivers have joined with another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_psn: Option<Psn>,
}

/// A registered memory region (IBTA: virtual address, R_Key, length).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct MemoryRegion {
    /// First byte's virtual address at the receiver.
    pub va: u64,
    /// Remote key.
    pub rkey: u32,
    /// Length in bytes, at least 1; va + length must not wrap.
    pub length: u64,
}

/// Where a late receiver started: at the first message that its edge sent it (decisions 3.13).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct LateStart {
    /// PSN of that message's first packet minus the start PSN, 24 bits: subtracted from the PSNs of its copies, added to those of its
    /// feedback.
    pub shift: u32,
    /// Messages that the group had completed before it, 24 bits: added to its MSNs.
    pub msn_base: u32,
}

/// A member's role in the group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub enum Role {
    /// Sends data; at most one per group.
    Source,
    /// Receives data.
    Receiver,
}

impl MemberSpec {
    /// Checks everything that does not need the topology.
    ///
    /// # Errors
    /// Every invalid field.
    pub fn validate(&self) -> Result<(), FieldErrors> {
        let mut errors = FieldErrors::default();
        if let Some(m) = self.memory {
            if self.role == Role::Source {
                errors.push("spec.memory", "only receivers register memory");
            }
            if m.length == 0 || m.va.checked_add(m.length).is_none() {
                errors.push(
                    "spec.memory.length",
                    format!("{} bytes at {:#x} is empty or wraps the address space", m.length, m.va),
                );
            }
        }
        if self.start_psn.is_some() && self.role == Role::Receiver {
            errors.push(
                "spec.startPsn",
                "only the source fixes the first PSN: leave it out, and take that of the answer",
            );
        }
        errors.into_result()
    }
}

/// How the packets of a source leave its host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceFlow {
    /// The queue pair at the host.
    pub qpn: Qpn,
    /// The group's Proxy Address.
    pub peer: Ipv6Addr,
    /// The Designated QPN.
    pub dest_qpn: Qpn,
    /// Addresses of the nodes that carry it, in order: of the tree in force, and of one that is made beside it.
    pub nodes: Vec<Ipv6Addr>,
}

/// Configuration of a member's QP: the remote side of one ordinary RC connection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Connection {
    /// Which session of a source the parameters are of: it changes when the source leaves or joins again, and the queue pairs of all
    /// members then have to be reset.
    pub session: u32,
    /// Remote address of the QP, for the source and for receivers alike.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub proxy_address: Ipv6Addr,
    /// Remote QPN of the QP.
    pub designated_qpn: Qpn,
    /// The source's first PSN and each receiver's first expected PSN.
    pub start_psn: Psn,
    /// RDMA path MTU, bytes.
    pub path_mtu: u32,
    /// Base virtual address of the source's WRITEs.
    pub write_base_va: u64,
    /// R_Key that the source puts into its WRITEs.
    pub write_rkey: u32,
    /// Bytes that every receiver has registered: the smallest of their regions; 0 = WRITE not possible.
    pub write_length: u64,
}
