// SPDX-License-Identifier: Apache-2.0
//! Access control at the socket: by the peer credentials of a connection, or by the token of each call.
//!
//! Where pods are callers, a user id gives no right, that of root included: an agent in a PID namespace of its own is shown process 0 and
//! ids that are mapped, and in each pod there is a root.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::net::unix::UCred;
use tonic::{Request, Status};

use super::owner::Owner;
use super::slots::{PER_OWNER, Slot, Slots};
use super::tokens::Tokens;
use crate::config::HostSocket;

/// Who may connect, and the connections of each.
pub(super) struct Access {
    callers: Callers,
    slots: Arc<Slots>,
}

enum Callers {
    Users { own_uid: u32, uids: Vec<u32>, gids: Vec<u32> },
    Pods,
}

/// The program behind a connection.
#[derive(Clone)]
pub(super) enum Peer {
    User(User),
    /// Known by the tokens of its calls.
    Pod(Arc<Mutex<Slot>>),
}

/// A user as the kernel names it.
#[derive(Clone)]
pub(super) struct User {
    uid: u32,
    pid: i32,
    verdict: Result<(), Refused>,
}

/// Who makes a call.
#[derive(Clone, Debug)]
pub(super) struct Caller {
    pub(super) owner: Owner,
    /// Process of a user.
    pid: Option<i32>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Refused {
    NotPermitted,
    TooMany,
}

impl Access {
    pub(super) fn new(config: &HostSocket) -> Self {
        let callers = if config.kubernetes {
            Callers::Pods
        } else {
            let own_uid = nix::unistd::geteuid().as_raw();
            Callers::Users { own_uid, uids: config.uids.clone(), gids: config.gids.clone() }
        };
        Self { callers, slots: Arc::default() }
    }

    /// The slot is the connection's, if it is not the peer's. `None` if not even one for refused or unidentified callers is free.
    pub(super) fn admit(&self, peer: &UCred) -> Option<(Peer, Option<Slot>)> {
        let Callers::Users { .. } = &self.callers else {
            let slot = Slots::take_unidentified(&self.slots)?;
            return Some((Peer::Pod(Arc::new(Mutex::new(slot))), None));
        };
        let (uid, pid) = (peer.uid(), peer.pid().unwrap_or(0));
        let refused = if self.permits(uid, peer.gid()) {
            if let Some(slot) = Slots::take(&self.slots, Owner::User(uid)) {
                return Some((Peer::User(User { uid, pid, verdict: Ok(()) }), Some(slot)));
            }
            Refused::TooMany
        } else {
            Refused::NotPermitted
        };
        let slot = Slots::take_refused(&self.slots)?;
        Some((Peer::User(User { uid, pid, verdict: Err(refused) }), Some(slot)))
    }

    fn permits(&self, uid: u32, gid: u32) -> bool {
        match &self.callers {
            Callers::Users { own_uid, uids, gids } => {
                Owner::User(uid) == Owner::ROOT || uid == *own_uid || uids.contains(&uid) || gids.contains(&gid)
            }
            Callers::Pods => false,
        }
    }
}

impl Peer {
    /// Whether it is a pod that has not shown a token yet.
    pub(super) fn is_unidentified(&self) -> bool {
        match self {
            Self::User(_) => false,
            Self::Pod(slot) => slot.lock().unwrap_or_else(PoisonError::into_inner).is_unidentified(),
        }
    }

    /// The connection counts as one of this pod from its first call on.
    ///
    /// # Errors
    /// There are too many.
    pub(super) fn identified(&self, owner: &Owner) -> Result<(), Status> {
        let Self::Pod(slot) = self else { return Ok(()) };
        let mut slot = slot.lock().unwrap_or_else(PoisonError::into_inner);
        if slot.is_unidentified() {
            *slot = slot.another(owner.clone()).ok_or_else(|| {
                Status::resource_exhausted(format!(
                    "this pod has {PER_OWNER} connections to this agent, or all pods together have too many: close some; one connection can carry all calls of a process"
                ))
            })?;
        }
        Ok(())
    }
}

impl Caller {
    /// Of a call; `tokens` are those of pods, if pods are callers.
    ///
    /// # Errors
    /// The caller is not permitted, is not known, or has too many connections; the message contains the remedy.
    pub(super) async fn of<T>(request: &Request<T>, tokens: Option<&Arc<Tokens>>) -> Result<Self, Status> {
        match (request.extensions().get::<Peer>(), tokens) {
            (Some(Peer::User(user)), None) => user.check(),
            (Some(peer @ Peer::Pod(_)), Some(tokens)) => {
                let owner = Owner::Pod(tokens.identify(request.metadata()).await?);
                peer.identified(&owner)?;
                Ok(Self { owner, pid: None })
            }
            _ => Err(Status::internal("nothing is known of the caller")),
        }
    }
}

impl User {
    /// # Errors
    /// The user is not permitted, or has too many connections; the message contains the remedy.
    pub(super) fn check(&self) -> Result<Caller, Status> {
        let known = Caller { owner: Owner::User(self.uid), pid: Some(self.pid) };
        self.verdict.map(|()| known).map_err(|refused| match refused {
            Refused::NotPermitted => Status::permission_denied(format!(
                "uid {} may not join hosts through this agent: add it to host_socket.uids in the agent's configuration, \
                 or the effective group of its process to host_socket.gids",
                self.uid
            )),
            Refused::TooMany => Status::resource_exhausted(format!(
                "uid {} has {PER_OWNER} connections to this agent: close some; one connection can carry all calls of a process",
                self.uid
            )),
        })
    }
}

/// For logs: `uid=1000 pid=7`, `account=training/trainer pod-uid=...`.
impl fmt::Display for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.owner, self.pid) {
            (Owner::User(uid), Some(pid)) => write!(f, "uid={uid} pid={pid}"),
            (Owner::User(uid), None) => write!(f, "uid={uid}"),
            (Owner::Pod(pod), _) => write!(f, "account={} pod-uid={}", pod.account(), pod.uid()),
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::UnixStream;

    use super::*;

    fn access(callers: Callers) -> Access {
        Access { callers, slots: Arc::default() }
    }

    #[test]
    fn only_root_the_agents_user_and_the_configured_ids_are_permitted() {
        let access = access(Callers::Users { own_uid: 990, uids: vec![1000], gids: vec![44] });
        for (uid, gid, may) in
            [(0, 0, true), (990, 1, true), (1000, 1, true), (7, 44, true), (7, 7, false), (44, 1000, false)]
        {
            assert_eq!(access.permits(uid, gid), may, "{uid}:{gid}");
        }
    }

    #[test]
    fn refusals_name_the_user_and_the_setting() {
        let user = |refused| User { uid: 1234, pid: 1, verdict: Err(refused) };
        let status = user(Refused::NotPermitted).check().unwrap_err();
        assert_eq!(status.code(), tonic::Code::PermissionDenied);
        assert!(status.message().contains("uid 1234") && status.message().contains("host_socket.uids"), "{status}");
        assert_eq!(user(Refused::TooMany).check().unwrap_err().code(), tonic::Code::ResourceExhausted);
    }

    /// Catches a user id that gives a right where pods are callers, that of root and of the agent included, and connections without a token
    /// that take the places of pods with one.
    #[tokio::test]
    async fn where_pods_are_callers_no_user_is_one() {
        let access = access(Callers::Pods);
        assert!(!access.permits(0, 0) && !access.permits(nix::unistd::geteuid().as_raw(), 0));
        let (near, _far) = UnixStream::pair().unwrap();
        let own = near.peer_cred().unwrap();
        let idle: Vec<_> = std::iter::from_fn(|| access.admit(&own)).collect();
        assert!(idle.len() < PER_OWNER && idle.iter().all(|(peer, slot)| peer.is_unidentified() && slot.is_none()));
        // Once it has shown a token, a connection leaves its place to another.
        idle[0].0.identified(&"training/trainer 1".parse().unwrap()).unwrap();
        assert!(!idle[0].0.is_unidentified() && access.admit(&own).is_some());
        let request = Request::new(());
        assert_eq!(Caller::of(&request, None).await.unwrap_err().code(), tonic::Code::Internal);
    }
}
