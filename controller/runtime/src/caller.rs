// SPDX-License-Identifier: Apache-2.0
//! Which user of this machine is at the other end of a connection, and with which role.

use canopy_controller_access::{Identity, Live, Roles};
use canopy_controller_core::principal::Principal;
use nix::unistd::{Gid, Uid};
use tokio::net::UnixStream;

use crate::peer_groups::peer_groups;
use crate::users::{Users, UsersError};

/// A user of this machine at the other end of a connection. What it may do is asked for again while the connection lasts.
pub(crate) struct Connected {
    uid: Option<u32>,
    /// Groups of the process, as the kernel had them when it connected; `None`: those of the user database count.
    groups: Option<Vec<Gid>>,
    /// Groups that the user database had then: one that it has taken away since does not count any more.
    then: Option<Vec<Gid>>,
    roles: Live<Roles>,
    users: Users,
}

impl Connected {
    /// Over TCP. Blocks.
    pub(crate) fn over_tcp(uid: Option<u32>, roles: Live<Roles>, users: Users) -> Self {
        Self { uid, groups: None, then: None, roles, users }
    }

    /// Over a Unix socket: what makes it, and blocks.
    pub(crate) fn over_unix(
        stream: &UnixStream,
        roles: Live<Roles>,
        users: Users,
    ) -> impl FnOnce() -> Self + Send + 'static {
        let shown = stream.peer_cred().and_then(|credentials| Ok((credentials, peer_groups(stream)?)));
        move || {
            let Ok((credentials, groups)) = shown else { return Self::over_tcp(None, roles, users) };
            let groups = groups.into_iter().chain([Gid::from_raw(credentials.gid())]).collect();
            let uid = credentials.uid();
            let then = users.user(uid).ok().flatten().map(|user| user.groups.clone());
            Self { uid: Some(uid), groups: Some(groups), then, roles, users }
        }
    }

    /// Who that is, and may do what; the last answer stays where the user database gives none. Blocks.
    pub(crate) fn identity(&self, last: Option<&Identity>) -> Identity {
        let Some(uid) = self.uid else { return Identity::unknown() };
        self.asked(uid).unwrap_or_else(|error| {
            tracing::warn!(uid, %error, "the user database does not answer: a user of this machine keeps its roles");
            last.cloned().unwrap_or_else(Identity::unknown)
        })
    }

    fn asked(&self, uid: u32) -> Result<Identity, UsersError> {
        let user = self.users.user(uid)?;
        let now = user.as_ref().map(|user| user.groups.clone()).unwrap_or_default();
        let groups = match &self.groups {
            None => now,
            Some(groups) => {
                let is_gone =
                    |gid: &Gid| self.then.as_ref().is_some_and(|then| then.contains(gid)) && !now.contains(gid);
                groups.iter().filter(|gid| !is_gone(gid)).copied().collect()
            }
        };
        let is_member = |name: &str| self.users.group(name).is_some_and(|gid| groups.contains(&gid));
        let roles = self.roles.get();
        let role = roles.domain.of(uid, Uid::effective().as_raw(), is_member);
        let in_tenants =
            roles.tenants.iter().filter_map(|(tenant, roles)| Some((tenant.clone(), roles.of(is_member)?)));
        let tenants = in_tenants.collect();
        let principal = Principal::operator(user.map(|user| user.name.clone()).unwrap_or_default(), Some(uid));
        Ok(Identity { tenants, ..Identity::new(principal, role) })
    }
}

#[cfg(test)]
mod tests {
    use canopy_controller_access::{TenantRoles, UnixRoles};
    use canopy_controller_core::role::Role;

    use super::*;

    fn connected(uid: u32, groups: Option<&[u32]>, then: &[u32], roles: &Roles) -> Connected {
        let of = |groups: &[u32]| groups.iter().copied().map(Gid::from_raw).collect::<Vec<_>>();
        let (groups, then) = (groups.map(of), Some(of(then)));
        Connected { uid: Some(uid), groups, then, roles: roles.clone().into(), users: Users::default() }
    }

    fn identity(uid: u32, groups: Option<&[u32]>, roles: &Roles) -> Identity {
        connected(uid, groups, &[], roles).identity(None)
    }

    #[test]
    fn users_have_their_names_and_roles() {
        let roles = Roles::default();
        let root = Identity::new(Principal::operator("root", Some(0)), Some(Role::Admin));
        assert_eq!(identity(0, None, &roles), root);
        let stranger = identity(4_000_000_000, None, &roles);
        assert_eq!((stranger.principal.to_string().as_str(), stranger.role), ("uid 4000000000", None));
        // Every system has a group root; its id is a process's, not the user database's.
        let of_root = of_root();
        let member = identity(4_000_000_000, Some(&[7, 0]), &of_root);
        assert_eq!((member.role, member.role_in("acme")), (Some(Role::Viewer), Some(Role::Operator)));
        assert_eq!(identity(4_000_000_000, Some(&[7]), &of_root).tenants, Default::default());
        assert_eq!(identity(4_000_000_000, Some(&[7]), &of_root).role, None);
        assert_eq!(identity(4_000_000_000, None, &of_root).role, None);
    }

    fn of_root() -> Roles {
        let domain = UnixRoles { viewer_groups: vec!["root".into()], ..UnixRoles::default() };
        let tenants = [("acme".to_owned(), TenantRoles { operator_groups: vec!["root".into()], ..Default::default() })];
        Roles { domain, tenants: tenants.into() }
    }

    /// Catches a process that keeps the role of a group that its user has lost, and one that loses what it never had from the user database,
    /// such as a group of its unit (`SupplementaryGroups=`).
    #[test]
    fn a_group_that_the_user_database_has_taken_away_does_not_count() {
        // The user database has no such user: it has no groups now.
        let of = |then: &[u32]| connected(4_000_000_000, Some(&[7, 0]), then, &of_root()).identity(None).role;
        assert_eq!(of(&[0]), None);
        assert_eq!(of(&[7]), Some(Role::Viewer));
        assert_eq!(of(&[]), Some(Role::Viewer));
    }
}
