// SPDX-License-Identifier: Apache-2.0
//! Address, socket and QPN of this host, with defaults for what the command line omits.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::net::Ipv6Addr;

use anyhow::{Context, Result, anyhow, bail};
use nix::ifaddrs::getifaddrs;

use super::args::{EndArgs, Frames, Qpn};
use crate::socket::{RoceSocket, Shape};

/// The address given, or else the only global address of this host.
pub(super) fn address(args: &EndArgs) -> Result<Ipv6Addr> {
    if let Some(address) = args.address {
        return Ok(address);
    }
    let interfaces = getifaddrs().context("listing this host's addresses")?;
    let mut global: Vec<Ipv6Addr> = interfaces
        .filter_map(|interface| Some(interface.address?.as_sockaddr_in6()?.ip()))
        .filter(|ip| !ip.is_loopback() && !ip.is_unicast_link_local() && !ip.is_multicast())
        .collect();
    global.sort_unstable();
    global.dedup();
    match global[..] {
        [only] => Ok(only),
        [] => bail!("address: this host has no global IPv6 address; give --address"),
        _ => bail!("address: this host has several ({global:?}); choose with --address"),
    }
}

/// A raw socket at the own address.
pub(super) fn socket(args: &EndArgs, local: Ipv6Addr) -> Result<RoceSocket> {
    open(args, local).map_err(|error| {
        let hint = match error.kind() {
            ErrorKind::PermissionDenied => "; this needs CAP_NET_RAW",
            ErrorKind::AddrNotAvailable => "; give one of this host's addresses with --address",
            _ => "",
        };
        anyhow!(error).context(format!("opening a raw socket at {local}{hint}"))
    })
}

fn open(args: &EndArgs, local: Ipv6Addr) -> std::io::Result<RoceSocket> {
    let socket = RoceSocket::open(local, args.traffic_class)?;
    let next_hop = args.next_hop.unwrap_or_default();
    let shape = match args.frames {
        Frames::Raw => return Ok(socket),
        Frames::Udp => Shape::Udp,
        Frames::Tagged => Shape::Tagged(next_hop),
        Frames::Padded => Shape::Padded(next_hop),
    };
    socket.with_frames(shape, local, args.traffic_class)
}

/// The QPN given, or a random one that is not reserved.
pub(super) fn qpn(args: &EndArgs) -> Result<u32> {
    match args.qpn {
        Qpn::Fixed(qpn) => Ok(qpn),
        // 0 and 1 are the management QPs, 0xffffff is the multicast QP; small QPNs are likely to be in use.
        Qpn::Random => Ok(0x100 + random()? % (0xff_ffff - 0x100)),
    }
}

/// 32 random bits.
pub(super) fn random() -> Result<u32> {
    Ok(u32::from_ne_bytes(octets()?))
}

/// Which queue pair of the host this process has.
pub(super) fn instance() -> Result<u64> {
    Ok(u64::from_ne_bytes(octets()?))
}

fn octets<const N: usize>() -> Result<[u8; N]> {
    let mut octets = [0; N];
    let mut source = File::open("/dev/urandom").context("opening /dev/urandom")?;
    source.read_exact(&mut octets).context("reading /dev/urandom")?;
    Ok(octets)
}
