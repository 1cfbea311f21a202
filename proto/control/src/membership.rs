// SPDX-License-Identifier: Apache-2.0
//! Host membership: joining, and the group's phase.

use std::collections::BTreeSet;
use std::net::Ipv6Addr;

use canopy_model::FieldError;
use canopy_model::ids::{Psn, Qpn, check_name};
use canopy_model::member::{Connection, LateStart, MemberSpec, Role, SourceFlow};
use canopy_model::status::GroupPhase;

use crate::field::{address, each, octets, optional_address, optional_octets, within};
use crate::pb;

/// Group name and membership.
impl TryFrom<pb::JoinRequest> for (String, MemberSpec) {
    type Error = FieldError;
    fn try_from(wire: pb::JoinRequest) -> Result<Self, FieldError> {
        check_name("group", &wire.group)?;
        check_name("host", &wire.host)?;
        let role = match pb::Role::try_from(wire.role) {
            Ok(pb::Role::Source) => Role::Source,
            Ok(pb::Role::Receiver) => Role::Receiver,
            _ => {
                return Err(FieldError::new(
                    "role",
                    format!("{} is not a role: use ROLE_SOURCE (1) or ROLE_RECEIVER (2)", wire.role),
                ));
            }
        };
        let member = MemberSpec {
            host: wire.host,
            role,
            address: optional_address("address", &wire.address)?,
            qpn: Qpn::new("qpn", wire.qpn.into())?,
            memory: wire.memory.map(|m| within("memory", m.try_into())).transpose()?,
            start_psn: wire.start_psn.map(|psn| Psn::new("start_psn", psn.into())).transpose()?,
        };
        if member.role == Role::Receiver && member.start_psn.is_some() {
            return Err(FieldError::new("start_psn", "only the source fixes the first PSN: take that of the answer"));
        }
        if member.role == Role::Source && member.memory.is_some() {
            return Err(FieldError::new("memory", "only receivers register memory"));
        }
        Ok((wire.group, member))
    }
}

/// Group name and membership.
impl From<(&str, &MemberSpec)> for pb::JoinRequest {
    fn from((group, member): (&str, &MemberSpec)) -> Self {
        let role = match member.role {
            Role::Source => pb::Role::Source,
            Role::Receiver => pb::Role::Receiver,
        };
        Self {
            group: group.to_owned(),
            host: member.host.clone(),
            role: role.into(),
            address: optional_octets(member.address),
            qpn: member.qpn.get(),
            memory: member.memory.map(Into::into),
            start_psn: member.start_psn.map(Psn::get),
            lease: false,
            instance: 0,
            uid: None,
            account: String::new(),
        }
    }
}

impl TryFrom<pb::JoinResponse> for Connection {
    type Error = FieldError;
    fn try_from(wire: pb::JoinResponse) -> Result<Self, FieldError> {
        Ok(Self {
            proxy_address: address("proxy_address", &wire.proxy_address)?,
            designated_qpn: Qpn::new("designated_qpn", wire.designated_qpn.into())?,
            start_psn: Psn::new("start_psn", wire.start_psn.into())?,
            path_mtu: wire.path_mtu,
            write_base_va: wire.write_base_va,
            write_rkey: wire.write_rkey,
            write_length: wire.write_length,
            session: wire.session,
        })
    }
}

impl From<&Connection> for pb::JoinResponse {
    fn from(c: &Connection) -> Self {
        Self {
            proxy_address: octets(c.proxy_address),
            designated_qpn: c.designated_qpn.get(),
            start_psn: c.start_psn.get(),
            path_mtu: c.path_mtu,
            write_base_va: c.write_base_va,
            write_rkey: c.write_rkey,
            write_length: c.write_length,
            session: c.session,
        }
    }
}

impl From<SourceFlow> for pb::SourceFlow {
    fn from(flow: SourceFlow) -> Self {
        Self {
            qpn: flow.qpn.get(),
            peer: octets(flow.peer),
            dest_qpn: flow.dest_qpn.get(),
            nodes: flow.nodes.into_iter().map(octets).collect(),
        }
    }
}

impl TryFrom<pb::SourceFlow> for SourceFlow {
    type Error = FieldError;
    fn try_from(wire: pb::SourceFlow) -> Result<Self, FieldError> {
        let nodes = wire.nodes.iter().enumerate().map(|(i, node)| address(&format!("nodes[{i}]"), node));
        Ok(Self {
            qpn: Qpn::new("qpn", wire.qpn.into())?,
            peer: address("peer", &wire.peer)?,
            dest_qpn: Qpn::new("dest_qpn", wire.dest_qpn.into())?,
            nodes: nodes.collect::<Result<_, _>>()?,
        })
    }
}

/// The flows, and the nodes that carry any of them.
impl TryFrom<pb::WatchSourceFlowsResponse> for (Vec<SourceFlow>, BTreeSet<Ipv6Addr>) {
    type Error = FieldError;
    fn try_from(wire: pb::WatchSourceFlowsResponse) -> Result<Self, FieldError> {
        let nodes = wire.nodes.iter().enumerate().map(|(i, node)| address(&format!("nodes[{i}]"), node));
        Ok((each("flows", wire.flows)?, nodes.collect::<Result<_, _>>()?))
    }
}

impl TryFrom<pb::LateStart> for LateStart {
    type Error = FieldError;
    fn try_from(wire: pb::LateStart) -> Result<Self, FieldError> {
        let bits = |field: &str, value: u32| Psn::new(field, value.into()).map(Psn::get);
        Ok(Self { shift: bits("shift", wire.shift)?, msn_base: bits("msn_base", wire.msn_base)? })
    }
}

impl From<LateStart> for pb::LateStart {
    fn from(start: LateStart) -> Self {
        Self { shift: start.shift, msn_base: start.msn_base }
    }
}

impl From<GroupPhase> for pb::GroupPhase {
    fn from(phase: GroupPhase) -> Self {
        match phase {
            GroupPhase::Pending => Self::Pending,
            GroupPhase::Programming => Self::Programming,
            // Members see progress at their own queue pairs: here the phase is that of the programs.
            GroupPhase::Ready | GroupPhase::Stalled | GroupPhase::Unknown => Self::Ready,
            GroupPhase::Degraded => Self::Degraded,
            // What a member does about either is the same: nothing is forwarded, and it has to leave.
            GroupPhase::Failed | GroupPhase::Deleting => Self::Failed,
        }
    }
}

/// The phase in a `WatchGroupResponse`.
///
/// # Errors
/// The number is none of the known phases.
pub fn phase_from_wire(phase: i32) -> Result<GroupPhase, FieldError> {
    match pb::GroupPhase::try_from(phase) {
        Ok(pb::GroupPhase::Pending) => Ok(GroupPhase::Pending),
        Ok(pb::GroupPhase::Programming) => Ok(GroupPhase::Programming),
        Ok(pb::GroupPhase::Ready) => Ok(GroupPhase::Ready),
        Ok(pb::GroupPhase::Degraded) => Ok(GroupPhase::Degraded),
        Ok(pb::GroupPhase::Failed) => Ok(GroupPhase::Failed),
        _ => Err(FieldError::new("phase", format!("{phase} is not a group phase"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use canopy_model::member::MemoryRegion;

    fn request() -> (String, MemberSpec) {
        let memory = Some(MemoryRegion { va: 0x1000, rkey: 7, length: 4096 });
        let address = Some("2001:db8::1".parse().unwrap());
        (
            "g1".to_owned(),
            MemberSpec {
                host: "h1".into(),
                role: Role::Receiver,
                address,
                qpn: Qpn::new("qpn", 0x11).unwrap(),
                memory,
                start_psn: None,
            },
        )
    }

    fn problem(change: impl FnOnce(&mut pb::JoinRequest)) -> String {
        let (group, member) = request();
        let mut wire = pb::JoinRequest::from((group.as_str(), &member));
        change(&mut wire);
        <(String, MemberSpec)>::try_from(wire).unwrap_err().to_string()
    }

    #[test]
    fn joins_survive_the_wire_and_each_fault_names_its_field() {
        let (group, member) = request();
        let back = <(String, MemberSpec)>::try_from(pb::JoinRequest::from((group.as_str(), &member))).unwrap();
        assert_eq!(back, request());
        let psn = Psn::new("p", 0xFF_FFFF).unwrap();
        let source = MemberSpec { role: Role::Source, memory: None, start_psn: Some(psn), ..member.clone() };
        let back = <(String, MemberSpec)>::try_from(pb::JoinRequest::from((group.as_str(), &source))).unwrap();
        assert_eq!(back.1, source);
        assert!(problem(|w| w.qpn = 1).starts_with("qpn: 1 is not a usable QPN"));
        assert!(problem(|w| w.role = 0).starts_with("role: 0 is not a role"));
        assert!(problem(|w| w.role = 9).starts_with("role: 9"));
        assert_eq!(problem(|w| w.address = vec![1; 4]), "address: 4 bytes, an IPv6 address has 16");
        assert!(problem(|w| w.memory.as_mut().unwrap().length = 0).starts_with("memory.length: 0 bytes"));
        assert!(problem(|w| w.role = 1).starts_with("memory: only receivers"));
        assert!(problem(|w| w.start_psn = Some(7)).starts_with("start_psn: only the source"));
        assert!(problem(|w| w.start_psn = Some(1 << 24)).starts_with("start_psn: 16777216"));
        assert!(problem(|w| w.group = "A".into()).starts_with("group: "));
        assert!(problem(|w| w.host = String::new()).starts_with("host: "));
    }

    #[test]
    fn connections_survive_the_wire() {
        let connection = Connection {
            proxy_address: "fcfe::1".parse().unwrap(),
            designated_qpn: Qpn::new("q", 0xABCDEF).unwrap(),
            start_psn: Psn::new("p", 0xFF_FFFF).unwrap(),
            path_mtu: 4096,
            write_base_va: 1,
            write_rkey: 2,
            write_length: 3,
            session: 4,
        };
        assert_eq!(Connection::try_from(pb::JoinResponse::from(&connection)).unwrap(), connection);
    }

    #[test]
    fn phases_survive_the_wire() {
        use GroupPhase::{Degraded, Failed, Pending, Programming, Ready};
        for phase in [Pending, Programming, Ready, Degraded, Failed] {
            assert_eq!(phase_from_wire(pb::GroupPhase::from(phase).into()).unwrap(), phase);
        }
        assert!(phase_from_wire(0).is_err() && phase_from_wire(99).is_err());
    }
}
