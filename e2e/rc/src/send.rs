// SPDX-License-Identifier: Apache-2.0
//! The sending program's data path: socket, requester and content in one loop of one thread.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use sha2::{Digest, Sha256};

use crate::connection::{Connection, Ingress};
use crate::content::Content;
use crate::requester::{Request, Requester, Settings};
use crate::socket::{Inbox, Outbox, RoceSocket};
use crate::transfer::Transfer;
use crate::wire::Headers;

/// Longest sleep: the interval at which the stop flag and the deadline are checked.
const NAP: Duration = Duration::from_millis(20);

/// One transfer.
pub struct Sender {
    connection: Connection,
    socket: RoceSocket,
    content: Content,
    requester: Requester,
    ingress: Ingress,
    inbox: Inbox,
    outbox: Outbox,
    sha256: Sha256,
}

impl Sender {
    /// A transfer that has not started.
    pub fn new(
        connection: Connection,
        socket: RoceSocket,
        content: Content,
        transfer: Transfer,
        settings: Settings,
    ) -> Self {
        Self {
            requester: Requester::new(transfer, settings, connection.start_psn),
            outbox: Outbox::new(connection.peer),
            inbox: Inbox::new(),
            ingress: Ingress::default(),
            sha256: Sha256::new(),
            connection,
            socket,
            content,
        }
    }

    /// Sends until every byte is acknowledged. Fails if the requester fails, at `deadline`, on `stop`, or if the
    /// content or the socket fails. `progress` is called with the number of acknowledged bytes.
    pub fn run(&mut self, deadline: Instant, stop: &AtomicBool, mut progress: impl FnMut(u64)) -> Result<()> {
        loop {
            let received = self.receive().context("receiving")?;
            let now = Instant::now();
            self.requester.handle_timeout(now);
            if received > 0 {
                progress(self.requester.bytes_acked());
            }
            if self.requester.is_complete() {
                return Ok(());
            }
            if let Some(failure) = self.requester.failure() {
                return Err(failure.into());
            }
            self.give_up(now, deadline, stop)?;
            let sent = self.send(now).context("sending")?;
            if received == 0 && !sent {
                let due = self.requester.poll_timeout().unwrap_or(now + NAP);
                let nap = due.saturating_duration_since(now).min(NAP);
                self.socket.wait(!self.outbox.is_empty(), nap).context("waiting")?;
            }
        }
    }

    /// The requester.
    pub fn requester(&self) -> &Requester {
        &self.requester
    }

    /// Datagrams that were not answers of this connection.
    pub fn ingress(&self) -> &Ingress {
        &self.ingress
    }

    /// Datagrams that the kernel refused to send.
    pub fn send_errors(&self) -> u64 {
        self.outbox.errors()
    }

    /// SHA-256 of all bytes sent so far, in hexadecimal.
    pub fn sha256(&self) -> String {
        hex::encode(self.sha256.clone().finalize())
    }

    fn receive(&mut self) -> io::Result<usize> {
        let Self { connection, requester, ingress, .. } = self;
        let now = Instant::now();
        self.inbox.receive(&self.socket, |arrival| {
            if let Some(packet) = ingress.accept(connection, arrival.src, arrival.datagram) {
                requester.handle(&packet, now);
            }
            Ok(())
        })
    }

    /// Sends what the window permits, at most one batch; false if that was nothing or the kernel accepts no more.
    fn send(&mut self, now: Instant) -> io::Result<bool> {
        // After going back, retransmissions must not overtake packets that still wait for the kernel.
        if self.outbox.is_empty() {
            for _ in 0..Inbox::BATCH {
                let Some(request) = self.requester.next_packet(now) else { break };
                self.push(&request)?;
            }
            if self.outbox.is_empty() {
                return Ok(false);
            }
        }
        self.outbox.flush(&self.socket)?;
        Ok(self.outbox.is_empty())
    }

    fn push(&mut self, request: &Request) -> io::Result<()> {
        let segment = request.segment;
        let mut headers = Headers::new(segment.opcode, self.connection.peer_qpn, request.psn);
        headers.bth.ack_req = request.ack_req;
        headers.reth = segment.reth;
        headers.immediate = segment.immediate;
        let Self { connection, content, sha256, .. } = self;
        let fill = |payload: &mut [u8]| -> io::Result<()> {
            content.fill(segment.offset, payload)?;
            // First transmissions are in order, so this is the hash of the stream.
            if !request.retransmission {
                sha256.update(&*payload);
            }
            Ok(())
        };
        self.outbox.push(|slot| connection.emit(&headers, segment.len, fill, slot))
    }

    fn give_up(&self, now: Instant, deadline: Instant, stop: &AtomicBool) -> Result<()> {
        if now < deadline && !stop.load(Ordering::Relaxed) {
            return Ok(());
        }
        let why = if now < deadline { "stopped by a signal" } else { "the deadline has passed" };
        bail!("{why}: {} bytes were acknowledged", self.requester.bytes_acked())
    }
}
