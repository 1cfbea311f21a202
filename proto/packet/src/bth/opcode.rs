// SPDX-License-Identifier: Apache-2.0
//! BTH OpCode, IBTA volume 1 section 9.2, for Reliable Connection and CNP.
//!
//! The upper three bits name the transport service (000 is RC), the lower five the operation. Every predicate below is
//! `false` for a code that is neither an assigned RC code nor [`Opcode::CNP`].

use core::fmt;

/// BTH OpCode.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Opcode(pub u8);

macro_rules! opcodes {
    ($($name:ident = $code:literal, $text:literal;)*) => {
        impl Opcode {
            $(#[doc = $text] pub const $name: Self = Self($code);)*

            /// Name of the operation, or `unassigned`.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)*
                    _ => "unassigned",
                }
            }
        }
    };
}

opcodes! {
    SEND_FIRST = 0x00, "RC SEND First";
    SEND_MIDDLE = 0x01, "RC SEND Middle";
    SEND_LAST = 0x02, "RC SEND Last";
    SEND_LAST_IMM = 0x03, "RC SEND Last with Immediate";
    SEND_ONLY = 0x04, "RC SEND Only";
    SEND_ONLY_IMM = 0x05, "RC SEND Only with Immediate";
    WRITE_FIRST = 0x06, "RC RDMA WRITE First";
    WRITE_MIDDLE = 0x07, "RC RDMA WRITE Middle";
    WRITE_LAST = 0x08, "RC RDMA WRITE Last";
    WRITE_LAST_IMM = 0x09, "RC RDMA WRITE Last with Immediate";
    WRITE_ONLY = 0x0a, "RC RDMA WRITE Only";
    WRITE_ONLY_IMM = 0x0b, "RC RDMA WRITE Only with Immediate";
    READ_REQUEST = 0x0c, "RC RDMA READ Request";
    READ_RESPONSE_FIRST = 0x0d, "RC RDMA READ Response First";
    READ_RESPONSE_MIDDLE = 0x0e, "RC RDMA READ Response Middle";
    READ_RESPONSE_LAST = 0x0f, "RC RDMA READ Response Last";
    READ_RESPONSE_ONLY = 0x10, "RC RDMA READ Response Only";
    ACKNOWLEDGE = 0x11, "RC Acknowledge";
    ATOMIC_ACKNOWLEDGE = 0x12, "RC ATOMIC Acknowledge";
    COMPARE_SWAP = 0x13, "RC CmpSwap";
    FETCH_ADD = 0x14, "RC FetchAdd";
    SEND_LAST_INV = 0x16, "RC SEND Last with Invalidate";
    SEND_ONLY_INV = 0x17, "RC SEND Only with Invalidate";
    CNP = 0x81, "CNP";
}

impl Opcode {
    /// An assigned Reliable Connection code: 0x00..=0x17 without 0x15.
    pub const fn is_rc(self) -> bool {
        self.0 <= Self::SEND_ONLY_INV.0 && self.0 != 0x15
    }

    /// Any SEND.
    pub const fn is_send(self) -> bool {
        self.0 <= Self::SEND_ONLY_IMM.0 || self.has_ieth()
    }

    /// Any RDMA WRITE.
    pub const fn is_write(self) -> bool {
        Self::WRITE_FIRST.0 <= self.0 && self.0 <= Self::WRITE_ONLY_IMM.0
    }

    /// A request or response of RDMA READ or of an atomic: what a multicast headend refuses.
    pub const fn is_read_or_atomic(self) -> bool {
        let read = Self::READ_REQUEST.0 <= self.0 && self.0 <= Self::READ_RESPONSE_ONLY.0;
        read || self.has_atomic_eth() || self.has_atomic_ack_eth()
    }

    /// A RETH follows the BTH.
    pub const fn has_reth(self) -> bool {
        matches!(self, Self::WRITE_FIRST | Self::WRITE_ONLY | Self::WRITE_ONLY_IMM | Self::READ_REQUEST)
    }

    /// An ImmDt follows (behind the RETH where there is one).
    pub const fn has_immdt(self) -> bool {
        matches!(self, Self::SEND_LAST_IMM | Self::SEND_ONLY_IMM | Self::WRITE_LAST_IMM | Self::WRITE_ONLY_IMM)
    }

    /// An AETH follows the BTH.
    pub const fn has_aeth(self) -> bool {
        matches!(
            self,
            Self::READ_RESPONSE_FIRST
                | Self::READ_RESPONSE_LAST
                | Self::READ_RESPONSE_ONLY
                | Self::ACKNOWLEDGE
                | Self::ATOMIC_ACKNOWLEDGE
        )
    }

    /// An AtomicETH follows the BTH.
    pub const fn has_atomic_eth(self) -> bool {
        matches!(self, Self::COMPARE_SWAP | Self::FETCH_ADD)
    }

    /// An AtomicAckETH follows the AETH.
    pub const fn has_atomic_ack_eth(self) -> bool {
        matches!(self, Self::ATOMIC_ACKNOWLEDGE)
    }

    /// An IETH follows the BTH.
    pub const fn has_ieth(self) -> bool {
        matches!(self, Self::SEND_LAST_INV | Self::SEND_ONLY_INV)
    }

    /// Payload may stand between the extension headers and the ICRC.
    pub const fn has_payload(self) -> bool {
        let read_response = Self::READ_RESPONSE_FIRST.0 <= self.0 && self.0 <= Self::READ_RESPONSE_ONLY.0;
        self.is_send() || self.is_write() || read_response
    }

    /// Begins a message: First, Only, or a request that is always one packet (READ request, atomics).
    pub const fn is_first_or_only(self) -> bool {
        let first = matches!(self, Self::SEND_FIRST | Self::WRITE_FIRST | Self::READ_RESPONSE_FIRST);
        first || self.is_only()
    }

    /// Ends a message: Last, Only, or a request that is always one packet (READ request, atomics).
    pub const fn is_last_or_only(self) -> bool {
        let last = matches!(
            self,
            Self::SEND_LAST
                | Self::SEND_LAST_IMM
                | Self::SEND_LAST_INV
                | Self::WRITE_LAST
                | Self::WRITE_LAST_IMM
                | Self::READ_RESPONSE_LAST
        );
        last || self.is_only()
    }

    /// Neither begins nor ends its message.
    pub const fn is_middle(self) -> bool {
        matches!(self, Self::SEND_MIDDLE | Self::WRITE_MIDDLE | Self::READ_RESPONSE_MIDDLE)
    }

    const fn is_only(self) -> bool {
        matches!(
            self,
            Self::SEND_ONLY
                | Self::SEND_ONLY_IMM
                | Self::SEND_ONLY_INV
                | Self::WRITE_ONLY
                | Self::WRITE_ONLY_IMM
                | Self::READ_REQUEST
                | Self::READ_RESPONSE_ONLY
                | Self::COMPARE_SWAP
                | Self::FETCH_ADD
        )
    }
}

impl fmt::Debug for Opcode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Opcode({:#04x} {})", self.0, self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The operation table of IBTA 9.2, one row a code:
    /// position (F/M/L/O, or - where a message has none), then the extension headers in order.
    const TABLE: [(u8, char, &str); 24] = [
        (0x00, 'F', ""),
        (0x01, 'M', ""),
        (0x02, 'L', ""),
        (0x03, 'L', "imm"),
        (0x04, 'O', ""),
        (0x05, 'O', "imm"),
        (0x06, 'F', "reth"),
        (0x07, 'M', ""),
        (0x08, 'L', ""),
        (0x09, 'L', "imm"),
        (0x0a, 'O', "reth"),
        (0x0b, 'O', "reth imm"),
        (0x0c, 'O', "reth"),
        (0x0d, 'F', "aeth"),
        (0x0e, 'M', ""),
        (0x0f, 'L', "aeth"),
        (0x10, 'O', "aeth"),
        (0x11, '-', "aeth"),
        (0x12, '-', "aeth atomicack"),
        (0x13, 'O', "atomic"),
        (0x14, 'O', "atomic"),
        (0x16, 'L', "ieth"),
        (0x17, 'O', "ieth"),
        (0x81, '-', ""),
    ];

    #[test]
    fn every_code_answers_as_in_the_table_and_all_others_answer_false() {
        for code in 0..=u8::MAX {
            let op = Opcode(code);
            let row = TABLE.iter().find(|row| row.0 == code);
            let (position, headers) = row.map_or(('-', ""), |row| (row.1, row.2));
            let has = |header| headers.split(' ').any(|h| h == header);
            assert_eq!(op.is_rc(), row.is_some() && code != 0x81, "{op:?}");
            assert_eq!(op.is_first_or_only(), "FO".contains(position), "{op:?}");
            assert_eq!(op.is_last_or_only(), "LO".contains(position), "{op:?}");
            assert_eq!(op.is_middle(), position == 'M', "{op:?}");
            assert_eq!(op.has_reth(), has("reth"), "{op:?}");
            assert_eq!(op.has_immdt(), has("imm"), "{op:?}");
            assert_eq!(op.has_aeth(), has("aeth"), "{op:?}");
            assert_eq!(op.has_atomic_eth(), has("atomic"), "{op:?}");
            assert_eq!(op.has_atomic_ack_eth(), has("atomicack"), "{op:?}");
            assert_eq!(op.has_ieth(), has("ieth"), "{op:?}");
            assert_eq!(op.name() == "unassigned", row.is_none(), "{op:?}");
        }
    }

    #[test]
    fn sends_writes_and_read_responses_have_a_payload() {
        let with = (0..=u8::MAX).filter(|&code| Opcode(code).has_payload());
        assert!(with.eq((0x00..=0x0b).chain(0x0d..=0x10).chain(0x16..=0x17)));
    }

    #[test]
    fn a_code_is_shown_with_its_name() {
        assert_eq!(std::format!("{:?}", Opcode::WRITE_LAST_IMM), "Opcode(0x09 RC RDMA WRITE Last with Immediate)");
        assert_eq!(std::format!("{:?}", Opcode(0x15)), "Opcode(0x15 unassigned)");
    }

    #[test]
    fn operations_divide_the_rc_codes() {
        for op in (0..=u8::MAX).map(Opcode).filter(|&op| op != Opcode::ACKNOWLEDGE) {
            let kinds = [op.is_send(), op.is_write(), op.is_read_or_atomic()];
            let count = kinds.iter().filter(|&&kind| kind).count();
            assert_eq!(count, usize::from(op.is_rc()), "{op:?}");
        }
        assert!(!Opcode::ACKNOWLEDGE.is_read_or_atomic());
    }
}
