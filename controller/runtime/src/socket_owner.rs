// SPDX-License-Identifier: Apache-2.0
//! Which user of this machine has the other end of a TCP connection on loopback.
//!
//! The kernel is asked for that one socket (sock_diag(7)), which costs the same however many there are. One that cannot be asked has a table of
//! all sockets (proc_net_tcp(5)): it is read line by line.
//!
//! The kernel shows user 0 for a socket that no process has any more, which must not be taken for root's: only a connection that is
//! established, and whose socket has an inode, has an owner.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};

use netlink_packet_core::{NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload};
use netlink_packet_sock_diag::SockDiagMessage;
use netlink_packet_sock_diag::constants::{AF_INET, AF_INET6, IPPROTO_TCP, TCP_ESTABLISHED};
use netlink_packet_sock_diag::inet::{ExtensionFlags, InetRequest, SocketId, StateFlags};
use netlink_sys::Socket;
use netlink_sys::protocols::NETLINK_SOCK_DIAG;

/// The kernel has answered a question for a socket once: that it knows none is then an answer.
static ANSWERS: AtomicBool = AtomicBool::new(false);
/// An answer about one socket has fewer octets.
const ANSWER: usize = 4096;
/// Any socket with these addresses.
const ANY_COOKIE: [u8; 8] = [0xff; 8];

/// The owner of the socket that is bound to `own` and connected to `other`; `None` if no process has it. Blocks.
pub(crate) fn uid_of_socket(own: SocketAddr, other: SocketAddr) -> Option<u32> {
    asked(own, other).unwrap_or_else(|_| in_tables(own, other))
}

/// What the kernel answers.
///
/// # Errors
/// It cannot be asked, or may not have understood the question.
fn asked(own: SocketAddr, other: SocketAddr) -> io::Result<Option<u32>> {
    let mut socket = Socket::new(NETLINK_SOCK_DIAG)?;
    socket.bind_auto()?;
    // The kernel, which no other sender can then be taken for.
    socket.connect(&netlink_sys::SocketAddr::new(0, 0))?;
    socket.send(&question(own, other), 0)?;
    let mut answer = [0; ANSWER];
    let length = socket.recv(&mut &mut answer[..], 0)?;
    let message = NetlinkMessage::<SockDiagMessage>::deserialize(answer.get(..length).unwrap_or_default());
    match message.map_err(io::Error::other)?.payload {
        NetlinkPayload::InnerMessage(SockDiagMessage::InetResponse(found)) => {
            ANSWERS.store(true, Ordering::Relaxed);
            let found = found.header;
            // Where there is no connection, the kernel answers with a socket that listens there.
            let is_owned = found.state == TCP_ESTABLISHED && found.inode != 0;
            Ok(is_owned.then_some(found.uid))
        }
        // A kernel without this kind of question has the same answer to it as one without the socket.
        NetlinkPayload::Error(refused) if refused.raw_code() == -libc::ENOENT => {
            if ANSWERS.load(Ordering::Relaxed) {
                Ok(None)
            } else {
                Err(refused.to_io())
            }
        }
        other => Err(io::Error::other(format!("not an answer about a socket: {other:?}"))),
    }
}

fn question(own: SocketAddr, other: SocketAddr) -> Vec<u8> {
    let is_v4 = own.is_ipv4() && other.is_ipv4();
    let address = |of: SocketAddr| if is_v4 { of.ip() } else { IpAddr::V6(mapped(of)) };
    let socket_id = SocketId {
        source_port: own.port(),
        destination_port: other.port(),
        source_address: address(own),
        destination_address: address(other),
        interface_id: 0,
        cookie: ANY_COOKIE,
    };
    let request = InetRequest {
        family: if is_v4 { AF_INET } else { AF_INET6 },
        protocol: IPPROTO_TCP,
        extensions: ExtensionFlags::empty(),
        states: StateFlags::all(),
        socket_id,
    };
    let mut header = NetlinkHeader::default();
    header.flags = NLM_F_REQUEST;
    let mut message = NetlinkMessage::new(header, SockDiagMessage::InetRequest(request).into());
    message.finalize();
    let mut octets = vec![0; message.buffer_len()];
    message.serialize(&mut octets);
    octets
}

/// State of a connection in the table.
const ESTABLISHED: &str = "01";

fn in_tables(own: SocketAddr, other: SocketAddr) -> Option<u32> {
    let find = |table: &str, wanted: (String, String)| uid_in(BufReader::new(File::open(table).ok()?), &wanted);
    let in_v6 = || find("/proc/net/tcp6", (v6(mapped(own), own.port()), v6(mapped(other), other.port())));
    match (own.ip(), other.ip()) {
        // A client may also reach an IPv4 address from an IPv6 socket.
        (IpAddr::V4(a), IpAddr::V4(b)) => {
            find("/proc/net/tcp", (v4(a.octets(), own.port()), v4(b.octets(), other.port()))).or_else(in_v6)
        }
        _ => in_v6(),
    }
}

fn uid_in(table: impl BufRead, (own, other): &(String, String)) -> Option<u32> {
    for line in table.lines().skip(1) {
        let line = line.ok()?;
        let mut fields = line.split_ascii_whitespace().skip(1);
        if (fields.next(), fields.next()) != (Some(own.as_str()), Some(other.as_str())) {
            continue;
        }
        let is_established = fields.next() == Some(ESTABLISHED);
        let uid = fields.nth(3)?.parse().ok()?;
        let has_inode = fields.nth(1).is_some_and(|inode| inode != "0");
        return (is_established && has_inode).then_some(uid);
    }
    None
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

    use super::*;

    /// Catches the other end's user, and an address in another order of octets.
    #[test]
    fn the_owner_of_a_socket_is_found_in_the_table() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n   \
            0: 0100007F:21C0 0100007F:C350 01 00000000:00000000 00:00000000 00000000     0        0 1 1 0\n   \
            1: 0100007F:C350 0100007F:21C0 01 00000000:00000000 00:00000000 00000000  1000        0 2 1 0\n   \
            2: 0100007F:C351 0100007F:21C0 01 00000000:00000000 00:00000000 00000000  1000        0 0 1 0\n   \
            3: 0100007F:C352 0100007F:21C0 08 00000000:00000000 00:00000000 00000000  1000        0 2 1 0\n";
        let at = |own: &str, other: &str| uid_in(table.as_bytes(), &(own.to_owned(), other.to_owned()));
        assert_eq!(at("0100007F:C350", "0100007F:21C0"), Some(1000));
        assert_eq!(at("0100007F:21C0", "0100007F:C350"), Some(0));
        assert_eq!(at("0100007F:C350", "0100007F:0001"), None);
        assert_eq!(at("0100007F:C351", "0100007F:21C0"), None);
        assert_eq!(at("0100007F:C352", "0100007F:21C0"), None);
        assert_eq!(uid_in(&b""[..], &(String::new(), String::new())), None);
    }

    /// Catches a client at an IPv6 socket that is connected to an IPv4 address, and one that only one of the two ways knows.
    #[test]
    fn this_process_owns_its_own_connections() {
        let own = nix::unistd::geteuid().as_raw();
        for (listens, connects) in
            [("127.0.0.1:0", "127.0.0.1"), ("[::1]:0", "::1"), ("127.0.0.1:0", "::ffff:127.0.0.1")]
        {
            let Ok(listener) = TcpListener::bind(listens) else {
                // Machines without IPv6 exist, machines without IPv4 on loopback do not.
                assert!(listens.starts_with('['));
                continue;
            };
            let port = listener.local_addr().unwrap().port();
            let client = TcpStream::connect((connects.parse::<IpAddr>().unwrap(), port)).unwrap();
            let (server, peer) = listener.accept().unwrap();
            let local = server.local_addr().unwrap();
            assert_eq!(asked(peer, local).unwrap(), Some(own), "{connects}");
            assert_eq!(in_tables(peer, local), Some(own), "{connects}");
            drop(client);
        }
    }

    /// Catches a client that closes its socket behind its request and is taken for root: the kernel shows user 0 for such a socket.
    #[test]
    fn a_socket_that_was_closed_has_no_owner() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut server, peer) = listener.accept().unwrap();
        let local = server.local_addr().unwrap();
        assert!(asked(peer, local).unwrap().is_some());
        drop(client);
        // The end of the client's octets has arrived.
        assert_eq!(server.read(&mut [0]).unwrap(), 0);
        let own = v4([127, 0, 0, 1], peer.port());
        let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
        let row = table.lines().find(|line| line.split_ascii_whitespace().nth(1) == Some(&own)).expect("the socket");
        assert_eq!(row.split_ascii_whitespace().nth(7), Some("0"), "the kernel names the user: {row}");
        assert_eq!(asked(peer, local).unwrap(), None, "{row}");
        assert_eq!(in_tables(peer, local), None, "{row}");
    }

    /// Catches an owner of a socket that listens where the client's was: the kernel answers with that one.
    #[test]
    fn a_socket_that_listens_is_no_connection() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let nowhere: SocketAddr = "127.0.0.1:9".parse().unwrap();
        assert_eq!(uid_of_socket(listener.local_addr().unwrap(), nowhere), None);
    }
}
