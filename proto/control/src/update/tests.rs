// SPDX-License-Identifier: Apache-2.0

use bytes::Bytes;
use proptest::prelude::*;

use super::*;
use crate::items::Position;
use crate::testing::{full_spec, node_spec};

fn held(spec: &NodeSpec) -> HeldSpec {
    HeldSpec::encode(spec.clone())
}

fn next(spec: &NodeSpec) -> NodeSpec {
    NodeSpec { generation: spec.generation + 1, ..spec.clone() }
}

/// The message that takes a node from `from` to `to`.
fn delta(from: &NodeSpec, to: &NodeSpec) -> pb::WatchResponse {
    delta_response((to.term, to.generation), &Items::encode(from), &Items::encode(to))
}

/// Applies all of `responses`; what the last one leads to.
fn apply(from: Option<&HeldSpec>, responses: Vec<pb::WatchResponse>) -> Result<HeldSpec, UpdateError> {
    let mut staged = None;
    for response in responses {
        // As on a connection: octets.
        let response = pb::WatchResponse::decode(response.encode_to_vec().as_slice()).unwrap();
        if let Accepted::Spec(spec) = apply_update(from, &mut staged, response)? {
            assert!(staged.is_none());
            return Ok(*spec);
        }
    }
    panic!("the last page is missing")
}

/// The spec alone.
fn spec_after(from: Option<&NodeSpec>, response: pb::WatchResponse) -> Result<NodeSpec, UpdateError> {
    apply(from.map(held).as_ref(), vec![response]).map(|held| held.spec)
}

fn snapshot(spec: &NodeSpec) -> pb::WatchResponse {
    snapshot_responses(&held(spec)).remove(0)
}

proptest! {
    #[test]
    fn snapshots_survive_the_wire(spec in node_spec()) {
        prop_assert_eq!(spec_after(None, snapshot(&spec)).unwrap(), spec);
    }

    #[test]
    fn a_delta_leads_exactly_to_its_end(from in node_spec(), mut to in node_spec()) {
        to.generation = from.generation + 1;
        to.term = from.term;
        let after = apply(Some(&held(&from)), vec![delta(&from, &to)]).unwrap();
        prop_assert_eq!(after, held(&to));
    }

    #[test]
    fn a_cut_off_item_is_an_error_or_a_valid_thing(spec in node_spec()) {
        let whole = Items::encode(&spec);
        for end in 0..whole.base().len() {
            if let Err(e) = parse_base(&whole.base()[..end]) {
                prop_assert!(!e.field.is_empty() && !e.detail.is_empty());
            }
        }
        for (id, octets) in whole.groups() {
            for end in 0..octets.len() {
                match parse_program(id, &octets[..end]) {
                    Ok(program) => prop_assert_eq!(program.group_id, id),
                    Err(e) => prop_assert!(!e.field.is_empty() && !e.detail.is_empty()),
                }
            }
        }
    }
}

#[test]
fn a_lower_term_and_an_older_generation_of_the_same_term_are_refused() {
    let at = |term, generation| NodeSpec { term, generation, ..full_spec() };
    let with = |term, generation| {
        let mut other = at(term, generation);
        other.groups.pop_first();
        snapshot(&other)
    };
    let current = at(5, 10);
    assert_eq!(spec_after(Some(&current), with(4, 11)), Err(UpdateError::LowerTerm { accepted: 5, got: 4 }));
    let older = Err(UpdateError::OlderGeneration { term: 5, current: 10, got: 9 });
    assert_eq!(spec_after(Some(&current), with(5, 9)), older);
    // Generations are those of a term: a controller that was restored counts from where it was restored to.
    assert_eq!(spec_after(Some(&current), with(6, 3)).unwrap().generation, 3);
    // An equal digest with a new term and generation changes nothing else.
    assert_eq!(spec_after(Some(&current), snapshot(&at(6, 3))), Ok(at(6, 3)));
}

#[test]
fn a_repeated_delta_changes_nothing_and_one_on_another_content_is_refused() {
    let from = full_spec();
    let mut to = next(&from);
    to.groups.pop_first();
    let response = delta(&from, &to);
    assert_eq!(spec_after(Some(&to), response.clone()).unwrap(), to);
    let mut other = from.clone();
    other.base_mut().routes = Default::default();
    let refused = spec_after(Some(&other), response.clone());
    assert!(matches!(refused, Err(UpdateError::OtherBase { current, .. }) if current == held(&other).digest()));
    assert!(matches!(spec_after(None, response), Err(UpdateError::OtherBase { .. })));
    // What the content is called does not matter: an equal content under any number takes the delta.
    let elsewhere = NodeSpec { term: 1, generation: 1, ..from.clone() };
    assert_eq!(spec_after(Some(&elsewhere), delta(&from, &to)).unwrap(), to);
}

#[test]
fn a_wrong_delta_is_found_by_its_digest() {
    let from = full_spec();
    let mut to = next(&from);
    to.groups.pop_first();
    let mut response = delta(&from, &to);
    let Some(Update::Delta(d)) = &mut response.update else { panic!() };
    d.removed_groups.clear();
    assert!(matches!(spec_after(Some(&from), response), Err(UpdateError::DigestMismatch { .. })));
}

#[test]
fn an_interrupted_snapshot_resumes_at_its_position() {
    let spec = full_spec();
    let all = held(&spec);
    let name = (spec.term, spec.generation, all.digest());
    let ids: Vec<GroupId> = all.items().groups().map(|(id, _)| id).collect();
    let mut page = all.items().pages(Position::default()).next().unwrap();
    (page.last, page.groups) = (false, page.groups[..1].to_vec());
    let mut staged = None;
    assert_eq!(apply_update(None, &mut staged, page_response(name, page)).unwrap(), Accepted::Page);
    let at = staged.as_ref().unwrap().position();
    assert_eq!((at.after_group, at.base_octets as usize), (ids[0].get(), all.items().base().len()));
    assert_eq!(at.digest, Vec::from(all.digest()));
    let rest = all.items().pages(Position { base_octets: at.base_octets as usize, after_group: Some(ids[0]) });
    for page in rest {
        assert!(!page.first && page.base.is_empty());
        let accepted = apply_update(None, &mut staged, page_response(name, page)).unwrap();
        assert_eq!(accepted, Accepted::Spec(Box::new(all.clone())));
    }
    // Without its beginning a page is of no use.
    let page = pb::SnapshotPage { last: true, ..pb::SnapshotPage::default() };
    let refused = apply_update(None, &mut staged, page_response(name, page));
    assert_eq!(refused, Err(UpdateError::OtherSnapshot(all.digest())));
}

/// `octets` and a field that this schema does not know: number 1000, a string.
fn with_unknown_field(octets: &[u8]) -> Bytes {
    let mut more = octets.to_vec();
    prost::encoding::string::encode(1000, &"of a later version".to_owned(), &mut more);
    more.into()
}

#[test]
fn a_field_that_only_the_controller_knows_is_kept_and_changes_nothing_else() {
    let spec = full_spec();
    let mut newer = Items::encode(&spec);
    newer.set_base(with_unknown_field(&newer.base().clone()));
    let ids: Vec<GroupId> = spec.groups.keys().copied().collect();
    for (id, octets) in Items::encode(&spec).groups() {
        newer.upsert(id, with_unknown_field(octets));
    }
    let name = (spec.term, spec.generation, newer.digest());
    let pages: Vec<_> = newer.pages(Position::default()).map(|page| page_response(name, page)).collect();
    let after = apply(None, pages).unwrap();
    assert_eq!((after.spec(), after.items(), after.digest()), (&spec, &newer, newer.digest()));
    assert_ne!(after.digest(), held(&spec).digest(), "the field is a part of the content");
    // A delta on it, and the field set to nothing again.
    let mut later = newer.clone();
    later.upsert(ids[0], Items::encode(&spec).groups().next().unwrap().1.clone());
    let response = delta_response((spec.term, spec.generation + 1), &newer, &later);
    let Some(Update::Delta(d)) = &response.update else { panic!() };
    assert_eq!((d.upserted_groups.len(), d.base.is_none()), (1, true));
    assert_eq!(apply(Some(&after), vec![response]).unwrap().items(), &later);
}

#[test]
fn a_field_that_only_the_agent_knows_has_its_default() {
    // An earlier controller does not know the fields that came last: a program without them is one of today.
    let mut spec = full_spec();
    let id = *spec.groups.keys().next().unwrap();
    let mut wire = pb::GroupProgram::from(spec.groups.get(&id).unwrap());
    (wire.source_accepts_roce, wire.multicast, wire.alternate_upstream) = (false, None, 0);
    wire.headend_address.clear();
    wire.branch_metrics = false;
    let mut items = Items::encode(&spec);
    items.upsert(id, wire.encode_to_vec().into());
    let name = (spec.term, spec.generation, items.digest());
    let pages: Vec<_> = items.pages(Position::default()).map(|page| page_response(name, page)).collect();
    let program = spec.groups.get_mut(&id).unwrap();
    (program.source.accepts_roce, program.multicast, program.alternate_upstream) = (false, None, None);
    program.headend_address = None;
    program.branch_metrics = false;
    let after = apply(None, pages).unwrap();
    assert_eq!((after.spec(), after.items()), (&spec, &items));
}

#[test]
fn faults_are_named_with_their_whole_path() {
    let wrong_base = |change: fn(&mut pb::NodeBase)| {
        let mut wire = pb::NodeBase::from(&*full_spec().base);
        change(&mut wire);
        let mut items = Items::encode(&full_spec());
        items.set_base(wire.encode_to_vec().into());
        HeldSpec::parse(1, 1, items).unwrap_err().to_string()
    };
    let wrong_group = |change: fn(&mut pb::GroupProgram)| {
        let spec = full_spec();
        let (id, program) = spec.groups.iter().nth(1).unwrap();
        let mut wire = pb::GroupProgram::from(program);
        change(&mut wire);
        let mut items = Items::encode(&spec);
        items.upsert(*id, wire.encode_to_vec().into());
        HeldSpec::parse(1, 1, items).unwrap_err().to_string()
    };
    let id = *full_spec().groups.keys().nth(1).unwrap();
    assert_eq!(
        wrong_group(|g| g.branches[1].address.truncate(5)),
        format!("groups[{id}].branches[1].address: 5 bytes, an IPv6 address has 16")
    );
    assert_eq!(wrong_group(|g| g.upstream = None), format!("groups[{id}].upstream: is missing"));
    let other = wrong_group(|g| g.group_id += 1);
    assert_eq!(other, format!("groups[{id}].group_id: is {} in the program of group {id}", id.get() + 1));
    assert!(wrong_base(|b| b.ports[0].peer = None).starts_with("base.ports[0].peer: is missing"));
    assert!(wrong_base(|b| b.routes[0].prefix.as_mut().unwrap().length = 129).contains("routes[0].prefix.length: 129"));
    assert!(wrong_base(|b| b.routes[0].prefix.as_mut().unwrap().length = 3).contains("bits set behind its /3"));
    assert_eq!(HeldSpec::parse(1, 1, Items::default()).unwrap_err().to_string(), "base: is missing");
    let mut response = snapshot(&full_spec());
    response.update = None;
    assert_eq!(spec_after(None, response).unwrap_err().to_string(), "update: is missing");
    let mut response = snapshot(&full_spec());
    response.digest.pop();
    assert_eq!(spec_after(None, response).unwrap_err().to_string(), "digest: 31 bytes, a digest has 32");
}

/// The order to capture travels with an empty delta: an agent that does not know the field has only a confirmation, and one that does reads
/// the order beside it.
#[test]
fn an_order_to_capture_changes_nothing_of_the_spec() {
    let spec = full_spec();
    let capture = pb::Capture { id: 7, group_id: 1, psn: 9, within_ns: 1 };
    let with_order = pb::WatchResponse { capture: Some(capture), ..delta(&spec, &spec) };
    assert_eq!(pb::WatchResponse::decode(with_order.encode_to_vec().as_slice()).unwrap().capture, Some(capture));
    assert_eq!(spec_after(Some(&spec), with_order).unwrap(), spec);
}

/// So does a filter of log lines.
#[test]
fn a_log_level_changes_nothing_of_the_spec() {
    let spec = full_spec();
    let level = pb::LogLevel { filter: "debug".into(), within_ns: 1 };
    let with_level = pb::WatchResponse { log_level: Some(level.clone()), ..delta(&spec, &spec) };
    let decoded = pb::WatchResponse::decode(with_level.encode_to_vec().as_slice()).unwrap();
    assert_eq!(decoded.log_level, Some(level));
    // What an agent of before makes of it: the field is left out, the rest is the same.
    let before = pb::WatchResponse { log_level: None, ..decoded };
    assert_eq!(before, delta(&spec, &spec));
    assert_eq!(spec_after(Some(&spec), before).unwrap(), spec);
    assert_eq!(spec_after(Some(&spec), with_level).unwrap(), spec);
}
