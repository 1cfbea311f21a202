// SPDX-License-Identifier: Apache-2.0
//! Depth of every interface's root queue through netlink: for queues that the program cannot read, and for queues without traffic.

use std::collections::BTreeMap;

use canopy_bpf::{Context, Result};
use netlink_packet_core::{NLM_F_DUMP, NLM_F_REQUEST, NetlinkBuffer, NetlinkMessage, NetlinkPayload};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::tc::{TcAttribute, TcHandle, TcMessage};
use rtnetlink::sys::{Socket, SocketAddr};

const NETLINK_ROUTE: isize = 0;

/// A netlink socket of its own, polled many times a second.
pub(crate) struct Queues {
    socket: Socket,
    request: Vec<u8>,
}

impl Queues {
    pub(crate) fn open() -> Result<Self> {
        let mut socket = Socket::new(NETLINK_ROUTE).context("opening a netlink socket for queue depths")?;
        socket.bind_auto().context("binding the netlink socket for queue depths")?;
        socket.connect(&SocketAddr::new(0, 0)).context("connecting the netlink socket for queue depths")?;
        let mut dump = NetlinkMessage::from(RouteNetlinkMessage::GetQueueDiscipline(TcMessage::default()));
        dump.header.flags = NLM_F_REQUEST | NLM_F_DUMP;
        dump.finalize();
        let mut request = vec![0; dump.buffer_len()];
        dump.serialize(&mut request);
        Ok(Self { socket, request })
    }

    /// Octets in the root queue of each interface; interfaces without a queue are missing.
    pub(crate) fn depths(&self) -> Result<BTreeMap<u32, u64>> {
        self.socket.send(&self.request, 0).context("requesting queue depths")?;
        let mut depths = BTreeMap::new();
        loop {
            let answer = match self.socket.recv_from_full() {
                // An unread response would be taken for the response to the next request.
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => continue,
                read => read.context("reading queue depths")?.0,
            };
            if collect(&answer, &mut depths)? {
                return Ok(depths);
            }
        }
    }
}

/// Adds one datagram of the dump; returns whether it was the last.
fn collect(mut rest: &[u8], depths: &mut BTreeMap<u32, u64>) -> Result<bool> {
    while !rest.is_empty() {
        let length = NetlinkBuffer::new_checked(rest).context("reading queue depths")?.length() as usize;
        match NetlinkMessage::<RouteNetlinkMessage>::deserialize(rest).map(|message| message.payload) {
            Ok(NetlinkPayload::Done(_)) => return Ok(true),
            Ok(NetlinkPayload::Error(refused)) => return Err(refused.to_io()).context("reading queue depths"),
            Ok(NetlinkPayload::InnerMessage(RouteNetlinkMessage::NewQueueDiscipline(q))) => depths.extend(root(&q)),
            Ok(_) => {}
            // One queue's options: the others' depths count.
            Err(error) => {
                tracing::debug!(%error, "cannot read a queueing discipline: the depth of its queue is unknown")
            }
        }
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or(&[]);
    }
    Ok(false)
}

/// Interface and backlog, if the message describes a root queue.
fn root(qdisc: &TcMessage) -> Option<(u32, u64)> {
    let backlog = |attribute: &TcAttribute| match attribute {
        TcAttribute::Stats(stats) => Some(stats.backlog.into()),
        _ => None,
    };
    let at_root = qdisc.header.parent == TcHandle::ROOT;
    at_root.then(|| Some((qdisc.header.index as u32, qdisc.attributes.iter().find_map(backlog)?)))?
}
