// SPDX-License-Identifier: Apache-2.0
//! Links: queues that lose, duplicate and reorder packets, each at the cost of a fault.

/// An end of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Place {
    Source,
    Root,
    Edge(usize),
    Receiver(usize),
}

use Place::{Edge, Receiver, Root, Source};

pub(crate) const A: usize = 0;
pub(crate) const B: usize = 1;

/// Downstream links first. Receivers 0 and 1 are behind edge A, 2 is behind B or, once moved, A.
pub(crate) const LINKS: [(Place, Place); 14] = [
    (Source, Root),
    (Root, Edge(A)),
    (Root, Edge(B)),
    (Edge(A), Receiver(0)),
    (Edge(A), Receiver(1)),
    (Edge(A), Receiver(2)),
    (Edge(B), Receiver(2)),
    (Receiver(0), Edge(A)),
    (Receiver(1), Edge(A)),
    (Receiver(2), Edge(A)),
    (Receiver(2), Edge(B)),
    (Edge(A), Root),
    (Edge(B), Root),
    (Root, Source),
];

pub(crate) fn link(from: Place, to: Place) -> usize {
    LINKS.iter().position(|l| *l == (from, to)).unwrap_or_else(|| panic!("no link from {from:?} to {to:?}"))
}

/// Links by their ends, as a set.
pub(crate) fn links(which: impl Fn(Place, Place) -> bool) -> u16 {
    LINKS.iter().enumerate().filter(|(_, (from, to))| which(*from, *to)).map(|(i, _)| 1 << i).sum()
}

/// Links from and to receivers.
pub(crate) fn access() -> u16 {
    links(|from, to| matches!(from, Receiver(_)) || matches!(to, Receiver(_)))
}

/// Whether the link carries data downstream, not feedback upstream.
pub(crate) fn is_down(link: usize) -> bool {
    link < 7
}

/// A packet in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Packet {
    /// `number` is the payload: the number of the source's packet.
    Data { psn: u32, number: u8 },
    /// With the `epoch` of a child node; receivers have none.
    Feedback { psn: u32, nak: bool, epoch: u32 },
}

/// What a link does to a packet on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Fate {
    Arrives,
    Lost,
    /// Arrives, and once more later.
    Repeated,
    /// The second one arrives first.
    Overtaken,
}

/// Takes the arriving packet, if any, from `queue`.
pub(crate) fn take(queue: &mut Vec<Packet>, fate: Fate) -> Option<Packet> {
    match fate {
        Fate::Arrives => Some(queue.remove(0)),
        Fate::Lost => {
            queue.remove(0);
            None
        }
        Fate::Repeated => queue.first().copied(),
        Fate::Overtaken => Some(queue.remove(1)),
    }
}
