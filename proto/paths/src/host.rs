// SPDX-License-Identifier: Apache-2.0
//! Programs that a host may send: their form, which edges enforce (decisions 5.8).

use canopy_model::host_programs::MOST_NODES;
use canopy_model::usid::Usid;

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

/// uNs of a program of a host of this fabric, at most: of its longest up-down path there and back, as a probe takes it; what an SRH has room for
/// where it is no Clos.
pub fn most_nodes(fabric: &Fabric) -> u8 {
    let there_and_back = |top: u32| u8::try_from(4 * u64::from(top) + 1).unwrap_or(MOST_NODES).min(MOST_NODES);
    fabric.top().map_or(MOST_NODES, there_and_back)
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
    use canopy_model::usid::UsidBlock;

    use super::*;

    fn checked(values: &[u16], most: u8) -> Result<(), Refused> {
        let program = Program::new(values.iter().map(|&value| Usid::try_from(value).unwrap()).collect()).unwrap();
        check(&program, &program.encode(UsidBlock::at_front("5f00::".parse().unwrap())), most)
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
