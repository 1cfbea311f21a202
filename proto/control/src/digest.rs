// SPDX-License-Identifier: Apache-2.0
//! A digest of a node's whole desired state that is cheap to keep up to date.
//!
//! The digest is the XOR of SHA-256 over each item: the base, and every group's program. Changing one group costs two
//! hashes however many groups the node has, and the order of changes does not matter. An item carries its own identity
//! (a tag, and the group id inside), so no two items of one spec cancel.
//!
//! It finds lost, repeated and misapplied updates. It is no authentication: XOR of hashes can be forged by whoever
//! chooses the items.

use canopy_model::FieldError;
use canopy_model::node_spec::{GroupProgram, NodeBase, NodeSpec};
use prost::Message;
use sha2::{Digest as _, Sha256};

use crate::pb;

/// Length of a digest in bytes.
pub const DIGEST_LEN: usize = 32;

/// Digest of a [`NodeSpec`]'s content: base and groups, not term and generation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Digest([u8; DIGEST_LEN]);

impl Digest {
    /// Digest of the whole spec; hashes every item.
    pub fn of(spec: &NodeSpec) -> Self {
        let mut digest = Self::default();
        digest.toggle_base(&spec.base);
        for program in spec.groups.values() {
            digest.toggle_group(program);
        }
        digest
    }

    /// Adds the base when it is not in the digest, removes it when it is.
    pub fn toggle_base(&mut self, base: &NodeBase) {
        self.toggle(b'b', &pb::NodeBase::from(base).encode_to_vec());
    }

    /// Adds a group's program when it is not in the digest, removes it when it is.
    pub fn toggle_group(&mut self, program: &GroupProgram) {
        self.toggle(b'g', &pb::GroupProgram::from(program).encode_to_vec());
    }

    /// The digest's bytes, as they travel.
    pub fn as_bytes(&self) -> &[u8; DIGEST_LEN] {
        &self.0
    }

    fn toggle(&mut self, tag: u8, encoded: &[u8]) {
        let hash = Sha256::new().chain_update([tag]).chain_update(encoded).finalize();
        for (mine, theirs) in self.0.iter_mut().zip(hash) {
            *mine ^= theirs;
        }
    }
}

impl TryFrom<&[u8]> for Digest {
    type Error = FieldError;
    fn try_from(bytes: &[u8]) -> Result<Self, FieldError> {
        match bytes.try_into() {
            Ok(digest) => Ok(Self(digest)),
            Err(_) => Err(FieldError::new("digest", format!("{} bytes, a digest has {DIGEST_LEN}", bytes.len()))),
        }
    }
}

impl From<Digest> for Vec<u8> {
    fn from(digest: Digest) -> Self {
        digest.0.to_vec()
    }
}

impl std::fmt::Display for Digest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|b| write!(f, "{b:02x}"))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;
    use prost::Message;

    use super::*;
    use crate::testing::{every_field_changed, full_spec, node_spec};

    #[test]
    fn every_field_changes_the_digest() {
        let before = Digest::of(&full_spec());
        let mut seen = BTreeSet::from([before.to_string()]);
        for (field, changed) in every_field_changed() {
            assert_ne!(changed, full_spec(), "the test's change of {field} changes nothing");
            assert!(seen.insert(Digest::of(&changed).to_string()), "{field} is not in the digest");
        }
    }

    #[test]
    fn the_digest_is_that_of_the_published_rule() {
        // XOR of sha256('b' || NodeBase) and sha256('g' || GroupProgram): agents in other languages compute the same.
        let mut spec = full_spec();
        let id = *spec.groups.keys().next().unwrap();
        spec.groups.retain(|k, _| *k == id);
        let base = Sha256::digest([b"b".as_slice(), &pb::NodeBase::from(&spec.base).encode_to_vec()].concat());
        let group =
            Sha256::digest([b"g".as_slice(), &pb::GroupProgram::from(&spec.groups[&id]).encode_to_vec()].concat());
        let xor: Vec<u8> = base.iter().zip(group).map(|(a, b)| a ^ b).collect();
        assert_eq!(Digest::of(&spec).as_bytes().as_slice(), xor);
    }

    proptest! {
        #[test]
        fn it_does_not_depend_on_the_order(spec in node_spec(), seed in any::<u64>()) {
            let mut programs: Vec<_> = spec.groups.values().collect();
            programs.sort_by_key(|p| u64::from(p.group_id.get()).wrapping_mul(seed | 1));
            let mut digest = Digest::default();
            programs.iter().for_each(|p| digest.toggle_group(p));
            digest.toggle_base(&spec.base);
            prop_assert_eq!(digest, Digest::of(&spec));
        }

        #[test]
        fn removing_a_group_is_one_toggle(spec in node_spec()) {
            let mut digest = Digest::of(&spec);
            let mut rest = spec.clone();
            while let Some((_, gone)) = rest.groups.pop_first() {
                digest.toggle_group(&gone);
                prop_assert_eq!(digest, Digest::of(&rest));
            }
        }
    }

    #[test]
    fn a_digest_of_another_length_is_refused() {
        assert_eq!(
            Digest::try_from([0u8; 31].as_slice()).unwrap_err().to_string(),
            "digest: 31 bytes, a digest has 32"
        );
    }
}
