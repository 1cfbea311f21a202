// SPDX-License-Identifier: Apache-2.0
//! A node's desired state as a controller sends it. Each program is made and encoded when it is sent, and none is kept: of what an agent
//! holds, the digest of each item is enough to know what differs.
//!
//! So a digest and the page that it stands for are of two encodings, and equal items have to have equal ones: no message has a map, whose
//! order would be another one each time.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use canopy_model::digest::SpecDigest;
use canopy_model::ids::{Generation, GroupId};
use canopy_model::node_spec::{GroupProgram, NodeBase};
use prost::Message;

use crate::digest::{of_base, of_group};
use crate::items::{MAX_PAGE_OCTETS, Position, item, pages};
use crate::pb;
use crate::update::{delta_of, page_response};

/// A [`NodeSpec`](canopy_model::node_spec::NodeSpec) without its programs.
#[derive(Clone, Debug)]
pub struct SpecHead {
    /// Of the controller.
    pub term: u64,
    /// Grows with every change.
    pub generation: Generation,
    /// What does not depend on groups.
    pub base: Arc<NodeBase>,
}

/// What was sent to a node last: its head, and the digest of each item.
#[derive(Clone, Debug)]
pub struct SentSpec {
    head: SpecHead,
    of_base: SpecDigest,
    of_groups: HashMap<GroupId, SpecDigest>,
    /// Of all.
    digest: SpecDigest,
}

impl SentSpec {
    /// Encodes and hashes every item, which takes long for a large spec. `programs`: all, each with its group.
    pub fn new(head: SpecHead, programs: impl Iterator<Item = (GroupId, GroupProgram)>) -> Self {
        let of_base = of_base(&base(&head.base));
        let of_groups: HashMap<GroupId, SpecDigest> =
            programs.map(|(id, of_one)| (id, of_group(id, &program(&of_one)))).collect();
        let mut digest = of_base;
        of_groups.values().for_each(|of_one| digest.toggle(*of_one));
        Self { head, of_base, of_groups, digest }
    }

    /// Term, generation and digest.
    pub fn name(&self) -> (u64, Generation, SpecDigest) {
        (self.head.term, self.head.generation, self.digest)
    }

    /// The empty delta, for a node that holds this content.
    pub fn confirmation(&self) -> pb::WatchResponse {
        delta_of(self.name(), pb::NodeDelta { from_digest: self.digest.into(), ..Default::default() })
    }

    /// The snapshot from `position` on, page by page. `programs`: those of the groups behind that position, in the order of their groups'
    /// identifiers; each is asked for when its page is made.
    pub fn snapshot<I: Iterator<Item = (GroupId, GroupProgram)> + Send>(
        &self,
        position: Position,
        programs: I,
    ) -> impl Iterator<Item = pb::WatchResponse> + Send + use<I> {
        let groups = programs.map(|(id, of_one)| (id, program(&of_one)));
        let name = self.name();
        pages(base(&self.head.base), groups, position).map(move |page| page_response(name, page))
    }

    /// Goes to `next`, and returns the delta that takes a node there. `None` if that is longer than a page of a snapshot: this is of no use
    /// then, and no more programs are made. `changes`: the programs that differ, or may, and `None` for a group that has none any more.
    pub fn advance(
        &mut self,
        next: SpecHead,
        changes: impl Iterator<Item = (GroupId, Option<GroupProgram>)>,
    ) -> Option<pb::WatchResponse> {
        let mut delta = pb::NodeDelta { from_digest: self.digest.into(), ..Default::default() };
        let mut room = MAX_PAGE_OCTETS;
        if self.head.base != next.base {
            let octets = base(&next.base);
            self.digest.toggle(self.of_base);
            self.of_base = of_base(&octets);
            self.digest.toggle(self.of_base);
            room = room.saturating_sub(octets.len());
            delta.base = Some(octets);
        }
        for (id, changed) in changes {
            let Some(octets) = changed.map(|changed| program(&changed)) else {
                if let Some(before) = self.of_groups.remove(&id) {
                    self.digest.toggle(before);
                    delta.removed_groups.push(id.get());
                }
                continue;
            };
            let of_one = of_group(id, &octets);
            match self.of_groups.insert(id, of_one) {
                Some(before) if before == of_one => continue,
                before => before.into_iter().for_each(|before| self.digest.toggle(before)),
            }
            self.digest.toggle(of_one);
            room = room.saturating_sub(octets.len());
            if room == 0 {
                return None;
            }
            delta.upserted_groups.push(item(id, octets));
        }
        self.head = next;
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
    use canopy_model::node_spec::NodeSpec;
    use proptest::prelude::*;

    use super::*;
    use crate::testing::{full_spec, node_spec};
    use crate::{Accepted, HeldSpec, Items, Staged, apply_update};

    fn head(spec: &NodeSpec) -> SpecHead {
        SpecHead { term: spec.term, generation: spec.generation, base: Arc::clone(&spec.base) }
    }

    fn programs(spec: &NodeSpec, after: Option<GroupId>) -> impl Iterator<Item = (GroupId, GroupProgram)> + Send {
        spec.groups.after(after).map(|(id, program)| (*id, program.clone()))
    }

    fn sent(spec: &NodeSpec) -> SentSpec {
        SentSpec::new(head(spec), programs(spec, None))
    }

    fn advance(sent: &mut SentSpec, from: &NodeSpec, to: &NodeSpec) -> Option<pb::WatchResponse> {
        sent.advance(head(to), to.groups.changed_since(&from.groups).map(|(id, program)| (id, program.cloned())))
    }

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
            let mut specs = specs.into_iter().zip(1..).map(|(spec, generation)| NodeSpec { term: 1, generation, ..spec });
            let mut newest = specs.next().unwrap();
            let mut sent = sent(&newest);
            let mut held = accept(None, sent.snapshot(Position::default(), programs(&newest, None)));
            for spec in specs {
                let delta = advance(&mut sent, &newest, &spec).unwrap();
                held = accept(Some(&held), std::iter::once(delta));
                prop_assert_eq!(held.spec(), &spec);
                prop_assert_eq!(sent.name().2, Items::encode(&spec).digest());
                newest = spec;
            }
            prop_assert_eq!(held.digest(), sent.name().2);
            prop_assert_eq!(accept(Some(&held), std::iter::once(sent.confirmation())), held);
        }
    }

    /// Catches an encoding that depends on how equal routes were made: an agent that holds them would get them again.
    #[test]
    fn equal_specs_have_equal_encodings() {
        let spec = full_spec();
        let mut same = spec.clone();
        let base = same.base_mut();
        base.routes = base.routes.iter().collect();
        assert!(!spec.base.routes.is_empty() && same == spec);
        let [a, b] = [spec, same].map(|spec| sent(&spec).name());
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
        let response = advance(&mut sent(&from), &from, &to).unwrap();
        let Some(pb::watch_response::Update::Delta(d)) = response.update else { panic!("{response:?}") };
        assert_eq!(d.base, None);
        assert_eq!(d.upserted_groups.iter().map(|p| p.group_id).collect::<Vec<_>>(), [first.get()]);
        assert_eq!(d.removed_groups, [last.get()]);
        assert_eq!(d.from_digest, Vec::from(Items::encode(&from).digest()));
    }

    /// Catches a long delta that is sent.
    #[test]
    fn what_is_longer_than_a_page_is_sent_as_a_snapshot() {
        let few = full_spec();
        let mut many = NodeSpec { generation: few.generation + 1, ..few.clone() };
        let program = many.groups.values().next().unwrap().clone();
        for id in 1..=12_000 {
            let id = GroupId::new("id", 1_000 + id).unwrap();
            many.groups.insert(id, GroupProgram { group_id: id, ..program.clone() });
        }
        let mut few_sent = sent(&few);
        assert_eq!(advance(&mut few_sent, &few, &many), None);
        let sent = sent(&many);
        let pages: Vec<_> = sent.snapshot(Position::default(), programs(&many, None)).collect();
        assert!(pages.len() > 1 && pages.iter().all(|page| page.encoded_len() < MAX_PAGE_OCTETS * 21 / 20));
        assert_eq!(accept(None, pages.into_iter()).spec(), &many);
        // An agent that has the first page gets the rest.
        let resumed = Position { base_octets: usize::MAX, after_group: GroupId::new("id", 12_999).ok() };
        let rest: Vec<_> = sent.snapshot(resumed, programs(&many, resumed.after_group)).collect();
        let Some(pb::watch_response::Update::Page(page)) = &rest[0].update else { panic!("{rest:?}") };
        assert!((rest.len(), page.first, page.last, page.base.len()) == (1, false, true, 0), "{page:?}");
        assert_eq!(page.groups.iter().map(|g| g.group_id).collect::<Vec<_>>(), [13_000]);
    }

    /// Catches a program that is sent although the node holds it, and a removal of what it does not hold.
    #[test]
    fn what_does_not_differ_is_not_sent() {
        let spec = full_spec();
        let (id, program) = spec.groups.iter().next().unwrap();
        let unknown = GroupId::new("id", 9_999).unwrap();
        let mut sent = sent(&spec);
        let (_, _, digest) = sent.name();
        let changes = [(*id, Some(program.clone())), (unknown, None)];
        let response = sent.advance(head(&spec), changes.into_iter()).unwrap();
        let Some(pb::watch_response::Update::Delta(d)) = response.update else { panic!("{response:?}") };
        assert_eq!((d.base, d.upserted_groups, d.removed_groups), (None, vec![], vec![]));
        assert_eq!((d.from_digest, sent.name().2), (Vec::from(digest), digest));
    }
}
