// SPDX-License-Identifier: Apache-2.0
//! Path programs that hosts send: who may, and where each may end (decisions 5.8).

use std::collections::BTreeSet;
use std::sync::Arc;

use ipnet::Ipv6Net;

use crate::FieldError;
use crate::ids::{NodeId, PortIndex};

/// Minor version of the southbound contract from which on edges let in programs of hosts, and other nodes forward them.
pub const MINOR_VERSION: u32 = 10;

/// Octets of a set of all uNs.
const UN_OCTETS: usize = 0xE000 / 8;

/// uNs of a program of a host, at most: those of a destination and three segments.
pub const MOST_NODES: u8 = 24;

/// Prefixes of hosts in their order, each with a node that it is behind: one that is behind several nodes is there once for each, at most
/// [`MAX_HOST_LINKS`](crate::topology::MAX_HOST_LINKS) times. No two different ones have an address in common.
pub type PathEnds = Arc<[(Ipv6Net, NodeId)]>;

/// A set of uNs, as bits: of the octet `N / 8`, the bit `N % 8` stands for the uN `N`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Uns(Arc<[u8]>);

impl Uns {
    /// The set with these bits.
    ///
    /// # Errors
    /// A bit is set beyond the last uN, or that of 0.
    pub fn of_bits(field: &str, mut bits: Vec<u8>) -> Result<Self, FieldError> {
        bits.truncate(bits.iter().rposition(|octet| *octet != 0).map_or(0, |last| last + 1));
        if bits.len() > UN_OCTETS || bits.first().is_some_and(|octet| octet & 1 == 1) {
            return Err(FieldError::new(
                field,
                format!("has a bit that stands for no uN: use bits 1..={}", 8 * UN_OCTETS - 1),
            ));
        }
        Ok(Self(bits.into()))
    }

    /// As many octets as its highest uN needs.
    pub fn bits(&self) -> &[u8] {
        &self.0
    }

    /// Whether the uN is in it.
    pub fn has(&self, un: NodeId) -> bool {
        let at = usize::from(un.get());
        self.0.get(at / 8).is_some_and(|octet| octet >> (at % 8) & 1 == 1)
    }
}

impl FromIterator<NodeId> for Uns {
    fn from_iter<I: IntoIterator<Item = NodeId>>(uns: I) -> Self {
        let mut bits = Vec::new();
        for un in uns {
            let at = usize::from(un.get());
            bits.resize(bits.len().max(at / 8 + 1), 0);
            bits[at / 8] |= 1 << (at % 8);
        }
        Self(bits.into())
    }
}

/// What a node has to know where some host of the domain may send path programs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostPrograms {
    /// Ports of the node whose hosts may.
    pub ports: BTreeSet<PortIndex>,
    /// Where programs end, by the inner destination. Empty where no host of the node may send any.
    pub ends: PathEnds,
    /// Nodes that programs may lead over. Empty where no host of the node may send any.
    pub nodes: Uns,
    /// uNs of a program, at most, 1 to 24.
    pub most_nodes: u8,
}

impl HostPrograms {
    /// What a node has to know none of whose own hosts may send programs.
    pub fn of_others(most_nodes: u8) -> Self {
        Self { ports: BTreeSet::new(), ends: PathEnds::default(), nodes: Uns::default(), most_nodes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_has_what_it_was_made_of_and_no_bit_that_is_no_un() {
        let id = |number: u64| NodeId::new("node", number).unwrap();
        let set: Uns = [1, 7, 8, 0xDFFF].map(id).into_iter().collect();
        assert_eq!((set.bits().len(), set.bits()[0], set.bits()[1]), (UN_OCTETS, 0x82, 1));
        assert!(
            [1, 7, 8, 0xDFFF].into_iter().all(|un| set.has(id(un)))
                && ![2, 9, 0xDFFE].into_iter().any(|un| set.has(id(un)))
        );
        assert_eq!(Uns::of_bits("nodes", set.bits().to_vec()), Ok(set));
        assert_eq!(Uns::of_bits("nodes", vec![2, 0, 0]).unwrap().bits(), [2]);
        assert_eq!(Uns::of_bits("nodes", vec![1]).unwrap_err().field, "nodes");
        assert_eq!(Uns::of_bits("nodes", vec![0xFF; UN_OCTETS + 1]).unwrap_err().field, "nodes");
        assert!(!Uns::default().has(id(1)));
    }
}
