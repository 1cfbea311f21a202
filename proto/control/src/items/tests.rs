// SPDX-License-Identifier: Apache-2.0

use std::collections::BTreeSet;

use proptest::prelude::*;
use sha2::{Digest as _, Sha256};

use super::*;
use crate::testing::{every_field_changed, full_spec, node_spec};

#[test]
fn every_field_changes_the_digest() {
    let before = Items::encode(&full_spec()).digest();
    let mut seen = BTreeSet::from([before.to_string()]);
    for (field, changed) in every_field_changed() {
        assert_ne!(changed, full_spec(), "the test's change of {field} changes nothing");
        assert!(seen.insert(Items::encode(&changed).digest().to_string()), "{field} is not in the digest");
    }
}

#[test]
fn the_digest_is_that_of_the_published_rule() {
    // Agents in other languages compute the same.
    let mut spec = full_spec();
    let id = *spec.groups.keys().next().unwrap();
    spec.groups.retain(|k, _| *k == id);
    let base = Sha256::digest([b"b".as_slice(), &pb::NodeBase::from(&*spec.base).encode_to_vec()].concat());
    let program = pb::GroupProgram::from(spec.groups.get(&id).unwrap()).encode_to_vec();
    let group = Sha256::digest([b"g".as_slice(), &id.get().to_be_bytes(), &program].concat());
    let xor: Vec<u8> = base.iter().zip(group).map(|(a, b)| a ^ b).collect();
    assert_eq!(Items::encode(&spec).digest().as_bytes().as_slice(), xor);
}

proptest! {
    #[test]
    fn pages_put_together_are_the_content(spec in node_spec(), cut in 0usize..4) {
        let items = Items::encode(&spec);
        let whole: Vec<_> = items.pages(Position::default()).collect();
        prop_assert!(whole[0].first && whole.iter().rev().skip(1).all(|p| !p.last) && whole[whole.len() - 1].last);
        // From any group on, the rest is what is behind it.
        let after = items.groups().map(|(id, _)| id).nth(cut);
        let rest = items.pages(Position { base_octets: items.base().len(), after_group: after });
        let ids: Vec<u32> = rest.flat_map(|p| p.groups).map(|g| g.group_id).collect();
        let behind: Vec<u32> = items.groups().map(|(id, _)| id.get()).filter(|id| after.is_none_or(|a| *id > a.get())).collect();
        prop_assert_eq!(ids, behind);
    }
}

#[test]
fn no_page_is_longer_than_its_limit() {
    let mut items = Items::default();
    let program = Bytes::from(vec![7; 300_000]);
    items.set_base(vec![1; 2 * MAX_PAGE_OCTETS + 5].into());
    for id in 1..=20 {
        items.upsert(GroupId::new("id", id).unwrap(), program.clone());
    }
    // One that is longer than a page travels alone.
    items.upsert(GroupId::new("id", 10).unwrap(), vec![2; MAX_PAGE_OCTETS + 1].into());
    let pages: Vec<_> = items.pages(Position::default()).collect();
    let octets = |p: &pb::SnapshotPage| p.base.len() + p.groups.iter().map(|g| g.program.len()).sum::<usize>();
    let long: Vec<_> = pages.iter().filter(|p| octets(p) > MAX_PAGE_OCTETS).collect();
    assert!(long.len() == 1 && long[0].groups.len() == 1 && long[0].groups[0].group_id == 10);
    assert_eq!(pages.iter().flat_map(|p| &p.groups).count(), 20);
    assert_eq!(pages.iter().map(|p| p.base.len()).sum::<usize>(), items.base().len());
    assert_eq!(pages.iter().filter(|p| p.first).count(), 1);
}
