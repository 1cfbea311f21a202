// SPDX-License-Identifier: Apache-2.0
//! The address plan: every SID and address of a domain follows from a node's number.
//!
//! ```text
//! block 5f00::/32 | node (16) | function (16) | argument
//!   uN of node n            5f00:0:<n>::/48
//!   uA of port p at n       5f00:0:<n>:<e000+p>::/64
//!   the same, local to n    5f00:0:<e000+p>::/48                   (RFC 9800 local block; the prefix is the same at every node)
//!   service s at n          5f00:0:<n>:<s>::/64                    s in f100..=ffff
//!   End.MT at n             5f00:0:<n>:f001::/64
//!   Replication-SID, tree t 5f00:0:<n>:f002:<t hi>:<t lo>::/96     (RFC 9524 End.Replicate)
//! node address              fcff:0:0:<n>::1       outside the block: no argument may follow it
//! group g as IP multicast   ff3e::8000:0 + g      the group identifiers that RFC 4607 leaves to hosts
//! ```

use std::net::Ipv6Addr;

use ipnet::Ipv6Net;
use serde::{Deserialize, Serialize};

use crate::FieldErrors;
use crate::ids::{NodeId, PortIndex, ServiceId, TreeId};
use crate::usid::{Usid, UsidBlock};

/// Function of the End.MT SID (draft-li, TBD1 behavior 0x8001 by default).
pub const FUNCTION_END_MT: u16 = 0xF001;
/// Function of every Replication-SID (RFC 9524).
pub const FUNCTION_REPLICATE: u16 = 0xF002;

/// The prefixes that a domain's addresses are allocated from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(default, deny_unknown_fields)]
pub struct AddressPlan {
    /// SRv6 block, a /32; nodes' locators are its /48s.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub block: Ipv6Net,
    /// Prefix of the node addresses, a /48; node n is `<prefix>:<n>::1`.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub node_prefix: Ipv6Net,
    /// Prefix that Proxy Addresses are allocated from; no route leads to it.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub proxy_prefix: Ipv6Net,
    /// Prefix of the groups' addresses in IP multicast replication, within ff00::/8; the group's number goes in the low bits.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub multicast_prefix: Ipv6Net,
}

impl Default for AddressPlan {
    fn default() -> Self {
        let net = |segments, len| Ipv6Net::new_assert(Ipv6Addr::from(segments), len);
        Self {
            block: net([0x5f00u16, 0, 0, 0, 0, 0, 0, 0], 32),
            node_prefix: net([0xfcff, 0, 0, 0, 0, 0, 0, 0], 48),
            proxy_prefix: net([0xfcfe, 0, 0, 0, 0, 0, 0, 0], 64),
            multicast_prefix: net([0xff3e, 0, 0, 0, 0, 0, 0x8000, 0], 97),
        }
    }
}

impl AddressPlan {
    /// Checks lengths and that the prefixes do not overlap.
    ///
    /// # Errors
    /// Every invalid field.
    pub fn validate(&self) -> Result<(), FieldErrors> {
        let mut errors = FieldErrors::default();
        if let Err(e) = UsidBlock::new("addressing.block", self.block) {
            errors.0.push(e);
        }
        if self.node_prefix.prefix_len() != 48 {
            errors.push("addressing.node_prefix", format!("{} must be a /48", self.node_prefix));
        }
        if !(48..=112).contains(&self.proxy_prefix.prefix_len()) {
            errors.push("addressing.proxy_prefix", format!("{} must be between /48 and /112", self.proxy_prefix));
        }
        if !self.multicast_prefix.addr().is_multicast() || !(16..=112).contains(&self.multicast_prefix.prefix_len()) {
            let detail = format!("{} must be within ff00::/8, between /16 and /112", self.multicast_prefix);
            errors.push("addressing.multicast_prefix", detail);
        } else if self.multicast_prefix.addr().segments()[0] & 0xF < 3 {
            // Interface-local and link-local packets are never forwarded (RFC 4291 section 2.7).
            let detail =
                format!("{} has a scope that no router forwards: use for example ff3e::", self.multicast_prefix);
            errors.push("addressing.multicast_prefix", detail);
        }
        let overlap = |a: &Ipv6Net, b: &Ipv6Net| a.contains(b) || b.contains(a);
        if overlap(&self.block, &self.node_prefix) {
            errors.push(
                "addressing.node_prefix",
                "overlaps the SRv6 block: a non-zero argument there would be read as a next uSID",
            );
        }
        if overlap(&self.block, &self.proxy_prefix) || overlap(&self.node_prefix, &self.proxy_prefix) {
            errors.push("addressing.proxy_prefix", "overlaps the SRv6 block or the node prefix");
        }
        errors.into_result()
    }

    /// What is in front of the uSIDs.
    pub fn usid_block(&self) -> UsidBlock {
        UsidBlock::at_front(self.block.addr())
    }

    /// uN of `node` (End with NEXT-CSID), the node's /48 locator.
    pub fn un(&self, node: NodeId) -> Ipv6Net {
        Ipv6Net::new_assert(self.sid(node, [0, 0, 0, 0, 0]), 48)
    }

    /// uA of `port` at `node` (End.X with NEXT-CSID), behind the node's uN.
    pub fn ua(&self, node: NodeId, port: PortIndex) -> Ipv6Net {
        self.behind(node, Usid::Adjacency(port))
    }

    /// uA of `port` as a local SID (RFC 9800 local block): each node has its own behind the same prefix.
    pub fn ua_local(&self, port: PortIndex) -> Ipv6Net {
        let address = self.usid_block().address([Usid::Adjacency(port)]);
        Ipv6Net::new_assert(address, 48)
    }

    /// SID of `service` at edge `node`.
    pub fn service(&self, node: NodeId, service: ServiceId) -> Ipv6Net {
        self.behind(node, Usid::Service(service))
    }

    /// End.MT SID of edge `node`; one serves every group.
    pub fn end_mt(&self, node: NodeId) -> Ipv6Addr {
        self.sid(node, [FUNCTION_END_MT, 0, 0, 0, 0])
    }

    /// Replication-SID of `tree` at `node` (RFC 9524).
    pub fn replication(&self, node: NodeId, tree: TreeId) -> Ipv6Addr {
        let t = tree.get();
        self.sid(node, [FUNCTION_REPLICATE, (t >> 16) as u16, (t & 0xFFFF) as u16, 0, 0])
    }

    /// The node's own address (loopback), outside the SID block.
    pub fn node_address(&self, node: NodeId) -> Ipv6Addr {
        let mut s = self.node_prefix.addr().segments();
        s[3] = node.get();
        s[7] = 1;
        Ipv6Addr::from(s)
    }

    /// The node that has this address of its own.
    pub fn node_of(&self, address: Ipv6Addr) -> Option<NodeId> {
        let node = NodeId::new("node", address.segments()[3].into()).ok()?;
        (self.node_address(node) == address).then_some(node)
    }

    /// Segment List of a group's packets in wire order (decisions 2.2): the Proxy Address and the tree's first SID, which is
    /// `multicast`, the group's address with IP multicast between nodes, or else the headend's Replication-SID.
    pub fn segments(
        &self,
        proxy: Ipv6Addr,
        multicast: Option<Ipv6Addr>,
        headend: NodeId,
        tree: TreeId,
    ) -> Vec<Ipv6Addr> {
        vec![proxy, multicast.unwrap_or_else(|| self.replication(headend, tree))]
    }

    /// The link-local address that `node` has on `port`: what neighbours use as next hop.
    pub fn link_local(&self, node: NodeId, port: PortIndex) -> Ipv6Addr {
        Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, node.get(), port.get())
    }

    /// The gateway address that hosts use on every host port.
    pub fn host_gateway(&self) -> Ipv6Addr {
        Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1)
    }

    /// The `index`-th Proxy Address, 1-based; `None` past the prefix.
    pub fn proxy(&self, index: u64) -> Option<Ipv6Addr> {
        numbered(self.proxy_prefix, index)
    }

    /// The IP multicast address of the group that holds the `index`-th Proxy Address, 1-based; `None` past the prefix.
    pub fn multicast(&self, index: u64) -> Option<Ipv6Addr> {
        numbered(self.multicast_prefix, index)
    }

    fn behind(&self, node: NodeId, local: Usid) -> Ipv6Net {
        Ipv6Net::new_assert(self.usid_block().address([Usid::Node(node), local]), 64)
    }

    fn sid(&self, node: NodeId, tail: [u16; 5]) -> Ipv6Addr {
        let b = self.block.addr().segments();
        Ipv6Addr::from([b[0], b[1], node.get(), tail[0], tail[1], tail[2], tail[3], tail[4]])
    }
}

/// The `index`-th address of `prefix`, 1-based.
fn numbered(prefix: Ipv6Net, index: u64) -> Option<Ipv6Addr> {
    let host_bits = 128 - u32::from(prefix.prefix_len());
    if index == 0 || (host_bits < 64 && index >= 1 << host_bits) {
        return None;
    }
    Some(Ipv6Addr::from(u128::from(prefix.network()) | u128::from(index)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sids_are_those_of_the_plan() {
        let plan = AddressPlan::default();
        plan.validate().unwrap();
        let n = NodeId::new("id", 0x12).unwrap();
        assert_eq!(plan.un(n).to_string(), "5f00:0:12::/48");
        assert_eq!(plan.end_mt(n).to_string(), "5f00:0:12:f001::");
        assert_eq!(plan.ua(n, PortIndex::new("p", 3).unwrap()).to_string(), "5f00:0:12:e003::/64");
        assert_eq!(plan.ua_local(PortIndex::new("p", 3).unwrap()).to_string(), "5f00:0:e003::/48");
        let service = ServiceId::new("service", 0xF100).unwrap();
        assert_eq!(plan.service(n, service).to_string(), "5f00:0:12:f100::/64");
        let t = TreeId::new("tree", 0x0001_0002).unwrap();
        assert_eq!(plan.replication(n, t), "5f00:0:12:f002:1:2::".parse::<Ipv6Addr>().unwrap());
        assert_eq!(plan.node_address(n), "fcff:0:0:12::1".parse::<Ipv6Addr>().unwrap());
        assert_eq!(plan.node_of("fcff:0:0:12::1".parse().unwrap()), Some(n));
        for other in ["fcff:0:0:12::2", "fcff:0:0:0::1", "fcfe:0:0:12::1"] {
            assert_eq!(plan.node_of(other.parse().unwrap()), None, "{other}");
        }
        assert_eq!(plan.proxy(7), Some("fcfe::7".parse().unwrap()));
        assert_eq!(plan.proxy(0), None);
        assert_eq!(plan.multicast(7), Some("ff3e::8000:7".parse().unwrap()));
        assert_eq!(
            (plan.multicast(0), plan.multicast(1 << 31)),
            (None, None),
            "never an address that RFC 4607 reserves"
        );
    }

    #[test]
    fn a_multicast_prefix_is_multicast_and_can_be_routed() {
        let problem = |net: &str| {
            let plan = AddressPlan { multicast_prefix: net.parse().unwrap(), ..AddressPlan::default() };
            plan.validate().err().map(|e| e.to_string())
        };
        assert_eq!(problem("ff38:30:2001:db8::/96"), None);
        for bad in ["2001:db8::/96", "ff02::/96", "ff31::/96", "ff3e::/120", "ff00::/8"] {
            assert!(problem(bad).unwrap().contains("addressing.multicast_prefix"), "{bad}");
        }
    }

    #[test]
    fn overlapping_prefixes_are_refused() {
        let plan = AddressPlan { node_prefix: "5f00:0:1::/48".parse().unwrap(), ..AddressPlan::default() };
        assert!(plan.validate().unwrap_err().to_string().contains("node_prefix"));
    }
}
