// SPDX-License-Identifier: Apache-2.0
//! Programs that a host may send: their form, which edges enforce (decisions 5.8).

use canopy_model::host_programs::MOST_NODES;
use canopy_model::usid::Usid;

use crate::detour::DETOUR;
use crate::fabric::Fabric;
use crate::program::{Header, Program};

/// Segments that nodes load, at most.
pub const MAX_SEGMENTS: usize = 3;
/// Times that a program leads from a node straight back to the one before it.
const MAX_TURNS: usize = 1;

/// Why the edge of a host refuses a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// A uA without a uN right in front of it.
    #[error("a uA stands right behind the uN of its node")]
    Adjacency,
    /// It does not end with a uN.
    #[error("a program of a host ends with a uN")]
    End,
    /// Too many uNs.
    #[error("{0} uNs: a program of a host of this fabric has at most {1}")]
    Nodes(usize, u8),
    /// Too many segments.
    #[error("{0} segments: the SRH of a host has at most {MAX_SEGMENTS}")]
    Segments(usize),
    /// It leads back more than once.
    #[error("it leads from a node straight back to the one before it more than once")]
    Turns,
}

/// uNs of a program of a host of this fabric, at most: of its longest path there and back, as a probe takes it. Where it is no Clos, paths have up to
/// [`DETOUR`] links more than the shortest.
pub fn most_nodes(fabric: &Fabric) -> u8 {
    let detour = if fabric.is_clos() { 0 } else { DETOUR as u32 };
    let nodes = 2 * (fabric.span() + detour) + 1;
    u8::try_from(nodes).unwrap_or(MOST_NODES).min(MOST_NODES)
}

/// Whether the edge lets a program in that begins there and ends where the inner destination is.
///
/// # Errors
/// Why it does not.
pub fn check(program: &Program, header: &Header, most_nodes: u8) -> Result<(), Refused> {
    let usids = program.usids();
    let is_node = |usid: &Usid| matches!(usid, Usid::Node(_));
    if usids.windows(2).any(|two| !is_node(&two[0]) && !is_node(&two[1]))
        || usids.first().is_some_and(|first| !is_node(first))
    {
        return Err(Refused::Adjacency);
    }
    if !usids.last().is_some_and(is_node) {
        return Err(Refused::End);
    }
    let nodes: Vec<&Usid> = usids.iter().filter(|usid| is_node(usid)).collect();
    if nodes.len() > usize::from(most_nodes) {
        return Err(Refused::Nodes(nodes.len(), most_nodes));
    }
    if header.segments.len() > MAX_SEGMENTS {
        return Err(Refused::Segments(header.segments.len()));
    }
    if nodes.windows(3).filter(|three| three[0] == three[2]).count() > MAX_TURNS {
        return Err(Refused::Turns);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use canopy_model::ids::{NodeId, PortIndex};
    use canopy_model::usid::UsidBlock;

    use super::*;
    use crate::fabric::{Ends, PortOf};

    fn block() -> UsidBlock {
        UsidBlock::at_front("5f00::".parse().unwrap())
    }

    /// Nodes with a host each, and links between nodes.
    fn fabric(hosts: &[u64], links: &[(u64, u64)]) -> Fabric {
        let mut ports = std::collections::BTreeMap::new();
        let mut port = |node: u64| {
            let next = ports.entry(node).or_insert(0u64);
            *next += 1;
            PortOf { node: NodeId::new("node", node).unwrap(), port: PortIndex::new("port", *next).unwrap() }
        };
        let mut all: Vec<(Ends, u32)> = hosts.iter().map(|node| (Ends::Host(port(*node)), 9000)).collect();
        all.extend(links.iter().map(|(a, b)| (Ends::Nodes(port(*a), port(*b)), 9000)));
        let nodes: std::collections::BTreeSet<u64> =
            links.iter().flat_map(|(a, b)| [*a, *b]).chain(hosts.iter().copied()).collect();
        Fabric::new(block(), nodes.into_iter().map(|node| NodeId::new("node", node).unwrap()), all).unwrap()
    }

    /// Catches a bound by tiers alone, which a chain or ring of leaves and spines has too, and one that a node without hosts raises.
    #[test]
    fn programs_are_as_long_as_the_longest_path_there_and_back() {
        let clos = [(1, 11), (1, 12), (2, 11), (2, 12), (3, 11), (3, 12)];
        assert_eq!(most_nodes(&fabric(&[1, 2, 3], &clos)), 5);
        assert_eq!(most_nodes(&fabric(&[1, 2], &clos)), 5, "a leaf without hosts");
        assert_eq!(most_nodes(&fabric(&[1], &clos)), 1);
        assert_eq!(
            most_nodes(&fabric(&[1, 2, 3], &[clos.as_slice(), &[(21, 31), (22, 31)]].concat())),
            5,
            "a plane without hosts"
        );
        let pods = [(1, 11), (2, 11), (3, 12), (4, 12), (11, 21), (12, 21)];
        assert_eq!(most_nodes(&fabric(&[1, 2, 3, 4], &pods)), 9);
        let chain = [(1, 11), (2, 11), (2, 12), (3, 12), (3, 13), (4, 13)];
        assert_eq!(most_nodes(&fabric(&[1, 2, 3, 4], &chain)), 17, "6 links and a detour of 2");
        assert_eq!(most_nodes(&fabric(&[1, 2, 3], &[(1, 2), (2, 3), (3, 1)])), 7);
        let line: Vec<(u64, u64)> = (1..20).map(|node| (node, node + 1)).collect();
        assert_eq!(most_nodes(&fabric(&[1, 20], &line)), MOST_NODES);
    }

    fn checked(values: &[u16], most: u8) -> Result<(), Refused> {
        let program = Program::new(values.iter().map(|&value| Usid::try_from(value).unwrap()).collect()).unwrap();
        check(&program, &program.encode(block()), most)
    }

    #[test]
    fn each_rule_refuses_what_breaks_it_alone() {
        assert_eq!(checked(&[1, 0x101, 2], 5), Ok(()));
        assert_eq!(checked(&[1, 0xE001, 0x101, 0xE002, 2], 5), Ok(()));
        assert_eq!(checked(&[1, 0x101, 2, 0x101, 1], 5), Ok(()), "a probe");
        assert_eq!(checked(&[1, 0x101, 2, 0x101, 1], 4), Err(Refused::Nodes(5, 4)));
        assert_eq!(checked(&[1, 0x101, 1, 0x101, 2], 5), Err(Refused::Turns));
        assert_eq!(checked(&[0xE001, 0xE002, 2], 5), Err(Refused::Adjacency));
        assert_eq!(checked(&[0xE001, 2], 5), Err(Refused::Adjacency));
        assert_eq!(checked(&[1, 0xE001, 0xE002, 2], 5), Err(Refused::Adjacency));
        assert_eq!(checked(&[1, 0x101, 2, 0xE003], 5), Err(Refused::End));
        assert_eq!(checked(&[1, 0x101, 2, 0xF100], 5), Err(Refused::End));
        let long = |len: u16| (1..=len).collect::<Vec<_>>();
        assert_eq!((checked(&long(24), 24), checked(&long(25), 255)), (Ok(()), Err(Refused::Segments(4))));
    }
}
