// SPDX-License-Identifier: Apache-2.0
//! A node's desired state as a controller sends it. Each item is encoded when it is sent and not kept: what an agent holds follows from the
//! spec that was sent last, and of the content the digest is enough.
//!
//! So an item is encoded again when it leaves the digest, and equal items have to have equal encodings: no message has a map, whose
//! order would be another one each time, and what compares as equal travels as the same.

use std::sync::Arc;

use bytes::Bytes;
use canopy_model::digest::SpecDigest;
use canopy_model::ids::Generation;
use canopy_model::node_spec::{GroupProgram, NodeBase, NodeSpec};
use prost::Message;

use crate::digest::{of_base, of_group};
use crate::items::{MAX_PAGE_OCTETS, Position, item, pages};
use crate::pb;
use crate::update::{delta_of, page_response};

/// What was sent to a node last, and its digest.
#[derive(Clone, Debug)]
pub struct SentSpec {
    spec: Arc<NodeSpec>,
    /// Of the base alone: it has all routes of the node.
    of_base: SpecDigest,
    digest: SpecDigest,
}

impl SentSpec {
    /// Encodes and hashes every item, which takes long for a large spec.
    pub fn new(spec: Arc<NodeSpec>) -> Self {
        let of_base = of_base(&base(&spec.base));
        let mut digest = of_base;
        spec.groups.iter().for_each(|(id, of_one)| digest.toggle(of_group(*id, &program(of_one))));
        Self { spec, of_base, digest }
    }

    /// Term, generation and digest.
    pub fn name(&self) -> (u64, Generation, SpecDigest) {
        (self.spec.term, self.spec.generation, self.digest)
    }

    /// The empty delta, for a node that holds this content.
    pub fn confirmation(&self) -> pb::WatchResponse {
        delta_of(self.name(), pb::NodeDelta { from_digest: self.digest.into(), ..Default::default() })
    }

    /// The snapshot from `position` on, page by page.
    pub fn snapshot(&self, position: Position) -> impl Iterator<Item = pb::WatchResponse> + Send {
        let groups = self.spec.groups.after(position.after_group).map(|(id, of_one)| (*id, program(of_one)));
        pages(base(&self.spec.base), groups, position).map(|page| page_response(self.name(), page))
    }

    /// Goes to `next`, and returns the delta that takes a node there; `None` if that is longer than a page of a snapshot. Only items that
    /// differ are encoded; with a common origin it costs what differs.
    pub fn advance(&mut self, next: Arc<NodeSpec>) -> Option<pb::WatchResponse> {
        let mut delta = pb::NodeDelta { from_digest: self.digest.into(), ..Default::default() };
        let mut room = MAX_PAGE_OCTETS;
        if self.spec.base != next.base {
            let octets = base(&next.base);
            self.digest.toggle(self.of_base);
            self.of_base = of_base(&octets);
            self.digest.toggle(self.of_base);
            room = room.saturating_sub(octets.len());
            delta.base = Some(octets);
        }
        for (id, changed) in next.groups.changed_since(&self.spec.groups) {
            if let Some(before) = self.spec.groups.get(&id) {
                self.digest.toggle(of_group(id, &program(before)));
            }
            let Some(octets) = changed.map(program) else {
                delta.removed_groups.push(id.get());
                continue;
            };
            self.digest.toggle(of_group(id, &octets));
            room = room.saturating_sub(octets.len());
            match room {
                // It is too long for a delta.
                0 => delta.upserted_groups.clear(),
                _ => delta.upserted_groups.push(item(id, octets)),
            }
        }
        self.spec = next;
        let response = delta_of(self.name(), delta);
        (room > 0 && response.encoded_len() <= MAX_PAGE_OCTETS).then_some(response)
    }
}

fn base(base: &NodeBase) -> Bytes {
    pb::NodeBase::from(base).encode_to_vec().into()
}

fn program(program: &GroupProgram) -> Bytes {
    pb::GroupProgram::from(program).encode_to_vec().into()
}

#[cfg(test)]
mod tests {
    use canopy_model::ids::GroupId;
    use proptest::prelude::*;

    use super::*;
    use crate::testing::{full_spec, node_spec};
    use crate::{Accepted, HeldSpec, Items, Staged, apply_update};

    fn accept(held: Option<&HeldSpec>, responses: impl Iterator<Item = pb::WatchResponse>) -> HeldSpec {
        let mut staged: Option<Staged> = None;
        let accepted: Vec<Accepted> =
            responses.map(|response| apply_update(held, &mut staged, response).unwrap()).collect();
        let Some(Accepted::Spec(spec)) = accepted.into_iter().last() else { panic!("not complete") };
        *spec
    }

    proptest! {
        /// Catches a digest that depends on what was sent before, and a delta from something else than what was sent last.
        #[test]
        fn an_agent_holds_what_was_sent_last_whatever_came_before(specs in prop::collection::vec(node_spec(), 1..5)) {
            let mut specs = specs.into_iter().zip(1..).map(|(spec, generation)| Arc::new(NodeSpec { term: 1, generation, ..spec }));
            let mut sent = SentSpec::new(specs.next().unwrap());
            let mut held = accept(None, sent.snapshot(Position::default()));
            for spec in specs {
                let delta = sent.advance(spec.clone()).unwrap();
                held = accept(Some(&held), std::iter::once(delta));
                prop_assert_eq!(held.spec(), &*spec);
                prop_assert_eq!(sent.name().2, Items::encode(&spec).digest());
            }
            prop_assert_eq!(held.digest(), sent.name().2);
            prop_assert_eq!(accept(Some(&held), std::iter::once(sent.confirmation())), held);
        }
    }

    /// Catches an encoding that depends on how equal routes were made: what left the digest would be something else than what came in.
    #[test]
    fn equal_specs_have_equal_encodings() {
        let spec = full_spec();
        let mut same = spec.clone();
        let base = same.base_mut();
        base.routes = base.routes.iter().collect();
        assert!(!spec.base.routes.is_empty() && same == spec);
        let [a, b] = [spec, same].map(|spec| SentSpec::new(Arc::new(spec)).name());
        assert_eq!(a, b);
    }

    #[test]
    fn a_delta_holds_only_what_changed() {
        let from = full_spec();
        let mut to = NodeSpec { generation: from.generation + 1, ..from.clone() };
        let (first, last) = (*from.groups.keys().next().unwrap(), *from.groups.keys().last().unwrap());
        assert_ne!(first, last);
        to.groups.get_mut(&first).unwrap().epoch += 1;
        to.groups.remove(&last);
        let response = SentSpec::new(Arc::new(from.clone())).advance(Arc::new(to)).unwrap();
        let Some(pb::watch_response::Update::Delta(d)) = response.update else { panic!("{response:?}") };
        assert_eq!(d.base, None);
        assert_eq!(d.upserted_groups.iter().map(|p| p.group_id).collect::<Vec<_>>(), [first.get()]);
        assert_eq!(d.removed_groups, [last.get()]);
        assert_eq!(d.from_digest, Vec::from(Items::encode(&from).digest()));
    }

    /// Catches a long delta that is sent, and a digest that is then another one than that of the snapshot.
    #[test]
    fn what_is_longer_than_a_page_is_sent_as_a_snapshot() {
        let few = full_spec();
        let mut many = NodeSpec { generation: few.generation + 1, ..few.clone() };
        let program = many.groups.values().next().unwrap().clone();
        for id in 1..=12_000 {
            let id = GroupId::new("id", 1_000 + id).unwrap();
            many.groups.insert(id, GroupProgram { group_id: id, ..program.clone() });
        }
        let mut sent = SentSpec::new(Arc::new(few));
        assert_eq!(sent.advance(Arc::new(many.clone())), None);
        let pages: Vec<_> = sent.snapshot(Position::default()).collect();
        assert!(pages.len() > 1 && pages.iter().all(|page| page.encoded_len() < MAX_PAGE_OCTETS * 21 / 20));
        assert_eq!(accept(None, pages.into_iter()).spec(), &many);
        // An agent that has the first page gets the rest.
        let resumed = Position { base_octets: usize::MAX, after_group: GroupId::new("id", 12_999).ok() };
        let rest: Vec<_> = sent.snapshot(resumed).collect();
        let Some(pb::watch_response::Update::Page(page)) = &rest[0].update else { panic!("{rest:?}") };
        assert!((rest.len(), page.first, page.last, page.base.len()) == (1, false, true, 0), "{page:?}");
        assert_eq!(page.groups.iter().map(|g| g.group_id).collect::<Vec<_>>(), [13_000]);
    }
}
