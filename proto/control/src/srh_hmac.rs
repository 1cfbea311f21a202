// SPDX-License-Identifier: Apache-2.0
//! Keys of the SRH HMAC TLV.

use std::fmt;

use canopy_model::FieldError;
use canopy_model::srh_hmac::{FlagBit, HmacKey, HmacKeyId, HmacSecret, SECRET_LEN, SrhHmac};

use crate::field::each;
use crate::pb;

impl TryFrom<pb::SrhHmac> for SrhHmac {
    type Error = FieldError;
    fn try_from(wire: pb::SrhHmac) -> Result<Self, FieldError> {
        Self::new(each("keys", wire.keys)?, HmacKeyId::new("sending", wire.sending)?, wire.required)
    }
}

impl From<&SrhHmac> for pb::SrhHmac {
    fn from(hmac: &SrhHmac) -> Self {
        Self {
            keys: hmac.keys().iter().map(Into::into).collect(),
            sending: hmac.sending().id.get(),
            required: hmac.required,
        }
    }
}

impl TryFrom<pb::SrhHmacKey> for HmacKey {
    type Error = FieldError;
    fn try_from(wire: pb::SrhHmacKey) -> Result<Self, FieldError> {
        let flag_bit = wire.flag_bit();
        let secret = <[u8; SECRET_LEN]>::try_from(&wire.secret[..]).map_err(|_| {
            FieldError::new("secret", format!("{} bytes, a secret has {SECRET_LEN}", wire.secret.len()))
        })?;
        Ok(Self { id: HmacKeyId::new("id", wire.id)?, secret: HmacSecret::new(secret), flag_bit: flag_bit.try_into()? })
    }
}

impl From<&HmacKey> for pb::SrhHmacKey {
    fn from(key: &HmacKey) -> Self {
        let mut wire = Self { id: key.id.get(), secret: key.secret.reveal().to_vec(), flag_bit: 0 };
        wire.set_flag_bit(key.flag_bit.into());
        wire
    }
}

impl TryFrom<pb::SrhHmacFlagBit> for FlagBit {
    type Error = FieldError;
    fn try_from(wire: pb::SrhHmacFlagBit) -> Result<Self, FieldError> {
        match wire {
            pb::SrhHmacFlagBit::Rfc8754 => Ok(Self::Rfc8754),
            pb::SrhHmacFlagBit::Linux => Ok(Self::Linux),
            pb::SrhHmacFlagBit::Unspecified => Err(FieldError::new("flag_bit", "is missing or unknown")),
        }
    }
}

impl From<FlagBit> for pb::SrhHmacFlagBit {
    fn from(flag_bit: FlagBit) -> Self {
        match flag_bit {
            FlagBit::Rfc8754 => Self::Rfc8754,
            FlagBit::Linux => Self::Linux,
        }
    }
}

/// Shows no secret.
impl fmt::Debug for pb::SrhHmacKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SrhHmacKey").field("id", &self.id).field("flag_bit", &self.flag_bit).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use prost::Message;

    use super::*;

    fn key() -> pb::SrhHmacKey {
        pb::SrhHmacKey { id: 7, secret: vec![0x41; 32], flag_bit: 2 }
    }

    #[test]
    fn what_is_no_key_is_refused_by_field() {
        let field = |keys: Vec<pb::SrhHmacKey>, sending| {
            SrhHmac::try_from(pb::SrhHmac { keys, sending, required: true }).unwrap_err().field
        };
        assert!(SrhHmac::try_from(pb::SrhHmac { keys: vec![key()], sending: 7, required: true }).is_ok());
        assert_eq!(field(vec![], 7), "keys");
        assert_eq!(field(vec![key()], 0), "sending");
        assert_eq!(field(vec![key()], 8), "sending");
        assert_eq!(field(vec![pb::SrhHmacKey { id: 0, ..key() }], 7), "keys[0].id");
        assert_eq!(field(vec![pb::SrhHmacKey { secret: vec![1; 31], ..key() }], 7), "keys[0].secret");
        for flag_bit in [0, 3] {
            assert_eq!(field(vec![pb::SrhHmacKey { flag_bit, ..key() }], 7), "keys[0].flag_bit");
        }
    }

    #[test]
    fn this_version_of_the_contract_knows_the_keys() {
        const { assert!(crate::MINOR_VERSION >= canopy_model::srh_hmac::MINOR_VERSION) };
    }

    #[test]
    fn no_debug_form_shows_a_secret() {
        let base = pb::NodeBase {
            hmac: Some(pb::SrhHmac { keys: vec![key()], sending: 7, required: true }),
            ..pb::NodeBase::default()
        };
        let shown = format!("{base:?}");
        assert!(shown.contains("SrhHmacKey") && !shown.contains("65, 65") && !shown.contains("AAAA"), "{shown}");
    }

    /// The part of the schema before the HMAC TLV that the test needs.
    #[derive(Clone, PartialEq, prost::Message)]
    struct EarlierBase {
        #[prost(string, tag = "1")]
        name: String,
        #[prost(uint32, tag = "2")]
        node_id: u32,
    }

    #[test]
    fn an_earlier_agent_reads_a_base_with_keys_and_an_earlier_controllers_has_none() {
        let base = pb::NodeBase {
            name: "n1".into(),
            node_id: 1,
            hmac: Some(pb::SrhHmac { keys: vec![key()], sending: 7, required: true }),
            ..pb::NodeBase::default()
        };
        let earlier = EarlierBase { name: "n1".into(), node_id: 1 };
        assert_eq!(EarlierBase::decode(base.encode_to_vec().as_slice()).unwrap(), earlier);
        assert_eq!(pb::NodeBase::decode(earlier.encode_to_vec().as_slice()).unwrap().hmac, None);
    }
}
