// SPDX-License-Identifier: Apache-2.0
//! The name of a content: two nodes' desired states with one digest are the same.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

use crate::FieldError;

/// Length of a digest in octets.
pub const DIGEST_LEN: usize = 32;

/// Digest of the content of a [`NodeSpec`](crate::node_spec::NodeSpec): base and groups, not term and generation. All zeros
/// stand for no content.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct SpecDigest([u8; DIGEST_LEN]);

impl SpecDigest {
    /// From its octets.
    pub const fn new(octets: [u8; DIGEST_LEN]) -> Self {
        Self(octets)
    }

    /// The octets, as they travel.
    pub const fn as_bytes(&self) -> &[u8; DIGEST_LEN] {
        &self.0
    }

    /// Adds an item's digest when it is not in this one, removes it when it is.
    pub fn toggle(&mut self, item: Self) {
        for (mine, its) in self.0.iter_mut().zip(item.0) {
            *mine ^= its;
        }
    }

    /// From a field of a message; an empty field is the digest of no content.
    ///
    /// # Errors
    /// Another length than 0 and [`DIGEST_LEN`].
    pub fn from_field(field: &str, octets: &[u8]) -> Result<Self, FieldError> {
        match octets {
            [] => Ok(Self::default()),
            octets => octets
                .try_into()
                .map(Self)
                .map_err(|_| FieldError::new(field, format!("{} bytes, a digest has {DIGEST_LEN}", octets.len()))),
        }
    }
}

impl From<SpecDigest> for Vec<u8> {
    fn from(digest: SpecDigest) -> Self {
        digest.0.to_vec()
    }
}

impl std::fmt::Display for SpecDigest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|octet| write!(f, "{octet:02x}"))
    }
}

/// Hexadecimal digits.
impl Serialize for SpecDigest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for SpecDigest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let octet = |i: usize| text.get(2 * i..2 * i + 2).and_then(|digits| u8::from_str_radix(digits, 16).ok());
        let mut octets = [0; DIGEST_LEN];
        for (i, to) in octets.iter_mut().enumerate() {
            *to = octet(i)
                .ok_or_else(|| D::Error::custom(format!("a digest has {} hexadecimal digits", 2 * DIGEST_LEN)))?;
        }
        if text.len() == 2 * DIGEST_LEN { Ok(Self(octets)) } else { Err(D::Error::custom("a digest has 64 digits")) }
    }
}
