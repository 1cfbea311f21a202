// SPDX-License-Identifier: Apache-2.0
//! Source QPs from RDMA-CM (decisions 4.1): a ConnectRequest carries the QPN of the active side, its ConnectReply that of the
//! passive side; the communication identifiers match the two (IBTA volume 1, 12.6.5 and 12.6.8).

use std::collections::{BTreeMap, VecDeque};
use std::net::Ipv6Addr;

use canopy_model::ids::Qpn;

use super::flow::{FlowKey, FourTuple};

/// An RDMA-CM message that the node forwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CmMessage {
    /// Source address.
    pub from: Ipv6Addr,
    /// Destination address.
    pub to: Ipv6Addr,
    /// Kind of message and its fields.
    pub kind: CmKind,
}

/// The two messages that carry a QPN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CmKind {
    /// ConnectRequest.
    Request {
        /// Local Communication ID of its sender.
        local_id: u32,
        /// Local QPN of its sender.
        qpn: Qpn,
    },
    /// ConnectReply.
    Reply {
        /// Remote Communication ID: the Local one of the request.
        remote_id: u32,
        /// Local QPN of its sender.
        qpn: Qpn,
    },
}

/// ConnectRequests without a reply.
#[derive(Debug)]
pub struct Connections {
    waiting: BTreeMap<(Ipv6Addr, Ipv6Addr, u32), Qpn>,
    /// Keys of `waiting`, the oldest first.
    order: VecDeque<(Ipv6Addr, Ipv6Addr, u32)>,
    capacity: usize,
}

impl Connections {
    /// Keeps at most `capacity` requests (at least 1); the oldest is evicted.
    pub fn new(capacity: usize) -> Self {
        Self { waiting: BTreeMap::new(), order: VecDeque::new(), capacity: capacity.max(1) }
    }

    /// Processes a message; returns both directions of the connection for a reply to a known request. The request is kept,
    /// because a lost reply is sent again.
    pub fn handle(&mut self, message: CmMessage) -> Option<[FourTuple; 2]> {
        let CmMessage { from, to, kind } = message;
        match kind {
            CmKind::Request { local_id, qpn } => {
                let key = (from, to, local_id);
                if self.waiting.insert(key, qpn).is_none() {
                    self.order.push_back(key);
                }
                if self.order.len() > self.capacity
                    && let Some(oldest) = self.order.pop_front()
                {
                    self.waiting.remove(&oldest);
                }
                None
            }
            CmKind::Reply { remote_id, qpn } => {
                let requester = *self.waiting.get(&(to, from, remote_id))?;
                let flow = |src, src_qp, dst, dst_qp| FourTuple { key: FlowKey { src, dst, dst_qp }, src_qp };
                Some([flow(to, requester, from, qpn), flow(from, qpn, to, requester)])
            }
        }
    }

    /// Requests kept.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Whether no request is kept.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    fn host(n: u16) -> Ipv6Addr {
        Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, n)
    }

    fn qpn(n: u64) -> Qpn {
        Qpn::new("qpn", n).unwrap()
    }

    fn request(from: u16, to: u16, local_id: u32, q: u64) -> CmMessage {
        CmMessage { from: host(from), to: host(to), kind: CmKind::Request { local_id, qpn: qpn(q) } }
    }

    fn reply(from: u16, to: u16, remote_id: u32, q: u64) -> CmMessage {
        CmMessage { from: host(from), to: host(to), kind: CmKind::Reply { remote_id, qpn: qpn(q) } }
    }

    #[test]
    fn every_repeated_reply_to_a_request_gives_both_directions() {
        let mut seen = Connections::new(8);
        assert_eq!(seen.handle(request(1, 2, 7, 0x11)), None);
        // Another connection between the same hosts in the other direction, with the same identifier.
        assert_eq!(seen.handle(request(2, 1, 7, 0x99)), None);
        let there = FourTuple { key: FlowKey { src: host(1), dst: host(2), dst_qp: qpn(0x22) }, src_qp: qpn(0x11) };
        let back = FourTuple { key: FlowKey { src: host(2), dst: host(1), dst_qp: qpn(0x11) }, src_qp: qpn(0x22) };
        for _ in 0..2 {
            assert_eq!(seen.handle(reply(2, 1, 7, 0x22)), Some([there, back]));
        }
    }

    #[test]
    fn a_reply_without_a_request_or_to_another_host_gives_nothing() {
        let mut seen = Connections::new(8);
        seen.handle(request(1, 2, 7, 0x11));
        for wrong in [reply(2, 1, 8, 0x22), reply(3, 1, 7, 0x22), reply(2, 3, 7, 0x22), reply(1, 2, 7, 0x22)] {
            assert_eq!(seen.handle(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn requests_are_bounded_and_a_repeated_one_counts_once() {
        let mut seen = Connections::new(4);
        assert!(seen.is_empty());
        for id in 0..100 {
            seen.handle(request(1, 2, id, 0x11));
            seen.handle(request(1, 2, id, 0x12));
            assert!(seen.len() <= 4 && seen.order.len() == seen.len());
            assert!(!seen.is_empty());
        }
        assert_eq!(seen.handle(reply(2, 1, 95, 0x22)), None, "the oldest was evicted");
        let [there, _] = seen.handle(reply(2, 1, 96, 0x22)).unwrap();
        assert_eq!(there.src_qp, qpn(0x12), "the newest request counts");
    }
}
