// SPDX-License-Identifier: Apache-2.0
//! Which user of this machine is at the other end of a connection: the kernel knows it of Unix sockets, and of TCP on loopback in its table
//! of sockets (proc_net_tcp(5)).

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use canopy_controller_core::principal::Principal;
use canopy_controller_rest::Caller;
use nix::unistd::{Uid, User};

/// The user that has connected from `peer` to `local`.
pub(crate) fn of_tcp(peer: SocketAddr, local: SocketAddr) -> Caller {
    Caller::new(move || operator(uid_of_socket(peer, local)))
}

/// The user with this id.
pub(crate) fn of_uid(uid: Option<u32>) -> Caller {
    Caller::new(move || operator(uid))
}

fn operator(uid: Option<u32>) -> Principal {
    let user = uid.and_then(|uid| User::from_uid(Uid::from_raw(uid)).ok().flatten());
    Principal::operator(user.map(|user| user.name).unwrap_or_default(), uid)
}

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

/// One pass over the table, once per connection that writes.
fn uid_in(table: &str, (own, other): &(String, String)) -> Option<u32> {
    let mut sockets = table.lines().skip(1).map(|line| line.split_ascii_whitespace().collect::<Vec<_>>());
    let found =
        sockets.find(|fields| fields.get(1) == Some(&own.as_str()) && fields.get(2) == Some(&other.as_str()))?;
    found.get(7)?.parse().ok()
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
    use std::net::{TcpListener, TcpStream};

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

    #[test]
    fn users_have_their_names() {
        assert_eq!(operator(Some(0)), Principal::operator("root", Some(0)));
        assert_eq!(operator(Some(4_000_000_000)).to_string(), "uid 4000000000");
        assert_eq!(operator(None).to_string(), "an operator");
    }
}
