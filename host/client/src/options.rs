// SPDX-License-Identifier: Apache-2.0
//! Parameters of a connection and of a join, and the properties of a group that is ready.

use std::net::Ipv6Addr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use canopy_control::pb;
use canopy_model::ids::{Psn, Qpn, check_name};
use canopy_model::member::{MemberSpec, MemoryRegion, Role};

use crate::Error;

/// Default socket of an agent that is the only one of its machine.
pub const DEFAULT_SOCKET: &str = "/run/canopy/host.sock";

/// Parameters of a connection to the agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectOptions {
    /// The agent's socket, an absolute path.
    pub path: PathBuf,
    /// File with the token of this pod's service account, where the agent knows its callers by that; it is read for each call. `None`: that
    /// which `CANOPY_TOKEN_FILE` names, if it has one.
    pub token_file: Option<PathBuf>,
}

impl ConnectOptions {
    /// For this socket.
    pub fn at(path: impl AsRef<Path>) -> Self {
        Self { path: path.as_ref().to_owned(), token_file: None }
    }

    /// With the token in this file.
    #[must_use]
    pub fn with_token_file(self, file: impl AsRef<Path>) -> Self {
        Self { token_file: Some(file.as_ref().to_owned()), ..self }
    }
}

/// Parameters of a membership.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JoinOptions {
    /// Name of the group, which an operator has declared.
    pub group: String,
    /// Name of this host in the topology.
    pub host: String,
    /// Source or receiver; a group has one source.
    pub role: Role,
    /// Address of the queue pair, inside the host's prefix; the host's default address when absent.
    pub address: Option<Ipv6Addr>,
    /// Local QPN, 2..=0xFFFFFE.
    pub qpn: u32,
    /// Memory that RDMA WRITEs land in; receivers only.
    pub memory: Option<MemoryRegion>,
    /// First PSN of the queue pair, 0..=0xFFFFFF, for a source that cannot choose it, as under RDMA-CM; refused when receivers have
    /// joined with another. `None`: that of the answer.
    pub start_psn: Option<u32>,
    /// The membership ends with this process, however it ends: the host leaves within a second. True unless
    /// [`JoinOptions::without_lease`] was called. An agent that does not know leases keeps the membership.
    pub lease: bool,
    /// How long to retry while the agent or the controller is unreachable; 30 s unless set.
    pub timeout: Duration,
}

/// A group that is ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ready {
    /// Receivers in the group.
    pub receivers: u32,
    /// Bytes that every receiver has registered; 0 = RDMA WRITE is not possible.
    pub write_length: u64,
}

impl JoinOptions {
    /// A source at the host's default address.
    pub fn source(group: &str, host: &str, qpn: u32) -> Self {
        Self::new(Role::Source, group, host, qpn)
    }

    /// A receiver at the host's default address, without memory for RDMA WRITEs.
    pub fn receiver(group: &str, host: &str, qpn: u32) -> Self {
        Self::new(Role::Receiver, group, host, qpn)
    }

    /// With memory that RDMA WRITEs land in.
    #[must_use]
    pub fn with_memory(self, va: u64, rkey: u32, length: u64) -> Self {
        Self { memory: Some(MemoryRegion { va, rkey, length }), ..self }
    }

    /// The membership lasts until someone leaves, also beyond the process: its successor joins again with the same content.
    #[must_use]
    pub fn without_lease(self) -> Self {
        Self { lease: false, ..self }
    }

    fn new(role: Role, group: &str, host: &str, qpn: u32) -> Self {
        let timeout = Duration::from_secs(30);
        Self {
            group: group.to_owned(),
            host: host.to_owned(),
            role,
            address: None,
            qpn,
            memory: None,
            start_psn: None,
            lease: true,
            timeout,
        }
    }

    /// Checks everything that can be checked without the controller.
    pub(crate) fn request(&self) -> Result<pb::JoinRequest, Error> {
        check_name("group", &self.group)?;
        check_name("host", &self.host)?;
        let qpn = Qpn::new("qpn", self.qpn.into())?;
        let start_psn = self.start_psn.map(|psn| Psn::new("start_psn", psn.into())).transpose()?;
        let (host, role, address, memory) = (self.host.clone(), self.role, self.address, self.memory);
        let member = MemberSpec { host, role, address, qpn, memory, start_psn };
        let request = pb::JoinRequest { lease: self.lease, ..(self.group.as_str(), &member).into() };
        <(String, MemberSpec)>::try_from(request.clone())?;
        Ok(request)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn invalid_fields_are_reported_before_any_request() {
        let field = |options: JoinOptions| match options.request().unwrap_err() {
            Error::Invalid { field, .. } => field,
            other => panic!("{other}"),
        };
        let good = JoinOptions::receiver("g", "r1", 17).with_memory(0x1000, 7, 4096);
        assert!(good.request().is_ok());
        assert_eq!(field(JoinOptions { group: "No Name".into(), ..good.clone() }), "group");
        assert_eq!(field(JoinOptions { host: String::new(), ..good.clone() }), "host");
        assert_eq!(field(JoinOptions { qpn: 1, ..good.clone() }), "qpn");
        assert_eq!(field(JoinOptions { role: Role::Source, ..good.clone() }), "memory");
        assert_eq!(field(JoinOptions { start_psn: Some(1), ..good.clone() }), "start_psn");
        assert_eq!(field(JoinOptions { start_psn: Some(1 << 24), ..JoinOptions::source("g", "s1", 17) }), "start_psn");
        assert_eq!(field(good.with_memory(u64::MAX, 7, 2)), "memory.length");
    }
}
