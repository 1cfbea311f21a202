// SPDX-License-Identifier: Apache-2.0
//! The HMAC against Python's: `vectors.txt`, which `vectors.py` made.

use canopy_model::srh_hmac::{FlagBit, HmacKeyId, HmacSecret};

use super::*;

/// A line of `vectors.txt`: key, source, segments and HMAC.
pub(crate) fn vectors() -> Vec<(HmacKey, Ipv6Addr, Vec<Ipv6Addr>, [u8; 32])> {
    let octets = |hex: &str| -> [u8; 32] {
        let octet = |i| u8::from_str_radix(&hex[2 * i..2 * i + 2], 16).unwrap();
        assert_eq!(hex.len(), 64);
        std::array::from_fn(octet)
    };
    let line = |line: &str| {
        let [secret, flags, id, source, segments, hmac] = line.split(' ').collect::<Vec<_>>()[..] else {
            panic!("{line:?}")
        };
        let key = HmacKey {
            id: HmacKeyId::new("id", id.parse().unwrap()).unwrap(),
            secret: HmacSecret::new(octets(secret)),
            flag_bit: if flags == "8" { FlagBit::Linux } else { FlagBit::Rfc8754 },
        };
        let segments = segments.split(',').map(|s| s.parse().unwrap()).collect();
        (key, source.parse().unwrap(), segments, octets(hmac))
    };
    include_str!("vectors.txt").lines().filter(|l| !l.starts_with('#')).map(line).collect()
}

#[test]
fn the_hmac_is_that_of_another_implementation() {
    let vectors = vectors();
    assert_eq!(vectors.len(), 22);
    for (key, source, segments, wanted) in vectors {
        assert_eq!(hmac(&key, source, &segments), wanted, "key {}", key.id);
    }
}
