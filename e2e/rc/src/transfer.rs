// SPDX-License-Identifier: Apache-2.0
//! A stream of bytes cut into messages and packets, IBTA volume 1 sections 9.2 and 9.7.2.
//!
//! Nothing is stored per packet: packet number `i` of the transfer is computed from `i` alone, so that a
//! retransmission is the same packet again.

use canopy_packet::bth::Opcode;
use canopy_packet::reth::Reth;

/// RDMA path MTUs, octets of payload per packet (IBTA volume 1 section 9.2).
pub const MTUS: [u32; 5] = [256, 512, 1024, 2048, 4096];

/// Largest RC message, octets (IBTA volume 1 section 9.7.2).
pub const MESSAGE_MAX: u64 = 1 << 31;

/// Memory at the responder that RDMA WRITEs go to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Region {
    /// Virtual address of its first byte.
    pub va: u64,
    /// Remote key.
    pub rkey: u32,
    /// Bytes.
    pub length: u64,
}

/// The RDMA operation of a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// SEND: each message into a receive buffer.
    Send,
    /// RDMA WRITE: message after message into this region, from its start again when it is full.
    Write(Region),
}

/// Why a transfer is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TransferError {
    /// The path MTU is none of [`MTUS`].
    #[error("mtu: {0} is not an RDMA path MTU; use 256, 512, 1024, 2048 or 4096")]
    Mtu(u32),
    /// No bytes to send.
    #[error("bytes: nothing to send; give at least 1")]
    Empty,
    /// The message size is 0 or more than [`MESSAGE_MAX`].
    #[error("message size: {0} bytes is outside 1..={MESSAGE_MAX}")]
    MessageSize(u64),
    /// A message does not fit into the registered memory.
    #[error("message size: {message} bytes do not fit into the {region} bytes that every receiver has registered")]
    Region {
        /// Bytes of one message.
        message: u64,
        /// Bytes registered.
        region: u64,
    },
}

/// What to send, in packets numbered from 0.
#[derive(Debug, Clone)]
pub struct Transfer {
    bytes: u64,
    message_size: u64,
    mtu: u64,
    operation: Operation,
    immediate: bool,
    packets_per_message: u64,
    /// Whole messages that the region holds before the address starts again.
    slots: u64,
}

/// One packet of a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment {
    /// OpCode.
    pub opcode: Opcode,
    /// RETH, in a first or only packet of an RDMA WRITE.
    pub reth: Option<Reth>,
    /// Immediate data, in a last or only packet: the number of the message.
    pub immediate: Option<u32>,
    /// Offset of the payload in the stream.
    pub offset: u64,
    /// Bytes of payload.
    pub len: usize,
    /// The packet ends its message.
    pub ends_message: bool,
}

impl Transfer {
    /// Cuts `bytes` into messages of `message_size` (the last may be shorter) and packets of `mtu`.
    pub fn new(
        bytes: u64,
        message_size: u64,
        mtu: u32,
        operation: Operation,
        immediate: bool,
    ) -> Result<Self, TransferError> {
        if !MTUS.contains(&mtu) {
            return Err(TransferError::Mtu(mtu));
        }
        if bytes == 0 {
            return Err(TransferError::Empty);
        }
        if message_size == 0 || message_size > MESSAGE_MAX {
            return Err(TransferError::MessageSize(message_size));
        }
        let message_size = message_size.min(bytes);
        let slots = match operation {
            Operation::Write(region) if region.length < message_size => {
                return Err(TransferError::Region { message: message_size, region: region.length });
            }
            // A short last message needs no whole slot, so a region of exactly `bytes` never wraps.
            Operation::Write(region) if region.length < bytes => region.length / message_size,
            _ => u64::MAX,
        };
        let mtu = u64::from(mtu);
        let packets_per_message = message_size.div_ceil(mtu);
        Ok(Self { bytes, message_size, mtu, operation, immediate, packets_per_message, slots })
    }

    /// Bytes in all.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Messages in all.
    pub fn messages(&self) -> u64 {
        self.bytes.div_ceil(self.message_size)
    }

    /// Packets in all.
    pub fn packets(&self) -> u64 {
        let whole = (self.bytes / self.message_size) * self.packets_per_message;
        whole + (self.bytes % self.message_size).div_ceil(self.mtu)
    }

    /// Bytes that the first `packets` packets carry.
    pub fn bytes_in(&self, packets: u64) -> u64 {
        let message = packets / self.packets_per_message;
        let within = (packets % self.packets_per_message) * self.mtu;
        (message * self.message_size + within.min(self.message_size)).min(self.bytes)
    }

    /// Packet number `index`, which must be less than [`Transfer::packets`].
    pub fn segment(&self, index: u64) -> Segment {
        let message = index / self.packets_per_message;
        let within = (index % self.packets_per_message) * self.mtu;
        let start = message * self.message_size;
        let message_len = self.message_size.min(self.bytes - start);
        let len = self.mtu.min(message_len - within);
        let (begins_message, ends_message) = (within == 0, within + len == message_len);
        let immediate = (self.immediate && ends_message).then_some(message as u32);
        let (opcode, reth) = match self.operation {
            Operation::Send => (send_opcode(begins_message, ends_message, immediate.is_some()), None),
            Operation::Write(region) => {
                let va = region.va + (message % self.slots) * self.message_size;
                let reth = Reth { va, rkey: region.rkey, dma_len: message_len as u32 };
                let opcode = write_opcode(begins_message, ends_message, immediate.is_some());
                (opcode, begins_message.then_some(reth))
            }
        };
        Segment { opcode, reth, immediate, offset: start + within, len: len as usize, ends_message }
    }
}

fn send_opcode(first: bool, last: bool, immediate: bool) -> Opcode {
    match (first, last, immediate) {
        (true, true, true) => Opcode::SEND_ONLY_IMM,
        (true, true, false) => Opcode::SEND_ONLY,
        (true, false, _) => Opcode::SEND_FIRST,
        (false, false, _) => Opcode::SEND_MIDDLE,
        (false, true, true) => Opcode::SEND_LAST_IMM,
        (false, true, false) => Opcode::SEND_LAST,
    }
}

fn write_opcode(first: bool, last: bool, immediate: bool) -> Opcode {
    match (first, last, immediate) {
        (true, true, true) => Opcode::WRITE_ONLY_IMM,
        (true, true, false) => Opcode::WRITE_ONLY,
        (true, false, _) => Opcode::WRITE_FIRST,
        (false, false, _) => Opcode::WRITE_MIDDLE,
        (false, true, true) => Opcode::WRITE_LAST_IMM,
        (false, true, false) => Opcode::WRITE_LAST,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn opcodes(transfer: &Transfer) -> Vec<Opcode> {
        (0..transfer.packets()).map(|i| transfer.segment(i).opcode).collect()
    }

    #[test]
    fn a_message_of_one_packet_is_an_only_and_of_two_has_no_middle() {
        let send = |bytes| Transfer::new(bytes, bytes, 1024, Operation::Send, false).unwrap();
        assert_eq!(opcodes(&send(1024)), [Opcode::SEND_ONLY]);
        assert_eq!(opcodes(&send(1025)), [Opcode::SEND_FIRST, Opcode::SEND_LAST]);
        let three = [Opcode::SEND_FIRST, Opcode::SEND_MIDDLE, Opcode::SEND_LAST];
        assert_eq!(opcodes(&send(3072)), three);
    }

    #[test]
    fn a_write_carries_reth_in_its_first_packet_and_immediate_in_its_last() {
        let region = Region { va: 0x1000, rkey: 7, length: 5000 };
        let t = Transfer::new(5000, 2049, 1024, Operation::Write(region), true).unwrap();
        let reth = |va, dma_len| Some(Reth { va, rkey: 7, dma_len });
        let got: Vec<_> =
            (0..t.packets()).map(|i| t.segment(i)).map(|s| (s.opcode, s.reth, s.immediate, s.len)).collect();
        let expected = [
            (Opcode::WRITE_FIRST, reth(0x1000, 2049), None, 1024),
            (Opcode::WRITE_MIDDLE, None, None, 1024),
            (Opcode::WRITE_LAST_IMM, None, Some(0), 1),
            (Opcode::WRITE_FIRST, reth(0x1000 + 2049, 2049), None, 1024),
            (Opcode::WRITE_MIDDLE, None, None, 1024),
            (Opcode::WRITE_LAST_IMM, None, Some(1), 1),
            (Opcode::WRITE_ONLY_IMM, reth(0x1000 + 4098, 902), Some(2), 902),
        ];
        assert_eq!(got, expected);
    }

    #[test]
    fn writes_start_again_at_the_front_of_a_region_that_is_full() {
        let region = Region { va: 100, rkey: 7, length: 2500 };
        let t = Transfer::new(5000, 1000, 1024, Operation::Write(region), false).unwrap();
        let vas: Vec<u64> = (0..5).map(|i| t.segment(i).reth.unwrap().va).collect();
        assert_eq!(vas, [100, 1100, 100, 1100, 100]);
    }

    #[test]
    fn what_cannot_be_sent_is_refused_by_name() {
        let new = |bytes, size, mtu| Transfer::new(bytes, size, mtu, Operation::Send, false);
        assert_eq!(new(1, 1, 1000).unwrap_err(), TransferError::Mtu(1000));
        assert_eq!(new(0, 1, 1024).unwrap_err(), TransferError::Empty);
        assert_eq!(new(1, 0, 1024).unwrap_err(), TransferError::MessageSize(0));
        let region = Operation::Write(Region { va: 0, rkey: 0, length: 9 });
        let error = Transfer::new(20, 10, 1024, region, false).unwrap_err();
        assert_eq!(error, TransferError::Region { message: 10, region: 9 });
    }

    proptest! {
        #[test]
        fn packets_tile_the_stream(bytes in 1_u64..40_000, size in 1_u64..9000, mtu in 0_usize..5) {
            let t = Transfer::new(bytes, size, MTUS[mtu], Operation::Send, false).unwrap();
            let mut at = 0;
            let mut messages = 0;
            for index in 0..t.packets() {
                prop_assert_eq!(t.bytes_in(index), at);
                let segment = t.segment(index);
                prop_assert_eq!(segment.offset, at);
                prop_assert!(segment.len > 0);
                at += segment.len as u64;
                messages += u64::from(segment.ends_message);
            }
            prop_assert_eq!(at, bytes);
            prop_assert_eq!(t.bytes_in(t.packets()), bytes);
            prop_assert_eq!(messages, t.messages());
        }
    }
}
