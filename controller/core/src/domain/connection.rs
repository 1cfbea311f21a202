// SPDX-License-Identifier: Apache-2.0
//! The remote side that a member configures into its QP.

use canopy_model::addressing::AddressPlan;
use canopy_model::member::{Connection, Role};

use crate::plan::WRITE_BASE_VA;
use crate::resource::Group;

/// The connection of `group`. `None` only if its Proxy Address is outside the configured prefix, which `restore`
/// refuses.
pub(crate) fn connection(addresses: &AddressPlan, group: &Group) -> Option<Connection> {
    let a = &group.allocation;
    Some(Connection {
        session: group.session,
        proxy_address: addresses.proxy(a.proxy_index)?,
        designated_qpn: a.session.designated_qpn,
        start_psn: a.session.start_psn,
        path_mtu: group.spec.path_mtu,
        write_base_va: WRITE_BASE_VA,
        write_rkey: a.session.write_rkey,
        write_length: write_length(group),
    })
}

/// Bytes that every receiver has registered; 0 if one has registered none, or if there is no receiver.
fn write_length(group: &Group) -> u64 {
    group.present(Role::Receiver).map(|m| m.memory.map_or(0, |r| r.length)).min().unwrap_or(0)
}
