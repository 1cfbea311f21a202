// SPDX-License-Identifier: Apache-2.0
//! Programs of uSIDs, and the outer header that carries one (H.Encaps.Red, RFC 8986 section 5.2, with NEXT-CSID of RFC 9800).
//!
//! ```text
//! up to 6 uSIDs        DA = B:1:2:3:4:5:6                     no SRH
//! more                 DA = B:1:2:3:4:5:6                     SRH: Segment List[1] = B:7:8:9:10:11:12
//!                                                                  Segment List[0] = B:13::         Segments Left = 2
//! ```
//!
//! The SRH is reduced: the first address is in the destination only, so that Segments Left is Last Entry + 1 at the source.

use std::net::Ipv6Addr;

use canopy_model::usid::{SLOTS, Usid, UsidBlock};
use canopy_units::Octets;

/// uSIDs of one program, at most.
pub const MAX_USIDS: usize = 96;
/// Octets of the outer IPv6 header.
const IPV6: u64 = 40;
/// Octets of an SRH without segments, and of each segment.
const SRH: u64 = 8;
const SEGMENT: u64 = 16;

/// An ordered list of uSIDs that some node can carry out: 1 to [`MAX_USIDS`], a service only as the last one and behind the uN of its edge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program(Vec<Usid>);

/// A list of uSIDs that is not a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotAProgram {
    /// No uSID.
    #[error("a program has at least one uSID")]
    Empty,
    /// Too many uSIDs.
    #[error("{0} uSIDs: a program has at most {MAX_USIDS}")]
    TooLong(usize),
    /// A service before the end.
    #[error("uSID {0}: a service ends a program")]
    ServiceInside(usize),
    /// A service without the uN of its edge.
    #[error("uSID {0}: a service stands behind the uN of its edge")]
    ServiceAlone(usize),
}

impl Program {
    /// Checks the list.
    ///
    /// # Errors
    /// What is wrong; positions count from 1.
    pub fn new(usids: Vec<Usid>) -> Result<Self, NotAProgram> {
        if usids.is_empty() {
            return Err(NotAProgram::Empty);
        }
        if usids.len() > MAX_USIDS {
            return Err(NotAProgram::TooLong(usids.len()));
        }
        if let Some(at) = usids.iter().position(|usid| matches!(usid, Usid::Service(_))) {
            if at + 1 < usids.len() {
                return Err(NotAProgram::ServiceInside(at + 1));
            }
            if at == 0 || usids[at - 1].is_local() {
                return Err(NotAProgram::ServiceAlone(at + 1));
            }
        }
        Ok(Self(usids))
    }

    /// The uSIDs in the order in which nodes read them.
    pub fn usids(&self) -> &[Usid] {
        &self.0
    }

    /// The header with which a source sends it.
    pub fn encode(&self, block: UsidBlock) -> Header {
        let mut addresses = Vec::new();
        let mut rest = self.0.as_slice();
        while !rest.is_empty() {
            let (head, tail) = rest.split_at(first_address(rest));
            addresses.push(block.address(head.iter().copied()));
            rest = tail;
        }
        let destination = addresses.remove(0);
        addresses.reverse();
        // At most MAX_USIDS / (SLOTS - 1) addresses.
        Header { destination, segments_left: addresses.len() as u8, segments: addresses }
    }
}

/// How many of these uSIDs the next address takes. A uSID that is local stays in the address of the uN in front of it: together they are
/// one SID, `B:N:F::/64`.
fn first_address(usids: &[Usid]) -> usize {
    match usids.get(SLOTS) {
        Some(next) if next.is_local() && !usids[SLOTS - 1].is_local() => SLOTS - 1,
        _ => usids.len().min(SLOTS),
    }
}

/// The fields of an outer header that lead a packet.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Header {
    /// Destination Address.
    pub destination: Ipv6Addr,
    /// Segment List of the SRH in the order of the wire, the last segment first; empty: there is no SRH.
    pub segments: Vec<Ipv6Addr>,
    /// Segments Left: how many of the segments are not loaded yet.
    pub segments_left: u8,
}

impl Header {
    /// Octets that it adds to a packet.
    pub fn overhead(&self) -> Octets {
        let srh = if self.segments.is_empty() { 0 } else { SRH + SEGMENT * self.segments.len() as u64 };
        Octets(IPV6 + srh)
    }

    /// The header after a node has carried out its first uSID: shifted, or with the next segment, and without the SRH when that was the
    /// last one (PSP). `None`: the program has ended, and the node removes the header (USD).
    pub fn carried_out(&self) -> Option<Self> {
        let [block_high, block_low, _, rest @ ..] = self.destination.segments();
        if rest != [0; SLOTS - 1] {
            let [a, b, c, d, e] = rest;
            let destination = Ipv6Addr::from([block_high, block_low, a, b, c, d, e, 0]);
            return Some(Self { destination, ..self.clone() });
        }
        let segments_left = self.segments_left.checked_sub(1)?;
        let destination = *self.segments.get(usize::from(segments_left))?;
        let segments = if segments_left == 0 { Vec::new() } else { self.segments.clone() };
        Some(Self { destination, segments, segments_left })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(values: &[u16]) -> Result<Program, NotAProgram> {
        Program::new(values.iter().map(|&value| Usid::try_from(value).unwrap()).collect())
    }

    fn block() -> UsidBlock {
        UsidBlock::at_front("5f00::".parse().unwrap())
    }

    /// Catches a packing that is off by one slot, and a segment list in the order of the path.
    #[test]
    fn six_usids_fit_and_the_seventh_needs_an_srh() {
        let six = program(&[1, 2, 3, 4, 5, 6]).unwrap().encode(block());
        assert_eq!(six.destination.to_string(), "5f00:0:1:2:3:4:5:6");
        assert_eq!((six.segments.len(), six.segments_left, six.overhead()), (0, 0, Octets(40)));
        let seven = program(&[1, 2, 3, 4, 5, 6, 7]).unwrap().encode(block());
        assert_eq!((seven.destination, seven.segments_left, seven.overhead()), (six.destination, 1, Octets(64)));
        assert_eq!(seven.segments, ["5f00:0:7::".parse::<Ipv6Addr>().unwrap()]);
        let values: Vec<u16> = (1..=13).collect();
        let long = program(&values).unwrap().encode(block());
        assert_eq!(
            long.segments.iter().map(ToString::to_string).collect::<Vec<_>>(),
            ["5f00:0:d::", "5f00::7:8:9:a:b:c"].map(|a| a.parse::<Ipv6Addr>().unwrap().to_string())
        );
        assert_eq!((long.segments_left, long.overhead()), (2, Octets(80)));
    }

    /// Catches a node that reads a local uSID without the uN that makes it a SID.
    #[test]
    fn a_local_usid_stays_in_the_address_of_its_node() {
        let header = program(&[1, 2, 3, 4, 5, 6, 0xF100]).unwrap().encode(block());
        assert_eq!(header.destination.to_string(), "5f00:0:1:2:3:4:5:0");
        assert_eq!(header.segments, ["5f00:0:6:f100::".parse::<Ipv6Addr>().unwrap()]);
        let only_links = program(&[0xE001, 0xE002, 0xE003, 0xE004, 0xE005, 0xE006, 0xE007]).unwrap().encode(block());
        assert_eq!(only_links.segments, ["5f00:0:e007::".parse::<Ipv6Addr>().unwrap()]);
    }

    /// Catches a shift by another width, an SRH that stays at its last segment, and a program that never ends.
    #[test]
    fn each_node_carries_out_one_usid() {
        let values: Vec<u16> = (1..=13).collect();
        let mut header = program(&values).unwrap().encode(block());
        for value in 1..=13 {
            assert_eq!(header.destination.segments()[2], value);
            assert_eq!(header.segments.is_empty(), value > 12, "PSP when the last segment is loaded");
            assert_eq!(header.segments_left, if value > 12 { 0 } else { 2 - (value as u8 - 1) / 6 });
            match header.carried_out() {
                Some(next) => header = next,
                None => assert_eq!(value, 13),
            }
        }
        assert_eq!(header.carried_out(), None);
    }

    #[test]
    fn what_no_node_can_carry_out_is_refused() {
        assert_eq!(program(&[]), Err(NotAProgram::Empty));
        assert_eq!(program(&[1; 97]), Err(NotAProgram::TooLong(97)));
        assert!(program(&[1; 96]).is_ok());
        assert_eq!(program(&[1, 0xF100, 2]), Err(NotAProgram::ServiceInside(2)));
        assert_eq!(program(&[0xF100]), Err(NotAProgram::ServiceAlone(1)));
        assert_eq!(program(&[1, 0xE001, 0xF100]), Err(NotAProgram::ServiceAlone(3)));
    }
}
