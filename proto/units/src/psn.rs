// SPDX-License-Identifier: Apache-2.0
//! Packet sequence numbers that do not wrap.

use std::fmt;
use std::ops::Add;

/// Bits of a PSN on the wire (IBTA volume 1, BTH).
const WIRE_BITS: u32 = 24;

/// A packet sequence number unwrapped to 64 bits; its low 24 bits are the PSN on the wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(transparent))]
pub struct UnwrappedPsn(pub u64);

impl UnwrappedPsn {
    /// Before every PSN that is sent; what it means otherwise, its owner documents.
    pub const ZERO: Self = Self(0);

    /// The number.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The PSN on the wire, 24 bits.
    pub const fn wire(self) -> u32 {
        (self.0 & ((1 << WIRE_BITS) - 1)) as u32
    }

    /// Packets from `earlier` to this one; 0 if `earlier` is later.
    pub const fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

impl Add<u64> for UnwrappedPsn {
    type Output = Self;
    fn add(self, packets: u64) -> Self {
        Self(self.0.saturating_add(packets))
    }
}

impl fmt::Display for UnwrappedPsn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
