// SPDX-License-Identifier: Apache-2.0
//! Keys of the SRH HMAC TLV (RFC 8754 section 2.1.2), as every node of a domain has them.

use std::fmt;
use std::num::NonZeroU32;

use serde::{Deserialize, Serialize};

use crate::FieldError;

/// Minor version of the southbound contract from which agents know the keys: an earlier one neither signs nor compares, and confirms all the same.
pub const MINOR_VERSION: u32 = 2;

/// Most keys that are accepted at a time: the one in use, and during a rotation the one before or after it.
pub const MAX_KEYS: usize = 2;
/// Octets of a secret.
pub const SECRET_LEN: usize = 32;

/// The keys of the domain, and what a node does with them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SrhHmac {
    keys: Vec<HmacKey>,
    sending: HmacKeyId,
    /// Packets of a group without a valid HMAC TLV are dropped. Otherwise the TLV is ignored.
    pub required: bool,
}

impl SrhHmac {
    /// Keys that are accepted, of which `sending` is the one that headends use.
    ///
    /// # Errors
    /// `keys`: none, more than [`MAX_KEYS`], or two with one identifier; `sending`: it is none of them.
    pub fn new(keys: Vec<HmacKey>, sending: HmacKeyId, required: bool) -> Result<Self, FieldError> {
        if keys.is_empty() || keys.len() > MAX_KEYS {
            return Err(FieldError::new("keys", format!("{} keys: use 1..={MAX_KEYS}", keys.len())));
        }
        if let [a, b] = &keys[..]
            && a.id == b.id
        {
            return Err(FieldError::new("keys", format!("two keys have the identifier {}", a.id)));
        }
        if !keys.iter().any(|key| key.id == sending) {
            return Err(FieldError::new("sending", format!("{sending} is none of the keys")));
        }
        Ok(Self { keys, sending, required })
    }

    /// One key, which sends.
    pub fn first(key: HmacKey) -> Self {
        Self { sending: key.id, keys: vec![key], required: false }
    }

    /// The key that sends, and `next` as the newest one, whose identifier is another.
    pub fn with_next(&self, next: HmacKey) -> Self {
        debug_assert!(next.id != self.sending);
        Self { keys: vec![self.sending().clone(), next], ..*self }
    }

    /// The newest key sends.
    pub fn sending_newest(&self) -> Self {
        Self { keys: self.keys.clone(), sending: self.newest().id, ..*self }
    }

    /// No key but the one that sends.
    pub fn only_sending(&self) -> Self {
        Self { keys: vec![self.sending().clone()], ..*self }
    }

    /// The same keys, with another answer to whether a valid TLV is required.
    pub fn requiring(&self, required: bool) -> Self {
        Self { required, ..self.clone() }
    }

    /// The key that was added last.
    fn newest(&self) -> &HmacKey {
        &self.keys[self.keys.len() - 1]
    }

    /// The keys that are accepted, the oldest first.
    pub fn keys(&self) -> &[HmacKey] {
        &self.keys
    }

    /// The key with which headends compute the TLV.
    pub fn sending(&self) -> &HmacKey {
        // `new` made sure that there is one.
        self.keys.iter().find(|key| key.id == self.sending).unwrap_or(&self.keys[0])
    }
}

/// How far a domain is with its keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub enum HmacPhase {
    /// There are no keys.
    Off,
    /// Headends begin to sign; nothing is required yet.
    Starting,
    /// One key is in use.
    On,
    /// Nodes begin to accept the next key.
    Accepting,
    /// Headends begin to sign with the next key.
    Sending,
    /// Nodes cease to require a signature, headends still sign.
    Stopping,
}

/// A key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HmacKey {
    /// HMAC Key ID on the wire.
    pub id: HmacKeyId,
    /// The octets of the key.
    pub secret: HmacSecret,
    /// Flags of the SRHs that are signed with it.
    pub flag_bit: FlagBit,
}

/// HMAC Key ID: 32 bits, not 0 (Linux: no key).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct HmacKeyId(NonZeroU32);

impl HmacKeyId {
    /// Checks the range.
    ///
    /// # Errors
    /// `field` if it is 0.
    pub fn new(field: &str, id: u32) -> Result<Self, FieldError> {
        NonZeroU32::new(id).map(Self).ok_or_else(|| FieldError::new(field, "is 0, which is no key: use 1..=4294967295"))
    }

    /// The number.
    pub fn get(self) -> u32 {
        self.0.get()
    }
}

impl fmt::Display for HmacKeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The octets of a key; its `Debug` form does not show them.
#[derive(Clone, PartialEq, Eq)]
pub struct HmacSecret([u8; SECRET_LEN]);

impl HmacSecret {
    /// The key with these octets, which a cryptographic generator drew.
    pub fn new(octets: [u8; SECRET_LEN]) -> Self {
        Self(octets)
    }

    /// The octets: for the HMAC, the southbound contract and the store, and nothing else.
    pub fn reveal(&self) -> &[u8; SECRET_LEN] {
        &self.0
    }
}

impl fmt::Debug for HmacSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HmacSecret(..)")
    }
}

/// How a signed SRH is marked. The HMAC covers the flags.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum FlagBit {
    /// No flag, as in RFC 8754.
    #[default]
    Rfc8754,
    /// Bit 0x08, which Linux sets, and without which it takes an SRH for one that has no HMAC TLV.
    Linux,
}

impl FlagBit {
    /// The SRH's Flags.
    pub fn srh_flags(self) -> u8 {
        match self {
            Self::Rfc8754 => 0,
            Self::Linux => 0x08,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(id: u32) -> HmacKey {
        let id = HmacKeyId::new("id", id).unwrap();
        HmacKey { id, secret: HmacSecret::new([0x41; 32]), flag_bit: FlagBit::Linux }
    }

    #[test]
    fn keys_are_one_or_two_different_ones_and_one_of_them_sends() {
        let new = |ids: &[u32], sending| {
            let sending = HmacKeyId::new("sending", sending).unwrap();
            let keys = ids.iter().map(|id| key(*id)).collect();
            SrhHmac::new(keys, sending, true).map_err(|e| e.field)
        };
        assert_eq!(new(&[7], 7).unwrap().sending().id.get(), 7);
        assert_eq!(new(&[7, 8], 8).unwrap().sending().id.get(), 8);
        for (ids, sending, field) in
            [(&[][..], 1, "keys"), (&[1, 2, 3], 1, "keys"), (&[4, 4], 4, "keys"), (&[1, 2], 3, "sending")]
        {
            assert_eq!(new(ids, sending).unwrap_err(), field, "{ids:?}");
        }
        assert_eq!(HmacKeyId::new("id", 0).unwrap_err().field, "id");
    }

    #[test]
    fn the_secret_is_not_shown() {
        let shown = format!("{:?}", SrhHmac::new(vec![key(1)], key(1).id, true).unwrap());
        assert!(shown.contains("HmacSecret(..)") && !shown.contains("65") && !shown.contains("41"), "{shown}");
    }
}
