// SPDX-License-Identifier: Apache-2.0
//! Which user of this machine is at the other end of a connection, and with which role: the kernel knows the user of Unix sockets, and of
//! TCP on loopback in its table of sockets (proc_net_tcp(5)).

use std::ffi::CString;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use canopy_controller_access::{Identity, Roles};
use canopy_controller_core::principal::Principal;
use nix::unistd::{Gid, Group, Uid, User, getgrouplist};
use tokio::net::UnixStream;

use crate::peer_groups::peer_groups;

/// The user that has connected from `peer` to `local`. Blocks, and reads the table of all sockets.
pub(crate) fn uid_of_tcp(peer: SocketAddr, local: SocketAddr) -> Option<u32> {
    uid_of_socket(peer, local)
}

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
