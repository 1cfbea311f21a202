// SPDX-License-Identifier: Apache-2.0
//! Identifiers and numbers, each with its range.

use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

use crate::FieldError;

macro_rules! bounded {
    ($(#[$doc:meta])* $name:ident($inner:ty), $range:expr, $why:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
        #[serde(try_from = "u64", into = "u64")]
        #[cfg_attr(feature = "schema", schema(value_type = u64))]
        pub struct $name($inner);

        impl $name {
            /// Values that are valid.
            pub const RANGE: RangeInclusive<u64> = $range;

            /// The least of them.
            pub const MIN: Self = {
                let range: RangeInclusive<u64> = $range;
                Self(*range.start() as $inner)
            };

            /// Checks the range.
            ///
            /// # Errors
            /// Names `field` and the permitted range.
            pub fn new(field: &str, value: u64) -> Result<Self, FieldError> {
                match <$inner>::try_from(value) {
                    Ok(v) if Self::RANGE.contains(&value) => Ok(Self(v)),
                    _ => Err(FieldError::new(field, format!(concat!("{} ", $why), value))),
                }
            }

            /// The number itself.
            pub const fn get(self) -> $inner {
                self.0
            }
        }

        impl TryFrom<u64> for $name {
            type Error = FieldError;
            fn try_from(value: u64) -> Result<Self, FieldError> {
                Self::new(stringify!($name), value)
            }
        }

        impl From<$name> for u64 {
            fn from(v: $name) -> u64 {
                u64::from(v.0)
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

bounded!(
    /// A node's number in the SRv6 locator, 0x0001..=0xDFFF (a 16-bit uSID).
    NodeId(u16), 1..=0xDFFF, "is not a node id: use 1..=57343 (0x0001..0xDFFF), 0xE000 and above are local functions"
);
bounded!(
    /// A port's index on its node, 1..=0x0FFF; the uA function is 0xE000 + index.
    PortIndex(u16), 1..=0x0FFF, "is not a port index: use 1..=4095"
);
bounded!(
    /// A service's uSID, 0xF100..=0xFFFF; it is local to its edge and follows the edge's uN.
    ServiceId(u16), 0xF100..=0xFFFF, "is not a service uSID: use 61696..=65535 (0xF100..0xFFFF)"
);
bounded!(
    /// Queue Pair Number, 24 bits. 0 and 1 are management QPs, 0xFFFFFF is multicast: none names an RC QP.
    Qpn(u32), 2..=0xFF_FFFE, "is not a usable QPN: use 24 bits, 2..=16777214 (0, 1 and 0xFFFFFF are reserved)"
);
bounded!(
    /// Packet Sequence Number, 24 bits.
    Psn(u32), 0..=0xFF_FFFF, "is not a PSN: use 24 bits, 0..=16777215"
);
bounded!(
    /// Replication tree identifier (RFC 9524 Replication-ID), 32 bits, never 0.
    TreeId(u32), 1..=u32::MAX as u64, "is not a tree id: use 1..=4294967295"
);
bounded!(
    /// Compact group identifier inside one domain, 32 bits, never 0.
    GroupId(u32), 1..=u32::MAX as u64, "is not a group id: use 1..=4294967295"
);

/// A counter that grows with every change of the resource it belongs to.
pub type Generation = u64;

/// Bytes of a name, at most: a DNS-1123 label.
pub const MAX_NAME: usize = 63;

/// Checks a resource name: a DNS-1123 label, as Kubernetes has them.
///
/// # Errors
/// Names `field` and the rule.
pub fn check_name(field: &str, name: &str) -> Result<(), FieldError> {
    let ok = !name.is_empty()
        && name.len() <= MAX_NAME
        && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
        && !name.starts_with('-')
        && !name.ends_with('-');
    if ok {
        Ok(())
    } else {
        Err(FieldError::new(
            field,
            format!("{name:?} is not a name: use 1..={MAX_NAME} of a-z, 0-9 and '-', not first or last '-'"),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn qpn_refuses_25_bits_and_reserved() {
        assert!(Qpn::new("qpn", 0x100_0000).unwrap_err().detail.contains("24 bits"));
        for reserved in [0, 1, 0xFF_FFFF] {
            assert!(Qpn::new("qpn", reserved).is_err());
        }
        assert_eq!(Qpn::new("qpn", 0x11).unwrap().get(), 0x11);
    }

    #[test]
    fn names_are_dns_labels() {
        assert!(check_name("metadata.name", "train-7").is_ok());
        for bad in ["", "A", "-a", "a-", "a_b", &"x".repeat(64)] {
            assert!(check_name("metadata.name", bad).is_err(), "{bad:?}");
        }
    }
}
