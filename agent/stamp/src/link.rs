// SPDX-License-Identifier: Apache-2.0
//! The task of one link.

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use canopy_agent_core::stamp::{Reflector, Session, StampLink, Timestamp};
use canopy_packet::stamp::{LEN, ReflectorPacket};
use canopy_units::{Monotonic, UnixTime};
use tokio::time::Instant;

use crate::locked;
use crate::socket::{Arrival, StampSocket};

/// Time before the sockets are opened again.
const RETRY: Duration = Duration::from_secs(1);

pub(crate) struct Task {
    pub(crate) link: StampLink,
    pub(crate) port: u16,
    pub(crate) start: Instant,
    pub(crate) session: Arc<Mutex<Session>>,
}

impl Task {
    /// Runs until it is aborted.
    pub(crate) async fn run(self) {
        let mut reflector = Reflector::new(self.link.neighbour);
        let mut logged = String::new();
        loop {
            let error = match self.open() {
                Ok((sender, reflecting)) => {
                    tracing::info!(interface = self.link.interface, neighbour = %self.link.neighbour, "STAMP session started");
                    logged.clear();
                    self.serve(&mut reflector, &sender, &reflecting).await
                }
                Err(error) => error,
            };
            let reason = error.to_string();
            if reason != logged {
                tracing::warn!(
                    interface = self.link.interface,
                    reason,
                    "cannot measure the link with STAMP, trying again every second"
                );
                logged = reason;
            }
            tokio::time::sleep(RETRY).await;
        }
    }

    fn open(&self) -> io::Result<(StampSocket, StampSocket)> {
        let open = |port| StampSocket::open(&self.link.interface, self.link.own, port);
        Ok((open(0)?, open(self.port)?))
    }

    /// Runs until a socket fails. The timer is first, replies to own packets are next: a flood of test packets from others delays
    /// neither.
    async fn serve(&self, reflector: &mut Reflector, sender: &StampSocket, reflecting: &StampSocket) -> io::Error {
        loop {
            let due = self.start + locked(&self.session).poll_timeout().since(Monotonic::START);
            let done = tokio::select! {
                biased;
                () = tokio::time::sleep_until(due) => self.send(sender),
                arrival = sender.receive() => arrival.map(|arrival| self.handle_reply(&arrival)),
                arrival = reflecting.receive() => arrival.and_then(|a| self.reflect(reflector, reflecting, &a)),
            };
            if let Err(error) = done {
                return error;
            }
        }
    }

    fn send(&self, socket: &StampSocket) -> io::Result<()> {
        let mut packet = [0; LEN];
        let made = locked(&self.session).handle_timeout(since(self.start), wall_clock());
        let Some(made) = made else { return Ok(()) };
        made.emit(&mut packet).map_err(io::Error::other)?;
        socket.send(&packet, self.link.neighbour, self.port)
    }

    fn handle_reply(&self, arrival: &Arrival) {
        if arrival.source != self.link.neighbour || arrival.source_port != self.port {
            return;
        }
        // A malformed reply counts as lost.
        if let Ok(packet) = ReflectorPacket::parse(arrival.datagram()) {
            locked(&self.session).handle_answer(&packet, arrival.time());
        }
    }

    fn reflect(&self, reflector: &mut Reflector, socket: &StampSocket, arrival: &Arrival) -> io::Result<()> {
        let (datagram, received) = (arrival.datagram(), arrival.time());
        let answer = reflector.handle(arrival.source, datagram, arrival.hop_limit, received, since(self.start));
        let answer = match answer {
            Ok(answer) => answer,
            Err(refused) => {
                tracing::debug!(interface = self.link.interface, %refused, "refused a STAMP test packet");
                return Ok(());
            }
        };
        let mut packet = [0; LEN];
        answer.packet(wall_clock()).emit(&mut packet).map_err(io::Error::other)?;
        socket.send(&packet, arrival.source, arrival.source_port)
    }
}

/// Now, on a clock that starts at `start`.
pub(crate) fn since(start: Instant) -> Monotonic {
    Monotonic::START + start.elapsed()
}

fn wall_clock() -> Timestamp {
    Timestamp::from_unix(UnixTime::now())
}
