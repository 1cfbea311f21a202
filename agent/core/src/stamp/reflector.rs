// SPDX-License-Identifier: Apache-2.0
//! The stateless Session-Reflector of one port, RFC 8762 section 4.3: a sequence number is answered with itself.

use std::net::Ipv6Addr;

use canopy_packet::error::ParseError;
use canopy_packet::stamp::{ReflectorPacket, SenderPacket};
use canopy_units::Monotonic;

use super::bucket::Bucket;
use super::{ERROR_ESTIMATE, Timestamp};

/// Answers per second and port.
const PER_SECOND: u32 = 200;
/// Burst of answers.
const BURST: u32 = 50;

/// Answers test packets of one neighbour at a limited rate.
#[derive(Clone, Debug)]
pub struct Reflector {
    neighbour: Ipv6Addr,
    bucket: Bucket,
    answered: u64,
    refused: u64,
}

/// An answer without its transmit timestamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    sender: SenderPacket,
    received: Timestamp,
    hop_limit: u8,
}

/// Why a test packet is not answered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// The source is not the port's neighbour.
    #[error("{0} is not the neighbour on this port")]
    Stranger(Ipv6Addr),
    /// The rate limit of the port is reached.
    #[error("more than {} test packets a second", PER_SECOND)]
    TooMany,
    /// The datagram is not a test packet.
    #[error("not a test packet: {0}")]
    Malformed(ParseError),
}

impl Reflector {
    /// A reflector that answers only `neighbour`.
    pub fn new(neighbour: Ipv6Addr) -> Self {
        Self { neighbour, bucket: Bucket::new(PER_SECOND, BURST), answered: 0, refused: 0 }
    }

    /// Processes a datagram from `source` that arrived at `received` with `hop_limit`. Octets after the base packet are
    /// ignored (RFC 8972 section 4: a reflector without extensions sends the base packet).
    pub fn handle(
        &mut self,
        source: Ipv6Addr,
        datagram: &[u8],
        hop_limit: u8,
        received: Timestamp,
        now: Monotonic,
    ) -> Result<Answer, Refused> {
        let answer = self.check(source, datagram, now).map(|sender| Answer { sender, received, hop_limit });
        *if answer.is_ok() { &mut self.answered } else { &mut self.refused } += 1;
        answer
    }

    /// Test packets answered and not answered.
    pub fn counts(&self) -> (u64, u64) {
        (self.answered, self.refused)
    }

    fn check(&mut self, source: Ipv6Addr, datagram: &[u8], now: Monotonic) -> Result<SenderPacket, Refused> {
        if source != self.neighbour {
            return Err(Refused::Stranger(source));
        }
        let packet = SenderPacket::parse(datagram).map_err(Refused::Malformed)?;
        if self.bucket.take(now) { Ok(packet) } else { Err(Refused::TooMany) }
    }
}

impl Answer {
    /// The packet, sent at `sent`.
    pub fn packet(self, sent: Timestamp) -> ReflectorPacket {
        ReflectorPacket {
            sequence: self.sender.sequence,
            timestamp: sent.0,
            error_estimate: ERROR_ESTIMATE,
            receive_timestamp: self.received.0,
            sender: self.sender,
            sender_ttl: self.hop_limit,
        }
    }
}
