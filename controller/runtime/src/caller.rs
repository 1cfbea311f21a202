// SPDX-License-Identifier: Apache-2.0
//! Which user of this machine is at the other end of a connection, and with which role: the kernel knows the user of Unix sockets, and of
//! TCP on loopback in its table of sockets (proc_net_tcp(5)).

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use canopy_controller_access::{Identity, Live, Roles};
use canopy_controller_core::principal::Principal;
use nix::unistd::{Gid, Uid};
use tokio::net::UnixStream;

use crate::peer_groups::peer_groups;
use crate::users::{Users, UsersError};

/// The user that has connected from `peer` to `local`. Blocks, and reads the table of all sockets.
pub(crate) fn uid_of_tcp(peer: SocketAddr, local: SocketAddr) -> Option<u32> {
    uid_of_socket(peer, local)
}

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

/// State of a socket in the table.
const ESTABLISHED: &str = "01";

/// The owner of the socket that is bound to `own` and connected to `other`.
fn uid_of_socket(own: SocketAddr, other: SocketAddr) -> Option<u32> {
    let find = |table: &str, wanted: (String, String)| {
        let table = std::fs::read_to_string(table).ok()?;
        uid_in(&table, &wanted)
    };
    let mapped = (v6(mapped(own), own.port()), v6(mapped(other), other.port()));
    match (own.ip(), other.ip()) {
        // A client may also reach an IPv4 address from an IPv6 socket.
        (IpAddr::V4(a), IpAddr::V4(b)) => {
            let plain = (v4(a.octets(), own.port()), v4(b.octets(), other.port()));
            find("/proc/net/tcp", plain).or_else(|| find("/proc/net/tcp6", mapped))
        }
        _ => find("/proc/net/tcp6", mapped),
    }
}

/// One pass over the table, once per connection.
///
/// The kernel shows user 0 for a socket that no process has any more, which must not be taken for root's: only a connection that is
/// established, and whose socket has an inode, has an owner.
fn uid_in(table: &str, (own, other): &(String, String)) -> Option<u32> {
    let mut sockets = table.lines().skip(1).map(|line| line.split_ascii_whitespace().collect::<Vec<_>>());
    let found =
        sockets.find(|fields| fields.get(1) == Some(&own.as_str()) && fields.get(2) == Some(&other.as_str()))?;
    let is_owned = found.get(3) == Some(&ESTABLISHED) && found.get(9).is_some_and(|inode| *inode != "0");
    if is_owned { found.get(7)?.parse().ok() } else { None }
}

fn mapped(address: SocketAddr) -> Ipv6Addr {
    match address.ip() {
        IpAddr::V4(v4) => v4.to_ipv6_mapped(),
        IpAddr::V6(v6) => v6,
    }
}

/// As the kernel prints it: words of four octets in the order of the machine.
fn v4(octets: [u8; 4], port: u16) -> String {
    format!("{:08X}:{port:04X}", u32::from_ne_bytes(octets))
}

fn v6(address: Ipv6Addr, port: u16) -> String {
    let octets = address.octets();
    let words = octets.as_chunks::<4>().0.iter().map(|word| format!("{:08X}", u32::from_ne_bytes(*word)));
    format!("{}:{port:04X}", words.collect::<String>())
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::{TcpListener, TcpStream};

    use canopy_controller_access::{TenantRoles, UnixRoles};
    use canopy_controller_core::role::Role;

    use super::*;

    /// Catches the other end's user, and an address in another order of octets.
    #[test]
    fn the_owner_of_a_socket_is_found_in_the_table() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n   \
            0: 0100007F:21C0 0100007F:C350 01 00000000:00000000 00:00000000 00000000     0        0 1 1 0\n   \
            1: 0100007F:C350 0100007F:21C0 01 00000000:00000000 00:00000000 00000000  1000        0 2 1 0\n";
        let at = |own: &str, other: &str| uid_in(table, &(own.to_owned(), other.to_owned()));
        assert_eq!(at("0100007F:C350", "0100007F:21C0"), Some(1000));
        assert_eq!(at("0100007F:21C0", "0100007F:C350"), Some(0));
        assert_eq!(at("0100007F:C350", "0100007F:0001"), None);
        assert_eq!(uid_in("", &(String::new(), String::new())), None);
    }

    #[test]
    fn this_process_is_the_caller_of_its_own_connections() {
        let own = nix::unistd::geteuid().as_raw();
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(listener) = TcpListener::bind(address) else {
                // Machines without IPv6 exist, machines without IPv4 on loopback do not.
                assert!(address.starts_with('['));
                continue;
            };
            let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (server, peer) = listener.accept().unwrap();
            assert_eq!(uid_of_socket(peer, server.local_addr().unwrap()), Some(own), "{address}");
            drop(client);
        }
    }

    /// Catches a client that closes its socket behind its request and is taken for root: the kernel's table has user 0 for such a socket.
    #[test]
    fn a_socket_that_was_closed_has_no_owner() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut server, peer) = listener.accept().unwrap();
        drop(client);
        // The end of the client's octets has arrived.
        assert_eq!(server.read(&mut [0]).unwrap(), 0);
        let own = format!("{:08X}:{:04X}", u32::from_ne_bytes([127, 0, 0, 1]), peer.port());
        let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
        let row = table.lines().find(|line| line.split_ascii_whitespace().nth(1) == Some(&own)).expect("the socket");
        assert_eq!(row.split_ascii_whitespace().nth(7), Some("0"), "the kernel names the user: {row}");
        assert_eq!(uid_of_socket(peer, server.local_addr().unwrap()), None, "{row}");
    }

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
