// SPDX-License-Identifier: Apache-2.0
//! Depth and drops of every interface's root queue through netlink: for queues that the program cannot read, and for queues without
//! traffic.

use std::collections::BTreeMap;

use canopy_bpf::{Context, Result};
use netlink_packet_core::{NLM_F_DUMP, NLM_F_REQUEST, NetlinkBuffer, NetlinkMessage, NetlinkPayload};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::tc::{TcAttribute, TcHandle, TcMessage};
use rtnetlink::sys::{Socket, SocketAddr};

const NETLINK_ROUTE: isize = 0;

/// A root queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Queue {
    /// Octets in it.
    pub(crate) depth: u64,
    /// Packets that it dropped since it exists.
    pub(crate) drops: u64,
}

/// A netlink socket of its own, polled many times a second.
pub(crate) struct Queues {
    socket: Socket,
    request: Vec<u8>,
}

impl Queues {
    pub(crate) fn open() -> Result<Self> {
        let mut socket = Socket::new(NETLINK_ROUTE).context("opening a netlink socket for queues")?;
        socket.bind_auto().context("binding the netlink socket for queues")?;
        socket.connect(&SocketAddr::new(0, 0)).context("connecting the netlink socket for queues")?;
        let mut dump = NetlinkMessage::from(RouteNetlinkMessage::GetQueueDiscipline(TcMessage::default()));
        dump.header.flags = NLM_F_REQUEST | NLM_F_DUMP;
        dump.finalize();
        let mut request = vec![0; dump.buffer_len()];
        dump.serialize(&mut request);
        Ok(Self { socket, request })
    }

    /// The root queue of each interface, by index; interfaces without a queue are missing.
    pub(crate) fn read(&self) -> Result<BTreeMap<u32, Queue>> {
        self.socket.send(&self.request, 0).context("requesting the queues")?;
        let mut queues = BTreeMap::new();
        loop {
            let answer = match self.socket.recv_from_full() {
                // An unread response would be taken for the response to the next request.
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => continue,
                read => read.context("reading the queues")?.0,
            };
            if collect(&answer, &mut queues)? {
                return Ok(queues);
            }
        }
    }
}

/// Adds one datagram of the dump; returns whether it was the last.
fn collect(mut rest: &[u8], queues: &mut BTreeMap<u32, Queue>) -> Result<bool> {
    while !rest.is_empty() {
        let length = NetlinkBuffer::new_checked(rest).context("reading the queues")?.length() as usize;
        match NetlinkMessage::<RouteNetlinkMessage>::deserialize(rest).map(|message| message.payload) {
            Ok(NetlinkPayload::Done(_)) => return Ok(true),
            Ok(NetlinkPayload::Error(refused)) => return Err(refused.to_io()).context("reading the queues"),
            Ok(NetlinkPayload::InnerMessage(RouteNetlinkMessage::NewQueueDiscipline(q))) => queues.extend(root(&q)),
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

/// Interface and queue, if the message describes a root queue.
fn root(qdisc: &TcMessage) -> Option<(u32, Queue)> {
    let queue = |attribute: &TcAttribute| match attribute {
        TcAttribute::Stats(stats) => Some(Queue { depth: stats.backlog.into(), drops: stats.drops.into() }),
        _ => None,
    };
    let at_root = qdisc.header.parent == TcHandle::ROOT;
    at_root.then(|| Some((qdisc.header.index as u32, qdisc.attributes.iter().find_map(queue)?)))?
}
