// SPDX-License-Identifier: Apache-2.0

use proptest::prelude::*;
use prost::Message;

use super::*;
use crate::testing::{full_spec, node_spec};

fn next(spec: &NodeSpec) -> NodeSpec {
    NodeSpec { generation: spec.generation + 1, ..spec.clone() }
}

proptest! {
    #[test]
    fn snapshots_survive_the_wire(spec in node_spec()) {
        let bytes = snapshot_response(&spec).encode_to_vec();
        let back = apply_update(None, pb::WatchResponse::decode(bytes.as_slice()).unwrap()).unwrap();
        prop_assert_eq!(back, spec);
    }

    #[test]
    fn a_delta_leads_exactly_to_its_end(from in node_spec(), mut to in node_spec()) {
        to.generation = from.generation + 1;
        to.term = from.term;
        let (response, digest) = delta_response(&from, Digest::of(&from), &to);
        prop_assert_eq!(digest, Digest::of(&to));
        prop_assert_eq!(apply_update(Some(from), response).unwrap(), to);
    }

    #[test]
    fn a_cut_off_spec_is_an_error_or_a_valid_thing(spec in node_spec()) {
        let bytes = pb::NodeSpec::from(&spec).encode_to_vec();
        for end in 0..bytes.len() {
            // A prefix that ends between two fields decodes; what is missing is then named, or was not needed.
            if let Ok(wire) = pb::NodeSpec::decode(&bytes[..end]) {
                match <(NodeBase, BTreeMap<GroupId, GroupProgram>)>::try_from(wire) {
                    Ok((base, groups)) => {
                        prop_assert_eq!(&base, &spec.base);
                        prop_assert!(groups.iter().all(|(id, p)| spec.groups.get(id) == Some(p)));
                    }
                    Err(e) => prop_assert!(!e.field.is_empty() && !e.detail.is_empty()),
                }
            }
        }
    }
}

#[test]
fn a_delta_holds_only_what_changed() {
    let from = full_spec();
    let mut to = next(&from);
    let (first, last) = (*from.groups.keys().next().unwrap(), *from.groups.keys().last().unwrap());
    assert_ne!(first, last);
    to.groups.get_mut(&first).unwrap().epoch += 1;
    to.groups.remove(&last);
    let d = delta(&from, &to);
    assert_eq!(d.base, None);
    assert_eq!(d.upserted_groups.iter().map(|p| p.group_id).collect::<Vec<_>>(), [first.get()]);
    assert_eq!(d.removed_groups, [last.get()]);
    assert_eq!(d.from_generation, from.generation);
}

#[test]
fn a_lower_term_and_an_older_generation_are_refused() {
    let held = NodeSpec { term: 5, generation: 10, ..full_spec() };
    let with = |term, generation| snapshot_response(&NodeSpec { term, generation, ..full_spec() });
    assert_eq!(apply_update(Some(held.clone()), with(4, 11)), Err(UpdateError::LowerTerm { accepted: 5, got: 4 }));
    assert_eq!(apply_update(Some(held.clone()), with(6, 9)), Err(UpdateError::OlderGeneration { current: 10, got: 9 }));
    // A new leader that confirms the same content raises the term and nothing else.
    assert_eq!(apply_update(Some(held.clone()), with(6, 10)), Ok(NodeSpec { term: 6, ..held }));
}

#[test]
fn a_repeated_delta_changes_nothing_and_one_on_another_base_is_refused() {
    let from = full_spec();
    let mut to = next(&from);
    to.groups.pop_first();
    let (response, _) = delta_response(&from, Digest::of(&from), &to);
    assert_eq!(apply_update(Some(to.clone()), response.clone()).unwrap(), to);
    let older = NodeSpec { generation: from.generation - 1, ..from.clone() };
    assert_eq!(
        apply_update(Some(older), response.clone()),
        Err(UpdateError::OtherBase { current: Some(from.generation - 1), from: from.generation })
    );
    let err = apply_update(None, response).unwrap_err();
    assert!(err.to_string().ends_with("this node holds nothing"), "{err}");
}

#[test]
fn a_delta_on_a_diverged_spec_is_found_by_its_digest() {
    let from = full_spec();
    let mut diverged = from.clone();
    diverged.base.routes.pop();
    let mut to = next(&from);
    to.groups.pop_first();
    let (response, _) = delta_response(&from, Digest::of(&from), &to);
    assert!(matches!(apply_update(Some(diverged.clone()), response), Err(UpdateError::DigestMismatch { .. })));
    // A snapshot of the same generation repairs it.
    let repaired = apply_update(Some(diverged), snapshot_response(&from)).unwrap();
    assert_eq!(repaired, from);
}

#[test]
fn faults_are_named_with_their_whole_path() {
    let wrong = |change: fn(&mut pb::NodeSpec)| {
        let mut response = snapshot_response(&full_spec());
        if let Some(Update::Snapshot(s)) = &mut response.update {
            change(s);
        }
        apply_update(None, response).unwrap_err().to_string()
    };
    assert_eq!(
        wrong(|s| s.groups[1].branches[1].address.truncate(5)),
        "snapshot.groups[1].branches[1].address: 5 bytes, an IPv6 address has 16"
    );
    assert_eq!(wrong(|s| s.base = None), "snapshot.base: is missing");
    assert_eq!(wrong(|s| s.groups[0].upstream = None), "snapshot.groups[0].upstream: is missing");
    assert!(wrong(|s| s.groups[1].group_id = s.groups[0].group_id).starts_with("snapshot.groups[1].group_id: "));
    assert!(
        wrong(|s| s.base.as_mut().unwrap().ports[0].peer = None).starts_with("snapshot.base.ports[0].peer: is missing")
    );
    assert!(
        wrong(|s| s.base.as_mut().unwrap().routes[0].prefix.as_mut().unwrap().length = 129)
            .contains("routes[0].prefix.length: 129")
    );
    assert!(
        wrong(|s| s.base.as_mut().unwrap().routes[0].prefix.as_mut().unwrap().length = 3)
            .contains("bits set behind its /3")
    );
    let mut response = snapshot_response(&full_spec());
    response.update = None;
    assert_eq!(apply_update(None, response).unwrap_err().to_string(), "update: is missing");
}
