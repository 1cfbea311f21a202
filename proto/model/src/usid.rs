// SPDX-License-Identifier: Apache-2.0
//! The number plan of uSIDs: what each 16-bit value means, under a block of 32 bits (RFC 9800 section 4.1).
//!
//! ```text
//! 0x0000            ends a program: the next segment, or the inner packet
//! 0x0001..=0xDFFF   uN of a node of the fabric
//! 0xE001..=0xEFFF   uA of port 1..=4095, local to its node
//! 0xF000..=0xF0FF   reserved; 0xF001 is End.MT and 0xF002 End.Replicate, each behind a uN
//! 0xF100..=0xFFFF   a service, local to its edge
//! ```

use std::net::Ipv6Addr;

use ipnet::Ipv6Net;

use crate::FieldError;
use crate::ids::{NodeId, PortIndex, ServiceId};

/// Minor version of the southbound contract from which on nodes forward by their path SIDs.
pub const MINOR_VERSION: u32 = 8;

/// uSIDs in one address: 128 bits less the block, by 16.
pub const SLOTS: usize = 6;

/// First uA; the port index is added.
const UA_BASE: u16 = 0xE000;

/// One uSID.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Usid {
    /// uN: the node.
    Node(NodeId),
    /// uA: the link at a port of the node that reads it.
    Adjacency(PortIndex),
    /// A service of the edge that reads it.
    Service(ServiceId),
}

/// A 16-bit value that is not a uSID.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotAUsid {
    /// 0.
    #[error("0 is not a uSID: it ends a program")]
    End,
    /// A value that the number plan keeps back.
    #[error("{0:#06x} is reserved: uSIDs are 0x0001..0xdfff (uN), 0xe001..0xefff (uA) and 0xf100..0xffff (services)")]
    Reserved(u16),
}

impl Usid {
    /// The 16 bits of the address.
    pub fn get(self) -> u16 {
        match self {
            Self::Node(node) => node.get(),
            Self::Adjacency(port) => UA_BASE + port.get(),
            Self::Service(service) => service.get(),
        }
    }

    /// Whether each node has its own meaning of it.
    pub fn is_local(self) -> bool {
        !matches!(self, Self::Node(_))
    }
}

impl TryFrom<u16> for Usid {
    type Error = NotAUsid;

    fn try_from(value: u16) -> Result<Self, NotAUsid> {
        let reserved = |_| NotAUsid::Reserved(value);
        let of = |number: u16| u64::from(number);
        match value {
            0 => Err(NotAUsid::End),
            0xF000.. => ServiceId::new("usid", of(value)).map(Self::Service).map_err(reserved),
            UA_BASE.. => PortIndex::new("usid", of(value - UA_BASE)).map(Self::Adjacency).map_err(reserved),
            _ => NodeId::new("usid", of(value)).map(Self::Node).map_err(reserved),
        }
    }
}

/// As in an address, with its kind: `uN 0x0012`.
impl std::fmt::Display for Usid {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let kind = match self {
            Self::Node(_) => "uN",
            Self::Adjacency(_) => "uA",
            Self::Service(_) => "service",
        };
        write!(f, "{kind} {:#06x}", self.get())
    }
}

/// The 32 bits in front of the uSIDs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct UsidBlock(u32);

impl UsidBlock {
    /// The block of a prefix.
    ///
    /// # Errors
    /// Names `field` unless the prefix is a /32.
    pub fn new(field: &str, prefix: Ipv6Net) -> Result<Self, FieldError> {
        if prefix.prefix_len() == 32 {
            return Ok(Self::at_front(prefix.addr()));
        }
        let detail = format!("{prefix} must be a /32: uSIDs are 16 bits behind a 32-bit block");
        Err(FieldError::new(field, detail))
    }

    /// The block that an address is in.
    pub fn at_front(address: Ipv6Addr) -> Self {
        let [a, b, ..] = address.segments();
        Self(u32::from(a) << 16 | u32::from(b))
    }

    /// The address of the first [`SLOTS`] of these uSIDs, followed by zeros.
    pub fn address(self, usids: impl IntoIterator<Item = Usid>) -> Ipv6Addr {
        let mut segments = [(self.0 >> 16) as u16, self.0 as u16, 0, 0, 0, 0, 0, 0];
        for (slot, usid) in segments[2..].iter_mut().zip(usids) {
            *slot = usid.get();
        }
        Ipv6Addr::from(segments)
    }

    /// What is behind the block; `None` if `address` is outside it.
    pub fn slots(self, address: Ipv6Addr) -> Option<[u16; SLOTS]> {
        let [_, _, slots @ ..] = address.segments();
        (Self::at_front(address) == self).then_some(slots)
    }
}

impl std::fmt::Display for UsidBlock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/32", self.address([]))
    }
}

/// A part of the number plan from which numbers are given in ascending order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NumberSpace {
    /// uNs of the domain.
    Nodes,
    /// uAs of one node.
    Adjacencies,
    /// Services of one edge.
    Services,
}

/// Every number of a space is in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("all {} {} are in use", space.size(), space.name())]
pub struct Exhausted {
    /// The space.
    pub space: NumberSpace,
}

impl NumberSpace {
    /// How many uSIDs it has.
    pub fn size(self) -> usize {
        let range = match self {
            Self::Nodes => NodeId::RANGE,
            Self::Adjacencies => PortIndex::RANGE,
            Self::Services => ServiceId::RANGE,
        };
        (range.end() - range.start() + 1) as usize
    }

    fn name(self) -> &'static str {
        match self {
            Self::Nodes => "uNs of the domain",
            Self::Adjacencies => "uAs of the node",
            Self::Services => "service uSIDs of the edge",
        }
    }

    /// The uSID behind `used` others.
    ///
    /// # Errors
    /// The space, if it has no more.
    pub fn after(self, used: usize) -> Result<Usid, Exhausted> {
        let number = |first: u64| first + used as u64;
        let usid = match self {
            Self::Nodes => NodeId::new("uN", number(*NodeId::RANGE.start())).map(Usid::Node),
            Self::Adjacencies => PortIndex::new("uA", number(*PortIndex::RANGE.start())).map(Usid::Adjacency),
            Self::Services => ServiceId::new("service", number(*ServiceId::RANGE.start())).map(Usid::Service),
        };
        usid.map_err(|_| Exhausted { space: self })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Catches a boundary of the plan that is off by one, and a value that reads as another than it is written.
    #[test]
    fn every_value_is_what_the_plan_has() {
        for value in 0..=u16::MAX {
            let read = Usid::try_from(value);
            match value {
                0 => assert_eq!(read, Err(NotAUsid::End)),
                1..=0xDFFF => assert!(matches!(read, Ok(Usid::Node(n)) if n.get() == value)),
                0xE000 | 0xF000..=0xF0FF => assert_eq!(read, Err(NotAUsid::Reserved(value))),
                0xE001..=0xEFFF => assert!(matches!(read, Ok(Usid::Adjacency(p)) if p.get() == value - 0xE000)),
                0xF100..=0xFFFF => assert!(matches!(read, Ok(Usid::Service(s)) if s.get() == value)),
            }
            assert!(read.is_err() || read.unwrap().get() == value);
        }
    }

    /// Catches a space that gives a number of the next one, or one fewer than it has.
    #[test]
    fn an_exhausted_space_is_named() {
        for (space, last, text) in [
            (NumberSpace::Nodes, 0xDFFF, "all 57343 uNs of the domain are in use"),
            (NumberSpace::Adjacencies, 0xEFFF, "all 4095 uAs of the node are in use"),
            (NumberSpace::Services, 0xFFFF, "all 3840 service uSIDs of the edge are in use"),
        ] {
            assert_eq!(space.after(space.size() - 1).unwrap().get(), last);
            assert_eq!(space.after(space.size()).unwrap_err().to_string(), text);
        }
        assert_eq!(NumberSpace::Services.after(0).unwrap().get(), 0xF100);
    }

    #[test]
    fn slots_are_those_behind_the_block() {
        let block = UsidBlock::new("block", "5f00:1::/32".parse().unwrap()).unwrap();
        let usids = [0x100, 0xE003, 0xF100].map(|value| Usid::try_from(value).unwrap());
        let address = block.address(usids);
        assert_eq!(address, "5f00:1:100:e003:f100::".parse::<Ipv6Addr>().unwrap());
        assert_eq!(block.slots(address), Some([0x100, 0xE003, 0xF100, 0, 0, 0]));
        assert_eq!(block.slots("5f00:0:100::".parse().unwrap()), None);
        assert_eq!(block.to_string(), "5f00:1::/32");
        let e = UsidBlock::new("addressing.block", "5f00::/48".parse().unwrap()).unwrap_err();
        assert_eq!(e.to_string(), "addressing.block: 5f00::/48 must be a /32: uSIDs are 16 bits behind a 32-bit block");
    }
}
