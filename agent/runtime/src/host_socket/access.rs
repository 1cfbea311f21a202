// SPDX-License-Identifier: Apache-2.0
//! Access control by the peer credentials of the socket.

use std::sync::Arc;

use tokio::net::unix::UCred;
use tonic::Status;

use super::slots::{Slot, Slots};
use crate::config::HostSocket;

pub(super) const ROOT: u32 = 0;

/// Permitted users and groups, and the connections of each user.
pub(super) struct Access {
    own_uid: u32,
    uids: Vec<u32>,
    gids: Vec<u32>,
    slots: Arc<Slots>,
}

/// The caller behind a connection.
#[derive(Clone)]
pub(super) struct Caller {
    pub(super) uid: u32,
    pid: i32,
    verdict: Result<(), Refused>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Refused {
    NotPermitted,
    TooMany,
}

impl Access {
    pub(super) fn new(config: &HostSocket) -> Self {
        let own_uid = nix::unistd::geteuid().as_raw();
        Self { own_uid, uids: config.uids.clone(), gids: config.gids.clone(), slots: Arc::default() }
    }

    /// `None` if not even a slot for refused callers is free.
    pub(super) fn admit(&self, peer: &UCred) -> Option<(Caller, Slot)> {
        let (uid, pid) = (peer.uid(), peer.pid().unwrap_or(0));
        let refused = if self.permits(uid, peer.gid()) {
            if let Some(slot) = Slots::take(&self.slots, uid) {
                return Some((Caller { uid, pid, verdict: Ok(()) }, slot));
            }
            Refused::TooMany
        } else {
            Refused::NotPermitted
        };
        let slot = Slots::take_refused(&self.slots)?;
        Some((Caller { uid, pid, verdict: Err(refused) }, slot))
    }

    fn permits(&self, uid: u32, gid: u32) -> bool {
        uid == ROOT || uid == self.own_uid || self.uids.contains(&uid) || self.gids.contains(&gid)
    }
}

impl Caller {
    /// # Errors
    /// The caller is not permitted, or has too many connections; the message contains the remedy.
    pub(super) fn check(&self) -> Result<(), Status> {
        self.verdict.map_err(|refused| match refused {
            Refused::NotPermitted => Status::permission_denied(format!(
                "uid {} may not join hosts through this agent: add it to host_socket.uids in the agent's configuration, \
                 or the effective group of its process to host_socket.gids",
                self.uid
            )),
            Refused::TooMany => Status::resource_exhausted(format!(
                "uid {} has {} connections to this agent: close some; one connection can carry all calls of a process",
                self.uid,
                super::slots::PER_USER
            )),
        })
    }
}

impl std::fmt::Display for Caller {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "uid={} pid={}", self.uid, self.pid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access() -> Access {
        Access { own_uid: 990, uids: vec![1000], gids: vec![44], slots: Arc::default() }
    }

    #[test]
    fn only_root_the_agents_user_and_the_configured_ids_are_permitted() {
        let access = access();
        for (uid, gid, may) in
            [(0, 0, true), (990, 1, true), (1000, 1, true), (7, 44, true), (7, 7, false), (44, 1000, false)]
        {
            assert_eq!(access.permits(uid, gid), may, "{uid}:{gid}");
        }
    }

    #[test]
    fn refusals_name_the_user_and_the_setting() {
        let caller = |refused| Caller { uid: 1234, pid: 1, verdict: Err(refused) };
        let status = caller(Refused::NotPermitted).check().unwrap_err();
        assert_eq!(status.code(), tonic::Code::PermissionDenied);
        assert!(status.message().contains("uid 1234") && status.message().contains("host_socket.uids"), "{status}");
        assert_eq!(caller(Refused::TooMany).check().unwrap_err().code(), tonic::Code::ResourceExhausted);
    }
}
