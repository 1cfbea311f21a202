// SPDX-License-Identifier: Apache-2.0
//! The interface to pace.

use std::fs;
use std::path::Path;

use anyhow::bail;
use canopy_units::Rate;
use netlink_packet_route::link::{LinkAttribute, LinkLayerType, LinkMessage};

use super::netlink::Netlink;

/// An Ethernet interface.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Interface {
    pub(crate) index: u32,
    /// In octets.
    pub(crate) mtu: u32,
    /// Its speed, if the driver reports it.
    pub(crate) speed: Option<Rate>,
}

/// Reads the properties of an interface.
///
/// # Errors
/// There is no such interface, or its packets have no Ethernet header.
pub(crate) async fn interface(name: &str) -> anyhow::Result<Interface> {
    let link = Netlink::open()?.link(name).await?;
    if link.header.link_layer_type != LinkLayerType::Ether {
        bail!("interface: {name} is not an Ethernet interface: its packets have other headers");
    }
    let mtu = link.attributes.iter().find_map(|attribute| match attribute {
        LinkAttribute::Mtu(mtu) => Some(*mtu),
        _ => None,
    });
    let Some(mtu) = mtu else { bail!("interface: the kernel does not report the MTU of {name}") };
    Ok(Interface { index: link.header.index, mtu, speed: speed(name, &link) })
}

/// Reads sysfs, which reports the speed without an ioctl. In another network namespace sysfs may show other
/// interfaces.
fn speed(name: &str, link: &LinkMessage) -> Option<Rate> {
    let dir = Path::new("/sys/class/net").join(name);
    let read = |file: &str| fs::read_to_string(dir.join(file)).ok().map(|text| text.trim().to_owned());
    let address = link.attributes.iter().find_map(|attribute| match attribute {
        LinkAttribute::Address(octets) => Some(octets.iter().map(|o| format!("{o:02x}")).collect::<Vec<_>>().join(":")),
        _ => None,
    });
    let same = read("ifindex")? == link.header.index.to_string() && read("address") == address;
    // The value is -1, or an error, if there is no carrier.
    let mbps = read("speed")?.parse::<u64>().ok().filter(|mbps| same && *mbps > 0)?;
    Some(Rate::from_bps(mbps * 1_000_000))
}
