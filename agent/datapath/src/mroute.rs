// SPDX-License-Identifier: Apache-2.0
//! The kernel's IPv6 multicast routing: read from `/proc`, changed by the MRT6 socket options.
//!
//! Entries from any other socket than the one that called MRT6_INIT are permanent (MFC_STATIC): routes and interfaces stay when the
//! agent ends. Forwarding itself requires that the MRT6_INIT socket stays open: that of the
//! [`mroute_holder`](crate::mroute_holder).

use std::collections::BTreeMap;
use std::fs;
use std::net::Ipv6Addr;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use canopy_agent_core::mroute::{Command, Flow, Mif, Observed, Route};
use canopy_agent_core::net::Interface;

use canopy_bpf::{Context, Result};

/// Number of sockets that enabled multicast routing in this thread's network namespace, 0 or 1. Absent in kernels without it.
const SWITCH: &str = "/proc/sys/net/ipv6/conf/all/mc_forwarding";
const INTERFACES: &str = "/proc/thread-self/net/ip6_mr_vif";
const ROUTES: &str = "/proc/thread-self/net/ip6_mr_cache";
/// Error text if another program has enabled multicast routing.
pub(crate) const TAKEN: &str = "a routing daemon (pim6sd, smcroute?) has switched IPv6 multicast routing on in this network namespace: stop it, or use replication srv6";
/// Socket options (include/uapi/linux/mroute6.h).
const MRT6_INIT: i32 = 200;
const MRT6_ADD_MIF: i32 = 202;
const MRT6_DEL_MIF: i32 = 203;
const MRT6_ADD_MFC: i32 = 204;
const MRT6_DEL_MFC: i32 = 205;

/// Multicast routing is compiled into this kernel.
pub(crate) fn is_supported() -> bool {
    fs::exists(SWITCH).unwrap_or(false)
}

/// A socket in this network namespace, ours or that of a routing daemon, has enabled multicast routing.
pub(crate) fn is_on() -> bool {
    fs::read_to_string(SWITCH).is_ok_and(|s| s.trim() != "0")
}

/// The kernel's state, except for [`Observed::held`] and [`Observed::made`].
pub(crate) fn observe(interfaces: &BTreeMap<String, Interface>) -> Result<Observed> {
    let read = |path: &str| fs::read_to_string(path).with_context(|| format!("reading {path}"));
    let mifs = parse_interfaces(&read(INTERFACES)?, interfaces);
    let routes = parse_routes(&read(ROUTES)?, &mifs);
    Ok(Observed { interfaces: mifs, routes, ..Observed::default() })
}

/// `mif name bytes-in packets-in bytes-out packets-out flags`, after a header line.
fn parse_interfaces(text: &str, interfaces: &BTreeMap<String, Interface>) -> BTreeMap<Mif, u32> {
    let interface = |line: &str| {
        let mut fields = line.split_whitespace();
        let mif = fields.next()?.parse().ok()?;
        // An unknown interface occupies its MIF too.
        Some((mif, interfaces.get(fields.next()?).map_or(0, |i| i.index)))
    };
    text.lines().skip(1).filter_map(interface).collect()
}

/// `group origin mif packets bytes wrong mif:threshold..`, after a header line; unresolved entries have no MIF.
fn parse_routes(text: &str, mifs: &BTreeMap<Mif, u32>) -> BTreeMap<Flow, Route> {
    let route = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let index = |mif: &str| mifs.get(&mif.parse::<Mif>().ok()?).copied();
        let flow: Flow = (fields.get(1)?.parse().ok()?, fields.first()?.parse().ok()?);
        // If the input interface is gone, the input is 0, which is no interface.
        let parent: i32 = fields.get(2)?.parse().ok()?;
        let input = u16::try_from(parent).ok().filter(|p| *p != u16::MAX)?;
        let outputs = fields.get(6..)?.iter().filter_map(|o| index(o.split_once(':')?.0)).collect();
        Some((flow, Route { input: mifs.get(&input).copied().unwrap_or(0), outputs }))
    };
    text.lines().skip(1).filter_map(route).collect()
}

/// A raw ICMPv6 socket, as the MRT6 options require.
pub(crate) struct Socket(OwnedFd);

impl Socket {
    pub(crate) fn open() -> Result<Self> {
        // SAFETY: a plain socket(2); the result is checked and owned at once.
        let fd = unsafe { libc::socket(libc::AF_INET6, libc::SOCK_RAW | libc::SOCK_CLOEXEC, libc::IPPROTO_ICMPV6) };
        if fd < 0 {
            return Err(std::io::Error::last_os_error()).context("opening a raw ICMPv6 socket (requires CAP_NET_RAW)");
        }
        // SAFETY: `fd` is a new descriptor without another owner.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Enables multicast routing until this socket is closed.
    pub(crate) fn switch_on(&self) -> Result<()> {
        match self.set(MRT6_INIT, &1i32.to_ne_bytes()) {
            Err(e) if e.raw_os_error() == Some(libc::EADDRINUSE) => Err(e).context(TAKEN),
            other => other.context("enabling IPv6 multicast routing (MRT6_INIT)"),
        }
    }

    /// Executes one command for interfaces or routes; `mifs` are the existing multicast interfaces.
    pub(crate) fn execute(&self, command: &Command, mifs: &mut BTreeMap<Mif, u32>) -> Result<()> {
        let mif_of = |mifs: &BTreeMap<Mif, u32>, index: u32| {
            mifs.iter().find(|(_, i)| **i == index).map(|(m, _)| *m).ok_or_else(|| {
                format!("interface {index} is not a multicast interface: other programs use all {} of them", mifs.len())
            })
        };
        match command {
            Command::AddInterface(mif, index) => {
                self.set(MRT6_ADD_MIF, &mif6ctl(*mif, *index))
                    .with_context(|| format!("making interface {index} a multicast interface"))?;
                mifs.insert(*mif, *index);
            }
            Command::RemoveInterface(mif) => {
                self.set(MRT6_DEL_MIF, &mif.to_ne_bytes())
                    .with_context(|| format!("removing multicast interface {mif}"))?;
                mifs.remove(mif);
            }
            Command::SetRoute(flow, route) => {
                let operation = || format!("adding multicast route ({}, {})", flow.0, flow.1);
                let input = mif_of(mifs, route.input).with_context(operation)?;
                let outputs: Result<Vec<Mif>, String> = route.outputs.iter().map(|i| mif_of(mifs, *i)).collect();
                self.set(MRT6_ADD_MFC, &mf6cctl(*flow, input, &outputs.with_context(operation)?))
                    .with_context(operation)?;
            }
            Command::RemoveRoute(flow) => match self.set(MRT6_DEL_MFC, &mf6cctl(*flow, 0, &[])) {
                Err(e) if e.raw_os_error() == Some(libc::ENOENT) => {}
                other => other.with_context(|| format!("removing multicast route ({}, {})", flow.0, flow.1))?,
            },
            Command::Hold | Command::Release => {}
        }
        Ok(())
    }

    fn set(&self, option: i32, value: &[u8]) -> std::io::Result<()> {
        let (fd, len) = (self.0.as_raw_fd(), value.len() as libc::socklen_t);
        // SAFETY: pointer and length describe a live slice, which the kernel only reads.
        let rc = unsafe { libc::setsockopt(fd, libc::IPPROTO_IPV6, option, value.as_ptr().cast(), len) };
        if rc == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
    }
}

/// `struct mif6ctl`: MIF, flags, threshold 1 (any hop limit), interface index, no rate limit.
fn mif6ctl(mif: Mif, index: u32) -> [u8; 12] {
    let mut c = [0; 12];
    c[..2].copy_from_slice(&mif.to_ne_bytes());
    c[3] = 1;
    c[4..6].copy_from_slice(&(index as u16).to_ne_bytes());
    c
}

/// `struct mf6cctl`: two `sockaddr_in6`, the input's MIF, and a set of 256 outputs.
fn mf6cctl((source, group): Flow, input: Mif, outputs: &[Mif]) -> [u8; 92] {
    let mut c = [0; 92];
    for (at, a) in [(0, source), (28, group)] {
        c[at..at + 28].copy_from_slice(&sockaddr_in6(a));
    }
    c[56..58].copy_from_slice(&input.to_ne_bytes());
    // 32-bit words in host order.
    for word in 0..8u16 {
        let bits = outputs.iter().filter(|m| **m / 32 == word).fold(0u32, |bits, m| bits | 1 << (m % 32));
        let at = 60 + 4 * usize::from(word);
        c[at..at + 4].copy_from_slice(&bits.to_ne_bytes());
    }
    c
}

fn sockaddr_in6(a: Ipv6Addr) -> [u8; 28] {
    let mut s = [0; 28];
    s[..2].copy_from_slice(&(libc::AF_INET6 as u16).to_ne_bytes());
    s[8..24].copy_from_slice(&a.octets());
    s
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn what_the_kernel_prints_is_read_whole() {
        let port = |index| Interface::alone(index, 9000);
        let interfaces = BTreeMap::from([("eth1".to_owned(), port(2)), ("eth2".to_owned(), port(3))]);
        let vif = "Interface      BytesIn  PktsIn  BytesOut PktsOut Flags\n 0 eth1              10       1         0       0 08000\n 3 eth2                0       0         0       0 08000\n 4 wg0                 0       0         0       0 00000\n";
        let mifs = parse_interfaces(vif, &interfaces);
        assert_eq!(mifs, BTreeMap::from([(0, 2), (3, 3), (4, 0)]), "an unknown interface occupies its MIF");
        let cache = "Group                            Origin                           Iif      Pkts  Bytes     Wrong  Oifs\n\
            ff3e:0000:0000:0000:0000:0000:8000:0001 fcff:0000:0000:0006:0000:0000:0000:0001 0         12     9000        0  3:1   4:1  \n\
            ff3e:0000:0000:0000:0000:0000:8000:0002 fcff:0000:0000:0006:0000:0000:0000:0001 7          0        0        0\n\
            ff3e:0000:0000:0000:0000:0000:8000:0003 fcff:0000:0000:0006:0000:0000:0000:0001 65535\n\
            ff3e:0000:0000:0000:0000:0000:8000:0004 fcff:0000:0000:0006:0000:0000:0000:0001 -1 \n";
        let s: Ipv6Addr = "fcff:0:0:6::1".parse().unwrap();
        let g = |n: u16| Ipv6Addr::new(0xff3e, 0, 0, 0, 0, 0, 0x8000, n);
        let want = [((s, g(1)), Route { input: 2, outputs: BTreeSet::from([0, 3]) }), ((s, g(2)), Route::default())];
        assert_eq!(parse_routes(cache, &mifs), BTreeMap::from(want), "an unresolved entry is no route");
    }
}
