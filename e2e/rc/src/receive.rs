// SPDX-License-Identifier: Apache-2.0
//! The receiving program's data path: socket, responder and sink in one loop of one thread.

mod sink;

use std::io;
use std::time::{Duration, Instant};

use crate::connection::{Connection, Ingress};
use crate::responder::{Responder, Settings};
use crate::socket::{ECN_CE, Inbox, Outbox, RoceSocket};

pub use sink::Sink;

/// A receiver: socket, responder and sink.
pub struct Receiver {
    connection: Connection,
    socket: RoceSocket,
    responder: Responder,
    sink: Sink,
    ingress: Ingress,
    inbox: Inbox,
    outbox: Outbox,
    first_packet: Option<Instant>,
    last_packet: Option<Instant>,
}

impl Receiver {
    /// A receiver that has received nothing.
    pub fn new(connection: Connection, socket: RoceSocket, settings: Settings, sink: Sink) -> Self {
        Self {
            responder: Responder::new(settings, connection.start_psn),
            outbox: Outbox::new(connection.peer),
            inbox: Inbox::new(),
            ingress: Ingress::default(),
            first_packet: None,
            last_packet: None,
            connection,
            socket,
            sink,
        }
    }

    /// Receives, delivers and answers the datagrams that have arrived; waits for the first at most `nap`.
    pub fn turn(&mut self, nap: Duration) -> io::Result<()> {
        self.outbox.flush(&self.socket)?;
        // While the kernel accepts no answers, further requests stay in its receive buffer.
        if !self.outbox.is_empty() || self.receive()? == 0 {
            return self.socket.wait(!self.outbox.is_empty(), nap);
        }
        self.outbox.flush(&self.socket)
    }

    /// The responder.
    pub fn responder(&self) -> &Responder {
        &self.responder
    }

    /// The sink of the delivered bytes.
    pub fn sink(&mut self) -> &mut Sink {
        &mut self.sink
    }

    /// Datagrams that were not requests of this connection.
    pub fn ingress(&self) -> &Ingress {
        &self.ingress
    }

    /// Datagrams that the kernel refused to send.
    pub fn send_errors(&self) -> u64 {
        self.outbox.errors()
    }

    /// When the last request arrived.
    pub fn last_packet(&self) -> Option<Instant> {
        self.last_packet
    }

    /// Time from the first request to the last.
    pub fn elapsed(&self) -> Duration {
        match (self.first_packet, self.last_packet) {
            (Some(first), Some(last)) => last.saturating_duration_since(first),
            _ => Duration::ZERO,
        }
    }

    fn receive(&mut self) -> io::Result<usize> {
        let Self { connection, responder, sink, ingress, outbox, .. } = self;
        let now = Instant::now();
        let mut of_use = false;
        let count = self.inbox.receive(&self.socket, |arrival| {
            let Some(packet) = ingress.accept(connection, arrival.src, arrival.datagram) else {
                return Ok(());
            };
            of_use = true;
            let congested = arrival.traffic_class & ECN_CE == ECN_CE;
            if let Some(delivery) = responder.handle(&packet, congested, now) {
                sink.deliver(&delivery)?;
            }
            while let Some(answer) = responder.next_packet() {
                let headers = answer.headers(connection.peer_qpn);
                let fill = |payload: &mut [u8]| -> io::Result<()> {
                    payload.fill(0);
                    Ok(())
                };
                outbox.push(|slot| connection.emit(&headers, answer.payload_len(), fill, slot))?;
            }
            Ok(())
        })?;
        if of_use {
            self.first_packet.get_or_insert(now);
            self.last_packet = Some(now);
        }
        Ok(count)
    }
}
