// SPDX-License-Identifier: Apache-2.0
//! Which user of this machine is at the other end of a connection, and with which role.

use std::ffi::CString;
use std::sync::Arc;

use canopy_controller_access::{Identity, Roles};
use canopy_controller_core::principal::Principal;
use nix::unistd::{Gid, Group, Uid, User, getgrouplist};
use tokio::net::UnixStream;

use crate::peer_groups::peer_groups;

/// The identity of a user who has connected over TCP, with the groups that the user database has. Blocks.
pub(crate) fn of_tcp(uid: Option<u32>, roles: &Roles) -> Identity {
    uid.map_or_else(Identity::unknown, |uid| identity(uid, None, roles))
}

/// What returns the identity of the process that has connected, with the groups of that process, and blocks.
pub(crate) fn of_unix(stream: &UnixStream, roles: Arc<Roles>) -> impl FnOnce() -> Identity + Send + 'static {
    let shown = stream.peer_cred().and_then(|credentials| Ok((credentials, peer_groups(stream)?)));
    move || {
        let Ok((credentials, mut groups)) = shown else { return Identity::unknown() };
        groups.push(Gid::from_raw(credentials.gid()));
        identity(credentials.uid(), Some(groups), &roles)
    }
}

fn identity(uid: u32, groups: Option<Vec<Gid>>, roles: &Roles) -> Identity {
    let user = User::from_uid(Uid::from_raw(uid)).ok().flatten();
    let groups = groups.or_else(|| user.as_ref().and_then(groups_of)).unwrap_or_default();
    let is_member =
        |name: &str| Group::from_name(name).is_ok_and(|group| group.is_some_and(|g| groups.contains(&g.gid)));
    let role = roles.domain.of(uid, Uid::effective().as_raw(), is_member);
    let in_tenants = roles.tenants.iter().filter_map(|(tenant, roles)| Some((tenant.clone(), roles.of(is_member)?)));
    let tenants = in_tenants.collect();
    let principal = Principal::operator(user.map(|user| user.name).unwrap_or_default(), Some(uid));
    Identity { tenants, ..Identity::new(principal, role) }
}

fn groups_of(user: &User) -> Option<Vec<Gid>> {
    let name = CString::new(user.name.as_str()).ok()?;
    getgrouplist(&name, user.gid).ok()
}

#[cfg(test)]
mod tests {
    use canopy_controller_access::{TenantRoles, UnixRoles};
    use canopy_controller_core::role::Role;

    use super::*;

    #[test]
    fn users_have_their_names_and_roles() {
        let roles = Roles::default();
        let root = Identity::new(Principal::operator("root", Some(0)), Some(Role::Admin));
        assert_eq!(identity(0, None, &roles), root);
        let stranger = identity(4_000_000_000, None, &roles);
        assert_eq!((stranger.principal.to_string().as_str(), stranger.role), ("uid 4000000000", None));
        // Every system has a group root; its id is a process's, not the user database's.
        let of_root = UnixRoles { viewer_groups: vec!["root".into()], ..UnixRoles::default() };
        let tenants = [("acme".to_owned(), TenantRoles { operator_groups: vec!["root".into()], ..Default::default() })];
        let of_root = Roles { domain: of_root, tenants: tenants.into() };
        let member = identity(4_000_000_000, Some(vec![Gid::from_raw(7), Gid::from_raw(0)]), &of_root);
        assert_eq!((member.role, member.role_in("acme")), (Some(Role::Viewer), Some(Role::Operator)));
        assert_eq!(identity(4_000_000_000, Some(vec![Gid::from_raw(7)]), &of_root).tenants, Default::default());
        assert_eq!(identity(4_000_000_000, Some(vec![Gid::from_raw(7)]), &of_root).role, None);
        assert_eq!(identity(4_000_000_000, None, &of_root).role, None);
    }
}
