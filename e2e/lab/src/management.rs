// SPDX-License-Identifier: Apache-2.0
//! The management link: a bridge in the machine's namespace with a veth pair to each node's, over IPv4, which the fabric does not use.
//!
//! It is for what connects to agents from outside the fabric, as over the management port of a switch: Prometheus scrapes them there, and
//! they connect to the controller there, over TLS. They have it as an interface that is not in the topology. So do hosts with agents of
//! their own.

use std::net::Ipv4Addr;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

use crate::{netns, sh};

/// Name of the link's end at a node.
const INTERFACE: &str = "mgmt0";
/// First octets of every lab's network: addresses for tests of devices (RFC 2544), which no other network has.
const NETWORK: [u8; 2] = [198, 18];
/// Last octet of the bridge's address, which is the controller's.
const CONTROLLER: u8 = 1;
/// That of the first node.
const FIRST: u8 = 2;
/// Nodes, and hosts with agents, at most.
const MAX_NODES: usize = 250;

/// A lab's management link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Management {
    /// Third octet of its network, no other lab's on this machine.
    number: u8,
}

impl Management {
    /// One whose network no other lab has, for so many nodes. Nothing exists of it yet. Call with [`crate::host::lock`] held until it does.
    ///
    /// # Errors
    /// Too many nodes, or every network is taken.
    pub(crate) fn choose(nodes: usize) -> Result<Self> {
        ensure!(nodes <= MAX_NODES, "{nodes} nodes, a management link has at most {MAX_NODES}");
        let present = sh::run(Command::new("ip").args(["-4", "-o", "addr", "show"])).context("listing addresses")?;
        Ok(Self { number: free(&present).context("every network of a management link is taken")? })
    }

    /// Makes the bridge.
    ///
    /// # Errors
    /// The kernel refuses.
    pub(crate) fn create(self) -> Result<()> {
        let bridge = self.bridge();
        let lines = [
            format!("link add name {bridge} type bridge"),
            format!("addr add {}/24 dev {bridge}", self.of_controller()),
            format!("link set dev {bridge} up"),
        ];
        sh::batch(Command::new("ip").args(["-batch", "-"]), &lines).context("making the management link")
    }

    /// Connects the nodes with these namespaces.
    ///
    /// # Errors
    /// The kernel refuses.
    pub(crate) fn connect(self, namespaces: &[String]) -> Result<()> {
        let bridge = self.bridge();
        let of_node = |(index, ns): (usize, &String)| {
            let end = format!("{bridge}-{index}");
            [
                format!("link add name {end} type veth peer name {INTERFACE} netns {ns}"),
                format!("link set dev {end} master {bridge} up"),
            ]
        };
        let lines: Vec<String> = namespaces.iter().enumerate().flat_map(of_node).collect();
        sh::batch(Command::new("ip").args(["-batch", "-"]), &lines).context("connecting the management link")?;
        for (index, ns) in namespaces.iter().enumerate() {
            let address = self.of_node(index).with_context(|| format!("{ns} is one node too many"))?;
            let lines = [format!("addr add {address}/24 dev {INTERFACE}"), format!("link set dev {INTERFACE} up")];
            let work = || sh::batch(Command::new("ip").args(["-batch", "-"]), &lines);
            netns::within(ns, work).with_context(|| format!("management link of {ns}"))?;
        }
        Ok(())
    }

    /// Removes the bridge; the pairs end with the namespaces.
    ///
    /// # Errors
    /// The kernel refuses.
    pub(crate) fn remove(self) -> Result<()> {
        let bridge = self.bridge();
        if sh::run(Command::new("ip").args(["-o", "link", "show", "dev", &bridge])).is_err() {
            return Ok(());
        }
        sh::run(Command::new("ip").args(["link", "del", "dev", &bridge]))
            .map(drop)
            .context("removing the management link")
    }

    /// Address of the controller.
    pub(crate) fn of_controller(self) -> Ipv4Addr {
        self.address(CONTROLLER)
    }

    /// Address of the node with this index.
    pub(crate) fn of_node(self, index: usize) -> Option<Ipv4Addr> {
        Some(self.address(FIRST.checked_add(u8::try_from(index).ok()?)?))
    }

    fn address(self, host: u8) -> Ipv4Addr {
        Ipv4Addr::new(NETWORK[0], NETWORK[1], self.number, host)
    }

    /// Interface names have at most 15 octets; those of the pairs' ends add a number.
    fn bridge(self) -> String {
        format!("cnpmgmt{}", self.number)
    }
}

/// The lowest number of which no interface has the bridge's address.
fn free(addresses: &str) -> Option<u8> {
    (0..=u8::MAX).find(|number| !addresses.contains(&format!(" {}/", Management { number: *number }.of_controller())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labs_do_not_share_a_network() {
        let none = "1: lo    inet 127.0.0.1/8 scope host lo\n";
        assert_eq!(free(none), Some(0));
        let two = format!(
            "{none}7: cnpmgmt0    inet 198.18.0.1/24 scope global cnpmgmt0\n9: x    inet 198.18.1.1/24 scope global x\n"
        );
        assert_eq!(free(&two), Some(2));
        assert_eq!(free("7: x    inet 198.18.0.11/24 scope global x\n"), Some(0));
        let longest = Management { number: 255 };
        assert!(format!("{}-{}", longest.bridge(), MAX_NODES).len() <= 15);
        assert!(usize::from(FIRST) + MAX_NODES <= 255);
    }
}
