// SPDX-License-Identifier: Apache-2.0
//! Digests of items. The digest of a node's whole content is the XOR of SHA-256 over each item: the base, and every group's
//! program.
//!
//! Changing one group costs two hashes however many groups the node has, and the order of changes does not matter. An item is
//! hashed with its identity (a tag, and the group's identifier), so no two items of one content cancel. Hashed are the octets as
//! they travel, never an encoding of what was parsed from them: both sides agree on fields that only one of them knows.
//!
//! A digest finds lost, repeated and misapplied updates. It is no authentication: an attacker who chooses the items can forge an
//! XOR of hashes.

use canopy_model::digest::SpecDigest;
use canopy_model::ids::GroupId;
use sha2::{Digest as _, Sha256};

/// Digest of an encoded base.
pub(crate) fn of_base(octets: &[u8]) -> SpecDigest {
    SpecDigest::new(Sha256::new().chain_update(b"b").chain_update(octets).finalize().into())
}

/// Digest of a group's encoded program.
pub(crate) fn of_group(id: GroupId, octets: &[u8]) -> SpecDigest {
    let hash = Sha256::new().chain_update(b"g").chain_update(id.get().to_be_bytes()).chain_update(octets);
    SpecDigest::new(hash.finalize().into())
}
