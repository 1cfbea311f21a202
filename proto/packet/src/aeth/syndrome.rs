// SPDX-License-Identifier: Apache-2.0
//! AETH syndrome, IBTA volume 1 section 9.7.5.1.
//!
//! ```text
//!  7   6 5   4 3 2 1 0
//! +-+ +---+ +---------+
//! |0| |0 0| | credits |   ACK; 31 means no credit limit
//! |0| |0 1| |  timer  |   RNR NAK
//! |0| |1 1| |  code   |   NAK
//! +-+ +---+ +---------+   everything else is reserved
//! ```

use core::fmt;

/// Credit code of an ACK that sets no limit.
pub const CREDITS_UNLIMITED: u8 = 31;

const VALUE: u8 = 0x1f;
const RNR: u8 = 0x20;
const NAK: u8 = 0x60;

/// AETH syndrome; every octet is a value, [`Syndrome::kind`] decodes it.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Syndrome(pub u8);

/// Decoded meaning of a [`Syndrome`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SyndromeKind {
    /// Positive acknowledgement.
    Ack {
        /// Credit code (0..=31), not a count: 31 means no limit, else a larger code grants at least as much.
        credits: u8,
    },
    /// Receiver not ready: try again after the time that [`super::rnr_timer`] gives.
    RnrNak {
        /// Timer code (0..=31).
        timer: u8,
    },
    /// Negative acknowledgement.
    Nak(NakCode),
    /// No meaning assigned.
    Reserved,
}

/// Why a NAK was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum NakCode {
    /// PSN sequence error: the only recoverable one, answered by retransmission.
    PsnSequence = 0,
    /// Invalid request.
    InvalidRequest = 1,
    /// Remote access error.
    RemoteAccess = 2,
    /// Remote operational error.
    RemoteOperational = 3,
    /// Invalid Reliable Datagram request.
    InvalidRd = 4,
}

impl Syndrome {
    /// NAK, PSN sequence error.
    pub const NAK_PSN_SEQUENCE: Self = Self(NAK);
    /// NAK, invalid request.
    pub const NAK_INVALID_REQUEST: Self = Self(NAK | 1);
    /// NAK, remote access error.
    pub const NAK_REMOTE_ACCESS: Self = Self(NAK | 2);
    /// NAK, remote operational error.
    pub const NAK_REMOTE_OPERATIONAL: Self = Self(NAK | 3);
    /// NAK, invalid Reliable Datagram request.
    pub const NAK_INVALID_RD: Self = Self(NAK | 4);

    /// ACK with a credit code (0..=31). A larger argument has no code and becomes [`CREDITS_UNLIMITED`].
    pub const fn ack(credits: u8) -> Self {
        Self(if credits > CREDITS_UNLIMITED { CREDITS_UNLIMITED } else { credits })
    }

    /// RNR NAK with a timer code (0..=31). A larger argument has no code and becomes 0, the longest wait.
    pub const fn rnr_nak(timer: u8) -> Self {
        Self(RNR | if timer > super::RNR_TIMER_MAX { 0 } else { timer })
    }

    /// NAK.
    pub const fn nak(code: NakCode) -> Self {
        Self(NAK | code as u8)
    }

    /// Decodes the octet.
    pub const fn kind(self) -> SyndromeKind {
        let value = self.0 & VALUE;
        match self.0 & !VALUE {
            0 => SyndromeKind::Ack { credits: value },
            RNR => SyndromeKind::RnrNak { timer: value },
            NAK => match value {
                0 => SyndromeKind::Nak(NakCode::PsnSequence),
                1 => SyndromeKind::Nak(NakCode::InvalidRequest),
                2 => SyndromeKind::Nak(NakCode::RemoteAccess),
                3 => SyndromeKind::Nak(NakCode::RemoteOperational),
                4 => SyndromeKind::Nak(NakCode::InvalidRd),
                _ => SyndromeKind::Reserved,
            },
            _ => SyndromeKind::Reserved,
        }
    }

    /// An ACK, with any credits.
    pub const fn is_ack(self) -> bool {
        matches!(self.kind(), SyndromeKind::Ack { .. })
    }

    /// An RNR NAK, with any timer.
    pub const fn is_rnr_nak(self) -> bool {
        matches!(self.kind(), SyndromeKind::RnrNak { .. })
    }

    /// A NAK that retransmission cannot recover: the requester's QP goes to the error state.
    pub const fn is_fatal_nak(self) -> bool {
        matches!(self.kind(), SyndromeKind::Nak(code) if !matches!(code, NakCode::PsnSequence))
    }
}

impl fmt::Debug for Syndrome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Syndrome({:#04x} {:?})", self.0, self.kind())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_octet_has_one_meaning_and_meaning_gives_the_octet_back() {
        for octet in 0..=u8::MAX {
            let syndrome = Syndrome(octet);
            let (again, class) = match syndrome.kind() {
                SyndromeKind::Ack { credits } => (Syndrome::ack(credits), 0x00..=0x1f),
                SyndromeKind::RnrNak { timer } => (Syndrome::rnr_nak(timer), 0x20..=0x3f),
                SyndromeKind::Nak(code) => (Syndrome::nak(code), 0x60..=0x64),
                SyndromeKind::Reserved => {
                    assert!(matches!(octet, 0x40..=0x5f | 0x65..=0xff), "{octet:#x}");
                    continue;
                }
            };
            assert_eq!(again, syndrome);
            assert!(class.contains(&octet), "{syndrome:?}");
        }
    }

    #[test]
    fn only_the_sequence_error_is_survivable() {
        let fatal = (0..=u8::MAX).filter(|&octet| Syndrome(octet).is_fatal_nak());
        assert!(fatal.eq(0x61..=0x64));
        assert_eq!(Syndrome::NAK_PSN_SEQUENCE.0, 0x60);
    }

    #[test]
    fn arguments_without_a_code_never_leak_into_the_class_bits() {
        assert_eq!(Syndrome::ack(200), Syndrome(0x1f));
        assert_eq!(Syndrome::rnr_nak(200), Syndrome(0x20));
    }

    #[test]
    fn a_class_is_that_of_its_octets() {
        let octets = |is: fn(Syndrome) -> bool| (0..=u8::MAX).filter(move |&octet| is(Syndrome(octet)));
        assert!(octets(Syndrome::is_ack).eq(0x00..=0x1f));
        assert!(octets(Syndrome::is_rnr_nak).eq(0x20..=0x3f));
    }

    #[test]
    fn every_nak_has_the_code_of_the_table() {
        let naks = [
            (Syndrome::NAK_PSN_SEQUENCE, 0x60, NakCode::PsnSequence),
            (Syndrome::NAK_INVALID_REQUEST, 0x61, NakCode::InvalidRequest),
            (Syndrome::NAK_REMOTE_ACCESS, 0x62, NakCode::RemoteAccess),
            (Syndrome::NAK_REMOTE_OPERATIONAL, 0x63, NakCode::RemoteOperational),
            (Syndrome::NAK_INVALID_RD, 0x64, NakCode::InvalidRd),
        ];
        for (nak, octet, code) in naks {
            assert_eq!((nak.0, nak.kind()), (octet, SyndromeKind::Nak(code)));
        }
    }

    #[test]
    fn an_octet_is_shown_with_its_meaning() {
        assert_eq!(std::format!("{:?}", Syndrome(0x61)), "Syndrome(0x61 Nak(InvalidRequest))");
    }
}
