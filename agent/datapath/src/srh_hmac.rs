// SPDX-License-Identifier: Apache-2.0
//! The HMAC TLV of a group's packets (RFC 8754 section 2.1.2).
//!
//! Source, flags and segment list are the same in all packets of a group, so the HMAC is computed when the group or a key changes, and
//! for no packet.

use std::net::Ipv6Addr;

use canopy_bpf::node::types;
use canopy_model::node_spec::{GroupProgram, NodeBase};
use canopy_model::srh_hmac::{HmacKey, SECRET_LEN};
use canopy_packet::srh::{Hmac, hmac_text};
use hmac::{KeyInit, Mac};
use sha2::Sha256;

/// Octets of a block of SHA-256.
const BLOCK: usize = 64;

/// HMAC-SHA256 over what the packets with these segments have in common. The octets of the secret are the key, as those of a passphrase
/// are in Linux.
pub(crate) fn hmac(key: &HmacKey, source: Ipv6Addr, segments: &[Ipv6Addr]) -> [u8; 32] {
    let text = hmac_text(source, key.flag_bit.srh_flags(), key.id.get(), segments);
    // RFC 2104 fills a shorter key with zeros.
    let mut block = [0; BLOCK];
    block[..SECRET_LEN].copy_from_slice(key.secret.reveal());
    hmac::Hmac::<Sha256>::new(&block.into()).chain_update(text).finalize().into_bytes().into()
}

/// The TLV that a headend sends.
pub(crate) fn tlv(key: &HmacKey, source: Ipv6Addr, g: &GroupProgram, segments: &[Ipv6Addr]) -> Hmac {
    Hmac {
        // Nodes rewrite the Destination Address for every child (RFC 9524): it is not the active segment, except with IP multicast.
        d: g.multicast.is_none(),
        key_id: key.id.get(),
        hmac: hmac(key, source, segments).to_vec(),
    }
}

/// What encapsulated packets of the group are compared with; `None` if they are not.
///
/// # Errors
/// The program does not contain from where such packets come.
pub(crate) fn expected(base: &NodeBase, g: &GroupProgram) -> Result<Option<types::canopy_hmac>, String> {
    let Some(keys) = base.hmac.as_ref().filter(|hmac| hmac.required && g.headend.is_none()) else { return Ok(None) };
    let unknown = || format!("group {}: its headend is not known, so the HMAC of its packets is not either", g.name);
    let source = g.headend_address.ok_or_else(unknown)?;
    let segments = g.segments(&base.addressing).ok_or_else(unknown)?;
    let mut want = types::canopy_hmac { source: source.into(), ..types::canopy_hmac::default() };
    for (to, segment) in want.segments.iter_mut().zip(&segments) {
        *to = (*segment).into();
    }
    for (to, key) in want.keys.iter_mut().zip(keys.keys()) {
        let octets = hmac(key, source, &segments);
        to.id = key.id.get().to_be();
        to.flags = key.flag_bit.srh_flags().into();
        for (to, word) in to.hmac.iter_mut().zip(octets.as_chunks::<8>().0) {
            *to = u64::from_ne_bytes(*word);
        }
    }
    Ok(Some(want))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
pub(crate) mod tests;
